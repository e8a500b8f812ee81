/* train/data_store.h -- what the readers of formats write and data.c reads: tokens and documents in temporary files.
 *
 *   word   one uint32 a token: | 31 first of a document | 30 not a target | 29..0 id |
 *   index  one int64 a document: the number of tokens before it
 *
 * A mark is thus read with its token, by one read a sample. Both files have no name, so nothing is left when the process dies.
 */
#ifndef RP_TRAIN_DATA_STORE_H
#define RP_TRAIN_DATA_STORE_H

#include <jansson.h>

#include "train/data.h"

#define RP_TOKEN_FIRST UINT32_C(0x80000000)
#define RP_TOKEN_NO_TARGET UINT32_C(0x40000000)
#define RP_TOKEN_ID UINT32_C(0x3fffffff)

typedef struct rp_store rp_store;

rp_status rp__store_new(rp_ctx *ctx, const char *directory, rp_store **out);
void rp__store_free(rp_store *store);

/* What is put from here on is a new document; one without tokens leaves no trace. */
void rp__store_begin(rp_store *store);
rp_status rp__store_put(rp_store *store, int32_t id, bool target);
/* No more is put after this; reads come after it. */
rp_status rp__store_finish(rp_store *store);

int64_t rp__store_n_tokens(const rp_store *store);
int64_t rp__store_n_documents(const rp_store *store);
uint64_t rp__store_hash(const rp_store *store);
rp_status rp__store_words(rp_store *store, int64_t first, int64_t count, uint32_t *out);
/* Document i is [*first, *first + *count). */
rp_status rp__store_document(rp_store *store, int64_t i, int64_t *first, int64_t *count);

/* What a reader is given for one file. `what` is the recipe's key. */
typedef struct {
    rp_ctx *ctx;
    const char *what, *path;
    const rp_data_config *config;
    const rp_data_source *source;
    rp_store *store;
} rp_read_job;

#define RP_DATA_FORMAT(name) rp_status rp__read_##name(const rp_read_job *job);
#include "train/data_formats.def"
#undef RP_DATA_FORMAT

/* The next token of the current document, whose id is known to be good. One that is special is no target of a masked loss. */
rp_status rp__read_put(const rp_read_job *job, int32_t id, bool target);
/* An id of the current document, checked against the vocabulary. `place` says where in the file, for messages. */
rp_status rp__read_id(const rp_read_job *job, const char *place, int32_t id, bool target);
/* A piece of text of the current document; the readers' common step. */
rp_status rp__read_piece(const rp_read_job *job, const char *place, const char *text, int64_t bytes, bool target);
/* bos and eos, where they are not inert. */
rp_status rp__read_bos(const rp_read_job *job, bool target);
rp_status rp__read_eos(const rp_read_job *job);
/* Each line that is not blank, a JSON object; the object dies when `put` returns. */
typedef rp_status (*rp_json_line_fn)(const rp_read_job *job, const char *place, const json_t *line);
rp_status rp__read_json_lines(const rp_read_job *job, rp_json_line_fn put);
/* RP_ERR_FORMAT, with the columns there are and the key that names one ("column"). */
rp_status rp__read_no_column(const rp_read_job *job, const char *place, const json_t *line, const char *column, const char *key_of_it);

#endif
