/* template/eval.c -- evaluates expressions. */
#include "template/internal.h"

typedef rp_status (*eval_fn)(rp_run *run, const rp_node *n, rp_value *out);

/* Reports the use of an undefined value by its name. */
static rp_status not_defined(rp_run *run, const rp_value *v, const char *use)
{
    int n = (int)(v->text.bytes < 60 ? v->text.bytes : 60);

    return rp__run_fail(run, RP_ERR_FORMAT, "'%.*s' is not defined, but %s", n, v->text.bytes ? v->text.at : "", use);
}

/* ---- names and literals ---- */

static rp_status eval_constant(rp_run *run, const rp_node *n, rp_value *out)
{
    (void)run;
    *out = n->constant;
    return RP_OK;
}

static rp_status eval_name(rp_run *run, const rp_node *n, rp_value *out) { return rp__run_lookup(run, n->name, out); }

static rp_status eval_list(rp_run *run, const rp_node *n, rp_value *out)
{
    rp_value v;

    RP_TRY(rp__list_new(run, out));
    out->tuple = n->kind == RP_N_TUPLE;
    for (const rp_node *item = n->body; item; item = item->next) {
        RP_TRY(rp__run_eval(run, item, &v));
        RP_TRY(rp__list_add(run, out->list, &v));
    }
    return RP_OK;
}

static rp_status eval_map(rp_run *run, const rp_node *n, rp_value *out)
{
    rp_value key, v;

    RP_TRY(rp__map_new(run, out));
    for (const rp_node *item = n->body; item; item = item->next->next) {
        RP_TRY(rp__run_eval(run, item, &key));
        RP_TRY(rp__run_eval(run, item->next, &v));
        if (key.kind == RP_V_LIST || key.kind == RP_V_MAP)
            return rp__run_fail(run, RP_ERR_FORMAT, "%s cannot be a key", rp__value_kind_name(&key));
        RP_TRY(rp__map_put(run, out->map, &key, &v));
    }
    return RP_OK;
}

/* ---- parts of values ---- */

static rp_status bound(rp_run *run, const rp_named_call *table, const rp_value *self, rp_text name, rp_value *out, bool *found)
{
    const rp_named_call *method = rp__named_call(table, name);

    *found = method != NULL;
    if (!method) return RP_OK;
    rp_bound *b = rp__run_alloc(run, sizeof *b);
    if (!b) return RP_ERR_MEMORY;
    *b   = (rp_bound){ *self, method };
    *out = (rp_value){ .kind = RP_V_METHOD, .method = b };
    return RP_OK;
}

static const rp_named_call *methods_of(const rp_value *v)
{
    return v->kind == RP_V_TEXT ? rp__template_text_methods : v->kind == RP_V_MAP ? rp__template_map_methods
           : v->kind == RP_V_LIST ? rp__template_list_methods : NULL;
}

/* x.name: methods take precedence over entries, as in Jinja, where getattr precedes getitem. */
rp_status rp__run_attribute(rp_run *run, const rp_value *of, rp_text name, rp_value *out)
{
    const rp_named_call *methods = methods_of(of);
    bool found                   = false;

    if (of->kind == RP_V_UNDEFINED) return not_defined(run, of, "a part of it is read");
    if (methods) RP_TRY(bound(run, methods, of, name, out, &found));
    if (found) return RP_OK;
    const rp_value *entry = NULL;
    if (of->kind == RP_V_MAP || of->kind == RP_V_NAMESPACE) RP_TRY(rp__map_find(run, of->map, name, &entry));
    *out = entry ? *entry : (rp_value){ .kind = RP_V_UNDEFINED, .text = name };
    return RP_OK;
}

static rp_status eval_attribute(rp_run *run, const rp_node *n, rp_value *out)
{
    rp_value of;

    RP_TRY(rp__run_eval(run, n->a, &of));
    return rp__run_attribute(run, &of, n->name, out);
}

static rp_status character(rp_run *run, rp_text text, int64_t i, rp_value *out)
{
    int64_t chars, at;

    RP_TRY(rp__text_chars(run, text, &chars));
    if (i < 0) i += chars;
    if (i < 0 || i >= chars) return RP_OK;
    RP_TRY(rp__text_at(run, text, i, &at));
    int64_t end = at + 1;
    while (end < text.bytes && ((uint8_t)text.at[end] & 0xc0) == 0x80) end++;
    *out = RP_TEXT_VALUE(text.at + at, end - at);
    return RP_OK;
}

