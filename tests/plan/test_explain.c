/* Claims about explain: its sums are those of the ledger, and its reasons the right ones. */
/* ctest: device-free */
#include "train/loop_test.h"

typedef struct {
    rp_ctx *ctx;
    rp_report report;
    rp_recipe *recipe;
    rp_forecast f;
    rp_status status;
} explained;

/* `more` stands behind twelve lines; DIR in it is the test's folder. */
static rp_recipe *read_recipe(rp_ctx *ctx, const char *model, const char *more, rp_report *report)
{
    rp_recipe *recipe = NULL;
    const char *at    = strstr(more, "DIR");
    char text[4096], placed[2048];

    if (at) {
        snprintf(placed, sizeof placed, "%.*s%s%s", (int)(at - more), more, dir.path, at + 3);
        more = placed;
    }

    snprintf(text, sizeof text,
             "model: {config: %s/%s.json}\ndataset: {path: %s/tokens.bin, format: tokens}\nmax_seq_len: 16\nbatch_size: 2\n"
             "epochs: 1\nmax_steps: 2\nseed: 3\noptimizer:\n  lr: 1e-3\nthreads: 1\noutput_dir: %s/out\n# 12\n%s", dir.path, model,
             dir.path, dir.path, more);
    rp__report_open(report, ctx);
    assert_ok(ctx, rp__recipe_read(ctx, "r.yaml", text, (int64_t)strlen(text), 0, NULL, report, &recipe));
    return recipe;
}

static explained explain_it(const char *model, const char *more)
{
    explained x = { .ctx = test_ctx(&(rp_ctx_options){ .threads = 1, .shapes_only = true }) };

    x.recipe = read_recipe(x.ctx, model, more, &x.report);
    x.status = rp__recipe_forecast(x.ctx, x.recipe, &(rp_forecast_options){ .trials = true }, &x.report, &x.f);
    return x;
}

static void drop(explained *x)
{
    rp__forecast_close(&x->f);
    rp__recipe_free(x->recipe);
    rp__report_close(&x->report);
    test_ctx_free(x->ctx);
}

/* What the trainer of the recipe predicts, and what its second step measures. */
static rp_step_usage predicted(const char *model, const char *more, rp_metrics *measured)
{
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .threads = 1, .seed = 3 });
    rp_trainer *trainer;
    rp_report report;

    rp_recipe *recipe = read_recipe(ctx, model, more, &report);
    assert_ok(ctx, rp__trainer_new(ctx, recipe, &report, &trainer));
    rp_step_usage found = rp__trainer_info(trainer)->rehearsal;
    for (int i = 0; i < 2; i++) assert_ok(ctx, rp__trainer_step(trainer, measured));
    rp__trainer_free(trainer);
    rp__recipe_free(recipe);
    rp__report_close(&report);
    test_ctx_free(ctx);
    temp_remove(&dir);
    dir = loop_dir();
    return found;
}

#define AC "activation_checkpointing: "

static const struct { const char *name, *model, *text; } cases[] = {
    { "none", "llama", "" },
    { "full", "llama", "enable_activation_checkpointing: true\n" },
    { "every 2nd", "llama", AC "{mode: selective_layer, every: 2}\n" },
    { "by op", "llama", AC "{mode: selective_op}\n" },
    { "conditions", "gpt2", AC "{conditions: [{path: '*.mlp'}, {path: norm}]}\n" },
    { "rules", "llama", AC "{rules: [{op: swiglu, fate: recompute}, {type: Norm, fate: prefer_recompute}]}\n" },
    { "rules in regions", "gpt2", AC "{mode: full, rules: [{op: matmul, every: 2, fate: keep}, {op: attention, fate: recompute}]}\n" },
    { "nested", "llama", AC "{conditions: [{layers: [0-1]}, {path: '*.attn'}, {module_type: Norm}]}\n" },
    { "offload", "llama", AC "{rules: [{op: matmul, fate: offload}], offload: {to: memory}}\n" },
    { "offload to disk", "gpt2", AC "{rules: [{op: gelu, fate: offload}, {path: layers.1, fate: offload}], offload: {path: DIR/slots}}\n" },
    { "offload and regions", "llama", AC "{mode: full, rules: [{path: '*.attn', fate: prefer_offload}], offload: {to: memory}}\n" },
    { "bf16, in backward", "gpt2", "dtype: bf16\ngrad_dtype: fp32\noptimizer_in_bwd: true\n" AC "{mode: full}\n" },
    { "accumulated", "gpt2", "gradient_accumulation_steps: 2\nclip_grad_norm: 1\n" AC "{mode: selective_layer, every: 2}\n" },
};

