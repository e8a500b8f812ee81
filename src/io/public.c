/* io/public.c -- tokenizers as programs over the library use them. */
#include "io/tokenizer.h"

rp_status rp_tokenizer_load(rp_ctx *ctx, const char *path, rp_tokenizer **out) { return rp__tokenizer_load(ctx, path, out); }
void rp_tokenizer_free(rp_tokenizer *t) { rp__tokenizer_free(t); }

rp_status rp_tokenizer_encode(rp_tokenizer *t, const char *text, int64_t bytes, int32_t **ids, int64_t *n_ids)
{
    return rp__tokenizer_encode(t, text, bytes, ids, n_ids);
}

rp_status rp_tokenizer_decode(rp_tokenizer *t, const int32_t *ids, int64_t n_ids, char **text, int64_t *bytes)
{
    return rp__tokenizer_decode(t, ids, n_ids, true, text, bytes);
}

void rp_release(void *memory) { rp__release(memory); }
