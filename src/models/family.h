/* models/family.h -- what one model family brings: the fields of its config.json and the names of its weights.
 *
 * A family is a file with one rp_family and a line in models.def. Names are patterns in which `*` stands for the number of
 * the block; what is not listed keeps its own name. */
#ifndef RP_MODELS_FAMILY_H
#define RP_MODELS_FAMILY_H

#include "models/config.h"

typedef struct { const char *ours, *theirs; } rp_name_pair;        /* module paths: "layers.*.attn.q", "model.layers.*.self_attn.q_proj" */

typedef enum {
    RP_FIELD_INT, RP_FIELD_NUMBER, RP_FIELD_BOOL, RP_FIELD_WORD, RP_FIELD_ID,
    RP_FIELD_OTHER                      /* read by the family's finish function */
} rp_field_kind;

typedef struct rp_config_reader rp_config_reader;     /* the JSON being read, and where errors go: models/config.c */

typedef struct {
    const char *key;
    const char *also;                   /* another spelling; both together must agree. NULL: none */
    rp_field_kind kind;
    size_t offset;                      /* of the field in rp_model_config; unused for OTHER */
    bool required;
    double low, high, otherwise;        /* range and default of numbers */
    const char *const *words;           /* WORD: the index is stored in an int; NULL-ended */
} rp_config_field;

struct rp_family {
    const char *model_type;             /* "llama" */
    const char *architecture;           /* "LlamaForCausalLM" */
    const char *gguf_architecture;      /* of GGUF metadata, NULL: not read from there */
    const rp_config_field *field;
    int n_fields;
    const char *const *inert;           /* keys that change no number here; NULL-ended */
    void (*finish)(rp_config_reader *reader, rp_model_config *config);     /* what follows from the fields; further checks */
    const rp_name_pair *name;           /* longest match first is not needed: patterns are exact but for `*` */
    int n_names;
    const char *const *inert_tensor;    /* globs of buffers in files that are no parameters; NULL-ended */
    const char *prefix;                 /* files may leave it away ("transformer."); NULL: none */
};

#endif