/* ---- sums ---- */

static void check_slots(const rp_explain *e, const char *name, const rp_step_usage *found)
{
    int64_t saved = 0, offload = 0;

    for (int i = 0; i < e->n_slots; i++) {
        saved += e->slot[i].saved ? e->slot[i].bytes : 0;
        offload += e->slot[i].offload ? e->slot[i].bytes : 0;
        if (e->slot[i].saved != (e->slot[i].fate == RP_KEEP))
            fail_msg("%s: %s %s is of fate %d, saved %d", name, e->slot[i].path, e->slot[i].op, (int)e->slot[i].fate, e->slot[i].saved);
    }
    if (saved != found->saved_bytes || saved != e->saved_bytes)
        fail_msg("%s: slots sum to %" PRId64 ", explained are %" PRId64 ", predicted %" PRId64, name, saved, e->saved_bytes,
                 found->saved_bytes);
    assert_int_equal(offload, e->offload_bytes);
    assert_int_equal(e->recompute_flops, found->recompute_flops);
    assert_int_equal(e->step_flops, found->step_flops);
}

static void check_peak(const rp_explain *e, const rp_step_usage *found)
{
    int64_t owned[RP_MEM_CLASSES] = { 0 }, sum = 0;

    for (int i = 0; i < e->n_owners; i++) {
        owned[e->owner[i].mem_class] += e->owner[i].bytes;
        assert_true(e->owner[i].n > 0 && e->owner[i].bytes > 0);
    }
    for (int c = 0; c < RP_MEM_CLASSES; c++) {
        assert_int_equal(owned[c], e->peak_at[c]);
        assert_int_equal(found->memory.peak_at[c], e->peak_at[c]);
        sum += e->peak_at[c];
    }
    assert_int_equal(sum, e->peak_bytes);
    assert_int_equal(found->memory.peak_bytes, e->peak_bytes);
}

static void check_modules(const rp_explain *e)
{
    int64_t peak = 0, saved = 0, offload = 0, flops = 0;
    int n_slots  = 0;

    for (int i = 0; i < e->n_modules; i++) {
        for (int c = 0; c < RP_MEM_CLASSES; c++) peak += e->module[i].peak_at[c];
        saved += e->module[i].saved_bytes;
        offload += e->module[i].offload_bytes;
        flops += e->module[i].recompute_flops;
        n_slots += e->module[i].n_slots;
    }
    assert_int_equal(peak, e->peak_bytes);
    assert_int_equal(saved, e->saved_bytes);
    assert_int_equal(offload, e->offload_bytes);
    assert_int_equal(flops, e->recompute_flops);
    assert_int_equal(n_slots, e->n_slots);
}

/* ---- calls that the device leaves to the host ---- */

static int64_t fallbacks(const char *device, const char *family)
{
    explained x = { .ctx = test_ctx(&(rp_ctx_options){ .device = device, .threads = 1, .shapes_only = true }) };
    char from[1024], to[1024];

    snprintf(from, sizeof from, "%s/tests/golden/models/%s/config.json", RP_SOURCE_DIR, family);
    snprintf(to, sizeof to, "%s/family.json", dir.path);
    assert_int_equal(symlink(from, to), 0);
    x.recipe = read_recipe(x.ctx, "family", "", &x.report);
    assert_ok(x.ctx, rp__recipe_forecast(x.ctx, x.recipe, &(rp_forecast_options){ 0 }, &x.report, &x.f));
    assert_int_equal(unlink(to), 0);
    int64_t n = x.f.explain.host_fallback_ops;
    drop(&x);
    return n;
}

static void apply_case(rp_ctx *ctx, const rp_op *op, const rp_op_case *c, rp_dtype dtype)
{
    rp_tensor *in[RP_MAX_IN] = { 0 }, *out[RP_MAX_OUT] = { 0 };
    int n = 0;

    for (; n < RP_MAX_IN && c->in[n][0]; n++) {
        rp_meta m = { .dtype = c->int_inputs & RP_IN(n) ? RP_I32 : dtype };
        while (m.ndim < RP_MAX_DIM && c->in[n][m.ndim]) m.dim[m.ndim] = c->in[n][m.ndim], m.ndim++;
        assert_ok(ctx, rp_tensor_new(ctx, &m, RP_MEM_TEMP, &in[n]));
    }
    assert_ok(ctx, rp_apply(ctx, op->name, c->attr, in, n, out));
    for (int i = 0; i < RP_MAX_IN; i++) rp_tensor_unref(in[i]);
    for (int i = 0; i < RP_MAX_OUT; i++) rp_tensor_unref(out[i]);
}

