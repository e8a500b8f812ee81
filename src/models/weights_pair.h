/* models/weights_pair.h -- pairs tensors of a file with parameters. weights_pair.c finds the pairs; weights_load.c checks and reads them. */
#ifndef RP_MODELS_WEIGHTS_PAIR_H
#define RP_MODELS_WEIGHTS_PAIR_H

#include "models/weights_internal.h"
#include "safetensors/safetensors.h"

/* Exactly one is set, or none if no tensor was found. */
typedef struct { const rp_safetensor *st; const rp_gguf_tensor *gguf; } rp_file_tensor;

/* The target of one tensor of the file: a parameter, or one of its pieces. */
typedef struct {
    const rp_param *param;
    int64_t piece, pieces;              /* number of the piece, and of pieces; the parts of a parameter are contiguous */
    rp_meta m;                          /* shape expected in the file */
    int64_t first;                      /* its first element, in the parameter */
    rp_file_tensor from;
} rp_weight_part;

/* Elements [from, to) of a parameter, or of a tensor of the file. */
typedef struct { int64_t from, to; } rp_elem_range;

typedef struct {
    rp_ctx *ctx;
    rp_model *model;
    const rp_model_config *config;
    const char *path;
    rp_safetensors *st;
    rp_gguf *gguf;
    rp_report report;
    rp_status status;                   /* of the first error */
    int n_parts;
    rp_weight_part *part;
    const rp_name_pair *name;           /* of the file's tensors */
    int n_names;
    bool fresh;                         /* the file has none of the weights that may be initialised instead */
    rp_left_out left_out;               /* of a wrapper's files */
    rp_file_tensor head;                /* lm_head of a file whose embeddings are tied; none: both NULL */
    float *window;
    int64_t window_elems;
    float *scales;                      /* of a parameter that is being quantised */
} rp_weight_loader;

/* Report an error: the first is printed, the others are counted. */
#define RP_LOADER_FAIL(l, s, ...) \
    do { \
        if ((l)->status == RP_OK) (l)->status = (s); \
        rp__report_error(&(l)->report, (rp_place){ (l)->path, 0 }, __VA_ARGS__); \
    } while (0)

static inline bool is_some(rp_file_tensor t) { return t.st || t.gguf; }
static inline const char *name_of(rp_file_tensor t) { return t.st ? t.st->name : t.gguf->name; }
static inline int ndim_of(rp_file_tensor t) { return t.st ? t.st->ndim : t.gguf->ndim; }
static inline const int64_t *dim_of(rp_file_tensor t) { return t.st ? t.st->dim : t.gguf->dim; }
static inline int64_t elems_of(rp_file_tensor t) { return t.st ? t.st->elems : t.gguf->elems; }
static inline int64_t row_of(rp_file_tensor t) { return ndim_of(t) ? dim_of(t)[ndim_of(t) - 1] : 1; }

/* glob NULL: no globs. */
static inline bool globs_match(const char *const *glob, const char *name)
{
    for (; glob && *glob; glob++)
        if (rp__glob(*glob, name)) return true;
    return false;
}

/* llama.cpp rotates neighbouring rows, transformers the two halves of a head. Row (j, s) of a head [D/2, 2] there is row (s, j) of [2, D/2]
 * here. */
static inline int64_t rp__unrotated(int64_t row, int64_t head_dim)
{
    int64_t in_head = row % head_dim;

    return row - in_head + in_head % 2 * (head_dim / 2) + in_head / 2;
}

/* Fill parts, each with the tensor that fills it, if any; also head, fresh and left_out. Needs ctx, model, config, path and a file. Tensors that
 * fit nowhere are reported.
 * errors  RP_ERR_MEMORY · RP_ERR_SHAPE too many tensors · RP_ERR_FORMAT a wrapper without a text model */
rp_status rp__weights_pair(rp_weight_loader *l);
/* The tensors of the open file. */
int64_t rp__weights_n_tensors(const rp_weight_loader *l);
rp_file_tensor rp__weights_tensor_at(const rp_weight_loader *l, int64_t i);
/* Our path of a tensor of the file; false: the family has no such name. Needs config and a file. */
bool rp__weights_path_of(rp_weight_loader *l, const char *name, char out[RP_WEIGHT_NAME_CHARS]);
/* Pair, and check shapes and types of all tensors; needs the fields that rp__weights_pair needs, and an open report. Also allocates the window.
 * errors  of the first mismatch; all are in the report · as rp__weights_pair · RP_ERR_IO */
rp_status rp__weights_check(rp_weight_loader *l);
/* Find a part. Returns NULL if the model has no such parameter, or it has fewer pieces. */
rp_weight_part *rp__weight_part_find(const rp_weight_loader *l, const char *path, int64_t piece);
/* Name of the part in the file. Returns out, or the parameter's path. */
const char *rp__weight_part_name(const rp_weight_loader *l, const rp_weight_part *p, char out[RP_WEIGHT_NAME_CHARS]);
/* Whether the parameter is initialised because the file has none of the weights that may be missing. */
bool rp__weight_is_fresh(const rp_weight_loader *l, const rp_param *p);

#endif
