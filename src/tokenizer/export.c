/* tokenizer/export.c -- writes a tokenizer as the files of a Hugging Face directory.
 *
 * A directory, or a tokenizer.json and the files next to it, is copied byte for byte. For GGUF and SentencePiece the files are generated.
 */
#include "base/file.h"
#include "base/json_text.h"
#include "tokenizer/internal.h"

#include <string.h>

#define COPY_CAP_BYTES (INT64_C(512) << 20)

/* The export must contain the tokenizer that produced the tokens. A file that has changed since loading is refused. mark NULL: no check. */
static rp_status check_mark(rp_ctx *ctx, const char *path, const char *text, int64_t bytes, const uint64_t *mark)
{
    RP_CHECK(ctx, !mark || rp__hash(text, (size_t)bytes, RP_HASH_START) == *mark, RP_ERR_IO,
             "'%s' has changed since it was read: restore the original file", path);
    return RP_OK;
}

static rp_status copy(rp_ctx *ctx, const char *from_folder, const char *from_name, const char *to_folder, const char *to_name,
                      const uint64_t *mark)
{
    char *from = rp__path_join(ctx, from_folder, from_name), *text = NULL;
    char *to   = from ? rp__path_join(ctx, to_folder, to_name) : NULL;
    rp_status status = to ? RP_OK : RP_ERR_MEMORY;
    int64_t bytes    = 0;

    if (status == RP_OK && (mark || rp__file_exists(from))) {
        status = rp__file_read(ctx, from, COPY_CAP_BYTES, &text, &bytes);
        if (status == RP_OK) status = check_mark(ctx, from, text, bytes, mark);
        if (status == RP_OK) status = rp__file_write(ctx, to, text, bytes);
    }
    RP_RELEASE(text, to, from);
    return status;
}

static rp_status copy_all(rp_tokenizer *t, const char *folder, const char *name, const char *directory)
{
    static const char *const beside[] = { "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json",
                                          "merges.txt", "chat_template.jinja", "chat_template.json" };

    RP_TRY(copy(t->ctx, folder, name, directory, "tokenizer.json", &t->mark));
    for (int i = 0; i < RP_COUNT(beside); i++) RP_TRY(copy(t->ctx, folder, beside[i], directory, beside[i], NULL));
    return RP_OK;
}

static rp_status write_json(rp_ctx *ctx, const char *directory, const char *name, const json_t *value)
{
    char *path = rp__path_join(ctx, directory, name), *text = path ? rp__json_text(value, JSON_INDENT(1)) : NULL;
    rp_status status = RP_ERR_MEMORY;

    if (text) status = rp__file_write(ctx, path, text, (int64_t)strlen(text));
    else if (path) rp_fail(ctx, RP_ERR_MEMORY, "cannot allocate the text of '%s'", path);
    free(text);
    rp__release(path);
    return status;
}

/* special_tokens_map.json is the part of the configuration that names tokens. */
static rp_status write_map(rp_ctx *ctx, const char *directory, const json_t *config)
{
    static const char *const names[] = { "bos_token", "eos_token", "unk_token", "pad_token" };
    json_t *map = json_object();

    for (int i = 0; i < RP_COUNT(names); i++)
        if (json_object_get(config, names[i])) json_object_set(map, names[i], json_object_get(config, names[i]));
    rp_status status = write_json(ctx, directory, "special_tokens_map.json", map);
    json_decref(map);
    return status;
}

static rp_status write_made(rp_ctx *ctx, const char *directory, const json_t *root, const json_t *config)
{
    RP_TRY(write_json(ctx, directory, "tokenizer.json", root));
    RP_TRY(write_json(ctx, directory, "tokenizer_config.json", config));
    return write_map(ctx, directory, config);
}

static rp_status write_gguf(rp_tokenizer *t, const char *directory)
{
    json_t *root = NULL, *config = NULL;
    rp_gguf *file = NULL;

    RP_TRY(rp__gguf_open(t->ctx, t->path, &file));
    rp_status status = rp__tokenizer_from_gguf(t->ctx, file, t->path, &root, &config);
    if (status == RP_OK) status = write_made(t->ctx, directory, root, config);
    json_decref(root);
    json_decref(config);
    rp__gguf_close(file);
    return status;
}

static rp_status write_spm(rp_tokenizer *t, const char *folder, const char *name, const char *directory)
{
    static const char *const beside[] = { "chat_template.jinja", "chat_template.json" };
    json_t *root = NULL, *config = NULL;
    uint64_t mark    = 0;
    rp_status status = rp__tokenizer_spm_folder(t->ctx, folder, name, &root, &config, &mark);

    if (status == RP_OK && mark != t->mark)
        status = rp_fail(t->ctx, RP_ERR_IO, "'%s' in '%s' has changed since it was read: restore the original file", name, folder);
    if (status == RP_OK) status = write_made(t->ctx, directory, root, config);
    for (int i = 0; i < RP_COUNT(beside) && status == RP_OK; i++) status = copy(t->ctx, folder, beside[i], directory, beside[i], NULL);
    json_decref(root);
    json_decref(config);
    return status;
}

static rp_status write_from(rp_tokenizer *t, const char *folder, const char *name, const char *directory)
{
    return rp__is_spm(name) ? write_spm(t, folder, name, directory) : copy_all(t, folder, name, directory);
}

rp_status rp__tokenizer_export(rp_tokenizer *t, const char *directory)
{
    const char *slash = strrchr(t->path, '/'), *name;

    RP_TRY(rp__make_dirs(t->ctx, directory));
    if (t->from_gguf) return write_gguf(t, directory);
    if (rp__file_is_dir(t->path)) {
        RP_TRY(rp__tokenizer_file(t->ctx, t->path, &name));
        return write_from(t, t->path, name, directory);
    }
    char *folder = rp__host_text(t->ctx, slash ? t->path : "");
    if (!folder) return RP_ERR_MEMORY;
    if (slash) folder[slash + 1 - t->path] = 0;
    rp_status status = write_from(t, folder, slash ? slash + 1 : t->path, directory);
    rp__release(folder);
    return status;
}
