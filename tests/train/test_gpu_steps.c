/* Claims about steps on a GPU, which is emulated: the host waits for a step when it has queued the next one, and steps that are repeated as graphs have
 * the bits of steps that run. */
/* ctest: device-free level-free */
#include "loop_test.h"

#include <math.h>

#include "device/driver.h"
#include "device/emulate/emulate.h"
#include "tensor/tensor.h"

#ifdef RP_ASAN
enum { HAS_ASAN = true };
#else
enum { HAS_ASAN = false };
#endif

/* ---- waits ---- */

static int64_t waits(void) { return rp__emulate_calls("cuStreamSynchronize") + rp__emulate_calls("cuEventSynchronize"); }

/* The waits of each of three steps. */
static void assert_waits(const char *model, int64_t wanted, const char *const *setting)
{
    run r = run_open(&dir, model, "out", setting);
    rp_metrics line;

    assert_ok(r.ctx, r.status);
    for (int step = 0; step < 3; step++) {
        int64_t before = waits();
        assert_ok(r.ctx, rp__trainer_step(r.trainer, &line));
        assert_int_equal(waits() - before, wanted);
    }
    run_close(&r);
    temp_remove(&dir);
    dir = loop_dir();
}

static void a_step_waits_once_at_its_end(void **state)
{
    (void)state;
    assert_waits("llama", 1, RUN("device=emu"));
    assert_waits("llama", 1, RUN("device=emu", "dtype=bf16", "grad_dtype=fp32", "clip_grad_norm=0.5"));
    assert_waits("llama", 1, RUN("device=emu", "gradient_accumulation_steps=3", "clip_grad_norm=0.5"));
    assert_waits("llama", 1, RUN("device=emu", "optimizer_in_bwd=true"));
    assert_waits("llama", 1, RUN("device=emu", "enable_activation_checkpointing=true", "optimizer.name=sgd"));
    assert_waits("gpt2", 1, RUN("device=emu", "clip_grad_norm=0.5", "dataset.packed=false"));
}

/* ---- the host looks one step behind ---- */

typedef struct { int64_t events, streams, idle; } wait_counts;

static wait_counts counts_now(void)
{
    return (wait_counts){ rp__emulate_calls("cuEventSynchronize"), rp__emulate_calls("cuStreamSynchronize"), rp__emulate_idle_waits() };
}

enum { SEEN_STEPS = 8 };
typedef struct { int n, stop_after; volatile int stop; wait_counts at[SEEN_STEPS]; rp_ctx *fault_in; int fault_after; } seen_steps;

static void see_step(void *user, const rp_metrics *line, double seconds_left)
{
    seen_steps *seen = user;

    (void)seconds_left;
    assert_true(seen->n < SEEN_STEPS);
    seen->at[seen->n++] = counts_now();
    assert_int_equal(line->step, seen->n);
    if (seen->n == seen->stop_after) seen->stop = 15;
    if (seen->n == seen->fault_after) seen->fault_in->fault_countdown = 1;
}

/* Every step but the last is read when the next one is in the queue, so no wait leaves the device idle, and none is within a step. */
static void assert_looks_behind(const char *model, const char *const *setting)
{
    run r             = run_open(&dir, model, "out", setting);
    seen_steps seen   = { 0 };
    wait_counts began = counts_now();

    assert_ok(r.ctx, r.status);
    assert_ok(r.ctx, rp__trainer_run(r.trainer, &seen.stop, &(rp_progress){ .step = see_step, .user = &seen }));
    assert_int_equal(seen.n, SEEN_STEPS);
    for (int i = 0; i < SEEN_STEPS; i++) {
        wait_counts before = i ? seen.at[i - 1] : began;
        assert_int_equal(seen.at[i].events - before.events, 1);
        assert_int_equal(seen.at[i].streams - before.streams, 0);
        assert_int_equal(seen.at[i].idle - before.idle, i == SEEN_STEPS - 1);
    }
    run_close(&r);
    temp_remove(&dir);
    dir = loop_dir();
}

