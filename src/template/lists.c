/* template/lists.c -- filters of lists and of other values that a loop can visit. */
#include "template/internal.h"

#define FILTER(name) static rp_status name(rp_run *run, const rp_value *self, const rp_arguments *a, rp_value *out)

static const rp_value nothing = { .kind = RP_V_UNDEFINED, .text = { "an item of an empty list", 24 } };

/* Follows a path such as "a.b.0" through nested values. */
static rp_status part_of(rp_run *run, const rp_value *of, rp_text path, rp_value *out)
{
    rp_value at = *of;

    while (path.bytes) {
        const char *dot = memchr(path.at, '.', (size_t)path.bytes);
        int64_t n       = dot ? dot - path.at : path.bytes, index;
        char digits[24] = "";
        rp_value key    = RP_TEXT_VALUE(path.at, n);
        if (n < (int64_t)sizeof digits) memcpy(digits, path.at, (size_t)n);
        if (rp__parse_int(digits, 0, INT64_MAX, &index)) key = RP_INT_VALUE(index);
        RP_TRY(rp__run_item(run, &at, &key, out));
        at   = *out;
        path = (rp_text){ path.at + n + (dot ? 1 : 0), path.bytes - n - (dot ? 1 : 0) };
    }
    *out = at;
    return RP_OK;
}

static rp_status attribute_argument(rp_run *run, const rp_arguments *a, int i, rp_text *out)
{
    return rp__argument_text(run, a, i, "attribute", (rp_text){ "", 0 }, out);
}

/* ---- ends and order ---- */

FILTER(f_first)
{
    rp_list *items;

    (void)a;
    RP_TRY(rp__value_items(run, self, &items));
    *out = items->n ? items->item[0] : nothing;
    return RP_OK;
}

FILTER(f_last)
{
    rp_list *items;

    (void)a;
    RP_TRY(rp__value_items(run, self, &items));
    *out = items->n ? items->item[items->n - 1] : nothing;
    return RP_OK;
}

FILTER(f_list)
{
    rp_list *items;

    (void)a;
    RP_TRY(rp__value_items(run, self, &items));
    *out = (rp_value){ .kind = RP_V_LIST, .list = items };
    return RP_OK;
}

FILTER(f_reverse)
{
    rp_list *items;
    rp_value list;

    (void)a;
    RP_TRY(rp__value_items(run, self, &items));
    RP_TRY(rp__run_step(run, items->n));
    RP_TRY(rp__list_new(run, &list));
    for (int64_t i = items->n - 1; i >= 0; i--) RP_TRY(rp__list_add(run, list.list, &items->item[i]));
    *out = list;
    return self->kind == RP_V_TEXT ? rp__text_join(run, (rp_text){ "", 0 }, list.list, true, out) : RP_OK;
}

typedef struct { rp_run *run; bool down, cased; rp_text attribute; } order;

static rp_status sort_key(const order *o, const rp_value *v, rp_value *out)
{
    RP_TRY(part_of(o->run, v, o->attribute, out));
    return out->kind == RP_V_TEXT && !o->cased ? rp__text_case(o->run, out->text, RP_CASE_LOWER, out) : RP_OK;
}

static rp_status goes_before(const order *o, const rp_value *a, const rp_value *b, bool *out)
{
    int by;

    RP_TRY(rp__run_step(o->run, 1));
    RP_TRY(rp__value_compare(o->run, a, b, &by));
    *out = o->down ? by > 0 : by < 0;
    return RP_OK;
}

/* Merges sorted runs of `width` pairs (key, value). Stable, like Python's sort. */
static rp_status merge(const order *o, const rp_pair *from, int64_t n, int64_t width, rp_pair *to)
{
    for (int64_t begin = 0; begin < n; begin += 2 * width) {
        int64_t left = begin, middle = begin + width < n ? begin + width : n, right = middle, end = begin + 2 * width < n ? begin + 2 * width : n;
        for (int64_t i = begin; i < end; i++) {
            bool second = left >= middle;
            if (!second && right < end) RP_TRY(goes_before(o, &from[right].key, &from[left].key, &second));
            to[i] = second ? from[right++] : from[left++];
        }
    }
    return RP_OK;
}

