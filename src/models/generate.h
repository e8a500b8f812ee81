/* models/generate.h -- token by token: the prompt at once, then each token from those before it, through the cache.
 *
 *   prompt ─▶ logits of its last place ─ choose ─▶ id ─▶ sink
 *                        ▲                         │
 *                        └──────── the cache ◀─────┘
 *
 * The choice is the likeliest token, or one drawn by Philox from (seed, number of the token): the same text for the same
 * model, options, threads and machine.
 */
#ifndef RP_MODELS_GENERATE_H
#define RP_MODELS_GENERATE_H

#include "models/model.h"

typedef struct {
    int64_t max_new_tokens;
    double temperature;                 /* 0: the likeliest token, the lowest id of equals */
    int64_t top_k;                      /* only the k likeliest can be drawn; 0: all */
    uint64_t seed;
    const int32_t *stop;                /* ids that end the text; they are not handed out */
    int n_stop;
} rp_generate_options;

typedef enum { RP_GENERATED_ALL, RP_GENERATED_STOP, RP_GENERATED_CONTEXT, RP_GENERATED_ENOUGH } rp_generate_end;

/* Takes each token as it is made; false: that was enough. */
typedef bool (*rp_generate_sink)(void *user, int32_t id);

/* *end says why it ended: max_new_tokens, a stop id, the model's context, or the sink. The model's cache is dropped, the
 * context left in the mode it was in, recording.
 * errors  RP_ERR_ARG an empty prompt, one beyond the context, an id beyond the vocabulary · RP_ERR_NONFINITE · RP_ERR_MEMORY */
rp_status rp__generate(rp_model *model, const int32_t *prompt, int64_t n_prompt, const rp_generate_options *options,
                       rp_generate_sink sink, void *user, rp_generate_end *end);

#endif
