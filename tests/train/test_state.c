/* Claims about states on disk. */
/* ctest: device-free thread-free */
#include "rp_test.h"

#include <sys/wait.h>

#include "refused_calls.h"
#include "state/state.h"

/* ---- a small run ---- */

enum { N_TENSORS = 4 };
typedef struct { rp_state_tensor at[N_TENSORS]; } run;

/* Every element of every tensor a bit pattern of its own, NaN patterns too. */
static run run_make(rp_ctx *ctx, uint32_t salt)
{
    static const char *const names[N_TENSORS] = { "model.norm.weight", "model.layers.0.w", "optimizer.norm.weight.exp_avg", "empty" };
    static const rp_meta metas[N_TENSORS] = {
        { RP_BF16, 1, { 33 } }, { RP_F32, 2, { 3, 7 } }, { RP_F32, 1, { 33 } }, { RP_F32, 1, { 0 } }
    };
    run r;

    for (int i = 0; i < N_TENSORS; i++) {
        r.at[i] = (rp_state_tensor){ .name = names[i] };
        assert_ok(ctx, rp_tensor_new(ctx, &metas[i], RP_MEM_PARAM, &r.at[i].tensor));
        rp_host all;
        assert_ok(ctx, rp__tensor_host_all(r.at[i].tensor, RP_HOST_WRITE, &all));
        uint8_t *p = all.data;
        for (int64_t k = 0; k < rp_meta_bytes(&metas[i]); k++)
            p[k] = (uint8_t)((salt + (uint32_t)k * 37 + (uint32_t)i) * 2654435761u >> 24);
        rp__tensor_host_end(&all);
    }
    return r;
}

static void run_free(run *r)
{
    for (int i = 0; i < N_TENSORS; i++) rp_tensor_unref(r->at[i].tensor);
}

static bool run_same(const run *a, const run *b)
{
    for (int i = 0; i < N_TENSORS; i++)
        if (memcmp(test_bytes(a->at[i].tensor), test_bytes(b->at[i].tensor), (size_t)rp_meta_bytes(&a->at[i].tensor->m)))
            return false;
    return true;
}

static rp_status save(rp_ctx *ctx, const temp_dir *dir, int64_t step, uint32_t salt, int keep)
{
    run r = run_make(ctx, salt);
    rp_state_info info = {
        .step = step, .epoch = 1, .samples = 8 * step, .seed = UINT64_MAX, .data_hash = 42, .recipe = "seed: 0\nname: \xc3\xa9\n"
    };
    rp_status status   = rp__state_save(ctx, dir->path, &info, r.at, N_TENSORS, keep);

    run_free(&r);
    return status;
}

/* Which step is the newest whole one; its content must be that of one of the two salts. 0: none. */
static int64_t newest(rp_ctx *ctx, const temp_dir *dir, uint32_t salt_a, uint32_t salt_b, bool *passed_over)
{
    rp_state *s = NULL;
    char *note  = NULL;

    assert_ok(ctx, rp__state_open_latest(ctx, dir->path, &s, &note));
    if (passed_over) *passed_over = note != NULL;
    rp__release(note);
    if (!s) return 0;
    run a = run_make(ctx, salt_a), b = run_make(ctx, salt_b), got = run_make(ctx, 99999);
    int64_t step = rp__state_info(s)->step;
    assert_ok(ctx, rp__state_load(s, got.at, N_TENSORS));
    assert_true(run_same(&got, &a) || run_same(&got, &b));
    rp__state_close(s);
    run_free(&a);
    run_free(&b);
    run_free(&got);
    return step;
}

static bool exists(const temp_dir *dir, const char *name) { return access(temp_path(dir, name), F_OK) == 0; }

/* Files that another process has cut meanwhile end where the reader is. */
static int reads_left = -1;     /* so many, then it is cut; -1: it is not */

ssize_t pread(int fd, void *to, size_t bytes, off_t at)
{
    if (reads_left >= 0 && strstr(path_of(fd), "/tensors.safetensors") && --reads_left < 0) {
        reads_left = 0;
        return 0;
    }
    return REAL(pread)(fd, to, bytes, at);
}

