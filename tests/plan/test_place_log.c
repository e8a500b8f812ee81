/* Claims about a step that is noted, placed and followed, on drawn programs of takes and gives. */
/* ctest: device-free thread-free */
#include "place_test.h"

#include "place/log.h"

enum { MOST_BLOCKS = 64, MOST_TAKES = 8192, MOST_MICRO = 64 };

/* A step: micro-batches of one program, each of whose blocks lives within it, and blocks of the first that live to the end. */
typedef struct {
    uint32_t seed;
    int n_micro, n_turns, other;        /* other: this micro-batch is another one; 0: none */
    bool gives_old;                     /* what was live before the step goes in its middle */
} program;

typedef struct { int64_t bytes, offset; } block;

typedef struct {
    rp_ctx *ctx;
    block old[8], kept[8];              /* live before the step; taken by its first micro-batch and given at its end */
    int n_old, n_kept;
    int64_t offset[MOST_TAKES];         /* of all takes of the last step */
    int n_takes;
} machine;

static rp_status take(machine *m, int64_t bytes, block *out)
{
    *out = (block){ .bytes = bytes };
    RP_TRY(rp__mem_take(m->ctx, m->ctx->space[0], RP_MEM_TEMP, bytes, "a block", &out->offset));
    if (m->n_takes < MOST_TAKES) m->offset[m->n_takes++] = out->offset;
    return RP_OK;
}

static void give(machine *m, block *b)
{
    rp__mem_give(m->ctx->space[0], RP_MEM_TEMP, b->bytes, b->offset);
    b->bytes = -1;
}

static void give_all(machine *m, block *b, int *n)
{
    while (*n > 0)
        if (b[--*n].bytes >= 0) give(m, &b[*n]);
}

/* With holes between, as a pool has them after a while. */
static void take_old(machine *m)
{
    for (int i = 0; i < 8; i++) assert_ok(m->ctx, take(m, 100 * (i + 1), &m->old[i]));
    m->n_old = 8;
    give(m, &m->old[2]);
    give(m, &m->old[5]);
}

static rp_status micro_batch(machine *m, const program *p, int micro)
{
    uint32_t seed = p->seed + (micro && micro == p->other ? 1000 : 0);
    block live[MOST_BLOCKS];
    int n            = 0;
    rp_status status = RP_OK;

    for (int turn = 0; turn < p->n_turns && status == RP_OK; turn++) {
        bool more = n < 2 || (n < MOST_BLOCKS && place_draw(&seed, 2));
        if (more) status = take(m, place_draw(&seed, 9) * place_draw(&seed, 900), &live[n++]);
        else {
            int i = (int)place_draw(&seed, n);
            give(m, &live[i]);
            live[i] = live[--n];
        }
        if (status != RP_OK) n--;
        if (micro == 0 && m->n_kept < 8 && turn % 7 == 6 && status == RP_OK) {
            status = take(m, 500 + 64 * turn, &m->kept[m->n_kept]);
            m->n_kept += status == RP_OK;
        }
    }
    give_all(m, live, &n);
    return status;
}

static rp_status step(machine *m, const program *p, rp_place_log *log)
{
    rp_status status = RP_OK;

    m->n_takes = 0;
    for (int i = 0; i < p->n_micro && status == RP_OK; i++) {
        if (log) rp_pass_begin(m->ctx, 0, 0);
        status = micro_batch(m, p, i);
        if (i == 0 && p->gives_old && m->old[3].bytes >= 0) give(m, &m->old[3]);
    }
    give_all(m, m->kept, &m->n_kept);
    return status;
}

typedef struct { rp_mem_place *place; int n; rp_placement reported; } noted;

static noted note(machine *m, const program *p)
{
    rp_place_log *log;
    noted n;

    assert_ok(m->ctx, rp__place_log_begin(m->ctx, &log));
    assert_ok(m->ctx, step(m, p, log));
    assert_ok(m->ctx, rp__place_log_end(log, RP_PLACE_ANY, &n.place, &n.n, &n.reported));
    return n;
}

