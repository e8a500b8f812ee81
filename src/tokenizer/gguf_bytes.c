/* tokenizer/gguf_bytes.c -- the parts of a tokenizer with merges ("gpt2", "gemma4") in a GGUF file.
 *
 * A byte-level tokenizer only names its pre-tokenizer; gguf_names.def defines the names. Gemma 4 has no pre-tokenizer: spaces are marked, and text
 * without a token becomes bytes.
 */
#include "tokenizer/gguf.h"
#include "tokenizer/reader.h"

#include <string.h>

#include "base/json_text.h"

typedef struct { const char *name, *pre_tokenizer, *normalizer; bool ignore_merges, adds_bos; } kind;

static const kind kinds[] = {
#define RP_PRE(name, pre_tokenizer, normalizer, ignore_merges, adds_bos) { name, pre_tokenizer, normalizer, ignore_merges, adds_bos },
#include "tokenizer/gguf_names.def"
#undef RP_PRE
};

static bool text_is(const rp_gguf_value *v, const char *text)
{
    return v->s.bytes == (int64_t)strlen(text) && !memcmp(v->s.text, text, strlen(text));
}

static rp_status find_kind(const rp_gguf_words *w, const kind **out)
{
    const rp_gguf_value *pre = rp__words_get(w, "tokenizer.ggml.pre", RP_GGUF_STRING, 0);

    for (int i = 0; i < RP_COUNT(kinds); i++)
        if (pre ? text_is(pre, kinds[i].name) : !strcmp(kinds[i].name, "default")) return *out = &kinds[i], RP_OK;
    return rp_fail(w->ctx, RP_ERR_UNSUPPORTED,
                   "cannot read '%s': a pre-tokenizer '%.*s' (tokenizer.ggml.pre) is not supported", w->name,
                   (int)(pre->s.bytes < 80 ? pre->s.bytes : 80), pre->s.text);
}

static rp_status make_vocab(const rp_gguf_words *w, json_t *vocab)
{
    for (int64_t i = 0; i < w->tokens->count; i++) {
        rp_gguf_string t = rp__gguf_array_string(w->file, w->tokens, i);
        RP_TRY(rp__words_add(w, vocab, t.text, t.bytes, i));
    }
    return RP_OK;
}

/* Splits "left right" at the space. A token may itself begin with a space in hand-made files, so the first byte is skipped. */
static rp_status make_merges(const rp_gguf_words *w, json_t *merges)
{
    for (int64_t i = 0; i < w->merges->count; i++) {
        rp_gguf_string t  = rp__gguf_array_string(w->file, w->merges, i);
        const char *space = t.bytes > 1 ? memchr(t.text + 1, ' ', (size_t)t.bytes - 1) : NULL;
        json_t *pair      = space ? json_pack("[s%s%]", t.text, (size_t)(space - t.text), space + 1,
                                              (size_t)(t.text + t.bytes - space - 1)) : NULL;
        RP_CHECK(w->ctx, pair, RP_ERR_FORMAT, "cannot read '%s': merge %" PRId64 " is not a pair of tokens", w->name, i);
        if (json_array_append_new(merges, pair)) return rp__words_no_memory(w);
    }
    return RP_OK;
}

/* Converts an entry of the table to JSON. The table has apostrophes instead of quotes, except around patterns, which are in quotes. */
static json_t *parse_kind(rp_ctx *ctx, const char *text)
{
    char *quoted = rp__host_text(ctx, text);
    bool inside  = false;

    if (!quoted) return NULL;
    for (char *p = quoted; *p; p++) {
        if (*p == '"') inside = !inside;
        else if (*p == '\'' && !inside) *p = '"';
    }
    json_t *parsed = rp__json_read(quoted, strlen(quoted), 0, NULL);
    rp__release(quoted);
    return parsed;
}

static void set_prefix_space(const rp_gguf_words *w, json_t *part)
{
    json_t *inner;
    size_t i;

    if (json_object_get(part, "add_prefix_space") && rp__words_flag(w, "tokenizer.ggml.add_space_prefix", false))
        json_object_set_new(part, "add_prefix_space", json_true());
    json_array_foreach(json_object_get(part, "pretokenizers"), i, inner) set_prefix_space(w, inner);
}

static void make_parts(const kind *k, json_t *vocab, json_t *merges, rp_gguf_parts *out)
{
    out->adds_bos = k->adds_bos;
    if (k->normalizer) out->normalizer = json_pack("{ss}", "type", k->normalizer);
    out->decoder = json_pack("{sssbsbsb}", "type", "ByteLevel", "add_prefix_space", 1, "trim_offsets", 1, "use_regex", 1);
    out->model   = json_pack("{sssnsnsnsnsbsbsbsOsO}", "type", "BPE", "dropout", "unk_token", "continuing_subword_prefix",
                             "end_of_word_suffix", "fuse_unk", 0, "byte_fallback", 0, "ignore_merges", k->ignore_merges,
                             "vocab", vocab, "merges", merges);
}

