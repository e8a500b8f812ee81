/* tokenizer/gguf_words.c -- the parts of a tokenizer made by SentencePiece ("llama", "t5") or BERT, in a GGUF file.
 *
 * SentencePiece's BPE joins the adjacent pair whose token has the best score. As in transformers, this becomes a list of merges: every way to cut a
 * token into two tokens, ordered by decreasing score, then by decreasing lengths of the left and of the right part.
 */
#include "tokenizer/gguf.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"

#define SPACE "\xe2\x96\x81"

static bool has_space(rp_gguf_string t) { return t.bytes >= 3 && !memcmp(t.text, SPACE, 3); }

/* ---- merges from scores ---- */

typedef struct { double score; int32_t left, right, left_chars, right_chars; int64_t order; } pair;
typedef struct { const rp_gguf_words *w; rp_vocab vocab; pair *pair; int64_t n, room; } pairs;

static rp_status add_pair(pairs *p, pair one)
{
    RP_TRY(RP_GROW(p->w->ctx, p->pair, p->room, p->n + 1));
    p->pair[p->n++] = one;
    return RP_OK;
}

static int by_ids(const void *a, const void *b)
{
    const pair *x = a, *y = b;

    return x->left != y->left ? (x->left < y->left ? -1 : 1) : (x->right > y->right) - (x->right < y->right);
}

static int by_score(const void *a, const void *b)
{
    const pair *x = a, *y = b;

    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    if (x->left_chars != y->left_chars) return x->left_chars > y->left_chars ? -1 : 1;
    if (x->right_chars != y->right_chars) return x->right_chars > y->right_chars ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

static rp_status cut_token(pairs *p, int32_t id, double score)
{
    const char *text = rp__vocab_text(&p->vocab, id);
    int64_t bytes = p->vocab.token[id].bytes, first = p->n;

    for (int64_t at = 1; at < bytes; at++) {
        if (((uint8_t)text[at] & 0xc0) == 0x80) continue;
        int32_t left = rp__vocab_find(&p->vocab, text, at), right = rp__vocab_find(&p->vocab, text + at, bytes - at);
        if (left < 0 || right < 0) continue;
        RP_TRY(add_pair(p, (pair){ score, left, right, (int32_t)rp__n_chars(text, at), (int32_t)rp__n_chars(text + at, bytes - at), 0 }));
    }
    if (p->n > first) qsort(p->pair + first, (size_t)(p->n - first), sizeof *p->pair, by_ids);
    for (int64_t i = first; i < p->n; i++) p->pair[i].order = i;
    return RP_OK;
}

static rp_status read_score(const rp_gguf_words *w, int64_t i, double *out)
{
    *out = rp__gguf_array_number(w->file, w->scores, i);
    RP_CHECK(w->ctx, isfinite(*out), RP_ERR_FORMAT, "cannot read '%s': the score of token %" PRId64 " is no number", w->name, i);
    return RP_OK;
}

static rp_status find_pairs(pairs *p)
{
    const rp_gguf_words *w = p->w;

    for (int64_t i = 0; i < w->tokens->count; i++) {
        rp_gguf_string t = rp__gguf_array_string(w->file, w->tokens, i);
        RP_TRY(rp__vocab_add(w->ctx, &p->vocab, t.text, t.bytes, i, RP_TOKEN_IN_MODEL));
    }
    for (int32_t i = 0; i < p->vocab.n_ids; i++) {
        int type = rp__words_type(w, i);
        double score;
        RP_TRY(read_score(w, i, &score));
        if (type == RP_GGUF_TOKEN_NORMAL || type == RP_GGUF_TOKEN_USER) RP_TRY(cut_token(p, i, score));
    }
    if (p->n) qsort(p->pair, (size_t)p->n, sizeof *p->pair, by_score);
    RP_CHECK(w->ctx, p->n < RP_MAX_TOKENS, RP_ERR_FORMAT, "cannot read '%s': its tokens make %" PRId64 " merges", w->name, p->n);
    return RP_OK;
}

static rp_status make_merges(const rp_gguf_words *w, json_t *merges)
{
    pairs p          = { .w = w };
    rp_status status = find_pairs(&p);

    for (int64_t i = 0; i < p.n && status == RP_OK; i++) {
        json_t *merge = json_pack("[ss]", rp__vocab_text(&p.vocab, p.pair[i].left), rp__vocab_text(&p.vocab, p.pair[i].right));
        if (!merge || json_array_append_new(merges, merge)) status = rp__words_no_memory(w);
    }
    rp__release(p.pair);
    rp__vocab_free(&p.vocab);
    return status;
}

/* ---- llama ---- */

static json_t *replace(const char *from, const char *to)
{
    return json_pack("{sss{ss}ss}", "type", "Replace", "pattern", "String", from, "content", to);
}

static void make_llama_pipeline(bool prefix, rp_gguf_parts *out)
{
    json_t *strip = prefix ? json_pack("{sssssisi}", "type", "Strip", "content", " ", "start", 1, "stop", 0) : NULL;

    if (prefix) out->normalizer = json_pack("{sss[{ssss}o]}", "type", "Sequence", "normalizers",
                                            "type", "Prepend", "prepend", SPACE, replace(" ", SPACE));
    else out->normalizer = replace(" ", SPACE);
    out->decoder = json_pack("{sss[o{ss}{ss}o*]}", "type", "Sequence", "decoders", replace(SPACE, " "), "type", "ByteFallback",
                             "type", "Fuse", strip);
}

void rp__gguf_marked_spaces(const rp_gguf_words *w, json_t *vocab, json_t *merges, bool prefix, rp_gguf_parts *out)
{
    json_t *unk = rp__words_named(w, "tokenizer.ggml.unknown_token_id");

    make_llama_pipeline(prefix, out);
    out->adds_bos = true;
    out->model    = json_pack("{sssnsO?snsnsbsbsbsOsO}", "type", "BPE", "dropout", "unk_token", unk, "continuing_subword_prefix",
                              "end_of_word_suffix", "fuse_unk", 1, "byte_fallback", 1, "ignore_merges", 0, "vocab", vocab,
                              "merges", merges);
    json_decref(unk);
}

rp_status rp__gguf_make_llama(const rp_gguf_words *w, rp_gguf_parts *out)
{
    json_t *vocab = json_object(), *merges = json_array();
    rp_status status = RP_OK;

    if (!w->scores) RP_TRY_GOTO(rp_fail(w->ctx, RP_ERR_FORMAT, "cannot read '%s': the tokenizer has no scores", w->name));
    if (!vocab || !merges) RP_TRY_GOTO(rp__words_no_memory(w));
    for (int64_t i = 0; i < w->tokens->count; i++) {
        rp_gguf_string t = rp__gguf_array_string(w->file, w->tokens, i);
        RP_TRY_GOTO(rp__words_add(w, vocab, t.text, t.bytes, i));
    }
    RP_TRY_GOTO(make_merges(w, merges));
    rp__gguf_marked_spaces(w, vocab, merges, rp__words_flag(w, "tokenizer.ggml.add_space_prefix", true), out);
done:
    json_decref(vocab);
    json_decref(merges);
    return status;
}

/* ---- t5 ---- */

static uint32_t byte_at(const rp_gguf_words *w, const rp_gguf_value *bytes, int64_t i)
{
    double value = rp__gguf_array_number(w->file, bytes, i);        /* 0 past the end */

    return value > 0 && value < 256 ? (uint32_t)value : 0;
}

static json_t *base64(const rp_gguf_words *w, const rp_gguf_value *bytes)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    int64_t n = bytes->count, at = 0;
    char *text = rp__host_alloc(w->ctx, (n + 2) / 3 * 4 + 1);

    if (!text) return NULL;
    for (int64_t i = 0; i < n; i += 3) {
        uint32_t bits = 0;
        for (int k = 0; k < 3; k++) bits = bits << 8 | byte_at(w, bytes, i + k);
        for (int k = 0; k < 4; k++) text[at++] = i + k > n ? '=' : digits[bits >> (18 - 6 * k) & 63];
    }
    json_t *made = json_stringn(text, (size_t)at);
    rp__release(text);
    return made;
}

