/* template/value.c -- the values of a template: the subset of Python's values that templates use. */
#include "template/internal.h"
#include "text/utf8.h"

bool rp__text_is(rp_text text, const char *other)
{
    return text.bytes == (int64_t)strlen(other) && !memcmp(text.at, other, (size_t)text.bytes);
}

static bool same_text(rp_text a, rp_text b) { return a.bytes == b.bytes && (!a.bytes || !memcmp(a.at, b.at, (size_t)a.bytes)); }

const char *rp__value_kind_name(const rp_value *v)
{
    static const char *const name[] = {
        [RP_V_UNDEFINED] = "an undefined value", [RP_V_NONE] = "none", [RP_V_BOOL] = "a truth value", [RP_V_INT] = "a whole number",
        [RP_V_FLOAT] = "a number", [RP_V_TEXT] = "a text", [RP_V_LIST] = "a list", [RP_V_MAP] = "a map", [RP_V_NAMESPACE] = "a namespace",
        [RP_V_MACRO] = "a macro", [RP_V_FUNCTION] = "a function", [RP_V_METHOD] = "a method",
    };

    return name[v->kind];
}

bool rp__value_true(const rp_value *v)
{
    switch (v->kind) {
    case RP_V_UNDEFINED:
    case RP_V_NONE: return false;
    case RP_V_BOOL: return v->b;
    case RP_V_INT: return v->i != 0;
    case RP_V_FLOAT: return v->f != 0;
    case RP_V_TEXT: return v->text.bytes > 0;
    case RP_V_LIST: return v->list->n > 0;
    case RP_V_MAP: return v->map->n > 0;
    default: return true;
    }
}

bool rp__value_is_number(const rp_value *v) { return v->kind == RP_V_BOOL || v->kind == RP_V_INT || v->kind == RP_V_FLOAT; }

double rp__value_number(const rp_value *v) { return v->kind == RP_V_FLOAT ? v->f : v->kind == RP_V_BOOL ? v->b : (double)v->i; }

/* ---- equality and order ---- */

static int64_t whole(const rp_value *v) { return v->kind == RP_V_BOOL ? v->b : v->i; }

static bool numbers_equal(const rp_value *a, const rp_value *b)
{
    if (a->kind != RP_V_FLOAT && b->kind != RP_V_FLOAT) return whole(a) == whole(b);
    return rp__value_number(a) == rp__value_number(b);
}

static rp_status lists_equal(rp_run *run, const rp_list *a, const rp_list *b, bool *out)
{
    *out = a->n == b->n;
    for (int64_t i = 0; *out && i < a->n; i++) RP_TRY(rp__value_equal(run, &a->item[i], &b->item[i], out));
    return RP_OK;
}

static rp_status maps_equal(rp_run *run, const rp_map *a, const rp_map *b, bool *out)
{
    *out = a->n == b->n;
    for (int64_t i = 0; *out && i < a->n; i++) {
        const rp_value *other;
        RP_TRY(rp__map_get(run, b, &a->pair[i].key, &other));
        if (!other) *out = false;
        else RP_TRY(rp__value_equal(run, &a->pair[i].value, other, out));
    }
    return RP_OK;
}

static rp_status parts_equal(rp_run *run, const rp_value *a, const rp_value *b, bool *out)
{
    RP_TRY(rp__run_step(run, 1));
    if (++run->depth > RP_TEMPLATE_RUN_DEPTH) return rp__run_fail(run, RP_ERR_FORMAT, "values nested more than %d deep are compared", RP_TEMPLATE_RUN_DEPTH);
    rp_status status = a->kind == RP_V_LIST ? lists_equal(run, a->list, b->list, out) : maps_equal(run, a->map, b->map, out);
    run->depth--;
    return status;
}