/* ---- claims ---- */

static void what_is_loaded_is_what_was_saved_to_the_bit(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(NULL);
    temp_dir dir = temp_make();
    run saved = run_make(ctx, 1), loaded = run_make(ctx, 2);
    rp_state *s;

    assert_ok(ctx, save(ctx, &dir, 20, 1, 2));
    assert_ok(ctx, rp__state_open(ctx, temp_path(&dir, "state/step-20"), &s));
    const rp_state_info *info = rp__state_info(s);
    assert_true(info->step == 20 && info->epoch == 1 && info->samples == 160 && info->seed == UINT64_MAX && info->data_hash == 42);
    assert_string_equal(info->recipe, "seed: 0\nname: \xc3\xa9\n");
    uint64_t version = loaded.at[0].tensor->storage->version;
    assert_ok(ctx, rp__state_load(s, loaded.at, N_TENSORS));
    assert_true(run_same(&saved, &loaded));
    assert_true(loaded.at[0].tensor->storage->version > version);
    rp__state_close(s);
    run_free(&saved);
    run_free(&loaded);
    temp_remove(&dir);
    test_ctx_free(ctx);
}

static void the_newest_are_kept_and_later_ones_go(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(NULL);
    temp_dir dir = temp_make();
    rp_state *s = NULL;
    char *note  = NULL;

    assert_ok(ctx, rp__state_open_latest(ctx, dir.path, &s, &note));
    assert_null(s);
    for (int step = 2; step <= 10; step += 2) assert_ok(ctx, save(ctx, &dir, step, 1, 3));
    assert_false(exists(&dir, "state/step-4"));
    assert_true(exists(&dir, "state/step-6") && exists(&dir, "state/step-8") && exists(&dir, "state/step-10"));
    assert_int_equal(newest(ctx, &dir, 1, 1, NULL), 10);
    assert_ok(ctx, save(ctx, &dir, 7, 5, 2));       /* as after a resume from 6 */
    assert_true(exists(&dir, "state/step-6") && exists(&dir, "state/step-7"));
    assert_false(exists(&dir, "state/step-8") || exists(&dir, "state/step-10"));
    assert_int_equal(newest(ctx, &dir, 5, 5, NULL), 7);
    temp_remove(&dir);
    test_ctx_free(ctx);
}

static int in_log(const char *entry, int from)
{
    for (int i = from; i < calls.n_log; i++)
        if (!strcmp(calls.log[i], entry)) return i;
    fail_msg("no '%s' after call %d", entry, from);
    return -1;
}

static void everything_is_on_the_disk_before_the_name_and_the_name_before_old_ones_go(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(NULL);
    temp_dir dir = temp_make();
    char top[160];

    assert_ok(ctx, save(ctx, &dir, 1, 1, 1));
    calls.n_log   = 0;
    calls.records = true;
    assert_ok(ctx, save(ctx, &dir, 2, 1, 1));
    calls.records = false;
    for (int i = 0; i < calls.n_log; i++)           /* what is written has its fsync before the next rename */
        if (!strncmp(calls.log[i], "pwrite ", 7)) {
            char sync[96];
            snprintf(sync, sizeof sync, "fsync %s", calls.log[i] + 7);
            int synced = in_log(sync, i);
            for (int k = i; k < synced; k++) assert_true(strncmp(calls.log[k], "rename", 6));
        }
    int tensors = in_log("rename tensors.safetensors", 0), json = in_log("rename state.json", tensors);
    int folder = in_log("fsync .step-2.tmp", json), name = in_log("rename step-2", folder), parent = in_log("fsync state", name);
    snprintf(top, sizeof top, "fsync %s", strrchr(dir.path, '/') + 1);
    in_log("rename .step-1.old", in_log(top, parent));
    temp_remove(&dir);
    test_ctx_free(ctx);
}

