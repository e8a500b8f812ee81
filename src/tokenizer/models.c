/* tokenizer/models.c -- reads the model of a tokenizer.json: its vocabulary and the data of bpe.c, unigram.c or wordpiece.c. */
#include "text/bytes.h"
#include "tokenizer/reader.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static rp_status read_vocab(rp_reader *r, json_t *vocab)
{
    const char *text;
    json_t *id;

    RP_READ_CHECK(r, RP_ERR_FORMAT, json_is_object(vocab), "the model has no vocabulary", r->name);
    json_object_foreach(vocab, text, id) {
        RP_READ_CHECK(r, RP_ERR_FORMAT, json_is_integer(id), "the id of token '%.80s' is not an integer", r->name, text);
        RP_TRY(rp__vocab_add(r->ctx, &r->t->vocab, text, (int64_t)strlen(text), json_integer_value(id), RP_TOKEN_IN_MODEL));
    }
    return RP_OK;
}

static int32_t models_find(const rp_reader *r, const json_t *text)
{
    return json_is_string(text) ? rp__vocab_find_model(&r->t->vocab, json_string_value(text), (int64_t)json_string_length(text)) : -1;
}

static rp_status read_affix(rp_reader *r, const json_t *model, const char *key, rp_bytes *out)
{
    return rp__part_empty(json_object_get(model, key)) ? RP_OK : rp__part_text(r, model, key, out);
}

/* ---- BPE ---- */

/* "left right" or ["left", "right"]. */
static rp_status read_merge(rp_reader *r, const json_t *merge, int32_t rank)
{
    const rp_vocab *vocab = &r->t->vocab;
    const json_t *a       = json_array_get(merge, 0), *b = json_array_get(merge, 1);
    const char *text      = json_string_value(merge);
    const char *space     = text ? strchr(text, ' ') : NULL;
    int32_t left = -1, right = -1;

    if (space && !strchr(space + 1, ' ')) {
        left  = rp__vocab_find_model(vocab, text, space - text);
        right = rp__vocab_find_model(vocab, space + 1, (int64_t)strlen(space + 1));
    } else if (json_array_size(merge) == 2 && json_is_string(a) && json_is_string(b)) {
        left  = models_find(r, a);
        right = models_find(r, b);
    } else {
        return rp_fail(r->ctx, RP_ERR_FORMAT, "cannot read '%s': merge %d is not a pair of tokens", r->name, rank);
    }
    RP_READ_CHECK(r, RP_ERR_FORMAT, left >= 0 && right >= 0, "merge %d names a token that is not in the vocabulary",
                  r->name, rank);
    return rp__bpe_add_merge(&r->t->bpe, rank, left, right);
}

static rp_status encode_bpe(rp_tokenizer *t, const char *piece, int64_t bytes, rp_ids *ids)
{
    return rp__bpe_encode(&t->bpe, piece, bytes, ids);
}

static rp_status encode_bpe_open(rp_tokenizer *t, const char *piece, int64_t bytes, rp_ids *ids, int64_t *used)
{
    return rp__bpe_encode_open(&t->bpe, piece, bytes, ids, used);
}

static rp_status read_bpe(rp_reader *r, json_t *model)
{
    const json_t *dropout = json_object_get(model, "dropout");
    json_t *merges        = json_object_get(model, "merges");
    rp_bpe *bpe           = &r->t->bpe;

    RP_READ_CHECK(r, RP_ERR_UNSUPPORTED, rp__part_empty(dropout) || (json_is_number(dropout) && json_number_value(dropout) == 0),
                  "dropout of merges is not supported", r->name);
    RP_READ_CHECK(r, RP_ERR_FORMAT, json_is_array(merges), "the model has no merges", r->name);
    RP_READ_CHECK(r, RP_ERR_FORMAT, json_array_size(merges) < RP_MAX_TOKENS, "it has %zu merges", r->name,
                  json_array_size(merges));
    RP_TRY(read_vocab(r, json_object_get(model, "vocab")));
    RP_TRY(read_affix(r, model, "continuing_subword_prefix", &bpe->prefix));
    RP_TRY(read_affix(r, model, "end_of_word_suffix", &bpe->suffix));
    bpe->unk           = models_find(r, json_object_get(model, "unk_token"));
    bpe->fuse_unk      = rp__part_flag(model, "fuse_unk", false);
    bpe->byte_fallback = rp__part_flag(model, "byte_fallback", false);
    bpe->ignore_merges = rp__part_flag(model, "ignore_merges", false);
    RP_TRY(rp__bpe_new(r->ctx, &r->t->vocab, (int64_t)json_array_size(merges), bpe));
    for (size_t i = 0; i < json_array_size(merges); i++) RP_TRY(read_merge(r, json_array_get(merges, i), (int32_t)i));
    r->t->encode_piece = encode_bpe;
    r->t->encode_open  = encode_bpe_open;
    return RP_OK;
}

