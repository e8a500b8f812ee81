/* Claims about config.json: what is honoured is read, of every family, and its tensors have their names. */
/* ctest: thread-free */
#include <math.h>

#include "rp_test.h"

#include "golden.h"

#include "config_test.h"        /* after it: a context of each test's own is called as golden.h's arguments are */

/* ---- what is honoured ---- */

static void defaults_of_llama_are_those_of_transformers(void **state)
{
    (void)state;
    assert_ok(ctx, parse("{" LLAMA "}", NULL));
    assert_string_equal(config.family->model_type, "llama");
    assert_int_equal(config.n_kv_heads, 4);
    assert_int_equal(config.head_dim, 8);
    assert_int_equal(config.context, 2048);
    assert_int_equal(config.bos, 1);
    assert_int_equal(config.eos, 2);
    assert_true(config.norm_eps == 1e-6 && config.init_std == 0.02 && config.rope.theta == 10000);
    assert_true(config.rope.kind == RP_ROPE_DEFAULT && config.activation == RP_ACT_SILU && config.norm == RP_NORM_RMS);
    assert_true(config.gated_mlp && !config.tied && !config.qkv_bias && !config.mlp_bias && !config.fused_qkv);
    assert_true(fabs(config.attn_scale - 1 / sqrt(8)) < 1e-15);
}

static void defaults_of_gpt2_are_those_of_transformers(void **state)
{
    (void)state;
    assert_ok(ctx, parse("{" GPT2 "}", NULL));
    assert_int_equal(config.mlp_hidden, 128);
    assert_int_equal(config.n_kv_heads, 4);
    assert_int_equal(config.eos, 50256);
    assert_true(config.norm_eps == 1e-5 && config.embd_dropout == 0.1 && config.attn_dropout == 0.1 && config.resid_dropout == 0.1);
    assert_true(config.norm == RP_NORM_LAYER && config.activation == RP_ACT_GELU_TANH && config.rope.kind == RP_ROPE_NONE);
    assert_true(config.tied && config.fused_qkv && config.qkv_bias && config.attn_output_bias && config.mlp_bias);
    assert_true(config.weights_in_out && config.learned_positions && config.scaled_residual_init && !config.gated_mlp);
}

/* What config.json of TinyLlama-1.1B-Chat-v1.0 has. */
static void tinyllama_is_a_llama(void **state)
{
    (void)state;
    assert_ok(ctx, parse("{'architectures': ['LlamaForCausalLM'], 'attention_bias': false, 'bos_token_id': 1, 'eos_token_id': 2, 'hidden_act':"
                         "'silu', 'hidden_size': 2048, 'initializer_range': 0.02, 'intermediate_size': 5632, 'max_position_embeddings': 2048,"
                         "'model_type': 'llama', 'num_attention_heads': 32, 'num_hidden_layers': 22, 'num_key_value_heads': 4,"
                         "'pretraining_tp': 1, 'rms_norm_eps': 1e-05, 'rope_scaling': null, 'rope_theta': 10000.0,"
                         "'tie_word_embeddings': false, 'torch_dtype': 'bfloat16', 'transformers_version': '4.35.0', 'use_cache': true,"
                         "'vocab_size': 32000}", NULL));
    assert_true(config.n_kv_heads == 4 && config.head_dim == 64 && config.norms == RP_NORMS_BEFORE && config.window == 0);
}

#define BERT "{'model_type': 'bert', 'vocab_size': 96, 'hidden_size': 32, 'intermediate_size': 48, 'num_hidden_layers': 2, 'num_attention_heads': 4"

/* The windows of six blocks as digits, "0" where a block sees all. */
static void assert_windows(const char *text, const char *expected)
{
    char got[7] = "";

    assert_ok(ctx, parse(text, NULL));
    for (int i = 0; i < 6; i++) got[i] = (char)('0' + rp__model_config_window(&config, i));
    if (strcmp(got, expected)) fail_msg("%s: %s, expected %s", text, got, expected);
}

