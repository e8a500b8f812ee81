/* Claims about the walk through a segment with an offloaded value: bytes and seconds, by hand.
 *
 *   call 0    reads the input, makes a: offloaded                 needs the input
 *   call 1    reads a, makes b: recomputed                        needs b
 *   call 2    reads b, makes the output, which is kept            needs b
 *
 *   backward    the next segment has fetched a │ 2: b is recomputed from a, a is freed; the first value of the segment before is fetched │ 1 │ 0
 */
/* ctest: device-free */
#include "heap_test.h"

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

/* ---- the ways that are found ---- */

/* A chain of calls, each with a result that its own backward needs, and of which every third may be offloaded. */
static void chain_of(rp_segment_call *call, rp_segment_value *value, int n)
{
    value[0] = (rp_segment_value){ .call = -1, .bytes = 16 };
    for (int c = 0; c < n; c++) {
        call[c] = (rp_segment_call){ .n_reads = 1, .reads = { c }, .n_made = 1, .made = { c + 1 }, .n_needs = 1, .needs = { c + 1 },
                                     .run_bytes = 8 + c % 5, .seconds = 0.25 + c % 7, .backward = 0.5, .kept = c % 4 == 2, .offloadable = c % 3 == 0 };
        value[c + 1] = (rp_segment_value){ .call = c, .bytes = 16 * (1 + c % 6), .until = c + 1 < n ? c + 1 : c, .output = c + 1 == n, .wanted = c + 1 == n,
                                           .offloadable = call[c].offloadable, .copy = 0.5 };
    }
}

static bool has(const uint64_t *bits, int c) { return bits[c / 64] >> (c % 64) & 1; }

/* Calls are written as bits, 64 to a word: each way, read back, has the figures that it was found with, and a call that has no choice keeps to it. */
static void the_calls_of_a_way_are_those_that_it_was_walked_with(void **state)
{
    enum { MOST = 131 };
    static const int lengths[] = { 1, 5, 63, 64, 65, 66, 127, 128, 129, MOST };
    static int64_t zeros[MOST];

    (void)state;
    for (int k = 0; k < RP_COUNT(lengths); k++) {
        int n = lengths[k], late = 0;
        rp_segment_call call[MOST];
        rp_segment_value value[MOST + 1];
        chain_of(call, value, n);
        for (int c = 0; c < n; c++) call[c].kept = call[c].kept || (c > 5 && c < n - 5);       /* few are open, those at both ends */
        for (int c = 0; c < n; c++) call[c].offloadable = value[c + 1].offloadable = call[c].offloadable && (c < 4 || c > n - 4);
        rp_segment s = { .n_calls = n, .n_values = n + 1, .n_kinds = 1, .call = call, .value = value, .forward_fixed = zeros,
                         .backward_before = { zeros }, .backward_fixed = { zeros }, .bandwidth = 100 };
        rp_ctx *ctx  = test_ctx(NULL);
        rp_bump bump = { .ctx = ctx };
        rp_segment_ways ways;
        rp_segment_room room;
        assert_ok(ctx, rp__segment_room(&bump, &s, &room));
        assert_ok(ctx, rp__segment_ways(&bump, &s, &ways));
        assert_true(ways.n > 1 || n == 1);
        for (int i = 0; i < ways.n; i++) {
            bool recomputed[MOST], offloaded[MOST];
            for (int c = 0; c < n; c++) {
                recomputed[c] = has(ways.recompute + i * ways.words, c);
                offloaded[c]  = has(ways.offload + i * ways.words, c);
                late += c > n - 4 && (recomputed[c] || offloaded[c]);
                if ((recomputed[c] && call[c].kept) || (offloaded[c] && !call[c].offloadable)) fail_msg("%d calls, way %d: call %d has no choice", n, i, c);
            }
            rp_chain_option o = rp__segment_walk(&s, recomputed, offloaded, room);
            const rp_chain_option *found = &ways.option[i];
            if (o.saved != found->saved || o.forward != found->forward || o.backward[0] != found->backward[0] || o.seconds != found->seconds)
                fail_msg("%d calls, way %d: saved %lld, found with %lld; %g s, found with %g s", n, i, (long long)o.saved, (long long)found->saved,
                         o.seconds, found->seconds);
        }
        assert_true(late > 0 || n < 5);
        rp__bump_free(&bump);
        test_ctx_free(ctx);
    }
}

typedef struct { int n, n_ways; } ways_of;

static rp_status finds_all(rp_ctx *ctx, void *user)
{
    enum { MOST = 24 };
    ways_of *of = user;
    rp_segment_call call[MOST];
    rp_segment_value value[MOST + 1];
    int64_t zeros[MOST] = { 0 };
    rp_bump bump        = { .ctx = ctx };
    rp_segment_ways ways;
    rp_segment_room room;

    chain_of(call, value, of->n);
    rp_segment s     = { .n_calls = of->n, .n_values = of->n + 1, .n_kinds = 1, .call = call, .value = value, .forward_fixed = zeros,
                         .backward_before = { zeros }, .backward_fixed = { zeros }, .bandwidth = 100 };
    rp_status status = rp__segment_room(&bump, &s, &room);
    if (status == RP_OK) status = rp__segment_ways(&bump, &s, &ways);
    if (status == RP_OK && !of->n_ways) of->n_ways = ways.n;
    if (status == RP_OK) assert_int_equal(ways.n, of->n_ways);
    rp__bump_free(&bump);
    return status;
}

/* Of 5 calls all ways are tried; of 14 all without offloading; of 24 those near the ends. */
static void without_memory_all_ways_are_found_or_there_is_an_error(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        rp_ctx *ctx = test_ctx(NULL);
        ways_of of  = { (int[]){ 5, 14, 24 }[i], 0 };
        ctx->fault_pieces = true;
        every_allocation_fails_once(ctx, &(heap_sweep){ .least = 10 }, finds_all, &of);
        test_ctx_free(ctx);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_replay_reads_is_fetched_ahead_of_it_and_a_guest_comes_once),
        cmocka_unit_test(it_waits_for_what_neither_its_forward_nor_its_backward_hides),
        cmocka_unit_test(the_calls_of_a_way_are_those_that_it_was_walked_with),
        cmocka_unit_test(without_memory_all_ways_are_found_or_there_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