/* Over the byte-level alphabet symbols are bytes, which is fast. With prefixes or suffixes they are characters of that alphabet. */
static rp_status finish_bpe(rp_reader *r, const json_t *model)
{
    rp_bpe *bpe   = &r->t->bpe;
    bool complete = true;

    bpe->by_char = !r->byte_level || r->maps_early || bpe->prefix.n || bpe->suffix.n;
    for (int b = 0; b < 256 && !bpe->by_char; b++) complete = complete && bpe->byte_id[b] >= 0;
    if (bpe->by_char) complete = false;
    RP_READ_CHECK(r, RP_ERR_FORMAT, complete || rp__part_empty(json_object_get(model, "unk_token")) || bpe->unk >= 0,
                  "the unk_token is not in the vocabulary", r->name);
    RP_READ_CHECK(r, RP_ERR_UNSUPPORTED, complete || bpe->by_char || !bpe->byte_fallback,
                  "a model with byte_fallback that lacks some of the 256 bytes is not supported", r->name);
    r->t->maps_bytes = r->byte_level && !r->maps_early && bpe->by_char;
    return RP_OK;
}

/* ---- Unigram ---- */

static rp_status encode_unigram(rp_tokenizer *t, const char *piece, int64_t bytes, rp_ids *ids)
{
    return rp__unigram_encode(&t->unigram, piece, bytes, ids);
}

/* Returns the double that the package reads for the decimal `value`. It divides the rounded digits by a rounded power of ten, so the result may be
 * off by one unit. Scores of equally good segmentations differ by as little, so this decides ids. The digits are the fewest that give the value. */
static double as_the_package_reads(double value)
{
    char text[40];
    int precision  = 0;
    int64_t digits = 0;

    do snprintf(text, sizeof text, "%.*e", precision, fabs(value));
    while (strtod(text, NULL) != fabs(value) && ++precision < 17);
    for (const char *c = text; *c && *c != 'e'; c++)
        if (*c >= '0' && *c <= '9') digits = 10 * digits + (*c - '0');
    long exponent = strtol(strchr(text, 'e') + 1, NULL, 10) - precision;
    if (exponent >= 0 || exponent < -300) return value;
    snprintf(text, sizeof text, "1e%ld", -exponent);
    return copysign((double)digits / strtod(text, NULL), value);
}

static rp_status read_scored(rp_reader *r, const json_t *pair, int32_t id, double *least)
{
    rp_unigram *u     = &r->t->unigram;
    const json_t *text = json_array_get(pair, 0), *score = json_array_get(pair, 1);
    bool fresh;

    RP_READ_CHECK(r, RP_ERR_FORMAT, json_is_string(text) && json_is_number(score) && isfinite(json_number_value(score)),
                  "token %d is not a text with a score", r->name, id);
    RP_TRY(rp__vocab_add(r->ctx, &r->t->vocab, json_string_value(text), (int64_t)json_string_length(text), id, RP_TOKEN_IN_MODEL));
    RP_TRY(rp__trie_insert(r->ctx, &u->trie, json_string_value(text), (int64_t)json_string_length(text), id, &fresh));
    u->score[id] = as_the_package_reads(json_number_value(score));
    if (u->score[id] < *least) *least = u->score[id];
    return RP_OK;
}

static rp_status read_unigram(rp_reader *r, json_t *model)
{
    const json_t *vocab = json_object_get(model, "vocab"), *unk = json_object_get(model, "unk_id");
    rp_unigram *u       = &r->t->unigram;
    int64_t n           = (int64_t)json_array_size(vocab), unk_id = json_is_integer(unk) ? json_integer_value(unk) : -1;
    double least        = INFINITY;

    RP_READ_CHECK(r, RP_ERR_FORMAT, n > 0 && n < RP_MAX_TOKENS, "the model has a vocabulary of %" PRId64, r->name, n);
    RP_READ_CHECK(r, RP_ERR_FORMAT, unk_id >= -1 && unk_id < n, "the unk_id %" PRId64 " is outside the vocabulary", r->name, unk_id);
    u->ctx           = r->ctx;
    u->vocab         = &r->t->vocab;
    u->unk           = (int32_t)unk_id;
    u->byte_fallback = rp__part_flag(model, "byte_fallback", false);
    u->score         = rp__host_alloc(r->ctx, n * (int64_t)sizeof *u->score);
    if (!u->score) return RP_ERR_MEMORY;
    for (int64_t i = 0; i < n; i++) RP_TRY(read_scored(r, json_array_get(vocab, (size_t)i), (int32_t)i, &least));
    u->unk_score = least - 10;
    rp__fallback_ids(u->vocab, u->fallback_id);
    r->t->encode_piece = encode_unigram;
    return RP_OK;
}

