/* The claims of `memory_budget`: what a plan says a step takes, every step takes, to the byte; no budget is exceeded, between the least and
 * all; a larger one costs no more; and no bit of what is learnt changes. */
#include "loop_test.h"

#include "train/loop_inside.h"

#include <math.h>

static uint32_t next(uint32_t *seed) { return (*seed = *seed * 1664525u + 1013904223u) >> 8; }
static int pick(uint32_t *rng, int n) { return (int)(next(rng) % (uint32_t)n); }

static void write_model(uint32_t *rng, bool gpt2)
{
    int heads = 1 + pick(rng, 4), groups = 1 + pick(rng, 2), width = 4 * (1 + pick(rng, 3)), layers = 1 + pick(rng, 6);
    char text[1024];

    if (gpt2)
        snprintf(text, sizeof text, "{\"model_type\": \"gpt2\", \"architectures\": [\"GPT2LMHeadModel\"], \"n_embd\": %d, \"n_layer\": %d, \"n_head\": %d,"
                 " \"n_positions\": 64, \"vocab_size\": 61, \"embd_pdrop\": 0.1, \"attn_pdrop\": 0.1, \"resid_pdrop\": 0.1, \"bos_token_id\": 0,"
                 " \"eos_token_id\": 0}", heads * width, layers, heads);
    else
        snprintf(text, sizeof text, "{\"model_type\": \"llama\", \"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": %d,"
                 " \"intermediate_size\": %d, \"num_hidden_layers\": %d, \"num_attention_heads\": %d, \"num_key_value_heads\": %d,"
                 " \"head_dim\": %d, \"vocab_size\": 61, \"max_position_embeddings\": 64, \"tie_word_embeddings\": %s, \"bos_token_id\": 1,"
                 " \"eos_token_id\": 0}", heads * groups * width, 8 * (1 + pick(rng, 24)), layers, heads * groups, heads, width,
                 pick(rng, 2) ? "true" : "false");
    temp_text(&dir, "drawn.json", text);
}

enum { N_SETTINGS = 11 };
typedef struct { char text[N_SETTINGS + 1][512]; const char *all[MOST_SETTINGS]; } settings;

/* All but the budget. */
static void draw_settings(uint32_t *rng, settings *s)
{
    bool alone = pick(rng, 2);          /* one micro-batch, nothing clipped: the update may go into backward */
    int n      = 0;

    memset(s, 0, sizeof *s);
    snprintf(s->text[n++], 512, "dtype=%s", pick(rng, 2) ? "bf16" : "fp32");
    snprintf(s->text[n++], 512, "batch_size=%d", 1 + pick(rng, 4));
    snprintf(s->text[n++], 512, "max_seq_len=%d", 8 << pick(rng, 3));
    snprintf(s->text[n++], 512, "gradient_accumulation_steps=%d", alone ? 1 : 1 + pick(rng, 4));
    snprintf(s->text[n++], 512, "optimizer.name=%s", pick(rng, 2) ? "adamw" : "sgd");
    snprintf(s->text[n++], 512, "optimizer.state_dtype=%s", pick(rng, 2) ? "bf16" : "fp32");
    snprintf(s->text[n++], 512, "optimizer_in_bwd=%s", alone ? "auto" : "false");
    snprintf(s->text[n++], 512, "clip_grad_norm=%s", !alone && pick(rng, 2) ? "1.0" : "null");
    snprintf(s->text[n++], 512, "max_steps=2");
    snprintf(s->text[n++], 512, "dataset_val={path: %s/val.bin, format: tokens}", dir.path);
    snprintf(s->text[n++], 512, "run_val_every_n_steps=1");
    for (int i = 0; i < n; i++) s->all[i] = s->text[i];
}

/* A run of two steps; what it learnt, as a hash. Every step takes what was said. */
static uint64_t run_it(settings *s, const char *name, const char *more, rp_rehearsal *found, bool *refused)
{
    char out[64];
    uint64_t hash = RP_HASH_SEED;
    int n         = 0;

    while (s->all[n]) n++;
    s->all[n] = more;
    snprintf(out, sizeof out, "out-%s", name);
    run r    = run_open(&dir, "drawn", out, s->all);
    s->all[n] = NULL;
    *refused = r.status == RP_ERR_BUDGET;
    if (!*refused) {
        assert_ok(r.ctx, r.status);
        *found = rp__trainer_info(r.trainer)->rehearsal;
        for (int i = 0; i < 2; i++) {
            rp_metrics line;
            assert_ok(r.ctx, rp__trainer_step(r.trainer, &line));
            assert_int_equal(line.peak_memory_active, found->memory.peak_bytes);
            assert_int_equal(line.peak_memory_alloc, found->memory.peak_alloc_bytes);
            assert_int_equal(line.peak_memory_reserved, found->memory.reserved_bytes);
            assert_int_equal(line.saved_bytes, found->saved_bytes);
            assert_int_equal(line.recompute_flops, found->recompute_flops);
        }
        rp_model *m = rp__trainer_model(r.trainer);
        for (int i = 0; i < rp__model_n_params(m); i++) {
            const rp_tensor *t = rp__model_param(m, i)->tensor;
            hash               = rp__hash(rp_tensor_data(t), (size_t)rp_meta_bytes(&t->m), hash);
        }
    }
    run_close(&r);
    return hash;
}

