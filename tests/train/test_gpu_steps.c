/* Claims about steps on a GPU, which is emulated: the host waits once, at their end, and no schedule changes a bit. */
/* ctest: device-free level-free */
#include "loop_test.h"

#include <math.h>

#include "device/driver.h"
#include "device/emulate/emulate.h"
#include "tensor/tensor.h"

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

static void an_error_of_the_device_names_the_step(void **state)
{
    (void)state;
    run r = run_open(&dir, "llama", "out", RUN("device=emu"));
    rp_metrics line;

    assert_ok(r.ctx, r.status);
    assert_ok(r.ctx, rp__trainer_step(r.trainer, &line));
    rp__emulate_fail("run", 40, CUDA_ERROR_LAUNCH_FAILED);
    assert_int_equal(rp__trainer_step(r.trainer, &line), RP_ERR_BACKEND);
    if (!strstr(rp_error(r.ctx), "device 'emu' failed at or before the end of step 2: ")) fail_msg("%s", rp_error(r.ctx));
    run_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_step_waits_once_at_its_end),
        TEST(a_range_decides_whether_all_ids_are_within_a_limit),
        TEST(a_step_has_the_same_bits_under_every_schedule),
        TEST(clipping_is_the_same_as_on_the_host),
        TEST(a_loss_that_is_not_finite_is_named_and_updates_nothing),
        TEST(an_error_of_the_device_names_the_step),      /* last: the driver stays broken */
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
