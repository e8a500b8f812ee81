/* Claims about what a program says when it loads a model: the plain boolean, a condition, a policy. */
#include "rp_test.h"
#include "tape/tape.h"

enum { LENGTH = 24 };

static bool is_mlp(const char *path, const rp_module *module, void *user)
{
    (void)path;
    (void)user;
    return !strcmp(rp_module_type(module), "MLP");
}

typedef struct { double loss, grad; int64_t saved_bytes, replays; } outcome;

static outcome run(rp_ctx *ctx, rp_model_options options)
{
    rp_meta meta = rp_meta_2d(RP_I32, 1, LENGTH);
    rp_tensor *tokens, *labels, *loss = NULL;
    rp_tape_stats stats;
    int32_t ids[LENGTH + 1];
    rp_model *m;
    outcome o;
    rp_mem memory;

    for (int i = 0; i <= LENGTH; i++) ids[i] = i * 37 % 251;
    assert_ok(ctx, rp_model_new(ctx, RP_SOURCE_DIR "/recipes/tiny_llama/config.json", &options, &m));
    assert_ok(ctx, rp_tensor_new(ctx, &meta, RP_MEM_TEMP, &tokens));
    assert_ok(ctx, rp_tensor_new(ctx, &meta, RP_MEM_TEMP, &labels));
    assert_ok(ctx, rp_tensor_write_i32(tokens, ids, LENGTH));
    assert_ok(ctx, rp_tensor_write_i32(labels, ids + 1, LENGTH));
    rp__tape_stats(ctx, &stats);
    assert_ok(ctx, rp_model_loss(m, tokens, labels, 1.0f / LENGTH, &loss));
    rp_mem_read(ctx, 0, false, &memory);
    assert_ok(ctx, rp_tensor_read(loss, &o.loss, 1));
    assert_ok(ctx, rp_backward(ctx, loss));
    rp__tape_stats(ctx, &stats);
    o.saved_bytes = memory.live_at[RP_MEM_SAVED];
    o.replays     = stats.n_replayed;
    o.grad        = rp_elem_get(rp_tensor_grad(rp_model_param(m, 3, NULL)), 5);
    rp_tensor_unref(loss);
    rp_tensor_unref(tokens);
    rp_tensor_unref(labels);
    rp_model_free(m);
    return o;
}

static void a_loaded_model_takes_its_checkpointing_along(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .seed = 3 });
    rp_policy *policy;

    assert_ok(ctx, rp_policy_read(ctx, "of the test", "[{ op: rmsnorm, fate: recompute }, { op: linear_cross_entropy, fate: recompute }]", &policy));
    outcome plain = run(ctx, (rp_model_options){ .dtype = RP_F32 });
    outcome full  = run(ctx, (rp_model_options){ .dtype = RP_F32, .checkpoint = true });
    outcome mlps  = run(ctx, (rp_model_options){ .dtype = RP_F32, .checkpoint_if = is_mlp });
    outcome norms = run(ctx, (rp_model_options){ .dtype = RP_F32, .policy = policy });
    const outcome *all[] = { &full, &mlps, &norms };

    assert_int_equal(plain.replays, 0);
    for (int i = 0; i < 3; i++) {
        assert_true(all[i]->loss == plain.loss && all[i]->grad == plain.grad);
        assert_true(all[i]->saved_bytes < plain.saved_bytes && all[i]->replays > 0);
    }
    assert_true(full.saved_bytes < mlps.saved_bytes);
    rp_policy_free(policy);
    test_ctx_free(ctx);
}

static void a_pass_that_fails_is_forgotten(void **state)
{
    (void)state;
    rp_ctx *ctx  = test_ctx(&(rp_ctx_options){ .seed = 3 });
    rp_meta meta = rp_meta_2d(RP_I32, 1, LENGTH), other = rp_meta_2d(RP_I32, 2, LENGTH);
    rp_tensor *tokens, *labels, *loss = NULL;
    int32_t ids[2 * LENGTH] = { 0 };
    rp_model *m;
    rp_mem before, after;

    assert_ok(ctx, rp_model_new(ctx, RP_SOURCE_DIR "/recipes/tiny_llama/config.json", &(rp_model_options){ .dtype = RP_F32 }, &m));
    assert_ok(ctx, rp_tensor_new(ctx, &meta, RP_MEM_TEMP, &tokens));
    assert_ok(ctx, rp_tensor_new(ctx, &other, RP_MEM_TEMP, &labels));
    assert_ok(ctx, rp_tensor_write_i32(tokens, ids, LENGTH));
    assert_ok(ctx, rp_tensor_write_i32(labels, ids, 2 * LENGTH));
    assert_int_equal(rp_model_loss(m, tokens, labels, 1, &loss), RP_ERR_SHAPE);     /* the last call of the pass */
    rp_mem_read(ctx, 0, false, &before);
    assert_int_equal(before.live_at[RP_MEM_SAVED], 0);
    rp_forget(ctx);
    rp_mem_read(ctx, 0, false, &after);
    assert_int_equal(after.live_bytes, before.live_bytes);
    rp_tensor_unref(tokens);
    rp_tensor_unref(labels);
    rp_model_free(m);
    test_ctx_free(ctx);
}

