/* Claims about wrong values given to the public interface: an error with a sentence, and nothing has changed. */
#include "rp_test.h"

#include <math.h>

#include "reprise/op.h"
#include "reprise/ops.h"

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

static void doubles_beyond_a_whole_dtype_are_refused_before_any_is_written(void **state)
{
    static const struct { rp_dtype dtype; const char *name; double right[2], wrong[4]; } all[] = {
        { RP_I32, "int32", { 2147483647.0, -2147483648.0 }, { 2147483648.0, -2147483649.0, NAN, INFINITY } },
        { RP_U8, "uint8", { 255, 0 }, { 256, -1, NAN, INFINITY } },
    };
    rp_ctx *ctx = test_ctx(NULL);
    double got[2];

    (void)state;
    for (int i = 0; i < 4 * RP_COUNT(all); i++) {
        rp_tensor *t = tensor_of(ctx, all[i / 4].dtype, 2);
        char expected[128];
        assert_ok(ctx, rp_tensor_write(t, all[i / 4].right, 2));
        snprintf(expected, sizeof expected, "rp_tensor_write: element 1 is %g, beyond %s", all[i / 4].wrong[i % 4], all[i / 4].name);
        assert_int_equal(rp_tensor_write(t, (double[]){ 5, all[i / 4].wrong[i % 4] }, 2), RP_ERR_ARG);
        assert_string_equal(rp_error(ctx), expected);
        assert_ok(ctx, rp_tensor_read(t, got, 2));
        assert_true(got[0] == all[i / 4].right[0] && got[1] == all[i / 4].right[1]);
        rp_tensor_unref(t);
    }
    test_ctx_free(ctx);
}

/* Nothing is read or written then. */
static void numbers_that_are_not_as_many_as_elements_are_refused(void **state)
{
    rp_ctx *ctx  = test_ctx(NULL);
    rp_meta m[2] = { rp_meta_1d(RP_F32, 3), rp_meta_1d(RP_I32, 3) };
    double numbers[4];
    int32_t ints[4] = { 7, 7, 7, 7 };

    (void)state;
    for (int i = 0; i < 8; i++) {
        rp_tensor *t;
        int64_t count = (int64_t[]){ 0, 2, 4, -1 }[i / 2];
        for (int k = 0; k < 4; k++) numbers[k] = 5;
        assert_ok(ctx, rp_tensor_new(ctx, &m[i % 2], RP_MEM_TEMP, &t));
        for (int k = 0; k < 3; k++) rp_elem_put(t, k, 1);
        assert_int_equal(rp_tensor_write(t, numbers, count), RP_ERR_ARG);
        assert_non_null(strstr(rp_error(ctx), "rp_tensor_write: "));
        assert_int_equal(rp_tensor_write_i32(t, ints, count), RP_ERR_ARG);
        assert_non_null(strstr(rp_error(ctx), "rp_tensor_write_i32: "));
        assert_int_equal(rp_tensor_read(t, numbers, count), RP_ERR_ARG);
        assert_non_null(strstr(rp_error(ctx), "rp_tensor_read: "));
        for (int k = 0; k < 3; k++) assert_true(rp_elem_get(t, k) == 1 && numbers[k] == 5);
        rp_tensor_unref(t);
    }
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
        { { RP_F32, RP_MAX_DIM + 1, { 3 } }, RP_ERR_SHAPE, "a tensor has 0 to 8 dimensions, not 9" },
        { { RP_F32, -1, { 3 } }, RP_ERR_SHAPE, "a tensor has 0 to 8 dimensions, not -1" },
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
    assert_int_equal(rp_tensor_reshape(t, RP_MAX_DIM + 1, (int64_t[]){ 6, 1, 1, 1, 1, 1, 1, 1, 1 }, &view), RP_ERR_SHAPE);
    assert_string_equal(rp_error(ctx), "a tensor has 0 to 8 dimensions, not 9");
    assert_int_equal(rp_tensor_reshape(t, 1, (int64_t[]){ 7 }, &view), RP_ERR_SHAPE);
    assert_string_equal(rp_error(ctx), "reshape: fp32 [7] does not hold as many elements as fp32 [2, 3]");
    assert_int_equal(rp_tensor_reshape(t, 2, (int64_t[]){ -2, -3 }, &view), RP_ERR_SHAPE);
    assert_string_equal(rp_error(ctx), "dimension 0 is -2");
    assert_int_equal(rp_tensor_reshape(t, 4, (int64_t[]){ INT64_C(1) << 32, INT64_C(1) << 31, 2, 6 }, &view), RP_ERR_SHAPE);
    assert_string_equal(rp_error(ctx), "fp32 [4294967296, 2147483648, 2, 6] is too large");
    assert_ok(ctx, rp_tensor_transpose(t, 0, 1, &turned));
    assert_int_equal(rp_tensor_reshape(turned, 1, (int64_t[]){ 6 }, &view), RP_ERR_SHAPE);
    assert_string_equal(rp_error(ctx), "reshape: the view fp32 [3, 2] is not dense");
    assert_int_equal(rp_tensor_slice(t, 1, 2, 2, &view), RP_ERR_SHAPE);
    assert_string_equal(rp_error(ctx), "slice: 2 from 2 is outside dimension 1 of fp32 [2, 3]");
    for (int i = 0; i < 4; i++) {
        int wrong = (int[]){ 2, -3, INT32_MAX, INT32_MIN }[i];
        assert_int_equal(rp_tensor_transpose(t, wrong, 0, &view), RP_ERR_SHAPE);
        assert_int_equal(rp_tensor_transpose(t, 0, wrong, &view), RP_ERR_SHAPE);
        assert_int_equal(rp_tensor_slice(t, wrong, 0, 1, &view), RP_ERR_SHAPE);
    }
    assert_null(view);
    rp_tensor_unref(turned);
    rp_tensor_unref(t);
    test_ctx_free(ctx);
}

