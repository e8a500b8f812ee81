/* plan/time.c -- computes the seconds of a step from added seconds, and compares plans. */
#include "plan/time.h"

#include <math.h>

/* A plan estimates offloading for each segment. Values that rules offload add to it. */
static void add_offload(const rp_step_time *t, rp_plan *p)
{
    double backward = t->seconds - t->forward_seconds - t->update_seconds + t->recompute_seconds;
    double all      = rp__cost_offload_seconds(t->costs, t->to_memory, t->dtype, p->found.offloaded_bytes, t->forward_seconds, backward);

    p->offload_seconds = fmax(all, p->facts.offload_seconds);
    p->recompute_seconds += p->offload_seconds;
}

rp_status rp__step_compute_time(const rp_step_time *t, rp_overlap_base *base, rp_plan *p)
{
    double whole = t->seconds + t->recompute_seconds;

    *base = (rp_overlap_base){ .seconds = t->seconds };
    if (t->overlap) {
        RP_TRY(t->overlap->status);
        *base = rp__overlap_base(t->overlap);
        whole = rp__overlap_seconds(t->overlap, true);
    }
    if (isnan(base->seconds) || isnan(whole)) return RP_ERR_MEMORY;
    if (!p) return RP_OK;
    p->seconds                = base->seconds;
    p->recompute_seconds      = t->overlap ? fmax(0, whole - p->seconds) : t->recompute_seconds;
    p->hidden_seconds         = t->overlap ? t->seconds + t->recompute_seconds - p->seconds - p->recompute_seconds : 0;
    p->comm_seconds           = t->comm_seconds;
    p->comm_recompute_seconds = t->comm_recompute_seconds;
    p->comm_bytes             = t->comm_bytes;
    p->state_bytes            = t->state_bytes;
    p->state_seconds          = t->state_seconds;
    add_offload(t, p);
    return RP_OK;
}

/* ---- comparing plans ---- */

double rp__step_seconds(const rp_plan *p) { return p->seconds + p->recompute_seconds; }
bool rp__step_is_faster(const rp_plan *a, const rp_plan *b) { return rp__step_seconds(a) < rp__step_seconds(b) * (1 - RP_STEP_SAME); }
bool rp__step_is_smaller(const rp_plan *a, const rp_plan *b) { return a->placement.height < b->placement.height; }

void rp__step_keep(rp_plan **best, rp_plan *other, rp_step_better *better)
{
    rp_plan *worse = other;

    if (other && (!*best || better(other, *best))) {
        worse = *best;
        *best = other;
    }
    rp__plan_free(worse);
}
