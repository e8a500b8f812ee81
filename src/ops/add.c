/* ops/add.c -- y = a + b, of one shape. Both gradients are dy itself, so nothing is saved and no backward runs.
 *
 *   in     a [...]   b [...]     one floating dtype
 *   out    y [...]
 */
#include "ops/common.h"

enum { A, B };
enum { Y };

static rp_cost add_cost(const rp_op_meta *m, rp_pass pass)
{
    return pass == RP_FORWARD ? rp__cost(m, pass, rp_meta_elems(&m->in[A])) : (rp_cost){ 0 };
}

static void add_forward(const rp_op_call *c)
{
    const rp_kernels *k = rp__op_kernels(c);
    int64_t n = rp_meta_elems(&c->meta->in[A]);

    if (k->add) {
        k->add(c->meta->in[A].dtype, rp__data(c->in[A]), rp__data(c->in[B]), rp__data(c->out[Y]), n, rp__on(c->meta));
        return;
    }
    for (int64_t e = 0; e < n; e++) rp_elem_put(c->out[Y], e, rp_elem_get(c->in[A], e) + rp_elem_get(c->in[B], e));
}

static const rp_op_case add_cases[] = {
    { "a row",         .in = { { 7 },          { 7 } } },
    { "odd sizes",     .in = { { 3, 5, 7 },    { 3, 5, 7 } } },
    { "three blocks",  .in = { { 3, 521 },     { 3, 521 } } },
    { "one element",   .in = { { 1 },          { 1 } } },
    { "shapes differ", .in = { { 2, 4 },       { 4, 2 } }, .expect = RP_ERR_SHAPE },
    { "no broadcast",  .in = { { 2, 4 },       { 4 } },    .expect = RP_ERR_SHAPE },
};

const rp_op rp_op_add = {
    .name = "add", .n_in = 2, .n_out = 1, .flags = RP_OP_GRAD_PASS,
    .shape = rp__same_shape, .cost = add_cost, .forward = add_forward,
    .cases = add_cases, .n_case = RP_COUNT(add_cases),
};
