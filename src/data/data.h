/* data/data.h -- documents in, batches out.
 *
 *   files, sorted bytewise --> documents --> token ids --> a store: one unlinked temporary file, written once before the
 *   first step and read a sample at a time, so token data costs no memory and later changes of the files no surprise
 *
 *   packed       ... d d d e|D D D D D e|x x ...      the store cut every max_seq_len tokens
 *   not packed   one document a sample, cut at max_seq_len, padded to the longest of its micro-batch, all ranks' rows together
 *
 * Every sample has a target: those without one are skipped when the store is written (store.h), and counted. So does every row of every batch
 * of every step, and no loss is a mean over nothing.
 *
 * A text file is a document and may be larger than memory: it is tokenised a window at a time, to the ids of the whole.
 *
 * Labels are the tokens shifted by one within the sample, so the last place has none; in a packed sample the first token of the
 * next document is a target of the last of this one. With masking (masking.h) they are the hidden tokens at their own places instead.
 * `doc_start` says where the document of a place begins in its sample: attention reaches back to there, both ways as far as the document
 * goes, and positions count from there; with cross_documents both are the sample's.
 * The sample at a place of the run is a function of (seed, epoch, place): nothing is remembered between steps.
 *
 *   sample i of a global step --> micro-batch i / (ranks * batch_size), rank i / batch_size % ranks, row i % batch_size
 */
#ifndef RP_DATA_H
#define RP_DATA_H

#include "base/base.h"
#include "data/masking.h"
#include "tokenizer/text_ids.h"

/* Where ids come from. Ids at or past `vocab` are refused; a bos or eos there is inert. */
typedef struct {
    void *user;
    rp_encode_part encode;              /* of `user`; its errors stand in the context of the data. NULL: only format tokens can be read */
    int32_t bos, eos;                   /* -1: none */
    bool adds_bos;
    int32_t vocab;                      /* of the model */
    bool (*is_special)(void *user, int32_t id);     /* never a masked target; NULL: bos and eos alone are not */
    struct rp_chat *chat;               /* the model's chat template (template/chat.h); NULL: it has none */
} rp_data_source;

typedef struct {
    const char *path;                   /* a file, a folder or a glob (files.h) … */
    int n_paths;                        /* … or so many of them, in place of it */
    const char *const *paths;
    const char *format;                 /* a line of formats.def */
    const char *column, *prompt_column; /* jsonl, chat; prompt_column may be NULL, and is for jsonl alone */
    bool packed, cross_documents, train_on_input, wide_tokens;      /* wide_tokens: token_type u32 */
    bool by_template;                   /* pairs: the source's chat template writes them, where it has one */
    int64_t max_seq_len, batch_size, accumulation;
    int ranks, rank;
    bool shuffle;
    uint64_t seed;
    int32_t ignore_index;
    rp_masking masking;                 /* probability 0: targets are the next tokens */
    const char *scratch_dir;            /* for the store; NULL: $TMPDIR, /var/tmp or /tmp */
} rp_data_config;

typedef struct rp_data rp_data;

typedef struct {
    int64_t n_files, n_documents, n_tokens;
    int64_t n_targets;                  /* of all samples, each once; masked: tokens that may be one */
    int64_t n_samples;
    int64_t n_truncated;                /* of the samples, those that are a document cut at max_seq_len */
    int64_t n_skipped;                  /* documents without text and samples without a target */
    int64_t steps_per_epoch;
    uint64_t hash;                      /* of all tokens, document ends and skipped samples, to tell whether a resumed run still sees the same data */
    bool masked, by_template;           /* by_template: pairs were written by the chat template */
    const char *first_skipped;          /* "'f.jsonl', line 3: its answer is empty"; "": none was. The data's */
} rp_data_info;

typedef struct {                        /* of a whole global step, over all ranks */
    int64_t targets;                    /* labels that count; at least 1 a sample */
    int64_t tokens;                     /* input tokens, padding excluded */
} rp_data_step;

typedef struct {                        /* [rows, length] each, borrowed until the next call on the same data */
    int64_t rows, length;
    bool padded;                        /* not packed: a row is a document, and padding behind it */
    const int32_t *tokens, *labels, *positions, *doc_start;
    int64_t sample_base;                /* index in the global step of row 0 */
} rp_data_batch;

/* Reads and tokenises everything. `what` is the recipe's key, "dataset" or "dataset_val", for messages; it, the source and
 * the config's texts must live until open returns.
 * errors  RP_ERR_CONFIG a key is wrong, too little data for one step, no sample with a target · RP_ERR_MATCH no such file · RP_ERR_FORMAT a file
 *         is malformed, with its place · RP_ERR_IO · RP_ERR_MEMORY */
rp_status rp__data_open(rp_ctx *ctx, const char *what, const rp_data_config *config, const rp_data_source *source,
                        rp_data **out);
void rp__data_close(rp_data *data);

rp_data_info rp__data_info(const rp_data *data);
/* Reads the first `most` objects of the first `most` files as rp__data_open does, and drops them. Errors of the format, of the tokenizer and of the chat
 * template show there. *looked is false for formats that are not JSON, of which nothing is read.
 * errors  as rp__data_open; there may be too little data */
rp_status rp__data_look(rp_ctx *ctx, const char *what, const rp_data_config *config, const rp_data_source *source, int64_t most, bool *looked);

/* "data: 3 files, 3 documents, 900 tokens, 880 targets; 7 samples, 0 truncated, 0 skipped" */
#define RP_DATA_TEXT_CHARS 512
const char *rp__data_text(const rp_data_info *info, const char *path, int n_paths, char out[RP_DATA_TEXT_CHARS]);

/* `step` counts optimizer steps of the run from 0; epoch and place follow from it. errors RP_ERR_IO */
rp_status rp__data_step(rp_data *data, int64_t step, rp_data_step *out);
/* Micro-batch `micro` (from 0) of this rank. errors RP_ERR_IO */
rp_status rp__data_batch(rp_data *data, int64_t step, int64_t micro, rp_data_batch *out);

#endif
