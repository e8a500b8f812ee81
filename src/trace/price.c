/* trace/price.c -- sets the seconds of a recorded pass: of its calls, of replaying them, of keeping and of copying their outputs. */
#include "cost/keep.h"
#include "trace/internal.h"

#include <math.h>

double rp__trace_seconds(const rp_trace_notes *notes, const rp_op_meta *m, rp_pass pass)
{
    if (notes->costs) return rp__cost_seconds(notes->costs, m, pass);
    return m->op->cost ? 1e-12 * (double)m->op->cost(m, pass).flops : 0;
}

/* Offloading and fetching are one read and one write each. */
double rp__trace_copy_seconds(const rp_trace_notes *notes, const rp_meta *m)
{
    rp_dtype dtype = m->dtype == RP_BF16 || m->dtype == RP_F64 ? m->dtype : RP_F32;

    return rp__cost_move(notes->costs, dtype, 4 * rp_meta_bytes(m));
}

/* Without a cost table, a replay costs the operations of its call. */
static rp_status price_replays(const rp_trace_notes *notes, rp_trace_pass *pass)
{
    double *keep = rp__bump_alloc(&notes->trace->bump, (pass->n_calls + 1) * (int64_t)sizeof *keep);

    if (!keep) return RP_ERR_MEMORY;
    if (notes->costs) RP_TRY(rp__keep_seconds(notes->ctx, notes->costs, keep));
    for (int at = 0; at < pass->n_calls; at++) {
        rp_trace_call *c = &pass->call[at];
        c->keep          = keep[at];
        c->recompute         = notes->costs ? rp__keep_replay(notes->costs, &c->meta, keep[at]) : c->forward;
    }
    return RP_OK;
}

static double rounded(double seconds, int power) { return ldexp(nearbyint(ldexp(seconds, 40 - power)), power - 40); }

void rp__trace_round(rp_trace_pass *pass)
{
    double sum = 0;
    int power;

    for (int at = 0; at < pass->n_calls; at++) sum += pass->call[at].forward + pass->call[at].backward;
    frexp(sum, &power);
    for (int at = 0; at < pass->n_calls; at++) {
        rp_trace_call *c = &pass->call[at];
        c->forward       = rounded(c->forward, power);
        c->backward      = rounded(c->backward, power);
        c->keep          = rounded(c->keep, power);
        c->recompute         = rounded(c->recompute, power);
    }
    for (int v = 0; v < pass->n_values; v++) pass->value[v].copy = rounded(pass->value[v].copy, power);
}

rp_status rp__trace_price(const rp_trace_notes *notes, rp_trace_pass *pass)
{
    RP_TRY(price_replays(notes, pass));
    rp__trace_round(pass);
    return RP_OK;
}
