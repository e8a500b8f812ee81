/* base/list.c -- the only code that grows lists. Pointers and rooms are copied as bytes, because their types belong to the owner. */
#include "base/list.h"

#include <limits.h>
#include <string.h>

enum { FEWEST = 16 };

static int64_t read_room(const void *room, size_t bytes)
{
    int64_t wide;
    int narrow;

    if (bytes == sizeof wide) memcpy(&wide, room, bytes);
    else wide = (memcpy(&narrow, room, bytes), narrow);
    return wide;
}

static void write_room(void *room, size_t bytes, int64_t n)
{
    int narrow = (int)n;

    memcpy(room, bytes == sizeof n ? (const void *)&n : &narrow, bytes);
}

static int64_t most_of(int64_t each, size_t room_bytes)
{
    int64_t most = INT64_MAX / each;

    return room_bytes == sizeof(int) && most > INT_MAX ? INT_MAX : most;
}

rp_status rp__list_resize(rp_ctx *ctx, void *at, int64_t each, void *room, size_t room_bytes, int64_t n)
{
    void *old;

    RP_CHECK(ctx, n >= 0 && n <= most_of(each, room_bytes), RP_ERR_MEMORY, "a list of %" PRId64 " entries of %" PRId64 " bytes is too long", n, each);
    memcpy(&old, at, sizeof old);
    void *grown = rp__host_grow(ctx, old, read_room(room, room_bytes) * each, n * each);
    if (!grown) return RP_ERR_MEMORY;
    memcpy(at, &grown, sizeof grown);
    write_room(room, room_bytes, n);
    return RP_OK;
}

rp_status rp__list_grow(rp_ctx *ctx, void *at, int64_t each, void *room, size_t room_bytes, int64_t n)
{
    int64_t had = read_room(room, room_bytes), more = had < FEWEST / 2 ? FEWEST : 2 * had;

    if (had > most_of(each, room_bytes) / 2) more = most_of(each, room_bytes);
    return rp__list_resize(ctx, at, each, room, room_bytes, n > more ? n : more);
}
