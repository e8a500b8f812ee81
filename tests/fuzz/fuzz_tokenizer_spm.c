/* fuzz_tokenizer_spm.c -- any bytes as SentencePiece's tokenizer.model: refused with a sentence, or the JSON that it amounts to can be built,
 * encodes, and decodes. */
/* ctest: watched */
#include "fuzz_tokenizer.h"

static const char text[] = "ab <s>  word's 12\xc3\xa9\xe2\x82\xac\xff e\xcc\x81\n\n  zz";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    rp_ctx *ctx     = fuzz_ctx();
    json_t *root = NULL, *config = NULL;
    rp_tokenizer *t = NULL;

    rp_status status = rp__tokenizer_from_spm(ctx, "input", (const char *)data, (int64_t)size, &root, &config);
    if (status == RP_OK) status = rp__tokenizer_build(ctx, "input", root, config, &t);
    if (status == RP_OK) fuzz_use_tokenizer(ctx, t, text);
    else fuzz_refused(ctx, status);
    rp__tokenizer_free(t);
    json_decref(root);
    json_decref(config);
    return 0;
}
