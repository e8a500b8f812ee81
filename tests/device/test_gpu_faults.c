/* tests/device/test_gpu_faults.c -- a GPU that cannot be used, fails or is full is one clear message. The GPU is emulated; each case has a process of its
 * own, because a failed driver stays failed. */
/* ctest: device-free level-free thread-free */
#include "train/loop_test.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/emulate/emulate.h"
#include "device/gpu.h"
#include "device/image.h"

static void in_child(void (*body)(void))
{
    int status;
    pid_t child = fork();

    assert_true(child >= 0);
    if (!child) {
        body();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void must(bool holds)
{
    if (!holds) _exit(1);
}

static void check_refused(rp_status status, rp_status wanted, const char *message, const char *part)
{
    if (status == wanted && strstr(message, part)) return;
    fprintf(stderr, "status %d: %s\n", (int)status, message);
    _exit(1);
}

static rp_ctx *emulated(void)
{
    rp_ctx *ctx = NULL;

    must(rp_ctx_new(&(rp_ctx_options){ .device = "emu", .threads = 1 }, &ctx) == RP_OK);
    return ctx;
}

static void open_with_failure(const char *call, int code, const char *part)
{
    rp_ctx *ctx = NULL;

    rp__emulate_fail(call, 1, code);
    rp_status status = rp_ctx_new(&(rp_ctx_options){ .device = "emu", .threads = 1 }, &ctx);
    check_refused(status, RP_ERR_BACKEND, rp_error(NULL), part);
    must(strstr(rp_error(NULL), "device 'emu' cannot be used: ") != NULL);
}

static void no_card(void) { open_with_failure("cuInit", CUDA_ERROR_NO_DEVICE, "the NVIDIA driver finds no GPU"); }
static void broken_init(void) { open_with_failure("cuInit", CUDA_ERROR_LAUNCH_FAILED, "cuInit: CUDA_ERROR_LAUNCH_FAILED"); }
static void no_context(void) { open_with_failure("cuDevicePrimaryCtxRetain", CUDA_ERROR_OUT_OF_MEMORY, "cuDevicePrimaryCtxRetain: CUDA_ERROR_OUT_OF_MEMORY"); }
static void no_module(void) { open_with_failure("cuModuleLoadData", CUDA_ERROR_INVALID_VALUE, "cuModuleLoadData: CUDA_ERROR_INVALID_VALUE"); }

static void a_gpu_that_cannot_be_opened_is_named_with_the_reason(void **state)
{
    (void)state;
    in_child(no_card);
    in_child(broken_init);
    in_child(no_context);
    in_child(no_module);
}

/* ---- drivers of this machine, or none ---- */

static void check_no_cuda(const char *reason)
{
    rp_ctx *ctx = NULL;
    char wanted[512];

    snprintf(wanted, sizeof wanted, "device 'cuda' cannot be used: %s", reason);
    check_refused(rp_ctx_new(&(rp_ctx_options){ .device = "cuda", .threads = 1 }, &ctx), RP_ERR_BACKEND, rp_error(NULL), wanted);
}

static void no_driver(void)
{
    if (!dlopen("libcuda.so.1", RTLD_NOW)) check_no_cuda("there is no NVIDIA driver on this machine (libcuda.so.1 cannot be loaded)");
}

/* The dynamic loader takes this library for libcuda.so.1. */
static void driver_without_functions(void)
{
    if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD)) return;
    must(dlopen(OLD_DRIVER, RTLD_NOW) != NULL);
    check_no_cuda("the NVIDIA driver is too old: it has no cuDriverGetVersion, so it is older than CUDA 12.0");
}

static rp_cuda driver;

static const char *load_driver(rp_cuda *call, char *text)
{
    (void)text;
    *call = driver;
    return NULL;
}

/* The emulated driver as the machine's own. */
static void pretend(void)
{
    driver            = rp__cuda_emulated;
    rp__gpu_cuda.load = load_driver;
}

static int version_of_11(int *version)
{
    *version = 11080;
    return CUDA_SUCCESS;
}

static void old_driver(void)
{
    pretend();
    driver.cuDriverGetVersion = version_of_11;
    check_no_cuda("the NVIDIA driver is too old: it is for CUDA 11.8, 12.0 or later is needed");
}

static int no_cards(int *count)
{
    *count = 0;
    return CUDA_SUCCESS;
}

static void driver_without_cards(void)
{
    pretend();
    driver.cuDeviceGetCount = no_cards;
    check_no_cuda("the NVIDIA driver finds no GPU");
}

static int attribute_of_turing(int *value, int attribute, int device)
{
    (void)device;
    *value = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? 7 : 5;
    return CUDA_SUCCESS;
}

static void old_card(void)
{
    pretend();
    driver.cuDeviceGetAttribute = attribute_of_turing;
    check_no_cuda("the GPU 'emulated GPU' has compute capability 7.5; 8.0 or later is needed");
}

