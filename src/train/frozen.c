/* train/frozen.c -- checks that the frozen weights are those that the run began with. A state does not contain them.
 *
 *   mark   sum over frozen parameters of (hash of the path * sum over elements of mix(index and bits of the element)), modulo 2^64
 *
 * A sum does not depend on how the elements are divided over ranks. An element of a quantised weight is a byte. Every rank has all of a mapped weight, and
 * the first one adds it. */
#include <string.h>

#include "base/file.h"
#include "base/team.h"
#include "comm/comm.h"
#include "nn/module.h"
#include "ops/collective.h"
#include "tensor/tensor.h"
#include "train/internal.h"

typedef struct { const rp_param *param; int bytes; const void *data; uint64_t *sum; } summing;

/* David Stafford's variant 13 of the MurmurHash3 finalizer. */
static inline uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static void sum_range(const void *arg, int64_t from, int64_t to)
{
    const summing *s = arg;
    const void *data = s->data;
    int64_t first    = s->param->slice.first;
    uint64_t sum     = 0;

    for (int64_t i = from; i < to; i++) {
        uint64_t bits = s->bytes == 1 ? ((const uint8_t *)data)[i] : s->bytes == 2 ? ((const uint16_t *)data)[i] : ((const uint32_t *)data)[i];
        sum += mix((uint64_t)(first + i) << 32 ^ bits);
    }
    __atomic_fetch_add(s->sum, sum, __ATOMIC_RELAXED);
}

static rp_status add_mark(const rp_param *p, int threads, uint64_t *mark)
{
    uint64_t sum = 0;
    rp_host h;

    if (p->mapped && rp__comm_rank(rp__shards(p->tensor->ctx))) return RP_OK;
    RP_TRY(rp__tensor_host_all(p->tensor, RP_HOST_READ, &h));
    summing s = { p, (int)rp__sliced_bytes(p->whole.dtype), h.data, &sum };
    rp__team_ranges(threads, p->slice.count, 4096, rp_meta_bytes(rp_tensor_meta(p->tensor)), sum_range, &s);
    rp__tensor_host_end(&h);
    *mark += sum * (rp__hash(p->path, strlen(p->path), RP_HASH_START) | 1);
    return RP_OK;
}

/* Replicas of the weights have the same mark, so the sum is over the ranks of one replica. */
static rp_status sum_over_ranks(rp_ctx *ctx, uint64_t *mark)
{
    int ranks = rp__comm_ranks(rp__shards(ctx));
    uint64_t all[RP_MOST_RANKS];

    if (ranks == 1) return RP_OK;
    RP_TRY(rp__comm_share(ctx, rp__shards(ctx), mark, sizeof *mark, all, "the mark of frozen weights"));
    *mark = 0;
    for (int r = 0; r < ranks; r++) *mark += all[r];
    return RP_OK;
}

rp_status rp__frozen_mark(rp_trainer *t)
{
    const rp_model *model = t->engine.model;
    uint64_t mark         = 0;
    bool any              = false;

    for (int i = 0; i < rp__model_n_params(model); i++) {
        const rp_param *p = rp__model_param(model, i);
        if (p->tensor->requires_grad) continue;
        any = true;
        RP_TRY(add_mark(p, t->ctx->threads, &mark));
    }
    if (!any) return RP_OK;
    RP_TRY(rp__file_pages_check(t->ctx));
    RP_TRY(sum_over_ranks(t->ctx, &mark));
    t->frozen_mark = mark ? mark : 1;
    return RP_OK;
}

rp_status rp__frozen_check(const rp_trainer *t, const rp_state *state)
{
    uint64_t was = rp__state_info(state)->frozen_mark;

    RP_CHECK(t->ctx, was == t->frozen_mark, RP_ERR_CONFIG, "cannot resume '%s': the frozen weights of '%s' have changed since", rp__state_path(state),
             t->recipe->model.path ? t->recipe->model.path : t->recipe->model.config);
    return RP_OK;
}
