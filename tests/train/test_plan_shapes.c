/* The claims about plans of large models' shapes, whose configs are published (tests/plan/shapes): no mode takes less than the reported least budget, and
 * the plan for as many bytes as a mode takes is no slower than the mode. */
/* ctest: device-free thread-free cost=19 */
#include "asked_plan.h"

typedef struct { const char *name, *config, *settings[3]; } shape;

static const shape shapes[] = {
    { "Gemma 3 27B, 34 of its layers, 2 samples", "gemma3_27b", { "model.overrides.num_hidden_layers=34", "batch_size=2" } },
    { "Llama 3 8B, 98 layers, LoRA", "llama3_8b", { "model.overrides.num_hidden_layers=98", "lora.rank=8" } },
    { "Gemma 3 27B, 34 of its layers", "gemma3_27b", { "model.overrides.num_hidden_layers=34" } },
    { "Llama 3.1 405B", "llama3_405b", { NULL } },
    { "Gemma 3 27B", "gemma3_27b", { NULL } },
    { "Qwen 3 235B", "qwen3_235b", { NULL } },
    { "Llama 3.1 405B, 131072 tokens", "llama3_405b", { "max_seq_len=131072" } },
    { "Llama 3 8B, LoRA", "llama3_8b", { "lora.rank=8" } },
    { "Llama 3 8B, 126 layers, LoRA", "llama3_8b", { "model.overrides.num_hidden_layers=126", "lora.rank=8" } },
};

static answer ask(const shape *s, const char *mode, int64_t budget)
{
    const char *all[ASKED_MOST] = { "seed=1", "optimizer_in_bwd=true", "optimizer.state_dtype=bf16", "max_seq_len=8192", "batch_size=1" };
    char config[512];
    int n = 5;

    snprintf(config, sizeof config, "model.config=%s/tests/plan/shapes/%s.json", RP_SOURCE_DIR, s->config);
    all[n++] = config;
    for (int i = 0; i < RP_COUNT(s->settings) && s->settings[i]; i++) all[n++] = s->settings[i];
    if (mode) all[n++] = mode;
    return asked_plan(all, n, "h100", budget);
}

static void check_mode(const shape *s, const char *mode)
{
    answer it   = ask(s, mode, -1);
    answer plan = ask(s, NULL, it.reserved);

    if (it.least > it.reserved) fail_msg("%s, %s: %lld bytes, the reported least is %lld", s->name, mode, (long long)it.reserved, (long long)it.least);
    if (!plan.feasible || plan.reserved > it.reserved || plan.recompute > it.recompute * (1 + 1e-9))
        fail_msg("%s, %s: %lld bytes and %.9g s; planned, fits: %d, %lld bytes and %.9g s", s->name, mode, (long long)it.reserved, it.recompute,
                 plan.feasible, (long long)plan.reserved, plan.recompute);
}

static void no_mode_of_a_large_model_is_better(void **state)
{
    static const char *const ways[] = {
        "activation_checkpointing={mode: selective_op}", "activation_checkpointing={mode: full}", "activation_checkpointing={mode: none}",
        "activation_checkpointing={mode: selective_layer, every: 2}", "activation_checkpointing={mode: selective_layer, every: 3}",
        "activation_checkpointing={mode: selective_layer, every: 8}",
    };

    (void)state;
    for (int i = 0; i < test_few_or(2, RP_COUNT(shapes)); i++)
        for (int w = 0; w < test_few_or(2, RP_COUNT(ways)); w++) check_mode(&shapes[i], ways[w]);
}

int main(void)
{
    const struct CMUnitTest tests[] = { TEST(no_mode_of_a_large_model_is_better) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