static void damage_to_any_byte_is_noticed_or_harmless(void **state)
{
    (void)state;
    static const char *const files[] = { "state/step-20/tensors.safetensors", "state/step-20/state.json" };
    rp_ctx *ctx = test_ctx(NULL);
    temp_dir dir = temp_make();
    int fallbacks = 0;

    assert_ok(ctx, save(ctx, &dir, 10, 1, 2));
    assert_ok(ctx, save(ctx, &dir, 20, 2, 2));
    for (int f = 0; f < 2; f++) {
        char path[512];
        snprintf(path, sizeof path, "%s", temp_path(&dir, files[f]));
        int fd     = open(path, O_RDWR);
        off_t size = lseek(fd, 0, SEEK_END);
        for (off_t at = 0; at < size; at++) {
            uint8_t byte, bad;
            bool passed_over;
            assert_int_equal(pread(fd, &byte, 1, at), 1);
            bad = byte ^ 1;
            assert_int_equal(pwrite(fd, &bad, 1, at), 1);
            int64_t step = newest(ctx, &dir, 1, 2, &passed_over);
            assert_int_equal(step, passed_over ? 10 : 20);
            fallbacks += passed_over;
            assert_int_equal(pwrite(fd, &byte, 1, at), 1);
        }
        for (off_t at = 0; at < size; at += 7) {       /* cut short at any length */
            char *whole = malloc((size_t)size);
            bool passed_over;
            assert_int_equal(pread(fd, whole, (size_t)size, 0), size);
            assert_int_equal(ftruncate(fd, at), 0);
            assert_int_equal(newest(ctx, &dir, 1, 1, &passed_over), 10);
            assert_true(passed_over);
            assert_int_equal(pwrite(fd, whole, (size_t)size, 0), size);
            free(whole);
        }
        close(fd);
    }
    assert_true(fallbacks > 1000);
    temp_remove(&dir);
    test_ctx_free(ctx);
}

static void partial_states_are_named_and_passed_over(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(NULL);
    temp_dir dir = temp_make();
    char expected[600];
    rp_state *s = NULL;
    char *note  = NULL;

    assert_int_equal(rp__state_open(ctx, temp_path(&dir, "state/step-5"), &s), RP_ERR_CONFIG);
    assert_ok(ctx, save(ctx, &dir, 10, 1, 2));
    assert_ok(ctx, save(ctx, &dir, 20, 2, 2));
    assert_int_equal(remove(temp_path(&dir, "state/step-20/state.json")), 0);
    snprintf(expected, sizeof expected, "the state '%s/state/step-20' is partial: it has no state.json", dir.path);
    assert_ok(ctx, rp__state_open_latest(ctx, dir.path, &s, &note));
    assert_string_equal(note, expected);
    assert_int_equal(rp__state_info(s)->step, 10);
    rp__release(note);
    rp__state_close(s);
    s = NULL;
    assert_int_equal(remove(temp_path(&dir, "state/step-10/tensors.safetensors")), 0);
    assert_int_equal(rp__state_open_latest(ctx, dir.path, &s, &note), RP_ERR_FORMAT);
    assert_string_equal(rp_error(ctx), expected);
    assert_null(s);
    temp_remove(&dir);
    test_ctx_free(ctx);
}

static void a_file_that_ends_while_it_is_read_is_reported(void **state)
{
    (void)state;
    rp_ctx *ctx  = test_ctx(NULL);
    temp_dir dir = temp_make();
    rp_state *s  = NULL;
    char expected[600];
    int reported     = 0;

    assert_ok(ctx, save(ctx, &dir, 10, 1, 2));
    snprintf(expected, sizeof expected, "the state file '%s/state/step-10/tensors.safetensors' ends at byte ", dir.path);
    for (int k = 0, opened = 0; !opened; k++) {
        reads_left = k;
        opened     = rp__state_open(ctx, temp_path(&dir, "state/step-10"), &s) == RP_OK;
        reads_left = -1;
        reported      += !opened && !strncmp(rp_error(ctx), expected, strlen(expected));
        if (!opened) assert_null(s);
    }
    assert_true(reported > 0);
    rp__state_close(s);
    temp_remove(&dir);
    test_ctx_free(ctx);
}

