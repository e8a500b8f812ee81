/* place/place.c -- turns buffers into items and back, and computes the bound. */
#include "place/internal.h"

#include <stdlib.h>

/* ---- instants ---- */

static int by_number(const void *left, const void *right)
{
    int a = *(const int *)left, b = *(const int *)right;

    return a < b ? -1 : a > b;
}

typedef struct { int *start, n; } instants;        /* first birth of each instant */

/* Buffers without bytes are ignored. A birth begins a new instant if a buffer has died since the last birth. */
static rp_status find_instants(rp_bump *bump, const rp_place_buffer *buffer, int n, instants *out)
{
    int *begin = rp__bump_alloc(bump, (n + 1) * (int64_t)sizeof *begin), *end = rp__bump_alloc(bump, (n + 1) * (int64_t)sizeof *end);
    int n_alive = 0, n_dead = 0, before = -1;

    if (!begin || !end) return RP_ERR_MEMORY;
    for (int i = 0; i < n; i++) {
        RP_BUG_IF(buffer[i].begin >= buffer[i].end || buffer[i].bytes < 0);
        if (!buffer[i].bytes) continue;
        begin[n_alive] = buffer[i].begin;
        end[n_alive++] = buffer[i].end;
    }
    qsort(begin, (size_t)n_alive, sizeof *begin, by_number);
    qsort(end, (size_t)n_alive, sizeof *end, by_number);
    *out = (instants){ begin, 0 };
    for (int i = 0; i < n_alive; i++, before = n_dead) {
        while (end[n_dead] <= begin[i]) n_dead++;
        if (n_dead > before) out->start[out->n++] = begin[i];
    }
    return RP_OK;
}

/* Returns the number of instants that begin before `event`. */
static int instants_before(const instants *t, int event)
{
    int a = 0, b = t->n;

    while (a < b) {
        int middle = (a + b) / 2;
        if (t->start[middle] < event) a = middle + 1;
        else b = middle;
    }
    return a;
}

/* The first instant of an item begins at or before its birth; the last one begins before its death. */
static place_item item_of(const instants *t, const rp_place_buffer *b, int index)
{
    return (place_item){ .bytes = b->bytes, .offset = b->offset < 0 ? PLACE_NOWHERE : b->offset, .fixed = b->offset >= 0, .buffer = index,
                         .first = instants_before(t, b->begin + 1) - 1, .last = instants_before(t, b->end) - 1 };
}

static rp_status make_items(place_problem *p, const rp_place_buffer *buffer, int n)
{
    instants t;

    RP_TRY(find_instants(&p->bump, buffer, n, &t));
    p->n_instants = t.n;
    p->item       = rp__bump_alloc(&p->bump, (n + 1) * (int64_t)sizeof *p->item);
    if (!p->item) return RP_ERR_MEMORY;
    for (int i = 0; i < n; i++)
        if (buffer[i].bytes) p->item[p->n++] = item_of(&t, &buffer[i], i);
    return RP_OK;
}

/* ---- peaks ---- */

static int n_levels(int n)
{
    int levels = 1;

    while (1 << levels <= n) levels++;
    return levels;
}

rp_status rp__place_peaks_new(rp_bump *bump, int n, place_peaks *out)
{
    *out = (place_peaks){ rp__bump_alloc(bump, ((int64_t)n_levels(n) * n + 1) * (int64_t)sizeof *out->at), n };
    return out->at ? RP_OK : RP_ERR_MEMORY;
}

void rp__place_peaks_find(place_peaks *p)
{
    for (int level = 1; level < n_levels(p->n); level++) {
        int64_t *here = p->at + (int64_t)level * p->n, *below = here - p->n;
        for (int i = 0; i + (1 << level) <= p->n; i++) {
            int64_t other = below[i + (1 << (level - 1))];
            here[i]       = below[i] > other ? below[i] : other;
        }
    }
}

int64_t rp__place_peak(const place_peaks *p, int first, int last)
{
    int level           = n_levels(last - first + 1) - 1;
    const int64_t *here = p->at + (int64_t)level * p->n;
    int64_t left = here[first], right = here[last + 1 - (1 << level)];

    return left > right ? left : right;
}

