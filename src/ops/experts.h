/* ops/experts.h -- rows sorted by expert, for the ops of a mixture of experts.
 *
 *   choices [tokens, k]    the expert of each slot                        2 0 | 0 1 | 2 1
 *   place   [tokens * k]   the position of the slot's row, by expert,     4 0   1 2   5 3
 *                          then by slot                                   expert 0: rows 0 1, 1: 2 3, 2: 4 5
 *   first   [experts + 1]  where each expert's rows begin, and the end    0 2 4 6
 *
 * An op computes them from the choices in its scratch, with a counting sort of tokens * k numbers. So only the choices of a
 * route must be kept. All sizes follow from shapes, for every distribution of tokens.
 */
#ifndef RP_OPS_EXPERTS_H
#define RP_OPS_EXPERTS_H

#include "ops/common.h"

/* For shape: checks that in[choices] is int32 and has the same number of choices for each of `tokens` rows. At least one expert must exist.
 * errors RP_ERR_DTYPE · RP_ERR_SHAPE */
rp_status rp__check_routes(const rp_op_meta *m, int choices, int64_t tokens, int64_t experts);
/* For forward: checks that each choice is in [0, experts), unless route made them. errors RP_ERR_ARG names the first that is not */
rp_status rp__check_choices(const rp_op_call *c, int choices, int64_t experts);

/* Offsets in scratch: first, then place. */
typedef struct { int64_t first, place, total; } rp_experts_layout;
rp_experts_layout rp__experts_layout(const rp_ctx *ctx, int64_t slots, int64_t experts);

/* Fills first[experts + 1]. If the device has kernels for the op, it computes this and the next, and the host does not read them. */
void rp__experts_first(const rp_op_call *c, int choices, int64_t experts, int32_t *first);
/* Fills place in scratch laid out by rp__experts_layout, and returns it. `first` is in use meanwhile. */
int32_t *rp__experts_sort(const rp_op_call *c, int choices, int64_t experts);

#endif
