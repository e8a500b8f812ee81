/* Claims about measuring. Figures are compared only where they differ by orders of magnitude: machines are noisy. */
/* ctest: level-free */
#include "plan/cost_test.h"

#include <math.h>

#include "kernels/kernels.h"

/* A team waits for its slowest thread, which on a busy machine takes what time it likes. */
static rp_ctx *data_ctx(void) { return test_ctx(&(rp_ctx_options){ .threads = 1 }); }

typedef struct { int n_lines; char first[RP_COST_LINE_CHARS]; } printed;

static void hear(void *user, const char *line)
{
    printed *t = user;

    if (t->n_lines++ == 0) snprintf(t->first, sizeof t->first, "%s", line);
}

static void check_row(const rp_cost_row *r, const char *op)
{
    if (!(r->overhead >= 0 && r->overhead < 10 && r->rate > 1e3 && isfinite(r->rate) && r->bandwidth > 1e3 && isfinite(r->bandwidth)))
        fail_msg("%s: %g s, %g FLOP/s, %g bytes/s", op, r->overhead, r->rate, r->bandwidth);
}

/* Every op of the registry in every dtype, but the backward of those that have none, and what ranks do together. */
static int check_rows(const rp_cost_table *t)
{
    int n = 0;

    for (int op = 0; op <= rp__op_count(); op++)
        for (int d = 0; d < RP_COUNT(rp__cost_dtypes); d++)
            for (rp_pass pass = RP_FORWARD; pass <= RP_BACKWARD; pass++) {
                const rp_cost_row *r = rp__cost_row(t, op, rp__cost_dtypes[d], pass);
                bool alone           = op < rp__op_count() && (rp__op_at(op)->flags & RP_OP_COLLECTIVE);     /* with whom would it talk? */
                bool runs            = !alone && (pass == RP_FORWARD || op == rp__op_count() || rp__op_at(op)->backward);
                if (r->rate > 0) n++;
                if (runs) check_row(r, rp__cost_op_name(op));
                else assert_true(r->rate == 0);
            }
    return n;
}

/* Where products have kernels, one in double, which has none, is far slower; by references both sum in double. */
static void check_ranks(const rp_cost_table *t)
{
    rp_ctx *ctx      = test_ctx(&(rp_ctx_options){ .shapes_only = true, .threads = 2 });
    rp_op_meta small = product(ctx, RP_F32, 64, 64, 64), large = product(ctx, RP_F32, 4096, 4096, 4096);
    rp_op_meta slow  = product(ctx, RP_F64, 4096, 4096, 4096);

    assert_true(rp__cost_seconds(t, &large, RP_FORWARD) > 20 * rp__cost_seconds(t, &small, RP_FORWARD));
    if (large.fast) assert_true(rp__cost_seconds(t, &slow, RP_FORWARD) > 2 * rp__cost_seconds(t, &large, RP_FORWARD));
    test_ctx_free(ctx);
}

/* `reprise calibrate` measures a table before each commit, too: a case of the program. */
static void a_measured_table_has_every_row_and_ranks_products(void **state)
{
    (void)state;
    test_leave_to_full();
    rp_ctx *ctx      = data_ctx();
    rp_cost_table *t = NULL;
    printed heard       = { 0 };

    assert_ok(ctx, rp__cost_measure(ctx, true, hear, &heard, &t));
    assert_true(rp__cost_measured(t));
    assert_int_equal(heard.n_lines, check_rows(t));
    assert_memory_equal(heard.first, "matmul  ", 8);
    check_ranks(t);
    for (int d = 0; d < RP_COUNT(rp__cost_dtypes); d++) assert_true(rp__cost_move(t, rp__cost_dtypes[d], 1 << 20) > 0);
    assert_true(t->move[RP_F64] == rp__cost_row(t, rp__op_count(), RP_F64, RP_FORWARD)->bandwidth);      /* no update has kernels for it */
    rp__cost_table_free(t);
    test_ctx_free(ctx);
}

static void on_shapes_alone_there_is_nothing_to_measure(void **state)
{
    rp_ctx *ctx      = shapes_ctx();
    rp_cost_table *t = NULL;

    (void)state;
    assert_int_equal(rp__cost_measure(ctx, true, NULL, NULL, &t), RP_ERR_STATE);
    assert_string_equal(rp_error(ctx), "measuring needs a context with data, not shapes alone");
    assert_null(t);
    test_ctx_free(ctx);
}

/* ---- one call ---- */

static rp_status run_both(rp_ctx *ctx, const rp_cost_call *c, int64_t spread)
{
    rp_cost_timed *t = NULL;
    rp_status status = rp__cost_timed_new(ctx, rp__op_find(c->op), &c->call, RP_BF16, 0, spread, &t);

    for (int i = 0; i < 3 && status == RP_OK; i++) {
        bool has_backward = rp__op_find(c->op)->backward;
        status            = rp__cost_timed_run(t, RP_FORWARD);
        if (status == RP_OK && has_backward) status = rp__cost_timed_run(t, RP_BACKWARD);
    }
    rp__cost_timed_free(t);
    return status;
}

