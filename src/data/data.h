/* data/data.h -- reads documents from files and returns batches of tokens and labels.
 *
 *   files, sorted bytewise --> documents --> token ids --> a store: one unlinked temporary file, written once before the
 *   first step. Samples are read from it one at a time, so token data costs no memory, and later changes of the files have no effect
 *
 *   packed       ... d d d e|D D D D D e|x x ...      the store is cut every max_seq_len tokens
 *   not packed   one document per sample, cut at max_seq_len, padded to the longest sample of the micro-batch over all ranks
 *
 * Every sample has at least one target. Samples without a target are skipped and counted while the store is written (store.h). So every row
 * of every batch has a target, and a loss is never a mean over zero targets.
 *
 * A text file is one document and may be larger than memory. It is tokenised window by window; the ids are those of the whole text.
 *
 * Labels are the tokens shifted by one within the sample, so the last position has no label. In a packed sample the first token of a document
 * is the target of the last token of the previous document. With masking (masking.h) the labels are the hidden tokens, at their own positions.
 * `doc_start` is the position in the sample at which the document of a token begins. Attention does not cross document borders, and positions
 * count from doc_start. With cross_documents the whole sample counts as one document.
 * The sample at a place of the run is a function of (seed, epoch, place), so no state is kept between steps.
 *
 *   sample i of a global step --> micro-batch i / (ranks * batch_size), rank i / batch_size % ranks, row i % batch_size
 */
#ifndef RP_DATA_H
#define RP_DATA_H

#include "base/base.h"
#include "reprise/train.h"
#include "data/masking.h"
#include "tokenizer/text_ids.h"

/* The tokenizer and its special ids. An encoder id outside [0, vocab) is an error; a bos or eos id outside that range is not written. */
typedef struct {
    void *user;
    rp_encode_part encode;              /* called with `user`; reports its errors in the context of the data. NULL: only format `tokens` can be read */
    int32_t bos, eos;                   /* -1: none */
    bool adds_bos;
    int32_t vocab;                      /* vocabulary size of the model */
    bool (*is_special)(void *user, int32_t id);     /* special ids are never masked targets; NULL: only bos and eos are special */
    struct rp_chat *chat;               /* the model's chat template (template/chat.h); NULL: none */
} rp_data_source;

/* Documents of a program (rp_recipe_documents). read NULL: none. */
typedef struct { rp_documents read; void *user; } rp_data_documents;

typedef struct {
    rp_data_documents documents;        /* if set, `path`, `paths` and `format` are not used, and no tokenizer is needed */
    const char *path;                   /* a file, a folder or a glob (files.h); used if n_paths is 0 */
    int n_paths;                        /* number of entries in `paths`, which then replace `path` */
    const char *const *paths;
    const char *format;                 /* a name in formats.def */
    const char *column, *prompt_column; /* for jsonl and chat; prompt_column is for jsonl only and may be NULL */
    bool packed, cross_documents, train_on_input, wide_tokens;      /* wide_tokens: the token_type is u32 */
    bool by_template;                   /* for prompt-answer pairs: use the source's chat template if it has one */
    int64_t max_seq_len, batch_size, accumulation;
    int ranks, rank;
    bool shuffle;
    uint64_t seed;
    int32_t ignore_index;
    rp_masking masking;                 /* probability 0: no masking, labels are the next tokens */
    const char *scratch_dir;            /* folder for the store; NULL: $TMPDIR, /var/tmp or /tmp */
} rp_data_config;

typedef struct rp_data rp_data;

typedef struct {
    int64_t n_files, n_documents, n_tokens;
    int64_t n_targets;                  /* of all samples, each counted once; with masking: tokens that may be hidden */
    int64_t n_samples;
    int64_t n_truncated;                /* samples that are a document cut at max_seq_len */
    int64_t n_skipped;                  /* documents without text, and samples without a target */
    int64_t steps_per_epoch;
    uint64_t hash;                      /* of all tokens, document ends and skipped samples; a resumed run compares it to check that the data is the same */
    bool masked, by_template;           /* by_template: the chat template formatted the pairs */
    const char *first_skipped;          /* "'f.jsonl', line 3: its answer is empty"; "": none was skipped. Owned by the data */
} rp_data_info;

typedef struct {                        /* counts of one global step, over all ranks */
    int64_t targets;                    /* labels that are not ignored; at least 1 per sample */
    int64_t tokens;                     /* input tokens without padding */
} rp_data_step;

typedef struct {                        /* arrays of [rows, length], borrowed until the next call on the same data */
    int64_t rows, length;
    bool padded;                        /* not packed: each row is one document, followed by padding */
    const int32_t *tokens, *labels, *positions, *doc_start;
    int64_t sample_base;                /* index of row 0 in the global step */
} rp_data_batch;

/* Read and tokenise all files. `key` is the recipe key, "dataset" or "dataset_val", for messages. The key, the source and the strings of
 * the config must live until open returns.
 * errors  RP_ERR_CONFIG a wrong key, too little data for one step, or no sample with a target · RP_ERR_MATCH no such file · RP_ERR_FORMAT a file
 *         is malformed; the message has the place · RP_ERR_UNSUPPORTED from the chat template · RP_ERR_IO · RP_ERR_MEMORY */
rp_status rp__data_open(rp_ctx *ctx, const char *key, const rp_data_config *config, const rp_data_source *source,
                        rp_data **out);
void rp__data_close(rp_data *data);

rp_data_info rp__data_info(const rp_data *data);
/* Read the first `most` objects of each of the first `most` files as rp__data_open does, and discard them. This finds errors of the format, of
 * the tokenizer and of the chat template early. *looked is false for the formats text and tokens, which are not read.
 * errors  as rp__data_open, except that too little data is no error */
rp_status rp__data_look(rp_ctx *ctx, const char *key, const rp_data_config *config, const rp_data_source *source, int64_t most, bool *looked);

/* Write a summary to `out`: "data: 3 files, 3 documents, 900 tokens, 880 targets; 7 samples, 0 truncated, 0 skipped". Returns out. */
#define RP_DATA_TEXT_CHARS 512
const char *rp__data_text(const rp_data_info *info, const char *path, int n_paths, char out[RP_DATA_TEXT_CHARS]);

/* Read sample i, from 0, in the order of the files. ids and target have room for max_seq_len elements. target[k]: token k is a target, or with
 * masking, it may be hidden. errors RP_ERR_IO */
rp_status rp__data_sample(rp_data *data, int64_t i, int32_t *ids, bool *target, int64_t *count);

/* Count the targets and tokens of a step. `step` is the optimizer step of the run, from 0; epoch and place follow from it. errors RP_ERR_IO */
rp_status rp__data_step(rp_data *data, int64_t step, rp_data_step *out);
/* Make micro-batch `micro` (from 0) of this rank. errors RP_ERR_IO */
rp_status rp__data_batch(rp_data *data, int64_t step, int64_t micro, rp_data_batch *out);

#endif
