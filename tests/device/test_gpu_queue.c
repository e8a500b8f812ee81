/* Tests of the emulated GPU's queue: results of steps, waits for a mark, and copies in the second stream. */
/* ctest: level-free device-free thread-free */
#include "rp_test.h"

#include "draws.h"

#include "device/emulate/emulate.h"
#include "device/gpu.h"
#include "device/launch.h"
#include "kernels/gpu/gpu.h"
#include "kernels/kernels.h"
#include "kernels/step.h"
#include "tensor/tensor.h"

#include <math.h>

/* ---- a step's results ---- */

enum { SUMS = 700 };

static rp_step_results results_of(rp_ctx *ctx, const float *loss, int n_losses, const double *squares, double most)
{
    const rp_kernels *k = rp__kernels_gpu();
    rp_step_results r;
    buffer losses = take(ctx, n_losses * 8);
    double *sums;

    k->step_sums(SUMS, &sums, &ctx->on);
    assert_non_null(sums);
    rp__mem_put(ctx, sums, squares, SUMS * sizeof *sums);
    rp__mem_put(ctx, losses.device, loss, n_losses * (int)sizeof *loss);
    k->step_begin(&(rp_step_now){ .first = true, .update = 1, .bias1 = 1, .bias2 = 1 }, &ctx->on);
    for (int i = 0; i < n_losses; i++) {
        if (i) k->step_begin(&(rp_step_now){ .step = i, .update = 1, .bias1 = 1, .bias2 = 1 }, &ctx->on);
        k->step_loss((const float *)(void *)losses.device + i, &ctx->on);
    }
    k->step_norm(sums, SUMS, most, &ctx->on);
    k->step_end(&r, &ctx->on);
    rp__mem_sync(ctx);
    give(losses);
    return r;
}

/* Sums whose last bit depends on the order. */
static void a_steps_results_are_those_of_the_host(void **state)
{
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .device = "emu", .threads = 1 });
    const float loss[] = { 0.1f, 1e8f, 0.3f }, bad[] = { 1, -INFINITY, NAN };
    double squares[SUMS], sum = 0, *at;
    draws d = { 11 };

    (void)state;
    for (int i = 0; i < SUMS; i++) sum += squares[i] = fabs((double)draw(&d)) / 3 + 1e-3;
    for (int s = 0; s < RP_EMULATE_SCHEDULES; s++) {
        rp__emulate_set_schedule((rp_emulate_schedule)s);
        rp_step_results r = results_of(ctx, loss, RP_COUNT(loss), squares, 2);
        assert_true(r.loss == ((double)0.1f + 1e8) + (double)0.3f && r.norm == sqrt(sum) && !r.stopped);
        assert_true(r.clip == (float)(2 / (sqrt(sum) + 1e-6)));
        assert_true(results_of(ctx, loss, 1, squares, 1e9).clip == 1);
        r = results_of(ctx, bad, RP_COUNT(bad), squares, 2);
        assert_true(r.stopped == RP_STEP_BAD_LOSS && r.first_bad == -INFINITY);
    }
    rp__emulate_set_schedule(RP_EMULATE_FORWARD);
    squares[3] = NAN;
    assert_int_equal(results_of(ctx, loss, 1, squares, 2).stopped, RP_STEP_BAD_NORM);
    assert_int_equal(results_of(ctx, loss, 1, squares, 0).stopped, 0);      /* nothing is clipped */
    rp__kernels_gpu()->step_sums(1 << 20, &at, &ctx->on);
    assert_null(at);
    test_ctx_free(ctx);
}

