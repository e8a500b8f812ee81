/* A linear layer whose adapter has a magnitude: what it gives with dropout, and where a row is nothing. Its numbers against the peft package are
 * in tests/models/test_lora.c, where nothing is dropped: masks are not peft's. */
#include "rp_test.h"

#include <math.h>

#include "nn/layers.h"
#include "nn/lora.h"

enum { ROWS = 11, IN = 9, OUT = 7, RANK = 3 };

#define DROPPED 0.4

typedef struct {
    rp_ctx *ctx;
    rp_module *root, *layer;
    rp_lora_parts parts;
    rp_tensor *x;
    bool in_out;
    double w[OUT * IN], bias[OUT], a[RANK * IN], b[OUT * RANK], m[OUT];
} fixture;

/* Read back: what is there is what the layer sees. */
static void fill(const fixture *f, rp_tensor *t, int which, double *kept)
{
    int64_t n = rp_meta_elems(rp_tensor_meta(t));

    for (int64_t i = 0; i < n; i++) kept[i] = sin(1 + 37.7 * which + 1.3 * (double)(i * (1 + which)));
    assert_ok(f->ctx, rp_tensor_write(t, kept, n));
}

static fixture fixture_new(bool bias, bool in_out)
{
    static const rp_module_kind root = { .name = "Root" };
    fixture f                        = { .ctx = test_ctx(NULL), .in_out = in_out };
    rp_linear_config config          = { .in = IN, .out = OUT, .bias = bias, .in_out = in_out };
    rp_meta xm                       = rp_meta_2d(RP_F64, ROWS, IN);
    double x[ROWS * IN];

    assert_ok(f.ctx, rp__module_new(f.ctx, NULL, "", &root, sizeof *f.root, &f.root));
    assert_ok(f.ctx, rp__linear_new(f.root, "linear", &config, RP_F64, &f.layer));
    assert_int_equal(rp__lora_attach(f.layer, &(rp_lora){ .rank = 0, .alpha = 5 }), RP_ERR_ARG);
    assert_string_equal(rp_error(f.ctx), "an adapter of 'linear' needs a rank of at least 1, not 0");
    assert_ok(f.ctx, rp__lora_attach(f.layer, &(rp_lora){ .rank = RANK, .alpha = 5, .dropout = DROPPED, .dora = true }));
    assert_true(rp__lora_parts(f.layer, &f.parts));
    fill(&f, f.layer->param[0].tensor, 0, f.w);
    if (bias) fill(&f, f.layer->param[1].tensor, 1, f.bias);
    fill(&f, f.parts.a->tensor, 2, f.a);
    fill(&f, f.parts.b->tensor, 3, f.b);
    fill(&f, f.parts.magnitude->tensor, 4, f.m);
    assert_ok(f.ctx, rp_tensor_new(f.ctx, &xm, RP_MEM_TEMP, &f.x));
    fill(&f, f.x, 5, x);
    return f;
}

static void fixture_free(fixture *f)
{
    rp__tape_reset(f->ctx);
    rp_tensor_unref(f->x);
    rp__module_free(f->root);
    test_ctx_free(f->ctx);
}

/* What the layer's call, the first random one under its path, lets through. */
static void dropped_x(const fixture *f, double *to)
{
    rp_tensor *x;

    rp__pass_begin(f->ctx, 3, 0);
    rp__tape_ctx(f->ctx)->scope = &f->layer->scope;
    assert_ok(f->ctx, rp__apply(f->ctx, &rp_op_dropout, &(rp_attr_dropout){ (float)DROPPED }, &f->x, 1, &x));
    rp__tape_ctx(f->ctx)->scope = NULL;
    assert_ok(f->ctx, rp_tensor_read(x, to, ROWS * IN));
    rp_tensor_unref(x);
}

static void run(const fixture *f, double *y)
{
    rp_tensor *out;

    rp__pass_begin(f->ctx, 3, 0);
    assert_ok(f->ctx, rp__module_call(f->layer, &f->x, &out));
    assert_ok(f->ctx, rp_tensor_read(out, y, ROWS * OUT));
    rp_tensor_unref(out);
}

static double w_at(const fixture *f, int out, int in) { return f->in_out ? f->w[in * OUT + out] : f->w[out * IN + in]; }

