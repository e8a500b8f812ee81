/* kernels/gemm.h -- matrix products behind one interface.
 *
 *   C[m,n] = op(A)[m,k] op(B)[k,n] (+ C) (+ bias[n])      row-major, dense; op transposes what is stored
 *
 * Which implementation runs (oneDNN, own kernel) follows from the description, the CPU level and the library version alone, so
 * the same description gives the same bits in every call of a process and on every such machine.
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
    int threads;
} rp_gemm;

/* Scratch bytes this product needs; cheap (cached descriptions), works in a shapes-only context.
 * errors  RP_ERR_BACKEND the library refuses the description and no own kernel takes it */
rp_status rp__gemm_scratch(rp_ctx *ctx, const rp_gemm *g, int64_t *bytes);

/* scratch: at least that many bytes, 64-byte aligned; contents do not matter.
 * errors  RP_ERR_BACKEND a library failed, or the context has fewer threads than the description */
rp_status rp__gemm(rp_ctx *ctx, const rp_gemm *g, const void *a, const void *b, void *c, const void *bias, void *scratch);

/* "onednn 2.6.3 brg:avx512_core", "own v3" …: what would run; part of plans and of `reprise ops`. Valid until the thread asks again. */
const char *rp__gemm_name(rp_ctx *ctx, const rp_gemm *g);

#endif
