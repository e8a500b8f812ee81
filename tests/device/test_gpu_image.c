/* Every kernel compiles for every GPU, without spilling registers, and the cache gives back what was compiled. Skipped without NVRTC. */
/* ctest: long repository level-free device-free thread-free */
#include "rp_test.h"

#include "device/image.h"
#include "device/launch.h"

#include <stdlib.h>
#include <unistd.h>

static char reason[512];

/* "skipped" is printed for people; a machine without NVRTC cannot compile. */
static bool has_nvrtc(void)
{
    int64_t bytes;
    char *log   = NULL;
    void *cubin = rp__image_compile(0, 90, &bytes, &log, reason, sizeof reason);

    free(log);
    free(cubin);
    return cubin || !strstr(reason, "missing");
}

/* Messages of the assembler: a line with the name, then spilled bytes, then registers. */
static void print_registers(const char *log, int capability)
{
    const char *at = log;

    while ((at = strstr(at, "Compiling entry function '"))) {
        const char *name = at + strlen("Compiling entry function '"), *used = strstr(at, "Used "), *spill = strstr(at, "bytes stack frame, ");
        int chars = (int)strcspn(name, "'");
        print_message("  sm_%d %-24.*s %.*s · %.*s\n", capability, chars, name, used ? (int)strcspn(used, "\n") : 0, used ? used : "",
                      spill ? (int)strcspn(spill + 19, "\n") : 0, spill ? spill + 19 : "");
        at = name;
    }
}

static void kernels_compile_for_every_gpu(void **state)
{
    static const int capabilities[] = { 80, 89, 90, 100 };
    int functions = 0;

    (void)state;
    if (!has_nvrtc()) skip();
    for (int p = 0; p < rp__image_programs(); p++)
        for (int i = 0; i < RP_COUNT(capabilities); i++) {
            if (capabilities[i] != 90 && test_takes_samples()) continue;
            int64_t bytes = 0;
            char *log;
            void *cubin = rp__image_compile(p, capabilities[i], &bytes, &log, reason, sizeof reason);
            if (!cubin) fail_msg("%s\n%s", reason, log ? log : "");
            assert_true(bytes > 1000);
            if (strstr(log, "warning")) fail_msg("%s: %s", rp__image_name(p), log);
            print_registers(log, capabilities[i]);
            for (const char *at = log; capabilities[i] == 90 && (at = strstr(at, "Compiling entry function")); at++) functions++;
            free(cubin);
            free(log);
        }
    assert_int_equal(functions, rp__gpu_n_kernels);
}

static void cache_gives_what_was_compiled(void **state)
{
    char folder[] = "/tmp/reprise-image-XXXXXX", command[128];
    int64_t bytes[2] = { 0 };
    void *cubin[2];

    (void)state;
    if (!has_nvrtc()) skip();
    assert_non_null(mkdtemp(folder));
    setenv("XDG_CACHE_HOME", folder, 1);
    for (int i = 0; i < 2; i++) cubin[i] = rp__image_get(0, 90, &bytes[i], reason, sizeof reason);
    assert_true(cubin[0] && cubin[1]);
    assert_int_equal(bytes[0], bytes[1]);
    assert_memory_equal(cubin[0], cubin[1], (size_t)bytes[0]);
    free(cubin[0]), free(cubin[1]);
    snprintf(command, sizeof command, "truncate -s 100 %s/reprise/gpu/*.cubin", folder);
    assert_int_equal(system(command), 0);
    cubin[0] = rp__image_get(0, 90, &bytes[0], reason, sizeof reason);
    assert_non_null(cubin[0]);
    assert_int_equal(bytes[0], bytes[1]);
    free(cubin[0]);
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(kernels_compile_for_every_gpu), cmocka_unit_test(cache_gives_what_was_compiled) };

    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    fflush(NULL);
    _exit(failed);      /* NVRTC leaks blocks, which the check for leaks at the end of main would report */
}
