/* models/gguf/internal.h -- shared by the files that read a config from a GGUF file and that write models as GGUF.
 *
 *   config_read.c    metadata to config.json         keys.def: the keys of both directions
 *   config_write.c   rp_model_config to metadata, and which models a file can hold
 *   opened.c         a model with its tokenizer and chat template
 *   source.c         rows of a tensor as GGUF orders them, from the files of a model, with its adapter merged in
 *   export.c         a whole model                   adapter.c: an adapter alone
 */
#ifndef RP_MODELS_GGUF_INTERNAL_H
#define RP_MODELS_GGUF_INTERNAL_H

#include "gguf/write.h"
#include "models/adapter.h"
#include "models/gguf/export.h"
#include "models/weights_pair.h"

/* ---- keys (config_read.c) ---- */

/* Name of the key's field in the family's config.json; `otherwise` if its own table (gguf_key) has no line for the key. */
const char *rp__gguf_key_theirs(const rp_family *family, const char *key, const char *otherwise);
/* If not, positions are learned. */
bool rp__gguf_is_rotary(const rp_family *family);

/* The bounds of Llama 3.x, which all published models have. */
#define RP_LLAMA3_LOW 1.0
#define RP_LLAMA3_HIGH 4.0
#define RP_LLAMA3_ORIGINAL 8192.0
/* The number by which Llama 3.1's rule divides frequency i of `pairs`. */
double rp__gguf_llama3_divisor(const rp_rope_config *rope, int64_t i, int64_t pairs);

/* ---- config_write.c ---- */

/* Add the hyperparameters. One that llama.cpp ignores is a note. errors RP_ERR_MEMORY */
rp_status rp__gguf_add_config(rp_gguf_writer *writer, const rp_model_config *config, rp_report *report);

/* ---- source.c ---- */

/* One tensor in the order of GGUF: rows of `width` elements. */
typedef struct {
    const rp_param *param;              /* NULL: a tensor that is no parameter; it is copied */
    const rp_module *module;            /* the owner of the parameter */
    const rp_weight_part *part;         /* its first piece in safetensors */
    int64_t pieces;
    const rp_gguf_tensor *gguf;         /* the tensor of a GGUF file; NULL: from safetensors */
    const rp_safetensor *whole;         /* trained whole: the adapter's tensor, which replaces the others */
    bool adapted;                       /* the adapter is merged into it */
} rp_gguf_source;

typedef struct {
    rp_ctx *ctx;
    rp_model *model;
    const rp_model_config *config;
    rp_weight_loader files;
    const rp_adapter_files *adapter_files;
    rp_safetensors *adapter;            /* its weights; NULL: none */
} rp_gguf_model;

/* Open the files of a model, and check that they have all of its weights. Close *out in any case. errors as rp__model_load */
rp_status rp__gguf_model_open(rp_model *model, rp_model_files *files, rp_gguf_model *out);
void rp__gguf_model_close(rp_gguf_model *m);

/* Whether this parameter changes between the model's own files and those with the adapter; fills whole and adapted of *out, whose param and
 * module are set. errors RP_ERR_FORMAT the adapter lacks a tensor */
rp_status rp__gguf_find_change(const rp_gguf_model *m, rp_gguf_source *out);

/* Receives rows of a tensor, from the first to the last. */
typedef rp_status rp_gguf_rows(void *user, const float *rows, int64_t n, int64_t width);
/* Read all rows. errors as rp__gguf_read and rp__safetensors_read · those of `rows` */
rp_status rp__gguf_each_row(const rp_gguf_model *m, const rp_gguf_source *from, rp_gguf_rows *rows, void *user);
/* Read the tensor of an adapter's part as fp32. *out is yours to rp__release. errors RP_ERR_FORMAT it is missing or has another shape · as above */
rp_status rp__gguf_adapter_part(const rp_gguf_model *m, const rp_param *part, float **out);
/* Row of ours at a row of GGUF, if the parameter's rows are ordered for another rotary layout; else the same number. */
int64_t rp__gguf_our_row(const rp_gguf_model *m, const char *path, int64_t row);

/* Name of a parameter in GGUF. Returns false if the family's table has none. */
bool rp__gguf_name(const rp_family *family, const char *path, char out[RP_WEIGHT_NAME_CHARS]);

#endif
