/* kernels/cpu/gemm_engine.h -- the interface between the driver gemm_blocks.c and an engine, which multiplies a strip of A by a panel of B.
 *
 *                     panel  [depth][columns], in the engine's own order
 *                       |
 *   strip  rows x k  -> tile  rows x columns of fp32 sums
 *
 * Each element of a tile is one chain of additions over k, in order, so the bits do not depend on how C is cut into tiles.
 */
#ifndef RP_KERNELS_CPU_GEMM_ENGINE_H
#define RP_KERNELS_CPU_GEMM_ENGINE_H

#include "kernels/cpu/quant.h"

/* ---- prefetching, line by line between the steps of a tile ----
 *
 *   run      [ line ][ line ] …      n lines in total; a run has `lines` adjacent lines, runs are `apart` bytes apart
 *
 * A core can wait for about sixteen lines at once. More prefetches in a row delay the computation. */

enum { PREFETCH_LINE = 64 };

typedef struct {
    const uint8_t *run;
    int64_t apart, lines, line, n;
} prefetch;

/* Lists `runs` runs of `bytes` from `at` on, `apart` bytes from each other. */
static inline prefetch prefetch_of(const void *at, int64_t apart, int64_t bytes, int64_t runs)
{
    int64_t lines = (bytes + PREFETCH_LINE - 1) / PREFETCH_LINE;

    return (prefetch){ at, apart, lines, 0, runs * lines };
}

static inline __attribute__((always_inline)) void prefetch_ask(prefetch *a, int64_t lines)
{
    for (; lines > 0 && a->n > 0; lines--, a->n--) {
        __builtin_prefetch(a->run + a->line * PREFETCH_LINE, 0, 2);
        if (++a->line < a->lines) continue;
        a->line = 0;
        a->run += a->apart;
    }
}

/* Lines to prefetch in each of `steps` steps. */
static inline int64_t prefetch_share(const prefetch *a, int64_t steps) { return steps > 0 ? (a->n + steps - 1) / steps : a->n; }

/* ---- engines ---- */

enum { PREFETCH_STRIP, PREFETCH_C, N_PREFETCH };     /* a share of the next strip; the next tile of C */

/* Element (r, k) is data[r * row + k * step]; row and step count elements of the engine. */
typedef struct {
    const void *data;
    int64_t row, step;
} gemm_strip;

typedef struct {
    int rows, columns;              /* of a tile */
    int step;                       /* packed depths are multiples of it, padded with zeros */
    int element;                    /* bytes of a packed element */
    int64_t depth;                  /* most depth at a time; that much of a strip or a panel stays in the first-level cache */
    /* Whether strips may be read from A in place. This applies only to strips with all their rows. */
    bool (*reads_a)(const rp_gemm *g);
    /* Packs `rows` rows of op(A) from row i, `depth` of k from k, to `to`, strip after strip, padded with zeros. */
    void (*pack_a)(const rp_gemm *g, const void *a, int64_t i, int64_t rows, int64_t k, int64_t depth, void *to);
    gemm_strip (*packed)(const rp_gemm *g, const void *data, int64_t depth);        /* the layout of a packed strip */
    /* Packs `columns` columns of op(B) from column j, `depth` of k from k, as contiguous panels, padded with zeros. */
    void (*pack_b)(const rp_gemm *g, const void *b, int64_t j, int64_t columns, int64_t k, int64_t depth, void *to);
    /* sum (+)= strip x panel; rows of the tile are sum_row apart. Issues prefetches from the lists meanwhile. */
    void (*multiply)(int64_t depth, gemm_strip a, const void *b, float *sum, int64_t sum_row, bool adds, const prefetch lists[N_PREFETCH]);
    /* Converts a whole tile, whose rows are `columns` apart, to bf16. */
    void (*to_bf16)(const float *sum, uint16_t *to, int64_t to_row);
    void (*begin)(void), (*end)(void);      /* called before and after each part that a thread computes */
} gemm_engine;

static inline int64_t gemm_up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }
static inline int64_t gemm_least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Packs rows of bf16, QUANT_RUN elements from each other, of which `real` are used, as columns of a panel. */
typedef void gemm_pack_run(const uint16_t *run, int64_t rows, int64_t real, uint16_t *panel);

/* Rows of a quantised B that run along k: the `side` rows of a panel, a run of k at a time. run: side * QUANT_RUN elements. */
static inline void gemm_pack_turned_quant(const rp_gemm *g, const void *b, int64_t j, int64_t columns, int64_t k, int64_t depth, int64_t side,
                                          gemm_pack_run *pack, uint16_t *run, uint16_t *panel)
{
    int64_t real = gemm_least(depth, g->k - k), n;

    for (int64_t c = 0; c < columns; c += side, panel += side * depth) {
        int64_t rows = gemm_least(columns - c, side);
        for (int64_t d = 0; d < real; d += n) {
            n = quant_run(k + d, real - d);
            for (int64_t r = 0; r < rows; r++)
                quant_read(g->quant, QUANT_HALVES, b, g->b_first + (j + c + r) * g->k + k + d, n, run + r * QUANT_RUN);
            pack(run, rows, n, panel + d * side);
        }
    }
}

/* The engine for this product at this level. */
const gemm_engine *RP_AT_LEVEL(gemm_engine_for)(const rp_gemm *g);

/* Implemented in gemm_blocks.c: the scratch bytes of a product, and the product itself. */
int64_t RP_AT_LEVEL(gemm_blocks_scratch)(const rp_gemm *g);
/* Scratch bytes that suffice for every product with at most g->m rows and depth g->k that otherwise equals g. */
int64_t RP_AT_LEVEL(gemm_blocks_scratch_most)(const rp_gemm *g);
void RP_AT_LEVEL(gemm_blocks)(const rp_gemm *g, const void *a, const void *b, void *c, const void *bias, void *scratch);

#endif