rp_status rp__value_equal(rp_run *run, const rp_value *a, const rp_value *b, bool *out)
{
    *out = false;
    if (rp__value_is_number(a) && rp__value_is_number(b)) *out = numbers_equal(a, b);
    if (a->kind != b->kind || rp__value_is_number(a)) return RP_OK;
    switch (a->kind) {
    case RP_V_UNDEFINED:
    case RP_V_NONE: *out = true; return RP_OK;
    case RP_V_TEXT:
        *out = a->text.bytes == b->text.bytes;
        if (*out) RP_TRY(rp__run_bytes(run, a->text.bytes, RP_BYTES_MOVED));
        *out = same_text(a->text, b->text);
        return RP_OK;
    case RP_V_LIST: return a->tuple == b->tuple ? parts_equal(run, a, b, out) : RP_OK;
    case RP_V_MAP: return parts_equal(run, a, b, out);
    case RP_V_NAMESPACE: *out = a->map == b->map; return RP_OK;
    case RP_V_MACRO: *out = a->macro == b->macro; return RP_OK;
    default: *out = a->function == b->function; return RP_OK;
    }
}

static int sign_of(int64_t a, int64_t b) { return a < b ? -1 : a > b; }

static int compare_texts(rp_text a, rp_text b)
{
    int64_t n = a.bytes < b.bytes ? a.bytes : b.bytes;
    int by    = n ? memcmp(a.at, b.at, (size_t)n) : 0;        /* UTF-8 sorts like its code points */

    return by ? (by < 0 ? -1 : 1) : sign_of(a.bytes, b.bytes);
}

static rp_status compare_lists(rp_run *run, const rp_list *a, const rp_list *b, int *out)
{
    RP_TRY(rp__run_step(run, 1));
    if (++run->depth > RP_TEMPLATE_RUN_DEPTH) return rp__run_fail(run, RP_ERR_FORMAT, "values nested more than %d deep are compared", RP_TEMPLATE_RUN_DEPTH);
    *out = 0;
    for (int64_t i = 0; !*out && i < a->n && i < b->n; i++) RP_TRY(rp__value_compare(run, &a->item[i], &b->item[i], out));
    if (!*out) *out = sign_of(a->n, b->n);
    run->depth--;
    return RP_OK;
}

rp_status rp__value_compare(rp_run *run, const rp_value *a, const rp_value *b, int *out)
{
    if (a->kind == RP_V_TEXT && b->kind == RP_V_TEXT) {
        RP_TRY(rp__run_bytes(run, a->text.bytes < b->text.bytes ? a->text.bytes : b->text.bytes, RP_BYTES_MOVED));
        *out = compare_texts(a->text, b->text);
        return RP_OK;
    }
    if (rp__value_is_number(a) && rp__value_is_number(b)) {
        double x = rp__value_number(a), y = rp__value_number(b);
        *out = a->kind != RP_V_FLOAT && b->kind != RP_V_FLOAT ? sign_of(whole(a), whole(b)) : x < y ? -1 : x > y;
        return RP_OK;
    }
    if (a->kind == RP_V_LIST && b->kind == RP_V_LIST && a->tuple == b->tuple) return compare_lists(run, a->list, b->list, out);
    return rp__run_fail(run, RP_ERR_FORMAT, "%s and %s have no order", rp__value_kind_name(a), rp__value_kind_name(b));
}

rp_status rp__value_contains(rp_run *run, const rp_value *in, const rp_value *item, bool *out)
{
    const rp_value *found;
    rp_list *items;

    *out = false;
    if (in->kind == RP_V_TEXT) {
        if (item->kind != RP_V_TEXT)
            return rp__run_fail(run, RP_ERR_FORMAT, "'in' a text needs a text on its left, not %s", rp__value_kind_name(item));
        int64_t at;
        RP_TRY(rp__text_find(run, in->text, item->text, 0, &at));
        *out = at >= 0;
        return RP_OK;
    }
    if (in->kind == RP_V_MAP) {
        RP_TRY(rp__map_get(run, in->map, item, &found));
        *out = found != NULL;
        return RP_OK;
    }
    RP_TRY(rp__value_items(run, in, &items));
    for (int64_t i = 0; !*out && i < items->n; i++) {
        RP_TRY(rp__run_step(run, i % 8 == 0));
        RP_TRY(rp__value_equal(run, &items->item[i], item, out));
    }
    return RP_OK;
}

