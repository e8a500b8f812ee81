/* Claims about tests/golden itself, read through our own reader: parts made at different times must belong together. */
/* ctest: device-free thread-free */
#include "golden.h"

static const char *const variant[] = {
    "llama2", "llama3", "llama3_parameters", "llama_linear", "smollm2", "llama_head_dim", "llama_bias",
    "gpt2", "gpt2_inner", "gpt2_gelu", "gpt2_dropout",
};

static golden *open_variant(rp_ctx *ctx, int i, rp_safetensors **model)
{
    char name[128], path[RP_GOLDEN_PATH];

    snprintf(name, sizeof name, "models/%s", variant[i]);
    assert_ok(ctx, rp__safetensors_open(ctx, golden_path(path, name), model));
    snprintf(name, sizeof name, "models/%s/golden", variant[i]);
    return golden_open(ctx, name);
}

/* The original GPT-2 files leave the prefix out. */
static const rp_safetensor *find_parameter(const rp_safetensors *model, const char *name)
{
    const char *bare       = strncmp(name, "transformer.", 12) ? name : name + 12;
    const rp_safetensor *t = rp__safetensors_find(model, name);

    return t ? t : rp__safetensors_find(model, bare);
}

static void every_gradient_has_the_shape_of_its_parameter(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(NULL);

    for (int i = 0; i < RP_COUNT(variant); i++) {
        rp_safetensors *model;
        golden *g = open_variant(ctx, i, &model);
        int64_t at = 0, n = 0;
        for (const char *name; (name = golden_next(g, "grad.", &at)) != NULL; n++) {
            char full[256];
            const rp_safetensor *p = find_parameter(model, name);
            snprintf(full, sizeof full, "grad.%s", name);
            golden_tensor grad = golden_get(g, full);
            assert_non_null(p);
            assert_int_equal(grad.ndim, p->ndim);
            assert_memory_equal(grad.dim, p->dim, (size_t)p->ndim * sizeof *p->dim);
            assert_true(isfinite(golden_max_abs(grad.value, grad.value, grad.elems)));
            golden_tensor_free(&grad);
        }
        assert_int_equal(n, golden_count(g, "adamw/final"));
        golden_close(g);
        rp__safetensors_close(model);
    }
    test_ctx_free(ctx);
}

/* Mean over rows and their T-1 targets of log sum exp - logit of the target. */
static double loss_of(const double *logits, const int32_t *labels, int64_t rows, int64_t tokens, int64_t vocab)
{
    double sum = 0;
    int64_t n  = 0;

    for (int64_t r = 0; r < rows; r++)
        for (int64_t t = 0; t + 1 < tokens; t++, n++) {
            const double *x = logits + (r * tokens + t) * vocab;
            double top = x[0], total = 0;
            for (int64_t v = 1; v < vocab; v++) top = fmax(top, x[v]);
            for (int64_t v = 0; v < vocab; v++) total += exp(x[v] - top);
            sum += top + log(total) - x[labels[r * tokens + t + 1]];
        }
    return sum / (double)n;
}

static void the_loss_is_that_of_the_logits_over_shifted_targets(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(NULL);

    for (int i = 0; i < RP_COUNT(variant); i++) {
        rp_safetensors *model;
        golden *g = open_variant(ctx, i, &model);
        int64_t rows = (int64_t)golden_number(g, "rows"), tokens = (int64_t)golden_number(g, "tokens");
        golden_tensor logits = golden_get(g, "logits");
        int32_t *ids         = golden_ints(g, "input_ids", 0, rows * tokens);
        double loss          = loss_of(logits.value, ids, rows, tokens, (int64_t)golden_number(g, "vocab"));
        assert_true(fabs(loss - golden_number(g, "loss")) < 1e-5);
        assert_true(fabs(loss - golden_number(g, "adamw/losses/0")) < 1e-5);
        free(ids);
        golden_tensor_free(&logits);
        golden_close(g);
        rp__safetensors_close(model);
    }
    test_ctx_free(ctx);
}

static void a_nan_is_never_near(void **state)
{
    (void)state;
    const double want[2] = { 1, 2 }, got[2] = { 1, NAN };

    assert_true(golden_max_abs(got, want, 2) == INFINITY);
    assert_true(golden_rel_l2(want, got, 2) == INFINITY);
    assert_true(golden_rel_l2(want, want, 2) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_gradient_has_the_shape_of_its_parameter),
        cmocka_unit_test(the_loss_is_that_of_the_logits_over_shifted_targets),
        cmocka_unit_test(a_nan_is_never_near),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
