/* ops/mse.c -- loss = weight * sum of (x - target)^2, the squared error; weight = 1 / elements gives the mean.
 *
 *   in     x [...]   target [...]     one floating dtype and shape; both may have a gradient
 *   out    loss [1]                   fp32 (fp64 in fp64). Blocks of MSE_BLOCK elements are summed in fp32; the blocks' sums are added in double
 *   needs  x, target: dx = 2 weight dloss (x - target), dtarget = -dx
 */
#include "ops/common.h"

enum { X, TARGET };
enum { LOSS };

static int64_t blocks_of(const rp_op_meta *m) { return (rp_meta_elems(&m->in[X]) + RP_MSE_BLOCK - 1) / RP_MSE_BLOCK; }
static float weight_of(const rp_op_call *c) { return ((const rp_attr_mse *)c->attr)->weight; }

static rp_status mse_shape(rp_op_meta *m)
{
    RP_TRY(rp__check_one_shape(m));
    m->out[LOSS] = rp_meta_1d(rp_meta_stat_dtype(&m->in[X]), 1);
    if (rp__op_fast(m)) m->scratch_bytes = blocks_of(m) * (int64_t)sizeof(float);
    return RP_OK;
}

static rp_cost mse_cost(const rp_op_meta *m, rp_pass pass)
{
    int64_t n = rp_meta_elems(&m->in[X]);

    return rp__cost(m, pass, pass == RP_FORWARD ? 3 * n : 2 * n * (m->in_grad[X] + m->in_grad[TARGET]));
}

static void mse_forward(const rp_op_call *c)
{
    const rp_kernels *k = rp__op_kernels(c);
    int64_t n           = rp_meta_elems(&c->meta->in[X]);
    double sum          = 0;

    if (k->mse_sums) {
        k->mse_sums(c->meta->in[X].dtype, rp__data(c->in[X]), rp__data(c->in[TARGET]), c->scratch, n, rp__on(c->meta));
        k->cross_entropy_total(c->scratch, weight_of(c), rp__data(c->out[LOSS]), blocks_of(c->meta), rp__on(c->meta));
        return;
    }
    for (int64_t e = 0; e < n; e++) {
        double d = rp_elem_get(c->in[X], e) - rp_elem_get(c->in[TARGET], e);
        sum += d * d;
    }
    rp_elem_put(c->out[LOSS], 0, (double)weight_of(c) * sum);
}

static void mse_backward(const rp_op_call *c)
{
    const rp_kernels *k = rp__op_kernels(c);
    int64_t n           = rp_meta_elems(&c->meta->in[X]);

    for (int i = X; i <= TARGET; i++) {
        const rp_tensor *one = c->in[i], *other = c->in[i == X ? TARGET : X];
        if (!c->grad_in[i]) continue;
        if (k->mse_backward) {
            k->mse_backward(c->meta->in[X].dtype, rp__data(one), rp__data(other), weight_of(c), rp__data(c->grad_out[LOSS]), rp__data(c->grad_in[i]),
                            rp__grad_dtype(c, i), c->grad_adds[i], n, rp__on(c->meta));
            continue;
        }
        double factor = 2 * (double)weight_of(c) * rp_elem_get(c->grad_out[LOSS], 0);
        for (int64_t e = 0; e < n; e++) rp__elem_grad(c, i, e, factor * (rp_elem_get(one, e) - rp_elem_get(other, e)));
    }
}

static const rp_op_case mse_cases[] = {
    { "the mean",      .in = { { 3, 5, 7 }, { 3, 5, 7 } }, .attr = &(rp_attr_mse){ 1 / 105.0f } },
    { "the sum",       .in = { { 2, 700 },  { 2, 700 } },  .attr = &(rp_attr_mse){ 1 } },
    { "three blocks",  .in = { { 9, 1031 }, { 9, 1031 } }, .attr = &(rp_attr_mse){ 0.01f } },
    { "one element",   .in = { { 1 },       { 1 } },       .attr = &(rp_attr_mse){ 0.5f } },
    { "shapes differ", .in = { { 2, 4 },    { 4 } },       .attr = &(rp_attr_mse){ 1 }, .expect = RP_ERR_SHAPE },
};

const rp_op rp_op_mse = {
    .name = "mse", .n_in = 2, .n_out = 1, .attr_size = sizeof(rp_attr_mse), .wide_grad_in = RP_IN(X) | RP_IN(TARGET),
    .needs = RP_IN(X) | RP_IN(TARGET),
    .shape = mse_shape, .cost = mse_cost,
    .forward = mse_forward, .backward = mse_backward,
    .cases = mse_cases, .n_case = RP_COUNT(mse_cases),
};
