/* models/gguf/config_read.c -- converts the metadata of a GGUF file to the config.json from which it was made.
 *
 *   "llama.embedding_length": 576  ─▶  "hidden_size": 576
 *
 * So one parser checks both formats, and an export has a config.json. As in a config.json, an unknown key is an error. Facts
 * that GGUF metadata lacks are derived from the tensors: tied embeddings, biases, and Llama 3's frequencies (rope_freqs.weight). */
#include "models/gguf/internal.h"

#include <math.h>
#include <string.h>

typedef enum { WHOLE, NUMBER, LATER, INERT, ZERO, ONE, OF_SOME } treatment;

static const struct { const char *gguf, *theirs; treatment treatment; bool required; } keys[] = {
#define RP_GGUF_KEY(key, theirs, treatment, required, written, field) { key, theirs, treatment, required },
#include "models/gguf/keys.def"
#undef RP_GGUF_KEY
};

static const struct { const char *gguf, *theirs; } token_ids[] = {
    { "tokenizer.ggml.bos_token_id",     "bos_token_id" },
    { "tokenizer.ggml.eos_token_id",     "eos_token_id" },
    { "tokenizer.ggml.padding_token_id", "pad_token_id" },
};

typedef struct {
    rp_gguf *file;
    const rp_family *family;
    rp_place place;
    rp_report *report;
    rp_status status;                   /* of the first error */
    json_t *json;
} reader;

#define FAIL(r, s, ...) \
    do { if ((r)->status == RP_OK) (r)->status = (s); rp__report_error((r)->report, (r)->place, __VA_ARGS__); } while (0)

static const rp_gguf_value *get(const reader *r, const char *key)
{
    char name[RP_WEIGHT_NAME_CHARS];

    snprintf(name, sizeof name, "%s.%s", r->family->gguf_architecture, key);
    return rp__gguf_get(r->file, name);
}

static bool is_whole(const rp_gguf_value *v) { return v->kind == RP_GGUF_INT || v->kind == RP_GGUF_UINT; }

static double config_read_number_of(const reader *r, const char *key)
{
    const rp_gguf_value *v = get(r, key);

    return v && (is_whole(v) || v->kind == RP_GGUF_FLOAT) ? v->f : 0;
}

static void set(reader *r, const char *key, json_t *value)
{
    if (json_object_set_new(r->json, key, value) && r->status == RP_OK)
        r->status = rp_fail(r->report->bump.ctx, RP_ERR_MEMORY, "cannot allocate host memory for '%s'", key);
}

/* The shortest decimal number that gives this float: 9.99999975e-06 becomes 1e-05. */
static double shortest(double value)
{
    char text[32];
    double out = value;

    for (int digits = 1; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (rp__parse_double(text, &out) && (float)out == (float)value) return (double)(float)value == value ? out : value;
    }
    return value;
}

/* NULL if the family's config.json has no such field. */
static const rp_config_field *field_of(const reader *r, const char *key) { return rp__family_field(r->family, key); }

/* ---- metadata ---- */

const char *rp__gguf_key_theirs(const rp_family *family, const char *key, const char *otherwise)
{
    for (int k = 0; k < family->n_gguf_keys; k++)
        if (!strcmp(family->gguf_key[k].ours, key)) return family->gguf_key[k].theirs;
    return otherwise;
}

bool rp__gguf_is_rotary(const rp_family *family) { return rp__gguf_key_theirs(family, "rope.freq_base", "rope_theta") != NULL; }

static const char *field_name(const reader *r, int i) { return rp__gguf_key_theirs(r->family, keys[i].gguf, keys[i].theirs); }

/* Returns false if the config.json of this family has no such field. */
static bool has_key(const reader *r, int i) { return (keys[i].treatment != WHOLE && keys[i].treatment != NUMBER) || field_name(r, i); }

/* 0 means none: llama.cpp's converter writes it if config.json has null. */
static void set_or_null(reader *r, const char *key, const rp_gguf_value *v)
{
    if (v->f == 0) set(r, key, json_null());
    else set(r, key, is_whole(v) ? json_integer(v->i) : json_real(shortest(v->f)));
}