static void loss_of_no_rows(rp_ctx *ctx, rp_model *m)
{
    rp_meta meta      = rp_meta_2d(RP_I32, 0, LENGTH);
    rp_tensor *tokens = NULL, *labels = NULL, *loss = NULL;
    double value;

    assert_ok(ctx, rp_tensor_new(ctx, &meta, RP_MEM_TEMP, &tokens));
    assert_ok(ctx, rp_tensor_new(ctx, &meta, RP_MEM_TEMP, &labels));
    assert_ok(ctx, rp_model_loss(m, tokens, labels, 1, &loss));
    assert_ok(ctx, rp_tensor_read(loss, &value, 1));
    assert_true(value == 0);
    assert_ok(ctx, rp_backward(ctx, loss));
    assert_true(rp_elem_get(rp_tensor_grad(rp_model_param(m, 3, NULL)), 5) == 0);
    rp_tensor_unref(loss);
    rp_tensor_unref(tokens);
    rp_tensor_unref(labels);
}

static void a_batch_without_rows_loses_nothing_and_teaches_nothing(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .seed = 3 });

    for (int checkpoint = 0; checkpoint < 2; checkpoint++) {
        rp_model *m;
        assert_ok(ctx, rp_model_new(ctx, RP_SOURCE_DIR "/recipes/tiny_llama/config.json", &(rp_model_options){ .checkpoint = checkpoint }, &m));
        loss_of_no_rows(ctx, m);
        rp_model_free(m);
    }
    test_ctx_free(ctx);
}

static void tokens_that_are_no_batch_of_the_model_are_refused(void **state)
{
    (void)state;
    static const struct { rp_meta tokens; rp_status status; const char *says; } cases[] = {
        { { RP_F32, 2, { 1, 4 } }, RP_ERR_SHAPE, "tokens are fp32 [1, 4], expected int32 [rows, length]" },
        { { RP_I32, 1, { 4 } }, RP_ERR_SHAPE, "tokens are int32 [4], expected int32 [rows, length]" },
        { { RP_I32, 2, { 4, 0 } }, RP_ERR_SHAPE, "tokens are int32 [4, 0], expected int32 [rows, length]" },
        { { RP_I32, 2, { 1, 100000 } }, RP_ERR_ARG, "100000 tokens are more than the model's context of " },
    };
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .shapes_only = true });
    rp_model *m = NULL;

    assert_int_equal(rp_model_new(ctx, RP_SOURCE_DIR "/recipes/tiny_llama/config.json", &(rp_model_options){ .dtype = RP_F64 }, &m), RP_ERR_DTYPE);
    assert_string_equal(rp_error(ctx), "a model is fp32 or bf16, not fp64");
    assert_null(m);
    assert_ok(ctx, rp_model_new(ctx, RP_SOURCE_DIR "/recipes/tiny_llama/config.json", &(rp_model_options){ .dtype = RP_F32 }, &m));
    for (int i = 0; i < RP_COUNT(cases); i++) {
        rp_tensor *tokens, *loss = NULL;
        assert_ok(ctx, rp_tensor_new(ctx, &cases[i].tokens, RP_MEM_TEMP, &tokens));
        assert_int_equal(rp_model_loss(m, tokens, tokens, 1, &loss), cases[i].status);
        assert_int_equal(strncmp(rp_error(ctx), cases[i].says, strlen(cases[i].says)), 0);
        assert_null(loss);
        rp_forget(ctx);
        rp_tensor_unref(tokens);
    }
    rp_model_free(m);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loaded_model_takes_its_checkpointing_along),
        cmocka_unit_test(tokens_that_are_no_batch_of_the_model_are_refused),
        cmocka_unit_test(a_pass_that_fails_is_forgotten),
        cmocka_unit_test(a_batch_without_rows_loses_nothing_and_teaches_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