/* ---- writes that no function of the library makes ---- */

/* loss = the sum of x * w, which backward reads */
static rp_tensor *sum_of_product(rp_ctx *ctx, rp_tensor *x, rp_tensor *w)
{
    rp_tensor *in[] = { x, w }, *product = NULL, *loss = NULL;

    assert_ok(ctx, rp_apply(ctx, "mul", NULL, in, 2, &product));
    assert_ok(ctx, rp_apply(ctx, "sum", &(rp_attr_dim){ 0 }, &product, 1, &loss));
    rp_tensor_unref(product);
    return loss;
}

typedef void (*scribble)(rp_tensor *t, float *address);

static void write_at_a_new_address(rp_tensor *t, float *address) { (void)address, *(float *)rp_tensor_data(t) = 9; }
static void write_at_an_old_address_and_say_so(rp_tensor *t, float *address) { *address = 9, rp_tensor_touch(t); }
static void write_an_element(rp_tensor *t, float *address) { (void)address, rp_elem_put(t, 1, 9); }
static void write_a_row(rp_tensor *t, float *address) { (void)address, rp_row_put(t, 0, (double[]){ 9, 9, 9 }); }
static void write_numbers(rp_tensor *t, float *address) { (void)address, (void)rp_tensor_write(t, (double[]){ 9, 9, 9 }, 3); }
static void write_ints(rp_tensor *t, float *address) { (void)address, (void)rp_tensor_write_i32(t, (int32_t[]){ 9, 9, 9 }, 3); }
static void look(rp_tensor *t, float *address) { (void)address, assert_true(*(const float *)rp_tensor_peek(t) == 1 && rp_elem_get(t, 1) == 2); }

static rp_status backward_after(scribble f)
{
    rp_ctx *ctx  = test_ctx(&(rp_ctx_options){ .device = "cpu" });
    rp_tensor *x = tensor_of(ctx, RP_F32, 3), *w = tensor_of(ctx, RP_F32, 3);

    assert_ok(ctx, rp_tensor_write(x, (double[]){ 1, 2, 3 }, 3));
    assert_ok(ctx, rp_tensor_write(w, (double[]){ 4, 5, 6 }, 3));
    assert_ok(ctx, rp_tensor_require_grad(w, true));
    float *address  = rp_tensor_data(x);
    rp_tensor *loss = sum_of_product(ctx, x, w);
    f(x, address);
    rp_status status = rp_backward(ctx, loss);
    if (status == RP_OK) assert_true(rp_elem_get(rp_tensor_grad(w), 1) == 2);
    rp_tensor_unref(loss);
    rp_tensor_unref(x);
    rp_tensor_unref(w);
    test_ctx_free(ctx);
    return status;
}

static void a_write_between_forward_and_backward_is_an_error_however_it_is_made(void **state)
{
    (void)state;
    assert_int_equal(backward_after(write_at_a_new_address), RP_ERR_MUTATED);
    assert_int_equal(backward_after(write_at_an_old_address_and_say_so), RP_ERR_MUTATED);
    assert_int_equal(backward_after(write_an_element), RP_ERR_MUTATED);
    assert_int_equal(backward_after(write_a_row), RP_ERR_MUTATED);
    assert_int_equal(backward_after(write_numbers), RP_ERR_MUTATED);
    assert_int_equal(backward_after(write_ints), RP_ERR_MUTATED);
    assert_int_equal(backward_after(look), RP_OK);
}

/* ---- at the wrong time ---- */

static void a_gradient_is_wanted_before_the_first_use_or_refused(void **state)
{
    rp_ctx *ctx  = test_ctx(NULL);
    rp_tensor *x = tensor_of(ctx, RP_F32, 3), *w = tensor_of(ctx, RP_F32, 3);

    (void)state;
    assert_ok(ctx, rp_tensor_require_grad(w, true));
    rp_tensor *loss = sum_of_product(ctx, x, w);
    assert_int_equal(rp_tensor_require_grad(x, true), RP_ERR_STATE);
    assert_non_null(strstr(rp_error(ctx), "is used by recorded calls; call it before the first use"));
    assert_int_equal(rp_tensor_require_grad(w, false), RP_ERR_STATE);
    assert_int_equal(rp_tensor_require_grad(loss, true), RP_ERR_STATE);
    assert_ok(ctx, rp_tensor_require_grad(w, true));
    assert_ok(ctx, rp_backward(ctx, loss));
    assert_ok(ctx, rp_tensor_require_grad(x, true));
    rp_tensor_unref(loss);
    rp_tensor_unref(x);
    rp_tensor_unref(w);
    test_ctx_free(ctx);
}

