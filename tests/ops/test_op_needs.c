/* Backward keeps no value that it does not read: see run_needs. */
/* ctest: level-free device-free */
#include "rp_test.h"

#include "ops/run_cases.h"

#define RP_OP(name) \
    extern const rp_op rp_op_##name; \
    static void each_value_that_##name##_needs_matters(void **state) \
    { \
        (void)state; \
        run_needs(&rp_op_##name); \
    }
#include "ops/ops.def"
#undef RP_OP

int main(void)
{
    const struct CMUnitTest tests[] = {
#define RP_OP(name) cmocka_unit_test(each_value_that_##name##_needs_matters),
#include "ops/ops.def"
#undef RP_OP
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
