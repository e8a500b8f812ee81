/* kernels/gemm.c -- runs a product with the kernel of the CPU's level. Empty products are computed here and never reach a kernel. */
#include "kernels/gemm.h"


#include "kernels/kernels.h"

static rp_status check_kernels(rp_ctx *ctx, const rp_kernels *k)
{
    RP_CHECK(ctx, k->gemm, RP_ERR_BACKEND, "no kernel multiplies matrices at the CPU level '%s'", k->level);
    return RP_OK;
}

static bool is_empty(const rp_gemm *g) { return g->m == 0 || g->n == 0 || g->k == 0; }

rp_status rp__gemm_scratch(rp_ctx *ctx, const rp_kernels *k, const rp_gemm *g, int64_t *bytes)
{
    RP_TRY(check_kernels(ctx, k));
    *bytes = 0;
    if (!is_empty(g)) k->gemm_scratch(g, bytes);
    return RP_OK;
}

rp_status rp__gemm_scratch_most(rp_ctx *ctx, const rp_kernels *k, const rp_gemm *g, int64_t *bytes)
{
    RP_TRY(check_kernels(ctx, k));
    *bytes = 0;
    if (!is_empty(g)) k->gemm_scratch_most(g, bytes);
    return RP_OK;
}

static float bias_at(const rp_gemm *g, const void *bias, int64_t i)
{
    if (!g->bias) return 0;
    return g->ab == RP_BF16 ? rp__f32_from_bf16(((const uint16_t *)bias)[i]) : ((const float *)bias)[i];
}

/* The product is zero; bias and C are still added. */
static void multiply_nothing(const rp_gemm *g, void *c, const void *bias)
{
    float *wide    = c;
    uint16_t *half = c;

    for (int64_t e = 0; e < g->m * g->n; e++) {
        float value = bias_at(g, bias, e % g->n);
        if (g->c == RP_F32) wide[e] = g->adds ? wide[e] + value : value;
        else half[e] = rp__bf16_from_f32(g->adds ? rp__f32_from_bf16(half[e]) + value : value);
    }
}

rp_status rp__gemm(rp_ctx *ctx, const rp_kernels *k, const rp_gemm *g, const void *a, const void *b, void *c, const void *bias, void *scratch)
{
    RP_TRY(check_kernels(ctx, k));
    if (is_empty(g)) multiply_nothing(g, c, bias);
    else k->gemm(g, a, b, c, g->bias ? bias : NULL, scratch);
    return RP_OK;
}
