/* template/methods.c -- methods of texts, maps and lists with Python's names and meanings. No method modifies its object. */
#include "template/internal.h"
#include "text/utf8.h"

#define METHOD(name) static rp_status name(rp_run *run, const rp_value *self, const rp_arguments *a, rp_value *out)

/* ---- texts: ends ---- */

static rp_status strip_sides(rp_run *run, const rp_value *self, const rp_arguments *a, bool left, bool right, rp_value *out)
{
    const rp_value *chars = rp__argument(a, 0, NULL);
    rp_text text;

    if (chars && chars->kind != RP_V_TEXT && chars->kind != RP_V_NONE)
        return rp__run_fail(run, RP_ERR_FORMAT, "'strip' needs a text, not %s", rp__value_kind_name(chars));
    RP_TRY(rp__text_strip(run, self->text, chars && chars->kind == RP_V_TEXT ? &chars->text : NULL, left, right, &text));
    *out = RP_TEXT_VALUE(text.at, text.bytes);
    return RP_OK;
}

METHOD(text_strip) { return strip_sides(run, self, a, true, true, out); }
METHOD(text_lstrip) { return strip_sides(run, self, a, true, false, out); }
METHOD(text_rstrip) { return strip_sides(run, self, a, false, true, out); }

static rp_status has_end(rp_run *run, rp_text text, rp_text end, bool last, bool *out)
{
    RP_TRY(rp__run_bytes(run, end.bytes, RP_BYTES_MOVED));
    *out = end.bytes <= text.bytes && (!end.bytes || !memcmp(text.at + (last ? text.bytes - end.bytes : 0), end.at, (size_t)end.bytes));
    return RP_OK;
}

/* The argument is a text, or a tuple of texts of which any may match. */
static rp_status has_any_end(rp_run *run, const rp_value *self, const rp_arguments *a, bool last, rp_value *out)
{
    const rp_value *v    = rp__argument(a, 0, NULL);
    int64_t n            = v && v->kind == RP_V_LIST ? v->list->n : 1;
    const rp_value *each = v && v->kind == RP_V_LIST ? v->list->item : v;

    *out = RP_BOOL_VALUE(false);
    for (int64_t i = 0; i < n; i++) {
        if (!each || each[i].kind != RP_V_TEXT) return rp__run_fail(run, RP_ERR_FORMAT, "'startswith' and 'endswith' need a text");
        bool has;
        RP_TRY(rp__run_step(run, 1));
        RP_TRY(has_end(run, self->text, each[i].text, last, &has));
        if (has) *out = RP_BOOL_VALUE(true);
    }
    return RP_OK;
}

METHOD(text_startswith) { return has_any_end(run, self, a, false, out); }
METHOD(text_endswith) { return has_any_end(run, self, a, true, out); }

static rp_status remove_end(rp_run *run, const rp_value *self, const rp_arguments *a, bool last, rp_value *out)
{
    rp_text end, text = self->text;

    RP_TRY(rp__argument_text(run, a, 0, NULL, (rp_text){ 0 }, &end));
    bool has;
    RP_TRY(has_end(run, text, end, last, &has));
    *out = RP_TEXT_VALUE(text.at + (has && !last ? end.bytes : 0), text.bytes - (has ? end.bytes : 0));
    return RP_OK;
}

METHOD(text_removeprefix) { return remove_end(run, self, a, false, out); }
METHOD(text_removesuffix) { return remove_end(run, self, a, true, out); }

/* ---- texts: pieces ---- */

static rp_status add_piece(rp_run *run, rp_list *list, const char *at, int64_t bytes)
{
    rp_value piece = RP_TEXT_VALUE(at, bytes);

    RP_TRY(rp__run_step(run, 1));
    return rp__list_add(run, list, &piece);
}

