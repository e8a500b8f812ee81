/* ops/mul.c -- y = a * b, of one shape.
 *
 *   in     a [...]   b [...]     one floating dtype
 *   out    y [...]
 *   needs  a for the gradient of b, b for that of a: da = dy * b, db = dy * a
 */
#include "ops/common.h"

enum { A, B };
enum { Y };

static rp_status mul_shape(rp_op_meta *m)
{
    RP_TRY(rp__same_shape(m));
    rp__read_for(m, RP_IN(A), RP_IN(B));
    rp__read_for(m, RP_IN(B), RP_IN(A));
    return RP_OK;
}

static rp_cost mul_cost(const rp_op_meta *m, rp_pass pass)
{
    int64_t e = rp_meta_elems(&m->in[A]);

    return rp__cost(m, pass, pass == RP_FORWARD ? e : e * (m->in_grad[A] + m->in_grad[B]));
}

static void mul_forward(const rp_op_call *c)
{
    const rp_kernels *k = rp__op_kernels(c);
    rp_dtype dtype = c->meta->in[A].dtype;
    int64_t n = rp_meta_elems(&c->meta->in[A]);

    if (k->mul) {
        k->mul(dtype, rp__data(c->in[A]), rp__data(c->in[B]), rp__data(c->out[Y]), dtype, false, n, rp__on(c->meta));
        return;
    }
    for (int64_t e = 0; e < n; e++) rp_elem_put(c->out[Y], e, rp_elem_get(c->in[A], e) * rp_elem_get(c->in[B], e));
}

static void mul_backward(const rp_op_call *c)
{
    const rp_kernels *k = rp__op_kernels(c);
    const rp_tensor *dy = c->grad_out[Y];
    int64_t n = rp_meta_elems(&c->meta->in[A]);

    for (int i = A; i <= B; i++) {
        const rp_tensor *other = c->in[i == A ? B : A];
        if (!c->grad_in[i]) continue;
        if (k->mul)
            k->mul(c->meta->in[A].dtype, rp__data(dy), rp__data(other), rp__data(c->grad_in[i]), rp__grad_dtype(c, i), c->grad_adds[i], n,
                   rp__on(c->meta));
        else
            for (int64_t e = 0; e < n; e++) rp__elem_grad(c, i, e, rp_elem_get(dy, e) * rp_elem_get(other, e));
    }
}

static const rp_op_case mul_cases[] = {
    { "a row",         .in = { { 7 },       { 7 } } },
    { "odd sizes",     .in = { { 3, 5, 7 }, { 3, 5, 7 } } },
    { "three blocks",  .in = { { 3, 521 },  { 3, 521 } } },
    { "shapes differ", .in = { { 2, 4 },    { 4, 2 } }, .expect = RP_ERR_SHAPE },
};

const rp_op rp_op_mul = {
    .name = "mul", .n_in = 2, .n_out = 1,
    .needs = RP_IN(A) | RP_IN(B),
    .shape = mul_shape, .cost = mul_cost,
    .forward = mul_forward, .backward = mul_backward,
    .cases = mul_cases, .n_case = RP_COUNT(mul_cases),
};
