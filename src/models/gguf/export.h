/* models/gguf/export.h -- writes models and adapters as GGUF files, for llama.cpp.
 *
 *   from safetensors   names, shapes and hyperparameters as llama.cpp's converter writes them; matrices in one type
 *   from GGUF          metadata copied; each tensor converted to the type, or copied as bytes if it has it already
 *   an adapter         merged into its layers' weights in fp32; or alone, as llama.cpp's adapter file
 *
 * Tensors are read and written through windows, so memory does not grow with the model. The file appears under its name when it is complete.
 */
#ifndef RP_MODELS_GGUF_EXPORT_H
#define RP_MODELS_GGUF_EXPORT_H

#include "models/weights.h"
#include "tokenizer/tokenizer.h"

typedef struct {
    const char *type;                   /* of matrices: "F32" …; NULL: each tensor keeps its own. Only models from GGUF have types to keep */
    const char *name;                   /* general.name; NULL: none, or that of the GGUF file */
    rp_tokenizer *tokenizer;            /* NULL: the file has none. Not used for models from GGUF and for adapters alone */
    const char *chat;                   /* the chat template; NULL: none */
    int64_t chat_bytes;
} rp_gguf_options;

/* A model whose parameters have no data, with the other contents of its GGUF file. */
typedef struct {
    rp_model_files *files;
    bool from_gguf;                     /* the model, or the base of the adapter, is a GGUF file. It has tokenizer and template */
    rp_model *model;
    rp_tokenizer *tokenizer;            /* NULL: there is none, from_gguf, or not asked for */
    char *chat;                         /* NULL: as tokenizer, or the folder has no template */
    int64_t chat_bytes;
} rp_gguf_opened;

/* Open the model at `path` in a context of shapes: a Hugging Face folder, a .gguf file, or the folder of an adapter. Close *out in any case.
 * errors  those of rp__model_files_open, some in the report · rp__tokenizer_load · rp__chat_text · rp__model_build */
rp_status rp__gguf_opened_open(rp_ctx *shapes, const char *path, bool tokenizer, rp_report *report, rp_gguf_opened *out);
void rp__gguf_opened_close(rp_gguf_opened *opened);

#define RP_GGUF_TYPES 16
typedef struct {
    int64_t tensors, copied, bytes;     /* copied: those whose bytes were copied */
    int n_types;                        /* tensors by type */
    struct { const char *type; int64_t tensors; } of[RP_GGUF_TYPES];
} rp_gguf_outcome;

/* Write the types that matrices can have (rp__gguf_can_write) to out. Returns out. */
#define RP_GGUF_TYPES_CHARS 128
const char *rp__gguf_types_text(char out[RP_GGUF_TYPES_CHARS]);

/* Whether llama.cpp computes such a model. errors RP_ERR_UNSUPPORTED it does not; the message names the reason */
rp_status rp__gguf_check_config(rp_ctx *ctx, const rp_model_config *config);

/* Write the model of these files, with their adapter merged in, if they have one. The model needs no parameters' data: it may be built in a
 * context of shapes. Tensors that have another type than `options` asks for are notes in the report, and so are parts of the tokenizer that GGUF
 * cannot hold.
 * errors  RP_ERR_UNSUPPORTED llama.cpp computes such a model differently, or the type or the tokenizer cannot be written · RP_ERR_FORMAT ·
 *         RP_ERR_SHAPE · RP_ERR_IO · RP_ERR_MEMORY; no file is left */
rp_status rp__gguf_export(rp_model *model, rp_model_files *files, const rp_gguf_options *options, const char *path, rp_report *report,
                          rp_gguf_outcome *out);
/* Write the adapter of these files as llama.cpp's adapter file.
 * errors  RP_ERR_CONFIG there is no adapter · RP_ERR_UNSUPPORTED it has magnitudes or weights trained whole, or alpha is 0 · as rp__gguf_export */
rp_status rp__gguf_export_adapter(rp_model *model, rp_model_files *files, const rp_gguf_options *options, const char *path, rp_report *report,
                                  rp_gguf_outcome *out);

#endif
