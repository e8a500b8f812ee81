/* kernels/cpu/gemm_engine.h -- what a way of multiplying gives the driver of gemm_blocks.c: a tile of C from a strip of A and a panel of B.
 *
 *                     panel  [depth][columns], in the engine's own order
 *                       |
 *   strip  rows x k  -> tile  rows x columns of fp32 sums
 *
 * Each element of a tile is one chain over k, in order: how C is cut into tiles never shows in the bits.
 */
#ifndef RP_KERNELS_CPU_GEMM_ENGINE_H
#define RP_KERNELS_CPU_GEMM_ENGINE_H

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/prefetch.h"

enum { PREFETCH_STRIP, PREFETCH_C, N_PREFETCH };     /* a share of the next strip; the next tile of C */

/* Element (r, k) is data[r * row + k * step], in elements of the engine. */
typedef struct {
    const void *data;
    int64_t row, step;
} gemm_strip;

typedef struct {
    int rows, columns;              /* of a tile */
    int step;                       /* packed depths are multiples of it, zeros after the end */
    int element;                    /* bytes of a packed element */
    int64_t depth;                  /* the most of it at a time: what a strip or a panel has of it stays in the first cache */
    /* May strips be read where A lies? Only those with all their rows are. */
    bool (*reads_a)(const rp_gemm *g);
    /* `rows` rows of op(A) from row i, `depth` of k from k, to `to`, strip after strip; what is missing becomes zero. */
    void (*pack_a)(const rp_gemm *g, const void *a, int64_t i, int64_t rows, int64_t k, int64_t depth, void *to);
    gemm_strip (*packed)(const rp_gemm *g, const void *data, int64_t depth);        /* how it lies then */
    /* `columns` columns of op(B) from column j, `depth` of k from k, as panels one after the other; what is missing becomes zero. */
    void (*pack_b)(const rp_gemm *g, const void *b, int64_t j, int64_t columns, int64_t k, int64_t depth, void *to);
    /* sum (+)= strip x panel; rows of the tile are sum_row apart. Meanwhile it may ask for what comes next. */
    void (*multiply)(int64_t depth, gemm_strip a, const void *b, float *sum, int64_t sum_row, bool adds, const prefetch lists[N_PREFETCH]);
    /* Rows of a whole tile, columns wide, to bf16. */
    void (*to_bf16)(const float *sum, uint16_t *to, int64_t to_row);
    void (*begin)(void), (*end)(void);      /* of a thread's turn */
} gemm_engine;

static inline int64_t gemm_up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }
static inline int64_t gemm_least(int64_t a, int64_t b) { return a < b ? a : b; }

/* The engine for this product at this level. */
const gemm_engine *RP_AT_LEVEL(gemm_engine_for)(const rp_gemm *g);

/* All of it: cut into parts, packed, multiplied; in gemm_blocks.c. */
int64_t RP_AT_LEVEL(gemm_blocks_scratch)(const rp_gemm *g);
/* Enough for every product of at most g->m rows and at most g->k deep that is like g in all else. */
int64_t RP_AT_LEVEL(gemm_blocks_scratch_most)(const rp_gemm *g);
void RP_AT_LEVEL(gemm_blocks)(const rp_gemm *g, const void *a, const void *b, void *c, const void *bias, void *scratch);

#endif
