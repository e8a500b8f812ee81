/* sized_model.h -- a decoder of either family and of any size, a batch for it, and ways to checkpoint it.
 *
 *   sized_model m = sized_model_new(ctx, &(sizes){ SIZES_TINY, .dtype = RP_BF16 });
 *   way_begin(ctx, sized_root(&m), &(way){ "every 2nd", .mode = RP_MODE_SELECTIVE_LAYER, .every = 2 }, &u);
 *   sized_loss(&m, step, sample_base, &loss);       the forward alone
 *   way_end(&u);
 *   sized_model_free(&m);
 */
#ifndef RP_SIZED_MODEL_H
#define RP_SIZED_MODEL_H

#include "rp_test.h"

#include "models/weights.h"
#include "policy/modes.h"
#include "policy/stack.h"
#include "tape/tape.h"

typedef struct {
    int64_t batch, length, layers, hidden, heads, kv_heads, head_dim, mlp, vocab;
    int64_t experts;                /* of a Llama, two of which a token goes to; 0: an MLP */
    bool gpt2, packed;              /* packed: two documents a row */
    double dropout;
    rp_dtype dtype;
} sizes;

#define SIZES_TINY .batch = 2, .length = 6, .layers = 3, .hidden = 12, .heads = 3, .kv_heads = 1, .head_dim = 4, .mlp = 20, .vocab = 29

/* What a recipe would say. Lists end with NULL. */
typedef struct {
    const char *name;
    int mode;                       /* RP_MODE_… */
    int64_t every, offset;
    const char *save[4], *conditions[4], *rules;
} way;

typedef struct { rp_ctx *ctx; sizes sizes; rp_model *model; } sized_model;

static inline sized_model sized_model_new(rp_ctx *ctx, const sizes *s)
{
    rp_model_config config = {
        .vocab = s->vocab, .hidden = s->hidden, .n_layers = s->layers, .n_heads = s->heads,
        .n_kv_heads = s->gpt2 ? s->heads : s->kv_heads, .head_dim = s->head_dim, .mlp_hidden = s->mlp, .context = s->length,
        .norm = s->gpt2 ? RP_NORM_LAYER : RP_NORM_RMS, .norm_eps = 1e-5, .activation = s->gpt2 ? RP_ACT_GELU_TANH : RP_ACT_SILU,
        .gated_mlp = !s->gpt2, .fused_qkv = s->gpt2, .qkv_bias = s->gpt2, .attn_output_bias = s->gpt2, .mlp_bias = s->gpt2,
        .tied = s->gpt2, .weights_in_out = s->gpt2, .learned_positions = s->gpt2,
        .rope = { .kind = s->gpt2 ? RP_ROPE_NONE : RP_ROPE_DEFAULT, .theta = 10000, .factor = 1 }, .attn_scale = 0.5,
        .embd_dropout = s->dropout, .attn_dropout = s->dropout, .resid_dropout = s->dropout, .bos = -1, .eos = -1, .init_std = 0.3,
        .experts = s->experts, .experts_chosen = 2, .expert_hidden = s->mlp,
    };
    sized_model m = { .ctx = ctx, .sizes = *s };

    assert_ok(ctx, rp__model_build(ctx, &config, s->dtype, &m.model));
    assert_ok(ctx, rp__model_reserve_length(m.model, s->length));
    rp__model_init(m.model, 11);
    return m;
}

static inline void sized_model_free(sized_model *m) { rp__model_free(m->model); }
static inline rp_module *sized_root(const sized_model *m) { return rp__model_root(m->model); }

/* ---- ways ---- */

typedef struct {
    rp_ctx *ctx;
    rp_module *root;
    rp_condition *condition[4];
    int n_conditions;
    rp_policy *rules;
    rp_selection selection;
} way_in_use;

