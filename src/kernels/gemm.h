/* kernels/gemm.h -- matrix products behind one interface.
 *
 *   C[m,n] = op(A)[m,k] op(B)[k,n] (+ C) (+ bias[n])      row-major, dense; op transposes what is stored
 *
 * Each of m, n and k may be 0. Without products (k is 0) C is the bias, or zero.
 *
 * The kernel is that of the CPU's level: the same description gives the same bits in every call of a process and on every machine of the level.
 */
#ifndef RP_GEMM_H
#define RP_GEMM_H

#include "base/base.h"

typedef struct {
    rp_dtype ab, c;             /* RP_F32 or RP_BF16; c may be RP_F32 with bf16 operands. Sums are fp32 */
    int64_t m, n, k;
    bool transpose_a;           /* A is stored [k, m] */
    bool transpose_b;           /* B is stored [n, k] */
    bool adds;                  /* C is added to */
    bool bias;                  /* bias[n] of dtype ab is added */
    rp_on on;
} rp_gemm;

/* Scratch bytes this product needs; cheap, works in a shapes-only context.
 * errors  RP_ERR_BACKEND the CPU level has no kernels */
rp_status rp__gemm_scratch(rp_ctx *ctx, const rp_gemm *g, int64_t *bytes);

/* Scratch bytes that are enough for every product of at most g->m rows and at most g->k deep that is like g in all else: where how
 * many rows there are follows from data. errors RP_ERR_BACKEND the CPU level has no kernels */
rp_status rp__gemm_scratch_most(rp_ctx *ctx, const rp_gemm *g, int64_t *bytes);

/* scratch: at least that many bytes, 64-byte aligned; contents do not matter. Fewer threads than described give the same bits.
 * errors  RP_ERR_BACKEND the CPU level has no kernels */
rp_status rp__gemm(rp_ctx *ctx, const rp_gemm *g, const void *a, const void *b, void *c, const void *bias, void *scratch);

#endif
