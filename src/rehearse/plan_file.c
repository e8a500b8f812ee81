/* rehearse/plan_file.c -- writes a plan of a recipe's steps to a file. */
#include "plan/file.h"
#include "rehearse/rehearsal.h"

const char *rp__optimizer_text(const rp_recipe *r, char out[RP_OPTIMIZER_CHARS])
{
    static const char *const dtypes[] = { [RP_STATE_FP32] = "fp32 states", [RP_STATE_BF16] = "bf16 states", [RP_STATE_INT8] = "int8 states" };
    bool adamw = r->optimizer.name == RP_OPTIMIZER_ADAMW, states = adamw || r->optimizer.momentum > 0;

    snprintf(out, RP_OPTIMIZER_CHARS, "%s with %s%s%s%s", adamw ? "adamw" : "sgd",
             !states ? "no states" : dtypes[r->optimizer.state_dtype],
             r->optimizer.master_weights ? ", master weights" : "", r->grad_dtype == RP_GRAD_FP32 ? ", fp32 gradients" : "",
             r->dist.state_offload ? ", on disk" : "");
    return out;
}

rp_status rp__step_plan_write(rp_ctx *ctx, const rp_plan *p, const rp_recipe *r, const char *text, const char *path)
{
    char optimizer[RP_OPTIMIZER_CHARS];
    const rp_plan_stamp stamp = { rp_version(), p->machine, ctx->threads, p->costs, p->budget, rp__optimizer_text(r, optimizer), p->before };
    const rp_plan_takes takes = {
        p->found.memory.peak_bytes, p->found.memory.reserved_bytes, p->found.saved_bytes, p->found.step_flops, p->found.recompute_flops,
        rp__overhead(p->base_seconds, p->seconds, p->recompute_seconds), rp__overhead(p->base_seconds, p->seconds, p->bound_seconds),
    };

    return rp__plan_write(ctx, path, p, &stamp, &takes, text);
}
