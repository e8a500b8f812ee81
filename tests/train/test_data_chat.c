/* Claims about conversations as data: which tokens they become, which are targets, what is refused and where. */
/* ctest: thread-free */
#include "rp_test.h"

#include "data/data.h"
#include "temp.h"
#include "template/chat.h"
#include "tokenizer/tokenizer.h"

enum { MARK = -100, LENGTH = 4096 };

static rp_status encode(void *user, const char *text, int64_t bytes, rp_text_part part, int32_t **ids, int64_t *n_ids)
{
    return rp__tokenizer_feed(user, text, bytes, part, ids, n_ids);
}

typedef struct { rp_ctx *ctx; temp_dir dir; rp_tokenizer *tokenizer; rp_data_source source; rp_data_config config; } world;

static world world_of(const char *family)
{
    world w = { .ctx = test_ctx(NULL), .dir = temp_make() };
    char path[512];

    snprintf(path, sizeof path, RP_SOURCE_DIR "/tests/golden/chat/%s.jinja", family);
    assert_ok(w.ctx, rp__tokenizer_load(w.ctx, RP_SOURCE_DIR "/tests/golden/tokenizer/smollm", &w.tokenizer));
    assert_ok(w.ctx, rp__chat_load(w.ctx, RP_SOURCE_DIR "/tests/golden/tokenizer/smollm", path, &w.source.chat));
    w.source.user   = w.tokenizer;
    w.source.encode = encode;
    w.source.bos = w.source.eos = 0;        /* would be seen where a reader put them */
    w.source.adds_bos = true;
    w.source.vocab    = rp__tokenizer_vocab(w.tokenizer);
    w.config = (rp_data_config){ .format = "chat", .column = "text", .max_seq_len = LENGTH, .batch_size = 1, .accumulation = 1, .ranks = 1,
                                 .ignore_index = MARK };
    return w;
}

static void leave(world *w)
{
    rp__chat_free(w->source.chat);
    rp__tokenizer_free(w->tokenizer);
    temp_remove(&w->dir);
    test_ctx_free(w->ctx);
}

static rp_data *open_lines(world *w, const char *lines)
{
    rp_data *d;

    w->config.path = temp_text(&w->dir, "chat.jsonl", lines);
    assert_ok(w->ctx, rp__data_open(w->ctx, "dataset", &w->config, &w->source, &d));
    return d;
}

/* ---- against transformers ---- */

static json_t *marked_cases(void)
{
    json_t *all = json_load_file(RP_SOURCE_DIR "/tests/golden/chat/rendered.json", JSON_ALLOW_NUL, NULL), *kept = json_array(), *each;
    size_t i;

    assert_non_null(all);
    json_array_foreach(all, i, each) if (json_object_get(each, "ids")) json_array_append(kept, each);
    json_decref(all);
    return kept;
}

static int64_t int_at(const json_t *of, const char *list, int64_t i) { return json_integer_value(json_array_get(json_object_get(of, list), (size_t)i)); }

static bool has_answers(const json_t *of)
{
    const json_t *message, *all = json_object_get(json_object_get(of, "vars"), "messages");
    size_t i;

    json_array_foreach((json_t *)all, i, message)
        if (!strcmp(json_string_value(json_object_get(message, "role")), "assistant") && json_string_length(json_object_get(message, "content"))) return true;
    return false;
}

/* tools/goldens_chat.py asked apply_chat_template for ids and the mask of the assistant's tokens. */
static void tokens_and_targets_are_those_of_transformers(void **state)
{
    world w     = world_of("marked");
    json_t *all = marked_cases(), *each;
    size_t c;

    (void)state;
    assert_true(json_array_size(all) >= 8);
    json_array_foreach(all, c, each) {
        json_t *line = json_pack("{s:O}", "messages", json_object_get(json_object_get(each, "vars"), "messages"));
        char *text   = json_dumps(line, 0);
        bool answers = has_answers(each);
        rp_data_batch b;
        w.config.train_on_input = !answers;     /* one without answers has nothing to learn unless all is learnt */
        rp_data *d = open_lines(&w, text);
        assert_ok(w.ctx, rp__data_batch(d, 0, 0, &b));
        assert_int_equal(b.length, json_array_size(json_object_get(each, "ids")));
        for (int64_t i = 0; i < b.length; i++) {
            assert_int_equal(b.tokens[i], int_at(each, "ids", i));
            if (i) assert_int_equal(b.labels[i - 1], !answers || int_at(each, "answers", i) ? b.tokens[i] : MARK);
        }
        rp__data_close(d);
        free(text);
        json_decref(line);
    }
    json_decref(all);
    leave(&w);
}

/* ---- targets ---- */