static void read_key(reader *r, int i)
{
    const rp_gguf_value *v = get(r, keys[i].gguf);
    const char *arch = r->family->gguf_architecture, *theirs = field_name(r, i);
    bool is_number         = v && (is_whole(v) || v->kind == RP_GGUF_FLOAT || v->kind == RP_GGUF_BOOL);

    if (!has_key(r, i)) return;
    if (!v && keys[i].required) FAIL(r, RP_ERR_CONFIG, "metadata '%s.%s' is missing", arch, keys[i].gguf);
    if (!v || keys[i].treatment == INERT || keys[i].treatment == LATER) return;
    if (keys[i].treatment == WHOLE && is_whole(v)) set(r, theirs, json_integer(v->i));
    else if (keys[i].treatment == NUMBER && (is_whole(v) || v->kind == RP_GGUF_FLOAT) && isfinite(v->f))
        set(r, theirs, json_real(shortest(v->f)));
    else if (keys[i].treatment == WHOLE || keys[i].treatment == NUMBER)
        FAIL(r, RP_ERR_CONFIG, "metadata '%s.%s' is not a %snumber", arch, keys[i].gguf, keys[i].treatment == WHOLE ? "whole " : "");
    else if (keys[i].treatment == OF_SOME && is_number && field_of(r, theirs)) set_or_null(r, theirs, v);
    else if (!is_number || v->f != (keys[i].treatment == ONE))
        FAIL(r, RP_ERR_UNSUPPORTED, "metadata '%s.%s' has a value other than %d, which is not honoured", arch, keys[i].gguf,
             keys[i].treatment == ONE);
}

static void check_unknown(reader *r)
{
    size_t n = strlen(r->family->gguf_architecture);

    for (int64_t i = 0; i < rp__gguf_n_values(r->file); i++) {
        const char *key = rp__gguf_value_at(r->file, i)->key;
        bool known      = strncmp(key, r->family->gguf_architecture, n) || key[n] != '.';
        for (int k = 0; k < RP_COUNT(keys) && !known; k++) known = has_key(r, k) && !strcmp(keys[k].gguf, key + n + 1);
        if (!known) FAIL(r, RP_ERR_UNSUPPORTED, "unknown metadata '%.200s'", key);
    }
}

/* Gemma's scale of scores is not in the file. Like llama.cpp, this recognises the 27B models by their number of blocks. */
static void read_scale(reader *r, double plain, double dim)
{
    double blocks = config_read_number_of(r, "block_count"), largest = !strcmp(r->family->gguf_architecture, "gemma2") ? 46 : 62;

    if (field_of(r, "query_pre_attn_scalar")) set(r, "query_pre_attn_scalar", json_real(blocks == largest ? plain : dim));
}

static bool turns_parts(const reader *r)
{
    const rp_config_field *f = field_of(r, "partial_rotary_factor");

    return f && f->kind == RP_FIELD_LATER;
}

/* All heads have one size and are rotated completely, unless the family supports partial rotation. Default: embedding_length / head_count, as in
 * llama.cpp. */
static void read_head_dim(reader *r)
{
    static const char *const sizes[] = { "attention.key_length", "rope.dimension_count", "attention.value_length" };
    double heads = config_read_number_of(r, "attention.head_count"), plain = heads > 0 ? config_read_number_of(r, "embedding_length") / heads : 0, dim = plain;

    if (get(r, sizes[0])) dim = config_read_number_of(r, sizes[0]);
    for (int i = 0; i < RP_COUNT(sizes); i++) {
        double size = get(r, sizes[i]) ? config_read_number_of(r, sizes[i]) : i == 1 ? dim : plain;
        bool part   = i == 1 && turns_parts(r) && size < dim;
        if (part) set(r, "partial_rotary_factor", json_real(size / dim));
        else if (size != dim)
            FAIL(r, RP_ERR_UNSUPPORTED, "'%s' is %g but heads have %g elements, which is not honoured", sizes[i], size, dim);
    }
    if (!field_of(r, "head_dim") && dim != plain)
        FAIL(r, RP_ERR_UNSUPPORTED, "heads have %g elements, not %g, which '%s' does not honour", dim, plain, r->family->model_type);
    else if (field_of(r, "head_dim") && dim >= 1 && dim <= INT32_MAX && dim == floor(dim)) set(r, "head_dim", json_integer((json_int_t)dim));
    read_scale(r, plain, dim);
}

