/* template/chat_load.c -- finds a model's chat template and the special tokens that templates use. */
#include "base/file.h"
#include "base/json_text.h"
#include "gguf/gguf.h"
#include "template/chat.h"

#include <string.h>

#define CAP_BYTES (INT64_C(64) << 20)

typedef struct { rp_ctx *ctx; json_t *tokens; char *text; int64_t bytes; } finding;

static const char *const token_names[] = { "bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token" };

static rp_status no_memory(rp_ctx *ctx) { return rp_fail(ctx, RP_ERR_MEMORY, "cannot allocate a chat template"); }

static rp_status keep_text(finding *f, const char *text, int64_t bytes)
{
    if (f->text) return RP_OK;
    f->text = rp__host_alloc(f->ctx, bytes + 1);
    if (!f->text) return RP_ERR_MEMORY;
    memcpy(f->text, text, (size_t)bytes);
    f->bytes = bytes;
    return RP_OK;
}

/* Keeps the first value found for a token. */
static rp_status keep_token(finding *f, const char *name, const char *text, int64_t bytes)
{
    if (json_object_get(f->tokens, name)) return RP_OK;
    return json_object_set_new(f->tokens, name, json_stringn(text, (size_t)bytes)) ? no_memory(f->ctx) : RP_OK;
}

/* ---- a folder ---- */

/* Keeps a text, or of a list of {"name", "template"} the one named "default". */
static rp_status keep_template(finding *f, const json_t *value)
{
    const json_t *named, *chosen = json_is_string(value) ? value : NULL;
    size_t i;

    json_array_foreach(value, i, named) {
        const char *name = json_string_value(json_object_get(named, "name"));
        if (name && !strcmp(name, "default")) chosen = json_object_get(named, "template");
    }
    return json_is_string(chosen) ? keep_text(f, json_string_value(chosen), (int64_t)json_string_length(chosen)) : RP_OK;
}

static rp_status keep_from_json(finding *f, const json_t *root)
{
    for (int i = 0; i < RP_COUNT(token_names); i++) {
        const json_t *token = json_object_get(root, token_names[i]);
        if (json_is_object(token)) token = json_object_get(token, "content");
        if (json_is_string(token)) RP_TRY(keep_token(f, token_names[i], json_string_value(token), (int64_t)json_string_length(token)));
    }
    return keep_template(f, json_object_get(root, "chat_template"));
}

/* A missing file is not an error. */
static rp_status read_sibling(finding *f, const char *folder, const char *name)
{
    char *path = rp__path_join(f->ctx, folder, name), *text = NULL;
    rp_status status = path ? RP_OK : RP_ERR_MEMORY;
    int64_t bytes    = 0;
    json_t *root     = NULL;
    json_error_t e;

    if (path && rp__file_exists(path)) status = rp__file_read(f->ctx, path, CAP_BYTES, &text, &bytes);
    if (status == RP_OK && text && rp__ends_with(name, ".jinja")) status = keep_text(f, text, bytes);
    else if (status == RP_OK && text) {
        root   = rp__json_read(text, (size_t)bytes, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &e);
        status = root ? keep_from_json(f, root) : rp_fail(f->ctx, RP_ERR_FORMAT, "cannot read '%s': line %d: %s", path, e.line, e.text);
    }
    json_decref(root);
    RP_RELEASE(text, path);
    return status;
}

static rp_status search_folder(finding *f, const char *folder)
{
    static const char *const names[] = { "chat_template.jinja", "chat_template.json", "tokenizer_config.json", "special_tokens_map.json" };

    for (int i = 0; i < RP_COUNT(names); i++) RP_TRY(read_sibling(f, folder, names[i]));
    return RP_OK;
}

static rp_status search_siblings(finding *f, const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder      = rp__host_text(f->ctx, slash ? path : "");

    if (!folder) return RP_ERR_MEMORY;
    if (slash) folder[slash + 1 - path] = 0;
    rp_status status = search_folder(f, folder);
    rp__release(folder);
    return status;
}

/* ---- GGUF ---- */

static rp_status keep_gguf_token(finding *f, const rp_gguf *file, const char *name, const char *key)
{
    const rp_gguf_value *id = rp__gguf_get(file, key), *all = rp__gguf_get(file, "tokenizer.ggml.tokens");

    if (!id || !all || all->kind != RP_GGUF_ARRAY || id->i < 0 || id->i >= all->count) return RP_OK;
    rp_gguf_string token = rp__gguf_array_string(file, all, id->i);
    return token.bytes ? keep_token(f, name, token.text, token.bytes) : RP_OK;
}

static rp_status search_values(finding *f, const rp_gguf *file)
{
    static const char *const keys[][2] = {
        { "bos_token", "tokenizer.ggml.bos_token_id" },     { "eos_token", "tokenizer.ggml.eos_token_id" },
        { "unk_token", "tokenizer.ggml.unknown_token_id" }, { "pad_token", "tokenizer.ggml.padding_token_id" },
    };
    const rp_gguf_value *template = rp__gguf_get(file, "tokenizer.chat_template");

    for (int i = 0; i < RP_COUNT(keys); i++) RP_TRY(keep_gguf_token(f, file, keys[i][0], keys[i][1]));
    return template && template->kind == RP_GGUF_STRING ? keep_text(f, template->s.text, template->s.bytes) : RP_OK;
}

static rp_status search_gguf(finding *f, const char *path)
{
    rp_gguf *file;

    RP_TRY(rp__gguf_open(f->ctx, path, &file));
    rp_status status = search_values(f, file);
    rp__gguf_close(file);
    return status;
}

/* ---- folders, files and GGUF ---- */

static rp_status search(finding *f, const char *path, const char *file)
{
    if (file) RP_TRY(rp__file_read(f->ctx, file, CAP_BYTES, &f->text, &f->bytes));
    if (rp__file_is_dir(path)) return search_folder(f, path);
    return rp__ends_with(path, ".gguf") ? search_gguf(f, path) : search_siblings(f, path);
}

rp_status rp__chat_load(rp_ctx *ctx, const char *path, const char *file, rp_chat **out)
{
    finding f        = { .ctx = ctx, .tokens = json_object() };
    rp_status status = f.tokens ? search(&f, path, file) : no_memory(ctx);

    *out = NULL;
    if (status == RP_OK && f.text) status = rp__chat_new(ctx, file ? file : path, f.text, f.bytes, f.tokens, out);
    rp__release(f.text);
    json_decref(f.tokens);
    return status;
}

rp_status rp__chat_text(rp_ctx *ctx, const char *path, char **text, int64_t *bytes)
{
    finding f        = { .ctx = ctx, .tokens = json_object() };
    rp_status status = f.tokens ? search(&f, path, NULL) : no_memory(ctx);

    json_decref(f.tokens);
    *text  = status == RP_OK ? f.text : NULL;
    *bytes = f.bytes;
    if (status != RP_OK) rp__release(f.text);
    return status;
}
