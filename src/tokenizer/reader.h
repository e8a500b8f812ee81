/* tokenizer/reader.h -- shared by the files that read the parts of a tokenizer.json.
 *
 *   json.c ─ models (models.c) ─ normalizers.c ─ pretokenizers.c ─ decoders.c
 *
 * Each kind of part is a line in a table of its file: its "type" and the function that reads it. Other types are refused with a message that names
 * them.
 *
 * Errors of all functions unless stated: RP_ERR_FORMAT malformed · RP_ERR_UNSUPPORTED an unknown type or option · RP_ERR_MEMORY.
 */
#ifndef RP_TOKENIZER_READER_H
#define RP_TOKENIZER_READER_H

#include "tokenizer/internal.h"

typedef struct {
    rp_ctx *ctx;
    const char *name;               /* name of the file, for messages */
    rp_tokenizer *t;                /* the tokenizer being built */
    bool byte_level;                /* some pre-tokenizer is ByteLevel */
    bool maps_early;                /* … and others follow it */
    const char *front, *back;       /* tokens that the post-processor puts around a text; NULL: none */
} rp_reader;

/* read NULL: nothing to read */
typedef struct { const char *type; rp_status (*read)(rp_reader *r, json_t *part); } rp_part_kind;

#define RP_READ_CHECK(reader, status, cond, ...) RP_CHECK((reader)->ctx, cond, status, "cannot read '%s': " __VA_ARGS__)

const char *rp__part_kind(const json_t *part);                            /* "type", or "without a type" */
bool rp__part_flag(const json_t *part, const char *key, bool missing);
bool rp__part_empty(const json_t *value);                                 /* absent, null or "" */
/* Append a string to `out`, which the caller frees with its part. errors RP_ERR_FORMAT it is not a string · RP_ERR_MEMORY */
rp_status rp__part_text(rp_reader *r, const json_t *part, const char *key, rp_bytes *out);
/* Compile {"String": ..} or {"Regex": ..} under "pattern". errors as rp__pattern_new, or RP_ERR_FORMAT it has neither */
rp_status rp__part_pattern(rp_reader *r, const json_t *part, rp_pattern **out);
/* Read a part with the function of its type, or each part of a Sequence's list; null means no part. `kind_name` names the kind of part in messages.
 * errors  RP_ERR_UNSUPPORTED an unknown type · as the function */
rp_status rp__read_parts(rp_reader *r, json_t *part, const char *kind_name, const char *list, const rp_part_kind *kinds, int n_kinds);

rp_status rp__tokenizer_read_model(rp_reader *r, json_t *model);
/* Finish the model after the pre-tokenizer is read, which determines the alphabet of the pieces. */
rp_status rp__tokenizer_finish_model(rp_reader *r, const json_t *model);
rp_status rp__tokenizer_read_normalizer(rp_reader *r, json_t *part);
rp_status rp__tokenizer_read_pre_tokenizer(rp_reader *r, json_t *part);
/* Read "prepend_scheme" of a Metaspace, or "add_prefix_space" of older files. errors RP_ERR_UNSUPPORTED */
rp_status rp__part_prepend(rp_reader *r, const json_t *part, rp_prepend *out);
rp_status rp__tokenizer_read_decoder(rp_reader *r, json_t *part);

#endif
