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

static const rp_attr_cross_entropy mean = { 1.0f / ROWS, -100, 0 };

/* What the products take is theirs to say: here it is bounded by a chunk. */
static void scratch_holds_the_logits_of_one_chunk(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .shapes_only = true, .device = "cpu", .threads = 2 });
    const int64_t chunk_bytes = INT64_C(64) << 20;

    for (int d = 0; d < 2; d++) {
        rp_dtype dtype = d ? RP_BF16 : RP_F32;
        rp_op_meta m   = prepare(ctx, dtype, ROWS, CLASSES, &mean, (bool[]){ true, true, false });
        assert_true(m.scratch_bytes < 2 * chunk_bytes);
        assert_true(m.scratch_bytes < ROWS * (int64_t)CLASSES * rp_dtype_bytes(dtype));
    }
    test_ctx_free(ctx);
}

static void a_wide_vocabulary_still_gets_128_rows(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .shapes_only = true, .device = "cpu", .threads = 2 });
    rp_op_meta m = prepare(ctx, RP_F32, ROWS, 400000, &mean, (bool[]){ true, true, false });

    assert_true(m.scratch_bytes >= INT64_C(128) * 400000 * 4);
    assert_true(m.scratch_bytes < INT64_C(256) * 400000 * 4);
    test_ctx_free(ctx);
}

static void more_rows_take_no_more_logits(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .shapes_only = true, .device = "cpu", .threads = 2 });
    rp_op_meta few  = prepare(ctx, RP_BF16, ROWS, CLASSES, &mean, (bool[]){ true, true, false });
    rp_op_meta many = prepare(ctx, RP_BF16, 8 * ROWS, CLASSES, &mean, (bool[]){ true, true, false });

    assert_int_equal(many.scratch_bytes - few.scratch_bytes, 7 * ROWS * (int64_t)sizeof(float));
    test_ctx_free(ctx);
}

static void evaluation_and_frozen_heads_save_less(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .shapes_only = true });

    assert_int_equal(prepare(ctx, RP_BF16, ROWS, CLASSES, &mean, NULL).n_slot, 0);
    assert_int_equal(prepare(ctx, RP_BF16, ROWS, CLASSES, &mean, (bool[]){ true, false, false }).n_slot, 1);
    rp_op_meta head = prepare(ctx, RP_BF16, ROWS, CLASSES, &mean, (bool[]){ false, true, false });
    assert_int_equal(head.n_slot, 2);
    assert_int_equal(rp_meta_bytes(&head.slot[0]), 0);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scratch_holds_the_logits_of_one_chunk),
        cmocka_unit_test(a_wide_vocabulary_still_gets_128_rows),
        cmocka_unit_test(more_rows_take_no_more_logits),
        cmocka_unit_test(evaluation_and_frozen_heads_save_less),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