static machine *machine_new(void)
{
    machine *m = calloc(1, sizeof *m);

    assert_non_null(m);
    m->ctx = test_ctx(&(rp_ctx_options){ .threads = 1, .shapes_only = true });
    take_old(m);
    return m;
}

static void machine_free(machine *m)
{
    give_all(m, m->old, &m->n_old);
    test_ctx_free(m->ctx);
    free(m);
}

static int64_t reserved(const machine *m)
{
    rp_mem mem;

    rp_mem_read(m->ctx, 0, false, &mem);
    return mem.reserved_bytes;
}

/* ---- claims ---- */

static void a_noted_step_runs_again_at_its_places(void **state)
{
    (void)state;
    for (int draw = 0; draw < test_draws(40); draw++) {
        program p  = { .seed = (uint32_t)draw, .n_micro = 1 + draw % 5, .n_turns = 20 + draw * 37 % 150, .other = draw % 4, .gives_old = draw % 3 == 0 };
        machine *m = machine_new(), *recompute = machine_new();
        noted n    = note(m, &p);
        assert_int_equal(n.n, m->n_takes);
        rp__mem_follow(recompute->ctx->space[0], n.place, n.n);
        assert_ok(recompute->ctx, step(recompute, &p, NULL));
        assert_int_equal(recompute->n_takes, n.n);
        for (int i = 0; i < n.n; i++) assert_int_equal(recompute->offset[i], n.place[i].offset);
        rp_mem mem;
        rp_mem_read(recompute->ctx, 0, false, &mem);
        assert_true(n.reported.height >= n.reported.bound && n.reported.bound == mem.peak_alloc_bytes);
        assert_int_equal(reserved(recompute), n.reported.height);
        rp__release(n.place);
        machine_free(m);
        machine_free(recompute);
    }
}

static void what_is_live_before_stays_and_its_holes_are_used(void **state)
{
    program p  = { .seed = 1, .n_micro = 1, .n_turns = 2 };
    machine *m = machine_new();

    (void)state;
    noted n = note(m, &p);
    for (int i = 0; i < n.n; i++)
        for (int k = 0; k < 8; k++) {
            if (m->old[k].bytes < 0) continue;
            bool apart = n.place[i].offset + n.place[i].bytes <= m->old[k].offset || m->old[k].offset + m->old[k].bytes <= n.place[i].offset;
            assert_true(apart || !n.place[i].bytes);
        }
    assert_true(n.place[0].offset < m->old[7].offset);
    rp__release(n.place);
    machine_free(m);
}

/* What goes in the step leaves its place to what comes after it. */
static void what_was_live_before_may_go_in_the_step(void **state)
{
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .threads = 1, .shapes_only = true });
    machine m   = { .ctx = ctx };
    block low, high, first, then;
    rp_place_log *log;
    noted n;

    (void)state;
    assert_ok(ctx, take(&m, 6400, &low));
    assert_ok(ctx, take(&m, 640, &high));
    assert_ok(ctx, rp__place_log_begin(ctx, &log));
    assert_ok(ctx, take(&m, 64, &first));
    give(&m, &low);
    assert_ok(ctx, take(&m, 6400, &then));
    assert_ok(ctx, rp__place_log_end(log, RP_PLACE_ANY, &n.place, &n.n, &n.reported));
    assert_int_equal(n.reported.bound, 7104);
    assert_int_equal(n.reported.height, 7104);
    assert_int_equal(n.place[1].offset, 0);
    rp__release(n.place);
    give(&m, &then);
    give(&m, &first);
    give(&m, &high);
    test_ctx_free(ctx);
}

