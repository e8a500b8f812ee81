/* Every kernel compiles for every GPU, with the registers of a table: skipped without NVRTC. An NVRTC of this program shows what the library asks for, how
 * it reports errors, and what the cache keeps. The library may have kernels itself, and needs no NVRTC for these. */
/* ctest: repository level-free device-free thread-free cost=100 */
#include "rp_test.h"

#include "device/image.h"
#include "device/launch.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static char reason[512];

/* In this program the library has the first program for three GPUs. */
#define FIRST "kernels/gpu/attention.k"
const rp_gpu_image rp__gpu_images[]       = { { FIRST, 80, 0, 1 }, { FIRST, 86, 1, 2 }, { FIRST, 90, 3, 3 } };
const int rp__gpu_n_images                = RP_COUNT(rp__gpu_images);
const unsigned char rp__gpu_image_bytes[] = "abbccc";
const char *const rp__gpu_images_by       = "NVRTC 1.2";

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

/* ---- registers ---- */

/* The most that a thread of a kernel uses on any GPU, with NVRTC 13.0: registers, bytes of them that are spilled to memory, and bytes of its stack. Spilled
 * bytes are part of the stack. So are arguments that the compiler copies because a function takes them by value: one kernel was seven times as slow. */
typedef struct { const char *kernel; int registers, spilled, stack; } usage;
static const usage usual = { "any other", 128, 0, 0 };
static const usage table[] = {
    { "adamw_coded", 48, 0, 32 },                { "adamw_coded_many", 48, 4, 48 },           { "attention_dk_256", 254, 0, 0 },
    { "attention_dkv_128", 255, 0, 0 },          { "attention_dkv_64", 255, 0, 0 },           { "attention_dq_128", 168, 4, 8 },
    { "attention_dq_256", 255, 0, 0 },           { "attention_dq_64", 233, 8, 8 },            { "attention_dv_256", 255, 4, 8 },
    { "attention_forward_128", 168, 0, 0 },      { "attention_forward_256", 254, 0, 0 },      { "attention_forward_64", 168, 0, 0 },
    { "attention_plain_128", 174, 0, 0 },        { "attention_plain_dkv_128", 226, 0, 0 },    { "attention_plain_dq_128", 172, 12, 16 },
    { "grouped_nn", 140, 0, 0 },                 { "grouped_nt", 140, 0, 0 },                 { "grouped_quant_nn", 134, 0, 0 },
    { "grouped_quant_nt", 134, 0, 0 },           { "grouped_quant_tiles", 64, 12, 16 },       { "grouped_tn", 134, 0, 0 },
    { "product_nn_128_many", 128, 24, 24 },      { "product_nn_64_many", 152, 0, 0 },         { "product_nt_128_many", 128, 36, 40 },
    { "product_nt_64_many", 150, 0, 0 },         { "product_tn_64_many", 148, 0, 0 },         { "route_forward", 37, 4, 8 },
    { "sub_db", 48, 8, 8 },                      { "where_db", 64, 116, 16 },                 { "where_forward", 64, 56, 32 },
};
enum { REGISTERS = 1 << 16, SHARED_BYTES = 48 << 10 };      /* of a multiprocessor; of a block, without asking for more */

static usage wanted_of(const char *name)
{
    for (int i = 0; i < RP_COUNT(table); i++)
        if (!strcmp(table[i].kernel, name)) return table[i];
    return usual;
}

static int threads_of(const char *name)
{
    for (int i = 0; i < rp__gpu_n_kernels; i++)
        if (!strcmp(rp__gpu_kernels[i]->name, name)) return rp__gpu_kernels[i]->threads;
    fail_msg("no kernel '%s'", name);
    return 0;
}

/* The number before `unit` in the lines of a kernel; 0: there is none. */
static int number_before(const char *from, const char *end, const char *unit)
{
    const char *at = strstr(from, unit);

    if (!at || at >= end) return 0;
    while (at > from && at[-1] == ' ') at--;
    while (at > from && at[-1] >= '0' && at[-1] <= '9') at--;
    return (int)strtol(at, NULL, 10);
}

static void check_kernel(const char *name, const char *from, const char *end, int capability)
{
    usage wanted = wanted_of(name);
    int registers = number_before(from, end, " registers"), spilled = number_before(from, end, " bytes spill stores");
    int shared = number_before(from, end, " bytes smem"), stack = number_before(from, end, " bytes stack frame");

    print_message("  sm_%d %-24s %d registers, %d bytes spilled, %d bytes of stack, %d bytes shared\n", capability, name, registers, spilled, stack, shared);
    assert_true(registers > 0);
    if (registers > wanted.registers || spilled > wanted.spilled || stack > wanted.stack)
        fail_msg("%s on sm_%d: %d registers, %d bytes spilled, %d bytes of stack; %d, %d and %d are known", name, capability, registers, spilled, stack,
                 wanted.registers, wanted.spilled, wanted.stack);
    if (registers * threads_of(name) > REGISTERS || shared > SHARED_BYTES) fail_msg("%s on sm_%d cannot be launched", name, capability);
}