static void a_step_is_read_when_the_next_one_is_queued(void **state)
{
    static const char *const graphs[] = { "off", "on" };

    (void)state;
    for (int i = 0; i < RP_COUNT(graphs); i++) {
        assert_int_equal(setenv("REPRISE_GRAPHS", graphs[i], 1), 0);
        assert_looks_behind("llama", RUN("device=emu", "max_steps=8"));
        assert_looks_behind("llama", RUN("device=emu", "max_steps=8", "dtype=bf16", "grad_dtype=fp32", "clip_grad_norm=0.5", "gradient_accumulation_steps=3"));
        assert_looks_behind("llama", RUN("device=emu", "max_steps=8", "optimizer_in_bwd=true", "enable_activation_checkpointing=true"));
        assert_looks_behind("gpt2", RUN("device=emu", "max_steps=8", "clip_grad_norm=0.5", "dataset.packed=false", "optimizer.name=sgd"));
    }
    assert_int_equal(unsetenv("REPRISE_GRAPHS"), 0);
}

static void run_by_steps(const char *out, const char *const *setting)
{
    run r = run_open(&dir, "llama", out, setting);
    rp_metrics line;

    assert_ok(r.ctx, r.status);
    while (rp__trainer_done(r.trainer) < rp__trainer_info(r.trainer)->n_steps) assert_ok(r.ctx, rp__trainer_step(r.trainer, &line));
    assert_ok(r.ctx, rp__trainer_finish(r.trainer));
    run_close(&r);
}

/* Validations and states are of the step in whose line they are. */
static void looking_behind_changes_no_line_and_no_bit(void **state)
{
    (void)state;
    char val[300], from[300];
    snprintf(val, sizeof val, "dataset_val={path: %s/val.bin, format: tokens}", dir.path);
    snprintf(from, sizeof from, "resume=%s/whole/state/step-8", dir.path);
    const char *const *setting = RUN("device=emu", "max_steps=10", "clip_grad_norm=0.5", "save_every_n_steps=4", "run_val_every_n_steps=3", val);

    run_by_steps("steps", setting);
    run_whole(&dir, "llama", "whole", setting);
    assert_same_metrics(&dir, "steps", "whole");
    assert_same_final(&dir, "steps", "whole");
    run_whole(&dir, "llama", "whole", RUN("device=emu", "max_steps=10", "clip_grad_norm=0.5", "save_every_n_steps=4", "run_val_every_n_steps=3", val,
                                          from));
    assert_same_metrics(&dir, "steps", "whole");
    assert_same_final(&dir, "steps", "whole");
}

/* The step that is queued then is finished, too. */
static void a_signal_leaves_no_step_behind(void **state)
{
    (void)state;
    seen_steps seen = { .stop_after = 3 };
    run r           = run_open(&dir, "llama", "out", RUN("device=emu", "max_steps=8"));

    assert_ok(r.ctx, r.status);
    assert_int_equal(rp__trainer_run(r.trainer, &seen.stop, &(rp_progress){ .step = see_step, .user = &seen }), RP_ERR_INTERRUPTED);
    assert_int_equal(seen.n, 4);
    assert_int_equal(rp__trainer_done(r.trainer), 4);
    assert_true(is_there(&dir, "out/state/step-4/state.json"));
    run_close(&r);
    run_whole(&dir, "llama", "out", RUN("device=emu", "max_steps=8", "resume=auto"));
    run_whole(&dir, "llama", "whole", RUN("device=emu", "max_steps=8"));
    assert_same_metrics(&dir, "out", "whole");
    assert_same_final(&dir, "out", "whole");
}

/* Step 4 fails while it is queued behind step 3. */
static void a_step_that_cannot_begin_comes_after_the_lines_before_it(void **state)
{
    (void)state;
    run r           = run_open(&dir, "llama", "out", RUN("device=emu", "max_steps=8"));
    seen_steps seen = { .fault_in = r.ctx, .fault_after = 2 };

    assert_ok(r.ctx, r.status);
    assert_int_equal(rp__trainer_run(r.trainer, &seen.stop, &(rp_progress){ .step = see_step, .user = &seen }), RP_ERR_MEMORY);
    if (!strstr(rp_error(r.ctx), "bytes of host memory; no state was saved")) fail_msg("%s", rp_error(r.ctx));
    assert_int_equal(seen.n, 3);
    run_close(&r);
    run_whole(&dir, "llama", "three", RUN("device=emu", "max_steps=3"));
    assert_same_metrics(&dir, "out", "three");
}

