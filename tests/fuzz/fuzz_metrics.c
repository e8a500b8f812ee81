/* fuzz_metrics.c -- any bytes as the metrics.jsonl a resume finds, the first the step it resumes from: what is left is its beginning,
 * whole lines of no later step, and a line put then follows them. */
#include <jansson.h>

#include "fuzz_folder.h"
#include "train/metrics.h"

static void check_kept(const char *text, int64_t bytes, int64_t keep)
{
    while (bytes > 0) {
        const char *end = memchr(text, '\n', (size_t)bytes);
        FUZZ_CHECK(end);
        json_t *line       = json_loadb(text, (size_t)(end - text), 0, NULL);
        const json_t *step = json_object_get(line, "step");
        FUZZ_CHECK(json_is_integer(step) && json_integer_value(step) <= keep);
        json_decref(line);
        bytes -= end + 1 - text;
        text = end + 1;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    rp_ctx *ctx            = fuzz_ctx();
    rp_metrics_file *file  = NULL;
    rp_metrics line        = { .step = 1 };
    char *before = NULL, *after = NULL;
    int64_t n_before, n_after;

    if (!size) return 0;
    const char *path = fuzz_file("metrics.jsonl", data + 1, size - 1);
    FUZZ_CHECK(rp__metrics_open(ctx, path, data[0], &file) == RP_OK);
    FUZZ_CHECK(rp__file_read(ctx, path, INT64_MAX, &before, &n_before) == RP_OK);
    FUZZ_CHECK(n_before <= (int64_t)size - 1 && !memcmp(before, data + 1, (size_t)n_before));
    FUZZ_CHECK(data[0] || !n_before);
    check_kept(before, n_before, data[0]);
    FUZZ_CHECK(rp__metrics_put(file, &line, NULL) == RP_OK);
    rp__metrics_close(file);
    FUZZ_CHECK(rp__file_read(ctx, path, INT64_MAX, &after, &n_after) == RP_OK);
    FUZZ_CHECK(n_after > n_before && !memcmp(before, after, (size_t)n_before));
    check_kept(after + n_before, n_after - n_before, 1);
    rp__release(before);
    rp__release(after);
    return 0;
}
