/* io/tokenizer_gguf.c -- the tokenizer.json and tokenizer_config.json that the metadata of a GGUF file amounts to.
 *
 * A GGUF names its pre-tokenizer instead of writing it down; `kinds` holds what the names stand for in the models they come from.
 * Loading and exporting both go through this JSON, so what is exported encodes as what was loaded.
 */
#include "io/tokenizer_inside.h"

#include <string.h>

#define BYTE_LEVEL(regex) "{'type':'ByteLevel','add_prefix_space':false,'trim_offsets':true,'use_regex':" regex "}"
#define SPLIT(pattern) "{'type':'Split','pattern':{'Regex':\"" pattern "\"},'behavior':'Isolated','invert':false}"
#define SEQUENCE(parts) "{'type':'Sequence','pretokenizers':[" parts "]}"
#define DIGITS "{'type':'Digits','individual_digits':true}"
#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\\\p{L}+| ?\\\\p{N}+| ?[^\\\\s\\\\p{L}\\\\p{N}]+|\\\\s+(?!\\\\S)"
#define CONTRACTION "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define QWEN(digits) \
    CONTRACTION "|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}" digits \
    "| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"
#define O200K_WORD(upper, lower) \
    "[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]" upper \
    "[\\\\p{Ll}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]" lower CONTRACTION "?"
#define O200K \
    O200K_WORD("*", "+") "|" O200K_WORD("+", "*") "|" \
    "\\\\p{N}{1,3}| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n/]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"
/* What llama.cpp does where a file says "default" or nothing. */
#define DEFAULT \
    SPLIT("[\\\\p{P}\\\\$\\\\+<=>\\\\^~\\\\|]+") "," SPLIT(GPT2) "," SPLIT("\\\\p{N}+") "," SPLIT("[0-9][0-9][0-9]")

typedef struct { const char *name, *pre_tokenizer, *normalizer; bool ignore_merges, adds_bos; } kind;

static const kind kinds[] = {
    { "smollm",         SEQUENCE(DIGITS "," BYTE_LEVEL("true")), NULL, false, false },
    { "starcoder",      SEQUENCE(DIGITS "," BYTE_LEVEL("true")), NULL, false, false },
    { "refact",         SEQUENCE(DIGITS "," BYTE_LEVEL("true")), NULL, false, false },
    { "command-r",      SEQUENCE(DIGITS "," BYTE_LEVEL("true")), "NFC", false, true },
    { "gpt-2",          BYTE_LEVEL("true"), NULL, false, false },
    { "phi-2",          BYTE_LEVEL("true"), NULL, false, false },
    { "mpt",            BYTE_LEVEL("true"), "NFC", false, false },
    { "olmo",           BYTE_LEVEL("true"), "NFC", false, false },
    { "llama-bpe",      SEQUENCE(SPLIT(QWEN("{1,3}")) "," BYTE_LEVEL("false")), NULL, true, true },
    { "llama3",         SEQUENCE(SPLIT(QWEN("{1,3}")) "," BYTE_LEVEL("false")), NULL, true, true },
    { "llama-v3",       SEQUENCE(SPLIT(QWEN("{1,3}")) "," BYTE_LEVEL("false")), NULL, true, true },
    { "smaug-bpe",      SEQUENCE(SPLIT(QWEN("{1,3}")) "," BYTE_LEVEL("false")), NULL, true, false },
    { "dbrx",           SEQUENCE(SPLIT(QWEN("{1,3}")) "," BYTE_LEVEL("false")), NULL, false, false },
    { "qwen2",          SEQUENCE(SPLIT(QWEN("")) "," BYTE_LEVEL("false")), "NFC", false, false },
    { "deepseek-r1-qwen", SEQUENCE(SPLIT(QWEN("")) "," BYTE_LEVEL("false")), "NFC", false, false },
    { "stablelm2",      SEQUENCE(SPLIT(QWEN("")) "," BYTE_LEVEL("false")), "NFC", false, false },
    { "gpt-4o",         SEQUENCE(SPLIT(O200K) "," BYTE_LEVEL("false")), NULL, false, false },
    { "llama4",         SEQUENCE(SPLIT(O200K) "," BYTE_LEVEL("false")), NULL, false, true },
    { "default",        SEQUENCE(DEFAULT "," BYTE_LEVEL("false")), NULL, false, false },
};