static void windows_are_of_the_blocks_that_transformers_gives_them(void **state)
{
    (void)state;
    assert_windows(FAMILY("mistral") ", 'sliding_window': 7}", "777777");
    assert_windows(FAMILY("mistral") ", 'sliding_window': null}", "000000");
    assert_windows(FAMILY("phi3") ", 'sliding_window': 7}", "777777");
    assert_windows(FAMILY("phi3") "}", "000000");
    assert_windows(FAMILY("qwen2") ", 'sliding_window': 7, 'max_window_layers': 2}", "000000");
    assert_windows(FAMILY("qwen2") ", 'sliding_window': 7, 'max_window_layers': 2, 'use_sliding_window': true}", "007777");
    assert_windows(FAMILY("qwen3") ", 'sliding_window': 7, 'use_sliding_window': true}", "000000");      /* from block 28 on */
    assert_windows(FAMILY("gemma2") ", 'sliding_window': 7}", "707070");
    assert_windows(FAMILY("gemma3_text") ", 'sliding_window': 7}", "777770");
    assert_windows(FAMILY("gemma3_text") ", 'sliding_window': 7, 'sliding_window_pattern': 3}", "770770");
    assert_windows(FAMILY("gemma3_text") ", 'sliding_window': 7, 'layer_types': ['full_attention', 'sliding_attention', 'full_attention',"
                   "'full_attention', 'full_attention', 'sliding_attention']}", "070007");
}

static void a_window_that_cannot_be_honoured_is_refused(void **state)
{
    (void)state;
    assert_refused(FAMILY("mistral") ", 'layer_types': ['full_attention']}", RP_ERR_UNSUPPORTED, "'layer_types' together with 'sliding_window' is not");
    assert_refused(FAMILY("qwen2") ", 'layer_types': ['full_attention']}", RP_ERR_CONFIG, "'layer_types' is for 1 blocks, there are 6");
    assert_refused(FAMILY("qwen2") ", 'layer_types': ['sliding_attention', 'full_attention', 'full_attention', 'full_attention',"
                   "'full_attention', 'full_attention']}", RP_ERR_CONFIG, "but there is no window");
    assert_refused(FAMILY("gemma2") ", 'layer_types': ['full_attention', 'full_attention', 'full_attention', 'full_attention',"
                   "'full_attention', 'chunked_attention']}", RP_ERR_UNSUPPORTED,
                   "'layer_types' has \"chunked_attention\"; only \"full_attention\" and \"sliding_attention\" are honoured");
    assert_refused(BERT ", 'is_decoder': true}", RP_ERR_UNSUPPORTED, "'is_decoder' is true; only false is honoured");
    assert_refused(BERT ", 'tie_word_embeddings': false}", RP_ERR_UNSUPPORTED, "'tie_word_embeddings' is false; only true is honoured");
    assert_refused(BERT ", 'position_embedding_type': 'relative_key'}", RP_ERR_UNSUPPORTED, "only \"absolute\" is honoured");
    assert_refused(FAMILY("olmo2") ", 'sliding_window': 7}", RP_ERR_UNSUPPORTED, "'sliding_window' is 7; only null is honoured");
    assert_refused(FAMILY("gemma2") ", 'use_bidirectional_attention': true}", RP_ERR_UNSUPPORTED, "'use_bidirectional_attention' is true");
    assert_refused(FAMILY("gemma2") ", 'sliding_window': 0}", RP_ERR_CONFIG, "'sliding_window' is 0, expected a whole number from 1");
}

/* The experts of each of six blocks, as digits. */
static void assert_experts(const char *text, const char *expected)
{
    char found[7] = "";

    assert_ok(ctx, parse(text, NULL));
    for (int i = 0; i < 6; i++) found[i] = (char)('0' + rp__model_config_experts(&config, i));
    assert_string_equal(found, expected);
}

