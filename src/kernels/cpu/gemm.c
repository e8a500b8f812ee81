/* kernels/cpu/gemm.c -- products at every level: chooses the engine, and uses dot products if C has few rows. */
#include "kernels/cpu/dots.h"
#include "kernels/cpu/gemm_fp32.h"
#if defined(__AMX_BF16__)
#include "kernels/cpu/gemm_amx.h"
#elif defined(__AVX512BF16__)
#include "kernels/cpu/gemm_vdp.h"
#elif defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
#include "kernels/cpu/gemm_mmla.h"
#endif

#include "base/team.h"

const gemm_engine *RP_AT_LEVEL(gemm_engine_for)(const rp_gemm *g)
{
#if defined(__AVX512BF16__) || defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
    if (g->ab == RP_BF16) return &engine_bf16;
#endif
    (void)g;
    return &engine_fp32;
}

/* ---- few rows ---- */

typedef struct {
    const rp_gemm *g;
    const void *a, *b, *bias;
    void *c;
    float *scratch;
} dots_call;

static void gemm_put(const rp_gemm *g, int64_t j0, int64_t columns, float *sum, void *to, const void *bias)
{
    for (int64_t i = 0; i < g->m; i++) {
        float *row = sum + i * DOT_COLUMNS;
        if (bias)
            for (int64_t j = 0; j < columns; j++) row[j] += load_one(g->ab, bias, j0 + j);
        row_store_add(g->c, to, i * g->n + j0, columns, row, g->adds);
    }
}

static int64_t dots_parts(const rp_gemm *g) { return gemm_least((g->n + DOT_COLUMNS - 1) / DOT_COLUMNS, 4 * g->on.threads); }

static void dots_part(void *arg, int64_t part, int thread)
{
    const dots_call *c = arg;
    const rp_gemm *g   = c->g;
    dots_floats floats = dots_scratch(g);
    float *a_rows = c->scratch + thread * floats.all, *buffer = a_rows + floats.a, *sum = buffer + floats.b;
    int64_t end   = rp__part_from(g->n, DOT_COLUMNS, dots_parts(g), part + 1);

    dots_load_a(g, c->a, a_rows);
    for (int64_t j = rp__part_from(g->n, DOT_COLUMNS, dots_parts(g), part); j < end; j += DOT_COLUMNS) {
        int64_t columns = gemm_least(end - j, DOT_COLUMNS);
        dots_block(g, a_rows, c->b, j, columns, buffer, sum);
        gemm_put(g, j, columns, sum, c->c, c->bias);
    }
}

/* ---- the kernel ---- */

void RP_AT_LEVEL(gemm_scratch)(const rp_gemm *g, int64_t *bytes)
{
    *bytes = wants_dots(g) ? dots_scratch(g).all * (int64_t)sizeof(float) * g->on.threads : RP_AT_LEVEL(gemm_blocks_scratch)(g);
}

void RP_AT_LEVEL(gemm_scratch_most)(const rp_gemm *g, int64_t *bytes)
{
    rp_gemm few    = *g;
    int64_t blocks = RP_AT_LEVEL(gemm_blocks_scratch_most)(g), dots;

    few.m  = gemm_least(g->m, DOT_ROWS);
    dots   = wants_dots(&few) ? dots_scratch(&few).all * (int64_t)sizeof(float) * g->on.threads : 0;
    *bytes = blocks > dots ? blocks : dots;
}

void RP_AT_LEVEL(gemm)(const rp_gemm *g, const void *a, const void *b, void *c, const void *bias, void *scratch)
{
    dots_call dots = { g, a, b, bias, c, scratch };

    if (wants_dots(g)) rp__team_run(g->on.threads, dots_parts(g), dots_part, &dots);
    else RP_AT_LEVEL(gemm_blocks)(g, a, b, c, bias, scratch);
}
