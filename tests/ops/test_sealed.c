/* tests/ops/test_sealed.c -- the memory of the test devices is closed to the host but for the code of ops and for copies. */
#include "rp_test.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ops/op_internal.h"

static const char *const devices[] = { "sim", "sealed" };

typedef void look(rp_tensor *t);

static void reads(rp_tensor *t) { (void)*(volatile const float *)rp__tensor_data(t); }
static void writes(rp_tensor *t) { *(volatile float *)rp__tensor_data(t) = 1; }

/* The signal that ends a process which does this; 0: none does. A core would be of no use. */
static int ended_by(look *f, rp_tensor *t)
{
    int status;
    pid_t child = fork();

    assert_true(child >= 0);
    if (!child) {
        signal(SIGSEGV, SIG_DFL);
        f(t);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static rp_tensor *some(rp_ctx *ctx, int64_t n)
{
    rp_meta m = rp_meta_1d(RP_F32, n);
    rp_tensor *t;

    assert_ok(ctx, rp_tensor_new(ctx, &m, RP_MEM_TEMP, &t));
    rp__tensor_zero(t);
    return t;
}

#ifdef RP_UNSEALED
enum { CLOSED = 0 };
#else
enum { CLOSED = SIGSEGV };
#endif

static void a_host_that_reads_or_writes_the_memory_of_a_test_device_ends(void **state)
{
    (void)state;
    for (int d = 0; d < RP_COUNT(devices); d++) {
        rp_ctx *ctx  = test_ctx(&(rp_ctx_options){ .device = devices[d] });
        rp_tensor *t = some(ctx, 100);
        assert_int_equal(ended_by(reads, t), CLOSED);
        assert_int_equal(ended_by(writes, t), CLOSED);
        rp__mem_enter(ctx);
        rp__mem_enter(ctx);
        rp__mem_leave(ctx);
        assert_int_equal(ended_by(reads, t), 0);
        rp__mem_leave(ctx);
        assert_int_equal(ended_by(reads, t), CLOSED);
        rp_tensor *more = some(ctx, 1 << 20);
        assert_int_equal(ended_by(writes, more), CLOSED);
        rp_tensor_unref(more);
        rp_tensor_unref(t);
        test_ctx_free(ctx);
    }
}

static void the_cpu_s_memory_is_the_host_s(void **state)
{
    rp_ctx *ctx  = test_ctx(&(rp_ctx_options){ .device = "cpu" });
    rp_tensor *t = some(ctx, 100);
    rp_host h;

    (void)state;
    assert_int_equal(ended_by(writes, t), 0);
    assert_int_equal(ctx->host, 0);
    assert_ok(ctx, rp__tensor_host(t, 10, 5, RP_HOST_CHANGE, &h));
    assert_ptr_equal(h.data, (float *)rp__tensor_data(t) + 10);
    rp__tensor_host_end(&h);
    rp_tensor_unref(t);
    test_ctx_free(ctx);
}

static void a_window_brings_what_is_read_and_takes_back_what_is_written(void **state)
{
    static const double of[] = { 0, 1, 20, 21, 4 };

    (void)state;
    for (int d = 0; d < RP_COUNT(devices); d++) {
        rp_ctx *ctx  = test_ctx(&(rp_ctx_options){ .device = devices[d] });
        rp_tensor *t = some(ctx, 5);
        rp_host h;
        double back[5];
        assert_ok(ctx, rp_tensor_write(t, (double[]){ 0, 1, 2, 3, 4 }, 5));
        assert_ok(ctx, rp__tensor_host(t, 2, 2, RP_HOST_CHANGE, &h));
        float *at = h.data;
        assert_true(at[0] == 2 && at[1] == 3);
        at[0] = 20, at[1] = 21;
        rp__tensor_host_end(&h);
        assert_ok(ctx, rp__tensor_host_all(t, RP_HOST_READ, &h));
        for (int i = 0; i < 5; i++) assert_true(((float *)h.data)[i] == (float)of[i]);
        rp__tensor_host_end(&h);
        rp__tensor_host_end(&h);
        assert_ok(ctx, rp_tensor_read(t, back, 5));
        assert_memory_equal(back, of, sizeof of);
        assert_true(rp_elem_get(t, 3) == 21);
        rp_tensor_unref(t);
        test_ctx_free(ctx);
    }
}

static void parts_of_scratch_lie_at_multiples_of_the_device_s_alignment(void **state)
{
    static const struct { const char *device; int64_t align; } cases[] = { { "cpu", 64 }, { "sealed", 64 }, { "sim", 256 } };

    (void)state;
    for (int i = 0; i < RP_COUNT(cases); i++) {
        rp_ctx *ctx   = test_ctx(&(rp_ctx_options){ .device = cases[i].device });
        int64_t total = 0;
        assert_int_equal(rp__scratch_add(ctx, &total, 1), 0);
        assert_int_equal(rp__scratch_add(ctx, &total, cases[i].align + 1), cases[i].align);
        assert_int_equal(total, 3 * cases[i].align);
        test_ctx_free(ctx);
    }
}

static void a_window_without_memory_is_an_error(void **state)
{
    rp_ctx *ctx   = test_ctx(&(rp_ctx_options){ .device = "sim" });
    rp_tensor *t  = some(ctx, 100);
    test_faults f = { 0 };
    rp_host h;

    (void)state;
    while (!f.over) {
        test_fault_begin(&f, ctx);
        rp_status status = rp__tensor_host_all(t, RP_HOST_WRITE, &h);
        if (status == RP_OK) memset(h.data, 0, 400);
        rp__tensor_host_end(&h);
        (void)test_fault_end(&f, status);
    }
    assert_int_equal(f.failed, 1);
    rp_tensor_unref(t);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_host_that_reads_or_writes_the_memory_of_a_test_device_ends),
        cmocka_unit_test(the_cpu_s_memory_is_the_host_s),
        cmocka_unit_test(a_window_brings_what_is_read_and_takes_back_what_is_written),
        cmocka_unit_test(a_window_without_memory_is_an_error),
        cmocka_unit_test(parts_of_scratch_lie_at_multiples_of_the_device_s_alignment),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
