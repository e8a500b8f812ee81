/* io/tokenizer_json.c -- a tokenizer from the JSON of the `tokenizers` package.
 *
 * Read: model BPE over the byte-level alphabet; pre-tokenizers Split, Digits, ByteLevel and Sequence, ByteLevel last;
 * normalizers NFC, NFD, NFKC, NFKD and Sequence; added tokens. Of the post-processor only whether a bos goes in front.
 * Not read, as they do not change the ids of a text: decoder, truncation, padding. Any other kind is refused by name.
 */
#include "io/tokenizer_inside.h"

#include <string.h>

typedef struct { rp_ctx *ctx; const char *name; rp_tokenizer *t; bool byte_level; } reader;

#define QUOTED(reader, status, cond, ...) RP_CHECK((reader)->ctx, cond, status, "cannot read '%s': " __VA_ARGS__)

static const char *kind_of(const json_t *part)
{
    const char *type = json_string_value(json_object_get(part, "type"));

    return type ? type : "without a type";
}

static bool flag_of(const json_t *part, const char *key, bool missing)
{
    const json_t *value = json_object_get(part, key);

    return json_is_boolean(value) ? json_is_true(value) : missing;
}

static bool is_empty(const json_t *value)
{
    return !value || json_is_null(value) || (json_is_string(value) && !json_string_length(value));
}

/* ---- model ---- */

static rp_status read_vocab(reader *r, json_t *vocab)
{
    const char *text;
    json_t *id;

    QUOTED(r, RP_ERR_FORMAT, json_is_object(vocab), "the model has no vocabulary", r->name);
    json_object_foreach(vocab, text, id) {
        QUOTED(r, RP_ERR_FORMAT, json_is_integer(id), "the id of token '%.80s' is not an integer", r->name, text);
        RP_TRY(rp__vocab_add(r->ctx, &r->t->vocab, text, (int64_t)strlen(text), json_integer_value(id), RP_TOKEN_IN_MODEL));
    }
    return RP_OK;
}

/* "left right" or ["left", "right"]. */
static rp_status read_merge(reader *r, const json_t *merge, int32_t rank)
{
    const rp_vocab *vocab = &r->t->vocab;
    const json_t *a       = json_array_get(merge, 0), *b = json_array_get(merge, 1);
    const char *text      = json_string_value(merge);
    const char *space     = text ? strchr(text, ' ') : NULL;
    int32_t left = -1, right = -1;

    if (space && !strchr(space + 1, ' ')) {
        left  = rp__vocab_find(vocab, text, space - text);
        right = rp__vocab_find(vocab, space + 1, (int64_t)strlen(space + 1));
    } else if (json_array_size(merge) == 2 && json_is_string(a) && json_is_string(b)) {
        left  = rp__vocab_find(vocab, json_string_value(a), (int64_t)json_string_length(a));
        right = rp__vocab_find(vocab, json_string_value(b), (int64_t)json_string_length(b));
    } else {
        return rp__fail(r->ctx, RP_ERR_FORMAT, "cannot read '%s': merge %d is not a pair of tokens", r->name, rank);
    }
    QUOTED(r, RP_ERR_FORMAT, left >= 0 && right >= 0, "merge %d names a token that the vocabulary does not have", r->name,
           rank);
    return rp__bpe_add_merge(&r->t->bpe, rank, left, right);
}

static rp_status read_unk(reader *r, const json_t *model)
{
    rp_bpe *bpe       = &r->t->bpe;
    const json_t *unk = json_object_get(model, "unk_token");
    bool complete     = true;

    for (int b = 0; b < 256; b++) complete = complete && bpe->byte_id[b] >= 0;
    bpe->fuse_unk = flag_of(model, "fuse_unk", false);
    if (!is_empty(unk)) bpe->unk = rp__vocab_find(&r->t->vocab, json_string_value(unk), (int64_t)json_string_length(unk));
    QUOTED(r, RP_ERR_FORMAT, complete || is_empty(unk) || bpe->unk >= 0, "the unk_token is not in the vocabulary", r->name);
    QUOTED(r, RP_ERR_UNSUPPORTED, complete || !flag_of(model, "byte_fallback", false),
           "a model with byte_fallback that lacks some of the 256 bytes is not supported", r->name);
    return RP_OK;
}

