/* Ops of a user's own through the public interface: one that trains, in regions too, and whatever can be wrong about one. Then calls of the library's
 * ops by a function for each. */
#include "rp_test.h"

#include <math.h>

#include "reprise/calls.h"
#include "reprise/op.h"
#include "tape/tape.h"

/* ---- swish: y = x s(beta x), s(t) = 1 / (1 + exp(-t)), with s as a by-product for backward ---- */

enum { X, W };
typedef struct { float beta; } swish_attr;

static rp_status swish_shape(rp_op_meta *m)
{
    m->out[0]                 = m->in[X];
    m->slot[0]                = m->in[X];
    m->scratch_bytes          = 2 * rp_meta_dim(&m->in[X], -1) * (int64_t)sizeof(double);
    m->scratch_backward_bytes = 3 * rp_meta_dim(&m->in[X], -1) * (int64_t)sizeof(double);
    return RP_OK;
}

static void swish_forward(const rp_op_call *c)
{
    const swish_attr *a = c->attr;
    int64_t n           = rp_meta_dim(&c->meta->in[X], -1);
    double *x = c->scratch, *s = x + n;

    for (int64_t r = 0; r < rp_meta_rows(&c->meta->in[X]); r++) {
        rp_row_get(c->in[X], r, x);
        for (int64_t i = 0; i < n; i++) {
            s[i] = 1 / (1 + exp(-a->beta * x[i]));
            x[i] *= s[i];
        }
        rp_row_put(c->out[0], r, x);
        if (c->slot[0]) rp_row_put(c->slot[0], r, s);
    }
}

/* dy/dx = s + beta x s (1 - s) */
static void swish_backward(const rp_op_call *c)
{
    const swish_attr *a = c->attr;
    int64_t n           = rp_meta_dim(&c->meta->in[X], -1);
    double *x = c->scratch, *s = x + n, *g = s + n;

    for (int64_t r = 0; r < rp_meta_rows(&c->meta->in[X]); r++) {
        rp_row_get(c->in[X], r, x);
        rp_row_get(c->slot[0], r, s);
        rp_row_get(c->grad_out[0], r, g);
        for (int64_t i = 0; i < n; i++) g[i] *= s[i] + a->beta * x[i] * s[i] * (1 - s[i]);
        rp_row_grad(c, X, r, g);
    }
}

static rp_cost swish_cost(const rp_op_meta *m, rp_pass pass)
{
    return (rp_cost){ .flops = 5 * rp_meta_elems(&m->in[X]), .read_bytes = rp_meta_bytes(&m->in[X]), .write_bytes = pass };
}

static const rp_op swish = {
    .name = "swish", .n_in = 1, .n_out = 1, .n_slot = 1, .attr_size = sizeof(swish_attr), .needs = RP_IN(X) | RP_SLOT(0),
    .shape = swish_shape, .cost = swish_cost, .forward = swish_forward, .backward = swish_backward,
};

/* ---- a chain: loss = weight * sum of cross-entropies of matmul(swish(matmul(x, w)), v) ---- */

enum { ROWS = 3, IN = 4, HIDDEN = 5, CLASSES = 3 };

typedef struct { rp_ctx *ctx; rp_tensor *x, *w, *v, *labels; } chain;

static rp_tensor *drawn(rp_ctx *ctx, int64_t rows, int64_t n, unsigned seed, bool wanted)
{
    rp_meta meta = { RP_F64, 2, { rows, n } };
    rp_tensor *t;
    double value[64];

    for (int64_t i = 0; i < rows * n; i++) {
        seed     = seed * 1664525u + 1013904223u;
        value[i] = (double)(seed >> 8) / 8388608.0 - 1;
    }
    assert_ok(ctx, rp_tensor_new(ctx, &meta, RP_MEM_PARAM, &t));
    assert_ok(ctx, rp_tensor_write(t, value, rows * n));
    rp_tensor_require_grad(t, wanted);
    return t;
}

