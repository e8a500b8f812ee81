/* Claims about the price of keeping, of replays and of caches: seconds by hand, from a table of round figures. */
#include "cost_test.h"

#include "cost/keep.h"
#include "reprise/ops.h"

enum { ROWS = 8, WIDE = 16, NARROW = 4, CALLS = 4 };

typedef struct { rp_ctx *ctx; rp_cost_table *costs; rp_tensor *x, *w[2], *loss; } subject;

static rp_tensor *tensor(rp_ctx *ctx, rp_dtype dtype, int64_t rows, int64_t n, bool trained)
{
    rp_meta m = rp_meta_2d(dtype, rows, n);
    rp_tensor *t;

    assert_ok(ctx, rp_tensor_new(ctx, &m, trained ? RP_MEM_PARAM : RP_MEM_TEMP, &t));
    rp_tensor_require_grad(t, trained);
    return t;
}

/* x w0 ─▶ gelu ─▶ w1 ─▶ mean: backward reads what the first product makes, and what gelu does. */
static void open_subject(subject *s, rp_dtype dtype)
{
    rp_tensor *t[3];

    *s       = (subject){ .ctx = shapes_ctx() };
    s->x     = tensor(s->ctx, dtype, ROWS, NARROW, false);
    s->w[0]  = tensor(s->ctx, dtype, WIDE, NARROW, true);
    s->w[1]  = tensor(s->ctx, dtype, NARROW, WIDE, true);
    rp_cost_machine m = machine_of("v3", "avx2", 2);
    s->costs          = builtin(s->ctx, &m);
    for (int d = 0; d < RP_DTYPES; d++) {
        s->costs->move[d] = 0.5e9;
        for (int op = 0; op <= rp__op_count(); op++)
            for (int pass = 0; pass < RP_COST_PASSES; pass++)
                *rp__cost_row(s->costs, op, (rp_dtype)d, (rp_pass)pass) = (rp_cost_row){ 1e-6, 1e30, d == RP_BF16 ? 2e9 : 1e9, 0 };
    }
    s->costs->near = 8;
    assert_ok(s->ctx, rp_apply(s->ctx, "matmul", &(rp_attr_matmul){ true }, (rp_tensor *[]){ s->x, s->w[0] }, 2, &t[0]));
    assert_ok(s->ctx, rp_apply(s->ctx, "gelu", &(rp_attr_gelu){ false }, &t[0], 1, &t[1]));
    assert_ok(s->ctx, rp_apply(s->ctx, "matmul", &(rp_attr_matmul){ true }, (rp_tensor *[]){ t[1], s->w[1] }, 2, &t[2]));
    assert_ok(s->ctx, rp_apply(s->ctx, "mean", &(rp_attr_dim){ 0 }, &t[2], 1, &s->loss));
    for (int i = 0; i < 3; i++) rp_tensor_unref(t[i]);
}

static void close_subject(subject *s)
{
    rp_tensor_unref(s->loss);
    rp__tape_reset(s->ctx);
    rp_tensor_unref(s->x);
    for (int i = 0; i < 2; i++) rp_tensor_unref(s->w[i]);
    rp__cost_table_free(s->costs);
    test_ctx_free(s->ctx);
}

static void check_keep(subject *s, double first, double second)
{
    double of_call[CALLS];

    assert_int_equal(rp__tape_n_calls(s->ctx), CALLS);
    assert_ok(s->ctx, rp__keep_seconds(s->ctx, s->costs, of_call));
    if (of_call[0] != first || of_call[1] != second || of_call[2] != 0 || of_call[3] != 0)
        fail_msg("keeping takes %.9g, %.9g, %.9g and %.9g s", of_call[0], of_call[1], of_call[2], of_call[3]);
}

static void what_backward_reads_is_written_once_and_read_once_unless_all_of_it_fits_the_caches(void **state)
{
    static const struct { rp_dtype dtype; int64_t bytes; double bandwidth; } kinds[] = { { RP_F32, 4, 1e9 }, { RP_BF16, 2, 2e9 } };

    (void)state;
    for (int i = 0; i < RP_COUNT(kinds); i++) {
        int64_t one  = ROWS * WIDE * kinds[i].bytes;
        double price = 2 * (double)one / kinds[i].bandwidth;
        subject s;
        open_subject(&s, kinds[i].dtype);
        s.costs->cache = (double)(2 * one - 1);
        check_keep(&s, price, price);
        s.costs->move[kinds[i].dtype] = 4 * kinds[i].bandwidth;     /* an update streams faster than pointwise ops */
        check_keep(&s, price / 4, price / 4);
        s.costs->cache = (double)(2 * one);
        check_keep(&s, 0, 0);
        s.costs->cache = 0;
        check_keep(&s, 0, 0);
        close_subject(&s);
    }
}

static void a_call_whose_bytes_fit_the_caches_runs_at_their_speed(void **state)
{
    int64_t bytes = 2 * ROWS * WIDE * 4;               /* gelu's, in and out */
    subject s;

    (void)state;
    open_subject(&s, RP_F32);
    rp_op_meta gelu = *rp__tape_call_at(s.ctx, 1).meta;
    s.costs->cache  = (double)(bytes - 1);
    assert_true(rp__cost_seconds(s.costs, &gelu, RP_FORWARD) == 1e-6 + (double)bytes / 1e9);
    s.costs->cache = (double)bytes;
    assert_true(rp__cost_seconds(s.costs, &gelu, RP_FORWARD) == 1e-6 + (double)bytes / 8e9);
    close_subject(&s);
}

static void a_replay_costs_what_it_takes_beyond_keeping_and_never_less_than_nothing(void **state)
{
    subject s;

    (void)state;
    open_subject(&s, RP_F32);
    s.costs->cache  = 0;
    rp_op_meta gelu = *rp__tape_call_at(s.ctx, 1).meta;
    double seconds  = rp__cost_seconds(s.costs, &gelu, RP_FORWARD);
    assert_true(rp__keep_replay(s.costs, &gelu, 0) == seconds);
    assert_true(rp__keep_replay(s.costs, &gelu, seconds / 4) == seconds - seconds / 4);
    assert_true(rp__keep_replay(s.costs, &gelu, 2 * seconds) == 0);
    close_subject(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_backward_reads_is_written_once_and_read_once_unless_all_of_it_fits_the_caches),
        cmocka_unit_test(a_call_whose_bytes_fit_the_caches_runs_at_their_speed),
        cmocka_unit_test(a_replay_costs_what_it_takes_beyond_keeping_and_never_less_than_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
