/* solve/chain_front.c -- fronts: merge, join, thin and query them. Points are sorted by rising bytes and falling ticks. */
#include "solve/chain_internal.h"

#include <string.h>

#include "base/list.h"

/* The number of points of at most `bytes` bytes. */
static int64_t count_within(rp_chain_front f, int64_t bytes)
{
    int64_t low = 0, high = f.n;

    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (f.at[middle].bytes <= bytes) low = middle + 1;
        else high = middle;
    }
    return low;
}

const rp_chain_point *rp__front_find(rp_chain_front f, int64_t bytes)
{
    int64_t n = count_within(f, bytes);

    return n ? &f.at[n - 1] : NULL;
}

/* An empty front may have a NULL address, to which nothing may be added. */
static rp_chain_front from(rp_chain_front f, int64_t first) { return first ? (rp_chain_front){ f.at + first, f.n - first } : f; }

rp_chain_front rp__front_fast(rp_chain_front f, double ticks)
{
    int64_t low = 0, high = f.n;

    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if ((double)f.at[middle].ticks <= ticks) high = middle;
        else low = middle + 1;
    }
    return from(f, low);
}

/* If the floor lifts several points to the same bytes, only the last one counts. */
static rp_chain_front above_floor(rp_chain_front f, int64_t bytes)
{
    int64_t n = count_within(f, bytes);

    return from(f, n ? n - 1 : 0);
}

static rp_chain_point moved(const rp_chain_point *p, const rp_chain_move *m)
{
    return (rp_chain_point){ rp__more(p->bytes + m->shift, m->floor), p->ticks + m->ticks };
}

int64_t rp__front_merge(rp_chain_front a, rp_chain_front b, const rp_chain_move *move, rp_chain_point *out)
{
    int64_t n = 0, i = 0, j = 0, best = INT64_MAX;
    rp_chain_point next;

    b   = above_floor(b, move->floor - move->shift);
    b.n = count_within(b, move->most - move->shift);
    if (move->floor > move->most) b.n = 0;
    if (b.n) next = moved(b.at, move);
    while (i < a.n && j < b.n) {
        rp_chain_point p = a.at[i];
        if (next.bytes < p.bytes || (next.bytes == p.bytes && next.ticks < p.ticks)) {
            p = next;
            if (++j < b.n) next = moved(&b.at[j], move);
        } else i++;
        if (p.ticks >= best) continue;
        best     = p.ticks;
        out[n++] = p;
    }
    for (; i < a.n; i++)
        if (a.at[i].ticks < best) out[n++] = a.at[i];
    for (; j < b.n; j++)
        if (b.at[j].ticks + move->ticks < best) out[n++] = moved(&b.at[j], move);
    return n;
}

int64_t rp__front_join(rp_chain_front a, int64_t shift_a, rp_chain_front b, int64_t shift_b, const rp_chain_move *move,
                       rp_chain_point *out)
{
    int64_t n = 0, bytes = move->floor;

    if (!a.n || !b.n) return 0;
    bytes = rp__more(bytes, rp__more(a.at[0].bytes + shift_a, b.at[0].bytes + shift_b));
    a     = above_floor(a, bytes - shift_a);
    b     = above_floor(b, bytes - shift_b);
    for (int64_t i = 0, j = 0; bytes <= move->most;) {
        out[n++]        = (rp_chain_point){ bytes, a.at[i].ticks + b.at[j].ticks + move->ticks };
        int64_t after_a = i + 1 < a.n ? a.at[i + 1].bytes + shift_a : INT64_MAX;
        int64_t after_b = j + 1 < b.n ? b.at[j + 1].bytes + shift_b : INT64_MAX;
        if (after_a == INT64_MAX && after_b == INT64_MAX) break;
        i += after_a <= after_b;
        j += after_b <= after_a;
        bytes = rp__less(after_a, after_b);
    }
    return n;
}

/* The number of low bits that do not matter: a cell holds bytes with the same highest `bits` bits. */
static int cell_shift(int64_t bytes, int bits)
{
    int used = bytes > 0 ? 64 - __builtin_clzll((uint64_t)bytes) : 0;

    return used > bits ? used - bits : 0;
}

