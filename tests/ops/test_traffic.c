/* Claims about the bytes that memory-bound calls say they read and write: plans know them by nothing else. */
#include "rp_test.h"

#include "ops/call.h"

enum { ROWS = 6, N = 8, X_BYTES = ROWS * N * 4 };

typedef struct { int64_t read, write; } traffic;

static rp_meta f32(int64_t rows, int64_t n) { return rp_meta_2d(RP_F32, rows, n); }

/* Every floating input wants a gradient. */
static void check(const char *op, const void *attr, const rp_meta *in, int n_in, traffic forward, traffic backward)
{
    rp_ctx *ctx             = test_ctx(&(rp_ctx_options){ .shapes_only = true });
    rp_tensor *t[RP_MAX_IN] = { 0 };
    bool want[RP_MAX_IN]    = { 0 };
    rp_op_meta m;

    for (int i = 0; i < n_in; i++) {
        assert_ok(ctx, rp_tensor_new(ctx, &in[i], RP_MEM_TEMP, &t[i]));
        want[i] = rp_meta_is_float(&in[i]);
    }
    assert_ok(ctx, rp__op_prepare(ctx, rp__op_find(op), attr, t, n_in, true, want, &m));
    rp_cost f = m.op->cost(&m, RP_FORWARD), b = m.op->cost(&m, RP_BACKWARD);
    assert_int_equal(f.read_bytes, forward.read);
    assert_int_equal(f.write_bytes, forward.write);
    assert_int_equal(b.read_bytes, backward.read);
    assert_int_equal(b.write_bytes, backward.write);
    for (int i = 0; i < n_in; i++) rp_tensor_unref(t[i]);
    test_ctx_free(ctx);
}

static void rmsnorm_moves_its_rows_the_weight_and_a_statistic_a_row(void **state)
{
    const int64_t w = N * 4, rstd = ROWS * 4;

    (void)state;
    check("rmsnorm", &(rp_attr_norm){ .eps = 1e-5f }, (rp_meta[]){ f32(ROWS, N), rp_meta_1d(RP_F32, N) }, 2, (traffic){ X_BYTES + w, X_BYTES + rstd },
          (traffic){ 2 * X_BYTES + w + rstd, X_BYTES + w });
}

static void swiglu_reads_two_and_writes_one_and_three_and_two_backward(void **state)
{
    (void)state;
    check("swiglu", NULL, (rp_meta[]){ f32(ROWS, N), f32(ROWS, N) }, 2, (traffic){ 2 * X_BYTES, X_BYTES }, (traffic){ 3 * X_BYTES, 2 * X_BYTES });
}

static void the_backward_of_add_moves_nothing(void **state)
{
    (void)state;
    check("add", NULL, (rp_meta[]){ f32(ROWS, N), f32(ROWS, N) }, 2, (traffic){ 2 * X_BYTES, X_BYTES }, (traffic){ 0, 0 });
}

static void gelu_reads_its_input_again(void **state)
{
    (void)state;
    check("gelu", &(rp_attr_gelu){ false }, (rp_meta[]){ f32(ROWS, N) }, 1, (traffic){ X_BYTES, X_BYTES }, (traffic){ 2 * X_BYTES, X_BYTES });
}

static void dropout_reads_no_mask(void **state)
{
    (void)state;
    check("dropout", &(rp_attr_dropout){ 0.5f }, (rp_meta[]){ f32(ROWS, N) }, 1, (traffic){ X_BYTES, X_BYTES }, (traffic){ X_BYTES, X_BYTES });
}

/* Of tables for 1000 positions, two rows of two angles a token. */
static void rotary_reads_the_angles_of_its_tokens_alone(void **state)
{
    rp_meta in[] = { rp_meta_make(RP_F32, 4, (int64_t[]){ 1, ROWS, 2, 4 }), rp_meta_2d(RP_I32, 1, ROWS), f32(1000, 2), f32(1000, 2) };
    traffic moved = { X_BYTES + ROWS * 4 + ROWS * 2 * 2 * 4, X_BYTES };

    (void)state;
    check("rotary", NULL, in, 4, moved, moved);
}

static void the_gradient_of_a_table_is_written_whole(void **state)
{
    const int64_t ids = ROWS * 4, y = X_BYTES, table = 100 * N * 4;

    (void)state;
    check("embedding", NULL, (rp_meta[]){ f32(100, N), rp_meta_1d(RP_I32, ROWS) }, 2, (traffic){ y + ids, y },
          (traffic){ y + 3 * ids, table });
}

/* One key head for two of queries; a log-sum-exp for each row of each head of queries. */
static void attention_moves_what_it_is_given_once(void **state)
{
    rp_meta q = rp_meta_make(RP_F32, 4, (int64_t[]){ 1, ROWS, 2, 4 }), k = rp_meta_make(RP_F32, 4, (int64_t[]){ 1, ROWS, 1, 4 });
    const int64_t kv = X_BYTES, lse = ROWS * 2 * 4;

    (void)state;
    check("attention", &(rp_attr_attention){ 0.5f, 0, true, 0, 0 }, (rp_meta[]){ q, k, k }, 3, (traffic){ X_BYTES + kv, X_BYTES + lse },
          (traffic){ 3 * X_BYTES + kv + lse, X_BYTES + kv });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rmsnorm_moves_its_rows_the_weight_and_a_statistic_a_row),
        cmocka_unit_test(swiglu_reads_two_and_writes_one_and_three_and_two_backward),
        cmocka_unit_test(the_backward_of_add_moves_nothing),
        cmocka_unit_test(gelu_reads_its_input_again),
        cmocka_unit_test(dropout_reads_no_mask),
        cmocka_unit_test(rotary_reads_the_angles_of_its_tokens_alone),
        cmocka_unit_test(the_gradient_of_a_table_is_written_whole),
        cmocka_unit_test(attention_moves_what_it_is_given_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
