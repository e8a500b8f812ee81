/* Claims about documents: what is read, what is refused and where. */
/* ctest: device-free thread-free */
#include "rp_test.h"

#include "base/module_path.h"
#include "base/yaml.h"

typedef struct { rp_ctx *ctx; rp_yaml_doc doc; rp_report report; rp_yaml_node *root; rp_status status; } reading;

static reading read_text(const char *text, int64_t bytes)
{
    reading r = { .ctx = test_ctx(&(rp_ctx_options){ .shapes_only = true }) };

    rp__report_open(&r.report, r.ctx);
    r.doc.bump.ctx = r.ctx;
    r.status       = rp__yaml_parse(&r.doc, "a.yaml", text, bytes, &r.report, &r.root);
    return r;
}

static void end(reading *r)
{
    rp__bump_free(&r->doc.bump);
    rp__report_close(&r->report);
    test_ctx_free(r->ctx);
}

static void assert_refused(const char *text, int line, const char *part)
{
    reading r = read_text(text, (int64_t)strlen(text));
    char shown[1024] = "";

    if (r.report.first) rp__report_line(r.report.first, shown, sizeof shown);
    if (r.report.n_errors == 0 || r.report.first->place.line != line || !strstr(shown, part))
        fail_msg("'%s' gave '%s', not line %d and '%s'", text, shown, line, part);
    end(&r);
}

static void json_and_yaml_of_one_recipe_are_the_same_tree(void **state)
{
    (void)state;
    const char *yaml = "a: 1\nb: [x, 'y']\nc:\n  d: no\n  e: \"t\\tu\"\n";
    const char *json = "\xEF\xBB\xBF{\"a\":1,\r\n\t\"b\":[\"x\",\"y\"],\"c\":{\"d\":no,\"e\":\"t\\tu\"}}";
    reading y = read_text(yaml, (int64_t)strlen(yaml)), j = read_text(json, (int64_t)strlen(json));

    assert_int_equal(y.status, RP_OK);
    assert_int_equal(j.status, RP_OK);
    for (reading *r = &y; r; r = r == &y ? &j : NULL) {
        assert_string_equal(rp__yaml_find(r->root, "a")->text, "1");
        assert_false(rp__yaml_find(r->root, "a")->quoted);
        assert_int_equal(rp__yaml_find(r->root, "b")->n, 2);
        assert_true(rp__yaml_find(r->root, "b")->last->quoted);
        assert_string_equal(rp__yaml_find(rp__yaml_find(r->root, "c"), "e")->text, "t\tu");
    }
    assert_int_equal(rp__yaml_find(rp__yaml_find(y.root, "c"), "e")->place.line, 5);
    end(&y);
    end(&j);
}

static void refusals_name_the_line(void **state)
{
    (void)state;
    assert_refused("a: 1\nb: 2\na: 3\n", 3, "key 'a' is set twice, first on line 1");
    assert_refused("a: 1\nb: {c: 1, c: 2}\n", 2, "key 'c' is set twice, first on line 2");
    assert_refused("a: 1\n---\nb: 1\n", 2, "a second document begins");
    assert_refused("a: *.txt\n", 1, "put quotes around a word that begins with '*'");
    assert_refused("a: *txt\n", 1, "'*txt' names no anchor");
    assert_refused("a: {b: ${c}}\n", 1, "put quotes around a '${...}'");
    assert_refused("a:\n\tb: 1\n", 2, "not tabs");
    assert_refused("? [a, b]\n: 1\n", 1, "a key must be a plain word");
    assert_refused("a: \"x\\0y\"\n", 1, "NUL");
    assert_refused("a: !python/object x\n", 1, "cannot read the tag '!python/object'");
    assert_refused("a: 1\nb: !python/tuple [x]\n", 2, "cannot read the tag '!python/tuple'");
    assert_refused("a: 1\nb: !!set {x: y}\n", 2, "cannot read the tag 'tag:yaml.org,2002:set'");
    assert_refused("a: [1, 2\n", 2, "cannot read this as YAML");
    assert_refused("a: &x [*x]\n", 1, "'*x' names no anchor");
    assert_refused("a: 1\nb: \xff\n", 2, "invalid leading UTF-8 octet");
    assert_refused("<<: 3\n", 1, "'<<' wants a map");
}

static void a_document_beyond_a_mebibyte_is_refused(void **state)
{
    (void)state;
    char *text = calloc(1, RP_YAML_MAX_BYTES + 2), shown[256];

    assert_non_null(text);
    memset(text, ' ', RP_YAML_MAX_BYTES + 1);
    memcpy(text, "a: 1", 4);
    reading fits = read_text(text, RP_YAML_MAX_BYTES), more = read_text(text, RP_YAML_MAX_BYTES + 1);
    assert_int_equal(fits.status, RP_OK);
    assert_int_equal(more.status, RP_ERR_CONFIG);
    assert_string_equal(rp__report_line(more.report.first, shown, sizeof shown), "a.yaml: too large: more than 1048576 bytes");
    end(&fits);
    end(&more);
    free(text);
}

