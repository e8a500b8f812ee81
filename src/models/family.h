/* models/family.h -- what one model family brings: the fields of its config.json and the names of its weights.
 *
 *   config.json ─▶ fields by their table, one by one ─▶ finish: what follows from several ─▶ rp_model_config
 *
 * A family is a file with one rp_family and a line in models.def. In names `*` stands for the number of the block; a second one on their
 * side for that of a piece: ours is one parameter, each of theirs a part of it along its first dimension.
 */
#ifndef RP_MODELS_FAMILY_H
#define RP_MODELS_FAMILY_H

#include "base/module_path.h"
#include "models/config.h"

/* More than any model has: what is larger is no model, and would be built for minutes before anybody knew. */
#define RP_MOST_LAYERS 1024
#define RP_MOST_EXPERTS 65536               /* of all blocks together */

typedef struct { const char *ours, *theirs; } rp_name_pair;        /* module paths: "layers.*.attn.q", "model.layers.*.self_attn.q_proj" */

typedef enum {
    RP_FIELD_INT, RP_FIELD_NUMBER, RP_FIELD_BOOL,
    RP_FIELD_WORD,                      /* one of `word`; its value is stored in an int (an enum) */
    RP_FIELD_ID,                        /* of a token: a number, or a list of which the first counts; null is -1 */
    RP_FIELD_ONLY,                      /* one value is honoured, null is too: another would change the numbers */
    RP_FIELD_LATER                      /* read by the finish function */
} rp_field_kind;

typedef struct { const char *word; int value; } rp_field_word;

typedef struct {
    const char *key;
    const char *also;                   /* another spelling; both together must agree. NULL: none */
    rp_field_kind kind;
    size_t offset;                      /* of the field in rp_model_config; unused for ONLY and LATER */
    bool required, nullable;            /* nullable: null is as good as absent */
    bool null_is_zero;                  /* of INT and NUMBER: null is 0, which no number in the range is: "none" */
    double low, high, otherwise;        /* range and default of numbers; the default of BOOL and WORD too */
    const rp_field_word *word;          /* ended by a NULL */
    const char *only;                   /* ONLY: that value as JSON */
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
    const char *const *inert;           /* globs of keys that change no number here; NULL-ended */
    bool honours_layer_types;           /* config.json may say block by block which have the window */
    void (*finish)(rp_config_reader *reader, rp_model_config *config);     /* a size that was wrong is 0 here */
    const rp_name_pair *name;           /* in safetensors files */
    int n_names;
    const char *prefix;                 /* of their names; files may leave it away. NULL: none */
    const rp_name_pair *tail;           /* last parts of names that files may have in another spelling: { "weight", "gamma" } */
    int n_tails;
    const char *const *may_be_fresh;    /* globs of our paths that files may be without, all of them together; NULL-ended, or NULL: none */
    const char *const *inert_tensor;    /* globs of buffers in files that are no parameters; NULL-ended */
    const char *gguf_architecture;      /* of GGUF metadata; NULL: not read from there, and what follows is unused. A family of dense models and
                                           one of mixtures may share it */
    const rp_name_pair *gguf_name;
    int n_gguf_names;
    const rp_name_pair *gguf_apart;     /* names in files that have each expert apart; NULL: there are none */
    int n_gguf_apart;
    const char *const *gguf_rotated;    /* globs of our paths whose rows GGUF orders for another rotary; NULL-ended, or NULL */
    const char *const *gguf_turned;     /* globs of our paths whose matrices GGUF has the other way round; NULL-ended, or NULL */
    const rp_name_pair *gguf_key;       /* metadata that config.json calls otherwise than llama's; NULL there: not in this family */
    int n_gguf_keys;
};

extern const rp_family *const rp__families[];       /* NULL-ended */

/* ---- fields (models/config_fields.c) ---- */

/* The field that this line is of, into its place in `config`. */
void rp__config_read_field(rp_config_reader *reader, const rp_config_field *field, rp_model_config *config);

/* ---- for finish functions ---- */

/* An error about `key`, at the override that set it or else in the file. */
void rp__config_error(rp_config_reader *reader, const char *key, rp_status status, const char *fmt, ...) RP_PRINTF(4, 5);
/* A value as JSON, cut short, for messages; returns out. */
#define RP_SHOWN_CHARS 64
const char *rp__config_show(const json_t *value, char out[RP_SHOWN_CHARS]);
/* Equal, numbers by value: 1 and 1.0 are. */
bool rp__config_same(const json_t *a, const json_t *b);
/* rope_theta, rope_scaling and rope_parameters, in the spellings of transformers 4 and 5 (models/config_rope.c). */
void rp__config_read_rope(rp_config_reader *reader, const rp_model_config *config, rp_rope_config *out);
/* The same where part of a head may be turned (partial_rotary_factor): into config's rope and rotary_dim. */
void rp__config_read_partial_rope(rp_config_reader *reader, rp_model_config *config);
/* Where blocks with a window have a rope of their own: rope_parameters by kind of block, or rope_theta and rope_scaling for the others
 * and rope_local_base_freq for those. */
void rp__config_read_two_ropes(rp_config_reader *reader, rp_model_config *config);

/* ---- names (models/weights_names.c) ---- */

#define RP_WEIGHT_NAME_CHARS 256

/* "layers.3.attn.q.weight" to "model.layers.3.self_attn.q_proj.weight" / back, by a table of module paths; the last part is kept.
 * False where the table has no such name, or it is longer than `out`. */
bool rp__weight_name_theirs(const rp_name_pair *table, int n, const char *path, char out[RP_WEIGHT_NAME_CHARS]);
bool rp__weight_name_ours(const rp_name_pair *table, int n, const char *name, char out[RP_WEIGHT_NAME_CHARS]);
/* Does a parameter of ours stand there in pieces, one for each index of its first dimension? Then the functions above give, and take, any of
 * them as if it were the first; these name the piece. */
bool rp__weight_in_pieces(const rp_name_pair *table, int n, const char *path);
bool rp__weight_piece_theirs(const rp_name_pair *table, int n, const char *path, int64_t piece, char out[RP_WEIGHT_NAME_CHARS]);
bool rp__weight_piece_ours(const rp_name_pair *table, int n, const char *name, char out[RP_WEIGHT_NAME_CHARS], int64_t *piece);
/* Of a module or a parameter, whichever the path is of; *pieces: it stands there in pieces, and this is one. A module that holds others and
 * has no line is called as they all begin. */
bool rp__module_name_theirs(const rp_name_pair *table, int n, const char *path, int64_t piece, char out[RP_WEIGHT_NAME_CHARS], bool *pieces);

/* Is what stands at `path` called so in the family's files, or in those of the wrapper around the model? */
bool rp__model_config_calls(const rp_model_config *config, const char *path, const char *glob, rp_called how);

#endif
