/* base/pool.c -- the list of free extents, by rising offset. */
#include "base/pool.h"

#include <string.h>

#include "base/base.h"
#include "base/list.h"

static int64_t end_of(const rp_extent *e) { return e->offset + e->bytes; }

static bool last_touches_top(const rp_pool *p) { return p->n_free && end_of(&p->free[p->n_free - 1]) == p->top; }

/* The start of the unused range at the top, including a free extent that touches it. */
static int64_t top_hole(const rp_pool *p) { return last_touches_top(p) ? p->free[p->n_free - 1].offset : p->top; }

static void insert(rp_pool *p, int i, rp_extent e)
{
    RP_BUG_IF(p->n_free >= p->room);
    memmove(p->free + i + 1, p->free + i, (size_t)(p->n_free - i) * sizeof *p->free);
    p->free[i] = e;
    p->n_free++;
}

static void remove_extent(rp_pool *p, int i)
{
    memmove(p->free + i, p->free + i + 1, (size_t)(p->n_free - i - 1) * sizeof *p->free);
    p->n_free--;
}

/* n live blocks have at most n + 1 gaps. A take may split one gap and extend the pool. */
bool rp__pool_prepare(rp_ctx *ctx, rp_pool *p, int n)
{
    return RP_GROW(ctx, p->free, p->room, n + 4) == RP_OK;
}

/* ---- take ---- */

int64_t rp__pool_take(rp_pool *p, int64_t bytes)
{
    int best = -1;

    for (int i = 0; i < p->n_free; i++)
        if (p->free[i].bytes >= bytes && (best < 0 || p->free[i].bytes < p->free[best].bytes)) best = i;
    if (best >= 0) {
        int64_t offset = p->free[best].offset;
        p->free[best].offset += bytes;
        p->free[best].bytes -= bytes;
        if (p->free[best].bytes == 0) remove_extent(p, best);
        return offset;
    }
    int64_t start = top_hole(p), end = start + bytes;
    if (end < start || end > p->most) return RP_POOL_FULL;
    if (last_touches_top(p)) p->n_free--;
    p->top = end;
    return start;
}

bool rp__pool_extend(rp_pool *p, int64_t end)
{
    if (end <= p->top) return true;
    if (end > p->most) return false;
    if (last_touches_top(p)) p->free[p->n_free - 1].bytes += end - p->top;
    else insert(p, p->n_free, (rp_extent){ p->top, end - p->top });
    p->top = end;
    return true;
}

void rp__pool_trim(rp_pool *p)
{
    p->top = top_hole(p);
    if (p->n_free && p->free[p->n_free - 1].offset == p->top) p->n_free--;
}

int64_t rp__pool_take_at(rp_pool *p, int64_t offset, int64_t bytes)
{
    int64_t end = offset + bytes;
    int i       = 0;

    if (!rp__pool_extend(p, end)) return RP_POOL_FULL;
    if (!bytes) return offset;
    while (i < p->n_free && end_of(&p->free[i]) < end) i++;
    if (i == p->n_free || p->free[i].offset > offset) return RP_POOL_IN_USE;
    rp_extent right  = { end, end_of(&p->free[i]) - end };
    p->free[i].bytes = offset - p->free[i].offset;
    if (right.bytes && p->free[i].bytes) insert(p, i + 1, right);
    else if (right.bytes) p->free[i] = right;
    else if (!p->free[i].bytes) remove_extent(p, i);
    return offset;
}

/* ---- give ---- */

/* Merges extent i with the next one if they touch. */
static void pool_join(rp_pool *p, int i)
{
    if (i < 0 || i + 1 >= p->n_free || end_of(&p->free[i]) != p->free[i + 1].offset) return;
    p->free[i].bytes += p->free[i + 1].bytes;
    remove_extent(p, i + 1);
}

void rp__pool_give(rp_pool *p, int64_t offset, int64_t bytes)
{
    int i = p->n_free;

    if (!bytes) return;
    while (i > 0 && p->free[i - 1].offset > offset) i--;
    insert(p, i, (rp_extent){ offset, bytes });
    pool_join(p, i);
    pool_join(p, i - 1);
}

int64_t rp__pool_slide(rp_pool *p, int64_t offset, int64_t bytes)
{
    int i = 0;

    while (i < p->n_free && end_of(&p->free[i]) != offset) i++;
    RP_BUG_IF(i == p->n_free);
    int64_t to = p->free[i].offset;
    p->free[i].offset += bytes;
    pool_join(p, i);
    return to;
}

/* ---- queries ---- */

int rp__pool_n_holes(const rp_pool *p) { return p->n_free + !last_touches_top(p); }

rp_extent rp__pool_hole(const rp_pool *p, int i)
{
    if (i < rp__pool_n_holes(p) - 1) return p->free[i];
    return (rp_extent){ top_hole(p), p->most - top_hole(p) };
}

void rp__pool_used(const rp_pool *p, void (*visit)(void *, int64_t, int64_t), void *user)
{
    int64_t at = 0;

    for (int i = 0; i <= p->n_free; i++) {
        int64_t end = i < p->n_free ? p->free[i].offset : p->top;
        if (end > at) visit(user, at, end - at);
        if (i < p->n_free) at = end_of(&p->free[i]);
    }
}
