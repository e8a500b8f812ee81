/* models/weights_marks.c -- lists the marks of all files from which a model's weights are read. */
#include "models/adapter.h"
#include "models/weights_internal.h"
#include "safetensors/safetensors.h"

/* One of gguf and set is NULL. */
static rp_status each_file(const rp_gguf *gguf, const rp_safetensors *set, rp_file_marked marked, void *user)
{
    int n = gguf ? rp__gguf_n_files(gguf) : rp__safetensors_n_files(set);

    for (int i = 0; i < n; i++) {
        uint64_t mark;
        RP_TRY(gguf ? rp__gguf_mark(gguf, i, &mark) : rp__safetensors_mark(set, i, &mark));
        RP_TRY(marked(user, gguf ? rp__gguf_file_name(gguf, i) : rp__safetensors_file_name(set, i), mark));
    }
    return RP_OK;
}

static rp_status each_base_file(const rp_model_files *files, rp_file_marked marked, void *user)
{
    rp_safetensors *set = NULL;
    rp_gguf *gguf       = NULL;

    if (files->is_gguf) RP_TRY(rp__gguf_open(files->ctx, files->path, &gguf));
    else RP_TRY(rp__safetensors_open(files->ctx, files->path, &set));
    rp_status status = each_file(gguf, set, marked, user);
    rp__gguf_close(gguf);
    rp__safetensors_close(set);
    return status;
}

rp_status rp__model_files_marks(const rp_model_files *files, rp_file_marked marked, void *user)
{
    rp_safetensors *set = NULL;

    RP_TRY(each_base_file(files, marked, user));
    if (!files->adapter) return RP_OK;
    RP_TRY(rp__adapter_files_weights(files->adapter, &set));
    rp_status status = each_file(NULL, set, marked, user);
    rp__safetensors_close(set);
    return status;
}