/* The host reads a step when it has queued the next one. If a step stops, so does the next one, and its own results say so. */
static void a_step_that_follows_one_that_stopped_stops(void **state)
{
    rp_ctx *ctx         = test_ctx(&(rp_ctx_options){ .device = "emu", .threads = 1 });
    const rp_kernels *k = rp__kernels_gpu();
    const float loss[]  = { NAN, 2 };
    buffer losses       = take(ctx, 8);
    rp_step_results r[3];

    (void)state;
    rp__mem_put(ctx, losses.device, loss, sizeof loss);
    for (int i = 0; i < 3; i++) {
        k->step_begin(&(rp_step_now){ .first = true, .follows = i == 1, .update = 1, .bias1 = 1, .bias2 = 1 }, &ctx->on);
        k->step_loss((const float *)(void *)losses.device + (i > 0), &ctx->on);
        k->step_end(&r[i], &ctx->on);
    }
    rp__mem_sync(ctx);
    assert_true(r[0].stopped == RP_STEP_BAD_LOSS && isnan(r[0].loss) && isnan(r[0].first_bad));
    assert_true(r[1].stopped == RP_STEP_BAD_LOSS && r[1].loss == 2);
    assert_true(!r[2].stopped && r[2].loss == 2);
    give(losses);
    test_ctx_free(ctx);
}

/* ---- marks ---- */

enum { NUMBERS = 30000 };       /* more than a first piece of pinned memory */

static void queue_numbers(rp_ctx *ctx, buffer b, float value, float *last)
{
    float *values = malloc(NUMBERS * sizeof *values);

    assert_non_null(values);
    for (int i = 0; i < NUMBERS; i++) values[i] = value;
    rp__mem_put(ctx, b.device, values, NUMBERS * (int)sizeof *values);
    rp__gpu_copy_to_host(&ctx->on, last, b.device + (NUMBERS - 1) * sizeof *values, sizeof *last);
    free(values);
}

static void a_mark_is_reached_before_later_calls_run(void **state)
{
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .device = "emu", .threads = 1 });
    buffer b    = take(ctx, NUMBERS);
    float last[5] = { 0 };
    uint64_t mark = 0;

    (void)state;
    int64_t idle = rp__emulate_idle_waits(), waits = rp__emulate_calls("cuEventSynchronize");
    for (int i = 0; i < 5; i++) {
        queue_numbers(ctx, b, (float)i + 1, &last[i]);
        assert_true(last[i] == 0);
        if (i) rp__mem_reach(ctx, mark);
        if (i) assert_true(last[i - 1] == (float)i && last[i] == 0);
        mark = rp__mem_mark(ctx);
    }
    rp__mem_reach(ctx, mark - 1);
    assert_int_equal(rp__emulate_calls("cuEventSynchronize") - waits, 4);       /* it was reached */
    assert_int_equal(rp__emulate_idle_waits(), idle);
    rp__mem_sync(ctx);
    assert_true(last[4] == 5);
    rp__mem_reach(ctx, mark);
    assert_int_equal(rp__emulate_calls("cuEventSynchronize") - waits, 4);
    give(b);
    test_ctx_free(ctx);
}

static void a_second_mark_waits_for_the_first(void **state)
{
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .device = "emu", .threads = 1 });
    buffer b    = take(ctx, NUMBERS);
    float last[3] = { 0 };

    (void)state;
    for (int i = 0; i < 3; i++) {
        queue_numbers(ctx, b, (float)i + 1, &last[i]);
        rp__mem_mark(ctx);
        if (i) assert_true(last[i - 1] == (float)i && last[i] == 0);
    }
    rp__mem_sync(ctx);
    assert_true(last[2] == 3);
    give(b);
    test_ctx_free(ctx);
}

/* ---- the lane ---- */

enum { TRIPS = 150 };           /* more than a lane keeps */

typedef struct { rp_ctx *ctx; rp_mem_space *host; int64_t at; buffer from, again, to, end; } trip;

/* The source's memory is taken and written anew, and the target's was just written. */
static void queue_trip(trip *t, int value)
{
    t->from = take(t->ctx, 8);
    t->to   = take(t->ctx, 8);
    t->end  = take(t->ctx, 8);
    rp__mem_fill(t->ctx, t->from.device, value, t->from.bytes);
    rp__mem_lane_out(t->ctx, t->host, t->at, t->from.device, t->from.bytes);
    give(t->from);
    assert_int_equal(rp__mem_take(t->ctx, t->ctx->space[0], RP_MEM_TEMP, t->from.bytes, "test", &t->again.offset), RP_OK);
    assert_int_equal(t->again.offset, t->from.offset);
    rp__mem_fill(t->ctx, t->from.device, value + 1, t->from.bytes);
    rp__mem_fill(t->ctx, t->to.device, value + 2, t->to.bytes);
    rp__mem_lane_back(t->ctx, t->to.device, t->host, t->at, t->to.bytes);
    rp__mem_lane_await(t->ctx, t->to.device, t->to.bytes);
    rp__mem_copy(t->ctx, t->end.device, t->to.device, t->to.bytes);
}

