/* Claims about communicators that need no other process: slices, one rank alone, ranks only thought of. */
/* ctest: device-free */

#include "comm/internal.h"
#include "one_ctx_test.h"

#include <sys/wait.h>
#include <unistd.h>

static uint64_t seed = 7;

static int64_t draw(int64_t below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((seed >> 33) % (uint64_t)below);
}

/* ---- slices ---- */

static void check_slices(int64_t n, int ranks)
{
    int64_t next = 0, room = rp__slice_of(n, 0, ranks).room;

    assert_int_equal(room % RP_SLICE_ELEMS, 0);
    assert_true(room * ranks >= n && (n == 0 || room * ranks < n + ranks * RP_SLICE_ELEMS));
    for (int r = 0; r < ranks; r++) {
        rp_slice s = rp__slice_of(n, r, ranks);
        assert_int_equal(s.room, room);
        assert_int_equal(s.first, next);
        assert_true(s.count >= 0 && s.count <= room);
        if (s.count) assert_int_equal(s.first, r * room);
        next += s.count;
    }
    assert_int_equal(next, n);
}

static void slices_cover_all_elements_without_overlap_in_rooms_alike(void **state)
{
    (void)state;
    for (int i = 0; i < test_draws(20000); i++) check_slices(draw(i % 2 ? 100 : 1 << 20), 1 + (int)draw(40));
    for (int ranks = 1; ranks <= 64; ranks++)
        for (int64_t n = 0; n < 3; n++) check_slices(n, ranks);
    check_slices(INT64_C(1) << 40, 7);
}

static void slices_of_a_context_hold_whole_units(void **state)
{
    (void)state;
    for (int i = 0; i < test_draws(2000); i++) {
        int64_t n = draw(20000), next = 0;
        int ranks = 1 + (int)draw(9), unit = i % 3 ? 256 : 0;
        rp__groups(ctx)->slice_elems = unit;
        for (int r = 0; r < ranks; r++) {
            rp_slice s = rp__slice_in(ctx, n, r, ranks), usual = rp__slice_of(n, r, ranks);
            assert_true(s.room % (unit ? unit : RP_SLICE_ELEMS) == 0 && s.first == next);
            if (s.count) assert_int_equal(s.first, r * s.room);
            if (!unit) assert_memory_equal(&s, &usual, sizeof s);
            next += s.count;
        }
        assert_int_equal(next, n);
    }
    rp__groups(ctx)->slice_elems = 0;
}

static void only_the_last_slices_are_short(void **state)
{
    (void)state;
    for (int i = 0; i < test_draws(2000); i++) {
        int64_t n = draw(5000);
        int ranks = 2 + (int)draw(20);
        for (int r = 1; r < ranks; r++) {
            rp_slice before = rp__slice_of(n, r - 1, ranks), s = rp__slice_of(n, r, ranks);
            assert_true(s.count == 0 || before.count == before.room);
        }
    }
}

/* ---- one rank ---- */

static void alone_everything_comes_back_to_its_place(void **state)
{
    (void)state;
    rp_comm *comm;
    rp_comm_request request = { 5 };
    uint16_t mine[5] = { 1, 2, 3, 4, 5 }, all[9] = { 0 }, back[9] = { 0 };

    assert_ok(ctx, rp__comm_open(ctx, NULL, &comm));
    assert_int_equal(rp__comm_rank(comm), 0);
    assert_int_equal(rp__comm_ranks(comm), 1);
    assert_string_equal(rp__comm_engine(comm), "self");
    assert_ok(ctx, rp__comm_gather(ctx, comm, mine, all, &(rp_comm_part){ 2, 5 }, 2, &request));
    assert_ok(ctx, rp__comm_wait(ctx, comm, &request, "a gather"));
    assert_memory_equal(all, ((uint16_t[]){ 0, 0, 1, 2, 3, 4, 5, 0, 0 }), sizeof all);
    assert_ok(ctx, rp__comm_exchange(ctx, comm, all, &(rp_comm_part){ 3, 2 }, back, &(rp_comm_part){ 0, 2 }, 2, &request));
    assert_ok(ctx, rp__comm_wait(ctx, comm, &request, "an exchange"));
    assert_memory_equal(back, ((uint16_t[]){ 2, 3, 0, 0, 0, 0, 0, 0, 0 }), sizeof back);
    rp__comm_close(comm);
}

static void alone_the_own_status_stands(void **state)
{
    (void)state;
    rp_comm *comm;

    assert_ok(ctx, rp__comm_open(ctx, NULL, &comm));
    assert_ok(ctx, rp__comm_agree(ctx, comm, RP_OK));
    rp_fail(ctx, RP_ERR_IO, "cannot open 'x'");
    assert_int_equal(rp__comm_agree(ctx, comm, RP_ERR_IO), RP_ERR_IO);
    assert_int_equal(rp__comm_agreed(comm), RP_ERR_IO);
    assert_string_equal(rp_error(ctx), "cannot open 'x'");
    rp__comm_close(comm);
}