static void experts_are_in_the_blocks_that_the_config_says(void **state)
{
    (void)state;
    assert_experts(FAMILY("qwen3_moe") ", 'num_experts': 8}", "888888");
    assert_experts(FAMILY("qwen3_moe") ", 'num_local_experts': 9, 'decoder_sparse_step': 2}", "090909");
    assert_experts(FAMILY("qwen3_moe") ", 'num_experts': 8, 'mlp_only_layers': [0, 3]}", "088088");
    assert_experts(FAMILY("qwen3_moe") ", 'num_experts': 8, 'decoder_sparse_step': 3, 'mlp_only_layers': [2]}", "000008");
    assert_experts(FAMILY("mixtral") "}", "888888");
    assert_experts(FAMILY("qwen3") "}", "000000");
    assert_ok(ctx, parse(FAMILY("qwen3_moe") "}", NULL));
    assert_true(config.experts == 128 && config.experts_chosen == 8 && config.expert_hidden == 768 && !config.experts_renormalise);
    assert_ok(ctx, parse(FAMILY("mixtral") "}", NULL));
    assert_true(config.experts_chosen == 2 && config.expert_hidden == config.mlp_hidden && config.experts_renormalise);
}

static void experts_are_balanced_where_the_config_says_so(void **state)
{
    (void)state;
    assert_ok(ctx, parse(FAMILY("mixtral") ", 'router_aux_loss_coef': 0.02}", NULL));
    assert_false(config.experts_balanced);
    assert_ok(ctx, parse(FAMILY("mixtral") ", 'router_aux_loss_coef': 0.02, 'output_router_logits': true}", NULL));
    assert_true(config.experts_balanced && config.experts_balance == 0.02);
    assert_ok(ctx, parse(FAMILY("qwen3_moe") ", 'output_router_logits': true}", NULL));
    assert_true(config.experts_balanced && config.experts_balance == 0.001);
}

static void experts_that_cannot_be_honoured_are_refused(void **state)
{
    (void)state;
    assert_refused(FAMILY("mixtral") ", 'router_aux_loss_coef': -1}", RP_ERR_CONFIG, "'router_aux_loss_coef' is -1");
    assert_refused(FAMILY("mixtral") ", 'router_jitter_noise': 0.5}", RP_ERR_UNSUPPORTED, "'router_jitter_noise' is 0.5; only 0");
    assert_refused(FAMILY("mixtral") ", 'hidden_act': 'gelu'}", RP_ERR_UNSUPPORTED, "'hidden_act' is \"gelu\"; only \"silu\"");
    assert_refused(FAMILY("qwen3_moe") ", 'num_experts': 7}", RP_ERR_CONFIG, "'num_experts_per_tok' 8 exceeds the number of experts, 7");
    assert_refused(FAMILY("qwen3_moe") ", 'num_experts': 16, 'num_local_experts': 8}", RP_ERR_CONFIG, "the same thing");
    assert_refused(FAMILY("qwen3_moe") ", 'mlp_only_layers': [6]}", RP_ERR_CONFIG, "'mlp_only_layers' has 6, expected the numbers of blocks");
    assert_refused(FAMILY("qwen3_moe") ", 'mlp_only_layers': 1}", RP_ERR_CONFIG, "'mlp_only_layers' is 1, expected a list");
    assert_refused(FAMILY("qwen3_moe") ", 'decoder_sparse_step': 0}", RP_ERR_CONFIG, "'decoder_sparse_step' is 0");
}

static void soft_caps_are_there_unless_null(void **state)
{
    (void)state;
    assert_ok(ctx, parse(FAMILY("gemma2") "}", NULL));
    assert_true(config.attn_softcap == 50 && config.logit_softcap == 30 && config.attn_scale == 1 / 16.0 && config.norm_plus == 1);
    assert_ok(ctx, parse(FAMILY("gemma2") ", 'attn_logit_softcapping': null, 'final_logit_softcapping': 7.5}", NULL));
    assert_true(config.attn_softcap == 0 && config.logit_softcap == 7.5);
    assert_ok(ctx, parse(FAMILY("gemma3_text") "}", NULL));
    assert_true(config.attn_softcap == 0 && config.logit_softcap == 0 && config.embedding_scale == sqrt(32));
    /* transformers' Gemma 3 reads the field and does nothing with it. */
    assert_refused(FAMILY("gemma3_text") ", 'attn_logit_softcapping': 50.0}", RP_ERR_UNSUPPORTED, "'attn_logit_softcapping' is 50.0");
    assert_refused(FAMILY("gemma2") ", 'final_logit_softcapping': -1}", RP_ERR_CONFIG, "'final_logit_softcapping' is -1, expected a number");
}