static void read_tokens(reader *r)
{
    for (int i = 0; i < RP_COUNT(token_ids); i++) {
        const rp_gguf_value *v = rp__gguf_get(r->file, token_ids[i].gguf);
        set(r, token_ids[i].theirs, v && is_whole(v) && v->i >= 0 && v->i <= INT32_MAX ? json_integer(v->i) : json_null());
    }
}

/* ---- rotary scaling ---- */

static void read_scaling(reader *r)
{
    const rp_gguf_value *type = get(r, "rope.scaling.type");
    double factor             = config_read_number_of(r, get(r, "rope.scaling.factor") ? "rope.scaling.factor" : "rope.scale_linear");
    bool is_text              = type && type->kind == RP_GGUF_STRING;
    bool none                 = is_text && type->s.bytes == 4 && !memcmp(type->s.text, "none", 4);
    bool linear               = !type || (is_text && type->s.bytes == 6 && !memcmp(type->s.text, "linear", 6));

    if (!none && !linear) {
        FAIL(r, RP_ERR_UNSUPPORTED, "metadata 'rope.scaling.type' is '%.*s'; these are honoured: none, linear",
             is_text ? (int)(type->s.bytes < 40 ? type->s.bytes : 40) : 1, is_text ? type->s.text : "?");
    } else if (linear && factor != 0 && factor != 1) {
        set(r, "rope_scaling", json_pack("{s:s, s:f}", "rope_type", "linear", "factor", shortest(factor)));
    }
}

enum { MAX_PAIRS = 1 << 15 };

double rp__gguf_llama3_divisor(const rp_rope_config *rope, int64_t i, int64_t pairs)
{
    double turns = (double)rope->original_context / (2 * acos(-1) * pow(rope->theta, (double)i / (double)pairs)), smooth;

    if (turns > rope->high_freq_factor) return 1;
    if (turns < rope->low_freq_factor) return rope->factor;
    smooth = (turns - rope->low_freq_factor) / (rope->high_freq_factor - rope->low_freq_factor);
    return 1 / ((1 - smooth) / rope->factor + smooth);
}

/* A file has the divisors, not the rule. All published Llama 3.x models have these bounds, so the factor, which is the last divisor,
 * determines all others. */
static bool is_llama3(const float *divisor, int64_t pairs, double theta)
{
    const rp_rope_config rope = { .theta = theta, .factor = divisor[pairs - 1], .low_freq_factor = RP_LLAMA3_LOW,
                                  .high_freq_factor = RP_LLAMA3_HIGH, .original_context = (int64_t)RP_LLAMA3_ORIGINAL };

    for (int64_t i = 0; i < pairs; i++) {
        double want = rp__gguf_llama3_divisor(&rope, i, pairs);
        if (!(fabs(divisor[i] - want) <= 1e-4 * want)) return false;
    }
    return true;
}

static rp_status read_frequencies(reader *r)
{
    const rp_gguf_tensor *t = rp__gguf_find(r->file, "rope_freqs.weight");
    double theta            = get(r, "rope.freq_base") ? config_read_number_of(r, "rope.freq_base") : 10000;
    float *divisor;

    if (!t) return RP_OK;
    if (t->ndim != 1 || t->elems < 1 || t->elems > MAX_PAIRS || json_object_get(r->json, "rope_scaling")) {
        FAIL(r, RP_ERR_UNSUPPORTED, "tensor 'rope_freqs.weight' is not a list of one divisor per frequency without other rope scaling");
        return RP_OK;
    }
    if (!(divisor = rp__host_alloc(r->report->bump.ctx, t->elems * (int64_t)sizeof *divisor))) return RP_ERR_MEMORY;
    rp_status status = rp__gguf_read(r->file, t, 0, t->elems, divisor);
    if (status == RP_OK && !is_llama3(divisor, t->elems, theta))
        FAIL(r, RP_ERR_UNSUPPORTED, "tensor 'rope_freqs.weight' holds other divisors than those of Llama 3.x; only these are honoured");
    else if (status == RP_OK)
        set(r, "rope_scaling", json_pack("{s:s, s:f, s:f, s:f, s:i}", "rope_type", "llama3",
                                         "factor", shortest(divisor[t->elems - 1]), "low_freq_factor", RP_LLAMA3_LOW,
                                         "high_freq_factor", RP_LLAMA3_HIGH, "original_max_position_embeddings", (int)RP_LLAMA3_ORIGINAL));
    rp__release(divisor);
    return status;
}