enum { TYPE_UNKNOWN = 2, TYPE_CONTROL = 3, TYPE_USER = 4 };

typedef struct {
    rp_ctx *ctx;
    const rp_gguf *file;
    const char *name;
    const kind *kind;
    const rp_gguf_value *tokens, *types, *merges;
} source;

static const rp_gguf_value *get(const source *s, const char *key, rp_gguf_kind want, rp_gguf_kind element)
{
    const rp_gguf_value *v = rp__gguf_get(s->file, key);

    return v && v->kind == want && (want != RP_GGUF_ARRAY || v->element == element) ? v : NULL;
}

static bool text_is(const rp_gguf_value *v, const char *text)
{
    return v && v->s.bytes == (int64_t)strlen(text) && !memcmp(v->s.text, text, strlen(text));
}

static rp_status find_kind(source *s)
{
    const rp_gguf_value *model = get(s, "tokenizer.ggml.model", RP_GGUF_STRING, 0);
    const rp_gguf_value *pre   = get(s, "tokenizer.ggml.pre", RP_GGUF_STRING, 0);

    RP_CHECK(s->ctx, model, RP_ERR_FORMAT, "cannot read '%s': it has no tokenizer (tokenizer.ggml.model)", s->name);
    RP_CHECK(s->ctx, text_is(model, "gpt2"), RP_ERR_UNSUPPORTED,
             "cannot read '%s': a tokenizer model '%.*s' is not supported, only gpt2", s->name,
             (int)(model->s.bytes < 80 ? model->s.bytes : 80), model->s.text);
    for (int i = 0; i < RP_COUNT(kinds) && !s->kind; i++)
        if (pre ? text_is(pre, kinds[i].name) : !strcmp(kinds[i].name, "default")) s->kind = &kinds[i];
    if (s->kind) return RP_OK;
    return rp__fail(s->ctx, RP_ERR_UNSUPPORTED,
                    "cannot read '%s': a pre-tokenizer '%.*s' (tokenizer.ggml.pre) is not supported", s->name,
                    (int)(pre->s.bytes < 80 ? pre->s.bytes : 80), pre->s.text);
}

static rp_status find_arrays(source *s)
{
    s->tokens = get(s, "tokenizer.ggml.tokens", RP_GGUF_ARRAY, RP_GGUF_STRING);
    s->merges = get(s, "tokenizer.ggml.merges", RP_GGUF_ARRAY, RP_GGUF_STRING);
    s->types  = get(s, "tokenizer.ggml.token_type", RP_GGUF_ARRAY, RP_GGUF_INT);
    if (!s->types) s->types = get(s, "tokenizer.ggml.token_type", RP_GGUF_ARRAY, RP_GGUF_UINT);
    RP_CHECK(s->ctx, s->tokens && s->merges, RP_ERR_FORMAT, "cannot read '%s': the tokenizer has no tokens or no merges", s->name);
    RP_CHECK(s->ctx, !s->types || s->types->count == s->tokens->count, RP_ERR_FORMAT,
             "cannot read '%s': %" PRId64 " tokens have %" PRId64 " types", s->name, s->tokens->count, s->types->count);
    RP_CHECK(s->ctx, s->tokens->count < RP_MAX_TOKENS && s->merges->count < RP_MAX_TOKENS, RP_ERR_FORMAT,
             "cannot read '%s': %" PRId64 " tokens and %" PRId64 " merges are too many", s->name, s->tokens->count,
             s->merges->count);
    return RP_OK;
}

static rp_status bad_token(const source *s, int64_t i)
{
    rp_gguf_string t = rp__gguf_array_string(s->file, s->tokens, i);

    return rp__fail(s->ctx, RP_ERR_FORMAT, "cannot read '%s': token %" PRId64 " ('%.*s') comes twice or is not UTF-8", s->name, i,
                    (int)(t.bytes < 80 ? t.bytes : 80), t.text);
}