/* The tokens that are targets, as text. */
static char *targets_of(world *w, const rp_data_batch *b, int64_t row)
{
    int32_t ids[LENGTH];
    int64_t n = 0, bytes;
    char *text;

    for (int64_t i = 0; i + 1 < b->length; i++)
        if (b->labels[row * b->length + i] != MARK) ids[n++] = b->labels[row * b->length + i];
    assert_ok(w->ctx, rp__tokenizer_decode(w->tokenizer, ids, n, false, &text, &bytes));
    return text;
}

#define ASK "{\"role\": \"user\", \"content\": \"What is it?\"}"
#define SAY(text) "{\"role\": \"assistant\", \"content\": \"" text "\"}"

static void only_answers_and_their_stops_are_targets(void **state)
{
    world w = world_of("chatml");
    rp_data *d = open_lines(&w, "{\"messages\": [" ASK ", " SAY("A cat.") ", " ASK ", " SAY("Still one.") "]}\n");
    rp_data_batch b;
    rp_data_step n;

    (void)state;
    assert_ok(w.ctx, rp__data_batch(d, 0, 0, &b));
    char *text = targets_of(&w, &b, 0);
    assert_string_equal(text, "A cat.<|im_end|>\nStill one.<|im_end|>\n");
    assert_ok(w.ctx, rp__data_step(d, 0, &n));
    assert_true(n.targets > 6 && n.targets < n.tokens / 2);
    rp__release(text);
    rp__data_close(d);
    leave(&w);
}

static void with_train_on_input_all_is_a_target(void **state)
{
    world w = world_of("chatml");
    rp_data_step n;

    (void)state;
    w.config.train_on_input = true;
    rp_data *d = open_lines(&w, "{\"messages\": [" ASK ", " SAY("A cat.") "]}\n");
    assert_ok(w.ctx, rp__data_step(d, 0, &n));
    assert_int_equal(n.targets, n.tokens - 1);
    rp__data_close(d);
    leave(&w);
}

/* Rows of a padded batch: what is beyond a conversation is no token, no target, and seen by none. */
static void batches_are_padded_without_tokens_or_targets(void **state)
{
    world w = world_of("chatml");
    rp_data_batch b;
    rp_data_step n;

    (void)state;
    w.config.batch_size = 2;
    rp_data *d = open_lines(&w, "{\"messages\": [" ASK ", " SAY("A cat.") "]}\n{\"messages\": [" ASK ", " SAY("A cat of great and lasting beauty.") "]}\n");
    assert_ok(w.ctx, rp__data_batch(d, 0, 0, &b));
    assert_ok(w.ctx, rp__data_step(d, 0, &n));
    int64_t used = n.tokens - b.length, targets = 0;        /* of row 0: row 1 is full */
    assert_true(used > 0 && used < b.length);
    for (int64_t i = 0; i < 2 * b.length; i++) targets += b.labels[i] != MARK;
    assert_int_equal(targets, n.targets);
    for (int64_t i = 0; i < b.length; i++) {
        assert_int_equal(b.doc_start[i], i < used ? 0 : used);
        assert_int_equal(b.positions[i], i < used ? i : i - used);
        if (i >= used - 1) assert_int_equal(b.labels[i], MARK);
    }
    rp__data_close(d);
    leave(&w);
}

/* ---- lines ---- */

static void other_spellings_of_a_conversation_are_the_same_data(void **state)
{
    static const char *const lines[] = {
        "{\"messages\": [" ASK ", " SAY("A cat.") "]}",
        "{\"conversations\": [{\"from\": \"human\", \"value\": \"What is it?\"}, {\"from\": \"gpt\", \"value\": \"A cat.\"}], \"id\": 7}",
        "{\"text\": [" ASK ", " SAY("A cat.") "]}",
        "{\"messages\": [{\"from\": \"user\", \"value\": \"What is it?\"}, {\"from\": \"assistant\", \"value\": \"A cat.\"}], \"conversations\": 1}",
        "{\"text\": \"of another use\", \"messages\": [" ASK ", " SAY("A cat.") "]}",
    };
    world w       = world_of("chatml");
    uint64_t hash = 0;

    (void)state;
    for (int i = 0; i < RP_COUNT(lines); i++) {
        rp_data *d = open_lines(&w, lines[i]);
        if (!i) hash = rp__data_info(d).hash;
        assert_true(rp__data_info(d).hash == hash);
        rp__data_close(d);
    }
    w.config.column = "talk";
    rp_data *d      = open_lines(&w, "{\"messages\": 0, \"talk\": [" ASK ", " SAY("A cat.") "]}");
    assert_true(rp__data_info(d).hash == hash);
    rp__data_close(d);
    leave(&w);
}

