/* models/weights_marks.c -- the marks of all files that a model's weights come from. */
#include "io/marks.h"
#include "models/adapter.h"
#include "models/weights_inside.h"

#include "io/safetensors.h"

static rp_status tell_set(const rp_safetensors *set, rp_file_marked told, void *user)
{
    for (int i = 0; i < rp__safetensors_n_files(set); i++) {
        uint64_t mark;
        RP_TRY(rp__safetensors_mark(set, i, &mark));
        RP_TRY(told(user, rp__safetensors_file_name(set, i), mark));
    }
    return RP_OK;
}

static rp_status tell_gguf(const rp_gguf *file, rp_file_marked told, void *user)
{
    for (int i = 0; i < rp__gguf_n_files(file); i++) {
        uint64_t mark;
        RP_TRY(rp__gguf_mark(file, i, &mark));
        RP_TRY(told(user, rp__gguf_file_name(file, i), mark));
    }
    return RP_OK;
}

static rp_status tell_base(const rp_model_files *files, rp_file_marked told, void *user)
{
    rp_safetensors *set = NULL;
    rp_gguf *gguf       = NULL;

    if (files->is_gguf) RP_TRY(rp__gguf_open(files->ctx, files->path, &gguf));
    else RP_TRY(rp__safetensors_open(files->ctx, files->path, &set));
    rp_status status = gguf ? tell_gguf(gguf, told, user) : tell_set(set, told, user);
    rp__gguf_close(gguf);
    rp__safetensors_close(set);
    return status;
}

rp_status rp__model_files_marks(const rp_model_files *files, rp_file_marked told, void *user)
{
    RP_TRY(tell_base(files, told, user));
    return files->adapter ? tell_set(rp__adapter_files_set(files->adapter), told, user) : RP_OK;
}
