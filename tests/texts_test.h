/* texts_test.h -- the golden strings of the tokenizers' tests: every script, runs, added tokens written out, bytes that are no UTF-8. */
#ifndef RP_TEXTS_TEST_H
#define RP_TEXTS_TEST_H

#include "rp_test.h"

#include "base/file.h"
#include "tokenizer/internal.h"

#define GOLDEN RP_SOURCE_DIR "/tests/golden/tokenizer/"

/* A tokenizer of a folder below GOLDEN, or of a path. */
static inline rp_tokenizer *golden_tokenizer(rp_ctx *ctx, const char *folder, const char *name)
{
    char path[512];
    rp_tokenizer *t = NULL;

    snprintf(path, sizeof path, "%s%s%s", name[0] == '/' ? "" : GOLDEN, name[0] == '/' ? "" : folder, name);
    assert_ok(ctx, rp__tokenizer_load(ctx, path, &t));
    return t;
}

static inline rp_ids encode_text(rp_ctx *ctx, rp_tokenizer *t, const char *text, int64_t bytes)
{
    rp_ids ids = { 0 };

    assert_ok(ctx, rp__tokenizer_encode(t, text, bytes, &ids.at, &ids.n));
    return ids;
}

static inline uint64_t hash_of_ids(const rp_ids *ids)
{
    uint64_t h = 0;

    for (int64_t i = 0; i < ids->n; i++) h = h * 6364136223846793005ull + (uint64_t)ids->at[i] + 1;
    return h;
}

/* A file of tests/golden/chat. */
static inline json_t *chat_golden(const char *name)
{
    char path[512];
    json_error_t e;

    snprintf(path, sizeof path, RP_SOURCE_DIR "/tests/golden/chat/%s", name);
    json_t *root = json_load_file(path, JSON_ALLOW_NUL, &e);
    if (!root) fail_msg("%s: %s", path, e.text);
    return root;
}

/* `life` of each tokenizer, which may write to `out`, with allocation 1, 2, … failing until none does. */
static inline void tokenizers_with_faults(const char *const *names, int n, int least, rp_status (*life)(rp_ctx *ctx, const char *name, const char *out))
{
    char folder[] = "/tmp/rp_tokenizer_XXXXXX";
    rp_ctx *ctx   = test_ctx(NULL);

    assert_non_null(mkdtemp(folder));
    for (int i = 0; i < n; i++) {
        test_faults f = { .survived = true };       /* PCRE2 without room for its compiled code interprets: slower, the same ids */
        while (!f.over) {
            test_fault_begin(&f, ctx);
            test_fault_end(&f, life(ctx, names[i], folder));
        }
        assert_true(f.failed > least);
    }
    assert_ok(ctx, rp__remove_tree(ctx, folder));
    test_ctx_free(ctx);
}

/* 4,096 code points from `base`, each where `setting` has an @. */
static inline rp_bytes points_text(rp_ctx *ctx, const char *setting, uint32_t base)
{
    rp_bytes text = { 0 };
    char point[4];

    for (uint32_t c = base; c < base + 4096; c++) {
        if (c >= 0xd800 && c < 0xe000) continue;
        int n = rp__utf8_put(point, c);
        for (const char *p = setting; *p; p++) assert_ok(ctx, rp__bytes_push(ctx, &text, *p == '@' ? point : p, *p == '@' ? n : 1));
    }
    return text;
}

/* The lines of `folder`points.txt, one of eight where tests are few: the name of a tokenizer, a code point, a hash of ids. Returns how many lines. */
static inline int check_points(rp_ctx *ctx, const char *folder, const char *(*setting)(const char *name))
{
    rp_tokenizer *t = NULL;
    char path[256], name[20], last[20] = "";
    unsigned base;
    unsigned long long hash;
    int n_lines = 0, n_wrong = 0;

    snprintf(path, sizeof path, GOLDEN "%spoints.txt", folder);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    while (fscanf(file, "%19s %x %llx", name, &base, &hash) == 3) {
        if (n_lines++ % test_few_or(8, 1)) continue;
        if (strcmp(name, last)) {
            rp__tokenizer_free(t);
            t = golden_tokenizer(ctx, folder, name);
            memcpy(last, name, sizeof last);
        }
        rp_bytes text = points_text(ctx, setting(name), base);
        rp_ids ids    = encode_text(ctx, t, text.at ? text.at : "", text.n);
        if (hash_of_ids(&ids) != hash && n_wrong++ < 20) print_error("%s: code points from %06x differ\n", name, base);
        rp__release(ids.at);
        rp__release(text.at);
    }
    fclose(file);
    rp__tokenizer_free(t);
    assert_int_equal(n_wrong, 0);
    return n_lines;
}

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