/* ---- WordPiece ---- */

static rp_status encode_wordpiece(rp_tokenizer *t, const char *piece, int64_t bytes, rp_ids *ids)
{
    return rp__wordpiece_encode(&t->wordpiece, piece, bytes, ids);
}

static rp_status fill_tries(rp_reader *r)
{
    const rp_vocab *vocab = &r->t->vocab;
    rp_wordpiece *w       = &r->t->wordpiece;
    bool fresh;

    for (int32_t id = 0; id < vocab->n_ids; id++) {
        const char *text = rp__vocab_text(vocab, id);
        int64_t bytes    = vocab->token[id].bytes;
        if (!vocab->token[id].flags) continue;
        RP_TRY(rp__trie_insert(r->ctx, &w->starts, text, bytes, id, &fresh));
        if (bytes < w->prefix.n || (w->prefix.n && memcmp(text, w->prefix.at, (size_t)w->prefix.n))) continue;
        RP_TRY(rp__trie_insert(r->ctx, &w->continues, text + w->prefix.n, bytes - w->prefix.n, id, &fresh));
    }
    return RP_OK;
}

static rp_status read_wordpiece(rp_reader *r, json_t *model)
{
    const json_t *most = json_object_get(model, "max_input_chars_per_word"), *unk = json_object_get(model, "unk_token");
    rp_wordpiece *w    = &r->t->wordpiece;

    RP_TRY(read_vocab(r, json_object_get(model, "vocab")));
    w->ctx       = r->ctx;
    w->vocab     = &r->t->vocab;
    w->max_chars = json_is_integer(most) ? json_integer_value(most) : 100;
    w->unk       = unk ? models_find(r, unk) : rp__vocab_find_model(w->vocab, "[UNK]", 5);
    RP_READ_CHECK(r, RP_ERR_FORMAT, w->unk >= 0, "the unk_token is not in the vocabulary", r->name);
    if (json_object_get(model, "continuing_subword_prefix")) RP_TRY(rp__part_text(r, model, "continuing_subword_prefix", &w->prefix));
    else RP_TRY(rp__bytes_push(r->ctx, &w->prefix, "##", 2));
    r->t->encode_piece = encode_wordpiece;
    return fill_tries(r);
}

/* ---- any model ---- */

static const struct {
    const char *type;
    rp_status (*read)(rp_reader *r, json_t *model);
    rp_status (*finish)(rp_reader *r, const json_t *model);
} kinds[] = {
    { "BPE", read_bpe, finish_bpe }, { "Unigram", read_unigram, NULL }, { "WordPiece", read_wordpiece, NULL },
};

/* Old files have no type: a model with merges is BPE, one with scores Unigram. */
static const char *type_of(const json_t *model)
{
    if (json_object_get(model, "type")) return rp__part_kind(model);
    if (json_object_get(model, "merges")) return "BPE";
    return json_is_array(json_object_get(model, "vocab")) ? "Unigram" : "WordPiece";
}

rp_status rp__tokenizer_read_model(rp_reader *r, json_t *model)
{
    RP_READ_CHECK(r, RP_ERR_FORMAT, json_is_object(model), "there is no model", r->name);
    for (int k = 0; k < RP_COUNT(kinds); k++)
        if (!strcmp(type_of(model), kinds[k].type)) return kinds[k].read(r, model);
    return rp_fail(r->ctx, RP_ERR_UNSUPPORTED, "cannot read '%s': a model '%.80s' is not supported, only BPE, Unigram and WordPiece",
                   r->name, type_of(model));
}

rp_status rp__tokenizer_finish_model(rp_reader *r, const json_t *model)
{
    r->t->maps_bytes = r->byte_level && !r->maps_early;
    for (int k = 0; k < RP_COUNT(kinds); k++)
        if (!strcmp(type_of(model), kinds[k].type) && kinds[k].finish) return kinds[k].finish(r, model);
    return RP_OK;
}
