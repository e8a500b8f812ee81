/* Claims about conversations: where a model's template is found, and which text is its answers. */
/* ctest: device-free thread-free */
#include "rp_test.h"

#include "template/chat.h"
#include "train/temp.h"

static const char *const families[] = { "chatml", "llama2", "llama3", "mistral", "gemma", "gemma3", "qwen3", "phi3", "zephyr", "olmo2", "marked" };

static json_t *parsed(const char *text)
{
    json_error_t e;
    json_t *made = json_loads(text, 0, &e);

    if (!made) fail_msg("%s: %s", text, e.text);
    return made;
}

static rp_chat *chat_of(rp_ctx *ctx, const char *family)
{
    char path[512];
    rp_chat *chat;
    temp_dir dir = temp_make();

    temp_text(&dir, "tokenizer_config.json", "{\"bos_token\": \"<s>\", \"eos_token\": {\"content\": \"</s>\"}}");
    snprintf(path, sizeof path, RP_SOURCE_DIR "/tests/golden/chat/%s.jinja", family);
    assert_ok(ctx, rp__chat_load(ctx, dir.path, path, &chat));
    assert_non_null(chat);
    temp_remove(&dir);
    return chat;
}

/* The rendered texts, their answers in brackets: "<s>hi[yes</s>]". A bar between texts. */
enum { MARKED_CHARS = 8192 };

static void append(char *to, const char *text, int64_t bytes)
{
    size_t used = strlen(to);

    assert_true(used + (size_t)bytes < MARKED_CHARS);
    memcpy(to + used, text, (size_t)bytes);
    to[used + (size_t)bytes] = 0;
}

static rp_status write_marked(void *user, const rp_template_text *text)
{
    char *to   = user;
    int64_t at = 0;

    if (*to) append(to, "|", 1);
    for (int64_t i = 0; i < text->n_spans; i++) {
        const rp_template_span *span = &text->span[i];
        append(to, text->text + at, span->from - at);
        append(to, "[", 1);
        append(to, text->text + span->from, span->to - span->from);
        append(to, "]", 1);
        at = span->to;
    }
    append(to, text->text + at, text->bytes - at);
    return RP_OK;
}

static void assert_answers(rp_ctx *ctx, const char *family, const char *conversation, bool answers, const char *wanted)
{
    char got[MARKED_CHARS] = "";
    rp_chat *chat    = chat_of(ctx, family);
    json_t *messages = parsed(conversation);

    assert_ok(ctx, rp__chat_render(chat, messages, NULL, answers, write_marked, got));
    if (strcmp(got, wanted)) fail_msg("%s:\n'%s', not\n'%s'", family, got, wanted);
    json_decref(messages);
    rp__chat_free(chat);
}

#define TWO_TURNS \
    "[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"b\"},{\"role\":\"user\",\"content\":\"c\"}," \
    "{\"role\":\"assistant\",\"content\":\"d\"}]"

static void an_answer_is_what_the_model_says_and_its_stop_in_every_family(void **state)
{
    rp_ctx *ctx = test_ctx(NULL);

    (void)state;
    assert_answers(ctx, "llama2", TWO_TURNS, true, "<s>[INST] a [/INST][ b </s>]<s>[INST] c [/INST][ d </s>]");
    assert_answers(ctx, "mistral", TWO_TURNS, true, "<s>[INST] a[/INST][ b</s>][INST] c[/INST][ d</s>]");
    assert_answers(ctx, "gemma", TWO_TURNS, true,
                   "<s><start_of_turn>user\na<end_of_turn>\n<start_of_turn>model\n[b<end_of_turn>\n]<start_of_turn>user\nc<end_of_turn>\n"
                   "<start_of_turn>model\n[d<end_of_turn>\n]");
    assert_answers(ctx, "zephyr", TWO_TURNS, true,
                   "<|user|>\na</s>\n<|assistant|>\n[b</s>\n]<|user|>\nc</s>\n<|assistant|>\n[d</s>\n]");
    assert_answers(ctx, "marked", TWO_TURNS, true,
                   "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n[b<|im_end|>]\n<|im_start|>user\nc<|im_end|>\n"
                   "<|im_start|>assistant\n[d<|im_end|>]\n");
    assert_answers(ctx, "chatml",
                   "[{\"role\":\"system\",\"content\":\"s\"},"
                   "{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"b\"}]",
                   true, "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n[b<|im_end|>\n]");
    test_ctx_free(ctx);
}