static void no_compiler(void)
{
    if (rp__gpu_n_images) return;
    must(!setenv("REPRISE_NVRTC", "/nowhere/libnvrtc.so", 1));
    pretend();
    check_no_cuda("NVRTC is missing: libnvrtc.so.13 or libnvrtc.so.12 of the CUDA toolkit compiles the kernels, and this build has none for this GPU");
}

static void a_driver_or_card_that_does_not_do_is_named_with_the_need(void **state)
{
    (void)state;
    in_child(no_driver);
    in_child(driver_without_functions);
    in_child(old_driver);
    in_child(driver_without_cards);
    in_child(old_card);
    in_child(no_compiler);
}

static rp_tensor *filled(rp_ctx *ctx, int64_t n)
{
    rp_meta meta   = rp_meta_1d(RP_F32, n);
    rp_tensor *t   = NULL;
    double *values = calloc((size_t)n, sizeof *values);

    must(values && rp_tensor_new(ctx, &meta, RP_MEM_PARAM, &t) == RP_OK && rp_tensor_write(t, values, n) == RP_OK);
    free(values);
    return t;
}

/* The call that fails runs when the host waits; the message names the op that waited, or the one before it. */
static void late_error(void)
{
    rp_ctx *ctx      = emulated();
    rp_tensor *a     = filled(ctx, 100), *y = NULL;
    rp_status status = RP_OK;
    double values[100];

    rp__emulate_fail("run", 1, CUDA_ERROR_LAUNCH_FAILED);
    for (int i = 0; i < 3 && status == RP_OK; i++) {
        status = rp_apply(ctx, "add", NULL, (rp_tensor *[]){ a, a }, 2, &y);
        if (status == RP_OK) status = rp_tensor_read(y, values, 100);
    }
    check_refused(status, RP_ERR_BACKEND, rp_error(ctx), "device 'emu' failed at or before");
    must(strstr(rp_error(ctx), "CUDA_ERROR_LAUNCH_FAILED") != NULL);
}

static void an_error_of_the_device_names_the_op_at_or_before_which_it_happened(void **state)
{
    (void)state;
    in_child(late_error);
}

static void full_device(void)
{
    must(!setenv("REPRISE_EMU_MEMORY", "67108864", 1));
    rp_ctx *ctx  = emulated();
    rp_meta meta = rp_meta_1d(RP_F32, 4 << 20);
    rp_tensor *t = NULL;

    must(rp_tensor_new(ctx, &meta, RP_MEM_PARAM, &t) == RP_OK);
    meta.dim[0]      = 12 << 20;
    rp_status status = rp_tensor_new(ctx, &meta, RP_MEM_PARAM, &t);
    check_refused(status, RP_ERR_MEMORY, rp_error(ctx), "the device has 46137344 bytes (44.00 MiB) left, the driver and other programs hold 0 bytes");
}

/* A planned step reserves its bytes before it begins. */
static void full_device_before_a_step(void)
{
    must(!setenv("REPRISE_EMU_MEMORY", "67108864", 1));
    rp_ctx *ctx      = emulated();
    rp_status status = rp__mem_reserve(ctx, ctx->space[0], 64 << 20);
    check_refused(status, RP_ERR_MEMORY, rp_error(ctx), "the device has ");
    must(strstr(rp_error(ctx), "the step") != NULL);
}

