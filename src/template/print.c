/* template/print.c -- converts values to text: as {{ }} prints them, in Python's notation inside lists, and as JSON. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/json_text.h"
#include "template/internal.h"
#include "text/utf8.h"

static rp_status print_put(rp_run *run, rp_bytes *out, const char *text) { return rp__run_push(run, out, text, (int64_t)strlen(text)); }

/* Writes the shortest text that reads back as the same number, in Python's notation: 1.0, 1e+20, 1e-05. */
static rp_status put_float(rp_run *run, rp_bytes *out, double value)
{
    char text[40], *e;
    double back;
    RP_TRY(rp__run_step(run, RP_STEPS_NUMBER));
    json_t *real = isfinite(value) ? json_real(value) : NULL;
    char *json   = NULL;

    if (!isfinite(value)) return print_put(run, out, isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
    for (size_t digits = 1; real && digits <= 17; digits++) {              /* jansson writes a decimal point in every locale */
        free(json);
        json = rp__json_text(real, JSON_ENCODE_ANY | JSON_REAL_PRECISION(digits));
        if (!json || (rp__parse_double(json, &back) && back == value)) break;
    }
    json_decref(real);
    if (!json) return rp_fail(run->ctx, RP_ERR_MEMORY, "cannot allocate the text of a number");
    e                 = strchr(json, 'e');
    double magnitude  = fabs(value);
    if (e && magnitude >= 1e-4 && magnitude < 1e16) snprintf(text, sizeof text, "%.1f", value);     /* one digit gives 1e2, Python writes 100.0 */
    else if (e) snprintf(text, sizeof text, "%.*s%s%02d", (int)(e - json) - (e - json > 2 && e[-1] == '0' && e[-2] == '.' ? 2 : 0), json,
                         strtol(e + 1, NULL, 10) < 0 ? "e-" : "e+", abs((int)strtol(e + 1, NULL, 10)));
    else snprintf(text, sizeof text, "%s", json);
    free(json);
    return print_put(run, out, text);
}

static rp_status put_int(rp_run *run, rp_bytes *out, int64_t value)
{
    char text[32];

    snprintf(text, sizeof text, "%" PRId64, value);
    return print_put(run, out, text);
}

static rp_status enter(rp_run *run)
{
    RP_TRY(rp__run_step(run, 1));
    if (++run->depth <= RP_TEMPLATE_RUN_DEPTH) return RP_OK;
    return rp__run_fail(run, RP_ERR_FORMAT, "the printed value is nested more than %d deep", RP_TEMPLATE_RUN_DEPTH);
}

/* ---- Python's notation ---- */

static rp_status repr_text(rp_run *run, rp_text text, rp_bytes *out)
{
    bool single = text.bytes && memchr(text.at, '\'', (size_t)text.bytes), both = single && memchr(text.at, '"', (size_t)text.bytes);
    char quote  = single && !both ? '"' : '\'', escaped[8];

    RP_TRY(rp__run_bytes(run, text.bytes, RP_BYTES_MADE));
    RP_TRY(rp__run_push(run, out, &quote, 1));
    for (int64_t i = 0; i < text.bytes; i++) {
        char c           = text.at[i];
        const char *says = c == '\n' ? "\\n" : c == '\t' ? "\\t" : c == '\r' ? "\\r" : c == '\\' ? "\\\\" : NULL;
        if (!says && c == quote) says = "\\'";
        if (!says && ((unsigned char)c < 0x20 || c == 0x7f)) {
            snprintf(escaped, sizeof escaped, "\\x%02x", (unsigned char)c);
            says = escaped;
        }
        RP_TRY(says ? print_put(run, out, says) : rp__run_push(run, out, &c, 1));
    }
    return rp__run_push(run, out, &quote, 1);
}

static rp_status repr_list(rp_run *run, const rp_value *v, rp_bytes *out)
{
    RP_TRY(print_put(run, out, v->tuple ? "(" : "["));
    for (int64_t i = 0; i < v->list->n; i++) {
        if (i) RP_TRY(print_put(run, out, ", "));
        RP_TRY(rp__value_repr(run, &v->list->item[i], out));
    }
    return print_put(run, out, !v->tuple ? "]" : v->list->n == 1 ? ",)" : ")");
}

static rp_status repr_map(rp_run *run, const rp_map *map, rp_bytes *out)
{
    RP_TRY(print_put(run, out, "{"));
    for (int64_t i = 0; i < map->n; i++) {
        if (i) RP_TRY(print_put(run, out, ", "));
        RP_TRY(rp__value_repr(run, &map->pair[i].key, out));
        RP_TRY(print_put(run, out, ": "));
        RP_TRY(rp__value_repr(run, &map->pair[i].value, out));
    }
    return print_put(run, out, "}");
}

static rp_status repr_parts(rp_run *run, const rp_value *v, rp_bytes *out)
{
    RP_TRY(enter(run));
    if (v->kind == RP_V_NAMESPACE) RP_TRY(print_put(run, out, "<Namespace "));
    RP_TRY(v->kind == RP_V_LIST ? repr_list(run, v, out) : repr_map(run, v->map, out));
    if (v->kind == RP_V_NAMESPACE) RP_TRY(print_put(run, out, ">"));
    run->depth--;
    return RP_OK;
}

rp_status rp__value_repr(rp_run *run, const rp_value *v, rp_bytes *out)
{
    RP_TRY(rp__run_step(run, 1));
    switch (v->kind) {
    case RP_V_UNDEFINED: return print_put(run, out, "Undefined");
    case RP_V_NONE: return print_put(run, out, "None");
    case RP_V_BOOL: return print_put(run, out, v->b ? "True" : "False");
    case RP_V_INT: return put_int(run, out, v->i);
    case RP_V_FLOAT: return put_float(run, out, v->f);
    case RP_V_TEXT: return repr_text(run, v->text, out);
    case RP_V_LIST:
    case RP_V_MAP:
    case RP_V_NAMESPACE: return repr_parts(run, v, out);
    default: return rp__run_fail(run, RP_ERR_FORMAT, "%s cannot be printed", rp__value_kind_name(v));
    }
}

rp_status rp__bytes_value(rp_run *run, rp_bytes *bytes, rp_status status, rp_value *out)
{
    if (status == RP_OK) status = rp__run_copy(run, bytes->at, bytes->n, out);
    rp__run_drop(run, bytes);
    return status;
}

rp_status rp__value_text(rp_run *run, const rp_value *v, rp_value *out)
{
    rp_bytes bytes = { 0 };

    if (v->kind == RP_V_TEXT) {
        *out = *v;
        return RP_OK;
    }
    if (v->kind == RP_V_UNDEFINED) {
        *out = RP_TEXT_VALUE("", 0);
        return RP_OK;
    }
    return rp__bytes_value(run, &bytes, rp__value_repr(run, v, &bytes), out);
}

/* ---- as JSON ---- */

typedef struct { rp_run *run; int64_t indent; bool ascii, sorted; rp_bytes *out; int64_t level; } writer;

static rp_status json_value(writer *w, const rp_value *v);

static rp_status json_point(writer *w, uint32_t point)
{
    char text[16];

    if (point >= 0x10000) {
        snprintf(text, sizeof text, "\\u%04x\\u%04x", 0xd800 + ((point - 0x10000) >> 10), 0xdc00 + ((point - 0x10000) & 0x3ff));
        return print_put(w->run, w->out, text);
    }
    snprintf(text, sizeof text, "\\u%04x", point);
    return print_put(w->run, w->out, text);
}

static rp_status json_text(writer *w, rp_text text)
{
    static const char from[] = "\"\\\n\r\t\b\f", to[] = "\"\\nrtbf";

    RP_TRY(rp__run_bytes(w->run, text.bytes, RP_BYTES_MADE));
    RP_TRY(print_put(w->run, w->out, "\""));
    for (int64_t at = 0; at < text.bytes;) {
        uint32_t point;
        int n             = rp__utf8_next(text.at + at, text.bytes - at, &point);
        const char *known = point && point < 0x80 ? strchr(from, (int)point) : NULL;
        if (known) {
            char two[2] = { '\\', to[known - from] };
            RP_TRY(rp__run_push(w->run, w->out, two, 2));
        } else if (point < 0x20 || (w->ascii && point >= 0x7f)) RP_TRY(json_point(w, point));
        else RP_TRY(rp__run_push(w->run, w->out, text.at + at, n));
        at += n;
    }
    return print_put(w->run, w->out, "\"");
}

static rp_status json_break(writer *w)
{
    if (w->indent < 0) return RP_OK;
    RP_TRY(print_put(w->run, w->out, "\n"));
    RP_TRY(rp__run_bytes(w->run, w->indent * w->level, RP_BYTES_MADE));
    for (int64_t i = 0; i < w->indent * w->level; i++) RP_TRY(print_put(w->run, w->out, " "));
    return RP_OK;
}

static rp_status json_list(writer *w, const rp_list *list)
{
    if (!list->n) return print_put(w->run, w->out, "[]");
    RP_TRY(print_put(w->run, w->out, "["));
    w->level++;
    for (int64_t i = 0; i < list->n; i++) {
        if (i) RP_TRY(print_put(w->run, w->out, w->indent < 0 ? ", " : ","));
        RP_TRY(json_break(w));
        RP_TRY(json_value(w, &list->item[i]));
    }
    w->level--;
    RP_TRY(json_break(w));
    return print_put(w->run, w->out, "]");
}

static rp_status json_key(writer *w, const rp_value *key)
{
    rp_value text;

    if (key->kind == RP_V_TEXT) return json_text(w, key->text);
    if (key->kind == RP_V_NONE || key->kind == RP_V_BOOL)
        return print_put(w->run, w->out, key->kind == RP_V_NONE ? "\"null\"" : key->b ? "\"true\"" : "\"false\"");
    RP_TRY(rp__value_text(w->run, key, &text));
    return json_text(w, text.text);
}

static rp_status json_map(writer *w, const rp_value *v)
{
    rp_value sorted = *v;

    if (!v->map->n) return print_put(w->run, w->out, "{}");
    if (w->sorted) RP_TRY(rp__run_filter(w->run, (rp_text){ "dictsort", 8 }, v, &(rp_arguments){ 0 }, &sorted));
    RP_TRY(print_put(w->run, w->out, "{"));
    w->level++;
    for (int64_t i = 0; i < v->map->n; i++) {
        const rp_value *pair = w->sorted ? sorted.list->item[i].list->item : NULL;
        if (i) RP_TRY(print_put(w->run, w->out, w->indent < 0 ? ", " : ","));
        RP_TRY(json_break(w));
        RP_TRY(json_key(w, pair ? &pair[0] : &v->map->pair[i].key));
        RP_TRY(print_put(w->run, w->out, ": "));
        RP_TRY(json_value(w, pair ? &pair[1] : &v->map->pair[i].value));
    }
    w->level--;
    RP_TRY(json_break(w));
    return print_put(w->run, w->out, "}");
}

static rp_status json_parts(writer *w, const rp_value *v)
{
    RP_TRY(enter(w->run));
    RP_TRY(v->kind == RP_V_LIST ? json_list(w, v->list) : json_map(w, v));
    w->run->depth--;
    return RP_OK;
}

static rp_status json_value(writer *w, const rp_value *v)
{
    RP_TRY(rp__run_step(w->run, 1));
    switch (v->kind) {
    case RP_V_NONE: return print_put(w->run, w->out, "null");
    case RP_V_BOOL: return print_put(w->run, w->out, v->b ? "true" : "false");
    case RP_V_INT: return put_int(w->run, w->out, v->i);
    case RP_V_FLOAT: return put_float(w->run, w->out, v->f);
    case RP_V_TEXT: return json_text(w, v->text);
    case RP_V_LIST:
    case RP_V_MAP: return json_parts(w, v);
    default: return rp__run_fail(w->run, RP_ERR_FORMAT, "%s cannot be written as JSON", rp__value_kind_name(v));
    }
}

rp_status rp__value_json(rp_run *run, const rp_value *v, int64_t indent, bool ascii, bool sorted, rp_bytes *out)
{
    return json_value(&(writer){ run, indent, ascii, sorted, out, 0 }, v);
}
