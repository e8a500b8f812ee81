/* ops/dropout.c -- in train mode, sets elements to zero with probability p and multiplies the others by 1/(1-p); otherwise copies.
 *
 *   in     x [batch, ...]     any floating dtype; dimension 0 is the sample
 *   out    y [batch, ...]
 *   needs  nothing: the mask is a function of (key, step, sample, element within the sample). Backward draws it again. So a
 *          replay, a different split of the batch and another rank draw the same mask (base/philox.h)
 */
#include "ops/common.h"

#include "base/philox.h"

enum { X };
enum { Y };

static int64_t samples(const rp_op_meta *m) { return rp_meta_dim(&m->in[X], 0); }
static int64_t sample_elems(const rp_op_meta *m) { return samples(m) ? rp_meta_elems(&m->in[X]) / samples(m) : 0; }

static rp_status dropout_shape(rp_op_meta *m)
{
    const rp_attr_dropout *a = m->attr;

    RP_TRY(rp__same_shape(m));
    RP_CHECK(m->ctx, a->p >= 0 && a->p <= 1, RP_ERR_ARG, "dropout: p is %g, expected 0 to 1", (double)a->p);
    RP_CHECK(m->ctx, sample_elems(m) <= INT64_C(1) << 34, RP_ERR_SHAPE, "dropout: a sample of %s has more elements than a random stream",
             rp_meta_str(&m->in[X]));
    return RP_OK;
}

static rp_cost dropout_cost(const rp_op_meta *m, rp_pass pass)
{
    return rp__cost(m, pass, rp_meta_elems(&m->in[X]) * (m->train ? 30 : 1));
}

/* The factor for x and dy of this element. */
static double factor(const rp_op_call *c, const rp_stream *stream, int64_t sample, int64_t element)
{
    float p = c->meta->train ? ((const rp_attr_dropout *)c->attr)->p : 0;

    return rp__uniform(rp__stream_word(stream, sample, element)) < p ? 0 : 1 / (1 - (double)p);
}

static void dropout_forward(const rp_op_call *c)
{
    const rp_attr_dropout *a = c->attr;
    const rp_kernels *k      = rp__op_kernels(c);
    rp_dtype dtype           = c->meta->in[X].dtype;
    rp_stream stream         = rp__stream(c);
    int64_t batch = samples(c->meta), n = sample_elems(c->meta);

    if (k->dropout) {
        k->dropout(dtype, rp__data(c->in[X]), rp__data(c->out[Y]), dtype, false, stream, c->meta->train ? a->p : 0, batch, n,
                   rp__on(c->meta));
        return;
    }
    for (int64_t e = 0; e < batch * n; e++) {
        double f = factor(c, &stream, e / n, e % n);
        rp_elem_put(c->out[Y], e, f != 0 ? f * rp_elem_get(c->in[X], e) : 0);
    }
}

static void dropout_backward(const rp_op_call *c)
{
    const rp_attr_dropout *a = c->attr;
    const rp_kernels *k      = rp__op_kernels(c);
    rp_stream stream         = rp__stream(c);
    int64_t batch = samples(c->meta), n = sample_elems(c->meta);

    if (k->dropout) {
        k->dropout(c->meta->in[X].dtype, rp__data(c->grad_out[Y]), rp__data(c->grad_in[X]), rp__grad_dtype(c, X), c->grad_adds[X], stream,
                   c->meta->train ? a->p : 0, batch, n, rp__on(c->meta));
        return;
    }
    for (int64_t e = 0; e < batch * n; e++) {
        double f = factor(c, &stream, e / n, e % n);
        rp__elem_grad(c, X, e, f != 0 ? f * rp_elem_get(c->grad_out[Y], e) : 0);
    }
}

static const rp_op_case dropout_cases[] = {
    { "a tenth",       .in = { { 3, 5, 7 } }, .attr = &(rp_attr_dropout){ 0.1f } },
    { "half, blocks",  .in = { { 2, 1031 } }, .attr = &(rp_attr_dropout){ 0.5f } },
    { "none",          .in = { { 3, 4 } },    .attr = &(rp_attr_dropout){ 0 } },
    { "all",           .in = { { 3, 4 } },    .attr = &(rp_attr_dropout){ 1 } },
    { "evaluation",    .in = { { 3, 5 } },    .attr = &(rp_attr_dropout){ 0.5f }, .eval = true },
    { "p is too much", .in = { { 3, 4 } },    .attr = &(rp_attr_dropout){ 1.5f }, .expect = RP_ERR_ARG },
};

const rp_op rp_op_dropout = {
    .name = "dropout", .n_in = 1, .n_out = 1, .attr_size = sizeof(rp_attr_dropout), .flags = RP_OP_RANDOM,
    .shape = dropout_shape, .cost = dropout_cost,
    .forward = dropout_forward, .backward = dropout_backward,
    .cases = dropout_cases, .n_case = RP_COUNT(dropout_cases),
};
