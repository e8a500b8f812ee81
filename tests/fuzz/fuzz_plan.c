/* Any bytes as a plan: refused with a sentence, or a plan whose texts can be read. */
/* ctest: watched */
#include "plan/file.h"

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    rp_ctx *ctx        = fuzz_ctx();
    rp_plan_text *text = NULL;
    rp_status status   = rp__plan_parse(ctx, "input", (const char *)data, (int64_t)size, &text);

    if (status != RP_OK) {
        fuzz_refused(ctx, status);
        return 0;
    }
    FUZZ_CHECK(rp__plan_text_recipe(text) != NULL);
    (void)rp__plan_text_is_empty(text);
    (void)rp__plan_text_variant(text);
    rp__plan_text_free(text);
    return 0;
}
