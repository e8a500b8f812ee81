/* kernels/gpu/attention_rows.h -- common to all kernels of attention: places of rows, the keys that a query sees, and dropout's bits. */
#ifndef RP_GPU_ATTENTION_ROWS_H
#define RP_GPU_ATTENTION_ROWS_H

#include "kernels/gpu/warp.h"
#include "kernels/gpu/args.h"
#include "kernels/gpu/random.h"

#ifdef TARGET_CUDA
#define UNROLL_4 _Pragma("unroll 4")
/* Keeps values computed from `v` inside the loop that calls it. Otherwise the compiler holds many addresses in registers. */
#define VARY(v) asm volatile("" : "+r"(v))
#else
#define UNROLL_4
#define VARY(v) (void)(v)
#endif

/* ---- places ---- */

FN i64 row_step(attention_part p) { return (i64)(p.row & (((u64)1 << ATTENTION_STEP_BITS) - 1)); }
FN i64 head_step(attention_part p) { return (i64)(p.head & (((u64)1 << ATTENTION_STEP_BITS) - 1)); }
FN i64 batch_step(attention_part p) { return (i64)(p.row >> ATTENTION_STEP_BITS | p.head >> ATTENTION_STEP_BITS << (64 - ATTENTION_STEP_BITS)); }
/* The first element of row 0 of a head. */
FN i64 head_at(attention_part p, int batch, int head) { return batch * batch_step(p) + head * head_step(p); }

/* ---- keys that a query sees ---- */

typedef struct { int low, high; } key_range;
/* For several queries: some of them see keys of [low, high) and none sees others; all of them see [all_low, all_high). */
typedef struct { int low, high, all_low, all_high; } tile_range;

#define NO_LOW 0x3fffffff       /* larger than any key */

FN key_range range_of(int low, int high)
{
    key_range r;

    r.low  = low < high ? low : 0;
    r.high = low < high ? high : 0;
    return r;
}

/* By position: without documents. */
FN key_range range_at(int position, int keys, int window, int causal)
{
    return range_of(window && position >= window ? position - window + 1 : 0, causal ? MAX(position + 1, 0) : keys);
}

FN key_range range_of_query(const attention_args *a, int batch, int query)
{
    if (a->ranges) {
        const int *at = G(const int, a->ranges) + ((i64)batch * a->queries + query) * 2;
        return range_of(at[0], at[1]);
    }
    return range_at(a->keys - a->queries + query, a->keys, a->window, a->causal);
}

FN tile_range tile_empty(void)
{
    tile_range r;

    r.low      = NO_LOW;
    r.all_high = NO_LOW;
    r.high     = 0;
    r.all_low  = 0;
    return r;
}

FN tile_range tile_join(tile_range a, tile_range b)
{
    a.low      = MIN(a.low, b.low);
    a.high     = MAX(a.high, b.high);
    a.all_low  = MAX(a.all_low, b.all_low);
    a.all_high = MIN(a.all_high, b.all_high);
    return a;
}

FN tile_range tile_of_query(key_range q)
{
    tile_range r;

    r.low      = q.high ? q.low : NO_LOW;
    r.high     = q.high;
    r.all_low  = q.low;
    r.all_high = q.high;
    return r;
}

FN int int_xor(int v, int mask) { return (int)BITS(shuffle_xor(FLOAT((u32)v), mask)); }

FN tile_range tile_of_warp(tile_range r)
{
    UNROLL for (int mask = 16; mask > 0; mask /= 2)
    {
        tile_range other;
        other.low      = int_xor(r.low, mask);
        other.high     = int_xor(r.high, mask);
        other.all_low  = int_xor(r.all_low, mask);
        other.all_high = int_xor(r.all_high, mask);
        r              = tile_join(r, other);
    }
    return r;
}

/* Fills low[rows] and high[rows] for the queries from `first` on, and joins them. Queries past the last see the same keys as the last: they make no
 * tile masked, and their results are not stored. All `threads` of the block call it; it has a barrier. */
FN tile_range range_of_block(const attention_args *a, int batch, int first, int rows, int threads, int *low, int *high)
{
    tile_range r = tile_empty();

    for (int i = TID; i < rows; i += threads) {
        key_range q = range_of_query(a, batch, MIN(first + i, a->queries - 1));
        low[i]  = q.low;
        high[i] = q.high;
    }
    BARRIER();
    for (int i = LANE; i < rows; i += 32) r = tile_join(r, tile_of_query(range_of(low[i], high[i])));
    return tile_of_warp(r);
}

/* The range of `rows` queries from `first` on, a part of one tile, or of that tile, which is wider. */
FN tile_range range_of_tile(const attention_args *a, int batch, int first, int rows)
{
    tile_range r;

    if (a->tiles) {
        int tiles     = (a->queries + ATTENTION_TILE - 1) / ATTENTION_TILE;
        const int *at = G(const int, a->tiles) + ((i64)batch * tiles + first / ATTENTION_TILE) * 4;
        r.low      = at[0];
        r.high     = at[1];
        r.all_low  = at[2];
        r.all_high = at[3];
        return r;
    }
    return tile_join(tile_of_query(range_of_query(a, batch, first)), tile_of_query(range_of_query(a, batch, MIN(first + rows, a->queries) - 1)));
}

/* ---- dropout ---- */

/* `count` bits, at most 32: whether the elements from `element` on of a sample are kept. */
FN u32 draw_kept(const attention_args *a, int batch, i64 element, int count)
{
    int shift = (int)(element & 3);
    u64 bits  = 0;

    ROLLED for (int i = 0; 4 * i < count + shift; i++) {
        random4 r = stream_block(a->key, a->stream, batch, (element >> 2) + i);
        u32 four  = (u32)(r.word[0] >= a->limit) | (u32)(r.word[1] >= a->limit) << 1 | (u32)(r.word[2] >= a->limit) << 2 | (u32)(r.word[3] >= a->limit) << 3;
        bits |= (u64)four << 4 * i;
    }
    return (u32)(bits >> shift);
}

/* The place of a probability in the dropout stream of its sample. */
FN i64 element_of(const attention_args *a, int head, int query, int key) { return ((i64)head * a->queries + query) * a->keys + key; }

/* ---- results ---- */

FN void put_one(u64 address, int dtype, int adds, i64 at, float v) { store(dtype, address, at, adds ? load(dtype, address, at) + v : v); }

/* Two neighbours. `paired`: they are aligned to their common size. */
FN void put_two(u64 address, int dtype, int adds, int paired, i64 at, float one, float two)
{
    if (!paired) {
        put_one(address, dtype, adds, at, one);
        put_one(address, dtype, adds, at + 1, two);
        return;
    }
    if (adds) {
        one = load(dtype, address, at) + one;
        two = load(dtype, address, at + 1) + two;
    }
    if (dtype == BF16) *G(u32, address + (u64)at * 2) = pack(one, two);
    else *G(u64, address + (u64)at * 4) = (u64)BITS(one) | (u64)BITS(two) << 32;
}

/* Where the results go: rows first … of a head. */
typedef struct { attention_part to; i64 at; int dtype, adds, paired, first, end, dim; } target;

FN target target_of(attention_part to, int dtype, int adds, int paired, int batch, int head, int first, int end, int dim)
{
    target t;

    t.to     = to;
    t.at     = head_at(to, batch, head);
    t.dtype  = dtype;
    t.adds   = adds;
    t.paired = paired;
    t.first  = first;
    t.end    = end;
    t.dim    = dim;
    return t;
}

#endif