/* After a call of every valid case of the op. */
static rp_tape_stats stats_of_cases(const char *device, const char *name, rp_dtype dtype)
{
    rp_ctx *ctx     = test_ctx(&(rp_ctx_options){ .device = device, .threads = 1, .shapes_only = true });
    const rp_op *op = rp__op_find(name);
    rp_tape_stats stats;

    for (int i = 0; i < op->n_case; i++)
        if (op->cases[i].expect == RP_OK) apply_case(ctx, op, &op->cases[i], dtype);
    rp__tape_stats(ctx, &stats);
    test_ctx_free(ctx);
    assert_true(stats.n_calls > 0);
    return stats;
}

static void calls_without_kernels_of_the_device_are_counted(void **state)
{
    static const char *const families[] = { "llama3", "gpt2", "gemma3", "mixtral_balanced", "qwen3_moe_balanced" };
    static const char *const ops[]      = { "add", "sub", "mul", "div", "where", "tanh", "sigmoid", "exp", "log", "gather", "batched_matmul", "mse" };

    (void)state;
    for (int i = 0; i < RP_COUNT(families); i++) {
        assert_int_equal(fallbacks("cpu", families[i]), 0);
        if (fallbacks("emu", families[i])) fail_msg("%s: %" PRId64 " calls", families[i], fallbacks("emu", families[i]));
    }
    for (int i = 0; i < RP_COUNT(ops); i++) {
        rp_tape_stats wide = stats_of_cases("emu", ops[i], RP_F64);
        assert_int_equal(stats_of_cases("emu", ops[i], RP_F32).host_fallback_ops, 0);
        assert_int_equal(stats_of_cases("emu", ops[i], RP_BF16).host_fallback_ops, 0);
        assert_int_equal(wide.host_fallback_ops, wide.n_calls);       /* no kernel takes fp64 */
        assert_int_equal(stats_of_cases("cpu", ops[i], RP_F64).host_fallback_ops, 0);
    }
}

static void slots_classes_owners_and_modules_sum_to_what_a_run_measures(void **state)
{
    (void)state;
    for (int i = 0; i < RP_COUNT(cases); i++) {
        rp_metrics measured;
        rp_step_usage found = predicted(cases[i].model, cases[i].text, &measured);
        explained x        = explain_it(cases[i].model, cases[i].text);
        assert_ok(x.ctx, x.status);
        check_slots(&x.f.explain, cases[i].name, &found);
        check_peak(&x.f.explain, &found);
        check_modules(&x.f.explain);
        assert_int_equal(measured.saved_bytes, x.f.explain.saved_bytes);
        assert_int_equal(measured.peak_memory_active, x.f.explain.peak_bytes);
        assert_int_equal(measured.recompute_flops, x.f.explain.recompute_flops);
        assert_int_equal(x.f.explain.offload_bytes > 0, strstr(cases[i].name, "offload") != NULL);
        drop(&x);
    }
}

/* ---- reasons ---- */

static const rp_explain_slot *slot_of(const rp_explain *e, const char *path, const char *op, int call, int output)
{
    for (int i = 0; i < e->n_slots; i++) {
        const rp_explain_slot *s = &e->slot[i];
        if (!strcmp(s->path, path) && !strcmp(s->op, op) && s->call == call && s->output == output && !s->by_product) return s;
    }
    fail_msg("no slot of %s %s, call %d, output %d", path, op, call, output);
    return NULL;
}

static void check_reason(const rp_explain *e, const char *path, const char *op, rp_fate fate, const char *by, const char *region)
{
    const rp_explain_slot *s = slot_of(e, path, op, !strcmp(op, "add"), 0);

    assert_int_equal(s->fate, fate);
    assert_string_equal(s->by, by);
    if (region) assert_string_equal(s->region, region);
    else assert_null(s->region);
}

