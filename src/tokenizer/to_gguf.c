/* tokenizer/to_gguf.c -- writes a tokenizer as the metadata of a GGUF file: the reverse of gguf.c, with the same table of names.
 *
 *   gpt2    byte-level BPE: tokens, types, merges, and the name of its pre-tokenizer (gguf_names.def)
 *   llama   BPE of SentencePiece: tokens, types, and scores. The package's files have merges instead. A token's score is then the rank of its first
 *           merge, and the merges that follow from these scores must be the same ones
 */
#include "tokenizer/to_gguf.h"

#include <string.h>

#include "base/json_text.h"
#include "text/bytes.h"
#include "tokenizer/gguf.h"
#include "tokenizer/reader.h"

#define SPACE "\xe2\x96\x81"

typedef struct {
    rp_ctx *ctx;
    rp_tokenizer *t;
    rp_gguf_writer *w;
    rp_report *report;
    rp_tokenizer_source source;
    const json_t *model;                /* of source.root */
    json_t *merges;                     /* pairs [left, right] */
    int64_t vocab;
    bool words, prefix;                 /* SentencePiece's; a space goes in front of a text */
    const char *pre;
} maker;

static rp_status no_memory(const maker *m) { return rp_fail(m->ctx, RP_ERR_MEMORY, "cannot allocate the metadata of the tokenizer"); }

#define REFUSE_UNLESS(m, cond, ...) RP_CHECK((m)->ctx, cond, RP_ERR_UNSUPPORTED, "the tokenizer '%s' has no form in GGUF: " __VA_ARGS__)

/* ---- its kind ---- */

static bool is_replace(const json_t *part)
{
    const char *from = json_string_value(json_object_get(json_object_get(part, "pattern"), "String"));
    const char *to   = json_string_value(json_object_get(part, "content"));

    return !strcmp(rp__part_kind(part), "Replace") && from && to && !strcmp(from, " ") && !strcmp(to, SPACE);
}

static bool is_prepend(const json_t *part)
{
    const char *text = json_string_value(json_object_get(part, "prepend"));

    return !strcmp(rp__part_kind(part), "Prepend") && text && !strcmp(text, SPACE);
}

/* Gemma's files split at spaces, of which the normalizer has left none. */
static bool is_idle(const json_t *parts)
{
    const json_t *one = json_array_get(parts, 0), *at = json_object_get(json_object_get(one, "pattern"), "String");

    return !json_array_size(parts) || (json_array_size(parts) == 1 && !strcmp(rp__part_kind(one), "Split") && json_is_string(at) &&
                                       !strcmp(json_string_value(at), " "));
}

static rp_status find_words(maker *m, const json_t *pre, const json_t *normal)
{
    size_t n = json_array_size(normal);

    m->prefix = n == 2 && is_prepend(json_array_get(normal, 0));
    REFUSE_UNLESS(m, (n == 1 || m->prefix) && is_replace(json_array_get(normal, n - 1)) && is_idle(pre),
                  "its spaces are not marked as in llama.cpp's tokenizer 'llama'", m->source.name);
    m->pre = "default";
    return RP_OK;
}

static rp_status find_pre(maker *m)
{
    json_t *root = m->source.root;
    bool unused, ignores = rp__part_flag(m->model, "ignore_merges", false);
    json_t *pre      = rp__gguf_plain_parts(json_object_get(root, "pre_tokenizer"), "pretokenizers", &m->prefix);
    json_t *normal   = pre ? rp__gguf_plain_parts(json_object_get(root, "normalizer"), "normalizers", &unused) : NULL;
    rp_status status = normal ? RP_OK : no_memory(m);

    if (status == RP_OK) status = m->words ? find_words(m, pre, normal) : rp__gguf_name_of(m->ctx, pre, normal, ignores, &m->pre);
    json_decref(pre);
    json_decref(normal);
    if (status != RP_OK) return status;
    REFUSE_UNLESS(m, m->pre, "llama.cpp has no name for its pre-tokenizer and normalizer", m->source.name);
    return RP_OK;
}

static rp_status find_kind(maker *m)
{
    m->model = json_object_get(m->source.root, "model");
    m->words = rp__part_flag(m->model, "byte_fallback", false);
    REFUSE_UNLESS(m, json_is_array(json_object_get(m->model, "merges")), "its model is no BPE, and llama.cpp's decoders have no other", m->source.name);
    REFUSE_UNLESS(m, rp__part_empty(json_object_get(m->model, "continuing_subword_prefix")) && rp__part_empty(json_object_get(m->model, "end_of_word_suffix")),
                  "its tokens have a prefix or a suffix inside words", m->source.name);
    return find_pre(m);
}

/* ---- merges ---- */