static void what_cannot_be_listed_or_written_is_reported(void **state)
{
    (void)state;
    rp_ctx *ctx        = test_ctx(NULL);
    temp_dir dir       = temp_make();
    rp_state_info info = { .step = 1, .recipe = "name: \xff\n" };
    run r              = run_make(ctx, 1);
    rp_state *s        = NULL;
    char *note         = NULL, expected[600];

    temp_text(&dir, "state", "no folder");
    assert_int_equal(rp__state_open_latest(ctx, dir.path, &s, &note), RP_ERR_IO);
    snprintf(expected, sizeof expected, "cannot list '%s/state': Not a directory", dir.path);
    assert_string_equal(rp_error(ctx), expected);
    assert_int_equal(remove(temp_path(&dir, "state")), 0);
    assert_int_equal(rp__state_save(ctx, dir.path, &info, r.at, N_TENSORS, 1), RP_ERR_FORMAT);
    assert_string_equal(rp_error(ctx), "cannot write a state of this run: a name or the recipe is not UTF-8, or memory ran out");
    run_free(&r);
    temp_remove(&dir);
    test_ctx_free(ctx);
}

static void states_of_another_model_are_refused_before_a_byte_is_written(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(NULL);
    temp_dir dir = temp_make();
    run r = run_make(ctx, 3), before = run_make(ctx, 3);
    rp_state *s;

    assert_ok(ctx, save(ctx, &dir, 1, 1, 1));
    assert_ok(ctx, rp__state_open(ctx, temp_path(&dir, "state/step-1"), &s));
    r.at[1].name = "model.layers.1.w";
    assert_int_equal(rp__state_load(s, r.at, N_TENSORS), RP_ERR_CONFIG);
    assert_non_null(strstr(rp_error(ctx), "has no tensor 'model.layers.1.w': it is of another model or optimizer"));
    r.at[1].name = "model.layers.0.w";
    assert_int_equal(rp__state_load(s, r.at, N_TENSORS - 1), RP_ERR_CONFIG);
    assert_non_null(strstr(rp_error(ctx), "holds 4 tensors, this run has 3"));
    r.at[1].tensor->m.dim[0] = 7;
    r.at[1].tensor->m.dim[1] = 3;
    assert_int_equal(rp__state_load(s, r.at, N_TENSORS), RP_ERR_CONFIG);
    assert_non_null(strstr(rp_error(ctx), "in another shape than fp32 [7, 3]"));
    assert_true(run_same(&r, &before));
    rp__state_close(s);
    run_free(&r);
    run_free(&before);
    temp_remove(&dir);
    test_ctx_free(ctx);
}

/* A child saves and is killed before its k-th change to the disk, for every k. The parent must find a whole state, no broken one, and
 * be able to go on. `again`: the state saved has the name of one that is there. */
static void kill_at_every_call(bool recompute)
{
    int64_t first = recompute ? 20 : 10;
    bool finished = false;
    int k;

    for (k = 1; !finished; k++) {
        rp_ctx *ctx  = test_ctx(&(rp_ctx_options){ .threads = 1 });
        temp_dir dir = temp_make();
        bool passed_over;
        int status;
        assert_ok(ctx, save(ctx, &dir, first, 1, 1));
        pid_t child = fork();
        if (!child) {
            calls.countdown = k;
            calls.dies      = true;
            _exit(save(ctx, &dir, 20, 2, 1) == RP_OK ? 0 : 1);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) != 1);
        finished     = WEXITSTATUS(status) == 0;
        int64_t step = newest(ctx, &dir, 1, 2, &passed_over);
        assert_true((step == first || step == 20) && !passed_over);
        assert_ok(ctx, save(ctx, &dir, 30, 3, 1));
        assert_int_equal(newest(ctx, &dir, 3, 3, &passed_over), 30);
        assert_false(exists(&dir, "state/.step-20.tmp") || exists(&dir, "state/.step-10.old") || exists(&dir, "state/.step-20.old"));
        assert_false(exists(&dir, "state/step-10") || exists(&dir, "state/step-20"));
        temp_remove(&dir);
        test_ctx_free(ctx);
    }
    assert_true(k > 15);
}

