/* text/bytes.c -- growing arrays of bytes and ids: see bytes.h. */
#include "text/bytes.h"

#include <string.h>

#include "base/list.h"

/* The capacity doubles each time, so that n pushes cost O(n). */
static int64_t roomier(int64_t room, int64_t need)
{
    int64_t next = room < 64 ? 64 : 2 * room;

    return next < need ? need : next;
}

rp_status rp__ids_push(rp_ctx *ctx, rp_ids *ids, int32_t id)
{
    RP_TRY(RP_GROW(ctx, ids->at, ids->room, ids->n + 1));
    ids->at[ids->n++] = id;
    return RP_OK;
}

int64_t rp__bytes_next_room(const rp_bytes *bytes, int64_t more)
{
    return bytes->n + more <= bytes->room ? bytes->room : roomier(bytes->room, bytes->n + more);
}

rp_status rp__bytes_room(rp_ctx *ctx, rp_bytes *bytes, int64_t more)
{
    int64_t room = rp__bytes_next_room(bytes, more);

    return room == bytes->room ? RP_OK : RP_RESIZE(ctx, bytes->at, bytes->room, room);
}

rp_status rp__bytes_push(rp_ctx *ctx, rp_bytes *bytes, const char *text, int64_t n)
{
    RP_TRY(rp__bytes_room(ctx, bytes, n));
    if (n) memcpy(bytes->at + bytes->n, text, (size_t)n);
    bytes->n += n;
    return RP_OK;
}
