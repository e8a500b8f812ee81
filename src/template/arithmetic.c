/* template/arithmetic.c -- the operators + - * / // % ** with Python's meaning. Whole numbers have 64 bits; an overflow is an error. */
#include <math.h>

#include "template/internal.h"

static rp_status no_meaning(rp_run *run, rp_text sign, const rp_value *a, const rp_value *b)
{
    return rp__run_fail(run, RP_ERR_FORMAT, "'%.*s' has no meaning between %s and %s", (int)sign.bytes, sign.at, rp__value_kind_name(a),
                        rp__value_kind_name(b));
}

rp_status rp__run_overflow(rp_run *run) { return rp__run_fail(run, RP_ERR_FORMAT, "a whole number does not fit 64 bits"); }

static bool whole(const rp_value *v, int64_t *out)
{
    *out = v->kind == RP_V_BOOL ? v->b : v->i;
    return v->kind == RP_V_BOOL || v->kind == RP_V_INT;
}

/* Rounds towards minus infinity; the remainder has the sign of the divisor. */
static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

static bool int_power(int64_t base, int64_t exponent, int64_t *out)
{
    *out = 1;
    if (base == 0 || base == 1 || base == -1) {
        *out = base == -1 && exponent % 2 == 0 ? 1 : exponent ? base : 1;
        return true;
    }
    for (; exponent > 0; exponent--)                    /* overflows after at most 63 steps */
        if (__builtin_mul_overflow(*out, base, out)) return false;
    return true;
}

static rp_status ints(rp_run *run, rp_text sign, int64_t a, int64_t b, rp_value *out)
{
    int64_t r = 0;
    bool fits = true;

    if (rp__text_is(sign, "+")) fits = !__builtin_add_overflow(a, b, &r);
    else if (rp__text_is(sign, "-")) fits = !__builtin_sub_overflow(a, b, &r);
    else if (rp__text_is(sign, "*")) fits = !__builtin_mul_overflow(a, b, &r);
    else if (rp__text_is(sign, "**")) fits = int_power(a, b, &r);
    else if (b == 0) return rp__run_fail(run, RP_ERR_FORMAT, "a division by zero");
    else if (b == -1 && a == INT64_MIN) fits = rp__text_is(sign, "%");
    else r = rp__text_is(sign, "%") ? a - b * floor_div(a, b) : floor_div(a, b);
    *out = RP_INT_VALUE(r);
    return fits ? RP_OK : rp__run_overflow(run);
}

static rp_status floats(rp_run *run, rp_text sign, double a, double b, rp_value *out)
{
    char c = sign.at[0];
    double r;

    if ((c == '/' || c == '%') && b == 0) return rp__run_fail(run, RP_ERR_FORMAT, "a division by zero");
    if (rp__text_is(sign, "**")) r = pow(a, b);
    else if (rp__text_is(sign, "//")) r = floor(a / b);
    else if (c == '%') r = a - b * floor(a / b);
    else r = c == '+' ? a + b : c == '-' ? a - b : c == '*' ? a * b : a / b;
    *out = RP_FLOAT_VALUE(r);
    return RP_OK;
}

static rp_status numbers(rp_run *run, rp_text sign, const rp_value *a, const rp_value *b, rp_value *out)
{
    int64_t x, y;
    bool as_ints = whole(a, &x) && whole(b, &y) && !rp__text_is(sign, "/") && !(rp__text_is(sign, "**") && y < 0);

    return as_ints ? ints(run, sign, x, y, out) : floats(run, sign, rp__value_number(a), rp__value_number(b), out);
}

static rp_status add_lists(rp_run *run, const rp_value *a, const rp_value *b, rp_value *out)
{
    rp_value sum;

    RP_TRY(rp__run_step(run, a->list->n + b->list->n));
    RP_TRY(rp__list_new(run, &sum));
    sum.tuple = a->tuple;
    for (int64_t i = 0; i < a->list->n; i++) RP_TRY(rp__list_add(run, sum.list, &a->list->item[i]));
    for (int64_t i = 0; i < b->list->n; i++) RP_TRY(rp__list_add(run, sum.list, &b->list->item[i]));
    *out = sum;
    return RP_OK;
}

