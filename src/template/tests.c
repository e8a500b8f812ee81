/* template/tests.c -- the tests after `is`, and the functions that a template can call. */
#include <locale.h>
#include <time.h>

#include "template/internal.h"

#define TEST(name) static rp_status name(rp_run *run, const rp_value *self, const rp_arguments *a, rp_value *out)
#define KIND_TEST(name, condition) \
    TEST(name) { (void)run; (void)a; *out = RP_BOOL_VALUE(condition); return RP_OK; }

KIND_TEST(is_defined, self->kind != RP_V_UNDEFINED)
KIND_TEST(is_undefined, self->kind == RP_V_UNDEFINED)
KIND_TEST(is_none, self->kind == RP_V_NONE)
KIND_TEST(is_string, self->kind == RP_V_TEXT)
KIND_TEST(is_mapping, self->kind == RP_V_MAP)
KIND_TEST(is_iterable, self->kind == RP_V_TEXT || self->kind == RP_V_LIST || self->kind == RP_V_MAP || self->kind == RP_V_UNDEFINED)
KIND_TEST(is_sequence, self->kind == RP_V_TEXT || self->kind == RP_V_LIST || self->kind == RP_V_MAP || self->kind == RP_V_UNDEFINED)
KIND_TEST(is_number, rp__value_is_number(self))
KIND_TEST(is_integer, self->kind == RP_V_INT)
KIND_TEST(is_float, self->kind == RP_V_FLOAT)
KIND_TEST(is_boolean, self->kind == RP_V_BOOL)
KIND_TEST(is_true, self->kind == RP_V_BOOL && self->b)
KIND_TEST(is_false, self->kind == RP_V_BOOL && !self->b)
KIND_TEST(is_callable, self->kind == RP_V_MACRO || self->kind == RP_V_FUNCTION || self->kind == RP_V_METHOD)

static rp_status whole(rp_run *run, const rp_value *v, int64_t *out)
{
    if (v->kind != RP_V_INT && v->kind != RP_V_BOOL)
        return rp__run_fail(run, RP_ERR_FORMAT, "the test needs a whole number, not %s", rp__value_kind_name(v));
    *out = v->kind == RP_V_BOOL ? v->b : v->i;
    return RP_OK;
}

static rp_status parity(rp_run *run, const rp_value *self, bool odd, rp_value *out)
{
    int64_t n = 0;

    RP_TRY(whole(run, self, &n));
    *out = RP_BOOL_VALUE((n % 2 != 0) == odd);
    return RP_OK;
}

TEST(is_odd) { (void)a; return parity(run, self, true, out); }
TEST(is_even) { (void)a; return parity(run, self, false, out); }

TEST(is_divisibleby)
{
    int64_t n = 0, by;

    RP_TRY(whole(run, self, &n));
    RP_TRY(rp__argument_int(run, a, 0, NULL, 0, &by));
    if (!by) return rp__run_fail(run, RP_ERR_FORMAT, "a division by zero");
    *out = RP_BOOL_VALUE(by == -1 || n % by == 0);
    return RP_OK;
}

static rp_status other(rp_run *run, const rp_arguments *a, const rp_value **out)
{
    *out = rp__argument(a, 0, NULL);
    return *out ? RP_OK : rp__run_fail(run, RP_ERR_FORMAT, "the test needs something to compare with");
}

TEST(is_equal)
{
    const rp_value *with;
    bool same;

    RP_TRY(other(run, a, &with));
    RP_TRY(rp__value_equal(run, self, with, &same));
    *out = RP_BOOL_VALUE(same);
    return RP_OK;
}

/* The kinds must be equal, too: 1 equals true but is not the same. */
TEST(is_same)
{
    RP_TRY(is_equal(run, self, a, out));
    out->b = out->b && a->item[0].kind == self->kind;
    return RP_OK;
}

