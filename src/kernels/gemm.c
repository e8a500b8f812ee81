/* kernels/gemm.c -- a product is run by the kernel of the CPU's level. */
#include "kernels/gemm.h"

#include "kernels/kernels.h"

static rp_status find_kernels(rp_ctx *ctx, const rp_kernels **out)
{
    *out = rp__kernels_cpu();
    RP_CHECK(ctx, (*out)->gemm, RP_ERR_BACKEND, "no kernel multiplies matrices at the CPU level '%s'", (*out)->level);
    return RP_OK;
}

rp_status rp__gemm_scratch(rp_ctx *ctx, const rp_gemm *g, int64_t *bytes)
{
    const rp_kernels *kernels;

    RP_TRY(find_kernels(ctx, &kernels));
    kernels->gemm_scratch(g, bytes);
    return RP_OK;
}

rp_status rp__gemm_scratch_most(rp_ctx *ctx, const rp_gemm *g, int64_t *bytes)
{
    const rp_kernels *kernels;

    RP_TRY(find_kernels(ctx, &kernels));
    kernels->gemm_scratch_most(g, bytes);
    return RP_OK;
}

rp_status rp__gemm(rp_ctx *ctx, const rp_gemm *g, const void *a, const void *b, void *c, const void *bias, void *scratch)
{
    const rp_kernels *kernels;

    RP_TRY(find_kernels(ctx, &kernels));
    kernels->gemm(g, a, b, c, g->bias ? bias : NULL, scratch);
    return RP_OK;
}