/* ---- lists and maps ---- */

rp_status rp__list_new(rp_run *run, rp_value *out)
{
    *out = (rp_value){ .kind = RP_V_LIST, .list = rp__run_alloc(run, sizeof *out->list) };
    return out->list ? RP_OK : RP_ERR_MEMORY;
}

/* Returns room for one more item of `size` bytes, or NULL after reporting an error. The old array stays in the bump, so the total is at most doubled. */
static void *grown(rp_run *run, void *items, int64_t n, int64_t *room, int64_t size)
{
    if (n < *room) return items;
    int64_t more = *room ? 2 * *room : 8;
    void *fresh  = rp__run_alloc(run, more * size);
    if (fresh && n) memcpy(fresh, items, (size_t)(n * size));
    if (fresh) *room = more;
    return fresh;
}

rp_status rp__list_add(rp_run *run, rp_list *list, const rp_value *v)
{
    rp_value *items = grown(run, list->item, list->n, &list->room, sizeof *items);

    if (!items) return RP_ERR_MEMORY;
    list->item            = items;
    list->item[list->n++] = *v;
    return RP_OK;
}

rp_status rp__map_new(rp_run *run, rp_value *out)
{
    *out = (rp_value){ .kind = RP_V_MAP, .map = rp__run_alloc(run, sizeof *out->map) };
    return out->map ? RP_OK : RP_ERR_MEMORY;
}

/* A step pays for 8 keys passed. Keys as long as `key` also cost a step per RP_BYTES_MOVED bytes. */
rp_status rp__map_find(rp_run *run, const rp_map *map, rp_text key, const rp_value **out)
{
    *out = NULL;
    for (int64_t i = 0; i < map->n; i++) {
        const rp_value *other = &map->pair[i].key;
        if (i % 8 == 7) RP_TRY(rp__run_step(run, 1));
        if (other->kind != RP_V_TEXT || other->text.bytes != key.bytes) continue;
        RP_TRY(rp__run_bytes(run, key.bytes, RP_BYTES_MOVED));
        if (!same_text(other->text, key)) continue;
        *out = &map->pair[i].value;
        break;
    }
    return RP_OK;
}

rp_status rp__map_get(rp_run *run, const rp_map *map, const rp_value *key, const rp_value **out)
{
    *out = NULL;
    RP_TRY(rp__run_step(run, 1));
    if (key->kind == RP_V_TEXT) return rp__map_find(run, map, key->text, out);
    for (int64_t i = 0; i < map->n; i++) {
        bool same;
        RP_TRY(rp__run_step(run, i % 8 == 0));
        RP_TRY(rp__value_equal(run, &map->pair[i].key, key, &same));
        if (same) {
            *out = &map->pair[i].value;
            return RP_OK;
        }
    }
    return RP_OK;
}

rp_status rp__map_put(rp_run *run, rp_map *map, const rp_value *key, const rp_value *v)
{
    const rp_value *there;

    RP_TRY(rp__map_get(run, map, key, &there));
    if (there) {
        *(rp_value *)there = *v;
        return RP_OK;
    }
    rp_pair *pairs = grown(run, map->pair, map->n, &map->room, sizeof *pairs);
    if (!pairs) return RP_ERR_MEMORY;
    map->pair           = pairs;
    map->pair[map->n++] = (rp_pair){ *key, *v };
    return RP_OK;
}

/* ---- from JSON; texts are borrowed ---- */

static rp_status map_from_json(rp_run *run, const json_t *json, rp_value *out)
{
    const char *key;
    json_t *part;

    RP_TRY(rp__map_new(run, out));
    json_object_foreach((json_t *)json, key, part) {
        rp_value name = RP_TEXT_VALUE(key, (int64_t)strlen(key)), value;
        RP_TRY(rp__value_from_json(run, part, &value));
        RP_TRY(rp__map_put(run, out->map, &name, &value));
    }
    return RP_OK;
}

