/* Claims about plans of several ranks, made by one: what each takes, what it sends, what fits, and what a search finds. */
/* ctest: device-free thread-free cost=12 */
#include "rp_test.h"

#include "train/loop.h"

enum { MOST = 16 };

typedef struct {
    rp_ctx *ctx;
    rp_report report;
    rp_recipe *recipe;
} asked;

static const char tiny[] = "model.config=" RP_SOURCE_DIR "/recipes/tiny_llama/config.json";
static const char of_8b[] = "model.config=" RP_SOURCE_DIR "/recipes/llama3_8b/config.json";
static const char of_70b[] = "model.config=" RP_SOURCE_DIR "/recipes/llama3_70b/config.json";

/* A recipe with more settings, and its context of `budget` bytes (0: none). */
static asked ask(const char *recipe, const char *model, const char *const *setting, int64_t budget)
{
    asked a           = { .ctx = test_ctx(&(rp_ctx_options){ .threads = 1, .shapes_only = true, .memory_limit_bytes = budget }) };
    const char *all[MOST] = { model, "threads=1" };
    char path[512], text[64];
    int n = 2;

    snprintf(text, sizeof text, budget ? "memory_budget=%lld" : "memory_budget=null", (long long)budget);
    all[n++] = text;
    while (*setting) all[n++] = *setting++;
    snprintf(path, sizeof path, "%s/recipes/%s.yaml", RP_SOURCE_DIR, recipe);
    rp__report_open(&a.report, a.ctx);
    assert_ok(a.ctx, rp__recipe_load(a.ctx, path, n, all, &a.report, &a.recipe));
    return a;
}

static void done(asked *a)
{
    rp__recipe_free(a->recipe);
    rp__report_close(&a->report);
    test_ctx_free(a->ctx);
}

static rp_forecast look(const char *recipe, const char *model, const char *const *setting, int64_t budget, const rp_forecast_options *options)
{
    asked a = ask(recipe, model, setting, budget);
    rp_forecast f;

    assert_ok(a.ctx, rp__recipe_forecast(a.ctx, a.recipe, options, &a.report, &f));
    rp_forecast figures = f;            /* the explanation goes */
    rp__forecast_close(&f);
    done(&a);
    return figures;
}

/* Without the least budget, which takes the longest. */
static rp_forecast step_on(const char *device, const char *recipe, const char *model, const char *const *setting, int64_t budget)
{
    return look(recipe, model, setting, budget, &(rp_forecast_options){ .device = device });
}

static rp_forecast forecast(const char *recipe, const char *model, const char *const *setting, int64_t budget)
{
    return look(recipe, model, setting, budget, &(rp_forecast_options){ .device = "h100", .least = true });
}

#define TINY(...) forecast("tiny_from_scratch", tiny, (const char *const[]){ __VA_ARGS__, NULL }, 0)

/* Each weight of tiny_llama by its elements: tied embedding, 4 blocks, norm. */
static int64_t elems_of_tiny(int64_t (*of)(int64_t elems, int ranks), int ranks)
{
    const int64_t block[] = { 64, 64 * 64, 32 * 64, 32 * 64, 64 * 64, 64, 192 * 64, 192 * 64, 192 * 64 };
    int64_t sum           = of(257 * 64, ranks) + of(64, ranks);

    for (int i = 0; i < RP_COUNT(block); i++) sum += 4 * of(block[i], ranks);
    return sum;
}

static int64_t room(int64_t elems, int ranks) { return rp__slice_of(elems, 0, ranks).room; }
static int64_t to_others(int64_t elems, int ranks) { return (ranks - 1) * room(elems, ranks); }

static const char *ranks_text(int ranks, char out[32])
{
    snprintf(out, 32, "dist.ranks=%d", ranks);
    return out;
}

static void alone_nothing_is_sent(void **state)
{
    rp_forecast f = TINY("dist.ranks=1");

    (void)state;
    assert_int_equal(f.ranks, 1);
    assert_int_equal(f.plan.comm_bytes, 0);
    assert_true(f.plan.comm_seconds == 0);
    assert_string_equal(f.units, "");
}

