/* fuzz_tokenizer_gguf.c -- any bytes as a GGUF file whose metadata may be a tokenizer: refused with a sentence, or the JSON that it
 * amounts to can be built, encodes, and decodes. */
/* ctest: watched */
#include "fuzz_tokenizer.h"

static const char text[] = "ab <s>  word's 12\xc3\xa9\xe2\x82\xac\xff e\xcc\x81\n\n  zz";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    rp_ctx *ctx     = fuzz_ctx();
    rp_gguf *file   = NULL;
    json_t *root = NULL, *config = NULL;
    rp_tokenizer *t = NULL;

    rp_status status = rp__gguf_open_bytes(ctx, "input", data, (int64_t)size, &file);
    if (status == RP_OK) status = rp__tokenizer_from_gguf(ctx, file, "input", &root, &config);
    if (status == RP_OK) status = rp__tokenizer_build(ctx, "input", root, config, &t);
    if (status == RP_OK) fuzz_use_tokenizer(ctx, t, text);
    else fuzz_refused(ctx, status);
    rp__tokenizer_free(t);
    json_decref(root);
    json_decref(config);
    rp__gguf_close(file);
    return 0;
}
