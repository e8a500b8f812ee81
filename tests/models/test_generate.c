/* Claims about generation, on random models of both families. */
/* ctest: level-free slow-emulated */
#include "tiny_model.h"

#include <math.h>

#include "models/generate.h"

typedef struct { int32_t id[TINY_CONTEXT + 8]; int64_t n, most; } text;

static bool take(void *user, int32_t id)
{
    text *t = user;

    t->id[t->n++] = id;
    return t->n != t->most;
}

static const int32_t prompt[] = { 5, 17, 3, 60, 0, 22 };
enum { PROMPT = RP_COUNT(prompt) };

static text generate(rp_ctx *ctx, rp_model *m, rp_generate_options o, rp_generate_end *end)
{
    text t = { .n = 0 };

    assert_ok(ctx, rp__generate(m, prompt, PROMPT, &o, take, &t, end));
    assert_int_equal(rp__model_cache_used(m), 0);
    return t;
}

static void assert_same(const text *a, const text *b)
{
    assert_int_equal(a->n, b->n);
    assert_memory_equal(a->id, b->id, (size_t)a->n * sizeof *a->id);
}

/* The likeliest next token by the whole sequence at once. */
static int32_t next_of(rp_ctx *ctx, rp_model *m, const int32_t *ids, int64_t n)
{
    double *logits = tiny_logits(ctx, m, ids, n), *last = logits + (n - 1) * TINY_VOCAB;
    int32_t best = 0;

    for (int32_t i = 1; i < TINY_VOCAB; i++)
        if (last[i] > last[best]) best = i;
    free(logits);
    return best;
}

static void the_cache_changes_no_token(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        rp_ctx *ctx = test_ctx(NULL);
        rp_model *m = tiny_model_new(ctx, (tiny_model){ .gpt2 = i & 1, .dropout = i & 2 ? 0.5 : 0 });
        rp_generate_end end;
        text cached = generate(ctx, m, (rp_generate_options){ .max_new_tokens = 20 }, &end);
        int32_t all[PROMPT + 20];

        memcpy(all, prompt, sizeof prompt);
        for (int64_t n = PROMPT; n < PROMPT + 20; n++) all[n] = next_of(ctx, m, all, n);
        assert_int_equal(end, RP_GENERATED_ALL);
        assert_int_equal(cached.n, 20);
        assert_memory_equal(cached.id, all + PROMPT, 20 * sizeof *all);
        assert_false(rp__tape_ctx(ctx)->eval);
        rp__model_free(m);
        test_ctx_free(ctx);
    }
}

static void the_next_logits_are_the_last_of_all(void **state)
{
    (void)state;
    rp_ctx *ctx          = test_ctx(NULL);
    rp_model *m          = tiny_model_new(ctx, (tiny_model){ 0 });
    rp_meta meta         = rp_meta_2d(RP_I32, 2, 3);
    rp_model_batch batch = { 0 };
    double all[6 * TINY_VOCAB], last[2 * TINY_VOCAB];
    rp_tensor *logits;

    assert_ok(ctx, rp_tensor_new(ctx, &meta, RP_MEM_TEMP, &batch.tokens));
    assert_ok(ctx, rp_tensor_write_i32(batch.tokens, prompt, 6));
    rp__tape_ctx(ctx)->no_grad = true;
    assert_ok(ctx, rp__model_logits(m, &batch, &logits));
    assert_ok(ctx, rp_tensor_read(logits, all, 6 * TINY_VOCAB));
    rp_tensor_unref(logits);
    assert_ok(ctx, rp__model_next_logits(m, &batch, &logits));
    assert_int_equal(rp_tensor_meta(logits)->dim[1], 1);
    assert_ok(ctx, rp_tensor_read(logits, last, 2 * TINY_VOCAB));
    rp_tensor_unref(logits);
    for (int i = 0; i < TINY_VOCAB; i++) {
        assert_float_equal(last[i], all[2 * TINY_VOCAB + i], 1e-5);
        assert_float_equal(last[TINY_VOCAB + i], all[5 * TINY_VOCAB + i], 1e-5);
    }
    rp_tensor_unref(batch.tokens);
    rp__model_free(m);
    test_ctx_free(ctx);
}