static void weights_that_stay_are_sent_once_and_their_gradients_once(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 8; ranks++) {
        char text[32];
        rp_forecast f = TINY(ranks_text(ranks, text), "dist.reshard_after_forward=false", "gradient_accumulation_steps=3");
        assert_int_equal(f.ranks, ranks);
        assert_int_equal(f.plan.comm_bytes, 3 * 2 * 4 * elems_of_tiny(to_others, ranks));
        assert_true(f.plan.comm_seconds > 0 && f.plan.comm_seconds < f.plan.seconds + f.plan.recompute_seconds);
    }
}

/* They are of another class: what is reported of slots adds up to what is saved. */
static void weights_that_stay_are_no_saved_slots(void **state)
{
    rp_forecast f = TINY("dist.ranks=2", "dist.reshard_after_forward=false");

    (void)state;
    assert_true(f.explain.saved_bytes > 0);
    assert_int_equal(f.explain.saved_bytes, f.plan.found.saved_bytes);
}

/* The root's stay; of the blocks all are asked for again. */
static void weights_that_go_are_sent_again(void **state)
{
    rp_forecast stay = TINY("dist.ranks=4", "dist.reshard_after_forward=false"), go = TINY("dist.ranks=4", "dist.reshard_after_forward=true");
    int64_t blocks   = elems_of_tiny(to_others, 4) - to_others(257 * 64, 4) - to_others(64, 4);

    (void)state;
    assert_int_equal(go.plan.comm_bytes - stay.plan.comm_bytes, 4 * blocks);
    assert_true(stay.plan.comm_recompute_seconds == 0 && go.plan.comm_recompute_seconds > 0);
    assert_true(go.plan.found.memory.peak_bytes < stay.plan.found.memory.peak_bytes);
}

/* A device's link moves bytes while it computes, this machine's cores do not. */
/* Rules for everything are rules for gathered weights, too: with a budget and without they come before what reshard_after_forward says. */
static void a_recipe_may_have_all_gathered_again_or_kept_and_be_planned(void **state)
{
    static const char recompute[] = "activation_checkpointing.rules=[{op: '*', fate: recompute}]",
                      kept[] = "activation_checkpointing.rules=[{op: '*', fate: keep}]";

    (void)state;
    for (int i = 0; i < 2; i++) {
        const char *const setting[] = { "dist.ranks=2", i ? kept : recompute, NULL };
        rp_forecast own             = forecast("tiny_from_scratch", tiny, setting, 0);
        rp_forecast planned         = forecast("tiny_from_scratch", tiny, setting, own.plan.found.memory.reserved_bytes);
        assert_true(own.feasible && own.least <= own.plan.found.memory.reserved_bytes);
        assert_true(planned.feasible && planned.plan.comm_bytes == own.plan.comm_bytes);
    }
}

static void what_comes_ahead_takes_no_time_where_it_is_hidden(void **state)
{
    rp_forecast prefetch = TINY("dist.ranks=4"), by_itself = TINY("dist.ranks=4", "dist.prefetch=0");

    (void)state;
    assert_int_equal(prefetch.plan.comm_bytes, by_itself.plan.comm_bytes);
    assert_true(by_itself.plan.hidden_seconds == 0 && by_itself.plan.comm_recompute_seconds < by_itself.plan.recompute_seconds);
    assert_true(prefetch.plan.hidden_seconds > 0 && prefetch.plan.hidden_seconds < prefetch.plan.comm_seconds);
    assert_true(prefetch.plan.seconds + prefetch.plan.recompute_seconds < by_itself.plan.seconds + by_itself.plan.recompute_seconds);
}

static void sums_that_come_behind_are_hidden_too(void **state)
{
    rp_forecast waited_for = TINY("dist.ranks=4"), reduce_async = TINY("dist.ranks=4", "dist.reduce_behind=1"),
                in_backward = TINY("dist.ranks=4", "dist.reduce_behind=1", "optimizer_in_bwd=true", "clip_grad_norm=null");

    (void)state;
    assert_int_equal(waited_for.plan.comm_bytes, reduce_async.plan.comm_bytes);
    assert_true(reduce_async.plan.hidden_seconds > waited_for.plan.hidden_seconds && reduce_async.plan.hidden_seconds > in_backward.plan.hidden_seconds);
    assert_true(reduce_async.plan.found.memory.peak_bytes > waited_for.plan.found.memory.peak_bytes);
}