static rp_status list_from_json(rp_run *run, const json_t *json, rp_value *out)
{
    RP_TRY(rp__list_new(run, out));
    for (size_t i = 0; i < json_array_size(json); i++) {
        rp_value value;
        RP_TRY(rp__value_from_json(run, json_array_get(json, i), &value));
        RP_TRY(rp__list_add(run, out->list, &value));
    }
    return RP_OK;
}

static rp_status parts_from_json(rp_run *run, const json_t *json, rp_value *out)
{
    RP_TRY(rp__run_step(run, 1));
    if (++run->depth > RP_TEMPLATE_RUN_DEPTH) return rp__run_fail(run, RP_ERR_FORMAT, "the conversation is nested more than %d deep", RP_TEMPLATE_RUN_DEPTH);
    rp_status status = json_is_object(json) ? map_from_json(run, json, out) : list_from_json(run, json, out);
    run->depth--;
    return status;
}

rp_status rp__value_from_json(rp_run *run, const json_t *json, rp_value *out)
{
    switch (json_typeof(json)) {
    case JSON_OBJECT:
    case JSON_ARRAY: return parts_from_json(run, json, out);
    case JSON_STRING: *out = RP_TEXT_VALUE(json_string_value(json), (int64_t)json_string_length(json)); break;
    case JSON_INTEGER: *out = RP_INT_VALUE(json_integer_value(json)); break;
    case JSON_REAL: *out = RP_FLOAT_VALUE(json_real_value(json)); break;
    case JSON_NULL: *out = RP_NONE_VALUE; break;
    default: *out = RP_BOOL_VALUE(json_is_true(json));
    }
    return RP_OK;
}

/* ---- the items that a loop visits ---- */

static rp_status characters(rp_run *run, rp_text text, rp_list *list)
{
    RP_TRY(rp__run_step(run, text.bytes));
    for (int64_t at = 0; at < text.bytes;) {
        uint32_t point;
        int n      = rp__utf8_next(text.at + at, text.bytes - at, &point);
        rp_value c = RP_TEXT_VALUE(text.at + at, n);
        RP_TRY(rp__list_add(run, list, &c));
        at += n;
    }
    return RP_OK;
}

rp_status rp__value_items(rp_run *run, const rp_value *v, rp_list **out)
{
    rp_value list;

    if (v->kind == RP_V_LIST) {
        *out = v->list;
        return RP_OK;
    }
    RP_TRY(rp__list_new(run, &list));
    *out = list.list;
    if (v->kind == RP_V_UNDEFINED) return RP_OK;
    if (v->kind == RP_V_TEXT) return characters(run, v->text, list.list);
    if (v->kind != RP_V_MAP) return rp__run_fail(run, RP_ERR_FORMAT, "%s cannot be iterated over", rp__value_kind_name(v));
    RP_TRY(rp__run_step(run, v->map->n));
    for (int64_t i = 0; i < v->map->n; i++) RP_TRY(rp__list_add(run, list.list, &v->map->pair[i].key));
    return RP_OK;
}

rp_status rp__text_chars(rp_run *run, rp_text text, int64_t *out)
{
    int64_t n = 0;

    RP_TRY(rp__run_bytes(run, text.bytes, RP_BYTES_SEEN));
    for (int64_t i = 0; i < text.bytes; i++) n += ((uint8_t)text.at[i] & 0xc0) != 0x80;
    *out = n;
    return RP_OK;
}

rp_status rp__text_at(rp_run *run, rp_text text, int64_t i, int64_t *out)
{
    int64_t at = 0;

    RP_TRY(rp__run_bytes(run, text.bytes, RP_BYTES_SEEN));
    for (; at < text.bytes; at++)
        if (((uint8_t)text.at[at] & 0xc0) != 0x80 && i-- == 0) break;
    *out = at;
    return RP_OK;
}