static void blocks_with_a_window_have_their_own_rope_in_gemma3(void **state)
{
    (void)state;
    assert_ok(ctx, parse(FAMILY("gemma3_text") "}", NULL));
    assert_true(config.rope.theta == 1000000 && config.window_rope.theta == 10000 && config.window_rope.kind == RP_ROPE_DEFAULT);
    assert_ok(ctx, parse(FAMILY("gemma3_text") ", 'rope_theta': 5e5, 'rope_local_base_freq': 500, 'rope_scaling': {'rope_type': 'linear',"
                         "'factor': 8}}", NULL));
    assert_true(config.rope.theta == 500000 && config.rope.kind == RP_ROPE_LINEAR && config.rope.factor == 8);
    assert_true(config.window_rope.theta == 500 && config.window_rope.kind == RP_ROPE_DEFAULT);
    assert_ok(ctx, parse(FAMILY("gemma3_text") ", 'rope_parameters': {'full_attention': {'rope_type': 'linear', 'factor': 2, 'rope_theta':"
                         "7}, 'sliding_attention': {'rope_type': 'default', 'rope_theta': 9}}}", NULL));
    assert_true(config.rope.theta == 7 && config.rope.factor == 2 && config.window_rope.theta == 9);
    assert_refused(FAMILY("gemma3_text") ", 'rope_parameters': {'rope_theta': 9}}", RP_ERR_UNSUPPORTED, "expected an object of 'full_attention'");
}

static void part_of_a_head_is_turned_in_phi3_alone(void **state)
{
    (void)state;
    assert_ok(ctx, parse(FAMILY("phi3") ", 'partial_rotary_factor': 0.75}", NULL));
    assert_true(config.head_dim == 8 && config.rotary_dim == 6 && config.fused_qkv && config.fused_gate_up);
    assert_ok(ctx, parse(FAMILY("phi3") ", 'rope_parameters': {'rope_type': 'default', 'rope_theta': 1e4, 'partial_rotary_factor': 0.5}}", NULL));
    assert_int_equal(config.rotary_dim, 4);
    assert_refused(FAMILY("phi3") ", 'partial_rotary_factor': 0.4}", RP_ERR_CONFIG, "leaves 3 of 8 elements of a head");
    assert_refused(FAMILY("qwen2") ", 'rope_parameters': {'rope_theta': 1e4, 'partial_rotary_factor': 0.5}}", RP_ERR_UNSUPPORTED,
                   "this family rotates whole heads");
}

static void longrope_is_phi3s(void **state)
{
    (void)state;
    assert_ok(ctx, parse(FAMILY("phi3") ", 'max_position_embeddings': 64, 'original_max_position_embeddings': 16, 'rope_scaling': {'type':"
                         "'su', 'short_factor': [1, 1, 1, 1], 'long_factor': [1, 2, 3, 4]}}", NULL));
    assert_true(config.rope.kind == RP_ROPE_LONG && config.rope.original_context == 16);
    assert_true(fabs(config.rope.attention_factor - sqrt(1.5)) < 1e-15);       /* 64 is 16 times 4, and 4 the root of 16 */
    assert_refused(FAMILY("phi3") ", 'rope_scaling': {'type': 'longrope', 'short_factor': [1], 'long_factor': [1]}}", RP_ERR_CONFIG,
                   "'short_factor' has 1 numbers and 'long_factor' 1, expected 4");
    assert_refused(FAMILY("phi3") ", 'rope_scaling': {'type': 'longrope', 'short_factor': [1, 1, 1, -1], 'long_factor': [1, 1, 1, 1]}}",
                   RP_ERR_CONFIG, "'rope_scaling.short_factor' is [1,1,1,-1], expected a list of positive numbers");
    assert_ok(ctx, parse(FAMILY("phi3") ", 'original_max_position_embeddings': 2, 'rope_scaling': {'type': 'longrope', 'short_factor': [1, 1, 1, 1],"
                         "'long_factor': [1, 1, 1, 1]}}", NULL));
    assert_int_equal(config.rope.original_context, 2);
    assert_refused(FAMILY("phi3") ", 'original_max_position_embeddings': 1, 'rope_scaling': {'type': 'longrope', 'short_factor': [1, 1, 1, 1],"
                   "'long_factor': [1, 1, 1, 1]}}", RP_ERR_CONFIG, "an original context of 1 cannot be stretched");
    assert_refused(FAMILY("qwen2") ", 'rope_scaling': {'type': 'longrope', 'short_factor': [1], 'long_factor': [1]}}", RP_ERR_UNSUPPORTED,
                   "rope type 'longrope' is honoured only for model_type 'phi3'");
}

