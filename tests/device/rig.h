/* tests/device/rig.h -- the emulated driver with memory, two streams and the kernels of kernels.k, for tests. */
#ifndef RP_TEST_RIG_H
#define RP_TEST_RIG_H

#include "rp_test.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/driver.h"
#include "device/emulate/emulate.h"
#include "kernels.h"

#define cu rp__cuda_emulated
#define assert_done(call) assert_int_equal((call), CUDA_SUCCESS)

extern const rp_gpu_kernel rp__gpu_test_scale, rp__gpu_test_add, rp__gpu_test_reverse, rp__gpu_test_sum, rp__gpu_test_warp, rp__gpu_test_dynamic,
    rp__gpu_test_place, rp__gpu_test_functions, rp__gpu_test_product, rp__gpu_test_matrix;
static const rp_gpu_kernel *const rig_kernels[] = { &rp__gpu_test_scale, &rp__gpu_test_add, &rp__gpu_test_reverse, &rp__gpu_test_sum,
                                                    &rp__gpu_test_warp, &rp__gpu_test_dynamic, &rp__gpu_test_place, &rp__gpu_test_functions,
                                                    &rp__gpu_test_product, &rp__gpu_test_matrix };

enum { RIG_CHUNK = 2 << 20 };
static const rp_cuda_allocation rig_properties = { .type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
static const rp_cuda_access rig_access   = { { CU_MEM_LOCATION_TYPE_DEVICE, 0 }, CU_MEM_ACCESS_FLAGS_PROT_READWRITE };

typedef struct rig {
    void *context, *module, *stream[2];
    uint64_t base;                  /* RIG_CHUNK bytes of accessible memory */
    uint64_t memory;                /* its handle */
    float *pinned;                  /* RIG_CHUNK bytes */
} rig;

static inline void rig_open(rig *r)
{
    rp__emulate_reset();
    rp__emulate_add_kernels(rig_kernels, RP_COUNT(rig_kernels));
    assert_done(cu.cuInit(0));
    assert_done(cu.cuDevicePrimaryCtxRetain(&r->context, 0));
    assert_done(cu.cuCtxSetCurrent(r->context));
    assert_done(cu.cuModuleLoadData(&r->module, ""));
    for (int i = 0; i < 2; i++) assert_done(cu.cuStreamCreate(&r->stream[i], CU_STREAM_NON_BLOCKING));
    assert_done(cu.cuMemAddressReserve(&r->base, RIG_CHUNK, 0, 0, 0));
    assert_done(cu.cuMemCreate(&r->memory, RIG_CHUNK, &rig_properties, 0));
    assert_done(cu.cuMemMap(r->base, RIG_CHUNK, 0, r->memory, 0));
    assert_done(cu.cuMemSetAccess(r->base, RIG_CHUNK, &rig_access, 1));
    assert_done(cu.cuMemHostAlloc((void **)&r->pinned, RIG_CHUNK, 0));
}

/* The same calls in the other direction leave nothing. */
static inline void rig_close(rig *r)
{
    for (int i = 0; i < 2; i++) assert_done(cu.cuStreamSynchronize(r->stream[i]));
    for (int i = 0; i < 2; i++) assert_done(cu.cuStreamDestroy_v2(r->stream[i]));
    assert_done(cu.cuMemFreeHost(r->pinned));
    assert_done(cu.cuMemUnmap(r->base, RIG_CHUNK));
    assert_done(cu.cuMemRelease(r->memory));
    assert_done(cu.cuMemAddressFree(r->base, RIG_CHUNK));
    assert_done(cu.cuModuleUnload(r->module));
    assert_int_equal(rp__emulate_live(), 0);
    rp__emulate_reset();
}

static inline int rig_launch(const rig *r, const char *name, int lane, int grid_x, test_args args)
{
    void *f, *parameters[] = { &args };
    int shared = !strcmp(name, "test_dynamic") ? rp__gpu_test_dynamic.shared_bytes : 0;

    assert_done(cu.cuModuleGetFunction(&f, r->module, name));
    for (int i = 0; i < RP_COUNT(rig_kernels); i++)
        if (!strcmp(rig_kernels[i]->name, name))
            return cu.cuLaunchKernel(f, (unsigned)grid_x, 1, 1, (unsigned)rig_kernels[i]->threads, 1, 1, (unsigned)shared, r->stream[lane], parameters, NULL);
    fail_msg("no kernel %s", name);
    return 0;
}

/* Runs f in a child. Returns the signal that ended it, or -1 if it exited with an error, as a sanitizer does. 0: it returned. */
static inline int rig_child(void (*f)(void *), void *data)
{
    int status = 0;
    pid_t child;

    fflush(NULL);
    child = fork();
    assert_true(child >= 0);
    if (!child) {
        signal(SIGSEGV, SIG_DFL);
        signal(SIGABRT, SIG_DFL);
        if (!freopen("/dev/null", "w", stderr)) _exit(9);
        f(data);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status) ? -1 : 0;
}

#endif
