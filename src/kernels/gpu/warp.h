/* kernels/gpu/warp.h -- operations of a warp: tensor cores, ldmatrix, shuffles, and copies to shared memory that complete later.
 *
 * CUDA C uses PTX (sm_80 and later). The emulated device exchanges the same fragments between fibers. All 32 lanes of a warp call each operation
 * together, except the copies. Sums of tensor cores are not IEEE on a GPU, so their bits differ there.
 */
#ifndef RP_WARP_H
#define RP_WARP_H

#include "kernels/gpu/dialect.h"

#define LANE (TID % 32)
#define WARP (TID / 32)

#ifdef TARGET_CUDA

FN u32 shared_at(const void *p) { return (u32)__cvta_generic_to_shared(p); }

/* Four 8 x 8 matrices of bf16 from shared memory. Lane i gives the address of row i % 8 of matrix i / 8; each row is aligned to 16 bytes.
 * r[m] holds elements (lane / 4, 2 * (lane % 4)) and the next one of matrix m. */
FN void ldmatrix4(u32 *r, const void *p)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_at(p))
                 : "memory");
}
/* The same for the transposed matrices. */
FN void ldmatrix4_transposed(u32 *r, const void *p)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_at(p))
                 : "memory");
}
/* Two values rounded to bf16: `low` in bits 0-15, `high` in bits 16-31. */
FN u32 pack(float low, float high)
{
    u32 r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
}
/* c[16 x 8] += a[16 x 16] * b[16 x 8]: c fp32, row-major; a bf16, row-major; b bf16, column-major. Fragments as in PTX mma.m16n8k16. */
FN void mma_16816(float *c, const u32 *a, const u32 *b)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
/* Begins a copy of 16 bytes from device to shared memory: `valid` bytes (0 to 16) of the source, then zeros. Both ends are aligned to 16 bytes. */
FN void copy16(void *to, const void *from, int valid)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_at(to)), "l"(from), "r"(valid) : "memory");
}
/* Ends a group of copies of this thread. */
FN void copy_commit(void) { asm volatile("cp.async.commit_group;" ::: "memory"); }
/* Waits until at most n of this thread's newest groups are incomplete; n is a constant. Other threads need a BARRIER() to read the target. */
#define COPY_WAIT(n) asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory")
/* The value of lane LANE ^ mask, and of lane LANE + delta (the own value where that is above 31). */
FN float shuffle_xor(float v, int mask) { return __shfl_xor_sync(0xffffffffu, v, mask); }
FN float shuffle_down(float v, int delta) { return __shfl_down_sync(0xffffffffu, v, (unsigned)delta); }
/* All lanes of the warp wait for each other; shared memory that they wrote is visible afterwards. */
#define WARP_BARRIER() __syncwarp()

#else

FN void ldmatrix4(u32 *r, const void *p)
{
    rp__emulate_aligned(p, "ldmatrix");
    *(const void **)rp__emulate_slot(LANE) = p;
    rp__emulate_warp_sync();
    for (int m = 0; m < 4; m++) {
        const char *row = *(const char **)rp__emulate_slot(m * 8 + LANE / 4);
        memcpy(&r[m], row + LANE % 4 * 4, 4);
    }
    rp__emulate_warp_done();
}

FN void ldmatrix4_transposed(u32 *r, const void *p)
{
    rp__emulate_aligned(p, "ldmatrix");
    *(const void **)rp__emulate_slot(LANE) = p;
    rp__emulate_warp_sync();
    for (int m = 0; m < 4; m++) {
        const bf16 *row = *(const bf16 **)rp__emulate_slot(m * 8 + LANE % 4 * 2), *next = *(const bf16 **)rp__emulate_slot(m * 8 + LANE % 4 * 2 + 1);
        r[m] = row[LANE / 4] | (u32)next[LANE / 4] << 16;
    }
    rp__emulate_warp_done();
}

FN u32 pack(float low, float high) { return narrow(low) | (u32)narrow(high) << 16; }

/* A lane's fragments as fp32: element e of register r is a[2 * r + e]. */
typedef struct { float a[8], b[4], unused[4]; } lane_fragments;
_Static_assert(sizeof(lane_fragments) == RP_EMULATE_SLOT_BYTES, "the slots of a warp are an array of fragments");

FN void mma_16816(float *c, const u32 *a, const u32 *b)
{
    lane_fragments *mine = rp__emulate_slot(LANE);
    for (int i = 0; i < 8; i++) mine->a[i] = FLOAT(i % 2 ? a[i / 2] & 0xffff0000u : a[i / 2] << 16);
    for (int i = 0; i < 4; i++) mine->b[i] = FLOAT(i % 2 ? b[i / 2] & 0xffff0000u : b[i / 2] << 16);
    rp__emulate_warp_sync();
    const lane_fragments *all = rp__emulate_slot(0), *x = all + LANE / 4 * 4, *y = all + LANE % 4 * 8;
    float sums[4] = { 0.0f, 0.0f, 0.0f, 0.0f };
    for (int k = 0; k < 16; k++) {      /* products are exact: the rounding is that of FMA */
        int from = k % 8 / 2, of_a = k / 8 * 4 + k % 2, of_b = k / 8 * 2 + k % 2;
        for (int i = 0; i < 4; i++) sums[i] += x[from].a[of_a + i / 2 * 2] * y[from + i % 2 * 4].b[of_b];
    }
    for (int i = 0; i < 4; i++) c[i] += sums[i];
    rp__emulate_warp_done();
}

FN void copy16(void *to, const void *from, int valid) { rp__emulate_copy(to, from, valid); }
FN void copy_commit(void) { rp__emulate_copy_commit(); }
#define COPY_WAIT(n) rp__emulate_copy_wait(n)

FN float lane_value(float v, int lane)
{
    *(float *)rp__emulate_slot(LANE) = v;
    rp__emulate_warp_sync();
    v = *(float *)rp__emulate_slot(lane);
    rp__emulate_warp_done();
    return v;
}
FN float shuffle_xor(float v, int mask) { return lane_value(v, LANE ^ mask); }
FN float shuffle_down(float v, int delta) { return lane_value(v, LANE + delta < 32 ? LANE + delta : LANE); }
#define WARP_BARRIER() \
    do { \
        rp__emulate_warp_sync(); \
        rp__emulate_warp_done(); \
    } while (0)

#endif

/* The sum of a warp's values, the same bits in all lanes. */
FN float warp_sum(float v)
{
    UNROLL for (int mask = 16; mask > 0; mask /= 2) v += shuffle_xor(v, mask);
    return v;
}
FN float warp_max(float v)
{
    UNROLL for (int mask = 16; mask > 0; mask /= 2)
    {
        float other = shuffle_xor(v, mask);
        v = MAX(v, other);
    }
    return v;
}

#endif
