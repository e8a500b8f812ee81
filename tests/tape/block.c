/* block.c -- see block.h. */
#include "tape/block.h"

block_model model_new(rp_ctx *ctx, int n_blocks)
{
    block_model m = { .ctx = ctx, .n_blocks = n_blocks };

    m.x      = new_tensor(ctx, RP_F32, T, H, RP_MEM_TEMP, 1, 1);
    m.labels = new_labels(ctx, T, VOCAB);
    m.head   = new_param(ctx, RP_F32, VOCAB, H, 0.3, 2, "head");
    for (int i = 0; i < n_blocks; i++) {
        m.gain[i] = new_param(ctx, RP_F32, 0, H, 1, 10 + (uint32_t)i, "gain");
        m.up[i]   = new_param(ctx, RP_F32, F, H, 0.3, 20 + (uint32_t)i, "up");
        m.down[i] = new_param(ctx, RP_F32, H, F, 0.3, 30 + (uint32_t)i, "down");
    }
    return m;
}

rp_tensor *model_param(block_model *m, int i)
{
    rp_tensor **kind[] = { m->gain, m->up, m->down };

    if (i == 0) return m->head;
    return i <= 3 * m->n_blocks ? kind[(i - 1) % 3][(i - 1) / 3] : NULL;
}

void model_drop_grads(block_model *m)
{
    for (int i = 0; model_param(m, i); i++) drop_grad(model_param(m, i));
}

void model_free(block_model *m)
{
    for (int i = 0; model_param(m, i); i++) rp_tensor_unref(model_param(m, i));
    rp_tensor_unref(m->x);
    rp_tensor_unref(m->labels);
}

static rp_tensor *then(rp_ctx *ctx, const char *op, const void *attr, rp_tensor *taken, rp_tensor *other)
{
    rp_tensor *y = call_op(ctx, op, attr, taken, other, NULL);

    rp_tensor_unref(taken);
    return y;
}

rp_tensor *block_forward(block_model *m, int i, rp_tensor *x, bool region)
{
    rp_ctx *ctx = m->ctx;

    if (region) assert_ok(ctx, rp__region_begin(ctx, "block"));
    rp_tensor *y = call_op(ctx, "rmsnorm", &(rp_attr_norm){ .eps = 1e-5f }, x, m->gain[i], NULL);
    y = then(ctx, "matmul", &(rp_attr_matmul){ true }, y, m->up[i]);
    y = then(ctx, "gelu", &(rp_attr_gelu){ false }, y, NULL);
    y = then(ctx, "matmul", &(rp_attr_matmul){ true }, y, m->down[i]);
    y = then(ctx, "dropout", &(rp_attr_dropout){ 0.1f }, y, NULL);
    y = then(ctx, "add", NULL, y, x);
    if (region) assert_ok(ctx, rp__region_end(ctx));
    return y;
}

rp_tensor *model_forward(block_model *m, block_regions regions)
{
    bool around = regions == ONE_REGION || regions == BLOCKS_IN_ONE_REGION;
    bool each   = regions == A_REGION_A_BLOCK || regions == BLOCKS_IN_ONE_REGION;
    rp_tensor *x = rp_tensor_ref(m->x), *loss;

    rp__tape_ctx(m->ctx)->pass++;
    if (around) assert_ok(m->ctx, rp__region_begin(m->ctx, "blocks"));
    for (int i = 0; i < m->n_blocks; i++) {
        rp_tensor *y = block_forward(m, i, x, each);
        rp_tensor_unref(x);
        x = y;
    }
    if (around) assert_ok(m->ctx, rp__region_end(m->ctx));
    loss = call_op(m->ctx, "linear_cross_entropy", &(rp_attr_cross_entropy){ 1.0f / T, -100, 0, 0, 0, 0, 0 }, x, m->head, m->labels, NULL);
    rp_tensor_unref(x);
    return loss;
}