static chain chain_new(const rp_op *op)
{
    chain c      = { .ctx = test_ctx(NULL) };
    rp_meta meta = { RP_I32, 1, { ROWS } };

    assert_ok(c.ctx, rp_op_register(c.ctx, op));
    c.x = drawn(c.ctx, ROWS, IN, 1, false);
    c.w = drawn(c.ctx, HIDDEN, IN, 2, true);
    c.v = drawn(c.ctx, CLASSES, HIDDEN, 3, true);
    assert_ok(c.ctx, rp_tensor_new(c.ctx, &meta, RP_MEM_TEMP, &c.labels));
    assert_ok(c.ctx, rp_tensor_write_i32(c.labels, (int32_t[]){ 2, 0, 1 }, ROWS));
    return c;
}

static void chain_free(chain *c)
{
    rp_tensor_unref(c->x);
    rp_tensor_unref(c->w);
    rp_tensor_unref(c->v);
    rp_tensor_unref(c->labels);
    test_ctx_free(c->ctx);
}

static rp_status activated(chain *c, rp_tensor **out)
{
    rp_tensor *h     = NULL;
    rp_status status = rp_apply(c->ctx, "matmul", &(rp_attr_matmul){ true }, (rp_tensor *[]){ c->x, c->w }, 2, &h);

    if (status == RP_OK) status = rp_apply(c->ctx, "swish", &(swish_attr){ 1.5f }, &h, 1, out);
    rp_tensor_unref(h);
    return status;
}

static rp_status chain_loss(chain *c, rp_tensor **loss)
{
    rp_attr_cross_entropy mean = { 1.0f / ROWS, -100, 0, 0, 0, 0, 0 };
    rp_tensor *h = NULL, *logits = NULL;
    rp_status status = activated(c, &h);

    if (status == RP_OK) status = rp_apply(c->ctx, "matmul", &(rp_attr_matmul){ true }, (rp_tensor *[]){ h, c->v }, 2, &logits);
    if (status == RP_OK) status = rp_apply(c->ctx, "cross_entropy", &mean, (rp_tensor *[]){ logits, c->labels }, 2, loss);
    rp_tensor_unref(h);
    rp_tensor_unref(logits);
    return status;
}

static double loss_value(chain *c)
{
    rp_tensor *loss;
    double value;

    assert_ok(c->ctx, chain_loss(c, &loss));
    assert_ok(c->ctx, rp_tensor_read(loss, &value, 1));
    rp_tensor_unref(loss);
    rp_forget(c->ctx);
    return value;
}

static void backward(chain *c)
{
    rp_tensor *loss;

    assert_ok(c->ctx, chain_loss(c, &loss));
    assert_ok(c->ctx, rp_backward(c->ctx, loss));
    rp_tensor_unref(loss);
}

static void assert_central_differences(chain *c, rp_tensor *t)
{
    double value[64], grad[64];
    int64_t n = rp_meta_elems(rp_tensor_meta(t));

    assert_ok(c->ctx, rp_tensor_read(t, value, n));
    assert_ok(c->ctx, rp_tensor_read(rp_tensor_grad(t), grad, n));
    for (int64_t e = 0; e < n; e++) {
        const double step = 1e-5, at = value[e];
        double side[2];
        for (int s = 0; s < 2; s++) {
            value[e] = at + (s ? step : -step) / 2;
            assert_ok(c->ctx, rp_tensor_write(t, value, n));
            side[s] = loss_value(c);
        }
        value[e] = at;
        assert_ok(c->ctx, rp_tensor_write(t, value, n));
        if (fabs((side[1] - side[0]) / step - grad[e]) > 1e-8)
            fail_msg("element %d: %.12g and %.12g", (int)e, grad[e], (side[1] - side[0]) / step);
    }
}

static void the_gradient_through_an_own_op_is_that_of_central_differences(void **state)
{
    (void)state;
    chain c = chain_new(&swish);

    backward(&c);
    assert_central_differences(&c, c.w);
    assert_central_differences(&c, c.v);
    chain_free(&c);
}

