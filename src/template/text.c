/* template/text.c -- Python's operations on texts, shared by filters and methods. Characters are code points. */
#include <utf8proc.h>

#include "template/internal.h"
#include "text/utf8.h"

/* As str.isspace in Python: White_Space and the ASCII separators. */
bool rp__is_python_space(uint32_t point) { return (point >= 0x1c && point <= 0x1f) || rp__is_space(point); }

/* Decodes the last character before `end` and returns its length. */
static int last_char(rp_text text, int64_t end, uint32_t *point)
{
    int64_t at = end - 1;

    while (at > 0 && ((uint8_t)text.at[at] & 0xc0) == 0x80) at--;
    return rp__utf8_next(text.at + at, end - at, point);
}

static bool strips(const rp_text *chars, uint32_t point)
{
    if (!chars) return rp__is_python_space(point);
    for (int64_t at = 0; at < chars->bytes;) {
        uint32_t other;
        at += rp__utf8_next(chars->at + at, chars->bytes - at, &other);
        if (other == point) return true;
    }
    return false;
}

rp_status rp__text_strip(rp_run *run, rp_text text, const rp_text *chars, bool left, bool right, rp_text *out)
{
    int64_t from = 0, to = text.bytes, each = 1 + (chars ? chars->bytes / RP_BYTES_SEEN : 0);
    uint32_t point;

    while (left && from < to) {
        int n = rp__utf8_next(text.at + from, to - from, &point);
        RP_TRY(rp__run_step(run, each));
        if (!strips(chars, point)) break;
        from += n;
    }
    while (right && from < to) {
        int n = last_char(text, to, &point);
        RP_TRY(rp__run_step(run, each));
        if (!strips(chars, point)) break;
        to -= n;
    }
    *out = (rp_text){ text.at + from, to - from };
    return RP_OK;
}

rp_status rp__text_find(rp_run *run, rp_text text, rp_text part, int64_t from, int64_t *out)
{
    *out = part.bytes || from > text.bytes ? -1 : from;
    if (!part.bytes || from >= text.bytes) return RP_OK;
    const char *found = memmem(text.at + from, (size_t)(text.bytes - from), part.at, (size_t)part.bytes);
    *out              = found ? found - text.at : -1;
    return rp__run_bytes(run, (found ? *out : text.bytes) - from + part.bytes, RP_BYTES_SEEN);
}

/* An empty `old` matches before every character and at the end. */
static rp_status next_match(rp_run *run, rp_text text, rp_text old, int64_t from, int64_t *out)
{
    if (old.bytes || from == 0) return rp__text_find(run, text, old, from, out);
    while (from < text.bytes && ((uint8_t)text.at[from] & 0xc0) == 0x80) from++;
    *out = from > text.bytes ? -1 : from;
    return RP_OK;
}

rp_status rp__text_replace(rp_run *run, rp_text text, rp_text old, rp_text new, int64_t most, rp_value *out)
{
    rp_bytes made    = { 0 };
    rp_status status = RP_OK;
    int64_t done = 0, from = 0, at;

    for (int64_t n = 0; status == RP_OK && (most < 0 || n < most); n++) {
        status = next_match(run, text, old, from, &at);
        if (status != RP_OK || at < 0) break;
        status = rp__run_step(run, 1);
        if (status == RP_OK) status = rp__run_push(run, &made, text.at + done, at - done);
        if (status == RP_OK) status = rp__run_push(run, &made, new.at, new.bytes);
        done = at + old.bytes;
        from = old.bytes ? done : at + 1;
    }
    if (status == RP_OK) status = rp__run_push(run, &made, text.at + done, text.bytes - done);
    return rp__bytes_value(run, &made, status, out);
}

/* Appends a character in another case. Letters that become several in Python (ß) become one here. */
static rp_status put_case(rp_run *run, rp_bytes *out, uint32_t point, bool upper)
{
    char text[4];
    utf8proc_int32_t other = upper ? utf8proc_toupper((utf8proc_int32_t)point) : utf8proc_tolower((utf8proc_int32_t)point);

    return rp__run_push(run, out, text, rp__utf8_put(text, (uint32_t)other));
}

