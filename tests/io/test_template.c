/* Claims about chat templates: what transformers makes of a template, these make; and no template can run away. */
/* ctest: device-free thread-free */
#include "texts_test.h"

#include "base/file.h"
#include "template/chat.h"

static rp_status render(rp_ctx *ctx, const char *text, int64_t bytes, const json_t *variables, rp_template_text *out)
{
    rp_template *t = NULL;

    RP_TRY(rp__template_new(ctx, "m", text, bytes, &t));
    json_t *none     = json_object();
    rp_status status = rp__template_render(t, variables ? variables : none, RP_CHAT_DATE, out);
    rp__template_free(t);
    json_decref(none);
    return status;
}

static void assert_spans(const rp_template_text *got, const json_t *spans, const char *what)
{
    if ((size_t)got->n_spans != json_array_size(spans)) fail_msg("%s: %d spans", what, (int)got->n_spans);
    for (size_t i = 0; i < json_array_size(spans); i++) {
        const json_t *span = json_array_get(spans, i);
        assert_int_equal(got->span[i].from, json_integer_value(json_array_get(span, 0)));
        assert_int_equal(got->span[i].to, json_integer_value(json_array_get(span, 1)));
    }
}

/* A case of a golden: its text and spans, or a refusal. */
static void assert_case(rp_ctx *ctx, const char *text, int64_t bytes, const json_t *wanted, const char *what)
{
    rp_template_text got = { 0 };
    rp_status status     = render(ctx, text, bytes, json_object_get(wanted, "vars"), &got);

    if (json_object_get(wanted, "refused")) {
        if (status != RP_ERR_FORMAT && status != RP_ERR_UNSUPPORTED) fail_msg("%s: made '%s', but is refused by transformers", what, got.text);
        return;
    }
    const char *want = json_string_value(json_object_get(wanted, "text"));
    if (status != RP_OK) fail_msg("%s: %s", what, rp_error(ctx));
    if (strcmp(got.text, want)) fail_msg("%s:\n'%s', not\n'%s'", what, got.text, want);
    assert_spans(&got, json_object_get(wanted, "spans"), what);
    rp__template_text_free(&got);
}

static void statements_and_expressions_mean_what_jinja_means(void **state)
{
    rp_ctx *ctx = test_ctx(NULL);
    json_t *all = chat_golden("language.json"), *each;
    size_t i;

    (void)state;
    assert_true(json_array_size(all) > 60);
    json_array_foreach(all, i, each) {
        const json_t *text = json_object_get(each, "template");
        assert_case(ctx, json_string_value(text), (int64_t)json_string_length(text), each, json_string_value(text));
    }
    json_decref(all);
    test_ctx_free(ctx);
}

static void two_percent_signs_in_a_format_are_one(void **state)
{
    static const char *const cases[][2] = {
        { "{{ '%d%% of %s' % (7, 'x') }}", "7% of x" }, { "{{ '%%' % () }}", "%" }, { "{{ '%%d%%%s' % 'x' }}", "%d%x" },
    };
    rp_ctx *ctx = test_ctx(NULL);

    (void)state;
    for (int i = 0; i < RP_COUNT(cases); i++) {
        rp_template_text got = { 0 };
        assert_ok(ctx, render(ctx, cases[i][0], (int64_t)strlen(cases[i][0]), NULL, &got));
        assert_string_equal(got.text, cases[i][1]);
        rp__template_text_free(&got);
    }
    test_ctx_free(ctx);
}

static void templates_of_all_families_render_as_in_transformers(void **state)
{
    rp_ctx *ctx = test_ctx(NULL);
    json_t *all = chat_golden("rendered.json"), *each;
    char path[512], *text;
    int64_t bytes;
    size_t i;

    (void)state;
    assert_true(json_array_size(all) > 200);
    json_array_foreach(all, i, each) {
        snprintf(path, sizeof path, RP_SOURCE_DIR "/tests/golden/chat/%s.jinja", json_string_value(json_object_get(each, "template")));
        assert_ok(ctx, rp__file_read(ctx, path, 1 << 20, &text, &bytes));
        char *what = json_dumps(json_object_get(each, "vars"), 0);
        assert_case(ctx, text, bytes, each, what);
        free(what);
        rp__release(text);
    }
    json_decref(all);
    test_ctx_free(ctx);
}

