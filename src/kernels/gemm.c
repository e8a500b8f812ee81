/* kernels/gemm.c -- which implementation multiplies: oneDNN where it was found and takes the description, else, and where C is
 * one row, the own kernel of the CPU's level. Both answers depend on the description, the CPU level and the library version alone. */
#include "kernels/gemm.h"

#include "kernels/kernels.h"
#include "kernels/onednn/gemm_onednn.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

static rp_status own_kernel(rp_ctx *ctx, const rp_kernels **out)
{
    *out = rp__kernels_cpu();
    RP_CHECK(ctx, (*out)->gemm, RP_ERR_BACKEND, "no kernel multiplies matrices at the CPU level '%s'", (*out)->level);
    return RP_OK;
}

static bool is_one_row(const rp_gemm *g) { return !getenv("DNNL") || (g->m == 1 && g->transpose_b); }

static rp_status ask_library(rp_ctx *ctx, const rp_gemm *g, rp_onednn_answer *out)
{
    *out = (rp_onednn_answer){ .takes = false };
    return is_one_row(g) ? RP_OK : rp__onednn_ask(ctx, g, out);
}

rp_status rp__gemm_scratch(rp_ctx *ctx, const rp_gemm *g, int64_t *bytes)
{
    rp_onednn_answer answer;
    const rp_kernels *own;

    RP_TRY(ask_library(ctx, g, &answer));
    *bytes = answer.scratch_bytes;
    if (answer.takes) return RP_OK;
    RP_TRY(own_kernel(ctx, &own));
    own->gemm_scratch(g, bytes);
    return RP_OK;
}

rp_status rp__gemm(rp_ctx *ctx, const rp_gemm *g, const void *a, const void *b, void *c, const void *bias, void *scratch)
{
    const rp_kernels *own;
    bool took = false;

    /* oneDNN leaves part of C unwritten when its team is smaller than it was promised, and says nothing. */
    RP_CHECK(ctx, g->threads <= ctx->threads && !omp_in_parallel(), RP_ERR_BACKEND,
             "a product for %d threads cannot run in a team of %d", g->threads, omp_in_parallel() ? 1 : ctx->threads);
    if (!is_one_row(g)) RP_TRY(rp__onednn_gemm(ctx, g, a, b, c, bias, scratch, &took));
    if (took) return RP_OK;
    RP_TRY(own_kernel(ctx, &own));
    own->gemm(g, a, b, c, g->bias ? bias : NULL, scratch);
    return RP_OK;
}

const char *rp__gemm_name(rp_ctx *ctx, const rp_gemm *g)
{
    static _Thread_local char name[RP_ONEDNN_NAME_CHARS];
    rp_onednn_answer answer;

    if (ask_library(ctx, g, &answer) != RP_OK) return "none";
    snprintf(name, sizeof name, answer.takes ? "%s" : "own %s", answer.takes ? answer.name : rp__kernels_cpu()->level);
    return name;
}
