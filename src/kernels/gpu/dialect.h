/* kernels/gpu/dialect.h -- the language of kernels: one source, compiled as CUDA C by NVRTC and as C11 for the emulated device.
 *
 *   KERNEL(name, threads, args_struct) { ... a.field ... }         one thread of a block; `a` is the struct of arguments, at most 4,096 bytes
 *   KERNEL_SHARED(name, threads, args_struct, dynamic_bytes)       the same with dynamic shared memory, at DYNAMIC_SHARED (char *, aligned to 1024)
 *   SHARED ALIGN(16) float x[64];                                  static shared memory, inside a kernel; its first content is undefined
 *   TABLE float t[4] = { ... };                                    constants, outside kernels
 *   UNROLL for ...   ROLLED for ...                                 a loop that is unrolled, or that has its code once
 *   G(type, a.field)                                               a pointer to device memory, from a u64 address
 *   BARRIER()                                                      all threads of the block that still run
 *   TID  BX BY BZ  NBX NBY NBZ                                      thread, block and number of blocks, as int
 *
 * In C11 a kernel defines `const rp_gpu_kernel rp__gpu_<name>` (device/launch.h), in CUDA C a function `name`.
 *
 * Bits: functions of this file give the same bits with every compiler, provided that nothing contracts a product and a sum (-fmad=false,
 * -ffp-contract=off). They use only IEEE operations and FMA, and call no math library. Each NaN that they return is 0x7fffffff (bf16: 0x7fff).
 * Results below 2^-126 are 0 in exp2_, exp_ and sigmoid_.
 */
#ifndef RP_DIALECT_H
#define RP_DIALECT_H

#ifdef __CUDACC__ /* ---- CUDA C ---- */

#define TARGET_CUDA 1
typedef unsigned long long u64;
typedef long long i64;
typedef unsigned u32;
typedef int i32;
typedef unsigned char u8;
typedef unsigned short u16;
typedef u16 bf16;

#define KERNEL(name, threads, args) extern "C" __global__ void __launch_bounds__(threads) name(const __grid_constant__ args a)
#define KERNEL_SHARED(name, threads, args, dynamic_bytes) KERNEL(name, threads, args)
extern "C" __shared__ __align__(1024) char rp_dynamic_shared[];
#define DYNAMIC_SHARED rp_dynamic_shared
#define FN static __device__ __forceinline__
#define FN_ONCE static __device__ __noinline__
#define SHARED __shared__
#define TABLE static __device__ const
#define ALIGN(n) __align__(n)
#define UNROLL _Pragma("unroll")
#define ROLLED _Pragma("unroll 1")
#define G(type, address) ((type *)(address))
#define BARRIER() __syncthreads()
#define TID ((int)threadIdx.x)
#define BX ((int)blockIdx.x)
#define BY ((int)blockIdx.y)
#define BZ ((int)blockIdx.z)
#define NBX ((int)gridDim.x)
#define NBY ((int)gridDim.y)
#define NBZ ((int)gridDim.z)
#define FMA(x, y, z) __fmaf_rn(x, y, z)
#define SQRT(x) __fsqrt_rn(x)
#define DSQRT(x) __dsqrt_rn(x)
#define MULHI(x, y) __umulhi(x, y)
#define BITS(f) __float_as_uint(f)
#define FLOAT(u) __uint_as_float(u)
FN bf16 narrow(float f)
{
    bf16 r;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r) : "f"(f));
    return r;
}
FN float widened(u16 half)
{
    float r;
    asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(half));
    return r;
}

#else /* ---- C11, a thread is a fiber ---- */

#include <stdint.h>
#include <string.h>

#include "base/convert.h"
#include "device/emulate/emulate.h"
#include "device/launch.h"
#include "reprise/op.h"

#define TARGET_EMULATED 1
typedef uint64_t u64;
typedef int64_t i64;
typedef uint32_t u32;
typedef int32_t i32;
typedef uint8_t u8;
typedef uint16_t u16;
typedef u16 bf16;

