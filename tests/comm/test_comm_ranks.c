/* Claims about what ranks send each other. Run alone they are those of one rank; CMake runs them as jobs of 2, 3 and 4 ranks of each MPI. */
/* ctest: device-free ranks=2,3,4 */
#include "rp_test.h"

#include <pthread.h>
#include <signal.h>

#include "comm/internal.h"

#include "ranks_test.h"      /* last: its names are short */

/* The byte at `at` of what `from` sends to `to` in message `n`. */
static uint8_t letter(int from, int to, int n, int64_t at)
{
    return (uint8_t)(((uint64_t)(from * 31 + to * 7 + n * 131 + 17) * 0x9e3779b97f4a7c15u + (uint64_t)at * 0xbf58476d1ce4e5b9u) >> 56);
}

static void fill(uint8_t *p, int64_t bytes, int from, int to, int n)
{
    for (int64_t i = 0; i < bytes; i++) p[i] = letter(from, to, n, i);
}

static void check(const uint8_t *p, int64_t bytes, int from, int to, int n)
{
    for (int64_t i = 0; i < bytes; i++)
        if (p[i] != letter(from, to, n, i)) fail_msg("message %d from %d to %d: byte %" PRId64 " of %" PRId64, n, from, to, i, bytes);
}

static void check_untouched(const uint8_t *p, int64_t bytes)
{
    for (int64_t i = 0; i < bytes; i++) assert_int_equal(p[i], 0xa5);
}

/* Threads of the library take no signals; the one that opened the world takes those it took before. */
static void a_rank_still_takes_the_signals_that_end_it(void **state)
{
    static const int each[] = { SIGINT, SIGTERM, SIGHUP, SIGXCPU, SIGUSR1 };
    sigset_t blocked;

    (void)state;
    assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &blocked), 0);
    for (int i = 0; i < RP_COUNT(each); i++) assert_int_equal(sigismember(&blocked, each[i]), 0);
}

/* ---- one message ---- */

enum { GAP = 3 };       /* elements between parts, which nobody may touch */

typedef struct { rp_comm_part part[64]; int64_t elems; } layout;

/* Parts of uneven sizes, some empty, in descending order of ranks. */
static layout uneven(int n)
{
    layout l = { .elems = GAP };

    for (int r = ranks - 1; r >= 0; r--) {
        int64_t count = (r * 5 + n) % 3 == 1 ? 0 : 1 + (r * 37 + n * 11) % 50 + (int64_t)n * n;
        l.part[r]     = (rp_comm_part){ l.elems, count };
        l.elems += count + GAP;
    }
    return l;
}

static void check_gathered(const uint8_t *all, const layout *l, int width, int n)
{
    int64_t end = l->elems;

    for (int r = 0; r < ranks; r++) {
        rp_comm_part p = l->part[r];
        check(all + p.first * width, p.count * width, r, 0, n);
        check_untouched(all + (p.first + p.count) * width, (end - p.first - p.count) * width);
        end = p.first;
    }
    check_untouched(all, end * width);
}

static void gather_once(int n, int width, bool in_place)
{
    layout l       = uneven(n);
    rp_comm_part p = l.part[rank];
    uint8_t *all = malloc((size_t)(l.elems * width)), *own = malloc((size_t)(p.count * width) + 1);
    rp_comm_request request = { 0 };

    memset(all, 0xa5, (size_t)(l.elems * width));
    uint8_t *mine = in_place ? all + p.first * width : own;
    fill(mine, p.count * width, rank, 0, n);
    assert_ok(ctx, rp__comm_gather(ctx, world, mine, all, l.part, width, &request));
    memset(l.part, 0xff, sizeof l.part);        /* read before it returned */
    assert_ok(ctx, rp__comm_wait(ctx, world, &request, "a gather"));
    assert_int_equal(request.id, 0);
    l = uneven(n);
    check_gathered(all, &l, width, n);
    free(own);
    free(all);
}

static void gather_brings_uneven_parts_to_their_places(void **state)
{
    (void)state;
    for (int n = 0; n < 60; n++)
        for (int width = 1; width <= 8; width *= 2) gather_once(n, width, false);
}

static void gather_takes_parts_that_lie_in_their_places(void **state)
{
    (void)state;
    for (int n = 0; n < 60; n++)
        for (int width = 1; width <= 8; width *= 2) gather_once(n, width, true);
}

/* Far above what MPI sends at once without asking the receiver. */
static void gather_brings_megabytes(void **state)
{
    (void)state;
    enum { BYTES = 6 << 20 };
    uint8_t *all            = malloc((size_t)ranks * BYTES);
    rp_comm_part part[64];
    rp_comm_request request = { 0 };

    for (int r = 0; r < ranks; r++) part[r] = (rp_comm_part){ r * (int64_t)BYTES / 4, BYTES / 4 };
    fill(all + (int64_t)rank * BYTES, BYTES, rank, 0, 1);
    assert_ok(ctx, rp__comm_gather(ctx, world, all + (int64_t)rank * BYTES, all, part, 4, &request));
    assert_ok(ctx, rp__comm_wait(ctx, world, &request, "a gather"));
    for (int r = 0; r < ranks; r++) check(all + (int64_t)r * BYTES, BYTES, r, 0, 1);
    free(all);
}

