/* ops/experts.h -- rows in the order of experts, for the ops of a mixture of experts.
 *
 *   choices [tokens, k]    the expert of each slot                        2 0 | 0 1 | 2 1
 *   place   [tokens * k]   where the slot's row stands, by expert,        4 0   1 2   5 3
 *                          then by slot                                   expert 0: rows 0 1, 1: 2 3, 2: 4 5
 *   first   [experts + 1]  where each expert's rows begin, and the end    0 2 4 6
 *
 * An op that needs them makes them of the choices, a counting sort of tokens * k numbers, in its scratch: what has to be kept of a
 * route is the choices alone. All sizes follow from shapes, however the tokens are spread.
 */
#ifndef RP_OPS_EXPERTS_H
#define RP_OPS_EXPERTS_H

#include "ops/common.h"

/* For shape: choices of in[choices] are int32, as many for each of `tokens` rows, and there is at least one expert.
 * errors RP_ERR_DTYPE · RP_ERR_SHAPE */
rp_status rp__check_routes(const rp_op_meta *m, int choices, int64_t tokens, int64_t experts);
/* For forward: each is in [0, experts). errors RP_ERR_ARG names the first that is not */
rp_status rp__check_choices(const rp_op_call *c, int choices, int64_t experts);

/* Scratch: first, then place. */
typedef struct { int64_t first, place, total; } rp_experts_layout;
rp_experts_layout rp__experts_layout(int64_t slots, int64_t experts);

void rp__experts_first(const rp_tensor *choices, int64_t experts, int32_t *first);
/* place[slots]; first[experts + 1] is used up on the way. */
void rp__experts_place(const rp_tensor *choices, int64_t experts, int32_t *first, int32_t *place);
/* The same in scratch laid out by rp__experts_layout; returns place. */
int32_t *rp__experts_sort(const rp_op_call *c, int choices, int64_t experts);

#endif
