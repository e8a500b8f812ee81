/* data/store.h -- what the readers of formats write and data.c reads: tokens and samples in temporary files.
 *
 *   words    one uint32 a token: | 31 first of a document | 30 not a target | 29..0 id |
 *   samples  two int64 a sample: its first token, its number of tokens
 *
 * A mark is thus read with its token, by one read a sample. Both files have no name, so nothing is left when the process dies.
 *
 * A sample is a whole stretch of max_seq_len tokens (packed), or a document cut there. One without a target becomes no sample: it is skipped and
 * counted, and the first one's place and reason are kept. So every step has something to learn from, whatever the files hold.
 */
#ifndef RP_DATA_STORE_H
#define RP_DATA_STORE_H

#include <jansson.h>

#include "data/data.h"

#define RP_TOKEN_FIRST UINT32_C(0x80000000)
#define RP_TOKEN_NO_TARGET UINT32_C(0x40000000)
#define RP_TOKEN_ID UINT32_C(0x3fffffff)

typedef struct rp_store rp_store;

typedef struct { int64_t documents, tokens, samples, targets, truncated, skipped; } rp_store_counts;

/* Of the config, packed, max_seq_len, ignore_index, masking and scratch_dir are looked at. */
rp_status rp__store_new(rp_ctx *ctx, const rp_data_config *config, rp_store **out);
void rp__store_free(rp_store *store);

/* The last document ends, and what is put from here on is a new one; one without tokens leaves no trace. `path` lives until the document ends; `place`
 * says where in the file, for messages. */
rp_status rp__store_begin(rp_store *store, const char *path, const char *place);
rp_status rp__store_end(rp_store *store);
/* Why the document that is open has no target, if none comes. */
void rp__store_why(rp_store *store, const char *why);
/* There is a document, behind the last one, and nothing of it can be learnt. */
rp_status rp__store_skip(rp_store *store, const char *path, const char *place, const char *why);
rp_status rp__store_put(rp_store *store, int32_t id, bool target);
/* No more is put after this; reads come after it. */
rp_status rp__store_finish(rp_store *store);

rp_store_counts rp__store_counts(const rp_store *store);
/* "'chat.jsonl', line 3: its answer is empty": the first that was skipped; "": none was. */
const char *rp__store_first_skipped(const rp_store *store);
uint64_t rp__store_hash(const rp_store *store);
rp_status rp__store_words(rp_store *store, int64_t first, int64_t count, uint32_t *out);
/* Sample i is [*first, *first + *count). */
rp_status rp__store_sample(rp_store *store, int64_t i, int64_t *first, int64_t *count);

/* What a reader is given for one file. `what` is the recipe's key. */
typedef struct {
    rp_ctx *ctx;
    const char *what, *path;
    const rp_data_config *config;
    const rp_data_source *source;
    rp_store *store;
    int64_t most;                       /* JSON objects of a file; 0: all */
} rp_read_job;

#define RP_DATA_FORMAT(name, extensions) rp_status rp__read_##name(const rp_read_job *job);
#include "data/formats.def"
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
/* Each object of a file of JSON lines, or of a file that is one list of objects; the object dies when `put` returns. */
typedef rp_status (*rp_json_object_fn)(const rp_read_job *job, const char *place, const json_t *object);
rp_status rp__read_json(const rp_read_job *job, rp_json_object_fn put);
/* A conversation by the model's chat template, answers found in it; `tools` may be NULL. errors as rp__chat_render, with the place */
rp_status rp__read_messages(const rp_read_job *job, const char *place, const json_t *messages, const json_t *tools);
/* A text in an object's column; *out is NULL where there is no such column. errors RP_ERR_FORMAT it is no string */
typedef struct { const char *text; int64_t bytes; } rp_read_span;
rp_status rp__read_column(const rp_read_job *job, const char *place, const json_t *object, const char *column, rp_read_span *out);
/* A prompt and its answer: by the chat template where config->by_template and the model has one, else [bos] prompt answer [eos]. */
rp_status rp__read_pair(const rp_read_job *job, const char *place, rp_read_span prompt, rp_read_span answer);
/* RP_ERR_FORMAT, with the columns there are and the key that names one ("column"). */
rp_status rp__read_no_column(const rp_read_job *job, const char *place, const json_t *line, const char *column, const char *key_of_it);

#endif