static int64_t piece(int from, int to, int n) { return (from + 2 * to + n) % 3 == 0 ? 0 : (from * 13 + to * 29 + n * 7) % 97 + (int64_t)n * n; }

static void exchange_once(int n, int width)
{
    rp_comm_part send[64], receive[64];
    int64_t sent = 0, received = 0;
    rp_comm_request request = { 0 };

    for (int r = 0; r < ranks; r++) {
        send[r]    = (rp_comm_part){ sent, piece(rank, r, n) };
        receive[r] = (rp_comm_part){ received + GAP, piece(r, rank, n) };
        sent += send[r].count;
        received += receive[r].count + GAP;
    }
    uint8_t *from = malloc((size_t)(sent * width) + 1), *into = malloc((size_t)(received * width));
    memset(into, 0xa5, (size_t)(received * width));
    for (int r = 0; r < ranks; r++) fill(from + send[r].first * width, send[r].count * width, rank, r, n);
    assert_ok(ctx, rp__comm_exchange(ctx, world, from, send, into, receive, width, &request));
    assert_ok(ctx, rp__comm_wait(ctx, world, &request, "an exchange"));
    for (int r = 0; r < ranks; r++) {
        check(into + receive[r].first * width, receive[r].count * width, r, rank, n);
        check_untouched(into + (receive[r].first - GAP) * width, GAP * width);
    }
    free(into);
    free(from);
}

static void exchange_brings_every_piece_empty_ones_included(void **state)
{
    (void)state;
    for (int n = 0; n < 60; n++)
        for (int width = 1; width <= 8; width *= 2) exchange_once(n, width);
}

static void exchange_of_nothing_at_all_ends(void **state)
{
    (void)state;
    rp_comm_part none[64]   = { { 0, 0 } };
    rp_comm_request request = { 0 };
    uint32_t here           = 1;

    assert_ok(ctx, rp__comm_exchange(ctx, world, &here, none, &here, none, 4, &request));
    assert_ok(ctx, rp__comm_wait(ctx, world, &request, "an exchange"));
    assert_int_equal(here, 1);
}

/* ---- many at once ---- */

enum { MANY = 48 };

typedef struct { uint8_t *mine, *all; int64_t bytes; rp_comm_request request; } message;

static void start(message *m, int n)
{
    rp_comm_part part[64];

    m->bytes = n % 7 == 0 ? 300000 : 10 + n * 101;
    m->mine  = malloc((size_t)m->bytes);
    m->all   = malloc((size_t)(m->bytes * ranks));
    fill(m->mine, m->bytes, rank, 0, n);
    for (int r = 0; r < ranks; r++) part[r] = (rp_comm_part){ r * m->bytes, m->bytes };
    assert_ok(ctx, rp__comm_gather(ctx, world, m->mine, m->all, part, 1, &m->request));
}

static void finish(message *m, int n)
{
    assert_ok(ctx, rp__comm_wait(ctx, world, &m->request, "one of many"));
    for (int r = 0; r < ranks; r++) check(m->all + r * m->bytes, m->bytes, r, 0, n);
    free(m->mine);
    free(m->all);
}

/* Each rank waits in an order of its own; MANY is more than there is room for from the start. */
static void many_requests_are_waited_for_in_any_order(void **state)
{
    (void)state;
    static const int steps[] = { 1, 5, 7, 11, 13, 17, 19, 23 };       /* prime to MANY */
    message m[MANY];

    for (int round = 0; round < 3; round++) {
        for (int n = 0; n < MANY; n++) start(&m[n], n);
        for (int n = 0; n < MANY; n++) {
            int at = (n * steps[(rank + round) % 8] + rank) % MANY;
            if (n % 5 == 0) rp__comm_progress(world);
            finish(&m[at], at);
        }
    }
}

static void progress_alone_ends_what_is_under_way(void **state)
{
    (void)state;
    message m;
    double until = rp__seconds() + 60;

    start(&m, 7);
    while (world->n_under_way && rp__seconds() < until) rp__comm_progress(world);
    assert_int_equal(world->n_under_way, 0);
    finish(&m, 7);
}

/* ---- parts of the world ---- */

static void check_part(rp_comm *part, int first, int step)
{
    int32_t number = 1000 + rank, all[64];

    assert_ok(ctx, rp__comm_share(ctx, part, &number, sizeof number, all, "a number"));
    for (int r = 0; r < rp__comm_ranks(part); r++) assert_int_equal(all[r], 1000 + first + r * step);
    assert_int_equal(all[rp__comm_rank(part)], number);
}

static void a_split_holds_those_of_one_color_in_their_order(void **state)
{
    (void)state;
    rp_comm *part;

    assert_ok(ctx, rp__comm_split(ctx, world, rank % 2, &part));
    assert_int_equal(rp__comm_ranks(part), (ranks + 1 - rank % 2) / 2);
    check_part(part, rank % 2, 2);
    rp__comm_close(part);
}

