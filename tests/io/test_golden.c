/* Claims about tests/golden itself, read through our own reader: parts made at different times must belong together. */
/* ctest: device-free thread-free */
#include "golden.h"

static const char *const variant[] = {
    "llama2", "llama3", "llama3_parameters", "llama_linear", "smollm2", "llama_head_dim", "llama_bias",
    "gpt2", "gpt2_inner", "gpt2_gelu", "gpt2_dropout",
};

/* Decoders whose logits are stored whole: one of each family. */
static const char *const whole[] = { "llama2", "gpt2", "qwen2", "qwen3", "mistral", "gemma2", "gemma3_text", "phi3", "olmo2", "qwen3_moe", "mixtral" };

static golden *open_variant(rp_ctx *ctx, const char *of, rp_safetensors **model)
{
    char name[128], path[RP_GOLDEN_PATH];

    snprintf(name, sizeof name, "models/%s", of);
    assert_ok(ctx, rp__safetensors_open(ctx, golden_path(path, name), model));
    snprintf(name, sizeof name, "models/%s/golden", of);
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
        golden *g = open_variant(ctx, variant[i], &model);
        int64_t at = 0, n = 0;
        for (const char *name; (name = golden_next(g, "grad.", &at)) != NULL; n++) {
            char full[256];
            const rp_safetensor *p = find_parameter(model, name);
            snprintf(full, sizeof full, "grad.%s", name);
            golden_tensor grad = golden_get(g, full);
            assert_non_null(p);
            assert_int_equal(grad.ndim, p->ndim);
            assert_memory_equal(grad.dim, p->dim, (size_t)p->ndim * sizeof *p->dim);
            int64_t n_stored = grad.parts ? grad.parts * (int64_t)(sizeof(golden_part) / sizeof(double)) : grad.elems;
            assert_true(isfinite(golden_max_abs(grad.value, grad.value, n_stored)));
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

    for (int i = 0; i < RP_COUNT(whole); i++) {
        rp_safetensors *model;
        golden *g = open_variant(ctx, whole[i], &model);
        int64_t rows = (int64_t)golden_number(g, "rows"), tokens = (int64_t)golden_number(g, "tokens");
        golden_tensor logits = golden_get(g, "logits");
        assert_int_equal(logits.parts, 0);
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

/* The sketch is of zeros, so the compared tensor is itself the difference. */
static void a_sketch_shows_the_size_of_a_difference_wherever_it_is(void **state)
{
    (void)state;
    enum { N = 500 };
    const golden_part zeros = { .norm = 1, .dim = { N } };
    golden_tensor want      = { .name = "zeros", .ndim = 1, .dim = { N }, .elems = N, .parts = 1, .value = (double *)(uintptr_t)&zeros };
    double got[N] = { 0 };

    for (int i = 0; i < N; i++) {
        got[i] = 3;
        assert_true(fabs(golden_off_max(got, &want) - 3) < 1e-12);
        got[i] = 0;
    }
    for (int every = 1; every < 50; every++) {
        double squares = 0;
        for (int i = 0; i < N; i++) {
            got[i] = i % every ? 0 : 1 + i % 7;
            squares += got[i] * got[i];
        }
        assert_in_range((int64_t)(1000 * golden_off_rel(got, &want) / sqrt(squares)), (int64_t)(1000 * golden_sketch_share), 1400);
    }
    got[N - 1] = NAN;
    assert_true(golden_off_max(got, &want) == INFINITY && golden_off_rel(got, &want) == INFINITY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_gradient_has_the_shape_of_its_parameter),
        cmocka_unit_test(the_loss_is_that_of_the_logits_over_shifted_targets),
        cmocka_unit_test(a_nan_is_never_near),
        cmocka_unit_test(a_sketch_shows_the_size_of_a_difference_wherever_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
