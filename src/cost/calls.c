/* cost/calls.c -- the calls that are measured: shapes of a training step, and for the overhead the smallest shapes.
 *
 * An op without an entry here is not measured. It uses the row for all others.
 */
#include "cost/internal.h"

#include "reprise/ops.h"

#define EACH_SIZE(X, op, ...) \
    X(op, RP_COST_TINY, 2, 8, __VA_ARGS__), X(op, RP_COST_SLOW, 32, 576, __VA_ARGS__), X(op, RP_COST_SOON, 1024, 576, __VA_ARGS__), \
        X(op, RP_COST_LATE, 1024, 1536, __VA_ARGS__), X(op, RP_COST_LATE, 2048, 2048, __VA_ARGS__)
#define ONE(op, when, rows, n, ...) { op, when, { .in = { { rows, n } }, __VA_ARGS__ } }
#define TWO(op, when, rows, n, ...) { op, when, { .in = { { rows, n }, { rows, n } }, __VA_ARGS__ } }
#define WHERE(op, when, rows, n, ...) \
    { op, when, { .in = { { rows, n }, { rows, n }, { rows, n } }, .int_inputs = RP_IN(0), .int_high = { 1 }, __VA_ARGS__ } }
#define UNARY(op, ...) EACH_SIZE(ONE, op, __VA_ARGS__)
#define BINARY(op, ...) EACH_SIZE(TWO, op, __VA_ARGS__)

#define RMS(op, when, rows, n, ...) { op, when, { .in = { { rows, n }, { n } }, __VA_ARGS__ } }
#define MAGNITUDE(op, when, rows, n, ...) { op, when, { .in = { { rows, n }, { n }, { n } }, __VA_ARGS__ } }
#define NORMS(op, when, rows, n, ...) \
    { op, when, { .in = { { rows, n }, { 8, n }, { rows, 8 } }, .attr = &(rp_attr_weight_norm){ 2, false }, __VA_ARGS__ } }
#define LAYER(op, when, rows, n, ...) { op, when, { .in = { { rows, n }, { n }, { n } }, __VA_ARGS__ } }
#define BATCH(op, when, rows, n, ...) \
    { op, when, { .in = { { rows, n }, { n }, { n }, { n }, { n } }, .stat_inputs = RP_IN(3) | RP_IN(4), __VA_ARGS__ } }
#define HALVES(op, when, rows, n, ...) { op, when, { .in = { { rows, n } }, .attr = &(rp_attr_split){ -1, 2, { (n) / 2, (n) / 2 } } } }

#define MATMUL(when, rows, k, n) { "matmul", when, { .in = { { rows, k }, { n, k } }, .attr = &(rp_attr_matmul){ true } } }
#define ATTENTION(when, b, t, heads, kv_heads, d) \
    { "attention", when, \
      { .in = { { b, t, heads, d }, { b, t, kv_heads, d }, { b, t, kv_heads, d } }, .attr = &(rp_attr_attention){ 0.125f, 0, true, 0, 0 } } }
#define ROTARY(when, b, t, heads, d) \
    { "rotary", when, \
      { .in = { { b, t, heads, d }, { b, t }, { t, (d) / 2 }, { t, (d) / 2 } }, .int_inputs = RP_IN(1), .int_high = { 0, (t) - 1 }, \
        .stat_inputs = RP_IN(2) | RP_IN(3) } }
/* A mixture of `experts`; each row goes to `k` of them. */
#define OF_EXPERTS(at, n) .int_inputs = RP_IN(at), .int_high = { [at] = (n) - 1 }
#define ROUTE(when, rows, experts, k) { "route", when, { .in = { { rows, experts } }, .attr = &(rp_attr_route){ k, true } } }
#define SPREAD(when, rows, n, experts, k) \
    { "spread", when, { .in = { { rows, n }, { rows, k } }, OF_EXPERTS(1, experts), .attr = &(rp_attr_experts){ experts } } }
#define COMBINE(when, rows, n, experts, k) \
    { "combine", when, \
      { .in = { { (rows) * (k), n }, { rows, k }, { rows, k } }, OF_EXPERTS(2, experts), .stat_inputs = RP_IN(1), \
        .attr = &(rp_attr_experts){ experts } } }
