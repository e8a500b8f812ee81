/* tokenizer/spm.c -- converts SentencePiece's tokenizer.model to the equivalent tokenizer.json and tokenizer_config.json.
 *
 *   tokenizer.model ─ protobuf ─ lists as in a GGUF file ─ gguf_words.c ─ JSON ─┐
 *   tokenizer_config.json, special_tokens_map.json, config.json next to it ─────┴─ a tokenizer
 *
 * GGUF has the same lists with the same numbers for kinds of pieces (llama.cpp takes them from there), so one conversion serves both.
 * The field numbers are SentencePiece's (sentencepiece.proto).
 */
#include "base/bump.h"
#include "base/file.h"
#include "base/json_text.h"
#include "text/bytes.h"
#include "tokenizer/internal.h"
#include "tokenizer/sentencepiece.pb-c.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPM_CAP_BYTES (INT64_C(64) << 20)

enum { UNIGRAM = 1, BPE };
enum { U8, U32 = 4, I32, F32, BOOL, STRING, ARRAY };       /* types of values in GGUF */

/* ---- protobuf ---- */

/* Unpacked messages are allocated in one bump and freed with it, because libprotobuf-c leaks memory when a message is malformed. */
typedef struct { rp_bump bump; bool failed; } memory;

static void *spm_take(void *user, size_t bytes)
{
    memory *m = user;
    void *p   = rp__bump_alloc(&m->bump, (int64_t)bytes + !bytes);

    m->failed = m->failed || !p;
    return p;
}

static void give(void *user, void *p)
{
    (void)user;
    (void)p;
}

/* ---- lists ---- */

typedef struct { rp_ctx *ctx; rp_bytes file; uint64_t n_keys; rp_status status; } writer;

static void spm_put(writer *w, const void *data, int64_t bytes)
{
    if (w->status == RP_OK && bytes) w->status = rp__bytes_push(w->ctx, &w->file, data, bytes);
}

static void put_text(writer *w, const char *text)
{
    spm_put(w, &(uint64_t){ strlen(text) }, 8);
    spm_put(w, text, (int64_t)strlen(text));
}

static void put_key(writer *w, const char *key, uint32_t kind)
{
    w->n_keys++;
    put_text(w, key);
    spm_put(w, &kind, 4);
}

static void put_list(writer *w, const char *key, uint32_t kind, uint64_t n)
{
    put_key(w, key, ARRAY);
    spm_put(w, &kind, 4);
    spm_put(w, &n, 8);
}

static void put_flag(writer *w, const char *key, bool value)
{
    put_key(w, key, BOOL);
    spm_put(w, &(uint8_t){ value }, 1);
}

static void put_id(writer *w, const char *key, int32_t id)
{
    if (id < 0) return;
    put_key(w, key, U32);
    spm_put(w, &(uint32_t){ (uint32_t)id }, 4);
}

static void put_pieces(writer *w, const Rp__Spm__Model *m)
{
    put_list(w, "tokenizer.ggml.tokens", STRING, m->n_pieces);
    for (size_t i = 0; i < m->n_pieces; i++) put_text(w, m->pieces[i]->piece ? m->pieces[i]->piece : "");
    put_list(w, "tokenizer.ggml.scores", F32, m->n_pieces);
    for (size_t i = 0; i < m->n_pieces; i++) spm_put(w, &m->pieces[i]->score, 4);
    put_list(w, "tokenizer.ggml.token_type", I32, m->n_pieces);
    for (size_t i = 0; i < m->n_pieces; i++) spm_put(w, &m->pieces[i]->type, 4);
}