static int64_t live_bytes(rp_ctx *ctx)
{
    rp_mem m;

    rp_mem_read(ctx, 0, false, &m);
    return m.live_bytes;
}

static void calls_run_in_several_places_and_leave_nothing(void **state)
{
    rp_ctx *ctx = data_ctx();

    (void)state;
    for (int i = 0; i < rp__cost_n_calls(); i++) {
        const rp_cost_call *c = rp__cost_call_at(i);
        if (!(c->when & (RP_COST_TINY | RP_COST_SLOW))) continue;
        assert_non_null(rp__op_find(c->op));
        assert_ok(ctx, run_both(ctx, c, 1 << 16));
        assert_int_equal(live_bytes(ctx), 0);
    }
    test_ctx_free(ctx);
}

/* Memory that the host cannot access is filled by way of memory of the host, which may fail, too. */
static void a_call_that_finds_no_memory_leaves_nothing(void **state)
{
    static const char *const devices[] = { "cpu", "sim" };
    const rp_cost_call *c              = rp__cost_call_at(0);

    (void)state;
    for (int i = 0; i < RP_COUNT(devices); i++) {
        rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .threads = 1, .device = devices[i] });
        until_no_fault_fires(ctx, run_both(ctx, c, 2048), assert_int_equal(live_bytes(ctx), 0));
        test_ctx_free(ctx);
    }
}

/* ---- rows from times ---- */

static rp_cost_sample sample(const rp_op *op, int when, rp_pass pass, int64_t flops, int64_t bytes, double seconds)
{
    int place = 0;

    while (rp__op_at(place) != op) place++;
    return (rp_cost_sample){ place, when, RP_F32, pass, { .flops = flops, .read_bytes = bytes }, seconds, seconds };
}

static const rp_cost_row *row_of(const rp_cost_table *t, const rp_op *op)
{
    int place = 0;

    while (rp__op_at(place) != op) place++;
    return rp__cost_row(t, place, RP_F32, RP_FORWARD);
}

static bool is_row(const rp_cost_row *r, double overhead, double rate, double bandwidth)
{
    return fabs(r->overhead - overhead) < 1e-12 && fabs(r->rate / rate - 1) < 1e-6 && fabs(r->bandwidth / bandwidth - 1) < 1e-6;
}

/* 1 us for nothing, then a product at 100 GFLOP/s, a sum at 10 GB/s, an exponential that keeps the memory waiting. */
static void times_of_a_known_machine_give_its_figures(void **state)
{
    double pace[RP_DTYPES] = { [RP_F32] = 1, [RP_BF16] = 1, [RP_F64] = 1 };
    rp_cost_sample s[] = {
        sample(&rp_op_matmul, RP_COST_TINY, RP_FORWARD, 1, 1, 1e-6),
        sample(&rp_op_matmul, RP_COST_SOON, RP_FORWARD, 100000000, 1000000, 1e-6 + 1e-3),
        sample(&rp_op_matmul, RP_COST_LATE, RP_FORWARD, 1000000000, 4000000, 1e-6 + 1e-2),
        sample(&rp_op_matmul, RP_COST_LATE, RP_FORWARD, 1000000000, 4000000, INFINITY),       /* was not timed */
        sample(&rp_op_add, RP_COST_TINY, RP_FORWARD, 1, 1, 1e-6),
        sample(&rp_op_add, RP_COST_SOON, RP_FORWARD, 1000000, 10000000, 1e-6 + 1e-3),
        sample(&rp_op_gelu, RP_COST_TINY, RP_FORWARD, 1, 1, 1e-6),
        sample(&rp_op_gelu, RP_COST_SOON, RP_FORWARD, 20000000, 8000000, 1e-6 + 4e-3),
    };
    rp_ctx *ctx      = shapes_ctx();
    rp_cost_table *t = NULL;

    (void)state;
    assert_ok(ctx, rp__cost_table_new(ctx, RP_COST_FULL, &t));
    rp__cost_fit(t, s, RP_COUNT(s), pace);
    assert_true(is_row(row_of(t, &rp_op_matmul), 1e-6, 1e11, 1e10));
    assert_true(is_row(row_of(t, &rp_op_add), 1e-6, 1e11, 1e10));
    assert_true(is_row(row_of(t, &rp_op_gelu), 1e-6, 5e9, 1e10));
    pace[RP_F32] = 2;                                   /* one after the other all take twice as long */
    rp__cost_fit(t, s, RP_COUNT(s), pace);
    assert_true(is_row(row_of(t, &rp_op_matmul), 2e-6, 5e10, 5e9));
    assert_true(is_row(row_of(t, &rp_op_gelu), 2e-6, 2.5e9, 5e9));
    rp__cost_table_free(t);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_measured_table_has_every_row_and_ranks_products),
        cmocka_unit_test(on_shapes_alone_there_is_nothing_to_measure),
        cmocka_unit_test(calls_run_in_several_places_and_leave_nothing),
        cmocka_unit_test(a_call_that_finds_no_memory_leaves_nothing),
        cmocka_unit_test(times_of_a_known_machine_give_its_figures),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
