/* Claims about tokenizers that are not byte-level BPE. Truth is the `tokenizers` package: tests/golden/tokenizer/families, made by
 * tools/make_tokenizer_families.py and tools/goldens_tokenizer.py. */
/* ctest: device-free thread-free cost=12 */
#include "rp_test.h"

#include <unistd.h>

#include "base/file.h"
#include "io/small_gguf.h"
#include "texts_test.h"
#include "tokenizer/internal.h"

static const char *const families[] = { "albert", "bert", "bert_cased", "clip", "falcon", "gemma", "llama2", "mistral", "mixed", "openai", "phi3",
                                        "rest", "t5", "t5_old", "unigram_bytes" };

static rp_tokenizer *load(rp_ctx *ctx, const char *name) { return golden_tokenizer(ctx, "families/", name); }

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

typedef struct { uint32_t ids, text, plain; } hashes;

static hashes hashes_of(rp_ctx *ctx, rp_tokenizer *t, const rp_bytes *text)
{
    rp_ids ids    = encode_text(ctx, t, text->at ? text->at : "", text->n);
    int64_t bytes = 0;
    char *back    = NULL;
    hashes h      = { .ids = (uint32_t)(hash_of_ids(&ids) >> 32) };

    assert_ok(ctx, rp__tokenizer_decode(t, ids.at, ids.n, false, &back, &bytes));
    h.text = (uint32_t)(hash_of_text(ctx, back, bytes) >> 32);
    rp__release(back);
    assert_ok(ctx, rp__tokenizer_decode(t, ids.at, ids.n, true, &back, &bytes));
    h.plain = (uint32_t)(hash_of_text(ctx, back, bytes) >> 32);
    rp__release(back);
    rp__release(ids.at);
    return h;
}