static void assert_refused(rp_ctx *ctx, const char *text, rp_status expected, const char *message)
{
    rp_template_text out = { 0 };
    rp_status status     = render(ctx, text, (int64_t)strlen(text), NULL, &out);

    if (status != expected) fail_msg("'%.60s': status %d (%s), not %d", text, (int)status, rp_error(ctx), (int)expected);
    assert_null(out.text);
    if (message) assert_string_equal(rp_error(ctx), message);
}

static void what_is_wrong_is_reported_with_its_line(void **state)
{
    static const struct { const char *text; rp_status status; const char *message; } cases[] = {
        { "a\n{% if x %}", RP_ERR_FORMAT, "the chat template of 'm', line 2: it ends where 'endif' was expected" },
        { "{{ 'a", RP_ERR_FORMAT, "the chat template of 'm', line 1: a string does not end" },
        { "\n\n{{ a b }}", RP_ERR_FORMAT, "the chat template of 'm', line 3: '}}' was expected, not 'b'" },
        { "{% call f() %}{% endcall %}", RP_ERR_UNSUPPORTED, "the chat template of 'm', line 1: the statement 'call' is not supported" },
        { "{{ 'a' | format }}", RP_ERR_UNSUPPORTED, "the chat template of 'm', line 1: the filter 'format' is not known" },
        { "{{ 1 is prime }}", RP_ERR_UNSUPPORTED, "the chat template of 'm', line 1: the test 'prime' is not known" },
        { "\n{{ messages[0].role }}", RP_ERR_FORMAT, "the chat template of 'm', line 2: 'messages' is not defined, but a part of it is read" },
        { "{{ 'a' + 1 }}", RP_ERR_FORMAT, "the chat template of 'm', line 1: '+' has no meaning between a text and a whole number" },
        { "a\n{{ raise_exception('only so') }}", RP_ERR_FORMAT, "the chat template of 'm', line 2: it refuses the conversation: only so" },
        { "{{ 9223372036854775807 + 1 }}", RP_ERR_FORMAT, "the chat template of 'm', line 1: a whole number does not fit 64 bits" },
        { "\xff", RP_ERR_FORMAT, "the chat template of 'm', line 1: byte 0 is not UTF-8" },
    };
    rp_ctx *ctx = test_ctx(NULL);

    (void)state;
    for (int i = 0; i < RP_COUNT(cases); i++) assert_refused(ctx, cases[i].text, cases[i].status, cases[i].message);
    test_ctx_free(ctx);
}

static void assert_refused_for(rp_ctx *ctx, const char *text, rp_status expected, const char *reason)
{
    assert_refused(ctx, text, expected, NULL);
    if (!strstr(rp_error(ctx), reason)) fail_msg("'%.60s': %s", text, rp_error(ctx));
}

/* Each would take minutes or gigabytes. Time is the machine's: what is claimed is that the limits end it. */
static void no_template_takes_more_than_its_limits(void **state)
{
    static const char *const greedy[] = {
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{% set n = namespace(x='a') %}{% for a in range(99) %}{% set n.x = n.x + n.x %}{% endfor %}",
        "{{ 'abcdefgh' * 9999999999 }}", "{{ [1] * 9999999999 }}",
        "{% macro f(n) %}{% if n %}{{ f(n - 1) ~ f(n - 1) }}{% endif %}{% endmacro %}{{ f(90) }}",
        "{% set x = 'ab' * 1000000 %}{{ x.replace('', x) }}", "{% set x = 'ab' * 1000000 %}{{ x * 1000 }}",
        "{% set x = 'ab' * 1000000 %}{{ x | list | map('replace', 'a', x) | join }}", "{{ 'a' | indent(99999999999) }}",
        "{% for i in range(99999) %}{{ 'x' * 99999 }}{% endfor %}", "{% for i in range(99999) %}{% set y = 'x' * 99999 %}{% endfor %}",
        "{% for a in range(99999) %}{% for b in range(99) %}{{ 1.1 }}{% endfor %}{% endfor %}",
        "{% set x = 'a' * 3000000 %}{% for c in x %}{% endfor %}",
        "{% set x = range(90000) %}{{ x | unique }}", "{% set x = 'a' * 9000000 %}{{ x.rfind('b' + 'a' * 4000000) }}",
        "{% set x = 'a' * 1000000 %}{% for i in range(99999) %}{{ x.strip('a') }}{% endfor %}",
    };
    rp_ctx *ctx = test_ctx(NULL);

    (void)state;
    for (int i = 0; i < RP_COUNT(greedy); i++) assert_refused_for(ctx, greedy[i], RP_ERR_UNSUPPORTED, "it takes more than ");
    assert_refused_for(ctx, "{{ range(999999999) }}", RP_ERR_FORMAT, "a range has more than ");
    assert_refused_for(ctx, "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", RP_ERR_FORMAT, "deep");
    assert_refused_for(ctx, "{% set n = namespace() %}{% set n.n = n %}{{ n }}", RP_ERR_FORMAT, "deep");
    assert_refused_for(ctx, "{{ 10 ** 400 ** 400 }}", RP_ERR_FORMAT, "64 bits");
    test_ctx_free(ctx);
}

