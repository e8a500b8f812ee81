/* tests/device/draws.h -- numbers for tests of kernels, the same in each run, and blocks of device memory. */
#ifndef TESTS_DRAWS_H
#define TESTS_DRAWS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* The GPU under test: the emulated one, or with REPRISE_TEST_DEVICE=cuda a card (tools/gpu-check). */
static inline const char *test_gpu(void)
{
    const char *device = getenv("REPRISE_TEST_DEVICE");

    return device && !strcmp(device, "cuda") ? "cuda" : "emu";
}
static inline bool test_is_card(void) { return !strcmp(test_gpu(), "cuda"); }

typedef struct { uint64_t state; } draws;

/* From -1 up to 1. */
static inline float draw(draws *d)
{
    d->state = d->state * 6364136223846793005u + 1442695040888963407u;
    return (float)((double)(d->state >> 11) / 9007199254740992.0 * 2 - 1);
}

/* A block of device memory, with bytes that no kernel should read. Host memory of the same size holds the data on its way there and back. */
typedef struct { rp_ctx *ctx; int64_t bytes, offset; uint8_t *device, *host; } buffer;

static inline buffer take(rp_ctx *ctx, int64_t n)
{
    buffer b = { .ctx = ctx, .bytes = n * 4 + 256 };

    assert_int_equal(rp__mem_take(ctx, ctx->space[0], RP_MEM_TEMP, b.bytes, "test", &b.offset), RP_OK);
    b.device = rp__mem_at(ctx->space[0], b.offset);
    assert_non_null(b.host = malloc((size_t)b.bytes));
    memset(b.host, 0xff, (size_t)b.bytes);
    rp__mem_copy(ctx, b.device, b.host, b.bytes);
    rp__mem_sync(ctx);
    return b;
}

static inline void send(const buffer *b) { rp__mem_copy(b->ctx, b->device, b->host, b->bytes); }

static inline void fetch(const buffer *b)
{
    rp__mem_copy(b->ctx, b->host, b->device, b->bytes);
    rp__mem_sync(b->ctx);
}

static inline void give(buffer b)
{
    free(b.host);
    rp__mem_give(b.ctx->space[0], RP_MEM_TEMP, b.bytes, b.offset);
}

#endif
