/* models/gguf/config_write.c -- writes a config as the metadata of a GGUF file, and refuses models that llama.cpp computes differently.
 *
 * llama.cpp derives several values from the architecture, because GGUF has no key for them: the activation, which blocks have a window,
 * the scale of scores. A model with other values would be another model in llama.cpp. */
#include "models/gguf/internal.h"

#include <inttypes.h>
#include <math.h>

#include "base/report.h"

/* The values that llama.cpp's code of an architecture computes with. */
typedef struct {
    const char *name;
    rp_activation activation;
    bool output_bias, mlp_bias;         /* of attention's output; of the MLP */
    int window_every;                   /* all blocks except every n-th have a window; 0: none has */
    bool keeps_window;                  /* llama.cpp has no window, but the file may say so */
    int64_t largest;                    /* number of blocks of the model whose scale is hidden / heads; 0: none */
    bool ties, caps;                    /* always */
} ability;

static const ability abilities[] = {
    { .name = "llama", .activation = RP_ACT_SILU, .output_bias = true, .mlp_bias = true },
    { .name = "gpt2", .activation = RP_ACT_GELU_TANH, .output_bias = true, .mlp_bias = true },
    { .name = "qwen2", .activation = RP_ACT_SILU },
    { .name = "qwen3", .activation = RP_ACT_SILU },
    { .name = "qwen3moe", .activation = RP_ACT_SILU },
    { .name = "gemma2", .activation = RP_ACT_GELU_TANH, .window_every = 2, .largest = 46, .ties = true, .caps = true },
    { .name = "gemma3", .activation = RP_ACT_GELU_TANH, .window_every = 6, .largest = 62 },
    { .name = "phi3", .activation = RP_ACT_SILU, .keeps_window = true },
    { .name = "olmo2", .activation = RP_ACT_SILU },
};

static const ability *ability_of(const rp_family *f)
{
    for (int i = 0; i < RP_COUNT(abilities); i++)
        if (f->gguf_architecture && !strcmp(abilities[i].name, f->gguf_architecture)) return &abilities[i];
    return NULL;
}

static bool has_windows(const rp_model_config *c, const ability *a)
{
    bool same = !a->window_every || c->window;

    for (int64_t i = 0; i < c->n_layers && !a->keeps_window; i++)
        same = same && rp__model_config_window(c, i) == (a->window_every && (i + 1) % a->window_every ? c->window : 0);
    return same;
}

static bool has_scale(const rp_model_config *c, const ability *a)
{
    int64_t size = c->n_layers == a->largest ? c->hidden / c->n_heads : c->head_dim;

    return !c->attn_scale_by_layer && fabs(c->attn_scale * sqrt((double)size) - 1) < 1e-6;
}

static bool has_experts(const rp_model_config *c)
{
    bool same = !c->experts || c->experts_renormalise;

    for (int64_t i = 0; i < c->n_layers; i++) same = same && rp__model_config_experts(c, i) == c->experts;
    return same;
}

static bool has_rope(const rp_model_config *c, const ability *a)
{
    bool llama3 = c->rope.kind == RP_ROPE_LLAMA3 && !strcmp(a->name, "llama");
    bool window = c->window_rope.kind == RP_ROPE_NONE || c->window_rope.kind == RP_ROPE_DEFAULT;

    return window && (llama3 || c->rope.kind == RP_ROPE_NONE || c->rope.kind == RP_ROPE_DEFAULT || c->rope.kind == RP_ROPE_LINEAR);
}

/* Names the part that llama.cpp computes with another value. NULL: there is none. */
static const char *difference(const rp_model_config *c, const ability *a)
{
    if (c->activation != a->activation) return "another activation";
    if (!has_windows(c, a)) return "other windows";
    if (!has_scale(c, a)) return "another scale of scores";
    if (!has_rope(c, a)) return "other rotary positions";
    if ((c->attn_output_bias && !a->output_bias) || (c->mlp_bias && !a->mlp_bias)) return "no such biases";
    if (!has_experts(c)) return "experts in every block, with weights that sum to 1";
    if (a->ties && !c->tied) return "an output that shares the embedding";
    if (a->caps && !(c->attn_softcap > 0 && c->logit_softcap > 0)) return "caps of scores and logits";
    return NULL;
}