static void an_own_op_trains(void **state)
{
    (void)state;
    chain c     = chain_new(&swish);
    double first = loss_value(&c), w[HIDDEN * IN], g[HIDDEN * IN];

    for (int step = 0; step < 50; step++) {
        backward(&c);
        assert_ok(c.ctx, rp_tensor_read(c.w, w, HIDDEN * IN));
        assert_ok(c.ctx, rp_tensor_read(rp_tensor_grad(c.w), g, HIDDEN * IN));
        for (int i = 0; i < HIDDEN * IN; i++) w[i] -= 0.5 * g[i];
        assert_ok(c.ctx, rp_tensor_write(c.w, w, HIDDEN * IN));
        rp_tensor_drop_grad(c.w);
        rp_tensor_drop_grad(c.v);
    }
    assert_true(loss_value(&c) < 0.5 * first);
    chain_free(&c);
}

static void an_own_op_without_backward_has_no_gradient(void **state)
{
    (void)state;
    rp_op one_way    = swish;
    one_way.backward = NULL;
    one_way.needs    = 0;
    one_way.cost     = NULL;
    chain c          = chain_new(&one_way);

    backward(&c);
    assert_null(rp_tensor_grad(c.w));
    assert_non_null(rp_tensor_grad(c.v));
    assert_central_differences(&c, c.v);
    chain_free(&c);
}

static void an_own_op_needs_no_cost(void **state)
{
    (void)state;
    rp_op free_of_cost = swish;
    free_of_cost.cost  = NULL;
    chain c            = chain_new(&free_of_cost);

    backward(&c);
    assert_central_differences(&c, c.w);
    chain_free(&c);
}

static struct { int first, again, mismatches; } runs;

static void counted_forward(const rp_op_call *c)
{
    ++*(c->replaying ? &runs.again : &runs.first);
    if (c->replaying != rp_is_replaying(c->ctx)) runs.mismatches++;
    swish_forward(c);
}

static void an_own_op_in_a_region_runs_again_and_gives_the_same_bits(void **state)
{
    (void)state;
    rp_op counted   = swish;
    counted.forward = counted_forward;
    double grad[2][HIDDEN * IN];

    for (int region = 0; region < 2; region++) {
        chain c = chain_new(&counted);
        rp_tensor *loss;
        memset(&runs, 0, sizeof runs);
        if (region) assert_ok(c.ctx, rp__region_begin(c.ctx, "region"));
        assert_ok(c.ctx, chain_loss(&c, &loss));
        if (region) assert_ok(c.ctx, rp__region_end(c.ctx));
        assert_ok(c.ctx, rp_backward(c.ctx, loss));
        rp_tensor_unref(loss);
        assert_ok(c.ctx, rp_tensor_read(rp_tensor_grad(c.w), grad[region], HIDDEN * IN));
        assert_int_equal(runs.first, 1);
        assert_int_equal(runs.again, region);
        assert_int_equal(runs.mismatches, 0);
        chain_free(&c);
    }
    assert_memory_equal(grad[0], grad[1], sizeof grad[0]);
}

static rp_status try_step(chain *c)
{
    rp_tensor *loss  = NULL;
    rp_status status = chain_loss(c, &loss);

    if (status == RP_OK) status = rp_backward(c->ctx, loss);
    rp_tensor_unref(loss);
    rp_forget(c->ctx);
    rp_tensor_drop_grad(c->w);
    rp_tensor_drop_grad(c->v);
    return status;
}

static void every_allocation_of_a_step_with_an_own_op_may_fail(void **state)
{
    (void)state;
    chain c = chain_new(&swish);
    rp_mem before, after;
    test_faults f = { 0 };

    assert_ok(c.ctx, try_step(&c));
    rp_mem_read(c.ctx, 0, false, &before);
    while (!f.over) {
        test_fault_begin(&f, c.ctx);
        test_fault_end(&f, try_step(&c));
        rp_mem_read(c.ctx, 0, false, &after);
        assert_int_equal(after.live_bytes, before.live_bytes);
    }
    assert_true(f.failed > 9);
    chain_free(&c);
}

/* ---- what rp_op_register refuses ---- */