static void end_trip(trip *t, int value)
{
    fetch(&t->end);
    assert_int_equal(t->end.host[t->end.bytes - 1], value);
    rp__mem_copy(t->ctx, t->end.host, t->from.device, t->from.bytes);
    rp__mem_sync(t->ctx);
    assert_int_equal(t->end.host[t->end.bytes - 1], value + 1);
    rp__mem_give(t->ctx->space[0], RP_MEM_TEMP, t->from.bytes, t->from.offset);
    give(t->to);
    give(t->end);
}

enum { LANE_BYTES = 32 };

static void assert_host(const trip *t, int value) { assert_int_equal(*(const uint8_t *)rp__mem_at(t->host, t->at), value); }

static void queue_out(const trip *t, buffer from, int value)
{
    rp__mem_fill(t->ctx, from.device, value, LANE_BYTES);
    rp__mem_lane_out(t->ctx, t->host, t->at, from.device, LANE_BYTES);
}

/* The lane has copies from before, when the record begins and when it is repeated. Under AddressSanitizer host blocks are no pinned memory. */
static void repeat_out(const trip *t, buffer other, buffer third)
{
    const rp_records *records = rp__memory_emu.records;
    const rp_on *on           = &t->ctx->on;

    for (int i = 0; i < TRIPS; i++) rp__mem_lane_out(t->ctx, t->host, t->at, other.device, LANE_BYTES);
    rp__mem_fill(t->ctx, other.device, 9, LANE_BYTES);
    records->begin(on);
    rp__mem_lane_await(t->ctx, other.device, LANE_BYTES);
    queue_out(t, other, 7);
    struct rp_record *r = records->end(on);
#ifndef RP_ASAN
    assert_true(r && records->prepare(r, on));
    rp__mem_fill(t->ctx, other.device, 5, LANE_BYTES);
    rp__mem_lane_out(t->ctx, t->host, t->at, third.device, LANE_BYTES);
    records->repeat(r, on);
#endif
    rp__mem_sync(t->ctx);
    assert_host(t, 7);
    records->free(r);
}

static void the_lane_and_its_queue_wait_for_each_other(void **state)
{
    (void)state;
    for (int lanes = 0; lanes < 2; lanes++) {
        trip t = { .ctx = test_ctx(&(rp_ctx_options){ .device = "emu", .threads = 1 }) };
        int device;

        rp__emulate_set_lanes(lanes);
        assert_int_equal(rp__device_open(t.ctx, "cpu", &device), RP_OK);
        t.host = t.ctx->space[device];
        assert_int_equal(rp__mem_take(t.ctx, t.host, RP_MEM_SAVED, 8 * 4 + 256, "test", &t.at), RP_OK);
        queue_trip(&t, 3);
        end_trip(&t, 3);
        buffer other = take(t.ctx, 8), third = take(t.ctx, 8);
        queue_out(&t, third, 4);
        rp__mem_sync(t.ctx);
        assert_host(&t, 4);
        repeat_out(&t, other, third);
        give(other);
        give(third);
        rp__mem_give(t.host, RP_MEM_SAVED, 8 * 4 + 256, t.at);
        test_ctx_free(t.ctx);
    }
    rp__emulate_set_lanes(false);
}

/* ---- copies that leave a piece of pinned memory ---- */

#ifndef RP_ASAN             /* there host blocks are no pinned memory */
enum { MIB = 1 << 20, LONG_BYTES = 19 * MIB };

static uint8_t byte_of(int i, int seed) { return (uint8_t)(i * 31 + (i >> 11) + seed); }

static void assert_bytes(const uint8_t *at, int bytes, int seed)
{
    for (int i = 0; i < bytes; i++)
        if (at[i] != byte_of(i, seed)) fail_msg("byte %d of %d is wrong", i, bytes);
}

