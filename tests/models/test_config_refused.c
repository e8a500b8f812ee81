/* Claims about config.json: what would change the numbers and is not honoured is an error that names it, and all errors come at once;
 * what a recipe sets over the file is held to the same. */
/* ctest: thread-free */
#include "config_test.h"

/* ---- overrides ---- */

static void overrides_are_set_over_the_file_and_typed(void **state)
{
    (void)state;
    assert_ok(ctx, parse("{" LLAMA ", 'rope_scaling': {'type': 'linear', 'factor': 2}}",
                         "{num_hidden_layers: 5, rms_norm_eps: 1e-3, attention_bias: yes, num_key_value_heads: null, hidden_act: relu,"
                         " eos_token_id: [3, 4], rope_scaling: {type: linear, factor: 3}}"));
    assert_true(config.n_layers == 5 && config.norm_eps == 1e-3 && config.qkv_bias && config.n_kv_heads == 4);
    assert_true(config.activation == RP_ACT_RELU && config.eos == 3 && config.rope.factor == 3);
    assert_int_equal(json_integer_value(json_object_get(config.source, "num_hidden_layers")), 5);
    assert_int_equal(json_array_size(json_object_get(config.source, "eos_token_id")), 2);
    assert_int_equal(parse("{" LLAMA "}", "{num_hidden_layers: '5'}"), RP_ERR_CONFIG);
    assert_true(reported("'num_hidden_layers' is \"5\", expected a whole number"));
}

static void error_in_an_override_stands_at_its_line(void **state)
{
    (void)state;
    assert_int_equal(parse("{" LLAMA "}", "hidden_act: silu\nhiden_size: 3\n"), RP_ERR_UNSUPPORTED);
    assert_true(reported("recipe.yaml:2: unknown field 'hiden_size' (3) of model_type 'llama'; did you mean 'hidden_size'?"));
}

/* ---- what is refused ---- */

static void each_wrong_field_is_named(void **state)
{
    (void)state;
    assert_refused("{'model_type': 'llama', 'vocab_size': 9, 'hidden_size': 32, 'num_hidden_layers': 2, 'num_attention_heads': 4}",
                   RP_ERR_CONFIG, "config.json: 'intermediate_size' is missing");
    assert_refused("{" LLAMA ", 'max_position_embeddings': '2048'}", RP_ERR_CONFIG,
                   "'max_position_embeddings' is \"2048\", expected a whole number from 1 to 2147483647");
    assert_refused("{" LLAMA ", 'max_position_embeddings': 0}", RP_ERR_CONFIG, "'max_position_embeddings' is 0, expected");
    assert_refused("{" LLAMA ", 'max_position_embeddings': 1e3}", RP_ERR_CONFIG, "expected a whole number");
    assert_refused("{" LLAMA ", 'max_position_embeddings': null}", RP_ERR_CONFIG, "'max_position_embeddings' is null");
    assert_refused("{" LLAMA ", 'num_hidden_layers': 1025}", RP_ERR_CONFIG, "'num_hidden_layers' is 1025, expected a whole number from 1 to 1024");
    assert_refused("{'model_type': 'gpt2', 'vocab_size': 9, 'n_embd': 32, 'n_layer': 65535, 'n_head': 4}", RP_ERR_CONFIG,
                   "'n_layer' is 65535, expected a whole number from 1 to 1024");
    assert_refused(FAMILY("mixtral") ", 'num_local_experts': 20000, 'num_experts_per_tok': 2}", RP_ERR_CONFIG,
                   "6 blocks of 20000 experts exceed the limit of 65536 experts");
    assert_refused("{" LLAMA ", 'rms_norm_eps': -1e-5}", RP_ERR_CONFIG, "expected a number from 0 to 1");
    assert_refused("{" LLAMA ", 'rms_norm_eps': true}", RP_ERR_CONFIG, "'rms_norm_eps' is true");
    assert_refused("{" LLAMA ", 'tie_word_embeddings': 1}", RP_ERR_CONFIG, "'tie_word_embeddings' is 1, expected true or false");
    assert_refused("{" LLAMA ", 'hidden_act': 'mish'}", RP_ERR_UNSUPPORTED, "'hidden_act' is \"mish\"; these are honoured: silu, swish");
    assert_refused("{" LLAMA ", 'eos_token_id': '</s>'}", RP_ERR_CONFIG,
                   "'eos_token_id' is \"</s>\", expected the id of a token, a list of them, or null");
    assert_refused("{" LLAMA ", 'eos_token_id': 4294967296}", RP_ERR_CONFIG, "'eos_token_id' is 4294967296");
    assert_refused("{" LLAMA ", 'head_dim': 9}", RP_ERR_CONFIG, "heads of 9 elements");
    assert_refused("{" GPT2 ", 'attn_pdrop': 1.5}", RP_ERR_CONFIG, "'attn_pdrop' is 1.5, expected a number from 0 to 1");
    assert_refused("{" GPT2 ", 'scale_attn_weights': 'no'}", RP_ERR_CONFIG, "'scale_attn_weights' is \"no\"");
    assert_refused("[1, 2]", RP_ERR_CONFIG, "not a JSON object");
}