static rp_status add_texts(rp_run *run, rp_text a, rp_text b, rp_value *out)
{
    RP_TRY(rp__run_bytes(run, a.bytes + b.bytes, RP_BYTES_MOVED));
    char *both = rp__run_alloc(run, a.bytes + b.bytes + 1);
    if (!both) return RP_ERR_MEMORY;
    if (a.bytes) memcpy(both, a.at, (size_t)a.bytes);
    if (b.bytes) memcpy(both + a.bytes, b.at, (size_t)b.bytes);
    *out = RP_TEXT_VALUE(both, a.bytes + b.bytes);
    return RP_OK;
}

static rp_status repeat(rp_run *run, const rp_value *value, int64_t times, rp_value *out)
{
    int64_t parts = value->kind == RP_V_TEXT ? value->text.bytes : value->list->n, all;
    rp_value list;

    if (times < 0 || !parts) times = 0;
    if (__builtin_mul_overflow(parts, times, &all) || all > RP_TEMPLATE_BYTES) return rp__run_step(run, RP_TEMPLATE_STEPS + 1);     /* fails */
    RP_TRY(rp__run_step(run, value->kind == RP_V_TEXT ? all / RP_BYTES_MOVED + times / RP_BYTES_SEEN : all));
    if (value->kind == RP_V_TEXT) {
        char *text = rp__run_alloc(run, all + 1);
        if (!text) return RP_ERR_MEMORY;
        for (int64_t i = 0; i < times; i++) memcpy(text + i * parts, value->text.at, (size_t)parts);
        *out = RP_TEXT_VALUE(text, all);
        return RP_OK;
    }
    RP_TRY(rp__list_new(run, &list));
    list.tuple = value->tuple;
    for (int64_t i = 0; i < all; i++) RP_TRY(rp__list_add(run, list.list, &value->list->item[i % parts]));
    *out = list;
    return RP_OK;
}

/* Computes 'a %s' % x. Only %s, %d and %% are supported. */
static rp_status format(rp_run *run, rp_text text, const rp_value *b, rp_value *out)
{
    rp_bytes made  = { 0 };
    int64_t used   = 0, given = b->kind == RP_V_LIST && b->tuple ? b->list->n : 1;
    rp_status status = rp__run_bytes(run, text.bytes, RP_BYTES_MADE);

    for (int64_t i = 0; i < text.bytes && status == RP_OK; i++) {
        char next = i + 1 < text.bytes ? text.at[i + 1] : 0;
        rp_value part;
        if (text.at[i] != '%') status = rp__run_push(run, &made, text.at + i, 1);
        else if (next == '%') status = rp__run_push(run, &made, text.at + i++, 1);
        else if ((next == 's' || next == 'd') && used < given) {
            status = rp__value_text(run, b->kind == RP_V_LIST && b->tuple ? &b->list->item[used] : b, &part);
            if (status == RP_OK) status = rp__run_push(run, &made, part.text.at, part.text.bytes);
            used++;
            i++;
        } else status = rp__run_fail(run, RP_ERR_UNSUPPORTED, "'%%' supports only %%s and %%d, one for each value");
    }
    return rp__bytes_value(run, &made, status, out);
}

rp_status rp__run_arithmetic(rp_run *run, rp_text sign, const rp_value *a, const rp_value *b, rp_value *out)
{
    bool add = rp__text_is(sign, "+"), times = rp__text_is(sign, "*");
    bool long_a = a->kind == RP_V_TEXT || a->kind == RP_V_LIST, long_b = b->kind == RP_V_TEXT || b->kind == RP_V_LIST;
    int64_t n;

    if (rp__value_is_number(a) && rp__value_is_number(b)) return numbers(run, sign, a, b, out);
    if (add && a->kind == RP_V_TEXT && b->kind == RP_V_TEXT) return add_texts(run, a->text, b->text, out);
    if (add && a->kind == RP_V_LIST && b->kind == RP_V_LIST && a->tuple == b->tuple) return add_lists(run, a, b, out);
    if (times && long_a && whole(b, &n)) return repeat(run, a, n, out);
    if (times && long_b && whole(a, &n)) return repeat(run, b, n, out);
    if (a->kind == RP_V_TEXT && rp__text_is(sign, "%")) return format(run, a->text, b, out);
    return no_meaning(run, sign, a, b);
}
