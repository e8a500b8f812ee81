/* Claims about text: whichever call leads to an allocation that fails, the error comes out, and nothing is left. */
/* ctest: device-free thread-free */
#include "sites_test.h"

#include "template/chat.h"
#include "texts_test.h"

typedef struct { json_t *all, *none; } cases;

static rp_status render_one(rp_ctx *ctx, const json_t *text, const json_t *vars, bool refused)
{
    rp_template_text out = { 0 };
    rp_template *t       = NULL;
    rp_status status     = rp__template_new(ctx, "m", json_string_value(text), (int64_t)json_string_length(text), &t);

    if (status == RP_OK) status = rp__template_render(t, vars, RP_CHAT_DATE, &out);
    rp__template_free(t);
    rp__template_text_free(&out);
    return refused && status != RP_ERR_MEMORY ? RP_OK : status;
}

/* All cases of the language, one after the other. */
static rp_status render_all(rp_ctx *ctx, void *user)
{
    const cases *c = user;
    size_t i;
    json_t *one;

    json_array_foreach(c->all, i, one) {
        const json_t *vars = json_object_get(one, "vars");
        RP_TRY(render_one(ctx, json_object_get(one, "template"), vars ? vars : c->none, json_object_get(one, "refused")));
    }
    return RP_OK;
}

static void each_call_of_a_template_passes_an_error_on(void **state)
{
    rp_ctx *ctx = test_ctx(NULL);
    cases c     = { chat_golden("language.json"), json_object() };

    (void)state;
    every_site_fails_once(ctx, false, 150, render_all, &c);
    json_decref(c.all);
    json_decref(c.none);
    test_ctx_free(ctx);
}

static const char text_of_all[] = "  Caf\xc3\xa9 e\xcc\x81\xcc\xa3 word 1234 <|im_start|>\n\n  x's averylongword ``a'' \xf0\x9f\x99\x82";

/* An allocation may be done without. Then the ids and the text are the same. */
static rp_status there_and_back(rp_ctx *ctx, const char *name, uint64_t *first)
{
    char path[512], *text = NULL;
    rp_tokenizer *t = NULL;
    int32_t *ids    = NULL;
    int64_t n = 0, bytes = 0;

    snprintf(path, sizeof path, GOLDEN "%s", name);
    rp_status status = rp__tokenizer_load(ctx, path, &t);
    if (status == RP_OK) status = rp__tokenizer_encode(t, text_of_all, sizeof text_of_all - 1, &ids, &n);
    if (status == RP_OK) status = rp__tokenizer_decode(t, ids, n, false, &text, &bytes);
    if (status == RP_OK) {
        uint64_t hash = rp__hash(text, (size_t)bytes, rp__hash(ids, (size_t)n * sizeof *ids, RP_HASH_START));
        if (!*first) *first = hash;
        if (hash != *first) fail_msg("%s: other ids or another text", name);
    }
    rp__tokenizer_free(t);
    rp__release(ids);
    rp__release(text);
    return status;
}

static rp_status all_tokenizers(rp_ctx *ctx, void *user)
{
    static const char *const names[] = { "odd",           "families/bert", "families/t5",          "families/mixed",
                                         "families/rest", "families/clip", "families/llama2.gguf", "families/gemma" };

    uint64_t *first = user;

    for (int i = 0; i < RP_COUNT(names); i++) RP_TRY(there_and_back(ctx, names[i], &first[i]));
    return RP_OK;
}

static void each_call_of_a_tokenizer_passes_an_error_on(void **state)
{
    rp_ctx *ctx       = test_ctx(NULL);
    uint64_t first[8] = { 0 };

    (void)state;
    every_site_fails_once(ctx, true, 100, all_tokenizers, first);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_call_of_a_template_passes_an_error_on),
        cmocka_unit_test(each_call_of_a_tokenizer_passes_an_error_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
