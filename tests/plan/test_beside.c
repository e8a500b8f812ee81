/* Claims about the time of steps whose gathers run beside their computing. */
/* ctest: device-free thread-free */
#include "rp_test.h"

#include "cost/overlap.h"

static rp_ctx *ctx;
static rp_overlap b;

static int setup(void **state)
{
    (void)state;
    ctx = test_ctx(NULL);
    b   = (rp_overlap){ .ctx = ctx };
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    rp__overlap_close(&b);
    test_ctx_free(ctx);
    return 0;
}

static void pass(void) { rp__overlap_note(&b, (rp_overlap_event){ .kind = RP_OVERLAP_PASS }); }
static void compute(double seconds, bool recompute) { rp__overlap_note(&b, (rp_overlap_event){ RP_OVERLAP_COMPUTE, recompute, seconds, 0 }); }
static void gather(double seconds, int64_t bytes, bool recompute) { rp__overlap_note(&b, (rp_overlap_event){ RP_OVERLAP_GATHER, recompute, seconds, bytes }); }
static void sum(double seconds) { rp__overlap_note(&b, (rp_overlap_event){ RP_OVERLAP_TALK, false, seconds, 0 }); }

static void a_gather_that_is_asked_for_ahead_hides_under_computing(void **state)
{
    (void)state;
    b.buffer_bytes = 10;
    pass();
    gather(1, 10, false);               /* 0 to 1: nothing is computed yet */
    compute(3, false);                  /* 1 to 4, and the next gather from 1 to 3 */
    gather(2, 10, false);
    compute(1, false);
    assert_true(rp__overlap_seconds(&b, true) == 5);
}

static void what_is_larger_than_the_buffer_waits_for_itself(void **state)
{
    (void)state;
    b.buffer_bytes = 9;
    pass();
    gather(1, 10, false);
    compute(3, false);
    gather(2, 10, false);
    compute(1, false);
    assert_true(rp__overlap_seconds(&b, true) == 7);
}

static void a_replay_under_a_gather_costs_nothing(void **state)
{
    (void)state;
    b.buffer_bytes = 10;
    pass();
    gather(1, 10, false);
    compute(1, false);
    compute(2, true);                   /* the next gather takes until 5 anyway */
    gather(4, 10, false);
    compute(1, false);
    assert_true(rp__overlap_seconds(&b, false) == 6);
    assert_true(rp__overlap_seconds(&b, true) == 6);
}

static void nothing_is_asked_for_before_its_pass(void **state)
{
    (void)state;
    b.buffer_bytes = 10;
    pass();
    compute(5, false);
    pass();
    gather(2, 10, false);
    assert_true(rp__overlap_seconds(&b, true) == 7);
}

static void leave(double seconds, int64_t bytes) { rp__overlap_note(&b, (rp_overlap_event){ RP_OVERLAP_SUM, false, seconds, bytes }); }

static void a_sum_that_is_left_to_come_is_waited_for_when_its_room_is_wanted_and_at_the_end(void **state)
{
    (void)state;
    b.sums_bytes = 10;
    pass();
    compute(1, false);
    leave(3, 6);                        /* 1 to 4 */
    compute(1, false);
    leave(1, 6);                        /* at 2 there is no room: 4 to 5 */
    assert_true(rp__overlap_seconds(&b, true) == 5);
    compute(7, false);
    leave(1, 12);                       /* too large: 11 to 12 */
    assert_true(rp__overlap_seconds(&b, true) == 12);
}

static void draw_step(uint64_t seed, double *computed, double *sent, double *summed, double *recompute)
{
    rp__overlap_close(&b);
    b         = (rp_overlap){ .ctx = ctx };
    *computed = *sent = *summed = *recompute = 0;
    for (int i = 0; i < 200; i++) {
        seed          = seed * 6364136223846793005u + 1442695040888963407u;
        int kind      = (int)(seed >> 60), part = (int)(seed >> 40 & 15);
        double length = part / 4.0;     /* exact, so sums are */
        bool repeats  = (seed >> 50 & 7) == 0;
        if (kind == 0) pass();
        else if (kind < 8) compute(length, repeats), *computed += length;
        else if (kind < 14) gather(length, part + 1, repeats), *sent += length;
        else if (kind == 14) leave(length, part + 1), *sent += length;
        else sum(length), *summed += length;
        if (repeats && kind > 0 && kind < 14) *recompute += length;
    }
}

/* Whatever is hidden, computing takes its time and talk its own. (A larger buffer may make a sum wait for a gather that nobody waits for.) */
static void no_step_is_faster_than_its_computing_or_its_talk(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        double computed, sent, summed, recompute;
        draw_step(seed, &computed, &sent, &summed, &recompute);
        for (int64_t bytes = 0; bytes <= 128; bytes = 2 * bytes + 4) {
            b.buffer_bytes = b.sums_bytes = bytes;
            double took    = rp__overlap_seconds(&b, true);
            assert_true(took <= computed + sent + summed && took >= computed + summed && took >= sent + summed);
            if (bytes == 0) assert_true(took == computed + sent + summed);
        }
    }
}

static void the_bound_of_what_is_done_again_holds(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        double computed, sent, summed, recompute;
        draw_step(seed, &computed, &sent, &summed, &recompute);
        for (int64_t bytes = 0; bytes <= 64; bytes += 16) {
            b.buffer_bytes = b.sums_bytes = bytes;
            rp_overlap_base base = rp__overlap_base(&b);
            double more = rp__overlap_seconds(&b, true) - rp__overlap_seconds(&b, false), bound = rp__overlap_bound(&base, recompute);
            assert_true(bound >= 0 && bound <= (more > 0 ? more : 0) + 1e-12);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_gather_that_is_asked_for_ahead_hides_under_computing, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_larger_than_the_buffer_waits_for_itself, setup, teardown),
        cmocka_unit_test_setup_teardown(a_replay_under_a_gather_costs_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(nothing_is_asked_for_before_its_pass, setup, teardown),
        cmocka_unit_test_setup_teardown(a_sum_that_is_left_to_come_is_waited_for_when_its_room_is_wanted_and_at_the_end, setup, teardown),
        cmocka_unit_test_setup_teardown(no_step_is_faster_than_its_computing_or_its_talk, setup, teardown),
        cmocka_unit_test_setup_teardown(the_bound_of_what_is_done_again_holds, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