static void the_reason_of_a_fate_is_its_rule_its_region_or_who_reads_it(void **state)
{
    (void)state;
    explained x = explain_it("llama",
                             "activation_checkpointing:\n"                                  /* line 13 */
                             "  conditions: [{layers: [0]}, {path: layers.0.mlp}]\n"
                             "  offload: {to: memory}\n"
                             "  rules:\n"
                             "  - {path: layers.0.attn, op: attention, fate: keep}\n"
                             "  - {path: layers.1.mlp, op: swiglu, fate: recompute}\n"
                             "  - {path: layers.1.mlp.up, fate: offload}\n"
                             "  - {path: layers.0, op: add, call: 1, fate: prefer_recompute}\n");

    assert_ok(x.ctx, x.status);
    check_reason(&x.f.explain, "layers.0.attn", "attention", RP_KEEP, "r.yaml:17", "layers.0");
    check_reason(&x.f.explain, "layers.0.mlp.up", "matmul", RP_RECOMPUTE, "region layers.0.mlp", "layers.0.mlp");
    check_reason(&x.f.explain, "layers.0.attn_norm", "rmsnorm", RP_RECOMPUTE, "region layers.0", "layers.0");
    check_reason(&x.f.explain, "layers.0", "add", RP_KEEP, "r.yaml:20, but read outside layers.0", "layers.0");
    check_reason(&x.f.explain, "layers.1.mlp", "swiglu", RP_RECOMPUTE, "r.yaml:18", NULL);
    check_reason(&x.f.explain, "layers.1.mlp.up", "matmul", RP_OFFLOAD, "r.yaml:19", NULL);
    check_reason(&x.f.explain, "layers.1.attn", "attention", RP_KEEP, "kept: no region", NULL);
    assert_int_equal(x.f.explain.n_regions, 2);
    drop(&x);

    x = explain_it("llama", "enable_activation_checkpointing: true\n");
    assert_ok(x.ctx, x.status);
    check_reason(&x.f.explain, "layers.0", "add", RP_KEEP, "kept: read outside layers.0", "layers.0");
    drop(&x);
}

static void a_rule_that_matches_no_slot_is_a_note(void **state)
{
    (void)state;
    explained x = explain_it("llama", "activation_checkpointing:\n  rules:\n  - {op: matmul, fate: keep}\n"
                                      "  - {path: layers.1, op: matmul, fate: recompute}\n  - {op: gelu, fate: keep}\n");
    static const char *const notes[] = {
        "r.yaml:16: note: this rule has no effect: no slot that earlier rules leave matches it",
        "r.yaml:17: note: this model never calls the op 'gelu'",
    };
    const rp_report_item *item = x.report.first;
    char line[1024];

    assert_ok(x.ctx, x.status);
    for (int i = 0; i < RP_COUNT(notes); i++, item = item->next) {
        assert_non_null(item);
        assert_string_equal(rp__report_line(item, line, sizeof line), notes[i]);
    }
    assert_null(item);
    drop(&x);
}

/* ---- the peak, lines, other rules ---- */

static void the_peak_has_a_place(void **state)
{
    (void)state;
    explained x      = explain_it("llama", AC "{mode: full}\n");
    bool is_replayed = false;

    assert_ok(x.ctx, x.status);
    assert_true(!strcmp(x.f.explain.peak_event, "backward") || !strcmp(x.f.explain.peak_event, "replay") || !strcmp(x.f.explain.peak_event, "forward"));
    assert_true(*x.f.explain.peak_op != 0);
    for (int i = 0; i < x.f.explain.n_owners; i++) {
        const rp_explain_owner *o = &x.f.explain.owner[i];
        is_replayed               = is_replayed || rp__ends_with(o->name, ", replayed");
        if (i) assert_true(o->bytes <= x.f.explain.owner[i - 1].bytes);
        if (o->mem_class == RP_MEM_GRAD) assert_true(rp__ends_with(o->path, ".weight"));
        if (o->mem_class == RP_MEM_PARAM) assert_string_equal(o->name, "parameters");
    }
    assert_int_equal(is_replayed, strcmp(x.f.explain.peak_event, "forward") != 0 && !strncmp(x.f.explain.peak_path, "layers", 6));
    assert_string_equal(x.f.explain.module[0].path, "tok_embeddings");
    assert_string_equal(x.f.explain.module[1].path, "layers.0");
    assert_string_equal(x.f.explain.module[2].path, "layers.1");
    drop(&x);
}