#define LOAD(when, rows, experts, k) { "expert_load", when, { .in = { { rows, experts }, { rows, k } }, OF_EXPERTS(1, experts) } }
#define BALANCE(when, rows, experts) \
    { "balance_loss", when, \
      { .in = { { 1 }, { 2, experts }, { rows } }, OF_EXPERTS(2, experts), .stat_inputs = RP_IN(0) | RP_IN(1), \
        .attr = &(rp_attr_balance_loss){ 1.0 / (experts), 1.0f / (rows), -100 } } }
#define GROUPED(when, rows, k, n, experts) { "grouped_matmul", when, { .in = { { rows, k }, { experts, n, k }, { rows } }, OF_EXPERTS(2, experts) } }
#define BATCHED(when, batch, rows, k, n) \
    { "batched_matmul", when, { .in = { { batch, rows, k }, { batch, k, n } }, .attr = &(rp_attr_batched_matmul){ false, false } } }
#define GATHER(when, rows, n, picks) \
    { "gather", when, \
      { .in = { { rows, n }, { picks, 1 } }, .int_inputs = RP_IN(1), .int_high = { 0, (rows) - 1 }, .attr = &(rp_attr_dim){ 0 } } }
#define MSE(op, when, rows, n, ...) { op, when, { .in = { { rows, n }, { rows, n } }, .attr = &(rp_attr_mse){ 1.0f / ((rows) * (n)) }, __VA_ARGS__ } }
#define EMBEDDING(when, rows, ids, n) \
    { "embedding", when, { .in = { { ids, n }, { rows } }, .int_inputs = RP_IN(1), .int_high = { 0, (ids) - 1 } } }
#define LOSS_OF(rows) .attr = &(rp_attr_cross_entropy){ 1.0f / (rows), -100, 0, 0, 0, 0, 0 }
#define CROSS_ENTROPY(when, rows, ids) \
    { "cross_entropy", when, { .in = { { rows, ids }, { rows } }, .int_inputs = RP_IN(1), .int_high = { 0, (ids) - 1 }, LOSS_OF(rows) } }
#define HEAD(when, rows, n, ids) \
    { "linear_cross_entropy", when, \
      { .in = { { rows, n }, { ids, n }, { rows } }, .int_inputs = RP_IN(2), .int_high = { 0, 0, (ids) - 1 }, LOSS_OF(rows) } }

