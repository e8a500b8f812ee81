/* fuzz.h -- what every fuzz target shares: one context, and the claims that hold for any input. */
#ifndef RP_FUZZ_H
#define RP_FUZZ_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_CHECK(cond) do { if (!(cond)) abort(); } while (0)

/* One for all inputs: opening a context costs more than most inputs take. */
static inline rp_ctx *fuzz_ctx(void)
{
    static rp_ctx *ctx;

    if (!ctx) FUZZ_CHECK(rp_ctx_new(&(rp_ctx_options){ .threads = 1 }, &ctx) == RP_OK);
    ctx->error[0] = 0;
    return ctx;
}

/* A refused input is malformed or not supported, and one sentence says why. */
static inline void fuzz_refused(const rp_ctx *ctx, rp_status status)
{
    FUZZ_CHECK(status == RP_ERR_FORMAT || status == RP_ERR_UNSUPPORTED);
    FUZZ_CHECK(rp_error(ctx)[0] && !strchr(rp_error(ctx), '\n'));
}

#endif