static void assert_refused(rp_ctx *ctx, const rp_op *op, const char *message)
{
    assert_int_equal(rp_op_register(ctx, op), RP_ERR_ARG);
    assert_string_equal(rp_error(ctx), message);
    assert_int_equal(rp__ops_ctx(ctx)->n_own, 0);
}

#define REFUSED(field, value, message) \
    do { \
        rp_op wrong = swish; \
        wrong.field = (value); \
        assert_refused(ctx, &wrong, message); \
    } while (0)

static void a_wrong_declaration_is_refused_with_its_name(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(NULL);

    assert_refused(ctx, NULL, "own op: the op is NULL");
    REFUSED(name, NULL, "own op: its name is missing");
    REFUSED(name, "", "own op: its name is missing");
    REFUSED(name, "matmul", "own op 'matmul': the name is taken by a built-in op");
    REFUSED(shape, NULL, "own op 'swish': shape is missing");
    REFUSED(forward, NULL, "own op 'swish': forward is missing");
    REFUSED(n_in, 0, "own op 'swish': 0 inputs, expected 1 to 8");
    REFUSED(n_in, RP_MAX_IN + 1, "own op 'swish': 9 inputs, expected 1 to 8");
    REFUSED(n_out, 0, "own op 'swish': 0 outputs, expected 1 to 8");
    REFUSED(n_out, RP_MAX_OUT + 1, "own op 'swish': 9 outputs, expected 1 to 8");
    REFUSED(n_slot, -1, "own op 'swish': -1 slots, expected 0 to 4");
    REFUSED(n_slot, RP_MAX_SLOT + 1, "own op 'swish': 5 slots, expected 0 to 4");
    REFUSED(attr_size, RP_MAX_ATTR + 1, "own op 'swish': 81 bytes of attributes, at most 80");
    REFUSED(needs, RP_IN(1), "own op 'swish': needs refers to tensors that the op does not have (bits 0x2)");
    REFUSED(needs, RP_OUT(0) | RP_OUT(2), "own op 'swish': needs refers to tensors that the op does not have (bits 0x400)");
    REFUSED(needs, RP_SLOT(1), "own op 'swish': needs refers to tensors that the op does not have (bits 0x20000)");
    REFUSED(no_grad_in, RP_IN(1), "own op 'swish': no_grad_in refers to tensors that the op does not have (bits 0x2)");
    REFUSED(wide_grad_in, RP_IN(3), "own op 'swish': wide_grad_in refers to tensors that the op does not have (bits 0x8)");
    REFUSED(writes_in, RP_IN(1), "own op 'swish': writes_in refers to tensors that the op does not have (bits 0x2)");
    REFUSED(writes_in, RP_IN(0), "own op 'swish': it writes inputs without RP_OP_EFFECT");
    REFUSED(flags, 256, "own op 'swish': unknown flags 0x100");
    test_ctx_free(ctx);
}

static void a_name_is_taken_once_in_a_context(void **state)
{
    (void)state;
    rp_ctx *one = test_ctx(NULL), *other = test_ctx(NULL);
    rp_op again = swish, second = swish;

    second.name = "swish2";
    assert_ok(one, rp_op_register(one, &swish));
    assert_int_equal(rp_op_register(one, &again), RP_ERR_ARG);
    assert_string_equal(rp_error(one), "own op 'swish': the name is taken by another one");
    assert_ok(one, rp_op_register(one, &second));
    assert_ok(other, rp_op_register(other, &again));
    test_ctx_free(one);
    test_ctx_free(other);
}

static void an_op_that_is_not_registered_is_not_there(void **state)
{
    (void)state;
    rp_ctx *ctx  = test_ctx(NULL);
    rp_tensor *x = drawn(ctx, ROWS, IN, 1, true), *y = NULL;

    assert_int_equal(rp_apply(ctx, "swish", &(swish_attr){ 1 }, &x, 1, &y), RP_ERR_MATCH);
    assert_string_equal(rp_error(ctx), "there is no op 'swish'");
    ctx->fault_countdown = 1;
    assert_int_equal(rp_op_register(ctx, &swish), RP_ERR_MEMORY);
    assert_int_equal(rp_apply(ctx, "swish", &(swish_attr){ 1 }, &x, 1, &y), RP_ERR_MATCH);
    assert_ok(ctx, rp_op_register(ctx, &swish));
    assert_int_equal(rp_apply(ctx, "swish", NULL, &x, 1, &y), RP_ERR_ARG);
    assert_string_equal(rp_error(ctx), "swish: attributes are missing");
    assert_ok(ctx, rp_apply(ctx, "swish", &(swish_attr){ 1 }, &x, 1, &y));
    rp_forget(ctx);
    rp_tensor_unref(x);
    rp_tensor_unref(y);
    test_ctx_free(ctx);
}