/* Of w + scale b a. */
static double sum_at(const fixture *f, int out, int in)
{
    double sum = 0;

    for (int k = 0; k < RANK; k++) sum += f->b[out * RANK + k] * f->a[k * IN + in];
    return w_at(f, out, in) + (double)rp__lora_scale(&f->parts.lora) * sum;
}

/* w x + bias + (m / n - 1) w x' + m / n scale b a x', as the peft package has it; x' is what dropout lets through. */
static double wanted(const fixture *f, const double *x, const double *dropped, int out)
{
    double squares = 0, y = f->bias[out];

    for (int i = 0; i < IN; i++) squares += sum_at(f, out, i) * sum_at(f, out, i);
    for (int i = 0; i < IN; i++) y += w_at(f, out, i) * (x[i] - dropped[i]) + f->m[out] / sqrt(squares) * sum_at(f, out, i) * dropped[i];
    return y;
}

static void check_layer(bool bias, bool in_out, bool eval)
{
    fixture f = fixture_new(bias, in_out);
    double x[ROWS * IN], dropped[ROWS * IN], y[ROWS * OUT];
    int n = 0;

    rp__tape_ctx(f.ctx)->eval = eval;
    assert_ok(f.ctx, rp_tensor_read(f.x, x, ROWS * IN));
    dropped_x(&f, dropped);
    for (int i = 0; i < ROWS * IN; i++) n += dropped[i] == 0;
    assert_true(eval ? n == 0 : n > 20 && n < 60);
    run(&f, y);
    for (int i = 0; i < ROWS * OUT; i++) {
        double want = wanted(&f, x + i / OUT * IN, dropped + i / OUT * IN, i % OUT);
        if (fabs(y[i] - want) > 1e-12) fail_msg("element %d is %.17g, expected %.17g", i, y[i], want);
    }
    fixture_free(&f);
}

static void dropout_takes_from_the_adapters_share_and_not_from_the_layers(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++) check_layer(i & 1, i & 2, i & 4);
}

static void a_row_of_zeros_gives_its_bias(void **state)
{
    fixture f = fixture_new(true, false);
    double y[ROWS * OUT];

    (void)state;
    rp__tape_ctx(f.ctx)->eval = true;
    for (int i = 0; i < IN; i++) f.w[2 * IN + i] = 0;
    for (int k = 0; k < RANK; k++) f.b[2 * RANK + k] = 0;
    assert_ok(f.ctx, rp_tensor_write(f.layer->param[0].tensor, f.w, OUT * IN));
    assert_ok(f.ctx, rp_tensor_write(f.parts.b->tensor, f.b, OUT * RANK));
    run(&f, y);
    for (int r = 0; r < ROWS; r++) assert_true(y[r * OUT + 2] == f.bias[2]);
    fixture_free(&f);
}

/* A magnitude begins as what weight_norm says of a weight whose adapter is nothing. */
static void a_magnitude_begins_as_the_norms_of_the_rows(void **state)
{
    (void)state;
    for (int in_out = 0; in_out < 2; in_out++) {
        fixture f = fixture_new(false, in_out);
        double got[OUT];
        rp_tensor *norms;
        memset(f.b, 0, sizeof f.b);
        assert_ok(f.ctx, rp_tensor_write(f.parts.b->tensor, f.b, OUT * RANK));
        assert_ok(f.ctx, rp__magnitude_begin(f.layer, &norms));
        assert_ok(f.ctx, rp_tensor_read(norms, got, OUT));
        for (int o = 0; o < OUT; o++) {
            double squares = 0;
            for (int i = 0; i < IN; i++) squares += w_at(&f, o, i) * w_at(&f, o, i);
            if (fabs(got[o] - sqrt(squares)) > 1e-12) fail_msg("norm %d is %.17g, expected %.17g", o, got[o], sqrt(squares));
        }
        rp_tensor_unref(norms);
        fixture_free(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dropout_takes_from_the_adapters_share_and_not_from_the_layers),
        cmocka_unit_test(a_row_of_zeros_gives_its_bias),
        cmocka_unit_test(a_magnitude_begins_as_the_norms_of_the_rows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
