/* models/gguf/opened.c -- opens a model with the parts of its folder that a GGUF file contains: tokenizer and chat template. */
#include "base/file.h"
#include "models/gguf/export.h"
#include "models/adapter.h"
#include "template/chat.h"

static rp_status open_folder(rp_ctx *ctx, const char *path, rp_gguf_opened *out)
{
    char *place = NULL, *file = NULL;
    const char *first;

    RP_TRY(rp__tokenizer_place(ctx, path, &place));
    rp_status status = rp__tokenizer_file(ctx, place, &first);
    if (status == RP_OK && !(file = rp__path_join(ctx, place, first))) status = RP_ERR_MEMORY;
    bool there = status == RP_OK && rp__file_exists(file);
    if (there) status = rp__tokenizer_load(ctx, place, &out->tokenizer);
    if (status == RP_OK && there) status = rp__chat_text(ctx, place, &out->chat, &out->chat_bytes);
    RP_RELEASE(file, place);
    return status;
}

static rp_status build(rp_ctx *ctx, rp_gguf_opened *out)
{
    rp_model_config config;

    RP_TRY(rp__model_files_config(out->files, &config));
    rp_status status = rp__model_build(ctx, &config, RP_F32, &out->model);
    rp__model_config_drop(&config);
    return status;
}

rp_status rp__gguf_opened_open(rp_ctx *shapes, const char *path, bool tokenizer, rp_report *report, rp_gguf_opened *out)
{
    *out = (rp_gguf_opened){ 0 };
    RP_TRY(rp__model_files_open(shapes, path, NULL, report, &out->files));
    out->from_gguf = rp__ends_with(rp__model_files_base(out->files), ".gguf");
    if (tokenizer && !out->from_gguf) RP_TRY(open_folder(shapes, path, out));
    return build(shapes, out);
}

void rp__gguf_opened_close(rp_gguf_opened *o)
{
    rp__model_free(o->model);
    rp__model_files_close(o->files);
    rp__tokenizer_free(o->tokenizer);
    rp__release(o->chat);
    *o = (rp_gguf_opened){ 0 };
}
