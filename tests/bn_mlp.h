/* bn_mlp.h -- a classifier with batch norm that tests train: its statistics show how often each call ran, its masks in which stream.
 *
 *   x ─ layers.0 ─ … ─ layers.N-1 ─ output ─ cross-entropy        type "Classifier", path ""
 *   a block: linear ─ norm ─ relu ─ dropout                       type "Block", children linear, norm
 *
 *   bn_mlp m = bn_mlp_new(ctx, &(bn_mlp_options){ .n_blocks = 3, .dropout = 0.2f, .dtype = RP_F32 });
 *   rp_module_checkpoint(m.root, rp__module_is_type, "Block");
 *   bn_mlp_step(&m, step, &loss);       forward, backward, one step of gradient descent on a batch that `step` draws
 *   bn_mlp_state(&m, &state);           all parameters, then all running statistics
 *   bn_mlp_free(&m);
 */
#ifndef TESTS_BN_MLP_H
#define TESTS_BN_MLP_H

#include "rp_test.h"

#include "base/philox.h"
#include "nn/layers.h"

enum { BN_ROWS = 6, BN_IN = 5, BN_WIDTH = 7, BN_CLASSES = 3, BN_MAX_BLOCKS = 8, BN_MAX_STATE = 1024 };

typedef struct { int n_blocks; float dropout; rp_dtype dtype; } bn_mlp_options;
typedef struct { rp_ctx *ctx; rp_module *root; bn_mlp_options options; } bn_mlp;
typedef struct { int64_t n; double at[BN_MAX_STATE]; } bn_mlp_values;

typedef struct { rp_module m; rp_module *linear, *norm; float dropout; } bn_mlp_block;
typedef struct { rp_module m; rp_module *layers, *output; } bn_mlp_root;

static inline rp_status bn_mlp_block_forward(rp_module *self, rp_tensor *const *in, rp_tensor **out)
{
    bn_mlp_block *b  = (bn_mlp_block *)self;
    rp_tensor *h     = NULL;
    rp_status status = RP_OK;

    RP_TRY_GOTO(rp__module_call(b->linear, in, &h));
    RP_TRY_GOTO(rp__layer_step(b->norm, &h));
    RP_TRY_GOTO(rp__op_step(self->ctx, &rp_op_relu, NULL, &h));
    RP_TRY_GOTO(rp__dropout_step(self->ctx, b->dropout, &h));
    *out = h;
    return RP_OK;
done:
    rp_tensor_unref(h);
    return status;
}

static inline rp_status bn_mlp_forward(rp_module *self, rp_tensor *const *in, rp_tensor **out)
{
    bn_mlp_root *r   = (bn_mlp_root *)self;
    rp_tensor *h     = rp_tensor_ref(in[0]);
    rp_status status = RP_OK;

    for (rp_module *block = r->layers->first_child; block; block = block->next) RP_TRY_GOTO(rp__layer_step(block, &h));
    RP_TRY_GOTO(rp__layer_step(r->output, &h));
    *out = h;
    return RP_OK;
done:
    rp_tensor_unref(h);
    return status;
}

static inline double bn_mlp_draw(uint32_t what, uint32_t element)
{
    return 2 * rp__uniform(rp__philox(what, element, 0, 0, 0).word[0]) - 1;
}

static inline void bn_mlp_block_new(rp_ctx *ctx, rp_module *layers, int i, const bn_mlp_options *o)
{
    static const rp_module_kind type = { .name = "Block", .forward = bn_mlp_block_forward };
    rp_linear_config linear          = { .in = i ? BN_WIDTH : BN_IN, .out = BN_WIDTH, .bias = true };
    rp_batch_norm_config norm        = { .n = BN_WIDTH, .eps = 1e-5f, .momentum = 0.1f };
    char name[16];
    bn_mlp_block *b;

    snprintf(name, sizeof name, "%d", i);
    assert_ok(ctx, rp__module_new(ctx, layers, name, &type, sizeof *b, &b));
    b->dropout = o->dropout;
    assert_ok(ctx, rp__linear_new(&b->m, "linear", &linear, o->dtype, &b->linear));
    assert_ok(ctx, rp__batch_norm_new(&b->m, "norm", &norm, o->dtype, &b->norm));
}

static inline bn_mlp bn_mlp_new(rp_ctx *ctx, const bn_mlp_options *o)
{
    static const rp_module_kind type = { .name = "Classifier", .forward = bn_mlp_forward };
    rp_linear_config output          = { .in = BN_WIDTH, .out = BN_CLASSES, .bias = true };
    uint32_t what                    = 1000;
    bn_mlp_root *r;

    assert_in_range(o->n_blocks, 1, BN_MAX_BLOCKS);
    assert_ok(ctx, rp__module_new(ctx, NULL, "", &type, sizeof *r, &r));
    assert_ok(ctx, rp__module_list_new(&r->m, "layers", &r->layers));
    for (int i = 0; i < o->n_blocks; i++) bn_mlp_block_new(ctx, r->layers, i, o);
    assert_ok(ctx, rp__linear_new(&r->m, "output", &output, o->dtype, &r->output));
    for (rp_module *m = &r->m; m; m = rp__module_next(&r->m, m))
        for (int p = 0; p < m->n_params; p++, what++) {
            double *v = test_room(m->param[p].tensor);
            for (int64_t e = 0; e < rp_meta_elems(&m->param[p].tensor->m); e++) v[e] = bn_mlp_draw(what, (uint32_t)e);
            test_put(m->param[p].tensor, v);
        }
    return (bn_mlp){ ctx, &r->m, *o };
}

