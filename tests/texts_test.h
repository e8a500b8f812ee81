/* texts_test.h -- the golden strings of the tokenizers' tests: every script, runs, added tokens written out, bytes that are no UTF-8. */
#ifndef RP_TEXTS_TEST_H
#define RP_TEXTS_TEST_H

#include "rp_test.h"

#include "base/file.h"
#include "io/tokenizer_inside.h"

#define GOLDEN RP_SOURCE_DIR "/tests/golden/tokenizer/"

enum { MAX_TEXTS = 2000 };
typedef struct { rp_bytes text[MAX_TEXTS]; int n; } texts;

static inline rp_bytes text_of(rp_ctx *ctx, const json_t *line)
{
    const json_t *text = json_object_get(line, "text"), *times = json_object_get(line, "times");
    const char *hex    = json_string_value(json_object_get(line, "hex"));
    rp_bytes out       = { 0 };

    for (int64_t i = 0; text && i < (times ? json_integer_value(times) : 1); i++)
        assert_ok(ctx, rp__bytes_push(ctx, &out, json_string_value(text), (int64_t)json_string_length(text)));
    for (; hex && *hex; hex += 2)
        assert_ok(ctx, rp__bytes_push(ctx, &out, &(char){ (char)strtol((char[]){ hex[0], hex[1], 0 }, NULL, 16) }, 1));
    return out;
}

static inline void read_texts(rp_ctx *ctx, const char *path, texts *out)
{
    char *all = NULL, *line, *rest;
    int64_t bytes;

    assert_ok(ctx, rp__file_read(ctx, path, 1 << 24, &all, &bytes));
    for (line = all; *line; line = rest + 1) {
        rest          = strchr(line, '\n');
        json_t *value = json_loadb(line, (size_t)(rest - line), JSON_ALLOW_NUL, NULL);
        assert_true(value && out->n < MAX_TEXTS);
        out->text[out->n++] = text_of(ctx, value);
        json_decref(value);
    }
    rp__release(all);
}

static inline texts *all_texts(rp_ctx *ctx)
{
    texts *t = calloc(1, sizeof *t);

    read_texts(ctx, GOLDEN "strings.jsonl", t);
    read_texts(ctx, GOLDEN "families/strings.jsonl", t);
    assert_true(t->n >= 1000);
    return t;
}

static inline void free_texts(texts *t)
{
    for (int i = 0; i < t->n; i++) rp__release(t->text[i].at);
    free(t);
}

#endif
