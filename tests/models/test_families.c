/* Claims that hold for each family alike, on every golden model: the cache of generation, and what the ranks and the planner ask of it. */
/* ctest: no-emulator */
#include "golden_model.h"

#include "models/generate.h"
#include "tape/tape.h"

enum { TOKENS = 20, VOCAB = 96 };

static const char *const variants[] = { GOLDEN_VARIANTS(GOLDEN_VARIANT_NAME) }, *const decoders[] = { GOLDEN_DECODERS(GOLDEN_VARIANT_NAME) };

/* The same from a GGUF file, which has not all that config.json has. */
static rp_model *load_gguf(rp_ctx *ctx, const char *variant, const char *overrides)
{
    char path[RP_GOLDEN_PATH], name[128];

    snprintf(name, sizeof name, "gguf/%s.gguf", variant);
    return model_at(ctx, golden_path(path, name), overrides, RP_F32);
}

static void some_ids(int32_t *ids)
{
    for (int i = 0; i < TOKENS; i++) ids[i] = (int32_t)((i * i * 7 + i * 3 + 5) % VOCAB);
}

/* A text that crosses the bound of longrope while it grows is turned by other frequencies than it is as a whole. */
static int tokens_of(const rp_model *m)
{
    const rp_rope_config *rope = &rp__model_config(m)->rope;

    return rope->kind == RP_ROPE_LONG ? (int)rope->original_context : TOKENS;
}

/* Of ids … ids + n - 1, which follow what the cache holds; [n, VOCAB]. */
static void logits_of(rp_ctx *ctx, rp_model *m, const int32_t *ids, int64_t n, double *out)
{
    rp_meta meta         = rp_meta_2d(RP_I32, 1, n);
    rp_model_batch batch = { 0 };
    rp_tensor *logits;

    assert_ok(ctx, rp_tensor_new(ctx, &meta, RP_MEM_TEMP, &batch.tokens));
    assert_ok(ctx, rp_tensor_write_i32(batch.tokens, ids, n));
    assert_ok(ctx, rp__model_logits(m, &batch, &logits));
    assert_ok(ctx, rp_tensor_read(logits, out, n * VOCAB));
    rp_tensor_unref(logits);
    rp_tensor_unref(batch.tokens);
}

/* Windows shorter than the text, caps, and both ropes: token by token as all at once. */
static void the_cache_gives_the_logits_of_the_whole_text(void **state)
{
    (void)state;
    for (int v = 0; v < RP_COUNT(decoders); v++) {
        rp_ctx *ctx = test_ctx(NULL);
        rp_model *m = golden_model(ctx, decoders[v], RP_F32);
        static double whole[TOKENS * VOCAB], part[TOKENS * VOCAB];
        int32_t ids[TOKENS];
        int tokens = tokens_of(m);

        some_ids(ids);
        rp__tape_ctx(ctx)->eval = true;
        rp__tape_ctx(ctx)->no_grad = true;
        logits_of(ctx, m, ids, tokens, whole);
        assert_ok(ctx, rp__model_cache_new(m, 1, TOKENS));
        for (int64_t at = 0, n = 5; at < tokens; at += n, n = 1) logits_of(ctx, m, ids + at, n, part + at * VOCAB);
        rp__model_cache_drop(m);
        for (int i = 0; i < tokens * VOCAB; i++)
            if (!(fabs(whole[i] - part[i]) <= 2e-5))
                fail_msg("%s: logit %d of token %d is %.9g, %.9g without a cache", decoders[v], i % VOCAB, i / VOCAB, part[i], whole[i]);
        rp__model_free(m);
        test_ctx_free(ctx);
    }
}

typedef struct { const int32_t *expected; int n; } written;

static bool compare(void *user, int32_t id)
{
    written *w = user;

    assert_int_equal(id, w->expected[w->n++]);
    return true;
}