static rp_status put_all(writer *w, const Rp__Spm__Model *m, const Rp__Spm__Trainer *t, const Rp__Spm__Normalizer *n)
{
    bool bpe = t->model_type == BPE;

    spm_put(w, "GGUF\3\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 24);        /* version 3, no tensors; the number of keys is filled in last */
    put_key(w, "tokenizer.ggml.model", STRING);
    put_text(w, bpe ? "llama" : "t5");
    put_pieces(w, m);
    put_id(w, "tokenizer.ggml.unknown_token_id", t->unk_id);
    put_id(w, "tokenizer.ggml.bos_token_id", t->bos_id);
    put_id(w, "tokenizer.ggml.eos_token_id", t->eos_id);
    put_id(w, "tokenizer.ggml.padding_token_id", t->pad_id);
    put_flag(w, "tokenizer.ggml.add_bos_token", bpe && t->bos_id >= 0);
    put_flag(w, "tokenizer.ggml.add_space_prefix", n->add_dummy_prefix);
    put_flag(w, "tokenizer.ggml.remove_extra_whitespaces", n->remove_extra_whitespaces);
    if (n->precompiled_charsmap.len) put_list(w, "tokenizer.ggml.precompiled_charsmap", U8, n->precompiled_charsmap.len);
    spm_put(w, n->precompiled_charsmap.data, (int64_t)n->precompiled_charsmap.len);
    if (w->status == RP_OK) memcpy(w->file.at + 16, &w->n_keys, sizeof w->n_keys);
    return w->status;
}

/* ---- supported models ---- */

#define SPM_CHECK(ctx, cond, ...) RP_CHECK(ctx, cond, RP_ERR_UNSUPPORTED, "cannot read '%s': " __VA_ARGS__)

static rp_status spm_check(rp_ctx *ctx, const char *name, const Rp__Spm__Trainer *t, const Rp__Spm__Normalizer *n)
{
    SPM_CHECK(ctx, t->model_type == UNIGRAM || t->model_type == BPE,
              "a SentencePiece model of kind %d is not supported, only unigram (1) and BPE (2)", name, t->model_type);
    SPM_CHECK(ctx, !t->treat_whitespace_as_suffix && n->escape_whitespaces,
              "a SentencePiece model that marks spaces after words, or not at all, is not supported", name);
    SPM_CHECK(ctx, t->model_type == UNIGRAM || (!n->precompiled_charsmap.len && !n->remove_extra_whitespaces),
              "a SentencePiece BPE that normalizes its text is not supported without a tokenizer.json", name);
    return RP_OK;
}

static rp_status make(rp_ctx *ctx, const char *name, const Rp__Spm__Model *m, json_t **root, json_t **config)
{
    Rp__Spm__Trainer no_trainer       = RP__SPM__TRAINER__INIT;
    Rp__Spm__Normalizer no_normalizer = RP__SPM__NORMALIZER__INIT;
    const Rp__Spm__Trainer *t         = m->trainer_spec ? m->trainer_spec : &no_trainer;
    const Rp__Spm__Normalizer *n      = m->normalizer_spec ? m->normalizer_spec : &no_normalizer;
    writer w                          = { .ctx = ctx };
    rp_gguf *file                     = NULL;

    RP_TRY(spm_check(ctx, name, t, n));
    rp_status status = put_all(&w, m, t, n);
    if (status == RP_OK) status = rp__gguf_open_bytes(ctx, name, w.file.at, w.file.n, &file);
    if (status == RP_OK) status = rp__tokenizer_from_gguf(ctx, file, name, root, config);
    rp__gguf_close(file);
    rp__release(w.file.at);
    return status;
}

static rp_status unpack(memory *m, const char *name, const char *data, int64_t bytes, Rp__Spm__Model **out)
{
    ProtobufCAllocator alloc = { .alloc = spm_take, .free = give, .allocator_data = m };

    *out = rp__spm__model__unpack(&alloc, (size_t)bytes, (const uint8_t *)data);
    if (!*out && m->failed) return RP_ERR_MEMORY;
    RP_CHECK(m->bump.ctx, *out && (*out)->n_pieces, RP_ERR_FORMAT, "cannot read '%s': it is not a SentencePiece model", name);
    return RP_OK;
}

rp_status rp__tokenizer_from_spm(rp_ctx *ctx, const char *name, const char *data, int64_t bytes, json_t **root, json_t **config)
{
    memory m              = { .bump = { .ctx = ctx } };
    Rp__Spm__Model *model = NULL;
    rp_status status      = unpack(&m, name, data, bytes, &model);

    if (status == RP_OK) status = make(ctx, name, model, root, config);
    rp__bump_free(&m.bump);
    return status;
}

/* ---- the folder ---- */

/* Adds the tokens that follow those of the model; tokenizer_config.json lists them by id. Tokens after a gap would get other ids, so a gap is an
 * error. */
static rp_status add_later(rp_ctx *ctx, const char *name, json_t *root, const json_t *config)
{
    json_t *later = json_object_get(config, "added_tokens_decoder"), *added = json_object_get(root, "added_tokens");
    const json_t *vocab = json_object_get(json_object_get(root, "model"), "vocab");
    size_t next         = json_is_array(vocab) ? json_array_size(vocab) : json_object_size(vocab), n_later = 0;
    char key[32];
    const char *id;
    json_t *token;

    json_object_foreach(later, id, token) n_later += strtoull(id, NULL, 10) >= next;
    for (; n_later; n_later--, next++) {
        snprintf(key, sizeof key, "%zu", next);
        token = json_object_get(later, key);
        RP_CHECK(ctx, json_is_object(token), RP_ERR_UNSUPPORTED, "cannot read '%s': tokenizer_config.json adds tokens, but none with the id %s", name,
                 key);
        if (json_array_append(added, token)) return rp_fail(ctx, RP_ERR_MEMORY, "cannot allocate the tokenizer of '%s'", name);
    }
    return RP_OK;
}

/* The added_tokens.json of older folders lists tokens but not how to match them. */
static rp_status check_later(rp_ctx *ctx, const char *folder, const char *name, const json_t *config)
{
    char *path = rp__path_join(ctx, folder, "added_tokens.json");

    if (!path) return RP_ERR_MEMORY;
    bool exists = rp__file_exists(path);
    rp__release(path);
    SPM_CHECK(ctx, !exists || json_object_get(config, "added_tokens_decoder"),
              "the added_tokens.json next to it cannot be used without a tokenizer.json", name);
    return RP_OK;
}

rp_status rp__tokenizer_spm_folder(rp_ctx *ctx, const char *folder, const char *name, json_t **root, json_t **config, uint64_t *mark)
{
    char *path   = rp__path_join(ctx, folder, name), *data = NULL;
    json_t *made = NULL;
    rp_status status = path ? RP_OK : RP_ERR_MEMORY;
    int64_t bytes    = 0, lost = rp__json_lost();

    if (status != RP_OK) return status;
    RP_TRY_GOTO(rp__file_read(ctx, path, SPM_CAP_BYTES, &data, &bytes));
    *mark = rp__hash(data, (size_t)bytes, RP_HASH_START);
    RP_TRY_GOTO(rp__tokenizer_from_spm(ctx, path, data, bytes, root, &made));
    RP_TRY_GOTO(rp__tokenizer_config(ctx, folder, config));
    if (!json_is_object(*config)) RP_TRY_GOTO(rp_fail(ctx, RP_ERR_FORMAT, "cannot read 'tokenizer_config.json' next to '%s': it is not a JSON object", path));
    RP_TRY_GOTO(check_later(ctx, folder, path, *config));
    RP_TRY_GOTO(add_later(ctx, path, *root, *config));
    json_object_update_missing(*config, made);
    json_object_set(*config, "tokenizer_class", json_object_get(made, "tokenizer_class"));
    if (rp__json_lost() != lost) RP_TRY_GOTO(rp_fail(ctx, RP_ERR_MEMORY, "cannot allocate the tokenizer of '%s'", path));
done:
    json_decref(made);
    RP_RELEASE(data, path);
    return status;
}
