/* data/store.h -- stores tokens and samples in temporary files, which the format readers write and data.c reads.
 *
 *   words    one uint32 per token: | 31 first of a document | 30 not a target | 29..0 id |
 *   samples  two int64 per sample: index of its first token, number of tokens
 *
 * The flags share the word of their token, so one read returns a whole sample. Both files are unlinked, so nothing remains when the process ends.
 *
 * A sample is a run of max_seq_len tokens (packed), or a document cut to max_seq_len. A sample without a target is skipped and counted, and the
 * place and reason of the first skipped one are kept. So every sample in the store has a target.
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

/* Create an empty store. Reads packed, max_seq_len, ignore_index, masking and scratch_dir of the config. errors RP_ERR_IO · RP_ERR_MEMORY */
rp_status rp__store_new(rp_ctx *ctx, const rp_data_config *config, rp_store **out);
void rp__store_free(rp_store *store);

/* End the open document and begin a new one. A document without tokens leaves no trace. `path` must live until the document ends. `place` is the
 * position in the file, for messages (copied). errors RP_ERR_IO */
rp_status rp__store_begin(rp_store *store, const char *path, const char *place);
/* End the open document, if any. errors RP_ERR_IO */
rp_status rp__store_end(rp_store *store);
/* Set the reason to report if the open document gets no target. The text is copied. */
void rp__store_why(rp_store *store, const char *why);
/* End the open document, then count one more document as skipped because of `why`. errors RP_ERR_IO */
rp_status rp__store_skip(rp_store *store, const char *path, const char *place, const char *why);
/* Add a token to the open document. `target`: it may be a target. errors RP_ERR_IO */
rp_status rp__store_put(rp_store *store, int32_t id, bool target);
/* Flush the files. No writes are allowed after this call, and no reads before it. errors RP_ERR_IO */
rp_status rp__store_finish(rp_store *store);

rp_store_counts rp__store_counts(const rp_store *store);
/* "'chat.jsonl', line 3: its answer is empty": the first skipped document or sample; "": none was skipped. */
const char *rp__store_first_skipped(const rp_store *store);
uint64_t rp__store_hash(const rp_store *store);
/* Read the words of the tokens [first, first + count). errors RP_ERR_IO */
rp_status rp__store_words(rp_store *store, int64_t first, int64_t count, uint32_t *out);
/* Sample i holds the tokens [*first, *first + *count). errors RP_ERR_IO */
rp_status rp__store_sample(rp_store *store, int64_t i, int64_t *first, int64_t *count);

/* Arguments of a reader for one file. `key` is the recipe key. */
typedef struct {
    rp_ctx *ctx;
    const char *key, *path;
    const rp_data_config *config;
    const rp_data_source *source;
    rp_store *store;
    int64_t most;                       /* maximum number of JSON objects to read of the file; 0: all */
} rp_read_job;

#define RP_DATA_FORMAT(name, extensions) rp_status rp__read_##name(const rp_read_job *job);
#include "data/formats.def"
#undef RP_DATA_FORMAT

/* Add a token to the open document; its id must be valid. In a masked loss special tokens are not targets. errors RP_ERR_IO */
rp_status rp__read_put(const rp_read_job *job, int32_t id, bool target);
/* Add a token to the open document after checking its id against the vocabulary. `place` is the position in the file, for messages.
 * errors  RP_ERR_CONFIG the id is outside the vocabulary · RP_ERR_IO */
rp_status rp__read_id(const rp_read_job *job, const char *place, int32_t id, bool target);
/* Tokenise a text and add its tokens to the open document. errors as rp__read_id, and those of the encoder */
rp_status rp__read_piece(const rp_read_job *job, const char *place, const char *text, int64_t bytes, bool target);
/* Add bos or eos, unless the id is not in the vocabulary. bos is added only if the source has adds_bos. errors RP_ERR_IO */
rp_status rp__read_bos(const rp_read_job *job, bool target);
rp_status rp__read_eos(const rp_read_job *job);
/* Call `put` for each object of a file of JSON lines, or of a file that is one list of objects. The object is freed when `put` returns.
 * errors  RP_ERR_FORMAT not JSON, or not an object · RP_ERR_CONFIG the file cannot be opened · RP_ERR_IO · RP_ERR_MEMORY · those of `put` */
typedef rp_status (*rp_json_object_fn)(const rp_read_job *job, const char *place, const json_t *object);
rp_status rp__read_json(const rp_read_job *job, rp_json_object_fn put);
/* Format a conversation with the model's chat template and add it; `tools` may be NULL. errors as rp__chat_render, with the place */
rp_status rp__read_messages(const rp_read_job *job, const char *place, const json_t *messages, const json_t *tools);
/* Get the text in a column of an object; out->text is NULL if the column is absent. errors RP_ERR_FORMAT the value is not a string */
typedef struct { const char *text; int64_t bytes; } rp_read_span;
rp_status rp__read_column(const rp_read_job *job, const char *place, const json_t *object, const char *column, rp_read_span *out);
/* Add a prompt and its answer: by the chat template if config->by_template is set and the model has one, else as [bos] prompt answer [eos].
 * errors  as rp__read_piece and rp__read_messages */
rp_status rp__read_pair(const rp_read_job *job, const char *place, rp_read_span prompt, rp_read_span answer);
/* Fail with RP_ERR_FORMAT; the message lists the existing columns and the recipe key that names one ("column"). */
rp_status rp__read_no_column(const rp_read_job *job, const char *place, const json_t *line, const char *column, const char *key_of_it);

#endif
