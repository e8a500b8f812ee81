/* Claims about saved bytes and replayed calls, counted by hand (tape/block.h). */
#include "tape/block.h"

enum { BLOCKS = 3 };

/* Forward FLOPs of the calls of a block: 4 an element of x, 2 k n a row, gelu as it says itself. */
static int64_t flops_of(const char *op, int64_t rows, int64_t n, int64_t k)
{
    rp_op_meta m = { .op = rp__op_find(op), .n_in = 1, .n_out = 1 };

    if (!strcmp(op, "rmsnorm")) return 4 * rows * n;
    if (!strcmp(op, "matmul")) return 2 * rows * n * k;
    m.in[0] = m.out[0] = rp_meta_2d(RP_F32, rows, n);
    m.train = true;
    return m.op->cost(&m, RP_FORWARD).flops;
}

static int64_t first_half_flops(void) { return flops_of("rmsnorm", T, H, 0) + flops_of("matmul", T, F, H) + flops_of("gelu", T, F, 0); }

static int64_t second_half_flops(void)
{
    return flops_of("matmul", T, H, F) + flops_of("dropout", T, H, 0) + T * H;
}

typedef struct {
    int64_t saved_bytes, other_bytes;   /* after the forward; other: what is not saved, loss included */
    rp_tape_stats stats;
} outcome;

static outcome run(block_regions regions)
{
    rp_ctx *ctx   = test_ctx(NULL);
    block_model m = model_new(ctx, BLOCKS);
    int64_t own   = ledger(ctx).live_bytes;
    outcome o;

    rp_tensor *loss = model_forward(&m, regions);
    o.saved_bytes   = saved_bytes(ctx);
    o.other_bytes   = ledger(ctx).live_bytes - own - o.saved_bytes;
    assert_ok(ctx, rp__backward(ctx, loss));
    assert_int_equal(saved_bytes(ctx), 0);
    rp__tape_stats(ctx, &o.stats);
    rp_tensor_unref(loss);
    model_drop_grads(&m);
    assert_int_equal(ledger(ctx).live_bytes, own);
    model_free(&m);
    test_ctx_free(ctx);
    return o;
}

static void without_regions_exactly_the_slots_are_saved(void **state)
{
    (void)state;
    outcome o = run(NO_REGIONS);

    assert_int_equal(o.saved_bytes, BLOCKS * BLOCK_BYTES + (BLOCKS - 1) * HIDDEN_BYTES + LOSS_SLOT_BYTES);
    assert_int_equal(o.other_bytes, FLOAT);
    assert_int_equal(o.stats.n_calls, BLOCKS * BLOCK_CALLS + 1);
    assert_int_equal(o.stats.n_replayed, 0);
    assert_int_equal(o.stats.recompute_flops, 0);
}

static void a_region_a_block_saves_what_goes_into_each_and_replays_half_of_it(void **state)
{
    (void)state;
    outcome o = run(A_REGION_A_BLOCK);

    assert_int_equal(o.saved_bytes, (BLOCKS - 1) * HIDDEN_BYTES + LOSS_SLOT_BYTES);
    assert_int_equal(o.other_bytes, FLOAT);
    assert_int_equal(o.stats.n_replayed, BLOCKS * 3);      /* not down, dropout and add: nobody needs what they make */
    assert_int_equal(o.stats.recompute_flops, BLOCKS * first_half_flops());
}

static void one_region_saves_nothing_and_replays_all_but_the_end(void **state)
{
    (void)state;
    outcome o = run(ONE_REGION);

    assert_int_equal(o.saved_bytes, LOSS_SLOT_BYTES);
    assert_int_equal(o.stats.n_replayed, BLOCKS * BLOCK_CALLS - 3);
    assert_int_equal(o.stats.recompute_flops, BLOCKS * first_half_flops() + (BLOCKS - 1) * second_half_flops());
}

static void nested_regions_replay_the_outer_for_the_bounds_of_the_inner(void **state)
{
    (void)state;
    outcome o = run(BLOCKS_IN_ONE_REGION);

    assert_int_equal(o.saved_bytes, LOSS_SLOT_BYTES);
    assert_int_equal(o.stats.n_replayed, (BLOCKS - 1) * BLOCK_CALLS + BLOCKS * 3);
    assert_int_equal(o.stats.recompute_flops, (BLOCKS - 1) * (first_half_flops() + second_half_flops()) + BLOCKS * first_half_flops());
}