/* Prompts with answers are the conversations that they would be. */
static void pairs_are_the_conversations_they_would_be(void **state)
{
    static const struct { const char *format, *line; } cases[] = {
        { "chat", "{\"messages\": [{\"role\": \"user\", \"content\": \"What is\\n\\nit?\"}, " SAY("A cat.") "]}" },
        { "jsonl", "{\"ask\": \"What is\\n\\nit?\", \"say\": \"A cat.\"}" },
        { "alpaca", "{\"instruction\": \"What is\", \"input\": \"it?\", \"output\": \"A cat.\", \"source\": 1}" },
        { "alpaca", "[{\"instruction\": \"What is\\n\\nit?\", \"input\": \"\", \"output\": \"A cat.\"}]" },
        { "alpaca", "[{\"instruction\": \"What is\\n\\nit?\", \"output\": \"A cat.\"}]" },
    };
    world w       = world_of("chatml");
    uint64_t hash = 0;

    (void)state;
    for (int answers = 0; answers < 2; answers++)
        for (int i = 0; i < RP_COUNT(cases); i++) {
            bool jsonl              = !strcmp(cases[i].format, "jsonl");
            w.config.format         = cases[i].format;
            w.config.by_template    = true;
            w.config.train_on_input = !answers;
            w.config.column         = jsonl ? "say" : "text";
            w.config.prompt_column  = jsonl ? "ask" : NULL;
            rp_data *d              = open_lines(&w, cases[i].line);
            if (!i) hash = rp__data_info(d).hash;
            assert_true(rp__data_info(d).hash == hash);
            assert_int_equal(rp__data_info(d).by_template, i > 0);
            rp__data_close(d);
        }
    w.config.by_template   = false;
    w.config.format        = "jsonl";
    w.config.column        = "say";
    w.config.prompt_column = "ask";
    rp_data *d             = open_lines(&w, cases[1].line);
    assert_true(rp__data_info(d).hash != hash && !rp__data_info(d).by_template);
    rp__data_close(d);
    leave(&w);
}

static void tools_of_a_line_reach_the_template(void **state)
{
    world w = world_of("qwen3");
    int64_t plain;

    (void)state;
    rp_data *d = open_lines(&w, "{\"messages\": [" ASK ", " SAY("A cat.") "]}");
    plain      = rp__data_info(d).n_tokens;
    rp__data_close(d);
    d = open_lines(&w, "{\"messages\": [" ASK ", " SAY("A cat.") "], \"tools\": [{\"name\": \"see\"}]}");
    assert_true(rp__data_info(d).n_tokens > plain + 5);
    rp__data_close(d);
    leave(&w);
}

static void refuse(const char *family, const char *lines, rp_status expected, const char *wanted)
{
    world w    = world_of(family);
    rp_data *d = NULL;

    w.config.path = temp_text(&w.dir, "chat.jsonl", lines);
    assert_int_equal(rp__data_open(w.ctx, "dataset", &w.config, &w.source, &d), expected);
    assert_null(d);
    if (!strstr(rp_error(w.ctx), wanted)) fail_msg("'%s', not '%s'", rp_error(w.ctx), wanted);
    leave(&w);
}

static void what_is_no_conversation_is_refused_with_its_line(void **state)
{
    (void)state;
    refuse("chatml", "\n{\"prompt\": 1}\n", RP_ERR_FORMAT, "chat.jsonl', line 2: no column 'messages', there is 'prompt': set 'dataset.column'");
    refuse("chatml", "{\"messages\": \"hi\"}\n", RP_ERR_FORMAT, "', line 1: the column 'messages' is not a list of messages");
    refuse("chatml", "{\"messages\": []}\n", RP_ERR_FORMAT, "', line 1: the column 'messages' is not a list of messages");
    refuse("chatml", "{\"messages\": [{\"content\": \"x\"}]}\n", RP_ERR_FORMAT, "', line 1: message 1 has no 'role'");
    refuse("chatml", "{\"messages\": [{\"from\": \"human\"}]}\n", RP_ERR_FORMAT, "', line 1: message 1 has no text 'value'");
    refuse("gemma", "{\"messages\": [" ASK "]}\n{\"messages\": [" ASK ", " ASK "]}\n", RP_ERR_FORMAT, "', line 2: the chat template of '");
    refuse("gemma", "{\"messages\": [" ASK ", " ASK "]}\n", RP_ERR_FORMAT, "', line 1: it refuses the conversation: roles must alternate");
}

static void a_refusal_by_a_template_is_told_to_its_end(void **state)
{
    world w    = world_of("chatml");
    rp_data *d = NULL;
    char why[181], name[251], lines[400];

    (void)state;
    snprintf(why, sizeof why, "%0180d", 7);
    snprintf(name, sizeof name, "%0250d", 1);
    rp__chat_free(w.source.chat);
    assert_ok(w.ctx, rp__chat_load(w.ctx, RP_SOURCE_DIR "/tests/golden/tokenizer/smollm",
                                   temp_text(&w.dir, name, "{{ raise_exception(messages[0].content) }}"), &w.source.chat));
    snprintf(lines, sizeof lines, "{\"messages\": [{\"role\": \"user\", \"content\": \"%s\"}, {\"role\": \"assistant\", \"content\": \"b\"}]}\n", why);
    w.config.path = temp_text(&w.dir, "chat.jsonl", lines);
    assert_int_equal(rp__data_open(w.ctx, "dataset", &w.config, &w.source, &d), RP_ERR_FORMAT);
    if (!strstr(rp_error(w.ctx), why)) fail_msg("%s", rp_error(w.ctx));
    leave(&w);
}

