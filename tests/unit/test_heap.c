/* Claims about the tests' own allocator (tests/heap.h), or a sanitizer's in its place: whoever writes past a block or loses one fails. */
/* ctest: device-free watched */
#include "rp_test.h"

#include <sys/wait.h>
#include <unistd.h>

#include "heap.h"

static char *volatile kept;             /* nothing is known of it to the compiler */
static char **volatile holder;

/* ---- what this program does when it is run for a claim ---- */

static void a_byte_before_its_free(void)
{
    kept     = malloc(13);
    kept[13] = 0;
    free(kept);
}

static void a_byte_that_stays(void)
{
    kept     = calloc(1, 64);
    kept[64] = 1;
}

static void a_grown_block(void)
{
    kept      = malloc(5);
    kept      = realloc(kept, 100);
    kept[100] = 'x';
    kept      = realloc(kept, 200);
}

static void a_lost_block(void)
{
    kept = malloc(24);
    kept = NULL;
}

static void a_block_that_a_lost_one_holds(void)
{
    holder  = malloc(sizeof *holder);
    *holder = malloc(40);
    holder  = NULL;
}

static void held_blocks(void)
{
    holder  = malloc(sizeof *holder);
    *holder = malloc(40);
    kept    = realloc(malloc(3), 4000);
    kept[0] = kept[3999] = 1;
}

static const struct { const char *name; void (*run)(void); bool well; } acts[] = {
    { "a byte past a block that is freed", a_byte_before_its_free, false },
    { "a byte past a block that stays", a_byte_that_stays, false },
    { "a byte past a block that grew", a_grown_block, false },
    { "a block that is lost", a_lost_block, false },
    { "a block that a lost one holds", a_block_that_a_lost_one_holds, false },
    { "blocks that a variable leads to", held_blocks, true },
};

/* ---- claims ---- */

static int run_act(const char *number)
{
    int status  = 0;
    pid_t child = fork();

    if (!child) {
        if (!freopen("/dev/null", "w", stderr)) _exit(0);
        execl("/proc/self/exe", "test_heap", number, (char *)NULL);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void a_write_past_a_block_and_a_lost_block_fail_the_program(void **state)
{
    (void)state;
#if defined(RP_SANITIZED) && !defined(RP_ASAN)
    skip();             /* of threads: it sees neither */
#endif
    for (int i = 0; i < RP_COUNT(acts); i++) {
        char number[8];
        snprintf(number, sizeof number, "%d", i);
        if ((run_act(number) == 0) != acts[i].well) fail_msg("%s: %s", acts[i].name, acts[i].well ? "fails" : "is not seen");
    }
}

static void live_blocks_are_counted(void **state)
{
    int64_t before = heap_live;

    (void)state;
    if (!HEAP_IS_OURS) skip();
    kept = malloc(1);
    assert_int_equal(heap_live, before + 1);
    kept = realloc(kept, 100000);
    assert_int_equal(heap_live, before + 1);
    free(kept);
    assert_int_equal(heap_live, before);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_write_past_a_block_and_a_lost_block_fail_the_program),
        cmocka_unit_test(live_blocks_are_counted),
    };

    if (argc == 2) {
        acts[strtol(argv[1], NULL, 10)].run();
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