static void gradients_summed_once_a_step_are_sent_once(void **state)
{
    rp_forecast each = TINY("dist.ranks=4", "gradient_accumulation_steps=3"),
                once = TINY("dist.ranks=4", "gradient_accumulation_steps=3", "dist.sync_each_batch=false");

    (void)state;
    assert_int_equal(each.plan.comm_bytes - once.plan.comm_bytes, 2 * 4 * elems_of_tiny(to_others, 4));
    assert_true(each.plan.found.memory.peak_bytes < once.plan.found.memory.peak_bytes);
}

/* A part and then the whole are as much as the whole at once; for backward the parts of one neighbour are enough. */
static void weights_that_stay_in_parts_are_sent_again_by_neighbours_alone(void **state)
{
    rp_forecast stay = TINY("dist.ranks=4", "dist.reshard_after_forward=false"), parts = TINY("dist.ranks=4", "dist.reshard_after_forward=2"),
                go = TINY("dist.ranks=4", "dist.reshard_after_forward=true");

    (void)state;
    assert_int_equal(3 * (parts.plan.comm_bytes - stay.plan.comm_bytes), 2 * (go.plan.comm_bytes - stay.plan.comm_bytes));
    assert_true(parts.plan.found.memory.peak_bytes < stay.plan.found.memory.peak_bytes && parts.plan.found.memory.peak_bytes > go.plan.found.memory.peak_bytes);
}

/* Two groups of two: slices are halves, and a group's sums go to the other in fp32. */
static void groups_that_hold_copies_send_each_other_their_sums(void **state)
{
    rp_forecast f = TINY("dist.ranks=4", "dist.replicate_dim=2", "dist.reshard_after_forward=false");

    (void)state;
    assert_int_equal(f.ranks, 4);
    assert_int_equal(f.plan.comm_bytes, 2 * 4 * elems_of_tiny(to_others, 2) + 4 * elems_of_tiny(room, 2));
}

static void more_ranks_take_less_each(void **state)
{
    rp_forecast before = TINY("dist.ranks=1");

    (void)state;
    for (int ranks = 2; ranks <= 16; ranks *= 2) {
        char text[32];
        rp_forecast f = TINY(ranks_text(ranks, text), "enable_activation_checkpointing=true");
        assert_true(f.plan.found.memory.peak_bytes < before.plan.found.memory.peak_bytes);
        assert_true(f.least < before.least);
        before = f;
    }
}

/* What one rank gets from the others of a block's gradient is bounded, however many they are. */
static void a_head_takes_less_on_more_ranks_up_to_16384(void **state)
{
    (void)state;
    int64_t before = INT64_MAX;

    for (int ranks = 4; ranks <= 16384; ranks *= test_takes_samples() ? 64 : 4) {
        char text[32];
        rp_forecast f = step_on("h100", "llama3_8b_full_distributed", of_8b, (const char *const[]){ ranks_text(ranks, text), "gradient_accumulation_steps=1",
                                 "enable_activation_checkpointing=true", NULL }, 0);
        assert_int_equal(f.ranks, ranks);
        assert_true(f.plan.found.memory.peak_bytes < before);
        before = f.plan.found.memory.peak_bytes;
    }
}