/* ---- the whole ---- */

/* Mixtral has the architecture "llama", too; experts distinguish the two families. */
static bool fits(reader *r, const rp_family *family, const rp_gguf_value *architecture)
{
    const char *name = family->gguf_architecture;

    if ((int64_t)strlen(name) != architecture->s.bytes || memcmp(name, architecture->s.text, strlen(name))) return false;
    r->family = family;
    return strcmp(name, "llama") || (field_of(r, "num_experts_per_tok") != NULL) == (config_read_number_of(r, "expert_count") > 0);
}

static const rp_family *find_family(reader *r)
{
    const rp_gguf_value *v = rp__gguf_get(r->file, "general.architecture");
    bool is_text           = v && v->kind == RP_GGUF_STRING;
    char known[256]        = "";
    size_t used            = 0;

    for (const rp_family *const *f = rp__families; *f && is_text; f++) {
        const char *name = (*f)->gguf_architecture;
        if (!name) continue;
        if (fits(r, *f, v)) return *f;
        if (strstr(known, name)) continue;
        if (used < sizeof known) used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", name);
    }
    if (!is_text) FAIL(r, RP_ERR_CONFIG, "metadata 'general.architecture' is missing");
    else FAIL(r, RP_ERR_UNSUPPORTED, "architecture '%.*s' is not read from GGUF; these are: %s",
              (int)(v->s.bytes < 100 ? v->s.bytes : 100), v->s.text, known);
    return NULL;
}

/* Some converters write the embedding a second time as the output if the model has no output of its own. */
static bool has_own_output(const reader *r)
{
    const rp_gguf_tensor *output = rp__gguf_find(r->file, "output.weight"), *embedding = rp__gguf_find(r->file, "token_embd.weight");

    return output && !(embedding && rp__gguf_same_bytes(r->file, output, embedding));
}

static void read_tensors(reader *r)
{
    const rp_gguf_tensor *embedding = rp__gguf_find(r->file, "token_embd.weight");

    if (!json_object_get(r->json, "vocab_size") && embedding && embedding->ndim == 2)
        set(r, "vocab_size", json_integer(embedding->dim[0]));
    set(r, "tie_word_embeddings", json_boolean(!has_own_output(r)));
    if (field_of(r, "attention_bias")) set(r, "attention_bias", json_boolean(rp__gguf_find(r->file, "blk.0.attn_q.bias") != NULL));
    /* GGUF has no such key, and llama.cpp renormalises. */
    if (field_of(r, "norm_topk_prob")) set(r, "norm_topk_prob", json_true());
    if (field_of(r, "mlp_bias")) set(r, "mlp_bias", json_boolean(rp__gguf_find(r->file, "blk.0.ffn_down.bias") != NULL));
}

static rp_status config_read_all(reader *r)
{
    r->family = find_family(r);
    if (!r->family) return RP_OK;
    set(r, "architectures", json_pack("[s]", r->family->architecture));
    set(r, "model_type", json_string(r->family->model_type));
    for (int i = 0; i < RP_COUNT(keys); i++) read_key(r, i);
    check_unknown(r);
    read_tokens(r);
    read_tensors(r);
    if (!rp__gguf_is_rotary(r->family)) return RP_OK;
    if (!field_of(r, "hidden_activation")) set(r, "hidden_act", json_string("silu"));
    read_head_dim(r);
    read_scaling(r);
    return read_frequencies(r);
}

rp_status rp__gguf_config(rp_ctx *ctx, const char *label, rp_gguf *file, rp_report *report, json_t **out)
{
    reader r         = { .file = file, .place = { label, 0 }, .report = report, .json = json_object() };
    int before       = report->n_errors;
    rp_status status = r.json ? config_read_all(&r) : rp_fail(ctx, RP_ERR_MEMORY, "cannot allocate host memory for '%s'", label);

    if (status == RP_OK) status = report->n_errors > before ? rp__report_status(report, r.status) : r.status;
    if (status == RP_OK) *out = r.json;
    else json_decref(r.json);
    return status;
}
