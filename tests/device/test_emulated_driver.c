/* Claims about the streams of the emulated driver: calls run late and in the worst order, forgotten waits show, graphs give the bits of eager calls. */
/* ctest: device-free level-free watched */
#include "arrays.h"

#include <pthread.h>

#include "device/gpu.h"

/* ---- late calls ---- */

static void a_copy_to_pinned_memory_is_pending_until_the_host_waits(void **state)
{
    (void)state;
    rig r;
    rig_open(&r);
    fill_host(host, 1);
    fill_host(r.pinned, 9);
    assert_done(copy(&r, array(&r, 0), host_at(host), 0));
    assert_done(copy(&r, host_at(r.pinned), array(&r, 0), 0));
    assert_true(pending(r.pinned));
    assert_done(cu.cuStreamSynchronize(r.stream[0]));
    assert_memory_equal(r.pinned, host, BYTES);
    rig_close(&r);
}

static void pageable_memory_is_read_and_written_before_the_call_returns(void **state)
{
    (void)state;
    rig r;
    float want[N], back[N];
    rig_open(&r);
    fill_host(host, 1);
    memcpy(want, host, sizeof want);
    assert_done(copy(&r, array(&r, 0), host_at(host), 0));
    fill_host(host, 2);
    assert_done(copy(&r, host_at(back), array(&r, 0), 0));
    assert_memory_equal(back, want, BYTES);
    rig_close(&r);
}

static void a_copy_from_pinned_memory_reads_it_late(void **state)
{
    (void)state;
    rig r;
    float back[N];
    rig_open(&r);
    fill_host(r.pinned, 1);
    assert_done(copy(&r, array(&r, 0), host_at(r.pinned), 0));
    fill_host(r.pinned, 2);         /* a mistake */
    assert_done(copy(&r, host_at(back), array(&r, 0), 0));
    assert_true(back[0] == 2);
    rig_close(&r);
}

static void a_target_that_a_waiting_copy_reads_is_read_first(void **state)
{
    (void)state;
    rig r;
    float back[N];
    rig_open(&r);
    fill_host(r.pinned, 1);
    assert_done(copy(&r, array(&r, 0), host_at(r.pinned), 0));
    assert_done(cu.cuMemsetD8Async(array(&r, 1), 0, BYTES, r.stream[0]));
    assert_done(copy(&r, host_at(r.pinned), array(&r, 1), 0));
    assert_done(copy(&r, host_at(back), array(&r, 0), 0));
    assert_true(back[0] == 1 && r.pinned[0] == 0);
    rig_close(&r);
}

static void a_copy_that_overlaps_itself_is_undefined(void **state)
{
    (void)state;
    rig r;
    uint32_t back[N];
    rig_open(&r);
    assert_done(copy(&r, array(&r, 0), host_at(host), 0));
    assert_done(copy(&r, array(&r, 0) + 4, array(&r, 0), 0));
    assert_done(copy(&r, host_at(back), array(&r, 0), 0));
    for (int i = 1; i < N; i++) assert_int_equal(back[i], 0xffffffffu);
    rig_close(&r);
}

static void fresh_memory_holds_nan(void **state)
{
    (void)state;
    rig r;
    uint32_t back[N];
    for (int i = 0; i < 2; i++) {
        rig_open(&r);
        assert_done(copy(&r, host_at(back), array(&r, 0), 0));
        for (int k = 0; k < N; k++) assert_int_equal(back[k], 0xffffffffu);
        assert_done(cu.cuMemsetD8Async(array(&r, 0), 1, BYTES, r.stream[0]));
        rig_close(&r);
    }
}

static void the_oldest_calls_run_if_too_many_wait(void **state)
{
    (void)state;
    rig r;
    rig_open(&r);
    for (int i = 0; i < 5000; i++) assert_done(cu.cuMemsetD8Async(array(&r, 0), (unsigned char)i, BYTES, r.stream[i % 2]));
    assert_int_equal(rp__emulate_live(), 4096 + 2 + 1 + 1 + 1 + 1);     /* calls, streams, module, addresses, memory, pinned */
    rig_close(&r);
}

