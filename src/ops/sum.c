/* ops/sum.c -- y = the sum of x over one dimension, which y lacks. Summed in fp32 (fp64 in fp64), rounded once.
 *
 *   in     x [...]     any floating dtype
 *   out    y           x without dimension attr dim
 */
#include "ops/reduce.h"

enum { X };

static rp_cost sum_cost(const rp_op_meta *m, rp_pass pass) { return rp__cost(m, pass, rp_meta_elems(&m->in[X])); }

static void sum_forward(const rp_op_call *c) { rp__reduce_sum(c, 1); }
static void sum_backward(const rp_op_call *c) { rp__reduce_spread(c, 1); }

static const rp_op_case sum_cases[] = {
    { "to a scalar",  .in = { { 7 } },        .attr = &(rp_attr_dim){ 0 } },
    { "rows",         .in = { { 5, 1031 } },  .attr = &(rp_attr_dim){ -1 } },
    { "columns",      .in = { { 5, 521 } },   .attr = &(rp_attr_dim){ 0 } },
    { "middle",       .in = { { 2, 3, 5 } },  .attr = &(rp_attr_dim){ 1 } },
    { "no dimension", .in = { { 2, 3 } },     .attr = &(rp_attr_dim){ 2 }, .expect = RP_ERR_SHAPE },
};

const rp_op rp_op_sum = {
    .name = "sum", .n_in = 1, .n_out = 1, .attr_size = sizeof(rp_attr_dim),
    .shape = rp__reduce_shape, .cost = sum_cost,
    .forward = sum_forward, .backward = sum_backward,
    .cases = sum_cases, .n_case = RP_COUNT(sum_cases),
};