/* Llama 3.1 405B. */
static void the_largest_model_is_planned_on_16384_ranks_and_no_more(void **state)
{
    test_leave_to_full();
    static const char large[] = "model.overrides={num_hidden_layers: 126, hidden_size: 16384, intermediate_size: 53248, num_attention_heads: 128}";
    const char *const setting[] = { "dist.ranks=16384", large, "gradient_accumulation_steps=1", "max_seq_len=2048", NULL };
    const char *const more[]    = { "dist.ranks=16385", large, NULL };
    rp_forecast f = step_on("h100", "llama3_70b_full_distributed", of_70b, setting, INT64_C(80000000000));
    asked a       = ask("llama3_70b_full_distributed", of_70b, more, 0);
    rp_forecast none;

    (void)state;
    assert_true(f.feasible && f.ranks == 16384 && f.plan.found.memory.reserved_bytes <= INT64_C(80000000000));
    assert_int_equal(rp__recipe_forecast(a.ctx, a.recipe, &(rp_forecast_options){ .device = "h100" }, &a.report, &none), RP_ERR_UNSUPPORTED);
    assert_non_null(strstr(rp_error(a.ctx), "16385 ranks are more than 16384"));
    done(&a);
}

static void units_are_printed(void **state)
{
    rp_forecast f = TINY("dist.ranks=2", "dist.custom_sharded_layers=[output]");

    (void)state;
    assert_string_equal(f.units, "6 units: tok_embeddings + output; every TransformerBlock (4); and the rest (norm)");
}

/* ---- the shipped recipes ---- */

static void llama_3_8b_fits_4_ranks_of_24_gb_and_70b_8_of_80(void **state)
{
    const char *const as_it_is[] = { NULL };
    rp_forecast small = forecast("llama3_8b_full_distributed", of_8b, as_it_is, INT64_C(24000000000));
    rp_forecast large = forecast("llama3_70b_full_distributed", of_70b, as_it_is, INT64_C(80000000000));

    (void)state;
    assert_true(small.feasible && small.ranks == 4 && small.plan.found.memory.reserved_bytes <= INT64_C(24000000000));
    assert_true(large.feasible && large.ranks == 8 && large.plan.found.memory.reserved_bytes <= INT64_C(80000000000));
}

static void embedding_and_head_in_units_of_their_own_take_less(void **state)
{
    const char *const own[] = { NULL }, *const none[] = { "dist.custom_sharded_layers=[]", NULL };
    rp_forecast a = forecast("llama3_8b_full_distributed", of_8b, own, INT64_C(24000000000));
    rp_forecast b = forecast("llama3_8b_full_distributed", of_8b, none, INT64_C(24000000000));

    (void)state;
    assert_true(b.feasible && a.least < b.least && a.plan.recompute_seconds < b.plan.recompute_seconds);
    assert_true(b.least - a.least > 2 * INT64_C(128256) * 4096);        /* a weight of the two, in bf16 */
}

/* A chain of 162 segments whose weights must stay: the least plan is one of many replays. */
static void what_cannot_fit_is_reported_with_the_least_that_does(void **state)
{
    test_leave_to_full();
    const char *const stay[] = { "dist.reshard_after_forward=false", "max_seq_len=64", NULL };
    rp_forecast f            = forecast("llama3_70b_full_distributed", of_70b, stay, 80000);

    (void)state;
    assert_false(f.feasible);
    assert_true(f.least > INT64_C(141107412992) && f.least == f.plan.found.memory.reserved_bytes);
}

/* On one node and on many: with the recipe's units, the root's alone, and sums behind; where all is recomputed, so that memory changes nothing. */
static void a_gpu_is_never_faster_among_64_than_among_8(void **state)
{
    static const char *const devices[] = { "h100", "h200", "a100-80gb", "a100-40gb", "l40s", "rtx4090" };
    static const char *const more[]    = { "dist.prefetch=1", "dist.custom_sharded_layers=[]", "dist.reduce_behind=1", "batch_size=8",
                                           "dist.reshard_after_forward=false" };
    static const int64_t ranks[] = { 8, 16, 32, 64 };

    (void)state;
    for (int d = 0; d < RP_COUNT(devices); d += test_takes_samples() ? 3 : 1)
        for (int m = 0; m < RP_COUNT(more); m += test_takes_samples() ? 2 : 1) {
            double before = 0;
            for (int r = 0; r < RP_COUNT(ranks); r++) {
                char text[32];
                asked a = ask("llama3_8b_full_distributed", of_8b, (const char *const[]){ ranks_text((int)ranks[r], text), "gradient_accumulation_steps=1",
                              "enable_activation_checkpointing=true", more[m], NULL }, 0);
                rp_forecast f;
                assert_ok(a.ctx, rp__recipe_forecast(a.ctx, a.recipe, &(rp_forecast_options){ .device = devices[d] }, &a.report, &f));
                if (f.plan.seconds + f.plan.recompute_seconds < before) fail_msg("%s, %s: faster on %d ranks", devices[d], more[m], (int)ranks[r]);
                before = f.plan.seconds + f.plan.recompute_seconds;
                rp__forecast_close(&f);
                done(&a);
            }
        }
}