static void blocks_and_lines_across_meet_only_their_own(void **state)
{
    (void)state;
    for (int size = 1; size <= ranks; size++) {
        rp_comm *block, *across;
        if (ranks % size) continue;
        assert_ok(ctx, rp__comm_block(ctx, world, size, &block));
        assert_ok(ctx, rp__comm_across(ctx, world, size, &across));
        assert_int_equal(rp__comm_ranks(block), size);
        assert_int_equal(rp__comm_ranks(across), ranks / size);
        check_part(block, rank / size * size, 1);
        check_part(across, rank % size, size);
        rp__comm_close(across);
        rp__comm_close(block);
    }
}

/* ---- small things ---- */

static void share_puts_values_in_the_order_of_ranks(void **state)
{
    (void)state;
    struct { double loss; char text[20]; } mine = { .loss = 0.5 * rank }, all[64];

    snprintf(mine.text, sizeof mine.text, "rank %d", rank);
    assert_ok(ctx, rp__comm_share(ctx, world, &mine, sizeof mine, all, "losses"));
    for (int r = 0; r < ranks; r++) {
        char text[20];
        snprintf(text, sizeof text, "rank %d", r);
        assert_true(all[r].loss == 0.5 * r);
        assert_string_equal(all[r].text, text);
    }
}

static void a_broadcast_brings_one_ranks_bytes_to_all(void **state)
{
    (void)state;
    for (int from = 0; from < ranks; from++) {
        int32_t data[3] = { rank, rank * 10, -1 };
        assert_ok(ctx, rp__comm_broadcast(ctx, world, from, data, sizeof *data * 2, "two numbers"));
        assert_int_equal(data[0], from);
        assert_int_equal(data[1], from * 10);
        assert_int_equal(data[2], -1);
    }
}

static void all_ranks_take_the_status_and_the_sentence_of_the_one_that_failed(void **state)
{
    (void)state;
    for (int failing = 0; failing < ranks; failing++) {
        char reported[128];
        rp_status mine = rank == failing ? rp_fail(ctx, RP_ERR_FORMAT, "shard %d is too short", failing) : RP_OK;
        if (mine != RP_OK) rp__fail_line(ctx, "  and this stands around it");
        assert_int_equal(rp__comm_agree(ctx, world, mine), RP_ERR_FORMAT);
        snprintf(reported, sizeof reported, "%sshard %d is too short\n  and this stands around it", "", failing);
        if (rank != failing) snprintf(reported, sizeof reported, "rank %d: shard %d is too short\n  and this stands around it", failing, failing);
        assert_string_equal(rp_error(ctx), reported);
        assert_int_equal(rp__comm_agreed(world), RP_ERR_FORMAT);
    }
    assert_ok(ctx, rp__comm_agree(ctx, world, RP_OK));
    assert_int_equal(rp__comm_agreed(world), RP_OK);
}

static void the_failure_of_the_first_rank_is_reported_before_any_interruption(void **state)
{
    (void)state;
    int first = ranks > 1 ? 1 : 0;
    rp_status mine = rank == 0 && ranks > 1 ? rp_fail(ctx, RP_ERR_INTERRUPTED, "interrupted") : rp_fail(ctx, RP_ERR_MEMORY, "no memory at %d", rank);

    assert_int_equal(rp__comm_agree(ctx, world, mine), RP_ERR_MEMORY);
    assert_non_null(strstr(rp_error(ctx), first ? "no memory at 1" : "no memory at 0"));
    mine = rank == ranks - 1 ? rp_fail(ctx, RP_ERR_INTERRUPTED, "stopped") : RP_OK;
    assert_int_equal(rp__comm_agree(ctx, world, mine), RP_ERR_INTERRUPTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_still_takes_the_signals_that_end_it),
        cmocka_unit_test(gather_brings_uneven_parts_to_their_places),
        cmocka_unit_test(gather_takes_parts_that_lie_in_their_places),
        cmocka_unit_test(gather_brings_megabytes),
        cmocka_unit_test(exchange_brings_every_piece_empty_ones_included),
        cmocka_unit_test(exchange_of_nothing_at_all_ends),
        cmocka_unit_test(many_requests_are_waited_for_in_any_order),
        cmocka_unit_test(progress_alone_ends_what_is_under_way),
        cmocka_unit_test(a_split_holds_those_of_one_color_in_their_order),
        cmocka_unit_test(blocks_and_lines_across_meet_only_their_own),
        cmocka_unit_test(share_puts_values_in_the_order_of_ranks),
        cmocka_unit_test(a_broadcast_brings_one_ranks_bytes_to_all),
        cmocka_unit_test(all_ranks_take_the_status_and_the_sentence_of_the_one_that_failed),
        cmocka_unit_test(the_failure_of_the_first_rank_is_reported_before_any_interruption),
    };

    return cmocka_run_group_tests(tests, ranks_setup, ranks_teardown);
}
