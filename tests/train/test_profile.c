/* Claims about a run with `profile: true`: what its trace and its table say, and that nothing else changes. */
/* ctest: device-free */
#include "loop_test.h"

#include <math.h>

#include "train/profile.h"

/* ---- a trace, read back ---- */

typedef struct {
    double ts, end;
    const char *name, *cat;
    const json_t *args;
} span;

typedef struct { json_t *root; span *span; int n; } trace;

static double number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    if (!json_is_number(value)) fail_msg("no number '%s'", key);
    return json_number_value(value);
}

/* What begins first comes first, of those that begin at once the longest. */
static int in_order(const void *a, const void *b)
{
    const span *x = a, *y = b;

    if (x->ts != y->ts) return x->ts < y->ts ? -1 : 1;
    return x->end == y->end ? 0 : x->end > y->end ? -1 : 1;
}

static trace trace_of(const char *out)
{
    json_error_t error;
    json_t *event;
    size_t i;
    trace t = { .root = json_load_file(temp_path(&dir, out), 0, &error) };

    if (!t.root) fail_msg("%s:%d: %s", out, error.line, error.text);
    const json_t *events = json_object_get(t.root, "traceEvents");
    t.span = calloc(json_array_size(events), sizeof *t.span);
    json_array_foreach(events, i, event) {
        if (strcmp(json_string_value(json_object_get(event, "ph")), "X")) continue;
        double ts     = number(event, "ts");
        t.span[t.n++] = (span){ ts, ts + number(event, "dur"), json_string_value(json_object_get(event, "name")),
                                json_string_value(json_object_get(event, "cat")), json_object_get(event, "args") };
    }
    qsort(t.span, (size_t)t.n, sizeof *t.span, in_order);
    return t;
}

static void trace_close(trace *t)
{
    free(t->span);
    json_decref(t->root);
}

/* How many spans of a category, or with a name, or both; NULL: any. */
static int count(const trace *t, const char *cat, const char *name)
{
    int n = 0;

    for (int i = 0; i < t->n; i++) n += (!cat || !strcmp(t->span[i].cat, cat)) && (!name || !strcmp(t->span[i].name, name));
    return n;
}

static bool holds_others(const span *s) { return !strcmp(s->cat, "step") || !strcmp(s->cat, "part"); }

/* ---- claims ---- */

static void steps_two_to_four_are_profiled(void **state)
{
    (void)state;
    run_whole(&dir, "llama", "out", RUN("profile=true", "max_steps=6"));
    trace t = trace_of("out/profile.trace.json");

    assert_int_equal(count(&t, "step", NULL), 3);
    assert_int_equal(count(&t, "step", "step 2"), 1);
    assert_int_equal(count(&t, "step", "step 4"), 1);
    assert_int_equal(count(&t, "part", "forward"), 3);
    assert_int_equal(count(&t, "part", "backward"), 3);
    assert_int_equal(count(&t, "part", "update"), 3);
    trace_close(&t);
}

static void a_resumed_run_counts_its_own_steps_and_a_run_of_one_step_has_that_one(void **state)
{
    (void)state;
    run_whole(&dir, "llama", "out", RUN("profile=true", "max_steps=1"));
    trace t = trace_of("out/profile.trace.json");
    assert_int_equal(count(&t, "step", NULL), 1);
    assert_int_equal(count(&t, "step", "step 1"), 1);
    trace_close(&t);
    run_whole(&dir, "llama", "out", RUN("profile=true", "max_steps=3", "resume=auto"));
    t = trace_of("out/profile.trace.json");
    assert_int_equal(count(&t, "step", NULL), 1);
    assert_int_equal(count(&t, "step", "step 3"), 1);
    trace_close(&t);
}

/* One thread: what is not a step or a part of one has nothing in it, and no two spans cross. */
static void spans_nest_and_their_sum_is_within_the_steps(void **state)
{
    (void)state;
    run_whole(&dir, "gpt2", "out", RUN("profile=true", "activation_checkpointing.conditions=[{layers: [0]}, {path: \"*.attn\"}]"));
    trace t       = trace_of("out/profile.trace.json");
    double inside = 0, steps = 0;
    const span *open[8];
    int depth = 0;

    for (int i = 0; i < t.n; i++) {
        const span *s = &t.span[i];
        while (depth && open[depth - 1]->end <= s->ts) depth--;
        if (depth && s->end > open[depth - 1]->end) fail_msg("%s at %g crosses %s", s->name, s->ts, open[depth - 1]->name);
        if (depth && !holds_others(open[depth - 1])) fail_msg("%s at %g is inside %s", s->name, s->ts, open[depth - 1]->name);
        if (!depth) assert_string_equal(s->cat, "step");
        if (!strcmp(s->cat, "step")) steps += s->end - s->ts;
        else if (!holds_others(s)) inside += s->end - s->ts;
        assert_true(depth < RP_COUNT(open));
        open[depth++] = s;
    }
    assert_true(inside > 0.2 * steps);
    assert_true(inside <= steps);
    trace_close(&t);
}