static void spoil_weights(rp_trainer *trainer) { rp_elem_put(rp__model_param(rp__trainer_model(trainer), 0)->tensor, 100, NAN); }

static void spoil_after_two(void *user, const rp_metrics *line, double seconds_left)
{
    (void)seconds_left;
    if (line->step == 2) spoil_weights(user);
}

/* Step 3 is queued when the line of step 2 comes, so step 4 is bad in both runs. Step 5 is queued behind it. */
static void a_bad_step_ends_a_run_at_the_same_line_and_weights(void **state)
{
    (void)state;
    const char *const *setting = RUN("device=emu", "max_steps=8");
    run single = run_open(&dir, "llama", "single", setting), whole = run_open(&dir, "llama", "whole", setting);
    rp_metrics line;

    for (int i = 0; i < 3; i++) assert_ok(single.ctx, rp__trainer_step(single.trainer, &line));
    spoil_weights(single.trainer);
    assert_int_equal(rp__trainer_step(single.trainer, &line), RP_ERR_NONFINITE);
    assert_int_equal(rp__trainer_run(whole.trainer, NULL, &(rp_progress){ .step = spoil_after_two, .user = whole.trainer }), RP_ERR_NONFINITE);
    assert_string_equal(rp_error(single.ctx), rp_error(whole.ctx));
    assert_non_null(strstr(rp_error(whole.ctx), "loss of step 4 is nan"));
    assert_int_equal(rp__trainer_done(whole.trainer), 3);
    assert_same_metrics(&dir, "single", "whole");
    for (int i = 0; i < rp__model_n_params(rp__trainer_model(whole.trainer)); i++) {
        rp_tensor *a = rp__model_param(rp__trainer_model(single.trainer), i)->tensor, *b = rp__model_param(rp__trainer_model(whole.trainer), i)->tensor;
        assert_true(rp_elem_get(a, 1) == rp_elem_get(b, 1));
    }
    run_close(&single);
    run_close(&whole);
}

/* Ids and labels that the host wrote are checked by their range, so nothing is read back. */
static void a_range_decides_whether_all_ids_are_within_a_limit(void **state)
{
    (void)state;
    enum { N = 3, LIMIT = 10, NONE = -1000 };
    static const struct { int32_t value[N], other; bool within; } known[] = {
        { { 0, 9, 5 }, NONE, true },        { { 0, 10, 5 }, NONE, false },      { { -1, 9, 5 }, NONE, false },
        { { -100, 9, 5 }, -100, true },     { { -100, -1, 5 }, -100, false },   { { -100, -100, -100 }, -100, true },
        { { 50, 9, 5 }, 50, true },         { { 50, 11, 5 }, 50, false },       { { 50, 60, 5 }, 50, false },
        { { -100, -200, 5 }, -100, false }, { { 5, 5, 5 }, 5, true },           { { 10, 10, 10 }, NONE, false },
    };
    rp_ctx *ctx  = test_ctx(&(rp_ctx_options){ .threads = 1 });
    rp_meta meta = rp_meta_1d(RP_I32, N);
    rp_tensor *t, *part;

    assert_ok(ctx, rp_tensor_new(ctx, &meta, RP_MEM_TEMP, &t));
    assert_null(rp__tensor_int_range(t));
    for (int i = 0; i < RP_COUNT(known); i++) {
        assert_ok(ctx, rp_tensor_write_i32(t, known[i].value, N));
        assert_int_equal(rp__int_range_within(rp__tensor_int_range(t), LIMIT, known[i].other == NONE ? NULL : &known[i].other), known[i].within);
    }
    assert_ok(ctx, rp_tensor_slice(t, 0, 1, 2, &part));
    assert_null(rp__tensor_int_range(part));
    rp_elem_put(t, 0, 77);
    assert_null(rp__tensor_int_range(t));
    rp_tensor_unref(part);
    rp_tensor_unref(t);
    test_ctx_free(ctx);
}

