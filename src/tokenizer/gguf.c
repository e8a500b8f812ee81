/* tokenizer/gguf.c -- converts the metadata of a GGUF file to the equivalent tokenizer.json and tokenizer_config.json.
 *
 * Loading and exporting both use this JSON, so an exported tokenizer encodes like the loaded one.
 */
#include "tokenizer/gguf.h"

#include <stdio.h>
#include <string.h>

#include "base/json_text.h"

typedef struct { const char *name; rp_status (*make)(const rp_gguf_words *w, rp_gguf_parts *out); } maker;

static const maker makers[] = {
    { "gpt2", rp__gguf_make_gpt2 }, { "gemma4", rp__gguf_make_gemma4 }, { "llama", rp__gguf_make_llama }, { "t5", rp__gguf_make_t5 },
    { "bert", rp__gguf_make_bert },
};

/* ---- shared by the makers ---- */

static bool is_text(rp_gguf_string t, const char *text) { return t.bytes == (int64_t)strlen(text) && !memcmp(t.text, text, strlen(text)); }

const rp_gguf_value *rp__words_get(const rp_gguf_words *w, const char *key, rp_gguf_kind want, rp_gguf_kind element)
{
    const rp_gguf_value *v = rp__gguf_get(w->file, key);

    return v && v->kind == want && (want != RP_GGUF_ARRAY || v->element == element) ? v : NULL;
}

bool rp__words_flag(const rp_gguf_words *w, const char *key, bool missing)
{
    const rp_gguf_value *v = rp__words_get(w, key, RP_GGUF_BOOL, 0);

    return v ? v->i : missing;
}

int rp__words_type(const rp_gguf_words *w, int64_t id)
{
    double type = w->types ? rp__gguf_array_number(w->file, w->types, id) : RP_GGUF_TOKEN_NORMAL;

    return type >= 0 && type < 100 ? (int)type : 0;
}

json_t *rp__words_named(const rp_gguf_words *w, const char *key)
{
    const rp_gguf_value *id = rp__gguf_get(w->file, key);

    if (!id || (id->kind != RP_GGUF_INT && id->kind != RP_GGUF_UINT) || id->i < 0 || id->i >= w->tokens->count) return NULL;
    rp_gguf_string t = rp__gguf_array_string(w->file, w->tokens, id->i);
    return json_stringn(t.text, (size_t)t.bytes);
}

rp_status rp__words_bad(const rp_gguf_words *w, int64_t i)
{
    rp_gguf_string t = rp__gguf_array_string(w->file, w->tokens, i);

    return rp_fail(w->ctx, RP_ERR_FORMAT, "cannot read '%s': token %" PRId64 " ('%.*s') comes twice or is not UTF-8", w->name, i,
                   (int)(t.bytes < 80 ? t.bytes : 80), t.text);
}

rp_status rp__words_no_memory(const rp_gguf_words *w)
{
    return rp_fail(w->ctx, RP_ERR_MEMORY, "cannot allocate the tokenizer of '%s'", w->name);
}

rp_status rp__words_add(const rp_gguf_words *w, json_t *vocab, const char *text, int64_t bytes, int64_t id)
{
    size_t before = json_object_size(vocab);

    if (bytes && memchr(text, 0, (size_t)bytes)) return rp__words_bad(w, id);
    json_object_setn_new(vocab, text, (size_t)bytes, json_integer(id));
    return json_object_size(vocab) > before ? RP_OK : rp__words_bad(w, id);
}

/* ---- the lists ---- */

static rp_status find_maker(const rp_gguf_words *w, const maker **out)
{
    const rp_gguf_value *model = rp__words_get(w, "tokenizer.ggml.model", RP_GGUF_STRING, 0);

    RP_CHECK(w->ctx, model, RP_ERR_FORMAT, "cannot read '%s': it has no tokenizer (tokenizer.ggml.model)", w->name);
    for (int i = 0; i < RP_COUNT(makers); i++)
        if (is_text(model->s, makers[i].name)) return *out = &makers[i], RP_OK;
    return rp_fail(w->ctx, RP_ERR_UNSUPPORTED,
                   "cannot read '%s': a tokenizer model '%.*s' is not supported, only gpt2, gemma4, llama, t5 and bert", w->name,
                   (int)(model->s.bytes < 80 ? model->s.bytes : 80), model->s.text);
}

