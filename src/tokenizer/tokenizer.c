/* tokenizer/tokenizer.c -- the interface: load, encode, decode.
 *
 * A tokenizer has scratch memory and a cache of pieces, so encoding modifies it. Like a context, it may be used by one thread at a time.
 */
#include "base/file.h"
#include "text/bytes.h"
#include "tokenizer/internal.h"

#include <string.h>

/* ---- load ---- */

#define JSON_CAP_BYTES (INT64_C(512) << 20)

/* `optional`: an absent file is not an error, and *out stays NULL. mark: a hash of the bytes; may be NULL. */
static rp_status read_json(rp_ctx *ctx, const char *folder, const char *name, bool optional, json_t **out, uint64_t *mark)
{
    char *path = rp__path_join(ctx, folder, name), *text = NULL;
    rp_status status = path ? RP_OK : RP_ERR_MEMORY;
    int64_t bytes    = 0;

    if (path && !(optional && !rp__file_exists(path))) {
        status = rp__file_read(ctx, path, JSON_CAP_BYTES, &text, &bytes);
        if (status == RP_OK) status = rp__tokenizer_json(ctx, path, text, bytes, out);
        if (status == RP_OK && mark) *mark = rp__hash(text, (size_t)bytes, RP_HASH_START);
    }
    RP_RELEASE(text, path);
    return status;
}

rp_status rp__tokenizer_config(rp_ctx *ctx, const char *folder, json_t **out)
{
    static const char *const ids[] = { "bos_token_id", "eos_token_id" };
    json_t *map = NULL, *model = NULL;
    rp_status status = RP_OK;

    RP_TRY_GOTO(read_json(ctx, folder, "tokenizer_config.json", true, out, NULL));
    if (!*out) *out = json_object();
    if (!*out) RP_TRY_GOTO(rp_fail(ctx, RP_ERR_MEMORY, "cannot allocate a JSON object"));
    RP_TRY_GOTO(read_json(ctx, folder, "special_tokens_map.json", true, &map, NULL));
    RP_TRY_GOTO(read_json(ctx, folder, "config.json", true, &model, NULL));
    if (json_is_object(map)) json_object_update_missing(*out, map);
    for (int i = 0; i < RP_COUNT(ids); i++) {
        json_t *id = json_object_get(model, ids[i]);
        if (!id) id = json_object_get(json_object_get(model, "text_config"), ids[i]);      /* of a model with several parts, too */
        if (id) json_object_set(*out, ids[i], id);
    }
done:
    json_decref(map);
    json_decref(model);
    return status;
}

static rp_status read_folder(rp_ctx *ctx, const char *folder, const char *name, rp_tokenizer_source *out)
{
    out->name = rp__path_join(ctx, folder, name);
    if (!out->name) return RP_ERR_MEMORY;
    RP_TRY(read_json(ctx, folder, name, false, &out->root, &out->mark));
    return rp__tokenizer_config(ctx, folder, &out->config);
}

static rp_status read_any(rp_ctx *ctx, const char *folder, const char *name, rp_tokenizer_source *out)
{
    if (!rp__is_spm(name)) return read_folder(ctx, folder, name, out);
    out->name = rp__host_text(ctx, name);
    return out->name ? rp__tokenizer_spm_folder(ctx, folder, name, &out->root, &out->config, &out->mark) : RP_ERR_MEMORY;
}

static rp_status read_gguf(rp_ctx *ctx, const char *path, rp_tokenizer_source *out)
{
    rp_gguf *file = NULL;

    out->from_gguf = true;
    out->name      = rp__host_text(ctx, path);
    if (!out->name) return RP_ERR_MEMORY;
    RP_TRY(rp__gguf_open(ctx, path, &file));
    rp_status status = rp__tokenizer_from_gguf(ctx, file, path, &out->root, &out->config);
    rp__gguf_close(file);
    return status;
}