static void device_of_others(void)
{
    must(!setenv("REPRISE_EMU_MEMORY", "67108864", 1));
    rp_cuda_allocation kind = { .type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
    rp_ctx *ctx  = emulated();
    rp_meta meta = rp_meta_1d(RP_F32, 8 << 20);
    rp_tensor *t = NULL;
    uint64_t handle;

    must(!rp__cuda_emulated.cuMemCreate(&handle, 40 << 20, &kind, 0));
    check_refused(rp_tensor_new(ctx, &meta, RP_MEM_PARAM, &t), RP_ERR_MEMORY, rp_error(ctx),
                  "the device has 20971520 bytes (20.00 MiB) left, the driver and other programs hold 41943040 bytes (40.00 MiB)");
}

static void a_full_device_is_an_error_of_the_allocation(void **state)
{
    (void)state;
    in_child(full_device);
    in_child(full_device_before_a_step);
    in_child(device_of_others);
}

/* ---- runs ---- */

enum { CHUNK = 1 << 21 };

/* A run that needs more than 8 MiB, on a device of so much memory. It ends with 3 if it does not begin, and with 4 if it does not end. */
static int run_on(int64_t bytes)
{
    pid_t child = fork();
    char memory[32];
    int status;

    assert_true(child >= 0);
    snprintf(memory, sizeof memory, "%lld", (long long)bytes);
    if (!child) {
        must(!setenv("REPRISE_EMU_MEMORY", memory, 1));
        run r = run_open(&dir, "llama", "out", RUN("device=emu", "batch_size=92", "max_steps=2"));
        if (r.status == RP_ERR_MEMORY && strstr(rp_error(r.ctx), "the device has ")) _exit(3);
        bool ends = r.status == RP_OK && rp__trainer_run(r.trainer, NULL, NULL) == RP_OK;
        if (!ends) fprintf(stderr, "%lld bytes: %s\n", (long long)bytes, rp_error(r.ctx));
        _exit(ends ? 0 : 4);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void a_run_without_enough_memory_ends_before_its_first_step(void **state)
{
    (void)state;
    int n_refused = 0;

    for (int64_t bytes = 3 * CHUNK;; bytes += CHUNK) {
        int ended = run_on(bytes);
        if (!ended) break;
        if (ended != 3) fail_msg("%lld bytes: %d", (long long)bytes, ended);
        assert_false(is_there(&dir, "out/state"));
        n_refused++;
    }
    if (n_refused < 2) fail_msg("%d refused", n_refused);
}

/* A run does not own the memory that another program takes after the start. */
static void memory_that_others_take_later_is_no_memory_of_the_run(void **state)
{
    (void)state;
    rp_cuda_allocation kind = { .type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
    uint64_t handle[64];
    int n = 0;

    run_whole(&dir, "llama", "alone", RUN("device=emu"));
    run r = run_open(&dir, "llama", "crowded", RUN("device=emu"));
    assert_ok(r.ctx, r.status);
    for (size_t bytes = (size_t)8 << 30; bytes >= CHUNK; bytes /= 2)
        while (!rp__cuda_emulated.cuMemCreate(&handle[n], bytes, &kind, 0)) assert_true(++n < 64);
    assert_ok(r.ctx, rp__trainer_run(r.trainer, NULL, NULL));
    while (n) assert_int_equal(rp__cuda_emulated.cuMemRelease(handle[--n]), CUDA_SUCCESS);
    run_close(&r);
    assert_same_final(&dir, "alone", "crowded");
}

/* The copies of an export come after the last step, in this case after step 2. */
static int failing;

static void fail_copy(void *user, const rp_metrics *line, double seconds_left)
{
    (void)user, (void)seconds_left;
    if (line->step == 2) rp__emulate_fail("cuMemcpyAsync", failing, CUDA_ERROR_INVALID_VALUE);
}

static const char *weights_of(int nth, char name[64])
{
    snprintf(name, 64, "copy%d/final/model.safetensors", nth);
    return name;
}

/* The folder is named after the copy that fails. */
static void failing_export(void)
{
    char name[64];
    run r;

    snprintf(name, sizeof name, "copy%d", failing);
    r = run_open(&dir, "llama", name, RUN("device=emu", "max_steps=2"));
    rp_status status = rp__trainer_run(r.trainer, NULL, &(rp_progress){ .step = fail_copy });
    must(is_there(&dir, weights_of(failing, name)) == (status == RP_OK));
    if (status != RP_OK) check_refused(status, RP_ERR_BACKEND, rp_error(r.ctx), "cuMemcpyAsync: CUDA_ERROR_INVALID_VALUE");
    run_close(&r);
}

static void a_copy_that_fails_in_an_export_leaves_no_weights_and_is_an_error(void **state)
{
    char name[64];

    (void)state;
    run_whole(&dir, "llama", "whole", RUN("device=emu", "max_steps=2"));
    for (failing = 1; in_child(failing_export), !is_there(&dir, weights_of(failing, name)); failing += test_few_or(7, 1)) {}
    assert_same_file(&dir, "whole/final/model.safetensors", name);      /* its copies were too few to fail */
    assert_true(failing > 10);
}

static void lose_card(void *user, const rp_metrics *line, double seconds_left)
{
    (void)user, (void)seconds_left;
    if (line->step == 5) rp__emulate_fail("cuEventSynchronize", 1, CUDA_ERROR_UNKNOWN);
}

static void lost_card(void)
{
    run r            = run_open(&dir, "llama", "lost", RUN("device=emu", "save_every_n_steps=4"));
    rp_status status = rp__trainer_run(r.trainer, NULL, &(rp_progress){ .step = lose_card });

    check_refused(status, RP_ERR_BACKEND, rp_error(r.ctx), "device 'emu' failed at or before the end of step 7: cuEventSynchronize: CUDA_ERROR_UNKNOWN "
                  "(unknown error); the GPU may be lost or broken: see nvidia-smi and the log of the system");
    run_close(&r);
}

static void a_card_that_disappears_ends_the_run_at_its_last_state(void **state)
{
    (void)state;
    in_child(lost_card);
    run_whole(&dir, "llama", "lost", RUN("device=emu", "resume=auto"));
    run_whole(&dir, "llama", "whole", RUN("device=emu"));
    assert_same_final(&dir, "whole", "lost");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gpu_that_cannot_be_opened_is_named_with_the_reason),
        cmocka_unit_test(a_driver_or_card_that_does_not_do_is_named_with_the_need),
        cmocka_unit_test(an_error_of_the_device_names_the_op_at_or_before_which_it_happened),
        cmocka_unit_test(a_full_device_is_an_error_of_the_allocation),
        TEST(a_run_without_enough_memory_ends_before_its_first_step),
        TEST(memory_that_others_take_later_is_no_memory_of_the_run),
        TEST(a_copy_that_fails_in_an_export_leaves_no_weights_and_is_an_error),
        TEST(a_card_that_disappears_ends_the_run_at_its_last_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