/* Those that repeat the second cost nothing: the work is that of four. */
static void micro_batches_that_repeat_are_laid_alike(void **state)
{
    program four = { .seed = 9, .n_micro = 4, .n_turns = 90 }, many = four;
    machine *a = machine_new(), *b = machine_new();

    (void)state;
    many.n_micro = MOST_MICRO;
    noted few    = note(a, &four), all = note(b, &many);
    int each = (all.n - few.n) / (MOST_MICRO - 4), second = few.n - 3 * each;
    assert_int_equal(all.reported.height, few.reported.height);
    assert_int_equal(all.reported.work, few.reported.work);
    assert_int_equal(all.n - few.n, each * (MOST_MICRO - 4));
    for (int micro = 2; micro < MOST_MICRO - 1; micro++)
        assert_memory_equal(all.place + second, all.place + second + (micro - 1) * each, (size_t)each * sizeof *all.place);
    rp__release(few.place);
    rp__release(all.place);
    machine_free(a);
    machine_free(b);
}

static void another_micro_batch_among_them_is_placed_by_itself(void **state)
{
    program alike = { .seed = 9, .n_micro = 9, .n_turns = 90 }, other = alike;
    machine *a = machine_new(), *b = machine_new();

    (void)state;
    other.other = 5;
    noted x = note(a, &alike), y = note(b, &other);
    assert_true(y.reported.work > x.reported.work);
    rp__mem_follow(b->ctx->space[0], y.place, y.n);
    assert_ok(b->ctx, step(b, &other, NULL));
    rp__release(x.place);
    rp__release(y.place);
    machine_free(a);
    machine_free(b);
}

static void blocks_that_outlive_the_step_have_places(void **state)
{
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .threads = 1, .shapes_only = true });
    machine m   = { .ctx = ctx };
    block resident, offloadable;
    rp_place_log *log;
    noted n;

    (void)state;
    assert_ok(ctx, rp__place_log_begin(ctx, &log));
    assert_ok(ctx, take(&m, 128, &offloadable));
    assert_ok(ctx, take(&m, 64, &resident));
    give(&m, &offloadable);
    assert_ok(ctx, take(&m, 128, &offloadable));
    give(&m, &offloadable);
    assert_ok(ctx, rp__place_log_end(log, RP_PLACE_ANY, &n.place, &n.n, &n.reported));
    assert_int_equal(n.reported.height, 192);
    give(&m, &resident);
    rp__mem_follow(ctx->space[0], n.place, n.n);
    assert_ok(ctx, take(&m, 128, &offloadable));
    assert_ok(ctx, take(&m, 64, &resident));
    give(&m, &offloadable);
    assert_ok(ctx, take(&m, 128, &offloadable));
    give(&m, &offloadable);
    give(&m, &resident);
    rp__release(n.place);
    test_ctx_free(ctx);
}

static void without_memory_a_log_ends_and_leaves_nothing(void **state)
{
    program p     = { .seed = 3, .n_micro = 4, .n_turns = 12 };
    test_faults f = { .each = 12 };

    (void)state;
    while (!f.over) {
        machine *m = machine_new();
        rp_place_log *log;
        noted n = { 0 };
        test_fault_begin(&f, m->ctx);
        rp_status status = rp__place_log_begin(m->ctx, &log);
        if (status == RP_OK) {
            rp_status ran = step(m, &p, log);
            status        = rp__place_log_end(log, RP_PLACE_ANY, &n.place, &n.n, &n.reported);
            if (ran != RP_OK) status = ran;
        }
        test_fault_end(&f, status);
        rp__release(n.place);
        machine_free(m);
    }
    assert_true(f.failed > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_noted_step_runs_again_at_its_places),
        cmocka_unit_test(what_is_live_before_stays_and_its_holes_are_used),
        cmocka_unit_test(what_was_live_before_may_go_in_the_step),
        cmocka_unit_test(micro_batches_that_repeat_are_laid_alike),
        cmocka_unit_test(another_micro_batch_among_them_is_placed_by_itself),
        cmocka_unit_test(blocks_that_outlive_the_step_have_places),
        cmocka_unit_test(without_memory_a_log_ends_and_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
