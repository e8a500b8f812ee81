/* Claims about tensors that are written between forward and backward: an error that names the tensor and its reader, and no trace. */
#include "tape/block.h"

/* The message holds all of these; `...` ends with NULL. */
static void assert_says(rp_ctx *ctx, ...)
{
    va_list words;
    const char *word;

    va_start(words, ctx);
    while ((word = va_arg(words, const char *)))
        if (!strstr(rp_error(ctx), word)) fail_msg("no '%s' in: %s", word, rp_error(ctx));
    va_end(words);
}

static void scribble(rp_tensor *t)
{
    double values[VOCAB * H + T * F];
    int64_t n = rp_meta_elems(&t->m);

    for (int64_t e = 0; e < n; e++) values[e] = rp_elem_get(t, e);
    assert_ok(t->ctx, rp_tensor_write(t, values, n));
}

static rp_status step(block_model *m, block_regions regions, rp_tensor *written)
{
    rp_tensor *loss = model_forward(m, regions);

    if (written) scribble(written);
    rp_status status = rp__backward(m->ctx, loss);
    rp_tensor_unref(loss);
    return status;
}

/* The next step gives the bits of a step before. */
static void check_no_trace(block_model *m, block_regions regions, const tensor_bits *expected, int64_t own)
{
    tensor_bits grad;

    model_drop_grads(m);
    assert_int_equal(ledger(m->ctx).live_bytes, own);
    assert_ok(m->ctx, step(m, regions, NULL));
    bits_of(m->up[0]->grad, &grad);
    assert_same_bits(&grad, expected, "the step after an error");
    model_drop_grads(m);
}

static void a_parameter_written_before_its_backward_is_an_error_that_names_both(void **state)
{
    (void)state;
    rp_ctx *ctx   = test_ctx(NULL);
    block_model m = model_new(ctx, 2);
    int64_t own   = ledger(ctx).live_bytes;
    rp_scope scope = { .path = "layers.0.mlp" };
    tensor_bits expected;

    rp__tape_ctx(ctx)->scope = &scope;
    assert_ok(ctx, step(&m, NO_REGIONS, NULL));
    bits_of(m.up[0]->grad, &expected);
    model_drop_grads(&m);
    for (block_regions r = NO_REGIONS; r <= BLOCKS_IN_ONE_REGION; r++) {
        assert_int_equal(step(&m, r, m.up[0]), RP_ERR_MUTATED);
        assert_says(ctx, "'up'", "fp32 [40, 16]", "rp_tensor_write", "matmul of 'layers.0.mlp'", NULL);
        check_no_trace(&m, r, &expected, own);
        assert_int_equal(step(&m, r, m.gain[1]), RP_ERR_MUTATED);
        assert_says(ctx, "'gain'", "rmsnorm of 'layers.0.mlp'", NULL);
        check_no_trace(&m, r, &expected, own);
    }
    rp__tape_ctx(ctx)->scope = NULL;
    model_free(&m);
    test_ctx_free(ctx);
}

static void an_input_from_outside_a_region_may_not_be_written(void **state)
{
    (void)state;
    rp_ctx *ctx   = test_ctx(NULL);
    block_model m = model_new(ctx, 2);

    m.x->name = "batch";
    for (block_regions r = NO_REGIONS; r <= BLOCKS_IN_ONE_REGION; r++) {
        assert_int_equal(step(&m, r, m.x), RP_ERR_MUTATED);
        assert_says(ctx, "'batch'", "rmsnorm", NULL);
        model_drop_grads(&m);
    }
    model_free(&m);
    test_ctx_free(ctx);
}

static void a_write_through_a_view_counts_as_well(void **state)
{
    (void)state;
    rp_ctx *ctx   = test_ctx(NULL);
    block_model m = model_new(ctx, 1);
    rp_tensor *turned, *row;

    assert_ok(ctx, rp_tensor_transpose(m.down[0], 0, 1, &turned));
    assert_ok(ctx, rp_tensor_slice(turned, 1, 3, 1, &row));
    for (block_regions r = NO_REGIONS; r <= A_REGION_A_BLOCK; r++) {
        assert_int_equal(step(&m, r, row), RP_ERR_MUTATED);
        assert_says(ctx, "'down'", "matmul", NULL);
        model_drop_grads(&m);
    }
    rp_tensor_unref(row);
    rp_tensor_unref(turned);
    model_free(&m);
    test_ctx_free(ctx);
}

