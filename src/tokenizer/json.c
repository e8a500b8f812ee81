/* tokenizer/json.c -- builds a tokenizer from the JSON of the `tokenizers` package.
 *
 * This file reads the added tokens, bos and eos, and has helpers for the files that read the other parts (reader.h). From the post-processor it
 * reads only which tokens begin and end a text. Truncation and padding do not change the ids of a text.
 */
#include "base/json_text.h"
#include "text/bytes.h"
#include "tokenizer/reader.h"

#include <string.h>

const char *rp__part_kind(const json_t *part)
{
    const char *type = json_string_value(json_object_get(part, "type"));

    return type ? type : "without a type";
}

bool rp__part_flag(const json_t *part, const char *key, bool missing)
{
    const json_t *value = json_object_get(part, key);

    return json_is_boolean(value) ? json_is_true(value) : missing;
}

bool rp__part_empty(const json_t *value)
{
    return !value || json_is_null(value) || (json_is_string(value) && !json_string_length(value));
}

rp_status rp__part_text(rp_reader *r, const json_t *part, const char *key, rp_bytes *out)
{
    const json_t *value = json_object_get(part, key);

    RP_READ_CHECK(r, RP_ERR_FORMAT, json_is_string(value), "a %.80s has no %s", r->name, rp__part_kind(part), key);
    return rp__bytes_push(r->ctx, out, json_string_value(value), (int64_t)json_string_length(value));
}

rp_status rp__part_pattern(rp_reader *r, const json_t *part, rp_pattern **out)
{
    const json_t *pattern = json_object_get(part, "pattern");
    const json_t *regex   = json_object_get(pattern, "Regex"), *literal = json_object_get(pattern, "String");
    const json_t *text    = json_is_string(regex) ? regex : literal;

    RP_READ_CHECK(r, RP_ERR_FORMAT, json_is_string(text), "a %.80s has neither a Regex nor a String", r->name, rp__part_kind(part));
    return rp__pattern_new(r->ctx, json_string_value(text), (int64_t)json_string_length(text),
                           text == regex ? 0 : RP_PATTERN_LITERAL, out);
}

rp_status rp__read_parts(rp_reader *r, json_t *part, const char *kind_name, const char *list, const rp_part_kind *kinds, int n_kinds)
{
    json_t *inner;
    size_t i;

    if (!part || json_is_null(part)) return RP_OK;
    if (!strcmp(rp__part_kind(part), "Sequence")) {
        json_array_foreach(json_object_get(part, list), i, inner) RP_TRY(rp__read_parts(r, inner, kind_name, list, kinds, n_kinds));
        return RP_OK;
    }
    for (int k = 0; k < n_kinds; k++)
        if (!strcmp(rp__part_kind(part), kinds[k].type)) return kinds[k].read ? kinds[k].read(r, part) : RP_OK;
    return rp_fail(r->ctx, RP_ERR_UNSUPPORTED, "cannot read '%s': %s '%.80s' is not supported", r->name, kind_name, rp__part_kind(part));
}

/* ---- added tokens ---- */

/* The id as the package numbers it: the vocabulary's, otherwise the next after all others. The id in the file is not used. */
static int32_t id_for(const rp_vocab *vocab, const char *text, int64_t bytes, int32_t greatest)
{
    int32_t id = rp__vocab_find(vocab, text, bytes);

    if (id >= 0) return id;
    return greatest >= vocab->n_model ? greatest + 1 : vocab->n_model;
}

static rp_status read_added_token(rp_reader *r, const json_t *token, int32_t *greatest)
{
    rp_vocab *vocab       = &r->t->vocab;
    const json_t *content = json_object_get(token, "content");
    const char *text      = json_string_value(content);
    int64_t bytes         = (int64_t)json_string_length(content);
    bool special          = rp__part_flag(token, "special", false), normalized = rp__part_flag(token, "normalized", !special);
    rp_bytes normal       = { 0 };

    RP_READ_CHECK(r, RP_ERR_FORMAT, text, "an added token has no content", r->name);
    if (!bytes) return RP_OK;
    rp_added added = { .id = id_for(vocab, text, bytes, *greatest), .lstrip = rp__part_flag(token, "lstrip", false),
                       .rstrip = rp__part_flag(token, "rstrip", false), .single_word = rp__part_flag(token, "single_word", false) };
    RP_TRY(rp__vocab_add(r->ctx, vocab, text, bytes, added.id, RP_TOKEN_ADDED | (special ? RP_TOKEN_SPECIAL : 0)));
    if (added.id > *greatest) *greatest = added.id;
    if (!normalized) return rp__added_insert(r->ctx, &r->t->raw, text, bytes, added);
    rp_status status = rp__normalize_all(r->ctx, &r->t->normalizers, text, bytes, &normal);
    if (status == RP_OK) status = rp__added_insert(r->ctx, &r->t->normalized, normal.at, normal.n, added);
    if (status == RP_OK) status = rp__vocab_show(r->ctx, vocab, added.id, normal.at, normal.n);
    rp__release(normal.at);
    return status;
}

