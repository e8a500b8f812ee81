/* Every op of ops.def keeps every promise that its case table makes: see run_cases.h. */
/* ctest: level-free cost=30 */
#include "rp_test.h"

#include "ops/run_cases.h"

#define RP_OP(name) \
    extern const rp_op rp_op_##name; \
    static void every_case_of_##name##_holds(void **state) \
    { \
        (void)state; \
        run_cases(&rp_op_##name); \
    }
#include "ops/ops.def"
#undef RP_OP

int main(void)
{
    const struct CMUnitTest tests[] = {
#define RP_OP(name) cmocka_unit_test(every_case_of_##name##_holds),
#include "ops/ops.def"
#undef RP_OP
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
