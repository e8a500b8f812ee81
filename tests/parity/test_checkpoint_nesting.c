/* Claims about regions inside regions, and about tensors that a function reads without having been given them. */
#include "bn_mlp.h"
#include "parity/probes.h"

/* ---- what the outer keeps ---- */

typedef struct { rp_tensor *captured; bool as_argument; } handed;

static rp_status inner(rp_ctx *ctx, void *user, rp_tensor *const *in, rp_tensor **out)
{
    handed *h = user;

    out[0] = then_probe(ctx, "square", 3, probe(ctx, "square", 2, h->as_argument ? in[0] : h->captured));
    return RP_OK;
}

/* A value of the outer region is handed to the inner one as an argument, or is just there. */
static rp_status outer(rp_ctx *ctx, void *user, rp_tensor *const *in, rp_tensor **out)
{
    handed *h = user;

    h->captured = probe(ctx, "square", 1, in[0]);
    assert_ok(ctx, rp_checkpoint(ctx, inner, h, h->as_argument ? &h->captured : NULL, NULL, out));
    rp_tensor_unref(h->captured);
    return RP_OK;
}

static void inputs_of_an_inner_region_are_not_kept_by_the_outer_however_they_come(void **state)
{
    (void)state;
    rp_ctx *ctx  = probe_ctx(NULL);
    rp_tensor *x = drawn(ctx, 1, true), *y;
    values grad[3];

    for (int way = 0; way < 3; way++) {
        handed h = { NULL, way == 1 };
        if (way) assert_ok(ctx, rp_checkpoint(ctx, outer, &h, &x, NULL, &y));
        else assert_ok(ctx, outer(ctx, &h, &x, &y));
        assert_int_equal(saved_bytes(ctx), way ? 0 : BYTES);
        assert_ok(ctx, backward_of(ctx, y));
        grad[way] = take_grad(x);
        assert_same_values(&grad[way], &grad[0], "the gradient");
    }
    rp_tensor_unref(x);
    test_ctx_free(ctx);
}

/* ---- what changes in between ---- */

static rp_status read_captured(rp_ctx *ctx, void *user, rp_tensor *const *in, rp_tensor **out)
{
    out[0] = then_probe(ctx, "square", 1, call(ctx, "add", NULL, in[0], user));
    return RP_OK;
}

/* Neither is read by a backward; the replay reads both. */
static void a_captured_tensor_is_checked_as_an_argument_is(void **state)
{
    (void)state;
    rp_ctx *ctx = probe_ctx(NULL);
    rp_tensor *x = drawn(ctx, 1, true), *constant = drawn(ctx, 2, false), *y;

    for (int written = 0; written < 2; written++) {
        assert_ok(ctx, rp_checkpoint(ctx, read_captured, constant, &x, NULL, &y));
        scribble(written ? constant : x);
        assert_int_equal(backward_of(ctx, y), RP_ERR_MUTATED);
        assert_string_equal(rp_error(ctx), "'a leaf' (fp32 [4, 8]) was changed by rp_tensor_write between forward and backward; add of 'checkpoint' "
                                           "reads it");
        rp_tensor_drop_grad(x);
    }
    rp_tensor_unref(x);
    rp_tensor_unref(constant);
    test_ctx_free(ctx);
}

static void a_parameter_that_changed_is_named_with_its_writer_its_reader_and_the_module(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(NULL);
    bn_mlp m    = bn_mlp_new(ctx, &(bn_mlp_options){ 2, 0.1f, RP_F32 });
    rp_tensor *loss, *weight = rp_module_find(m.root, "layers.1.linear")->param[0].tensor;
    double was[BN_WIDTH * BN_WIDTH];

    rp_module_checkpoint(m.root, rp__module_is_type, "Block");
    assert_ok(ctx, bn_mlp_loss(&m, 0, &loss));
    assert_ok(ctx, rp_tensor_read(weight, was, BN_WIDTH * BN_WIDTH));
    assert_ok(ctx, rp_tensor_write(weight, was, BN_WIDTH * BN_WIDTH));
    assert_int_equal(rp_backward(ctx, loss), RP_ERR_MUTATED);
    assert_string_equal(rp_error(ctx), "'layers.1.linear.weight' (fp32 [7, 7]) was changed by rp_tensor_write between forward and "
                                       "backward; matmul of 'layers.1.linear' reads it");
    rp_tensor_unref(loss);
    bn_mlp_free(&m);
    test_ctx_free(ctx);
}

/* ---- nothing is left ---- */

static rp_status nested_to(rp_ctx *ctx, void *user, rp_tensor *const *in, rp_tensor **out)
{
    int depth    = *(int *)user, less = depth - 1;
    rp_tensor *h = probe(ctx, "square", depth, in[0]);

    if (depth > 0) assert_ok(ctx, rp_checkpoint(ctx, nested_to, &less, &h, NULL, out));
    else out[0] = probe(ctx, "square", depth, h);
    rp_tensor_unref(h);
    return RP_OK;
}

static void steps_of_nested_regions_leave_nothing_behind_and_cost_the_same(void **state)
{
    (void)state;
    rp_ctx *ctx  = probe_ctx(NULL);
    rp_tensor *x = drawn(ctx, 1, true), *y;
    int depth = 5;
    int64_t own = ledger_of(ctx, 0).live_bytes, allocations = 0, before;

    for (int step = 0; step < 50; step++) {
        before = ctx->alloc_count;
        assert_ok(ctx, rp_checkpoint(ctx, nested_to, &depth, &x, NULL, &y));
        assert_ok(ctx, backward_of(ctx, y));
        rp_tensor_drop_grad(x);
        assert_int_equal(ledger_of(ctx, 0).live_bytes, own);
        if (step == 1) allocations = ctx->alloc_count - before;
        if (step > 1) assert_int_equal(ctx->alloc_count - before, allocations);
    }
    rp_tensor_unref(x);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inputs_of_an_inner_region_are_not_kept_by_the_outer_however_they_come),
        cmocka_unit_test(a_captured_tensor_is_checked_as_an_argument_is),
        cmocka_unit_test(a_parameter_that_changed_is_named_with_its_writer_its_reader_and_the_module),
        cmocka_unit_test(steps_of_nested_regions_leave_nothing_behind_and_cost_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
