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
    bool is_gguf, taken, fresh;         /* taken: the caller has the config; fresh: the files had no head, and loading initialised one */
    rp_model_config config;
    struct rp_adapter_files *adapter;   /* NULL: none */
    rp_left_out left_out;
};

/* Convert the metadata of a GGUF file to a config.json with the fields that transformers reads. All errors are reported.
 * owner   the caller must json_decref *out
 * errors  RP_ERR_CONFIG · RP_ERR_UNSUPPORTED · RP_ERR_MEMORY */
rp_status rp__gguf_config(rp_ctx *ctx, const char *label, rp_gguf *file, rp_report *report, json_t **out);

/* Store elements [at, at + n) of the whole parameter; those outside the slice are ignored. errors RP_ERR_MEMORY */
rp_status rp__param_store(const rp_param *p, int64_t at, const float *from, int64_t n);

/* The text of a config, whose numbers have as few digits as reproduce them all. NULL: memory ran out. owner: yours to free */
char *rp__config_text(const json_t *json);
/* Write config.json of an exported model; write any object as such a file. export_json takes ownership of `json`; NULL means that memory ran out.
 * errors  RP_ERR_IO · RP_ERR_MEMORY */
rp_status rp__export_config(rp_model *model, const char *directory);
rp_status rp__export_json(rp_ctx *ctx, json_t *json, const char *directory, const char *name);

/* Initialise parameter i as rp__model_init does. */
void rp__model_init_one(rp_model *model, int i, uint64_t seed);

/* Sets to zero the room of a slice's tensor beyond the slice. */
static inline void rp__param_pad(const rp_param *p)
{
    int64_t used = p->slice.count * rp__sliced_bytes(p->whole.dtype), rest = rp_meta_bytes(rp_tensor_meta(p->tensor)) - used;

    if (rest) rp__mem_fill(p->tensor->ctx, (char *)rp__tensor_data(p->tensor) + used, 0, rest);
}

#endif
