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
#include <sys/resource.h>

#include <cmocka.h>

#include "base/base.h"
#include "heap.h"
#include "tensor/tensor.h"

#define assert_ok(ctx, expr) \
    do { \
        rp_status status_ = (expr); \
        if (status_ != RP_OK) fail_msg("%s: status %d: %s", #expr, (int)status_, rp_error(ctx)); \
    } while (0)

/* Variant arm limits addresses, because the emulator of a CPU counts them. Some contexts need more. */
static inline bool test_has_all_addresses(void)
{
    struct rlimit most;

    return getrlimit(RLIMIT_AS, &most) || most.rlim_cur == RLIM_INFINITY;
}

/* Whether this build can emulate a GPU. The emulation runs on fibers, which ThreadSanitizer does not know. */
#if defined(RP_SANITIZED) && !defined(RP_ASAN)
enum { TEST_HAS_EMU = false };
#else
enum { TEST_HAS_EMU = true };
#endif

/* The device under test: REPRISE_TEST_DEVICE=sim or sealed runs the suite on that device. */
static inline rp_ctx *test_ctx(const rp_ctx_options *options)
{
    rp_ctx_options o = options ? *options : (rp_ctx_options){ 0 };
    rp_ctx *ctx      = NULL;

    if (!o.device) o.device = getenv("REPRISE_TEST_DEVICE");
    rp_status status = rp_ctx_new(&o, &ctx);
    if (status == RP_ERR_MEMORY && !test_has_all_addresses()) {
        heap_keeps = true;
        skip();
    }
    assert_int_equal(status, RP_OK);
    ctx->fault_pieces = true;           /* an access past the end of a piece of a bump meets a red zone (heap.h) */
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

/* The bytes of a dense tensor, to look at: a copy that is good until eight more are asked for. NULL without data. */
static inline const void *test_bytes(const rp_tensor *t)
{
    static void *kept[8];
    static int next;
    void **at     = &kept[next++ % 8];
    int64_t bytes = rp_meta_bytes(&t->m);

    if (!t->storage->data) return NULL;
    free(*at);
    assert_non_null(*at = malloc((size_t)bytes + 1));
    rp__mem_copy(t->ctx, *at, rp__tensor_data(t), bytes);
    rp__mem_sync(t->ctx);
    return *at;
}

static inline void test_fill(rp_tensor *t, int byte)
{
    if (t->storage->data) rp__mem_fill(t->ctx, rp__tensor_data(t), byte, rp_meta_bytes(&t->m));
}

/* Room for a value of each element, and all elements. test_put writes such values and frees them; test_values must be freed. A device would need a
 * launch or a copy for each element that rp_elem_put and rp_elem_get take alone. */
static inline double *test_room(const rp_tensor *t)
{
    double *v = calloc((size_t)rp_meta_elems(&t->m) + 1, sizeof *v);

    assert_non_null(v);
    return v;
}

static inline double *test_values(const rp_tensor *t)
{
    double *v = test_room(t);

    assert_ok(t->ctx, rp_tensor_read(t, v, rp_meta_elems(&t->m)));
    return v;
}

static inline void test_put(rp_tensor *t, double *v)
{
    assert_ok(t->ctx, rp_tensor_write(t, v, rp_meta_elems(&t->m)));
    free(v);
}

/* Sweeps take samples under a sanitizer and with every op by its reference, where all takes ten times as long and more, and where
 * REPRISE_TEST_FEW is set. The variant `whole` of tools/check does not set it. */
static inline bool test_takes_samples(void)
{
#ifdef RP_SANITIZED
    return true;
#else
    const char *device = getenv("REPRISE_TEST_DEVICE");
    return getenv("REPRISE_TEST_FEW") || (device && !strcmp(device, "sim"));
#endif
}

static inline int test_few_or(int few, int all) { return test_takes_samples() ? few : all; }

/* A claim of several seconds that seldom breaks alone: before each commit it is skipped. REPRISE_TEST_FEW=sweeps runs it. */
static inline void test_leave_to_full(void)
{
    const char *few = getenv("REPRISE_TEST_FEW");

    if (few && strcmp(few, "sweeps") != 0) skip();
}

/* How many of n draws are taken: a tenth of samples; ten times as many when REPRISE_TEST_ALL is set. */
static inline int test_draws(int n) { return getenv("REPRISE_TEST_ALL") ? 10 * n : test_few_or((n + 9) / 10, n); }

/* Host allocations that fail, another one in each round, until a round has none left to fail:
 *
 *     test_faults f = { 0 };
 *     while (!f.over) {
 *         test_fault_begin(&f, ctx);                  the first allocation from here on fails, in the next round the second …
 *         rp_status status = …;
 *         if (test_fault_end(&f, status)) …;          RP_ERR_MEMORY where one failed, RP_OK where none did; true: it has failed
 *     }
 *     assert_true(f.failed > 20);
 */
typedef struct {
    int64_t each;                       /* each of so many, then ever fewer of those behind; 0: each of all */
    bool survived;                      /* what fails may be done without: RP_OK is right, too */
    rp_ctx *ctx;
    int64_t k;                          /* of the allocation that fails in this round, from 1 */
    int failed;                         /* rounds that did */
    bool over;
} test_faults;

static inline void test_fault_begin(test_faults *f, rp_ctx *ctx)
{
    f->ctx            = ctx;
    ctx->fault_pieces = false;          /* else hundreds of times as many rounds */
    f->k += 1 + (f->each ? f->k / f->each : 0);
    ctx->fault_countdown = f->k;
}

static inline bool test_fault_end(test_faults *f, rp_status status)
{
    bool fired = f->ctx->fault_countdown == 0, failed = status != RP_OK;

    f->ctx->fault_countdown = 0;
    if (failed ? !fired || status != RP_ERR_MEMORY : fired && !f->survived)
        fail_msg("allocation %lld %s: status %d: %s", (long long)f->k, fired ? "failed" : "was not made", (int)status, rp_error(f->ctx));
    f->failed += failed;
    f->over = !fired;
    return failed;
}

#endif