/* ---- what a call refuses ---- */

/* Every mistake a shape function can make, chosen by the attribute. */
typedef struct { int mistake; } wrong_attr;

enum {
    NO_OUTPUT, NEGATIVE, OVERFLOWING, NO_DTYPE, TOO_MANY_DIMS, NEGATIVE_DIMS, BAD_SLOT, MANY_OUT, NO_OUT, MANY_SLOTS, MINUS_SLOTS, OTHER_INPUTS,
    MORE_NEEDS, MINUS_SCRATCH, MINUS_SCRATCH_BACKWARD, HUGE, REFUSED_BY_ITSELF, REFUSED_WITH_WORDS, MISTAKES
};

static rp_status wrong_shape(rp_op_meta *m)
{
    int mistake = ((const wrong_attr *)m->attr)->mistake;

    if (mistake != NO_OUTPUT) m->out[0] = m->in[0];
    m->slot[0] = m->in[0];
    switch (mistake) {
    case NEGATIVE: m->out[0].dim[0] = -1; break;
    case OVERFLOWING: m->out[0].dim[0] = INT64_MAX; break;
    case NO_DTYPE: m->out[0].dtype = (rp_dtype)77; break;
    case TOO_MANY_DIMS: m->out[0].ndim = 9; break;
    case NEGATIVE_DIMS: m->out[0].ndim = -2; break;
    case BAD_SLOT: m->slot[0].dim[1] = -3; break;
    case MANY_OUT: m->n_out = 3; break;
    case NO_OUT: m->n_out = 0; break;
    case MANY_SLOTS: m->n_slot = 2; break;
    case MINUS_SLOTS: m->n_slot = -1; break;
    case OTHER_INPUTS: m->n_in = 2; break;
    case MORE_NEEDS: m->needs |= RP_OUT(0); break;
    case MINUS_SCRATCH: m->scratch_bytes = -8; break;
    case MINUS_SCRATCH_BACKWARD: m->scratch_backward_bytes = INT64_MIN; break;
    case HUGE: m->scratch_bytes = INT64_MAX; break;
    case REFUSED_BY_ITSELF: return RP_ERR_DTYPE;
    case REFUSED_WITH_WORDS: return rp_fail(m->ctx, RP_ERR_DTYPE, "wrong: %s is not for it", rp_meta_str(&m->in[0]));
    }
    return RP_OK;
}

static void forward_nothing(const rp_op_call *c) { (void)c; }

static const rp_op wrong = {
    .name = "wrong", .n_in = 1, .n_out = 1, .n_slot = 1, .attr_size = sizeof(wrong_attr), .needs = RP_IN(0), .shape = wrong_shape,
    .forward = forward_nothing, .backward = forward_nothing,
};

