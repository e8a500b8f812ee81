/* The cases of every op again, in little time: forward and backward stay within their tensors (run_cases.h). AddressSanitizer sees reads, too. */
/* ctest: no-emulator level-free watched */
#include "rp_test.h"

#include "ops/run_cases.h"

#define RP_OP(name) \
    extern const rp_op rp_op_##name; \
    static void every_case_of_##name##_stays_within_its_tensors(void **state) \
    { \
        (void)state; \
        run_within_bounds(&rp_op_##name); \
    }
#include "ops/ops.def"
#undef RP_OP

int main(void)
{
    const struct CMUnitTest tests[] = {
#define RP_OP(name) cmocka_unit_test(every_case_of_##name##_stays_within_its_tensors),
#include "ops/ops.def"
#undef RP_OP
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
