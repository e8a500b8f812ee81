/* plan/place.c -- fixed buffers, the stack, the top, then clusters of transients. */
#include "plan/place.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_TRIES = 60, MOST_FITS = 4000, MOST_ROUNDS = 12 };         /* orders of a cluster · what hangs from the top is chosen anew */

typedef struct {
    rp_place_buffer *buffer;
    int n, n_events;
    int64_t bound, target;          /* what hangs from the top hangs from `target` */
    int64_t *low, *high;            /* by event: the end of the stack, the begin of the top */
    int *top, n_top;                /* what hangs from the top, by rising offset */
    int *order, n_order;            /* of what is being placed, as indices */
    int *rank;                      /* of each buffer in a cluster: who is placed early */
    int64_t work;
} placer;

/* ---- orders ---- */

static __thread const rp_place_buffer *sorted;      /* what indices mean while they are sorted */
static __thread const int *ranked;

static int by_index(int a, int b) { return a < b ? -1 : a > b; }

static int by_death(const void *left, const void *right)
{
    int a = *(const int *)left, b = *(const int *)right;

    if (sorted[a].end != sorted[b].end) return sorted[a].end > sorted[b].end ? -1 : 1;
    return by_index(a, b);
}

static int by_birth(const void *left, const void *right)
{
    int a = *(const int *)left, b = *(const int *)right;

    if (sorted[a].begin != sorted[b].begin) return sorted[a].begin < sorted[b].begin ? -1 : 1;
    return by_index(a, b);
}

static int by_size(const void *left, const void *right)
{
    int a = *(const int *)left, b = *(const int *)right;

    if (ranked && ranked[a] != ranked[b]) return ranked[a] > ranked[b] ? -1 : 1;
    if (sorted[a].bytes != sorted[b].bytes) return sorted[a].bytes > sorted[b].bytes ? -1 : 1;
    return by_birth(left, right);
}

static int by_life(const void *left, const void *right)
{
    int a = *(const int *)left, b = *(const int *)right, x = sorted[a].end - sorted[a].begin, y = sorted[b].end - sorted[b].begin;

    if (ranked && ranked[a] != ranked[b]) return ranked[a] > ranked[b] ? -1 : 1;
    return x != y ? (x > y ? -1 : 1) : by_size(left, right);
}

static void sort(const placer *p, int *order, int n, const int *rank, int (*by)(const void *, const void *))
{
    sorted = p->buffer;
    ranked = rank;
    qsort(order, (size_t)n, sizeof *order, by);
}

static void pick(placer *p, rp_place_kind kind)
{
    p->n_order = 0;
    for (int i = 0; i < p->n; i++)
        if (p->buffer[i].kind == kind && p->buffer[i].bytes) p->order[p->n_order++] = i;
}

/* ---- what is below and above ---- */

static bool find_bound(placer *p, rp_ctx *ctx)
{
    int64_t *change = rp__host_alloc(ctx, (p->n_events + 1) * (int64_t)sizeof *change), live = 0;

    if (!change) return false;
    for (int i = 0; i < p->n; i++) {
        change[p->buffer[i].begin] += p->buffer[i].bytes;
        change[p->buffer[i].end] -= p->buffer[i].bytes;
    }
    for (int e = 0; e < p->n_events; e++) {
        live += change[e];
        if (live > p->bound) p->bound = live;
    }
    rp__release(change);
    return true;
}

static void raise_low(placer *p, const rp_place_buffer *b)
{
    for (int e = b->begin; e < b->end; e++)
        if (b->offset + b->bytes > p->low[e]) p->low[e] = b->offset + b->bytes;
}

static int64_t lowest(const placer *p, const rp_place_buffer *b)
{
    int64_t at = 0;

    for (int e = b->begin; e < b->end; e++)
        if (p->low[e] > at) at = p->low[e];
    return at;
}

static int64_t highest(const placer *p, const rp_place_buffer *b)
{
    int64_t at = INT64_MAX;

    for (int e = b->begin; e < b->end; e++)
        if (p->high[e] < at) at = p->high[e];
    return at;
}

/* Those that die last lie lowest: what is left at any time in backward is the lower part. */
static void place_stack(placer *p)
{
    memset(p->low, 0, (size_t)p->n_events * sizeof *p->low);
    for (int i = 0; i < p->n; i++)
        if (p->buffer[i].kind == RP_PLACE_FIXED) raise_low(p, &p->buffer[i]);
    pick(p, RP_PLACE_STACK);
    sort(p, p->order, p->n_order, NULL, by_death);
    for (int i = 0; i < p->n_order; i++) {
        rp_place_buffer *b = &p->buffer[p->order[i]];
        b->offset          = lowest(p, b);
        raise_low(p, b);
    }
}

