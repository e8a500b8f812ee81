/* The JSON that the metadata of a small GGUF file amounts to; token 0 is bos. Strings and lists that are NULL are left out. */
#ifndef SMALL_GGUF_H
#define SMALL_GGUF_H

#include "tokenizer/internal.h"

typedef struct {
    const char *architecture, *model, *pre;
    const char *const *tokens, *const *merges;
    const int32_t *types;           /* 1 normal, 3 control, 4 the user's */
    uint64_t n_tokens, n_merges;
    uint64_t n_types, n_scores;     /* 0: as many as tokens · no scores */
    float last_score;               /* the others are 0 */
    const char *template;
} small_words;

/* The file reads *bytes, which are released after it is closed. */
rp_gguf *small_gguf_open(rp_ctx *ctx, const small_words *words, char **bytes);

rp_status small_gguf_of(rp_ctx *ctx, const small_words *words, json_t **root, json_t **config);
/* With the tokens "<s>", "a", "b" and "ab" and one merge. */
rp_status small_gguf(rp_ctx *ctx, const char *model, const char *pre, const char *const *merges, json_t **root, json_t **config);

/* The text has just these ids. */
void assert_ids(rp_ctx *ctx, rp_tokenizer *t, const char *text, const int32_t *want, int64_t n_want);

#endif
