/* Claims about chat templates that are wrong: each refusal has its message, with the line where it is. */
/* ctest: device-free thread-free */
#include "rp_test.h"

#include "template/chat.h"
#include "template/internal.h"

#define NESTED "{% set n = namespace(a=[], b=[]) %}{% for i in range(500) %}{% set n.a = [n.a] %}{% set n.b = [n.b] %}{% endfor %}"

#define PARENTHESES "(((((((((((((((((((((((((((((((((((((((("

#define SUMS "+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1"

static const struct { const char *text, *message; } refused[] = {
    { "{{ 1 // 0 }}", "a division by zero" },
    { "{{ 1.5 / 0 }}", "a division by zero" },
    { "{{ '%x' % 3 }}", "'%' supports only %s and %d, one for each value" },
    { "{{ '%s' % () }}", "'%' supports only %s and %d, one for each value" },
    { "{{ {[1]: 2} }}", "a list cannot be a key" },
    { "{{ 'abc'['a':] }}", "a slice needs whole numbers, not a text" },
    { "{{ 3[1:] }}", "a whole number has no slices" },
    { "{{ 3(1) }}", "a whole number cannot be called" },
    { "{{ -'a' }}", "a text has no sign" },
    { "{{ 1 + }}", "a value was expected, not '}}'" },
    { "{{ x not foo y }}", "'}}' was expected, not 'not'" },
    { "{{ f(*x) }}", "arguments given as '*' are not supported" },
    { "{{ 1 + ] }}", "a value was expected, not ']'" },
    { "{{ [1] | tojson(indent=65) }}", "an indent of more than 64" },
    { "{{ 'a' | abs }}", "a text has no absolute value" },
    { "{{ 'a' | round }}", "a text cannot be rounded so" },
    { "{{ 3 | length }}", "a whole number has no length" },
    { "{{ [1] | tojson(1) }}", "'tojson' takes indent, ensure_ascii and sort_keys by name, and nothing else" },
    { "{{ [1] | tojson(separators=1) }}", "'tojson' takes indent, ensure_ascii and sort_keys by name, and nothing else" },
    { "{{ 1 " SUMS SUMS SUMS "}}", "an expression has more than 100 parts in a row" },
    { "{{ 'abc'[::0] }}", "the step of a slice of a text must be a whole number other than 0" },
    { "{{ [1].index(2) }}", "'index': the value is not in the list" },
    { "{# a", "a comment does not end" },
    { "{{ 99999999999999999999 }}", "'99999999999999999999' is not a number" },
    { "{{ a ? b }}", "the character '?' has no meaning here" },
    { "{% } %}", "a '}' closes nothing" },
    { "{% endfor %}", "'endfor' closes no open block" },
    { "{{ 1 is eq }}", "the test needs something to compare with" },
    { "{{ 'a'.startswith(1) }}", "'startswith' and 'endswith' need a text" },
    { "{{ 3 | items }}", "a whole number has no items" },
    { "{{ 'a'.join() }}", "'join' needs a list" },
    { "{{ {}.get() }}", "'get' needs a key" },
    { "{{ [1].index() }}", "'count' and 'index' need a value" },
    { "{% for a in [1] recursive %}{% endfor %}", "recursive loops are not supported" },
    { "{% break %}", "'break' outside of a loop" },
    { "{% macro m() %}{% generation %}{% endgeneration %}{% endmacro %}{{ m() }}",
      "'generation' inside of a macro or a set block is not supported" },
    { "{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", "a macro of 1 parameters is called with 2 values" },
    { "{{ 'a' is even }}", "the test needs a whole number, not a text" },
    { "{{ 4 is divisibleby(0) }}", "a division by zero" },
    { "{{ range(1, 5, 0) }}", "the step of a range is 0" },
    { "{{ 'a' < 3 }}", "a text and a whole number have no order" },
    { "{% for a in 3 %}{% endfor %}", "a whole number cannot be iterated over" },
    { "{{ range(200000) }}", "a range has more than 100000 numbers" },
    { "{{ range | tojson }}", "a function cannot be written as JSON" },
    { "{{ [range] }}", "a function cannot be printed" },
    { "{{ strftime_now('%Y' * 200) }}", "the format of a date has more than 126 bytes" },
    { "{{ strftime_now('%3000Y') }}", "a date has more than 2046 bytes" },
    { "{{ 1.25 | round(1, 'half') }}", "'round' knows the methods common, ceil and floor only" },
    { "{{ 9223372036854775807 | round(-1) }}", "a whole number does not fit 64 bits" },
    { "{{ '9223372036854775808' | int }}", "a whole number does not fit 64 bits" },
    { "{{ 1e19 | int }}", "a whole number does not fit 64 bits" },
    { "{{ '-1e19' | int }}", "a whole number does not fit 64 bits" },
    { NESTED "{{ n.a == n.b }}", "values nested more than 400 deep are compared" },
    { NESTED "{{ n.a < n.b }}", "values nested more than 400 deep are compared" },
    { NESTED "{{ n.a }}", "the printed value is nested more than 400 deep" },
    { "{{ a", "'{{' does not end" },
    { "{{ " PARENTHESES PARENTHESES PARENTHESES "1 }}", "it is nested more than 100 deep" },
    { "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "it is nested more than 400 deep" },
    { "{% set n = namespace(a=[]) %}{% for i in range(40) %}{% set n.a = n.a + [range(100000) | list] %}{% endfor %}", "it takes more than 67108864 bytes" },
    { "{% set a, b = [1] %}", "2 names are set to 1 values" },
    { "{{ ','.join([1]) }}", "'join' needs texts, not a whole number" },
    { "{{ 'a'.split('') }}", "the separator of 'split' must be a text that is not empty" },
    { "{{ 'a'.rsplit(none, 1) }}", "'rsplit' with a number of cuts needs a separator" },
};

static void each_refusal_has_its_message_and_its_line(void **state)
{
    rp_ctx *ctx  = test_ctx(NULL);
    json_t *none = json_object();
    char wanted[256], text[512];

    (void)state;
    for (int i = 0; i < RP_COUNT(refused); i++) {
        rp_template *t       = NULL;
        rp_template_text out = { 0 };
        snprintf(text, sizeof text, "\n%s", refused[i].text);
        snprintf(wanted, sizeof wanted, "the chat template of 'm', line 2: %s", refused[i].message);
        rp_status status = rp__template_new(ctx, "m", text, (int64_t)strlen(text), &t);
        if (status == RP_OK) status = rp__template_render(t, none, RP_CHAT_DATE, &out);
        if (status != RP_ERR_FORMAT && status != RP_ERR_UNSUPPORTED) fail_msg("'%s': status %d", refused[i].text, (int)status);
        assert_string_equal(rp_error(ctx), wanted);
        assert_null(out.text);
        rp__template_free(t);
    }
    json_decref(none);
    test_ctx_free(ctx);
}

static void a_conversation_that_is_nested_too_deep_is_refused(void **state)
{
    static const char text[] = "{{ x | length }}";
    rp_ctx *ctx    = test_ctx(NULL);
    rp_template *t = NULL;

    (void)state;
    assert_ok(ctx, rp__template_new(ctx, "m", text, (int64_t)strlen(text), &t));
    for (int more = 0; more < 2; more++) {
        rp_template_text out = { 0 };
        json_t *deep         = json_array();
        for (int i = 2; i < RP_TEMPLATE_RUN_DEPTH + more; i++) deep = json_pack("[o]", deep);
        json_t *vars     = json_pack("{so}", "x", deep);         /* the first of the levels */
        rp_status status = rp__template_render(t, vars, RP_CHAT_DATE, &out);
        assert_int_equal(status, more ? RP_ERR_FORMAT : RP_OK);
        if (more) assert_string_equal(rp_error(ctx), "the chat template of 'm', line 1: the conversation is nested more than 400 deep");
        rp__template_text_free(&out);
        json_decref(vars);
    }
    rp__template_free(t);
    test_ctx_free(ctx);
}

static void a_template_of_more_than_a_mebibyte_is_not_read(void **state)
{
    enum { BYTES = (1 << 20) + 1 };
    rp_ctx *ctx    = test_ctx(NULL);
    char *text     = malloc(BYTES);
    rp_template *t = NULL;

    (void)state;
    assert_non_null(text);
    memset(text, 'a', BYTES);
    assert_int_equal(rp__template_new(ctx, "m", text, BYTES, &t), RP_ERR_FORMAT);
    assert_string_equal(rp_error(ctx), "the chat template of 'm', line 1: it has 1048577 bytes; at most 1048576 are read");
    assert_ok(ctx, rp__template_new(ctx, "m", text, BYTES - 1, &t));
    rp__template_free(t);
    free(text);
    test_ctx_free(ctx);
}

/* Steps bound a run on fast machines, the processor's clock on slow ones: it is read every 16,384 steps. */
static void a_run_ends_when_its_time_is_over(void **state)
{
    static const char work[] = "{% for i in range(99999) %}{% endfor %}", little[] = "{{ 1 }}";
    rp_ctx *ctx          = test_ctx(NULL);
    json_t *none         = json_object();
    rp_template_text out = { 0 };
    rp_template *t       = NULL;

    (void)state;
    assert_ok(ctx, rp__template_new(ctx, "m", work, (int64_t)strlen(work), &t));
    assert_true(t->most_seconds == 1.0);
    assert_ok(ctx, rp__template_render(t, none, RP_CHAT_DATE, &out));
    rp__template_text_free(&out);
    t->most_seconds = -1;
    assert_int_equal(rp__template_render(t, none, RP_CHAT_DATE, &out), RP_ERR_UNSUPPORTED);
    assert_string_equal(rp_error(ctx), "the chat template of 'm', line 1: it takes more than -1 s of the processor's time");
    assert_null(out.text);
    rp__template_free(t);
    assert_ok(ctx, rp__template_new(ctx, "m", little, (int64_t)strlen(little), &t));
    t->most_seconds = -1;
    assert_ok(ctx, rp__template_render(t, none, RP_CHAT_DATE, &out));
    rp__template_text_free(&out);
    rp__template_free(t);
    json_decref(none);
    test_ctx_free(ctx);
}

static void a_date_behind_the_last_year_is_refused_with_its_second(void **state)
{
    static const char text[] = "{{ strftime_now('%Y') }}";
    rp_ctx *ctx          = test_ctx(NULL);
    json_t *none         = json_object();
    rp_template_text out = { 0 };
    rp_template *t       = NULL;

    (void)state;
    assert_ok(ctx, rp__template_new(ctx, "m", text, (int64_t)strlen(text), &t));
    assert_int_equal(rp__template_render(t, none, INT64_MAX, &out), RP_ERR_FORMAT);
    assert_string_equal(rp_error(ctx), "the chat template of 'm', line 1: second 9223372036854775807 has no date");
    rp__template_free(t);
    json_decref(none);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_refusal_has_its_message_and_its_line),
        cmocka_unit_test(a_conversation_that_is_nested_too_deep_is_refused),
        cmocka_unit_test(a_template_of_more_than_a_mebibyte_is_not_read),
        cmocka_unit_test(a_run_ends_when_its_time_is_over),
        cmocka_unit_test(a_date_behind_the_last_year_is_refused_with_its_second),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