static rp_status find_arrays(rp_gguf_words *w)
{
    w->tokens = rp__words_get(w, "tokenizer.ggml.tokens", RP_GGUF_ARRAY, RP_GGUF_STRING);
    w->merges = rp__words_get(w, "tokenizer.ggml.merges", RP_GGUF_ARRAY, RP_GGUF_STRING);
    w->scores = rp__words_get(w, "tokenizer.ggml.scores", RP_GGUF_ARRAY, RP_GGUF_FLOAT);
    w->types  = rp__words_get(w, "tokenizer.ggml.token_type", RP_GGUF_ARRAY, RP_GGUF_INT);
    if (!w->types) w->types = rp__words_get(w, "tokenizer.ggml.token_type", RP_GGUF_ARRAY, RP_GGUF_UINT);
    RP_CHECK(w->ctx, w->tokens, RP_ERR_FORMAT, "cannot read '%s': the tokenizer has no tokens", w->name);
    RP_CHECK(w->ctx, !w->types || w->types->count == w->tokens->count, RP_ERR_FORMAT,
             "cannot read '%s': %" PRId64 " tokens have %" PRId64 " types", w->name, w->tokens->count, w->types->count);
    RP_CHECK(w->ctx, !w->scores || w->scores->count == w->tokens->count, RP_ERR_FORMAT,
             "cannot read '%s': %" PRId64 " tokens have %" PRId64 " scores", w->name, w->tokens->count, w->scores->count);
    RP_CHECK(w->ctx, w->tokens->count < RP_MAX_TOKENS && (!w->merges || w->merges->count < RP_MAX_TOKENS), RP_ERR_FORMAT,
             "cannot read '%s': %" PRId64 " tokens and %" PRId64 " merges are too many", w->name, w->tokens->count,
             w->merges ? w->merges->count : 0);
    return RP_OK;
}

/* A GGUF file does not record which added tokens take adjacent white space. This table infers it from other metadata of the model. */
static const struct { const char *key, *value, *token; bool lstrip, rstrip; } strips[] = {
    { "general.architecture", "phi3", "<unk>", false, false }, { "general.architecture", "phi3", "<s>", false, false },
    { "general.architecture", "phi3", "<|endoftext|>", false, false }, { "general.architecture", "phi3", NULL, false, true },
    { "general.architecture", "nomic-bert-moe", "<mask>", true, false }, { "tokenizer.ggml.pre", "roberta-bpe", "<mask>", true, false },
    { "tokenizer.ggml.pre", "modern-bert", "[MASK]", true, false },
};

/* Index into strips; -1 if the token takes no white space. */
static int find_strip(const rp_gguf_words *w, rp_gguf_string token)
{
    for (int i = 0; i < RP_COUNT(strips); i++) {
        const rp_gguf_value *v = rp__words_get(w, strips[i].key, RP_GGUF_STRING, 0);
        if (v && is_text(v->s, strips[i].value) && (!strips[i].token || is_text(token, strips[i].token))) return i;
    }
    return -1;
}

/* "[PAD7]" fills id 7 if a model has more embedding rows than its tokenizer has tokens. */
static bool is_filler(rp_gguf_string t, int64_t id)
{
    char text[32];

    snprintf(text, sizeof text, "[PAD%" PRId64 "]", id);
    return is_text(t, text);
}

static rp_status make_added(const rp_gguf_words *w, json_t *added)
{
    for (int64_t i = 0; w->types && i < w->types->count; i++) {
        int type         = rp__words_type(w, i);
        rp_gguf_string t = rp__gguf_array_string(w->file, w->tokens, i);
        if (type < RP_GGUF_TOKEN_UNKNOWN || type > RP_GGUF_TOKEN_USER || is_filler(t, i)) continue;
        int strip     = find_strip(w, t);
        json_t *token = json_pack("{sIss%sbsbsbsbsb}", "id", (json_int_t)i, "content", t.text, (size_t)t.bytes, "single_word", 0,
                                  "lstrip", strip >= 0 && strips[strip].lstrip, "rstrip", strip >= 0 && strips[strip].rstrip,
                                  "normalized", 0, "special", type != RP_GGUF_TOKEN_USER);
        if (!token || json_array_append_new(added, token)) return rp__words_bad(w, i);
    }
    return RP_OK;
}

/* ---- assembling ---- */

/* The key of the token that begins BERT's documents, [CLS]: cls_token_id in older files, bos_token_id in newer ones. */
static const char *bos_key(const rp_gguf_words *w)
{
    static const char bos[] = "tokenizer.ggml.bos_token_id", cls[] = "tokenizer.ggml.cls_token_id";

    return !rp__gguf_get(w->file, bos) && rp__gguf_get(w->file, cls) ? cls : bos;
}

static const char *eos_key(const rp_gguf_words *w)
{
    static const char eos[] = "tokenizer.ggml.eos_token_id", sep[] = "tokenizer.ggml.seperator_token_id";

    return !rp__gguf_get(w->file, eos) && rp__gguf_get(w->file, sep) ? sep : eos;
}

