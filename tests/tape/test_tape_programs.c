/* Claims about random programs under random fates: what is a region never shows in a gradient. */
/* ctest: no-emulator */
#include "tape/program.h"

enum { N_PROGRAMS = 400 };

static void random_programs_have_the_gradients_of_the_same_calls_without_regions(void **state)
{
    (void)state;
    static program_outcome plain, other;
    int64_t replays = 0, offloaded = 0, calls = 0;

    for (uint32_t seed = 1; seed <= N_PROGRAMS; seed++) {
        program p = program_make(seed);
        assert_int_equal(program_run(&p, &(program_way){ .regions = false }, &plain), RP_OK);
        for (uint32_t drawn = 0; drawn < 3; drawn++) {
            char what[64];
            program_way way = { .regions = true, .fates_seed = drawn ? seed * 10 + drawn : 0 };
            snprintf(what, sizeof what, "program %u, fates %u", seed, drawn);
            if (program_run(&p, &way, &other)) fail_msg("%s: %s", what, other.error);
            assert_same_outcome(&other, &plain, what);
            replays += other.work.n_replayed;
            offloaded += other.work.offloaded_bytes;
            calls += other.work.n_calls;
        }
    }
    assert_in_range(calls, 10 * N_PROGRAMS, 200 * N_PROGRAMS);      /* else it would say little */
    assert_in_range(replays, calls / 20, 3 * calls);
    assert_true(offloaded > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_programs_have_the_gradients_of_the_same_calls_without_regions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
