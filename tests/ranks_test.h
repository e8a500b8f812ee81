/* ranks_test.h -- what tests of ranks begin and end with: a context of one thread, and the world it is in. */
#ifndef TESTS_RANKS_TEST_H
#define TESTS_RANKS_TEST_H

#include "rp_test.h"

#include "comm/comm.h"
#include "train/temp.h"

static rp_ctx *ctx;
static rp_comm *world;
static int rank, ranks;

static inline int ranks_setup(void **state)
{
    (void)state;
    ctx = test_ctx(&(rp_ctx_options){ .threads = 1 });
    assert_ok(ctx, rp__comm_open(ctx, NULL, &world));
    rank  = rp__comm_rank(world);
    ranks = rp__comm_ranks(world);
    if (!rank) printf("%d ranks by %s\n", ranks, rp__comm_engine(world));
    return 0;
}

static inline int ranks_teardown(void **state)
{
    (void)state;
    rp__comm_close(world);
    test_ctx_free(ctx);
    return 0;
}

/* The first rank's, which removes it. */
static inline temp_dir share_dir(void)
{
    temp_dir mine = { "" }, all[64];

    if (!rank) mine = temp_make();
    assert_ok(ctx, rp__comm_share(ctx, world, &mine, sizeof mine, all, "a folder"));
    return all[0];
}

static inline void leave_dir(const temp_dir *dir)
{
    assert_ok(ctx, rp__comm_barrier(ctx, world, "the end of a folder"));
    if (!rank) temp_remove(dir);
}

#endif