static void a_seed_gives_one_text_and_others_give_others(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(NULL);
    rp_model *m = tiny_model_new(ctx, (tiny_model){ .init_std = 0.05 });
    rp_generate_end end;
    text first[4];

    for (uint64_t seed = 0; seed < 4; seed++) {
        rp_generate_options o = { .max_new_tokens = 20, .temperature = 1, .seed = seed };
        first[seed]           = generate(ctx, m, o, &end);
        text again            = generate(ctx, m, o, &end);
        assert_same(&first[seed], &again);
        for (uint64_t other = 0; other < seed; other++)
            assert_memory_not_equal(first[seed].id, first[other].id, 20 * sizeof(int32_t));
    }
    rp__model_free(m);
    test_ctx_free(ctx);
}

static void the_likeliest_is_drawn_at_top_1_and_at_no_temperature(void **state)
{
    (void)state;
    for (int gpt2 = 0; gpt2 < 2; gpt2++) {
        rp_ctx *ctx = test_ctx(NULL);
        rp_model *m = tiny_model_new(ctx, (tiny_model){ .gpt2 = gpt2 });
        rp_generate_end end;
        text greedy = generate(ctx, m, (rp_generate_options){ .max_new_tokens = 24, .top_k = 7, .seed = 1 }, &end);
        text top    = generate(ctx, m, (rp_generate_options){ .max_new_tokens = 24, .temperature = 3, .top_k = 1, .seed = 2 }, &end);
        text cold   = generate(ctx, m, (rp_generate_options){ .max_new_tokens = 24, .temperature = 1e-9, .seed = 3 }, &end);
        assert_same(&greedy, &top);
        assert_same(&greedy, &cold);
        rp__model_free(m);
        test_ctx_free(ctx);
    }
}

/* The first token of many seeds, counted, against the softmax of the k greatest logits. */
static void tokens_are_drawn_as_often_as_their_probability_says(void **state)
{
    enum { DRAWS = 3000 };
    static const int64_t top[] = { 0, 4, 5 };       /* a heap whose last parent has one child, and two */

    (void)state;
    rp_ctx *ctx = test_ctx(NULL);
    rp_model *m = tiny_model_new(ctx, (tiny_model){ .init_std = 0.1 });
    double *all = tiny_logits(ctx, m, prompt, PROMPT), *last = all + (PROMPT - 1) * TINY_VOCAB;
    for (int i = 0; i < RP_COUNT(top); i++) {
        double p[TINY_VOCAB], sum = 0;
        int count[TINY_VOCAB] = { 0 };
        rp_generate_end end;
        for (int a = 0; a < TINY_VOCAB; a++) {
            int greater = 0;
            for (int b = 0; b < TINY_VOCAB; b++) greater += last[b] > last[a];
            sum += p[a] = top[i] && greater >= top[i] ? 0 : exp(last[a] / 0.7);
        }
        for (uint64_t seed = 0; seed < DRAWS; seed++)
            count[generate(ctx, m, (rp_generate_options){ .max_new_tokens = 1, .temperature = 0.7, .top_k = top[i], .seed = seed },
                           &end).id[0]]++;
        for (int a = 0; a < TINY_VOCAB; a++) {
            double mean = DRAWS * p[a] / sum, spread = sqrt(mean) * 5 + 1e-9;      /* five standard deviations, for ever the same draws */
            if (fabs(count[a] - mean) > spread) fail_msg("id %d of the top %d: %d times, expected %.1f", a, (int)top[i], count[a], mean);
        }
    }
    free(all);
    rp__model_free(m);
    test_ctx_free(ctx);
}

