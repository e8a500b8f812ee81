/* Batch norm in a model that trains: running statistics are updated once a step, also if the op is recomputed. */
#include "bn_mlp.h"

enum { BLOCKS = 3, STEPS = 3 };

static bool is_root(const char *path, const rp_module *m, void *user)
{
    (void)m;
    (void)user;
    return !*path;
}

/* Which modules are regions; each name adds a condition. */
typedef struct { const char *name, *type[2]; bool root; } regions;

static const regions ways[] = {
    { "no regions", { NULL, NULL }, false },
    { "a region a block", { "Block", NULL }, false },
    { "a region a norm", { "BatchNorm", NULL }, false },
    { "norms inside blocks", { "Block", "BatchNorm" }, false },
    { "norms inside blocks inside all", { "Block", "BatchNorm" }, true },
    { "all", { NULL, NULL }, true },
};

static void checkpoint(const bn_mlp *m, const regions *r)
{
    for (int i = 0; i < 2; i++)
        if (r->type[i]) rp_module_checkpoint(m->root, rp__module_is_type, (void *)r->type[i]);
    if (r->root) rp_module_checkpoint(m->root, is_root, NULL);
}

typedef struct {
    double loss[STEPS];
    bn_mlp_values grad[STEPS], state;
} outcome;

static uint64_t running_version(const bn_mlp *m, int block)
{
    char path[32];
    rp_tensor *mean, *var;

    snprintf(path, sizeof path, "layers.%d.norm", block);
    rp__batch_norm_running(rp_module_find(m->root, path), &mean, &var);
    assert_int_equal(mean->storage->version, var->storage->version);
    return mean->storage->version;
}

/* `frozen`: the norm of this block is in evaluation mode; -1: none. */
static void train(const bn_mlp_options *options, const regions *r, int frozen, outcome *o)
{
    rp_ctx *ctx = test_ctx(NULL);
    bn_mlp m    = bn_mlp_new(ctx, options);
    uint64_t made[BLOCKS];
    char path[32];

    memset(o, 0, sizeof *o);
    snprintf(path, sizeof path, "layers.%d.norm", frozen);
    if (frozen >= 0) rp_module_train(rp_module_find(m.root, path), false);
    checkpoint(&m, r);
    for (int b = 0; b < BLOCKS; b++) made[b] = running_version(&m, b);
    for (int step = 0; step < STEPS; step++) {
        bn_mlp_gradients(&m, step, &o->loss[step]);
        bn_mlp_grads(&m, &o->grad[step]);
        bn_mlp_update(&m);
        for (int b = 0; b < BLOCKS; b++)
            if (running_version(&m, b) - made[b] != (b == frozen ? 0 : (uint64_t)step + 1))
                fail_msg("%s: the statistics of block %d were written %d times in %d steps", r->name, b,
                         (int)(running_version(&m, b) - made[b]), step + 1);
    }
    bn_mlp_state(&m, &o->state);
    bn_mlp_free(&m);
    test_ctx_free(ctx);
}

static void check_all_ways(int frozen)
{
    static outcome expected, got;

    for (int i = 0; i < 4; i++) {
        bn_mlp_options o = { BLOCKS, i & 1 ? 0.3f : 0, i & 2 ? RP_BF16 : RP_F32 };
        train(&o, &ways[0], frozen, &expected);
        assert_true(expected.grad[0].n > 100);
        for (int w = 1; w < RP_COUNT(ways); w++) {
            train(&o, &ways[w], frozen, &got);
            if (memcmp(&got, &expected, sizeof got))
                fail_msg("%s, %s, dropout %g: other bits", ways[w].name, rp_dtype_name(o.dtype), (double)o.dropout);
        }
    }
}

static void regions_keep_every_bit_and_statistics_move_once_a_step(void **state)
{
    (void)state;
    check_all_ways(-1);
}

static void a_frozen_norm_keeps_its_statistics_among_others_that_move(void **state)
{
    (void)state;
    check_all_ways(0);
    check_all_ways(BLOCKS - 1);
}

static void evaluation_reads_the_statistics_and_moves_nothing(void **state)
{
    (void)state;
    rp_ctx *ctx      = test_ctx(NULL);
    bn_mlp_options o = { BLOCKS, 0.3f, RP_F32 };
    static bn_mlp_values before, after;
    double loss[3], first;

    for (int way = 0; way < 2; way++) {
        bn_mlp m = bn_mlp_new(ctx, &o);
        checkpoint(&m, &ways[way]);
        bn_mlp_step(&m, 0, &first);
        bn_mlp_state(&m, &before);
        rp_set_train(ctx, false);
        for (int i = 0; i < 2; i++) {
            bn_mlp_gradients(&m, 1, &loss[i]);
            for (rp_module *at = m.root; at; at = rp__module_next(m.root, at))
                for (int p = 0; p < at->n_params; p++) rp_tensor_drop_grad(at->param[p].tensor);
        }
        rp_set_train(ctx, true);
        bn_mlp_state(&m, &after);
        assert_memory_equal(&after, &before, sizeof after);
        assert_true(loss[0] == loss[1] && loss[0] != first);
        bn_mlp_gradients(&m, 1, &loss[2]);
        assert_true(loss[2] != loss[0]);
        bn_mlp_update(&m);
        bn_mlp_free(&m);
    }
    test_ctx_free(ctx);
}

