/* Claims about `reprise bench`: which benches a name means, what a row says, and that nothing is left behind. How fast anything is, no
 * test knows. */
/* ctest: device-free cost=13 */
#include "rp_test.h"

#include "cli/bench/bench.h"

enum { MOST_ROWS = 32 };
typedef struct { int n; rp_bench_row row[MOST_ROWS]; } rows;

static void keep(void *user, const rp_bench_row *row)
{
    rows *r = user;

    assert_true(r->n < MOST_ROWS);
    r->row[r->n++] = *row;
}

static rp_status run(rp_ctx *ctx, const char *name, int rounds, rows *out, rp_bench_ceilings *ceilings)
{
    rp_bench_options options = { .name = &name, .n_names = 1, .rounds = rounds, .measured = keep, .user = out };

    *out = (rows){ 0 };
    return rp__bench_run(ctx, &options, ceilings);
}

static int64_t live(rp_ctx *ctx)
{
    rp_mem m;

    rp_mem_read(ctx, 0, false, &m);
    return m.live_bytes;
}

static void every_bench_has_a_name_of_its_own(void **state)
{
    (void)state;
    char name[RP_BENCH_NAME_CHARS], other[RP_BENCH_NAME_CHARS];
    int n = rp__bench_count(), n_usual = 0;
    bool usual;

    for (int i = 0; i < n; i++) {
        rp__bench_name(i, name, &usual);
        n_usual += usual;
        assert_true(strlen(name) < 60);
        for (int j = 0; j < i; j++) {
            rp__bench_name(j, other, &usual);
            assert_string_not_equal(name, other);
        }
    }
    assert_true(n_usual > 50);
    assert_true(n_usual < n);
}

static void a_name_means_itself_what_it_begins_or_what_its_glob_fits(void **state)
{
    (void)state;
    assert_int_equal(rp__bench_matches("matmul:1024x576x576:bf16:dw"), 1);
    assert_int_equal(rp__bench_matches("matmul:1024x576x576:bf16"), 3);
    assert_int_equal(rp__bench_matches("matmul:1024x576x576"), 6);
    assert_int_equal(rp__bench_matches("matmul:*:dw"), rp__bench_matches("*:dw"));
    assert_int_equal(rp__bench_matches("matmul"), 3 * rp__bench_matches("*:dw"));
    assert_int_equal(rp__bench_matches("*"), rp__bench_count());
    assert_int_equal(rp__bench_matches("mat"), 0);
    assert_int_equal(rp__bench_matches("matmul:1024x576"), 0);
    assert_int_equal(rp__bench_matches(""), 0);
}

static void a_row_says_what_ran_and_its_quartiles_lie_about_the_median(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .threads = 2 });
    rp_bench_ceilings c;
    rows r;

    assert_ok(ctx, run(ctx, "swiglu:1024x1536", 3, &r, &c));
    assert_int_equal(r.n, 4);
    assert_string_equal(r.row[0].name, "swiglu:1024x1536:fp32:forward");
    assert_string_equal(r.row[3].name, "swiglu:1024x1536:bf16:backward");
    assert_int_equal(r.row[0].bytes, 3 * 1024 * 1536 * 4);
    assert_int_equal(r.row[2].bytes, 3 * 1024 * 1536 * 2);
    for (int i = 0; i < r.n; i++) {
        const rp_bench_row *row = &r.row[i];
        assert_int_equal(row->rounds, 3);
        assert_int_equal(row->tokens, 0);
        assert_true(row->seconds.low > 0 && row->seconds.low <= row->seconds.median && row->seconds.median <= row->seconds.high);
        assert_true(row->share.low <= row->share.median && row->share.median <= row->share.high);
        assert_true(!row->bound == (c.fp32 == 0));
        assert_true(!row->bound || row->share.low > 0);
    }
    assert_true(live(ctx) == 0);
    test_ctx_free(ctx);
}

