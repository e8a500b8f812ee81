/* Claims about fresh weights: normal where they are drawn, scaled where the residual is added to, and of seed and path alone. */
#include "weights_test.h"

#include <math.h>

#define FRESH_LLAMA \
    "{\"model_type\":\"llama\",\"vocab_size\":4,\"hidden_size\":4,\"intermediate_size\":6,\"num_hidden_layers\":1,\"num_attention_heads\":2" \
    ",\"initializer_range\":0.5,\"attention_bias\":true}"
#define FRESH_GPT2 "{\"model_type\":\"gpt2\",\"vocab_size\":500,\"n_embd\":64,\"n_layer\":8,\"n_head\":4,\"n_positions\":48}"

static double *values(const rp_model *model, const char *path, int64_t *n)
{
    const rp_param *p = rp__model_find_param(model, path);

    assert_non_null(p);
    *n        = rp_meta_elems(rp_tensor_meta(p->tensor));
    double *v = malloc((size_t)*n * sizeof *v);
    assert_ok(ctx, rp_tensor_read(p->tensor, v, *n));
    return v;
}

/* The sample's mean, deviation and kurtosis lie within five standard errors. */
static void assert_normal(const rp_model *model, const char *path, double std)
{
    int64_t n;
    double *v = values(model, path, &n), sum = 0, squares = 0, fourth = 0;

    for (int64_t i = 0; i < n; i++) {
        double z = v[i] / std;
        sum += z;
        squares += z * z;
        fourth += z * z * z * z;
    }
    if (fabs(sum / (double)n) > 5 / sqrt((double)n) || fabs(squares / (double)n - 1) > 5 * sqrt(2 / (double)n) ||
        fabs(fourth / (double)n - 3) > 5 * sqrt(96 / (double)n))
        fail_msg("'%s': mean %g, variance %g, fourth moment %g", path, sum / (double)n, squares / (double)n, fourth / (double)n);
    free(v);
}

static void fresh_weights_are_normal_and_residual_projections_scaled(void **state)
{
    (void)state;
    rp_model *m = fresh(FRESH_GPT2, RP_F32, 1);

    assert_normal(m, "tok_embeddings.weight", 0.02);
    assert_normal(m, "pos_embeddings.weight", 0.02);
    assert_normal(m, "layers.0.attn.qkv.weight", 0.02);
    assert_normal(m, "layers.7.mlp.up.weight", 0.02);
    assert_normal(m, "layers.3.attn.output.weight", 0.02 / 4);
    assert_normal(m, "layers.3.mlp.down.weight", 0.02 / 4);
    rp__model_free(m);
}

static void fresh_norms_are_one_and_biases_zero(void **state)
{
    (void)state;
    rp_model *m = fresh(FRESH_GPT2, RP_F32, 1);

    for (int i = 0; i < rp__model_n_params(m); i++) {
        const rp_param *p = rp__model_param(m, i);
        if (rp_tensor_meta(p->tensor)->ndim != 1) continue;
        int64_t n;
        double *v = values(m, p->path, &n), want = !strcmp(p->name, "weight");
        for (int64_t k = 0; k < n; k++) assert_true(v[k] == want);
        free(v);
    }
    rp__model_free(m);
}

static void fresh_weight_depends_on_seed_and_path_alone(void **state)
{
    (void)state;
    rp_model *a = fresh(FRESH_LLAMA, RP_F32, 1), *b = fresh(FRESH_LLAMA, RP_BF16, 1), *c = fresh(FRESH_LLAMA, RP_F32, 2);
    int64_t n;
    double *q = values(a, "layers.0.attn.q.weight", &n), *k = values(a, "layers.0.attn.k.weight", &n);
    double *rounded = values(b, "layers.0.attn.q.weight", &n), *other = values(c, "layers.0.attn.q.weight", &n);

    for (int64_t i = 0; i < n; i++) {
        assert_true(q[i] != k[i] && q[i] != other[i]);
        assert_true(rounded[i] == (double)rp__f32_from_bf16(rp__bf16_from_f32((float)q[i])));
    }
    free(q), free(k), free(rounded), free(other);
    rp__model_free(a), rp__model_free(b), rp__model_free(c);
}

static void fresh_weights_do_not_depend_on_threads(void **state)
{
    (void)state;
    rp_ctx *first = ctx;
    rp_model *one = fresh(FRESH_GPT2, RP_F32, 9);

    ctx         = test_ctx(&(rp_ctx_options){ .threads = first->threads == 1 ? 2 : 1 });
    rp_model *m = fresh(FRESH_GPT2, RP_F32, 9);
    for (int i = 0; i < rp__model_n_params(m); i++) {
        rp_tensor *a = rp__model_param(one, i)->tensor, *b = rp__model_param(m, i)->tensor;
        assert_memory_equal(test_bytes(a), test_bytes(b), (size_t)rp_meta_bytes(rp_tensor_meta(a)));
    }
    rp__model_free(m);
    test_ctx_free(ctx);
    ctx = first;
    rp__model_free(one);
}

static void each_bit_of_a_seed_changes_the_weights(void **state)
{
    (void)state;
    for (int bit = 0; bit < 64; bit++) assert_true(rp__draw_key(3 ^ UINT64_C(1) << bit, "norm") != rp__draw_key(3, "norm"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(fresh_weights_are_normal_and_residual_projections_scaled),
        TEST(each_bit_of_a_seed_changes_the_weights),
        TEST(fresh_norms_are_one_and_biases_zero),
        TEST(fresh_weight_depends_on_seed_and_path_alone),
        TEST(fresh_weights_do_not_depend_on_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