TEST(is_not_equal)
{
    RP_TRY(is_equal(run, self, a, out));
    out->b = !out->b;
    return RP_OK;
}

TEST(is_in)
{
    const rp_value *in;
    bool has;

    RP_TRY(other(run, a, &in));
    RP_TRY(rp__value_contains(run, in, self, &has));
    *out = RP_BOOL_VALUE(has);
    return RP_OK;
}

static rp_status ordered(rp_run *run, const rp_value *self, const rp_arguments *a, int least, int most, rp_value *out)
{
    const rp_value *with;
    int order;

    RP_TRY(other(run, a, &with));
    RP_TRY(rp__value_compare(run, self, with, &order));
    *out = RP_BOOL_VALUE(order >= least && order <= most);
    return RP_OK;
}

TEST(is_less) { return ordered(run, self, a, -1, -1, out); }
TEST(is_at_most) { return ordered(run, self, a, -1, 0, out); }
TEST(is_more) { return ordered(run, self, a, 1, 1, out); }
TEST(is_at_least) { return ordered(run, self, a, 0, 1, out); }

static rp_status in_case(rp_run *run, const rp_value *self, rp_case to, rp_value *out)
{
    rp_value text, upper, lower, made;
    bool same, letters;

    RP_TRY(rp__value_text(run, self, &text));
    RP_TRY(rp__text_case(run, text.text, RP_CASE_UPPER, &upper));
    RP_TRY(rp__text_case(run, text.text, RP_CASE_LOWER, &lower));
    made = to == RP_CASE_UPPER ? upper : lower;
    RP_TRY(rp__value_equal(run, &text, &made, &same));
    RP_TRY(rp__value_equal(run, &upper, &lower, &letters));
    *out = RP_BOOL_VALUE(same && !letters);
    return RP_OK;
}

TEST(is_upper) { (void)a; return in_case(run, self, RP_CASE_UPPER, out); }
TEST(is_lower) { (void)a; return in_case(run, self, RP_CASE_LOWER, out); }

const rp_named_call rp__template_test_table[] = {
    { "defined", is_defined }, { "undefined", is_undefined }, { "none", is_none }, { "string", is_string }, { "mapping", is_mapping },
    { "iterable", is_iterable }, { "sequence", is_sequence }, { "number", is_number }, { "integer", is_integer }, { "float", is_float },
    { "boolean", is_boolean }, { "true", is_true }, { "false", is_false }, { "callable", is_callable }, { "odd", is_odd }, { "even", is_even },
    { "divisibleby", is_divisibleby }, { "eq", is_equal }, { "equalto", is_equal }, { "sameas", is_same }, { "ne", is_not_equal },
    { "in", is_in }, { "lt", is_less }, { "lessthan", is_less }, { "le", is_at_most }, { "gt", is_more }, { "greaterthan", is_more },
    { "ge", is_at_least }, { "upper", is_upper }, { "lower", is_lower }, { 0 },
};

rp_status rp__run_test(rp_run *run, rp_text name, const rp_value *self, const rp_arguments *a, bool *out)
{
    const rp_named_call *test = rp__named_call(rp__template_test_table, name);
    rp_value v;

    if (!test)
        return rp__run_fail(run, RP_ERR_UNSUPPORTED, "the test '%.*s' is not known", (int)(name.bytes < 40 ? name.bytes : 40), name.at);
    RP_TRY(test->call(run, self, a, &v));
    *out = v.b;
    return RP_OK;
}

/* ---- functions: self is NULL ---- */

#define FUNCTION(name) TEST(name)

