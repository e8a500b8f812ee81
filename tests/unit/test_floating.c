/* What fixes the bits below every op: the team, denormals, the one rounding to bf16. */
/* ctest: device-free */
#include "rp_test.h"

#include <math.h>

#include "tape/tape.h"

static float from_bits(uint32_t u)
{
    float f;

    memcpy(&f, &u, sizeof f);
    return f;
}

static void every_bf16_comes_back_and_a_nan_stays_one(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        float f = rp__f32_from_bf16((uint16_t)h);
        if (isnan(f)) assert_true(isnan(rp__f32_from_bf16(rp__bf16_from_f32(f))));
        else assert_int_equal(rp__bf16_from_f32(f), h);
    }
    assert_true(isnan(rp__f32_from_bf16(rp__bf16_from_f32(from_bits(0x7fffffffu)))));
    assert_true(isnan(rp__f32_from_bf16(rp__bf16_from_f32(from_bits(0x7f800001u)))));
    assert_true(isnan(rp__f32_from_bf16(rp__bf16_from_f32(from_bits(0xff800001u)))));
}

static void bf16_rounds_to_nearest_and_ties_to_even(void **state)
{
    (void)state;
    assert_int_equal(rp__bf16_from_f32(from_bits(0x3f808000u)), 0x3f80);
    assert_int_equal(rp__bf16_from_f32(from_bits(0x3f808001u)), 0x3f81);
    assert_int_equal(rp__bf16_from_f32(from_bits(0x3f818000u)), 0x3f82);
    assert_int_equal(rp__bf16_from_f32(from_bits(0x3f817fffu)), 0x3f81);
    assert_int_equal(rp__bf16_from_f32(from_bits(0x7f7fffffu)), 0x7f80);
    assert_int_equal(rp__bf16_from_f32(from_bits(0x80000000u)), 0x8000);
}

/* Enough elements that every thread of the team has some. */
static void denormals_are_zero_inside_a_call_and_not_outside(void **state)
{
    enum { N = 1 << 16 };
    static double value[N];
    rp_ctx *ctx  = test_ctx(NULL);
    rp_meta meta = rp_meta_1d(RP_F32, N);
    volatile float least = 1.2e-38f, tenth = 0.1f;
    rp_tensor *x, *y;

    (void)state;
    for (int i = 0; i < N; i++) value[i] = 1.2e-38;
    assert_ok(ctx, rp_tensor_new(ctx, &meta, RP_MEM_TEMP, &x));
    assert_ok(ctx, rp_tensor_write(x, value, N));
    assert_ok(ctx, rp__apply(ctx, &rp_op_scale, &(rp_attr_scale){ 0.1f }, &x, 1, &y));
    assert_ok(ctx, rp_tensor_read(y, value, N));
    for (int i = 0; i < N; i++) assert_true(value[i] == 0);
    assert_true(least * tenth > 0);
    rp_tensor_unref(x);
    rp_tensor_unref(y);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_bf16_comes_back_and_a_nan_stays_one),
        cmocka_unit_test(bf16_rounds_to_nearest_and_ties_to_even),
        cmocka_unit_test(denormals_are_zero_inside_a_call_and_not_outside),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
