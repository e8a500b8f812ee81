/* Claims about where offloaded values go: to files or to another device's memory, and back, bit for bit, with the ledgers as promised. */
/* ctest: no-emulator level-free */
#include "spool_test.h"

#include "tape/offload.h"
#include "tape/tape.h"

static rp_ctx *ctx;

enum { FILES, MEMORY, PLACES };

static rp_offload_options options_of(int place)
{
    return place == FILES ? (rp_offload_options){ .folder = temp_dir, .buffer_bytes = 65536 } : (rp_offload_options){ .device = "sim" };
}

static rp_offload *open_offload(rp_ctx *c, int place)
{
    rp_offload_options options = options_of(place);
    rp_offload *offload = NULL;

    assert_ok(c, rp__offload_open(c, &options, &offload));
    return offload;
}

static int64_t live_everywhere(rp_ctx *c)
{
    int64_t sum = 0;

    for (int i = 0; i < c->n_devices; i++) sum += live_bytes(c, i);
    return sum;
}

static rp_tensor *tensor(rp_ctx *c, rp_dtype dtype, int64_t rows, int64_t n, uint32_t seed)
{
    rp_meta m = rp_meta_2d(dtype, rows, n);
    rp_tensor *t = NULL;

    assert_ok(c, rp_tensor_new(c, &m, RP_MEM_SAVED, &t));
    rp_host all;
    assert_ok(c, rp__tensor_host_all(t, RP_HOST_WRITE, &all));
    if (all.data) fill_bytes(all.data, rp_meta_bytes(&m), seed);
    rp__tensor_host_end(&all);
    return t;
}

static void assert_holds(const rp_tensor *t, uint32_t seed)
{
    int64_t bytes = rp_meta_bytes(rp_tensor_meta(t));
    uint8_t *data = malloc((size_t)bytes + 1);

    fill_bytes(data, bytes, seed);
    assert_memory_equal(test_bytes(t), data, (size_t)bytes);
    free(data);
}

static const struct { rp_dtype dtype; int64_t rows, n; } shapes[] = {
    { RP_F32, 1, 1 }, { RP_BF16, 3, 1 }, { RP_F32, 0, 7 }, { RP_F32, 257, 1023 }, { RP_F64, 64, 64 }, { RP_I32, 1, 1025 },
};

static void what_is_put_comes_back_bit_for_bit_in_any_order(void **state)
{
    (void)state;
    for (int place = 0; place < PLACES; place++) {
        rp_offload *offload = open_offload(ctx, place);
        int64_t ticket[RP_COUNT(shapes)], total = 0;
        for (int i = 0; i < RP_COUNT(shapes); i++) {
            rp_tensor *t = tensor(ctx, shapes[i].dtype, shapes[i].rows, shapes[i].n, (uint32_t)i);
            assert_ok(ctx, rp__offload_put(offload, t, &ticket[i]));
            total += rp_meta_bytes(rp_tensor_meta(t));
            test_fill(t, 0);
            rp_tensor_unref(t);
        }
        assert_int_equal(rp__offload_bytes(offload), total);
        assert_int_equal(rp__offload_tickets(offload), RP_COUNT(shapes));
        for (int i = RP_COUNT(shapes) - 1; i >= 0; i--) {
            rp_tensor *t = tensor(ctx, shapes[i].dtype, shapes[i].rows, shapes[i].n, 99);
            assert_ok(ctx, rp__offload_fetch(offload, ticket[i], t));
            assert_ok(ctx, rp__offload_wait(offload, ticket[i]));
            rp__offload_drop(offload, ticket[i]);
            assert_holds(t, (uint32_t)i);
            rp_tensor_unref(t);
        }
        assert_int_equal(rp__offload_tickets(offload), 0);
        assert_int_equal(rp__offload_bytes(offload), total);
        rp__offload_close(offload);
        assert_int_equal(live_everywhere(ctx), 0);
    }
}