static void a_process_killed_anywhere_leaves_a_whole_state(void **state)
{
    (void)state;
    kill_at_every_call(false);
    kill_at_every_call(true);
}

static void a_call_that_fails_anywhere_leaves_a_whole_state_and_no_rubbish(void **state)
{
    (void)state;
    rp_status status = RP_ERR_IO;
    char expected[600];
    int k, not_removed = 0;

    for (k = 1; status != RP_OK; k++) {
        rp_ctx *ctx  = test_ctx(NULL);
        temp_dir dir = temp_make();
        assert_ok(ctx, save(ctx, &dir, 10, 1, 1));
        calls.countdown = k;
        calls.dies      = false;
        status          = save(ctx, &dir, 20, 2, 1);
        bool fired      = calls.countdown == 0;
        calls.countdown = 0;
        snprintf(expected, sizeof expected, "cannot remove '%s/state/step-10': No space left on device", dir.path);
        not_removed += fired && !strcmp(rp_error(ctx), expected);
        if (!fired) assert_int_equal(status, RP_OK);
        else if (status != RP_OK) assert_int_equal(status, RP_ERR_IO);
        int64_t step = newest(ctx, &dir, 1, 2, NULL);
        assert_true(step == 10 || step == 20);
        assert_false(exists(&dir, "state/.step-20.tmp"));
        if (fired) status = RP_ERR_IO;      /* go on to the next call */
        temp_remove(&dir);
        test_ctx_free(ctx);
    }
    assert_int_equal(not_removed, 1);
    assert_true(k > 15);
}

static void failing_allocations_leave_nothing_behind(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(NULL);
    temp_dir dir = temp_make();
    test_faults saving = { 0 }, opening = { 0 };

    while (!saving.over) {
        run r              = run_make(ctx, 2);
        rp_state_info info = { .step = 20, .recipe = "" };
        test_fault_begin(&saving, ctx);
        test_fault_end(&saving, rp__state_save(ctx, dir.path, &info, r.at, N_TENSORS, 1));
        assert_false(exists(&dir, "state/.step-20.tmp"));
        run_free(&r);
    }
    assert_true(saving.failed > 9);
    assert_ok(ctx, save(ctx, &dir, 30, 2, 2));
    assert_int_equal(remove(temp_path(&dir, "state/step-30/state.json")), 0);       /* the fallback's allocations, too */
    while (!opening.over) {
        rp_state *s = NULL;
        char *note  = NULL;
        test_fault_begin(&opening, ctx);
        if (test_fault_end(&opening, rp__state_open_latest(ctx, dir.path, &s, &note))) assert_true(!s && !note);
        rp__release(note);
        rp__state_close(s);
    }
    assert_true(opening.failed > 9);
    temp_remove(&dir);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_loaded_is_what_was_saved_to_the_bit),
        cmocka_unit_test(the_newest_are_kept_and_later_ones_go),
        cmocka_unit_test(everything_is_on_the_disk_before_the_name_and_the_name_before_old_ones_go),
        cmocka_unit_test(damage_to_any_byte_is_noticed_or_harmless),
        cmocka_unit_test(partial_states_are_named_and_passed_over),
        cmocka_unit_test(a_file_that_ends_while_it_is_read_is_reported),
        cmocka_unit_test(what_cannot_be_listed_or_written_is_reported),
        cmocka_unit_test(states_of_another_model_are_refused_before_a_byte_is_written),
        cmocka_unit_test(a_process_killed_anywhere_leaves_a_whole_state),
        cmocka_unit_test(a_call_that_fails_anywhere_leaves_a_whole_state_and_no_rubbish),
        cmocka_unit_test(failing_allocations_leave_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
