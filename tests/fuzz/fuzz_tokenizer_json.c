/* fuzz_tokenizer_json.c -- any bytes as a tokenizer.json: refused with a sentence, or it encodes and decodes some text. */
/* ctest: watched */
#include "fuzz_tokenizer.h"

static const char text[] = "ab <a>  word's 12\xc3\xa9\xe2\x82\xac\xff e\xcc\x81\n\n  zz";

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
    fuzz_use_tokenizer(ctx, t, text);
    rp__tokenizer_free(t);
    return 0;
}
