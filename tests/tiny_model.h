/* tiny_model.h -- a decoder of either family with random weights, small enough to run hundreds of times. */
#ifndef RP_TINY_MODEL_H
#define RP_TINY_MODEL_H

#include "rp_test.h"
#include "models/weights.h"
#include "tape/tape.h"

enum { TINY_VOCAB = 61, TINY_CONTEXT = 32 };

typedef struct { bool gpt2; double dropout, init_std; rp_dtype dtype; } tiny_model;

static inline rp_model *tiny_model_new(rp_ctx *ctx, tiny_model t)
{
    rp_model_config config = {
        .vocab = TINY_VOCAB, .hidden = 24, .n_layers = 3, .n_heads = 6, .n_kv_heads = t.gpt2 ? 6 : 2, .head_dim = 4, .mlp_hidden = 40,
        .context = TINY_CONTEXT, .norm = t.gpt2 ? RP_NORM_LAYER : RP_NORM_RMS, .norm_eps = 1e-5,
        .activation = t.gpt2 ? RP_ACT_GELU_TANH : RP_ACT_SILU, .gated_mlp = !t.gpt2, .fused_qkv = t.gpt2, .qkv_bias = t.gpt2,
        .attn_output_bias = t.gpt2, .mlp_bias = t.gpt2, .tied = t.gpt2, .weights_in_out = t.gpt2, .learned_positions = t.gpt2,
        .rope = { .kind = t.gpt2 ? RP_ROPE_NONE : RP_ROPE_DEFAULT, .theta = 10000, .factor = 1 }, .attn_scale = 0.5,
        .embd_dropout = t.dropout, .attn_dropout = t.dropout, .resid_dropout = t.dropout, .bos = -1, .eos = -1,
        .init_std = t.init_std ? t.init_std : 0.3,
    };
    rp_model *m;

    assert_ok(ctx, rp__model_build(ctx, &config, t.dtype, &m));
    rp__model_init(m, 11);
    return m;
}

static inline rp_tensor *tiny_ids(rp_ctx *ctx, const int32_t *ids, int64_t n)
{
    rp_meta meta = rp_meta_2d(RP_I32, 1, n);
    rp_tensor *t;

    assert_ok(ctx, rp_tensor_new(ctx, &meta, RP_MEM_TEMP, &t));
    assert_ok(ctx, rp_tensor_write_i32(t, ids, n));
    return t;
}

/* Of all n places at once, [n, TINY_VOCAB] in evaluation mode; yours to free. */
static inline double *tiny_logits(rp_ctx *ctx, rp_model *m, const int32_t *ids, int64_t n)
{
    rp_model_batch batch = { .tokens = tiny_ids(ctx, ids, n) };
    double *v            = malloc((size_t)(n * TINY_VOCAB) * sizeof *v);
    rp_tensor *logits;

    rp__tape_ctx(ctx)->no_grad = true;
    rp__tape_ctx(ctx)->eval = true;
    assert_ok(ctx, rp__model_logits(m, &batch, &logits));
    rp__tape_ctx(ctx)->eval = false;
    rp__tape_ctx(ctx)->no_grad = false;
    assert_ok(ctx, rp_tensor_read(logits, v, n * TINY_VOCAB));
    rp_tensor_unref(logits);
    rp_tensor_unref(batch.tokens);
    return v;
}

#endif