static void no_communicator_is_one_rank_alone(void **state)
{
    (void)state;
    int32_t mine = 4, all = 0;

    assert_int_equal(rp__comm_rank(NULL), 0);
    assert_int_equal(rp__comm_ranks(NULL), 1);
    assert_ok(ctx, rp__comm_share(ctx, NULL, &mine, sizeof mine, &all, "a number"));
    assert_int_equal(all, 4);
    assert_ok(ctx, rp__comm_barrier(ctx, NULL, "a meeting"));
    assert_int_equal(rp__comm_agree(ctx, NULL, RP_ERR_SHAPE), RP_ERR_SHAPE);
    rp__comm_progress(NULL);
    rp__comm_close(NULL);
}

/* ---- ranks only thought of ---- */

static void shapes_are_any_rank_and_move_nothing(void **state)
{
    (void)state;
    rp_comm *comm;
    rp_comm_request request = { 5 };
    rp_comm_part part[8]    = { { 0, 0 } };

    for (int r = 0; r < 8; r++) part[r] = (rp_comm_part){ r * 100, 100 };
    assert_ok(ctx, rp__comm_shapes(ctx, 5, 8, &comm));
    assert_int_equal(rp__comm_rank(comm), 5);
    assert_int_equal(rp__comm_ranks(comm), 8);
    assert_ok(ctx, rp__comm_gather(ctx, comm, NULL, NULL, part, 4, &request));
    assert_ok(ctx, rp__comm_wait(ctx, comm, &request, "a gather"));
    assert_ok(ctx, rp__comm_exchange(ctx, comm, NULL, part, NULL, part, 4, &request));
    assert_ok(ctx, rp__comm_wait(ctx, comm, &request, "an exchange"));
    assert_int_equal(rp__comm_agree(ctx, comm, RP_ERR_BUDGET), RP_ERR_BUDGET);
    rp__comm_close(comm);
}

/* Each list has a part of each rank, and neither another list nor a small thing between ranks writes there. */
static void lists_of_parts_are_apart(void **state)
{
    enum { RANKS = 5 };
    rp_comm *comm;
    rp_comm_part *list[RP_LISTS];
    int32_t mine = 1, all[RANKS];

    (void)state;
    assert_ok(ctx, rp__comm_shapes(ctx, 2, RANKS, &comm));
    for (int i = 0; i < RP_LISTS; i++) {
        list[i] = rp__comm_list(comm, (rp_comm_list)i);
        for (int r = 0; r < RANKS; r++) list[i][r] = (rp_comm_part){ 100 * i + r, 7 };
    }
    assert_ok(ctx, rp__comm_share(ctx, comm, &mine, sizeof mine, all, "a number"));
    assert_ok(ctx, rp__comm_barrier(ctx, comm, "a barrier"));
    for (int i = 0; i < RP_LISTS; i++) {
        assert_ptr_equal(rp__comm_list(comm, (rp_comm_list)i), list[i]);
        for (int r = 0; r < RANKS; r++) assert_true(list[i][r].first == 100 * i + r && list[i][r].count == 7);
    }
    rp__comm_close(comm);
}

static void a_message_that_mpi_cannot_count_is_refused_in_rehearsals_too(void **state)
{
    (void)state;
    rp_comm *comm;
    rp_comm_request request = { 0 };
    rp_comm_part part[2]    = { { 0, 1 << 30 }, { 1 << 30, 1 << 30 } };

    assert_ok(ctx, rp__comm_shapes(ctx, 0, 2, &comm));
    assert_int_equal(rp__comm_gather(ctx, comm, NULL, NULL, part, 2, &request), RP_ERR_UNSUPPORTED);
    assert_string_equal(rp_error(ctx), "a message of 2147483648 elements exceeds what MPI can count (2147483647)");
    part[1].count--;
    assert_ok(ctx, rp__comm_gather(ctx, comm, NULL, NULL, part, 2, &request));
    rp__comm_close(comm);
}

/* Every rank is in one block and in one line across, and only there does it meet each other rank of it. */
static void blocks_and_lines_across_are_where_the_drawing_has_them(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 12; ranks++) {
        for (int size = 1; size <= ranks; size++) {
            if (ranks % size) continue;
            for (int rank = 0; rank < ranks; rank++) {
                rp_comm *whole, *block, *across;
                assert_ok(ctx, rp__comm_shapes(ctx, rank, ranks, &whole));
                assert_ok(ctx, rp__comm_block(ctx, whole, size, &block));
                assert_ok(ctx, rp__comm_across(ctx, whole, size, &across));
                assert_int_equal(rp__comm_ranks(block), size);
                assert_int_equal(rp__comm_ranks(across), ranks / size);
                assert_int_equal(rp__comm_rank(across) * size + rp__comm_rank(block), rank);
                rp__comm_close(across);
                rp__comm_close(block);
                rp__comm_close(whole);
            }
        }
    }
}

