/* probes.c -- see probes.h. */
#include "parity/probes.h"

#include <math.h>

#include "base/philox.h"

probe_record probes;

typedef struct { int number; } probe_attr;

static int number_of(const rp_op_call *c) { return ((const probe_attr *)c->attr)->number; }

static void note(const rp_op_call *c, char what)
{
    size_t used = strlen(probes.log);

    snprintf(probes.log + used, sizeof probes.log - used, "%c%d ", what, number_of(c));
}

static void note_forward(const rp_op_call *c)
{
    const char *region = rp_in_checkpoint(c->ctx);

    note(c, c->replaying ? 'r' : 'f');
    ++*(c->replaying ? &probes.again[number_of(c)] : &probes.first[number_of(c)]);
    snprintf(probes.region[number_of(c)], sizeof probes.region[0], "%s", region ? region : "");
    probes.refused += c->replaying != rp_is_replaying(c->ctx);
}

static void note_backward(const rp_op_call *c)
{
    note(c, 'b');
    probes.saved_at_backward[number_of(c)] = saved_bytes(c->ctx);
}

static void add_grad(const rp_op_call *c, int64_t e, double g)
{
    rp_elem_put(c->grad_in[0], e, g + (c->grad_adds[0] ? rp_elem_get(c->grad_in[0], e) : 0));
}

static int64_t n_elems(const rp_op_call *c) { return rp_meta_elems(&c->meta->in[0]); }

static rp_status same_shape(rp_op_meta *m)
{
    for (int i = 0; i < m->n_out; i++) m->out[i] = m->in[0];
    return RP_OK;
}

static void square_forward(const rp_op_call *c)
{
    note_forward(c);
    for (int64_t e = 0; e < n_elems(c); e++) rp_elem_put(c->out[0], e, rp_elem_get(c->in[0], e) * rp_elem_get(c->in[0], e));
}

static void square_backward(const rp_op_call *c)
{
    note_backward(c);
    for (int64_t e = 0; e < n_elems(c); e++) add_grad(c, e, 2 * rp_elem_get(c->in[0], e) * rp_elem_get(c->grad_out[0], e));
}

static void logistic_forward(const rp_op_call *c)
{
    note_forward(c);
    for (int64_t e = 0; e < n_elems(c); e++) rp_elem_put(c->out[0], e, 1 / (1 + exp(-rp_elem_get(c->in[0], e))));
}

static void logistic_backward(const rp_op_call *c)
{
    note_backward(c);
    for (int64_t e = 0; e < n_elems(c); e++) {
        double y = rp_elem_get(c->out[0], e);
        add_grad(c, e, y * (1 - y) * rp_elem_get(c->grad_out[0], e));
    }
}

/* Output i is 2 + i times x. */
static void multiples_forward(const rp_op_call *c)
{
    note_forward(c);
    for (int i = 0; i < c->meta->n_out; i++)
        for (int64_t e = 0; e < n_elems(c); e++) rp_elem_put(c->out[i], e, (2 + i) * rp_elem_get(c->in[0], e));
}

static void multiples_backward(const rp_op_call *c)
{
    note_backward(c);
    for (int64_t e = 0; e < n_elems(c); e++) {
        double g = 0;
        for (int i = 0; i < c->meta->n_out; i++) g += c->grad_out[i] ? (2 + i) * rp_elem_get(c->grad_out[i], e) : 0;
        add_grad(c, e, g);
    }
}

static void uneven_forward(const rp_op_call *c)
{
    multiples_forward(c);
    if (c->replaying) rp_elem_put(c->out[0], COLUMNS + 1, 1 + rp_elem_get(c->out[0], COLUMNS + 1));
}

static void copy(const rp_op_call *c)
{
    for (int64_t e = 0; e < n_elems(c); e++) rp_elem_put(c->out[0], e, rp_elem_get(c->in[0], e));
}

static void counter_forward(const rp_op_call *c)
{
    note_forward(c);
    probes.counter++;
    copy(c);
}

static void tally_forward(const rp_op_call *c)
{
    note_forward(c);
    if (!c->replaying) probes.tally++;
    copy(c);
}

static void copy_backward(const rp_op_call *c)
{
    note_backward(c);
    for (int64_t e = 0; e < n_elems(c); e++) add_grad(c, e, rp_elem_get(c->grad_out[0], e));
}

#define PROBE(op, outputs, reads, flag, run, back) \
    { .name = op, .n_in = 1, .n_out = outputs, .attr_size = sizeof(probe_attr), .needs = reads, .flags = flag, .shape = same_shape, \
      .forward = run, .backward = back }

