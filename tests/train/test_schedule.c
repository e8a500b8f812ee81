/* Claims about learning-rate schedules. */
/* ctest: device-free thread-free */
#include "rp_test.h"

#include <jansson.h>
#include <math.h>

#include "optim/schedule.h"

static void factors_are_those_of_transformers(void **state)
{
    (void)state;
    json_error_t e;
    json_t *all = json_load_file(RP_SOURCE_DIR "/tests/train/optim_golden.json", 0, &e), *c;
    rp_ctx *ctx = test_ctx(NULL);
    size_t i;

    assert_non_null(all);
    json_array_foreach(json_object_get(all, "schedules"), i, c) {
        rp_schedule s = { json_string_value(json_object_get(c, "name")), json_integer_value(json_object_get(c, "warmup")),
                          json_integer_value(json_object_get(c, "steps")) };
        const json_t *factors = json_object_get(c, "factors");
        assert_ok(ctx, rp__schedule_check(ctx, &s));
        for (size_t step = 0; step < json_array_size(factors); step++) {
            double got = rp__schedule_factor(&s, (int64_t)step), want = json_number_value(json_array_get(factors, step));
            if (fabs(got - want) > 1e-12) fail_msg("%s %zu, step %zu: %.17g, expected %.17g", s.name, i, step, got, want);
        }
    }
    json_decref(all);
    test_ctx_free(ctx);
}

static void unknown_schedules_name_the_nearest(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(NULL);

    assert_int_equal(rp__schedule_check(ctx, &(rp_schedule){ "cosin", 0, 10 }), RP_ERR_CONFIG);
    assert_string_equal(rp_error(ctx), "unknown schedule 'cosin'; did you mean 'cosine'?");
    assert_int_equal(rp__schedule_check(ctx, &(rp_schedule){ "polynomial", 0, 10 }), RP_ERR_CONFIG);
    assert_string_equal(rp_error(ctx), "unknown schedule 'polynomial'");
    assert_int_equal(rp__schedule_check(ctx, &(rp_schedule){ "linear", -1, 10 }), RP_ERR_CONFIG);
    assert_string_equal(rp_error(ctx), "lr_scheduler.num_warmup_steps: -1 is negative");
    assert_int_equal(rp__schedule_check(ctx, &(rp_schedule){ "linear", 0, -10 }), RP_ERR_CONFIG);
    assert_string_equal(rp_error(ctx), "the run has -10 steps");
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(factors_are_those_of_transformers),
        cmocka_unit_test(unknown_schedules_name_the_nearest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