int64_t rp__front_cell_end(int64_t bytes, int64_t origin, int bits)
{
    int64_t from_origin = bytes - origin;

    if (from_origin < 0) return bytes;
    return origin + (from_origin | ((INT64_C(1) << cell_shift(from_origin, bits)) - 1));
}

/* The point of a cell furthest below the line from its first to its last point. */
static int64_t lowest_in(const rp_chain_point *p, int64_t n)
{
    double bytes = (double)(p[n - 1].bytes - p[0].bytes), ticks = (double)(p[0].ticks - p[n - 1].ticks), most = 0;
    int64_t lowest = n - 1;

    for (int64_t i = 1; i + 1 < n; i++) {
        double below = (double)(p[0].ticks - p[i].ticks) * bytes - (double)(p[i].bytes - p[0].bytes) * ticks;
        if (below <= most) continue;
        most   = below;
        lowest = i;
    }
    return lowest;
}

/* Keeps points of first … end-1, which lie in one cell. Returns the total number of points kept. */
static int64_t keep_cell(rp_chain_point *at, int64_t first, int64_t end, int64_t kept)
{
    int64_t lowest = end - first > 2 ? first + lowest_in(at + first, end - first) : end;

    if (lowest + 1 < end) at[kept++] = at[lowest];
    at[kept++] = at[end - 1];
    return kept;
}

int64_t rp__front_thin(rp_chain_point *at, int64_t n, int64_t origin, int bits)
{
    int64_t kept = 0;

    for (int64_t first = 0, end; first < n; first = end) {
        int64_t last = rp__front_cell_end(at[first].bytes, origin, bits);
        for (end = first + 1; end < n && at[end].bytes <= last;) end++;
        kept = keep_cell(at, first, end, kept);
    }
    return kept;
}

int64_t rp__front_thin_to(rp_chain_point *at, int64_t n, int64_t most)
{
    int64_t kept = 1;

    if (n <= most) return n;
    int64_t width = (at[n - 1].bytes - at[0].bytes) / (most / 2) + 1, origin = at[0].bytes;
    for (int64_t first = 1, end; first < n; first = end) {
        for (end = first + 1; end < n && (at[first].bytes - origin) / width == (at[end].bytes - origin) / width;) end++;
        kept = keep_cell(at, first, end, kept);
    }
    return kept;
}

/* ---- building fronts ---- */

rp_status rp__fronts_merge(rp_chain_fronts *f, rp_chain_front front, const rp_chain_move *move)
{
    RP_TRY(RP_GROW(f->work->ctx, f->other.at, f->other.room, f->front.n + front.n));
    rp_chain_list merged = f->other;

    f->work->work += f->front.n + front.n;
    merged.n = rp__front_merge((rp_chain_front){ f->front.at, f->front.n }, front, move, merged.at);
    f->other = f->front;
    f->front = merged;
    return RP_OK;
}

rp_status rp__fronts_join(rp_chain_fronts *f, rp_chain_front a, int64_t shift_a, rp_chain_front b, int64_t shift_b, const rp_chain_move *move)
{
    rp_chain_move as_it_is = { .floor = RP_CHAIN_NOWHERE, .most = move->most };

    RP_TRY(RP_GROW(f->work->ctx, f->joined.at, f->joined.room, a.n + b.n));
    f->work->work += a.n + b.n;
    f->joined.n = rp__front_join(a, shift_a, b, shift_b, move, f->joined.at);
    return rp__fronts_merge(f, (rp_chain_front){ f->joined.at, f->joined.n }, &as_it_is);
}

rp_status rp__fronts_keep(rp_chain_fronts *f, rp_chain_span *out)
{
    RP_TRY(RP_GROW(f->work->ctx, f->store.at, f->store.room, f->store.n + f->front.n));
    *out = (rp_chain_span){ f->store.n, f->front.n };
    if (f->front.n) memcpy(f->store.at + f->store.n, f->front.at, (size_t)f->front.n * sizeof *f->front.at);
    f->store.n += f->front.n;
    return RP_OK;
}

void rp__fronts_close(rp_chain_fronts *f)
{
    RP_RELEASE(f->store.at, f->front.at, f->other.at, f->joined.at);
}
