/* Claims about the public functions: each pointer that a caller must give is asked for, one at a time. */
/* ctest: device-free */
#include "rp_test.h"

#include "reprise/op.h"
#include "reprise/ops.h"

#define CONFIG RP_SOURCE_DIR "/tests/golden/models/llama_bias/config.json"
#define TOKENIZER RP_SOURCE_DIR "/tests/golden/tokenizer/odd"

#define assert_asks(call) \
    do { if ((call) != RP_ERR_ARG) fail_msg("not refused: %s", #call); } while (0)

/* Of a context that is there, the sentence says so. */
#define assert_asks_in(ctx, call) \
    do { \
        rp_fail((ctx), RP_ERR_ARG, "another"); \
        assert_asks(call); \
        if (!strstr(rp_error(ctx), "an argument is NULL")) fail_msg("%s: %s", #call, rp_error(ctx)); \
    } while (0)

static rp_status keep(rp_ctx *ctx, void *user, rp_tensor *const *in, rp_tensor **out)
{
    (void)ctx;
    (void)user;
    (void)in;
    (void)out;
    return RP_OK;
}

static rp_status step(rp_ctx *ctx, void *user)
{
    (void)ctx;
    (void)user;
    return RP_OK;
}

static rp_fate fate_of(const rp_slot_info *slot, void *user)
{
    (void)user;
    (void)slot;
    return RP_KEEP;
}

static bool is_kept(const rp_slot_info *slot, void *user)
{
    (void)user;
    (void)slot;
    return true;
}

static void tensors_ask_for_their_arguments(void **state)
{
    rp_ctx *ctx  = test_ctx(NULL);
    rp_meta meta = rp_meta_1d(RP_F32, 2);
    rp_tensor *t, *out = NULL;
    double numbers[2];
    int32_t ints[2];
    int64_t dim[1] = { 2 };

    (void)state;
    assert_ok(ctx, rp_tensor_new(ctx, &meta, RP_MEM_TEMP, &t));
    assert_asks(rp_tensor_new(NULL, &meta, RP_MEM_TEMP, &out));
    assert_asks_in(ctx, rp_tensor_new(ctx, NULL, RP_MEM_TEMP, &out));
    assert_asks_in(ctx, rp_tensor_new(ctx, &meta, RP_MEM_TEMP, NULL));
    assert_asks(rp_tensor_reshape(NULL, 1, dim, &out));
    assert_asks_in(ctx, rp_tensor_reshape(t, 1, NULL, &out));
    assert_asks_in(ctx, rp_tensor_reshape(t, 1, dim, NULL));
    assert_asks(rp_tensor_slice(NULL, 0, 0, 1, &out));
    assert_asks_in(ctx, rp_tensor_slice(t, 0, 0, 1, NULL));
    assert_asks(rp_tensor_transpose(NULL, 0, 0, &out));
    assert_asks_in(ctx, rp_tensor_transpose(t, 0, 0, NULL));
    assert_asks(rp_tensor_write(NULL, numbers, 2));
    assert_asks_in(ctx, rp_tensor_write(t, NULL, 2));
    assert_asks(rp_tensor_write_i32(NULL, ints, 2));
    assert_asks_in(ctx, rp_tensor_write_i32(t, NULL, 2));
    assert_asks(rp_tensor_read(NULL, numbers, 2));
    assert_asks_in(ctx, rp_tensor_read(t, NULL, 2));
    assert_asks(rp_tensor_require_grad(NULL, true));
    assert_null(out);
    rp_tensor_unref(t);
    test_ctx_free(ctx);
}

static void calls_and_passes_ask_for_their_arguments(void **state)
{
    rp_ctx *ctx = test_ctx(NULL);
    rp_meta meta = rp_meta_1d(RP_F32, 2);
    rp_tensor *t, *out = NULL;
    rp_module *m;
    rp_checkpoint_function fns[1] = { keep };
    void *users[1] = { NULL };
    rp_step_plan *plan;
    rp_ctx *shapes = test_ctx(&(rp_ctx_options){ .shapes_only = true });
    char *text;

    (void)state;
    assert_ok(ctx, rp_tensor_new(ctx, &meta, RP_MEM_TEMP, &t));
    assert_asks(rp_apply(NULL, "relu", NULL, &t, 1, &out));
    assert_asks_in(ctx, rp_apply(ctx, NULL, NULL, &t, 1, &out));
    assert_asks_in(ctx, rp_apply(ctx, "relu", NULL, NULL, 1, &out));
    assert_asks_in(ctx, rp_apply(ctx, "relu", NULL, &t, 1, NULL));
    assert_asks(rp_apply(ctx, "relu", NULL, (rp_tensor *[]){ NULL }, 1, &out));
    assert_asks(rp_backward(NULL, t));
    assert_asks(rp_backward(ctx, NULL));
    assert_string_equal(rp_error(ctx), "backward needs a loss");
    assert_asks(rp_set_grad(NULL, true));
    assert_asks(rp_set_offload(NULL, NULL));
    assert_asks(rp_set_policy(NULL, NULL));
    assert_asks(rp_op_register(NULL, NULL));
    assert_asks(rp_checkpoint(NULL, keep, NULL, &t, NULL, &out));
    assert_asks(rp_checkpoint(ctx, NULL, NULL, &t, NULL, &out));
    assert_string_equal(rp_error(ctx), "rp_checkpoint: there is no function");
    assert_asks(rp_checkpoint(ctx, keep, NULL, &t, NULL, NULL));
    assert_string_equal(rp_error(ctx), "rp_checkpoint: there is no place for outputs");
    assert_asks(rp_checkpoint_sequential(NULL, fns, users, 1, 1, t, NULL, &out));
    assert_asks_in(ctx, rp_checkpoint_sequential(ctx, NULL, users, 1, 1, t, NULL, &out));
    assert_asks_in(ctx, rp_checkpoint_sequential(ctx, fns, users, 1, 1, NULL, NULL, &out));
    assert_asks_in(ctx, rp_checkpoint_sequential(ctx, fns, users, 1, 1, t, NULL, NULL));
    assert_asks(rp_checkpoint_sequential(ctx, fns, users, 0, 1, t, NULL, &out));
    assert_asks(rp_checkpoint_sequential(ctx, fns, users, 1, 0, t, NULL, &out));
    assert_asks(rp_checkpoint_sequential(ctx, fns, users, 1, 2, t, NULL, &out));
    assert_asks(rp_module_new(NULL, NULL, "m", "M", keep, NULL, &m));
    assert_asks_in(ctx, rp_module_new(ctx, NULL, "m", "M", keep, NULL, NULL));
    assert_asks(rp_module_new(ctx, NULL, "m", NULL, keep, NULL, &m));
    assert_string_equal(rp_error(ctx), "module 'm' has no type");
    assert_asks(rp_module_new(ctx, NULL, "m", "", keep, NULL, &m));
    assert_ok(ctx, rp_module_new(ctx, NULL, "m", "M", keep, NULL, &m));
    assert_asks(rp_module_call(NULL, &t, &out));
    assert_asks_in(ctx, rp_module_call(m, &t, NULL));
    assert_asks(rp_module_print(NULL, &text));
    assert_asks_in(ctx, rp_module_print(m, NULL));
    assert_asks(rp_module_policy(NULL, NULL));
    rp_module_free(m);
    assert_asks(rp_plan_step(NULL, step, NULL, 0, &plan));
    assert_asks_in(shapes, rp_plan_step(shapes, NULL, NULL, 0, &plan));
    assert_asks_in(shapes, rp_plan_step(shapes, step, NULL, 0, NULL));
    assert_asks_in(ctx, rp_step_plan_run(NULL, ctx, step, NULL));
    assert_null(out);
    rp_tensor_unref(t);
    test_ctx_free(ctx);
    test_ctx_free(shapes);
}

static void policies_ask_for_their_arguments(void **state)
{
    rp_ctx *ctx = test_ctx(NULL);
    rp_policy *p;
    rp_condition *c;
    char *text;

    (void)state;
    assert_asks(rp_policy_new(NULL, "p", &p));
    assert_asks_in(ctx, rp_policy_new(ctx, NULL, &p));
    assert_asks_in(ctx, rp_policy_new(ctx, "p", NULL));
    assert_ok(ctx, rp_policy_new(ctx, "p", &p));
    assert_asks(rp_policy_rule(NULL, "*", "*", RP_KEEP));
    assert_asks(rp_policy_call(NULL, fate_of, NULL, NULL));
    assert_asks_in(ctx, rp_policy_call(p, NULL, NULL, NULL));
    assert_asks(rp_policy_keep_if(NULL, is_kept, NULL, NULL));
    assert_asks_in(ctx, rp_policy_keep_if(p, NULL, NULL, NULL));
    assert_asks(rp_policy_idle(NULL, &text));
    assert_asks_in(ctx, rp_policy_idle(p, NULL));
    rp_policy_free(p);
    assert_asks(rp_condition_read(NULL, "{}", &c));
    assert_asks_in(ctx, rp_condition_read(ctx, NULL, &c));
    assert_asks_in(ctx, rp_condition_read(ctx, "{}", NULL));
    assert_asks(rp_policy_read(NULL, "p", "[]", &p));
    assert_asks_in(ctx, rp_policy_read(ctx, NULL, "[]", &p));
    assert_asks_in(ctx, rp_policy_read(ctx, "p", NULL, &p));
    assert_asks_in(ctx, rp_policy_read(ctx, "p", "[]", NULL));
    test_ctx_free(ctx);
}

static void models_ask_for_their_arguments(void **state)
{
    rp_ctx *ctx  = test_ctx(&(rp_ctx_options){ .threads = 1 });
    rp_meta meta = { RP_I32, 2, { 1, 2 } };
    rp_tensor *tokens, *out = NULL;
    rp_model *m = NULL;

    (void)state;
    assert_ok(ctx, rp_tensor_new(ctx, &meta, RP_MEM_TEMP, &tokens));
    assert_asks(rp_model_load(NULL, CONFIG, NULL, &m));
    assert_asks_in(ctx, rp_model_load(ctx, NULL, NULL, &m));
    assert_asks_in(ctx, rp_model_load(ctx, CONFIG, NULL, NULL));
    assert_asks(rp_model_new(NULL, CONFIG, NULL, &m));
    assert_asks_in(ctx, rp_model_new(ctx, NULL, NULL, &m));
    assert_asks_in(ctx, rp_model_new(ctx, CONFIG, NULL, NULL));
    assert_int_equal(rp_model_new(ctx, CONFIG, &(rp_model_options){ .dtype = RP_I32 }, &m), RP_ERR_DTYPE);
    assert_null(m);
    assert_ok(ctx, rp_model_new(ctx, CONFIG, NULL, &m));
    assert_asks(rp_model_logits(NULL, tokens, &out));
    assert_asks_in(ctx, rp_model_logits(m, NULL, &out));
    assert_asks_in(ctx, rp_model_logits(m, tokens, NULL));
    assert_asks(rp_model_reserve(NULL, 1));
    assert_int_equal(rp_model_reserve(m, INT64_MAX), RP_ERR_ARG);
    assert_asks(rp_model_loss(NULL, tokens, tokens, 1, &out));
    assert_asks_in(ctx, rp_model_loss(m, NULL, tokens, 1, &out));
    assert_asks_in(ctx, rp_model_loss(m, tokens, NULL, 1, &out));
    assert_asks_in(ctx, rp_model_loss(m, tokens, tokens, 1, NULL));
    assert_asks(rp_model_save(NULL, "x"));
    assert_asks_in(ctx, rp_model_save(m, NULL));
    assert_null(out);
    rp_model_free(m);
    rp_tensor_unref(tokens);
    test_ctx_free(ctx);
}

static void trainers_ask_for_their_arguments(void **state)
{
    static const char *const setting[] = { "seed=1" };
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .threads = 1 });
    rp_recipe *r;
    rp_trainer *t;
    rp_metrics line;

    (void)state;
    assert_asks(rp_recipe_load(NULL, "tiny_from_scratch", 1, setting, &r));
    assert_asks_in(ctx, rp_recipe_load(ctx, NULL, 1, setting, &r));
    assert_asks_in(ctx, rp_recipe_load(ctx, "tiny_from_scratch", 1, NULL, &r));
    assert_asks_in(ctx, rp_recipe_load(ctx, "tiny_from_scratch", 1, setting, NULL));
    assert_asks_in(ctx, rp_trainer_new(ctx, NULL, &t));
    assert_asks(rp_trainer_step(NULL, &line));
    assert_asks(rp_trainer_save(NULL));
    assert_asks(rp_trainer_finish(NULL));
    assert_asks(rp_trainer_report(NULL));
    test_ctx_free(ctx);
}

static void tokenizers_ask_for_their_arguments(void **state)
{
    rp_ctx *ctx = test_ctx(NULL);
    rp_tokenizer *t;
    int32_t *ids = NULL, one[1] = { 1 };
    int64_t n, bytes;
    char *text = NULL;

    (void)state;
    assert_asks(rp_tokenizer_load(NULL, TOKENIZER, &t));
    assert_asks_in(ctx, rp_tokenizer_load(ctx, NULL, &t));
    assert_asks_in(ctx, rp_tokenizer_load(ctx, TOKENIZER, NULL));
    assert_ok(ctx, rp_tokenizer_load(ctx, TOKENIZER, &t));
    assert_asks(rp_tokenizer_encode(NULL, "a", 1, &ids, &n));
    assert_asks(rp_tokenizer_encode(t, NULL, 1, &ids, &n));
    assert_asks(rp_tokenizer_encode(t, "a", 1, NULL, &n));
    assert_asks(rp_tokenizer_encode(t, "a", 1, &ids, NULL));
    assert_asks(rp_tokenizer_encode(t, "a", -1, &ids, &n));
    assert_asks(rp_tokenizer_decode(NULL, one, 1, &text, &bytes));
    assert_asks(rp_tokenizer_decode(t, NULL, 1, &text, &bytes));
    assert_asks(rp_tokenizer_decode(t, one, 1, NULL, &bytes));
    assert_asks(rp_tokenizer_decode(t, one, 1, &text, NULL));
    assert_true(!ids && !text);
    assert_ok(ctx, rp_tokenizer_encode(t, NULL, 0, &ids, &n));
    assert_ok(ctx, rp_tokenizer_decode(t, NULL, 0, &text, &bytes));
    assert_int_equal(bytes, 0);
    rp_release(ids);
    rp_release(text);
    assert_ok(ctx, rp_tokenizer_encode(t, "word 12", 7, &ids, &n));
    assert_true(n > 0);
    assert_ok(ctx, rp_tokenizer_decode(t, ids, n, &text, &bytes));
    assert_true(bytes >= 4);
    rp_release(ids);
    rp_release(text);
    rp_tokenizer_free(t);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_ask_for_their_arguments),
        cmocka_unit_test(calls_and_passes_ask_for_their_arguments),
        cmocka_unit_test(policies_ask_for_their_arguments),
        cmocka_unit_test(models_ask_for_their_arguments),
        cmocka_unit_test(trainers_ask_for_their_arguments),
        cmocka_unit_test(tokenizers_ask_for_their_arguments),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
