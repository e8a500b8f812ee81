/* The JSON of a GGUF file with the tokens "<s>", "a", "b" and "ab" and one merge; a NULL `pre` leaves tokenizer.ggml.pre out. */
#ifndef SMALL_GGUF_H
#define SMALL_GGUF_H

#include "io/tokenizer_inside.h"

rp_status small_gguf(rp_ctx *ctx, const char *model, const char *pre, const char *const *merges, json_t **root, json_t **config);

#endif
