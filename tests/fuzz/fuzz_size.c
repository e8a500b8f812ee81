/* fuzz_size.c -- sizes as recipes write them: whatever the text, parsing ends and a size is never negative. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char *text    = calloc(1, bytes + 1);
    int64_t value = 0;

    if (!text) return 0;
    memcpy(text, data, bytes);
    if (rp__size_parse(text, &value)) RP_BUG_IF(value < 0);
    free(text);
    return 0;
}
