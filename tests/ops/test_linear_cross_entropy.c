/* Claims about the fused loss that its case table cannot make. */
#include "rp_test.h"

#include "ops/call.h"

enum { ROWS = 1024, CLASSES = 49152, WIDTH = 576 };

static rp_op_meta prepare(rp_ctx *ctx, rp_dtype dtype, int64_t rows, int64_t classes, const rp_attr_cross_entropy *a, const bool *want)
{
    rp_meta meta[3] = { rp_meta_2d(dtype, rows, WIDTH), rp_meta_2d(dtype, classes, WIDTH), rp_meta_1d(RP_I32, rows) };
    rp_tensor *in[3] = { 0 };
    rp_op_meta m;

    for (int i = 0; i < 3; i++) assert_ok(ctx, rp_tensor_new(ctx, &meta[i], RP_MEM_TEMP, &in[i]));
    assert_ok(ctx, rp__op_prepare(ctx, rp__op_find("linear_cross_entropy"), a, in, 3, true, want, &m));
    for (int i = 0; i < 3; i++) rp_tensor_unref(in[i]);
    return m;
}

static const rp_attr_cross_entropy mean = { 1.0f / ROWS, -100, 0, 0, 0, 0, 0 };

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* What the products take is theirs to say: here it is bounded. */
static void scratch_is_a_small_part_of_the_logits(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .shapes_only = true, .device = "cpu", .threads = 2 });

    for (int d = 0; d < 2; d++) {
        rp_dtype dtype = d ? RP_BF16 : RP_F32;
        rp_op_meta m   = prepare(ctx, dtype, ROWS, CLASSES, &mean, (bool[]){ true, true, false });
        assert_true(larger(m.scratch_bytes, m.scratch_backward_bytes) * 4 < ROWS * (int64_t)CLASSES * rp_dtype_bytes(dtype));
    }
    test_ctx_free(ctx);
}

static void a_wider_vocabulary_takes_no_more(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .shapes_only = true, .device = "cpu", .threads = 2 });
    rp_op_meta narrow = prepare(ctx, RP_F32, ROWS, 49152, &mean, (bool[]){ true, true, false });
    rp_op_meta wide   = prepare(ctx, RP_F32, ROWS, 8 * 49152, &mean, (bool[]){ true, true, false });

    assert_int_equal(wide.scratch_bytes, narrow.scratch_bytes);
    assert_int_equal(wide.scratch_backward_bytes, narrow.scratch_backward_bytes);
    test_ctx_free(ctx);
}

/* Until a block has its fewest classes: then it grows with the rows, and a row of it is 512 bytes in bf16. */
static void more_rows_take_no_more_logits(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .shapes_only = true, .device = "cpu", .threads = 2 });
    rp_op_meta few  = prepare(ctx, RP_BF16, ROWS, CLASSES, &mean, NULL);
    rp_op_meta many = prepare(ctx, RP_BF16, 8 * ROWS, CLASSES, &mean, NULL);
    const int64_t row_bytes = 3 * sizeof(float), products_bytes = 4 << 20;

    assert_true(many.scratch_bytes - few.scratch_bytes < 7 * ROWS * row_bytes + products_bytes);
    test_ctx_free(ctx);
}

static void four_bytes_a_row_are_saved(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .shapes_only = true });

    assert_int_equal(prepare(ctx, RP_BF16, ROWS, CLASSES, &mean, NULL).n_slot, 0);
    for (int want = 1; want < 4; want++) {
        rp_op_meta m = prepare(ctx, RP_BF16, ROWS, CLASSES, &mean, (bool[]){ want & 1, want & 2, false });
        assert_int_equal(m.n_slot, 1);
        assert_int_equal(rp_meta_bytes(&m.slot[0]), 4 * ROWS);
    }
    test_ctx_free(ctx);
}

static void kept_logits_take_their_bytes_and_no_product(void **state)
{
    (void)state;
    static const rp_attr_cross_entropy keeping = { 1.0f / ROWS, -100, 0, 1, 0, 0, 0 };
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .shapes_only = true, .device = "cpu", .threads = 2 });
    rp_op_meta again = prepare(ctx, RP_BF16, ROWS, CLASSES, &mean, (bool[]){ true, true, false });
    rp_op_meta kept  = prepare(ctx, RP_BF16, ROWS, CLASSES, &keeping, (bool[]){ true, true, false });
    int64_t product  = 2 * (int64_t)ROWS * CLASSES * WIDTH;

    assert_int_equal(kept.n_slot, 2);
    assert_int_equal(rp_meta_bytes(&kept.slot[1]), ROWS * (int64_t)CLASSES * 2);
    assert_int_equal(again.op->cost(&again, RP_BACKWARD).flops - kept.op->cost(&kept, RP_BACKWARD).flops, product);
    assert_int_equal(prepare(ctx, RP_BF16, ROWS, CLASSES, &keeping, NULL).n_slot, 0);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scratch_is_a_small_part_of_the_logits),
        cmocka_unit_test(a_wider_vocabulary_takes_no_more),
        cmocka_unit_test(more_rows_take_no_more_logits),
        cmocka_unit_test(four_bytes_a_row_are_saved),
        cmocka_unit_test(kept_logits_take_their_bytes_and_no_product),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
