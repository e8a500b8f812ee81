/* models/generate.h -- generates text: reads the prompt at once, then produces one token at a time with a key-value cache.
 *
 *   prompt ─▶ logits of its last place ─ choose ─▶ id ─▶ sink
 *                        ▲                         │
 *                        └──────── the cache ◀─────┘
 *
 * The next token is the most likely one, or drawn by Philox from (seed, number of the token). So the same model, options, threads and
 * machine give the same text.
 */
#ifndef RP_MODELS_GENERATE_H
#define RP_MODELS_GENERATE_H

#include "models/model.h"

typedef struct {
    int64_t max_new_tokens;
    double temperature;                 /* sampling temperature; 0: greedy, the lowest id among equals */
    int64_t top_k;                      /* sample only from the k most likely; 0: all */
    uint64_t seed;
    const int32_t *stop;                /* ids that end the text; they are not passed to the sink */
    int n_stop;
} rp_generate_options;

typedef enum { RP_GENERATED_ALL, RP_GENERATED_STOP, RP_GENERATED_CONTEXT, RP_GENERATED_ENOUGH } rp_generate_end;

/* Receives each generated token. Return false to stop. */
typedef bool (*rp_generate_sink)(void *user, int32_t id);

/* Generate tokens. *end is the reason for the end: max_new_tokens, a stop id, the model's context, or the sink. Drops the model's cache and
 * restores the mode of the context, with recording on.
 * prompt NULL: on shapes alone, run the passes of a text of max_new_tokens, which must fit the context; `sink` and `end` are not used.
 * errors  RP_ERR_ARG an empty prompt, one longer than the context, an id outside the vocabulary · RP_ERR_UNSUPPORTED an encoder · RP_ERR_NONFINITE ·
 *         RP_ERR_MEMORY */
rp_status rp__generate(rp_model *model, const int32_t *prompt, int64_t n_prompt, const rp_generate_options *options,
                       rp_generate_sink sink, void *user, rp_generate_end *end);

#endif