/* ---- bits ---- */

static void assert_alike(const char *model, const char *const *setting)
{
    static const char *const out[RP_EMULATE_SCHEDULES] = { "forward", "reverse", "random", "greedy" };

    for (int s = 0; s < RP_EMULATE_SCHEDULES; s++) {
        rp__emulate_set_schedule((rp_emulate_schedule)s);
        rp__emulate_set_lanes(s % 2);
        run_whole(&dir, model, out[s], setting);
        assert_same_metrics(&dir, out[0], out[s]);
        assert_same_final(&dir, out[0], out[s]);
    }
    rp__emulate_set_schedule(RP_EMULATE_FORWARD);
    rp__emulate_set_lanes(false);
}

static void a_step_has_the_same_bits_under_every_schedule(void **state)
{
    (void)state;
    assert_alike("llama", RUN("device=emu", "max_steps=3", "clip_grad_norm=0.05", "gradient_accumulation_steps=2"));
}

/* ---- numbers ---- */

static double first_norm(const char *out, const char *const *setting)
{
    run_whole(&dir, "llama", out, setting);
    metrics m    = metrics_of(&dir, out);
    double value = metric_number(m.line[0], "grad_norm");
    free(m.text);
    return value;
}

/* The clip factor of the device is that of the host: both devices have the same losses within rounding, also after clipped updates. */
static void clipping_is_the_same_as_on_the_host(void **state)
{
    (void)state;
    double gpu = first_norm("gpu", RUN("device=emu", "max_steps=6", "clip_grad_norm=0.1", "optimizer.name=sgd", "optimizer.lr=1"));
    double cpu = first_norm("cpu", RUN("max_steps=6", "clip_grad_norm=0.1", "optimizer.name=sgd", "optimizer.lr=1"));
    metrics a = metrics_of(&dir, "gpu"), b = metrics_of(&dir, "cpu");

    assert_true(gpu > 0.5);
    assert_true(fabs(gpu / cpu - 1) < 1e-4);
    for (int i = 0; i < a.n; i++) assert_true(fabs(metric_number(a.line[i], "loss") / metric_number(b.line[i], "loss") - 1) < 1e-4);
    free(a.text);
    free(b.text);
}

/* ---- what is not finite ---- */

/* Sets an element of the first parameter and runs a step. The parameters stay as they were. */
static void assert_stopped(double value, const char *message, const char *const *setting)
{
    run r = run_open(&dir, "llama", "out", setting);
    rp_metrics line;

    assert_ok(r.ctx, r.status);
    rp_model *model = rp__trainer_model(r.trainer);
    rp_tensor *t    = rp__model_param(model, rp__model_n_params(model) - 1)->tensor;
    int64_t n       = rp_meta_elems(&t->m);
    double *before = calloc((size_t)n, sizeof *before), *after = calloc((size_t)n, sizeof *after);
    rp_elem_put(t, 0, value);
    assert_ok(r.ctx, rp_tensor_read(t, before, n));
    assert_int_equal(rp__trainer_step(r.trainer, &line), RP_ERR_NONFINITE);
    if (!strstr(rp_error(r.ctx), message)) fail_msg("%s", rp_error(r.ctx));
    assert_ok(r.ctx, rp_tensor_read(t, after, n));
    assert_memory_equal(before, after, (size_t)n * sizeof *before);
    free(before);
    free(after);
    run_close(&r);
    temp_remove(&dir);
    dir = loop_dir();
}

static void a_loss_that_is_not_finite_is_named_and_updates_nothing(void **state)
{
    (void)state;
    assert_stopped(NAN, "loss of step 1 is nan", RUN("device=emu"));
    assert_stopped(NAN, "loss of step 1 is nan", RUN("device=emu", "optimizer_in_bwd=true"));
    assert_stopped(NAN, "loss of step 1 is nan", RUN("device=emu", "gradient_accumulation_steps=2", "clip_grad_norm=1"));
}

/* ---- errors of the device ---- */

