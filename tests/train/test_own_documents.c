/* Claims about rp_recipe_documents: a run on a program's documents has the bits of a run on a file with the same ids, and wrong documents are refused. */
#include "rp_test.h"

#include "reprise/train.h"
#include "train/temp.h"

#define assert_refused(ctx, call, status, text) \
    do { \
        assert_int_equal((call), (status)); \
        if (!strstr(rp_error(ctx), (text))) fail_msg("'%s' lacks '%s'", rp_error(ctx), (text)); \
    } while (0)

enum { LENGTH = 24, END = 256, STEPS = 3 };
typedef struct { int n, empty, bad_id, bad_count, fails, asked; int32_t ids[LENGTH]; } source;      /* numbers of documents; -1: none */

static void fill(int64_t document, int32_t *ids)
{
    for (int i = 0; i < LENGTH - 1; i++) ids[i] = (int32_t)(document * 31 + i * 7) % 250;
    ids[LENGTH - 1] = END;
}

static rp_status documents(rp_ctx *ctx, void *user, int64_t document, const int32_t **ids, int64_t *n_ids)
{
    source *s = user;

    assert_true(!*ids && document == s->asked++);
    if (document == s->fails) return document ? RP_ERR_IO : rp_fail(ctx, RP_ERR_IO, "cannot reach the archive");
    if (document == s->n) return RP_OK;
    fill(document, s->ids);
    if (document == s->bad_id) s->ids[5] = 257;
    *ids   = s->ids;
    *n_ids = document == s->empty ? 0 : document == s->bad_count ? -1 : LENGTH;
    return RP_OK;
}

static source all(void) { return (source){ .n = 40, .empty = -1, .bad_id = -1, .bad_count = -1, .fails = -1 }; }

/* from NULL: the ids come from the file of the recipe. */
static rp_status open_run(rp_ctx *ctx, const temp_dir *dir, source *from, const char *more, rp_recipe **recipe, rp_trainer **out)
{
    char output[256], path[256];
    const char *settings[] = { output, "model.config=" RP_SOURCE_DIR "/recipes/tiny_llama/config.json", "max_seq_len=16", "batch_size=2", "max_steps=3",
                               "save_every_n_steps=1", "dataset.packed=false", more, path, "dataset.format=tokens" };

    snprintf(output, sizeof output, "output_dir=%s/%s", dir->path, from ? "own" : "file");
    snprintf(path, sizeof path, "dataset.path=%s/ids.bin", dir->path);
    assert_ok(ctx, rp_recipe_load(ctx, RP_SOURCE_DIR "/recipes/tiny_from_scratch.yaml", from ? 8 : 10, settings, recipe));
    if (from) rp_recipe_documents(*recipe, documents, from);
    return rp_trainer_new(ctx, *recipe, out);
}

static void run(const temp_dir *dir, source *from, double loss[STEPS])
{
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .threads = 1 });
    rp_trainer *trainer;
    rp_recipe *recipe;
    rp_metrics line;

    assert_ok(ctx, open_run(ctx, dir, from, "shuffle=true", &recipe, &trainer));
    for (int i = 0; i < STEPS; i++) {
        assert_ok(ctx, rp_trainer_step(trainer, &line));
        loss[i] = line.loss;
    }
    rp_trainer_free(trainer);
    rp_recipe_free(recipe);
    test_ctx_free(ctx);
}

static void write_file(const temp_dir *dir, int n)
{
    uint16_t words[40 * LENGTH];
    int32_t ids[LENGTH];

    for (int d = 0; d < n; d++) {
        fill(d, ids);
        for (int i = 0; i < LENGTH; i++) words[d * LENGTH + i] = (uint16_t)ids[i];
    }
    temp_write(dir, "ids.bin", words, (size_t)(n * LENGTH) * sizeof *words);
}

static void a_run_has_the_bits_of_one_on_a_file_with_the_same_ids(void **state)
{
    (void)state;
    double own[STEPS], file[STEPS];
    temp_dir dir = temp_make();
    source s     = all();

    write_file(&dir, s.n);
    run(&dir, &s, own);
    run(&dir, NULL, file);
    assert_int_equal(s.asked, s.n + 1);
    assert_memory_equal(own, file, sizeof own);
    temp_remove(&dir);
}

static void wrong_documents_are_refused(void **state)
{
    (void)state;
    static const struct { source s; rp_status status; const char *text; } row[] = {
        { { .n = 40, .empty = -1, .bad_id = 3, .bad_count = -1, .fails = -1 }, RP_ERR_ARG,
          "document 3 of the program: id 5 is 257, beyond the model's vocabulary of 257" },
        { { .n = 40, .empty = -1, .bad_id = -1, .bad_count = 4, .fails = -1 }, RP_ERR_ARG, "document 4 of the program has -1 ids" },
        { { .n = 40, .empty = -1, .bad_id = -1, .bad_count = -1, .fails = 0 }, RP_ERR_IO, "cannot reach the archive" },
        { { .n = 40, .empty = -1, .bad_id = -1, .bad_count = -1, .fails = 2 }, RP_ERR_IO, "document 2 of the program: " },
        { { .n = 1, .empty = 0, .bad_id = -1, .bad_count = -1, .fails = -1 }, RP_ERR_CONFIG, "'the program', document 0: it is empty" },
        { { .n = 0, .empty = -1, .bad_id = -1, .bad_count = -1, .fails = -1 }, RP_ERR_CONFIG, "dataset has too little data" },
    };
    temp_dir dir = temp_make();
    rp_ctx *ctx  = test_ctx(&(rp_ctx_options){ .threads = 1 });

    for (int i = 0; i < RP_COUNT(row); i++) {
        rp_trainer *trainer = NULL;
        rp_recipe *recipe;
        source s = row[i].s;
        assert_refused(ctx, open_run(ctx, &dir, &s, "shuffle=true", &recipe, &trainer), row[i].status, row[i].text);
        assert_null(trainer);
        rp_recipe_free(recipe);
    }
    test_ctx_free(ctx);
    temp_remove(&dir);
}

static void an_empty_document_is_skipped(void **state)
{
    (void)state;
    double some[STEPS], file[STEPS];
    temp_dir dir = temp_make();
    source s     = all();

    s.n = s.empty = 39;
    s.n++;
    write_file(&dir, 39);
    run(&dir, &s, some);
    run(&dir, NULL, file);
    assert_memory_equal(some, file, sizeof some);
    temp_remove(&dir);
}

static void a_resumed_run_needs_the_same_documents(void **state)
{
    (void)state;
    double loss[STEPS];
    temp_dir dir = temp_make();
    rp_ctx *ctx  = test_ctx(&(rp_ctx_options){ .threads = 1 });
    source s = all(), fewer = all();
    rp_trainer *trainer = NULL;
    rp_recipe *recipe;

    run(&dir, &s, loss);
    fewer.n = 39;
    assert_int_not_equal(open_run(ctx, &dir, &fewer, "resume=auto", &recipe, &trainer), RP_OK);
    assert_non_null(strstr(rp_error(ctx), "data"));
    rp_recipe_free(recipe);
    test_ctx_free(ctx);
    temp_remove(&dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_has_the_bits_of_one_on_a_file_with_the_same_ids),
        cmocka_unit_test(wrong_documents_are_refused),
        cmocka_unit_test(an_empty_document_is_skipped),
        cmocka_unit_test(a_resumed_run_needs_the_same_documents),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