/* What others have measured with fused kernels on their own frameworks: in tokens a second and GPU. Figures of more than a node are held against
 * ranks without communication, as theirs is hierarchical. */
static void published_steps_take_at_most_three_tenths_longer_than_predicted(void **state)
{
    static const char half[] = "activation_checkpointing={mode: selective_op, save: [attention], rules: [{op: matmul, every: {k: 2, offset: 1}, fate: keep}]}";
    static const char of_7b[] = "model.overrides={intermediate_size: 11008, num_key_value_heads: 32, vocab_size: 32000}";
    static const struct { const char *device, *setting[5]; double tokens, published; } row[] = {
        /* torchtitan, benchmarks/llama3_h100_202412_torchtitan.md: Llama 3.1 8B, 8 H100 of 2.4 TB/s and 500 W, torch.compile */
        { "h100, bandwidth=2.4T", { "dist.ranks=8", "max_seq_len=8192", half, "dist.custom_sharded_layers=[]" }, 16384, 6667 },
        /* fms-fsdp's README: Llama 2 7B, 96 H100, torch.compile, nothing recomputed · 128 A100, eager */
        { "h100", { "dist.ranks=1", "max_seq_len=4096", of_7b }, 8192, 9600 },
        { "a100-80gb", { "dist.ranks=1", "max_seq_len=4096", of_7b }, 8192, 3700 },
    };

    (void)state;
    for (int i = 0; i < RP_COUNT(row); i++) {
        const char *const *s = row[i].setting;
        asked a =
            ask("llama3_8b_full_distributed", of_8b, (const char *const[]){ "batch_size=2", "gradient_accumulation_steps=1", s[0], s[1], s[2], s[3], NULL }, 0);
        rp_forecast f;
        assert_ok(a.ctx, rp__recipe_forecast(a.ctx, a.recipe, &(rp_forecast_options){ .device = row[i].device }, &a.report, &f));
        double found = row[i].tokens / (f.plan.seconds + f.plan.recompute_seconds), by = found / row[i].published;
        if (by < 0.9 || by > 1.3) fail_msg("%s: %.0f tokens/s, %.0f are published", row[i].device, found, row[i].published);
        rp__forecast_close(&f);
        done(&a);
    }
}

/* ---- the search ---- */

static rp_status search(asked *a, rp_find *out)
{
    return rp__recipe_find(a->ctx, a->recipe, &(rp_find_options){ .device = "h100" }, &a->report, out);
}

typedef struct { const char *device, *setting[4]; int64_t budget; } searched;

#define ONE_LAYER "model.overrides={num_hidden_layers: 1}"

/* A small one, which is the sample; several layers; nodes of two, one link, cores that do the copying, sums once a step, and little memory. */
static const searched searches[] = {
    { "h100", { "dist.ranks=4", "batch_size=1", ONE_LAYER }, 2000000 },
    { "h100", { "dist.ranks=4", "batch_size=2", "model.overrides={num_hidden_layers: 2}" }, 2500000 },
    { "h100, node=2", { "dist.ranks=4", "batch_size=2", "dist.sync_each_batch=false", ONE_LAYER }, 2000000 },
    { "h100, node=2", { "dist.ranks=8", "gradient_accumulation_steps=2", "dist.reduce_behind=2", ONE_LAYER }, 1500000 },
    { "flops=1T, bandwidth=1T, link=1G", { "dist.ranks=4", "clip_grad_norm=null", "optimizer_in_bwd=auto", ONE_LAYER }, 1600000 },
    { NULL, { "dist.ranks=4", "batch_size=2", "dist.prefetch=0", ONE_LAYER }, 2000000 },
};