static json_t *make_template(const rp_gguf_words *w)
{
    const rp_gguf_value *bos = rp__gguf_get(w->file, bos_key(w));
    json_t *token            = rp__words_named(w, bos_key(w));
    const char *text         = json_string_value(token);
    json_t *made             = text ? json_pack(
        "{ss s[{s{sssi}}{s{sssi}}] s[{s{sssi}}{s{sssi}}{s{sssi}}{s{sssi}}] s{s{sss[I]s[s]}}}",
        "type", "TemplateProcessing",
        "single", "SpecialToken", "id", text, "type_id", 0, "Sequence", "id", "A", "type_id", 0,
        "pair", "SpecialToken", "id", text, "type_id", 0, "Sequence", "id", "A", "type_id", 0,
                "SpecialToken", "id", text, "type_id", 1, "Sequence", "id", "B", "type_id", 1,
        "special_tokens", text, "id", text, "ids", (json_int_t)bos->i, "tokens", text) : NULL;

    json_decref(token);
    return made;
}

static void free_parts(rp_gguf_parts *p)
{
    json_decref(p->model);
    json_decref(p->normalizer);
    json_decref(p->pre_tokenizer);
    json_decref(p->decoder);
}

/* Builds the tokenizer.json around the lists. References to its arguments are not taken over. */
static json_t *assemble(const rp_gguf_words *w, const rp_gguf_parts *p, json_t *added)
{
    return json_pack("{sssnsnsOsO?sO?so?sO?sO}", "version", "1.0", "truncation", "padding", "added_tokens", added,
                     "normalizer", p->normalizer, "pre_tokenizer", p->pre_tokenizer,
                     "post_processor", p->adds_bos ? make_template(w) : NULL, "decoder", p->decoder, "model", p->model);
}

static rp_status make_root(const rp_gguf_words *w, const maker *m, json_t **out, bool *adds_bos)
{
    rp_gguf_parts parts = { 0 };
    json_t *added       = json_array();
    rp_status status    = RP_OK;

    if (!added) RP_TRY_GOTO(rp__words_no_memory(w));
    RP_TRY_GOTO(m->make(w, &parts));
    RP_TRY_GOTO(make_added(w, added));
    parts.adds_bos = *adds_bos = rp__words_flag(w, "tokenizer.ggml.add_bos_token", parts.adds_bos);
    *out = parts.model && parts.decoder ? assemble(w, &parts, added) : NULL;
    if (!*out) status = rp__words_no_memory(w);
done:
    json_decref(added);
    free_parts(&parts);
    return status;
}

static rp_status make_config(const rp_gguf_words *w, bool adds_bos, json_t **out)
{
    const char *const named[][2] = {
        { "bos_token", bos_key(w) }, { "eos_token", eos_key(w) },
        { "unk_token", "tokenizer.ggml.unknown_token_id" }, { "pad_token", "tokenizer.ggml.padding_token_id" },
    };
    const rp_gguf_value *template = rp__words_get(w, "tokenizer.chat_template", RP_GGUF_STRING, 0);
    json_t *config = json_pack("{sssbsb}", "tokenizer_class", "PreTrainedTokenizerFast", "clean_up_tokenization_spaces", 0,
                               "add_bos_token", adds_bos);

    *out = config;
    RP_CHECK(w->ctx, config, RP_ERR_MEMORY, "cannot allocate the tokenizer of '%s'", w->name);
    for (int i = 0; i < RP_COUNT(named); i++) {
        json_t *token = rp__words_named(w, named[i][1]);
        if (token && json_object_set_new(config, named[i][0], token)) return rp__words_no_memory(w);
    }
    RP_CHECK(w->ctx, !template || !json_object_set_new(config, "chat_template", json_stringn(template->s.text, (size_t)template->s.bytes)), RP_ERR_FORMAT,
             "cannot read '%s': its chat template is not UTF-8", w->name);
    return RP_OK;
}

static rp_status make_both(rp_gguf_words *w, json_t **root, json_t **config)
{
    const maker *m = NULL;
    bool adds_bos  = false;

    RP_TRY(find_maker(w, &m));
    RP_TRY(find_arrays(w));
    RP_TRY(make_root(w, m, root, &adds_bos));
    return make_config(w, adds_bos, config);
}

/* A NULL part means null, so a part that jansson could not allocate looks like one that the tokenizer does not have. */
rp_status rp__tokenizer_from_gguf(rp_ctx *ctx, const rp_gguf *file, const char *name, json_t **root, json_t **config)
{
    rp_gguf_words w  = { .ctx = ctx, .file = file, .name = name };
    json_t *made[2]  = { NULL, NULL };
    int64_t lost     = rp__json_lost();
    rp_status status = make_both(&w, &made[0], &made[1]);

    if (rp__json_lost() != lost) status = rp__words_no_memory(&w);
    if (status != RP_OK) {
        json_decref(made[0]);
        json_decref(made[1]);
        return status;
    }
    *root   = made[0];
    *config = made[1];
    return RP_OK;
}
