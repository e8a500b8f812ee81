/* policy/modes.h -- the modes of a recipe, as the conditions and rules they are short for.
 *
 *   full              every block is a region
 *   selective_layer   every k-th block is
 *   selective_op      every block is; in it what the ops of the save list make is kept
 *   conditions, none  nothing of their own
 *   auto              without a budget nothing
 *
 * The recipe's own conditions and rules go before those of the mode. */
#ifndef RP_MODES_H
#define RP_MODES_H

#include "policy/policy.h"

/* RP_MODE_CONDITIONS is no word: `conditions` without a mode, just those regions. */
enum { RP_MODE_NONE, RP_MODE_FULL, RP_MODE_SELECTIVE_LAYER, RP_MODE_SELECTIVE_OP, RP_MODE_AUTO, RP_MODE_CONDITIONS };

typedef struct {
    int mode;
    const char *layers;                 /* path or glob of the list of blocks */
    int64_t every, offset;              /* selective_layer: block i when (i + 1 - offset) is a multiple of `every` */
    int n_save;                         /* selective_op */
    const char *const *save;
    rp_place save_place;                /* where the list is written, or else the mode */
    int n_conditions;
    rp_condition *const *condition;
    int n_rules;
    const rp_rule *rule;
} rp_mode_input;

typedef struct {
    rp_bump bump;
    int n_conditions;
    rp_condition **condition;           /* a module is a region when one of them holds, each its own outermost ones */
    rp_policy *policy;                  /* NULL: no rules */
} rp_selection;

/* The list of selective_op where a recipe gives none, as a recipe would write it; and whether it names an op. */
#define RP_MODE_SAVE "[matmul, attention, reduce_scatter]"
bool rp__mode_saves(const char *op);

/* Borrows all that the input points at. errors RP_ERR_MEMORY; close it in every case. */
rp_status rp__selection_open(rp_ctx *ctx, const rp_mode_input *in, rp_selection *out);
/* The policy must be in use nowhere. */
void rp__selection_close(rp_selection *selection);

#endif
