/* Claims about plan files when memory or the disk runs out: an error, the file of before, and nothing left; or the whole plan. */
/* ctest: device-free */
#include "heap_test.h"

#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>

#include "plan/planned_step.h"

typedef struct { planned_step *step; const char *path; char *want; int64_t bytes; } plan_file;

static const char before[] = "what was there";

static rp_status write_plan(const plan_file *p)
{
    return rp__plan_write(p->step->ctx, p->path, p->step->plan, &STAMP, &TAKES, "seed: 1\n");
}

static void assert_file(const char *path, const char *want, int64_t bytes)
{
    static char got[1 << 20];
    FILE *f = fopen(path, "rb");

    assert_non_null(f);
    int64_t n = (int64_t)fread(got, 1, sizeof got, f);
    fclose(f);
    if (n != bytes) fail_msg("%.*s\n--- is not ---\n%.*s", (int)n, got, (int)bytes, want);
    assert_memory_equal(got, want, (size_t)bytes);
}

static int n_files(const char *folder)
{
    DIR *d = opendir(folder);
    int n  = 0;

    assert_non_null(d);
    while (readdir(d)) n++;
    closedir(d);
    return n;
}

static rp_status writes_all_or_nothing(rp_ctx *ctx, void *user)
{
    const plan_file *p = user;
    heap_faults faults = heap_pause(ctx);

    temp_text(&p->step->dir, "p.json", before);
    heap_resume(ctx, faults);
    rp_status status = write_plan(p);
    faults           = heap_pause(ctx);
    if (status == RP_OK) assert_file(p->path, p->want, p->bytes);
    else assert_file(p->path, before, sizeof before - 1);
    assert_int_equal(n_files(p->step->dir.path), 3);        /* and those of the folder itself */
    heap_resume(ctx, faults);
    return status;
}

static void assert_same(const rp_plan *a, const rp_plan *b)
{
    assert_int_equal(a->n_passes, b->n_passes);
    for (int i = 0; i < a->n_passes; i++) {
        const rp_plan_pass *x = &a->pass[i], *y = &b->pass[i];
        assert_int_equal(x->n_recomputed, y->n_recomputed);
        assert_int_equal(x->n_regions, y->n_regions);
        for (int c = 0; c < x->n_calls; c++) assert_int_equal(x->call[c].recompute, y->call[c].recompute);
        for (int r = 0; r < x->n_regions; r++) assert_string_equal(x->region[r].path, y->region[r].path);
    }
}

static rp_status reads_alike(rp_ctx *ctx, void *user)
{
    const plan_file *p = user;
    rp_plan_text *text = NULL;
    rp_plan *plan      = NULL;
    rp_status status   = rp__plan_read(ctx, p->path, &text);

    if (status != RP_OK) assert_null(text);
    if (status == RP_OK) status = rp__plan_from_text(ctx, text, &p->step->problem, &STAMP, &plan);
    if (status == RP_OK) assert_same(plan, p->step->plan);
    else assert_null(plan);
    rp__plan_free(plan);
    rp__plan_text_free(text);
    return status;
}

static plan_file begin_file(planned_step *s)
{
    plan_file p = { .step = s };

    planned_begin(s, &SMALL);
    assert_true(s->plan->pass[0].n_recomputed > 0);
    p.path = temp_path(&s->dir, "p.json");
    assert_ok(s->ctx, write_plan(&p));
    assert_ok(s->ctx, rp__file_read(s->ctx, p.path, 1 << 20, &p.want, &p.bytes));
    return p;
}

static void end_file(plan_file *p)
{
    rp__release(p->want);
    planned_end(p->step);
}

static void a_plan_is_written_whole_or_not_at_all(void **state)
{
    planned_step s;
    plan_file p = begin_file(&s);

    (void)state;
    every_allocation_fails_once(s.ctx, &(heap_sweep){ .each = test_few_or(20, 0), .least = 3 }, writes_all_or_nothing, &p);
    end_file(&p);
}

static void a_plan_is_read_whole_or_not_at_all(void **state)
{
    planned_step s;
    plan_file p = begin_file(&s);

    (void)state;
    every_allocation_fails_once(s.ctx, &(heap_sweep){ .each = test_few_or(20, 0), .least = 4 }, reads_alike, &p);
    end_file(&p);
}

/* As a disk that fills: no file grows beyond a limit, wherever that is. */
static void a_full_disk_keeps_the_plan_of_before(void **state)
{
    struct rlimit whole, small;
    planned_step s;
    plan_file p = begin_file(&s);

    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &whole), 0);
    for (int64_t room = 0; room < p.bytes; room += p.bytes / 7) {
        temp_text(&s.dir, "p.json", before);
        small = (struct rlimit){ (rlim_t)room, whole.rlim_max };
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        rp_status status = write_plan(&p);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &whole), 0);
        assert_int_equal(status, RP_ERR_IO);
        assert_file(p.path, before, sizeof before - 1);
        assert_int_equal(n_files(s.dir.path), 3);
    }
    assert_ok(s.ctx, write_plan(&p));
    assert_file(p.path, p.want, p.bytes);
    p.path = temp_path(&s.dir, "none/p.json");
    assert_int_equal(write_plan(&p), RP_ERR_IO);        /* no file could be made */
    end_file(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_is_written_whole_or_not_at_all),
        cmocka_unit_test(a_plan_is_read_whole_or_not_at_all),
        cmocka_unit_test(a_full_disk_keeps_the_plan_of_before),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