static rp_find run_search(const searched *s, bool all)
{
    asked a = ask("tiny_from_scratch", tiny, (const char *const[]){ s->setting[0], s->setting[1], s->setting[2], s->setting[3], NULL }, s->budget);
    rp_find found;

    assert_ok(a.ctx, rp__recipe_find(a.ctx, a.recipe, &(rp_find_options){ .device = s->device, .all = all }, &a.report, &found));
    done(&a);
    return found;
}

/* Sound: of every setting that fits. And a search that goes by bounds finds the four fastest of all. */
static void no_plan_gets_below_its_bounds_and_what_they_discard_is_slower(void **state)
{
    (void)state;
    for (int i = 0; i < test_few_or(1, RP_COUNT(searches)); i++) {
        rp_find all = run_search(&searches[i], true), some = run_search(&searches[i], false);
        assert_true(all.n > 4 && all.n_discarded == 0 && some.n_tried + some.n_discarded == all.n_tried && some.n_discarded > 0);
        for (int k = 0; k < all.n; k++) {
            const rp_setting *s = &all.setting[k];
            if (s->bound_seconds > s->seconds || s->bound_bytes > s->reserved || s->bound_seconds <= 0 || s->bound_bytes <= 0)
                fail_msg("search %d, ranks %d copies %d batch %d reshard %d stay %d behind %d own %d: %g s, bound %g s", i, (int)s->ranks, (int)s->copies,
                         (int)s->batch_size, s->reshard, (int)s->stay, (int)s->reduce_async, s->own_units, s->seconds, s->bound_seconds);
        }
        for (int k = 0; k < 4; k++) assert_true(all.setting[k].seconds == some.setting[k].seconds && all.setting[k].reserved == some.setting[k].reserved);
        rp__find_close(&all);
        rp__find_close(&some);
    }
}

static void of_512_ranks_few_settings_are_planned(void **state)
{
    test_leave_to_full();
    asked a = ask("llama3_8b_full_distributed", of_8b, (const char *const[]){ "dist.ranks=512", NULL }, INT64_C(80000000000));
    rp_find found;

    (void)state;
    assert_ok(a.ctx, search(&a, &found));
    assert_true(found.n >= 4 && found.n_tried < 60 && found.n_discarded > 1000);
    rp__find_close(&found);
    done(&a);
}

/* Samples are of a model that is planned four times as fast. */
static const char *sampled_model(void) { return test_takes_samples() ? "model.overrides={num_hidden_layers: 1}" : "model.overrides={num_hidden_layers: 4}"; }

/* As a recipe of its own it takes just that. */
static void check_setting(const rp_setting *s, int64_t budget)
{
    char text[6][96];
    const char *const setting[] = { text[0], text[1], text[2], text[3], text[4], text[5], s->own_units ? "dist.custom_sharded_layers=[tok_embeddings, output]" :
                                    "dist.custom_sharded_layers=[]", "activation_checkpointing={mode: auto}", sampled_model(), NULL };

    snprintf(text[0], sizeof *text, "dist.ranks=%lld", (long long)s->ranks);
    snprintf(text[1], sizeof *text, "batch_size=%lld", (long long)s->batch_size);
    snprintf(text[2], sizeof *text, "gradient_accumulation_steps=%lld", (long long)s->accumulation);
    if (s->stay) snprintf(text[3], sizeof *text, "dist.reshard_after_forward=%lld", (long long)s->stay);
    else snprintf(text[3], sizeof *text, "dist.reshard_after_forward=%s", s->reshard ? "true" : "false");
    snprintf(text[5], sizeof *text, "dist.replicate_dim=%lld", (long long)s->copies);
    snprintf(text[4], sizeof *text, "dist.reduce_behind=%lld", (long long)s->reduce_async);
    rp_forecast f = forecast("tiny_from_scratch", tiny, setting, budget);
    assert_true(f.feasible);
    assert_int_equal(f.plan.found.memory.reserved_bytes, s->reserved);
    assert_int_equal(f.plan.comm_bytes, s->comm_bytes);
    assert_true(f.plan.seconds + f.plan.recompute_seconds == s->seconds);
}

