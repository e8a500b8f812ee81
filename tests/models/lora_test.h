/* lora_test.h -- an adapter of tests/golden/lora beside its model, batches for it, and its logits. */
#ifndef RP_LORA_TEST_H
#define RP_LORA_TEST_H

#include "golden_model.h"

#include "models/adapter.h"
#include "models/weights.h"

enum { ROWS = 2, TOKENS = 24, ALL = ROWS * TOKENS, BATCHES = 3, STEPS = 12 };

typedef struct {
    rp_ctx *ctx;
    golden *g;
    rp_model *m;
    const char *of;             /* names in the golden begin with it */
} opened;

/* A few may be live at once. */
static inline const char *named(const opened *o, const char *name)
{
    static char ring[4][256];
    static unsigned next;
    char *out = ring[next++ % RP_COUNT(ring)];

    snprintf(out, sizeof ring[0], "%s%s", o->of, name);
    return out;
}

static inline const char *variant_path(char out[RP_GOLDEN_PATH], const char *variant)
{
    char name[128];

    snprintf(name, sizeof name, "lora/%s", variant);
    return golden_path(out, name);
}

static inline opened open_variant(const char *variant)
{
    opened o = { .ctx = test_ctx(NULL), .of = "" };
    char path[RP_GOLDEN_PATH], name[128];

    snprintf(name, sizeof name, "lora/%s/golden", variant);
    o.g         = golden_open(o.ctx, name);
    o.m         = model_at(o.ctx, variant_path(path, variant), NULL, RP_F32);
    rp__tape_ctx(o.ctx)->eval = true;
    return o;
}

static inline void drop_gradients(rp_model *m)
{
    for (int i = 0; i < rp__model_n_params(m); i++) rp_tensor_drop_grad(rp__model_param(m, i)->tensor);
}

static inline void close_variant(opened *o)
{
    drop_gradients(o->m);
    rp__model_free(o->m);
    golden_close(o->g);
    test_ctx_free(o->ctx);
}

/* ---- batches ---- */

static inline rp_tensor *ints(rp_ctx *ctx, const int32_t *v)
{
    rp_meta meta = rp_meta_2d(RP_I32, ROWS, TOKENS);
    rp_tensor *t;

    assert_ok(ctx, rp_tensor_new(ctx, &meta, RP_MEM_TEMP, &t));
    assert_ok(ctx, rp_tensor_write_i32(t, v, ALL));
    return t;
}

/* Position t is asked for the token of t + 1; the last has no target. */
static inline rp_model_batch batch_of(const opened *o, int batch)
{
    int32_t *v = golden_ints(o->g, named(o, "input_ids"), batch * ALL, ALL), labels[ALL];

    for (int i = 0; i < ALL; i++) labels[i] = i % TOKENS == TOKENS - 1 ? -100 : v[i + 1];
    rp_model_batch out = { .tokens = ints(o->ctx, v), .labels = ints(o->ctx, labels) };
    free(v);
    return out;
}

static inline void drop_batch(rp_model_batch *b)
{
    rp_tensor_unref(b->tokens);
    rp_tensor_unref(b->labels);
}

static inline double loss_and_gradients(const opened *o, int batch)
{
    rp_model_batch b = batch_of(o, batch);
    rp_tensor *loss;
    double value;

    rp__pass_begin(o->ctx, 1, 0);
    assert_ok(o->ctx, rp__model_loss(o->m, &b, &(rp_attr_cross_entropy){ .weight = 1.0f / (ROWS * (TOKENS - 1)), .ignore_index = -100 }, &loss));
    assert_ok(o->ctx, rp_tensor_read(loss, &value, 1));
    assert_ok(o->ctx, rp__backward(o->ctx, loss));
    rp_tensor_unref(loss);
    drop_batch(&b);
    return value;
}

static inline double *logits_of(rp_ctx *ctx, rp_model *m, const rp_model_batch *batch, int64_t n)
{
    double *got = malloc((size_t)n * sizeof *got);
    rp_tensor *logits;

    rp__tape_ctx(ctx)->no_grad = true;
    assert_ok(ctx, rp__model_logits(m, batch, &logits));
    rp__tape_ctx(ctx)->no_grad = false;
    assert_ok(ctx, rp_tensor_read(logits, got, n));
    rp_tensor_unref(logits);
    return got;
}

static inline void check_logits(const opened *o, rp_model *m, double limit)
{
    golden_tensor want   = golden_get(o->g, named(o, "logits"));
    rp_model_batch batch = batch_of(o, 0);
    double *got          = logits_of(o->ctx, m, &batch, want.elems);

    assert_max_abs(got, &want, limit);
    free(got);
    golden_tensor_free(&want);
    drop_batch(&batch);
}

static inline int count_trained(const rp_model *m, bool gradients)
{
    int n = 0;

    for (int i = 0; i < rp__model_n_params(m); i++) {
        const rp_tensor *t = rp__model_param(m, i)->tensor;
        n += gradients ? t->grad != NULL : t->requires_grad;
    }
    return n;
}

#endif