/* Answers under a name that is none of theirs, without text, or beyond max_seq_len. */
static void conversations_without_a_target_are_refused_with_their_line_and_the_reason(void **state)
{
    (void)state;
#define NOTHING "dataset has nothing to learn from: no sample has a target; 1 was skipped, the first: '"
    refuse("chatml", "{\"messages\": [" ASK ", {\"role\": \"bot\", \"content\": \"x\"}, " ASK "]}\n", RP_ERR_CONFIG, NOTHING);
    refuse("chatml", "{\"messages\": [" ASK ", {\"role\": \"bot\", \"content\": \"x\"}, " ASK "]}\n", RP_ERR_CONFIG,
           "chat.jsonl', line 1: no message has the role 'assistant', there is 'user' 'bot'");
    refuse("chatml", "\n{\"messages\": [" ASK ", " SAY("") "]}\n", RP_ERR_CONFIG, "chat.jsonl', line 2: its answers are empty");
    refuse("chatml", "[{\"messages\": [" ASK ", " SAY("") "]}]\n", RP_ERR_CONFIG, "chat.jsonl', object 1 (line 1): its answers are empty");
    world w    = world_of("chatml");
    rp_data *d = NULL;
    w.config.path        = temp_text(&w.dir, "chat.jsonl", "{\"messages\": [" ASK ", " SAY("A cat.") "]}\n");
    w.config.max_seq_len = 4;
    assert_int_equal(rp__data_open(w.ctx, "dataset", &w.config, &w.source, &d), RP_ERR_CONFIG);
    assert_non_null(strstr(rp_error(w.ctx), "chat.jsonl', line 1: its first target is token "));
    assert_non_null(strstr(rp_error(w.ctx), ", beyond max_seq_len 4"));
    leave(&w);
}

static void a_model_without_a_template_is_reported_of_the_key(void **state)
{
    world w       = world_of("chatml");
    rp_chat *held = w.source.chat;
    rp_data *d    = NULL;

    (void)state;
    w.source.chat = NULL;
    w.config.path = temp_text(&w.dir, "chat.jsonl", "{\"messages\": [" ASK "]}\n");
    assert_int_equal(rp__data_open(w.ctx, "dataset", &w.config, &w.source, &d), RP_ERR_CONFIG);
    assert_non_null(strstr(rp_error(w.ctx), "set tokenizer.chat_template"));
    w.source.chat = held;
    leave(&w);
}

static void every_failed_allocation_is_reported(void **state)
{
    world w = world_of("qwen3");
    int k   = 1;

    (void)state;
    w.config.path = temp_text(&w.dir, "chat.jsonl", "{\"messages\": [" ASK ", " SAY("a") ", " ASK ", " SAY("b") "]}\n");
    for (;; k += test_takes_samples() ? 7 : 1) {
        rp_data *d             = NULL;
        w.ctx->fault_countdown = k;
        rp_status status       = rp__data_open(w.ctx, "dataset", &w.config, &w.source, &d);
        bool fired             = w.ctx->fault_countdown == 0;
        w.ctx->fault_countdown = 0;
        if (!fired) {
            assert_ok(w.ctx, status);
            rp__data_close(d);
            break;
        }
        assert_int_equal(status, RP_ERR_MEMORY);
        assert_null(d);
    }
    assert_true(k > 20);
    leave(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_and_targets_are_those_of_transformers),
        cmocka_unit_test(only_answers_and_their_stops_are_targets),
        cmocka_unit_test(with_train_on_input_all_is_a_target),
        cmocka_unit_test(batches_are_padded_without_tokens_or_targets),
        cmocka_unit_test(other_spellings_of_a_conversation_are_the_same_data),
        cmocka_unit_test(pairs_are_the_conversations_they_would_be),
        cmocka_unit_test(tools_of_a_line_reach_the_template),
        cmocka_unit_test(what_is_no_conversation_is_refused_with_its_line),
        cmocka_unit_test(a_refusal_by_a_template_is_told_to_its_end),
        cmocka_unit_test(conversations_without_a_target_are_refused_with_their_line_and_the_reason),
        cmocka_unit_test(a_model_without_a_template_is_reported_of_the_key),
        cmocka_unit_test(every_failed_allocation_is_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
