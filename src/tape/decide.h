/* tape/decide.h -- decides the fates of a call's outputs and by-products before the call runs.
 *
 *   call ──▶ decider (policies) ──▶ planner (a plan), if no policy has a must-rule ──▶ fates/ if still undecided
 */
#ifndef RP_TAPE_DECIDE_H
#define RP_TAPE_DECIDE_H

#include "reprise/op.h"

/* The origin of a call; each module embeds one. The counter gives each random call under a path its own stream within a pass. */
typedef struct rp_scope {
    const char *path;
    int pass, n_random;
    const rp_module *module;        /* NULL outside modules */
} rp_scope;

/* The decision about a value, taken before the value is made. */
typedef struct {
    unsigned char fate;             /* RP_KEEP, RP_RECOMPUTE, RP_OFFLOAD; RP_NO_FATE: the region decides */
    bool must;                      /* a must-rule: an error if it cannot be done. False: a preference */
    bool alone;                     /* recomputed separately for each read, in whichever region it is made */
    bool allow_mutation;
    const char *by;                 /* the source: "recipe.yaml:12", a policy's name; NULL: none. Must live as long as the record */
} rp_verdict;

/* A decider. `decide` is called for each call that is about to be recorded as call `at`, before it runs. If `at` is smaller than last time,
 * the calls from there on have been forgotten. verdict[] has an entry for each output, then each by-product, preset to RP_NO_FATE. Errors
 * of `decide` are returned to the caller of the op. */
typedef struct {
    rp_status (*decide)(void *self, int at, const rp_op_meta *meta, const rp_scope *scope, rp_verdict *verdict);
    void *self;
} rp_decider;

/* A planner decides the fates that the decider leaves open. `fate` is called after the decider, for the outputs and by-products of a call
 * without a must-rule. While a planner is set, only its regions are opened; regions of callers open nothing. Its regions are stretches of
 * calls, sorted by `first`, a parent before its children. They end at the end of the forward at the latest. Paths must live as long as the
 * plan. `recorded` is called when a backward is about to begin, `done` when it has ended; both may be NULL. */
typedef struct { int first, end; const char *path; } rp_stretch;
typedef struct {
    rp_status (*fate)(void *self, int at, const rp_op_meta *meta, const rp_scope *scope, rp_verdict *verdict);
    rp_status (*recorded)(void *self);
    void (*done)(void *self);
    const rp_stretch *region;
    int n_regions;
    void *self;
} rp_planner;

/* Set the planner, which is copied. NULL: none. No call may be recorded. */
void rp__tape_plan_by(rp_ctx *ctx, const rp_planner *planner);
bool rp__tape_is_planned(const rp_ctx *ctx);

#endif
