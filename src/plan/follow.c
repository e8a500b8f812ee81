/* plan/follow.c -- gives the tape the fates of each call of a plan, and reports calls that differ from the plan. */
#include "plan/plan.h"

#include <string.h>

static bool is_planned(const rp_plan_pass *pass, int at, const rp_op_meta *meta, const char *path)
{
    if (at >= pass->n_calls) return false;
    const rp_plan_call *call = &pass->call[at];
    return !strcmp(call->op, meta->op->name) && !strcmp(call->path, path) && rp_meta_same(&call->out, &meta->out[0]);
}

static const rp_plan_pass *pass_now(const rp_plan *plan) { return &plan->pass[plan->n_order ? plan->order[plan->done % plan->n_order] : 0]; }

static rp_status plan_refuse(const rp_plan_pass *pass, int at, const rp_op_meta *meta, const char *path)
{
    static const char failure[] = "the step is not the one that was planned";
    const rp_plan_call *call = &pass->call[at];

    if (at >= pass->n_calls)
        return rp_fail(meta->ctx, RP_ERR_STATE, "%s: %s of '%s' comes after the last of the %d planned calls", failure, meta->op->name, path, pass->n_calls);
    return rp_fail(meta->ctx, RP_ERR_STATE, "%s: call %d is %s of '%s' with output %s, planned was %s of '%s' with output %s", failure, at,
                   meta->op->name, path, rp_meta_str(&meta->out[0]), call->op, call->path, rp_meta_str(&call->out));
}

static rp_status fate(void *self, int at, const rp_op_meta *meta, const rp_scope *scope, rp_verdict *verdict)
{
    const rp_plan_pass *pass = pass_now(self);

    if (!is_planned(pass, at, meta, scope->path)) return plan_refuse(pass, at, meta, scope->path);
    const rp_plan_call *call = &pass->call[at];
    for (int i = 0; i < meta->n_out + meta->n_slot; i++) {
        verdict[i].alone = call->recompute;     /* inside regions too, it is recomputed for each reader */
        if (verdict[i].must) continue;
        verdict[i].fate = (unsigned char)rp__plan_fate(call, (call->offloadable >> i & 1) && verdict[i].fate == RP_OFFLOAD);
        verdict[i].by   = "plan";
    }
    return RP_OK;
}

/* A backward begins, so the next call belongs to the next pass. */
static rp_status recorded(void *self)
{
    ((rp_plan *)self)->done++;
    return RP_OK;
}

void rp__plan_follow(rp_ctx *ctx, rp_plan *plan)
{
    if (!plan) {
        rp__tape_plan_by(ctx, NULL);
        return;
    }
    plan->done = 0;
    rp__tape_plan_by(ctx,
                     &(rp_planner){ .fate = fate, .recorded = recorded, .region = plan->pass[0].region, .n_regions = plan->pass[0].n_regions, .self = plan });
}
