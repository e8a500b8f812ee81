/* Claims about states that ranks write and read together. Run alone they are those of one rank; CMake runs them as jobs of 2, 3 and 4
 * ranks of each MPI. All ranks report an error of one rank, such as a full disk or a missing file. */
/* ctest: emu ranks=2,3,4 */
#include "rp_test.h"

#include "base/file.h"
#include "held_tensors.h"
#include "refused_calls.h"
#include "shard/ranks.h"

#include "ranks_test.h"      /* last: its names are short */

/* ---- together ---- */

/* One rank's answer at all of them. */
static bool said_by(int who, bool mine)
{
    bool all[64];

    assert_ok(ctx, rp__comm_share(ctx, world, &mine, sizeof mine, all, "an answer"));
    return all[who];
}

static holding mine(uint32_t salt)
{
    return hold(ctx, rp__comm_rank(rp__shards(ctx)), rp__shards(ctx) ? rp__comm_ranks(rp__shards(ctx)) : 0, salt);
}

static rp_status save(const temp_dir *dir, int64_t step, uint32_t salt)
{
    holding h          = mine(salt);
    rp_state_info info = { .step = step, .epoch = 1, .samples = 8 * step, .seed = 7, .data_hash = 42, .recipe = "seed: 7\n" };
    rp_status status   = rp__state_save(ctx, dir->path, &info, h.at, N_TENSORS, 2);

    release_held(&h);
    return status;
}

/* The newest step, whose bytes are those of salt_of[step / 10]. */
static int64_t newest(const temp_dir *dir, const uint32_t salt_of[4])
{
    rp_state *s = NULL;
    char *note  = NULL;
    holding h   = mine(99);

    assert_ok(ctx, rp__state_open_latest(ctx, dir->path, &s, &note));
    assert_true(s && !note);
    int64_t step = rp__state_info(s)->step;
    assert_ok(ctx, rp__state_load(s, h.at, N_TENSORS));
    assert_holds(&h, salt_of[step / 10]);
    rp__state_close(s);
    release_held(&h);
    return step;
}

static bool exists(const temp_dir *dir, const char *name) { return access(temp_path(dir, name), F_OK) == 0; }

/* ---- claims ---- */

static void what_ranks_saved_together_each_reads_back(void **state)
{
    (void)state;
    for (int copies = 1; copies <= ranks; copies++) {
        if (ranks % copies) continue;
        assert_ok(ctx, rp__ranks_join(ctx, world, copies));
        temp_dir dir = share_dir();
        char last[RP_STATE_PART_CHARS], path[128];
        assert_ok(ctx, save(&dir, 10, 1));
        assert_ok(ctx, save(&dir, 20, 2));
        assert_int_equal(newest(&dir, (const uint32_t[]){ 0, 1, 2, 3 }), 20);
        rp__state_part_name(ranks / copies - 1, ranks / copies, last);
        snprintf(path, sizeof path, "state/step-20/%s", last);
        assert_true(exists(&dir, path));
        rp_state *s;
        assert_ok(ctx, rp__state_open(ctx, temp_path(&dir, "state/step-10"), &s));
        assert_int_equal(rp__state_info(s)->ranks, ranks);
        rp__state_close(s);
        leave_dir(&dir);
        rp__ranks_leave(ctx);
    }
}

/* A call of one rank fails, the k-th of those that change the disk, for every rank and k. */
static void a_call_that_fails_on_any_rank_fails_all_and_leaves_a_whole_state_and_no_rubbish(void **state)
{
    (void)state;
    int fired_of[64] = { 0 };

    assert_ok(ctx, rp__ranks_join(ctx, world, 1));
    for (int who = 0; who < ranks; who++)
        for (bool fired = true; fired; fired_of[who] += fired) {
            temp_dir dir = share_dir();
            assert_ok(ctx, save(&dir, 10, 1));
            if (rank == who) calls.countdown = fired_of[who] + 1;
            rp_status status = save(&dir, 20, 2);
            fired            = said_by(who, calls.countdown == 0);
            calls.countdown  = 0;
            for (int r = 0; r < ranks; r++) assert_true(said_by(r, status == RP_OK) == (status == RP_OK));
            if (!fired) assert_int_equal(status, RP_OK);
            else if (status != RP_OK) assert_int_equal(status, RP_ERR_IO);
            char reported[32];
            snprintf(reported, sizeof reported, "rank %d: ", who);
            if (status != RP_OK && rank != who) assert_true(!strncmp(rp_error(ctx), reported, strlen(reported)));
            if (status != RP_OK) assert_null(strstr(rp_error(ctx) + 1, "rank "));       /* named once */
            assert_false(exists(&dir, "state/.step-20.tmp"));
            int64_t step = newest(&dir, (const uint32_t[]){ 0, 1, 2, 3 });
            assert_true(step == 20 || (step == 10 && status != RP_OK));
            assert_ok(ctx, save(&dir, 30, 3));
            assert_int_equal(newest(&dir, (const uint32_t[]){ 0, 1, 2, 3 }), 30);
            leave_dir(&dir);
        }
    assert_true(fired_of[0] > 15);
    for (int who = 1; who < ranks; who++) assert_true(fired_of[who] >= 4);
    rp__ranks_leave(ctx);
}

