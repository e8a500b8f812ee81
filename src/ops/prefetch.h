/* ops/prefetch.h -- gathers that are under way before they are asked for.
 *
 *   gathers of a pass     a b c d e f … f' e' d' c'        the same in every pass of a kind: the last one is remembered
 *                             ^ asked for    ^
 *   buffer                [ d | e | f |   ]                what comes next, as much of it as there is room for, in the order of the pass
 *
 * A gather that is in the buffer is waited for and copied to its place, and its room is for those behind it. So weights come while ops compute, in
 * forward and in backward alike, and nothing about calls, values or addresses is other than without: the buffer stands from before the first step,
 * class comm. All ranks make the same calls in the same order, so they ask ahead in one order, too. A pass that goes another way than the
 * remembered one gathers for itself from there on, and is remembered.
 *
 * Whom a gather asks:
 *
 *   slices of 4 ranks     a0 | a1 | a2 | a3                        near: 0 1 | 2 3, far: 0 2 | 1 3
 *   from all              a0   a1   a2   a3        the whole
 *   from far              a0        a2             rank 0's part, and rank 2's; a1 a3 at the others. It is kept …
 *   from near             a0   a1   a2   a3        … and the whole is made of two parts, as often as it is wanted
 */
#ifndef RP_OPS_PREFETCH_H
#define RP_OPS_PREFETCH_H

#include "comm/comm.h"
#include "tensor/tensor.h"

typedef struct rp_prefetch rp_prefetch;

typedef enum { RP_FROM_ALL, RP_FROM_FAR, RP_FROM_NEAR } rp_gather_from;

typedef struct {
    rp_gather_from from;
    const void *mine;                   /* this rank's slice; its part, where others' are asked for */
    int64_t n;                          /* elements of the whole */
    int elem_bytes;
} rp_gathering;

static inline rp_comm *rp__gather_group(const rp_ctx *ctx, rp_gather_from from)
{
    return from == RP_FROM_ALL ? rp__shards(ctx) : from == RP_FROM_FAR ? rp__groups(ctx)->outer : rp__groups(ctx)->inner;
}

/* A buffer of so many bytes, for the context's gathers from here on. errors RP_ERR_MEMORY */
rp_status rp__prefetch_open(rp_ctx *ctx, int64_t bytes);
/* No longer; a context without one is fine. */
void rp__prefetch_close(rp_ctx *ctx);
/* Of the buffer; 0 without one. */
int64_t rp__prefetch_bytes(const rp_ctx *ctx);
/* A pass begins: weights are what they will be in it. errors RP_ERR_BACKEND */
rp_status rp__prefetch_pass(rp_ctx *ctx);

/* What is asked for comes to `to`; `what` is told where it is waited for. errors as rp__comm_gather · RP_ERR_MEMORY */
rp_status rp__prefetch_gather(rp_ctx *ctx, const rp_gathering *ask, void *to, const char *what);
/* What is under way moves in calls alone: this is one. */
void rp__prefetch_push(rp_ctx *ctx);

#endif