static const struct { rp_status status; const char *message; } refusal[MISTAKES] = {
    [NO_OUTPUT]              = { RP_ERR_SHAPE, "own op 'wrong': shape declares no output 0" },
    [NEGATIVE]               = { RP_ERR_SHAPE, "own op 'wrong': output 0 is fp64 [-1, 4], which is not a valid shape" },
    [OVERFLOWING]            = { RP_ERR_SHAPE, "own op 'wrong': output 0 is fp64 [9223372036854775807, 4], which is not a valid shape" },
    [NO_DTYPE]               = { RP_ERR_SHAPE, "own op 'wrong': output 0 is unknown dtype [3, 4], which is not a valid shape" },
    [TOO_MANY_DIMS]          = { RP_ERR_SHAPE, "own op 'wrong': output 0 is fp64 [3, 4, 0, 0, 0, 0, 0, 0, and 1 more], which is not a valid shape" },
    [NEGATIVE_DIMS]          = { RP_ERR_SHAPE, "own op 'wrong': output 0 is fp64 [], which is not a valid shape" },
    [BAD_SLOT]               = { RP_ERR_SHAPE, "own op 'wrong': slot 0 is fp64 [3, -3], which is not a valid shape" },
    [MANY_OUT]               = { RP_ERR_SHAPE, "own op 'wrong': shape declares 3 outputs, the op has 1 to 1" },
    [NO_OUT]                 = { RP_ERR_SHAPE, "own op 'wrong': shape declares 0 outputs, the op has 1 to 1" },
    [MANY_SLOTS]             = { RP_ERR_SHAPE, "own op 'wrong': shape declares 2 slots, the op has at most 1" },
    [MINUS_SLOTS]            = { RP_ERR_SHAPE, "own op 'wrong': shape declares -1 slots, the op has at most 1" },
    [OTHER_INPUTS]           = { RP_ERR_SHAPE, "own op 'wrong': shape sets n_in to 2, but the call has 1" },
    [MORE_NEEDS]             = { RP_ERR_SHAPE, "own op 'wrong': shape adds bits to needs (0x100)" },
    [MINUS_SCRATCH]          = { RP_ERR_SHAPE, "own op 'wrong': forward needs -8 bytes of scratch, which is not a valid size" },
    [MINUS_SCRATCH_BACKWARD] = { RP_ERR_SHAPE, "own op 'wrong': backward needs -9223372036854775808 bytes of scratch, which is not a valid size" },
    [HUGE]                   = { RP_ERR_MEMORY, NULL },
    [REFUSED_BY_ITSELF]      = { RP_ERR_DTYPE, "own op 'wrong' refuses its inputs: a dtype is not supported here" },
    [REFUSED_WITH_WORDS]     = { RP_ERR_DTYPE, "wrong: fp64 [3, 4] is not for it" },
};

static void a_mistake_of_shape_is_an_error_that_names_the_op_and_leaves_nothing(void **state)
{
    (void)state;
    for (int wanted = 0; wanted < 2; wanted++) {
        rp_ctx *ctx  = test_ctx(NULL);
        rp_tensor *x = drawn(ctx, 3, 4, 1, wanted), *y = NULL;

        assert_ok(ctx, rp_op_register(ctx, &wrong));
        for (int i = 0; i < MISTAKES; i++) {
            rp_mem before, after;
            rp_mem_read(ctx, 0, false, &before);
            assert_int_equal(rp_apply(ctx, "wrong", &(wrong_attr){ i }, &x, 1, &y), refusal[i].status);
            if (refusal[i].message) assert_string_equal(rp_error(ctx), refusal[i].message);
            assert_null(y);
            rp_mem_read(ctx, 0, false, &after);
            assert_int_equal(after.live_bytes, before.live_bytes);
        }
        rp_tensor_unref(x);
        test_ctx_free(ctx);
    }
}

/* y = x + sum of b: passes its gradient on to x, has none for b. */
static rp_status shift_shape(rp_op_meta *m)
{
    m->out[0] = m->in[0];
    return RP_OK;
}

static void shift_forward(const rp_op_call *c)
{
    double by = 0;

    for (int64_t e = 0; e < rp_meta_elems(&c->meta->in[1]); e++) by += rp_elem_get(c->in[1], e);
    for (int64_t e = 0; e < rp_meta_elems(&c->meta->in[0]); e++) rp_elem_put(c->out[0], e, rp_elem_get(c->in[0], e) + by);
}

static const rp_op shift = {
    .name = "shift", .n_in = 2, .n_out = 1, .flags = RP_OP_GRAD_PASS, .shape = shift_shape, .forward = shift_forward,
};

