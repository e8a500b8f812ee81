/* ops/cast.c -- y = x in another floating dtype; the gradient is cast back.
 *
 *   in     x [...]     any floating dtype
 *   out    y [...]     attr dtype
 */
#include "ops/common.h"

enum { X };
enum { Y };

static rp_status cast_shape(rp_op_meta *m)
{
    const rp_attr_cast *a = m->attr;

    RP_TRY(rp__same_shape(m));
    m->out[Y].dtype = (rp_dtype)a->dtype;
    RP_CHECK(m->ctx, rp_meta_is_float(&m->out[Y]), RP_ERR_DTYPE, "cast: to %s, expected a floating dtype",
             rp_dtype_name((rp_dtype)a->dtype));
    return RP_OK;
}

static rp_cost cast_cost(const rp_op_meta *m, rp_pass pass) { return rp__cost(m, pass, rp_meta_elems(&m->in[X])); }

/* Kernels do not support fp64. The input's dtype is checked elsewhere for all ops; here the output's must be checked, too. */
static bool has_kernel(const rp_op_call *c) { return rp__op_kernels(c)->copy_strips && c->meta->out[Y].dtype != RP_F64; }

static void cast_forward(const rp_op_call *c)
{
    int64_t n = rp_meta_elems(&c->meta->in[X]);

    if (has_kernel(c)) {
        rp__op_kernels(c)->copy_strips(c->meta->in[X].dtype, rp__data(c->in[X]), n, c->meta->out[Y].dtype, rp__data(c->out[Y]), n, false, 1,
                                       n, rp__on(c->meta));
        return;
    }
    for (int64_t e = 0; e < n; e++) rp_elem_put(c->out[Y], e, rp_elem_get(c->in[X], e));
}

static void cast_backward(const rp_op_call *c)
{
    int64_t n = rp_meta_elems(&c->meta->in[X]);

    if (has_kernel(c)) {
        rp__op_kernels(c)->copy_strips(c->meta->out[Y].dtype, rp__data(c->grad_out[Y]), n, rp__grad_dtype(c, X), rp__data(c->grad_in[X]), n,
                                       c->grad_adds[X], 1, n, rp__on(c->meta));
        return;
    }
    for (int64_t e = 0; e < n; e++) rp__elem_grad(c, X, e, rp_elem_get(c->grad_out[Y], e));
}

static const rp_op_case cast_cases[] = {
    { "to fp32",  .in = { { 3, 5, 7 } }, .attr = &(rp_attr_cast){ RP_F32 } },
    { "to bf16",  .in = { { 2, 700 } },  .attr = &(rp_attr_cast){ RP_BF16 }, .roundings = 1 },
    { "to fp64",  .in = { { 3, 5 } },    .attr = &(rp_attr_cast){ RP_F64 } },
    { "to int32", .in = { { 3, 5 } },    .attr = &(rp_attr_cast){ RP_I32 },  .expect = RP_ERR_DTYPE },
};

const rp_op rp_op_cast = {
    .name = "cast", .n_in = 1, .n_out = 1, .attr_size = sizeof(rp_attr_cast),
    .shape = cast_shape, .cost = cast_cost,
    .forward = cast_forward, .backward = cast_backward,
    .cases = cast_cases, .n_case = RP_COUNT(cast_cases),
};