static const rp_cost_call calls[] = {
    MATMUL(RP_COST_TINY, 1, 8, 8),          MATMUL(RP_COST_SLOW, 32, 64, 64),        MATMUL(RP_COST_SOON, 1024, 576, 576),
    MATMUL(RP_COST_SOON, 1024, 576, 1536),  MATMUL(RP_COST_LATE, 1024, 1536, 576),   MATMUL(RP_COST_LATE, 2048, 2048, 2048),
    ATTENTION(RP_COST_TINY, 1, 4, 1, 1, 8), ATTENTION(RP_COST_SLOW, 1, 32, 2, 1, 16), ATTENTION(RP_COST_SOON, 2, 512, 9, 3, 64),
    ATTENTION(RP_COST_LATE, 1, 2048, 9, 3, 64),
    HEAD(RP_COST_TINY, 2, 8, 8),            HEAD(RP_COST_SLOW, 8, 32, 128),          HEAD(RP_COST_SOON, 512, 576, 8192),
    HEAD(RP_COST_LATE, 1024, 576, 32768),
    CROSS_ENTROPY(RP_COST_TINY, 2, 8),      CROSS_ENTROPY(RP_COST_SLOW, 16, 512),    CROSS_ENTROPY(RP_COST_SOON, 256, 8192),
    CROSS_ENTROPY(RP_COST_LATE, 256, 32768),
    EMBEDDING(RP_COST_TINY, 2, 8, 8),       EMBEDDING(RP_COST_SLOW, 32, 64, 64),     EMBEDDING(RP_COST_SOON, 1024, 8192, 576),
    EMBEDDING(RP_COST_LATE, 2048, 32768, 576),
    BATCHED(RP_COST_TINY, 2, 2, 8, 8),      BATCHED(RP_COST_SLOW, 2, 16, 64, 64),    BATCHED(RP_COST_SOON, 8, 128, 576, 576),
    BATCHED(RP_COST_LATE, 16, 512, 64, 512),
    GATHER(RP_COST_TINY, 2, 8, 2),          GATHER(RP_COST_SLOW, 32, 64, 32),        GATHER(RP_COST_SOON, 1024, 576, 1024),
    GATHER(RP_COST_LATE, 2048, 2048, 2048),
    ROTARY(RP_COST_TINY, 1, 2, 1, 8),       ROTARY(RP_COST_SLOW, 1, 32, 9, 64),      ROTARY(RP_COST_SOON, 2, 512, 9, 64),
    ROTARY(RP_COST_LATE, 1, 2048, 32, 64),
    ROUTE(RP_COST_TINY, 2, 4, 1),           ROUTE(RP_COST_SLOW, 64, 16, 2),          ROUTE(RP_COST_SOON, 1024, 64, 4),
    ROUTE(RP_COST_LATE, 2048, 128, 8),
    LOAD(RP_COST_TINY, 2, 4, 1),            LOAD(RP_COST_SLOW, 64, 16, 2),           LOAD(RP_COST_SOON, 1024, 64, 4),
    LOAD(RP_COST_LATE, 2048, 128, 8),
    BALANCE(RP_COST_TINY, 2, 4),            BALANCE(RP_COST_SLOW, 64, 16),           BALANCE(RP_COST_SOON, 1024, 64),
    BALANCE(RP_COST_LATE, 2048, 128),
    SPREAD(RP_COST_TINY, 2, 8, 4, 1),       SPREAD(RP_COST_SLOW, 32, 64, 8, 2),      SPREAD(RP_COST_SOON, 512, 576, 16, 2),
    SPREAD(RP_COST_LATE, 1024, 2048, 64, 4),
    COMBINE(RP_COST_TINY, 2, 8, 4, 1),      COMBINE(RP_COST_SLOW, 32, 64, 8, 2),     COMBINE(RP_COST_SOON, 512, 576, 16, 2),
    COMBINE(RP_COST_LATE, 1024, 2048, 64, 4),
    GROUPED(RP_COST_TINY, 2, 8, 8, 2),      GROUPED(RP_COST_SLOW, 64, 64, 64, 4),    GROUPED(RP_COST_SOON, 1024, 576, 576, 8),
    GROUPED(RP_COST_LATE, 2048, 1024, 768, 16),
    EACH_SIZE(RMS, "rmsnorm", .attr = &(rp_attr_norm){ .eps = 1e-5f }),
    EACH_SIZE(MAGNITUDE, "magnitude", .name = NULL),
    EACH_SIZE(NORMS, "weight_norm", .name = NULL),
    EACH_SIZE(LAYER, "layernorm", .attr = &(rp_attr_norm){ .eps = 1e-5f }),
    EACH_SIZE(BATCH, "batch_norm", .attr = &(rp_attr_batch_norm){ 1e-5f, 0.1f }),
    BINARY("add", .name = NULL),
    EACH_SIZE(RMS, "add", .name = NULL),       /* its backward: operands of one shape have none */
    BINARY("mul", .name = NULL),
    BINARY("sub", .name = NULL),
    BINARY("div", .name = NULL),
    EACH_SIZE(WHERE, "where", .name = NULL),
    BINARY("swiglu", .name = NULL),
    EACH_SIZE(MSE, "mse", .name = NULL),
    BINARY("concat", .attr = &(rp_attr_dim){ -1 }),
    EACH_SIZE(HALVES, "split", 0),
    UNARY("scale", .attr = &(rp_attr_scale){ 0.5f }),
    UNARY("gelu", .attr = &(rp_attr_gelu){ false }),
    UNARY("silu", .name = NULL),
    UNARY("relu", .name = NULL),
    UNARY("relu2", .name = NULL),
    UNARY("tanh", .name = NULL),
    UNARY("sigmoid", .name = NULL),
    UNARY("exp", .name = NULL),
    UNARY("log", .name = NULL),
    UNARY("dropout", .attr = &(rp_attr_dropout){ 0.1f }),
    UNARY("cast", .attr = &(rp_attr_cast){ RP_BF16 }),
    UNARY("sum", .attr = &(rp_attr_dim){ -1 }),
    UNARY("mean", .attr = &(rp_attr_dim){ -1 }),
    UNARY("max", .attr = &(rp_attr_dim){ -1 }),
    UNARY("softmax", .name = NULL),
    UNARY("softcap", .attr = &(rp_attr_softcap){ 30.0f }),
};

int rp__cost_n_calls(void) { return RP_COUNT(calls); }
const rp_cost_call *rp__cost_call_at(int i) { return &calls[i]; }