rp_status rp__gguf_check_config(rp_ctx *ctx, const rp_model_config *c)
{
    const ability *a = ability_of(c->family);
    char known[128]  = "";
    size_t used      = 0;

    for (int i = 0; i < RP_COUNT(abilities); i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", abilities[i].name);
    RP_CHECK(ctx, a, RP_ERR_UNSUPPORTED, "models of type '%s' are not written to GGUF; these architectures are: %s", c->family->model_type, known);
    const char *other = difference(c, a);
    RP_CHECK(ctx, !other, RP_ERR_UNSUPPORTED, "GGUF cannot hold this model: llama.cpp computes '%s' with %s", a->name, other);
    return RP_OK;
}

/* ---- writing ---- */

typedef enum { NEVER, COUNT, REAL, ROTARY } written;
typedef enum { WHOLE, NUMBER, LATER, INERT, ZERO, ONE, OF_SOME } treatment;

static const struct { const char *key, *theirs; treatment treatment; written written; size_t offset; } keys[] = {
#define RP_GGUF_KEY(key, theirs, treatment, required, written, field) { key, theirs, treatment, written, offsetof(rp_model_config, field) },
#include "models/gguf/keys.def"
#undef RP_GGUF_KEY
};

typedef struct { rp_gguf_writer *writer; const char *architecture; } adding;

static const char *full_key(const adding *a, const char *key, char out[RP_WEIGHT_NAME_CHARS])
{
    snprintf(out, RP_WEIGHT_NAME_CHARS, "%s.%s", a->architecture, key);
    return out;
}

static bool belongs(const rp_family *f, int i)
{
    const char *theirs = rp__gguf_key_theirs(f, keys[i].key, keys[i].theirs);

    if (keys[i].written == NEVER || (keys[i].written == ROTARY && !rp__gguf_is_rotary(f))) return false;
    if (keys[i].treatment == OF_SOME) return rp__family_field(f, theirs);
    return keys[i].treatment == LATER || theirs;
}

static rp_status add_key(const adding *a, const rp_model_config *c, int i)
{
    const char *at = (const char *)c + keys[i].offset;
    char key[RP_WEIGHT_NAME_CHARS];
    int64_t whole;
    double number;

    memcpy(&whole, at, sizeof whole);
    memcpy(&number, at, sizeof number);
    full_key(a, keys[i].key, key);
    if (keys[i].written != REAL) return whole ? rp__gguf_add_u32(a->writer, key, (uint32_t)whole) : RP_OK;
    return number > 0 ? rp__gguf_add_f32(a->writer, key, (float)number) : RP_OK;
}

static rp_status add_scaling(const adding *a, const rp_model_config *c)
{
    char key[RP_WEIGHT_NAME_CHARS];

    if (c->rope.kind != RP_ROPE_LINEAR) return RP_OK;
    RP_TRY(rp__gguf_add_text(a->writer, full_key(a, "rope.scaling.type", key), rp__gguf_text("linear")));
    return rp__gguf_add_f32(a->writer, full_key(a, "rope.scaling.factor", key), (float)c->rope.factor);
}

static void note_ignored(const rp_model_config *c, rp_report *report)
{
    if (ability_of(c->family)->keeps_window && c->window && c->window < c->context)
        rp__report_note(report, (rp_place){ "sliding_window", 0 }, "llama.cpp ignores the window of %" PRId64 " tokens: it computes other logits for "
                        "longer texts", c->window);
}

rp_status rp__gguf_add_config(rp_gguf_writer *writer, const rp_model_config *config, rp_report *report)
{
    const adding a    = { writer, config->family->gguf_architecture };
    rp_model_config c = *config;        /* with the values that rp_model_config leaves at 0 for "all" */

    if (!c.rotary_dim) c.rotary_dim = c.head_dim;
    if (c.window_rope.kind == RP_ROPE_NONE) c.window_rope.theta = 0;
    for (int i = 0; i < RP_COUNT(keys); i++)
        if (belongs(c.family, i)) RP_TRY(add_key(&a, &c, i));
    note_ignored(config, report);
    return add_scaling(&a, &c);
}