/* An error about two fields gives each its own number. */
static void fields_that_do_not_fit_each_other_are_reported_with_their_numbers(void **state)
{
    (void)state;
    assert_refused("{" LLAMA ", 'num_key_value_heads': 3}", RP_ERR_CONFIG,
                   "'num_attention_heads' 4 is not a multiple of 'num_key_value_heads' 3");
    assert_refused("{'model_type': 'gpt2', 'vocab_size': 9, 'n_embd': 30, 'n_layer': 2, 'n_head': 4}", RP_ERR_CONFIG,
                   "'n_embd' 30 is not a multiple of 'n_head' 4");
    assert_refused("{'model_type': 'llama', 'vocab_size': 9, 'hidden_size': 30, 'intermediate_size': 48, 'num_hidden_layers': 2,"
                   "'num_attention_heads': 4, 'num_key_value_heads': 2, 'head_dim': 8}", RP_ERR_CONFIG,
                   "'hidden_size' 30 is not a multiple of 'num_attention_heads' 4");
    assert_refused(FAMILY("mixtral") ", 'num_local_experts': 4, 'num_experts_per_tok': 5}", RP_ERR_CONFIG,
                   "'num_experts_per_tok' 5 exceeds the number of experts, 4");
    assert_refused(FAMILY("phi3") ", 'partial_rotary_factor': 0.4}", RP_ERR_CONFIG,
                   "'partial_rotary_factor' 0.4 leaves 3 of 8 elements of a head, which cannot be rotated in pairs");
    assert_refused(FAMILY("phi3") ", 'partial_rotary_factor': 0.5, 'rope_parameters': {'partial_rotary_factor': 0.25}}", RP_ERR_CONFIG,
                   "'partial_rotary_factor' is 0.5, but 0.25 in another place");
}

static void fields_that_would_change_the_numbers_are_refused(void **state)
{
    (void)state;
    assert_refused("{" LLAMA ", 'pretraining_tp': 2}", RP_ERR_UNSUPPORTED, "'pretraining_tp' is 2; only 1 is honoured");
    assert_refused("{" LLAMA ", 'sliding_window': 4096}", RP_ERR_UNSUPPORTED, "'sliding_window' is 4096");
    assert_refused("{" LLAMA ", 'quantization_config': {'bits': 4}}", RP_ERR_UNSUPPORTED, "'quantization_config' is {\"bits\":4}");
    assert_refused("{" LLAMA ", 'partial_rotary_factor': 0.5}", RP_ERR_UNSUPPORTED, "'partial_rotary_factor' is 0.5");
    assert_refused("{" LLAMA ", 'rope_interleaved': true}", RP_ERR_UNSUPPORTED, "'rope_interleaved' is true");
    assert_refused("{" LLAMA ", 'pruned_heads': {'0': [1]}}", RP_ERR_UNSUPPORTED, "'pruned_heads'");
    assert_refused("{" LLAMA ", 'layer_types': ['full_attention', 'sliding_attention']}", RP_ERR_UNSUPPORTED,
                   "'layer_types' has \"sliding_attention\"; only \"full_attention\" is honoured");
    assert_refused("{" GPT2 ", 'add_cross_attention': true}", RP_ERR_UNSUPPORTED, "'add_cross_attention' is true");
}

static void unknown_field_is_named_with_the_nearest_one(void **state)
{
    (void)state;
    assert_refused("{" LLAMA ", 'logit_scale': 8.0}", RP_ERR_UNSUPPORTED, "unknown field 'logit_scale' (8.0) of model_type 'llama'");
    assert_refused("{" LLAMA ", 'rope_tetha': 5e5}", RP_ERR_UNSUPPORTED, "did you mean 'rope_theta'?");
    assert_refused("{" GPT2 ", 'rope_theta': 5e5}", RP_ERR_UNSUPPORTED, "unknown field 'rope_theta'");
}

static void unknown_family_is_named_with_those_there_are(void **state)
{
    (void)state;
    assert_refused("{'model_type': 'mamba', 'x': 1}", RP_ERR_UNSUPPORTED, "'model_type' is \"mamba\"; these are honoured: llama, gpt2");
    assert_refused("{'hidden_size': 1}", RP_ERR_CONFIG, "'model_type' is missing");
}

