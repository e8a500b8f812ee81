/* solve/chain.h -- choose how to keep each segment of a chain, so that a step fits a budget and recomputes least.
 *
 *   forward    segment 0 ─x─▶ segment 1 ─x─▶ … ─x─▶ segment n-1        M(i) = bytes held from segments 0 … i-1 when i begins
 *   backward   segment 0 ◀── segment 1 ◀── …  ◀── segment n-1          when i's backward begins, these bytes and i's own are held
 *
 * A segment is a stretch of the step: a block, the embedding, or the head with the loss. Its class lists its options, the ways to keep it.
 * Segments of one class have the same options. `saved` of an option includes the segment's output if it is kept, never its input.
 *
 * Bytes of an option are relative to M(i) and to the fixed bytes, which every plan has: weights, states, gradients so far and the batch.
 * The kinds of pass differ in their fixed bytes: a step's first micro-batch creates the gradients, and later ones find all of them.
 *
 *   forward of i    fixed_forward[k][i]  + M(i) + forward       <= budget      for every kind k of pass
 *   backward of i   fixed_backward[k][i] + M(i) + backward[k]   <= budget      (`backward` counts the segment's own saved bytes)
 *   M(i + 1) = M(i) + saved
 *
 * Regions: segments [first, end) may form a region. Its forward keeps only its output, which is `output` of its last segment. Its input is
 * held outside the region, so an option right before a region must save its segment's output. The region's forward is replayed when the
 * backward of its last segment first reads a value made in the region. In the replay its segments meet their options, or lie in inner regions.
 *
 * A value of the replay lives until its last reader, not for as long as the program held it. Calls that lead only to the region's output do
 * not run. So an option has figures of its own for the middle of a region (`recompute`) and for its last segment (`last`).
 *
 *   M ▲          ┌────────────── held by a region [1, 4) ──────────────┐
 *     │      first forward     waiting    replay            backward
 *     │    bare  bare  bare               recompute   last
 *     └────▁0▁▁▁▁▁1▁▁▁▁▁2▁▁▁▁▁3▁▁▁ … ▁▁▁▁▁3▁▁▁▁▁1▁▁▁▁▁2▁▁▁▁▁3▁▁▁3▁▁▁▁2▁▁▁▁1▁▁▁▁0▁▁
 *
 *   forward of i in an outermost region      fixed_forward[k][i]          + M(first)  + bare[min(i - first, 2)]
 *   replay of the region [first, end)        fixed_recompute[k][end-1]    + M(i)      + recompute; last if i = end-1
 *   replay, in an inner region [f, e)        fixed_recompute[k][end-1]    + M(f)      + bare_recompute[i > f]
 *   backward of end-1, before the replay     fixed_backward[k][end-1]     + M(first)  + waiting[k]
 *   backward of end-1, after the replay      fixed_backward[k][end-1]     + M(end-1)  + last_backward[k]
 *   backward of another i                    fixed_backward[k][i]         + M(i)      + backward[k]                   each <= budget
 *
 * Here fixed_recompute[k][i] = fixed_backward[k][i] + begun[k]. Within a region M(i) counts from the region's M(first) on; an inner region
 * adds its output. The gradient that arrives at a backward is part of fixed_backward. A segment takes the seconds of its option in the
 * innermost region, and bare_seconds in each region around that one. A region ends before the one around it does, and before the chain.
 *
 * Bytes are exact integers; seconds are doubles. All constraints are monotone in M. So of two ways to the same place, one with at least as
 * many bytes and as many seconds is dropped. The recurrences and bounds are in chain_internal.h and the files it names.
 */
#ifndef RP_SOLVE_CHAIN_H
#define RP_SOLVE_CHAIN_H

#include "base/base.h"

enum { RP_CHAIN_KINDS = 2 };
#define RP_CHAIN_NEVER (INT64_C(1) << 61)   /* exceeds every budget; sums of it do not overflow */