static void ops_have_paths_shapes_work_and_rates(void **state)
{
    (void)state;
    run_whole(&dir, "llama", "out", RUN("profile=true"));
    trace t  = trace_of("out/profile.trace.json");
    bool met = false;

    for (int i = 0; i < t.n; i++) {
        const span *s    = &t.span[i];
        const char *path = json_string_value(json_object_get(s->args, "path"));
        if (strcmp(s->name, "matmul") || strcmp(s->cat, "forward") || strcmp(path, "layers.1.mlp.up")) continue;
        met = true;
        assert_string_equal(json_string_value(json_object_get(s->args, "inputs")), "fp32 [2, 16, 32], fp32 [48, 32]");
        assert_true(number(s->args, "flops") == 2.0 * 2 * 16 * 32 * 48);
        assert_true(number(s->args, "bytes") > 0);
        if (s->end - s->ts > 1)        /* rates have three digits behind the point, times, too */
            assert_true(fabs(number(s->args, "GFLOP/s") / (number(s->args, "flops") / (s->end - s->ts) * 1e-3) - 1) < 0.01);
    }
    assert_true(met);
    trace_close(&t);
}

static void replays_are_marked_if_there_are_some(void **state)
{
    (void)state;
    run_whole(&dir, "llama", "kept", RUN("profile=true"));
    run_whole(&dir, "llama", "full", RUN("profile=true", "enable_activation_checkpointing=true"));
    trace kept = trace_of("kept/profile.trace.json"), full = trace_of("full/profile.trace.json");

    assert_int_equal(count(&kept, "replay", NULL), 0);
    assert_true(count(&full, "replay", "swiglu") == 3 * 2);
    assert_true(count(&full, "replay", "attention") == 3 * 2);
    assert_int_equal(count(&full, "replay", "linear_cross_entropy"), 0);
    assert_int_equal(count(&full, "forward", NULL), count(&kept, "forward", NULL));
    assert_int_equal(count(&full, "backward", NULL), count(&kept, "backward", NULL));
    trace_close(&kept);
    trace_close(&full);
}

static void updates_batches_and_moves_are_there(void **state)
{
    (void)state;
    char set[300];

    snprintf(set, sizeof set, "activation_checkpointing.offload.path=%s", temp_path(&dir, "away"));
    run_whole(&dir, "llama", "out", RUN("profile=true", "clip_grad_norm=1", "gradient_accumulation_steps=2", set,
                                        "activation_checkpointing.rules=[{op: swiglu, fate: offload}]"));
    trace t      = trace_of("out/profile.trace.json");
    int n_params = 2 * 9 + 2;       /* of two blocks; the table, which is the head, too, and the last norm */

    assert_int_equal(count(&t, "update", "adamw"), 3 * n_params);
    assert_int_equal(count(&t, "update", "norm"), 3 * n_params);
    assert_int_equal(count(&t, "data", "batch"), 3 * 2);
    assert_true(count(&t, "offload", "put") > 0);
    assert_int_equal(count(&t, "offload", "put"), count(&t, "offload", "fetch"));
    trace_close(&t);
}

/* In fp32: the bytes of the weights, twice, and of both moments, twice; and the gradients. */
static void an_update_reads_and_writes_all_but_the_gradients(void **state)
{
    (void)state;
    run_whole(&dir, "llama", "out", RUN("profile=true"));
    trace t      = trace_of("out/profile.trace.json");
    double bytes = 0;
    size_t all;
    uint64_t head;
    char *model = file_bytes(&dir, "out/final/model.safetensors", &all);

    memcpy(&head, model, sizeof head);
    for (int i = 0; i < t.n; i++)
        if (!strcmp(t.span[i].cat, "update") && !strcmp(t.span[i].name, "adamw")) bytes += number(t.span[i].args, "bytes");
    assert_true(bytes == 3 * 7 * (double)(all - sizeof head - head));
    free(model);
    trace_close(&t);
}

