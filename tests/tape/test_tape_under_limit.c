/* Claims about what else goes on while a memory limit holds: records that are kept, updates in backward, what is said of what was dropped, and
 * holes that are put together. */
/* ctest: no-emulator */
#include "tape/fates.h"

enum { N_GRAPHS = 40, ELEMS = 1024, UNIT = ELEMS * 4 };

static rp_ctx *limited(int64_t bytes)
{
    return test_ctx(&(rp_ctx_options){ .seed = 9, .memory_limit_bytes = bytes, .threads = 1, .device = "sim" });
}

static void grads_of(graph_leaves *leaves, graph_result *out)
{
    for (int i = 0; i < N_LEAVES; i++) bits_of(leaves->at[i]->grad, &out->grad[i]);
    leaves_drop_grads(leaves);
}

/* ---- records that are kept ---- */

typedef struct { graph_result result[2]; rp_mem mem; rp_tape_stats work; } twice;

/* Two backwards of one record. */
static rp_status run_twice(const graph *g, const nesting *n, bool keep_replays, int64_t limit_bytes, twice *out)
{
    rp_ctx *ctx         = limited(limit_bytes);
    graph_leaves leaves = leaves_new(ctx, RP_F32);
    rp_tensor *loss     = NULL;
    int64_t own         = ledger(ctx).live_bytes;
    rp_status status    = graph_forward(g, n, ctx, &leaves, &loss);

    *out = (twice){ .mem = { 0 } };
    for (int i = 0; i < 2 && status == RP_OK; i++) {
        bits_of(loss, &out->result[i].loss);
        status = rp_backward_with(ctx, loss, &(rp_backward_options){ .keep_record = true, .keep_replays = keep_replays });
        grads_of(&leaves, &out->result[i]);
    }
    rp_tensor_unref(loss);
    rp_forget(ctx);
    leaves_drop_grads(&leaves);
    out->mem = ledger(ctx);
    assert_int_equal(out->mem.live_bytes, own);
    rp__tape_stats(ctx, &out->work);
    leaves_free(&leaves);
    test_ctx_free(ctx);
    return status;
}

static void a_kept_record_gives_the_same_gradients_again_under_a_limit(void **state)
{
    (void)state;
    static twice whole, got;
    int done = 0;
    int64_t evicted = 0;
    graph g;

    for (uint32_t seed = 1; seed <= N_GRAPHS; seed++) {
        graph_make(&g, seed, false);
        nesting n = seed % 2 ? nesting_none() : nesting_random(&g, seed);
        assert_int_equal(run_twice(&g, &n, seed % 4 < 2, 0, &whole), RP_OK);
        for (int percent = 95; percent >= 65; percent -= 5) {
            rp_status status = run_twice(&g, &n, seed % 4 < 2, whole.mem.reserved_bytes * percent / 100, &got);
            assert_true(status == RP_OK || status == RP_ERR_MEMORY);
            if (status != RP_OK) continue;
            for (int i = 0; i < 2; i++) assert_same_result(&got.result[i], &whole.result[i], "a kept record", seed);
            evicted += got.work.n_evicted;
            done++;
        }
    }
    print_message("%d runs within their limit, %" PRId64 " values dropped\n", done, evicted);
    assert_true(done > N_GRAPHS && evicted > 5 * N_GRAPHS);
}

/* ---- updates in backward ---- */

static rp_status descend(void *user, rp_tensor *leaf)
{
    (void)user;
    for (int64_t e = 0; e < rp_meta_elems(&leaf->m); e++) rp_elem_put(leaf, e, rp_elem_get(leaf, e) - 0.1 * rp_elem_get(leaf->grad, e));
    rp__tensor_wrote(leaf, "a step down");
    drop_grad(leaf);
    return RP_OK;
}

static rp_status run_updates(const graph *g, int64_t limit_bytes, graph_result *out, rp_mem *mem, rp_tape_stats *work)
{
    rp_ctx *ctx         = limited(limit_bytes);
    graph_leaves leaves = leaves_new(ctx, RP_F32);
    nesting none        = nesting_none();
    rp_status status    = RP_OK;

    rp__tape_ctx(ctx)->on_grad = (rp_grad_hook){ descend, NULL };
    for (int step = 0; step < 2 && status == RP_OK; step++) status = graph_step_run(g, &none, ctx, &leaves, &out->loss);
    for (int i = 0; i < N_LEAVES; i++) bits_of(leaves.at[i], &out->grad[i]);
    leaves_drop_grads(&leaves);
    *mem = ledger(ctx);
    rp__tape_stats(ctx, work);
    leaves_free(&leaves);
    test_ctx_free(ctx);
    return status;
}

