/* Claims about the log of a context: who gets which message, once, and with which level. */
#include "rp_test.h"

#include "reprise/op.h"
#include "reprise/ops.h"
#include "reprise/train.h"
#include "train/temp.h"

enum { LEVELS = RP_LOG_ERROR + 1, DEPTH = 8, ELEMS = 4096 };

typedef struct { int n[LEVELS]; char last[LEVELS][1600]; } heard;

static void listen(rp_log_level level, const char *text, void *user)
{
    heard *h = user;

    assert_true(level <= RP_LOG_ERROR && strlen(text) < sizeof h->last[0] && !strchr(text, '\n'));
    h->n[level]++;
    snprintf(h->last[level], sizeof h->last[level], "%s", text);
}

#define assert_heard(h, level, text) \
    do { \
        if (!strstr((h)->last[level], (text))) fail_msg("'%s' lacks '%s'", (h)->last[level], (text)); \
    } while (0)

static void each_error_and_note_of_a_recipe_is_a_message(void **state)
{
    (void)state;
    static const char *const wrong[] = { "lrr=1", "max_stepz=4" }, *const idle[] = { "sample_tokens=2", "early_stopping.min_delta=1" };
    heard h           = { .n = { 0 } };
    rp_ctx *ctx       = test_ctx(&(rp_ctx_options){ .log = listen, .log_user = &h });
    rp_recipe *recipe = NULL;

    assert_int_equal(rp_recipe_load(ctx, RP_SOURCE_DIR "/recipes/tiny_from_scratch.yaml", 2, wrong, &recipe), RP_ERR_CONFIG);
    assert_int_equal(h.n[RP_LOG_ERROR], 2);
    assert_heard(&h, RP_LOG_ERROR, "max_stepz");
    assert_non_null(strstr(rp_error(ctx), "lrr"));
    assert_non_null(strstr(rp_error(ctx), "(and 1 more)"));
    assert_ok(ctx, rp_recipe_load(ctx, RP_SOURCE_DIR "/recipes/tiny_from_scratch.yaml", 2, idle, &recipe));
    rp_recipe_free(recipe);
    assert_int_equal(h.n[RP_LOG_ERROR], 2);
    assert_int_equal(h.n[RP_LOG_NOTE], 2);
    assert_heard(&h, RP_LOG_NOTE, "argument 'early_stopping.min_delta=1': note: 'early_stopping.min_delta' has no effect");
    test_ctx_free(ctx);
}

static void a_trainer_tells_where_its_state_is_saved(void **state)
{
    (void)state;
    heard h      = { .n = { 0 } };
    temp_dir dir = temp_make();
    rp_ctx *ctx  = test_ctx(&(rp_ctx_options){ .threads = 1, .log = listen, .log_user = &h });
    char output[256];
    const char *settings[] = { output, "model.config=" RP_SOURCE_DIR "/recipes/tiny_llama/config.json", "dataset.path=" RP_SOURCE_DIR "/README.md",
                               "max_seq_len=16", "batch_size=1", "max_steps=2" };
    rp_recipe *recipe = NULL;
    rp_trainer *trainer = NULL;

    snprintf(output, sizeof output, "output_dir=%s/run", dir.path);
    assert_ok(ctx, rp_recipe_load(ctx, RP_SOURCE_DIR "/recipes/tiny_from_scratch.yaml", 6, settings, &recipe));
    assert_ok(ctx, rp_trainer_new(ctx, recipe, &trainer));
    assert_ok(ctx, rp_trainer_step(trainer, NULL));
    h.n[RP_LOG_INFO] = 0;
    assert_ok(ctx, rp_trainer_save(trainer));
    assert_ok(ctx, rp_trainer_save(trainer));
    assert_int_equal(h.n[RP_LOG_INFO], 1);
    assert_heard(&h, RP_LOG_INFO, "the state after step 1 is saved in '");
    assert_heard(&h, RP_LOG_INFO, "/run/");
    rp_trainer_free(trainer);
    rp_recipe_free(recipe);
    test_ctx_free(ctx);
    temp_remove(&dir);
}

typedef struct { rp_ctx *ctx; rp_tensor *w; } net;

static net net_new(const rp_ctx_options *options)
{
    net n = { .ctx = test_ctx(options) };

    assert_ok(n.ctx, rp_param_new(n.ctx, "w", &(rp_meta){ RP_F32, 1, { ELEMS } }, &(rp_init){ .kind = RP_INIT_NORMAL }, &n.w));
    return n;
}

static void net_free(net *n)
{
    rp_tensor_unref(n->w);
    test_ctx_free(n->ctx);
}

/* Products whose backwards read both factors. */
static rp_status net_step(rp_ctx *ctx, void *user)
{
    net *n     = user;
    rp_calls x = rp_calls_begin(ctx, n->w);
    rp_tensor *loss;

    for (int i = 0; i < DEPTH; i++) rp_calls_op(&x, "gelu", &(rp_attr_gelu){ 0 }, NULL);
    rp_calls_op(&x, "sum", &(rp_attr_dim){ 0 }, NULL);
    rp_status status = rp_calls_end(&x, &loss);
    if (status == RP_OK) status = rp_backward(ctx, loss);
    rp_tensor_unref(loss);
    rp_tensor_drop_grad(n->w);
    return status;
}