static bool touch(const rp_place_buffer *a, const rp_place_buffer *b) { return a->begin < b->end && b->begin < a->end; }

/* Into a list by rising offset, or rising end. */
static void insert(const placer *p, int *done, int n, int index, bool by_end)
{
    const rp_place_buffer *b = &p->buffer[index];
    int i                    = n;

    while (i > 0) {
        const rp_place_buffer *before = &p->buffer[done[i - 1]];
        if (before->offset + (by_end ? before->bytes : 0) <= b->offset + (by_end ? b->bytes : 0)) break;
        i--;
    }
    memmove(done + i + 1, done + i, (size_t)(n - i) * sizeof *done);
    done[i] = index;
}

/* The highest place among those that hang from the top; done[] is sorted by end. */
static int64_t last_fit(const placer *p, const rp_place_buffer *b, const int *done, int n)
{
    int64_t end = p->target;

    for (int i = n - 1; i >= 0; i--) {
        const rp_place_buffer *other = &p->buffer[done[i]];
        if (!touch(b, other) || other->offset >= end) continue;
        if (other->offset + other->bytes <= end - b->bytes) break;
        end = other->offset;
    }
    return end - b->bytes;
}

/* In order of birth. */
static void place_top(placer *p, int *done)
{
    for (int e = 0; e < p->n_events; e++) p->high[e] = p->target;
    pick(p, RP_PLACE_TOP);
    sort(p, p->order, p->n_order, NULL, by_birth);
    for (int i = 0; i < p->n_order; i++) {
        rp_place_buffer *b = &p->buffer[p->order[i]];
        b->offset          = last_fit(p, b, done, i);
        insert(p, done, i, p->order[i], true);
        for (int e = b->begin; e < b->end; e++)
            if (b->offset < p->high[e]) p->high[e] = b->offset;
    }
    p->work += p->n_order;
    p->n_top = p->n_order;
    memcpy(p->top, p->order, (size_t)p->n_top * sizeof *p->top);
    for (int i = 0; i < p->n_top; i++) insert(p, p->top, i, p->order[i], false);
}

/* ---- transients ---- */

/* From `at` on, the lowest place among those of a list by rising offset. */
static int64_t fit_among(const placer *p, const rp_place_buffer *b, int64_t at, const int *list, int n)
{
    for (int i = 0; i < n; i++) {
        const rp_place_buffer *other = &p->buffer[list[i]];
        if (other->offset >= at + b->bytes) break;
        if (touch(b, other) && other->offset + other->bytes > at) at = other->offset + other->bytes;
    }
    return at;
}

/* The lowest place above the stack, in a hole of the top too, among those of the cluster that have one: done[], by rising offset. */
static int64_t first_fit(const placer *p, const rp_place_buffer *b, const int *done, int n)
{
    int64_t at = lowest(p, b), before;

    if (at + b->bytes <= highest(p, b) || !p->n_top) at = fit_among(p, b, at, done, n);
    if (at + b->bytes <= highest(p, b)) return at;
    do {
        before = at;
        at     = fit_among(p, b, fit_among(p, b, at, done, n), p->top, p->n_top);
    } while (at > before);
    return at;
}

/* One order: by how much it sticks out above the target, and who does first. */
static int64_t try_order(placer *p, const int *order, int n, int *done, int *culprit)
{
    int64_t most = 0;

    *culprit = -1;
    for (int i = 0; i < n; i++) {
        rp_place_buffer *b = &p->buffer[order[i]];
        b->offset          = first_fit(p, b, done, i);
        insert(p, done, i, order[i], false);
        int64_t out = b->offset + b->bytes - p->target;
        if (out > 0 && *culprit < 0) *culprit = order[i];
        if (out > most) most = out;
    }
    p->work += n;
    return most;
}

/* Who stuck out goes earlier next time; after a while the other order is begun with. */
static int64_t place_cluster(placer *p, int *order, int n, int *done, int64_t *best)
{
    static int (*const by[])(const void *, const void *) = { by_size, by_life, by_birth };
    int64_t least = INT64_MAX;
    int culprit;

    for (int k = 0; k < RP_COUNT(by) && least > 0; k++) {
        for (int i = 0; i < n; i++) p->rank[order[i]] = 0;
        for (int try = 0; try < MOST_TRIES && least > 0 && (try < 2 || (int64_t)try * n < MOST_FITS); try++) {
            sort(p, order, n, p->rank, by[k]);
            int64_t out = try_order(p, order, n, done, &culprit);
            if (out < least) {
                least = out;
                for (int i = 0; i < n; i++) best[order[i]] = p->buffer[order[i]].offset;
            }
            if (culprit >= 0) p->rank[culprit] += 1 + try % 3;
            if (by[k] == by_birth) break;
        }
    }
    for (int i = 0; i < n; i++) p->buffer[order[i]].offset = best[order[i]];
    return least;
}