typedef struct { int64_t steps, peak_bytes; } cost;

static cost measured(rp_ctx *ctx, const char *before, const char *text)
{
    rp_template_text out = { 0 };
    char whole[512];

    snprintf(whole, sizeof whole, "{%% set x = 'a' * 64000 %%}%s{%% set z = %s %%}", before, text);
    if (render(ctx, whole, (int64_t)strlen(whole), NULL, &out) != RP_OK) fail_msg("%s: %s", text, rp_error(ctx));
    cost found = { out.steps, out.peak_bytes };
    rp__template_text_free(&out);
    return found;
}

/* Of whatever goes over a text: a step for 64 bytes at most. */
static void every_operation_pays_for_the_bytes_it_goes_over(void **state)
{
    static const char *const each[] = {
        "x + 'b'", "x ~ 'b'", "x * 2", "x == y", "x < y", "'b' in x", "x[-1]", "x[5:-5]", "x[::2]", "x | upper", "x | lower", "x | title", "x | capitalize",
        "x | length", "x | list", "x | replace('b', 'c')", "x | replace('a', 'c')", "x | indent", "x | escape", "x | tojson", "[x] | string",
        "x | reverse", "[x, x] | join", "x.strip('a')", "x | trim", "x.lstrip('a')", "x.rstrip('a')", "x.split('b')", "x.rsplit('b')", "x.splitlines()",
        "x.split()", "x.startswith(y)", "x.endswith(y)", "x.removeprefix(y)", "x.removesuffix(y)", "x.find('b')", "x.rfind('b')", "x.count('b')",
        "x.upper()", "x.isspace()", "'1'.join([x, x])", "x % ()", "x is upper", "{x: 1}[y]", "{x: 1}.get(y)", "[x].index(y)", "[x, y] | unique",
        "[x, y] | sort", "[x, y] | min", "(x ~ '1') | int", "x | float", "x.isdigit()",
    };
    rp_ctx *ctx = test_ctx(NULL);

    (void)state;
    for (int i = 0; i < RP_COUNT(each); i++) {
        bool blank         = strstr(each[i], "trim") || strstr(each[i], "isspace") || strstr(each[i], " int") || strstr(each[i], " float");
        const char *before = blank ? "{% set x = ' ' * 64000 %}{% set y = 'a' * 64000 %}" : "{% set y = 'a' * 64000 %}";
        int64_t extra      = measured(ctx, before, each[i]).steps - measured(ctx, before, "1").steps;
        if (extra < 64000 / 64) fail_msg("%s: %" PRId64 " steps for 64000 bytes", each[i], extra);
    }
    test_ctx_free(ctx);
}

static int64_t steps_of(rp_ctx *ctx, const char *text, const json_t *variables)
{
    rp_template_text out = { 0 };

    assert_ok(ctx, render(ctx, text, (int64_t)strlen(text), variables, &out));
    int64_t steps = out.steps;
    rp__template_text_free(&out);
    return steps;
}

/* Names, and keys of maps, are looked for one after the other. */
static void looking_for_a_name_pays_for_those_it_passes(void **state)
{
    rp_ctx *ctx = test_ctx(NULL);
    json_t *map = json_object(), *all = json_pack("{s:o}", "map", map);
    char name[24];

    (void)state;
    for (int i = 0; i < 2000; i++) {
        snprintf(name, sizeof name, "k%d", i);
        json_object_set_new(map, name, json_integer(i));
    }
    int64_t one = steps_of(ctx, "{{ map is mapping }}", all);
    assert_true(steps_of(ctx, "{{ map.absent }}", all) - one >= 2000 / 16);
    assert_true(steps_of(ctx, "{{ map['absent'] }}", all) - one >= 2000 / 16);
    assert_true(steps_of(ctx, "{{ map.get('absent') }}", all) - one >= 2000 / 16);
    assert_true(steps_of(ctx, "{{ 'absent' in map }}", all) - one >= 2000 / 16);
    json_decref(all);
    test_ctx_free(ctx);
}