/* After the second line, step 4 is queued while step 3 runs and fails. */
static void fail_after_two(void *user, const rp_metrics *line, double seconds_left)
{
    (void)user, (void)seconds_left;
    if (line->step == 2) rp__emulate_fail("run", 40, CUDA_ERROR_LAUNCH_FAILED);
}

static void an_error_of_the_device_names_the_last_step_queued(void **state)
{
    (void)state;
    run r = run_open(&dir, "llama", "out", RUN("device=emu"));

    assert_ok(r.ctx, r.status);
    assert_int_equal(rp__trainer_run(r.trainer, NULL, &(rp_progress){ .step = fail_after_two }), RP_ERR_BACKEND);
    if (!strstr(rp_error(r.ctx), "device 'emu' failed at or before the end of step 4: ")) fail_msg("%s", rp_error(r.ctx));
    run_close(&r);
}

/* ---- graphs ---- */

/* Calls of the driver since the start; those that only ask are counted, too. */
static int64_t driver_calls(void)
{
    int64_t n = 0;

#define RP_CUDA(name, parameters) n += rp__emulate_calls(#name);
#include "device/cuda.def"
#undef RP_CUDA
    return n;
}

static int64_t captures(void) { return rp__emulate_calls("cuStreamBeginCapture_v2"); }
static int64_t repeats(void) { return rp__emulate_calls("cuGraphLaunch"); }

static run opened(const char *model, const char *out, const char *const *setting)
{
    run r = run_open(&dir, model, out, setting);

    assert_ok(r.ctx, r.status);
    return r;
}

static void step(run *r)
{
    rp_metrics line;

    assert_ok(r->ctx, rp__trainer_step(r->trainer, &line));
}

/* Each micro-batch is four inputs, the step block and a graph; a step ends with one copy, its mark and one wait. */
static void a_repeated_step_is_a_few_calls_of_the_driver(void **state)
{
    (void)state;
    enum { MICRO = 5 };
    run r = opened("llama", "out", RUN("device=emu", "gradient_accumulation_steps=5", "clip_grad_norm=0.5"));
    int64_t captured = captures(), called = driver_calls();

    step(&r);
    assert_int_equal(captures(), captured);
    assert_true(driver_calls() - called > 300);
    step(&r);
    assert_true(captures() > captured);
    for (int i = 0; i < 5; i++) {
        int64_t before = driver_calls(), graphs = repeats();
        captured       = captures();
        step(&r);
        assert_int_equal(driver_calls() - before, MICRO * (4 + 1 + 1) + 4);
        assert_int_equal(repeats() - graphs, MICRO);
        assert_int_equal(captures(), captured);
    }
    run_close(&r);
}

/* The first micro-batch assigns gradients, further ones add, the last one updates. */
static void micro_batches_that_make_the_same_calls_share_a_graph(void **state)
{
    (void)state;
    int64_t before = captures();
    run r          = opened("llama", "out", RUN("device=emu", "gradient_accumulation_steps=6"));

    for (int i = 0; i < 3; i++) step(&r);
    assert_int_equal(captures() - before, 3);
    run_close(&r);
}

static void assert_graphs_change_nothing(const char *model, const char *const *setting)
{
    int64_t before = repeats();

    assert_int_equal(setenv("REPRISE_GRAPHS", "off", 1), 0);
    run_whole(&dir, model, "off", setting);
    assert_int_equal(repeats(), before);
    assert_int_equal(unsetenv("REPRISE_GRAPHS"), 0);
    run_whole(&dir, model, "on", setting);
    assert_true(repeats() > before);
    assert_same_metrics(&dir, "off", "on");
    assert_same_final(&dir, "off", "on");
    temp_remove(&dir);
    dir = loop_dir();
}