/* Splits at runs of white space, without empty pieces at the ends. After `most` cuts the remainder is one piece. */
static rp_status split_blanks(rp_run *run, rp_text text, int64_t most, rp_list *list)
{
    RP_TRY(rp__text_strip(run, text, NULL, true, false, &text));
    while (text.bytes) {
        int64_t end = 0, n;
        uint32_t point;
        while (end < text.bytes && (n = rp__utf8_next(text.at + end, text.bytes - end, &point), !rp__is_python_space(point))) end += n;
        if (most-- == 0) end = text.bytes;
        RP_TRY(add_piece(run, list, text.at, end));
        RP_TRY(rp__text_strip(run, (rp_text){ text.at + end, text.bytes - end }, NULL, true, false, &text));
    }
    return RP_OK;
}

static rp_status split_at(rp_run *run, rp_text text, rp_text at, int64_t most, rp_list *list)
{
    int64_t from = 0, found;

    while (most-- != 0) {
        RP_TRY(rp__text_find(run, text, at, from, &found));
        if (found < 0) break;
        RP_TRY(add_piece(run, list, text.at + from, found - from));
        from = found + at.bytes;
    }
    return add_piece(run, list, text.at + from, text.bytes - from);
}

/* A step pays for 8 positions, and for the bytes compared at them. */
static rp_status find_last(rp_run *run, rp_text text, rp_text part, int64_t *out)
{
    int64_t each = 1 + part.bytes / RP_BYTES_MOVED, unpaid = 0;

    for (*out = text.bytes - part.bytes; *out >= 0; --*out) {
        if ((unpaid += each) >= RP_BYTES_SEEN) {
            RP_TRY(rp__run_step(run, unpaid / RP_BYTES_SEEN));
            unpaid = 0;
        }
        if (!part.bytes || !memcmp(text.at + *out, part.at, (size_t)part.bytes)) return RP_OK;
    }
    *out = -1;
    return RP_OK;
}

/* Cuts from the end, then reverses the pieces. */
static rp_status split_from_end(rp_run *run, rp_text text, rp_text at, int64_t most, rp_list *list)
{
    int64_t found;

    while (most-- != 0) {
        RP_TRY(find_last(run, text, at, &found));
        if (found < 0) break;
        RP_TRY(add_piece(run, list, text.at + found + at.bytes, text.bytes - found - at.bytes));
        text.bytes = found;
    }
    RP_TRY(add_piece(run, list, text.at, text.bytes));
    for (int64_t i = 0; i < list->n / 2; i++) {
        rp_value swap               = list->item[i];
        list->item[i]               = list->item[list->n - 1 - i];
        list->item[list->n - 1 - i] = swap;
    }
    return RP_OK;
}

static rp_status split(rp_run *run, const rp_value *self, const rp_arguments *a, bool from_end, rp_value *out)
{
    const rp_value *at = rp__argument(a, 0, "sep");
    rp_value list;
    int64_t most;

    RP_TRY(rp__argument_int(run, a, 1, "maxsplit", -1, &most));
    RP_TRY(rp__run_bytes(run, self->text.bytes, RP_BYTES_SEEN));
    RP_TRY(rp__list_new(run, &list));
    *out = list;
    if (!at || at->kind == RP_V_NONE) {
        if (from_end && most >= 0) return rp__run_fail(run, RP_ERR_UNSUPPORTED, "'rsplit' with a number of cuts needs a separator");
        return split_blanks(run, self->text, most, list.list);
    }
    if (at->kind != RP_V_TEXT || !at->text.bytes) return rp__run_fail(run, RP_ERR_FORMAT, "the separator of 'split' must be a text that is not empty");
    return from_end ? split_from_end(run, self->text, at->text, most, list.list) : split_at(run, self->text, at->text, most, list.list);
}

METHOD(text_split) { return split(run, self, a, false, out); }
METHOD(text_rsplit) { return split(run, self, a, true, out); }

static bool ends_line(uint32_t p) { return (p >= '\n' && p <= '\r') || (p >= 0x1c && p <= 0x1e) || p == 0x85 || p == 0x2028 || p == 0x2029; }

