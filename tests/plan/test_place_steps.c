/* The claim of placement where it matters: steps of training are placed without a wasted byte.
 *
 *   drawn from    models x dtypes x ways to checkpoint x ways to step, on shapes
 *   observed      by the ledger's observer, not by place/log.c
 */
/* ctest: device-free thread-free cost=10 */
#include "place_test.h"
#include "train/loop_test.h"
#include "train/internal.h"

static int every(void) { return test_few_or(11, 1); }
static int n_budgets(void) { return test_few_or(2, 12); }

/* ---- a step observed ---- */

typedef struct {
    rp_place_buffer *at;
    int n, room, n_events;
    bool in_step;
} record;

static void put(record *r, rp_place_buffer b)
{
    if (r->n == r->room) assert_non_null(r->at = realloc(r->at, (size_t)(r->room = 2 * r->room + 1024) * sizeof *r->at));
    r->at[r->n++] = b;
}

static void give(record *r, int64_t offset)
{
    int i = r->n - 1;

    while (i >= 0 && (r->at[i].end != INT32_MAX || r->at[i].offset != offset || !r->at[i].bytes)) i--;
    assert_true(i >= 0);
    r->at[i].end = r->n_events;
}

/* Who is there when the step begins is born at 0, all others later. */
static void observe(void *user, const rp_mem_event *e)
{
    record *r = user;

    if (e->reclass) return;
    r->n_events += r->in_step;
    if (e->take)
        put(r, (rp_place_buffer){ .bytes = rp__align_up(e->bytes), .begin = r->n_events, .end = e->bytes ? INT32_MAX : r->n_events + 1, .offset = e->offset });
    else if (e->bytes) give(r, e->offset);
}

/* Before the step they are as the pool laid them; in it they are to be placed. */
static void end_step(record *r)
{
    int n = 0;

    for (int i = 0; i < r->n; i++) {
        rp_place_buffer *b = &r->at[i];
        if (b->begin == 0 && b->end == 0) continue;       /* came and went before */
        if (b->begin > 0) b->offset = -1;
        if (b->end > r->n_events) b->end = r->n_events + 1;
        r->at[n++] = *b;
    }
    r->n = n;
}

static void check_compact(const char *name, const record *r)
{
    int64_t bytes = 0, top = 0;

    for (int i = 0; i < r->n; i++) {
        const rp_place_buffer *b = &r->at[i];
        if (b->offset < 0 || !b->bytes) continue;
        bytes += b->bytes;
        if (b->offset + b->bytes > top) top = b->offset + b->bytes;
    }
    if (bytes != top) fail_msg("%s: %" PRId64 " bytes are live when the step begins, up to %" PRId64, name, bytes, top);
}

/* The second step of a recipe, so that whatever the first one leaves is there. */
static record step_of(rp_ctx *ctx, const rp_recipe *recipe)
{
    rp_model_source source;
    rp_step_result step;
    rp_engine engine;
    rp_report report;
    record r = { 0 };

    rp__report_open(&report, ctx);
    assert_ok(ctx, rp__source_open(ctx, recipe, &report, &source));
    rp__mem_observe(ctx->space[0], observe, &r);
    assert_ok(ctx, rp__engine_open(&engine, ctx, recipe, &source.config));
    assert_ok(ctx, rp__engine_ready(&engine));
    assert_ok(ctx, rp__engine_step(&engine, NULL, 0, 0, &step));
    r.in_step = true;
    assert_ok(ctx, rp__engine_step(&engine, NULL, 1, 0, &step));
    rp__mem_observe(ctx->space[0], NULL, NULL);
    rp__engine_close(&engine);
    rp__source_close(&source);
    rp__report_close(&report);
    end_step(&r);
    return r;
}

/* ---- recipes ---- */

#define GPT2_124M \
    "{\"model_type\": \"gpt2\", \"architectures\": [\"GPT2LMHeadModel\"], \"n_embd\": 768, \"n_layer\": 12, \"n_head\": 12," \
    " \"n_positions\": 1024, \"vocab_size\": 50257, \"embd_pdrop\": 0.1, \"attn_pdrop\": 0.1, \"resid_pdrop\": 0.1," \
    " \"bos_token_id\": 50256, \"eos_token_id\": 50256}"
#define LLAMA_8B \
    "{\"model_type\": \"llama\", \"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": 4096, \"intermediate_size\": 14336," \
    " \"num_hidden_layers\": 32, \"num_attention_heads\": 32, \"num_key_value_heads\": 8, \"vocab_size\": 128256," \
    " \"max_position_embeddings\": 8192, \"tie_word_embeddings\": false, \"bos_token_id\": 1, \"eos_token_id\": 0}"

static const struct { const char *name, *size; } models[] = {
    { "llama", "max_seq_len: 16\nbatch_size: 2\n" },
    { "gpt2", "max_seq_len: 16\nbatch_size: 2\n" },
    { "smollm", "max_seq_len: 512\nbatch_size: 2\n" },
    { "gpt2_124m", "max_seq_len: 1024\nbatch_size: 4\n" },
    { "llama_8b", "max_seq_len: 4096\nbatch_size: 1\n" },
};