/* ---- objects of another context ---- */

typedef struct { rp_tensor *t; rp_policy *policy; rp_module *module; } things;

static rp_status pass_on(rp_ctx *ctx, void *user, rp_tensor *const *inputs, rp_tensor **outputs)
{
    (void)ctx, (void)user;
    *outputs = rp_tensor_ref(inputs[0]);
    return RP_OK;
}

static things things_of(rp_ctx *ctx)
{
    things of = { tensor_of(ctx, RP_F32, 3), NULL, NULL };

    assert_ok(ctx, rp_policy_new(ctx, "mine", &of.policy));
    assert_ok(ctx, rp_module_new(ctx, NULL, "", "Mine", pass_on, NULL, &of.module));
    assert_ok(ctx, rp_tensor_require_grad(of.t, true));
    return of;
}

static void things_free(things *of)
{
    rp_tensor_unref(of->t);
    rp_module_free(of->module);
    rp_policy_free(of->policy);
}

#define REFUSED(ctx, call) \
    do { \
        assert_int_equal(call, RP_ERR_ARG); \
        if (!strstr(rp_error(ctx), "of another context")) fail_msg("%s: %s", #call, rp_error(ctx)); \
    } while (0)

static void every_function_of_two_objects_refuses_those_of_two_contexts(void **state)
{
    static const rp_checkpoint_function functions[] = { pass_on };
    rp_ctx *ctx = test_ctx(NULL), *outer = test_ctx(NULL);
    things here = things_of(ctx), there = things_of(outer);
    rp_tensor *loss = sum_of_product(ctx, here.t, here.t), *in[] = { here.t, there.t }, *y = NULL;
    const rp_checkpoint_options alien = { .policy = there.policy };
    rp_module *child = NULL;
    rp_model *model  = NULL;

    (void)state;
    REFUSED(ctx, rp_apply(ctx, "mul", NULL, in, 2, &y));
    REFUSED(outer, rp_backward(outer, loss));
    REFUSED(ctx, rp_backward_with(ctx, loss, &(rp_backward_options){ .only = &there.t, .n_only = 1 }));
    REFUSED(ctx, rp_module_new(ctx, there.module, "child", "Mine", pass_on, NULL, &child));
    REFUSED(ctx, rp_checkpoint(ctx, pass_on, NULL, in, &alien, &y));
    REFUSED(ctx, rp_checkpoint_sequential(ctx, functions, NULL, 1, 1, here.t, &alien, &y));
    REFUSED(ctx, rp_checkpoint_sequential(ctx, functions, NULL, 1, 1, there.t, NULL, &y));
    REFUSED(ctx, rp_set_policy(ctx, there.policy));
    REFUSED(ctx, rp_module_policy(here.module, there.policy));
    REFUSED(ctx, rp_model_new(ctx, RP_SOURCE_DIR "/recipes/tiny_llama/config.json", &(rp_model_options){ .policy = there.policy }, &model));
    assert_ok(ctx, rp_model_new(ctx, RP_SOURCE_DIR "/recipes/tiny_llama/config.json", NULL, &model));
    REFUSED(ctx, rp_model_logits(model, there.t, &y));
    REFUSED(ctx, rp_model_loss(model, there.t, here.t, 1, &y));
    REFUSED(ctx, rp_model_loss(model, here.t, there.t, 1, &y));
    assert_null(y);
    assert_null(child);
    rp_forget(ctx);
    rp_tensor_unref(loss);
    rp_model_free(model);
    things_free(&here);
    things_free(&there);
    test_ctx_free(ctx);
    test_ctx_free(outer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_memory_class_that_is_none_is_refused),
        cmocka_unit_test(a_device_that_is_not_there_holds_nothing),
        cmocka_unit_test(doubles_beyond_a_whole_dtype_are_refused_before_any_is_written),
        cmocka_unit_test(a_shape_that_is_none_is_refused_with_what_it_is),
        cmocka_unit_test(a_view_that_is_none_is_refused_with_what_it_is),
        cmocka_unit_test(numbers_that_are_not_as_many_as_elements_are_refused),
        cmocka_unit_test(a_slice_of_any_numbers_lies_within_or_is_refused),
        cmocka_unit_test(a_write_between_forward_and_backward_is_an_error_however_it_is_made),
        cmocka_unit_test(a_gradient_is_wanted_before_the_first_use_or_refused),
        cmocka_unit_test(every_function_of_two_objects_refuses_those_of_two_contexts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
