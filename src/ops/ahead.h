/* ops/ahead.h -- gathers that are under way before they are asked for.
 *
 *   gathers of a pass     a b c d e f … f' e' d' c'        the same in every pass of a kind: the last one is remembered
 *                             ^ asked for    ^
 *   buffer                [ d | e | f |   ]                what comes next, as much of it as there is room for, in the order of the pass
 *
 * A gather that is in the buffer is waited for and copied to its place, and its room is for those behind it. So weights come while ops compute, in
 * forward and in backward alike, and nothing about calls, values or addresses is other than without: the buffer stands from before the first step,
 * class comm. All ranks make the same calls in the same order, so they ask ahead in one order, too. A pass that goes another way than the
 * remembered one gathers for itself from there on, and is remembered.
 */
#ifndef RP_OPS_AHEAD_H
#define RP_OPS_AHEAD_H

#include "comm/comm.h"
#include "tensor/tensor.h"

typedef struct rp_ahead rp_ahead;

/* A buffer of so many bytes, for the context's gathers from here on. errors RP_ERR_MEMORY */
rp_status rp__ahead_open(rp_ctx *ctx, int64_t bytes);
/* No longer; a context without one is fine. */
void rp__ahead_close(rp_ctx *ctx);
/* A pass begins: weights are what they will be in it. errors RP_ERR_BACKEND */
rp_status rp__ahead_pass(rp_ctx *ctx);

/* A whole of n elements from the ranks' slices; `what` is told where it is waited for. errors as rp__comm_gather · RP_ERR_MEMORY */
rp_status rp__ahead_gather(rp_ctx *ctx, const void *slice, int64_t n, int elem_bytes, void *whole, const char *what);

#endif
