/* solve/chain.h -- which way to keep each segment of a chain so that a step fits a budget and computes least again.
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
 * held by whoever comes before it, so options in front of a region must save their segment's output. When the backward of its last
 * segment first reads what was made in it, its forward runs again: now its segments meet their options, or lie in regions inside. A
 * value of that run lives for whoever still reads it, not for as long as the program held it, and what only leads to the region's output
 * does not run: so what an option takes then is told apart, in the middle of a region and as its last segment.
 *
 *   M ▲          ┌────────────── held by a region [1, 4) ──────────────┐
 *     │      first forward     waiting    run again         backward
 *     │    bare  bare  bare               again again last
 *     └────▁0▁▁▁▁▁1▁▁▁▁▁2▁▁▁▁▁3▁▁▁ … ▁▁▁▁▁3▁▁▁▁▁1▁▁▁▁▁2▁▁▁▁▁3▁▁▁3▁▁▁▁2▁▁▁▁1▁▁▁▁0▁▁
 *
 *   forward of i in an outermost region      fixed_forward[k][i]      + M(first)  + bare[min(i - first, 2)]
 *   run again for the region [first, end)    fixed_recompute[k][end-1]    + M(i)      + again, of i = end-1: last
 *   the same, in a region [f, e) inside it   fixed_recompute[k][end-1]    + M(f)      + bare_recompute[i > f]
 *   backward of end-1, until then            fixed_backward[k][end-1] + M(first)  + waiting[k]
 *   backward of end-1, from then on          fixed_backward[k][end-1] + M(end-1)  + last_backward[k]
 *   backward of another i                    fixed_backward[k][i]     + M(i)      + backward[k]                   each <= budget
 *
 * where fixed_recompute[k][i] = fixed_backward[k][i] + begun[k], and M(i) counts from the region's M(first) on; over a region inside it grows
 * by that one's output. What arrives at a backward from behind (a gradient) is part of fixed_backward. Seconds: in the innermost region
 * those of the option there, in each around it bare_seconds. A region ends before the one around it does, and before the chain.
 *
 * Bytes are integers, exact; seconds are doubles. All constraints are monotone in M, so of two ways to the same place that is dropped
 * which has no fewer bytes and no fewer seconds. The recurrences and bounds are in chain_internal.h and the files it names.
 */
#ifndef RP_SOLVE_CHAIN_H
#define RP_SOLVE_CHAIN_H

#include "base/base.h"

enum { RP_CHAIN_KINDS = 2 };
#define RP_CHAIN_NEVER (INT64_C(1) << 61)   /* what fits no budget, and still adds up */

typedef struct {                    /* one way to keep a segment */
    int64_t saved, forward, backward[RP_CHAIN_KINDS];
    int64_t recompute, last, last_backward[RP_CHAIN_KINDS];     /* run again for a region, in the middle of it or as its last */
    double seconds, recompute_seconds, last_seconds;            /* of what runs again alone; besides, in a region */
} rp_chain_option;

typedef struct {
    const rp_chain_option *option;  /* no two alike, none that another one is better than in everything */
    int n_options;
    int64_t output;                 /* bytes of what the next segment reads */
    int64_t bare[3], bare_recompute[2]; /* a forward that keeps nothing but its output, the first time and again. 1: behind another segment of its
                                     * region, so that the input is there no longer than it is read, and is counted. 2: behind two, so that
                                     * the program may still hold what the one before has read */
    double bare_seconds;            /* of such a forward run again */
    int64_t waiting[RP_CHAIN_KINDS], begun[RP_CHAIN_KINDS];     /* of the last of a region: in its backward before the region runs again, and
                                                                 * what is fixed when it does, over fixed_backward */
    bool never_last;                /* of a region: its backward reads nothing of its own, or its input first; or nobody behind holds its output */
} rp_chain_class;

typedef struct {
    const rp_chain_class *class_of; /* classes */
    int n_classes, n, n_kinds;      /* n: one segment at least */
    const int *segment;             /* class of each of n segments */
    const int *layer;               /* number of the model's layer that each belongs to; -1: none. A block is a layer's segments, or one that is in
                                     * none. NULL: each segment is a block */
    const int64_t *fixed_forward[RP_CHAIN_KINDS], *fixed_backward[RP_CHAIN_KINDS];      /* of each segment */
    bool regions;                   /* regions are allowed */
} rp_chain;

typedef struct { int first, end, parent; } rp_chain_region;       /* parents before children; -1: outermost */

typedef struct {
    bool feasible;
    bool exact;                     /* no plan of one level is faster; false: the work limit was met */
    bool thin;                      /* fronts of regions were thinned, or not every region was tried */
    int grain;                      /* where regions were tried: 0 between any segments, g at every g-th block, and each block alone */
    int *option;                    /* of each segment, in the class's list */
    rp_chain_region *region;
    int n_regions;
    double seconds, bound;          /* of what runs again; no plan (without regions where there may be none) takes less than `bound` */
    int64_t bytes;                  /* the greatest left side of the constraints: what the plan takes */
} rp_chain_plan;

void rp__chain_plan_free(rp_chain_plan *plan);

/* Solves a chain for many budgets: the solver reuses the work of one budget for the next. The chain must outlive the solver. Close the
 * solver even if open fails. errors RP_ERR_MEMORY */
typedef struct rp_chain_solver rp_chain_solver;
rp_status rp__chain_solver_open(rp_ctx *ctx, const rp_chain *chain, rp_chain_solver **out);
/* The plan that takes fewest seconds in the budget, of these the one that takes fewest bytes, of these the first by its options. Of
 * plans with regions it is the best that thinned tables know (nested.c). Not feasible: nothing fits, lists are NULL.
 *
 * Work is counted, not timed: the same input gives the same plan. A greater budget never gives a slower one as long as plans are exact.
 * Free with rp__chain_plan_free. errors RP_ERR_MEMORY */
rp_status rp__chain_solver_solve(rp_chain_solver *solver, int64_t budget, rp_chain_plan *out);
/* The least budget that has a plan. */
int64_t rp__chain_solver_least(const rp_chain_solver *solver);
/* The plan's bound, which rests on no plan and no search: Lagrangian (chain_bound.c). INFINITY: nothing fits. errors RP_ERR_MEMORY */
rp_status rp__chain_solver_bound(rp_chain_solver *solver, int64_t budget, double *seconds);
void rp__chain_solver_close(rp_chain_solver *solver);

/* The plans that everybody knows, in the order of this list: no plan that is found takes more bytes at the least, nor more time in the bytes of
 * one of these. Layers alone become regions; without layers, all segments but the last. */
enum { RP_CHAIN_KEEP_ALL, RP_CHAIN_EACH_LAYER, RP_CHAIN_EVERY_2ND, RP_CHAIN_EVERY_8TH = RP_CHAIN_EVERY_2ND + 6, RP_CHAIN_ROOT, RP_CHAIN_MODES };

/* What a plan takes, by walking through the step. */
int64_t rp__chain_bytes(const rp_chain *chain, const int *option, const rp_chain_region *region, int n_regions);

#endif
