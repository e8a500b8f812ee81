/* rp_test.h -- what every test file includes: cmocka, the inside of the library, contexts that must succeed. */
#ifndef RP_TEST_H
#define RP_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "tensor/tensor.h"

/* The device under test: REPRISE_TEST_DEVICE=sim runs the suite on the test device. */
static inline rp_ctx *test_ctx(const rp_ctx_options *options)
{
    rp_ctx_options o = options ? *options : (rp_ctx_options){ 0 };
    rp_ctx *ctx      = NULL;

    if (!o.device) o.device = getenv("REPRISE_TEST_DEVICE");
    assert_int_equal(rp_ctx_new(&o, &ctx), RP_OK);
    return ctx;
}

/* The ledger must be empty before a context goes. */
static inline void test_ctx_free(rp_ctx *ctx)
{
    rp_mem m;

    rp_mem_read(ctx, 0, false, &m);
    assert_int_equal(m.live_bytes, 0);
    rp_ctx_free(ctx);
}

/* Under a sanitizer, or with every op by its reference, all takes ten times as long and more. */
static inline bool test_is_slow(void)
{
#ifdef RP_SANITIZED
    return true;
#else
    const char *device = getenv("REPRISE_TEST_DEVICE");
    return device && !strcmp(device, "sim");
#endif
}

/* How many of n draws are taken: a tenth where it is slow; ten times as many when REPRISE_TEST_ALL is set. */
static inline int test_draws(int n) { return getenv("REPRISE_TEST_ALL") ? 10 * n : test_is_slow() ? (n + 9) / 10 : n; }

#define assert_ok(ctx, expr) \
    do { \
        rp_status status_ = (expr); \
        if (status_ != RP_OK) fail_msg("%s: status %d: %s", #expr, (int)status_, rp_error(ctx)); \
    } while (0)

#endif
