/* The claims about how good plans are, through recipes of real models' shapes: close to what no schedule gets below, and never worse than what
 * else one could have chosen. Machines are named, so that every one that runs this gives the same figures. */
/* ctest: device-free thread-free cost=17 */
#include "asked_plan.h"

#include <math.h>

static const char llama_8b[] =
    "{\"model_type\": \"llama\", \"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": 4096, \"intermediate_size\": 14336,"
    " \"num_hidden_layers\": 32, \"num_attention_heads\": 32, \"num_key_value_heads\": 8, \"vocab_size\": 128256,"
    " \"max_position_embeddings\": 8192, \"rope_theta\": 500000.0, \"tie_word_embeddings\": false}";
static const char smollm2_135m[] =
    "{\"model_type\": \"llama\", \"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": 576, \"intermediate_size\": 1536,"
    " \"num_hidden_layers\": 30, \"num_attention_heads\": 9, \"num_key_value_heads\": 3, \"vocab_size\": 49152,"
    " \"max_position_embeddings\": 8192, \"rope_theta\": 100000.0, \"tie_word_embeddings\": true}";
static const char gpt2_124m[] =
    "{\"model_type\": \"gpt2\", \"architectures\": [\"GPT2LMHeadModel\"], \"n_embd\": 768, \"n_layer\": 12, \"n_head\": 12, \"n_positions\": 1024,"
    " \"vocab_size\": 50257, \"embd_pdrop\": 0.1, \"attn_pdrop\": 0.1, \"resid_pdrop\": 0.1}";

typedef struct { const char *name, *config, *length, *batch, *optimizer_in_bwd; } model;

static const model models[] = {
    { "Llama 3 8B, 2048 tokens", llama_8b, "2048", "1", "true" },
    { "Llama 3 8B, 8192 tokens", llama_8b, "8192", "1", "true" },
    { "SmolLM2-135M, 4 x 2048 tokens", smollm2_135m, "2048", "4", "auto" },
    { "GPT-2, 4 x 1024 tokens", gpt2_124m, "1024", "4", "false" },
};
static const char *const machines[] = { "h100", "name=laptop, memory=64GB, flops=1e12, bandwidth=50e9" };

/* setting: one more of the recipe's; NULL. budget 0: none. */
static answer ask(const model *m, const char *machine, const char *setting, int64_t budget)
{
    char config[600], length[64], batch[64], update[64];

    temp_text(&dir, "config.json", m->config);
    snprintf(config, sizeof config, "model.config=%s/config.json", dir.path);
    snprintf(length, sizeof length, "max_seq_len=%s", m->length);
    snprintf(batch, sizeof batch, "batch_size=%s", m->batch);
    snprintf(update, sizeof update, "optimizer_in_bwd=%s", m->optimizer_in_bwd);
    answer a = asked_plan((const char *[]){ config, length, batch, update, "seed=1", setting }, setting ? 6 : 5, machine, budget);
    assert_true(a.feasible);
    return a;
}

/* The range: from what it takes to keep each block's input alone to what it takes to keep all. */
static void the_printed_gap_is_at_most_0_4_percent_of_a_step(void **state)
{
    (void)state;
    for (int m = 0; m < RP_COUNT(models); m++)
        for (int d = 0; d < RP_COUNT(machines); d++) {
            int64_t low = ask(&models[m], machines[d], "activation_checkpointing={mode: full}", 0).reserved;
            int64_t all = ask(&models[m], machines[d], NULL, 0).reserved;
            double most = 0;
            for (int percent = 15; percent <= 95; percent += test_takes_samples() ? 80 : 16) {
                int64_t budget = low + (all - low) / 100 * percent;
                answer a       = ask(&models[m], machines[d], NULL, budget);
                double gap     = (a.recompute - a.bound) / a.seconds;
                assert_true(a.reserved <= budget && gap >= -1e-9);
                most = fmax(most, gap);
            }
            printf("%s on %.*s: at most %.3f %%\n", models[m].name, (int)strcspn(machines[d], ","), machines[d], 100 * most);
            assert_true(most <= 0.004);
        }
}

static void no_mode_is_better_in_the_bytes_that_it_takes(void **state)
{
    static const char *const ways[] = {
        "activation_checkpointing={mode: full}", "activation_checkpointing={mode: selective_op}",
        "activation_checkpointing={mode: selective_layer, every: 2}", "activation_checkpointing={mode: selective_layer, every: 3}",
        "activation_checkpointing={mode: selective_layer, every: 4}", "activation_checkpointing={mode: selective_layer, every: 5}",
        "activation_checkpointing={mode: selective_layer, every: 8}",
        "activation_checkpointing={conditions: [{path: '*.mlp'}]}", "activation_checkpointing={conditions: [{path: '*.attn'}]}",
        "activation_checkpointing={rules: [{op: swiglu, fate: recompute}, {op: gelu, fate: recompute}]}",
        "activation_checkpointing={rules: [{op: rmsnorm, fate: recompute}, {op: layernorm, fate: recompute}, {op: rotary, fate: recompute}]}",
    };

    (void)state;
    for (int m = 0; m < RP_COUNT(models); m++)
        for (int d = 0; d < RP_COUNT(machines); d++)
            for (int w = 0; w < RP_COUNT(ways); w += test_takes_samples() ? 4 : 1) {
                answer it   = ask(&models[m], machines[d], ways[w], 0);
                answer plan = ask(&models[m], machines[d], NULL, it.reserved);
                if (plan.reserved > it.reserved || plan.recompute > it.recompute * (1 + 1e-9))
                    fail_msg("%s, %s, %s: %lld bytes and %.6f s again; planned %lld bytes and %.6f s", models[m].name, machines[d], ways[w],
                             (long long)it.reserved, it.recompute, (long long)plan.reserved, plan.recompute);
            }
}

/* On one layer the value that the embedding hands on is a large part of all that is kept. */
static void no_rule_on_the_embedding_beats_the_plan_of_one_layer(void **state)
{
    static const char *const rules[] = {
        "activation_checkpointing={mode: none, rules: [{op: embedding, fate: recompute}]}",
        "activation_checkpointing={mode: none, rules: [{op: embedding, fate: recompute}, {op: rmsnorm, fate: recompute}]}",
        "activation_checkpointing={mode: none, rules: [{op: embedding, fate: recompute}, {op: swiglu, fate: recompute}, {op: rmsnorm, fate: recompute}]}",
    };
    char config[600], layers[64];

    (void)state;
    for (int n = 1; n <= 2; n++)
        for (int r = 0; r < RP_COUNT(rules); r++) {
            snprintf(config, sizeof config, "model.config=%s/bench/configs/smollm2-135m.json", RP_SOURCE_DIR);
            snprintf(layers, sizeof layers, "model.overrides.num_hidden_layers=%d", n);
            const char *all[] = { config, layers, "max_seq_len=2048", "batch_size=4", "optimizer_in_bwd=true", "seed=1", rules[r] };
            answer it         = asked_plan(all, RP_COUNT(all), "h100", -1), plan = asked_plan(all, RP_COUNT(all) - 1, "h100", it.reserved);
            if (!plan.feasible || it.least > it.reserved || plan.recompute > it.recompute * (1 + 1e-9))
                fail_msg("%d layers, %s: %lld bytes and %.9f s again; planned %.9f s", n, rules[r], (long long)it.reserved, it.recompute, plan.recompute);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_printed_gap_is_at_most_0_4_percent_of_a_step),
        TEST(no_mode_is_better_in_the_bytes_that_it_takes),
        TEST(no_rule_on_the_embedding_beats_the_plan_of_one_layer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
