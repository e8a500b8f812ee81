/* kernels/gpu/elements.h -- elements of any dtype, PACK of them at a time, and sums over the threads of a row.
 *
 *   bf16 or fp32 --pack_load--> PACK floats --pack_put--> bf16 (rounded once) or fp32, assigned or added to
 *
 * A pack is read as 16-byte words if `packed` says that all rows allow it, else element by element. The bits are the same.
 */
#ifndef RP_GPU_ELEMENTS_H
#define RP_GPU_ELEMENTS_H

#include "kernels/gpu/args.h"
#include "kernels/gpu/warp.h"

/* Four words of 16 aligned bytes. */
#ifdef TARGET_CUDA
typedef struct __align__(16) { u32 w[4]; } quad;
#else
typedef struct { u32 w[4]; } quad;
#endif

FN i64 smaller(i64 one, i64 two) { return one < two ? one : two; }

/* n / d, both at least 0. Division of 64 bits takes many instructions. */
FN i64 quotient(i64 n, i64 d) { return (u64)(n | d) >> 32 ? n / d : (i64)((u32)n / (u32)d); }

/* The element that belongs to item i, in row-major order, of the extents in `over`, in an operand that has the extents in `has` (rp_spread). */
#define ALL_EXTENTS 0xffffffffu
FN_ONCE i64 spread_place(const i64 *dim, int ndim, u32 has, u32 over, i64 i)
{
    i64 at = 0, step = 1;

    for (int d = ndim - 1; d >= 0; d--) {
        i64 index = 0;
        if (over >> d & 1) {
            i64 rest = quotient(i, dim[d]);
            index = i - rest * dim[d];
            i     = rest;
        }
        if (!(has >> d & 1)) continue;
        at += index * step;
        step *= dim[d];
    }
    return at;
}

FN void quad_floats(quad q, float *v)
{
    UNROLL for (int j = 0; j < 4; j++) v[j] = FLOAT(q.w[j]);
}

FN void pack_load(int dtype, u64 from, i64 at, int count, int packed, float *v)
{
    if (packed && count == PACK) {
        if (dtype == F32) {
            const quad *q = G(const quad, from + (u64)at * 4);
            quad_floats(q[0], v);
            quad_floats(q[1], v + 4);
        } else {
            quad q = *G(const quad, from + (u64)at * 2);
            UNROLL for (int j = 0; j < 4; j++) {
                v[2 * j]     = FLOAT(q.w[j] << 16);
                v[2 * j + 1] = FLOAT(q.w[j] & 0xffff0000u);
            }
        }
        return;
    }
    if (dtype == F32)
        UNROLL for (int j = 0; j < PACK; j++) v[j] = j < count ? G(const float, from)[at + j] : 0.0f;
    else
        UNROLL for (int j = 0; j < PACK; j++) v[j] = j < count ? wide(G(const bf16, from)[at + j]) : 0.0f;
}

FN void pack_store(int dtype, u64 to, i64 at, int count, int packed, const float *v)
{
    if (packed && count == PACK) {
        if (dtype == F32) {
            quad *q = G(quad, to + (u64)at * 4);
            quad low, high;
            UNROLL for (int j = 0; j < 4; j++) {
                low.w[j]  = BITS(v[j]);
                high.w[j] = BITS(v[4 + j]);
            }
            q[0] = low;
            q[1] = high;
        } else {
            quad q;
            UNROLL for (int j = 0; j < 4; j++) q.w[j] = (u32)narrow(v[2 * j]) | (u32)narrow(v[2 * j + 1]) << 16;
            *G(quad, to + (u64)at * 2) = q;
        }
        return;
    }
    if (dtype == F32) {
        UNROLL for (int j = 0; j < PACK; j++)
            if (j < count) G(float, to)[at + j] = v[j];
    } else {
        UNROLL for (int j = 0; j < PACK; j++)
            if (j < count) G(bf16, to)[at + j] = narrow(v[j]);
    }
}

/* Assigns or adds; changes v. */
FN void pack_put(int dtype, u64 to, i64 at, int count, int packed, int adds, float *v)
{
    float old[PACK];

    if (adds) {
        pack_load(dtype, to, at, count, packed, old);
        UNROLL for (int j = 0; j < PACK; j++) v[j] = old[j] + v[j];
    }
    pack_store(dtype, to, at, count, packed, v);
}

FN void put(int dtype, u64 to, i64 at, int adds, float value) { store(dtype, to, at, adds ? load(dtype, to, at) + value : value); }

/* Number of elements of the pack at i of a row of n. */
FN int pack_count(i64 i, i64 n) { return n - i < PACK ? (int)(n - i) : PACK; }

/* ---- a kernel that also runs several launches at once ---- */

/* KERNEL_MANY(name, threads, args_struct) { ... a.field ... block ... } is KERNEL for a grid of one dimension, where `block` is BX. It also defines the
 * kernel name_many, whose arguments are many_args_struct. */
#define KERNEL_MANY(name, threads, args) KERNEL_MANY_AS(KERNEL, name, threads, args)
#define KERNEL_MANY_AS(KIND, name, threads, args) \
    FN void name##_block(args a, int block); \
    KIND(name, threads, args) { name##_block(a, BX); } \
    KIND(name##_many, threads, many_##args) \
    { \
        int i = a.head.n - 1; \
        while (BX < a.head.start[i]) i--; \
        name##_block(a.item[i], BX - a.head.start[i]); \
    } \
    FN void name##_block(args a, int block)

/* ---- a row is computed by a team: a warp, or all ROW_THREADS of the block ---- */

#define TEAM_ROW_OF(block, team) ((i64)(block) * (ROW_THREADS / (team)) + TID / (team))
#define TEAM_ROW(team) TEAM_ROW_OF(BX, team)
/* The loop of a thread over its packs of a row of n elements, in a team. */
#define PACKS(i, n, team) for (i64 i = (i64)(TID % (team)) * PACK; i < (n); i += (i64)(team) * PACK)

/* The sum or maximum of the values of a team; each thread gets the same bits. `part` is shared memory for ROW_THREADS / 32 numbers. Every
 * thread of the block calls it, those without a row, too. */
FN float team_sum(float *part, int team, float v)
{
    v = warp_sum(v);
    if (team == 32) return v;
    BARRIER();                  /* the numbers of the call before have been read */
    if (TID % 32 == 0) part[TID / 32] = v;
    BARRIER();
    v = part[0];
    UNROLL for (int w = 1; w < ROW_THREADS / 32; w++) v += part[w];
    return v;
}

FN float team_max(float *part, int team, float v)
{
    v = warp_max(v);
    if (team == 32) return v;
    BARRIER();
    if (TID % 32 == 0) part[TID / 32] = v;
    BARRIER();
    v = part[0];
    UNROLL for (int w = 1; w < ROW_THREADS / 32; w++) v = part[w] > v ? part[w] : v;
    return v;
}

#endif