/* A recomputed call reads no parameter that has been updated since. */
static void leaves_updated_in_backward_end_as_without_a_limit(void **state)
{
    (void)state;
    static graph_result whole, got;
    int done = 0;
    int64_t evicted = 0;
    rp_tape_stats work;
    rp_mem mem, unused;
    graph g;

    for (uint32_t seed = 1; seed <= N_GRAPHS; seed++) {
        graph_make(&g, seed, false);
        assert_int_equal(run_updates(&g, 0, &whole, &mem, &work), RP_OK);
        for (int percent = 95; percent >= 65; percent -= 5) {
            rp_status status = run_updates(&g, mem.reserved_bytes * percent / 100, &got, &unused, &work);
            assert_true(status == RP_OK || status == RP_ERR_MEMORY);
            if (status != RP_OK) continue;
            assert_same_result(&got, &whole, "updated in backward", seed);
            evicted += work.n_evicted;
            done++;
        }
    }
    print_message("%d runs within their limit, %" PRId64 " values dropped\n", done, evicted);
    assert_true(done > N_GRAPHS && evicted > 5 * N_GRAPHS);
}

/* ---- what is said of it ---- */

static rp_tensor *chain(rp_ctx *ctx, rp_tensor *from, int n)
{
    rp_tensor *x = rp_tensor_ref(from), *y;

    for (int i = 0; i < n; i++) {
        y = call_op(ctx, "gelu", &(rp_attr_gelu){ true }, x, NULL);
        rp_tensor_unref(x);
        x = y;
    }
    return x;
}

static void back_from(rp_ctx *ctx, rp_tensor *x)
{
    rp_tensor *loss = sum_all(ctx, x);

    rp_tensor_unref(x);
    assert_ok(ctx, rp_backward(ctx, loss));
    rp_tensor_unref(loss);
}

static void count_dropped(void *user, const rp_tape_slot *slot)
{
    int *n = user;

    if (slot->saved) {
        assert_int_equal(slot->fate, RP_KEEP);
        return;
    }
    assert_int_equal(slot->fate, RP_RECOMPUTE);
    assert_string_equal(slot->by, "memory limit");
    ++*n;
}

typedef struct { rp_ctx *ctx; int n; } watch;

static void look_at_replay(void *user, int at, const char *path, const char *op)
{
    watch *w = user;

    (void)at;
    assert_true(rp_is_replaying(w->ctx));
    assert_string_equal(rp_in_checkpoint(w->ctx), "layers.3");
    assert_string_equal(path, "layers.3");
    assert_string_equal(op, "gelu");
    w->n++;
}

static void a_slot_that_was_dropped_says_so_and_so_does_its_replay(void **state)
{
    (void)state;
    rp_ctx *ctx     = limited(12 * UNIT);
    rp_scope scope  = { .path = "layers.3" };
    rp_tensor *leaf = new_param(ctx, RP_F32, 0, ELEMS, 1, 1, "x");
    watch w         = { ctx, 0 };
    int dropped     = 0;

    rp__tape_ctx(ctx)->scope   = &scope;
    rp_tensor *x = chain(ctx, leaf, 30);
    assert_ok(ctx, rp__tape_slots(ctx, count_dropped, &dropped));
    assert_int_equal(dropped, 29 - 10);      /* of the 29 values that backward reads: x and the last value are there, too */
    assert_false(rp_is_replaying(ctx));
    rp__tape_ctx(ctx)->on_replay = (rp_call_hook){ look_at_replay, &w };
    back_from(ctx, x);
    assert_true(w.n >= dropped);
    assert_false(rp_is_replaying(ctx));
    drop_grad(leaf);
    rp_tensor_unref(leaf);
    test_ctx_free(ctx);
}

/* ---- errors that are caught ---- */

/* Under the limit, what is kept of the chain is dropped before the error takes all of it back. */
static rp_status fails_after_a_chain(rp_ctx *ctx, void *user, rp_tensor *const *in, rp_tensor **out)
{
    rp_tensor *y     = chain(ctx, in[0], 20);
    rp_status status = try_op(ctx, out, "matmul", &(rp_attr_matmul){ false }, y, y, NULL);

    (void)user;
    rp_tensor_unref(y);
    return status;
}

