/* fuzz_tokenizer_json.c -- any bytes as a tokenizer.json: refused with a sentence, or it encodes and decodes some text. */
#include "fuzz.h"

#include "io/tokenizer_inside.h"

static void use(rp_ctx *ctx, rp_tokenizer *t)
{
    static const char text[] = "ab <a>  word's 12\xc3\xa9\xe2\x82\xac\xff e\xcc\x81\n\n  zz";
    int32_t *ids = NULL;
    int64_t n, bytes;
    char *back       = NULL;
    rp_status status = rp__tokenizer_encode(t, text, (int64_t)sizeof text - 1, &ids, &n);

    if (status != RP_OK) {              /* a pattern may need too many steps */
        FUZZ_CHECK(!ids);
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
    rp_ctx *ctx      = fuzz_ctx();
    json_t *root     = NULL;
    rp_tokenizer *t  = NULL;
    rp_status status = rp__tokenizer_json(ctx, "input", (const char *)data, (int64_t)size, &root);

    if (status == RP_OK) status = rp__tokenizer_build(ctx, "input", root, root, &t);
    json_decref(root);
    if (status != RP_OK) {
        FUZZ_CHECK(!t);
        fuzz_refused(ctx, status);
        return 0;
    }
    use(ctx, t);
    rp__tokenizer_free(t);
    return 0;
}