/* The learning rate, dropout's random numbers, random rounding and the number of targets differ in every step. */
static void graphs_change_no_bit(void **state)
{
    (void)state;
    assert_graphs_change_nothing("gpt2", RUN("device=emu", "max_steps=6", "lr_scheduler={name: cosine, num_warmup_steps: 2}", "clip_grad_norm=0.5"));
    assert_graphs_change_nothing("gpt2", RUN("device=emu", "max_steps=5", "dtype=bf16", "optimizer.state_dtype=bf16", "optimizer.rounding=stochastic",
                                             "gradient_accumulation_steps=3"));
    assert_graphs_change_nothing("llama", RUN("device=emu", "max_steps=5", "optimizer_in_bwd=true", "enable_activation_checkpointing=true"));
    assert_graphs_change_nothing("llama", RUN("device=emu", "max_steps=5", "optimizer={name: sgd, momentum: 0.9}"));
}

/* Each shape of a padded batch has its own plan, and so its own graph. */
static void batches_of_other_shapes_are_captured_anew(void **state)
{
    (void)state;
    enum { DOCUMENTS = 20, TOKENS = DOCUMENTS / 2 * (5 + 9) };
    static const int length[] = { 5, 9 };
    uint16_t ids[TOKENS];
    int64_t before = captures();
    char set[300];
    int n = 0;

    for (int d = 0; d < DOCUMENTS; d++) {
        for (int i = 1; i < length[d % 2]; i++) ids[n++] = (uint16_t)(1 + (7 * d + i) % 60);
        ids[n++] = 0;
    }
    temp_write(&dir, "two.bin", ids, sizeof ids);
    snprintf(set, sizeof set, "dataset={path: %s/two.bin, format: tokens, packed: false}", dir.path);
    assert_graphs_change_nothing("llama", RUN("device=emu", "batch_size=1", set));
    assert_int_equal(captures() - before, 2);
}

/* Memory that stays between steps is part of a plan. Steps without one are not repeated. */
static void a_step_whose_memory_has_moved_is_not_repeated(void **state)
{
    (void)state;
    rp_metrics line;
    rp_meta meta     = rp_meta_1d(RP_F32, 1000);
    rp_tensor *block = NULL;
    run r            = opened("llama", "out", RUN("device=emu"));

    for (int i = 0; i < 3; i++) step(&r);
    int64_t before = repeats();
    assert_ok(r.ctx, rp_tensor_new(r.ctx, &meta, RP_MEM_PARAM, &block));
    assert_int_equal(rp__trainer_step(r.trainer, &line), RP_ERR_STATE);
    if (!strstr(rp_error(r.ctx), "the live memory before the step differs from the plan")) fail_msg("%s", rp_error(r.ctx));
    assert_int_equal(repeats(), before);
    rp_tensor_unref(block);
    step(&r);
    assert_int_equal(repeats() - before, 1);
    run_close(&r);
}

/* The driver may have no room for a graph. The run goes on without. */
static void a_driver_that_refuses_a_graph_costs_nothing_but_time(void **state)
{
    (void)state;
    static const char *const refusing[] = { "cuStreamBeginCapture_v2", "cuGraphInstantiateWithFlags" };

    run_whole(&dir, "llama", "plain", RUN("device=emu", "max_steps=5"));
    for (int i = 0; i < RP_COUNT(refusing); i++) {
        int64_t before = repeats();
        rp__emulate_fail(refusing[i], 1, CUDA_ERROR_OUT_OF_MEMORY);
        run_whole(&dir, "llama", refusing[i], RUN("device=emu", "max_steps=5"));
        assert_int_equal(repeats(), before);
        assert_same_metrics(&dir, "plain", refusing[i]);
        assert_same_final(&dir, "plain", refusing[i]);
    }
}

/* ---- offloading to the host's memory ---- */

#define AWAY "activation_checkpointing={mode: full, rules: [{op: add, call: 1, fate: offload}, {op: swiglu, fate: offload}], offload: {to: memory}}"

