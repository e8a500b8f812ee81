/* plan/chain.h -- which way to keep each segment of a chain so that a step fits a budget and computes least again.
 *
 *   forward    segment 0 ─x─▶ segment 1 ─x─▶ … ─x─▶ segment n-1        M(i) = bytes held from segments 0 … i-1 when i begins
 *   backward   segment 0 ◀── segment 1 ◀── …  ◀── segment n-1          the same bytes are held when i's backward begins, and i's own
 *
 * A segment is a stretch of the step (a block, the embedding, the head with the loss). Its class lists the ways to keep it, its
 * options; segments of one class have the same options. In an option `saved` includes the segment's output where it is kept, never its
 * input. What an option takes is relative to M(i) and to what is there whatever is planned (weights, states, gradients so far, the
 * batch): that is `fixed`. The kinds of pass differ in what is fixed: in a step's first micro-batch gradients come to be, in later
 * ones they are all there.
 *
 *   forward of i    fixed_forward[k][i]  + M(i) + forward       <= budget      for every kind k of pass
 *   backward of i   fixed_backward[k][i] + M(i) + backward[k]   <= budget      (its own saved bytes are counted in `backward`)
 *   M(i + 1) = M(i) + saved
 *
 * Nested: segments [first, end) may form a region. Its forward keeps nothing but its output, `output` of its last segment; its input is
 * held by whoever comes before it, so options in front of a region must save their segment's output. Before the region's backward its
 * forward runs again, and now its segments meet their options, or lie in regions inside:
 *
 *   forward of i in a region, the first time    fixed + M(first) + output of i-1 (i > first) + forward_bare <= budget
 *   forward of i, run again for a region        fixed_backward[k][end-1] + M(i) + forward                   <= budget
 *   backward of i                               fixed_backward[k][i]     + M(i) + backward[k]               <= budget
 *
 * where M(i) counts from the region's M(first) on, and `fixed` is fixed_forward[k][i], or fixed_backward[k][end-1] of the region around
 * it. What arrives at a backward from behind (a gradient) is part of fixed_backward. Seconds: forward_seconds of each segment once for
 * each region that it lies in, and those of its option. Regions that end where the region around them does, or the chain, gain nothing
 * (unless fixed_forward exceeds fixed_backward[k][n-1]) and are not considered.
 *
 * Bytes are integers, exact; seconds are doubles. All constraints are monotone in M, so of two ways to the same place that is dropped
 * which has no fewer bytes and no fewer seconds. The recurrences and bounds are in chain_inside.h and the files it names.
 */
#ifndef RP_CHAIN_H
#define RP_CHAIN_H

#include "base/base.h"

enum { RP_CHAIN_KINDS = 2 };

typedef struct {                    /* one way to keep a segment */
    int64_t saved, forward, backward[RP_CHAIN_KINDS];
    double seconds;                 /* of what runs again */
} rp_chain_option;

typedef struct {
    const rp_chain_option *option;  /* no two alike, none that another one is better than in everything */
    int n_options;
    int64_t output;                 /* bytes of what the next segment reads */
    int64_t forward_bare;           /* as an option's forward, where nothing of it is kept but its output */
    double forward_seconds;         /* of its forward run again as a whole */
} rp_chain_class;

typedef struct {
    const rp_chain_class *class_of; /* classes */
    int n_classes, n, n_kinds;      /* n: one segment at least */
    const int *segment;             /* class of each of n segments */
    const int64_t *fixed_forward[RP_CHAIN_KINDS], *fixed_backward[RP_CHAIN_KINDS];      /* of each segment */
    bool regions;                   /* regions are allowed */
} rp_chain;

typedef struct { int first, end, parent; } rp_chain_region;       /* parents before children; -1: outermost */

typedef struct {
    bool feasible;
    bool exact;                     /* no plan of one level is faster; false: the work limit was met */
    int *option;                    /* of each segment, in the class's list */
    rp_chain_region *region;
    int n_regions;
    double seconds, bound;          /* of what runs again; no plan (without regions where there may be none) takes less than `bound` */
    int64_t bytes;                  /* the greatest left side of the constraints: what the plan takes */
} rp_chain_plan;

/* The plan that takes fewest seconds in the budget, of these the one that takes fewest bytes, of these the first by its options. Of
 * plans with regions it is the best that thinned tables know (nested.c). Not feasible: nothing fits, lists are NULL.
 *
 * Work is counted, not timed: the same input gives the same plan. A greater budget never gives a slower one as long as plans are exact.
 * Free with rp__chain_plan_free. errors RP_ERR_MEMORY */
rp_status rp__chain_solve(rp_ctx *ctx, const rp_chain *chain, int64_t budget, rp_chain_plan *out);
void rp__chain_plan_free(rp_chain_plan *plan);

/* The least budget that has a plan. errors RP_ERR_MEMORY */
rp_status rp__chain_least(rp_ctx *ctx, const rp_chain *chain, int64_t *bytes);

/* The plan's bound, which rests on no plan and no search: Lagrangian (chain_bound.c). INFINITY: nothing fits. errors RP_ERR_MEMORY */
rp_status rp__chain_lagrange_bound(rp_ctx *ctx, const rp_chain *chain, int64_t budget, double *seconds);

/* What a plan takes, by walking through the step. */
int64_t rp__chain_bytes(const rp_chain *chain, const int *option, const rp_chain_region *region, int n_regions);

#endif
