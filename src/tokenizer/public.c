/* tokenizer/public.c -- the tokenizer functions of the public interface. */
#include "tokenizer/tokenizer.h"

rp_status rp_tokenizer_load(rp_ctx *ctx, const char *path, rp_tokenizer **out)
{
    RP_GIVEN(ctx, ctx && path && out);
    return rp__tokenizer_load(ctx, path, out);
}

void rp_tokenizer_free(rp_tokenizer *t) { rp__tokenizer_free(t); }

rp_status rp_tokenizer_encode(rp_tokenizer *t, const char *text, int64_t bytes, int32_t **ids, int64_t *n_ids)
{
    RP_GIVEN(NULL, t && (text || !bytes) && ids && n_ids);
    return rp__tokenizer_encode(t, text, bytes, ids, n_ids);
}

rp_status rp_tokenizer_decode(rp_tokenizer *t, const int32_t *ids, int64_t n_ids, char **text, int64_t *bytes)
{
    RP_GIVEN(NULL, t && (ids || n_ids <= 0) && text && bytes);
    return rp__tokenizer_decode(t, ids, n_ids, true, text, bytes);
}

void rp_release(void *memory) { rp__release(memory); }
