/* The claims of the state store, and of an optimizer whose states live on one: parameters of several windows, whole or slices, in any order, get the
 * bits of states in memory; what is read ahead is never stale; memory is what was taken when it opened. */
/* ctest: device-free */
#include "rp_test.h"

#include <errno.h>

#include "base/disk_queue.h"
#include "optim/internal.h"
#include "temp_test.h"

enum { W = RP_STATE_STORE_WINDOW };

static int64_t live(rp_ctx *ctx, rp_mem_class c)
{
    rp_mem m;

    rp_mem_read(ctx, 0, false, &m);
    return m.live_at[c];
}

/* ---- the state store ---- */

#define GROUP(elems, ...) { .n = elems, .elem_bytes = { __VA_ARGS__ } }

/* What element e of a part holds after it was kept n times. */
static uint32_t contents(int group, int part, int64_t e, int n) { return (uint32_t)(e * 2654435761u) ^ (uint32_t)(group * 97 + part * 31 + n * 7919); }

static void visit(rp_ctx *ctx, rp_state_store *s, const rp_state_store_group *groups, int g, unsigned parts, int kept[][RP_STATE_STORE_PARTS])
{
    rp_state_store_view v;

    for (int64_t at = 0; at < groups[g].n; at = v.first + v.count) {
        assert_ok(ctx, rp__state_store_take(s, g, parts, at, &v));
        assert_true(v.first == at && v.count > 0);
        for (int k = 0; k < RP_STATE_STORE_PARTS; k++) {
            uint32_t *data = v.part[k];
            int64_t each   = groups[g].each[k] ? groups[g].each[k] : 1;
            if (!data) continue;
            assert_int_equal(v.fresh >> k & 1, kept[g][k] == 0);
            assert_int_equal(rp__state_store_view_bytes(s, &v, k), (v.count + each - 1) / each * 4);
            for (int64_t e = 0; e * each < v.count; e++) {
                if (kept[g][k] && data[e] != contents(g, k, at / each + e, kept[g][k])) fail_msg("group %d part %d element %d", g, k, (int)(at / each + e));
                data[e] = contents(g, k, at / each + e, kept[g][k] + 1);
            }
        }
        assert_ok(ctx, rp__state_store_keep(s, &v));
    }
    for (int k = 0; k < RP_STATE_STORE_PARTS; k++) kept[g][k] += parts >> k & 1;
}

/* Orders change from step to step, so what is expected next is now right and now wrong; single parts are visited in between. */
static void whatever_order_windows_are_taken_in_they_hold_what_was_kept(void **state)
{
    static const rp_state_store_group groups[] = {
        GROUP(2 * W + 5, 4, 4, 4), GROUP(1, 4, 4), GROUP(0, 4, 4, 4), GROUP(W, 4, 0, 4), GROUP(300, 4, 4, 4), GROUP(W + 1, 4),
        { .n = W + 257, .elem_bytes = { 4, 0, 4, 4, 4 }, .each = { [3] = 256, [4] = 256 } },
    };
    int n = RP_COUNT(groups), kept[RP_COUNT(groups)][RP_STATE_STORE_PARTS] = { 0 };
    rp_ctx *ctx = test_ctx(NULL);
    rp_state_store *s;

    (void)state;
    assert_ok(ctx, rp__state_store_open(ctx, dir.path, groups, n, &s));
    int64_t before = live(ctx, RP_MEM_OPTIM);
    for (int step = 0; step < 6; step++) {
        for (int i = 0; i < n; i++) visit(ctx, s, groups, step % 3 == 2 ? n - 1 - i : i, ~0u, kept);
        visit(ctx, s, groups, step, 1u << step % 3, kept);
    }
    for (int i = 0; i < 4; i++) visit(ctx, s, groups, 4, ~0u, kept);        /* itself is expected next */
    assert_ok(ctx, rp__state_store_flush(s));
    assert_int_equal(live(ctx, RP_MEM_OPTIM), before);
    rp__state_store_close(s);
    assert_int_equal(live(ctx, RP_MEM_OPTIM), 0);
    test_ctx_free(ctx);
}

static void a_forgotten_part_is_fresh_and_the_others_are_not(void **state)
{
    static const rp_state_store_group groups[] = { GROUP(W + 9, 4, 4, 4), GROUP(12, 4, 4, 4) };
    int kept[RP_COUNT(groups)][RP_STATE_STORE_PARTS] = { 0 };
    rp_ctx *ctx = test_ctx(NULL);
    rp_state_store *s;

    (void)state;
    assert_ok(ctx, rp__state_store_open(ctx, dir.path, groups, 2, &s));
    for (int i = 0; i < 4; i++) visit(ctx, s, groups, i % 2, ~0u, kept);
    rp__state_store_forget(s, 1);
    kept[0][1] = kept[1][1] = 0;
    for (int i = 0; i < 4; i++) visit(ctx, s, groups, i % 2, ~0u, kept);
    rp__state_store_close(s);
    test_ctx_free(ctx);
}

