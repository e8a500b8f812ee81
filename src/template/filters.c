/* template/filters.c -- filters of single values. Filters of lists are in lists.c. */
#include <math.h>

#include "template/internal.h"

#define FILTER(name) static rp_status name(rp_run *run, const rp_value *self, const rp_arguments *a, rp_value *out)

/* ---- texts: other values are printed first ---- */

FILTER(f_trim)
{
    const rp_value *chars = rp__argument(a, 0, "chars");
    rp_value text;

    RP_TRY(rp__value_text(run, self, &text));
    rp_text kept;
    RP_TRY(rp__text_strip(run, text.text, chars && chars->kind == RP_V_TEXT ? &chars->text : NULL, true, true, &kept));
    *out = RP_TEXT_VALUE(kept.at, kept.bytes);
    return RP_OK;
}

static rp_status in_case(rp_run *run, const rp_value *self, rp_case to, rp_value *out)
{
    rp_value text;

    RP_TRY(rp__value_text(run, self, &text));
    return rp__text_case(run, text.text, to, out);
}

FILTER(f_upper) { (void)a; return in_case(run, self, RP_CASE_UPPER, out); }
FILTER(f_lower) { (void)a; return in_case(run, self, RP_CASE_LOWER, out); }
FILTER(f_title) { (void)a; return in_case(run, self, RP_CASE_TITLE, out); }
FILTER(f_capitalize) { (void)a; return in_case(run, self, RP_CASE_CAPITAL, out); }
FILTER(f_string) { (void)a; return rp__value_text(run, self, out); }

FILTER(f_same)
{
    (void)run;
    (void)a;
    *out = *self;
    return RP_OK;
}

FILTER(f_replace)
{
    rp_value text;
    rp_text old, new;
    int64_t most;

    RP_TRY(rp__value_text(run, self, &text));
    RP_TRY(rp__argument_text(run, a, 0, "old", (rp_text){ 0 }, &old));
    RP_TRY(rp__argument_text(run, a, 1, "new", (rp_text){ 0 }, &new));
    RP_TRY(rp__argument_int(run, a, 2, "count", -1, &most));
    return rp__text_replace(run, text.text, old, new, most, out);
}

/* Prefixes lines with `by`: the first line only if `first`, blank lines only if `blank`. */
static rp_status indented(rp_run *run, rp_text text, rp_text by, bool first, bool blank, rp_bytes *out)
{
    for (int64_t at = 0, line = 0; at < text.bytes || (line && at == text.bytes); line++) {
        const char *found = at < text.bytes ? memchr(text.at + at, '\n', (size_t)(text.bytes - at)) : NULL;
        int64_t end       = found ? found - text.at : text.bytes;
        RP_TRY(rp__run_step(run, 1));
        if (line ? blank || end > at : first && (blank || end > at)) RP_TRY(rp__run_push(run, out, by.at, by.bytes));
        RP_TRY(rp__run_push(run, out, text.at + at, end - at + (found ? 1 : 0)));
        if (!found) break;
        at = end + 1;
    }
    return RP_OK;
}

FILTER(f_indent)
{
    const rp_value *width = rp__argument(a, 0, "width");
    rp_value text, by, blank = RP_TEXT_VALUE(" ", 1), four = RP_INT_VALUE(4);
    rp_bytes made = { 0 };

    RP_TRY(rp__value_text(run, self, &text));
    if (width && width->kind == RP_V_TEXT) by = *width;
    else RP_TRY(rp__run_arithmetic(run, (rp_text){ "*", 1 }, &blank, width ? width : &four, &by));
    rp_status status = indented(run, text.text, by.text, rp__argument_true(a, 1, "first", false), rp__argument_true(a, 2, "blank", false), &made);
    return rp__bytes_value(run, &made, status, out);
}

/* Autoescape is off in chat templates, so only an explicit filter escapes. */
FILTER(f_escape)
{
    static const struct { char from; const char *to; } marks[] = { { '&', "&amp;" }, { '<', "&lt;" }, { '>', "&gt;" }, { '\'', "&#39;" }, { '"', "&#34;" } };
    rp_value text;

    (void)a;
    RP_TRY(rp__value_text(run, self, &text));
    for (int i = 0; i < RP_COUNT(marks); i++)
        RP_TRY(rp__text_replace(run, text.text, (rp_text){ &marks[i].from, 1 }, (rp_text){ marks[i].to, (int64_t)strlen(marks[i].to) }, -1, &text));
    *out = text;
    return RP_OK;
}

