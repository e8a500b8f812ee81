/* ops/mean.c -- y = the mean of x over one dimension, which y lacks. Summed in fp32 (fp64 in fp64), rounded once.
 *
 *   in     x [...]     any floating dtype; the dimension is not empty
 *   out    y           x without dimension attr dim
 */
#include "ops/reduce.h"

enum { X };

static rp_status mean_shape(rp_op_meta *m)
{
    RP_TRY(rp__reduce_shape(m));
    RP_CHECK(m->ctx, rp__reduce_around(m).n > 0, RP_ERR_SHAPE, "mean: %s is empty in dimension %d", rp_meta_str(&m->in[X]),
             ((const rp_attr_dim *)m->attr)->dim);
    return RP_OK;
}

static rp_cost mean_cost(const rp_op_meta *m, rp_pass pass) { return rp__cost(m, pass, rp_meta_elems(&m->in[X])); }

static void mean_forward(const rp_op_call *c) { rp__reduce_sum(c, 1 / (double)rp__reduce_around(c->meta).n); }
static void mean_backward(const rp_op_call *c) { rp__reduce_spread(c, 1 / (double)rp__reduce_around(c->meta).n); }

static const rp_op_case mean_cases[] = {
    { "to a scalar",  .in = { { 7 } },        .attr = &(rp_attr_dim){ 0 } },
    { "rows",         .in = { { 5, 1031 } },  .attr = &(rp_attr_dim){ -1 } },
    { "columns",      .in = { { 5, 521 } },   .attr = &(rp_attr_dim){ 0 } },
    { "middle",       .in = { { 2, 3, 5 } },  .attr = &(rp_attr_dim){ 1 } },
    { "no dimension", .in = { { 2, 3 } },     .attr = &(rp_attr_dim){ -3 }, .expect = RP_ERR_SHAPE },
};

const rp_op rp_op_mean = {
    .name = "mean", .n_in = 1, .n_out = 1, .attr_size = sizeof(rp_attr_dim),
    .shape = mean_shape, .cost = mean_cost,
    .forward = mean_forward, .backward = mean_backward,
    .cases = mean_cases, .n_case = RP_COUNT(mean_cases),
};