/* Greedy generation is the likeliest token of the whole text so far, under the cap of logits too. */
static void generation_follows_the_logits(void **state)
{
    (void)state;
    for (int v = 0; v < RP_COUNT(decoders); v++) {
        rp_ctx *ctx = test_ctx(NULL);
        rp_model *m = golden_model(ctx, decoders[v], RP_F32);
        static double logits[TOKENS * VOCAB];
        int32_t ids[TOKENS];
        rp_generate_end end;
        int tokens = tokens_of(m);

        some_ids(ids);
        rp__tape_ctx(ctx)->eval = true;
        rp__tape_ctx(ctx)->no_grad = true;
        for (int n = 8; n < tokens; n++) {
            logits_of(ctx, m, ids, n, logits);
            const double *last = logits + (n - 1) * VOCAB;
            ids[n] = 0;
            for (int32_t i = 1; i < VOCAB; i++)
                if (last[i] > last[ids[n]]) ids[n] = i;
        }
        written w = { ids + 8, 0 };
        assert_ok(ctx, rp__generate(m, ids, 8, &(rp_generate_options){ .max_new_tokens = tokens - 8 }, compare, &w, &end));
        assert_int_equal(w.n, tokens - 8);
        rp__model_free(m);
        test_ctx_free(ctx);
    }
}

/* Windows, caps, both ropes and norms less 1 come from the metadata of GGUF as from config.json. */
static void a_gguf_file_gives_the_logits_of_the_model_it_was_made_from(void **state)
{
    static const struct { const char *variant, *overrides, *file; } files[] = {
        { "qwen2", "{}", NULL }, { "qwen3", "{}", NULL }, { "phi3", "{}", NULL }, { "olmo2", "{}", NULL }, { "qwen3_moe", "{}", NULL },
        { "mixtral", "{}", NULL }, { "mixtral", "{}", "mixtral_apart" },
        /* llama.cpp knows these of Gemma by the size of the model. */
        { "gemma2", "{query_pre_attn_scalar: 10}", NULL },
        { "gemma3_text", "{query_pre_attn_scalar: 10, sliding_window_pattern: 2}", NULL },
    };

    (void)state;
    for (int v = 0; v < RP_COUNT(files); v++) {
        rp_ctx *ctx = test_ctx(NULL);
        rp_model *a = golden_model(ctx, files[v].variant, RP_F32), *b = load_gguf(ctx, files[v].file ? files[v].file : files[v].variant, files[v].overrides);
        static double want[TOKENS * VOCAB], got[TOKENS * VOCAB];
        int32_t ids[TOKENS];

        some_ids(ids);
        assert_ptr_equal(rp__model_config(a)->family, rp__model_config(b)->family);
        rp__tape_ctx(ctx)->eval = true;
        rp__tape_ctx(ctx)->no_grad = true;
        logits_of(ctx, a, ids, TOKENS, want);
        logits_of(ctx, b, ids, TOKENS, got);
        for (int i = 0; i < TOKENS * VOCAB; i++)
            if (!(fabs(want[i] - got[i]) <= 1e-5)) fail_msg("%s: logit %d is %.9g, %.9g from safetensors", files[v].variant, i, got[i], want[i]);
        rp__model_free(a);
        rp__model_free(b);
        test_ctx_free(ctx);
    }
}

/* Fresh weights stand for norms that do nothing, however they are stored. */
static void fresh_norms_are_neutral(void **state)
{
    (void)state;
    for (int v = 0; v < RP_COUNT(variants); v++) {
        rp_ctx *ctx = test_ctx(NULL);
        rp_model *m = golden_model(ctx, variants[v], RP_F32);
        double plus = rp__model_config(m)->norm_plus, value[96];

        rp__model_init(m, 3);
        for (int i = 0; i < rp__model_n_params(m); i++) {
            const rp_param *p = rp__model_param(m, i);
            if (p->whole.ndim != 1 || strcmp(p->name, "weight")) continue;
            assert_ok(ctx, rp_tensor_read(p->tensor, value, p->whole.dim[0]));
            for (int64_t j = 0; j < p->whole.dim[0]; j++) assert_true(value[j] + plus == 1);
        }
        rp__model_free(m);
        test_ctx_free(ctx);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cache_gives_the_logits_of_the_whole_text),
        cmocka_unit_test(generation_follows_the_logits),
        cmocka_unit_test(a_gguf_file_gives_the_logits_of_the_model_it_was_made_from),
        cmocka_unit_test(fresh_norms_are_neutral),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
