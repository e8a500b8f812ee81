/* kernels/optim.h -- arguments of optimizer kernels, and the random rounding of their bf16 results.
 *
 * A kernel updates one parameter tensor in one pass: it reads the gradient and the states, and writes the states and the
 * parameter. The elements are cut into tiles and the tiles into spans. Both depend only on the number of elements, so
 * neither results nor the sum of squares depend on threads.
 *
 *   tile   RP_OPTIM_TILE elements of the whole parameter, converted to fp32 and processed in cache; a slice may begin inside one
 *   span   at most RP_OPTIM_SPANS per tensor, whole tiles each; the sums of spans are added in order
 *
 * States in 8 bits have dtype RP_U8 and one fp32 number, absmax, for each block of RP_OPTIM_BLOCK elements. An element is absmax times the value
 * of its code (rp_optim_codes). A block lies in one tile, because a slice begins at a block. A kernel computes in fp32 and then encodes the
 * block again, to the nearest codes. `stochastic` does not concern codes. If an element of a block is not finite, the whole block decodes to NaN or infinity.
 */
#ifndef RP_KERNELS_OPTIM_H
#define RP_KERNELS_OPTIM_H

#include "base/base.h"
#include "base/philox.h"

#define RP_OPTIM_TILE 512
#define RP_OPTIM_SPANS 1024
#define RP_OPTIM_BLOCK 256
#define RP_OPTIM_MAX_STATES 2

typedef struct rp_optim_call {
    rp_on on;
    int64_t n;                          /* elements of every tensor here; all dense */
    int64_t first;                      /* index of the first element in the whole parameter; random bits and blocks depend on it */
    rp_dtype param_dtype, grad_dtype, state_dtype;
    void *param, *state[RP_OPTIM_MAX_STATES];       /* a state is NULL if this optimizer does not use it */
    float *absmax[RP_OPTIM_MAX_STATES];             /* of the blocks of a state in 8 bits */
    float *master;                      /* NULL: the parameter has no master copy */
    const void *grad;
    bool clipped;                       /* the device has the factor instead of grad_scale: step_norm of kernels.def */
    double lr, grad_scale, weight_decay, beta1, beta2, eps, momentum;
    double bias1, bias2;                /* 1 - beta^step for each beta, computed once per step instead of once per tile */
    int64_t step;                       /* from 1 */
    bool stochastic;                    /* round bf16 at random, by key, step and element */
    uint64_t key;
    double *sum_squares;                /* of the gradient before grad_scale; NULL: not computed */
} rp_optim_call;

/* 32 random bits of one element. A block of Philox serves four elements that are a quarter of a tile apart, so a tile's
 * bits are four rows of consecutive blocks, which vectorises. */
#define RP_OPTIM_BLOCKS (RP_OPTIM_TILE / 4)
static inline rp_philox rp__optim_noise_block(uint64_t key, int64_t step, int plane, int64_t block)
{
    return rp__philox(key, (uint32_t)block, (uint32_t)plane | (uint32_t)((uint64_t)block >> 32) << 8, (uint32_t)step,
                      (uint32_t)((uint64_t)step >> 32));
}

static inline uint32_t rp__optim_noise(uint64_t key, int64_t step, int plane, int64_t element)
{
    int64_t tile = element / RP_OPTIM_TILE, at = element % RP_OPTIM_TILE;

    return rp__optim_noise_block(key, step, plane, tile * RP_OPTIM_BLOCKS + at % RP_OPTIM_BLOCKS).word[at / RP_OPTIM_BLOCKS];
}

/* Which 16 of an element's random bits round the parameter, state 0 and state 1. */
static const struct { int plane, shift; } rp__optim_bits[1 + RP_OPTIM_MAX_STATES] = { { 0, 0 }, { 0, 16 }, { 1, 0 } };

/* Rounds up with a probability equal to the fraction cut off, so the mean is exact. Infinities and NaN stay. */
static inline uint16_t rp__bf16_stochastic(float f, uint32_t bits16)
{
    union { float f; uint32_t u; } v = { .f = f };
    bool finite = (v.u & 0x7f800000u) != 0x7f800000u;

    return finite ? (uint16_t)((v.u + bits16) >> 16) : rp__bf16_from_f32(f);
}

/* ---- states in 8 bits ---- */

/* The dynamic codes of Dettmers et al. 2022 (arXiv 2110.02861). State 0 is signed, state 1 is not.
 *
 *   signed     code 127 is 0 and code 127 + p has place p of 128: (0.1 + 0.9 (k + 1/2) / 2^i) 10^(i - 6), k < 2^i, for i = 0 ... 6; then 1.
 *              Code 127 - p is its negative; there is no -1
 *   unsigned   code p has place p of 255: the same with 2^(i + 1) values for each i
 *
 * near: for the bits of |x| without the low 16, the place below x and the low 16 bits above which x is nearer to the next place. */
enum {
    RP_CODES = 256, RP_CODE_ZERO = 127, RP_CODE_BOTTOM = 103 << 7, RP_CODE_TOP = 0x3f800000,      /* bits of 2^-24 without the low 16; of 1 */
    RP_CODE_BUCKETS = (RP_CODE_TOP >> 16) - RP_CODE_BOTTOM + 1
};
typedef struct {
    float value[RP_OPTIM_MAX_STATES][RP_CODES];
    uint32_t near[RP_OPTIM_MAX_STATES][RP_CODE_BUCKETS];
} rp_optim_codes;

const rp_optim_codes *rp__optim_codes(void);

/* The code of state `state` that is nearest to x, in [-1, 1]; of two that are equally near, the one nearer to 0. Any x gives a code. */
static inline uint8_t rp__optim_encode(const rp_optim_codes *codes, int state, float x)
{
    union { float f; uint32_t u; } v = { .f = x };
    uint32_t size = v.u & 0x7fffffffu, low = (uint32_t)RP_CODE_BOTTOM << 16;

    size = size < low ? low : size > RP_CODE_TOP ? RP_CODE_TOP : size;
    uint32_t near = codes->near[state][(size >> 16) - RP_CODE_BOTTOM], place = (near >> 16) + ((size & 0xffffu) > (near & 0xffffu));
    if (state) return (uint8_t)place;
    return (uint8_t)(v.u >> 31 ? RP_CODE_ZERO - (place < RP_CODE_ZERO ? place : RP_CODE_ZERO) : RP_CODE_ZERO + place);
}

#endif