static void an_error_in_one_file_is_reported_on_all_ranks(void **state)
{
    (void)state;
    rp_state *s = NULL;
    char *note  = NULL;

    assert_ok(ctx, rp__ranks_join(ctx, world, 1));
    for (int part = 0; part < ranks; part++) {
        temp_dir dir = share_dir();
        char name[RP_STATE_PART_CHARS], path[128], reported[128];
        rp__state_part_name(part, ranks, name);
        snprintf(path, sizeof path, "state/step-20/%s", name);
        assert_ok(ctx, save(&dir, 10, 1));
        assert_ok(ctx, save(&dir, 20, 2));
        if (!rank) assert_int_equal(remove(temp_path(&dir, path)), 0);
        assert_ok(ctx, rp__comm_barrier(ctx, world, "a file to go"));
        assert_int_equal(rp__state_open(ctx, temp_path(&dir, "state/step-20"), &s), RP_ERR_FORMAT);
        snprintf(reported, sizeof reported, "is partial: it has no %s", name);
        assert_non_null(strstr(rp_error(ctx), reported));
        assert_ok(ctx, rp__state_open_latest(ctx, dir.path, &s, &note));
        assert_true(s && rp__state_info(s)->step == 10);
        assert_non_null(strstr(note, reported));
        rp__release(note);
        rp__state_close(s);
        leave_dir(&dir);
    }
    rp__ranks_leave(ctx);
}

static void without_a_state_all_ranks_start_afresh(void **state)
{
    (void)state;
    rp_state *s = NULL;
    char *note  = NULL;

    assert_ok(ctx, rp__ranks_join(ctx, world, 1));
    temp_dir dir = share_dir();
    assert_ok(ctx, rp__state_open_latest(ctx, dir.path, &s, &note));
    assert_true(!s && !note);
    assert_int_equal(rp__state_open(ctx, temp_path(&dir, "state/step-10"), &s), RP_ERR_CONFIG);
    leave_dir(&dir);
    rp__ranks_leave(ctx);
}

/* One rank has no memory for what all do. */
static void failing_allocations_of_any_rank_fail_all(void **state)
{
    (void)state;
    assert_ok(ctx, rp__ranks_join(ctx, world, 1));
    for (int who = 0; who < ranks; who++) {
        rp_status status = RP_ERR_MEMORY;
        int k;
        for (k = 1; status != RP_OK; k++) {
            temp_dir dir = share_dir();
            holding h    = mine(1);
            rp_state_info info   = { .step = 20, .recipe = "" };
            ctx->fault_countdown = rank == who ? k : 0;
            status               = rp__state_save(ctx, dir.path, &info, h.at, N_TENSORS, 1);
            ctx->fault_countdown = 0;
            if (status != RP_OK) assert_int_equal(status, RP_ERR_MEMORY);
            assert_false(exists(&dir, "state/.step-20.tmp"));
            release_held(&h);
            leave_dir(&dir);
        }
        assert_true(k > 5);
    }
    rp__ranks_leave(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_ranks_saved_together_each_reads_back),
        cmocka_unit_test(a_call_that_fails_on_any_rank_fails_all_and_leaves_a_whole_state_and_no_rubbish),
        cmocka_unit_test(an_error_in_one_file_is_reported_on_all_ranks),
        cmocka_unit_test(without_a_state_all_ranks_start_afresh),
        cmocka_unit_test(failing_allocations_of_any_rank_fail_all),
    };

    return cmocka_run_group_tests(tests, ranks_setup, ranks_teardown);
}
