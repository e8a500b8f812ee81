/* Claims about what a recipe says of its data: files, formats, which tokens are learnt from, what has no effect. */
/* ctest: device-free thread-free */
#include "recipe_test.h"

static void data_is_a_file_or_a_list_of_files(void **state)
{
    (void)state;
    reading r = read_one(MODEL "dataset: {path: one.txt}\ndataset_val: {path: [b.txt, \"*.gz\"]}\n", NULL);

    assert_read(&r);
    assert_int_equal(r.recipe->dataset.path.all.n, 1);
    assert_string_equal(r.recipe->dataset.path.first, "one.txt");
    assert_int_equal(r.recipe->dataset_val.path.all.n, 2);
    assert_string_equal(r.recipe->dataset_val.path.all.item[1], "*.gz");
    end(&r);
    assert_error(MODEL "dataset: {path: []}\n", NULL, "r.yaml:2: 'dataset.path' wants a text, a list of texts, or null, not an empty list");
    assert_error(MODEL "dataset: {path: [a, [b]]}\n", NULL, "r.yaml:2: 'dataset.path' wants a text, a list of texts, or null, not [b]");
}

static void conversations_need_no_prompt_column_to_train_on_answers_alone(void **state)
{
    (void)state;
    reading r = read_one(MODEL "dataset: {path: a, format: chat, train_on_input: false, column: talk}\n", NULL);

    assert_read(&r);
    assert_int_equal(r.recipe->dataset.format, RP_FORMAT_CHAT);
    assert_int_equal(r.report.n_notes, 0);
    end(&r);
    r = read_one(MODEL "dataset: {path: a, format: chat, prompt_column: p}\ntokenizer: {chat_template: t.jinja}\n", NULL);
    assert_reported(&r, "r.yaml:2: note: 'dataset.prompt_column' has no effect: the format is not jsonl");
    end(&r);
    r = read_one(MODEL "tokenizer: {chat_template: t.jinja}\n", NULL);
    assert_reported(&r, "r.yaml:2: note: 'tokenizer.chat_template' has no effect: no dataset is written by it");
    end(&r);
}

static void prompts_with_answers_may_be_written_by_the_chat_template(void **state)
{
    (void)state;
    static const struct { const char *dataset; bool pairs, by_template;
    } cases[] = {
        { "format: jsonl, prompt_column: p", true, true },
        { "format: jsonl, prompt_column: p, use_chat_template: false", true, false },
        { "format: alpaca, train_on_input: false", true, true },
        { "format: jsonl", false, false },
        { "format: chat", false, true },
        { "format: text", false, false },
    };
    char text[256];

    for (int i = 0; i < RP_COUNT(cases); i++) {
        snprintf(text, sizeof text, MODEL "dataset: {path: a, %s}\n", cases[i].dataset);
        reading r = read_one(text, NULL);
        assert_read(&r);
        assert_int_equal(r.report.n_notes, 0);
        assert_int_equal(rp__dataset_has_pairs(&r.recipe->dataset), cases[i].pairs);
        assert_int_equal(rp__dataset_by_template(&r.recipe->dataset), cases[i].by_template);
        end(&r);
    }
    reading r = read_one(MODEL "dataset: {path: a, use_chat_template: false}\n", NULL);
    assert_reported(&r, "r.yaml:2: note: 'dataset.use_chat_template' has no effect: the data has no prompts with answers");
    end(&r);
}

static void loss_on_answers_alone_needs_data_that_has_answers(void **state)
{
    (void)state;
    assert_error(MODEL "dataset: {path: a, prompt_column: p, train_on_input: false}\n", NULL,
                 "r.yaml:2: 'dataset.train_on_input' false needs 'dataset.format' jsonl, chat or alpaca: other data has no prompts");
}

/* A note of the one recipe, none of the other. */
static void assert_noted(const char *noted, const char *note, const char *plain)
{
    reading r = read_one(noted, NULL);

    assert_reported(&r, note);
    end(&r);
    r = read_one(plain, NULL);
    assert_int_equal(r.report.n_notes, 0);
    end(&r);
}

static void data_to_validate_on_that_is_never_scored_is_noted(void **state)
{
    (void)state;
    assert_noted(MODEL "dataset_val: {path: v}\n", "r.yaml:2: note: 'dataset_val.path' has no effect: 'run_val_every_n_steps' is not set",
                 MODEL "dataset_val: {path: v}\nrun_val_every_n_steps: 5\n");
}

static void data_to_validate_on_of_another_format_by_default_is_noted(void **state)
{
    (void)state;
    assert_noted(MODEL "dataset: {path: a, format: chat}\ndataset_val: {path: v}\nrun_val_every_n_steps: 5\n",
                 "r.yaml:3: note: 'dataset_val.format' is text, its default, and 'dataset.format' is chat: set it if the files have the same format",
                 MODEL "dataset: {path: a, format: chat}\ndataset_val: {path: v, format: text}\nrun_val_every_n_steps: 5\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(data_is_a_file_or_a_list_of_files),
        cmocka_unit_test(conversations_need_no_prompt_column_to_train_on_answers_alone),
        cmocka_unit_test(prompts_with_answers_may_be_written_by_the_chat_template),
        cmocka_unit_test(loss_on_answers_alone_needs_data_that_has_answers),
        cmocka_unit_test(data_to_validate_on_that_is_never_scored_is_noted),
        cmocka_unit_test(data_to_validate_on_of_another_format_by_default_is_noted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