/* Reads a file together with the files next to it, which define its special tokens. */
static rp_status read_file(rp_ctx *ctx, const char *path, rp_tokenizer_source *out)
{
    const char *slash = strrchr(path, '/');
    char *folder      = rp__host_text(ctx, slash ? path : "");

    if (!folder) return RP_ERR_MEMORY;
    if (slash) folder[slash + 1 - path] = 0;
    rp_status status = read_any(ctx, folder, slash ? slash + 1 : path, out);
    rp__release(folder);
    return status;
}

/* Mistral's names end in a version: "tokenizer.model.v3". */
bool rp__is_spm(const char *name) { return strstr(name, ".model") && !rp__ends_with(name, ".json"); }

rp_status rp__tokenizer_file(rp_ctx *ctx, const char *folder, const char **out)
{
    static const char *const names[] = { "tokenizer.json", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model" };

    *out = names[0];
    for (int i = 0; i < RP_COUNT(names); i++) {
        char *path = rp__path_join(ctx, folder, names[i]);
        if (!path) return RP_ERR_MEMORY;
        bool exists = rp__file_exists(path);
        rp__release(path);
        if (exists) return *out = names[i], RP_OK;
    }
    return RP_OK;
}

rp_status rp__tokenizer_read(rp_ctx *ctx, const char *path, rp_tokenizer_source *out)
{
    const char *name;

    *out = (rp_tokenizer_source){ 0 };
    if (!rp__file_is_dir(path)) return rp__ends_with(path, ".gguf") ? read_gguf(ctx, path, out) : read_file(ctx, path, out);
    RP_TRY(rp__tokenizer_file(ctx, path, &name));
    return read_any(ctx, path, name, out);
}

void rp__tokenizer_source_free(rp_tokenizer_source *source)
{
    json_decref(source->root);
    json_decref(source->config);
    rp__release(source->name);
}

rp_status rp__tokenizer_load(rp_ctx *ctx, const char *path, rp_tokenizer **out)
{
    rp_tokenizer_source source;
    rp_tokenizer *t  = NULL;
    rp_status status = rp__tokenizer_read(ctx, path, &source);

    if (status == RP_OK) status = rp__tokenizer_build(ctx, source.name, source.root, source.config, &t);
    if (status == RP_OK) {
        t->mark      = source.mark;
        t->from_gguf = source.from_gguf;
        t->path      = rp__host_text(ctx, path);
        if (!t->path) status = RP_ERR_MEMORY;
    }
    rp__tokenizer_source_free(&source);
    if (status == RP_OK) *out = t;
    else rp__tokenizer_free(t);
    return status;
}

void rp__tokenizer_free(rp_tokenizer *t)
{
    if (!t) return;
    rp__release(t->path);
    rp__vocab_free(&t->vocab);
    rp__added_free(&t->raw);
    rp__added_free(&t->normalized);
    rp__pretokenizer_free(&t->pre);
    rp__bpe_free(&t->bpe);
    rp__unigram_free(&t->unigram);
    rp__wordpiece_free(&t->wordpiece);
    rp__normalizers_free(&t->normalizers);
    rp__decoders_free(&t->decoders);
    rp__release(t->mapped.at);
    rp__encoding_free(&t->encoding);
    rp__release(t);
}

/* ---- encode ---- */

/* Adds the tokenizer's name to the error of a pattern that exceeds its limit. */
static rp_status named(const rp_tokenizer *t, rp_status status)
{
    char why[RP_ERROR_CHARS];

    if (status != RP_ERR_UNSUPPORTED || !t->path) return status;
    memcpy(why, t->ctx->error, sizeof why);
    return rp_fail(t->ctx, status, "the tokenizer '%s': %s", t->path, why);
}

rp_status rp__tokenizer_feed(rp_tokenizer *t, const char *text, int64_t bytes, rp_text_part part, int32_t **ids, int64_t *n_ids)
{
    rp_ids *made = &t->encoding.ids;

    RP_CHECK(t->ctx, bytes >= 0, RP_ERR_ARG, "a text of %" PRId64 " bytes", bytes);
    if (part & RP_TEXT_BEGINS) rp__encoding_begin(&t->encoding);
    rp_status status = rp__encoding_give(&t->encoding, 0, text, bytes, true, part & RP_TEXT_ENDS);
    if (status == RP_OK) {
        *ids   = made->at;
        *n_ids = made->n;
        *made  = (rp_ids){ 0 };
    }
    return named(t, status);
}

rp_status rp__tokenizer_encode(rp_tokenizer *t, const char *text, int64_t bytes, int32_t **ids, int64_t *n_ids)
{
    return rp__tokenizer_feed(t, text, bytes, RP_TEXT_WHOLE, ids, n_ids);
}

/* ---- decode ---- */

/* Appends a token's bytes. Added tokens, and tokens with a character outside the alphabet, stand for their own text. */
static rp_status put_token(rp_ctx *ctx, const rp_vocab *vocab, int32_t id, rp_bytes *out)
{
    const char *text = rp__vocab_text(vocab, id);
    int64_t bytes    = vocab->token[id].bytes;

    if (vocab->token[id].flags & RP_TOKEN_ADDED) return rp__bytes_push(ctx, out, text, bytes);
    return rp__text_bytes(ctx, text, bytes, out);
}

static rp_status decode_all(rp_tokenizer *t, rp_decoding *d, const int32_t *ids, int64_t n_ids, bool skip_special)
{
    bool any = false;

    for (int64_t i = 0; i < n_ids; i++) {
        const rp_token *token = &t->vocab.token[ids[i]];
        if (!token->flags || (skip_special && (token->flags & RP_TOKEN_SPECIAL))) continue;
        if (any && t->decoders.joins) RP_TRY(rp__bytes_push(t->ctx, d->out, " ", 1));
        any = true;
        if (t->decoders.bytes) RP_TRY(put_token(t->ctx, &t->vocab, ids[i], d->out));
        else RP_TRY(rp__decode_token(d, t->vocab.text.at + token->shown, token->shown_bytes));
    }
    return rp__decode_end(d);
}

rp_status rp__tokenizer_decode(rp_tokenizer *t, const int32_t *ids, int64_t n_ids, bool skip_special, char **text, int64_t *bytes)
{
    rp_bytes out     = { 0 };
    rp_decoding d    = { .ctx = t->ctx, .step = t->decoders.step, .n_steps = t->decoders.n_steps, .out = &out };
    rp_status status = RP_OK;

    for (int64_t i = 0; i < n_ids; i++)
        RP_CHECK(t->ctx, ids[i] >= 0 && ids[i] < t->vocab.n_ids, RP_ERR_ARG, "token %d is outside the vocabulary of %d",
                 ids[i], t->vocab.n_ids);
    for (int k = 0; k < d.n_steps; k++) {
        d.step[k].n = d.step[k].held.n = d.step[k].made.n = 0;
        if (d.step[k].pattern) rp__pattern_begin(d.step[k].pattern);
    }
    RP_TRY_GOTO(decode_all(t, &d, ids, n_ids, skip_special));
    RP_TRY_GOTO(rp__bytes_push(t->ctx, &out, "", 1));
    *text  = out.at;
    *bytes = out.n - 1;
    out.at = NULL;
done:
    rp__release(out.at);
    return status;
}

/* ---- properties ---- */

int32_t rp__tokenizer_vocab(const rp_tokenizer *t) { return t->vocab.n_ids; }
int32_t rp__tokenizer_bos(const rp_tokenizer *t) { return t->bos; }
int32_t rp__tokenizer_eos(const rp_tokenizer *t) { return t->eos; }
bool rp__tokenizer_adds_bos(const rp_tokenizer *t) { return t->adds_bos; }

bool rp__tokenizer_is_special(const rp_tokenizer *t, int32_t id)
{
    return id >= 0 && id < rp__tokenizer_vocab(t) && t->vocab.token[id].flags & RP_TOKEN_SPECIAL;
}

int32_t rp__tokenizer_id(const rp_tokenizer *t, const char *token)
{
    return rp__vocab_find(&t->vocab, token, (int64_t)strlen(token));
}
