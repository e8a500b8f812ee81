/* models/gguf/plan.h -- shared by the exports of models and of adapters: tensors that are planned, then declared and written. */
#ifndef RP_MODELS_GGUF_PLAN_H
#define RP_MODELS_GGUF_PLAN_H

#include "models/gguf/internal.h"

typedef struct {
    const char *name;                   /* `made`, or that of the tensor that is copied */
    char made[RP_WEIGHT_NAME_CHARS];
    const char *type;                   /* set by declare_all */
    int ndim;
    int64_t dim[4];
    rp_gguf_source from;
    const rp_gguf_tensor *copy;         /* the tensor of a GGUF file; NULL: the model is not from GGUF */
    bool divisors;                      /* Llama 3's divisors of the frequencies */
} rp_gguf_planned;

typedef struct {
    rp_ctx *ctx;
    rp_gguf_model m;
    const rp_gguf_options *options;
    rp_report *report;
    rp_gguf_outcome *outcome;
    rp_gguf_writer *writer;
    rp_gguf_planned *planned;
    int64_t n;
    const rp_gguf_planned *current;     /* the tensor being written */
    char *room;
    int64_t room_bytes;
} rp_gguf_exporter;

/* Choose types, and declare all tensors to the writer. errors RP_ERR_MEMORY */
rp_status rp__gguf_declare_all(rp_gguf_exporter *x);
/* Make `room` at least this large. errors RP_ERR_MEMORY */
rp_status rp__gguf_take_room(rp_gguf_exporter *x, int64_t bytes);
/* Converts rows to the type of the current tensor and writes them; `user` is the exporter. */
rp_gguf_rows rp__gguf_put_rows;
/* Commit the file. errors as rp__gguf_commit · RP_ERR_MEMORY a note was lost */
rp_status rp__gguf_finish(rp_gguf_exporter *x);
/* Opens the model, runs `all`, which plans and writes everything, and closes. errors as rp__model_load · rp__gguf_check_config · `all` */
typedef rp_status rp_gguf_export_all(rp_gguf_exporter *x, rp_model_files *files, const char *path);
rp_status rp__gguf_export_by(rp_gguf_export_all *all, rp_gguf_exporter *x, rp_model *model, rp_model_files *files, const char *path);

#endif
