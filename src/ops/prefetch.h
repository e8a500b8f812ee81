/* ops/prefetch.h -- starts the gathers of weights before their calls, so that they overlap with computing.
 *
 *   gathers of a pass     a b c d e f … f' e' d' c'        the same in every pass of a kind: the last sequence is remembered
 *                             ^ current call ^
 *   buffer                [ d | e | f |   ]                the next gathers, as many as fit, in the order of the pass
 *
 * When the call of a prefetched gather comes, it waits for the gather and copies the result to its place. The freed bytes serve later gathers. So
 * weights arrive while ops compute, in forward and in backward. Calls, values and addresses are the same as without prefetching: the buffer is
 * allocated before the first step, class comm. All ranks make the same calls in the same order, so they prefetch in the same order, too. If a pass
 * differs from the remembered sequence, it gathers without prefetching from there on, and its sequence is remembered.
 *
 * The group that a gather uses:
 *
 *   slices of 4 ranks     a0 | a1 | a2 | a3                        inner: 0 1 | 2 3, outer: 0 2 | 1 3
 *   RP_FROM_ALL           a0   a1   a2   a3        all shards: the whole
 *   RP_FROM_OUTER           a0        a2             outer group: the part of ranks 0 and 2; ranks 1 and 3 have a1 a3. Parts are kept …
 *   RP_FROM_INNER          a0   a1   a2   a3        inner group: … and the whole is made from two parts, as often as needed
 */
#ifndef RP_OPS_PREFETCH_H
#define RP_OPS_PREFETCH_H

#include "comm/comm.h"
#include "tensor/tensor.h"

typedef struct rp_prefetch rp_prefetch;

typedef enum { RP_FROM_ALL, RP_FROM_OUTER, RP_FROM_INNER } rp_gather_from;

typedef struct {
    rp_gather_from from;
    const void *mine;                   /* this rank's slice; with RP_FROM_INNER its part */
    int64_t n;                          /* number of elements of the whole, or of bytes if it is quantised */
    int elem_bytes;
} rp_gathering;

static inline rp_comm *rp__gather_group(const rp_ctx *ctx, rp_gather_from from)
{
    return from == RP_FROM_ALL ? rp__shards(ctx) : from == RP_FROM_OUTER ? rp__groups(ctx)->outer : rp__groups(ctx)->inner;
}

/* Starts prefetching the context's gathers, with a buffer of this many bytes. errors RP_ERR_MEMORY */
rp_status rp__prefetch_open(rp_ctx *ctx, int64_t bytes);
/* Stops prefetching; does nothing if it is off. */
void rp__prefetch_close(rp_ctx *ctx);
/* Bytes of the buffer; 0 if prefetching is off. */
int64_t rp__prefetch_bytes(const rp_ctx *ctx);
/* Begins a pass, in which weights do not change. errors RP_ERR_BACKEND · RP_ERR_UNSUPPORTED · RP_ERR_MEMORY */
rp_status rp__prefetch_pass(rp_ctx *ctx);

/* Gathers into `to`. `operation` describes it in messages about waiting. errors as rp__comm_gather · RP_ERR_MEMORY */
rp_status rp__prefetch_gather(rp_ctx *ctx, const rp_gathering *ask, void *to, const char *operation);
/* Advances gathers in flight; MPI libraries move bytes only inside calls. */
void rp__prefetch_push(rp_ctx *ctx);

#endif
