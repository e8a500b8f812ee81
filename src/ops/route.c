/* ops/route.c -- chooses the experts of each token and their weights (Shazeer et al. 2017): the k largest of softmax(logits).
 *
 *   in     logits [..., n]       any floating dtype
 *   out    weights [..., k]      softmax(logits) at the choices; if renormalised, scaled to sum to 1; fp32, or fp64 beside fp64
 *          choices [..., k]      int32, the largest first; of equal ones the lower number first
 *   needs  choices, and weights if they are renormalised (softmax over the chosen alone), else logits
 *   flag   RP_OP_DECIDES: later memory and work depend on its choices, so its outputs are always kept, under every policy
 *
 * A NaN logit counts as the smallest when experts are chosen, but does reach the weights. So choices are always valid experts.
 */
#include "ops/common.h"

enum { LOGITS };
enum { WEIGHTS, CHOICES };

static const rp_attr_route *attr_of(const rp_op_meta *m) { return m->attr; }

static rp_status route_shape(rp_op_meta *m)
{
    int64_t n = rp_meta_dim(&m->in[LOGITS], -1), k = attr_of(m)->k;

    RP_TRY(rp__check_one_dtype(m));
    RP_CHECK(m->ctx, m->in[LOGITS].ndim >= 1 && n <= INT32_MAX, RP_ERR_SHAPE, "route: logits are %s, expected [..., experts]",
             rp_meta_str(&m->in[LOGITS]));
    RP_CHECK(m->ctx, k >= 1 && k <= n, RP_ERR_SHAPE, "route: %" PRId64 " of %" PRId64 " experts cannot be chosen", k, n);
    m->out[WEIGHTS]       = m->in[LOGITS];
    m->out[WEIGHTS].dtype = rp_meta_stat_dtype(&m->in[LOGITS]);
    m->out[WEIGHTS].dim[m->out[WEIGHTS].ndim - 1] = k;
    m->out[CHOICES]       = m->out[WEIGHTS];
    m->out[CHOICES].dtype = RP_I32;
    m->needs &= ~(attr_of(m)->renormalise ? RP_IN(LOGITS) : RP_OUT(WEIGHTS));
    if (rp__op_fast(m)) return RP_OK;
    m->scratch_bytes          = (n + k) * (int64_t)sizeof(double);
    m->scratch_backward_bytes = (2 * n + 2 * k) * (int64_t)sizeof(double);
    return RP_OK;
}

static rp_cost route_cost(const rp_op_meta *m, rp_pass pass)
{
    int64_t each = pass == RP_FORWARD ? 26 + attr_of(m)->k : 4;

    return rp__cost(m, pass, rp_meta_elems(&m->in[LOGITS]) * each);
}

/* The next expert in order of (value, number) after (before, before_at). */
static int64_t next_largest(const double *x, int64_t n, double before, int64_t before_at)
{
    int64_t best = -1;
    double most  = 0;

    for (int64_t i = 0; i < n; i++) {
        double v = isnan(x[i]) ? -INFINITY : x[i];
        if (v > before || (v == before && i <= before_at)) continue;
        if (best < 0 || v > most) {
            best = i;
            most = v;
        }
    }
    return best;
}

static void route_choose(const rp_op_call *c, int64_t row, double *x, int64_t n, double *weight)
{
    int64_t k = attr_of(c->meta)->k, at = -1;
    double before = INFINITY, sum = 0;

    rp_row_get(c->in[LOGITS], row, x);
    for (int64_t j = 0; j < k; j++) {
        at     = next_largest(x, n, before, at);
        before = isnan(x[at]) ? -INFINITY : x[at];
        rp_elem_put(c->out[CHOICES], row * k + j, (double)at);
    }
    rp__row_softmax(x, n);
    for (int64_t j = 0; j < k; j++) sum += weight[j] = x[rp_int_get(c->out[CHOICES], row * k + j)];
    for (int64_t j = 0; j < k && attr_of(c->meta)->renormalise; j++) weight[j] /= sum;
    rp_row_put(c->out[WEIGHTS], row, weight);
}