/* Neighbours of each other are two pieces, too. */
static void a_copy_that_leaves_a_piece_of_pinned_memory_is_refused(void **state)
{
    (void)state;
    rig r;
    _Alignas(4096) static uint8_t block[3 * 4096];
    rig_open(&r);
    for (int i = 0; i < 2; i++) assert_done(cu.cuMemHostRegister_v2(block + i * 4096, 4096, 0));
    assert_done(copy(&r, array(&r, 0), host_at(block), 0));
    assert_done(copy(&r, array(&r, 0), host_at(block + 4096), 0));
    for (int i = 1; i < 3; i++) {
        uint64_t border = host_at(block) + 4096 * (uint64_t)i - BYTES / 2;
        assert_int_equal(copy(&r, array(&r, 0), border, 0), CUDA_ERROR_INVALID_VALUE);
        assert_int_equal(copy(&r, border, array(&r, 0), 0), CUDA_ERROR_INVALID_VALUE);
    }
    assert_done(copy(&r, array(&r, 0), host_at(block + 2 * 4096), 0));
    assert_done(cu.cuStreamSynchronize(r.stream[0]));
    for (int i = 0; i < 2; i++) assert_done(cu.cuMemHostUnregister(block + i * 4096));
    rig_close(&r);
}

/* ---- streams ---- */

/* Offload of array 0 by stream 1 while stream 0 computes: array 0 leaves for pinned memory, is overwritten, and comes back to array 2.
 * `waits` has a bit for each of the three waits. The first byte of the result differs if one is forgotten, in one order of lanes at least. */
static float offload(rig *r, int waits)
{
    void *made, *gone, *back;
    float *result = r->pinned + N;

    for (int i = 0; i < 3; i++) assert_done(cu.cuEventCreate((void *[]){ &made, &gone, &back }[i], CU_EVENT_DISABLE_TIMING));
    fill_host(host, 1);
    assert_done(copy(r, array(r, 1), host_at(host), 0));
    assert_done(scale(r, 0, 1, 2, 0));
    assert_done(cu.cuEventRecord(made, r->stream[0]));
    if (waits & 1) assert_done(cu.cuStreamWaitEvent(r->stream[1], made, 0));
    assert_done(copy(r, host_at(r->pinned), array(r, 0), 1));
    assert_done(cu.cuEventRecord(gone, r->stream[1]));
    if (waits & 2) assert_done(cu.cuStreamWaitEvent(r->stream[0], gone, 0));
    assert_done(scale(r, 0, 1, 3, 0));
    assert_done(copy(r, array(r, 2), host_at(r->pinned), 1));
    assert_done(cu.cuEventRecord(back, r->stream[1]));
    if (waits & 4) assert_done(cu.cuStreamWaitEvent(r->stream[0], back, 0));
    assert_done(add(r, 2, 0, 0));
    assert_done(copy(r, host_at(result), array(r, 2), 0));
    assert_done(cu.cuStreamSynchronize(r->stream[0]));
    assert_done(cu.cuStreamSynchronize(r->stream[1]));
    for (int i = 0; i < 3; i++) assert_done(cu.cuEventDestroy_v2((void *[]){ made, gone, back }[i]));
    return result[0];
}

static void a_forgotten_wait_gives_other_bits(void **state)
{
    (void)state;
    for (int waits = 0; waits < 8; waits++) {
        int n_wrong = 0;
        for (int last = 0; last < 2; last++) {
            rig r;
            rig_open(&r);
            rp__emulate_set_lanes(last);
            n_wrong += offload(&r, waits) != 2 + 3;
            rig_close(&r);
        }
        if ((waits == 7) != (n_wrong == 0)) fail_msg("waits %d: wrong in %d orders", waits, n_wrong);
    }
}

static void the_environment_chooses_the_order_of_lanes(void **state)
{
    (void)state;
    for (int last = 0; last < 2; last++) {
        rig r;
        setenv("REPRISE_EMU_LANES", last ? "last" : "first", 1);
        rig_open(&r);
        for (int lane = 0; lane < 2; lane++) assert_done(cu.cuMemsetD8Async(array(&r, 0), (unsigned char)lane, BYTES, r.stream[lane]));
        void *e;
        assert_done(cu.cuEventCreate(&e, 0));
        for (int lane = 0; lane < 2; lane++) assert_done(cu.cuStreamSynchronize(r.stream[last ? 0 : 1]));
        unsigned char back[BYTES];
        assert_done(copy(&r, host_at(back), array(&r, 0), 0));
        assert_int_equal(back[0], last ? 0 : 1);
        assert_done(cu.cuEventDestroy_v2(e));
        rig_close(&r);
    }
    unsetenv("REPRISE_EMU_LANES");
}