static rp_status make_vocab(const source *s, json_t *vocab)
{
    for (int64_t i = 0; i < s->tokens->count; i++) {
        rp_gguf_string t = rp__gguf_array_string(s->file, s->tokens, i);
        size_t before    = json_object_size(vocab);
        if (memchr(t.text, 0, (size_t)t.bytes)) return bad_token(s, i);
        json_object_setn_new(vocab, t.text, (size_t)t.bytes, json_integer(i));
        if (json_object_size(vocab) == before) return bad_token(s, i);
    }
    return RP_OK;
}

/* "left right"; neither has a space, but a token may begin with one in files that were made by hand. */
static rp_status make_merges(const source *s, json_t *merges)
{
    for (int64_t i = 0; i < s->merges->count; i++) {
        rp_gguf_string t  = rp__gguf_array_string(s->file, s->merges, i);
        const char *space = t.bytes > 1 ? memchr(t.text + 1, ' ', (size_t)t.bytes - 1) : NULL;
        json_t *pair      = space ? json_pack("[s%s%]", t.text, (size_t)(space - t.text), space + 1,
                                              (size_t)(t.text + t.bytes - space - 1)) : NULL;
        RP_CHECK(s->ctx, pair && !json_array_append_new(merges, pair), RP_ERR_FORMAT,
                 "cannot read '%s': merge %" PRId64 " is not a pair of tokens", s->name, i);
    }
    return RP_OK;
}

static rp_status make_added(const source *s, json_t *added)
{
    for (int64_t i = 0; s->types && i < s->types->count; i++) {
        int type         = (int)rp__gguf_array_number(s->file, s->types, i);
        rp_gguf_string t = rp__gguf_array_string(s->file, s->tokens, i);
        if (type != TYPE_UNKNOWN && type != TYPE_CONTROL && type != TYPE_USER) continue;
        json_t *token = json_pack("{sIss%sbsbsbsbsb}", "id", (json_int_t)i, "content", t.text, (size_t)t.bytes, "single_word", 0,
                                  "lstrip", 0, "rstrip", 0, "normalized", 0, "special", type != TYPE_USER);
        if (!token || json_array_append_new(added, token)) return bad_token(s, i);
    }
    return RP_OK;
}

/* The token that a key names by id; NULL where there is none. */
static json_t *named_token(const source *s, const char *key)
{
    const rp_gguf_value *id = rp__gguf_get(s->file, key);

    if (!id || (id->kind != RP_GGUF_INT && id->kind != RP_GGUF_UINT) || id->i < 0 || id->i >= s->tokens->count) return NULL;
    rp_gguf_string t = rp__gguf_array_string(s->file, s->tokens, id->i);
    return json_stringn(t.text, (size_t)t.bytes);
}