METHOD(text_splitlines)
{
    rp_text text = self->text;
    bool keep    = rp__argument_true(a, 0, "keepends", false);
    int64_t from = 0;

    RP_TRY(rp__list_new(run, out));
    RP_TRY(rp__run_bytes(run, text.bytes, RP_BYTES_SEEN));
    for (int64_t at = 0; at < text.bytes;) {
        uint32_t point;
        int64_t end = at + rp__utf8_next(text.at + at, text.bytes - at, &point);
        if (point == '\r' && end < text.bytes && text.at[end] == '\n') end++;
        if (ends_line(point)) {
            RP_TRY(add_piece(run, out->list, text.at + from, (keep ? end : at) - from));
            from = end;
        }
        at = end;
    }
    return from < text.bytes ? add_piece(run, out->list, text.at + from, text.bytes - from) : RP_OK;
}

METHOD(text_join)
{
    const rp_value *v = rp__argument(a, 0, NULL);
    rp_list *items;

    if (!v) return rp__run_fail(run, RP_ERR_FORMAT, "'join' needs a list");
    RP_TRY(rp__value_items(run, v, &items));
    return rp__text_join(run, self->text, items, true, out);
}

/* ---- texts: other methods ---- */

METHOD(text_replace)
{
    rp_text old, new;
    int64_t most;

    RP_TRY(rp__argument_text(run, a, 0, "old", (rp_text){ 0 }, &old));
    RP_TRY(rp__argument_text(run, a, 1, "new", (rp_text){ 0 }, &new));
    RP_TRY(rp__argument_int(run, a, 2, "count", -1, &most));
    return rp__text_replace(run, self->text, old, new, most, out);
}

static rp_status methods_find(rp_run *run, const rp_value *self, const rp_arguments *a, bool last, rp_value *out)
{
    rp_text part;

    RP_TRY(rp__argument_text(run, a, 0, NULL, (rp_text){ 0 }, &part));
    int64_t at, chars = -1;
    RP_TRY(last ? find_last(run, self->text, part, &at) : rp__text_find(run, self->text, part, 0, &at));
    if (at >= 0) RP_TRY(rp__text_chars(run, (rp_text){ self->text.at, at }, &chars));
    *out = RP_INT_VALUE(chars);
    return RP_OK;
}

METHOD(text_find) { return methods_find(run, self, a, false, out); }
METHOD(text_rfind) { return methods_find(run, self, a, true, out); }

METHOD(text_count)
{
    rp_text part;
    int64_t n = 0, at = 0;

    RP_TRY(rp__argument_text(run, a, 0, NULL, (rp_text){ 0 }, &part));
    if (!part.bytes) RP_TRY(rp__text_chars(run, self->text, &n));
    for (; part.bytes; at += part.bytes, n++) {
        RP_TRY(rp__run_step(run, 1));
        RP_TRY(rp__text_find(run, self->text, part, at, &at));
        if (at < 0) break;
    }
    *out = RP_INT_VALUE(n + !part.bytes);
    return RP_OK;
}

METHOD(text_upper) { (void)a; return rp__text_case(run, self->text, RP_CASE_UPPER, out); }
METHOD(text_lower) { (void)a; return rp__text_case(run, self->text, RP_CASE_LOWER, out); }
METHOD(text_capitalize) { (void)a; return rp__text_case(run, self->text, RP_CASE_CAPITAL, out); }

