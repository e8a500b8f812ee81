/* ops/weight_norm.c -- the norm of each row of v = w + factor * b a, the weight of a linear layer with its low-rank adapter (Liu et al. 2024,
 * arXiv 2402.09353): n[o] = sqrt(sum over i of v[o, i]^2). v as a whole is never stored.
 *
 *   in     w [out, in], or [in, out] with in_out     a [r, in]     b [out, r]     one floating dtype; w may be quantised, then it is [out, in] in
 *          any case, and in_out fixes the order of sums alone
 *   out    n [out]        the same dtype, rounded once; for a new adapter (b is 0) it is bit-identical to the norm of w
 *   no input has a gradient: the paper treats the norm as a constant in backward (section 4.3)
 *   order  every call sums a row in the same order, so a replayed forward is bitwise equal
 */
#include "ops/common.h"

enum { W, A, B };
enum { N };

static bool is_in_out(const rp_op_meta *m) { return ((const rp_attr_weight_norm *)m->attr)->in_out; }
static bool is_stored_in_out(const rp_op_meta *m) { return is_in_out(m) && !rp__is_quant(m->in[W].dtype); }

static rp_status weight_norm_shape(rp_op_meta *m)
{
    const rp_meta *w = &m->in[W], *a = &m->in[A], *b = &m->in[B];
    int in = is_stored_in_out(m) ? 0 : 1;

    RP_CHECK(m->ctx, rp_meta_is_float(a) && b->dtype == a->dtype && rp__weight_fits(m, A, W), RP_ERR_DTYPE,
             "weight_norm: w is %s, a %s and b %s, expected one floating dtype", rp_meta_str(w), rp_meta_str(a), rp_meta_str(b));
    RP_CHECK(m->ctx, w->ndim == 2 && a->ndim == 2 && b->ndim == 2 && a->dim[0] > 0 && a->dim[1] == w->dim[in] && b->dim[0] == w->dim[1 - in] &&
             b->dim[1] == a->dim[0], RP_ERR_SHAPE, "weight_norm: w is %s, a %s and b %s, expected w %s, a [r, in] and b [out, r]", rp_meta_str(w),
             rp_meta_str(a), rp_meta_str(b), in ? "[out, in]" : "[in, out]");
    m->out[N] = rp_meta_1d(a->dtype, b->dim[0]);
    if (rp__op_fast(m)) rp__op_table(m)->weight_norm_scratch(is_in_out(m), b->dim[0], a->dim[1], a->dim[0], &m->scratch_bytes, rp__on(m));
    return RP_OK;
}

/* One product per adapter rank, the sum, its square. */
static rp_cost weight_norm_cost(const rp_op_meta *m, rp_pass pass)
{
    return rp__cost(m, pass, pass == RP_FORWARD ? rp_meta_elems(&m->in[W]) * 2 * (m->in[A].dim[0] + 1) : 0);
}

static double sum_at(const rp_op_call *c, int64_t out, int64_t in)
{
    const rp_attr_weight_norm *attr = c->attr;
    int64_t rank = c->meta->in[A].dim[0], n_in = c->meta->in[A].dim[1], n_out = c->meta->in[B].dim[0];
    double sum = 0;

    for (int64_t k = 0; k < rank; k++) sum += rp_elem_get(c->in[B], out * rank + k) * rp_elem_get(c->in[A], k * n_in + in);
    return rp__weight_get(c, A, W, is_stored_in_out(c->meta) ? in * n_out + out : out * n_in + in) + (double)attr->factor * sum;
}

static void weight_norm_forward(const rp_op_call *c)
{
    const rp_attr_weight_norm *attr = c->attr;
    const rp_kernels *k = rp__op_kernels(c);
    int64_t rank = c->meta->in[A].dim[0], n_in = c->meta->in[A].dim[1], n_out = c->meta->in[B].dim[0];

    if (k->weight_norm) {
        k->weight_norm(c->meta->in[A].dtype, c->meta->in[W].dtype, rp__data(c->in[W]), rp__data(c->in[A]), rp__data(c->in[B]), attr->factor, attr->in_out,
                       rp__data(c->out[N]), n_out, n_in, rank, c->scratch, rp__on(c->meta));
        return;
    }
    for (int64_t out = 0; out < n_out; out++) {
        double squares = 0;
        for (int64_t in = 0; in < n_in; in++) {
            double v = sum_at(c, out, in);
            squares += v * v;
        }
        rp_elem_put(c->out[N], out, sqrt(squares));
    }
}

static const rp_op_case weight_norm_cases[] = {
    { "odd sizes",     .in = { { 7, 5 },    { 2, 5 },    { 7, 2 } },   .attr = &(rp_attr_weight_norm){ 1.5f, false } },
    { "stored in, out", .in = { { 5, 7 },   { 3, 5 },    { 7, 3 } },   .attr = &(rp_attr_weight_norm){ 0.7f, true } },
    { "one row",       .in = { { 1, 33 },   { 1, 33 },   { 1, 1 } },   .attr = &(rp_attr_weight_norm){ -2, false } },
    { "wide rows",     .in = { { 3, 1037 }, { 4, 1037 }, { 3, 4 } },   .attr = &(rp_attr_weight_norm){ 0.5f, false } },
    { "wide, in, out", .in = { { 19, 530 }, { 2, 19 },   { 530, 2 } }, .attr = &(rp_attr_weight_norm){ 0.5f, true } },
    { "other ranks",   .in = { { 7, 5 },    { 2, 5 },    { 7, 3 } },   .attr = &(rp_attr_weight_norm){ 1, false }, .expect = RP_ERR_SHAPE },
    { "turned round",  .in = { { 5, 7 },    { 2, 5 },    { 7, 2 } },   .attr = &(rp_attr_weight_norm){ 1, false }, .expect = RP_ERR_SHAPE },
};

const rp_op rp_op_weight_norm = {
    .name = "weight_norm", .n_in = 3, .n_out = 1, .attr_size = sizeof(rp_attr_weight_norm),
    .no_grad_in = RP_IN(W) | RP_IN(A) | RP_IN(B),
    .shape = weight_norm_shape, .cost = weight_norm_cost,
    .forward = weight_norm_forward,
    .cases = weight_norm_cases, .n_case = RP_COUNT(weight_norm_cases),
};