static void the_flops_of_a_step_do_not_depend_on_regions(void **state)
{
    (void)state;
    int64_t flops = run(NO_REGIONS).stats.step_flops;

    assert_true(flops > BLOCKS * (first_half_flops() + second_half_flops()) * 2);
    for (block_regions r = A_REGION_A_BLOCK; r <= BLOCKS_IN_ONE_REGION; r++) assert_int_equal(run(r).stats.step_flops, flops);
}

typedef struct { rp_ctx *ctx; int64_t most_bytes; } most_saved;

static void watch_saved(void *user, const rp_mem_event *event)
{
    most_saved *m = user;
    int64_t now   = saved_bytes(m->ctx);

    (void)event;
    if (now > m->most_bytes) m->most_bytes = now;
}

/* The most that is saved at one time in the backward. */
static int64_t most_saved_bytes(block_regions regions)
{
    rp_ctx *ctx     = test_ctx(NULL);
    block_model m   = model_new(ctx, BLOCKS);
    rp_tensor *loss = model_forward(&m, regions);
    most_saved most = { ctx, 0 };

    rp__mem_observe(ctx->space[0], watch_saved, &most);
    assert_ok(ctx, rp__backward(ctx, loss));
    rp__mem_observe(ctx->space[0], NULL, NULL);
    rp_tensor_unref(loss);
    model_drop_grads(&m);
    model_free(&m);
    test_ctx_free(ctx);
    return most.most_bytes;
}

static void a_backward_holds_the_slots_of_one_innermost_region_and_its_bounds(void **state)
{
    (void)state;
    int64_t bounds = (BLOCKS - 1) * HIDDEN_BYTES;

    assert_int_equal(most_saved_bytes(A_REGION_A_BLOCK), bounds + BLOCK_BYTES);
    assert_int_equal(most_saved_bytes(BLOCKS_IN_ONE_REGION), bounds + BLOCK_BYTES);
    assert_int_equal(most_saved_bytes(ONE_REGION), bounds + BLOCKS * BLOCK_BYTES);
}

/* ---- what is held is the forward's own ---- */

static void a_kept_slot_is_the_storage_of_the_forward(void **state)
{
    (void)state;
    rp_ctx *ctx  = test_ctx(NULL);
    rp_tensor *w = new_param(ctx, RP_F32, T, H, 1, 1, "w"), *u, *y, *loss;

    u = call_op(ctx, "scale", &(rp_attr_scale){ 2 }, w, NULL);
    assert_int_equal(u->storage->mem_class, RP_MEM_TEMP);
    y                = call_op(ctx, "gelu", &(rp_attr_gelu){ false }, u, NULL);
    rp_storage *kept = u->storage;
    int64_t live     = ledger(ctx).live_bytes;
    rp_tensor_unref(u);
    assert_int_equal(ledger(ctx).live_bytes, live);
    assert_int_equal(saved_bytes(ctx), HIDDEN_BYTES);
    assert_int_equal(kept->refs, 1);
    assert_int_equal(kept->mem_class, RP_MEM_SAVED);
    loss = sum_all(ctx, y);
    rp_tensor_unref(y);
    assert_int_equal(ledger(ctx).live_bytes, live - HIDDEN_BYTES + FLOAT);
    assert_ok(ctx, rp__backward(ctx, loss));
    rp_tensor_unref(loss);
    rp_tensor_unref(w);
    test_ctx_free(ctx);
}

static void what_the_tape_lets_go_of_is_not_saved_any_more(void **state)
{
    (void)state;
    rp_ctx *ctx  = test_ctx(NULL);
    rp_tensor *w = new_param(ctx, RP_F32, T, H, 1, 1, "w"), *u, *y, *loss;

    u = call_op(ctx, "scale", &(rp_attr_scale){ 2 }, w, NULL);
    assert_ok(ctx, rp__region_begin(ctx, "nothing to make"));
    y = call_op(ctx, "scale", &(rp_attr_scale){ 3 }, u, NULL);
    assert_int_equal(saved_bytes(ctx), HIDDEN_BYTES);      /* until the region is over, u may be needed */
    assert_ok(ctx, rp__region_end(ctx));
    assert_int_equal(saved_bytes(ctx), 0);
    assert_int_equal(u->refs, 1);
    loss = sum_all(ctx, y);
    assert_ok(ctx, rp__backward(ctx, loss));
    assert_true(first_element(w->grad) == 6);
    rp_tensor_unref(u);
    rp_tensor_unref(y);
    rp_tensor_unref(loss);
    rp_tensor_unref(w);
    test_ctx_free(ctx);
}