static rp_status make_lists(const rp_gguf_words *w, json_t *vocab, json_t *merges)
{
    RP_CHECK(w->ctx, w->merges, RP_ERR_FORMAT, "cannot read '%s': the tokenizer has no merges", w->name);
    if (!vocab || !merges) return rp__words_no_memory(w);
    RP_TRY(make_vocab(w, vocab));
    return make_merges(w, merges);
}

rp_status rp__gguf_make_gpt2(const rp_gguf_words *w, rp_gguf_parts *out)
{
    json_t *vocab = json_object(), *merges = json_array();
    rp_status status = RP_OK;
    const kind *k    = NULL;

    RP_TRY_GOTO(find_kind(w, &k));
    RP_TRY_GOTO(make_lists(w, vocab, merges));
    out->pre_tokenizer = parse_kind(w->ctx, k->pre_tokenizer);
    if (!out->pre_tokenizer) RP_TRY_GOTO(rp__words_no_memory(w));
    set_prefix_space(w, out->pre_tokenizer);
    make_parts(k, vocab, merges, out);
done:
    json_decref(vocab);
    json_decref(merges);
    return status;
}

rp_status rp__gguf_make_gemma4(const rp_gguf_words *w, rp_gguf_parts *out)
{
    json_t *vocab = json_object(), *merges = json_array();
    rp_status status = make_lists(w, vocab, merges);

    if (status == RP_OK) rp__gguf_marked_spaces(w, vocab, merges, rp__words_flag(w, "tokenizer.ggml.add_space_prefix", false), out);
    json_decref(vocab);
    json_decref(merges);
    return status;
}

/* ---- the other direction ---- */

static void set_default(json_t *part, const char *key, bool value)
{
    if (!json_object_get(part, key)) json_object_set_new(part, key, json_boolean(value));
}

/* Fields with their defaults, and without those that change no id. */
static void make_plain(json_t *part, bool *prefix)
{
    const char *type = rp__part_kind(part);

    if (!strcmp(type, "ByteLevel")) {
        *prefix |= json_is_true(json_object_get(part, "add_prefix_space"));
        json_object_del(part, "add_prefix_space");
        json_object_del(part, "trim_offsets");
        set_default(part, "use_regex", true);
    } else if (!strcmp(type, "Split")) {
        set_default(part, "invert", false);
    } else if (!strcmp(type, "Digits")) {
        set_default(part, "individual_digits", false);
    }
}

static bool append_plain(json_t *to, const json_t *part, const char *list, bool *prefix)
{
    const json_t *inner;
    size_t i;
    bool ok = true;

    if (!part || json_is_null(part)) return true;
    if (!strcmp(rp__part_kind(part), "Sequence")) {
        json_array_foreach(json_object_get(part, list), i, inner) ok = ok && append_plain(to, inner, list, prefix);
        return ok;
    }
    json_t *plain = rp__json_deep_copy(part);
    if (plain) make_plain(plain, prefix);
    return plain && !json_array_append_new(to, plain);
}

json_t *rp__gguf_plain_parts(const json_t *part, const char *list, bool *prefix)
{
    json_t *made = json_array();

    *prefix = false;
    if (made && append_plain(made, part, list, prefix)) return made;
    json_decref(made);
    return NULL;
}

static rp_status is_kind(rp_ctx *ctx, const kind *k, const json_t *pre_tokenizers, const json_t *normalizers, bool *same)
{
    json_t *parsed = parse_kind(ctx, k->pre_tokenizer), *plain = NULL, *normal = k->normalizer ? json_pack("[{ss}]", "type", k->normalizer) : json_array();
    bool unused;

    if (parsed) plain = rp__gguf_plain_parts(parsed, "pretokenizers", &unused);
    *same            = plain && normal && json_equal(plain, pre_tokenizers) && json_equal(normal, normalizers);
    rp_status status = plain && normal ? RP_OK : rp_fail(ctx, RP_ERR_MEMORY, "cannot allocate the pre-tokenizer '%s'", k->name);
    json_decref(parsed);
    json_decref(plain);
    json_decref(normal);
    return status;
}

rp_status rp__gguf_name_of(rp_ctx *ctx, const json_t *pre_tokenizers, const json_t *normalizers, bool ignore_merges, const char **name)
{
    *name = NULL;
    for (int i = 0; i < RP_COUNT(kinds) && !*name; i++) {
        bool same = false;
        if (kinds[i].ignore_merges != ignore_merges) continue;
        RP_TRY(is_kind(ctx, &kinds[i], pre_tokenizers, normalizers, &same));
        if (same) *name = kinds[i].name;
    }
    return RP_OK;
}