/* Clusters follow each other in time. */
static int64_t place_transients(placer *p, int *done, int64_t *best)
{
    int64_t most = 0;

    pick(p, RP_PLACE_TRANSIENT);
    sort(p, p->order, p->n_order, NULL, by_birth);
    for (int i = 0, n; i < p->n_order; i += n) {
        int end = p->buffer[p->order[i]].end;
        for (n = 1; i + n < p->n_order && p->buffer[p->order[i + n]].begin < end; n++)
            if (p->buffer[p->order[i + n]].end > end) end = p->buffer[p->order[i + n]].end;
        int64_t out = place_cluster(p, p->order + i, n, done, best);
        if (out > most) most = out;
    }
    return most;
}

/* ---- all of it ---- */

static int64_t height_of(const placer *p)
{
    int64_t height = 0;

    for (int i = 0; i < p->n; i++)
        if (p->buffer[i].bytes && p->buffer[i].offset + p->buffer[i].bytes > height) height = p->buffer[i].offset + p->buffer[i].bytes;
    return height;
}

/* What sticks out hangs from the top in the next round, in its turn of birth. */
static bool promote(placer *p)
{
    bool any = false;

    for (int i = 0; i < p->n; i++) {
        rp_place_buffer *b = &p->buffer[i];
        if (b->kind != RP_PLACE_TRANSIENT || !b->bytes || b->offset + b->bytes <= p->target) continue;
        b->kind = RP_PLACE_TOP;
        any     = true;
    }
    return any;
}

/* By how much the stack reaches into the top. */
static int64_t meet(const placer *p)
{
    int64_t most = 0;

    for (int e = 0; e < p->n_events; e++)
        if (p->low[e] - p->high[e] > most) most = p->low[e] - p->high[e];
    return most;
}

static void place_rounds(placer *p, int *done, int64_t *best, int64_t *kept, rp_placement *out)
{
    p->target = p->bound;
    for (int round = 0; round < MOST_ROUNDS && out->height > out->bound; round++) {
        place_stack(p);
        place_top(p, done);
        int64_t met = meet(p);
        p->target += met;
        if (met) continue;              /* the two overlap: once more, from higher up */
        place_transients(p, done, best);
        int64_t height = height_of(p);
        for (int i = 0; i < p->n && height < out->height; i++) kept[i] = p->buffer[i].offset;
        if (height < out->height) out->height = height;
        if (!promote(p)) break;
    }
}

/* What lives long hangs from the top, and if that does not do, lies among transients. */
static void place_ways(placer *p, int *done, int64_t *best, int64_t *kept, rp_place_kind *kind, rp_placement *out)
{
    *out = (rp_placement){ .bound = p->bound, .height = INT64_MAX };
    for (int i = 0; i < p->n; i++) kind[i] = p->buffer[i].kind;
    for (int way = 0; way < 2 && out->height > out->bound; way++) {
        for (int i = 0; i < p->n; i++) p->buffer[i].kind = way && kind[i] == RP_PLACE_HIGH ? RP_PLACE_TRANSIENT : kind[i] == RP_PLACE_HIGH ? RP_PLACE_TOP : kind[i];
        place_rounds(p, done, best, kept, out);
    }
    RP_BUG_IF(out->height == INT64_MAX);
    out->work = p->work;
    for (int i = 0; i < p->n; i++) {
        p->buffer[i].offset = kept[i];
        p->buffer[i].kind   = kind[i];
    }
}

static rp_status run(placer *p, rp_ctx *ctx, rp_placement *out)
{
    int64_t n     = p->n + 1;
    int64_t *best = rp__host_alloc(ctx, 2 * n * (int64_t)sizeof *best);
    rp_place_kind *kind = rp__host_alloc(ctx, n * (int64_t)sizeof *kind);
    int *done     = rp__host_alloc(ctx, 4 * n * (int64_t)sizeof *done);
    p->low        = rp__host_alloc(ctx, 2 * (p->n_events + 1) * (int64_t)sizeof *p->low);
    bool room     = done && best && kind && p->low && find_bound(p, ctx);

    if (room) {
        p->high  = p->low + p->n_events + 1;
        p->order = done + n;
        p->rank  = p->order + n;
        p->top   = p->rank + n;
        place_ways(p, done, best, best + n, kind, out);
    }
    rp__release(done);
    rp__release(kind);
    rp__release(best);
    rp__release(p->low);
    return room ? RP_OK : RP_ERR_MEMORY;
}

rp_status rp__place(rp_ctx *ctx, rp_place_buffer *buffer, int n, rp_placement *out)
{
    placer p = { .buffer = buffer, .n = n };

    for (int i = 0; i < n; i++)
        if (buffer[i].end > p.n_events) p.n_events = buffer[i].end;
    return run(&p, ctx, out);
}
