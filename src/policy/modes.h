/* policy/modes.h -- turns the mode of a recipe into conditions and rules.
 *
 *   full              every block is a region
 *   selective_layer   every k-th block is a region
 *   selective_op      every block is a region; inside, the outputs of ops in the save list are kept
 *   conditions, none  add nothing
 *   auto              adds nothing; with a budget, the planner decides
 *
 * The recipe's own conditions and rules come before those of the mode.
 */
#ifndef RP_MODES_H
#define RP_MODES_H

#include "policy/policy.h"

/* RP_MODE_CONDITIONS is not a word in recipes: `conditions` without a mode, only those regions. */
enum { RP_MODE_NONE, RP_MODE_FULL, RP_MODE_SELECTIVE_LAYER, RP_MODE_SELECTIVE_OP, RP_MODE_AUTO, RP_MODE_CONDITIONS };

typedef struct {
    int mode;
    const char *layers;                 /* path or glob of the list of blocks */
    int64_t every, offset;              /* for selective_layer: block i if (i + 1 - offset) is a multiple of `every` */
    int n_save;                         /* for selective_op */
    const char *const *save;
    rp_place save_place;                /* where the list is written; if it is not written, the place of the mode */
    int n_conditions;
    rp_condition *const *condition;
    int n_rules;
    const rp_rule *rule;
} rp_mode_input;

typedef struct {
    rp_bump bump;
    int n_conditions;
    rp_condition **condition;           /* a module is a region if one of them holds; each condition selects its outermost modules */
    rp_policy *policy;                  /* NULL: no rules */
} rp_selection;

/* The default list of selective_op, as written in a recipe. rp__mode_saves: does it contain the op? */
#define RP_MODE_SAVE "[matmul, attention, reduce_scatter]"
bool rp__mode_saves(const char *op);

/* Build the conditions and the policy of a recipe. The result borrows everything `in` points at. Errors: RP_ERR_MEMORY. Close the result in
 * every case. */
rp_status rp__selection_open(rp_ctx *ctx, const rp_mode_input *in, rp_selection *out);
/* The policy must no longer be in use. */
void rp__selection_close(rp_selection *selection);

#endif
