/* models/family.h -- describes one model family: the fields of its config.json and the names of its weights.
 *
 *   config.json ─▶ fields by their table, one by one ─▶ finish: values that depend on several fields ─▶ rp_model_config
 *
 * A family is a file with one rp_family and a line in models.def. In names `*` stands for the number of the block. A second `*` on their
 * side stands for the number of a piece: our one parameter then consists of their tensors, stacked along its first dimension.
 */
#ifndef RP_MODELS_FAMILY_H
#define RP_MODELS_FAMILY_H

#include "base/module_path.h"
#include "models/config.h"

/* Upper limits that no real model exceeds. Without them a wrong number would make the build run for minutes before it fails. */
#define RP_MOST_LAYERS 1024
#define RP_MOST_EXPERTS 65536               /* in all blocks together */

typedef struct { const char *ours, *theirs; } rp_name_pair;        /* module paths: "layers.*.attn.q", "model.layers.*.self_attn.q_proj" */

typedef enum {
    RP_FIELD_INT, RP_FIELD_NUMBER, RP_FIELD_BOOL,
    RP_FIELD_WORD,                      /* one of `word`; its value is stored in an int (an enum) */
    RP_FIELD_ID,                        /* a token id: a number, or a list whose first entry is used; null is -1 */
    RP_FIELD_ONLY,                      /* only one value, or null, is supported: others would change the numbers */
    RP_FIELD_LATER                      /* read by the finish function */
} rp_field_kind;

typedef struct { const char *word; int value; } rp_field_word;

typedef struct {
    const char *key;
    const char *also;                   /* another spelling; if both are present they must agree. NULL: none */
    rp_field_kind kind;
    size_t offset;                      /* of the field in rp_model_config; unused for ONLY and LATER */
    bool required, nullable;            /* nullable: null is treated as absent */
    bool null_is_zero;                  /* INT and NUMBER: null becomes 0, which is outside the range and means "none" */
    double low, high, otherwise;        /* range and default of numbers; the default of BOOL and WORD too */
    const rp_field_word *word;          /* ends with NULL */
    const char *only;                   /* ONLY: the supported value as JSON */
} rp_config_field;

#define RP_AT(name) .offset = offsetof(rp_model_config, name)

/* The JSON being read, and where errors go. */
typedef struct {
    rp_ctx *ctx;
    const char *label;
    json_t *json;                       /* overrides applied */
    const rp_yaml_node *overrides;
    rp_report *report;
    rp_status status;                   /* of the first error */
} rp_config_reader;

struct rp_family {
    const char *model_type;             /* "llama" */
    const char *architecture;           /* "LlamaForCausalLM" */
    const rp_config_field *field;
    int n_fields;
    const char *const *inert;           /* globs of keys that change no number here; ends with NULL; NULL: none */
    bool honours_layer_types;           /* config.json may list the blocks that have the window */
    void (*finish)(rp_config_reader *reader, rp_model_config *config);     /* sizes that were wrong are 0 here */
    const rp_name_pair *name;           /* in safetensors files */
    int n_names;
    const char *prefix;                 /* prefix of their names, which files may omit. NULL: none */
    const rp_name_pair *tail;           /* last parts of names that files may spell differently: { "weight", "gamma" } */
    int n_tails;
    const char *const *may_be_fresh;    /* globs of our paths that files may lack, but only all of them together; ends with NULL. NULL: none */
    const char *const *inert_tensor;    /* globs of buffers in files that are not parameters; ends with NULL */
    const char *gguf_architecture;      /* in GGUF metadata; NULL: not read from GGUF, and the fields below are unused. A family of dense models and
                                           one of mixtures may share it */
    const rp_name_pair *gguf_name;
    int n_gguf_names;
    const rp_name_pair *gguf_apart;     /* names in files that store each expert separately; NULL: none */
    int n_gguf_apart;
    const char *const *gguf_rotated;    /* globs of our paths whose rows GGUF orders for another rotary layout; ends with NULL. NULL: none */
    const char *const *gguf_turned;     /* globs of our paths whose matrices GGUF stores transposed; ends with NULL. NULL: none */
    const rp_name_pair *gguf_key;       /* metadata whose name in config.json differs from llama's; theirs NULL: not used by this family */
    int n_gguf_keys;
};