/* Messages of the assembler: a line with the name, then spilled bytes, then registers and shared memory. */
static void check_registers(const char *log, int capability)
{
    static const char before[] = "Compiling entry function '";
    char name[64];

    for (const char *at = strstr(log, before), *next; at; at = next) {
        at += strlen(before);
        next = strstr(at, before);
        snprintf(name, sizeof name, "%.*s", (int)strcspn(at, "'"), at);
        check_kernel(name, at, next ? next : log + strlen(log), capability);
    }
}

static void kernels_compile_for_every_gpu(void **state)
{
    static const int capabilities[] = { 80, 89, 90, 100 };
    int functions = 0;

    (void)state;
    test_leave_to_full();
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
            check_registers(log, capabilities[i]);
            for (const char *at = log; capabilities[i] == 90 && (at = strstr(at, "Compiling entry function")); at++) functions++;
            free(cubin);
            free(log);
        }
    assert_int_equal(functions, rp__gpu_n_kernels);
}

static void a_gpu_that_nvrtc_does_not_know_is_named(void **state)
{
    int64_t bytes;

    (void)state;
    if (!has_nvrtc()) skip();
    assert_null(rp__image_get(0, 799, &bytes, reason, sizeof reason));
    assert_non_null(strstr(reason, " cannot compile kernels/gpu/"));
    assert_non_null(strstr(reason, "-arch=sm_799a"));
}

/* ---- kernels in the library ---- */

/* NULL: there is no such code, and no NVRTC. */
static void must_find(int capability, const char *wanted)
{
    int64_t bytes = 0;
    char *found   = rp__image_get(0, capability, &bytes, reason, sizeof reason);

    if (wanted ? !found || bytes != (int64_t)strlen(wanted) || memcmp(found, wanted, (size_t)bytes) : found || !strstr(reason, "NVRTC is missing")) _exit(1);
    free(found);
}

