/* Claims about encoders: who sees whom, what a bare encoder's files give, and what an encoder is not asked. */
#include "weights_test.h"

#include "models/generate.h"
#include "tape/tape.h"
#include "train/score.h"

enum { TOKENS = 20, VOCAB = 96, MANY = 64 };

static rp_model *load_golden(void) { return golden_model(ctx, "bert", RP_F32); }

/* ---- who sees whom ---- */

static rp_tensor *ints(const int32_t *v)
{
    rp_meta meta = rp_meta_2d(RP_I32, 1, TOKENS);
    rp_tensor *t;

    assert_ok(ctx, rp_tensor_new(ctx, &meta, RP_MEM_TEMP, &t));
    assert_ok(ctx, rp_tensor_write_i32(t, v, TOKENS));
    return t;
}

/* doc_start NULL: one document. */
static void logits_of(rp_model *m, const int32_t *ids, const int32_t *doc_start, double out[TOKENS * VOCAB])
{
    rp_model_batch batch = { .tokens = ints(ids), .doc_start = doc_start ? ints(doc_start) : NULL };
    rp_tensor *logits;

    rp__tape_ctx(ctx)->no_grad = true;
    assert_ok(ctx, rp__model_logits(m, &batch, &logits));
    rp__tape_ctx(ctx)->no_grad = false;
    assert_ok(ctx, rp_tensor_read(logits, out, TOKENS * VOCAB));
    rp_tensor_unref(logits);
    rp_tensor_unref(batch.tokens);
    rp_tensor_unref(batch.doc_start);
}

static bool same_at(const double *a, const double *b, int t) { return !memcmp(a + t * VOCAB, b + t * VOCAB, VOCAB * sizeof *a); }

static void a_token_changes_what_its_document_says_and_nothing_else(void **state)
{
    (void)state;
    static const int32_t doc_start[TOKENS] = { 0, 0, 0, 0, 0, 0, 0, 7, 7, 7, 7, 7, 7, 13, 13, 13, 13, 13, 13, 13 };
    static double before[TOKENS * VOCAB], after[TOKENS * VOCAB];
    rp_model *m = load_golden();
    int32_t ids[TOKENS];

    rp__tape_ctx(ctx)->eval = true;
    for (int documents = 0; documents < 2; documents++)
        for (int changed = 0; changed < TOKENS; changed += 3) {
            for (int t = 0; t < TOKENS; t++) ids[t] = 5 + 7 * t % 90;
            logits_of(m, ids, documents ? doc_start : NULL, before);
            ids[changed] = 4;
            logits_of(m, ids, documents ? doc_start : NULL, after);
            for (int t = 0; t < TOKENS; t++) {
                bool together = !documents || doc_start[t] == doc_start[changed];
                if (same_at(before, after, t) == together) fail_msg("token %d, changed %d, documents %d", t, changed, documents);
            }
        }
    rp__model_free(m);
}

/* ---- files ---- */

/* Golden bert as sentence-transformers has it, BertModel's names; with `part` of the head, too, where that is not NULL. */
static void write_bare(const char *part)
{
    char path[RP_GOLDEN_PATH], pooled[32 * 32 * 4] = { 0 };
    rp_safetensor declared[MANY];
    const rp_safetensor *from[MANY];
    rp_safetensors *set;
    rp_safetensors_writer *writer;
    int n = 0;

    assert_ok(ctx, rp__safetensors_open(ctx, golden_path(path, "models/bert"), &set));
    for (int64_t i = 0; i < rp__safetensors_n_tensors(set); i++) {
        const rp_safetensor *t = rp__safetensors_at(set, i);
        bool is_encoder        = !strncmp(t->name, "bert.", 5);
        if (!is_encoder && !(part && !strcmp(t->name, part))) continue;
        from[n]          = t;
        declared[n]      = *t;
        declared[n].name = is_encoder ? t->name + 5 : t->name;
        n++;
    }
    declared[n] = (rp_safetensor){ .name = "pooler.dense.weight", .dtype = RP_ST_F32, .ndim = 2, .dim = { 32, 32 } };
    assert_ok(ctx, rp__safetensors_create_folder(ctx, temp_dir, 0, n + 1, declared, 0, NULL, &writer));
    for (int i = 0; i < n; i++) assert_ok(ctx, rp__safetensors_put(writer, rp__safetensors_bytes(set, from[i]), from[i]->bytes));
    assert_ok(ctx, rp__safetensors_put(writer, pooled, sizeof pooled));
    assert_ok(ctx, rp__safetensors_commit(writer));
    rp__safetensors_close(set);
}

