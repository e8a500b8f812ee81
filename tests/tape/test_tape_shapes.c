/* Claims about a run on shapes alone: it asks the ledger for the same things in the same order as a real one. */
/* ctest: no-emulator */
#include "tape/fates.h"

enum { MOST_EVENTS = 20000 };

typedef struct { rp_mem_event event; int64_t live_at[RP_MEM_CLASSES]; } moment;    /* the split after the event: shows class changes */

typedef struct {
    rp_ctx *ctx;
    int n;
    moment at[MOST_EVENTS];
} history;

static void note(void *user, const rp_mem_event *event)
{
    history *h  = user;
    rp_mem m    = ledger(h->ctx);

    assert_true(h->n < MOST_EVENTS);
    moment *now = &h->at[h->n++];
    *now            = (moment){ .event = *event };
    now->event.label = NULL;
    memcpy(now->live_at, m.live_at, sizeof now->live_at);
}

static void record_run(const graph *g, const nesting *n, rp_dtype dtype, uint32_t fates_seed, bool shapes_only, history *h, rp_mem *after)
{
    const rp_offload_options disk = { .folder = RP_BINARY_DIR, .buffer_bytes = 1 << 16 }, memory = { .device = "sim" };
    fates f = { .seed = fates_seed };
    tensor_bits loss;

    *h = (history){ .ctx = test_ctx(&(rp_ctx_options){ .shapes_only = shapes_only }) };
    graph_leaves leaves = leaves_new(h->ctx, dtype);
    rp__mem_observe(h->ctx->space[0], note, h);
    if (fates_seed) assert_ok(h->ctx, rp_set_offload(h->ctx, fates_seed % 2 ? &disk : &memory));
    fates_use(h->ctx, fates_seed ? &f : NULL);
    assert_ok(h->ctx, graph_step_run(g, n, h->ctx, &leaves, &loss));
    leaves_drop_grads(&leaves);
    assert_ok(h->ctx, rp_set_offload(h->ctx, NULL));
    rp__mem_observe(h->ctx->space[0], NULL, NULL);
    *after = ledger(h->ctx);
    leaves_free(&leaves);
    test_ctx_free(h->ctx);
}

static void check_same_history(const history *real, const history *shapes, uint32_t seed)
{
    for (int i = 0; i < real->n && i < shapes->n; i++) {
        const moment *a = &real->at[i], *b = &shapes->at[i];
        if (a->event.take != b->event.take || a->event.reclass != b->event.reclass || a->event.mem_class != b->event.mem_class ||
            a->event.bytes != b->event.bytes || a->event.offset != b->event.offset || memcmp(a->live_at, b->live_at, sizeof a->live_at))
            fail_msg("graph %u: event %d of %d differs", seed, i, real->n);
    }
    assert_int_equal(real->n, shapes->n);
}

static void a_run_on_shapes_has_the_events_of_a_real_run(void **state)
{
    (void)state;
    static history real, shapes;

    for (uint32_t seed = 1; seed <= 60; seed++) {
        graph g;
        rp_mem a, b;
        graph_make(&g, seed, false);
        nesting nestings[] = { nesting_none(), nesting_whole(&g), nesting_blocks(&g, 4), nesting_random(&g, seed) };
        nesting *n         = &nestings[seed % 4];
        rp_dtype dtype     = seed / 4 % 2 ? RP_BF16 : RP_F32;
        for (uint32_t drawn = 0; drawn < 2; drawn++) {
            record_run(&g, n, dtype, drawn * seed, false, &real, &a);
            record_run(&g, n, dtype, drawn * seed, true, &shapes, &b);
            assert_true(real.n > 20);
            check_same_history(&real, &shapes, seed);
            assert_memory_equal(&a, &b, sizeof a);
        }
    }
}

static void a_value_read_on_shapes_is_an_error_that_names_the_call(void **state)
{
    (void)state;
    rp_ctx *ctx         = test_ctx(&(rp_ctx_options){ .shapes_only = true });
    graph_leaves leaves = leaves_new(ctx, RP_F32);
    rp_tensor *loss     = NULL;
    double value        = 7;
    graph g;

    graph_make(&g, 3, false);
    nesting n = nesting_blocks(&g, 3);
    assert_ok(ctx, graph_forward(&g, &n, ctx, &leaves, &loss));
    assert_int_equal(rp_tensor_read(loss, &value, 1), RP_ERR_META);
    assert_non_null(strstr(rp_error(ctx), "rp_tensor_read"));
    assert_true(value == 7);
    assert_ok(ctx, rp__backward(ctx, loss));
    assert_int_equal(rp_tensor_read(leaves.at[LEAF_HEAD]->grad, &value, 1), RP_ERR_META);
    rp_tensor_unref(loss);
    leaves_drop_grads(&leaves);
    leaves_free(&leaves);
    test_ctx_free(ctx);
}

static void flops_and_calls_are_the_same_on_shapes(void **state)
{
    (void)state;
    rp_tape_stats stats[2];

    for (int shapes = 0; shapes < 2; shapes++) {
        rp_ctx *ctx         = test_ctx(&(rp_ctx_options){ .shapes_only = shapes });
        graph_leaves leaves = leaves_new(ctx, RP_F32);
        tensor_bits loss;
        graph g;
        graph_make(&g, 11, false);
        nesting n = nesting_random(&g, 11);
        assert_ok(ctx, graph_step_run(&g, &n, ctx, &leaves, &loss));
        rp__tape_stats(ctx, &stats[shapes]);
        leaves_drop_grads(&leaves);
        leaves_free(&leaves);
        test_ctx_free(ctx);
    }
    assert_memory_equal(&stats[0], &stats[1], sizeof stats[0]);
    assert_true(stats[0].recompute_flops > 0 && stats[0].step_flops > stats[0].recompute_flops);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_on_shapes_has_the_events_of_a_real_run),
        cmocka_unit_test(a_value_read_on_shapes_is_an_error_that_names_the_call),
        cmocka_unit_test(flops_and_calls_are_the_same_on_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
