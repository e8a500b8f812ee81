/* chain_test.h -- for tests of the chain's solver: random chains, a step played event by event, all plans that there are. */
#ifndef CHAIN_TEST_H
#define CHAIN_TEST_H

#include "rp_test.h"
#include "io_test.h"
#include "plan/chain_solve.h"
#include "solve/chain.h"

enum { MOST_SEGMENTS = 256, MOST_CLASSES = 64, MOST_OPTIONS = 16, MOST_REGIONS = 2 * MOST_SEGMENTS };

typedef struct { uint64_t state; } dice;

uint64_t roll(dice *d);
int64_t between(dice *d, int64_t low, int64_t high);        /* both included */

typedef struct {
    rp_chain chain;
    rp_chain_class class_of[MOST_CLASSES];
    rp_chain_option option[MOST_CLASSES][MOST_OPTIONS];
    int segment[MOST_SEGMENTS], layer[MOST_SEGMENTS];
    int64_t forward[RP_CHAIN_KINDS][MOST_SEGMENTS], backward[RP_CHAIN_KINDS][MOST_SEGMENTS];
} random_chain;

typedef struct {
    int segments, classes, options; /* exactly, at most, at most */
    int64_t bytes;                  /* of a value, at most */
    bool whole_seconds;             /* small whole numbers: sums are exact, and there are ties */
    bool regions;
    bool layers;                    /* of up to three segments between the first segment and the last; option 0 runs nothing again */
} chain_sort;

void random_chain_make(random_chain *c, const chain_sort *sort, uint64_t seed);

/* The peak of live bytes, by allocating and freeing the bytes of segments one after another. */
int64_t play(const rp_chain *chain, const int *option, const rp_chain_region *region, int n_regions);
/* Seconds of the calls of segment i that are recomputed. Outer regions come before inner ones. */
double segment_seconds(const rp_chain *chain, int i, int option, const rp_chain_region *region, int n_regions);
double recompute_seconds(const rp_chain *chain, const int *option, const rp_chain_region *region, int n_regions);

typedef struct { int64_t bytes; double seconds; int option[8], n_regions; } one_plan;
typedef struct { one_plan *at; int n, room; } all_plans;
typedef void plan_visitor(void *user, const rp_chain *chain, const one_plan *plan, const rp_chain_region *region);

/* All options and all sets of regions that may be: in each other or apart. */
void each_plan(const rp_chain *chain, plan_visitor *visit, void *user);
/* Those that no other one is better than in bytes and seconds, by rising bytes; of equals the one whose options come first. */
all_plans best_plans(const rp_chain *chain);
const one_plan *best_in(const all_plans *plans, int64_t budget);        /* NULL: nothing fits */
void free_plans(all_plans *plans);

rp_chain_plan solve(rp_ctx *ctx, const rp_chain *chain, int64_t budget);
int64_t least_budget(rp_ctx *ctx, const rp_chain *chain);
/* Of the fastest plan. */
int64_t greatest_budget(rp_ctx *ctx, const rp_chain *chain);

/* The plan is one: its bytes are those of the step played, in the budget; its seconds those of its options and regions. */
void check_plan(const rp_chain *chain, const rp_chain_plan *plan, int64_t budget);
void check_same(const rp_chain *chain, const rp_chain_plan *a, const rp_chain_plan *b);
/* From the least budget to the greatest, in `steps`: no plan slower than one before it, each the same from its own bytes on. */
void check_sweep(rp_ctx *ctx, const rp_chain *chain, int steps);

#endif
