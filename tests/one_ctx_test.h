/* one_ctx_test.h -- for groups of tests on one context: cmocka's set-up and tear-down. */
#ifndef RP_ONE_CTX_TEST_H
#define RP_ONE_CTX_TEST_H

#include "rp_test.h"

static rp_ctx *ctx;

static inline int one_ctx_begin(void **state)
{
    (void)state;
    ctx = test_ctx(&(rp_ctx_options){ .threads = 1 });
    return 0;
}

static inline int one_ctx_end(void **state)
{
    (void)state;
    test_ctx_free(ctx);
    return 0;
}

#endif