/* x[key]: entries take precedence over methods. A missing entry is undefined. */
rp_status rp__run_item(rp_run *run, const rp_value *of, const rp_value *key, rp_value *out)
{
    const rp_value *entry = NULL;
    rp_text name          = key->kind == RP_V_TEXT ? key->text : (rp_text){ "an item", 7 };
    bool whole            = key->kind == RP_V_INT || key->kind == RP_V_BOOL;

    if (of->kind == RP_V_UNDEFINED) return not_defined(run, of, "a part of it is read");
    *out = (rp_value){ .kind = RP_V_UNDEFINED, .text = name };
    if (of->kind == RP_V_MAP) RP_TRY(rp__map_get(run, of->map, key, &entry));
    if (entry) {
        *out = *entry;
        return RP_OK;
    }
    int64_t i = whole ? (key->kind == RP_V_BOOL ? key->b : key->i) : 0;
    if (whole && of->kind == RP_V_TEXT) return character(run, of->text, i, out);
    if (whole && of->kind == RP_V_LIST) {
        if (i < 0) i += of->list->n;
        if (i >= 0 && i < of->list->n) *out = of->list->item[i];
        return RP_OK;
    }
    return key->kind == RP_V_TEXT ? rp__run_attribute(run, of, key->text, out) : RP_OK;
}

static rp_status eval_item(rp_run *run, const rp_node *n, rp_value *out)
{
    rp_value of, key;

    RP_TRY(rp__run_eval(run, n->a, &of));
    RP_TRY(rp__run_eval(run, n->b, &key));
    return rp__run_item(run, &of, &key, out);
}

/* ---- slices, as in Python ---- */

static rp_status bound_of(rp_run *run, const rp_node *n, int64_t length, int64_t step, int64_t fallback, int64_t *out)
{
    rp_value v = RP_NONE_VALUE;

    if (n) RP_TRY(rp__run_eval(run, n, &v));
    *out = fallback;
    if (v.kind == RP_V_NONE) return RP_OK;
    if (v.kind != RP_V_INT) return rp__run_fail(run, RP_ERR_FORMAT, "a slice needs whole numbers, not %s", rp__value_kind_name(&v));
    int64_t i = v.i < 0 ? (v.i < -length ? -1 : v.i + length) : v.i, least = step < 0 ? -1 : 0, most = step < 0 ? length - 1 : length;
    *out = i < least ? least : i > most ? most : i;
    if (v.i < 0 && v.i < -length) *out = least;
    return RP_OK;
}

static rp_status slice_list(rp_run *run, const rp_list *from, int64_t first, int64_t last, int64_t step, rp_list *to)
{
    for (int64_t i = first; step > 0 ? i < last : i > last; i += step) {
        RP_TRY(rp__run_step(run, 1));
        RP_TRY(rp__list_add(run, to, &from->item[i]));
        if (step > 0 ? i > last - step : i < last - step) break;       /* a large step would pass the end and overflow int64 */
    }
    return RP_OK;
}

static rp_status slice_of(rp_run *run, const rp_node *n, const rp_value *of, int64_t length, int64_t *first, int64_t *last, int64_t *step)
{
    rp_value v = RP_INT_VALUE(1);

    if (n->other) RP_TRY(rp__run_eval(run, n->other, &v));
    if (v.kind == RP_V_NONE) v = RP_INT_VALUE(1);
    if (v.kind != RP_V_INT || v.i == 0 || v.i == INT64_MIN)
        return rp__run_fail(run, RP_ERR_FORMAT, "the step of a slice of %s must be a whole number other than 0", rp__value_kind_name(of));
    *step = v.i;
    RP_TRY(bound_of(run, n->b, length, *step, *step < 0 ? length - 1 : 0, first));
    return bound_of(run, n->c, length, *step, *step < 0 ? -1 : length, last);
}