/* How many times a text stands between brackets. */
static int times_inside(const char *marked, const char *text)
{
    int found = 0;

    for (const char *at = marked; (at = strstr(at, text)); at++) {
        const char *open = at, *close = strpbrk(at, "[]");
        while (open > marked && *open != '[' && *open != ']') open--;
        found += *open == '[' && close && *close == ']';
    }
    return found;
}

static void every_turn_of_the_assistant_counts_once_and_no_other_does(void **state)
{
    rp_ctx *ctx = test_ctx(NULL);

    (void)state;
    for (int f = 0; f < RP_COUNT(families); f++) {
        char got[MARKED_CHARS] = "";
        rp_chat *chat          = chat_of(ctx, families[f]);
        json_t *messages       = parsed("[{\"role\":\"user\",\"content\":\"Q1Q\"},{\"role\":\"assistant\",\"content\":\"A1A\"},"
                                        "{\"role\":\"user\",\"content\":\"Q2Q\"},{\"role\":\"assistant\",\"content\":\"A2A\"}]");
        assert_ok(ctx, rp__chat_render(chat, messages, NULL, true, write_marked, got));
        if (!strstr(got, "Q1Q") || times_inside(got, "A1A") != 1 || times_inside(got, "A2A") != 1 || times_inside(got, "Q1Q") || times_inside(got, "Q2Q"))
            fail_msg("%s: '%s'", families[f], got);
        json_decref(messages);
        rp__chat_free(chat);
    }
    test_ctx_free(ctx);
}

/* Qwen 3 leaves the thoughts of earlier answers out: each answer is trained on as it was given. */
static void a_template_that_rewrites_earlier_answers_gets_a_text_for_each(void **state)
{
    rp_ctx *ctx = test_ctx(NULL);

    (void)state;
    assert_answers(ctx, "qwen3",
                   "[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"<think>\\nt\\n</think>\\n\\nb\"},"
                   "{\"role\":\"user\",\"content\":\"c\"},{\"role\":\"assistant\",\"content\":\"d\"}]",
                   true,
                   "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n[<think>\nt\n</think>\n\nb<|im_end|>\n]|"
                   "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n<|im_start|>user\nc<|im_end|>\n"
                   "<|im_start|>assistant\n[<think>\n\n</think>\n\nd<|im_end|>\n]");
    test_ctx_free(ctx);
}

static void a_conversation_that_the_assistant_begins_has_its_answer_where_the_content_is(void **state)
{
    rp_ctx *ctx = test_ctx(NULL);

    (void)state;
    assert_answers(ctx, "phi3", "[{\"role\":\"assistant\",\"content\":\"Hello\"}]", true, "<|assistant|>\n[Hello<|end|>\n</s>]");
    test_ctx_free(ctx);
}

/* ---- where templates are ---- */

static void write_folder(const temp_dir *dir, const char *config, const char *jinja)
{
    if (config) temp_text(dir, "tokenizer_config.json", config);
    if (jinja) temp_text(dir, "chat_template.jinja", jinja);
}