static void lines_stand_for_every_slot_once(void **state)
{
    (void)state;
    explained x = explain_it("llama", AC "{mode: full, rules: [{path: layers.1.attn, fate: keep}]}\n");
    rp_explain_row *row;
    int64_t bytes = 0, of_slots = 0;
    int n, slots = 0;

    assert_ok(x.ctx, x.status);
    assert_ok(x.ctx, rp__explain_rows(&x.f.explain, &row, &n));
    for (int i = 0; i < n; i++) {
        slots += row[i].n;
        bytes += row[i].n * row[i].slot->bytes;
        if (row[i].n > 1) assert_non_null(strstr(row[i].path, ".*"));
        else assert_string_equal(row[i].path, row[i].slot->path);
        if (i && row[i].slot->fate == row[i - 1].slot->fate)
            assert_true(row[i].slot->bytes * row[i].n <= row[i - 1].slot->bytes * row[i - 1].n);
    }
    for (int i = 0; i < x.f.explain.n_slots; i++) of_slots += x.f.explain.slot[i].bytes;
    assert_int_equal(slots, x.f.explain.n_slots);
    assert_int_equal(bytes, of_slots);
    assert_true(n < x.f.explain.n_slots);
    drop(&x);
}

/* What is said of another rule is what the recipe with that rule does. */
static void a_tried_rule_does_what_is_said_of_it(void **state)
{
    (void)state;
    static const char *const rules[] = { "", "{op: attention, fate: keep}" };
    int n_tried = 0;

    for (int k = 0; k < RP_COUNT(rules); k++) {
        char text[512];
        snprintf(text, sizeof text, AC "{mode: %s, rules: [%s]}\n", k ? "selective_op" : "none", rules[k]);
        explained before = explain_it("llama", text);
        assert_ok(before.ctx, before.status);
        for (int i = 0; i < before.f.explain.n_trials; i++, n_tried++) {
            const rp_explain_trial *t = &before.f.explain.trial[i];
            snprintf(text, sizeof text, AC "{mode: %s, rules: [{path: '%s', op: %s, fate: recompute}%s%s]}\n", k ? "selective_op" : "none",
                     t->path, t->op, k ? ", " : "", rules[k]);
            explained after = explain_it("llama", text);
            assert_ok(after.ctx, after.status);
            assert_true(t->saved_bytes > 0);
            assert_int_equal(before.f.explain.saved_bytes - after.f.explain.saved_bytes, t->saved_bytes);
            assert_int_equal(before.f.explain.peak_bytes - after.f.explain.peak_bytes, t->peak_bytes);
            assert_int_equal(after.f.explain.recompute_flops - before.f.explain.recompute_flops, t->flops);
            drop(&after);
        }
        drop(&before);
    }
    assert_true(n_tried > 0);
}

/* ---- what can go wrong ---- */

static void a_failing_allocation_is_reported_and_leaves_nothing(void **state)
{
    (void)state;
    rp_ctx *ctx       = test_ctx(&(rp_ctx_options){ .threads = 1, .shapes_only = true });
    test_faults fault = { .each = 6 };
    rp_report report, reported;
    rp_recipe *recipe = read_recipe(ctx, "llama", AC "{mode: selective_op}\n", &report);

    while (!fault.over) {
        rp_forecast f;
        rp__report_open(&reported, ctx);
        test_fault_begin(&fault, ctx);
        test_fault_end(&fault, rp__recipe_forecast(ctx, recipe, &(rp_forecast_options){ .trials = true }, &reported, &f));
        rp__forecast_close(&f);
        rp__report_close(&reported);
    }
    assert_true(fault.failed > 20);
    rp__recipe_free(recipe);
    rp__report_close(&report);
    test_ctx_free(ctx);
}

static void a_recipe_that_does_not_fit_its_model_is_refused(void **state)
{
    (void)state;
    explained x = explain_it("llama", AC "{rules: [{path: layers.7, fate: keep}]}\n");

    assert_int_equal(x.status, RP_ERR_CONFIG);
    assert_int_equal(x.report.n_errors, 1);
    assert_int_equal(x.f.explain.n_slots, 0);
    drop(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(slots_classes_owners_and_modules_sum_to_what_a_run_measures),
        TEST(calls_without_kernels_of_the_device_are_counted),
        TEST(the_reason_of_a_fate_is_its_rule_its_region_or_who_reads_it),
        TEST(a_rule_that_matches_no_slot_is_a_note),
        TEST(the_peak_has_a_place),
        TEST(lines_stand_for_every_slot_once),
        TEST(a_tried_rule_does_what_is_said_of_it),
        TEST(a_failing_allocation_is_reported_and_leaves_nothing),
        TEST(a_recipe_that_does_not_fit_its_model_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