static rp_status eval_slice(rp_run *run, const rp_node *n, rp_value *out)
{
    rp_value of;
    rp_list *items = NULL;
    int64_t first, last, step = 1;

    RP_TRY(rp__run_eval(run, n->a, &of));
    if (of.kind == RP_V_UNDEFINED) return not_defined(run, &of, "a part of it is read");
    if (of.kind != RP_V_LIST && of.kind != RP_V_TEXT) return rp__run_fail(run, RP_ERR_FORMAT, "%s has no slices", rp__value_kind_name(&of));
    int64_t length = of.kind == RP_V_LIST ? of.list->n : 0, from, to;
    if (of.kind == RP_V_TEXT) RP_TRY(rp__text_chars(run, of.text, &length));
    RP_TRY(slice_of(run, n, &of, length, &first, &last, &step));
    if (of.kind == RP_V_TEXT && step == 1) {
        RP_TRY(rp__text_at(run, of.text, first, &from));
        RP_TRY(rp__text_at(run, of.text, last, &to));
        *out = RP_TEXT_VALUE(of.text.at + from, to > from ? to - from : 0);
        return RP_OK;
    }
    RP_TRY(rp__value_items(run, &of, &items));
    RP_TRY(rp__list_new(run, out));
    out->tuple = of.tuple;
    RP_TRY(slice_list(run, items, first, last, step, out->list));
    return of.kind == RP_V_TEXT ? rp__text_join(run, (rp_text){ "", 0 }, out->list, true, out) : RP_OK;
}

/* ---- calls ---- */

static rp_status eval_arguments(rp_run *run, const rp_node *list, rp_arguments *out)
{
    int all = 0;

    *out = (rp_arguments){ 0 };
    for (const rp_node *n = list; n; n = n->next) all++;
    if (!all) return RP_OK;
    out->item    = rp__run_alloc(run, all * (int64_t)sizeof *out->item);
    out->keyword = out->item ? rp__run_alloc(run, all * (int64_t)sizeof *out->keyword) : NULL;
    if (!out->keyword) return RP_ERR_MEMORY;
    for (const rp_node *n = list; n; n = n->next) {
        if (n->kind == RP_N_KEYWORD) {
            out->keyword[out->n_keywords].name = n->name;
            RP_TRY(rp__run_eval(run, n->b, &out->keyword[out->n_keywords++].value));
        } else RP_TRY(rp__run_eval(run, n, &out->item[out->n++]));
    }
    return RP_OK;
}

static rp_status eval_call(rp_run *run, const rp_node *n, rp_value *out)
{
    rp_arguments a;
    rp_value f;

    RP_TRY(rp__run_eval(run, n->a, &f));
    RP_TRY(eval_arguments(run, n->body, &a));
    run->line = n->line;
    if (f.kind == RP_V_MACRO) return rp__run_call_macro(run, f.macro, &a, out);
    if (f.kind == RP_V_FUNCTION) return f.function->call(run, NULL, &a, out);
    if (f.kind == RP_V_METHOD) return f.method->method->call(run, &f.method->self, &a, out);
    if (f.kind == RP_V_UNDEFINED) return not_defined(run, &f, "it is called");
    return rp__run_fail(run, RP_ERR_FORMAT, "%s cannot be called", rp__value_kind_name(&f));
}

static rp_status eval_filter(rp_run *run, const rp_node *n, rp_value *out)
{
    rp_arguments a;
    rp_value self;

    RP_TRY(rp__run_eval(run, n->a, &self));
    RP_TRY(eval_arguments(run, n->body, &a));
    run->line = n->line;
    return rp__run_filter(run, n->name, &self, &a, out);
}

static rp_status eval_test(rp_run *run, const rp_node *n, rp_value *out)
{
    rp_arguments a;
    rp_value self;
    bool holds;

    RP_TRY(rp__run_eval(run, n->a, &self));
    RP_TRY(eval_arguments(run, n->body, &a));
    run->line = n->line;
    RP_TRY(rp__run_test(run, n->name, &self, &a, &holds));
    *out = RP_BOOL_VALUE(holds != n->flag);
    return RP_OK;
}

/* ---- truth ---- */

static rp_status eval_not(rp_run *run, const rp_node *n, rp_value *out)
{
    rp_value v;

    RP_TRY(rp__run_eval(run, n->a, &v));
    *out = RP_BOOL_VALUE(!rp__value_true(&v));
    return RP_OK;
}

/* As in Python, `and` and `or` return one of their operands. */
static rp_status eval_logic(rp_run *run, const rp_node *n, rp_value *out)
{
    RP_TRY(rp__run_eval(run, n->a, out));
    return rp__value_true(out) == (n->kind == RP_N_AND) ? rp__run_eval(run, n->b, out) : RP_OK;
}

static rp_status eval_choice(rp_run *run, const rp_node *n, rp_value *out)
{
    rp_value v;

    RP_TRY(rp__run_eval(run, n->b, &v));
    if (rp__value_true(&v)) return rp__run_eval(run, n->a, out);
    *out = (rp_value){ .kind = RP_V_UNDEFINED, .text = { "a choice without else", 21 } };
    return n->c ? rp__run_eval(run, n->c, out) : RP_OK;
}

