/* models/weights_inside.h -- shared by the files that read models. */
#ifndef RP_MODELS_WEIGHTS_INSIDE_H
#define RP_MODELS_WEIGHTS_INSIDE_H

#include "io/gguf.h"
#include "models/family.h"
#include "models/weights.h"

struct rp_model_files {
    rp_ctx *ctx;
    char *path;
    bool is_gguf, taken;                /* taken: the config is another's now */
    rp_model_config config;
};

/* The config.json that the metadata of a GGUF file amounts to, with the fields transformers reads. Every error is reported.
 * owner   *out is yours to json_decref
 * errors  RP_ERR_CONFIG · RP_ERR_UNSUPPORTED · RP_ERR_MEMORY */
rp_status rp__gguf_config(rp_ctx *ctx, const char *label, rp_gguf *file, rp_report *report, json_t **out);

#endif