static json_t *make_template(const source *s)
{
    const rp_gguf_value *bos = rp__gguf_get(s->file, "tokenizer.ggml.bos_token_id");
    json_t *token            = named_token(s, "tokenizer.ggml.bos_token_id");
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

static bool adds_bos(const source *s)
{
    const rp_gguf_value *add = get(s, "tokenizer.ggml.add_bos_token", RP_GGUF_BOOL, 0);

    return add ? add->i : s->kind->adds_bos;
}

/* The table is written with apostrophes for quotes outside patterns, which are in quotes already. */
static json_t *parse_kind(rp_ctx *ctx, const char *text)
{
    char *quoted = rp__host_text(ctx, text);
    bool inside  = false;

    if (!quoted) return NULL;
    for (char *p = quoted; *p; p++) {
        if (*p == '"') inside = !inside;
        else if (*p == '\'' && !inside) *p = '"';
    }
    json_t *parsed = json_loads(quoted, 0, NULL);
    rp__release(quoted);
    return parsed;
}

static void set_prefix_space(const source *s, json_t *part)
{
    const rp_gguf_value *prefix = get(s, "tokenizer.ggml.add_space_prefix", RP_GGUF_BOOL, 0);
    json_t *parts               = json_object_get(part, "pretokenizers");
    json_t *last                = parts ? json_array_get(parts, json_array_size(parts) - 1) : part;

    if (prefix && prefix->i) json_object_set_new(last, "add_prefix_space", json_true());
}

/* Everything around the lists; takes nothing over. */
static json_t *assemble(const source *s, json_t *vocab, json_t *merges, json_t *added, json_t *pre)
{
    json_t *normalizer = s->kind->normalizer ? json_pack("{ss}", "type", s->kind->normalizer) : NULL;

    return json_pack("{sssnsnsOso?sOso?s{sssbsbsb}s{sssnsnsnsnsbsbsbsOsO}}", "version", "1.0", "truncation", "padding",
        "added_tokens", added, "normalizer", normalizer, "pre_tokenizer", pre,
        "post_processor", adds_bos(s) ? make_template(s) : NULL,
        "decoder", "type", "ByteLevel", "add_prefix_space", 1, "trim_offsets", 1, "use_regex", 1,
        "model", "type", "BPE", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", 0,
        "byte_fallback", 0, "ignore_merges", s->kind->ignore_merges, "vocab", vocab, "merges", merges);
}

static rp_status make_root(const source *s, json_t **out)
{
    json_t *vocab = json_object(), *merges = json_array(), *added = json_array(), *pre = parse_kind(s->ctx, s->kind->pre_tokenizer);
    rp_status status = RP_ERR_MEMORY;

    if (!vocab || !merges || !added || !pre) {
        rp__fail(s->ctx, RP_ERR_MEMORY, "cannot allocate the tokenizer of '%s'", s->name);
        goto done;
    }
    RP_TRY_GOTO(make_vocab(s, vocab));
    RP_TRY_GOTO(make_merges(s, merges));
    RP_TRY_GOTO(make_added(s, added));
    set_prefix_space(s, pre);
    *out = assemble(s, vocab, merges, added, pre);
    if (!*out) status = rp__fail(s->ctx, RP_ERR_MEMORY, "cannot allocate the tokenizer of '%s'", s->name);
done:
    json_decref(vocab);
    json_decref(merges);
    json_decref(added);
    json_decref(pre);
    return status;
}

static rp_status make_config(const source *s, json_t **out)
{
    static const char *const named[][2] = {
        { "bos_token", "tokenizer.ggml.bos_token_id" }, { "eos_token", "tokenizer.ggml.eos_token_id" },
        { "unk_token", "tokenizer.ggml.unknown_token_id" }, { "pad_token", "tokenizer.ggml.padding_token_id" },
    };
    const rp_gguf_value *template = get(s, "tokenizer.chat_template", RP_GGUF_STRING, 0);
    json_t *config = json_pack("{sssbsb}", "tokenizer_class", "PreTrainedTokenizerFast", "clean_up_tokenization_spaces", 0,
                               "add_bos_token", adds_bos(s));

    RP_CHECK(s->ctx, config, RP_ERR_MEMORY, "cannot allocate the tokenizer of '%s'", s->name);
    for (int i = 0; i < RP_COUNT(named); i++) {
        json_t *token = named_token(s, named[i][1]);
        if (token) json_object_set_new(config, named[i][0], token);
    }
    if (template) json_object_set_new(config, "chat_template", json_stringn(template->s.text, (size_t)template->s.bytes));
    *out = config;
    return RP_OK;
}

rp_status rp__tokenizer_from_gguf(rp_ctx *ctx, const rp_gguf *file, const char *name, json_t **root, json_t **config)
{
    source s = { .ctx = ctx, .file = file, .name = name };

    RP_TRY(find_kind(&s));
    RP_TRY(find_arrays(&s));
    RP_TRY(make_root(&s, root));
    rp_status status = make_config(&s, config);
    if (status == RP_OK) return RP_OK;
    json_decref(*root);
    *root = NULL;
    return status;
}