/* Texts that grow are counted while they do, beside all that a run made before. */
static void memory_is_counted_as_it_is_held(void **state)
{
    rp_ctx *ctx = test_ctx(NULL);

    (void)state;
    int64_t few = measured(ctx, "", "1").peak_bytes, kept = measured(ctx, "", "(x * 10) + 'b'").peak_bytes, grown = measured(ctx, "", "x | upper").peak_bytes;
    assert_in_range(few, 64000, 200000);
    assert_in_range(kept - few, 2 * 640000, 2 * 640000 + 100000);      /* both operands of + are held */
    assert_in_range(grown - few, 64000, 4 * 64000);
    test_ctx_free(ctx);
}

static char *repeated(const char *begin, const char *part, int n, const char *end)
{
    size_t at = strlen(begin), step = strlen(part);
    char *text = malloc(at + (size_t)n * step + strlen(end) + 1);

    assert_non_null(text);
    memcpy(text, begin, at);
    for (int i = 0; i < n; i++, at += step) memcpy(text + at, part, step);
    memcpy(text + at, end, strlen(end) + 1);
    return text;
}

static void depth_has_a_limit_wherever_it_comes_from(void **state)
{
    static const struct { const char *begin, *part, *end; } deep[] = {
        { "{{ ", "(", "" }, { "{{ ", "[", "" }, { "{{ ", "not ", "1 }}" }, { "{{ ", "-", "1 }}" }, { "", "{% if 1 %}", "" }, { "{{ 1", "+1", " }}" },
        { "{{ x", ".x", " }}" }, { "{{ x", "|trim", " }}" }, { "{{ x", "[0]", " }}" }, { "{{ 1", " if 1 else 1", " }}" }, { "{{ 1", " and 1", " }}" },
        { "{% if 1 %}", "{% elif 1 %}", "{% endif %}" }, { "{{ {1:", "{1:", "" }, { "{{ f", "(f", "" },
    };
    rp_ctx *ctx = test_ctx(NULL);

    (void)state;
    for (int i = 0; i < RP_COUNT(deep); i++) {
        char *text = repeated(deep[i].begin, deep[i].part, 50000, deep[i].end);
        assert_refused(ctx, text, RP_ERR_FORMAT, NULL);
        free(text);
    }
    test_ctx_free(ctx);
}

static void every_failed_allocation_is_reported(void **state)
{
    static const char text[] = "{% macro f(a) %}{{ a }}{% endmacro %}{% set x = [1, 2] %}{% for i in x %}{{ f(i) ~ {'a': i}|tojson }}{% endfor %}"
                               "{% generation %}{{ 'a b'.split() | join('-') }}{% endgeneration %}";
    rp_ctx *ctx   = test_ctx(NULL);
    test_faults f = { 0 };

    (void)state;
    while (!f.over) {
        rp_template_text out = { 0 };
        test_fault_begin(&f, ctx);
        if (test_fault_end(&f, render(ctx, text, sizeof text - 1, NULL, &out))) assert_null(out.text);
        else assert_string_equal(out.text, "1{\"a\": 1}2{\"a\": 2}a-b");
        rp__template_text_free(&out);
    }
    assert_true(f.failed > 10);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statements_and_expressions_mean_what_jinja_means),
        cmocka_unit_test(two_percent_signs_in_a_format_are_one),
        cmocka_unit_test(templates_of_all_families_render_as_in_transformers),
        cmocka_unit_test(what_is_wrong_is_reported_with_its_line),
        cmocka_unit_test(no_template_takes_more_than_its_limits),
        cmocka_unit_test(every_operation_pays_for_the_bytes_it_goes_over),
        cmocka_unit_test(looking_for_a_name_pays_for_those_it_passes),
        cmocka_unit_test(memory_is_counted_as_it_is_held),
        cmocka_unit_test(depth_has_a_limit_wherever_it_comes_from),
        cmocka_unit_test(every_failed_allocation_is_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