/* Ended before the model goes; pass the same place to both, as it is pointed at. */
static inline void way_begin(rp_ctx *ctx, rp_module *root, const way *w, way_in_use *u)
{
    rp_mode_input in = { .mode = w->mode, .layers = "layers", .every = w->every ? w->every : 1, .offset = w->offset, .save = w->save,
                         .save_place = { "save", 0 }, .condition = u->condition };

    *u = (way_in_use){ .ctx = ctx, .root = root };
    for (; w->conditions[in.n_conditions]; in.n_conditions++)
        assert_ok(ctx, rp_condition_read(ctx, w->conditions[in.n_conditions], &u->condition[in.n_conditions]));
    while (in.n_save < RP_COUNT(w->save) && w->save[in.n_save]) in.n_save++;
    if (w->rules) {
        assert_ok(ctx, rp_policy_read(ctx, w->name, w->rules, &u->rules));
        in.rule    = u->rules->rule;
        in.n_rules = u->rules->n_rules;
    }
    u->n_conditions = in.n_conditions;
    assert_ok(ctx, rp__selection_open(ctx, &in, &u->selection));
    for (int i = 0; i < u->selection.n_conditions; i++) rp_module_checkpoint(root, rp_condition_holds, u->selection.condition[i]);
    rp_set_policy(ctx, u->selection.policy);
}

/* Nothing of what was recorded may be left. */
static inline void way_end(way_in_use *u)
{
    rp_set_policy(u->ctx, NULL);
    rp_module_checkpoint(u->root, NULL, NULL);
    rp__selection_close(&u->selection);
    rp_policy_free(u->rules);
    while (u->n_conditions) rp_condition_free(u->condition[--u->n_conditions]);
}

/* ---- a forward ---- */

static inline rp_tensor *sized_ints(const sized_model *m, int32_t (*value)(const sizes *s, int64_t row, int64_t at, int salt), int salt)
{
    const sizes *s = &m->sizes;
    rp_meta meta   = rp_meta_2d(RP_I32, s->batch, s->length);
    rp_tensor *t;

    assert_ok(m->ctx, rp_tensor_new(m->ctx, &meta, RP_MEM_TEMP, &t));
    double *v = test_room(t);
    for (int64_t i = 0; i < s->batch * s->length; i++) v[i] = value(s, i / s->length, i % s->length, salt);
    test_put(t, v);
    return t;
}

static inline int32_t sized_token(const sizes *s, int64_t row, int64_t at, int salt)
{
    return (int32_t)((row * 7 + at * at * 3 + at + salt * 11) % s->vocab);
}
static inline int32_t sized_half(const sizes *s, int64_t row) { return (int32_t)((s->length + row) / 2); }
static inline int32_t sized_doc_start(const sizes *s, int64_t row, int64_t at, int salt)
{
    (void)salt;
    return at < sized_half(s, row) ? 0 : sized_half(s, row);
}
static inline int32_t sized_position(const sizes *s, int64_t row, int64_t at, int salt)
{
    return (int32_t)at - sized_doc_start(s, row, at, salt);
}

/* The mean loss of a batch that step and sample draw. */
static inline rp_status sized_loss(sized_model *m, int step, int64_t sample_base, rp_tensor **loss)
{
    int salt             = step * 16 + (int)sample_base;
    rp_model_batch batch = { .tokens = sized_ints(m, sized_token, salt), .labels = sized_ints(m, sized_token, salt + 5) };

    if (m->sizes.packed) {
        batch.positions = sized_ints(m, sized_position, 0);
        batch.doc_start = sized_ints(m, sized_doc_start, 0);
    }
    rp__pass_begin(m->ctx, step, sample_base);
    rp_attr_cross_entropy mean = { .weight = 1.0f / (float)(m->sizes.batch * m->sizes.length), .ignore_index = -100 };
    rp_status status           = rp__model_loss(m->model, &batch, &mean, loss);
    rp_tensor_unref(batch.tokens);
    rp_tensor_unref(batch.labels);
    rp_tensor_unref(batch.positions);
    rp_tensor_unref(batch.doc_start);
    return status;
}

static inline void sized_drop_grads(const sized_model *m)
{
    for (int i = 0; i < rp__model_n_params(m->model); i++) rp_tensor_drop_grad(rp__model_param(m->model, i)->tensor);
}

#endif