static const rp_op ops[] = {
    PROBE("square", 1, RP_IN(0), 0, square_forward, square_backward),
    PROBE("logistic", 1, RP_OUT(0), 0, logistic_forward, logistic_backward),
    PROBE("twice", 1, 0, 0, multiples_forward, multiples_backward),
    PROBE("pair", 2, 0, 0, multiples_forward, multiples_backward),
    PROBE("uneven", 1, RP_IN(0), 0, uneven_forward, multiples_backward),
    PROBE("counter", 1, 0, RP_OP_EFFECT, counter_forward, copy_backward),
    PROBE("tally", 1, 0, RP_OP_EFFECT | RP_OP_REPLAYS, tally_forward, copy_backward),
};

rp_ctx *probe_ctx(const rp_ctx_options *options)
{
    rp_ctx *ctx = test_ctx(options);

    for (int i = 0; i < RP_COUNT(ops); i++) assert_ok(ctx, rp_op_register(ctx, &ops[i]));
    probes = (probe_record){ .counter = 0 };
    return ctx;
}

rp_tensor *drawn(rp_ctx *ctx, uint32_t seed, bool wanted)
{
    rp_meta m = rp_meta_2d(RP_F32, ROWS, COLUMNS);
    values v;
    rp_tensor *t;

    for (uint32_t e = 0; e < ELEMS; e++) v.at[e] = 2 * rp__uniform(rp__philox(seed, e, 0, 0, 0).word[0]) - 1;
    assert_ok(ctx, rp_tensor_new(ctx, &m, wanted ? RP_MEM_PARAM : RP_MEM_TEMP, &t));
    if (rp__tensor_real(t)) assert_ok(ctx, rp_tensor_write(t, v.at, ELEMS));
    rp_tensor_require_grad(t, wanted);
    return t;
}

rp_tensor *call(rp_ctx *ctx, const char *op, const void *attr, rp_tensor *a, rp_tensor *b)
{
    rp_tensor *out[RP_MAX_OUT] = { NULL };

    assert_ok(ctx, rp_apply(ctx, op, attr, (rp_tensor *[]){ a, b }, b ? 2 : 1, out));
    return out[0];
}

rp_tensor *then(rp_ctx *ctx, const char *op, const void *attr, rp_tensor *x)
{
    rp_tensor *y = call(ctx, op, attr, x, NULL);

    rp_tensor_unref(x);
    return y;
}

rp_tensor *probe(rp_ctx *ctx, const char *op, int number, rp_tensor *x) { return call(ctx, op, &(probe_attr){ number }, x, NULL); }
rp_tensor *then_probe(rp_ctx *ctx, const char *op, int number, rp_tensor *x) { return then(ctx, op, &(probe_attr){ number }, x); }

rp_tensor *total(rp_ctx *ctx, rp_tensor *x)
{
    while (rp_tensor_meta(x)->ndim > 0) x = then(ctx, "sum", &(rp_attr_dim){ 0 }, x);
    return x;
}

rp_status backward_of(rp_ctx *ctx, rp_tensor *x)
{
    rp_tensor *loss  = total(ctx, x);
    rp_status status = rp_backward(ctx, loss);

    rp_tensor_unref(loss);
    return status;
}

values values_of(const rp_tensor *t)
{
    values v;

    assert_non_null(t);
    assert_int_equal(rp_tensor_read(t, v.at, ELEMS), RP_OK);
    return v;
}

values take_grad(rp_tensor *leaf)
{
    values v = values_of(rp_tensor_grad(leaf));

    rp_tensor_drop_grad(leaf);
    return v;
}

void assert_same_values(const values *got, const values *expected, const char *what)
{
    for (int e = 0; e < ELEMS; e++)
        if (got->at[e] != expected->at[e]) fail_msg("%s: element %d is %.17g, expected %.17g", what, e, got->at[e], expected->at[e]);
}

void scribble(rp_tensor *t)
{
    values v = values_of(t);

    assert_int_equal(rp_tensor_write(t, v.at, ELEMS), RP_OK);
}

rp_mem ledger_of(rp_ctx *ctx, int device)
{
    rp_mem m;

    rp_mem_read(ctx, device, false, &m);
    return m;
}

int64_t saved_bytes(rp_ctx *ctx) { return ledger_of(ctx, 0).live_at[RP_MEM_SAVED]; }

void rule_by(rp_ctx *ctx, rp_policy **policy, const char *rules)
{
    rp_policy *next = NULL;

    if (rules) assert_ok(ctx, rp_policy_read(ctx, "rules", rules, &next));
    rp_set_policy(ctx, next);
    rp_policy_free(*policy);
    *policy = next;
}