static void an_error_takes_back_what_dropping_had_claimed(void **state)
{
    (void)state;
    fates f = { .op = { "*" }, .fate = { RP_KEEP } };
    tensor_bits grad[2];
    rp_tape_stats work;

    for (int limit = 0; limit < 2; limit++) {
        rp_ctx *ctx     = limited(limit ? 12 * UNIT + 1024 : 0);
        rp_tensor *leaf = new_param(ctx, RP_F32, 0, ELEMS, 1, 1, "x"), *before = chain(ctx, leaf, 5), *none = NULL;
        fates_use(ctx, &f);
        assert_int_equal(rp_checkpoint(ctx, fails_after_a_chain, NULL, &before, NULL, &none), RP_ERR_SHAPE);
        assert_uses_add_up(ctx);
        rp__tape_stats(ctx, &work);
        assert_true((work.n_evicted > 10) == (bool)limit);
        rp_tensor *after = chain(ctx, before, 20);
        rp_tensor_unref(before);
        assert_uses_add_up(ctx);
        back_from(ctx, after);
        bits_of(leaf->grad, &grad[limit]);
        drop_grad(leaf);
        rp_tensor_unref(leaf);
        test_ctx_free(ctx);
    }
    assert_same_bits(&grad[1], &grad[0], "after an error");
}

/* ---- holes ---- */

enum { KEPT = 6 };

/* | x | small holes | y0 | hole | y1 | hole | … : each y is kept by a must and read by the sum of its gelu. */
static rp_tensor *spread(rp_ctx *ctx, rp_tensor *leaf)
{
    rp_tensor *small = new_tensor(ctx, RP_F32, 0, 512, RP_MEM_TEMP, 1, 2), *between[KEPT], *all = NULL;

    rp_tensor *y = call_op(ctx, "silu", NULL, leaf, NULL);
    rp_tensor_unref(small);
    for (int i = 0; i < KEPT; i++) {
        between[i]     = new_tensor(ctx, RP_F32, 0, ELEMS, RP_MEM_TEMP, 1, 3);
        rp_tensor *z   = call_op(ctx, "gelu", &(rp_attr_gelu){ true }, y, NULL), *sum = sum_all(ctx, z);
        rp_tensor *sums = all ? call_op(ctx, "add", NULL, all, sum, NULL) : rp_tensor_ref(sum);
        rp_tensor_unref(z);
        rp_tensor_unref(sum);
        rp_tensor_unref(all);
        rp_tensor *next = call_op(ctx, "silu", NULL, y, NULL);
        rp_tensor_unref(y);
        y   = next;
        all = sums;
    }
    for (int i = 0; i < KEPT; i++) rp_tensor_unref(between[i]);
    rp_tensor_unref(y);
    return all;
}

static void several_holes_become_one_around_what_must_be_kept(void **state)
{
    (void)state;
    fates f = { .op = { "silu" }, .fate = { RP_KEEP | FATE_MUST } };
    tensor_bits grad[2];
    rp_tape_stats work;

    for (int limit = 0; limit < 2; limit++) {
        rp_ctx *ctx     = limited(limit ? (2 + 2 * KEPT) * UNIT + 4096 : 0);
        rp_tensor *leaf = new_param(ctx, RP_F32, 0, ELEMS, 1, 1, "x");
        fates_use(ctx, &f);
        rp_tensor *all = spread(ctx, leaf), *large = new_tensor(ctx, RP_F32, KEPT, ELEMS, RP_MEM_TEMP, 1, 4);
        rp__tape_stats(ctx, &work);
        assert_int_equal(work.n_evicted, 0);
        assert_true((work.moved_bytes > 0) == (bool)limit);
        rp_tensor_unref(large);
        assert_ok(ctx, rp_backward(ctx, all));
        rp_tensor_unref(all);
        bits_of(leaf->grad, &grad[limit]);
        drop_grad(leaf);
        rp_tensor_unref(leaf);
        test_ctx_free(ctx);
    }
    assert_same_bits(&grad[1], &grad[0], "of what was moved");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kept_record_gives_the_same_gradients_again_under_a_limit),
        cmocka_unit_test(leaves_updated_in_backward_end_as_without_a_limit),
        cmocka_unit_test(a_slot_that_was_dropped_says_so_and_so_does_its_replay),
        cmocka_unit_test(an_error_takes_back_what_dropping_had_claimed),
        cmocka_unit_test(several_holes_become_one_around_what_must_be_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