/* Values leave and come back in a lane of copies, in both orders of streams, in graphs too. Under AddressSanitizer host memory is not pinned. */
static void offloading_to_memory_waits_for_nothing_and_changes_no_bit(void **state)
{
    (void)state;
    for (int last = 0; last < 2; last++) {
        rp__emulate_set_lanes(last);
        run_whole(&dir, "llama", "plain", RUN("device=emu", "max_steps=5", "gradient_accumulation_steps=2"));
        int64_t before = repeats();
        run_whole(&dir, "llama", "away", RUN("device=emu", "max_steps=5", "gradient_accumulation_steps=2", AWAY));
        metrics m = metrics_of(&dir, "away");
        assert_true(metric_number(m.line[0], "offloaded_bytes") > 0);
        free(m.text);
        assert_same_losses(&dir, "plain", "away");
        assert_same_final(&dir, "plain", "away");
        if (!HAS_ASAN) assert_true(repeats() > before);
        assert_int_equal(setenv("REPRISE_GRAPHS", "off", 1), 0);
        run_whole(&dir, "llama", "off", RUN("device=emu", "max_steps=5", "gradient_accumulation_steps=2", AWAY));
        assert_same_metrics(&dir, "away", "off");
        assert_same_final(&dir, "away", "off");
        if (!HAS_ASAN) assert_looks_behind("llama", RUN("device=emu", "max_steps=8", AWAY));
        assert_int_equal(unsetenv("REPRISE_GRAPHS"), 0);
        if (!HAS_ASAN) assert_looks_behind("llama", RUN("device=emu", "max_steps=8", AWAY));
        temp_remove(&dir);
        dir = loop_dir();
    }
    rp__emulate_set_lanes(false);
}

static void assert_not_captured(const char *const *setting)
{
    int64_t before = captures();

    run_whole(&dir, "llama", "out", setting);
    assert_int_equal(captures(), before);
    temp_remove(&dir);
    dir = loop_dir();
}

static void a_step_that_needs_the_host_is_not_captured(void **state)
{
    (void)state;
    assert_not_captured(RUN("device=emu", "max_steps=4", "dist.state_offload=true"));
    assert_not_captured(RUN("device=emu", "max_steps=4", "enable_activation_checkpointing=true", "activation_checkpointing.verify=always"));
    assert_not_captured(RUN("device=emu", "max_steps=4", "profile=true"));
}

/* The third step is a graph. */
static void a_repeated_loss_that_is_not_finite_is_named(void **state)
{
    (void)state;
    run r = opened("llama", "out", RUN("device=emu"));
    rp_metrics line;

    for (int i = 0; i < 3; i++) step(&r);
    int64_t before = repeats();
    rp_elem_put(rp__model_param(rp__trainer_model(r.trainer), 0)->tensor, 100, NAN);
    assert_int_equal(rp__trainer_step(r.trainer, &line), RP_ERR_NONFINITE);
    if (!strstr(rp_error(r.ctx), "loss of step 4 is nan")) fail_msg("%s", rp_error(r.ctx));
    assert_int_equal(repeats() - before, 1);
    run_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_step_waits_once_at_its_end),
        TEST(a_step_is_read_when_the_next_one_is_queued),
        TEST(looking_behind_changes_no_line_and_no_bit),
        TEST(a_signal_leaves_no_step_behind),
        TEST(a_step_that_cannot_begin_comes_after_the_lines_before_it),
        TEST(a_bad_step_ends_a_run_at_the_same_line_and_weights),
        TEST(a_range_decides_whether_all_ids_are_within_a_limit),
        TEST(a_step_has_the_same_bits_under_every_schedule),
        TEST(clipping_is_the_same_as_on_the_host),
        TEST(a_loss_that_is_not_finite_is_named_and_updates_nothing),
        TEST(a_repeated_step_is_a_few_calls_of_the_driver),
        TEST(micro_batches_that_make_the_same_calls_share_a_graph),
        TEST(graphs_change_no_bit),
        TEST(batches_of_other_shapes_are_captured_anew),
        TEST(a_step_whose_memory_has_moved_is_not_repeated),
        TEST(a_driver_that_refuses_a_graph_costs_nothing_but_time),
        TEST(offloading_to_memory_waits_for_nothing_and_changes_no_bit),
        TEST(a_step_that_needs_the_host_is_not_captured),
        TEST(a_repeated_loss_that_is_not_finite_is_named),
        TEST(an_error_of_the_device_names_the_last_step_queued),      /* last: the driver stays broken */
    };
    return TEST_HAS_EMU ? cmocka_run_group_tests(tests, NULL, NULL) : 0;
}