static void a_text_ends_at_a_stop_id_at_the_context_or_on_request(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(NULL);
    rp_model *m = tiny_model_new(ctx, (tiny_model){ .init_std = 0.05 });
    rp_generate_options o = { .max_new_tokens = 1000, .temperature = 1 };
    rp_generate_end end;
    text whole = generate(ctx, m, o, &end);

    assert_int_equal(end, RP_GENERATED_CONTEXT);
    assert_int_equal(whole.n, TINY_CONTEXT - PROMPT + 1);       /* the last one needs no place */
    o.stop     = (const int32_t[]){ -1, whole.id[9] };
    o.n_stop   = 2;
    text cut   = generate(ctx, m, o, &end);
    assert_int_equal(end, RP_GENERATED_STOP);
    assert_true(cut.n <= 9 && whole.id[cut.n] == whole.id[9]);
    assert_memory_equal(cut.id, whole.id, (size_t)cut.n * sizeof(int32_t));
    o.n_stop     = 0;
    text enough  = { .most = 4 };
    assert_ok(ctx, rp__generate(m, prompt, PROMPT, &o, take, &enough, &end));
    assert_int_equal(end, RP_GENERATED_ENOUGH);
    assert_int_equal(enough.n, 4);
    o.max_new_tokens = 0;
    assert_int_equal(generate(ctx, m, o, &end).n, 0);
    assert_int_equal(end, RP_GENERATED_ALL);
    rp__model_free(m);
    test_ctx_free(ctx);
}

static void a_prompt_that_does_not_fit_is_refused(void **state)
{
    (void)state;
    rp_ctx *ctx           = test_ctx(NULL);
    rp_model *m           = tiny_model_new(ctx, (tiny_model){ 0 });
    rp_generate_options o = { .max_new_tokens = 4 };
    int32_t ids[TINY_CONTEXT + 1] = { 0 };
    text t = { .n = 0 };
    rp_generate_end end;

    assert_int_equal(rp__generate(m, ids, 0, &o, take, &t, &end), RP_ERR_ARG);
    assert_string_equal(rp_error(ctx), "the prompt is empty");
    assert_int_equal(rp__generate(m, ids, TINY_CONTEXT + 1, &o, take, &t, &end), RP_ERR_ARG);
    assert_string_equal(rp_error(ctx), "the prompt has 33 tokens, more than the model's context of 32");
    assert_ok(ctx, rp__generate(m, ids, TINY_CONTEXT, &o, take, &t, &end));
    assert_int_equal(t.n, 1);
    assert_int_equal(end, RP_GENERATED_CONTEXT);
    ids[1] = TINY_VOCAB;
    assert_int_equal(rp__generate(m, ids, 3, &o, take, &t, &end), RP_ERR_ARG);
    assert_int_equal(t.n, 1);
    rp__model_free(m);
    test_ctx_free(ctx);
}

static void logits_that_are_not_finite_are_an_error(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(NULL);
    rp_model *m = tiny_model_new(ctx, (tiny_model){ 0 });
    text t      = { .n = 0 };
    rp_generate_end end;

    rp_elem_put(rp__model_find_param(m, "output.weight")->tensor, 24 * 7, NAN);
    assert_int_equal(rp__generate(m, prompt, PROMPT, &(rp_generate_options){ .max_new_tokens = 4 }, take, &t, &end), RP_ERR_NONFINITE);
    assert_string_equal(rp_error(ctx), "token 1 of the continuation: the logit of id 7 is not finite");
    assert_int_equal(t.n, 0);
    rp__model_free(m);
    test_ctx_free(ctx);
}

static void any_allocation_may_fail(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(NULL);
    rp_model *m = tiny_model_new(ctx, (tiny_model){ 0 });
    rp_generate_options o = { .max_new_tokens = 2, .temperature = 1 };
    rp_generate_end end;
    test_faults f = { 0 };
    text t;

    while (!f.over) {
        t = (text){ .n = 0 };
        test_fault_begin(&f, ctx);
        test_fault_end(&f, rp__generate(m, prompt, PROMPT, &o, take, &t, &end));
    }
    assert_true(f.failed > 19 && t.n == 2);
    rp__model_free(m);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cache_changes_no_token),
        cmocka_unit_test(the_next_logits_are_the_last_of_all),
        cmocka_unit_test(a_seed_gives_one_text_and_others_give_others),
        cmocka_unit_test(the_likeliest_is_drawn_at_top_1_and_at_no_temperature),
        cmocka_unit_test(tokens_are_drawn_as_often_as_their_probability_says),
        cmocka_unit_test(a_text_ends_at_a_stop_id_at_the_context_or_on_request),
        cmocka_unit_test(a_prompt_that_does_not_fit_is_refused),
        cmocka_unit_test(logits_that_are_not_finite_are_an_error),
        cmocka_unit_test(any_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
