/* heap_test.h -- sweeps of failing allocations that reach every library, and count the blocks that are left.
 *
 *   host   the k-th allocation of the library fails (fault_countdown), as in test_faults
 *   heap   the k-th call of malloc, calloc or realloc by anyone fails: jansson, PCRE2, zlib, zstd and the C library, too
 *
 * Both count what is left. Under a sanitizer a sweep is of `host` alone, and leaks are for the sanitizer to see.
 */
#ifndef RP_HEAP_TEST_H
#define RP_HEAP_TEST_H

#include <errno.h>

#include "heap.h"
#include "rp_test.h"

/* One whole use, which frees all it made. Where it succeeds it compares its result; where it fails it sees that outputs are untouched. */
typedef rp_status (*heap_call)(rp_ctx *ctx, void *user);

typedef struct {
    int64_t each;                       /* each of so many first allocations, then ever fewer; 0: each of all */
    bool survives;                      /* the library's own allocations may fail without an error */
    int least;                          /* so many at least must fail */
} heap_sweep;

/* Between them nothing fails: what a call needs ready. */
typedef struct { int64_t host, heap; } heap_faults;

static inline heap_faults heap_pause(rp_ctx *ctx)
{
    heap_faults f        = { ctx->fault_countdown, heap_countdown };
    ctx->fault_countdown = heap_countdown = 0;
    return f;
}

static inline void heap_resume(rp_ctx *ctx, heap_faults f)
{
    ctx->fault_countdown = f.host;
    heap_countdown       = f.heap;
}

/* Another library may report missing memory by an error of its own. */
static bool heap_reported(rp_ctx *ctx, rp_status status)
{
    return status == RP_ERR_MEMORY || strstr(rp_error(ctx), "Cannot allocate memory");
}

/* A call may do without memory of another library, but an error that it recorded is its result. */
static bool heap_dropped(rp_ctx *ctx, const heap_sweep *s, bool heap, int64_t errors)
{
    return !s->survives && (!heap || ctx->n_errors != errors);
}

/* A copy to a GPU that has not landed is a block of the emulated one. */
static rp_status call_and_land(rp_ctx *ctx, heap_call call, void *user)
{
    rp_status status = call(ctx, user);

    rp__mem_sync(ctx);
    return status;
}

static bool heap_round(rp_ctx *ctx, const heap_sweep *s, bool heap, int64_t k, heap_call call, void *user, int *failed)
{
    int64_t live = heap_live, errors = ctx->n_errors;

    if (heap) heap_countdown = k;
    else ctx->fault_countdown = k;
    rp_status status     = call_and_land(ctx, call, user);
    bool fired           = heap ? heap_countdown == 0 : ctx->fault_countdown == 0;
    heap_countdown       = 0;
    ctx->fault_countdown = 0;
    if (status != RP_OK ? !fired || !(heap ? heap_reported(ctx, status) : status == RP_ERR_MEMORY) : fired && heap_dropped(ctx, s, heap, errors))
        fail_msg("%s allocation %lld %s: status %d: %s", heap ? "heap" : "host", (long long)k, fired ? "failed" : "was not made", (int)status, rp_error(ctx));
    if (heap_live != live)
        fail_msg("%s allocation %lld left %lld blocks: status %d", heap ? "heap" : "host", (long long)k, (long long)(heap_live - live), (int)status);
    *failed += status != RP_OK;
    return fired;
}

/* The call succeeds twice, then with each allocation failing, and again at the end, when none is left to fail. */
static inline void every_allocation_fails_once(rp_ctx *ctx, const heap_sweep *s, heap_call call, void *user)
{
    for (int i = 0; i < 2; i++) assert_ok(ctx, call_and_land(ctx, call, user));     /* what is made by the first calls and kept is there now */
    for (int heap = 0; heap <= HEAP_IS_OURS; heap++) {
        int failed = 0;
        for (int64_t k = 1; heap_round(ctx, s, heap, k, call, user, &failed); k += 1 + (s->each ? k / s->each : 0)) continue;
        if (failed < s->least) fail_msg("only %d %s allocations failed", failed, heap ? "heap" : "host");
    }
}

#endif