/* x -> block 0 -> y -> block 1: y is what the second region reads from outside. */
static void a_value_between_regions_may_not_be_written(void **state)
{
    (void)state;
    rp_ctx *ctx   = test_ctx(NULL);
    block_model m = model_new(ctx, 2);

    for (int region = 0; region < 2; region++) {
        rp_tensor *y = block_forward(&m, 0, m.x, region), *z = block_forward(&m, 1, y, region), *loss = sum_all(ctx, z);
        scribble(y);
        assert_int_equal(rp__backward(ctx, loss), RP_ERR_MUTATED);
        assert_says(ctx, "add", "rmsnorm", "fp32 [12, 16]", NULL);
        rp_tensor_unref(y);
        rp_tensor_unref(z);
        rp_tensor_unref(loss);
        model_drop_grads(&m);
    }
    model_free(&m);
    test_ctx_free(ctx);
}

static void a_value_inside_a_region_is_always_recomputed(void **state)
{
    (void)state;
    rp_ctx *ctx  = test_ctx(NULL);
    rp_tensor *w = new_param(ctx, RP_F32, T, H, 1, 1, "w");
    tensor_bits grad[2];

    for (int written = 0; written < 2; written++) {
        assert_ok(ctx, rp__region_begin(ctx, "region"));
        rp_tensor *u = call_op(ctx, "scale", &(rp_attr_scale){ 2 }, w, NULL);
        rp_tensor *y = call_op(ctx, "gelu", &(rp_attr_gelu){ false }, u, NULL);
        assert_ok(ctx, rp__region_end(ctx));
        if (written) scribble(u);
        rp_tensor *loss = sum_all(ctx, y);
        assert_ok(ctx, rp__backward(ctx, loss));
        bits_of(w->grad, &grad[written]);
        drop_grad(w);
        rp_tensor_unref(u);
        rp_tensor_unref(y);
        rp_tensor_unref(loss);
    }
    assert_same_bits(&grad[1], &grad[0], "the gradient");
    rp_tensor_unref(w);
    test_ctx_free(ctx);
}

/* Nobody reads a bias, an addend or a scaled tensor in backward: writing it is allowed, unless a replay reads it. */
static void what_no_backward_and_no_replay_reads_may_be_written(void **state)
{
    (void)state;
    rp_ctx *ctx  = test_ctx(NULL);
    rp_tensor *w = new_param(ctx, RP_F32, T, H, 1, 1, "w");

    for (int region = 0; region < 2; region++) {
        if (region) assert_ok(ctx, rp__region_begin(ctx, "region"));
        rp_tensor *u = call_op(ctx, "scale", &(rp_attr_scale){ 2 }, w, NULL);
        rp_tensor *y = call_op(ctx, "gelu", &(rp_attr_gelu){ false }, u, NULL);
        if (region) assert_ok(ctx, rp__region_end(ctx));
        rp_tensor *loss = sum_all(ctx, y);
        scribble(w);
        assert_int_equal(rp__backward(ctx, loss), region ? RP_ERR_MUTATED : RP_OK);
        if (region) assert_says(ctx, "'w'", "scale", NULL);
        drop_grad(w);
        rp_tensor_unref(u);
        rp_tensor_unref(y);
        rp_tensor_unref(loss);
    }
    rp_tensor_unref(w);
    test_ctx_free(ctx);
}

/* mul reads its inputs later, add does not. */
static void a_constant_buffer_may_be_used_again_when_nobody_reads_it_later(void **state)
{
    (void)state;
    rp_ctx *ctx  = test_ctx(NULL);
    rp_tensor *w = new_param(ctx, RP_F32, T, H, 1, 1, "w"), *buffer = new_tensor(ctx, RP_F32, T, H, RP_MEM_TEMP, 1, 2);
    const char *first[2] = { "add", "mul" };

    buffer->name = "buffer";
    for (int i = 0; i < 2; i++) {
        rp_tensor *y = call_op(ctx, first[i], NULL, w, buffer, NULL);
        scribble(buffer);
        rp_tensor *z = call_op(ctx, "mul", NULL, y, buffer, NULL), *loss = sum_all(ctx, z);
        assert_int_equal(rp__backward(ctx, loss), i ? RP_ERR_MUTATED : RP_OK);
        if (i) assert_says(ctx, "'buffer'", "mul", NULL);
        else assert_true(first_element(w->grad) == first_element(buffer));
        drop_grad(w);
        rp_tensor_unref(y);
        rp_tensor_unref(z);
        rp_tensor_unref(loss);
    }
    rp_tensor_unref(buffer);
    rp_tensor_unref(w);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_parameter_written_before_its_backward_is_an_error_that_names_both),
        cmocka_unit_test(an_input_from_outside_a_region_may_not_be_written),
        cmocka_unit_test(a_write_through_a_view_counts_as_well),
        cmocka_unit_test(a_value_between_regions_may_not_be_written),
        cmocka_unit_test(a_value_inside_a_region_is_always_recomputed),
        cmocka_unit_test(what_no_backward_and_no_replay_reads_may_be_written),
        cmocka_unit_test(a_constant_buffer_may_be_used_again_when_nobody_reads_it_later),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