static int64_t read_bytes(rp_state_store *s)
{
    rp_disk_queue_counts n;

    rp__disk_queue_count(rp__state_store_disk_queue(s), &n);
    return n.read_bytes;
}

/* The store prefetches the window that is taken next, so each read is used. */
static void in_the_order_of_the_last_step_each_window_is_read_once(void **state)
{
    static const rp_state_store_group groups[] = { GROUP(2 * W + 5, 4, 4, 4), GROUP(300, 4), GROUP(W + 1, 4, 0, 4) };
    int n = RP_COUNT(groups), kept[RP_COUNT(groups)][RP_STATE_STORE_PARTS] = { 0 };
    rp_ctx *ctx = test_ctx(NULL);
    rp_state_store *s;

    (void)state;
    assert_ok(ctx, rp__state_store_open(ctx, dir.path, groups, n, &s));
    for (int turn = 0; turn < 2; turn++) {
        int64_t before = 0;
        for (int step = 0; step < 4; step++) {
            for (int i = 0; i < n; i++) visit(ctx, s, groups, turn ? n - 1 - i : i, ~0u, kept);
            if (step == 1) before = read_bytes(s);
        }
        assert_int_equal(read_bytes(s) - before, 2 * rp__state_store_bytes(s));
    }
    rp__state_store_close(s);
    test_ctx_free(ctx);
}

static void shapes_take_the_same_memory_and_no_file(void **state)
{
    static const rp_state_store_group groups[] = { GROUP(2 * W + 5, 2, 2, 4), GROUP(7, 2, 2) };
    rp_ctx *ctx = test_ctx(NULL), *shapes = test_ctx(&(rp_ctx_options){ .shapes_only = true });
    rp_state_store *a, *b;

    (void)state;
    assert_ok(ctx, rp__state_store_open(ctx, dir.path, groups, 2, &a));
    assert_ok(shapes, rp__state_store_open(shapes, "/no/such", groups, 2, &b));
    assert_int_equal(live(ctx, RP_MEM_OPTIM), live(shapes, RP_MEM_OPTIM));
    assert_int_equal(rp__state_store_bytes(a), (2 * W + 5) * 8 + 7 * 4);
    assert_true(live(ctx, RP_MEM_OPTIM) <= 4 * W * 8 + (16 << 10));
    rp__state_store_close(a);
    rp__state_store_close(b);
    test_ctx_free(ctx);
    test_ctx_free(shapes);
}

/* Ranks that hold the slices of one parameter reserve alike, whoever has its short end, or nothing of it. */
static void slices_of_one_room_take_the_same_memory(void **state)
{
    static const int64_t counts[] = { 48, 41, 1, 0 };
    int64_t first = 0;

    (void)state;
    for (int i = 0; i < RP_COUNT(counts); i++) {
        const rp_state_store_group groups[] = { { .n = 16, .elem_bytes = { 4, 4, 4 }, .room = 16 }, { .n = counts[i], .elem_bytes = { 4, 4, 4 }, .room = 48 } };
        int kept[RP_COUNT(groups)][RP_STATE_STORE_PARTS] = { 0 };
        rp_ctx *ctx = test_ctx(NULL);
        rp_state_store *s;
        assert_ok(ctx, rp__state_store_open(ctx, dir.path, groups, 2, &s));
        if (i == 0) first = live(ctx, RP_MEM_OPTIM);
        assert_int_equal(live(ctx, RP_MEM_OPTIM), first);
        for (int step = 0; step < 4; step++) visit(ctx, s, groups, step % 2, ~0u, kept);
        rp__state_store_close(s);
        test_ctx_free(ctx);
    }
}

static void any_allocation_of_opening_may_fail(void **state)
{
    static const rp_state_store_group groups[] = { GROUP(W + 5, 4, 4, 4) };
    rp_ctx *ctx   = test_ctx(NULL);
    rp_state_store *s   = NULL;
    test_faults f = { 0 };

    (void)state;
    while (!f.over) {
        test_fault_begin(&f, ctx);
        if (test_fault_end(&f, rp__state_store_open(ctx, dir.path, groups, 1, &s))) assert_int_equal(live(ctx, RP_MEM_OPTIM), 0);
    }
    assert_true(f.failed > 5);
    rp__state_store_close(s);
    test_ctx_free(ctx);
}