static void a_wait_is_for_the_record_before_it(void **state)
{
    (void)state;
    rig r;
    void *e;
    rig_open(&r);
    assert_done(cu.cuEventCreate(&e, 0));
    assert_done(cu.cuStreamWaitEvent(r.stream[1], e, 0));       /* never recorded: no wait */
    assert_done(cu.cuEventRecord(e, r.stream[0]));
    assert_done(cu.cuStreamWaitEvent(r.stream[1], e, 0));
    assert_done(cu.cuEventRecord(e, r.stream[1]));              /* later than that wait */
    assert_done(cu.cuEventSynchronize(e));
    assert_done(cu.cuEventDestroy_v2(e));
    rig_close(&r);
}

static void events_measure_time(void **state)
{
    (void)state;
    rig r;
    void *begin, *end, *untimed;
    float ms = -1;
    rig_open(&r);
    assert_done(cu.cuEventCreate(&begin, 0));
    assert_done(cu.cuEventCreate(&end, 0));
    assert_done(cu.cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING));
    assert_int_equal(cu.cuEventElapsedTime(&ms, begin, end), CUDA_ERROR_INVALID_HANDLE);
    assert_done(cu.cuEventRecord(begin, r.stream[0]));
    assert_done(cu.cuEventRecord(end, r.stream[0]));
    assert_done(cu.cuEventRecord(untimed, r.stream[0]));
    assert_int_equal(cu.cuEventElapsedTime(&ms, begin, end), 600);
    assert_done(cu.cuEventSynchronize(untimed));
    assert_done(cu.cuEventElapsedTime(&ms, begin, end));
    assert_true(ms >= 0);
    assert_int_equal(cu.cuEventElapsedTime(&ms, begin, untimed), CUDA_ERROR_INVALID_HANDLE);
    for (int i = 0; i < 3; i++) assert_done(cu.cuEventDestroy_v2((void *[]){ begin, end, untimed }[i]));
    rig_close(&r);
}

/* ---- graphs ---- */

/* Work of two streams that events join: results are in pinned memory. */
static void work(const rig *r, void *fork_event, void *join_event)
{
    assert_done(copy(r, array(r, 0), host_at(r->pinned), 0));
    assert_done(cu.cuEventRecord(fork_event, r->stream[0]));
    assert_done(cu.cuStreamWaitEvent(r->stream[1], fork_event, 0));
    assert_done(scale(r, 1, 0, 3, 1));
    assert_done(scale(r, 2, 0, 5, 0));
    assert_done(cu.cuEventRecord(join_event, r->stream[1]));
    assert_done(cu.cuStreamWaitEvent(r->stream[0], join_event, 0));
    assert_done(add(r, 2, 1, 0));
    assert_done(copy(r, host_at(r->pinned + N), array(r, 2), 0));
}

static void a_graph_gives_the_bits_of_eager_calls(void **state)
{
    (void)state;
    for (int last = 0; last < 2; last++) {
        rig r;
        void *e[2], *graph, *executable;
        float eager[N];
        rig_open(&r);
        rp__emulate_set_lanes(last);
        for (int i = 0; i < 2; i++) assert_done(cu.cuEventCreate(&e[i], CU_EVENT_DISABLE_TIMING));
        fill_host(r.pinned, 1);
        work(&r, e[0], e[1]);
        assert_done(cu.cuStreamSynchronize(r.stream[0]));
        memcpy(eager, r.pinned + N, BYTES);

        assert_done(cu.cuStreamBeginCapture_v2(r.stream[0], CU_STREAM_CAPTURE_MODE_RELAXED));
        fill_host(r.pinned + N, 0);
        work(&r, e[0], e[1]);
        assert_done(cu.cuStreamEndCapture(r.stream[0], &graph));
        assert_true(r.pinned[N] == 0);                      /* nothing ran */
        assert_done(cu.cuGraphInstantiateWithFlags(&executable, graph, 0));
        assert_done(cu.cuGraphDestroy(graph));
        for (int again = 0; again < 3; again++) {
            fill_host(r.pinned, (float)again);
            int64_t before = rp__emulate_calls("cuLaunchKernel") + rp__emulate_calls("cuMemcpyAsync");
            assert_done(cu.cuGraphLaunch(executable, r.stream[0]));
            assert_int_equal(rp__emulate_calls("cuLaunchKernel") + rp__emulate_calls("cuMemcpyAsync"), before);
            assert_true(pending(r.pinned + N));
            assert_done(cu.cuStreamSynchronize(r.stream[0]));
            for (int i = 0; i < N; i++) assert_true(r.pinned[N + i] == eager[i] + 8 * (float)(again - 1));
        }
        assert_done(cu.cuGraphExecDestroy(executable));
        for (int i = 0; i < 2; i++) assert_done(cu.cuEventDestroy_v2(e[i]));
        rig_close(&r);
    }
}