/* The file has a part for each family, in the order of `families`. */
static hashes *read_hashes(rp_ctx *ctx, const char *name, int n)
{
    int64_t bytes, part = n * (int64_t)sizeof(hashes);
    char *data = NULL;
    int at     = 0;

    while (strcmp(families[at], name)) at++;
    assert_ok(ctx, rp__file_read(ctx, GOLDEN "families/hashes.bin", 1 << 20, &data, &bytes));
    assert_int_equal(bytes, RP_COUNT(families) * part);
    memmove(data, data + at * part, (size_t)part);
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
        const char *what = h.ids != want[i].ids ? "ids" : h.text != want[i].text ? "decoded texts" : "plain texts";
        print_error("%s: %s of text %d '%.*s' differ\n", file, what, i, (int)(all->text[i].n < 100 ? all->text[i].n : 100), all->text[i].at);
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

/* GGUF names no normalizer: what it stands for is what the families that are written so have. */
static void ids_and_decoded_texts_agree_for_families_from_gguf(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(NULL);
    texts *all  = all_texts(ctx);

    agrees(ctx, all, "llama2.gguf", "llama2");
    agrees(ctx, all, "bert.gguf", "bert");
    agrees(ctx, all, "t5.gguf", "t5");
    agrees(ctx, all, "gemma.gguf", "gemma");
    agrees(ctx, all, "falcon.gguf", "falcon");
    free_texts(all);
    test_ctx_free(ctx);
}

/* ---- SentencePiece's own files ---- */

static void ids_and_decoded_texts_agree_for_models_of_sentencepiece(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(NULL);
    texts *all  = all_texts(ctx);

    agrees(ctx, all, "llama2.model", "llama2");
    agrees(ctx, all, "t5.model", "t5");
    free_texts(all);
    test_ctx_free(ctx);
}

/* ---- pre-tokenizers that GGUF names ---- */

static void add_length(uint64_t *hash, int64_t bytes) { *hash = *hash * 6364136223846793005ull + (uint64_t)bytes + 1; }

/* In place of a model: a piece is its length. */
static rp_status encode_length(rp_tokenizer *t, const char *piece, int64_t bytes, rp_ids *ids)
{
    (void)piece;
    return rp__ids_push(t->ctx, ids, (int32_t)bytes);
}

/* Behind the normalizers, past both sets of added tokens: what the stages hand to the model. */
static void add_pieces(rp_ctx *ctx, rp_tokenizer *t, const rp_bytes *text, uint64_t *hash)
{
    rp_bytes repaired = { 0 }, normal = { 0 };
    rp_ids *lengths   = &t->encoding.ids;

    t->encode_piece = encode_length;
    t->maps_bytes   = false;
    assert_ok(ctx, rp__utf8_repair(ctx, text->at ? text->at : "", text->n, &repaired));
    assert_ok(ctx, rp__normalize_all(ctx, &t->normalizers, repaired.at ? repaired.at : "", repaired.n, &normal));
    rp__encoding_begin(&t->encoding);
    assert_ok(ctx, rp__encoding_give(&t->encoding, 3 + t->normalizers.n_steps, normal.at ? normal.at : "", normal.n, true, true));
    for (int64_t i = 0; i < lengths->n; i++) add_length(hash, lengths->at[i]);
    add_length(hash, 0);
    rp__release(repaired.at);
    rp__release(normal.at);
}

static void every_name_of_a_pre_tokenizer_cuts_as_the_package_does(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(NULL);
    texts *all  = all_texts(ctx);
    FILE *file  = fopen(GOLDEN "families/named.txt", "re");
    char name[40];
    unsigned long long want;
    int n_names = 0;

    assert_non_null(file);
    for (; fscanf(file, "%39s %llx", name, &want) == 2; n_names++) {
        json_t *root = NULL, *config = NULL;
        rp_tokenizer *t = NULL;
        uint64_t hash   = 0;
        assert_ok(ctx, small_gguf(ctx, "gpt2", name, (const char *const[]){ "a b" }, &root, &config));
        assert_ok(ctx, rp__tokenizer_build(ctx, "t.gguf", root, config, &t));
        for (int i = 0; i < all->n; i++) add_pieces(ctx, t, &all->text[i], &hash);
        if (hash != want) fail_msg("%s cuts otherwise", name);
        rp__tokenizer_free(t);
        json_decref(root);
        json_decref(config);
    }
    fclose(file);
    assert_true(n_names >= 50);
    free_texts(all);
    test_ctx_free(ctx);
}

/* ---- every code point ---- */

static const char *setting_of(const char *name)
{
    (void)name;
    return "a@1@ @@'@\xcc\xa3\xcc\x81\n@";
}

static void every_code_point_of_two_planes_agrees_for_every_family(void **state)
{
    rp_ctx *ctx = test_ctx(NULL);

    (void)state;
    assert_int_equal(check_points(ctx, "families/", setting_of), 32 * RP_COUNT(families));
    test_ctx_free(ctx);
}

/* ---- bos, eos ---- */

static void bos_and_eos_come_from_every_post_processor(void **state)
{
    static const struct { const char *name, *bos, *eos; bool adds; } want[] = {
        { "llama2", "<s>", "</s>", true }, { "llama2.gguf", "<s>", "</s>", true }, { "mistral", "<s>", "</s>", true },
        { "bert", "[CLS]", "[SEP]", true }, { "bert.gguf", "[CLS]", "[SEP]", true }, { "bert_cased", "[CLS]", "[SEP]", true },
        { "t5", NULL, "</s>", false }, { "t5.gguf", NULL, "</s>", false }, { "unigram_bytes", "<s>", "</s>", true },
        { "clip", "<|startoftext|>", "<|endoftext|>", true }, { "rest", NULL, NULL, false },
    };
    rp_ctx *ctx = test_ctx(NULL);

    (void)state;
    for (int i = 0; i < RP_COUNT(want); i++) {
        rp_tokenizer *t = load(ctx, want[i].name);
        assert_int_equal(rp__tokenizer_bos(t), want[i].bos ? rp__tokenizer_id(t, want[i].bos) : -1);
        assert_int_equal(rp__tokenizer_eos(t), want[i].eos ? rp__tokenizer_id(t, want[i].eos) : -1);
        assert_true(!want[i].eos || rp__tokenizer_eos(t) >= 0);
        assert_int_equal(rp__tokenizer_adds_bos(t), want[i].adds);
        rp__tokenizer_free(t);
    }
    test_ctx_free(ctx);
}

/* ---- text while ids come ---- */

/* Of any text, cut anywhere into prompt and continuation, what ids add one by one makes the whole. */
static void ids_that_come_one_by_one_add_what_decoding_all_at_once_says(void **state)
{
    static const char text[] = "the of  License caf\xc3\xa9 \xe4\xb8\x96\xe7\x95\x8c \xf0\x9f\x98\x80\n\n x = [i for i in range(10)] don't";
    static const char *const names[] = { "llama2", "mistral", "gemma", "unigram_bytes", "bert_cased", "t5_old", "clip" };
    rp_ctx *ctx = test_ctx(NULL);

    (void)state;
    for (int i = 0; i < RP_COUNT(names); i++) {
        rp_tokenizer *t = load(ctx, names[i]);
        int32_t *ids    = NULL;
        int64_t n = 0, bytes = 0, piece_bytes = 0;
        char *all = NULL, *piece = NULL;
        assert_ok(ctx, rp__tokenizer_encode(t, text, (int64_t)sizeof text - 1, &ids, &n));
        assert_ok(ctx, rp__tokenizer_decode(t, ids, n, true, &all, &bytes));
        for (int64_t cut = 0; cut < 3; cut++) {
            rp_decode_stream stream;
            rp_bytes said = { 0 };
            char *front   = NULL;
            assert_ok(ctx, rp__tokenizer_decode(t, ids, cut, true, &front, &piece_bytes));
            assert_ok(ctx, rp__bytes_push(ctx, &said, front, piece_bytes));
            assert_ok(ctx, rp__decode_stream_begin(t, ids, cut, &stream));
            for (int64_t k = cut; k < n; k++) {
                assert_ok(ctx, rp__decode_stream_next(&stream, ids[k], &piece, &piece_bytes));
                assert_ok(ctx, rp__bytes_push(ctx, &said, piece, piece_bytes));
                rp__release(piece);
            }
            assert_int_equal(said.n, bytes);
            assert_memory_equal(said.at, all, (size_t)bytes);
            rp__release(front);
            rp__release(said.at);
        }
        rp__release(all);
        rp__release(ids);
        rp__tokenizer_free(t);
    }
    test_ctx_free(ctx);
}

/* ---- cost ---- */

/* A document is one piece to these. It is cut where no merge joins, so that room for symbols is that of the longest part. */
static void a_document_without_pre_tokenizer_takes_the_memory_of_a_word(void **state)
{
    enum { N = 1 << 20 };
    rp_ctx *ctx     = test_ctx(NULL);
    rp_tokenizer *t = load(ctx, "llama2");
    char *text      = malloc(N);
    int32_t *ids    = NULL;
    int64_t n       = 0;

    (void)state;
    for (int i = 0; i < N; i++) text[i] = "the quick brown fox "[i % 20];
    assert_ok(ctx, rp__tokenizer_encode(t, text, N, &ids, &n));
    assert_true(n > N / 8);
    assert_true(t->bpe.symbol_room < 100);
    rp__release(ids);
    rp__tokenizer_free(t);
    free(text);
    test_ctx_free(ctx);
}

/* Without a token for what is unknown it vanishes, and its neighbours may be joined: no cut beside it. */
static void what_vanishes_lets_its_neighbours_join(void **state)
{
    static const char text[] = "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"c\":3},\"merges\":[\"a b\"]}}";
    rp_ctx *ctx     = test_ctx(NULL);
    rp_tokenizer *t = NULL;
    json_t *root    = NULL;
    int32_t *ids    = NULL;
    int64_t n       = 0;

    (void)state;
    assert_ok(ctx, rp__tokenizer_json(ctx, "t.json", text, (int64_t)sizeof text - 1, &root));
    assert_ok(ctx, rp__tokenizer_build(ctx, "t.json", root, NULL, &t));
    assert_ok(ctx, rp__tokenizer_encode(t, "a?bca?cb", 8, &ids, &n));
    assert_int_equal(n, 5);
    assert_memory_equal(ids, ((int32_t[]){ 2, 3, 0, 3, 1 }), 20);
    rp__release(ids);
    json_decref(root);
    rp__tokenizer_free(t);
    test_ctx_free(ctx);
}

/* Words without end: nothing in them can be cut. Counts, not clocks. */
static void a_word_without_end_takes_time_in_proportion_for_every_model(void **state)
{
    static const struct { const char *name, *unit; } cases[] = {
        { "llama2", "a" }, { "llama2", "ab" }, { "llama2", " " }, { "gemma", "\xc3\xa9" }, { "unigram_bytes", "a" }, { "t5", "e" },
        { "bert", "a" }, { "clip", "a" },
    };
    rp_ctx *ctx = test_ctx(NULL);

    (void)state;
    for (int i = 0; i < RP_COUNT(cases); i++) {
        int64_t steps[2], allocations[2], unit = (int64_t)strlen(cases[i].unit);
        rp_tokenizer *t = load(ctx, cases[i].name);
        for (int k = 0; k < 2; k++) {
            int64_t bytes = (int64_t)(1 << 20) >> (1 - k) * 3, before = t->bpe.n_steps, asked = ctx->alloc_count, n = 0;
            char *text    = malloc((size_t)bytes);
            int32_t *ids  = NULL;
            for (int64_t b = 0; b < bytes; b++) text[b] = cases[i].unit[b % unit];
            assert_ok(ctx, rp__tokenizer_encode(t, text, bytes, &ids, &n));
            assert_true(n > 0);
            steps[k]       = t->bpe.n_steps - before;
            allocations[k] = ctx->alloc_count - asked;
            rp__release(ids);
            free(text);
        }
        assert_true(steps[1] <= 11 * steps[0] + 1000);          /* eight times the text; a heap is three levels deeper */
        assert_true(allocations[1] <= allocations[0] + 60);
        rp__tokenizer_free(t);
    }
    test_ctx_free(ctx);
}

/* ---- failing allocations ---- */

static rp_status whole_life(rp_ctx *ctx, const char *name, const char *out)
{
    static const char text[] = "<r>  Caf\xc3\xa9 e\xcc\x81\xcc\xa3 the 1234 \xff <s>\n\n  x's `` a longword";
    rp_tokenizer *t = NULL;
    char path[512], *back = NULL;
    int32_t *ids = NULL;
    int64_t n = 0, bytes = 0;

    snprintf(path, sizeof path, GOLDEN "families/%s", name);
    rp_status status = rp__tokenizer_load(ctx, path, &t);
    if (status == RP_OK) status = rp__tokenizer_encode(t, text, (int64_t)sizeof text - 1, &ids, &n);
    if (status == RP_OK) status = rp__tokenizer_decode(t, ids, n, false, &back, &bytes);
    if (status == RP_OK) status = rp__tokenizer_export(t, out);
    rp__release(back);
    rp__release(ids);
    rp__tokenizer_free(t);
    return status;
}

static void each_failing_allocation_is_an_error_that_leaks_nothing(void **state)
{
    static const char *const names[] = { "rest", "mixed", "albert", "bert", "llama2.gguf", "t5.gguf", "bert.gguf", "clip", "openai",
                                        "../spm" };

    (void)state;
    tokenizers_with_faults(names, RP_COUNT(names), 20, whole_life);
}

/* ---- export ---- */

static void what_is_exported_from_gguf_encodes_alike(void **state)
{
    static const char *const names[] = { "llama2", "bert", "t5" };
    char folder[] = "/tmp/rp_families_XXXXXX", path[64], file[64];
    rp_ctx *ctx   = test_ctx(NULL);
    texts *all    = all_texts(ctx);

    (void)state;
    assert_non_null(mkdtemp(folder));
    for (int i = 0; i < RP_COUNT(names); i++) {
        rp_tokenizer *again = NULL;
        snprintf(path, sizeof path, "%s/%d", folder, i);
        snprintf(file, sizeof file, "%s.gguf", names[i]);
        rp_tokenizer *t = load(ctx, file);
        hashes *want    = read_hashes(ctx, names[i], all->n);
        assert_ok(ctx, rp__tokenizer_export(t, path));
        assert_ok(ctx, rp__tokenizer_load(ctx, path, &again));
        for (int k = 0; k < all->n; k++) {
            hashes h = hashes_of(ctx, again, &all->text[k]);
            assert_memory_equal(&h, &want[k], sizeof h);
        }
        assert_int_equal(rp__tokenizer_bos(again), rp__tokenizer_bos(t));
        assert_int_equal(rp__tokenizer_eos(again), rp__tokenizer_eos(t));
        assert_int_equal(rp__tokenizer_adds_bos(again), rp__tokenizer_adds_bos(t));
        rp__release(want);
        rp__tokenizer_free(again);
        rp__tokenizer_free(t);
    }
    assert_ok(ctx, rp__remove_tree(ctx, folder));
    free_texts(all);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_and_decoded_texts_of_1000_strings_agree_for_every_family),
        cmocka_unit_test(ids_and_decoded_texts_agree_for_families_from_gguf),
        cmocka_unit_test(ids_and_decoded_texts_agree_for_models_of_sentencepiece),
        cmocka_unit_test(every_name_of_a_pre_tokenizer_cuts_as_the_package_does),
        cmocka_unit_test(every_code_point_of_two_planes_agrees_for_every_family),
        cmocka_unit_test(bos_and_eos_come_from_every_post_processor),
        cmocka_unit_test(ids_that_come_one_by_one_add_what_decoding_all_at_once_says),
        cmocka_unit_test(a_document_without_pre_tokenizer_takes_the_memory_of_a_word),
        cmocka_unit_test(what_vanishes_lets_its_neighbours_join),
        cmocka_unit_test(a_word_without_end_takes_time_in_proportion_for_every_model),
        cmocka_unit_test(each_failing_allocation_is_an_error_that_leaks_nothing),
        cmocka_unit_test(what_is_exported_from_gguf_encodes_alike),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