static void each_place_counts_in_the_ledger_it_uses(void **state)
{
    (void)state;
    rp_tensor *t = tensor(ctx, RP_F32, 100, 100, 1);
    int64_t ticket[2];
    rp_mem m;

    rp_offload *offload = open_offload(ctx, FILES);
    assert_int_equal(live_bytes(ctx, 0), 40000 + (ctx->host ? 0 : 65536 + 4096));
    if (ctx->host) assert_int_equal(live_bytes(ctx, ctx->host), 65536 + 4096);
    for (int i = 0; i < 2; i++) assert_ok(ctx, rp__offload_put(offload, t, &ticket[i]));
    assert_int_equal(live_bytes(ctx, 0), 40000 + (ctx->host ? 0 : 65536 + 4096));
    rp__offload_close(offload);

    offload = open_offload(ctx, MEMORY);
    for (int i = 0; i < 2; i++) assert_ok(ctx, rp__offload_put(offload, t, &ticket[i]));
    assert_int_equal(live_bytes(ctx, 0), 40000);
    int apart = ctx->n_devices - 1;
    assert_int_equal(apart, 1 + ctx->host);
    assert_string_equal(ctx->device[apart]->name, "sim");
    rp_mem_read(ctx, apart, false, &m);
    assert_int_equal(m.live_bytes, 80000);
    assert_int_equal(m.live_at[RP_MEM_SAVED], 80000);
    rp__offload_drop(offload, ticket[0]);
    assert_int_equal(live_bytes(ctx, apart), 40000);
    rp__offload_close(offload);               /* with a ticket */
    assert_int_equal(live_bytes(ctx, apart), 0);
    rp_tensor_unref(t);
}

static void a_device_opened_again_is_the_same_and_unknown_ones_are_refused(void **state)
{
    (void)state;
    int first = 0, recompute = 0, other = -1, devices = ctx->n_devices;

    assert_ok(ctx, rp__device_open(ctx, "sim", &first));
    assert_ok(ctx, rp__device_open(ctx, "sim", &recompute));
    assert_int_equal(first, 1 + ctx->host);
    assert_int_equal(recompute, first);
    assert_int_equal(rp__device_open(ctx, "abacus", &other), RP_ERR_ARG);
    assert_string_equal(rp_error(ctx), "unknown device 'abacus'");
    assert_int_equal(other, -1);
    assert_true(devices <= first + 1 && ctx->n_devices == first + 1);
}

static void options_that_name_no_place_or_two_are_refused(void **state)
{
    (void)state;
    static const struct { rp_offload_options options; rp_status status; const char *text; } cases[] = {
        { { 0 }, RP_ERR_ARG, "offloading needs a folder or a device" },
        { { .folder = "a", .device = "sim" }, RP_ERR_ARG, "offloading goes to a folder or to a device: 'a' and 'sim' are given" },
        { { .device = "abacus" }, RP_ERR_ARG, "unknown device 'abacus'" },
        { { .folder = "/no/such" }, RP_ERR_IO, "cannot make a file for offloaded slots under '/no/such': No such file or directory" },
        { { .folder = ".", .buffer_bytes = -1 }, RP_ERR_ARG, "the offload buffer is -1 bytes, expected 8192 to 17179869184" },
    };

    for (int i = 0; i < RP_COUNT(cases); i++) {
        rp_offload *offload = NULL;
        assert_int_equal(rp__offload_open(ctx, &cases[i].options, &offload), cases[i].status);
        assert_string_equal(rp_error(ctx), cases[i].text);
        assert_null(offload);
        assert_int_equal(rp_set_offload(ctx, &cases[i].options), cases[i].status);
        assert_null(rp__tape_ctx(ctx)->offload);
        assert_int_equal(live_everywhere(ctx), 0);
    }
}

/* ---- the context's place ---- */

static void the_context_opens_changes_and_closes_its_place(void **state)
{
    (void)state;
    rp_offload_options files = options_of(FILES), memory = options_of(MEMORY), none = { .folder = "/no/such" };
    int open_files = n_open_files();

    assert_ok(ctx, rp_set_offload(ctx, &files));
    assert_true(n_open_files() > open_files);
    rp_offload *first = rp__tape_ctx(ctx)->offload;
    assert_int_equal(rp_set_offload(ctx, &none), RP_ERR_IO);
    assert_ptr_equal(rp__tape_ctx(ctx)->offload, first);
    assert_ok(ctx, rp_set_offload(ctx, &memory));
    assert_int_equal(n_open_files(), open_files);
    assert_int_equal(live_everywhere(ctx), 0);
    assert_ok(ctx, rp_set_offload(ctx, NULL));
    assert_null(rp__tape_ctx(ctx)->offload);
    assert_ok(ctx, rp_set_offload(ctx, NULL));
    files.buffer_bytes = 0;
    assert_ok(ctx, rp_set_offload(ctx, &files));
    assert_int_equal(live_bytes(ctx, ctx->host), (16 << 20) + 4096);
    assert_ok(ctx, rp_set_offload(ctx, NULL));
}

