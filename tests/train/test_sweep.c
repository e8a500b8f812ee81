/* Claims about a sweep that is measured: every step takes what was planned and comes to the same bits, nothing is written, nothing is left
 * behind, and a step that differs is reported. */
/* ctest: device-free thread-free */
#include "loop_test.h"

#include <dirent.h>
#include <math.h>

#include "tape/tape.h"

enum { POINTS = 4, PAIRS = 3, MODES = 4 };

/* The recipe of a run, and a context that has the machine's memory and nothing on it. */
typedef struct { run r; rp_ctx *ctx; rp_report report; rp_sweep s; } sweep;

static sweep sweep_open(const char *model, const char *const *setting)
{
    sweep s = { .r = run_open(&dir, model, "out", setting) };

    assert_ok(s.r.ctx, s.r.status);
    s.ctx = test_ctx(&(rp_ctx_options){ .threads = 1, .seed = 3 });
    rp__report_open(&s.report, s.ctx);
    return s;
}

static rp_status sweep_run(sweep *s, const rp_sweep_options *options) { return rp__recipe_sweep(s->ctx, s->r.recipe, options, &s->report, &s->s); }

static void sweep_close(sweep *s)
{
    rp__release(s->s.point);
    rp__report_close(&s->report);
    test_ctx_free(s->ctx);
    run_close(&s->r);
}

static int n_files(void)
{
    DIR *d = opendir(dir.path);
    int n  = 0;

    assert_non_null(d);
    while (readdir(d)) n++;
    closedir(d);
    return n;
}

/* Returns how many points of the curve make something again: where weights are nearly all there is, few budgets have a plan of their own. */
static int check_points(const rp_sweep *s)
{
    int recompute = 0;

    assert_int_equal(s->n_modes, MODES);
    assert_true(s->n_points > MODES);
    assert_int_equal(s->pairs, PAIRS);
    assert_int_equal(s->n_steps, s->n_points + (s->n_points - 1) * 2 * PAIRS);
    assert_true(s->point[0].overhead.median == 0);
    for (int i = 0; i < s->n_points; i++) {
        const rp_sweep_point *p = &s->point[i];
        assert_true(p->step_seconds > 0);
        assert_true(p->overhead.low <= p->overhead.median && p->overhead.median <= p->overhead.high && p->overhead.low > -1);
        if (i) assert_true(fabs(p->overhead.coverage - 0.75) < 1e-12);
        recompute += i >= MODES && p->recompute_flops > 0;
    }
    return recompute;
}

/* Dropout included: the sweep itself fails where a bit or a byte differs. */
static void every_point_runs_as_planned_and_writes_nothing(void **state)
{
    const char *const *const settings[] = {
        RUN("optimizer_in_bwd=auto"), RUN("gradient_accumulation_steps=2", "clip_grad_norm=1", "dtype=bf16", "optimizer.rounding=stochastic"),
        RUN("optimizer.name=sgd", "activation_checkpointing.rules=[{op: swiglu, fate: recompute}, {path: layers.0, fate: keep}]"),
        RUN("enable_activation_checkpointing=true", "optimizer.master_weights=true", "dtype=bf16"),
    };

    int recompute = 0;

    (void)state;
    for (int i = 0; i < 2 * RP_COUNT(settings); i++) {
        sweep s   = sweep_open(i % 2 ? "gpt2" : "llama", settings[i / 2]);
        int files = n_files();
        assert_ok(s.ctx, sweep_run(&s, &(rp_sweep_options){ .n = POINTS, .pairs = PAIRS }));
        recompute += check_points(&s.s);
        assert_int_equal(n_files(), files);
        sweep_close(&s);
        temp_remove(&dir);
        dir = loop_dir();
    }
    assert_true(recompute > RP_COUNT(settings));
}