static rp_status make_scored(const rp_gguf_words *w, json_t *vocab)
{
    for (int64_t i = 0; i < w->tokens->count; i++) {
        rp_gguf_string t = rp__gguf_array_string(w->file, w->tokens, i);
        double score;
        RP_TRY(read_score(w, i, &score));
        json_t *one = json_pack("[s%f]", t.text, (size_t)t.bytes, score);
        if (!one || json_array_append_new(vocab, one)) return rp__words_bad(w, i);
    }
    return RP_OK;
}

static bool trims_spaces(const rp_gguf_words *w) { return rp__words_flag(w, "tokenizer.ggml.remove_extra_whitespaces", true); }

static rp_status make_t5_normalizer(const rp_gguf_words *w, rp_gguf_parts *out)
{
    const rp_gguf_value *map = rp__words_get(w, "tokenizer.ggml.precompiled_charsmap", RP_GGUF_ARRAY, RP_GGUF_UINT);
    bool trims               = trims_spaces(w);
    json_t *steps = json_array(), *text = map ? base64(w, map) : NULL;

    if (!steps || (map && !text)) {
        json_decref(steps);
        json_decref(text);
        return rp__words_no_memory(w);
    }
    if (text) json_array_append_new(steps, json_pack("{ssso}", "type", "Precompiled", "precompiled_charsmap", text));
    if (trims) json_array_append_new(steps, json_pack("{sssbsb}", "type", "Strip", "strip_left", 0, "strip_right", 1));
    if (trims) json_array_append_new(steps, json_pack("{sss{ss}ss}", "type", "Replace", "pattern", "Regex", " {2,}", "content", SPACE));
    out->normalizer = json_pack("{ssso}", "type", "Sequence", "normalizers", steps);
    return RP_OK;
}