static void ranks_on_shapes_alone_have_no_colors(void **state)
{
    (void)state;
    rp_comm *whole, *part;

    assert_ok(ctx, rp__comm_shapes(ctx, 1, 4, &whole));
    assert_int_equal(rp__comm_split(ctx, whole, 0, &part), RP_ERR_UNSUPPORTED);
    assert_string_equal(rp_error(ctx), "cannot split simulated ranks: their colors are unknown");
    rp__comm_close(whole);
}

/* ---- a library that fails ---- */

static bool split_nothing(const rp_engine_group *whole, int color, rp_engine_group *out, char *why)
{
    (void)whole, (void)color, (void)out;
    snprintf(why, RP_ENGINE_WHY_CHARS, "no memory for a group");
    return false;
}

static bool gather_later(const rp_engine_group *g, const void *mine, void *all, rp_engine_parts parts, int elem_bytes, rp_engine_request *request,
                         bool *done, char *why)
{
    (void)g, (void)mine, (void)all, (void)parts, (void)elem_bytes, (void)request, (void)why;
    *done = false;
    return true;
}

static bool test_nothing(rp_engine_request *request, bool *done, char *why)
{
    (void)request, (void)done;
    snprintf(why, RP_ENGINE_WHY_CHARS, "the other end has gone");
    return false;
}

static void what_the_library_says_of_its_failure_is_reported(void **state)
{
    (void)state;
    rp_engine fails = rp__engine_shapes;
    rp_comm *whole, *part = NULL;
    rp_comm_request request = { 0 };
    rp_comm_part parts[4]   = { { 0, 1 }, { 1, 1 }, { 2, 1 }, { 3, 1 } };

    fails.split  = split_nothing;
    fails.gather = gather_later;
    fails.test   = test_nothing;
    assert_ok(ctx, rp__comm_shapes(ctx, 1, 4, &whole));
    whole->engine = &fails;
    assert_int_equal(rp__comm_split(ctx, whole, 0, &part), RP_ERR_BACKEND);
    assert_string_equal(rp_error(ctx), "cannot split 4 ranks: no memory for a group");
    assert_null(part);
    assert_ok(ctx, rp__comm_gather(ctx, whole, NULL, NULL, parts, 4, &request));
    assert_int_equal(rp__comm_wait(ctx, whole, &request, "a gather"), RP_ERR_BACKEND);
    assert_string_equal(rp_error(ctx), "a gather failed: the other end has gone");
    whole->engine = &rp__engine_shapes;
    rp__comm_close(whole);
}

/* ---- faults ---- */

static rp_status open_both(void)
{
    rp_comm *whole = NULL, *part = NULL;
    rp_status status = rp__comm_shapes(ctx, 1, 4, &whole);

    if (status == RP_OK) status = rp__comm_block(ctx, whole, 2, &part);
    rp__comm_close(part);
    rp__comm_close(whole);
    return status;
}

static void each_allocation_may_fail(void **state)
{
    (void)state;
    test_faults f = { 0 };

    while (!f.over) {
        test_fault_begin(&f, ctx);
        test_fault_end(&f, open_both());
    }
    assert_true(f.failed > 8);
}

/* MPICH's launcher loses what a rank has said and it has not read when it is told to end all. */
static void a_rank_ends_all_when_its_launcher_has_read_what_it_said(void **state)
{
    (void)state;
    int into[2], status = 0;
    char heard[32] = "";

    assert_int_equal(pipe(into), 0);
    pid_t rank = fork();
    assert_true(rank >= 0);
    if (!rank) {
        dup2(into[1], STDERR_FILENO);
        if (write(STDERR_FILENO, "why", 3) == 3) rp__comm_abort(NULL, 3);
        _exit(99);
    }
    close(into[1]);
    usleep(100000);
    assert_int_equal(waitpid(rank, &status, WNOHANG), 0);
    assert_int_equal(read(into[0], heard, sizeof heard), 3);
    assert_int_equal(waitpid(rank, &status, 0), rank);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 3);
    assert_string_equal(heard, "why");
    close(into[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices_cover_all_elements_without_overlap_in_rooms_alike),
        cmocka_unit_test(slices_of_a_context_hold_whole_units),
        cmocka_unit_test(only_the_last_slices_are_short),
        cmocka_unit_test(alone_everything_comes_back_to_its_place),
        cmocka_unit_test(alone_the_own_status_stands),
        cmocka_unit_test(no_communicator_is_one_rank_alone),
        cmocka_unit_test(shapes_are_any_rank_and_move_nothing),
        cmocka_unit_test(lists_of_parts_are_apart),
        cmocka_unit_test(a_message_that_mpi_cannot_count_is_refused_in_rehearsals_too),
        cmocka_unit_test(blocks_and_lines_across_are_where_the_drawing_has_them),
        cmocka_unit_test(ranks_on_shapes_alone_have_no_colors),
        cmocka_unit_test(what_the_library_says_of_its_failure_is_reported),
        cmocka_unit_test(a_rank_ends_all_when_its_launcher_has_read_what_it_said),
        cmocka_unit_test(each_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, one_ctx_begin, one_ctx_end);
}