FILTER(f_tojson)
{
    const rp_value *indent = rp__argument(a, -1, "indent");
    rp_bytes made          = { 0 };
    int64_t width          = -1;

    if (a->n || rp__argument(a, -1, "separators"))
        return rp__run_fail(run, RP_ERR_UNSUPPORTED, "'tojson' takes indent, ensure_ascii and sort_keys by name, and nothing else");
    if (indent) RP_TRY(rp__argument_int(run, a, -1, "indent", -1, &width));
    if (width > 64) return rp__run_fail(run, RP_ERR_FORMAT, "an indent of more than 64");
    rp_status status = rp__value_json(run, self, indent && indent->kind != RP_V_NONE ? (width < 0 ? 0 : width) : -1,
                                      rp__argument_true(a, -1, "ensure_ascii", false), rp__argument_true(a, -1, "sort_keys", false), &made);
    return rp__bytes_value(run, &made, status, out);
}

/* ---- numbers ---- */

enum { NUMBER_CHARS = 64 };

/* The text without the spaces around it; an empty one if it is longer than any number. */
static rp_status digits_of(rp_run *run, rp_text text, char digits[NUMBER_CHARS])
{
    rp_text t;

    RP_TRY(rp__text_strip(run, text, NULL, true, true, &t));
    int64_t n = t.bytes < NUMBER_CHARS ? t.bytes : 0;
    memcpy(digits, t.at, (size_t)n);
    digits[n] = 0;
    return rp__run_step(run, 2);
}

/* The value as a number; `fallback` if it is not one. */
static rp_status filters_number_of(rp_run *run, const rp_value *v, double fallback, double *out)
{
    char digits[NUMBER_CHARS];

    *out = rp__value_is_number(v) ? rp__value_number(v) : fallback;
    if (v->kind != RP_V_TEXT) return RP_OK;
    RP_TRY(digits_of(run, v->text, digits));
    if (!rp__parse_double(digits, out)) *out = fallback;
    return RP_OK;
}

/* A text of digits is read as a whole number, because a double is not exact above 2^53. */
FILTER(f_int)
{
    char digits[NUMBER_CHARS] = "";
    int64_t fallback, whole;
    double read;

    RP_TRY(rp__argument_int(run, a, 0, "default", 0, &fallback));
    if (self->kind == RP_V_TEXT) RP_TRY(digits_of(run, self->text, digits));
    RP_TRY(filters_number_of(run, self, NAN, &read));
    if (self->kind == RP_V_INT) *out = *self;
    else if (rp__parse_int(digits, INT64_MIN, INT64_MAX, &whole)) *out = RP_INT_VALUE(whole);
    else if (!isfinite(read)) *out = RP_INT_VALUE(fallback);
    else if (!(read >= -0x1p63 && read < 0x1p63)) return rp__run_overflow(run);
    else *out = RP_INT_VALUE((int64_t)read);
    return RP_OK;
}

FILTER(f_float)
{
    const rp_value *fallback = rp__argument(a, 0, "default");
    double read = 0;

    if (fallback) RP_TRY(filters_number_of(run, fallback, 0, &read));
    RP_TRY(filters_number_of(run, self, read, &read));
    *out = RP_FLOAT_VALUE(read);
    return RP_OK;
}

FILTER(f_abs)
{
    (void)a;
    if (!rp__value_is_number(self)) return rp__run_fail(run, RP_ERR_FORMAT, "%s has no absolute value", rp__value_kind_name(self));
    *out = self->kind == RP_V_FLOAT ? RP_FLOAT_VALUE(fabs(self->f)) : RP_INT_VALUE(self->kind == RP_V_BOOL ? self->b : self->i);
    if (out->kind == RP_V_INT && out->i < 0) return rp__run_arithmetic(run, (rp_text){ "-", 1 }, &RP_INT_VALUE(0), self, out);
    return RP_OK;
}