static void send_bytes(const buffer *b, int bytes, int seed)
{
    for (int i = 0; i < bytes; i++) b->host[i] = byte_of(i, seed);
    send(b);
}

/* The first copy pins 2 MiB. Each longer one pins a piece more, and begins in the first. */
static void copy_by_lane(rp_ctx *ctx, const rp_mem_space *host, int64_t at, const buffer *from, const buffer *to)
{
    static const int bytes[] = { MIB, 5 * MIB, LONG_BYTES };

    for (int i = 0; i < RP_COUNT(bytes); i++) {
        send_bytes(from, bytes[i], i);
        rp__mem_lane_out(ctx, host, at, from->device, bytes[i]);
        assert_int_equal(ctx->on.queue->gpu->n_pins, i + 1);
        rp__mem_sync(ctx);
        assert_bytes(rp__mem_at(host, at), bytes[i], i);
        rp__mem_lane_back(ctx, to->device, host, at, bytes[i]);
        rp__mem_lane_await(ctx, to->device, bytes[i]);
        fetch(to);
        assert_bytes(to->host, bytes[i], i);
    }
}

/* An export copies a weight to the memory that the lane has pinned. */
static void copy_by_queue(rp_ctx *ctx, uint8_t *host, const buffer *from, const buffer *to)
{
    enum { SEED = 9 };

    send_bytes(from, LONG_BYTES, SEED);
    rp__mem_copy(ctx, host, from->device, LONG_BYTES);
    rp__mem_sync(ctx);
    assert_bytes(host, LONG_BYTES, SEED);
    rp__mem_copy(ctx, to->device, host, LONG_BYTES);
    fetch(to);
    assert_bytes(to->host, LONG_BYTES, SEED);
}

/* The disk's queue reads and writes such memory, too. */
static void copy_by_another_queue(rp_ctx *ctx, uint8_t *host, const buffer *to)
{
    enum { SEED = 5 };
    rp_on other = { .threads = 1 };

    for (int i = 0; i < LONG_BYTES; i++) host[i] = byte_of(i, SEED);
    assert_ok(ctx, rp__mem_queue_open(ctx, &other));
    assert_true(rp__mem_copy_in(ctx, &other, to->device, host, LONG_BYTES));
    rp__mem_queue_close(ctx, &other);
    fetch(to);
    assert_bytes(to->host, LONG_BYTES, SEED);
}

static void copies_may_leave_a_piece_of_pinned_memory(void **state)
{
    (void)state;
    for (int lanes = 0; lanes < 2; lanes++) {
        rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .device = "emu", .threads = 1 });
        buffer from = take(ctx, LONG_BYTES / 4), to = take(ctx, LONG_BYTES / 4);
        int64_t at;
        int device;

        rp__emulate_set_lanes(lanes);
        assert_int_equal(rp__device_open(ctx, "cpu", &device), RP_OK);
        assert_int_equal(rp__mem_take(ctx, ctx->space[device], RP_MEM_SAVED, LONG_BYTES, "test", &at), RP_OK);
        copy_by_lane(ctx, ctx->space[device], at, &from, &to);
        copy_by_queue(ctx, rp__mem_at(ctx->space[device], at), &from, &to);
        copy_by_another_queue(ctx, rp__mem_at(ctx->space[device], at), &to);
        assert_ok(ctx, rp__mem_check(ctx, "test"));
        rp__mem_give(ctx->space[device], RP_MEM_SAVED, LONG_BYTES, at);
        give(to);
        give(from);
        test_ctx_free(ctx);
    }
    rp__emulate_set_lanes(false);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_steps_results_are_those_of_the_host),
        cmocka_unit_test(a_step_that_follows_one_that_stopped_stops),
        cmocka_unit_test(a_mark_is_reached_before_later_calls_run),
        cmocka_unit_test(a_second_mark_waits_for_the_first),
        cmocka_unit_test(the_lane_and_its_queue_wait_for_each_other),
#ifndef RP_ASAN
        cmocka_unit_test(copies_may_leave_a_piece_of_pinned_memory),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
