/* Claims about tokenizers that are not byte-level BPE. Truth is the `tokenizers` package: tests/golden/tokenizer/families, made by
 * tools/make_tokenizer_families.py and tools/goldens_tokenizer.py. */
#include "rp_test.h"

#include <unistd.h>

#include "base/file.h"
#include "io/tokenizer_inside.h"

#define GOLDEN RP_SOURCE_DIR "/tests/golden/tokenizer/"

static const char *const families[] = { "albert", "bert", "bert_cased", "clip", "gemma", "llama2", "mistral", "mixed", "openai", "phi3",
                                        "rest", "t5", "t5_old", "unigram_bytes" };

static rp_tokenizer *load(rp_ctx *ctx, const char *name)
{
    char path[512];
    rp_tokenizer *t = NULL;

    snprintf(path, sizeof path, GOLDEN "families/%s", name);
    assert_ok(ctx, rp__tokenizer_load(ctx, path, &t));
    return t;
}

static uint64_t hash_of_ids(const int32_t *ids, int64_t n)
{
    uint64_t h = 0;

    for (int64_t i = 0; i < n; i++) h = h * 6364136223846793005ull + (uint64_t)ids[i] + 1;
    return h;
}

/* The package repairs what the byte-level alphabet makes; here that is left to the caller. */
static uint64_t hash_of_text(rp_ctx *ctx, const char *text, int64_t n)
{
    rp_bytes repaired = { 0 };
    uint64_t h        = 0;

    assert_ok(ctx, rp__utf8_repair(ctx, text, n, &repaired));
    for (int64_t i = 0; i < repaired.n; i++) h = h * 6364136223846793005ull + (uint8_t)repaired.at[i] + 1;
    rp__release(repaired.at);
    return h;
}

/* ---- the golden strings ---- */

enum { MAX_TEXTS = 2000 };
typedef struct { rp_bytes text[MAX_TEXTS]; int n; } texts;

static rp_bytes text_of(rp_ctx *ctx, const json_t *line)
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

static void read_texts(rp_ctx *ctx, const char *path, texts *out)
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

static texts *all_texts(rp_ctx *ctx)
{
    texts *t = calloc(1, sizeof *t);

    read_texts(ctx, GOLDEN "strings.jsonl", t);
    read_texts(ctx, GOLDEN "families/strings.jsonl", t);
    assert_true(t->n >= 1000);
    return t;
}

static void free_texts(texts *t)
{
    for (int i = 0; i < t->n; i++) rp__release(t->text[i].at);
    free(t);
}

typedef struct { uint64_t ids, text, plain; } hashes;

static hashes hashes_of(rp_ctx *ctx, rp_tokenizer *t, const rp_bytes *text)
{
    int32_t *ids = NULL;
    int64_t n = 0, bytes = 0;
    char *back = NULL;
    hashes h;

    assert_ok(ctx, rp__tokenizer_encode(t, text->at ? text->at : "", text->n, &ids, &n));
    h.ids = hash_of_ids(ids, n);
    assert_ok(ctx, rp__tokenizer_decode(t, ids, n, false, &back, &bytes));
    h.text = hash_of_text(ctx, back, bytes);
    rp__release(back);
    assert_ok(ctx, rp__tokenizer_decode(t, ids, n, true, &back, &bytes));
    h.plain = hash_of_text(ctx, back, bytes);
    rp__release(back);
    rp__release(ids);
    return h;
}

static hashes *read_hashes(rp_ctx *ctx, const char *name, int n)
{
    char path[512];
    char *data = NULL;
    int64_t bytes;

    snprintf(path, sizeof path, GOLDEN "families/%s.bin", name);
    assert_ok(ctx, rp__file_read(ctx, path, 1 << 20, &data, &bytes));
    assert_int_equal(bytes, n * (int64_t)sizeof(hashes));
    return (hashes *)(void *)data;
}

/* `file` as the tokenizer, `name` as the golden. */
static void agrees(rp_ctx *ctx, const texts *all, const char *file, const char *name)
{
    rp_tokenizer *t = load(ctx, file);
    hashes *want    = read_hashes(ctx, name, all->n);
    int n_wrong     = 0;

    for (int i = 0; i < all->n; i++) {
        hashes h = hashes_of(ctx, t, &all->text[i]);
        if (!memcmp(&h, &want[i], sizeof h) || n_wrong++ >= 20) continue;
        print_error("%s: %s of text %d '%.*s' differ\n", file, h.ids != want[i].ids ? "ids" : h.text != want[i].text ? "decoded texts" : "plain texts",
                    i, (int)(all->text[i].n < 100 ? all->text[i].n : 100), all->text[i].at);
    }
    if (n_wrong) fail_msg("%s: %d of %d texts differ", file, n_wrong, all->n);
    rp__release(want);
    rp__tokenizer_free(t);
}

static void ids_and_decoded_texts_of_1000_strings_agree_for_every_family(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(NULL);
    texts *all  = all_texts(ctx);

    for (int i = 0; i < RP_COUNT(families); i++) agrees(ctx, all, families[i], families[i]);
    free_texts(all);
    test_ctx_free(ctx);
}

/* ---- every code point ---- */

static rp_bytes block_text(rp_ctx *ctx, uint32_t base)
{
    rp_bytes text = { 0 };
    char point[4];

    for (uint32_t c = base; c < base + 4096; c++) {
        if (c >= 0xd800 && c < 0xe000) continue;
        int n = rp__utf8_put(point, c);
        for (const char *p = "a@1@ @@'@\xcc\xa3\xcc\x81\n@"; *p; p++) assert_ok(ctx, rp__bytes_push(ctx, &text, *p == '@' ? point : p, *p == '@' ? n : 1));
    }
    return text;
}

#ifdef RP_SANITIZED
enum { EVERY = 8 };         /* blocks of code points: one of so many */
#else
enum { EVERY = 1 };
#endif

static void every_code_point_of_two_planes_agrees_for_every_family(void **state)
{
    (void)state;
    rp_ctx *ctx     = test_ctx(NULL);
    rp_tokenizer *t = NULL;
    char name[20], last[20] = "";
    unsigned base;
    unsigned long long hash;
    int n_lines = 0, n_wrong = 0;
    FILE *file  = fopen(GOLDEN "families/points.txt", "re");

    assert_non_null(file);
    while (fscanf(file, "%19s %x %llx", name, &base, &hash) == 3) {
        if (n_lines++ % EVERY) continue;
        if (strcmp(name, last)) {
            rp__tokenizer_free(t);
            t = load(ctx, name);
            memcpy(last, name, sizeof last);
        }
        rp_bytes text = block_text(ctx, base);
        int32_t *ids  = NULL;
        int64_t n     = 0;
        assert_ok(ctx, rp__tokenizer_encode(t, text.at ? text.at : "", text.n, &ids, &n));
        if (hash_of_ids(ids, n) != hash && n_wrong++ < 20) print_error("%s: code points from %06x differ\n", name, base);
        rp__release(ids);
        rp__release(text.at);
    }
    fclose(file);
    assert_int_equal(n_lines, 32 * RP_COUNT(families));
    assert_int_equal(n_wrong, 0);
    rp__tokenizer_free(t);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_and_decoded_texts_of_1000_strings_agree_for_every_family),
        cmocka_unit_test(every_code_point_of_two_planes_agrees_for_every_family),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