static void a_passing_op_without_backward_has_no_gradient_for_inputs_of_another_shape(void **state)
{
    (void)state;
    rp_ctx *ctx  = test_ctx(NULL);
    rp_tensor *x = drawn(ctx, 1, 1, 1, true), *b = drawn(ctx, 2, 2, 2, true), *y;
    double g;

    assert_ok(ctx, rp_op_register(ctx, &shift));
    assert_ok(ctx, rp_apply(ctx, "shift", NULL, (rp_tensor *[]){ x, b }, 2, &y));
    assert_ok(ctx, rp_backward(ctx, y));
    assert_ok(ctx, rp_tensor_read(rp_tensor_grad(x), &g, 1));
    assert_true(g == 1);
    assert_null(rp_tensor_grad(b));
    rp_tensor_unref(x);
    rp_tensor_unref(b);
    rp_tensor_unref(y);
    test_ctx_free(ctx);
}

/* ---- a function for each op of the library (reprise/calls.h) ---- */

static void each_op_has_a_function_of_its_name(void **state)
{
    (void)state;
#define RP_OP(name) assert_true(sizeof &rp_##name > 0);
#include "ops/ops.def"
#undef RP_OP
}

static void functions_of_ops_make_the_calls(void **state)
{
    (void)state;
    rp_ctx *ctx       = test_ctx(NULL);
    const rp_meta row = { RP_F32, 1, { 3 } }, square = { RP_F32, 2, { 3, 3 } };
    rp_tensor *x, *b, *with, *without, *both, *part[2];
    double y[9], z[9];

    assert_ok(ctx, rp_tensor_new(ctx, &square, RP_MEM_TEMP, &x));
    assert_ok(ctx, rp_tensor_new(ctx, &row, RP_MEM_TEMP, &b));
    for (int i = 0; i < 9; i++) rp_elem_put(x, i, i * 7 % 5 - 2);
    for (int i = 0; i < 3; i++) rp_elem_put(b, i, 1);
    assert_ok(ctx, rp_matmul(ctx, x, x, b, &(rp_attr_matmul){ 0 }, &with));
    assert_ok(ctx, rp_matmul(ctx, x, x, NULL, &(rp_attr_matmul){ 0 }, &without));
    assert_ok(ctx, rp_concat(ctx, (rp_tensor *[]){ with, without }, 2, &(rp_attr_dim){ 0 }, &both));
    assert_ok(ctx, rp_split(ctx, both, &(rp_attr_split){ .dim = 0, .n = 2, .length = { 3, 3 } }, part));
    assert_ok(ctx, rp_tensor_read(part[0], y, 9));
    assert_ok(ctx, rp_tensor_read(part[1], z, 9));
    for (int i = 0; i < 9; i++) assert_true(y[i] == z[i] + 1);
    assert_int_equal(rp_matmul(ctx, NULL, NULL, NULL, &(rp_attr_matmul){ 0 }, &with), RP_ERR_ARG);
    assert_non_null(strstr(rp_error(ctx), "0 inputs given"));
    for (int i = 0; i < 7; i++) rp_tensor_unref((rp_tensor *[]){ x, b, with, without, both, part[0], part[1] }[i]);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_gradient_through_an_own_op_is_that_of_central_differences),
        cmocka_unit_test(an_own_op_trains),
        cmocka_unit_test(an_own_op_without_backward_has_no_gradient),
        cmocka_unit_test(an_own_op_needs_no_cost),
        cmocka_unit_test(an_own_op_in_a_region_runs_again_and_gives_the_same_bits),
        cmocka_unit_test(every_allocation_of_a_step_with_an_own_op_may_fail),
        cmocka_unit_test(a_wrong_declaration_is_refused_with_its_name),
        cmocka_unit_test(a_name_is_taken_once_in_a_context),
        cmocka_unit_test(an_op_that_is_not_registered_is_not_there),
        cmocka_unit_test(a_mistake_of_shape_is_an_error_that_names_the_op_and_leaves_nothing),
        cmocka_unit_test(a_passing_op_without_backward_has_no_gradient_for_inputs_of_another_shape),
        cmocka_unit_test(each_op_has_a_function_of_its_name),
        cmocka_unit_test(functions_of_ops_make_the_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