static rp_status sorted(const order *o, const rp_list *items, rp_value *out)
{
    int64_t n     = items->n;
    rp_pair *from = rp__run_alloc(o->run, n * (int64_t)sizeof *from), *to = from ? rp__run_alloc(o->run, n * (int64_t)sizeof *to) : NULL;

    if (!to) return RP_ERR_MEMORY;
    for (int64_t i = 0; i < n; i++) {
        from[i].value = items->item[i];
        RP_TRY(sort_key(o, &items->item[i], &from[i].key));
    }
    for (int64_t width = 1; width < n; width *= 2) {
        RP_TRY(merge(o, from, n, width, to));
        rp_pair *swap = from;
        from          = to;
        to            = swap;
    }
    RP_TRY(rp__list_new(o->run, out));
    for (int64_t i = 0; i < n; i++) RP_TRY(rp__list_add(o->run, out->list, &from[i].value));
    return RP_OK;
}

FILTER(f_sort)
{
    order o = { run, rp__argument_true(a, 0, "reverse", false), rp__argument_true(a, 1, "case_sensitive", false), { "", 0 } };
    rp_list *items;

    RP_TRY(attribute_argument(run, a, 2, &o.attribute));
    RP_TRY(rp__value_items(run, self, &items));
    return sorted(&o, items, out);
}

FILTER(f_items)
{
    const rp_value none = { .kind = RP_V_LIST, .list = rp__run_alloc(run, sizeof *none.list) };

    if (!none.list) return RP_ERR_MEMORY;
    *out = none;
    if (self->kind == RP_V_UNDEFINED) return RP_OK;
    if (self->kind != RP_V_MAP) return rp__run_fail(run, RP_ERR_FORMAT, "%s has no items", rp__value_kind_name(self));
    return rp__named_call(rp__template_map_methods, (rp_text){ "items", 5 })->call(run, self, a, out);
}

FILTER(f_dictsort)
{
    order o = { run, rp__argument_true(a, 2, "reverse", false), rp__argument_true(a, 0, "case_sensitive", false), { "0", 1 } };
    rp_text by;
    rp_value pairs;

    RP_TRY(rp__argument_text(run, a, 1, "by", (rp_text){ "key", 3 }, &by));
    if (rp__text_is(by, "value")) o.attribute.at = "1";
    RP_TRY(f_items(run, self, &(rp_arguments){ 0 }, &pairs));
    return sorted(&o, pairs.list, out);
}

/* ---- combining and selecting items ---- */

FILTER(f_join)
{
    rp_text between, attribute;
    rp_list *items;
    rp_value parts, part;

    RP_TRY(rp__argument_text(run, a, 0, "d", (rp_text){ "", 0 }, &between));
    RP_TRY(attribute_argument(run, a, 1, &attribute));
    RP_TRY(rp__value_items(run, self, &items));
    if (!attribute.bytes) return rp__text_join(run, between, items, false, out);
    RP_TRY(rp__list_new(run, &parts));
    for (int64_t i = 0; i < items->n; i++) {
        RP_TRY(part_of(run, &items->item[i], attribute, &part));
        RP_TRY(rp__list_add(run, parts.list, &part));
    }
    return rp__text_join(run, between, parts.list, false, out);
}

FILTER(f_sum)
{
    rp_text attribute;
    rp_list *items;
    rp_value total = RP_INT_VALUE(0), part;

    RP_TRY(attribute_argument(run, a, 0, &attribute));
    RP_TRY(rp__value_items(run, self, &items));
    for (int64_t i = 0; i < items->n; i++) {
        RP_TRY(part_of(run, &items->item[i], attribute, &part));
        RP_TRY(rp__run_arithmetic(run, (rp_text){ "+", 1 }, &total, &part, &total));
    }
    *out = total;
    return RP_OK;
}

static rp_status extreme(rp_run *run, const rp_value *self, bool greatest, rp_value *out)
{
    rp_list *items;
    int by;

    RP_TRY(rp__value_items(run, self, &items));
    *out = items->n ? items->item[0] : nothing;
    for (int64_t i = 1; i < items->n; i++) {
        RP_TRY(rp__value_compare(run, &items->item[i], out, &by));
        if (greatest ? by > 0 : by < 0) *out = items->item[i];
    }
    return RP_OK;
}

