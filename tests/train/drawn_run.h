/* drawn_run.h -- runs of two steps that are drawn: a model of either family, and what its steps are. What is said of each step before is
 * what it must measure. */
#ifndef RP_DRAWN_RUN_H
#define RP_DRAWN_RUN_H

#include "loop_test.h"

#include "train/internal.h"

static inline uint32_t next(uint32_t *seed) { return (*seed = *seed * 1664525u + 1013904223u) >> 8; }
static inline int pick(uint32_t *rng, int n) { return (int)(next(rng) % (uint32_t)n); }
static inline const char *coin(uint32_t *rng, const char *heads, const char *tails) { return pick(rng, 2) ? heads : tails; }

static inline void write_model(uint32_t *rng, bool gpt2)
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
                 coin(rng, "true", "false"));
    temp_text(&dir, "drawn.json", text);
}

enum { MOST_DRAWN = MOST_SETTINGS - 2 };
typedef struct { int n; char text[MOST_DRAWN][512]; const char *all[MOST_SETTINGS]; } settings;

static inline void set_drawn(settings *s, const char *format, ...)
{
    va_list values;

    assert_true(s->n < MOST_DRAWN);
    va_start(values, format);
    vsnprintf(s->text[s->n], sizeof s->text[0], format, values);
    va_end(values);
    s->all[s->n] = s->text[s->n];
    s->n++;
}

/* All but the budget and how to checkpoint. */
static inline void draw_settings(uint32_t *rng, settings *s)
{
    bool alone = pick(rng, 2);          /* one micro-batch, nothing clipped: the update may go into backward */

    memset(s, 0, sizeof *s);
    set_drawn(s, "dtype=%s", coin(rng, "bf16", "fp32"));
    set_drawn(s, "batch_size=%d", 1 + pick(rng, 4));
    set_drawn(s, "max_seq_len=%d", 8 << pick(rng, 3));
    set_drawn(s, "gradient_accumulation_steps=%d", alone ? 1 : 1 + pick(rng, 4));
    set_drawn(s, "optimizer.name=%s", coin(rng, "adamw", "sgd"));
    set_drawn(s, "optimizer.state_dtype=%s", coin(rng, "bf16", coin(rng, "int8", "fp32")));
    set_drawn(s, "optimizer_in_bwd=%s", alone ? "auto" : "false");
    set_drawn(s, "clip_grad_norm=%s", !alone && pick(rng, 2) ? "1.0" : "null");
    set_drawn(s, "max_steps=2");
    set_drawn(s, "dataset_val={path: %s/val.bin, format: tokens}", dir.path);
    set_drawn(s, "run_val_every_n_steps=1");
}

/* budget 0: none. The settings are as before. */
static inline run open_drawn(settings *s, const char *out, int64_t budget)
{
    char text[64];

    snprintf(text, sizeof text, "memory_budget=%" PRId64, budget);
    s->all[s->n] = budget ? text : NULL;
    run r        = run_open(&dir, "drawn", out, s->all);
    s->all[s->n] = NULL;
    return r;
}

static inline void check_measured(const rp_metrics *line, const rp_step_usage *said)
{
    assert_int_equal(line->peak_memory_active, said->memory.peak_bytes);
    assert_int_equal(line->peak_memory_alloc, said->memory.peak_alloc_bytes);
    assert_int_equal(line->peak_memory_reserved, said->memory.reserved_bytes);
    assert_int_equal(line->saved_bytes, said->saved_bytes);
    assert_int_equal(line->step_flops, said->step_flops);
    assert_int_equal(line->recompute_flops, said->recompute_flops);
}

/* What it learnt, as a hash. Every step takes what was said. */
static inline uint64_t run_drawn(settings *s, const char *out, int64_t budget, rp_step_usage *found, bool *refused)
{
    uint64_t hash = RP_HASH_START;
    run r         = open_drawn(s, out, budget);

    *found   = (rp_step_usage){ 0 };
    *refused = r.status == RP_ERR_BUDGET;
    if (!*refused) {
        assert_ok(r.ctx, r.status);
        *found = rp__trainer_info(r.trainer)->rehearsal;
        for (int i = 0; i < 2; i++) {
            rp_metrics line;
            assert_ok(r.ctx, rp__trainer_step(r.trainer, &line));
            check_measured(&line, found);
        }
        rp_model *m = rp__trainer_model(r.trainer);
        for (int i = 0; i < rp__model_n_params(m); i++) {
            const rp_tensor *t = rp__model_param(m, i)->tensor;
            hash               = rp__hash(test_bytes(t), (size_t)rp_meta_bytes(&t->m), hash);
        }
    }
    run_close(&r);
    return hash;
}

/* The least budget that any plan fits. */
static inline int64_t least_of(settings *s)
{
    run r       = open_drawn(s, "out-none", 1);
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .threads = 1, .shapes_only = true, .memory_limit_bytes = 1 });
    rp_report report;
    rp_forecast f;

    assert_int_equal(r.status, RP_ERR_BUDGET);
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

#endif
