/* ops/softmax.c -- y = exp(x - max) / sum exp(x - max) over the last dimension.
 *
 *   in     x [..., n]     any floating dtype
 *   out    y [..., n]
 *   needs  y: dx = y * (dy - sum(dy * y))
 */
#include "ops/common.h"

enum { X };
enum { Y };

static rp_status softmax_shape(rp_op_meta *m)
{
    int64_t n = rp_meta_dim(&m->in[X], -1);

    RP_TRY(rp__same_shape(m));
    RP_CHECK(m->ctx, n > 0, RP_ERR_SHAPE, "softmax: rows of %s are empty", rp_meta_str(&m->in[X]));
    if (rp__op_fast(m)) return RP_OK;
    m->scratch_bytes          = n * (int64_t)sizeof(double);
    m->scratch_backward_bytes = 2 * n * (int64_t)sizeof(double);
    return RP_OK;
}

static rp_cost softmax_cost(const rp_op_meta *m, rp_pass pass)
{
    return rp__cost(m, pass, rp_meta_elems(&m->in[X]) * (pass == RP_FORWARD ? 26 : 4));
}

static void softmax_forward(const rp_op_call *c)
{
    const rp_kernels *k = rp__op_kernels(c);
    int64_t n = rp_meta_dim(&c->meta->in[X], -1), rows = rp_meta_rows(&c->meta->in[X]);
    double *x = c->scratch;

    if (k->softmax_forward) {
        k->softmax_forward(c->meta->in[X].dtype, rp__data(c->in[X]), rp__data(c->out[Y]), rows, n, rp__on(c->meta));
        return;
    }
    for (int64_t r = 0; r < rows; r++) {
        rp_row_get(c->in[X], r, x);
        rp__row_softmax(x, n);
        rp_row_put(c->out[Y], r, x);
    }
}

static void softmax_backward(const rp_op_call *c)
{
    const rp_kernels *k = rp__op_kernels(c);
    int64_t n = rp_meta_dim(&c->meta->in[X], -1), rows = rp_meta_rows(&c->meta->in[X]);
    double *y = c->scratch, *g = y + n;

    if (k->softmax_backward) {
        k->softmax_backward(c->meta->in[X].dtype, rp__data(c->out[Y]), rp__data(c->grad_out[Y]), rp__data(c->grad_in[X]),
                            rp__grad_dtype(c, X), c->grad_adds[X], rows, n, rp__on(c->meta));
        return;
    }
    for (int64_t r = 0; r < rows; r++) {
        double dot = 0;
        rp_row_get(c->out[Y], r, y);
        rp_row_get(c->grad_out[Y], r, g);
        for (int64_t i = 0; i < n; i++) dot += y[i] * g[i];
        for (int64_t i = 0; i < n; i++) g[i] = y[i] * (g[i] - dot);
        rp_row_grad(c, X, r, g);
    }
}

static const rp_op_case softmax_cases[] = {
    { "odd sizes",    .in = { { 3, 5, 7 } },  .scale = 3,  .roundings = 1 },
    { "three blocks", .in = { { 2, 1031 } },  .scale = 3,  .roundings = 1 },
    { "one column",   .in = { { 4, 1 } },                  .roundings = 1 },
    { "far out",      .in = { { 2, 700 } },   .scale = 60, .roundings = 1 },
};

const rp_op rp_op_softmax = {
    .name = "softmax", .n_in = 1, .n_out = 1,
    .needs = RP_OUT(Y),
    .shape = softmax_shape, .cost = softmax_cost,
    .forward = softmax_forward, .backward = softmax_backward,
    .cases = softmax_cases, .n_case = RP_COUNT(softmax_cases),
};