/* Memory may be out from the moment it is open: nothing it does takes any. */
static void what_is_open_needs_no_more_memory(void **state)
{
    static const rp_state_store_group groups[] = { GROUP(2 * W + 5, 4, 4, 4), GROUP(40, 4, 4) };
    int kept[RP_COUNT(groups)][RP_STATE_STORE_PARTS] = { 0 };
    rp_ctx *ctx = test_ctx(NULL);
    rp_state_store *s;

    (void)state;
    assert_ok(ctx, rp__state_store_open(ctx, dir.path, groups, 2, &s));
    int64_t before = ctx->alloc_count;
    for (int i = 0; i < 6; i++) visit(ctx, s, groups, i % 2, ~0u, kept);
    assert_int_equal(ctx->alloc_count, before);
    rp__state_store_close(s);
    test_ctx_free(ctx);
}

/* ---- optimizers ---- */

typedef struct {
    const char *name;
    rp_dtype param, grad, state;
    bool master, stochastic, reference;
    double momentum;
} variant;

static const variant variants[] = {
    { "adamw", RP_F32, RP_F32, RP_F32, .momentum = 0 },
    { "adamw", RP_BF16, RP_F32, RP_F32, .master = true },
    { "adamw", RP_BF16, RP_BF16, RP_BF16, .stochastic = true },
    { "adamw", RP_BF16, RP_BF16, RP_BF16, .stochastic = true, .reference = true },
    { "sgd", RP_F32, RP_F32, RP_F32, .momentum = 0.9 },
    { "sgd", RP_BF16, RP_F32, RP_F32, .master = true, .stochastic = true },
    { "adamw", RP_F32, RP_F32, RP_U8, .momentum = 0 },
    { "adamw", RP_BF16, RP_BF16, RP_U8, .master = true, .reference = true },
    { "sgd", RP_BF16, RP_F32, RP_U8, .stochastic = true, .momentum = 0.9 },
};

static rp_tensor *noise(rp_ctx *ctx, rp_dtype dtype, int64_t n, rp_mem_class c, uint32_t salt)
{
    rp_meta meta = rp_meta_1d(dtype, n);
    rp_tensor *t;

    assert_ok(ctx, rp_tensor_new(ctx, &meta, c, &t));
    for (int64_t i = 0; i < n; i++) rp_elem_put(t, i, 2.0 * rp__uniform(rp__philox(salt, (uint32_t)i, 7, 0, 0).word[0]) - 1);
    return t;
}

static uint64_t hash_of(const void *data, int64_t bytes, uint64_t hash) { return rp__hash(data, (size_t)bytes, hash); }

/* All states, in memory or on disk. */
static uint64_t hash_states(rp_ctx *ctx, rp_optim *o, const rp_slice *slice, uint64_t hash)
{
    for (int i = 0; i < rp__optim_n_tensors(o); i++) {
        const char *name;
        rp_tensor *t  = rp__optim_tensor(o, i, &name);
        void *data    = t ? (void *)(uintptr_t)test_bytes(t) : NULL;
        int64_t all   = rp__optim_tensor_slice(o, i, slice[rp__optim_tensor_param(o, i)]).count, n = all;
        int64_t size  = rp_dtype_bytes(rp__optim_tensor_whole(o, i, &(rp_meta){ 0 }).dtype);
        for (int64_t at = 0; at < all; at += n) {
            if (!t) assert_ok(ctx, rp__optim_window(o, i, at, &data, &n));
            hash = hash_of(data, n * size, hash);
        }
    }
    return hash;
}

typedef struct { uint64_t hash; double squares; } result;

static result train(const variant *v, const char *offload, bool save_between)
{
    static const rp_slice some[]   = { { 2 * W + 100, 777, 2 * W + 77 }, { W, 0, W }, { 64, 64, 1 } };
    static const rp_slice blocks[] = { { 2 * W + 256, 768, 2 * W + 77 }, { W, 0, W }, { 256, 256, 1 } };
    const rp_slice *slices         = v->state == RP_U8 ? blocks : some;
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .threads = 2 });
    rp_optim_config config = { .name = v->name, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1, .momentum = v->momentum,
                               .state_dtype = v->state, .master_weights = v->master, .stochastic = v->stochastic, .offload = offload };
    const char *const names[] = { "a.w", "b.w", "c.w" };
    rp_optim_param params[3];
    rp_tensor *grads[3];
    rp_optim *o;
    result r = { .hash = RP_HASH_START };
    rp_device plain = *ctx->device[0];

    plain.kernels = rp__kernels_none;
    if (v->reference) ctx->device[0] = &plain;
    for (int i = 0; i < 3; i++) {
        params[i] = (rp_optim_param){ .path = names[i], .tensor = noise(ctx, v->param, slices[i].room, RP_MEM_PARAM, (uint32_t)i), .slice = slices[i] };
        grads[i]  = noise(ctx, v->grad, slices[i].room, RP_MEM_GRAD, 100 + (uint32_t)i);
    }
    assert_ok(ctx, rp__optim_new(ctx, &config, params, 3, &o));
    for (int64_t step = 1; step <= 3; step++) {
        rp_optim_step how = { .step = step, .lr = 1e-2, .grad_scale = 0.5, .measure = true };
        for (int i = 0; i < 3; i++) rp__optim_update(o, step == 2 ? 2 - i : i, grads[step == 2 ? 2 - i : i], &how);
        assert_ok(ctx, rp__optim_settle(o));
        if (save_between) hash_states(ctx, o, slices, 0);
    }
    r.squares = rp__optim_squares(o);
    r.hash    = hash_states(ctx, o, slices, r.hash);
    for (int i = 0; i < 3; i++) r.hash = hash_of(test_bytes(params[i].tensor), rp_meta_bytes(&params[i].tensor->m), r.hash);
    rp__optim_free(o);
    for (int i = 0; i < 3; i++) {
        rp_tensor_unref(params[i].tensor);
        rp_tensor_unref(grads[i]);
    }
    test_ctx_free(ctx);
    return r;
}