static void every_honoured_field_arrives(void **state)
{
    (void)state;
    assert_ok(ctx, parse("{" LLAMA ", 'num_key_value_heads': 2, 'head_dim': 12, 'max_position_embeddings': 77, 'hidden_act': 'gelu',"
                         "'rms_norm_eps': 1e-4, 'initializer_range': 0.5, 'attention_bias': true, 'mlp_bias': true,"
                         "'attention_dropout': 0.25, 'tie_word_embeddings': true, 'bos_token_id': null, 'eos_token_id': [7, 9],"
                         "'rope_theta': 5000}", NULL));
    assert_true(config.n_kv_heads == 2 && config.head_dim == 12 && config.context == 77 && config.activation == RP_ACT_GELU_ERF);
    assert_true(config.norm_eps == 1e-4 && config.init_std == 0.5 && config.attn_dropout == 0.25 && config.rope.theta == 5000);
    assert_true(config.qkv_bias && config.attn_output_bias && config.mlp_bias && config.tied);
    assert_true(config.bos == -1 && config.eos == 7);
    assert_ok(ctx, parse("{" GPT2 ", 'n_inner': 80, 'activation_function': 'relu', 'layer_norm_epsilon': 1e-3, 'embd_pdrop': 0.2,"
                         "'attn_pdrop': 0, 'resid_pdrop': 0.3, 'scale_attn_weights': false, 'scale_attn_by_inverse_layer_idx': true,"
                         "'tie_word_embeddings': false, 'reorder_and_upcast_attn': true}", NULL));
    assert_true(config.mlp_hidden == 80 && config.activation == RP_ACT_RELU && config.norm_eps == 1e-3);
    assert_true(config.embd_dropout == 0.2 && config.attn_dropout == 0 && config.resid_dropout == 0.3);
    assert_true(config.attn_scale == 1 && config.attn_scale_by_layer && !config.tied);
}

static void rope_is_read_in_both_spellings(void **state)
{
    (void)state;
    assert_ok(ctx, parse("{" LLAMA ", 'rope_theta': 10000.0, 'rope_scaling': {'type': 'linear', 'factor': 2.5}}", NULL));
    assert_true(config.rope.kind == RP_ROPE_LINEAR && config.rope.factor == 2.5);
    assert_ok(ctx, parse("{" LLAMA ", 'rope_theta': 500000, 'rope_scaling': {'rope_type': 'llama3', 'factor': 8, 'low_freq_factor': 1,"
                         "'high_freq_factor': 4.0, 'original_max_position_embeddings': 64}}", NULL));
    rp_rope_config old = config.rope;
    assert_true(old.kind == RP_ROPE_LLAMA3 && old.theta == 500000 && old.factor == 8 && old.low_freq_factor == 1);
    assert_true(old.high_freq_factor == 4 && old.original_context == 64);
    assert_ok(ctx, parse("{" LLAMA ", 'rope_parameters': {'rope_theta': 500000.0, 'rope_type': 'llama3', 'factor': 8.0,"
                         "'low_freq_factor': 1.0, 'high_freq_factor': 4, 'original_max_position_embeddings': 64}}", NULL));
    assert_memory_equal(&old, &config.rope, sizeof old);
    assert_ok(ctx, parse("{" LLAMA ", 'rope_scaling': null, 'rope_parameters': {'rope_type': 'default', 'rope_theta': 7}}", NULL));
    assert_true(config.rope.kind == RP_ROPE_DEFAULT && config.rope.theta == 7);
}