/* ---- live bytes ---- */

static rp_status sum_live(place_problem *p, place_peaks *live)
{
    RP_TRY(rp__place_peaks_new(&p->bump, p->n_instants, live));
    for (int i = 0; i < p->n; i++) {
        live->at[p->item[i].first] += p->item[i].bytes;
        if (p->item[i].last + 1 < p->n_instants) live->at[p->item[i].last + 1] -= p->item[i].bytes;
    }
    for (int i = 1; i < p->n_instants; i++) live->at[i] += live->at[i - 1];
    rp__place_peaks_find(live);
    for (int i = 0; i < p->n; i++) p->item[i].tight = rp__place_peak(live, p->item[i].first, p->item[i].last);
    return RP_OK;
}

static rp_status open_problem(place_problem *p, rp_ctx *ctx, const rp_place_buffer *buffer, int n)
{
    place_peaks live;

    *p = (place_problem){ .bump = { .ctx = ctx } };
    RP_TRY(make_items(p, buffer, n));
    RP_TRY(sum_live(p, &live));
    p->roof = p->n ? rp__place_peak(&live, 0, p->n_instants - 1) : 0;
    return RP_OK;
}

/* ---- fixed items ---- */

/* Fixed items at the bottom that live all the time, without holes, become the floor and are no longer items. */
static rp_status lay_floor(place_problem *p)
{
    int n = 0;

    p->order = rp__bump_alloc(&p->bump, (p->n + 1) * (int64_t)sizeof *p->order);
    if (!p->order) return RP_ERR_MEMORY;
    for (int i = 0; i < p->n; i++) p->order[i] = &p->item[i];
    rp__place_sort(p, rp__place_by_offset);
    for (int i = 0; i < p->n; i++) {
        place_item *item = p->order[i];
        if (!item->fixed) continue;
        if (place_end(item) > p->roof) p->roof = place_end(item);
        if (item->offset > p->floor || place_life(item) < p->n_instants) continue;
        p->floor    = place_end(item);
        item->bytes = 0;
    }
    for (int i = 0; i < p->n; i++)
        if (p->item[i].bytes) p->item[n++] = p->item[i];
    p->n = n;
    for (int i = 0; i < n; i++) p->order[i] = &p->item[i];
    return RP_OK;
}

/* ---- the whole placement ---- */

static void set_offsets(const place_problem *p, rp_place_buffer *buffer, int n, rp_placement *out)
{
    out->height = 0;
    for (int i = 0; i < n; i++)
        if (!buffer[i].bytes && buffer[i].offset < 0) buffer[i].offset = 0;
    for (int i = 0; i < p->n; i++) buffer[p->item[i].buffer].offset = p->item[i].offset;
    for (int i = 0; i < n; i++)
        if (buffer[i].bytes && buffer[i].offset + buffer[i].bytes > out->height) out->height = buffer[i].offset + buffer[i].bytes;
}

rp_status rp__place(rp_ctx *ctx, rp_place_buffer *buffer, int n, int64_t most, rp_placement *out)
{
    return rp__place_without(ctx, buffer, n, most, 0, out);
}

rp_status rp__place_without(rp_ctx *ctx, rp_place_buffer *buffer, int n, int64_t most, unsigned without, rp_placement *out)
{
    place_problem p;
    rp_status status   = open_problem(&p, ctx, buffer, n);
    rp_placement found = { .bound = p.roof, .height = p.roof, .placed = p.roof <= most };

    p.most    = most;
    p.without = without;
    if (status == RP_OK && found.placed) status = lay_floor(&p);
    if (status == RP_OK && found.placed) status = rp__place_search(&p, &found.placed);
    if (status == RP_OK) {
        if (found.placed) set_offsets(&p, buffer, n, &found);
        else if (found.height <= most) found.height = most + 1;
        found.work = p.work;
        *out       = found;
    }
    rp__bump_free(&p.bump);
    return status;
}