static int64_t least_of(settings *s)
{
    int n = 0;
    run r;
    rp_forecast f;
    char text[64];

    while (s->all[n]) n++;
    snprintf(text, sizeof text, "memory_budget=1");
    s->all[n]     = text;
    r             = run_open(&dir, "drawn", "out-none", s->all);
    s->all[n]     = NULL;
    assert_int_equal(r.status, RP_ERR_BUDGET);
    rp_ctx *ctx   = test_ctx(&(rp_ctx_options){ .threads = 1, .shapes_only = true, .memory_limit_bytes = 1 });
    rp_report report;
    rp__report_open(&report, ctx);
    assert_ok(ctx, rp__recipe_forecast(ctx, r.recipe, NULL, &report, &f));
    assert_false(f.feasible);
    int64_t least = f.least;
    rp__forecast_close(&f);
    rp__report_close(&report);
    test_ctx_free(ctx);
    run_close(&r);
    return least;
}

static void every_step_takes_what_was_said_and_no_bit_changes(void **state)
{
    int n_draws = test_draws(100), n_planned = 0, n_refused = 0;

    (void)state;
    for (uint32_t seed = 0; seed < (uint32_t)n_draws; seed++) {
        uint32_t rng = seed * 7919 + 3;
        rp_rehearsal all, found;
        char name[32], budget[64];
        settings s;
        bool refused;

        write_model(&rng, pick(&rng, 2));
        draw_settings(&rng, &s);
        snprintf(name, sizeof name, "%u-all", seed);
        uint64_t expected = run_it(&s, name, NULL, &all, &refused);
        int64_t least     = least_of(&s), most = all.memory.reserved_bytes;
        assert_true(least <= most);
        int64_t bytes     = seed % 4 == 0 ? least : seed % 4 == 1 ? least - 1 : least + (int64_t)(next(&rng) % (uint32_t)(most - least + 1));
        snprintf(name, sizeof name, "%u", seed);
        snprintf(budget, sizeof budget, "memory_budget=%lld", (long long)bytes);
        uint64_t got = run_it(&s, name, budget, &found, &refused);
        if (refused != (bytes < least)) fail_msg("seed %u: %lld bytes, the least is %lld, refused: %d", seed, (long long)bytes, (long long)least, refused);
        n_refused += refused;
        if (refused) continue;
        if (found.memory.reserved_bytes > bytes) fail_msg("seed %u: %lld of %lld bytes", seed, (long long)found.memory.reserved_bytes, (long long)bytes);
        if (got != expected) fail_msg("seed %u: other bits", seed);
        n_planned += found.recompute_flops > 0;
    }
    assert_true(n_planned > n_draws / 2 && n_refused > n_draws / 8);
}

static void a_larger_budget_never_costs_more(void **state)
{
    int n_budgets = test_draws(50);
    rp_rehearsal all;
    settings s;
    bool refused;

    (void)state;
    for (uint32_t seed = 1000; seed < 1004; seed++) {
        uint32_t rng = seed;
        double before = INFINITY;
        char name[32];
        write_model(&rng, seed % 2);
        draw_settings(&rng, &s);
        snprintf(name, sizeof name, "%u", seed);
        run_it(&s, name, NULL, &all, &refused);
        int64_t least = least_of(&s), most = all.memory.reserved_bytes;
        for (int i = 0; i <= n_budgets; i++) {
            int64_t bytes = least + (most - least) * i / n_budgets;
            int n = 0;
            char budget[64];
            rp_report report;
            rp_forecast f;
            while (s.all[n]) n++;
            snprintf(budget, sizeof budget, "memory_budget=%lld", (long long)bytes);
            s.all[n] = budget;
            snprintf(name, sizeof name, "%u-%d", seed, i);
            run r    = run_open(&dir, "drawn", name, s.all);
            s.all[n] = NULL;
            assert_ok(r.ctx, r.status);
            rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .threads = 1, .shapes_only = true, .memory_limit_bytes = bytes });
            rp__report_open(&report, ctx);
            assert_ok(ctx, rp__recipe_forecast(ctx, r.recipe, NULL, &report, &f));
            assert_true(f.feasible && f.found.memory.reserved_bytes <= bytes);
            double overhead = f.again_seconds / f.seconds;
            if (overhead > before * (1 + 1e-12)) fail_msg("seed %u, budget %d: %.6f after %.6f", seed, i, overhead, before);
            assert_true(f.bound_seconds <= f.again_seconds * (1 + 1e-9));
            before = overhead;
            rp__forecast_close(&f);
            rp__report_close(&report);
            test_ctx_free(ctx);
            run_close(&r);
        }
        assert_true(before == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_step_takes_what_was_said_and_no_bit_changes),
        TEST(a_larger_budget_never_costs_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
