/* cost/keep.c -- finds the values of a pass that backward reads, and prices keeping and replaying them: see keep.h. */
#include "cost/keep.h"

#include <math.h>
#include <string.h>

/* Returns the bytes of all of them. */
static int64_t mark_needed(rp_ctx *ctx, bool *needed)
{
    int64_t bytes = 0;

    for (int at = 0; at < rp__tape_n_calls(ctx); at++) {
        rp_tape_call c = rp__tape_call_at(ctx, at);
        for (int i = 0; i < c.n_needs && c.runs_back; i++) {
            rp_tape_value v = rp__tape_value_at(ctx, c.needs[i]);
            if (v.producer < 0 || needed[c.needs[i]]) continue;
            needed[c.needs[i]] = true;
            bytes += rp_meta_bytes(&v.meta);
        }
    }
    return bytes;
}

rp_status rp__keep_seconds(rp_ctx *ctx, const rp_cost_table *costs, double *of_call)
{
    int n        = rp__tape_n_values(ctx);
    bool *needed = rp__host_alloc(ctx, n + 1);

    if (!needed) return RP_ERR_MEMORY;
    memset(of_call, 0, (size_t)rp__tape_n_calls(ctx) * sizeof *of_call);
    bool cached = rp__cost_is_near(costs, mark_needed(ctx, needed)) || !rp__cost_cache(costs);
    for (int i = 0; i < n && !cached; i++) {
        rp_tape_value v = rp__tape_value_at(ctx, i);
        rp_dtype dtype  = v.meta.dtype == RP_BF16 || v.meta.dtype == RP_F64 ? v.meta.dtype : RP_F32;
        if (needed[i]) of_call[v.producer] += rp__cost_keep(costs, dtype, rp_meta_bytes(&v.meta));
    }
    rp__release(needed);
    return RP_OK;
}

double rp__keep_replay(const rp_cost_table *costs, const rp_op_meta *call, double keep)
{
    double comm = rp__cost_comm_seconds(costs, call, RP_FORWARD);

    return comm + fmax(rp__cost_seconds(costs, call, RP_FORWARD) - comm - keep, 0);
}