/* "left right", as in older files, or [left, right]. */
static json_t *pair_of(const json_t *merge)
{
    const char *text = json_string_value(merge), *space = text ? strchr(text, ' ') : NULL;

    return space ? json_pack("[s%s]", text, (size_t)(space - text), space + 1) : rp__json_deep_copy(merge);
}

static rp_status list_merges(maker *m)
{
    const json_t *merge;
    size_t i;

    if (!(m->merges = json_array())) return no_memory(m);
    json_array_foreach(json_object_get(m->model, "merges"), i, merge)
        if (json_array_append_new(m->merges, pair_of(merge))) return no_memory(m);
    return RP_OK;
}

static const char *half(const json_t *pair, size_t i) { return json_string_value(json_array_get(pair, i)); }

static rp_status add_merges(const maker *m)
{
    rp_bytes text    = { 0 };
    rp_status status = rp__gguf_begin_texts(m->w, "tokenizer.ggml.merges", (int64_t)json_array_size(m->merges));
    const json_t *pair;
    size_t i;

    json_array_foreach(m->merges, i, pair) {
        text.n = 0;
        if (status == RP_OK) status = rp__bytes_push(m->ctx, &text, half(pair, 0), (int64_t)strlen(half(pair, 0)));
        if (status == RP_OK) status = rp__bytes_push(m->ctx, &text, " ", 1);
        if (status == RP_OK) status = rp__bytes_push(m->ctx, &text, half(pair, 1), (int64_t)strlen(half(pair, 1)));
        if (status == RP_OK) status = rp__gguf_add_item(m->w, (rp_gguf_string){ text.at, text.n });
    }
    rp__release(text.at);
    return status;
}

/* The rank of the first merge that makes a token, counted over tokens; all others rank after them. */
static rp_status fill_scores(const maker *m, float *score)
{
    rp_bytes text = { 0 };
    float next    = 0;
    const json_t *pair;
    size_t i;
    rp_status status = RP_OK;

    for (int64_t id = 0; id < m->vocab; id++) score[id] = -(float)m->vocab;
    json_array_foreach(m->merges, i, pair) {
        text.n = 0;
        for (size_t k = 0; k < 2 && status == RP_OK; k++) status = rp__bytes_push(m->ctx, &text, half(pair, k), (int64_t)strlen(half(pair, k)));
        if (status != RP_OK) break;
        int32_t id = rp__vocab_find_model(&m->t->vocab, text.at, text.n);
        if (id >= 0 && id < m->vocab && score[id] == -(float)m->vocab) score[id] = next--;
    }
    rp__release(text.at);
    return status;
}

static rp_status add_scores(const maker *m)
{
    float *score     = rp__host_alloc(m->ctx, (m->vocab + 1) * (int64_t)sizeof *score);
    rp_status status = score ? fill_scores(m, score) : RP_ERR_MEMORY;

    if (status == RP_OK) status = rp__gguf_add_f32s(m->w, "tokenizer.ggml.scores", score, m->vocab);
    rp__release(score);
    return status;
}

/* ---- tokens ---- */

static bool is_byte(const maker *m, int64_t id)
{
    for (int i = 0; i < 256 && m->words; i++)
        if (m->t->bpe.fallback_id[i] == id) return true;
    return false;
}

static int32_t type_of(const maker *m, int64_t id)
{
    uint32_t flags = id < m->t->vocab.n_ids ? m->t->vocab.token[id].flags : 0;

    if (!flags) return RP_GGUF_TOKEN_UNUSED;
    if (m->words && id == m->t->bpe.unk) return RP_GGUF_TOKEN_UNKNOWN;
    if (flags & RP_TOKEN_ADDED) return flags & RP_TOKEN_SPECIAL ? RP_GGUF_TOKEN_CONTROL : RP_GGUF_TOKEN_USER;
    return is_byte(m, id) ? RP_GGUF_TOKEN_BYTE : RP_GGUF_TOKEN_NORMAL;
}

static rp_status add_tokens(const maker *m)
{
    const rp_vocab *v = &m->t->vocab;

    RP_TRY(rp__gguf_begin_texts(m->w, "tokenizer.ggml.tokens", m->vocab));
    for (int64_t id = 0; id < m->vocab; id++) {
        char filler[32];
        bool known = id < v->n_ids && v->token[id].flags;
        snprintf(filler, sizeof filler, "[PAD%" PRId64 "]", id);
        RP_TRY(rp__gguf_add_item(m->w, known ? (rp_gguf_string){ rp__vocab_text(v, (int32_t)id), v->token[id].bytes } : rp__gguf_text(filler)));
    }
    return RP_OK;
}