/* With a must that offloads the least budgets of all have no plan, and the points that ask for them move up. */
static void points_stand_in_the_order_of_their_budgets(void **state)
{
    int moved = 0;

    (void)state;
    sweep s = sweep_open("llama", RUN("lora.rank=4", "lora.modules=[attn.output]", "optimizer.no_decay=[]", "max_seq_len=8",
                                      "activation_checkpointing.offload.to=memory",
                                      "activation_checkpointing.rules=[{path: 'layers.*.attn.output', fate: offload}, {op: '*', fate: prefer_recompute}]"));
    assert_ok(s.ctx, sweep_run(&s, &(rp_sweep_options){ .n = 19 }));
    for (int i = MODES + 1; i < s.s.n_points; i++) {
        const rp_sweep_point *a = &s.s.point[i - 1], *b = &s.s.point[i];
        assert_true(a->budget <= b->budget);
        assert_true(a->recompute_seconds / a->seconds >= b->recompute_seconds / b->seconds);
        moved += a->reserved == b->reserved;
    }
    assert_true(moved > 0 && s.s.point[s.s.n_points - 1].recompute_flops == 0);
    sweep_close(&s);
}

/* By bytes alone the points before the middle are half of them. */
static void points_are_dense_where_the_curve_is_steep(void **state)
{
    enum { N = 15 };
    int before = 0;

    (void)state;
    sweep s = sweep_open("llama", RUN("batch_size=8", "max_seq_len=64", "optimizer.name=sgd"));
    assert_ok(s.ctx, sweep_run(&s, &(rp_sweep_options){ .n = N }));
    const rp_sweep_point *least = &s.s.point[MODES], *most = &s.s.point[s.s.n_points - 1];
    assert_int_equal(s.s.n_points, MODES + N);
    for (int i = MODES; i < s.s.n_points; i++) before += s.s.point[i].budget - least->budget < (most->budget - least->budget) / 2;
    print_message("%d of %d points before the middle of the bytes\n", before, N);
    assert_true(before > N / 2 + 1);
    sweep_close(&s);
}

/* What is predicted does not depend on whether it is measured. */
static void measuring_changes_no_prediction(void **state)
{
    (void)state;
    sweep s = sweep_open("llama", RUN(NULL));

    assert_ok(s.ctx, sweep_run(&s, &(rp_sweep_options){ .n = POINTS, .pairs = 1 }));
    rp_sweep measured = s.s;
    assert_ok(s.ctx, sweep_run(&s, &(rp_sweep_options){ .n = POINTS }));
    assert_int_equal(s.s.pairs, 0);
    assert_int_equal(s.s.n_points, measured.n_points);
    for (int i = 0; i < measured.n_points; i++) {
        const rp_sweep_point *a = &measured.point[i], *b = &s.s.point[i];
        assert_int_equal(a->budget, b->budget);
        assert_int_equal(a->reserved, b->reserved);
        assert_int_equal(a->peak, b->peak);
        assert_true(a->recompute_seconds == b->recompute_seconds && a->seconds == b->seconds);
    }
    rp__release(measured.point);
    sweep_close(&s);
}

enum { FAR = 1 << 26 };

/* After the first pair there is a block far above what any step was planned to take. */
static void take_far(void *user, int pair, double seconds_left)
{
    rp_ctx *ctx = user;
    int64_t offset;

    assert_int_equal(pair, 1);
    assert_true(seconds_left >= 0);
    rp__mem_follow(ctx->space[0], &(rp_mem_place){ 64, FAR }, 1);
    assert_ok(ctx, rp__mem_take(ctx, ctx->space[0], RP_MEM_COMM, 64, "far", &offset));
    assert_int_equal(offset, FAR);
}

static void a_step_that_takes_something_else_is_an_error(void **state)
{
    (void)state;
    sweep s = sweep_open("llama", RUN(NULL));

    assert_int_equal(sweep_run(&s, &(rp_sweep_options){ .n = POINTS, .pairs = PAIRS, .measured = take_far, .user = s.ctx }), RP_ERR_STATE);
    assert_non_null(strstr(rp_error(s.ctx), "the live memory before the step differs from the plan"));
    rp__mem_give(s.ctx->space[0], RP_MEM_COMM, 64, FAR);
    sweep_close(&s);
}

/* After the first pair the plan of the first point says something else. */
typedef struct { sweep s; int field; int64_t was; } changed_plan;

static int64_t *field_of(changed_plan *c)
{
    rp_sweep_point *p = &c->s.s.point[0];

    return c->field == 0 ? &p->reserved : c->field == 1 ? &p->peak : &p->saved;
}