static void values_that_a_limit_drops_are_a_warning(void **state)
{
    (void)state;
    heard h = { .n = { 0 } };
    rp_mem memory;
    net n = net_new(&(rp_ctx_options){ .threads = 1, .log = listen, .log_user = &h });

    assert_ok(n.ctx, net_step(n.ctx, &n));
    rp_mem_read(n.ctx, 0, false, &memory);
    net_free(&n);
    assert_int_equal(h.n[RP_LOG_WARNING], 0);
    n = net_new(&(rp_ctx_options){ .threads = 1, .memory_limit_bytes = memory.peak_alloc_bytes * 3 / 4, .log = listen, .log_user = &h });
    assert_ok(n.ctx, net_step(n.ctx, &n));
    net_free(&n);
    assert_true(h.n[RP_LOG_WARNING] > 0);
    assert_heard(&h, RP_LOG_WARNING, "the memory limit drops ");
    assert_heard(&h, RP_LOG_WARNING, ", which backward computes or reads again");
}

static void a_plan_tells_its_bytes_and_seconds_once(void **state)
{
    (void)state;
    heard h            = { .n = { 0 } };
    net n              = net_new(&(rp_ctx_options){ .shapes_only = true, .threads = 1, .log = listen, .log_user = &h });
    rp_step_plan *plan = NULL;

    h.n[RP_LOG_INFO] = 0;
    assert_int_equal(rp_plan_step(n.ctx, net_step, &n, 1, &plan), RP_ERR_BUDGET);
    assert_int_equal(h.n[RP_LOG_INFO], 0);
    assert_ok(n.ctx, rp_plan_step(n.ctx, net_step, &n, RP_LEAST_BUDGET, &plan));
    assert_int_equal(h.n[RP_LOG_INFO], 1);
    assert_heard(&h, RP_LOG_INFO, "the plan reserves ");
    assert_heard(&h, RP_LOG_INFO, " s to a step of ");
    assert_int_equal(h.n[RP_LOG_WARNING] + h.n[RP_LOG_ERROR], 0);
    rp_step_plan_free(plan);
    net_free(&n);
}

static void an_offload_tells_how_it_writes(void **state)
{
    (void)state;
    heard h      = { .n = { 0 } };
    temp_dir dir = temp_make();
    net n        = net_new(&(rp_ctx_options){ .log = listen, .log_user = &h });
    char want[256];

    assert_int_equal(setenv("REPRISE_IO", "thread", 1), 0);
    assert_ok(n.ctx, rp_set_offload(n.ctx, &(rp_offload_options){ .folder = dir.path }));
    rp_policy *all = NULL;
    assert_ok(n.ctx, rp_policy_new(n.ctx, "all", &all));
    assert_ok(n.ctx, rp_policy_rule(all, NULL, "gelu", RP_OFFLOAD));
    assert_ok(n.ctx, rp_set_policy(n.ctx, all));
    assert_ok(n.ctx, net_step(n.ctx, &n));
    snprintf(want, sizeof want, "offloaded slots go to '%s' through a thread", dir.path);
    assert_heard(&h, RP_LOG_INFO, want);
    assert_int_equal(unsetenv("REPRISE_IO"), 0);
    assert_ok(n.ctx, rp_set_policy(n.ctx, NULL));
    rp_policy_free(all);
    assert_ok(n.ctx, rp_set_offload(n.ctx, NULL));
    net_free(&n);
    temp_remove(&dir);
}

static rp_status own_shape(rp_op_meta *m)
{
    m->out[0] = m->in[0];
    return RP_OK;
}

static void own_forward(const rp_op_call *c)
{
    for (int64_t e = 0; e < ELEMS; e++) rp_elem_put(c->out[0], e, 2 * rp_elem_get(c->in[0], e));
}

/* An op of the program has no kernels on any GPU. */
static void an_op_that_the_host_computes_is_a_warning_once(void **state)
{
    (void)state;
    static const rp_op own = { .name = "own", .n_in = 1, .n_out = 1, .shape = own_shape, .forward = own_forward };
    heard h      = { .n = { 0 } };
    net n        = net_new(&(rp_ctx_options){ .threads = 1, .device = "emu", .log = listen, .log_user = &h });
    rp_tensor *y = NULL;

    assert_heard(&h, RP_LOG_INFO, "device 'emu': emulated GPU, compute capability 9.0, ");
    assert_ok(n.ctx, rp_op_register(n.ctx, &own));
    for (int i = 0; i < 3; i++) {
        assert_ok(n.ctx, rp_apply(n.ctx, "own", NULL, &n.w, 1, &y));
        rp_tensor_unref(y);
    }
    rp_forget(n.ctx);
    assert_int_equal(h.n[RP_LOG_WARNING], 1);
    assert_heard(&h, RP_LOG_WARNING, "the device 'emu' has no kernels for the op 'own' on fp32 [4096], so the host computes it");
    net_free(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_op_that_the_host_computes_is_a_warning_once),      /* the first context on this device in the process */
        cmocka_unit_test(each_error_and_note_of_a_recipe_is_a_message),
        cmocka_unit_test(a_trainer_tells_where_its_state_is_saved),
        cmocka_unit_test(values_that_a_limit_drops_are_a_warning),
        cmocka_unit_test(a_plan_tells_its_bytes_and_seconds_once),
        cmocka_unit_test(an_offload_tells_how_it_writes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