extern const rp_family *const rp__families[];       /* ends with NULL */

/* ---- fields (models/config_fields.c) ---- */

/* Read the field that this line describes into its place in `config`. */
void rp__config_read_field(rp_config_reader *reader, const rp_config_field *field, rp_model_config *config);

/* The field of the family's config.json with this key; NULL if it has none. */
const rp_config_field *rp__family_field(const rp_family *family, const char *key);

/* ---- for finish functions ---- */

/* Report an error about `key`, at the override that set it, or else in the file. */
void rp__config_error(rp_config_reader *reader, const char *key, rp_status status, const char *fmt, ...) RP_PRINTF(4, 5);
/* Write a value as JSON, truncated, for messages. Returns out. */
#define RP_SHOWN_CHARS 64
const char *rp__config_show(const json_t *value, char out[RP_SHOWN_CHARS]);
/* Whether two values are equal; numbers compare by value, so 1 equals 1.0. */
bool rp__config_same(const json_t *a, const json_t *b);
/* Read rope_theta, rope_scaling and rope_parameters, in the spellings of transformers 4 and 5 (models/config_rope.c). */
void rp__config_read_rope(rp_config_reader *reader, const rp_model_config *config, rp_rope_config *out);
/* The same for families that may rotate part of a head (partial_rotary_factor): sets config's rope and rotary_dim. */
void rp__config_read_partial_rope(rp_config_reader *reader, rp_model_config *config);
/* The same for families whose blocks with a window have their own rope: rope_parameters by kind of block, or rope_local_base_freq for
 * blocks with a window, and rope_theta and rope_scaling for the others. */
void rp__config_read_two_ropes(rp_config_reader *reader, rp_model_config *config);

/* ---- names (models/weights_names.c) ---- */

#define RP_WEIGHT_NAME_CHARS 256

/* Convert "layers.3.attn.q.weight" to "model.layers.3.self_attn.q_proj.weight" and back, by a table of module paths; the last part is kept.
 * Return false if the table has no such name or the result does not fit `out`. */
bool rp__weight_name_theirs(const rp_name_pair *table, int n, const char *path, char out[RP_WEIGHT_NAME_CHARS]);
bool rp__weight_name_ours(const rp_name_pair *table, int n, const char *name, char out[RP_WEIGHT_NAME_CHARS]);
/* Whether files hold a parameter of ours in pieces, one for each index of its first dimension. If so, the functions above return, and accept,
 * the name of any piece as if it were the first. The functions below handle the piece number. */
bool rp__weight_in_pieces(const rp_name_pair *table, int n, const char *path);
bool rp__weight_piece_theirs(const rp_name_pair *table, int n, const char *path, int64_t piece, char out[RP_WEIGHT_NAME_CHARS]);
bool rp__weight_piece_ours(const rp_name_pair *table, int n, const char *name, char out[RP_WEIGHT_NAME_CHARS], int64_t *piece);
/* Name of a module or a parameter in files. *pieces: the files hold it in pieces, and this is piece number `piece`. A module that contains others
 * and has no line in the table has the common prefix of their names. */
bool rp__module_name_theirs(const rp_name_pair *table, int n, const char *path, int64_t piece, char out[RP_WEIGHT_NAME_CHARS], bool *pieces);

/* Whether `glob` matches the name of the module or parameter at `path` in the family's files, or in those of the wrapper around the model. */
bool rp__model_config_calls(const rp_model_config *config, const char *path, const char *glob, rp_called how);

#endif
