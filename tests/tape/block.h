/* block.h -- a feed-forward block whose bytes, calls and FLOPs are counted by hand in the tests.
 *
 *   call   0 rmsnorm   1 matmul   2 gelu   3 matmul   4 dropout   5 add          x [T, H] -> y [T, H]
 *   reads  x g rstd    n up       u        a down     -           -              what backward needs; n u a and rstd are made inside
 */
#ifndef RP_BLOCK_H
#define RP_BLOCK_H

#include "tape/tape_test.h"

enum { T = 12, H = 16, F = 40, VOCAB = 20, MOST_BLOCKS = 4, BLOCK_CALLS = 6 };
enum { FLOAT = 4, RSTD_BYTES = T * FLOAT, HIDDEN_BYTES = T * H * FLOAT, MIDDLE_BYTES = T * F * FLOAT };
/* In a block: rstd, n, u, a. Its input x is a slot, too, unless it is a leaf. */
enum { BLOCK_BYTES = RSTD_BYTES + HIDDEN_BYTES + 2 * MIDDLE_BYTES };
enum { LOSS_SLOT_BYTES = HIDDEN_BYTES + T * FLOAT };              /* what linear_cross_entropy reads, and its log-sum-exp */

typedef struct {
    rp_ctx *ctx;
    int n_blocks;
    rp_tensor *x, *labels, *head, *gain[MOST_BLOCKS], *up[MOST_BLOCKS], *down[MOST_BLOCKS];
} block_model;

typedef enum { NO_REGIONS, A_REGION_A_BLOCK, ONE_REGION, BLOCKS_IN_ONE_REGION } block_regions;

block_model model_new(rp_ctx *ctx, int n_blocks);
void model_free(block_model *m);
rp_tensor *model_param(block_model *m, int i);      /* NULL past the last */
void model_drop_grads(block_model *m);

/* One block; in a region of its own or not. x stays the caller's. */
rp_tensor *block_forward(block_model *m, int block, rp_tensor *x, bool region);
rp_tensor *model_forward(block_model *m, block_regions regions);

#endif
