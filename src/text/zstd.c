/* text/zstd.c -- unpacks Zstandard (RFC 8878) with libzstd: consecutive frames. */
#include <zstd.h>
#include <zstd_errors.h>

#include "text/internal.h"

typedef struct { ZSTD_DStream *stream; bool between; } zstd;

static void *open_zstd(rp_ctx *ctx)
{
    zstd *z = rp__host_alloc(ctx, sizeof *z);

    if (z) *z = (zstd){ ZSTD_createDStream(), true };
    if (z && z->stream) return z;
    rp__release(z);
    return NULL;
}

static void close_zstd(void *state)
{
    zstd *z = state;

    ZSTD_freeDStream(z->stream);
    rp__release(z);
}

static const char *step_zstd(void *state, rp_packed *from, uint8_t *to, int64_t room, int64_t *n, bool *between)
{
    zstd *z          = state;
    ZSTD_inBuffer in = { from->at, (size_t)from->bytes, 0 };
    ZSTD_outBuffer o = { to, (size_t)room, 0 };
    size_t left      = ZSTD_decompressStream(z->stream, &o, &in);

    from->at += in.pos;
    from->bytes -= (int64_t)in.pos;
    *n = (int64_t)o.pos;
    if (in.pos || o.pos) z->between = left == 0;        /* a step without progress has not begun a frame */
    *between = z->between;
    if (ZSTD_getErrorCode(left) == ZSTD_error_memory_allocation) return rp__text_file_memory;
    return ZSTD_isError(left) ? ZSTD_getErrorName(left) : NULL;
}

const rp_unpacker rp__text_file_zstd = { "zstd", "\x28\xb5\x2f\xfd", 4, open_zstd, close_zstd, step_zstd };
