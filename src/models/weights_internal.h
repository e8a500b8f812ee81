/* models/weights_internal.h -- shared by the files that read and write models. */
#ifndef RP_MODELS_WEIGHTS_INTERNAL_H
#define RP_MODELS_WEIGHTS_INTERNAL_H

#include <string.h>

#include "gguf/gguf.h"
#include "models/family.h"
#include "models/weights.h"

struct rp_model_files {
    rp_ctx *ctx;
    char *path;
    bool is_gguf, taken, fresh;         /* taken: the config is another's now; fresh: loading found no head and drew one */
    rp_model_config config;
    struct rp_adapter_files *adapter;   /* NULL: none */
    rp_left_out left_out;
};

/* The config.json that the metadata of a GGUF file amounts to, with the fields transformers reads. Every error is reported.
 * owner   *out is yours to json_decref
 * errors  RP_ERR_CONFIG · RP_ERR_UNSUPPORTED · RP_ERR_MEMORY */
rp_status rp__gguf_config(rp_ctx *ctx, const char *label, rp_gguf *file, rp_report *report, json_t **out);

/* Elements [at, at + n) of the whole, those of them that are in the slice. errors RP_ERR_MEMORY */
rp_status rp__param_store(const rp_param *p, int64_t at, const float *from, int64_t n);

/* config.json of an exported model; any object, taken over, as such a file. NULL: there was no memory for it. */
rp_status rp__export_config(rp_model *model, const char *directory);
rp_status rp__export_json(rp_ctx *ctx, json_t *json, const char *directory, const char *name);

/* Parameter i as rp__model_init would have it. */
void rp__model_init_one(rp_model *model, int i, uint64_t seed);

/* What a slice's tensor has room for beyond the slice is zero. */
static inline void rp__param_pad(const rp_param *p)
{
    int64_t size = rp_dtype_bytes(p->whole.dtype), rest = rp_meta_elems(rp_tensor_meta(p->tensor)) - p->slice.count;

    if (rest) rp__mem_fill(p->tensor->ctx, (char *)rp__tensor_data(p->tensor) + p->slice.count * size, 0, rest * size);
}

#endif