static void the_ledger_is_a_counter_that_ends_where_the_steps_began(void **state)
{
    (void)state;
    run_whole(&dir, "llama", "out", RUN("profile=true"));
    trace t = trace_of("out/profile.trace.json");
    double first = -1, last = -1, most = 0;
    json_t *event;
    size_t i;

    json_array_foreach(json_object_get(t.root, "traceEvents"), i, event) {
        if (strcmp(json_string_value(json_object_get(event, "ph")), "C")) continue;
        last  = number(json_object_get(event, "args"), "bytes");
        first = first < 0 ? last : first;
        most  = last > most ? last : most;
    }
    assert_true(first > 0);
    assert_true(last >= first);         /* the last parameter's gradient is dropped after its update */
    assert_true(most > last);
    trace_close(&t);
}

static void the_table_has_a_line_by_op_and_pass_that_sum_to_the_step(void **state)
{
    (void)state;
    run_whole(&dir, "llama", "out", RUN("profile=true", "enable_activation_checkpointing=true"));
    size_t bytes;
    char *text = file_bytes(&dir, "out/profile.txt", &bytes), name[64], pass[64];
    double share, calls, seconds, sum = 0;
    int n = 0;

    assert_non_null(strstr(text, "steps 2 to 4: "));
    assert_non_null(strstr(text, " page faults "));
    assert_non_null(strstr(text, "taken from the ledger"));
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = 0;
        if (sscanf(line, "%63s %63s %lf %lf %lf %%", name, pass, &calls, &seconds, &share) == 5) {
            sum += share;
            n++;
            assert_true(calls > 0);
        } else if (sscanf(line, "between %lf %lf %%", &seconds, &share) == 2) {
            sum += share;
            break;
        }
    }
    assert_true(n > 15);
    if (fabs(sum - 100) > 0.06 * (n + 1)) fail_msg("shares sum to %g %%", sum);
    free(text);
}

static void the_table_of_passes_has_each_pass_of_the_ops_and_sums_to_the_step(void **state)
{
    (void)state;
    run_whole(&dir, "llama", "out", RUN("profile=true", "enable_activation_checkpointing=true"));
    size_t bytes;
    char *text = file_bytes(&dir, "out/profile.txt", &bytes), pass[64], *line = strstr(text, "\npass "), *end;
    double share, seconds, sum = 0;
    int n = 0;

    assert_non_null(line);
    for (line = strchr(line + 1, '\n') + 1; (end = strchr(line, '\n')) && end > line; line = end + 1) {
        *end = 0;
        assert_int_equal(sscanf(line, "%63s %lf %lf %%", pass, &seconds, &share), 3);
        *end = '\n';
        sum += share;
        n++;
    }
    assert_int_equal(n, 6);             /* data, forward, replay, backward, update, between */
    if (fabs(sum - 100) > 0.06 * n) fail_msg("shares sum to %g %%", sum);
    free(text);
}

static void a_profile_changes_no_bit_and_no_byte_of_memory(void **state)
{
    (void)state;
    run_whole(&dir, "gpt2", "plain", RUN("dtype=bf16", "enable_activation_checkpointing=true"));
    run_whole(&dir, "gpt2", "watched", RUN("dtype=bf16", "enable_activation_checkpointing=true", "profile=true"));
    assert_same_metrics(&dir, "plain", "watched");
    assert_same_final(&dir, "plain", "watched");
    assert_false(is_there(&dir, "plain/profile.txt"));
    assert_false(is_there(&dir, "plain/profile.trace.json"));
}

static void outside_the_profiled_steps_nobody_watches(void **state)
{
    (void)state;
    run r = run_open(&dir, "llama", "out", RUN("profile=true"));
    rp_metrics line;

    assert_ok(r.ctx, r.status);
    for (int i = 0; i < 6; i++) {
        assert_ok(r.ctx, rp__trainer_step(r.trainer, &line));
        assert_null(r.ctx->watch);
        assert_int_equal(is_there(&dir, "out/profile.txt"), i >= 3);
    }
    run_close(&r);
}