FUNCTION(f_range)
{
    int64_t first = 0, last, step;

    (void)self;
    RP_TRY(rp__argument_int(run, a, 0, NULL, 0, &last));
    if (a->n > 1) {
        first = last;
        RP_TRY(rp__argument_int(run, a, 1, NULL, 0, &last));
    }
    RP_TRY(rp__argument_int(run, a, 2, NULL, 1, &step));
    if (!step) return rp__run_fail(run, RP_ERR_FORMAT, "the step of a range is 0");
    RP_TRY(rp__list_new(run, out));
    for (int64_t i = first; step > 0 ? i < last : i > last;) {
        rp_value v = RP_INT_VALUE(i);
        RP_TRY(rp__run_step(run, 1));
        if (out->list->n >= RP_TEMPLATE_RANGE) return rp__run_fail(run, RP_ERR_FORMAT, "a range has more than %d numbers", RP_TEMPLATE_RANGE);
        RP_TRY(rp__list_add(run, out->list, &v));
        if (__builtin_add_overflow(i, step, &i)) break;
    }
    return RP_OK;
}

/* Builds a map from an optional map and keyword arguments, which override its entries. */
FUNCTION(f_dict)
{
    const rp_value *from = rp__argument(a, 0, NULL);

    (void)self;
    RP_TRY(rp__map_new(run, out));
    if (from && from->kind != RP_V_MAP) return rp__run_fail(run, RP_ERR_FORMAT, "'dict' needs a map, not %s", rp__value_kind_name(from));
    for (int64_t i = 0; from && i < from->map->n; i++) RP_TRY(rp__map_put(run, out->map, &from->map->pair[i].key, &from->map->pair[i].value));
    for (int k = 0; k < a->n_keywords; k++) {
        rp_value key = RP_TEXT_VALUE(a->keyword[k].name.at, a->keyword[k].name.bytes);
        RP_TRY(rp__map_put(run, out->map, &key, &a->keyword[k].value));
    }
    return RP_OK;
}

FUNCTION(f_namespace)
{
    RP_TRY(f_dict(run, self, a, out));
    out->kind = RP_V_NAMESPACE;
    return RP_OK;
}

FUNCTION(f_raise)
{
    const rp_value none = RP_TEXT_VALUE("", 0), *why = rp__argument(a, 0, "message");

    (void)self;
    RP_TRY(rp__value_text(run, why ? why : &none, out));
    return rp__run_fail(run, RP_ERR_FORMAT, "it refuses the conversation: %.*s", (int)(out->text.bytes < 400 ? out->text.bytes : 400), out->text.at);
}

/* Formats the date given to the run, in the C locale. strftime_l returns 0 for a text without room and for an empty text, so the format gets
 * one more character, which is not copied. */
FUNCTION(f_strftime)
{
    char format[128], text[2048];
    time_t second = (time_t)run->date;
    struct tm day;
    rp_text f;

    (void)self;
    RP_TRY(rp__run_step(run, RP_STEPS_DATE));
    RP_TRY(rp__argument_text(run, a, 0, "format", (rp_text){ 0 }, &f));
    if (f.bytes >= (int64_t)sizeof format - 1)
        return rp__run_fail(run, RP_ERR_FORMAT, "the format of a date has more than %d bytes", (int)sizeof format - 2);
    if (!gmtime_r(&second, &day)) return rp__run_fail(run, RP_ERR_FORMAT, "second %" PRId64 " has no date", run->date);
    memcpy(format, f.at, (size_t)f.bytes);
    memcpy(format + f.bytes, ".", 2);
    locale_t c = newlocale(LC_ALL_MASK, "C", NULL);
    if (!c) return rp__run_fail(run, RP_ERR_MEMORY, "cannot allocate the locale of a date");
    size_t written = strftime_l(text, sizeof text, format, &day, c);
    freelocale(c);
    if (!written) return rp__run_fail(run, RP_ERR_FORMAT, "a date has more than %d bytes", (int)sizeof text - 2);
    return rp__run_copy(run, text, (int64_t)written - 1, out);
}

const rp_named_call rp__template_functions[] = {
    { "range", f_range }, { "dict", f_dict }, { "namespace", f_namespace }, { "raise_exception", f_raise }, { "strftime_now", f_strftime }, { 0 },
};