static void the_place_does_not_change_while_slots_are_there(void **state)
{
    (void)state;
    rp_offload_options memory = options_of(MEMORY);
    rp_tensor *t = tensor(ctx, RP_F32, 2, 2, 1);
    int64_t ticket;

    assert_ok(ctx, rp_set_offload(ctx, &memory));
    assert_ok(ctx, rp__offload_put(rp__tape_ctx(ctx)->offload, t, &ticket));
    assert_int_equal(rp_set_offload(ctx, NULL), RP_ERR_STATE);
    assert_string_equal(rp_error(ctx), "offloading cannot change while slots of a pass are offloaded: 1");
    rp__offload_drop(rp__tape_ctx(ctx)->offload, ticket);
    assert_ok(ctx, rp_set_offload(ctx, NULL));
    rp_tensor_unref(t);
}

static void a_context_closes_its_place_when_it_goes(void **state)
{
    (void)state;
    int open_files = n_open_files(), threads = n_threads();

    for (int place = 0; place < PLACES; place++) {
        rp_ctx *c = test_ctx(&(rp_ctx_options){ .threads = 1 });
        rp_offload_options options = options_of(place);
        rp_tensor *t = tensor(c, RP_F32, 50, 50, 1);
        int64_t ticket;
        assert_ok(c, rp_set_offload(c, &options));
        assert_ok(c, rp__offload_put(rp__tape_ctx(c)->offload, t, &ticket));
        rp_tensor_unref(t);
        rp_ctx_free(c);         /* a debug build aborts where the ledger is not empty */
        assert_int_equal(n_open_files(), open_files);
        assert_threads(threads);
    }
}

/* ---- shapes, faults, traffic ---- */

typedef struct { int n; int64_t sum; } event_log;

static void log_event(void *user, const rp_mem_event *e)
{
    event_log *log = user;

    log->n++;
    log->sum = log->sum * 31 + e->offset * 7 + e->bytes * 3 + (int64_t)e->mem_class + e->take;
    log->sum %= 1000000007;
}

static void a_few_events(rp_ctx *c, int place, event_log *log)
{
    int64_t ticket[RP_COUNT(shapes)];
    rp_mem m;

    rp_offload *offload = open_offload(c, place);
    rp__mem_observe(c->space[place == FILES ? 0 : c->n_devices - 1], log_event, log);
    for (int i = 0; i < RP_COUNT(shapes); i++) {
        rp_tensor *t = tensor(c, shapes[i].dtype, shapes[i].rows, shapes[i].n, 1);
        assert_ok(c, rp__offload_put(offload, t, &ticket[i]));
        if (i % 2) {
            assert_ok(c, rp__offload_fetch(offload, ticket[i], t));
            assert_ok(c, rp__offload_wait(offload, ticket[i]));
            rp__offload_drop(offload, ticket[i]);
        }
        rp_tensor_unref(t);
    }
    rp_mem_read(c, place == FILES ? 0 : c->n_devices - 1, true, &m);
    log_event(log, &(rp_mem_event){ .bytes = m.peak_bytes, .offset = m.reserved_bytes });
    log_event(log, &(rp_mem_event){ .bytes = rp__offload_bytes(offload) });
    rp__offload_close(offload);
}

static void on_shapes_alone_the_ledgers_see_the_same(void **state)
{
    (void)state;
    for (int place = 0; place < PLACES; place++) {
        event_log log[2] = { 0 };
        for (int i = 0; i < 2; i++) {
            rp_ctx *c = test_ctx(&(rp_ctx_options){ .threads = 1, .shapes_only = i == 1 });
            a_few_events(c, place, &log[i]);
            assert_int_equal(live_everywhere(c), 0);
            rp_ctx_free(c);
        }
        assert_true(log[0].n > 6);
        assert_int_equal(log[0].n, log[1].n);
        assert_int_equal(log[0].sum, log[1].sum);
    }
}

static rp_status open_and_put(rp_ctx *c, int place, rp_offload **offload, const rp_tensor *t)
{
    rp_offload_options options = options_of(place);
    int64_t ticket = -1;

    rp_status status = rp__offload_open(c, &options, offload);
    for (int i = 0; i < 70 && status == RP_OK; i++) status = rp__offload_put(*offload, t, &ticket);
    return status;
}

static void close_if_any(rp_ctx *c, rp_offload **offload, int64_t bytes)
{
    rp__offload_close(*offload);
    *offload = NULL;
    assert_int_equal(live_everywhere(c), bytes);
}

static void without_memory_nothing_is_left_behind(void **state)
{
    (void)state;
    int open_files = n_open_files();

    for (int place = 0; place < PLACES; place++) {
        rp_ctx *c     = test_ctx(&(rp_ctx_options){ .threads = 1 });
        rp_tensor *t  = tensor(c, RP_F32, 5, 5, 1);
        rp_offload *offload = NULL;
        until_no_fault_fires(c, open_and_put(c, place, &offload, t), close_if_any(c, &offload, 100));
        close_if_any(c, &offload, 100);
        rp_tensor_unref(t);
        test_ctx_free(c);
        assert_int_equal(n_open_files(), open_files);
    }
}