static rp_status read_model(reader *r, json_t *model)
{
    const json_t *type = json_object_get(model, "type"), *dropout = json_object_get(model, "dropout");
    json_t *merges = json_object_get(model, "merges");

    QUOTED(r, RP_ERR_FORMAT, json_is_object(model), "there is no model", r->name);
    QUOTED(r, RP_ERR_UNSUPPORTED, (!type && merges) || !strcmp(kind_of(model), "BPE"),
           "a model '%.80s' is not supported, only BPE", r->name, kind_of(model));
    QUOTED(r, RP_ERR_UNSUPPORTED, is_empty(json_object_get(model, "continuing_subword_prefix")) &&
           is_empty(json_object_get(model, "end_of_word_suffix")), "a prefix or suffix of subwords is not supported", r->name);
    QUOTED(r, RP_ERR_UNSUPPORTED, is_empty(dropout) || (json_is_number(dropout) && json_number_value(dropout) == 0),
           "dropout of merges is not supported", r->name);
    QUOTED(r, RP_ERR_FORMAT, json_is_array(merges), "the model has no merges", r->name);
    RP_TRY(read_vocab(r, json_object_get(model, "vocab")));
    QUOTED(r, RP_ERR_FORMAT, json_array_size(merges) < RP_MAX_TOKENS, "it has %zu merges", r->name, json_array_size(merges));
    RP_TRY(rp__bpe_new(r->ctx, &r->t->vocab, (int64_t)json_array_size(merges), &r->t->bpe));
    for (size_t i = 0; i < json_array_size(merges); i++) RP_TRY(read_merge(r, json_array_get(merges, i), (int32_t)i));
    r->t->bpe.ignore_merges = flag_of(model, "ignore_merges", false);
    return read_unk(r, model);
}

/* ---- normalizers ---- */

static rp_status read_normalizer(reader *r, json_t *part)
{
    static const char *const forms[] = { [RP_NFC] = "NFC", [RP_NFD] = "NFD", [RP_NFKC] = "NFKC", [RP_NFKD] = "NFKD" };
    json_t *inner;
    size_t i;

    if (!part || json_is_null(part)) return RP_OK;
    if (!strcmp(kind_of(part), "Sequence")) {
        json_array_foreach(json_object_get(part, "normalizers"), i, inner) RP_TRY(read_normalizer(r, inner));
        return RP_OK;
    }
    for (int f = 0; f < RP_COUNT(forms); f++) {
        if (strcmp(kind_of(part), forms[f])) continue;
        QUOTED(r, RP_ERR_UNSUPPORTED, r->t->n_normalizers < RP_MAX_NORMALIZERS, "more than %d normalizers are not supported",
               r->name, RP_MAX_NORMALIZERS);
        r->t->normalizer[r->t->n_normalizers++] = (rp_normal_form)f;
        return RP_OK;
    }
    return rp__fail(r->ctx, RP_ERR_UNSUPPORTED, "cannot read '%s': a normalizer '%.80s' is not supported", r->name,
                    kind_of(part));
}

/* ---- pre-tokenizers ---- */

static rp_status add_stage(reader *r, const char *pattern, unsigned flags, rp_stage stage)
{
    rp_pretokenizer *pre = &r->t->pre;

    QUOTED(r, RP_ERR_UNSUPPORTED, !r->byte_level, "a pre-tokenizer after ByteLevel is not supported", r->name);
    QUOTED(r, RP_ERR_UNSUPPORTED, pre->n_stages < RP_MAX_STAGES, "more than %d pre-tokenizers are not supported", r->name,
           RP_MAX_STAGES);
    if (pattern) RP_TRY(rp__pattern_new(r->ctx, pattern, (int64_t)strlen(pattern), flags, &stage.pattern));
    pre->stage[pre->n_stages++] = stage;
    return RP_OK;
}

static rp_status read_split(reader *r, json_t *part)
{
    static const char *const names[] = { [RP_SPLIT_REMOVED] = "Removed", [RP_SPLIT_ISOLATED] = "Isolated",
        [RP_SPLIT_WITH_PREVIOUS] = "MergedWithPrevious", [RP_SPLIT_WITH_NEXT] = "MergedWithNext",
        [RP_SPLIT_CONTIGUOUS] = "Contiguous" };
    json_t *pattern       = json_object_get(part, "pattern");
    const char *regex     = json_string_value(json_object_get(pattern, "Regex"));
    const char *literal   = json_string_value(json_object_get(pattern, "String"));
    const char *behaviour = json_string_value(json_object_get(part, "behavior"));

    QUOTED(r, RP_ERR_FORMAT, regex || literal, "a Split has neither a Regex nor a String", r->name);
    for (int i = 0; behaviour && i < RP_COUNT(names); i++)
        if (!strcmp(behaviour, names[i]))
            return add_stage(r, regex ? regex : literal, regex ? 0 : RP_PATTERN_LITERAL,
                             (rp_stage){ .behaviour = (rp_split)i, .invert = flag_of(part, "invert", false) });
    return rp__fail(r->ctx, RP_ERR_UNSUPPORTED, "cannot read '%s': a Split that is '%.80s' is not supported", r->name,
                    behaviour ? behaviour : "without a behavior");
}