FILTER(f_min) { (void)a; return extreme(run, self, false, out); }
FILTER(f_max) { (void)a; return extreme(run, self, true, out); }

FILTER(f_unique)
{
    rp_list *items;
    rp_value list;
    bool known;

    (void)a;
    RP_TRY(rp__value_items(run, self, &items));
    RP_TRY(rp__list_new(run, &list));
    for (int64_t i = 0; i < items->n; i++) {
        RP_TRY(rp__value_contains(run, &list, &items->item[i], &known));
        if (!known) RP_TRY(rp__list_add(run, list.list, &items->item[i]));
    }
    *out = list;
    return RP_OK;
}

/* map(attribute='a', default=x) or map('filter', …) */
FILTER(f_map)
{
    const rp_value *fallback = rp__argument(a, -1, "default");
    bool by_attribute        = rp__argument(a, -1, "attribute") != NULL;
    rp_text name;
    rp_list *items;
    rp_value list, part;

    if (by_attribute) RP_TRY(attribute_argument(run, a, -1, &name));
    else RP_TRY(rp__argument_text(run, a, 0, NULL, (rp_text){ 0 }, &name));
    rp_arguments rest = { a->n > 0 ? a->n - 1 : 0, a->item + (a->n > 0), a->n_keywords, a->keyword };
    RP_TRY(rp__value_items(run, self, &items));
    RP_TRY(rp__list_new(run, &list));
    for (int64_t i = 0; i < items->n; i++) {
        RP_TRY(by_attribute ? part_of(run, &items->item[i], name, &part) : rp__run_filter(run, name, &items->item[i], &rest, &part));
        if (by_attribute && fallback && part.kind == RP_V_UNDEFINED) part = *fallback;
        RP_TRY(rp__list_add(run, list.list, &part));
    }
    *out = list;
    return RP_OK;
}

/* select('test', …), selectattr('a.b', 'test', …). Without a test: items that are true. */
static rp_status selected(rp_run *run, const rp_value *self, const rp_arguments *a, bool of_parts, bool wanted, rp_value *out)
{
    rp_text path = { "", 0 }, test = { "", 0 };
    int used = of_parts ? 1 : 0;
    rp_list *items;
    rp_value list, part;

    if (of_parts) RP_TRY(rp__argument_text(run, a, 0, NULL, (rp_text){ 0 }, &path));
    RP_TRY(rp__argument_text(run, a, used, NULL, (rp_text){ "", 0 }, &test));
    int skipped       = a->n < used + 1 ? a->n : used + 1;
    rp_arguments rest = { a->n - skipped, a->item ? a->item + skipped : NULL, a->n_keywords, a->keyword };
    RP_TRY(rp__value_items(run, self, &items));
    RP_TRY(rp__list_new(run, &list));
    for (int64_t i = 0; i < items->n; i++) {
        bool holds;
        RP_TRY(rp__run_step(run, 1));
        RP_TRY(part_of(run, &items->item[i], path, &part));
        holds = rp__value_true(&part);
        if (test.bytes) RP_TRY(rp__run_test(run, test, &part, &rest, &holds));
        if (holds == wanted) RP_TRY(rp__list_add(run, list.list, &items->item[i]));
    }
    *out = list;
    return RP_OK;
}

FILTER(f_select) { return selected(run, self, a, false, true, out); }
FILTER(f_reject) { return selected(run, self, a, false, false, out); }
FILTER(f_selectattr) { return selected(run, self, a, true, true, out); }
FILTER(f_rejectattr) { return selected(run, self, a, true, false, out); }

const rp_named_call rp__template_list_filter_table[] = {
    { "first", f_first }, { "last", f_last }, { "list", f_list }, { "reverse", f_reverse }, { "sort", f_sort }, { "items", f_items },
    { "dictsort", f_dictsort }, { "join", f_join }, { "sum", f_sum }, { "min", f_min }, { "max", f_max }, { "unique", f_unique }, { "map", f_map },
    { "select", f_select }, { "reject", f_reject }, { "selectattr", f_selectattr }, { "rejectattr", f_rejectattr }, { 0 },
};
