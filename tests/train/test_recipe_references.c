/* Claims about references in recipes: ${KEY} is the value of a key of the recipe, or its default. */
/* ctest: device-free thread-free */
#include "recipe_test.h"

static void references_take_other_keys_values(void **state)
{
    (void)state;
    reading r = read_one("model: {path: m.gguf}\nseed: 7\noutput_dir: "
                         "runs/${dataset.column}-${seed}$${x}$$$${y}$z\ndataset: {path: ${tokenizer.path}}\n"
                         "dataset_val: ${dataset}\ntokenizer: {path: \"t/${optimizer.lr}\"}\n",
                         "max_seq_len=${batch_size}");

    assert_int_equal(r.status, RP_ERR_CONFIG);                /* ${…} inside braces needs quotes */
    end(&r);
    r = read_one("model: {path: m.gguf}\nseed: 7\noutput_dir: runs/${dataset.column}-${seed}$${x}$$$${y}$z\ndataset:\n  "
                 "path: ${tokenizer.path}\n"
                 "dataset_val: ${dataset}\ntokenizer: {path: \"t/${optimizer.lr}\"}\n",
                 "max_seq_len=${batch_size}");
    assert_read(&r);
    assert_string_equal(r.recipe->output_dir, "runs/text-7${x}$${y}$z");
    assert_string_equal(r.recipe->dataset.path.first, "t/2e-5");
    assert_true(r.recipe->has_dataset_val);
    assert_string_equal(r.recipe->dataset_val.path.first, "t/2e-5");
    assert_int_equal(r.recipe->max_seq_len, 2);
    end(&r);
    assert_error(MODEL "output_dir: ${outpt_dir}\n", NULL,
                 "r.yaml:2: '${outpt_dir}' names no key (did you mean 'output_dir'?)");
    assert_error(MODEL "output_dir: a${plan}\nplan: ${output_dir}\n", NULL, "r.yaml:3: '${output_dir}' refers to itself");
    assert_error(MODEL "output_dir: a${model}\n", NULL,
                 "r.yaml:2: '${model}' is a list or a map, so it cannot stand inside a text");
}

static void references_that_multiply_are_refused(void **state)
{
    (void)state;
    char text[4096] = "model:\n  path: m\n  overrides:\n    a0: xxxxxxxxxxxxxxxx\n";

    for (int i = 1; i < 20; i++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "    a%d: -${model.overrides.a%d}${model.overrides.a%d}\n", i, i - 1,
                 i - 1);
    }
    reading r = read_one(text, NULL);
    assert_int_equal(r.status, RP_ERR_CONFIG);
    assert_non_null(strstr(rp_error(r.ctx), "references make a text of more than 1048576 bytes"));
    end(&r);
}

static void assert_default(const rp_recipe_key *key)
{
    bool whole = strchr("[{", key->fallback[0]);
    char text[256], wanted[256];

    snprintf(text, sizeof text, "model:\n  config: c.json\n  overrides:\n    it: x${%s}\n", key->path);
    reading r = read_one(text, NULL);
    if (whole) {
        snprintf(wanted, sizeof wanted, "r.yaml:4: '${%s}' is a list or a map, so it cannot stand inside a text", key->path);
        assert_reported(&r, wanted);
    } else {
        assert_read(&r);
        snprintf(wanted, sizeof wanted, "x%s", key->fallback);
        assert_string_equal(rp__yaml_find(r.recipe->model.overrides, "it")->text, wanted);
    }
    end(&r);
}

static void each_key_that_is_not_set_stands_for_its_default(void **state)
{
    int n = 0;

    (void)state;
    for (int i = 0; i < rp__recipe_n_keys; i++) {
        const rp_recipe_key *key = &rp__recipe_keys[i];
        if (!strcmp(key->path, "model.config") || !strcmp(key->path, "model.overrides")) continue;      /* set here */
        assert_default(key);
        n++;
    }
    assert_int_equal(n, rp__recipe_n_keys - 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(references_take_other_keys_values),
        cmocka_unit_test(references_that_multiply_are_refused),
        cmocka_unit_test(each_key_that_is_not_set_stands_for_its_default),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
