/* ops/reduce.c -- shared code of sum and mean: ops/reduce.h. */
#include "ops/reduce.h"

rp_status rp__reduce_shape(rp_op_meta *m)
{
    int dim;

    RP_TRY(rp__check_one_dtype(m));
    RP_TRY(rp__check_dim(m, ((const rp_attr_dim *)m->attr)->dim, &dim));
    m->out[0]      = m->in[0];
    m->out[0].ndim = m->in[0].ndim - 1;
    for (int i = dim; i < m->out[0].ndim; i++) m->out[0].dim[i] = m->in[0].dim[i + 1];
    m->out[0].dim[m->out[0].ndim] = 0;
    return RP_OK;
}

rp_around rp__reduce_around(const rp_op_meta *m)
{
    int dim = ((const rp_attr_dim *)m->attr)->dim;

    return rp__around(&m->in[0], dim < 0 ? dim + m->in[0].ndim : dim);
}

void rp__reduce_sum(const rp_op_call *c, double factor)
{
    const rp_kernels *k = rp__op_kernels(c);
    rp_around a         = rp__reduce_around(c->meta);

    if (k->sum_forward) {
        k->sum_forward(c->meta->in[0].dtype, rp__data(c->in[0]), (float)factor, rp__data(c->out[0]), a.outer, a.n, a.inner,
                       rp__on(c->meta));
        return;
    }
    for (int64_t e = 0; e < a.outer * a.inner; e++) {
        double sum = 0;
        for (int64_t i = 0; i < a.n; i++) sum += rp_elem_get(c->in[0], (e / a.inner * a.n + i) * a.inner + e % a.inner);
        rp_elem_put(c->out[0], e, factor * sum);
    }
}

void rp__reduce_spread(const rp_op_call *c, double factor)
{
    const rp_kernels *k = rp__op_kernels(c);
    rp_around a         = rp__reduce_around(c->meta);

    if (k->sum_backward) {
        k->sum_backward(c->meta->in[0].dtype, rp__data(c->grad_out[0]), (float)factor, rp__data(c->grad_in[0]), rp__grad_dtype(c, 0),
                        c->grad_adds[0], a.outer, a.n, a.inner, rp__on(c->meta));
        return;
    }
    for (int64_t e = 0; e < a.outer * a.inner; e++) {
        double d = factor * rp_elem_get(c->grad_out[0], e);
        for (int64_t i = 0; i < a.n; i++) rp__elem_grad(c, 0, (e / a.inner * a.n + i) * a.inner + e % a.inner, d);
    }
}