static void change_plan(void *user, int pair, double seconds_left)
{
    changed_plan *c = user;

    (void)seconds_left;
    if (pair != 1) return;
    c->was        = *field_of(c);
    *field_of(c) += 64;
}

static void a_step_of_other_bytes_than_were_planned_is_an_error(void **state)
{
    (void)state;
    static const char *const says[] = {
        "a step of mode 'none' reserves %lld bytes; planned were %lld", "a step of mode 'none' peaks at %lld bytes; planned were %lld",
        "a step of mode 'none' saves %lld bytes; planned were %lld",
    };
    char expected[160];
    temp_dir out;

    snprintf(out.path, sizeof out.path, "%.100s/out", dir.path);
    for (int i = 0; i < RP_COUNT(says); i++) {
        changed_plan c = { .s = sweep_open("llama", RUN(NULL)), .field = i };
        assert_int_equal(sweep_run(&c.s, &(rp_sweep_options){ .n = POINTS, .pairs = PAIRS, .measured = change_plan, .user = &c }), RP_ERR_STATE);
        snprintf(expected, sizeof expected, says[i], (long long)c.was, (long long)c.was + 64);
        assert_string_equal(rp_error(c.s.ctx), expected);
        sweep_close(&c.s);
        temp_remove(&out);
    }
}

/* Dropout of later calls and steps has other masks. */
static void draw_others(void *user, int at, const char *path, const char *op)
{
    (void)at, (void)path, (void)op;
    ((rp_ctx *)user)->seed++;
}

static void meddle_with_replays(void *user, int pair, double seconds_left)
{
    (void)pair, (void)seconds_left;
    rp__tape_ctx(user)->on_replay = (rp_call_hook){ draw_others, user };
}

static void a_step_of_other_bits_is_an_error(void **state)
{
    (void)state;
    sweep s = sweep_open("gpt2", RUN(NULL));

    assert_int_equal(sweep_run(&s, &(rp_sweep_options){ .n = POINTS, .pairs = PAIRS, .measured = meddle_with_replays, .user = s.ctx }), RP_ERR_STATE);
    assert_non_null(strstr(rp_error(s.ctx), "; of mode 'none' "));
    sweep_close(&s);
}

static void a_sweep_is_measured_on_full_batches_alone(void **state)
{
    (void)state;
    sweep s = sweep_open("llama", RUN("dataset.packed=false"));

    assert_int_equal(sweep_run(&s, &(rp_sweep_options){ .n = 1 }), RP_ERR_ARG);
    assert_string_equal(rp_error(s.ctx), "a sweep of 1 points");
    assert_int_equal(sweep_run(&s, &(rp_sweep_options){ .n = POINTS, .pairs = 1 }), RP_ERR_CONFIG);
    assert_int_equal(s.report.n_errors, 1);
    assert_null(s.s.point);
    rp__report_close(&s.report);
    rp__report_open(&s.report, s.ctx);
    assert_ok(s.ctx, sweep_run(&s, &(rp_sweep_options){ .n = POINTS }));
    sweep_close(&s);
}

static void any_allocation_of_a_measured_sweep_may_fail(void **state)
{
    (void)state;
    sweep s          = sweep_open("llama", RUN("model.overrides.num_hidden_layers=1", "activation_checkpointing.rules=[{type: Norm, fate: keep}]"));
    test_faults f    = { .each = 16 };

    while (!f.over) {
        test_fault_begin(&f, s.ctx);
        if (!test_fault_end(&f, sweep_run(&s, &(rp_sweep_options){ .n = 2, .pairs = 1 }))) continue;
        assert_null(s.s.point);
        rp_mem m;
        rp_mem_read(s.ctx, 0, false, &m);
        assert_int_equal(m.live_bytes, 0);
    }
    assert_true(f.failed > 50);
    sweep_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_point_runs_as_planned_and_writes_nothing),
        TEST(points_stand_in_the_order_of_their_budgets), TEST(points_are_dense_where_the_curve_is_steep),
        TEST(measuring_changes_no_prediction),
        TEST(a_step_that_takes_something_else_is_an_error),
        TEST(a_step_of_other_bytes_than_were_planned_is_an_error),
        TEST(a_step_of_other_bits_is_an_error),
        TEST(a_sweep_is_measured_on_full_batches_alone),
        TEST(any_allocation_of_a_measured_sweep_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