static void a_constant_is_held_for_those_who_read_it_later_alone(void **state)
{
    (void)state;
    rp_ctx *ctx  = test_ctx(NULL);
    rp_tensor *w = new_param(ctx, RP_F32, T, H, 1, 1, "w"), *y, *product, *loss;
    rp_tensor *added = new_tensor(ctx, RP_F32, T, H, RP_MEM_TEMP, 1, 2), *factor = new_tensor(ctx, RP_F32, T, H, RP_MEM_TEMP, 1, 3);

    y       = call_op(ctx, "add", NULL, w, added, NULL);
    product = call_op(ctx, "mul", NULL, y, factor, NULL);
    loss    = sum_all(ctx, product);
    double expected = first_element(factor);
    int64_t live    = ledger(ctx).live_bytes;
    rp_tensor_unref(added);
    assert_int_equal(ledger(ctx).live_bytes, live - HIDDEN_BYTES);
    rp_tensor_unref(factor);
    assert_int_equal(ledger(ctx).live_bytes, live - HIDDEN_BYTES);
    rp_tensor_unref(y);
    rp_tensor_unref(product);
    assert_ok(ctx, rp__backward(ctx, loss));
    assert_true(first_element(w->grad) == expected);
    rp_tensor_unref(loss);
    rp_tensor_unref(w);
    test_ctx_free(ctx);
}

/* The gradient of the operand that wants one; `wanted` of x and w are made from a leaf, the other is a constant. */
static void run_product(const char *op, const void *attr, int wanted, tensor_bits *grad, int64_t *saved)
{
    rp_ctx *ctx        = test_ctx(NULL);
    rp_tensor *leaf[2] = { new_param(ctx, RP_F32, H, H, 1, 1, "x"), new_param(ctx, RP_F32, H, H, 1, 2, "w") }, *made[2], *y, *loss;

    for (int i = 0; i < 2; i++) {
        leaf[i]->requires_grad = wanted == i || wanted == 2;
        made[i]                = call_op(ctx, "scale", &(rp_attr_scale){ 2 }, leaf[i], NULL);
    }
    y    = call_op(ctx, op, attr, made[0], made[1], NULL);
    loss = sum_all(ctx, y);
    for (int i = 0; i < 2; i++) rp_tensor_unref(made[i]);
    rp_tensor_unref(y);
    *saved = saved_bytes(ctx);
    assert_ok(ctx, rp__backward(ctx, loss));
    bits_of(leaf[wanted % 2]->grad, grad);
    rp_tensor_unref(loss);
    for (int i = 0; i < 2; i++) rp_tensor_unref(leaf[i]);
    test_ctx_free(ctx);
}

/* A frozen weight: x is not kept. A constant x: the weight is not. */
static void a_product_keeps_what_the_gradients_that_are_wanted_read(void **state)
{
    (void)state;
    const char *const ops[]  = { "matmul", "mul" };
    const void *const attr[] = { &(rp_attr_matmul){ true }, NULL };
    enum { BYTES = H * H * FLOAT };
    tensor_bits both, one;
    int64_t saved;

    for (int i = 0; i < RP_COUNT(ops); i++) {
        run_product(ops[i], attr[i], 2, &both, &saved);
        assert_int_equal(saved, 2 * BYTES);
        run_product(ops[i], attr[i], 0, &one, &saved);
        assert_int_equal(saved, 0);          /* the other is a constant, held as such */
        assert_same_bits(&one, &both, "the gradient of x alone");
        run_product(ops[i], attr[i], 1, &one, &saved);
        assert_int_equal(saved, 0);
    }
}

/* ---- replays leave out what is not needed as things stand ---- */