static inline void bn_mlp_free(bn_mlp *m) { rp__module_free(m->root); }

/* The mean cross-entropy of the batch that `step` draws. */
static inline rp_status bn_mlp_loss(bn_mlp *m, int step, rp_tensor **loss)
{
    rp_meta x_meta = rp_meta_2d(m->options.dtype, BN_ROWS, BN_IN), labels_meta = rp_meta_1d(RP_I32, BN_ROWS);
    rp_attr_cross_entropy mean = { 1.0f / BN_ROWS, -100, 0, 0, 0, 0, 0 };
    rp_tensor *x = NULL, *labels = NULL, *logits = NULL;
    rp_status status = RP_OK;
    double drawn[BN_ROWS * BN_IN];
    int32_t label[BN_ROWS];

    rp_pass_begin(m->ctx, step, 0);
    RP_TRY_GOTO(rp_tensor_new(m->ctx, &x_meta, RP_MEM_TEMP, &x));
    RP_TRY_GOTO(rp_tensor_new(m->ctx, &labels_meta, RP_MEM_TEMP, &labels));
    for (int e = 0; e < BN_ROWS * BN_IN; e++) drawn[e] = 3 * bn_mlp_draw((uint32_t)step, (uint32_t)e);
    for (int e = 0; e < BN_ROWS; e++) label[e] = (e * 7 + step) % BN_CLASSES;
    if (rp__tensor_real(x)) RP_TRY_GOTO(rp_tensor_write(x, drawn, BN_ROWS * BN_IN));
    if (rp__tensor_real(x)) RP_TRY_GOTO(rp_tensor_write_i32(labels, label, BN_ROWS));
    RP_TRY_GOTO(rp__module_call(m->root, &x, &logits));
    RP_TRY_GOTO(rp__apply(m->ctx, &rp_op_cross_entropy, &mean, (rp_tensor *[]){ logits, labels }, 2, loss));
done:
    rp_tensor_unref(x);
    rp_tensor_unref(labels);
    rp_tensor_unref(logits);
    return status;
}

static inline void bn_mlp_put(bn_mlp_values *v, const rp_tensor *t)
{
    int64_t n = rp_meta_elems(&t->m);

    assert_in_range(v->n + n, 0, BN_MAX_STATE);
    assert_ok(t->ctx, rp_tensor_read(t, v->at + v->n, n));
    v->n += n;
}

/* Gradients that there are, in the order of the parameters. */
static inline void bn_mlp_grads(const bn_mlp *m, bn_mlp_values *v)
{
    memset(v, 0, sizeof *v);
    for (rp_module *at = m->root; at; at = rp__module_next(m->root, at))
        for (int p = 0; p < at->n_params; p++)
            if (at->param[p].tensor->grad) bn_mlp_put(v, at->param[p].tensor->grad);
}

static inline void bn_mlp_state(const bn_mlp *m, bn_mlp_values *v)
{
    rp_tensor *mean, *var;

    memset(v, 0, sizeof *v);
    for (rp_module *at = m->root; at; at = rp__module_next(m->root, at))
        for (int p = 0; p < at->n_params; p++) bn_mlp_put(v, at->param[p].tensor);
    for (rp_module *at = m->root; at; at = rp__module_next(m->root, at)) {
        if (strcmp(rp_module_type(at), "BatchNorm")) continue;
        rp__batch_norm_running(at, &mean, &var);
        bn_mlp_put(v, mean);
        bn_mlp_put(v, var);
    }
}

/* Gradient descent with what backward left; drops it. */
static inline void bn_mlp_update(bn_mlp *m)
{
    for (rp_module *at = m->root; at; at = rp__module_next(m->root, at)) {
        for (int p = 0; p < at->n_params; p++) {
            rp_tensor *t = at->param[p].tensor;
            if (!t->grad) continue;
            double *v = test_values(t), *grad = test_values(t->grad);
            for (int64_t e = 0; e < rp_meta_elems(&t->m); e++) v[e] -= 0.1 * grad[e];
            test_put(t, v);
            free(grad);
            rp_tensor_drop_grad(t);
        }
    }
}

/* Forward and backward; *value is the loss. */
static inline void bn_mlp_gradients(bn_mlp *m, int step, double *value)
{
    rp_tensor *loss = NULL;

    assert_ok(m->ctx, bn_mlp_loss(m, step, &loss));
    assert_ok(m->ctx, rp_tensor_read(loss, value, 1));
    assert_ok(m->ctx, rp_backward(m->ctx, loss));
    rp_tensor_unref(loss);
}

static inline void bn_mlp_step(bn_mlp *m, int step, double *value)
{
    bn_mlp_gradients(m, step, value);
    bn_mlp_update(m);
}

#endif