static void states_on_disk_give_the_bits_of_states_in_memory(void **state)
{
    (void)state;
    for (int i = 0; i < RP_COUNT(variants); i++) {
        result memory = train(&variants[i], NULL, false), disk = train(&variants[i], dir.path, false), saved = train(&variants[i], dir.path, true);
        if (memory.hash != disk.hash || memory.squares != disk.squares) fail_msg("variant %d: other bits", i);
        if (memory.hash != saved.hash || memory.squares != saved.squares) fail_msg("variant %d: other bits when saved between", i);
    }
}

static void masters_on_disk_begin_as_their_parameters(void **state)
{
    rp_ctx *ctx = test_ctx(NULL);
    rp_optim_config config = { .name = "sgd", .state_dtype = RP_F32, .master_weights = true, .offload = dir.path };
    rp_tensor *p = noise(ctx, RP_BF16, W + 3, RP_MEM_PARAM, 5);
    rp_optim *o;
    void *data;
    int64_t n;

    (void)state;
    assert_ok(ctx, rp__optim_new(ctx, &config, &(rp_optim_param){ .path = "w", .tensor = p }, 1, &o));
    for (int64_t at = 0; at < W + 3; at += n) {
        assert_ok(ctx, rp__optim_window(o, 0, at, &data, &n));
        for (int64_t e = 0; e < n; e++) assert_true(((float *)data)[e] == rp_elem_get(p, at + e));
    }
    rp__optim_free(o);
    rp_tensor_unref(p);
    test_ctx_free(ctx);
}

static void after_the_disk_failed_nothing_is_updated_and_settle_fails(void **state)
{
    rp_ctx *ctx = test_ctx(NULL);
    rp_optim_config config = { .name = "adamw", .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .state_dtype = RP_F32, .offload = dir.path };
    rp_tensor *p = noise(ctx, RP_F32, 3 * W, RP_MEM_PARAM, 5), *g = noise(ctx, RP_F32, 3 * W, RP_MEM_GRAD, 6);
    rp_optim *o;

    (void)state;
    assert_ok(ctx, rp__optim_new(ctx, &config, &(rp_optim_param){ .path = "w", .tensor = p }, 1, &o));
    rp__disk_queue_fail(rp__state_store_disk_queue(o->store), RP_DISK_QUEUE_WRITE, 0, 1, ENOSPC);
    rp__optim_update(o, 0, g, &(rp_optim_step){ .step = 1, .lr = 1, .grad_scale = 1 });
    assert_int_equal(rp__optim_settle(o), RP_ERR_IO);
    assert_non_null(strstr(rp_error(ctx), "bytes of optimizer states under"));
    uint64_t before = hash_of(test_bytes(p), 12 * W, 0);
    rp__optim_update(o, 0, g, &(rp_optim_step){ .step = 2, .lr = 1, .grad_scale = 1 });
    assert_true(hash_of(test_bytes(p), 12 * W, 0) == before);
    assert_int_equal(rp__optim_settle(o), RP_ERR_IO);
    rp__optim_free(o);
    rp_tensor_unref(p);
    rp_tensor_unref(g);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(whatever_order_windows_are_taken_in_they_hold_what_was_kept),
        TEST(a_forgotten_part_is_fresh_and_the_others_are_not),
        TEST(in_the_order_of_the_last_step_each_window_is_read_once),
        TEST(shapes_take_the_same_memory_and_no_file),
        TEST(slices_of_one_room_take_the_same_memory),
        TEST(any_allocation_of_opening_may_fail),
        TEST(what_is_open_needs_no_more_memory),
        TEST(states_on_disk_give_the_bits_of_states_in_memory),
        TEST(masters_on_disk_begin_as_their_parameters),
        TEST(after_the_disk_failed_nothing_is_updated_and_settle_fails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
