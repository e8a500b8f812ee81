/* Claims about the team: every part runs once, scratch numbers are never shared, whoever asks gets an answer. */
/* ctest: device-free */
#include "rp_test.h"

#include "base/base.h"
#include "base/team.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_PARTS = 5000, MOST_THREADS = 16 };

typedef struct {
    _Atomic int runs[MOST_PARTS];
    _Atomic int inside[MOST_THREADS];       /* parts that run now with this thread number */
    _Atomic int shared, outside;            /* times two did; times a number was out of range */
    int threads;
} record;

static void count(void *arg, int64_t part, int thread);

static void run(record *r, int threads, int64_t parts)
{
    memset(r, 0, sizeof *r);
    r->threads = threads;
    rp__team_run(threads, parts, count, r);
}

static void count(void *arg, int64_t part, int thread)
{
    record *r = arg;

    if (thread < 0 || thread >= r->threads) {
        atomic_fetch_add(&r->outside, 1);
        return;
    }
    if (atomic_fetch_add(&r->inside[thread], 1)) atomic_fetch_add(&r->shared, 1);
    atomic_fetch_add(&r->runs[part], 1);
    for (volatile int i = 0; i < (int)(part % 7) * 50; i++) continue;
    atomic_fetch_sub(&r->inside[thread], 1);
}

static void assert_whole(const record *r, int64_t parts)
{
    for (int64_t i = 0; i < parts; i++) assert_int_equal(atomic_load(&r->runs[i]), 1);
    assert_int_equal(atomic_load(&r->shared), 0);
    assert_int_equal(atomic_load(&r->outside), 0);
}

static void every_part_runs_once_and_no_thread_number_twice_at_a_time(void **state)
{
    static record r;

    (void)state;
    for (int round = 0; round < 2000; round++) {
        int threads = 1 + round % MOST_THREADS, parts = round * 13 % 97;
        run(&r, threads, parts);
        assert_whole(&r, parts);
    }
    run(&r, 3, MOST_PARTS);
    assert_whole(&r, MOST_PARTS);
}

static void sleep_a_little(void *arg, int64_t part, int thread)
{
    (void)arg, (void)part, (void)thread;
    usleep(300);
}

static void a_team_that_fell_asleep_wakes(void **state)
{
    static record r;

    (void)state;
    for (int i = 0; i < 20; i++) {
        usleep(2000);
        run(&r, 4, 40);
        assert_whole(&r, 40);
        rp__team_run(2, 2, sleep_a_little, NULL);
    }
}

static void run_inside(void *arg, int64_t part, int thread)
{
    static record inner[8];

    (void)thread;
    run(&inner[part], 4, 100);
    for (int i = 0; i < 100; i++)
        if (atomic_load(&inner[part].runs[i]) != 1) atomic_fetch_add((_Atomic int *)arg, 1);
}

static void a_part_may_ask_for_the_team(void **state)
{
    _Atomic int wrong = 0;

    (void)state;
    rp__team_run(4, 8, run_inside, &wrong);
    assert_int_equal(atomic_load(&wrong), 0);
}

static void *many_rounds(void *arg)
{
    record *r = arg;
    int wrong = 0;

    for (int i = 0; i < 300; i++) {
        run(r, 3, 50);
        for (int p = 0; p < 50; p++) wrong += atomic_load(&r->runs[p]) != 1;
        wrong += atomic_load(&r->shared) + atomic_load(&r->outside);
    }
    return (void *)(intptr_t)wrong;
}

static void two_callers_share_one_team(void **state)
{
    static record r[4];
    pthread_t caller[4];
    void *wrong;

    (void)state;
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&caller[i], NULL, many_rounds, &r[i]), 0);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(caller[i], &wrong), 0);
        assert_int_equal((intptr_t)wrong, 0);
    }
}

static void a_child_of_fork_has_a_team_of_its_own(void **state)
{
    static record r;
    int status;

    (void)state;
    run(&r, 3, 30);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        run(&r, 3, 30);
        for (int i = 0; i < 30; i++)
            if (atomic_load(&r.runs[i]) != 1) _exit(1);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    run(&r, 3, 30);
    assert_whole(&r, 30);
}

static void cuts_cover_everything_once(void **state)
{
    (void)state;
    for (int64_t n = 0; n < 300; n++)
        for (int64_t parts = 1; parts < 9; parts++)
            for (int64_t step = 1; step < 40; step += 13) {
                int64_t at = 0;
                for (int64_t p = 0; p < parts; p++) {
                    int64_t from = rp__part_from(n, step, parts, p), to = rp__part_from(n, step, parts, p + 1);
                    assert_int_equal(from, at);
                    assert_true(to >= from && (to == n || to % step == 0));
                    at = to;
                }
                assert_int_equal(at, n);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_part_runs_once_and_no_thread_number_twice_at_a_time),
        cmocka_unit_test(a_team_that_fell_asleep_wakes),
        cmocka_unit_test(a_part_may_ask_for_the_team),
        cmocka_unit_test(two_callers_share_one_team),
        cmocka_unit_test(a_child_of_fork_has_a_team_of_its_own),
        cmocka_unit_test(cuts_cover_everything_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
