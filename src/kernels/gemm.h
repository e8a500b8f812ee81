/* kernels/gemm.h -- the interface of matrix products.
 *
 *   C[m,n] = op(A)[m,k] op(B)[k,n] (+ C) (+ bias[n])      row-major, dense; op optionally transposes the stored matrix
 *
 * B may be quantised. Its elements are decoded and rounded to `ab` while they are packed, so the product equals, bit for bit, the product with a B of
 * these rounded elements, and needs the same scratch.
 *
 * m, n and k may be 0. If k is 0, the product is zero, and C is the bias or zero (plus C if adds).
 *
 * The kernel is that of the CPU's level: the same description gives the same bits in every call of a process and on every machine of the level.
 */
#ifndef RP_GEMM_H
#define RP_GEMM_H

#include "base/base.h"
#include "base/quant.h"

struct rp_kernels;

typedef struct {
    rp_dtype ab, c;             /* RP_F32 or RP_BF16; c may be RP_F32 with bf16 operands. Sums are fp32 */
    int64_t m, n, k;
    bool transpose_a;           /* A is stored [k, m] */
    bool transpose_b;           /* B is stored [n, k] */
    bool adds;                  /* the product is added to C */
    bool bias;                  /* bias[n] of dtype ab is added */
    const rp_quant_type *quant; /* of B; NULL: B has dtype ab. With a type, `b` is the start of a tensor, … */
    int64_t b_first;            /* … and B begins at this element of it, at the start of a row */
    rp_on on;
} rp_gemm;

/* Get the scratch bytes of this product with the kernels of table k; cheap, works in a shapes-only context.
 * errors  RP_ERR_BACKEND the CPU level has no kernels */
rp_status rp__gemm_scratch(rp_ctx *ctx, const struct rp_kernels *k, const rp_gemm *g, int64_t *bytes);

/* Get scratch bytes that suffice for every product with at most g->m rows and depth g->k that otherwise equals g. For products whose
 * number of rows depends on data. errors RP_ERR_BACKEND the CPU level has no kernels */
rp_status rp__gemm_scratch_most(rp_ctx *ctx, const struct rp_kernels *k, const rp_gemm *g, int64_t *bytes);

/* Compute the product. scratch: at least that many bytes, 64-byte aligned, uninitialised. Fewer threads than described give the same bits.
 * errors  RP_ERR_BACKEND the CPU level has no kernels */
rp_status rp__gemm(rp_ctx *ctx, const struct rp_kernels *k, const rp_gemm *g, const void *a, const void *b, void *c, const void *bias, void *scratch);

#endif