static void deep_nesting_is_refused_and_64_levels_are_not(void **state)
{
    (void)state;
    char text[200];

    for (int depth = 63; depth <= 66; depth++) {
        memset(text, '[', (size_t)depth);
        memset(text + depth, ']', (size_t)depth);
        reading r = read_text(text, 2 * depth);
        assert_int_equal(r.status, depth <= 64 ? RP_OK : RP_ERR_CONFIG);
        end(&r);
    }
}

static void aliases_that_multiply_are_refused(void **state)
{
    (void)state;
    char text[2048] = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";

    for (int i = 1; i < 9; i++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "a%d: &a%d [*a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d]\n", i, i,
                 i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1);
    }
    assert_refused(text, 6, "more values than a recipe may hold");
}

static void merge_keys_fill_in_what_a_map_lacks(void **state)
{
    (void)state;
    const char *text = "base: &base {a: 1, b: 2}\nuse:\n  <<: *base\n  b: 3\n";
    reading r        = read_text(text, (int64_t)strlen(text));
    rp_yaml_node *use = rp__yaml_find(r.root, "use");

    assert_int_equal(r.status, RP_OK);
    assert_int_equal(use->n, 2);
    assert_string_equal(rp__yaml_find(use, "a")->text, "1");
    assert_string_equal(rp__yaml_find(use, "b")->text, "3");
    end(&r);
}

static void a_written_tree_reads_back(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",          "null", "~",  "true", "a: b", "# x", "- y", "*.txt", "line\nbreak", " lead", "\xC3\xA9\xF0\x9F\x98\x80",
        "\x7f\x1b",  "'",    "\"", "\\",   "010",  "a,b", "{",   "[]",    "%",           "@x",    "tab\there",
        "trailing ",
    };
    rp_place place = { "a test", 0 };
    reading r      = read_text("{}", 2);
    const char *out;

    rp_yaml_node *list = rp__yaml_new(&r.doc, RP_YAML_LIST, place), *map = rp__yaml_new(&r.doc, RP_YAML_MAP, place);
    for (int i = 0; i < RP_COUNT(texts); i++) rp__yaml_append(list, rp__yaml_scalar(&r.doc, texts[i], true, place));
    list->key = "<<";
    rp__yaml_append(map, list);
    assert_int_equal(rp__yaml_write(&r.doc.bump, map, &out), RP_OK);
    reading back = read_text(out, (int64_t)strlen(out));
    assert_int_equal(back.status, RP_OK);
    const rp_yaml_node *each = rp__yaml_find(back.root, "<<")->first;
    for (int i = 0; i < RP_COUNT(texts); i++, each = each->next) {
        assert_string_equal(each->text, texts[i]);
        assert_true(each->quoted);
    }
    end(&back);
    end(&r);
}

static void a_glob_names_a_path_one_above_it_or_an_end(void **state)
{
    (void)state;
    static const struct { const char *path, *glob; bool called, within, at_end; } cases[] = {
        { "layers.3.mlp.gate", "layers.*.mlp.gate", true, true, true },
        { "layers.3.mlp.gate", "layers.*.mlp", false, true, false },
        { "layers.3.mlp.gate", "mlp.gate", false, false, true },
        { "layers.3.mlp.gate", "lp.gate", false, false, false },
        { "layers.3", "layers.3", true, true, true },
        { "layers.30.mlp", "layers.3", false, false, false },
        { "norm", "norm", true, true, true },
        { "norm", "", false, false, false },
    };

    for (int i = 0; i < RP_COUNT(cases); i++) {
        assert_int_equal(rp__path_called(cases[i].path, cases[i].glob, RP_CALLED), cases[i].called);
        assert_int_equal(rp__path_called(cases[i].path, cases[i].glob, RP_CALLED_WITHIN), cases[i].within);
        assert_int_equal(rp__path_called(cases[i].path, cases[i].glob, RP_CALLED_AT_END), cases[i].at_end);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_and_yaml_of_one_recipe_are_the_same_tree),
        cmocka_unit_test(refusals_name_the_line),
        cmocka_unit_test(a_document_beyond_a_mebibyte_is_refused),
        cmocka_unit_test(deep_nesting_is_refused_and_64_levels_are_not),
        cmocka_unit_test(aliases_that_multiply_are_refused),
        cmocka_unit_test(merge_keys_fill_in_what_a_map_lacks),
        cmocka_unit_test(a_written_tree_reads_back),
        cmocka_unit_test(a_glob_names_a_path_one_above_it_or_an_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