static rp_status read_added(rp_reader *r, json_t *added)
{
    int32_t greatest = -1;
    json_t *token;
    size_t i;

    json_array_foreach(added, i, token) RP_TRY(read_added_token(r, token, &greatest));
    return RP_OK;
}

/* ---- bos and eos ---- */

static rp_status read_template(rp_reader *r, json_t *part)
{
    json_t *single    = json_object_get(part, "single");
    const json_t *one = json_array_get(single, 0), *last = json_array_get(single, json_array_size(single) - 1);

    r->front = json_string_value(json_object_get(json_object_get(one, "SpecialToken"), "id"));
    if (last != one) r->back = json_string_value(json_object_get(json_object_get(last, "SpecialToken"), "id"));
    return RP_OK;
}

/* BertProcessing and RobertaProcessing: ["[CLS]", 101] and ["[SEP]", 102]. */
static rp_status read_cls_sep(rp_reader *r, json_t *part)
{
    r->front = json_string_value(json_array_get(json_object_get(part, "cls"), 0));
    r->back  = json_string_value(json_array_get(json_object_get(part, "sep"), 0));
    return RP_OK;
}

static rp_status read_post_processor(rp_reader *r, json_t *part)
{
    static const rp_part_kind kinds[] = {
        { "TemplateProcessing", read_template }, { "BertProcessing", read_cls_sep }, { "RobertaProcessing", read_cls_sep },
        { "ByteLevel", NULL },
    };

    return rp__read_parts(r, part, "a post-processor", "processors", kinds, RP_COUNT(kinds));
}

/* "bos_token" is a token, or an object that contains it. "bos_token_id", from config.json, is an id or a list of ids. */
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

static rp_status read_ends(rp_reader *r, json_t *post, const json_t *config)
{
    rp_tokenizer *t = r->t;

    t->bos = special_id(t, config, "bos_token", "bos_token_id");
    t->eos = special_id(t, config, "eos_token", "eos_token_id");
    RP_TRY(read_post_processor(r, post));
    if (t->bos < 0 && r->front) t->bos = rp__tokenizer_id(t, r->front);
    if (t->eos < 0 && r->back) t->eos = rp__tokenizer_id(t, r->back);
    t->adds_bos = rp__part_flag(config, "add_bos_token", r->front) && t->bos >= 0;
    return RP_OK;
}

static rp_status json_read_all(rp_reader *r, json_t *root, const json_t *config)
{
    RP_READ_CHECK(r, RP_ERR_FORMAT, json_is_object(root), "it is not a JSON object", r->name);
    RP_TRY(rp__tokenizer_read_model(r, json_object_get(root, "model")));
    RP_TRY(rp__tokenizer_read_normalizer(r, json_object_get(root, "normalizer")));
    RP_TRY(rp__tokenizer_read_pre_tokenizer(r, json_object_get(root, "pre_tokenizer")));
    RP_TRY(rp__tokenizer_finish_model(r, json_object_get(root, "model")));
    RP_TRY(rp__tokenizer_read_decoder(r, json_object_get(root, "decoder")));
    RP_TRY(read_added(r, json_object_get(root, "added_tokens")));
    return read_ends(r, json_object_get(root, "post_processor"), config);
}

rp_status rp__tokenizer_build(rp_ctx *ctx, const char *name, json_t *root, json_t *config, rp_tokenizer **out)
{
    rp_tokenizer *t = rp__host_alloc(ctx, sizeof *t);

    if (!t) return RP_ERR_MEMORY;
    t->ctx = ctx;
    t->bos = t->eos = -1;
    rp_status status = json_read_all(&(rp_reader){ .ctx = ctx, .name = name, .t = t }, root, config);
    if (status == RP_OK) {
        rp__encoding_build(&t->encoding, t);
        *out = t;
    } else {
        rp__tokenizer_free(t);
    }
    return status;
}

rp_status rp__tokenizer_json(rp_ctx *ctx, const char *name, const char *text, int64_t bytes, json_t **out)
{
    json_error_t error;
    json_t *root = rp__json_read(text, (size_t)bytes, JSON_ALLOW_NUL, &error);

    /* transformers writes a model_max_length of 10^30 for "no limit", which overflows; no number that is used here is that large */
    if (!root && json_error_code(&error) == json_error_numeric_overflow)
        root = rp__json_read(text, (size_t)bytes, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &error);
    RP_CHECK(ctx, root, json_error_code(&error) == json_error_out_of_memory ? RP_ERR_MEMORY : RP_ERR_FORMAT,
             "cannot read '%s' as a tokenizer.json: line %d: %s", name, error.line, error.text);
    *out = root;
    return RP_OK;
}