/* Does `title` begin a word after this character? As in Jinja: after white space, hyphens and opening brackets. */
static bool begins_word(uint32_t before) { return rp__is_python_space(before) || (before < 0x80 && before && strchr("-({[<", (int)before)); }

rp_status rp__text_case(rp_run *run, rp_text text, rp_case to, rp_value *out)
{
    rp_bytes made    = { 0 };
    rp_status status = rp__run_bytes(run, text.bytes, RP_BYTES_MADE);
    uint32_t point, before = ' ';

    for (int64_t at = 0; at < text.bytes && status == RP_OK; before = point) {
        bool first = to == RP_CASE_TITLE ? begins_word(before) : at == 0;
        at += rp__utf8_next(text.at + at, text.bytes - at, &point);
        status = put_case(run, &made, point, to == RP_CASE_UPPER || (first && to != RP_CASE_LOWER));
    }
    return rp__bytes_value(run, &made, status, out);
}

rp_status rp__text_join(rp_run *run, rp_text between, const rp_list *list, bool strict, rp_value *out)
{
    rp_bytes made    = { 0 };
    rp_status status = rp__run_step(run, list->n);
    rp_value part;

    for (int64_t i = 0; i < list->n && status == RP_OK; i++) {
        if (i) status = rp__run_push(run, &made, between.at, between.bytes);
        if (status == RP_OK && strict && list->item[i].kind != RP_V_TEXT)
            status = rp__run_fail(run, RP_ERR_FORMAT, "'join' needs texts, not %s", rp__value_kind_name(&list->item[i]));
        if (status == RP_OK) status = rp__value_text(run, &list->item[i], &part);
        if (status == RP_OK) status = rp__run_push(run, &made, part.text.at, part.text.bytes);
    }
    return rp__bytes_value(run, &made, status, out);
}

/* ---- arguments ---- */

const rp_value *rp__argument(const rp_arguments *a, int i, const char *name)
{
    if (i >= 0 && i < a->n) return &a->item[i];
    for (int k = 0; name && k < a->n_keywords; k++)
        if (rp__text_is(a->keyword[k].name, name)) return &a->keyword[k].value;
    return NULL;
}

static rp_status wrong_argument(rp_run *run, int i, const char *wants, const rp_value *v)
{
    return rp__run_fail(run, RP_ERR_FORMAT, "argument %d is %s, not %s", i + 1, v ? rp__value_kind_name(v) : "missing", wants);
}

rp_status rp__argument_text(rp_run *run, const rp_arguments *a, int i, const char *name, rp_text fallback, rp_text *out)
{
    const rp_value *v = rp__argument(a, i, name);

    *out = fallback;
    if (!v && fallback.at) return RP_OK;
    if (!v || v->kind != RP_V_TEXT) return wrong_argument(run, i, "a text", v);
    *out = v->text;
    return RP_OK;
}

rp_status rp__argument_int(rp_run *run, const rp_arguments *a, int i, const char *name, int64_t fallback, int64_t *out)
{
    const rp_value *v = rp__argument(a, i, name);

    *out = fallback;
    if (!v || v->kind == RP_V_NONE) return RP_OK;
    if (v->kind != RP_V_INT && v->kind != RP_V_BOOL) return wrong_argument(run, i, "a whole number", v);
    *out = v->kind == RP_V_BOOL ? v->b : v->i;
    return RP_OK;
}

bool rp__argument_true(const rp_arguments *a, int i, const char *name, bool fallback)
{
    const rp_value *v = rp__argument(a, i, name);

    return v ? rp__value_true(v) : fallback;
}

const rp_named_call *rp__named_call(const rp_named_call *table, rp_text name)
{
    for (; table->name; table++)
        if (rp__text_is(name, table->name)) return table;
    return NULL;
}