static void the_limit_bounds_the_other_device_too(void **state)
{
    (void)state;
    rp_ctx *c     = test_ctx(&(rp_ctx_options){ .threads = 1, .memory_limit_bytes = 10000 });
    rp_tensor *t  = tensor(c, RP_F32, 1000, 2, 1);
    rp_offload *offload = open_offload(c, MEMORY);
    int64_t first, second = -7;

    assert_ok(c, rp__offload_put(offload, t, &first));
    assert_int_equal(rp__offload_put(offload, t, &second), RP_ERR_MEMORY);
    assert_string_equal(rp_error(c), "an offloaded slot needs 8000 bytes (7.81 KiB); 8000 bytes (7.81 KiB) are live and the memory "
                        "limit is 10000 bytes (9.77 KiB)");
    assert_int_equal(second, -7);
    assert_int_equal(rp__offload_tickets(offload), 1);
    assert_int_equal(rp__offload_bytes(offload), 8000);
    assert_ok(c, rp__offload_fetch(offload, first, t));
    assert_holds(t, 1);
    rp__offload_close(offload);
    rp_tensor_unref(t);
    test_ctx_free(c);
}

static void random_puts_fetches_and_drops_match_a_shadow_copy(void **state)
{
    (void)state;
    enum { N = 24, ROUNDS = 5000 };

    for (int place = 0; place < PLACES; place++) {
        struct { rp_tensor *into; int64_t ticket, rows, n; uint32_t seed; bool live; } v[N] = { 0 };
        rp_offload *offload = open_offload(ctx, place);
        uint32_t rng  = 7;
        for (int round = 0; round < ROUNDS; round++) {
            int i = (int)(draw(&rng) % N);
            if (!v[i].live) {
                v[i].seed    = draw(&rng);
                v[i].rows    = draw(&rng) % 40;
                v[i].n       = draw(&rng) % 90;
                rp_tensor *t = tensor(ctx, RP_BF16, v[i].rows, v[i].n, v[i].seed);
                assert_ok(ctx, rp__offload_put(offload, t, &v[i].ticket));
                rp_tensor_unref(t);
                v[i].live = true;
            } else if (!v[i].into) {
                v[i].into = tensor(ctx, RP_BF16, v[i].rows, v[i].n, 0);
                assert_ok(ctx, rp__offload_fetch(offload, v[i].ticket, v[i].into));
            } else {
                bool wait = draw(&rng) % 4;     /* else it is dropped while it comes */
                if (wait) assert_ok(ctx, rp__offload_wait(offload, v[i].ticket));
                if (wait) assert_holds(v[i].into, v[i].seed);
                if (!wait || draw(&rng) % 2) {
                    rp__offload_drop(offload, v[i].ticket);
                    v[i].live = false;
                }
                rp_tensor_unref(v[i].into);
                v[i].into = NULL;
            }
        }
        rp__offload_close(offload);
        for (int i = 0; i < N; i++) rp_tensor_unref(v[i].into);
        assert_int_equal(live_everywhere(ctx), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_put_comes_back_bit_for_bit_in_any_order),
        cmocka_unit_test(each_place_counts_in_the_ledger_it_uses),
        cmocka_unit_test(a_device_opened_again_is_the_same_and_unknown_ones_are_refused),
        cmocka_unit_test(options_that_name_no_place_or_two_are_refused),
        cmocka_unit_test(the_context_opens_changes_and_closes_its_place),
        cmocka_unit_test(the_place_does_not_change_while_slots_are_there),
        cmocka_unit_test(a_context_closes_its_place_when_it_goes),
        cmocka_unit_test(on_shapes_alone_the_ledgers_see_the_same),
        cmocka_unit_test(without_memory_nothing_is_left_behind),
        cmocka_unit_test(the_limit_bounds_the_other_device_too),
        cmocka_unit_test(random_puts_fetches_and_drops_match_a_shadow_copy),
    };

    ctx = test_ctx(&(rp_ctx_options){ .threads = 1 });
    temp_enter();
    int failed = cmocka_run_group_tests_name("any", tests, use_what_there_is, NULL);
    failed += cmocka_run_group_tests_name("thread", tests, use_thread, NULL);
    temp_leave(ctx);
    test_ctx_free(ctx);
    return failed;
}