static void what_a_search_finds_fits_and_the_fastest_comes_first(void **state)
{
    const char *const setting[] = { "dist.ranks=4", "batch_size=2", sampled_model(), NULL };
    int64_t budget              = test_few_or(2000000, 3500000);
    asked a                     = ask("tiny_from_scratch", tiny, setting, budget);
    rp_find found;

    (void)state;
    assert_ok(a.ctx, search(&a, &found));
    assert_true(found.n > 3 && found.n < found.n_tried);
    assert_int_equal(found.samples, 8);
    for (int i = 0; i < found.n; i++) {
        const rp_setting *s = &found.setting[i];
        assert_true(s->fits && s->reserved <= budget && s->seconds > 0);
        assert_int_equal(s->ranks * s->batch_size * s->accumulation, 8);
        assert_true(!i || found.setting[i - 1].seconds <= s->seconds);
    }
    for (int i = 0; i < found.n; i += test_takes_samples() ? found.n - 1 : 1) check_setting(&found.setting[i], budget);
    rp__find_close(&found);
    done(&a);
}

static void a_search_that_finds_nothing_says_what_would_fit(void **state)
{
    const char *const setting[] = { "dist.ranks=2", "batch_size=1", NULL };
    asked a                     = ask("tiny_from_scratch", tiny, setting, 5000);
    rp_find found;

    (void)state;
    assert_int_equal(search(&a, &found), RP_ERR_BUDGET);
    assert_non_null(strstr(rp_error(a.ctx), "no setting fits a memory budget of 5000 bytes"));
    assert_non_null(strstr(rp_error(a.ctx), "dist.ranks=2"));
    done(&a);
    a = ask("tiny_from_scratch", tiny, setting, 0);
    assert_int_equal(search(&a, &found), RP_ERR_CONFIG);
    done(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alone_nothing_is_sent),
        cmocka_unit_test(weights_that_stay_are_sent_once_and_their_gradients_once),
        cmocka_unit_test(weights_that_stay_are_no_saved_slots),
        cmocka_unit_test(weights_that_go_are_sent_again),
        cmocka_unit_test(a_recipe_may_have_all_gathered_again_or_kept_and_be_planned),
        cmocka_unit_test(what_comes_ahead_takes_no_time_where_it_is_hidden),
        cmocka_unit_test(sums_that_come_behind_are_hidden_too),
        cmocka_unit_test(gradients_summed_once_a_step_are_sent_once),
        cmocka_unit_test(weights_that_stay_in_parts_are_sent_again_by_neighbours_alone),
        cmocka_unit_test(groups_that_hold_copies_send_each_other_their_sums),
        cmocka_unit_test(more_ranks_take_less_each),
        cmocka_unit_test(a_head_takes_less_on_more_ranks_up_to_16384),
        cmocka_unit_test(the_largest_model_is_planned_on_16384_ranks_and_no_more),
        cmocka_unit_test(units_are_printed),
        cmocka_unit_test(llama_3_8b_fits_4_ranks_of_24_gb_and_70b_8_of_80),
        cmocka_unit_test(embedding_and_head_in_units_of_their_own_take_less),
        cmocka_unit_test(what_cannot_fit_is_reported_with_the_least_that_does),
        cmocka_unit_test(a_gpu_is_never_faster_among_64_than_among_8),
        cmocka_unit_test(published_steps_take_at_most_three_tenths_longer_than_predicted),
        cmocka_unit_test(no_plan_gets_below_its_bounds_and_what_they_discard_is_slower),
        cmocka_unit_test(of_512_ranks_few_settings_are_planned),
        cmocka_unit_test(what_a_search_finds_fits_and_the_fastest_comes_first),
        cmocka_unit_test(a_search_that_finds_nothing_says_what_would_fit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
