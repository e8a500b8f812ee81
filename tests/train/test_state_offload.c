/* The claims of `dist.state_offload`: what is learnt and what is saved are the same bytes, a step takes what was said and less than with states
 * in memory, either way of running goes on from the other's states, a disk that fails is one sentence and leaves the last state whole. */
/* ctest: no-emulator slow-emulated level-free cost=10 */
#include "loop_test.h"

#include <dirent.h>
#include <errno.h>

#include "base/disk_queue.h"
#include "optim/internal.h"
#include "train/internal.h"

/* Settings, with states on disk; up to NULL. */
static const char *const *offload(const char *const *setting)
{
    static const char *with[MOST_SETTINGS];
    static char path[300];
    int n = 0;

    for (; setting[n]; n++) with[n] = setting[n];
    assert_true(n + 3 <= MOST_SETTINGS);
    snprintf(path, sizeof path, "activation_checkpointing.offload.path=%s/slots", dir.path);
    with[n++] = "dist.state_offload=true";
    with[n++] = path;
    with[n]   = NULL;
    return with;
}

static int n_files(const char *path)
{
    DIR *d = opendir(path);
    int n  = 0;

    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d));) n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static void assert_same_state(const char *a, const char *b, int step)
{
    char at_a[128], at_b[128];

    snprintf(at_a, sizeof at_a, "%s/state/step-%d/tensors.safetensors", a, step);
    snprintf(at_b, sizeof at_b, "%s/state/step-%d/tensors.safetensors", b, step);
    assert_same_file(&dir, at_a, at_b);
}

/* ---- bits ---- */

static const char *const ways[][8] = {
    { "clip_grad_norm=1" },
    { "optimizer_in_bwd=true" },
    { "gradient_accumulation_steps=2", "optimizer.name=sgd", "optimizer.momentum=0.9" },
    { "optimizer.name=sgd", "optimizer.momentum=0" },
    { "dtype=bf16", "optimizer.master_weights=true" },
    { "dtype=bf16", "optimizer.master_weights=true", "optimizer.name=sgd", "optimizer.momentum=0" },
    { "dtype=bf16", "optimizer.state_dtype=bf16", "optimizer.rounding=stochastic", "optimizer_in_bwd=true" },
    { "dtype=bf16", "optimizer.state_dtype=bf16", "clip_grad_norm=0.5", "threads=2" },
    { "optimizer.state_dtype=int8", "optimizer_in_bwd=true" },
    { "dtype=bf16", "optimizer.state_dtype=int8", "clip_grad_norm=0.5", "threads=2", "optimizer.master_weights=true" },
    { "enable_activation_checkpointing=true", "optimizer_in_bwd=true", "dtype=bf16", "optimizer.master_weights=true" },
};

static void assert_same_with_states_on_disk(const char *model, int n_steps, const char *const *way)
{
    run_whole(&dir, model, "here", way);
    run_whole(&dir, model, "away", offload(way));
    assert_same_losses(&dir, "here", "away");
    assert_same_final(&dir, "here", "away");
    assert_same_state("here", "away", n_steps);
    temp_remove(&dir);
    dir = loop_dir();
}

static void what_is_learnt_and_saved_is_the_same_to_the_byte(void **state)
{
    (void)state;
    for (int i = 0; i < RP_COUNT(ways); i++) assert_same_with_states_on_disk(i % 2 ? "gpt2" : "llama", 12, ways[i]);
}

/* Its own kernels update each window. The states of a weight of the last model are a window and a rest. */
static void a_gpu_learns_and_saves_the_same_too(void **state)
{
    static const char *const gpu[][7] = {
        { "device=emu", "max_steps=2", "clip_grad_norm=1" },
        { "device=emu", "max_steps=2", "dtype=bf16", "optimizer.master_weights=true", "optimizer_in_bwd=true" },
        { "device=emu", "max_steps=2", "dtype=bf16", "optimizer.state_dtype=bf16", "optimizer.rounding=stochastic" },
        { "device=emu", "max_steps=2", "optimizer.state_dtype=int8", "gradient_accumulation_steps=2" },
        { "device=emu", "max_steps=2", "max_seq_len=4", "batch_size=1", "model.overrides.num_hidden_layers=1", "model.overrides.intermediate_size=8200" },
    };

    (void)state;
    if (!TEST_HAS_EMU) skip();
    for (int i = 0; i < RP_COUNT(gpu); i++) assert_same_with_states_on_disk("llama", 2, gpu[i]);
}

/* ---- memory ---- */

