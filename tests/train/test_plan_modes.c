/* The claim about the classic modes in whatever step: rehearsed, no mode takes less than the reported least budget, and the plan for as many bytes as it takes
 * is no slower. Recipes are drawn: families, shapes, adapters, and the variants that are left open. */
/* ctest: device-free long thread-free */
#include "asked_plan.h"

enum { MOST_TEXTS = 14, TEXT = 240 };

typedef struct { uint32_t state; char text[MOST_TEXTS][TEXT]; int n; } draw;

static int next(draw *d, int below)
{
    d->state = d->state * 1664525u + 1013904223u;
    return (int)((d->state >> 8) % (uint32_t)below);
}

static void put(draw *d, const char *format, ...)
{
    va_list args;

    assert_true(d->n < MOST_TEXTS);
    va_start(args, format);
    vsnprintf(d->text[d->n++], TEXT, format, args);
    va_end(args);
}

/* Small models of four families: blocks of few calls, blocks that are cut in two, with experts, of two kinds in turn. */
static void put_model(draw *d)
{
    static const char *const family[] = { "llama3_8b", "gemma3_27b", "qwen3_235b" };
    int f = next(d, RP_COUNT(family)), heads = 2 << next(d, 2);

    put(d, "model.config=%s/tests/plan/shapes/%s.json", RP_SOURCE_DIR, family[f]);
    put(d, "model.overrides.num_hidden_layers=%d", 1 + next(d, 9));
    put(d, "model.overrides.hidden_size=%d", 64 * heads);
    put(d, "model.overrides.intermediate_size=%d", 128 * (1 + next(d, 4)));
    put(d, "model.overrides.num_attention_heads=%d", heads);
    put(d, "model.overrides.num_key_value_heads=%d", 1 << next(d, 2));
    put(d, "model.overrides.vocab_size=%d", 512 << next(d, 3));
}

static draw draw_recipe(int seed)
{
    static const char *const update[] = { "false", "true", "auto" };
    draw d = { .state = (uint32_t)seed * 2654435761u + 11 };

    put_model(&d);
    put(&d, "max_seq_len=%d", 64 << next(&d, 4));
    put(&d, "batch_size=%d", 1 + next(&d, 3));
    put(&d, "optimizer_in_bwd=%s", update[next(&d, 3)]);
    put(&d, "loss.keep_logits=%s", next(&d, 2) ? "auto" : "false");
    put(&d, "seed=1");
    if (!next(&d, 3)) put(&d, "lora.rank=%d", 4 << next(&d, 2));
    return d;
}

/* rules: of the recipe, which stand beside every mode. */
static answer ask(const draw *d, const char *mode, const char *rules, int64_t budget)
{
    const char *all[ASKED_MOST];
    char checkpointing[400];

    for (int i = 0; i < d->n; i++) all[i] = d->text[i];
    snprintf(checkpointing, sizeof checkpointing, "activation_checkpointing={mode: %s%s}", mode, rules);
    all[d->n] = checkpointing;
    return asked_plan(all, d->n + 1, "name=some, memory=1TB, flops=1e12, bandwidth=50e9", budget);
}

static void check(int seed)
{
    static const char *const modes[] = {
        "none", "full", "selective_op", "selective_layer, every: 2", "selective_layer, every: 3", "selective_layer, every: 7"
    };
    static const char *const rules[] = { "", "", ", rules: [{op: rmsnorm, fate: prefer_recompute}]",
                                         ", rules: [{op: swiglu, fate: recompute}, {path: '*.attn', fate: prefer_keep}]" };
    draw d           = draw_recipe(seed);
    const char *mode = modes[next(&d, RP_COUNT(modes))], *own = rules[next(&d, RP_COUNT(rules))];
    answer it = ask(&d, mode, own, -1), plan = ask(&d, "auto", own, it.reserved);
    double seconds = it.seconds + it.recompute;

    if (it.least > it.reserved)
        fail_msg("recipe %d, %s%s: %lld bytes, the reported least is %lld", seed, mode, own, (long long)it.reserved, (long long)it.least);
    if (!plan.feasible || plan.reserved > it.reserved || plan.seconds + plan.recompute > seconds * (1 + 1e-9))
        fail_msg("recipe %d, %s%s: %lld bytes and %.9g s; planned, fits: %d, %lld bytes and %.9g s", seed, mode, own, (long long)it.reserved, seconds,
                 plan.feasible, (long long)plan.reserved, plan.seconds + plan.recompute);
}

static void no_mode_of_a_drawn_recipe_is_better(void **state)
{
    int n = test_draws(150);

    (void)state;
    for (int seed = 0; seed < n; seed++) check(seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = { TEST(no_mode_of_a_drawn_recipe_is_better) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