static void without_nvrtc_kernels_of_the_library_serve_gpus_of_their_generation(void **state)
{
    int status;
    pid_t child = fork();

    (void)state;
    assert_true(child >= 0);
    if (!child) {
        setenv("REPRISE_NVRTC", "/nowhere/libnvrtc.so", 1);
        must_find(80, "a");
        must_find(86, "bb");
        must_find(89, "bb");
        must_find(90, "ccc");
        must_find(100, NULL);
        must_find(75, NULL);
        _exit(strcmp(rp__image_compiler(89), "NVRTC 1.2") != 0 || *rp__image_compiler(100));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void with_nvrtc_kernels_of_the_library_serve_their_own_gpu(void **state)
{
    (void)state;
    assert_string_equal(rp__image_name(0), rp__gpu_images[0].name);
    if (!has_nvrtc()) skip();
    must_find(90, "ccc");
    assert_string_equal(rp__image_compiler(90), "NVRTC 1.2");
    assert_string_not_equal(rp__image_compiler(89), "NVRTC 1.2");
}

/* The program of the build that makes kernels a part of the library. */
static void the_build_embeds_what_nvrtc_compiles(void **state)
{
    char folder[] = "/tmp/reprise-image-XXXXXX", command[1024], line[128];
    int64_t bytes = 0;
    char *log;

    (void)state;
    if (!has_nvrtc()) skip();
    test_leave_to_full();
    assert_non_null(mkdtemp(folder));
    snprintf(command, sizeof command, "cd %s && " EMBED_KERNELS " 90 images.bin images.c && " COMPILER " -shared -fPIC -I " RP_SOURCE_DIR "/src -I "
             RP_SOURCE_DIR "/include images.c -o images.so", folder);
    assert_int_equal(system(command), 0);
    void *cubin = rp__image_compile(0, 90, &bytes, &log, reason, sizeof reason);
    snprintf(line, sizeof line, "{ \"%s\", 90, 0, %lld },", rp__image_name(0), (long long)bytes);
    snprintf(command, sizeof command, "cd %s && grep -qF '%s' images.c && grep -q 'n_images = %d;' images.c", folder, line, rp__image_programs());
    assert_int_equal(system(command), 0);
    snprintf(command, sizeof command, "%s/images.bin", folder);
    FILE *f     = fopen(command, "rb");
    char *found = malloc((size_t)bytes);
    assert_true(f && found && fread(found, 1, (size_t)bytes, f) == (size_t)bytes);
    assert_memory_equal(found, cubin, (size_t)bytes);
    fclose(f);
    free(found), free(cubin), free(log);
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

/* ---- an NVRTC of this program: a cubin is what was asked for ---- */

#define EXPORTED __attribute__((visibility("default")))
enum { MOST_ASKED = 2048, REFUSED = 799 };

struct nvrtc_program { char asked[MOST_ASKED], log[256]; };
static int n_compiled, n_programs;

EXPORTED int nvrtcVersion(int *major, int *minor);
EXPORTED int nvrtcCreateProgram(struct nvrtc_program **p, const char *text, const char *name, int n, const char *const *headers, const char *const *names);
EXPORTED int nvrtcDestroyProgram(struct nvrtc_program **p);
EXPORTED int nvrtcCompileProgram(struct nvrtc_program *p, int n, const char *const *options);
EXPORTED int nvrtcGetProgramLogSize(struct nvrtc_program *p, size_t *bytes);
EXPORTED int nvrtcGetProgramLog(struct nvrtc_program *p, char *log);
EXPORTED int nvrtcGetCUBINSize(struct nvrtc_program *p, size_t *bytes);
EXPORTED int nvrtcGetCUBIN(struct nvrtc_program *p, char *cubin);

int nvrtcVersion(int *major, int *minor)
{
    *major = 77;
    *minor = 5;
    return 0;
}

int nvrtcCreateProgram(struct nvrtc_program **p, const char *text, const char *name, int n, const char *const *headers, const char *const *names)
{
    *p = calloc(1, sizeof **p);
    snprintf((*p)->asked, MOST_ASKED, "%s", name);
    for (int i = 0; i < n; i++) {
        size_t used = strlen((*p)->asked);
        if (!headers[i] || !*headers[i]) return 1;
        snprintf((*p)->asked + used, MOST_ASKED - used, " %s", names[i]);
    }
    n_programs++;
    return !text || !*text;
}

int nvrtcDestroyProgram(struct nvrtc_program **p)
{
    free(*p);
    n_programs--;
    return 0;
}

int nvrtcCompileProgram(struct nvrtc_program *p, int n, const char *const *options)
{
    bool refused = strstr(options[0], "799") != NULL;

    n_compiled++;
    for (int i = 0; i < n; i++) {
        size_t used = strlen(p->asked);
        snprintf(p->asked + used, MOST_ASKED - used, " %s", options[i]);
    }
    snprintf(p->log, sizeof p->log, "a.k(1): warning: much\na.k(2): error: no such GPU\na.k(3): error: another\n");
    return refused;
}

int nvrtcGetProgramLogSize(struct nvrtc_program *p, size_t *bytes)
{
    *bytes = strlen(p->log);
    return 0;
}

int nvrtcGetProgramLog(struct nvrtc_program *p, char *log)
{
    memcpy(log, p->log, strlen(p->log));
    return 0;
}

int nvrtcGetCUBINSize(struct nvrtc_program *p, size_t *bytes)
{
    *bytes = strlen(p->asked);
    return 0;
}

int nvrtcGetCUBIN(struct nvrtc_program *p, char *cubin)
{
    memcpy(cubin, p->asked, strlen(p->asked));
    return 0;
}

#define must(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, reason); \
            _exit(1); \
        } \
    } while (0)

/* In a process of its own, because NVRTC is looked for once. "" is this program. */
static void in_a_child(void (*claims)(const char *folder))
{
    char folder[] = "/tmp/reprise-image-XXXXXX", command[128];
    int status;

    assert_non_null(mkdtemp(folder));
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        must(!setenv("REPRISE_NVRTC", "", 1) && !setenv("XDG_CACHE_HOME", folder, 1));
        claims(folder);
        must(n_programs == 0);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
    assert_int_equal(status, 0);
}

static bool asked_for(int program, int capability, const char *wanted)
{
    int64_t bytes = 0;
    char *cubin   = rp__image_get(program, capability, &bytes, reason, sizeof reason);
    bool found    = cubin && memmem(cubin, (size_t)bytes, wanted, strlen(wanted));

    free(cubin);
    return found;
}

static void ask_with_all_options(const char *folder)
{
    (void)folder;
    must(asked_for(1, 90, " -arch=sm_90a -fmad=false -ftz=false -prec-div=true -prec-sqrt=true -default-device --ptxas-options=-v"));
    must(asked_for(1, 89, " -arch=sm_89 -fmad=false "));
    must(asked_for(1, 90, " kernels/gpu/dialect.h ") && asked_for(1, 90, rp__image_name(1)) && !asked_for(1, 90, rp__image_name(0)));
    must(!strcmp(rp__image_compiler(89), "NVRTC 77.5"));
}

static void nvrtc_gets_headers_and_options_and_no_option_may_change_bits(void **state)
{
    (void)state;
    in_a_child(ask_with_all_options);
}

static void ask_for_no_gpu(const char *folder)
{
    int64_t bytes;
    char *log, line[160];

    (void)folder;
    must(!rp__image_compile(1, REFUSED, &bytes, &log, reason, sizeof reason) && strstr(log, "another"));
    snprintf(line, sizeof line, "NVRTC 77.5 cannot compile %s with -arch=sm_799a: a.k(2): error: no such GPU", rp__image_name(1));
    must(!strcmp(reason, line));
    free(log);
    must(!rp__image_get(1, REFUSED, &bytes, reason, sizeof reason) && n_compiled == 2);
    must(!rp__image_get(1, REFUSED, &bytes, reason, sizeof reason) && n_compiled == 3);     /* nothing is kept */
}

static void a_failed_compilation_is_the_first_error_of_nvrtc(void **state)
{
    (void)state;
    in_a_child(ask_for_no_gpu);
}

/* Runs a command on $f: the files in the cache. */
static void damage(const char *folder, const char *how)
{
    char command[256];

    snprintf(command, sizeof command, "f=$(echo %s/reprise/gpu/*.cubin) && %s", folder, how);
    must(!system(command));
}

static void ask_again(const char *folder)
{
    static const char *const damages[] = {
        "printf X | dd of=$f bs=1 seek=3 conv=notrunc 2>/dev/null", "truncate -s 100 $f", "truncate -s 7 $f", "truncate -s 0 $f", "printf X >>$f",
    };

    must(asked_for(1, 90, "sm_90a") && n_compiled == 1);
    must(asked_for(1, 90, "sm_90a") && n_compiled == 1);
    for (int i = 0; i < RP_COUNT(damages); i++) {
        damage(folder, damages[i]);
        must(asked_for(1, 90, "sm_90a") && n_compiled == 2 + i);
        must(asked_for(1, 90, "sm_90a") && n_compiled == 2 + i);
    }
    must(asked_for(1, 89, "sm_89 ") && asked_for(2, 90, rp__image_name(2)) && n_compiled == 4 + RP_COUNT(damages) - 1);
    must(asked_for(1, 90, "sm_90a") && n_compiled == 4 + RP_COUNT(damages) - 1);
    damage(folder, "test $(ls $(dirname ${f%% *}) | wc -l) = 3");
}

static void the_cache_compiles_once_and_again_what_is_damaged(void **state)
{
    (void)state;
    in_a_child(ask_again);
}

static void ask_without_a_place(const char *folder)
{
    must(!unsetenv("HOME") && !setenv("XDG_CACHE_HOME", "", 1));
    for (int i = 1; i < 3; i++) must(asked_for(1, 90, "sm_90a") && n_compiled == i);
    must(!setenv("XDG_CACHE_HOME", "/proc/none", 1));
    must(asked_for(1, 90, "sm_90a") && n_compiled == 3);
    must(!setenv("HOME", folder, 1) && !unsetenv("XDG_CACHE_HOME"));
    for (int i = 0; i < 2; i++) must(asked_for(1, 90, "sm_90a") && n_compiled == 4);
    snprintf(reason, sizeof reason, "ls %s/.cache/reprise/gpu/*.cubin >/dev/null", folder);
    must(!system(reason));
}

static void without_a_place_for_the_cache_each_start_compiles(void **state)
{
    (void)state;
    in_a_child(ask_without_a_place);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_nvrtc_kernels_of_the_library_serve_gpus_of_their_generation),      /* before anything asks for NVRTC */
        cmocka_unit_test(nvrtc_gets_headers_and_options_and_no_option_may_change_bits),
        cmocka_unit_test(a_failed_compilation_is_the_first_error_of_nvrtc),
        cmocka_unit_test(the_cache_compiles_once_and_again_what_is_damaged),
        cmocka_unit_test(without_a_place_for_the_cache_each_start_compiles),
        cmocka_unit_test(kernels_compile_for_every_gpu),
        cmocka_unit_test(a_gpu_that_nvrtc_does_not_know_is_named),
        cmocka_unit_test(with_nvrtc_kernels_of_the_library_serve_their_own_gpu),
        cmocka_unit_test(the_build_embeds_what_nvrtc_compiles),
    };

    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    fflush(NULL);
    _exit(failed);      /* NVRTC leaks blocks, which the check for leaks at the end of main would report */
}
