/* tokenizer/reader.h -- what the files that read parts of a tokenizer.json share.
 *
 *   json.c ─ models (models.c) ─ normalizers.c ─ pretokenizers.c ─ decoders.c
 *
 * Each kind of part is a line in a table of its file: the name in "type" and the function that reads it. What is in no table
 * is refused with a sentence that names it.
 */
#ifndef RP_TOKENIZER_READER_H
#define RP_TOKENIZER_READER_H

#include "tokenizer/internal.h"

typedef struct {
    rp_ctx *ctx;
    const char *name;               /* of the file, for messages */
    rp_tokenizer *t;                /* being built */
    bool byte_level;                /* a pre-tokenizer is ByteLevel */
    bool maps_early;                /* and others follow it */
} rp_reader;

typedef struct { const char *type; rp_status (*read)(rp_reader *r, json_t *part); } rp_part_kind;

#define RP_READ_CHECK(reader, status, cond, ...) RP_CHECK((reader)->ctx, cond, status, "cannot read '%s': " __VA_ARGS__)

const char *rp__part_kind(const json_t *part);                            /* "type", or "without a type" */
bool rp__part_flag(const json_t *part, const char *key, bool missing);
bool rp__part_empty(const json_t *value);                                 /* absent, null or "" */
/* A string into bytes that are the reader's part from then on. errors  RP_ERR_FORMAT it is no string */
rp_status rp__part_text(rp_reader *r, const json_t *part, const char *key, rp_bytes *out);
/* {"String": ..} or {"Regex": ..} under "pattern". */
rp_status rp__part_pattern(rp_reader *r, const json_t *part, rp_pattern **out);
/* A part by the table, or each of a Sequence's list in turn; null is no part. `what` is for the message. */
rp_status rp__read_parts(rp_reader *r, json_t *part, const char *what, const char *list, const rp_part_kind *kinds, int n_kinds);

rp_status rp__tokenizer_read_model(rp_reader *r, json_t *model);
/* What a model can only know once the pre-tokenizer is read: which alphabet its pieces are in. */
rp_status rp__tokenizer_finish_model(rp_reader *r, const json_t *model);
rp_status rp__tokenizer_read_normalizer(rp_reader *r, json_t *part);
rp_status rp__tokenizer_read_pre_tokenizer(rp_reader *r, json_t *part);
/* "prepend_scheme" of a Metaspace, or what older files say instead. */
rp_status rp__part_prepend(rp_reader *r, const json_t *part, rp_prepend *out);
rp_status rp__tokenizer_read_decoder(rp_reader *r, json_t *part);

#endif
