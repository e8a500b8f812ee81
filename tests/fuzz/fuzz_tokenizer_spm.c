/* fuzz_tokenizer_spm.c -- any bytes as SentencePiece's tokenizer.model: refused with a sentence, or the JSON that it amounts to can be built,
 * encodes, and decodes. */
#include "fuzz.h"

#include "io/tokenizer_inside.h"

static void use(rp_ctx *ctx, rp_tokenizer *t)
{
    static const char text[] = "ab <s>  word's 12\xc3\xa9\xe2\x82\xac\xff e\xcc\x81\n\n  zz";
    int32_t *ids = NULL;
    int64_t n, bytes;
    char *back       = NULL;
    rp_status status = rp__tokenizer_encode(t, text, (int64_t)sizeof text - 1, &ids, &n);

    if (status != RP_OK) {              /* a unigram may have no token for what is unknown */
        fuzz_refused(ctx, status);
        return;
    }
    for (int64_t i = 0; i < n; i++) FUZZ_CHECK(ids[i] >= 0 && ids[i] < rp__tokenizer_vocab(t));
    FUZZ_CHECK(rp__tokenizer_decode(t, ids, n, n & 1, &back, &bytes) == RP_OK);
    rp__release(back);
    rp__release(ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    rp_ctx *ctx     = fuzz_ctx();
    json_t *root = NULL, *config = NULL;
    rp_tokenizer *t = NULL;

    rp_status status = rp__tokenizer_from_spm(ctx, "input", (const char *)data, (int64_t)size, &root, &config);
    if (status == RP_OK) status = rp__tokenizer_build(ctx, "input", root, config, &t);
    if (status == RP_OK) use(ctx, t);
    else fuzz_refused(ctx, status);
    rp__tokenizer_free(t);
    json_decref(root);
    json_decref(config);
    return 0;
}