#define AC "activation_checkpointing: "
static const char *const ways[] = {
    "",
    AC "{mode: full}\n",
    AC "{mode: selective_layer, every: 2}\n",
    AC "{mode: selective_op}\n",
    AC "{rules: [{op: matmul, every: 2, fate: recompute}, {type: Norm, fate: recompute}]}\n",
    AC "{conditions: [{layers: [0-1]}, {path: '*.attn'}, {module_type: Norm}]}\n",
    AC "{rules: [{op: matmul, fate: offload}], offload: {to: memory}}\n",
    AC "{mode: full, rules: [{path: '*.attn', fate: prefer_offload}], offload: {to: memory}}\n",
    AC "{rules: [{op: attention, fate: offload}, {path: layers.1, fate: offload}], offload: {path: /nowhere}}\n",
};

static const char *const steps[] = {
    "optimizer: {lr: 1e-3}\n",
    "optimizer: {lr: 1e-3}\ngradient_accumulation_steps: 3\nclip_grad_norm: 1\n",
    "optimizer: {name: sgd, lr: 1e-3, momentum: 0.9}\n",
    "optimizer: {lr: 1e-3, state_dtype: bf16}\noptimizer_in_bwd: true\ngrad_dtype: fp32\n",
};

static void write_models(void)
{
    char source[512];
    static char text[8192];

    snprintf(source, sizeof source, "%s/bench/configs/smollm2-135m.json", RP_SOURCE_DIR);
    FILE *f = fopen(source, "rb");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    temp_text(&dir, "smollm.json", text);
    temp_text(&dir, "gpt2_124m.json", GPT2_124M);
    temp_text(&dir, "llama_8b.json", LLAMA_8B);
}

static rp_recipe *read_recipe(rp_ctx *ctx, int model, const char *dtype, const char *way, const char *how)
{
    rp_recipe *recipe = NULL;
    char text[2048];
    rp_report report;

    snprintf(text, sizeof text, "model: {config: %s/%s.json}\ndataset: {path: %s/tokens.bin, format: tokens}\nepochs: 1\nmax_steps: 2\nseed: 3\n"
             "threads: 2\noutput_dir: %s/out\n%sdtype: %s\n%s%s", dir.path, models[model].name, dir.path, dir.path, models[model].size, dtype, way, how);
    rp__report_open(&report, ctx);
    assert_ok(ctx, rp__recipe_read(ctx, "r.yaml", text, (int64_t)strlen(text), 0, NULL, &report, &recipe));
    rp__report_close(&report);
    return recipe;
}

static void check_step(int model, const char *dtype, const char *way, const char *how)
{
    char name[512];

    snprintf(name, sizeof name, "%s, %s, %s%s", models[model].name, dtype, way, how);
    rp_ctx *ctx       = test_ctx(&(rp_ctx_options){ .device = "cpu", .threads = 2, .shapes_only = true });
    rp_recipe *recipe = read_recipe(ctx, model, dtype, way, how);
    record r          = step_of(ctx, recipe);
    check_compact(name, &r);
    rp_placement p = place_checked(ctx, name, r.at, r.n);
    if (p.height != p.bound) fail_msg("%s: %d buffers, %" PRId64 " over %" PRId64, name, r.n, p.height, p.bound);
    free(r.at);
    rp__recipe_free(recipe);
    test_ctx_free(ctx);
}

static void steps_of_all_families_and_modes_waste_nothing(void **state)
{
    static const char *const dtypes[] = { "fp32", "bf16" };
    int draw = 0;

    (void)state;
    write_models();
    for (int m = 0; m < RP_COUNT(models); m++)
        for (int d = 0; d < RP_COUNT(dtypes); d++)
            for (int w = 0; w < RP_COUNT(ways); w++)
                for (int s = 0; s < RP_COUNT(steps); s++)
                    if (draw++ % every() == 0) check_step(m, dtypes[d], ways[w], steps[s]);
}

/* ---- planned steps ---- */

typedef struct { bool feasible; int64_t bound, reserved, least; } figures;

static figures forecast_of(int model, const char *how, int64_t budget)
{
    rp_ctx_options options = { .device = "cpu", .threads = 2, .shapes_only = true, .memory_limit_bytes = budget };
    char way[256]          = AC "{mode: auto}\n";
    rp_forecast f;
    rp_report report;

    if (budget) snprintf(way, sizeof way, AC "{mode: auto}\nmemory_budget: %" PRId64 "\n", budget);
    rp_ctx *ctx       = test_ctx(&options);
    rp_recipe *recipe = read_recipe(ctx, model, "bf16", way, how);
    rp__report_open(&report, ctx);
    assert_ok(ctx, rp__recipe_forecast(ctx, recipe, NULL, &report, &f));
    figures t = { f.feasible, f.plan.placement.bound, f.plan.found.memory.reserved_bytes, f.least };
    rp__forecast_close(&f);
    rp__report_close(&report);
    rp__recipe_free(recipe);
    test_ctx_free(ctx);
    return t;
}

static void plans_of_all_budgets_waste_nothing(void **state)
{
    (void)state;
    write_models();
    for (int m = 2; m < RP_COUNT(models); m++)
        for (int s = 0; s < 2; s++) {
            int64_t most = forecast_of(m, steps[s], 0).reserved, least = forecast_of(m, steps[s], 1).least;
            for (int i = 0; i < n_budgets(); i++) {
                int64_t budget = least + (most - least) / n_budgets() * (i + 1);
                figures t         = forecast_of(m, steps[s], budget);
                if (!t.feasible || t.reserved != t.bound || t.reserved > budget)
                    fail_msg("%s, %s, budget %" PRId64 ": %" PRId64 " over %" PRId64, models[m].name, steps[s], budget, t.reserved, t.bound);
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(steps_of_all_families_and_modes_waste_nothing),
        TEST(plans_of_all_budgets_waste_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