/* A region of matmul and relu, whose output a second region reads and holds. */
static void a_value_that_another_region_holds_is_not_recomputed(void **state)
{
    (void)state;
    rp_ctx *ctx  = test_ctx(NULL);
    rp_tensor *w = new_param(ctx, RP_F32, H, H, 1, 1, "w"), *x = new_tensor(ctx, RP_F32, T, H, RP_MEM_TEMP, 1, 2), *p, *y, *z, *loss;
    rp_tape_stats stats;

    assert_ok(ctx, rp__region_begin(ctx, "first"));
    p = call_op(ctx, "matmul", &(rp_attr_matmul){ true }, x, w, NULL);
    y = call_op(ctx, "relu", NULL, p, NULL);
    rp_tensor_unref(p);
    assert_ok(ctx, rp__region_end(ctx));
    assert_ok(ctx, rp__region_begin(ctx, "second"));
    z = call_op(ctx, "matmul", &(rp_attr_matmul){ true }, y, w, NULL);
    assert_ok(ctx, rp__region_end(ctx));
    rp_tensor_unref(y);
    loss = sum_all(ctx, z);
    rp_tensor_unref(z);
    assert_int_equal(saved_bytes(ctx), HIDDEN_BYTES);
    assert_ok(ctx, rp__backward(ctx, loss));
    rp__tape_stats(ctx, &stats);
    assert_int_equal(stats.n_replayed, 0);
    rp_tensor_unref(loss);
    rp_tensor_unref(w);
    rp_tensor_unref(x);
    test_ctx_free(ctx);
}

static void calls_whose_readers_get_no_gradient_are_not_replayed(void **state)
{
    (void)state;
    rp_ctx *ctx  = test_ctx(NULL);
    rp_tensor *w = new_param(ctx, RP_F32, T, H, 1, 1, "w"), *a, *b, *unused, *loss;
    rp_tape_stats stats;

    assert_ok(ctx, rp__region_begin(ctx, "with a dead end"));
    a      = call_op(ctx, "scale", &(rp_attr_scale){ 2 }, w, NULL);
    b      = call_op(ctx, "gelu", &(rp_attr_gelu){ false }, a, NULL);
    unused = call_op(ctx, "silu", NULL, b, NULL);
    assert_ok(ctx, rp__region_end(ctx));
    loss = sum_all(ctx, b);
    rp_tensor_unref(a);
    rp_tensor_unref(b);
    rp_tensor_unref(unused);
    assert_ok(ctx, rp__backward(ctx, loss));
    rp__tape_stats(ctx, &stats);
    assert_int_equal(stats.n_replayed, 1);      /* scale; gelu's output is for silu alone */
    rp_tensor_unref(loss);
    rp_tensor_unref(w);
    test_ctx_free(ctx);
}

/* ---- what a replay reads, and how often it runs ---- */

typedef struct { rp_ctx *ctx; int at; int64_t saved_bytes; } backward_watch;

/* What is saved when the backward of call `at` first takes something. */
static void watch_backward(void *user, const rp_mem_event *event)
{
    backward_watch *w = user;
    rp_tape_work now  = rp__tape_now(w->ctx);

    if (event->take && now.phase == RP_TAPE_BACKWARD && now.at == w->at && w->saved_bytes < 0) w->saved_bytes = saved_bytes(w->ctx);
}

/* Scale, which needs nothing of it, reads what a call before the region has made. */
static void a_region_releases_its_inputs_after_its_replay(void **state)
{
    (void)state;
    rp_ctx *ctx          = test_ctx(NULL);
    rp_tensor *w         = new_param(ctx, RP_F32, T, H, 1, 1, "w"), *x, *a, *b, *loss;
    backward_watch watch = { ctx, 2, -1 };

    x = call_op(ctx, "gelu", &(rp_attr_gelu){ false }, w, NULL);
    assert_ok(ctx, rp__region_begin(ctx, "reads x"));
    a = call_op(ctx, "scale", &(rp_attr_scale){ 2 }, x, NULL);
    b = call_op(ctx, "gelu", &(rp_attr_gelu){ false }, a, NULL);
    assert_ok(ctx, rp__region_end(ctx));
    loss = sum_all(ctx, b);
    rp_tensor_unref(x);
    rp_tensor_unref(a);
    rp_tensor_unref(b);
    assert_int_equal(saved_bytes(ctx), HIDDEN_BYTES);           /* x */
    rp__mem_observe(ctx->space[0], watch_backward, &watch);
    assert_ok(ctx, rp__backward(ctx, loss));
    rp__mem_observe(ctx->space[0], NULL, NULL);
    assert_int_equal(watch.saved_bytes, HIDDEN_BYTES);          /* a */
    rp_tensor_unref(loss);
    rp_tensor_unref(w);
    test_ctx_free(ctx);
}