static void copy_config(void)
{
    char path[RP_GOLDEN_PATH], *text;
    int64_t bytes;

    assert_ok(ctx, rp__file_read(ctx, golden_path(path, "models/bert/config.json"), 1 << 20, &text, &bytes));
    assert_ok(ctx, rp__file_write(ctx, temp_path("config.json"), text, bytes));
    rp__release(text);
}

static bool same_param(const rp_model *a, const rp_model *b, int i)
{
    const rp_tensor *x = rp__model_param(a, i)->tensor, *y = rp__model_param(b, i)->tensor;

    return !memcmp(test_bytes(x), test_bytes(y), (size_t)rp_meta_bytes(&x->m));
}

static void a_bare_encoder_gets_the_head_of_a_fresh_model(void **state)
{
    (void)state;
    copy_config();
    write_bare(NULL);
    ctx->seed       = 17;
    rp_model *whole = load_golden(), *drawn = load_golden();
    opened bare     = load_model(temp_dir, RP_F32);
    rp__model_init(drawn, 17);
    assert_true(rp__model_files_fresh_head(bare.files));
    for (int i = 0; i < rp__model_n_params(bare.model); i++) {
        const char *path = rp__model_param(bare.model, i)->path;
        if (!same_param(bare.model, strncmp(path, "head.", 5) ? whole : drawn, i)) fail_msg("'%s' is not what it should be", path);
    }
    assert_ok(ctx, rp__model_export(bare.model, temp_dir));
    opened again = load_model(temp_dir, RP_F32);
    assert_false(rp__model_files_fresh_head(again.files));
    for (int i = 0; i < rp__model_n_params(bare.model); i++) assert_true(same_param(bare.model, again.model, i));
    close_model(&again);
    close_model(&bare);
    rp__model_free(drawn);
    rp__model_free(whole);
}

static void a_part_of_a_head_is_no_head(void **state)
{
    (void)state;
    copy_config();
    write_bare("cls.predictions.bias");
    opened bare = open_model(temp_dir, NULL, RP_F32);

    assert_int_equal(rp__model_load(bare.model, bare.files), RP_ERR_FORMAT);
    assert_non_null(strstr(rp_error(ctx), "tensor 'cls.predictions.transform.dense.weight' is missing"));
    close_model(&bare);
}

/* ---- what it is not asked ---- */

static bool nothing(void *user, int32_t id)
{
    (void)user, (void)id;
    fail_msg("an encoder wrote on");
    return false;
}

static void an_encoder_neither_writes_on_nor_is_scored_on_what_it_sees(void **state)
{
    (void)state;
    rp_model *m             = load_golden();
    static const int32_t ids[] = { 5, 6, 7, 8 };
    rp_generate_end end;
    rp_score score;

    assert_int_equal(rp__generate(m, ids, 4, &(rp_generate_options){ .max_new_tokens = 3 }, nothing, NULL, &end), RP_ERR_UNSUPPORTED);
    assert_string_equal(rp_error(ctx), "a model of type 'bert' is an encoder: it predicts masked tokens and cannot generate text");
    assert_int_equal(rp__score(m, ids, 4, 4, NULL, NULL, &score), RP_ERR_UNSUPPORTED);
    assert_int_equal(rp__model_cache_new(m, 1, 8), RP_ERR_UNSUPPORTED);
    assert_string_equal(rp_error(ctx), "a model of type 'bert' is an encoder and has no cache");
    rp__model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_token_changes_what_its_document_says_and_nothing_else),
        TEST(a_bare_encoder_gets_the_head_of_a_fresh_model),
        TEST(a_part_of_a_head_is_no_head),
        TEST(an_encoder_neither_writes_on_nor_is_scored_on_what_it_sees),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
