/* tape/decide.h -- who decides the fates of a call's outputs and by-products, before it runs.
 *
 *   call ──▶ decider (policies) ──▶ planner (a plan), where no policy has a must ──▶ fates/ for the rest
 */
#ifndef RP_TAPE_DECIDE_H
#define RP_TAPE_DECIDE_H

#include "reprise/op.h"

/* Where a call comes from: a module embeds one. The counter gives each random call under a path its own stream in a pass. */
typedef struct rp_scope {
    const char *path;
    int pass, n_random;
    const rp_module *module;        /* NULL outside modules */
} rp_scope;

/* What was decided about a value before it is made. */
typedef struct {
    unsigned char fate;             /* RP_KEEP, RP_RECOMPUTE, RP_OFFLOAD; RP_NO_FATE: the region's choice */
    bool must;                      /* no preference: an error where it cannot be done */
    bool alone;                     /* recomputed for itself when it is read, in whichever region it is made */
    bool allow_mutation;
    const char *by;                 /* who: "recipe.yaml:12", a policy's name; NULL: nobody. Lives as long as the record */
} rp_verdict;

/* Who decides. Asked for each call that is about to be recorded as call `at`, before it runs; a smaller `at` than the last one means that the
 * calls from there on are forgotten. verdict[] has an entry for each output, then each by-product, preset to RP_NO_FATE. */
typedef struct {
    rp_status (*decide)(void *self, int at, const rp_op_meta *meta, const rp_scope *scope, rp_verdict *verdict);
    void *self;
} rp_decider;

/* Who decides about what is left open: a plan. `fate` is asked after the decider, about the outputs and by-products of a call for which it
 * has no must. Regions are the plan's then, those of others open nothing: stretches of calls, a parent before its children, none that
 * begins earlier than the one before it; they end with the forward at the latest. Paths live as long as the plan. `recorded` is called when
 * a backward is about to begin, `done` when it has ended; both may be NULL. */
typedef struct { int first, end; const char *path; } rp_stretch;
typedef struct {
    rp_status (*fate)(void *self, int at, const rp_op_meta *meta, const rp_scope *scope, rp_verdict *verdict);
    rp_status (*recorded)(void *self);
    void (*done)(void *self);
    const rp_stretch *region;
    int n_regions;
    void *self;
} rp_planner;

/* Copied; NULL: nobody decides. */
void rp__tape_decide_by(rp_ctx *ctx, const rp_decider *decider);

/* Copied; NULL: nobody plans. The tape is open, and nothing is recorded. */
void rp__tape_plan_by(rp_ctx *ctx, const rp_planner *planner);
bool rp__tape_is_planned(const rp_ctx *ctx);

#endif