static void an_interrupted_run_leaves_the_profile_of_what_there_was(void **state)
{
    (void)state;
    volatile int stop = 1;
    run r             = run_open(&dir, "llama", "out", RUN("profile=true"));
    rp_metrics line;

    assert_ok(r.ctx, r.status);
    for (int i = 0; i < 3; i++) assert_ok(r.ctx, rp__trainer_step(r.trainer, &line));
    assert_int_equal(rp__trainer_run(r.trainer, &stop, NULL), RP_ERR_INTERRUPTED);
    run_close(&r);
    trace t = trace_of("out/profile.trace.json");
    assert_int_equal(count(&t, "step", NULL), 2);
    trace_close(&t);
}

/* ---- kinds ---- */

static rp_cost by_grad(const rp_op_meta *m, rp_pass pass)
{
    return (rp_cost){ .flops = (m->in_grad[0] ? 7 : 3) * (pass == RP_BACKWARD ? 2 : 1), .read_bytes = rp_meta_bytes(&m->in[0]) };
}

static const rp_op costly = { .name = "costly", .n_in = 1, .n_out = 1, .cost = by_grad };

static const char *text_in(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

#define FORWARD RP_DOING_FORWARD, "forward"
#define BACKWARD RP_DOING_BACKWARD, "backward"
#define UPDATE RP_DOING_UPDATE, "update"

/* Spans that differ in one property have a line each, whichever it is. */
static void the_texts_of_a_span_are_its_own(void **state)
{
    (void)state;
    static const struct { rp_doing doing; const char *cat, *name, *path; rp_meta in[2]; bool grad; int64_t bytes, flops; const char *inputs; } spans[] = {
        { FORWARD, "a", "p", { { RP_F32, 2, { 4, 6 } } }, false, 96, 3, "fp32 [4, 6]" },
        { BACKWARD, "a", "p", { { RP_F32, 2, { 4, 6 } } }, false, 96, 6, "fp32 [4, 6]" },
        { FORWARD, "b", "p", { { RP_F32, 2, { 4, 6 } } }, false, 96, 3, "fp32 [4, 6]" },
        { FORWARD, "a", "q", { { RP_F32, 2, { 4, 6 } } }, false, 96, 3, "fp32 [4, 6]" },
        { FORWARD, "a", "p", { { RP_BF16, 2, { 4, 6 } } }, false, 48, 3, "bf16 [4, 6]" },
        { FORWARD, "a", "p", { { RP_F32, 2, { 6, 4 } } }, false, 96, 3, "fp32 [6, 4]" },
        { FORWARD, "a", "p", { { RP_F32, 2, { 4, 5 } } }, false, 80, 3, "fp32 [4, 5]" },
        { FORWARD, "a", "p", { { RP_F32, 1, { 4 } } }, false, 16, 3, "fp32 [4]" },
        { FORWARD, "a", "p", { { RP_F32, 2, { 4, 6 } } }, true, 96, 7, "fp32 [4, 6]" },
        { BACKWARD, "a", "p", { { RP_F32, 2, { 4, 6 } } }, true, 96, 14, "fp32 [4, 6]" },
        { FORWARD, "a", "p", { { RP_F32, 2, { 4, 6 } }, { RP_F32, 1, { 4 } } }, false, 96, 3, "fp32 [4, 6], fp32 [4]" },
        { FORWARD, "a", "p", { { RP_F32, 2, { 4, 6 } }, { RP_F32, 1, { 5 } } }, false, 96, 3, "fp32 [4, 6], fp32 [5]" },
        { UPDATE, "a", "p", { { 0 } }, false, 10, 0, "" },
        { UPDATE, "a", "p", { { 0 } }, false, 20, 0, "" },
        { UPDATE, "a", "q", { { 0 } }, false, 20, 0, "" },
        { UPDATE, "a", "a \"path\" \\ \x01\x1f\t\n \xc3\xa9", { { 0 } }, false, 30, 0, "" },
    };
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .threads = 1 });
    rp_profile *p;
    json_error_t error;
    json_t *event;
    size_t i, n = 0;

    assert_ok(ctx, rp__profile_new(ctx, &p));
    rp__profile_step_begin(p, 2);
    for (i = 0; i < 2 * RP_COUNT(spans); i++) {
        int k        = (int)(i % RP_COUNT(spans));
        rp_op_meta m = { .ctx = ctx, .op = &costly, .n_in = spans[k].in[1].ndim ? 2 : 1, .in = { spans[k].in[0], spans[k].in[1] },
                         .in_grad = { spans[k].grad } };
        rp__watch_end(ctx, (rp_span){ .doing = spans[k].doing, .name = spans[k].name, .path = spans[k].path, .call = spans[k].in[0].ndim ? &m : NULL,
                                      .bytes = spans[k].in[0].ndim ? 0 : spans[k].bytes, .began = rp__watch_begin(ctx) });
    }
    rp__profile_step_end(p, 1, &(rp_tape_stats){ 0 });
    assert_ok(ctx, rp__profile_write(p, dir.path));
    json_t *root = json_load_file(temp_path(&dir, "profile.trace.json"), 0, &error);
    assert_non_null(root);
    json_array_foreach(json_object_get(root, "traceEvents"), i, event) {
        const json_t *args = json_object_get(event, "args");
        size_t k           = n % RP_COUNT(spans);
        if (strcmp(text_in(event, "ph"), "X") || !strcmp(text_in(event, "cat"), "step")) continue;
        assert_string_equal(text_in(event, "cat"), spans[k].cat);
        assert_string_equal(text_in(event, "name"), spans[k].name);
        assert_string_equal(text_in(args, "path"), spans[k].path);
        assert_string_equal(text_in(args, "inputs"), spans[k].inputs);
        if (number(args, "bytes") != (double)spans[k].bytes || number(args, "flops") != (double)spans[k].flops)
            fail_msg("span %d: %g bytes, %g FLOPs", (int)k, number(args, "bytes"), number(args, "flops"));
        n++;
    }
    assert_int_equal(n, 2 * RP_COUNT(spans));
    json_decref(root);
    rp__profile_free(p);
    test_ctx_free(ctx);
}