static void route_forward(const rp_op_call *c)
{
    const rp_kernels *kernels = rp__op_kernels(c);
    const rp_attr_route *a    = c->attr;
    int64_t n = rp_meta_dim(&c->meta->in[LOGITS], -1), rows = rp_meta_rows(&c->meta->in[LOGITS]);
    double *x = c->scratch;

    rp__ints_within(c, CHOICES, n);
    if (kernels->route_forward) {
        kernels->route_forward(c->meta->in[LOGITS].dtype, rp__data(c->in[LOGITS]), rp__data(c->out[WEIGHTS]), rp__data(c->out[CHOICES]), rows,
                               n, a->k, a->renormalise, rp__on(c->meta));
        return;
    }
    for (int64_t r = 0; r < rows; r++) route_choose(c, r, x, n, x + n);
}

/* With p the softmax over all experts, or over the chosen alone: dx = p * (dw of the expert, 0 if not chosen, - sum of dw * p). */
static void slope_of_row(const rp_op_call *c, int64_t row, double *x, int64_t n, double *d)
{
    int64_t k   = attr_of(c->meta)->k;
    double *dw  = d + n, *weight = dw + k, dot = 0;
    bool chosen = attr_of(c->meta)->renormalise;

    rp_row_get(c->grad_out[WEIGHTS], row, dw);
    if (chosen) {
        rp_row_get(c->out[WEIGHTS], row, weight);
        memset(x, 0, (size_t)n * sizeof *x);
    } else {
        rp_row_get(c->in[LOGITS], row, x);
        rp__row_softmax(x, n);
    }
    memset(d, 0, (size_t)n * sizeof *d);
    for (int64_t j = 0; j < k; j++) {
        int32_t at = rp_int_get(c->out[CHOICES], row * k + j);
        if (chosen) x[at] = weight[j];
        d[at] = dw[j];
        dot += dw[j] * x[at];
    }
    for (int64_t i = 0; i < n; i++) d[i] = x[i] * (d[i] - dot);
    rp_row_grad(c, LOGITS, row, d);
}

static void route_backward(const rp_op_call *c)
{
    const rp_kernels *kernels = rp__op_kernels(c);
    const rp_attr_route *a    = c->attr;
    int64_t n = rp_meta_dim(&c->meta->in[LOGITS], -1), rows = rp_meta_rows(&c->meta->in[LOGITS]);
    double *x = c->scratch;

    if (!c->grad_out[WEIGHTS]) {
        if (!c->grad_adds[LOGITS]) rp__tensor_zero(c->grad_in[LOGITS]);
        return;
    }
    if (kernels->route_backward) {
        kernels->route_backward(c->meta->in[LOGITS].dtype, rp__data(c->in[LOGITS]), rp__data(c->out[WEIGHTS]), rp__data(c->out[CHOICES]),
                                rp__data(c->grad_out[WEIGHTS]), rp__data(c->grad_in[LOGITS]), rp__grad_dtype(c, LOGITS), c->grad_adds[LOGITS],
                                rows, n, a->k, a->renormalise, rp__on(c->meta));
        return;
    }
    for (int64_t r = 0; r < rows; r++) slope_of_row(c, r, x, n, x + n);
}

#define OF(k, renormalise) .attr = &(rp_attr_route){ k, renormalise }

static const rp_op_case route_cases[] = {
    { "two of four",      .in = { { 3, 5, 4 } }, OF(2, false), .scale = 2 },
    { "renormalised",     .in = { { 3, 5, 4 } }, OF(2, true),  .scale = 2 },
    { "many experts",     .in = { { 7, 131 } },  OF(8, true),  .scale = 2 },
    { "all of them",      .in = { { 4, 3 } },    OF(3, false) },
    { "one of many",      .in = { { 5, 37 } },   OF(1, false), .scale = 3 },
    { "one, whole",       .in = { { 5, 37 } },   OF(1, true),  .scale = 3 },
    { "a row",            .in = { { 19 } },      OF(4, true),  .scale = 3 },
    { "more than all",    .in = { { 2, 4 } },    OF(5, false), .expect = RP_ERR_SHAPE },
    { "none",             .in = { { 2, 4 } },    OF(0, false), .expect = RP_ERR_SHAPE },
};

const rp_op rp_op_route = {
    .name = "route", .n_in = 1, .n_out = 2, .attr_size = sizeof(rp_attr_route), .flags = RP_OP_DECIDES,
    .needs = RP_IN(LOGITS) | RP_OUT(WEIGHTS) | RP_OUT(CHOICES),
    .shape = route_shape, .cost = route_cost,
    .forward = route_forward, .backward = route_backward,
    .cases = route_cases, .n_case = RP_COUNT(route_cases),
};
