/* text/gzip.c -- unpacks gzip (RFC 1952) with zlib: consecutive members, then optional padding with zeros. */
#include <zlib.h>

#include "text/internal.h"

typedef struct { z_stream z; bool between, padding; } gzip;

static void *gzip_take(void *ctx, unsigned n, unsigned bytes) { return rp__host_alloc(ctx, (int64_t)n * bytes); }

static void give(void *ctx, void *p)
{
    (void)ctx;
    rp__release(p);
}

static void *open_gzip(rp_ctx *ctx)
{
    gzip *g = rp__host_alloc(ctx, sizeof *g);

    if (g) g->z = (z_stream){ .zalloc = gzip_take, .zfree = give, .opaque = ctx };
    if (g && inflateInit2(&g->z, 15 + 16) == Z_OK) {        /* 16: expect gzip's header and checksum */
        g->between = true;
        return g;
    }
    rp__release(g);
    return NULL;
}

static void close_gzip(void *state)
{
    gzip *g = state;

    inflateEnd(&g->z);
    rp__release(g);
}

/* A member is followed by another member, or by zeros up to the end. */
static const char *between_members(gzip *g, rp_packed *from)
{
    for (; from->bytes && !from->at[0]; from->at++, from->bytes--) g->padding = true;
    if (!from->bytes) return NULL;
    if (g->padding || inflateReset(&g->z) != Z_OK) return "other data follows the packed data";
    g->between = false;
    return NULL;
}

static const char *step_gzip(void *state, rp_packed *from, uint8_t *to, int64_t room, int64_t *n, bool *between)
{
    gzip *g          = state;
    const char *wrong = g->between ? between_members(g, from) : NULL;

    *n       = 0;
    *between = g->between;
    if (wrong || g->between) return wrong;
    g->z.next_in   = (Bytef *)from->at;
    g->z.avail_in  = (uInt)from->bytes;
    g->z.next_out  = to;
    g->z.avail_out = (uInt)room;
    int status     = inflate(&g->z, Z_NO_FLUSH);
    from->at += from->bytes - (int64_t)g->z.avail_in;
    from->bytes = (int64_t)g->z.avail_in;
    *n          = room - (int64_t)g->z.avail_out;
    g->between = *between = status == Z_STREAM_END;
    if (status == Z_OK || status == Z_STREAM_END || status == Z_BUF_ERROR) return NULL;
    if (status == Z_MEM_ERROR) return rp__text_file_memory;
    return g->z.msg ? g->z.msg : "it cannot be unpacked";
}

const rp_unpacker rp__text_file_gzip = { "gzip", "\x1f\x8b", 2, open_gzip, close_gzip, step_gzip };