/* As in transformers: llama3 without the length it was trained at takes the model's. */
static void original_context_of_llama3_is_the_context_where_it_is_not_given(void **state)
{
    (void)state;
    assert_ok(ctx, parse(ROPE("{'rope_type': 'llama3', 'factor': 8, 'low_freq_factor': 1, 'high_freq_factor': 4}"), NULL));
    assert_int_equal(config.rope.original_context, 2048);
}

/* 0.1 ln(4) + 1 is what the paper has cos and sin multiplied by. */
static void yarn_takes_what_is_not_said_from_the_contexts_and_the_paper(void **state)
{
    (void)state;
    assert_ok(ctx, parse(ROPE("{'rope_type': 'yarn', 'factor': null, 'original_max_position_embeddings': 512}"), NULL));
    assert_true(config.rope.kind == RP_ROPE_YARN && config.rope.factor == 4 && config.rope.beta_fast == 32 && config.rope.beta_slow == 1);
    assert_true(config.rope.attention_factor == 0.1 * log(4) + 1 && !config.rope.exact_range);
    assert_ok(ctx, parse(ROPE("{'rope_type': 'yarn', 'factor': 8, 'attention_factor': 1.5, 'mscale': 1, 'mscale_all_dim': 2, 'truncate': false}"), NULL));
    assert_true(config.rope.attention_factor == 1.5 && config.rope.original_context == 2048 && config.rope.exact_range);
    assert_ok(ctx, parse(FAMILY("qwen3_moe") ", 'rope_scaling': {'type': 'yarn', 'factor': 2}}", NULL));
    assert_ok(ctx, parse(FAMILY("mistral") ", 'rope_scaling': {'type': 'yarn', 'factor': 2}}", NULL));
}

static void inert_fields_change_nothing(void **state)
{
    (void)state;
    assert_ok(ctx, parse("{" LLAMA "}", NULL));
    rp_model_config plain = config;
    plain.source          = NULL;
    assert_ok(ctx, parse("{" LLAMA ", 'torch_dtype': 'bfloat16', 'dtype': 'float16', 'use_cache': false, 'pad_token_id': 3,"
                         "'transformers_version': '5.23.0', '_name_or_path': 'x', 'temperature': 0.6, 'top_p': 0.9, 'do_sample': true,"
                         "'max_length': 20, 'architectures': ['LlamaForCausalLM'], 'id2label': {}, 'pretraining_tp': 1,"
                         "'rope_interleaved': false, 'is_llama_config': true, 'transformers.js_config': {'dtype': 'q4'},"
                         "'sliding_window': null, 'quantization_config': null, 'layer_types': ['full_attention', 'full_attention'],"
                         "'partial_rotary_factor': 1.0, 'add_cross_attention': false, 'pruned_heads': {}}", NULL));
    json_t *source = config.source;
    config.source  = NULL;
    assert_memory_equal(&plain, &config, sizeof plain);
    json_decref(source);
    assert_ok(ctx, parse("{" GPT2 ", 'n_ctx': 1024, 'summary_type': 'cls_index', 'summary_use_proj': true,"
                         "'task_specific_params': {'text-generation': {'do_sample': true}}}", NULL));
}