static void templates_are_found_where_models_keep_them(void **state)
{
    static const struct { const char *config, *jinja, *wanted; } cases[] = {
        { "{\"chat_template\": \"A{{ bos_token }}\", \"bos_token\": \"<s>\"}", NULL, "A<s>" },
        { "{\"chat_template\": [{\"name\": \"tool_use\", \"template\": \"T\"}, {\"name\": \"default\", \"template\": \"D\"}]}", NULL, "D" },
        { "{\"chat_template\": \"A\", \"eos_token\": {\"content\": \"</s>\"}}", "J{{ eos_token }}\n", "J</s>" },
        { "{\"model_max_length\": 1000000000000000019884624838656, \"chat_template\": \"L\"}", NULL, "L" },
        { "{\"bos_token\": null}", NULL, NULL }, { NULL, NULL, NULL },
    };
    rp_ctx *ctx = test_ctx(NULL);

    (void)state;
    for (int i = 0; i < RP_COUNT(cases); i++) {
        temp_dir dir     = temp_make();
        char got[MARKED_CHARS] = "";
        json_t *messages = parsed("[{\"role\":\"user\",\"content\":\"a\"}]");
        rp_chat *chat;
        write_folder(&dir, cases[i].config, cases[i].jinja);
        assert_ok(ctx, rp__chat_load(ctx, dir.path, NULL, &chat));
        assert_int_equal(chat != NULL, cases[i].wanted != NULL);
        if (chat) {
            assert_ok(ctx, rp__chat_render(chat, messages, NULL, false, write_marked, got));
            assert_string_equal(got, cases[i].wanted);
        }
        json_decref(messages);
        rp__chat_free(chat);
        temp_remove(&dir);
    }
    test_ctx_free(ctx);
}

static void a_file_beside_that_is_no_json_is_refused(void **state)
{
    rp_ctx *ctx  = test_ctx(NULL);
    temp_dir dir = temp_make();
    char expected[256];
    rp_chat *chat = NULL;

    (void)state;
    write_folder(&dir, "{", NULL);
    assert_int_equal(rp__chat_load(ctx, dir.path, NULL, &chat), RP_ERR_FORMAT);
    snprintf(expected, sizeof expected, "cannot read '%s/tokenizer_config.json': line 1: string or '}' expected near end of file", dir.path);
    assert_string_equal(rp_error(ctx), expected);
    assert_null(chat);
    temp_remove(&dir);
    test_ctx_free(ctx);
}

static void a_gguf_file_brings_its_template_and_tokens(void **state)
{
    char got[MARKED_CHARS] = "";
    rp_ctx *ctx      = test_ctx(NULL);
    json_t *messages = parsed("[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"b\"}]");
    rp_chat *chat;

    (void)state;
    assert_ok(ctx, rp__chat_load(ctx, RP_SOURCE_DIR "/tests/golden/tokenizer/smollm.gguf", NULL, &chat));
    if (!chat) fail_msg("the file has no template");
    assert_ok(ctx, rp__chat_render(chat, messages, NULL, true, write_marked, got));
    assert_non_null(strstr(got, "<|im_start|>assistant\n[b<|im_end|>\n]"));
    json_decref(messages);
    rp__chat_free(chat);
    test_ctx_free(ctx);
}

static void a_question_ends_where_its_answer_begins(void **state)
{
    static const struct { const char *family, *wanted; } cases[] = {
        { "gemma", "<s><start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\n" },
        { "llama2", "<s>[INST] Hi [/INST]" },
        { "zephyr", "<|user|>\nHi</s>\n<|assistant|>\n" },
    };
    rp_ctx *ctx      = test_ctx(NULL);
    json_t *messages = parsed("[{\"role\": \"user\", \"content\": \"Hi\"}]");
    rp_template_text text;

    (void)state;
    for (int i = 0; i < RP_COUNT(cases); i++) {
        rp_chat *chat = chat_of(ctx, cases[i].family);
        assert_ok(ctx, rp__chat_ask(chat, messages, &text));
        assert_string_equal(text.text, cases[i].wanted);
        rp__template_text_free(&text);
        rp__chat_free(chat);
    }
    json_decref(messages);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_is_what_the_model_says_and_its_stop_in_every_family),
        cmocka_unit_test(every_turn_of_the_assistant_counts_once_and_no_other_does),
        cmocka_unit_test(a_template_that_rewrites_earlier_answers_gets_a_text_for_each),
        cmocka_unit_test(a_conversation_that_the_assistant_begins_has_its_answer_where_the_content_is),
        cmocka_unit_test(templates_are_found_where_models_keep_them),
        cmocka_unit_test(a_file_beside_that_is_no_json_is_refused),
        cmocka_unit_test(a_gguf_file_brings_its_template_and_tokens),
        cmocka_unit_test(a_question_ends_where_its_answer_begins),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