static int64_t held_by_optimizer(run *r, int64_t *reserved)
{
    const rp_step_usage *said = &rp__trainer_info(r->trainer)->rehearsal;
    int64_t optim            = said->memory.live_at[RP_MEM_OPTIM];
    rp_metrics line;

    for (int i = 0; i < 3; i++) {
        assert_ok(r->ctx, rp__trainer_step(r->trainer, &line));
        assert_int_equal(line.peak_memory_active, said->memory.peak_bytes);
        assert_int_equal(line.peak_memory_alloc, said->memory.peak_alloc_bytes);
        assert_int_equal(line.peak_memory_reserved, said->memory.reserved_bytes);
    }
    assert_ok(r->ctx, rp__trainer_save(r->trainer));        /* within what was planned, too */
    rp_mem m;
    rp_mem_read(r->ctx, 0, false, &m);
    assert_int_equal(m.reserved_bytes, said->memory.reserved_bytes);
    assert_int_equal(m.live_at[RP_MEM_OPTIM], optim);
    *reserved = said->memory.reserved_bytes;
    return optim;
}

static void a_step_takes_what_was_said_and_less_than_with_states_in_memory(void **state)
{
    (void)state;
    for (int i = 0; i < RP_COUNT(ways); i++) {
        int64_t with, without, all, less;
        char name[32];
        snprintf(name, sizeof name, "plain-%d", i);
        run r = run_open(&dir, "llama", name, ways[i]);
        assert_ok(r.ctx, r.status);
        without = held_by_optimizer(&r, &all);
        run_close(&r);
        snprintf(name, sizeof name, "away-%d", i);
        r = run_open(&dir, "llama", name, offload(ways[i]));
        assert_ok(r.ctx, r.status);
        with       = held_by_optimizer(&r, &less);
        bool apart = r.ctx->host ||     /* there windows take none of it, and blocks are rounded to more */
                     r.recipe->optimizer.state_dtype == RP_STATE_INT8;      /* absmax of a small weight is rounded to more, too */
        run_close(&r);
        if (!without) assert_int_equal(with, 0);
        else assert_true(with < without && (apart ? all - less >= without - with : all - less == without - with));
    }
}

/* The least budget falls with the states, and the plan for it still gives the same bits. */
static void a_budget_that_states_in_memory_do_not_fit_is_kept(void **state)
{
    int64_t budget = 0;
    char set[64], name[32];
    int n = 0;

    (void)state;
    for (int64_t low = 1, high = INT64_C(1) << 22; low < high;) {
        budget = (low + high) / 2;
        snprintf(set, sizeof set, "memory_budget=%" PRId64, budget);
        snprintf(name, sizeof name, "probe-%d", n++);
        run r = run_open(&dir, "llama", name, offload(RUN(set)));
        if (r.status == RP_OK) high = budget;
        else low = budget + 1;
        budget = low;
        run_close(&r);
    }
    snprintf(set, sizeof set, "memory_budget=%" PRId64, budget);
    run r = run_open(&dir, "llama", "refused", RUN(set));
    assert_int_equal(r.status, RP_ERR_BUDGET);
    run_close(&r);
    run_whole(&dir, "llama", "tight", offload(RUN(set)));
    run_whole(&dir, "llama", "all", RUN(NULL));
    assert_same_losses(&dir, "tight", "all");
    assert_same_final(&dir, "tight", "all");
}

/* ---- states ---- */

static void go_on(const char *out, int n, const char *const *setting)
{
    run r = run_open(&dir, "llama", out, setting);
    rp_metrics line;

    assert_ok(r.ctx, r.status);
    while (rp__trainer_done(r.trainer) < n) assert_ok(r.ctx, rp__trainer_step(r.trainer, &line));
    if (n == 12) assert_ok(r.ctx, rp__trainer_finish(r.trainer));
    else assert_ok(r.ctx, rp__trainer_save(r.trainer));
    run_close(&r);
}

static void goes_on_alike(const char *const *way, const char *const *on)
{
    run_whole(&dir, "llama", "whole", way);
    go_on("there", 5, offload(way));
    go_on("there", 12, on);
    go_on("back", 5, way);
    go_on("back", 12, offload(on));
    go_on("stays", 5, offload(way));
    go_on("stays", 12, offload(on));
    assert_same_final(&dir, "whole", "there");
    assert_same_final(&dir, "whole", "back");
    assert_same_final(&dir, "whole", "stays");
    assert_same_state("whole", "there", 12);
    assert_same_state("whole", "back", 12);
    assert_same_state("whole", "stays", 12);
}

static void either_way_goes_on_from_the_states_of_the_other(void **state)
{
    static const char *const way[] = { "dtype=bf16", "optimizer.master_weights=true", NULL };
    static const char *const on[]  = { "dtype=bf16", "optimizer.master_weights=true", "resume=auto", NULL };

    (void)state;
    goes_on_alike(way, on);
}

/* The states of a weight are then several windows and a rest. */
static void a_weight_of_several_windows_goes_on_from_either_way(void **state)
{
    static const char *const way[] = { "model.overrides.num_hidden_layers=1", "model.overrides.intermediate_size=20000", NULL };
    static const char *const on[]  = { "model.overrides.num_hidden_layers=1", "model.overrides.intermediate_size=20000", "resume=auto", NULL };

    (void)state;
    leave_out_references();
    goes_on_alike(way, on);
}

