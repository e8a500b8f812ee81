/* Rotary frequencies and the factor of cos and sin, of every kind of scaling, against what transformers makes of the same parameters. */
/* ctest: thread-free */
#include "golden.h"

#include "models/rope.h"

static const char *const cases[] = {
    "inv_freq_llama2", "inv_freq_smollm2", "inv_freq_linear", "inv_freq_llama31", "inv_freq_llama32", "inv_freq_tiny", "inv_freq_yarn",
    "inv_freq_yarn_exact", "inv_freq_yarn_said", "inv_freq_yarn_step",
};

/* The config.json of a llama with one head of this size and these parameters. */
static json_t *config_of(const golden *g, const char *name)
{
    char key[64];
    int64_t dim;

    snprintf(key, sizeof key, "%s/head_dim", name);
    dim = (int64_t)golden_number(g, key);
    snprintf(key, sizeof key, "%s/rope_parameters", name);
    json_t *parameters = json_deep_copy(golden_at(g, key));
    return json_pack("{s:s, s:i, s:I, s:i, s:i, s:i, s:i, s:o}", "model_type", "llama", "vocab_size", 8, "hidden_size", (json_int_t)dim,
                     "intermediate_size", 8, "num_hidden_layers", 1, "num_attention_heads", 1, "max_position_embeddings", 131072,
                     "rope_parameters", parameters);
}

static void check(rp_ctx *ctx, const golden *g, const char *name)
{
    json_t *json = config_of(g, name);
    float frequency[64];
    double got[64];
    char key[64];
    rp_model_config config;
    rp_report report;

    rp__report_open(&report, ctx);
    assert_ok(ctx, rp__model_config_parse(ctx, name, json, NULL, &report, &config));
    snprintf(key, sizeof key, "%s.y", name);
    golden_tensor want = golden_get(g, key);
    assert_in_range(want.elems, 1, 64);
    assert_int_equal(want.elems, config.head_dim / 2);
    rp__rope_frequencies(&config.rope, config.head_dim, frequency);
    for (int64_t i = 0; i < want.elems; i++) {
        got[i] = (double)frequency[i];
        if (!(fabs(got[i] - want.value[i]) <= 4e-7 * want.value[i])) fail_msg("%s: frequency %d is %.9g, %.9g there", name, (int)i, got[i], want.value[i]);
    }
    snprintf(key, sizeof key, "%s/scaling", name);
    double size = config.rope.attention_factor > 0 ? config.rope.attention_factor : 1;
    assert_true(fabs(size - golden_number(g, key)) <= 1e-12);
    golden_tensor_free(&want);
    rp__model_config_drop(&config);
    rp__report_close(&report);
    json_decref(json);
}

static void frequencies_are_those_of_transformers(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(NULL);
    golden *g   = golden_open(ctx, "ops");

    for (int i = 0; i < RP_COUNT(cases); i++) check(ctx, g, cases[i]);
    golden_close(g);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(frequencies_are_those_of_transformers) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