static rp_status add_types(const maker *m)
{
    int32_t *type = rp__host_alloc(m->ctx, (m->vocab + 1) * (int64_t)sizeof *type);

    if (!type) return RP_ERR_MEMORY;
    for (int64_t id = 0; id < m->vocab; id++) type[id] = type_of(m, id);
    rp_status status = rp__gguf_add_i32s(m->w, "tokenizer.ggml.token_type", type, m->vocab);
    rp__release(type);
    return status;
}

/* A token's text, or an object that contains it. */
static int32_t named_id(const maker *m, const json_t *value)
{
    const char *text = json_string_value(json_is_object(value) ? json_object_get(value, "content") : value);

    return text ? rp__tokenizer_id(m->t, text) : -1;
}

static rp_status add_ids(const maker *m)
{
    const json_t *unk = json_object_get(m->model, "unk_token");
    const struct { const char *key; int32_t id; } ids[] = {
        { "tokenizer.ggml.bos_token_id", m->t->bos }, { "tokenizer.ggml.eos_token_id", m->t->eos },
        { "tokenizer.ggml.unknown_token_id", named_id(m, json_is_string(unk) ? unk : json_object_get(m->source.config, "unk_token")) },
        { "tokenizer.ggml.padding_token_id", named_id(m, json_object_get(m->source.config, "pad_token")) },
    };

    for (int i = 0; i < RP_COUNT(ids); i++)
        if (ids[i].id >= 0 && ids[i].id < m->vocab) RP_TRY(rp__gguf_add_u32(m->w, ids[i].key, (uint32_t)ids[i].id));
    RP_TRY(rp__gguf_add_bool(m->w, "tokenizer.ggml.add_bos_token", m->t->adds_bos));
    return m->words || m->prefix ? rp__gguf_add_bool(m->w, "tokenizer.ggml.add_space_prefix", m->prefix) : RP_OK;
}

/* ---- losses ---- */

/* GGUF has no such properties. */
static void note_added(const maker *m)
{
    const json_t *token;
    size_t i;

    json_array_foreach(json_object_get(m->source.root, "added_tokens"), i, token) {
        bool takes = rp__part_flag(token, "lstrip", false) || rp__part_flag(token, "rstrip", false) || rp__part_flag(token, "single_word", false);
        const char *text = json_string_value(json_object_get(token, "content"));
        if (takes && text) rp__report_note(m->report, (rp_place){ m->source.name, 0 }, "'%.80s' takes the white space or words beside it, which GGUF "
                                           "cannot express", text);
    }
    if (m->t->vocab.n_ids > m->vocab)
        rp__report_note(m->report, (rp_place){ m->source.name, 0 }, "tokens from %" PRId64 " on have no embedding and are left out", m->vocab);
}

/* Whether the merges that follow from the scores are the tokenizer's. */
static rp_status check_scores(const maker *m)
{
    json_t *root = NULL, *config = NULL;
    rp_bytes held    = { 0 };
    rp_gguf *file    = NULL;
    rp_status status = rp__gguf_peek(m->w, &held, &file);

    if (status == RP_OK) status = rp__tokenizer_from_gguf(m->ctx, file, m->source.name, &root, &config);
    bool same = status == RP_OK && json_equal(json_object_get(json_object_get(root, "model"), "merges"), m->merges);
    json_decref(root);
    json_decref(config);
    rp__gguf_close(file);
    rp__release(held.at);
    if (status != RP_OK) return status;
    REFUSE_UNLESS(m, same, "its merges do not follow from scores of its tokens", m->source.name);
    return RP_OK;
}

/* ---- the whole ---- */

static rp_status make_all(maker *m)
{
    RP_TRY(rp__tokenizer_read(m->ctx, m->t->path, &m->source));
    RP_TRY(find_kind(m));
    RP_TRY(list_merges(m));
    RP_TRY(rp__gguf_add_text(m->w, "tokenizer.ggml.model", rp__gguf_text(m->words ? "llama" : "gpt2")));
    RP_TRY(rp__gguf_add_text(m->w, "tokenizer.ggml.pre", rp__gguf_text(m->pre)));
    RP_TRY(add_tokens(m));
    if (m->words) RP_TRY(add_scores(m));
    RP_TRY(add_types(m));
    if (!m->words) RP_TRY(add_merges(m));
    RP_TRY(add_ids(m));
    note_added(m);
    return m->words ? check_scores(m) : RP_OK;
}

rp_status rp__tokenizer_to_gguf(rp_tokenizer *tokenizer, int64_t vocab, rp_gguf_writer *writer, rp_report *report)
{
    maker m          = { .ctx = tokenizer->ctx, .t = tokenizer, .w = writer, .report = report, .vocab = vocab };
    int64_t lost     = rp__json_lost();
    rp_status status = make_all(&m);

    if (status == RP_OK && rp__json_lost() != lost) status = no_memory(&m);
    json_decref(m.merges);
    rp__tokenizer_source_free(&m.source);
    return status;
}
