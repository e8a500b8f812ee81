/* fuzz_tokenizer.h -- a tokenizer that was read, used; shared by the targets of what tokenizers are read from. */
#ifndef RP_FUZZ_TOKENIZER_H
#define RP_FUZZ_TOKENIZER_H

#include "fuzz.h"

#include "tokenizer/internal.h"

/* A text becomes ids of the vocabulary, which decode; or is refused: a unigram may have no token for what is unknown, a pattern may need
 * too many steps. */
static void fuzz_use_tokenizer(rp_ctx *ctx, rp_tokenizer *t, const char *text)
{
    int32_t *ids = NULL;
    int64_t n, bytes;
    char *back       = NULL;
    rp_status status = rp__tokenizer_encode(t, text, (int64_t)strlen(text), &ids, &n);

    if (status != RP_OK) {
        FUZZ_CHECK(!ids);
        fuzz_refused(ctx, status);
        return;
    }
    for (int64_t i = 0; i < n; i++) FUZZ_CHECK(ids[i] >= 0 && ids[i] < rp__tokenizer_vocab(t));
    FUZZ_CHECK(rp__tokenizer_decode(t, ids, n, n & 1, &back, &bytes) == RP_OK);
    rp__release(back);
    rp__release(ids);
}

#endif