static rp_status holds(rp_run *run, rp_text sign, const rp_value *a, const rp_value *b, bool *out)
{
    int order;
    char c = sign.at[0];

    if (rp__text_is(sign, "in") || rp__text_is(sign, "not in")) {
        RP_TRY(rp__value_contains(run, b, a, out));
        *out = *out != (c == 'n');
        return RP_OK;
    }
    if (c == '=' || c == '!') {
        RP_TRY(rp__value_equal(run, a, b, out));
        *out = *out == (c == '=');
        return RP_OK;
    }
    RP_TRY(rp__value_compare(run, a, b, &order));
    *out = order == 0 ? sign.bytes == 2 : (order < 0) == (c == '<');
    return RP_OK;
}

/* a < b < c holds if both comparisons hold. */
static rp_status eval_compare(rp_run *run, const rp_node *n, rp_value *out)
{
    rp_value left, right;
    bool all = true;

    RP_TRY(rp__run_eval(run, n->a, &left));
    for (const rp_node *part = n->body; part && all; part = part->next, left = right) {
        RP_TRY(rp__run_eval(run, part->a, &right));
        RP_TRY(holds(run, part->name, &left, &right, &all));
    }
    *out = RP_BOOL_VALUE(all);
    return RP_OK;
}

/* ---- numbers and texts ---- */

static rp_status eval_arithmetic(rp_run *run, const rp_node *n, rp_value *out)
{
    rp_value a, b;

    RP_TRY(rp__run_eval(run, n->a, &a));
    RP_TRY(rp__run_eval(run, n->b, &b));
    run->line = n->line;
    if (a.kind == RP_V_UNDEFINED || b.kind == RP_V_UNDEFINED)
        return not_defined(run, a.kind == RP_V_UNDEFINED ? &a : &b, "it is used in a computation");
    return rp__run_arithmetic(run, n->name, &a, &b, out);
}

static rp_status eval_sign(rp_run *run, const rp_node *n, rp_value *out)
{
    const rp_value zero = RP_INT_VALUE(0);
    rp_value v;

    RP_TRY(rp__run_eval(run, n->a, &v));
    if (v.kind == RP_V_FLOAT) {
        *out = RP_FLOAT_VALUE(n->kind == RP_N_NEGATIVE ? -v.f : v.f);
        return RP_OK;
    }
    if (!rp__value_is_number(&v)) return rp__run_fail(run, RP_ERR_FORMAT, "%s has no sign", rp__value_kind_name(&v));
    return rp__run_arithmetic(run, n->kind == RP_N_NEGATIVE ? (rp_text){ "-", 1 } : (rp_text){ "+", 1 }, &zero, &v, out);
}

static rp_status eval_concat(rp_run *run, const rp_node *n, rp_value *out)
{
    rp_value list;

    RP_TRY(eval_list(run, n, &list));
    return rp__text_join(run, (rp_text){ "", 0 }, list.list, false, out);
}

/* ---- dispatch ---- */

static const eval_fn evals[] = {
    [RP_N_CONSTANT] = eval_constant, [RP_N_NAME] = eval_name,           [RP_N_LIST] = eval_list,       [RP_N_TUPLE] = eval_list,
    [RP_N_MAP] = eval_map,           [RP_N_ATTRIBUTE] = eval_attribute, [RP_N_ITEM] = eval_item,       [RP_N_SLICE] = eval_slice,
    [RP_N_CALL] = eval_call,         [RP_N_FILTER] = eval_filter,       [RP_N_TEST] = eval_test,       [RP_N_NOT] = eval_not,
    [RP_N_NEGATIVE] = eval_sign,     [RP_N_POSITIVE] = eval_sign,       [RP_N_AND] = eval_logic,       [RP_N_OR] = eval_logic,
    [RP_N_COMPARE] = eval_compare,   [RP_N_ARITHMETIC] = eval_arithmetic, [RP_N_CONCAT] = eval_concat, [RP_N_CHOICE] = eval_choice,
};

rp_status rp__run_eval(rp_run *run, const rp_node *n, rp_value *out)
{
    rp_value made;

    run->line = n->line;
    RP_TRY(rp__run_step(run, 1));
    if (++run->depth > RP_TEMPLATE_RUN_DEPTH) return rp__run_fail(run, RP_ERR_FORMAT, "it is nested more than %d deep", RP_TEMPLATE_RUN_DEPTH);
    RP_TRY(evals[n->kind](run, n, &made));
    run->depth--;
    *out = made;
    return RP_OK;
}