typedef struct {                    /* one way to keep a segment */
    int64_t saved, forward, backward[RP_CHAIN_KINDS];
    int64_t recompute, last, last_backward[RP_CHAIN_KINDS];     /* in a region's replay: in its middle, or as its last segment */
    double seconds, recompute_seconds, last_seconds;            /* of its own recomputed calls; added in a region */
} rp_chain_option;

typedef struct {
    const rp_chain_option *option;  /* all different; none is dominated by another */
    int n_options;
    int64_t output;                 /* bytes of the next segment's input */
    int64_t bare[3], bare_recompute[2]; /* a forward that keeps only its output, first and in a replay. 1: after another segment of its region: the
                                         * input counts until it is read. 2: after two: the program may still hold the input of the one before */
    double bare_seconds;            /* of such a forward in a replay */
    int64_t waiting[RP_CHAIN_KINDS], begun[RP_CHAIN_KINDS];     /* as the last of a region: peak in its backward before the replay; fixed bytes when
                                                                 * the replay begins, relative to fixed_backward */
    bool never_last;                /* it cannot end a region: its backward reads nothing of its own, or its input first; or nothing after it holds
                                     * its output */
} rp_chain_class;

typedef struct {
    const rp_chain_class *class_of; /* classes */
    int n_classes, n, n_kinds;      /* n: number of segments, at least 1 */
    const int *segment;             /* class of each of n segments */
    const int *layer;               /* model layer of each segment; -1: none. A block is all segments of a layer, or a segment without one. NULL: each
                                     * segment is a block */
    const int64_t *fixed_forward[RP_CHAIN_KINDS], *fixed_backward[RP_CHAIN_KINDS];      /* of each segment */
    bool regions;                   /* regions are allowed */
} rp_chain;

typedef struct { int first, end, parent; } rp_chain_region;       /* parents before children; -1: outermost */

typedef struct {
    bool feasible;
    bool exact;                     /* no plan without nesting is faster; false: the work limit was reached */
    bool thin;                      /* fronts of regions were thinned, or not every region was tried */
    int grain;                      /* where regions were tried: 0 between any segments; g at every g-th block, and around each single block */
    int *option;                    /* of each segment, an index into its class's options */
    rp_chain_region *region;
    int n_regions;
    double seconds, bound;          /* of recomputed calls; no plan takes fewer than `bound` (plans with regions only if chain.regions) */
    int64_t bytes;                  /* maximum of the left sides of the constraints: the bytes of the plan */
} rp_chain_plan;

void rp__chain_plan_free(rp_chain_plan *plan);

/* Opens a solver of a chain for many budgets; it reuses the work of one budget for the next. The chain must outlive the solver. Close the
 * solver even if open fails. errors RP_ERR_MEMORY */
typedef struct rp_chain_solver rp_chain_solver;
rp_status rp__chain_solver_open(rp_ctx *ctx, const rp_chain *chain, rp_chain_solver **out);
/* Finds the plan of fewest seconds within the budget; of equals the one of fewest bytes, then the first by its options. With regions, it is
 * the best plan in the thinned tables (nested.c). If nothing fits, `feasible` is false and the lists are NULL.
 *
 * Work is counted, not timed, so the same input gives the same plan. A larger budget never gives a slower plan as long as plans are exact.
 * Free the plan with rp__chain_plan_free. errors RP_ERR_MEMORY */
rp_status rp__chain_solver_solve(rp_chain_solver *solver, int64_t budget, rp_chain_plan *out);
/* Returns the least budget for which a plan exists. */
int64_t rp__chain_solver_least(const rp_chain_solver *solver);
/* Computes the lower bound for a budget without a plan or a search: Lagrangian (chain_bound.c). *seconds is INFINITY if nothing fits.
 * errors RP_ERR_MEMORY */
rp_status rp__chain_solver_bound(rp_chain_solver *solver, int64_t budget, double *seconds);
void rp__chain_solver_close(rp_chain_solver *solver);

/* Returns the bytes that a plan takes, by walking through the step. */
int64_t rp__chain_bytes(const rp_chain *chain, const int *option, const rp_chain_region *region, int n_regions);

#endif