static void wrong_rope_is_named(void **state)
{
    (void)state;
    assert_refused(ROPE("{'rope_type': 'dynamic', 'factor': 4}"), RP_ERR_UNSUPPORTED,
                   "'rope_scaling.rope_type' is \"dynamic\"; these are honoured: default, linear, llama3, yarn, longrope");
    assert_refused(ROPE("{'rope_type': 'yarn'}"), RP_ERR_CONFIG, "'rope_scaling.factor' is missing, rope type 'yarn' needs it");
    assert_refused(ROPE("{'rope_type': 'yarn', 'factor': 4, 'beta_fast': 0}"), RP_ERR_CONFIG, "'rope_scaling.beta_fast' is 0");
    assert_refused(ROPE("{'rope_type': 'yarn', 'factor': 4, 'truncate': 1}"), RP_ERR_CONFIG, "'rope_scaling.truncate' is 1, expected true or false");
    assert_refused(ROPE("{'rope_type': 'yarn', 'factor': 4, 'low_freq_factor': 1}"), RP_ERR_UNSUPPORTED, "which rope type 'yarn' does not honour");
    assert_refused(FAMILY("gemma3_text") ", 'rope_scaling': {'rope_type': 'yarn', 'factor': 4}}", RP_ERR_UNSUPPORTED,
                   "rope type 'yarn' is not honoured for model_type 'gemma3_text'");
    assert_refused(FAMILY("phi3") ", 'rope_scaling': {'rope_type': 'yarn', 'factor': 4}}", RP_ERR_UNSUPPORTED,
                   "rope type 'yarn' is not honoured for model_type 'phi3'");
    assert_refused(ROPE("{'type': 'linear'}"), RP_ERR_CONFIG, "'rope_scaling.factor' is missing, rope type 'linear' needs it");
    assert_refused(ROPE("{'type': 'linear', 'factor': 0}"), RP_ERR_CONFIG, "'rope_scaling.factor' is 0, expected a positive number");
    assert_refused(ROPE("{'type': 'linear', 'factor': 2, 'beta_fast': 1}"), RP_ERR_UNSUPPORTED,
                   "'rope_scaling.beta_fast' is 1, which rope type 'linear' does not honour");
    assert_refused(ROPE("{'rope_type': 'llama3', 'factor': 8, 'low_freq_factor': 4, 'high_freq_factor': 4}"), RP_ERR_CONFIG,
                   "'rope_scaling.high_freq_factor' 4 is not above 'low_freq_factor' 4");
    assert_refused(ROPE("{'type': 'default', 'partial_rotary_factor': 0.5}"), RP_ERR_UNSUPPORTED, "partial_rotary_factor' is 0.5");
    assert_refused(ROPE("7"), RP_ERR_CONFIG, "'rope_scaling' is 7, expected an object or null");
    assert_refused("{" LLAMA ", 'rope_theta': -1}", RP_ERR_CONFIG, "'rope_theta' is -1");
}

static void spellings_that_disagree_are_refused(void **state)
{
    (void)state;
    assert_refused("{" GPT2 ", 'hidden_size': 64}", RP_ERR_CONFIG, "'n_embd' is 32 but 'hidden_size', the same thing, is 64");
    assert_refused("{" LLAMA ", 'rope_theta': 1e4, 'rope_parameters': {'rope_theta': 5e5}}", RP_ERR_CONFIG,
                   "'rope_parameters.rope_theta' is 500000, but 10000 in another place");
    assert_refused(ROPE("{'type': 'linear', 'rope_type': 'default', 'factor': 2}"), RP_ERR_CONFIG,
                   "'rope_scaling.rope_type' is \"default\" but 'rope_scaling.type', the same thing, is \"linear\"");
    assert_refused("{" LLAMA ", 'rope_scaling': {'type': 'linear', 'factor': 2}, 'rope_parameters': {'rope_type': 'linear',"
                   "'factor': 4}}", RP_ERR_CONFIG, "'rope_scaling' and 'rope_parameters' disagree");
    assert_ok(ctx, parse("{" GPT2 ", 'hidden_size': 32}", NULL));
    assert_ok(ctx, parse("{" LLAMA ", 'rope_theta': 1e4, 'rope_parameters': {'rope_theta': 10000, 'rope_type': 'default'}}", NULL));
}

static void all_errors_come_at_once(void **state)
{
    (void)state;
    assert_int_equal(parse("{'model_type': 'llama', 'vocab_size': 96, 'hidden_size': -1, 'num_hidden_layers': 2, 'foo': 1,"
                           "'num_attention_heads': 4, 'hidden_act': 'mish', 'sliding_window': 7, 'rope_scaling': {'type': 'dynamic'}}",
                           NULL), RP_ERR_CONFIG);
    assert_int_equal(report.n_errors, 6);
    assert_true(reported("'hidden_size' is -1") && reported("'intermediate_size' is missing") && reported("'hidden_act' is"));
    assert_true(reported("'sliding_window' is 7") && reported("unknown field 'foo'") && reported("'rope_scaling.rope_type'"));
    assert_non_null(strstr(rp_error(ctx), "config.json: 'hidden_size' is -1"));
    assert_non_null(strstr(rp_error(ctx), "(and 5 more)"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(overrides_are_set_over_the_file_and_typed),
        TEST(error_in_an_override_stands_at_its_line),
        TEST(each_wrong_field_is_named),
        TEST(fields_that_do_not_fit_each_other_are_reported_with_their_numbers),
        TEST(fields_that_would_change_the_numbers_are_refused),
        TEST(unknown_field_is_named_with_the_nearest_one),
        TEST(unknown_family_is_named_with_those_there_are),
        TEST(wrong_rope_is_named),
        TEST(spellings_that_disagree_are_refused),
        TEST(all_errors_come_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
