/* Claims about wrong values given to the public interface: an error with a sentence, and nothing has changed. */
#include "rp_test.h"

#include <math.h>

#include "reprise/op.h"

static rp_tensor *tensor_of(rp_ctx *ctx, rp_dtype dtype, int64_t n)
{
    rp_tensor *t;

    assert_ok(ctx, rp_tensor_new(ctx, &(rp_meta){ dtype, 1, { n } }, RP_MEM_TEMP, &t));
    return t;
}

static void a_memory_class_that_is_none_is_refused(void **state)
{
    rp_ctx *ctx  = test_ctx(NULL);
    rp_tensor *t = NULL;

    (void)state;
    assert_int_equal(rp_tensor_new(ctx, &(rp_meta){ RP_F32, 1, { 3 } }, (rp_mem_class)RP_MEM_CLASSES, &t), RP_ERR_ARG);
    assert_string_equal(rp_error(ctx), "memory class 6 is unknown");
    assert_int_equal(rp_tensor_new(ctx, &(rp_meta){ RP_F32, 1, { 3 } }, (rp_mem_class)-1, &t), RP_ERR_ARG);
    assert_null(t);
    test_ctx_free(ctx);
}

static void a_device_that_is_not_there_holds_nothing(void **state)
{
    rp_ctx *ctx  = test_ctx(NULL);
    rp_tensor *t = tensor_of(ctx, RP_F32, 3);
    rp_mem m;

    (void)state;
    for (int device = -1; device < 3; device++) {
        rp_mem_read(ctx, device, false, &m);
        assert_int_equal(m.live_bytes, device == 0 ? 12 : 0);
    }
    rp_tensor_unref(t);
    test_ctx_free(ctx);
}

static void doubles_beyond_int32_are_refused_before_any_is_written(void **state)
{
    static const double wrong[] = { 2147483648.0, -2147483649.0, NAN, INFINITY };
    rp_ctx *ctx  = test_ctx(NULL);
    rp_tensor *t = tensor_of(ctx, RP_I32, 2);
    double got[2];

    (void)state;
    assert_ok(ctx, rp_tensor_write(t, (double[]){ 2147483647.0, -2147483648.0 }, 2));
    for (int i = 0; i < RP_COUNT(wrong); i++) {
        assert_int_equal(rp_tensor_write(t, (double[]){ 5, wrong[i] }, 2), RP_ERR_ARG);
        assert_ok(ctx, rp_tensor_read(t, got, 2));
        assert_true(got[0] == 2147483647.0 && got[1] == -2147483648.0);
    }
    rp_tensor_unref(t);
    test_ctx_free(ctx);
}

static void a_slice_of_any_numbers_lies_within_or_is_refused(void **state)
{
    static const struct { int64_t start, length; } wrong[] = { { INT64_MAX, 2 }, { 1, INT64_MAX }, { -1, 1 }, { 1, -1 }, { 4, 1 }, { 3, 2 } };
    rp_ctx *ctx  = test_ctx(NULL);
    rp_tensor *t = tensor_of(ctx, RP_F32, 4), *view = NULL;

    (void)state;
    for (int i = 0; i < RP_COUNT(wrong); i++) {
        assert_int_equal(rp_tensor_slice(t, 0, wrong[i].start, wrong[i].length, &view), RP_ERR_SHAPE);
        assert_null(view);
    }
    assert_ok(ctx, rp_tensor_slice(t, -1, 4, 0, &view));
    rp_tensor_unref(view);
    rp_tensor_unref(t);
    test_ctx_free(ctx);
}

static void a_shape_that_is_none_is_refused_with_what_it_is(void **state)
{
    static const struct { rp_meta meta; rp_status status; const char *message; } wrong[] = {
        { { (rp_dtype)99, 1, { 3 } }, RP_ERR_DTYPE, "dtype 99 is unknown" },
        { { RP_F32, RP_MAX_DIM + 1, { 3 } }, RP_ERR_SHAPE, "a tensor has 0 to 5 dimensions, not 6" },
        { { RP_F32, -1, { 3 } }, RP_ERR_SHAPE, "a tensor has 0 to 5 dimensions, not -1" },
        { { RP_F32, 2, { 3, -2 } }, RP_ERR_SHAPE, "dimension 1 is -2" },
        { { RP_F32, 2, { INT64_C(1) << 32, INT64_C(1) << 32 } }, RP_ERR_SHAPE, "fp32 [4294967296, 4294967296] is too large" },
    };
    rp_ctx *ctx  = test_ctx(NULL);
    rp_tensor *t = NULL;

    (void)state;
    for (int i = 0; i < RP_COUNT(wrong); i++) {
        assert_int_equal(rp_tensor_new(ctx, &wrong[i].meta, RP_MEM_TEMP, &t), wrong[i].status);
        assert_string_equal(rp_error(ctx), wrong[i].message);
        assert_null(t);
    }
    test_ctx_free(ctx);
}

static void a_view_that_is_none_is_refused_with_what_it_is(void **state)
{
    rp_ctx *ctx  = test_ctx(NULL);
    rp_tensor *t = NULL, *turned = NULL, *view = NULL;

    (void)state;
    assert_ok(ctx, rp_tensor_new(ctx, &(rp_meta){ RP_F32, 2, { 2, 3 } }, RP_MEM_TEMP, &t));
    assert_int_equal(rp_tensor_reshape(t, RP_MAX_DIM + 1, (int64_t[]){ 6, 1, 1, 1, 1, 1, 1 }, &view), RP_ERR_SHAPE);
    assert_string_equal(rp_error(ctx), "reshape: 6 dimensions, at most 5");
    assert_int_equal(rp_tensor_reshape(t, 1, (int64_t[]){ 7 }, &view), RP_ERR_SHAPE);
    assert_string_equal(rp_error(ctx), "reshape: fp32 [7] does not hold as many elements as fp32 [2, 3]");
    assert_ok(ctx, rp_tensor_transpose(t, 0, 1, &turned));
    assert_int_equal(rp_tensor_reshape(turned, 1, (int64_t[]){ 6 }, &view), RP_ERR_SHAPE);
    assert_string_equal(rp_error(ctx), "reshape: the view fp32 [3, 2] is not dense");
    assert_int_equal(rp_tensor_slice(t, 1, 2, 2, &view), RP_ERR_SHAPE);
    assert_string_equal(rp_error(ctx), "slice: 2 from 2 is outside dimension 1 of fp32 [2, 3]");
    assert_null(view);
    rp_tensor_unref(turned);
    rp_tensor_unref(t);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_memory_class_that_is_none_is_refused),
        cmocka_unit_test(a_device_that_is_not_there_holds_nothing),
        cmocka_unit_test(doubles_beyond_int32_are_refused_before_any_is_written),
        cmocka_unit_test(a_shape_that_is_none_is_refused_with_what_it_is),
        cmocka_unit_test(a_view_that_is_none_is_refused_with_what_it_is),
        cmocka_unit_test(a_slice_of_any_numbers_lies_within_or_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