static void every_golden_config_is_read(void **state)
{
    (void)state;
    static const struct { const char *name; int64_t kv, dim, inner; bool tied; rp_rope_kind rope; rp_activation act; } all[] = {
        { "llama2", 4, 8, 48, false, RP_ROPE_DEFAULT, RP_ACT_SILU },
        { "llama3", 1, 16, 48, false, RP_ROPE_LLAMA3, RP_ACT_SILU },
        { "llama3_parameters", 1, 16, 48, false, RP_ROPE_LLAMA3, RP_ACT_SILU },
        { "llama_linear", 2, 8, 48, false, RP_ROPE_LINEAR, RP_ACT_SILU },
        { "smollm2", 2, 8, 64, true, RP_ROPE_DEFAULT, RP_ACT_SILU },
        { "llama_head_dim", 2, 12, 48, false, RP_ROPE_DEFAULT, RP_ACT_SILU },
        { "llama_bias", 2, 8, 48, false, RP_ROPE_DEFAULT, RP_ACT_SILU },
        { "gpt2", 4, 8, 128, true, RP_ROPE_NONE, RP_ACT_GELU_TANH },
        { "gpt2_inner", 4, 8, 80, true, RP_ROPE_NONE, RP_ACT_GELU_TANH },
        { "gpt2_gelu", 4, 8, 128, true, RP_ROPE_NONE, RP_ACT_GELU_ERF },
        { "gpt2_dropout", 2, 16, 128, true, RP_ROPE_NONE, RP_ACT_RELU },
        { "qwen2", 2, 8, 48, true, RP_ROPE_DEFAULT, RP_ACT_SILU },
        { "qwen3", 2, 12, 48, false, RP_ROPE_DEFAULT, RP_ACT_SILU },
        { "mistral", 2, 8, 48, false, RP_ROPE_DEFAULT, RP_ACT_SILU },
        { "gemma2", 2, 12, 48, true, RP_ROPE_DEFAULT, RP_ACT_GELU_TANH },
        { "gemma3_text", 2, 12, 48, true, RP_ROPE_LINEAR, RP_ACT_GELU_TANH },
        { "phi3_partial", 2, 8, 48, true, RP_ROPE_DEFAULT, RP_ACT_SILU },
        { "olmo2", 2, 8, 48, false, RP_ROPE_DEFAULT, RP_ACT_SILU },
        { "qwen3_moe", 2, 12, 48, false, RP_ROPE_DEFAULT, RP_ACT_SILU },
        { "mixtral", 2, 8, 24, false, RP_ROPE_DEFAULT, RP_ACT_SILU },
        { "bert", 4, 8, 48, true, RP_ROPE_NONE, RP_ACT_GELU_ERF },
        { "bert_gamma", 2, 16, 48, true, RP_ROPE_NONE, RP_ACT_GELU_TANH },
    };

    for (int i = 0; i < RP_COUNT(all); i++) {
        char name[64], path[RP_GOLDEN_PATH];
        snprintf(name, sizeof name, "models/%s/config.json", all[i].name);
        json_t *json = json_load_file(golden_path(path, name), 0, NULL);
        rp__model_config_drop(&config);
        assert_ok(ctx, rp__model_config_parse(ctx, path, json, NULL, &report, &config));
        json_decref(json);
        if (config.n_kv_heads != all[i].kv || config.head_dim != all[i].dim || config.mlp_hidden != all[i].inner ||
            config.tied != all[i].tied || config.rope.kind != all[i].rope || config.activation != all[i].act)
            fail_msg("'%s' is read wrong", all[i].name);
    }
}

/* ---- names ---- */

static void names_go_there_and_back(void **state)
{
    (void)state;
    assert_ok(ctx, parse("{" LLAMA "}", NULL));
    const rp_family *llama = config.family;
    char out[RP_WEIGHT_NAME_CHARS], back[RP_WEIGHT_NAME_CHARS];

    assert_true(rp__weight_name_theirs(llama->name, llama->n_names, "layers.12.attn.q.weight", out));
    assert_string_equal(out, "model.layers.12.self_attn.q_proj.weight");
    assert_true(rp__weight_name_ours(llama->name, llama->n_names, out, back));
    assert_string_equal(back, "layers.12.attn.q.weight");
    assert_true(rp__weight_name_theirs(llama->gguf_name, llama->n_gguf_names, "layers.0.mlp_norm.weight", out));
    assert_string_equal(out, "blk.0.ffn_norm.weight");
    static const char *const none[] = { "model.layers..mlp.up_proj.weight", "model.layers.01.mlp.up_proj.weight", "weight", "",
                                        "model.layers.x.mlp.up_proj.weight", "model.layers.1.mlp.up_projector.weight" };
    for (int i = 0; i < RP_COUNT(none); i++) assert_false(rp__weight_name_ours(llama->name, llama->n_names, none[i], out));
}

