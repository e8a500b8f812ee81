/* tape/decide.c -- asks the decider, then the planner. */
#include "tape/internal.h"

void rp__tape_plan_by(rp_ctx *ctx, const rp_planner *planner)
{
    RP_BUG_IF(rp__tape_n_calls(ctx));
    rp__tape_ctx(ctx)->planner = planner ? *planner : (rp_planner){ 0 };
}

bool rp__tape_is_planned(const rp_ctx *ctx) { return rp__tape_ctx(ctx)->planner.fate; }

rp_scope *rp__tape_scope(rp_tape *tape)
{
    rp_scope *scope = rp__tape_ctx(tape->ctx)->scope;

    return scope ? scope : &tape->root;
}

/* Outside modules a region's name is better than an empty path, unless a plan made the region. Streams are keyed by modules only, so a
 * region changes no dropout mask. */
const char *rp__tape_path(rp_tape *tape)
{
    const char *path = rp__tape_scope(tape)->path;
    bool named       = tape->open != NONE && !tape->fates.region[tape->open].planned;

    return *path || !named ? path : tape->fates.region[tape->open].path;
}

static rp_status ask(rp_tape *tape, const rp_op_meta *m, const rp_scope *here, rp_verdict *verdict)
{
    const rp_tape_ctx *by = rp__tape_ctx(tape->ctx);
    int at                = tape->fates.n_call;

    for (int i = 0; i < MOST_MADE; i++) verdict[i] = (rp_verdict){ .fate = RP_NO_FATE };
    if (by->decider.decide) RP_TRY(by->decider.decide(by->decider.self, at, m, here, verdict));
    return by->planner.fate ? by->planner.fate(by->planner.self, at, m, here, verdict) : RP_OK;
}

/* A preference for offloading is dropped if the context has no place for offloaded values. A must is an error then. */
static rp_status check_offload(const rp_tape *tape, const rp_op_meta *m, const rp_scope *here, rp_verdict *v)
{
    if (v->fate != RP_OFFLOAD || rp__tape_ctx(tape->ctx)->offload) return RP_OK;
    RP_CHECK(tape->ctx, !v->must, RP_ERR_STATE, "%s: slot of %s of '%s' must be offloaded, but no folder or device for offloading is set",
             v->by ? v->by : "a policy", m->op->name, here->path);
    v->fate = RP_KEEP;
    return RP_OK;
}

rp_status rp__tape_decide(rp_tape *tape, const rp_op_meta *m, rp_verdict *verdict, bool *single)
{
    rp_scope here = *rp__tape_scope(tape);

    here.path = rp__tape_path(tape);
    *single   = false;
    RP_TRY(ask(tape, m, &here, verdict));
    for (int i = 0; i < m->n_out + m->n_slot; i++) {
        RP_TRY(check_offload(tape, m, &here, &verdict[i]));
        *single = *single || rp__fate_is_single(verdict[i].fate, rp__op_replays(m->op), verdict[i].alone, tape->open != NONE);
    }
    return RP_OK;
}