static bool all_ascii(rp_text text, bool (*is)(char c))
{
    for (int64_t i = 0; i < text.bytes; i++)
        if (!is(text.at[i])) return false;
    return text.bytes > 0;
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

METHOD(text_isdigit)
{
    (void)a;
    RP_TRY(rp__run_bytes(run, self->text.bytes, RP_BYTES_SEEN));
    *out = RP_BOOL_VALUE(all_ascii(self->text, is_digit));
    return RP_OK;
}

METHOD(text_isspace)
{
    rp_text rest;

    (void)a;
    RP_TRY(rp__text_strip(run, self->text, NULL, true, false, &rest));
    *out = RP_BOOL_VALUE(self->text.bytes && !rest.bytes);
    return RP_OK;
}

const rp_named_call rp__template_text_methods[] = {
    { "strip", text_strip }, { "lstrip", text_lstrip }, { "rstrip", text_rstrip }, { "split", text_split }, { "rsplit", text_rsplit },
    { "splitlines", text_splitlines }, { "startswith", text_startswith }, { "endswith", text_endswith }, { "upper", text_upper },
    { "lower", text_lower }, { "capitalize", text_capitalize }, { "replace", text_replace }, { "find", text_find },
    { "rfind", text_rfind }, { "count", text_count }, { "join", text_join }, { "removeprefix", text_removeprefix },
    { "removesuffix", text_removesuffix }, { "isdigit", text_isdigit }, { "isspace", text_isspace }, { 0 },
};

/* ---- maps ---- */

static rp_status map_pairs(rp_run *run, const rp_map *map, bool keys, bool values, rp_value *out)
{
    rp_value pair;

    RP_TRY(rp__run_step(run, map->n));
    RP_TRY(rp__list_new(run, out));
    for (int64_t i = 0; i < map->n; i++) {
        if (keys != values) {
            RP_TRY(rp__list_add(run, out->list, keys ? &map->pair[i].key : &map->pair[i].value));
            continue;
        }
        RP_TRY(rp__list_new(run, &pair));
        pair.tuple = true;
        RP_TRY(rp__list_add(run, pair.list, &map->pair[i].key));
        RP_TRY(rp__list_add(run, pair.list, &map->pair[i].value));
        RP_TRY(rp__list_add(run, out->list, &pair));
    }
    return RP_OK;
}

METHOD(map_items) { (void)a; return map_pairs(run, self->map, true, true, out); }
METHOD(map_keys) { (void)a; return map_pairs(run, self->map, true, false, out); }
METHOD(map_values) { (void)a; return map_pairs(run, self->map, false, true, out); }

METHOD(map_get)
{
    const rp_value *key = rp__argument(a, 0, NULL), *fallback = rp__argument(a, 1, "default"), *found;

    if (!key) return rp__run_fail(run, RP_ERR_FORMAT, "'get' needs a key");
    RP_TRY(rp__map_get(run, self->map, key, &found));
    *out = found ? *found : fallback ? *fallback : RP_NONE_VALUE;
    return RP_OK;
}

const rp_named_call rp__template_map_methods[] = {
    { "items", map_items }, { "keys", map_keys }, { "values", map_values }, { "get", map_get }, { 0 },
};

/* ---- lists ---- */

static rp_status look_for(rp_run *run, const rp_value *self, const rp_arguments *a, int64_t *first, int64_t *n)
{
    const rp_value *value = rp__argument(a, 0, NULL);
    bool same;

    *n = 0;
    if (!value) return rp__run_fail(run, RP_ERR_FORMAT, "'count' and 'index' need a value");
    RP_TRY(rp__run_step(run, self->list->n));
    for (int64_t i = self->list->n - 1; i >= 0; i--) {
        RP_TRY(rp__value_equal(run, &self->list->item[i], value, &same));
        if (same) *first = i;
        *n += same;
    }
    return RP_OK;
}

METHOD(list_count)
{
    int64_t first, n;

    RP_TRY(look_for(run, self, a, &first, &n));
    *out = RP_INT_VALUE(n);
    return RP_OK;
}

METHOD(list_index)
{
    int64_t first = 0, n;

    RP_TRY(look_for(run, self, a, &first, &n));
    *out = RP_INT_VALUE(first);
    return n ? RP_OK : rp__run_fail(run, RP_ERR_FORMAT, "'index': the value is not in the list");
}

const rp_named_call rp__template_list_methods[] = { { "count", list_count }, { "index", list_index }, { 0 } };