/* The last part of a name, and the digits of a layer, have any length in a file. */
static void a_name_of_any_length_is_found_whole_or_not_at_all(void **state)
{
    (void)state;
    assert_ok(ctx, parse("{" LLAMA "}", NULL));
    const rp_family *llama = config.family;
    struct { char at[RP_WEIGHT_NAME_CHARS], beyond[64]; } out;
    char name[5 * RP_WEIGHT_NAME_CHARS], want[5 * RP_WEIGHT_NAME_CHARS], many[2 * RP_WEIGHT_NAME_CHARS] = "";

    for (int n = 1; n < RP_WEIGHT_NAME_CHARS + 20; n++)
        for (int digits = 0; digits < 2; digits++) {
            memset(many, '7', (size_t)n);
            snprintf(name, sizeof name, "model.layers.%s.self_attn.q_proj.%s", digits ? many : "1", digits ? "weight" : many);
            snprintf(want, sizeof want, "layers.%s.attn.q.%s", digits ? many : "1", digits ? "weight" : many);
            memset(&out, 'x', sizeof out);
            assert_int_equal(rp__weight_name_ours(llama->name, llama->n_names, name, out.at), strlen(want) < sizeof out.at);
            if (strlen(want) < sizeof out.at) assert_string_equal(out.at, want);
            for (int i = 0; i < RP_COUNT(out.beyond); i++) assert_int_equal(out.beyond[i], 'x');
        }
}

/* Both have a ".gate", of different things. */
static void a_second_number_is_that_of_a_piece(void **state)
{
    (void)state;
    assert_ok(ctx, parse(FAMILY("qwen3_moe") "}", NULL));
    const rp_family *f = config.family;
    char out[RP_WEIGHT_NAME_CHARS];
    int64_t piece;

    assert_true(rp__weight_piece_theirs(f->name, f->n_names, "layers.3.mlp.experts.gate.weight", 127, out));
    assert_string_equal(out, "model.layers.3.mlp.experts.127.gate_proj.weight");
    assert_true(rp__weight_piece_ours(f->name, f->n_names, out, out, &piece));
    assert_string_equal(out, "layers.3.mlp.experts.gate.weight");
    assert_int_equal(piece, 127);
    assert_true(rp__weight_in_pieces(f->name, f->n_names, out));
    assert_true(rp__weight_piece_ours(f->name, f->n_names, "model.layers.3.mlp.gate.weight", out, &piece));
    assert_string_equal(out, "layers.3.mlp.router.weight");
    assert_false(rp__weight_in_pieces(f->name, f->n_names, out));
    static const char *const none[] = { "model.layers.3.mlp.experts.gate_proj.weight", "model.layers.3.mlp.experts.01.gate_proj.weight",
                                        "model.layers.3.mlp.experts.99999999999999999999999.up_proj.weight", "model.layers.3.mlp.experts..up_proj.weight" };
    for (int i = 0; i < RP_COUNT(none); i++) assert_false(rp__weight_piece_ours(f->name, f->n_names, none[i], out, &piece));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(defaults_of_llama_are_those_of_transformers),
        TEST(defaults_of_gpt2_are_those_of_transformers),
        TEST(tinyllama_is_a_llama),
        TEST(windows_are_of_the_blocks_that_transformers_gives_them),
        TEST(a_window_that_cannot_be_honoured_is_refused),
        TEST(experts_are_in_the_blocks_that_the_config_says),
        TEST(experts_are_balanced_where_the_config_says_so),
        TEST(experts_that_cannot_be_honoured_are_refused),
        TEST(soft_caps_are_there_unless_null),
        TEST(blocks_with_a_window_have_their_own_rope_in_gemma3),
        TEST(part_of_a_head_is_turned_in_phi3_alone),
        TEST(longrope_is_phi3s),
        TEST(every_honoured_field_arrives),
        TEST(rope_is_read_in_both_spellings),
        TEST(original_context_of_llama3_is_the_context_where_it_is_not_given),
        TEST(yarn_takes_what_is_not_said_from_the_contexts_and_the_paper),
        TEST(inert_fields_change_nothing),
        TEST(every_golden_config_is_read),
        TEST(names_go_there_and_back),
        TEST(a_name_of_any_length_is_found_whole_or_not_at_all),
        TEST(a_second_number_is_that_of_a_piece),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
