/* Claims about the memory and the errors of the emulated driver: limits, faults, refused calls, failures on demand. They are those of a real driver. */
/* ctest: device-free level-free thread-free watched */
#include "arrays.h"

#include "heap.h"

/* ---- memory ---- */

static void memory_is_limited_and_comes_back(void **state)
{
    (void)state;
    rig r;
    uint64_t handle, more;
    size_t available, total;
    setenv("REPRISE_EMU_MEMORY", "8388608", 1);
    rig_open(&r);
    assert_done(cu.cuMemGetInfo_v2(&available, &total));
    assert_true(total == 8388608 && available == total - RIG_CHUNK);
    assert_int_equal(cu.cuMemCreate(&handle, 4 * RIG_CHUNK, &rig_properties, 0), CUDA_ERROR_OUT_OF_MEMORY);
    assert_done(cu.cuMemCreate(&handle, 3 * RIG_CHUNK, &rig_properties, 0));
    assert_int_equal(cu.cuMemCreate(&more, RIG_CHUNK, &rig_properties, 0), CUDA_ERROR_OUT_OF_MEMORY);
    assert_done(cu.cuMemRelease(handle));
    assert_int_equal(cu.cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
    assert_done(cu.cuMemCreate(&more, RIG_CHUNK, &rig_properties, 0));
    assert_done(cu.cuMemRelease(more));
    unsetenv("REPRISE_EMU_MEMORY");
    rig_close(&r);
}

static void released_memory_is_kept_while_it_is_mapped(void **state)
{
    (void)state;
    rig r;
    uint64_t at, handle;
    size_t before, during, after, total;
    rig_open(&r);
    assert_done(cu.cuMemGetInfo_v2(&before, &total));
    assert_done(cu.cuMemAddressReserve(&at, 4 * RIG_CHUNK, 0, 0, 0));
    assert_done(cu.cuMemCreate(&handle, RIG_CHUNK, &rig_properties, 0));
    assert_done(cu.cuMemMap(at + RIG_CHUNK, RIG_CHUNK, 0, handle, 0));
    assert_int_equal(cu.cuMemMap(at + RIG_CHUNK, RIG_CHUNK, 0, r.memory, 0), 801);
    assert_done(cu.cuMemRelease(handle));
    assert_done(cu.cuMemGetInfo_v2(&during, &total));
    assert_int_equal(cu.cuMemAddressFree(at, 4 * RIG_CHUNK), CUDA_ERROR_INVALID_VALUE);      /* something is mapped there */
    assert_int_equal(cu.cuMemUnmap(at, 2 * RIG_CHUNK), CUDA_ERROR_INVALID_VALUE);
    assert_done(cu.cuMemUnmap(at + RIG_CHUNK, RIG_CHUNK));
    assert_done(cu.cuMemGetInfo_v2(&after, &total));
    assert_true(before == after && during == before - RIG_CHUNK);
    assert_int_equal(cu.cuMemAddressFree(at, RIG_CHUNK), CUDA_ERROR_INVALID_VALUE);
    assert_done(cu.cuMemAddressFree(at, 4 * RIG_CHUNK));
    rig_close(&r);
}

static void many_addresses_can_be_reserved(void **state)
{
    (void)state;
    rig r;
    uint64_t at;
    rig_open(&r);
    assert_done(cu.cuMemAddressReserve(&at, (size_t)16 << 30, 0, 0, 0));
    assert_done(cu.cuMemAddressFree(at, (size_t)16 << 30));
    assert_int_equal(cu.cuMemAddressReserve(&at, (size_t)1 << 60, 0, 0, 0), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(cu.cuMemAddressReserve(&at, 4096, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
    rig_close(&r);
}

static void a_gibibyte_is_mapped_without_being_filled(void **state)
{
    (void)state;
    enum { BYTES_GIB = 1 << 30 };
    rig r;
    uint64_t at, handle;
    float back[N];
    rig_open(&r);
    assert_done(cu.cuMemAddressReserve(&at, BYTES_GIB, 0, 0, 0));
    assert_done(cu.cuMemCreate(&handle, BYTES_GIB, &rig_properties, 0));
    assert_done(cu.cuMemMap(at, BYTES_GIB, 0, handle, 0));
    assert_done(cu.cuMemSetAccess(at, BYTES_GIB, &rig_access, 1));
    assert_done(cu.cuMemcpyAsync(host_at(back), at + BYTES_GIB - BYTES, BYTES, r.stream[0]));
    for (int i = 0; i < N; i++) assert_int_equal(BITS(back[i]), 0xffffffffu);
    assert_done(cu.cuMemUnmap(at, BYTES_GIB));
    assert_done(cu.cuMemRelease(handle));
    assert_done(cu.cuMemAddressFree(at, BYTES_GIB));
    rig_close(&r);
}

/* ---- faults ---- */

static void host_read(void *p) { host[0] = ((volatile const float *)(uintptr_t)((rig *)p)->base)[0]; }

/* The last element that the kernel reads lies behind mapped memory. */
static void kernel_past_the_end(void *p)
{
    const rig *r = p;
    test_args a  = { .x = r->base + RIG_CHUNK - 1024, .z = r->base, .n = 256, .factor = 1, .plant = PLANT_PAST_END };
    rig_launch(r, "test_scale", 0, 1, a);
    cu.cuStreamSynchronize(r->stream[0]);
}

static void kernel_to_the_end(void *p)
{
    const rig *r = p;
    test_args a  = { .x = r->base + RIG_CHUNK - 1024, .z = r->base, .n = 256, .factor = 1 };
    rig_launch(r, "test_scale", 0, 1, a);
    cu.cuStreamSynchronize(r->stream[0]);
}

static void stray_accesses_end_the_process(void **state)
{
    (void)state;
    rig r;
    rig_open(&r);
    assert_int_equal(rig_child(host_read, &r), SIGSEGV);
    assert_int_equal(rig_child(kernel_past_the_end, &r), SIGSEGV);
    assert_int_equal(rig_child(kernel_to_the_end, &r), 0);
    rig_close(&r);
}

static void an_illegal_address_in_a_copy_makes_all_later_calls_fail(void **state)
{
    (void)state;
    rig r;
    const char *name;
    void *e;
    rig_open(&r);
    assert_done(copy(&r, host_at(r.pinned), r.base + RIG_CHUNK - 4, 0));        /* the end is behind mapped memory */
    assert_done(cu.cuEventCreate(&e, 0));                                       /* not known yet */
    assert_int_equal(cu.cuStreamSynchronize(r.stream[0]), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(cu.cuStreamSynchronize(r.stream[1]), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(cu.cuEventDestroy_v2(e), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_done(cu.cuGetErrorName(CUDA_ERROR_ILLEGAL_ADDRESS, &name));
    assert_string_equal(name, "CUDA_ERROR_ILLEGAL_ADDRESS");
    rp__emulate_reset();
}

static void free_while_a_copy_waits(void *p)
{
    rig *r = p;
    copy(r, host_at(r->pinned), r->base, 0);
    cu.cuMemFreeHost(r->pinned);
}

static void pinned_memory_is_not_freed_while_a_call_uses_it(void **state)
{
    (void)state;
    rig r;
    rig_open(&r);
    assert_int_equal(rig_child(free_while_a_copy_waits, &r), SIGABRT);
    rig_close(&r);
}

/* ---- refused calls ---- */

static void wrong_handles_are_refused(void **state)
{
    (void)state;
    static _Alignas(4096) unsigned char pages[8192];
    rig r;
    void *e, *f, *graph = &e, *bad[] = { NULL, &e, (void *)16 };
    rig_open(&r);
    assert_done(cu.cuEventCreate(&e, 0));
    assert_done(cu.cuModuleGetFunction(&f, r.module, "test_scale"));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(cu.cuStreamSynchronize(bad[i]), CUDA_ERROR_INVALID_HANDLE);
        assert_int_equal(cu.cuStreamDestroy_v2(bad[i]), CUDA_ERROR_INVALID_HANDLE);
        assert_int_equal(cu.cuEventRecord(e, bad[i]), CUDA_ERROR_INVALID_HANDLE);
        assert_int_equal(cu.cuEventRecord(bad[i], r.stream[0]), CUDA_ERROR_INVALID_HANDLE);
        assert_int_equal(cu.cuEventDestroy_v2(bad[i]), CUDA_ERROR_INVALID_HANDLE);
        assert_int_equal(cu.cuMemcpyAsync(r.base, r.base, 4, bad[i]), CUDA_ERROR_INVALID_HANDLE);
        assert_int_equal(cu.cuModuleUnload(bad[i]), CUDA_ERROR_INVALID_HANDLE);
        assert_int_equal(cu.cuGraphLaunch(bad[i], r.stream[0]), CUDA_ERROR_INVALID_HANDLE);
        assert_int_equal(cu.cuGraphInstantiateWithFlags(&graph, bad[i], 0), CUDA_ERROR_INVALID_HANDLE);
    }
    assert_int_equal(cu.cuEventRecord(r.stream[0], r.stream[0]), CUDA_ERROR_INVALID_HANDLE);       /* of another kind */
    assert_int_equal(cu.cuModuleGetFunction(&f, r.module, "no_such_kernel"), CUDA_ERROR_NOT_FOUND);
    assert_int_equal(cu.cuMemFreeHost(host), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.cuMemHostRegister_v2(pages + 1, 4096, 0), CUDA_ERROR_INVALID_VALUE);
    assert_done(cu.cuMemHostRegister_v2(pages, 8192, 0));
    assert_int_equal(cu.cuMemHostRegister_v2(pages + 4096, 4096, 0), 712);                          /* already registered */
    assert_int_equal(cu.cuMemFreeHost(pages), CUDA_ERROR_INVALID_VALUE);
    assert_done(cu.cuMemHostUnregister(pages));
    assert_int_equal(cu.cuMemHostUnregister(pages), CUDA_ERROR_INVALID_VALUE);
    assert_done(cu.cuEventDestroy_v2(e));
    assert_int_equal(cu.cuEventDestroy_v2(e), CUDA_ERROR_INVALID_HANDLE);
    rig_close(&r);
}

static int launch(const rig *r, void *f, unsigned x, unsigned y, unsigned threads, unsigned shared)
{
    test_args a        = { .z = r->base, .x = r->base };
    void *parameters[] = { &a };
    return cu.cuLaunchKernel(f, x, y, 1, threads, 1, 1, shared, r->stream[0], parameters, NULL);
}

static void launches_are_checked(void **state)
{
    (void)state;
    rig r;
    void *f, *d;
    rig_open(&r);
    assert_done(cu.cuModuleGetFunction(&f, r.module, "test_scale"));
    assert_done(cu.cuModuleGetFunction(&d, r.module, "test_dynamic"));
    assert_done(launch(&r, f, 1, 1, 256, 0));
    assert_int_equal(launch(&r, f, 0, 1, 256, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(launch(&r, f, 1, 65536, 256, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(launch(&r, f, 1, 1, 128, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(launch(&r, f, 1, 1, 256, 49153), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(launch(&r, d, 1, 1, 128, 65536), CUDA_ERROR_INVALID_VALUE);       /* not opted in */
    assert_int_equal(cu.cuFuncSetAttribute(d, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, RP_EMULATE_SHARED_BYTES + 1), CUDA_ERROR_INVALID_VALUE);
    assert_done(cu.cuFuncSetAttribute(d, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 65536));
    assert_done(launch(&r, d, 1, 1, 128, 65536));
    assert_int_equal(launch(&r, d, 1, 1, 128, 65535), CUDA_ERROR_INVALID_VALUE);       /* less than the kernel uses */
    rig_close(&r);
}

static void calls_before_the_device_is_open_are_refused(void **state)
{
    (void)state;
    void *context, *stream;
    int device;
    rp__emulate_reset();
    assert_int_equal(cu.cuDeviceGet(&device, 0), 3);
    assert_done(cu.cuInit(0));
    assert_int_equal(cu.cuDeviceGet(&device, 1), CUDA_ERROR_INVALID_DEVICE);
    assert_int_equal(cu.cuStreamCreate(&stream, 0), 201);
    assert_int_equal(cu.cuCtxSetCurrent(&device), 201);
    assert_done(cu.cuDevicePrimaryCtxRetain(&context, 0));
    assert_int_equal(cu.cuStreamCreate(&stream, 0), 201);           /* not current */
    assert_done(cu.cuCtxSetCurrent(context));
    assert_done(cu.cuStreamCreate(&stream, 0));
    rp__emulate_reset();
}

static void the_device_describes_itself(void **state)
{
    (void)state;
    rig r;
    char name[64];
    int n, major, version;
    rig_open(&r);
    assert_done(cu.cuDeviceGetCount(&n));
    assert_int_equal(n, 1);
    assert_done(cu.cuDeviceGetName(name, sizeof name, 0));
    assert_string_equal(name, "emulated GPU");
    assert_done(cu.cuDeviceGetAttribute(&n, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
    assert_done(cu.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
    assert_done(cu.cuDriverGetVersion(&version));
    assert_true(n == 132 && major == 9 && version >= 12000);
    assert_int_equal(cu.cuDeviceGetAttribute(&n, 9999, 0), CUDA_ERROR_INVALID_VALUE);
    rig_close(&r);
}

/* ---- failures on demand ---- */

static void tests_can_make_a_call_fail(void **state)
{
    (void)state;
    rig r;
    void *e[2];
    rig_open(&r);
    rp__emulate_fail("cuEventCreate", 2, CUDA_ERROR_OUT_OF_MEMORY);
    assert_done(cu.cuEventCreate(&e[0], 0));
    assert_int_equal(cu.cuEventCreate(&e[1], 0), CUDA_ERROR_OUT_OF_MEMORY);
    assert_done(cu.cuEventCreate(&e[1], 0));
    rp__emulate_fail("run", 2, CUDA_ERROR_LAUNCH_FAILED);
    for (int i = 0; i < 3; i++) assert_done(scale(&r, 1, 0, 1, 0));
    assert_int_equal(cu.cuStreamSynchronize(r.stream[0]), CUDA_ERROR_LAUNCH_FAILED);
    assert_int_equal(cu.cuEventDestroy_v2(e[0]), CUDA_ERROR_LAUNCH_FAILED);
    rp__emulate_reset();
    assert_int_equal(rp__emulate_live(), 0);
}

/* Many kinds of calls, until one fails. */
static int use_all(const rig *r)
{
    void *stream, *e, *graph, *x, *block;
    int error = cu.cuStreamCreate(&stream, 0);
    if (!error) error = cu.cuEventCreate(&e, 0);
    if (!error) error = cu.cuMemHostAlloc(&block, 64, 0);
    if (!error) error = copy(r, array(r, 0), host_at(host), 0);
    if (!error) error = cu.cuMemsetD8Async(array(r, 1), 0, BYTES, r->stream[0]);
    if (!error) error = scale(r, 1, 0, 2, 0);
    if (!error) error = cu.cuEventRecord(e, r->stream[0]);
    if (!error) error = cu.cuStreamWaitEvent(r->stream[1], e, 0);
    if (!error) error = cu.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    if (!error) error = cu.cuMemsetD8Async(array(r, 1), 0, BYTES, stream);
    if (!error) error = cu.cuStreamEndCapture(stream, &graph);
    if (!error) error = cu.cuGraphInstantiateWithFlags(&x, graph, 0);
    return error ? error : cu.cuGraphLaunch(x, stream);
}

static void without_memory_of_the_host_a_call_fails(void **state)
{
    (void)state;
    int error = CUDA_ERROR_OUT_OF_MEMORY, n = 0;
    while (error) {
        rig r;
        rig_open(&r);
        void *f;
        assert_done(cu.cuModuleGetFunction(&f, r.module, "test_scale"));
        heap_countdown = ++n;
        error          = use_all(&r);
        heap_countdown = 0;
        assert_true(!error || error == CUDA_ERROR_OUT_OF_MEMORY);
        rp__emulate_reset();
        assert_int_equal(rp__emulate_live(), 0);
    }
#if HEAP_IS_OURS
    assert_true(n > 15);
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_limited_and_comes_back),
        cmocka_unit_test(released_memory_is_kept_while_it_is_mapped),
        cmocka_unit_test(many_addresses_can_be_reserved),
        cmocka_unit_test(a_gibibyte_is_mapped_without_being_filled),
        cmocka_unit_test(stray_accesses_end_the_process),
        cmocka_unit_test(an_illegal_address_in_a_copy_makes_all_later_calls_fail),
        cmocka_unit_test(pinned_memory_is_not_freed_while_a_call_uses_it),
        cmocka_unit_test(wrong_handles_are_refused),
        cmocka_unit_test(launches_are_checked),
        cmocka_unit_test(calls_before_the_device_is_open_are_refused),
        cmocka_unit_test(the_device_describes_itself),
        cmocka_unit_test(tests_can_make_a_call_fail),
        cmocka_unit_test(without_memory_of_the_host_a_call_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
