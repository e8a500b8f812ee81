/* Claims about the walk through a segment, where something of it is away: bytes and seconds, by hand.
 *
 *   call 0    reads the input, makes a: away                      needs the input
 *   call 1    reads a, makes b: runs again                        needs b
 *   call 2    reads b, makes the output, which is kept            needs b
 *
 *   backward    the segment behind has fetched a │ 2: b is made again from a, a goes; the first of the segment before comes, a guest │ 1 │ 0
 */
#include "rp_test.h"
#include "solve/segment.h"

enum { INPUT, A, B, OUTPUT, VALUES, CALLS = 3, RUN = 35 };

typedef struct {
    rp_segment_call call[CALLS];
    rp_segment_value value[VALUES];
    int64_t forward[CALLS], before[CALLS], fixed[CALLS];
    rp_segment s;
    rp_ctx *ctx;
    rp_bump bump;
    rp_segment_room room;
} subject;

static void open_subject(subject *x)
{
    *x = (subject){
        .call = {
            { .n_reads = 1, .reads = { INPUT }, .n_made = 1, .made = { A }, .n_needs = 1, .needs = { INPUT }, .run_bytes = 100, .offloadable = true },
            { .n_reads = 1, .reads = { A }, .n_made = 1, .made = { B }, .n_needs = 1, .needs = { B }, .run_bytes = RUN },
            { .n_reads = 1, .reads = { B }, .n_made = 1, .made = { OUTPUT }, .n_needs = 1, .needs = { B }, .run_bytes = 7 },
        },
        .value = {
            { .call = -1, .bytes = 11 }, { .call = 0, .bytes = 100, .until = 1, .offloadable = true, .copy = 0.5 }, { .call = 1, .bytes = 30, .until = 2 },
            { .call = 2, .bytes = 7, .until = 2, .output = true, .wanted = true },
        },
        .ctx = test_ctx(NULL),
    };
    for (int c = 0; c < CALLS; c++) x->call[c].seconds = 0.25, x->call[c].backward = 0.125;
    x->s = (rp_segment){ .n_calls = CALLS, .n_values = VALUES, .n_kinds = 1, .call = x->call, .value = x->value, .forward_fixed = x->forward,
                         .backward_before = { x->before }, .backward_fixed = { x->fixed }, .bandwidth = 100 };
    x->bump.ctx = x->ctx;
    assert_ok(x->ctx, rp__segment_room(&x->bump, &x->s, &x->room));
}

static void close_subject(subject *x)
{
    rp__bump_free(&x->bump);
    test_ctx_free(x->ctx);
}

static const bool recompute[CALLS] = { false, true, false }, offload[CALLS] = { true, false, false };

static int64_t backward_of(subject *x) { return rp__segment_walk(&x->s, recompute, offload, x->room).backward[0]; }

static void what_a_replay_reads_is_fetched_ahead_of_it_and_a_guest_comes_once(void **state)
{
    subject x;

    (void)state;
    open_subject(&x);
    assert_int_equal(backward_of(&x), 100 + RUN);       /* a, and what call 1 takes */
    x.fixed[1] = 50;
    assert_int_equal(backward_of(&x), 50 + 30 + 100);   /* b, and the guest */
    x.fixed[1] = 0;
    x.fixed[0] = 300;
    assert_int_equal(backward_of(&x), 300 + 100);       /* b is gone */
    x.before[2] = 20;
    x.fixed[0]  = 0;
    assert_int_equal(backward_of(&x), 20 + 100 + RUN);
    close_subject(&x);
}

/* 1 s each way, of which a forward of 0.75 s hides a part, and a backward of 0.375 s with a replay of 0.25 s. */
static void it_waits_for_what_neither_its_forward_nor_its_backward_hides(void **state)
{
    subject x;

    (void)state;
    open_subject(&x);
    rp_chain_option o = rp__segment_walk(&x.s, recompute, offload, x.room);
    assert_true(o.seconds == 0.25 + 0.5 + 0.25 + 0.375);
    assert_true(rp__segment_offload_seconds(&x.s, recompute, offload, x.room) == 0.5 + 0.25 + 0.375);
    assert_int_equal(o.saved, 7);
    assert_true(o.recompute >= RP_CHAIN_NEVER && o.last >= RP_CHAIN_NEVER);
    close_subject(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_replay_reads_is_fetched_ahead_of_it_and_a_guest_comes_once),
        cmocka_unit_test(it_waits_for_what_neither_its_forward_nor_its_backward_hides),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