static int64_t saved_bytes(const regions *r)
{
    rp_ctx *ctx     = test_ctx(NULL);
    bn_mlp m        = bn_mlp_new(ctx, &(bn_mlp_options){ BLOCKS, 0, RP_F32 });
    rp_tensor *loss = NULL;
    rp_mem mem;

    checkpoint(&m, r);
    assert_ok(ctx, bn_mlp_loss(&m, 0, &loss));
    rp_mem_read(ctx, 0, false, &mem);
    rp_tensor_unref(loss);
    rp_forget(ctx);
    bn_mlp_free(&m);
    test_ctx_free(ctx);
    return mem.live_at[RP_MEM_SAVED];
}

/* A block keeps what batch norm reads and the two statistics; its output is the next one's input in any case. */
static void a_region_computes_batch_norm_again(void **state)
{
    (void)state;
    int64_t in_a_block = (BN_ROWS * BN_WIDTH + 2 * BN_WIDTH) * (int64_t)sizeof(float);

    assert_int_equal(saved_bytes(&ways[0]) - saved_bytes(&ways[1]), BLOCKS * in_a_block);
}

static void every_allocation_of_a_step_may_fail(void **state)
{
    (void)state;
    rp_ctx *ctx   = test_ctx(&(rp_ctx_options){ .threads = 1 });
    bn_mlp m      = bn_mlp_new(ctx, &(bn_mlp_options){ 2, 0.1f, RP_F32 });
    test_faults f = { 0 };
    rp_mem before, after;

    checkpoint(&m, &ways[3]);
    rp_mem_read(ctx, 0, false, &before);
    while (!f.over) {
        rp_tensor *loss = NULL;
        test_fault_begin(&f, ctx);
        rp_status status = bn_mlp_loss(&m, 0, &loss);
        if (status == RP_OK) status = rp_backward(ctx, loss);
        test_fault_end(&f, status);
        rp_tensor_unref(loss);
        rp_forget(ctx);
        for (rp_module *at = m.root; at; at = rp__module_next(m.root, at))
            for (int p = 0; p < at->n_params; p++) rp_tensor_drop_grad(at->param[p].tensor);
        rp_mem_read(ctx, 0, false, &after);
        assert_int_equal(after.live_bytes, before.live_bytes);
    }
    bn_mlp_free(&m);
    test_ctx_free(ctx);
}

static void a_new_layer_takes_a_mean_of_zero_and_a_variance_of_one(void **state)
{
    (void)state;
    rp_batch_norm_config config      = { .n = 4, .eps = 1e-5f, .momentum = 0.1f };
    static const rp_module_kind type = { .name = "Root" };
    rp_ctx *ctx                      = test_ctx(NULL);
    rp_module *root, *norm;
    rp_tensor *mean, *var;

    assert_ok(ctx, rp__module_new(ctx, NULL, "", &type, sizeof *root, &root));
    assert_ok(ctx, rp__batch_norm_new(root, "norm", &config, RP_F32, &norm));
    rp__batch_norm_running(norm, &mean, &var);
    for (int i = 0; i < 4; i++) assert_true(rp_elem_get(mean, i) == 0 && rp_elem_get(var, i) == 1);
    rp__module_free(root);
    test_ctx_free(ctx);
}

static void a_layer_without_memory_leaves_nothing(void **state)
{
    (void)state;
    rp_batch_norm_config config      = { .n = 4, .eps = 1e-5f, .momentum = 0.1f };
    static const rp_module_kind type = { .name = "Root" };
    int k                            = 0;

    for (bool fired = true; fired;) {
        rp_ctx *ctx = test_ctx(NULL);
        rp_module *root, *norm;
        assert_ok(ctx, rp__module_new(ctx, NULL, "", &type, sizeof *root, &root));
        ctx->fault_countdown = ++k;
        rp_status status     = rp__batch_norm_new(root, "norm", &config, RP_BF16, &norm);
        fired                = ctx->fault_countdown == 0;
        ctx->fault_countdown = 0;
        assert_int_equal(status, fired ? RP_ERR_MEMORY : RP_OK);
        rp__module_free(root);
        test_ctx_free(ctx);
    }
    assert_true(k > 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(regions_keep_every_bit_and_statistics_move_once_a_step),
        cmocka_unit_test(a_frozen_norm_keeps_its_statistics_among_others_that_move),
        cmocka_unit_test(evaluation_reads_the_statistics_and_moves_nothing),
        cmocka_unit_test(a_region_computes_batch_norm_again),
        cmocka_unit_test(every_allocation_of_a_step_may_fail),
        cmocka_unit_test(a_new_layer_takes_a_mean_of_zero_and_a_variance_of_one),
        cmocka_unit_test(a_layer_without_memory_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