static void an_op_that_passes_gradients_on_has_its_forward_alone(void **state)
{
    (void)state;
    assert_int_equal(rp__bench_matches("add:1024x576"), 2);
    assert_int_equal(rp__bench_matches("add:1024x576:fp32:forward"), 1);
    assert_int_equal(rp__bench_matches("add:1024x576:fp32:backward"), 0);
}

static void the_backward_of_a_product_is_timed_in_halves(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .threads = 1 });
    rp_bench_ceilings c;
    rows r;

    assert_ok(ctx, run(ctx, "matmul:1024x576x576:fp32", 1, &r, &c));
    assert_int_equal(r.n, 3);
    for (int i = 0; i < 3; i++) assert_int_equal(r.row[i].flops, INT64_C(2) * 1024 * 576 * 576);
    test_ctx_free(ctx);
}

static void an_update_counts_weights_states_and_the_gradient(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .threads = 1 });
    rp_bench_ceilings c;
    rows r;

    assert_ok(ctx, run(ctx, "adamw:49152x576:bf16", 1, &r, &c));
    assert_int_equal(r.n, 1);
    assert_int_equal(r.row[0].bytes, INT64_C(7) * 49152 * 576 * 2);
    assert_int_equal(r.row[0].flops, 0);
    assert_true(live(ctx) == 0);
    test_ctx_free(ctx);
}

/* A step that recomputes its blocks has the FLOPs of one that keeps everything, plus those of the recomputed products. */
static void a_step_has_tokens_and_the_share_of_its_products(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .threads = 1 });
    rp_bench_ceilings c;
    rows r;

    assert_ok(ctx, run(ctx, "step:tiny", 2, &r, &c));
    assert_int_equal(r.n, 4);
    assert_string_equal(r.row[0].name, "step:tiny:32x2:fp32:none");
    assert_string_equal(r.row[2].name, "step:tiny:32x2:fp32:full");
    for (int i = 0; i < r.n; i++) {
        assert_int_equal(r.row[i].tokens, 64);
        assert_int_equal(r.row[i].flops, r.row[0].flops);
        assert_true(r.row[i].flops > INT64_C(6) * 64 * 200000);        /* six a parameter and token, and attention */
        assert_true(r.row[i].products.low > 0);
    }
    assert_true(live(ctx) == 0);
    test_ctx_free(ctx);
}

static void any_allocation_may_fail_and_nothing_is_left(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .threads = 1 });
    rp_bench_ceilings c;
    rows r;
    test_faults f = { .each = test_few_or(3, 8) };

    while (!f.over) {
        test_fault_begin(&f, ctx);
        test_fault_end(&f, run(ctx, "step:tiny:32x2:fp32:full", 1, &r, &c));
        if (live(ctx)) fail_msg("allocation %d leaves %d bytes", (int)f.k, (int)live(ctx));
    }
    assert_true(f.failed > test_few_or(8, 20));
    test_ctx_free(ctx);
}

static void shapes_alone_have_nothing_to_time(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .shapes_only = true, .threads = 1 });
    rp_bench_ceilings c;
    rows r;

    assert_int_equal(run(ctx, "rmsnorm", 1, &r, &c), RP_ERR_STATE);
    assert_string_equal(rp_error(ctx), "a context of shapes alone has nothing to time");
    assert_int_equal(r.n, 0);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_bench_has_a_name_of_its_own),
        cmocka_unit_test(a_name_means_itself_what_it_begins_or_what_its_glob_fits),
        cmocka_unit_test(a_row_says_what_ran_and_its_quartiles_lie_about_the_median),
        cmocka_unit_test(an_op_that_passes_gradients_on_has_its_forward_alone),
        cmocka_unit_test(the_backward_of_a_product_is_timed_in_halves),
        cmocka_unit_test(an_update_counts_weights_states_and_the_gradient),
        cmocka_unit_test(a_step_has_tokens_and_the_share_of_its_products),
        cmocka_unit_test(any_allocation_may_fail_and_nothing_is_left),
        cmocka_unit_test(shapes_alone_have_nothing_to_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