/* What a profile holds does not grow with the run: beyond its room it sums, and leaves spans out of the trace. */
static void more_spans_than_there_is_room_for_are_summed_and_counted(void **state)
{
    (void)state;
    test_leave_to_full();
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .threads = 1 });
    rp_profile *p;
    json_error_t error;
    enum { SPANS = 200000 };

    assert_ok(ctx, rp__profile_new(ctx, &p));
    int64_t asked = ctx->alloc_count;
    rp__profile_step_begin(p, 7);
    for (int64_t i = 0; i <= SPANS; i++)
        rp__watch_end(ctx, (rp_span){ .doing = RP_DOING_UPDATE, .name = "much", .path = "a \"path\"", .bytes = i, .began = rp__watch_begin(ctx) });
    rp__profile_step_end(p, 1, &(rp_tape_stats){ 0 });
    assert_int_equal(ctx->alloc_count, asked);
    assert_ok(ctx, rp__profile_write(p, dir.path));
    json_t *root = json_load_file(temp_path(&dir, "profile.trace.json"), 0, &error);
    assert_non_null(root);
    double left = number(json_object_get(root, "otherData"), "events_left_out");
    assert_true(left > 0 && left < SPANS);
    size_t bytes;
    char *text = file_bytes(&dir, "profile.txt", &bytes), out[RP_PROFILE_TEXT_CHARS];
    assert_non_null(strstr(text, "spans are missing in the trace"));
    assert_non_null(strstr(text, "\nothers "));
    assert_non_null(strstr(text, "20000100000 bytes"));      /* 0 + 1 + … + SPANS: all of them are in the sums */
    assert_non_null(strstr(rp__profile_text(p, out), "update"));
    free(text);
    json_decref(root);
    rp__profile_free(p);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(steps_two_to_four_are_profiled),
        TEST(a_resumed_run_counts_its_own_steps_and_a_run_of_one_step_has_that_one),
        TEST(spans_nest_and_their_sum_is_within_the_steps),
        TEST(ops_have_paths_shapes_work_and_rates),
        TEST(replays_are_marked_if_there_are_some),
        TEST(updates_batches_and_moves_are_there),
        TEST(an_update_reads_and_writes_all_but_the_gradients),
        TEST(the_ledger_is_a_counter_that_ends_where_the_steps_began),
        TEST(the_table_has_a_line_by_op_and_pass_that_sum_to_the_step),
        TEST(the_table_of_passes_has_each_pass_of_the_ops_and_sums_to_the_step),
        TEST(a_profile_changes_no_bit_and_no_byte_of_memory),
        TEST(outside_the_profiled_steps_nobody_watches),
        TEST(an_interrupted_run_leaves_the_profile_of_what_there_was),
        TEST(the_texts_of_a_span_are_its_own),
        TEST(more_spans_than_there_is_room_for_are_summed_and_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