static void the_file_has_no_name(void **state)
{
    rp_metrics line;

    (void)state;
    run r = run_open(&dir, "llama", "out", offload(RUN(NULL)));
    assert_ok(r.ctx, r.status);
    assert_ok(r.ctx, rp__trainer_step(r.trainer, &line));
    assert_int_equal(n_files(temp_path(&dir, "slots")), 0);
    run_close(&r);
}

/* ---- what goes wrong ---- */

static void fail_at(rp_disk_queue_operation operation, int64_t after, int number, const char *why)
{
    rp_metrics line;
    char name[32], text[64];

    snprintf(name, sizeof name, "failed-%d-%d", (int)operation, (int)after);
    run r = run_open(&dir, "llama", name, offload(RUN("save_every_n_steps=1")));
    assert_ok(r.ctx, r.status);
    for (int i = 0; i < 2; i++) assert_ok(r.ctx, rp__trainer_step(r.trainer, &line));
    rp__disk_queue_fail(rp__state_store_disk_queue(r.trainer->engine.optim->store), operation, after, 1, number);
    assert_int_equal(rp__trainer_step(r.trainer, &line), RP_ERR_IO);
    assert_int_equal(rp__trainer_done(r.trainer), 2);
    if (!strstr(rp_error(r.ctx), why) || !strstr(rp_error(r.ctx), "/slots'")) fail_msg("%s", rp_error(r.ctx));
    assert_non_null(strstr(rp_error(r.ctx), "state of step 2 in"));
    assert_int_equal(rp__trainer_step(r.trainer, &line), RP_ERR_IO);       /* it is final */
    run_close(&r);
    snprintf(text, sizeof text, "%s/state/step-3", name);
    assert_false(is_there(&dir, text));
    go_on(name, 12, offload(RUN("save_every_n_steps=1", "resume=auto")));
    assert_same_final(&dir, name, "whole");
}

static void a_disk_that_fails_is_one_sentence_and_the_last_state_is_whole(void **state)
{
    (void)state;
    run_whole(&dir, "llama", "whole", RUN(NULL));
    for (int64_t after = 0; after < 40; after += 13) {
        fail_at(RP_DISK_QUEUE_WRITE, after, ENOSPC, "cannot write");
        fail_at(RP_DISK_QUEUE_READ, after, EIO, "cannot read");
    }
    fail_at(RP_DISK_QUEUE_WRITE, 45, ENOSPC, "No space left on device");
}

static void a_folder_that_cannot_be_is_reported_before_anything_is_written(void **state)
{
    char path[300];

    (void)state;
    temp_text(&dir, "file", "x");
    snprintf(path, sizeof path, "activation_checkpointing.offload.path=%s/file", dir.path);
    run r = run_open(&dir, "llama", "out", RUN("dist.state_offload=true", path));
    assert_int_equal(r.status, RP_ERR_EXISTS);
    assert_non_null(strstr(rp_error(r.ctx), "/file'"));
    assert_false(is_there(&dir, "out"));
    run_close(&r);
}

/* ---- time ---- */

static double said_seconds(const char *out, const char *const *setting)
{
    rp_forecast f;
    run r = run_open(&dir, "llama", out, setting);

    assert_ok(r.ctx, r.status);
    assert_ok(r.ctx, rp__recipe_forecast(r.ctx, r.recipe, &(rp_forecast_options){ .device = "name=slow, memory=1GB, flops=1e12, bandwidth=1e12, offload=1e6" },
                                         &r.report, &f));
    double seconds = f.plan.seconds;
    rp__forecast_close(&f);
    run_close(&r);
    return seconds;
}

static void a_plan_counts_the_way_to_the_disk_and_back(void **state)
{
    (void)state;
    double here = said_seconds("here", RUN(NULL)), there = said_seconds("there", offload(RUN(NULL)));
    run r = run_open(&dir, "llama", "run", offload(RUN(NULL)));

    assert_ok(r.ctx, r.status);
    double disk = 2 * (double)rp__optim_offload_bytes(r.trainer->engine.optim) / 1e6;
    assert_true(disk > 0.1 && there > disk && there < 1.3 * disk + here);       /* a device reaches 0.8 of its peaks */
    run_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_learnt_and_saved_is_the_same_to_the_byte),
        TEST(a_gpu_learns_and_saves_the_same_too),
        TEST(a_step_takes_what_was_said_and_less_than_with_states_in_memory),
        TEST(a_budget_that_states_in_memory_do_not_fit_is_kept),
        TEST(either_way_goes_on_from_the_states_of_the_other),
        TEST(a_weight_of_several_windows_goes_on_from_either_way),
        TEST(the_file_has_no_name),
        TEST(a_disk_that_fails_is_one_sentence_and_the_last_state_is_whole),
        TEST(a_folder_that_cannot_be_is_reported_before_anything_is_written),
        TEST(a_plan_counts_the_way_to_the_disk_and_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