static void a_forgotten_join_is_an_error(void **state)
{
    (void)state;
    rig r;
    void *e, *graph;
    rig_open(&r);
    assert_done(cu.cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    assert_done(cu.cuStreamBeginCapture_v2(r.stream[0], CU_STREAM_CAPTURE_MODE_RELAXED));
    assert_done(cu.cuEventRecord(e, r.stream[0]));
    assert_done(cu.cuStreamWaitEvent(r.stream[1], e, 0));
    assert_done(scale(&r, 1, 0, 3, 1));
    assert_int_equal(cu.cuStreamEndCapture(r.stream[1], &graph), 903);      /* not the stream that began it; the capture is invalid now */
    assert_int_equal(cu.cuStreamEndCapture(r.stream[0], &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    assert_done(cu.cuStreamBeginCapture_v2(r.stream[0], CU_STREAM_CAPTURE_MODE_RELAXED));
    assert_done(cu.cuEventRecord(e, r.stream[0]));
    assert_done(cu.cuStreamWaitEvent(r.stream[1], e, 0));
    assert_done(scale(&r, 1, 0, 3, 1));
    assert_int_equal(cu.cuStreamEndCapture(r.stream[0], &graph), 904);
    assert_null(graph);
    assert_done(cu.cuEventDestroy_v2(e));
    rig_close(&r);
}

static void a_capture_forbids_waits_of_the_host(void **state)
{
    (void)state;
    rig r;
    void *e, *other, *graph, *block;
    rig_open(&r);
    assert_done(cu.cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    assert_done(cu.cuEventCreate(&other, CU_EVENT_DISABLE_TIMING));
    assert_done(cu.cuEventRecord(other, r.stream[1]));
    assert_done(cu.cuStreamBeginCapture_v2(r.stream[0], CU_STREAM_CAPTURE_MODE_RELAXED));
    assert_done(cu.cuEventRecord(e, r.stream[0]));
    assert_done(cu.cuStreamSynchronize(r.stream[1]));                       /* it takes no part */
    assert_int_equal(cu.cuStreamSynchronize(r.stream[0]), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_int_equal(scale(&r, 1, 0, 3, 0), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    assert_int_equal(cu.cuStreamEndCapture(r.stream[0], &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    assert_int_equal(cu.cuStreamEndCapture(r.stream[0], &graph), 401);      /* no capture */

    assert_done(cu.cuStreamBeginCapture_v2(r.stream[0], CU_STREAM_CAPTURE_MODE_RELAXED));
    assert_done(cu.cuEventRecord(e, r.stream[0]));
    assert_int_equal(cu.cuEventSynchronize(e), 907);
    assert_int_equal(cu.cuStreamEndCapture(r.stream[0], &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

    assert_done(cu.cuStreamBeginCapture_v2(r.stream[0], CU_STREAM_CAPTURE_MODE_RELAXED));
    assert_int_equal(cu.cuStreamWaitEvent(r.stream[0], other, 0), 905);     /* recorded outside */
    assert_int_equal(cu.cuStreamEndCapture(r.stream[0], &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

    assert_done(cu.cuStreamBeginCapture_v2(r.stream[0], 0));
    assert_int_equal(cu.cuMemHostAlloc(&block, 64, 0), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_int_equal(cu.cuStreamEndCapture(r.stream[0], &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    assert_done(cu.cuEventDestroy_v2(e));
    assert_done(cu.cuEventDestroy_v2(other));
    rig_close(&r);
}

/* ---- threads ---- */

typedef struct { rig *r; int lane; bool right; } worker;

static void *use_own_stream(void *p)
{
    worker *w = p;
    float back[N];
    w->right = !cu.cuCtxSetCurrent(w->r->context);
    for (int i = 0; i < 50 && w->right; i++) {
        w->right = !cu.cuMemsetD8Async(array(w->r, w->lane), (unsigned char)(i + w->lane), BYTES, w->r->stream[w->lane]) &&
                   !copy(w->r, host_at(back), array(w->r, w->lane), w->lane) && ((unsigned char *)back)[BYTES - 1] == i + w->lane;
    }
    return NULL;
}

static void threads_use_their_own_streams(void **state)
{
    (void)state;
    rig r;
    pthread_t thread[2];
    worker w[2];
    rig_open(&r);
    for (int i = 0; i < 2; i++) {
        w[i] = (worker){ &r, i, false };
        assert_int_equal(pthread_create(&thread[i], NULL, use_own_stream, &w[i]), 0);
    }
    for (int i = 0; i < 2; i++) pthread_join(thread[i], NULL);
    assert_true(w[0].right && w[1].right);
    rig_close(&r);
}

/* ---- the memory of a device ---- */

typedef struct { uint8_t *base; rp_on on; struct rp_record *record; float in[N], out[N]; bool right; } used;
typedef void use(used *u);

static void use_reserve(used *u)
{
    int64_t bytes;

    u->base  = rp__memory_emu.reserve(RIG_CHUNK, &bytes);
    u->right = u->base != NULL;
}

static void use_grow(used *u)
{
    rp_memory_left left;

    u->right = rp__memory_emu.grow(u->base, BYTES, &left);
}

static void use_open(used *u) { u->right = (u->on.queue = rp__memory_emu.open()) != NULL; }
static void use_fill(used *u) { rp__memory_emu.fill(u->base, 1, BYTES, &u->on); }
static void use_put(used *u) { rp__memory_emu.put(u->base, u->in, BYTES, &u->on); }
static void use_copy(used *u) { rp__memory_emu.copy(u->out, u->base, BYTES, &u->on); }
static void use_sync(used *u) { rp__memory_emu.sync(&u->on); }
static void use_prepare(used *u) { u->right = rp__gpu_records.prepare(u->record, &u->on); }
static void use_repeat(used *u) { rp__gpu_records.repeat(u->record, &u->on); }
static void use_free(used *u) { rp__gpu_records.free(u->record); }
static void use_close(used *u)
{
    rp__memory_emu.close(u->on.queue);
    u->on.queue = NULL;
}

static void use_release(used *u) { rp__memory_emu.release(u->base, RIG_CHUNK); }

static void use_record(used *u)
{
    rp__gpu_records.begin(&u->on);
    use_fill(u);
    u->right = (u->record = rp__gpu_records.end(&u->on)) != NULL;
}

typedef struct { use *f; used *u; } use_at;

static void *run_use(void *p)
{
    use_at *at  = p;
    used *u     = at->u;
    u->right    = true;
    at->f(u);
    if (u->on.queue && rp__memory_emu.failed(&u->on)) u->right = false;
    return NULL;
}

static void use_all(void)
{
    static use *const uses[] = { use_reserve, use_grow, use_open, use_fill, use_sync, use_record, use_prepare, use_repeat, use_free, use_sync, use_put,
                                 use_copy, use_sync, use_close, use_release };
    used u                   = { .on.threads = 1 };

    for (int i = 0; i < N; i++) u.in[i] = (float)i;
    for (int i = 0; i < RP_COUNT(uses); i++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, run_use, &(use_at){ uses[i], &u }), 0);
        pthread_join(thread, NULL);
        if (!u.right) fail_msg("call %d failed", i);
    }
    assert_memory_equal(u.in, u.out, BYTES);
}

/* A thread that has not used the driver has no current context. */
static void each_call_of_a_device_may_come_from_a_thread_of_its_own(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .device = "emu", .threads = 1 });
    use_all();
    int64_t live = rp__emulate_live();
    use_all();
    assert_int_equal(rp__emulate_live(), live);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copy_to_pinned_memory_is_pending_until_the_host_waits),
        cmocka_unit_test(pageable_memory_is_read_and_written_before_the_call_returns),
        cmocka_unit_test(a_copy_from_pinned_memory_reads_it_late),
        cmocka_unit_test(a_target_that_a_waiting_copy_reads_is_read_first),
        cmocka_unit_test(a_copy_that_overlaps_itself_is_undefined),
        cmocka_unit_test(a_copy_that_leaves_a_piece_of_pinned_memory_is_refused),
        cmocka_unit_test(fresh_memory_holds_nan),
        cmocka_unit_test(the_oldest_calls_run_if_too_many_wait),
        cmocka_unit_test(a_forgotten_wait_gives_other_bits),
        cmocka_unit_test(the_environment_chooses_the_order_of_lanes),
        cmocka_unit_test(a_wait_is_for_the_record_before_it),
        cmocka_unit_test(events_measure_time),
        cmocka_unit_test(a_graph_gives_the_bits_of_eager_calls),
        cmocka_unit_test(a_forgotten_join_is_an_error),
        cmocka_unit_test(a_capture_forbids_waits_of_the_host),
        cmocka_unit_test(threads_use_their_own_streams),
        cmocka_unit_test(each_call_of_a_device_may_come_from_a_thread_of_its_own),       /* the last: no test resets the driver after it */
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