#define KERNEL(name, threads, args) KERNEL_SHARED(name, threads, args, 0)
#define KERNEL_SHARED(name, threads_, args, dynamic_bytes) \
    static void name##_thread(const args a); \
    static void name##_run(const void *p) { name##_thread(*(const args *)p); } \
    extern const rp_gpu_kernel rp__gpu_##name; \
    const rp_gpu_kernel rp__gpu_##name = { #name, name##_run, threads_, (int)sizeof(args), dynamic_bytes, 0 }; \
    _Static_assert(sizeof(args) <= RP_GPU_ARGS_BYTES, "the arguments of " #name " are too long"); \
    static void name##_thread(const args a __attribute__((unused)))
#define DYNAMIC_SHARED ((char *)rp__emulate_dynamic_shared)
#define FN static inline __attribute__((unused))
#define FN_ONCE FN
#define SHARED RP_EMULATE_SHARED
#define TABLE static const
#define ALIGN(n) _Alignas(n)
#define UNROLL
#define ROLLED
#define G(type, address) ((type *)((uintptr_t)(address) + rp__emulate_distance))
#define BARRIER() rp__emulate_barrier()
#define TID (rp__emulate_now.thread)
#define BX (rp__emulate_now.block[0])
#define BY (rp__emulate_now.block[1])
#define BZ (rp__emulate_now.block[2])
#define NBX (rp__emulate_now.blocks[0])
#define NBY (rp__emulate_now.blocks[1])
#define NBZ (rp__emulate_now.blocks[2])
#define FMA(x, y, z) __builtin_fmaf(x, y, z)
#define SQRT(x) __builtin_sqrtf(x)
#define DSQRT(x) __builtin_sqrt(x)
FN u32 MULHI(u32 x, u32 y) { return (u32)((u64)x * y >> 32); }
FN u32 BITS(float f)
{
    u32 u;
    memcpy(&u, &f, sizeof u);
    return u;
}
FN float FLOAT(u32 u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}
FN bf16 narrow(float f)
{
    u32 u = BITS(f);
    if ((u & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
    return (bf16)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}
FN float widened(u16 half) { return rp__f32_from_f16(half); }
_Static_assert(RP_F32 == 0 && RP_BF16 == 1, "F32 and BF16 below are the library's values");

#endif

/* ---- values ---- */

enum { F32 = 0, BF16 = 1 };     /* values of a dtype argument; those of rp_dtype */

#define MIN(x, y) ((x) < (y) ? (x) : (y))
#define MAX(x, y) ((x) > (y) ? (x) : (y))
#define INFINITE FLOAT(0x7f800000u)
#define NOT_A_NUMBER FLOAT(0x7fffffffu)

FN float ABS(float x) { return FLOAT(BITS(x) & 0x7fffffffu); }
FN int is_nan(float x) { return (BITS(x) & 0x7fffffffu) > 0x7f800000u; }
FN float with_sign(float magnitude, float sign) { return FLOAT((BITS(magnitude) & 0x7fffffffu) | (BITS(sign) & 0x80000000u)); }
/* bf16 to fp32. `narrow` above rounds fp32 to bf16, to the nearest, ties to even; `widened` makes fp32 of fp16. */
FN float wide(bf16 v) { return FLOAT((u32)v << 16); }

/* Element `index` of an array of F32 or BF16 at a device address. */
FN float load(i32 dtype, u64 address, i64 index) { return dtype == BF16 ? wide(G(const bf16, address)[index]) : G(const float, address)[index]; }
FN void store(i32 dtype, u64 address, i64 index, float value)
{
    if (dtype == BF16) G(bf16, address)[index] = narrow(value);
    else G(float, address)[index] = value;
}
/* The value that a later `load` returns after `store`. */
FN float rounded(i32 dtype, float value) { return dtype == BF16 ? wide(narrow(value)) : value; }

/* ---- functions: at most 2 ulp from the exact value, sigmoid_ at most 3 ---- */

/* The nearest whole number, ties to even, for |x| < 2^22. */
FN float nearest(float x) { return (x + 12582912.0f) - 12582912.0f; }

/* p * 2^n, where the result is a normal number. */
FN float scaled(float p, int n) { return FLOAT(BITS(p) + ((u32)n << 23)); }

FN float exp2_(float x)
{
    if (is_nan(x)) return NOT_A_NUMBER;
    if (x >= 128.0f) return INFINITE;
    if (x < -126.0f) return 0.0f;
    float n = nearest(x), f = x - n, p = 0.000154732344f;
    p = FMA(p, f, 0.00134004366f);
    p = FMA(p, f, 0.00961801541f);
    p = FMA(p, f, 0.0555032723f);
    p = FMA(p, f, 0.240226512f);
    p = FMA(p, f, 0.693147207f);
    return scaled(FMA(p, f, 1.0f), (int)n);
}

FN float exp_(float x)
{
    if (is_nan(x)) return NOT_A_NUMBER;
    if (x > 88.7228317f) return INFINITE;
    if (x < -87.3365402f) return 0.0f;
    float n = nearest(x * 1.44269504f), r = FMA(n, -0.693145752f, x), p = 0.00139504176f;
    r = FMA(n, -1.42860677e-6f, r);
    p = FMA(p, r, 0.00836891828f);
    p = FMA(p, r, 0.0416662068f);
    p = FMA(p, r, 0.166665186f);
    p = FMA(p, r, 0.5f);
    return scaled(FMA(FMA(p, r, 1.0f), r, 1.0f), (int)n);
}

/* x = 2^exponent * (1 + f) with f in [-0.293, 0.415], for a finite x > 0; returns log(1 + f) - f. */
FN float log_parts(float x, float *exponent, float *f)
{
    float e = 0.0f, p = 0.0675803551f, m, s;
    if (x < 1.17549435e-38f) {
        x *= 8388608.0f;
        e = -23.0f;
    }
    int n = (int)((BITS(x) - 0x3f3504f3u) & 0xff800000u) >> 23;
    m = FLOAT(BITS(x) - ((u32)n << 23));
    *exponent = e + (float)n;
    *f = m - 1.0f;
    s = *f * *f;
    p = FMA(p, *f, -0.11686771f);
    p = FMA(p, *f, 0.118888984f);
    p = FMA(p, *f, -0.12403608f);
    p = FMA(p, *f, 0.14219166f);
    p = FMA(p, *f, -0.16668109f);
    p = FMA(p, *f, 0.200021453f);
    p = FMA(p, *f, -0.250000075f);
    p = FMA(p, *f, 0.333333121f);
    return FMA(p * *f, s, -0.5f * s);
}

/* The logarithm of a number that is not finite and positive. */
FN float log_special(float x)
{
    if (x == 0.0f) return -INFINITE;
    return x > 0.0f ? x : NOT_A_NUMBER;
}

FN float log_(float x)
{
    float n, f, y;
    if (!(x > 0.0f && x < INFINITE)) return log_special(x);
    y = log_parts(x, &n, &f);
    y = FMA(n, 1.42860677e-6f, y);
    return FMA(n, 0.693145752f, f + y);
}

FN float log2_(float x)
{
    float n, f, y, sum, rest;
    if (!(x > 0.0f && x < INFINITE)) return log_special(x);
    y = log_parts(x, &n, &f);
    sum = f + y;
    rest = (f - sum) + y;
    rest = FMA(rest, 1.44269504f, sum * 1.92596299e-8f);
    return n + FMA(sum, 1.44269504f, rest);
}

FN float tanh_(float x)
{
    float t = ABS(x), s = x * x, p = -0.00629920168f;
    if (is_nan(x)) return NOT_A_NUMBER;
    if (t > 9.1f) return with_sign(1.0f, x);
    if (t > 0.54f) return with_sign(1.0f - 2.0f / (exp_(2.0f * t) + 1.0f), x);
    p = FMA(p, s, 0.0210887449f);
    p = FMA(p, s, -0.0538563098f);
    p = FMA(p, s, 0.133326228f);
    p = FMA(p, s, -0.333333186f);
    return FMA(p * s, x, x);
}

FN float erf_(float x)
{
    float t = ABS(x), s = x * x, p;
    if (is_nan(x)) return NOT_A_NUMBER;
    if (t > 4.0f) return with_sign(1.0f, x);
    if (t > 0.93f) {
        p = FMA(-2.11665519e-5f, t, 0.000435269836f);
        p = FMA(p, t, -0.00417487705f);
        p = FMA(p, t, 0.0251292086f);
        p = FMA(p, t, -0.108294802f);
        p = FMA(p, t, -0.633333916f);
        p = FMA(p, t, -1.12952117f);
        return with_sign(1.0f - exp_(FMA(p, t, 0.000175942738f)), x);
    }
    p = FMA(8.32733828e-5f, s, -0.000813317656f);
    p = FMA(p, s, 0.0052002569f);
    p = FMA(p, s, -0.0268591183f);
    p = FMA(p, s, 0.112836912f);
    p = FMA(p, s, -0.376126335f);
    p = FMA(p, s, 0.128379167f);
    return FMA(p, x, x);
}

FN float sigmoid_(float x)
{
    float e = exp_(-ABS(x));
    if (is_nan(x)) return NOT_A_NUMBER;
    return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

/* ---- a block ---- */

/* Sums or maxima over a block, in the same tree for every schedule: thread t adds the value of thread t + h, for h = threads / 2 ... 1.
 * All threads call it. `threads` is a power of two, `shared` an array of as many floats. The result is shared[0], and all threads may read it at
 * once. Call BARRIER() before `shared` changes again. */
#define BLOCK_TREE(shared, threads, value, join) \
    do { \
        (shared)[TID] = (value); \
        BARRIER(); \
        for (int half_ = (threads) / 2; half_ > 0; half_ /= 2) { \
            if (TID < half_) (shared)[TID] = join((shared)[TID], (shared)[TID + half_]); \
            BARRIER(); \
        } \
    } while (0)
#define BLOCK_ADD(x, y) ((x) + (y))
#define BLOCK_SUM(shared, threads, value) BLOCK_TREE(shared, threads, value, BLOCK_ADD)
#define BLOCK_MAX(shared, threads, value) BLOCK_TREE(shared, threads, value, MAX)

#endif
