/* train/final_gguf.c -- final.gguf: the model of final/ in one file for llama.cpp, its adapter merged in. */
#include "base/file.h"
#include "base/report.h"
#include "comm/comm.h"
#include "models/gguf/export.h"
#include "recipe/recipe.h"
#include "train/internal.h"

/* Tensors of a GGUF file keep their types and metadata. Others get the dtype of the run, and the file the name of its folder. */
static rp_gguf_options options_of(const rp_recipe *r, const rp_gguf_opened *opened)
{
    const char *slash = strrchr(r->output_dir, '/');

    if (opened->from_gguf) return (rp_gguf_options){ 0 };
    return (rp_gguf_options){ .type = r->dtype == RP_TRAIN_BF16 ? "BF16" : "F32", .name = slash ? slash + 1 : r->output_dir,
                              .tokenizer = opened->tokenizer, .chat = opened->chat, .chat_bytes = opened->chat_bytes };
}

static rp_status write_file(rp_ctx *shapes, const rp_recipe *r, const char *final, const char *path)
{
    rp_gguf_opened opened;
    rp_gguf_outcome outcome;
    rp_report report;

    rp__report_open(&report, shapes);
    rp_status status = rp__gguf_opened_open(shapes, final, true, &report, &opened);
    if (status == RP_OK) {
        rp_gguf_options options = options_of(r, &opened);
        status                  = rp__gguf_export(opened.model, opened.files, &options, path, &report, &outcome);
    }
    if (status != RP_OK && report.n_errors) status = rp__report_status(&report, status);
    rp__gguf_opened_close(&opened);
    rp__report_close(&report);
    return status;
}

static rp_status write_first(rp_trainer *t)
{
    const rp_ctx_options options = { .threads = 1, .shapes_only = true };
    char *final = rp__path_join(t->ctx, t->recipe->output_dir, "final"), *path = rp__path_join(t->ctx, t->recipe->output_dir, "final.gguf");
    rp_ctx *shapes;
    rp_status status = final && path ? rp_ctx_new(&options, &shapes) : RP_ERR_MEMORY;

    if (status == RP_OK) {
        status = write_file(shapes, t->recipe, final, path);
        if (status != RP_OK) status = rp_fail(t->ctx, status, "cannot write '%s': %s", path, rp_error(shapes));
        rp_ctx_free(shapes);
    }
    RP_RELEASE(final, path);
    return status;
}

rp_status rp__run_dir_gguf(rp_trainer *t)
{
    bool writes = t->recipe->final_format == RP_FINAL_GGUF && rp__comm_rank(rp__world(t->ctx)) == 0;

    return rp__comm_agree(t->ctx, rp__world(t->ctx), writes ? write_first(t) : RP_OK);
}
