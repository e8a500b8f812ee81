/* kernels/gemm.c -- products: oneDNN where it was found at build time, else the own kernel of the CPU's level. */
#include "kernels/gemm.h"

#include "kernels/kernels.h"

rp_status rp__gemm_scratch(rp_ctx *ctx, const rp_gemm *g, int64_t *bytes)
{
    (void)ctx;
    (void)g;
    *bytes = 0;
    return RP_OK;
}

static void own(const rp_gemm *g, const void *a, const void *b, void *c, const void *bias)
{
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->n; j++) {
            float sum = 0;
            for (int64_t k = 0; k < g->k; k++) {
                int64_t ia = g->transpose_a ? k * g->m + i : i * g->k + k, ib = g->transpose_b ? j * g->k + k : k * g->n + j;
                sum += g->ab == RP_F32 ? ((const float *)a)[ia] * ((const float *)b)[ib]
                                       : rp__f32_from_bf16(((const uint16_t *)a)[ia]) * rp__f32_from_bf16(((const uint16_t *)b)[ib]);
            }
            if (bias) sum += g->ab == RP_F32 ? ((const float *)bias)[j] : rp__f32_from_bf16(((const uint16_t *)bias)[j]);
            int64_t at = i * g->n + j;
            if (g->c == RP_F32) ((float *)c)[at] = (g->adds ? ((float *)c)[at] : 0) + sum;
            else ((uint16_t *)c)[at] = rp__bf16_from_f32((g->adds ? rp__f32_from_bf16(((uint16_t *)c)[at]) : 0) + sum);
        }
}

rp_status rp__gemm(rp_ctx *ctx, const rp_gemm *g, const void *a, const void *b, void *c, const void *bias, void *scratch)
{
    (void)ctx;
    (void)scratch;
    own(g, a, b, c, bias);
    return RP_OK;
}

const char *rp__gemm_name(rp_ctx *ctx, const rp_gemm *g)
{
    (void)ctx;
    (void)g;
    return "plain";
}