static rp_status read_digits(reader *r, json_t *part)
{
    bool each = flag_of(part, "individual_digits", false);

    return add_stage(r, "\\p{N}", RP_PATTERN_DIGITS, (rp_stage){ .behaviour = each ? RP_SPLIT_ISOLATED : RP_SPLIT_CONTIGUOUS });
}

static rp_status read_byte_level(reader *r, json_t *part)
{
    static const char gpt2[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
    bool regex               = flag_of(part, "use_regex", true);

    RP_TRY(add_stage(r, regex ? gpt2 : NULL, 0,
                     (rp_stage){ .behaviour = RP_SPLIT_ISOLATED, .prefix_space = flag_of(part, "add_prefix_space", true) }));
    r->byte_level = true;
    return RP_OK;
}

static rp_status read_pre_tokenizer(reader *r, json_t *part)
{
    static const struct { const char *type; rp_status (*read)(reader *r, json_t *part); } kinds[] = {
        { "Split", read_split }, { "Digits", read_digits }, { "ByteLevel", read_byte_level },
    };
    json_t *inner;
    size_t i;

    if (!strcmp(kind_of(part), "Sequence")) {
        json_array_foreach(json_object_get(part, "pretokenizers"), i, inner) RP_TRY(read_pre_tokenizer(r, inner));
        return RP_OK;
    }
    for (int k = 0; k < RP_COUNT(kinds); k++)
        if (!strcmp(kind_of(part), kinds[k].type)) return kinds[k].read(r, part);
    return rp__fail(r->ctx, RP_ERR_UNSUPPORTED, "cannot read '%s': a pre-tokenizer '%.80s' is not supported", r->name,
                    kind_of(part));
}

/* ---- added tokens ---- */

/* As the package numbers them: by the vocabulary, else after all that there is; the id in the file is only a claim. */
static int32_t id_for(const rp_vocab *vocab, const char *text, int64_t bytes, int32_t greatest)
{
    int32_t id = rp__vocab_find(vocab, text, bytes);

    if (id >= 0) return id;
    return greatest >= vocab->n_model ? greatest + 1 : vocab->n_model;
}

static rp_status read_added_token(reader *r, const json_t *token, int32_t *greatest)
{
    rp_vocab *vocab       = &r->t->vocab;
    const json_t *content = json_object_get(token, "content");
    const char *text      = json_string_value(content);
    int64_t bytes         = (int64_t)json_string_length(content);
    bool special          = flag_of(token, "special", false), normalized = flag_of(token, "normalized", !special);
    rp_bytes normal       = { 0 };

    QUOTED(r, RP_ERR_FORMAT, text, "an added token has no content", r->name);
    if (!bytes) return RP_OK;
    rp_added added = { .id = id_for(vocab, text, bytes, *greatest), .lstrip = flag_of(token, "lstrip", false),
                       .rstrip = flag_of(token, "rstrip", false), .single_word = flag_of(token, "single_word", false) };
    RP_TRY(rp__vocab_add(r->ctx, vocab, text, bytes, added.id, RP_TOKEN_ADDED | (special ? RP_TOKEN_SPECIAL : 0)));
    if (added.id > *greatest) *greatest = added.id;
    if (!normalized) return rp__added_insert(r->ctx, &r->t->raw, text, bytes, added);
    rp_status status = rp__tokenizer_normalize(r->t, text, bytes, &normal);
    if (status == RP_OK) status = rp__added_insert(r->ctx, &r->t->normalized, normal.at, normal.n, added);
    rp__release(normal.at);
    return status;
}

static rp_status read_added(reader *r, json_t *added)
{
    int32_t greatest = -1;
    json_t *token;
    size_t i;

    json_array_foreach(added, i, token) RP_TRY(read_added_token(r, token, &greatest));
    return RP_OK;
}

/* ---- bos and eos ---- */

static rp_status read_template(reader *r, json_t *part, bool *adds_bos)
{
    json_t *inner;
    size_t i;

    if (!strcmp(kind_of(part), "Sequence")) {
        json_array_foreach(json_object_get(part, "processors"), i, inner) RP_TRY(read_template(r, inner, adds_bos));
        return RP_OK;
    }
    if (strcmp(kind_of(part), "TemplateProcessing")) return RP_OK;
    const json_t *first = json_array_get(json_object_get(part, "single"), 0);
    const char *token   = json_string_value(json_object_get(json_object_get(first, "SpecialToken"), "id"));
    if (!token) return RP_OK;
    *adds_bos = true;
    if (r->t->bos < 0) r->t->bos = rp__tokenizer_id(r->t, token);
    return RP_OK;
}

/* "bos_token" is the token or an object with it; "bos_token_id", from config.json, is an id or a list of them. */
static int32_t special_id(const rp_tokenizer *t, const json_t *config, const char *key, const char *id_key)
{
    const json_t *value = json_object_get(config, key), *id = json_object_get(config, id_key);

    if (value) {
        const char *text = json_string_value(json_is_object(value) ? json_object_get(value, "content") : value);
        return text ? rp__tokenizer_id(t, text) : -1;
    }
    if (json_is_array(id)) id = json_array_get(id, 0);
    json_int_t number = json_is_integer(id) ? json_integer_value(id) : -1;
    return number >= 0 && number < t->vocab.n_ids ? (int32_t)number : -1;
}

static rp_status read_ends(reader *r, json_t *post, const json_t *config)
{
    rp_tokenizer *t = r->t;
    bool adds_bos   = false;

    t->bos = special_id(t, config, "bos_token", "bos_token_id");
    t->eos = special_id(t, config, "eos_token", "eos_token_id");
    RP_TRY(read_template(r, post, &adds_bos));
    t->adds_bos = flag_of(config, "add_bos_token", adds_bos) && t->bos >= 0;
    return RP_OK;
}

static rp_status read_all(reader *r, json_t *root, const json_t *config)
{
    QUOTED(r, RP_ERR_FORMAT, json_is_object(root), "it is not a JSON object", r->name);
    RP_TRY(read_model(r, json_object_get(root, "model")));
    RP_TRY(read_normalizer(r, json_object_get(root, "normalizer")));
    QUOTED(r, RP_ERR_UNSUPPORTED, json_is_object(json_object_get(root, "pre_tokenizer")),
           "a model without a pre-tokenizer is not supported", r->name);
    RP_TRY(read_pre_tokenizer(r, json_object_get(root, "pre_tokenizer")));
    QUOTED(r, RP_ERR_UNSUPPORTED, r->byte_level, "a pre-tokenizer without ByteLevel is not supported", r->name);
    RP_TRY(read_added(r, json_object_get(root, "added_tokens")));
    return read_ends(r, json_object_get(root, "post_processor"), config);
}

rp_status rp__tokenizer_build(rp_ctx *ctx, const char *name, json_t *root, json_t *config, rp_tokenizer **out)
{
    rp_tokenizer *t = rp__host_alloc(ctx, sizeof *t);

    if (!t) return RP_ERR_MEMORY;
    t->ctx = t->pre.ctx = ctx;
    t->bos = t->eos = -1;
    rp_status status = read_all(&(reader){ .ctx = ctx, .name = name, .t = t }, root, config);
    if (status == RP_OK) *out = t;
    else rp__tokenizer_free(t);
    return status;
}

rp_status rp__tokenizer_json(rp_ctx *ctx, const char *name, const char *text, int64_t bytes, json_t **out)
{
    json_error_t error;
    json_t *root = json_loadb(text, (size_t)bytes, JSON_ALLOW_NUL, &error);

    /* transformers writes a model_max_length of 10^30 where there is none; nothing that is read here is as large. */
    if (!root && json_error_code(&error) == json_error_numeric_overflow)
        root = json_loadb(text, (size_t)bytes, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &error);
    RP_CHECK(ctx, root, json_error_code(&error) == json_error_out_of_memory ? RP_ERR_MEMORY : RP_ERR_FORMAT,
             "cannot read '%s': line %d: %s", name, error.line, error.text);
    *out = root;
    return RP_OK;
}