/* Are there tokens for bytes? Then text without a token becomes bytes. */
static bool has_bytes(const rp_gguf_words *w)
{
    for (int64_t i = 0; w->types && i < w->types->count; i++)
        if (rp__words_type(w, i) == RP_GGUF_TOKEN_BYTE) return true;
    return false;
}

static json_t *make_t5_decoder(const char *prepend, bool bytes)
{
    json_t *spaces = json_pack("{sssssssb}", "type", "Metaspace", "replacement", SPACE, "prepend_scheme", prepend, "split", 1);

    return bytes ? json_pack("{sss[{ss}o]}", "type", "Sequence", "decoders", "type", "ByteFallback", spaces) : spaces;
}

rp_status rp__gguf_make_t5(const rp_gguf_words *w, rp_gguf_parts *out)
{
    const rp_gguf_value *unk = rp__gguf_get(w->file, "tokenizer.ggml.unknown_token_id");
    const char *prepend      = rp__words_flag(w, "tokenizer.ggml.add_space_prefix", true) ? "always" : "never";
    bool bytes               = has_bytes(w);
    bool trims               = trims_spaces(w);         /* if not trimmed, there are tokens that begin with several spaces */
    json_t *vocab            = json_array();
    rp_status status         = RP_OK;

    if (!w->scores) RP_TRY_GOTO(rp_fail(w->ctx, RP_ERR_FORMAT, "cannot read '%s': the tokenizer has no scores", w->name));
    if (!vocab) RP_TRY_GOTO(rp__words_no_memory(w));
    RP_TRY_GOTO(make_scored(w, vocab));
    RP_TRY_GOTO(make_t5_normalizer(w, out));
    out->pre_tokenizer = json_pack("{sssssssb}", "type", "Metaspace", "replacement", SPACE, "prepend_scheme", prepend, "split", trims);
    out->decoder       = make_t5_decoder(prepend, bytes);
    out->model         = json_pack("{sssIsOsb}", "type", "Unigram", "unk_id", (json_int_t)(unk ? unk->i : 2), "vocab", vocab,
                                   "byte_fallback", bytes);
done:
    json_decref(vocab);
    return status;
}

/* ---- bert ---- */

/* In the file, a token that begins a word starts with a space; one that continues a word does not. The file does not record whether text is
 * lower-cased: *lower is true if no token has a capital letter. */
static rp_status make_words(const rp_gguf_words *w, json_t *vocab, bool *lower)
{
    char text[256] = "##";

    *lower = true;
    for (int64_t i = 0; i < w->tokens->count; i++) {
        rp_gguf_string t = rp__gguf_array_string(w->file, w->tokens, i);
        bool plain       = rp__words_type(w, i) != RP_GGUF_TOKEN_NORMAL;
        if (has_space(t) && !plain) {
            RP_TRY(rp__words_add(w, vocab, t.text + 3, t.bytes - 3, i));
        } else if (plain) {
            RP_TRY(rp__words_add(w, vocab, t.text, t.bytes, i));
        } else {
            if (t.bytes > (int64_t)sizeof text - 3) return rp__words_bad(w, i);
            memcpy(text + 2, t.text, (size_t)t.bytes);
            RP_TRY(rp__words_add(w, vocab, text, t.bytes + 2, i));
        }
        for (int64_t k = 0; k < t.bytes && !plain; k++) *lower = *lower && !(t.text[k] >= 'A' && t.text[k] <= 'Z');
    }
    return RP_OK;
}

rp_status rp__gguf_make_bert(const rp_gguf_words *w, rp_gguf_parts *out)
{
    json_t *vocab = json_object(), *unk = rp__words_named(w, "tokenizer.ggml.unknown_token_id");
    rp_status status = RP_OK;
    bool lower       = true;

    if (!vocab) RP_TRY_GOTO(rp__words_no_memory(w));
    RP_TRY_GOTO(make_words(w, vocab, &lower));
    out->normalizer    = json_pack("{sssbsbsnsb}", "type", "BertNormalizer", "clean_text", 1, "handle_chinese_chars", 1,
                                   "strip_accents", "lowercase", lower);
    out->pre_tokenizer = json_pack("{ss}", "type", "BertPreTokenizer");
    out->decoder       = json_pack("{sssssb}", "type", "WordPiece", "prefix", "##", "cleanup", 1);
    out->adds_bos      = true;
    out->model         = json_pack("{sssosssisO}", "type", "WordPiece", "unk_token", unk ? json_incref(unk) : json_string("[UNK]"),
                                   "continuing_subword_prefix", "##", "max_input_chars_per_word", 100, "vocab", vocab);
done:
    json_decref(vocab);
    json_decref(unk);
    return status;
}