/* Exact, half to even. places: at least -15 */
static rp_status round_whole(rp_run *run, int64_t n, int64_t places, rp_value *out)
{
    int64_t unit = 1;

    for (; places < 0; places++) unit *= 10;
    int64_t rest = n % unit, twice = rest < 0 ? -2 * rest : 2 * rest, near = n - rest;
    bool away    = twice > unit || (twice == unit && near / unit % 2 != 0);
    if (away && __builtin_add_overflow(near, n < 0 ? -unit : unit, &near)) return rp__run_overflow(run);
    *out = RP_INT_VALUE(near);
    return RP_OK;
}

FILTER(f_round)
{
    rp_text how;
    int64_t places;

    RP_TRY(rp__argument_int(run, a, 0, "precision", 0, &places));
    RP_TRY(rp__argument_text(run, a, 1, "method", (rp_text){ "common", 6 }, &how));
    bool common = rp__text_is(how, "common"), up = rp__text_is(how, "ceil");
    if (!rp__value_is_number(self) || places > 15 || places < -15)
        return rp__run_fail(run, RP_ERR_FORMAT, "%s cannot be rounded so", rp__value_kind_name(self));
    if (!common && !up && !rp__text_is(how, "floor")) return rp__run_fail(run, RP_ERR_FORMAT, "'round' knows the methods common, ceil and floor only");
    if (common && self->kind != RP_V_FLOAT) return round_whole(run, self->kind == RP_V_BOOL ? self->b : self->i, places, out);
    double scale = pow(10, (double)places), scaled = rp__value_number(self) * scale;
    *out = RP_FLOAT_VALUE((common ? nearbyint(scaled) : up ? ceil(scaled) : floor(scaled)) / scale);
    return RP_OK;
}

/* ---- any value ---- */

FILTER(f_default)
{
    const rp_value *other = rp__argument(a, 0, "default_value");
    bool use              = self->kind == RP_V_UNDEFINED || (rp__argument_true(a, 1, "boolean", false) && !rp__value_true(self));

    (void)run;
    *out = !use ? *self : other ? *other : RP_TEXT_VALUE("", 0);
    return RP_OK;
}

FILTER(f_length)
{
    int64_t n;

    (void)a;
    switch (self->kind) {
    case RP_V_TEXT:
        RP_TRY(rp__text_chars(run, self->text, &n));
        *out = RP_INT_VALUE(n);
        return RP_OK;
    case RP_V_LIST: *out = RP_INT_VALUE(self->list->n); return RP_OK;
    case RP_V_MAP: *out = RP_INT_VALUE(self->map->n); return RP_OK;
    case RP_V_UNDEFINED: *out = RP_INT_VALUE(0); return RP_OK;
    default: return rp__run_fail(run, RP_ERR_FORMAT, "%s has no length", rp__value_kind_name(self));
    }
}

const rp_named_call rp__template_filter_table[] = {
    { "trim", f_trim }, { "upper", f_upper }, { "lower", f_lower }, { "title", f_title }, { "capitalize", f_capitalize }, { "string", f_string },
    { "safe", f_same }, { "replace", f_replace }, { "indent", f_indent }, { "escape", f_escape }, { "e", f_escape }, { "tojson", f_tojson },
    { "int", f_int }, { "float", f_float }, { "abs", f_abs }, { "round", f_round }, { "default", f_default }, { "d", f_default },
    { "length", f_length }, { "count", f_length }, { 0 },
};

rp_status rp__run_filter(rp_run *run, rp_text name, const rp_value *self, const rp_arguments *a, rp_value *out)
{
    const rp_named_call *filter = rp__named_call(rp__template_filter_table, name);
    rp_value made;

    if (!filter) filter = rp__named_call(rp__template_list_filter_table, name);
    if (!filter)
        return rp__run_fail(run, RP_ERR_UNSUPPORTED, "the filter '%.*s' is not known", (int)(name.bytes < 40 ? name.bytes : 40), name.at);
    RP_TRY(filter->call(run, self, a, &made));
    *out = made;
    return RP_OK;
}
