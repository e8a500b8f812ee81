/* kernels/cpu/peak.c -- measures the peak rates of this CPU, with which `reprise bench` compares kernels: multiply-adds in registers only, and
 * three streams through memory.
 *
 *   peak_fp32   CHAINS independent sums of vectors, each sum = sum * x + y: enough to fill the pipelines of two units
 *   peak_bf16   AMX tiles, dot products of pairs (AVX512-BF16), or bfmmla (ARM64); 0 flops if the level has none
 *   triad       to = a + factor * b, as in STREAM (McCalpin 1995); counts the bytes of the three arrays
 *
 * Each of `threads` parts runs `n` rounds.
 */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/tile.h"
#if defined(__AMX_BF16__)
#include "kernels/cpu/amx.h"
#endif

#include "base/team.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
#include <arm_neon.h>
#endif

enum { CHAINS = 12, CACHE_LINE_FLOATS = 16 };

/* Prevents the compiler from merging equal chains or moving a chain to memory. */
#if defined(__x86_64__)
#define KEEP(vector) __asm__ volatile("" : "+x"(vector))
#elif defined(__aarch64__)
#define KEEP(vector) __asm__ volatile("" : "+w"(vector))
#else
#define KEEP(vector) __asm__ volatile("" : "+m"(vector))
#endif

typedef struct { int64_t n, parts; float *sink; float *to; const float *a, *b; float factor; } peak_arg;

static void peak_put(const peak_arg *p, int64_t part, float x) { p->sink[part * CACHE_LINE_FLOATS] = x; }

static void multiply_add(void *arg, int64_t part, int thread)
{
    const peak_arg *p = arg;
    lanes x = (lanes){ 0 } + 0.5f, y = (lanes){ 0 } + (float)(part + 1), sum[CHAINS] = { { 0 } }, all = { 0 };

    (void)thread;
    for (int64_t i = 0; i < p->n; i++) {
#pragma GCC unroll 16
        for (int c = 0; c < CHAINS; c++) {
            sum[c] = sum[c] * x + y;
            KEEP(sum[c]);
        }
    }
#pragma GCC unroll 16
    for (int c = 0; c < CHAINS; c++) all += sum[c];
    peak_put(p, part, all[0]);
}

void RP_AT_LEVEL(peak_fp32)(int64_t n, float *sink, int64_t *flops, const rp_on *on)
{
    peak_arg p = { .n = n, .sink = sink };

    rp__team_run(on->threads, on->threads, multiply_add, &p);
    *flops = 2 * (int64_t)CHAINS * LANES * n * on->threads;
}

#if defined(__AMX_BF16__)
/* Four sums from two tiles of each side, 16 x 16 x 32 multiply-adds each. */
enum { BF16_FLOPS = 4 * 2 * 16 * 16 * 32 };

static void multiply_pairs(void *arg, int64_t part, int thread)
{
    const peak_arg *p = arg;
    _Alignas(64) float from[256];

    (void)thread;
    for (int i = 0; i < 256; i++) from[i] = 0x1p-20f;
    amx_begin();
    amx_zero_sums();
    amx_stored();
    _tile_loadd(4, from, 64);
    _tile_loadd(5, from, 64);
    _tile_loadd(6, from, 64);
    _tile_loadd(7, from, 64);
    for (int64_t i = 0; i < p->n; i++) {
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, from, 64);
    amx_end();
    peak_put(p, part, from[0]);
}
#elif defined(__AVX512BF16__) || defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
#if defined(__AVX512BF16__)
typedef __m512 sums_of_pairs;
typedef __m512bh many_halves;
enum { BF16_FLOPS = CHAINS * 2 * 32 };
INLINE many_halves halves_of(uint16_t bits) { return (many_halves)_mm512_set1_epi16((short)bits); }
INLINE sums_of_pairs add_pairs(sums_of_pairs sum, many_halves x) { return _mm512_dpbf16_ps(sum, x, x); }
#else
typedef float32x4_t sums_of_pairs;
typedef bfloat16x8_t many_halves;
enum { BF16_FLOPS = CHAINS * 2 * 16 };
INLINE many_halves halves_of(uint16_t bits) { return vreinterpretq_bf16_u16(vdupq_n_u16(bits)); }
INLINE sums_of_pairs add_pairs(sums_of_pairs sum, many_halves x) { return vbfmmlaq_f32(sum, x, x); }
#endif

static void multiply_pairs(void *arg, int64_t part, int thread)
{
    const peak_arg *p = arg;
    many_halves x     = halves_of(0x3000);
    sums_of_pairs sum[CHAINS];

    (void)thread;
#pragma GCC unroll 16
    for (int c = 0; c < CHAINS; c++) sum[c] = (sums_of_pairs){ 0 } + (float)c;
    for (int64_t i = 0; i < p->n; i++) {
#pragma GCC unroll 16
        for (int c = 0; c < CHAINS; c++) {
            sum[c] = add_pairs(sum[c], x);
            KEEP(sum[c]);
        }
    }
#pragma GCC unroll 16
    for (int c = 1; c < CHAINS; c++) sum[0] += sum[c];
    peak_put(p, part, sum[0][0]);
}
#else
enum { BF16_FLOPS = 0 };

static void multiply_pairs(void *arg, int64_t part, int thread) { (void)arg, (void)part, (void)thread; }
#endif

void RP_AT_LEVEL(peak_bf16)(int64_t n, float *sink, int64_t *flops, const rp_on *on)
{
    peak_arg p = { .n = n, .sink = sink };

    *flops = (int64_t)BF16_FLOPS * n * on->threads;
    if (*flops) rp__team_run(on->threads, on->threads, multiply_pairs, &p);
}

static void three_streams(void *arg, int64_t part, int thread)
{
    const peak_arg *p = arg;
    int64_t i = rp__part_from(p->n, CACHE_LINE_FLOATS, p->parts, part), end = rp__part_from(p->n, CACHE_LINE_FLOATS, p->parts, part + 1);

    (void)thread;
#pragma omp simd
    for (int64_t e = i; e < end; e++) p->to[e] = p->a[e] + p->factor * p->b[e];
}

void RP_AT_LEVEL(triad)(float *to, const float *a, const float *b, float factor, int64_t n, const rp_on *on)
{
    peak_arg p = { .n = n, .parts = on->threads, .to = to, .a = a, .b = b, .factor = factor };

    rp__team_run(on->threads, on->threads, three_streams, &p);
}
