/* tests/device/test_gpu_faults.c -- a GPU that cannot be used, fails or is full is one clear message. The GPU is emulated; each case has a process of its
 * own, because a failed driver stays failed. */
/* ctest: device-free level-free thread-free */
#include "rp_test.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/driver.h"
#include "device/emulate/emulate.h"

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

/* On a machine without a driver. */
static void no_driver(void)
{
    rp_ctx *ctx      = NULL;
    rp_status status = rp_ctx_new(&(rp_ctx_options){ .device = "cuda", .threads = 1 }, &ctx);

    if (status == RP_OK) return;
    check_refused(status, RP_ERR_BACKEND, rp_error(NULL), "device 'cuda' cannot be used: ");
}

static void without_a_driver_the_device_is_refused(void **state)
{
    (void)state;
    in_child(no_driver);
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
    check_refused(status, RP_ERR_MEMORY, rp_error(ctx), "the device has 48234496 bytes (46.00 MiB) left");
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

static void a_full_device_is_an_error_of_the_allocation(void **state)
{
    (void)state;
    in_child(full_device);
    in_child(full_device_before_a_step);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gpu_that_cannot_be_opened_is_named_with_the_reason),
        cmocka_unit_test(without_a_driver_the_device_is_refused),
        cmocka_unit_test(an_error_of_the_device_names_the_op_at_or_before_which_it_happened),
        cmocka_unit_test(a_full_device_is_an_error_of_the_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