/* In a region of four calls, the first two are recomputed alone. */
static rp_status first_two_alone(void *self, int at, const rp_op_meta *meta, const rp_scope *scope, rp_verdict *verdict)
{
    (void)self, (void)scope;
    for (int i = 0; i < meta->n_out + meta->n_slot && at < 2; i++) verdict[i] = (rp_verdict){ .fate = RP_RECOMPUTE, .alone = true };
    return RP_OK;
}

static rp_status no_room(void *ctx) { return rp_fail(ctx, RP_ERR_MEMORY, "no room to note the pass"); }

static void a_record_that_cannot_be_planned_is_forgotten(void **state)
{
    rp_ctx *ctx  = test_ctx(NULL);
    rp_tensor *w = new_param(ctx, RP_F32, T, H, 1, 1, "w"), *loss;

    (void)state;
    rp__tape_plan_by(ctx, &(rp_planner){ .fate = first_two_alone, .recorded = no_room, .self = ctx });
    loss = sum_all(ctx, w);
    assert_int_equal(rp__backward(ctx, loss), RP_ERR_MEMORY);
    assert_int_equal(rp__tape_n_calls(ctx), 0);
    rp__tape_plan_by(ctx, NULL);
    rp_tensor_unref(loss);
    rp_tensor_unref(w);
    test_ctx_free(ctx);
}

static void calls_alone_in_a_region_run_once_for_it_and_once_for_themselves(void **state)
{
    static const rp_stretch region = { 0, 4, "all but the sum" };
    rp_ctx *ctx  = test_ctx(NULL);
    rp_tensor *w = new_param(ctx, RP_F32, T, H, 1, 1, "w"), *x = rp_tensor_ref(w), *loss;
    rp_tape_stats stats;

    (void)state;
    rp__tape_plan_by(ctx, &(rp_planner){ .fate = first_two_alone, .region = &region, .n_regions = 1 });
    for (int i = 0; i < 4; i++) {
        rp_tensor *y = call_op(ctx, "gelu", &(rp_attr_gelu){ false }, x, NULL);
        rp_tensor_unref(x);
        x = y;
    }
    loss = sum_all(ctx, x);
    rp_tensor_unref(x);
    assert_ok(ctx, rp__backward(ctx, loss));
    rp__tape_plan_by(ctx, NULL);
    rp__tape_stats(ctx, &stats);
    assert_int_equal(stats.n_replayed, 3 + 2);      /* the region all that leads to the last call's input; then each for its reader */
    rp_tensor_unref(loss);
    rp_tensor_unref(w);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_regions_exactly_the_slots_are_saved),
        cmocka_unit_test(a_region_a_block_saves_what_goes_into_each_and_replays_half_of_it),
        cmocka_unit_test(one_region_saves_nothing_and_replays_all_but_the_end),
        cmocka_unit_test(nested_regions_replay_the_outer_for_the_bounds_of_the_inner),
        cmocka_unit_test(the_flops_of_a_step_do_not_depend_on_regions),
        cmocka_unit_test(a_backward_holds_the_slots_of_one_innermost_region_and_its_bounds),
        cmocka_unit_test(a_kept_slot_is_the_storage_of_the_forward),
        cmocka_unit_test(what_the_tape_lets_go_of_is_not_saved_any_more),
        cmocka_unit_test(a_constant_is_held_for_those_who_read_it_later_alone),
        cmocka_unit_test(a_product_keeps_what_the_gradients_that_are_wanted_read),
        cmocka_unit_test(a_value_that_another_region_holds_is_not_recomputed),
        cmocka_unit_test(calls_whose_readers_get_no_gradient_are_not_replayed),
        cmocka_unit_test(a_region_releases_its_inputs_after_its_replay),
        cmocka_unit_test(a_record_that_cannot_be_planned_is_forgotten),
        cmocka_unit_test(calls_alone_in_a_region_run_once_for_it_and_once_for_themselves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
