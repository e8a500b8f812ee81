/* data/read_json.c -- reads the JSON objects of a file one by one, from JSON lines or from one list.
 *
 *   {"text": "a"}           [{"text": "a"},
 *   {"text": "b"}            {"text": "b"}]
 *
 * The first byte that is not white space decides which it is. Both are read in windows of 64 KiB, and only one object is held at a time: a list
 * may be larger than memory, on one line or on many. The end of an object in a list is found by counting brackets outside quotes; the parser
 * checks the rest. Blank lines are ignored. CR before the newline is allowed.
 */
#include "data/store.h"

#include <stdio.h>
#include <string.h>

#include "text/file.h"
#include "base/json_text.h"
#include "base/list.h"

enum { WINDOW_BYTES = 1 << 16 };

typedef enum { LINES, FIRST, BEFORE, INSIDE, BEHIND, CLOSED } where;    /* FIRST: after the opening bracket, where the list may end at once */

typedef struct {
    const rp_read_job *job;
    rp_json_object_fn put;
    bool known;                         /* whether the file is lines or a list */
    where at;
    char *text;                         /* the object read so far */
    int64_t n, room;
    int64_t line, begun_line, number;   /* number: of the object in the list, from 1 */
    int64_t n_put;                      /* objects passed to `put` */
    int64_t depth;
    bool quoted, escaped;
    char place[80];
} reader;

static const char white[] = " \t\r\n";

static bool is_white(char c) { return c && strchr(white, c); }

/* ---- one object ---- */

static bool has_enough(const reader *r) { return r->job->most && r->n_put >= r->job->most; }

static rp_status append(reader *r, const char *text, int64_t n)
{
    RP_TRY(RP_GROW(r->job->ctx, r->text, r->room, r->n + n));
    if (n) memcpy(r->text + r->n, text, (size_t)n);
    r->n += n;
    return RP_OK;
}

static void set_place(reader *r)
{
    if (r->at == LINES) snprintf(r->place, sizeof r->place, ", line %" PRId64, r->line);
    else snprintf(r->place, sizeof r->place, ", object %" PRId64 " (line %" PRId64 ")", r->number, r->begun_line);
}

static rp_status is_no_object(reader *r)
{
    set_place(r);
    return rp_fail(r->job->ctx, RP_ERR_FORMAT, "'%s'%s: not a JSON object", r->job->path, r->place);
}

static rp_status wrong_json(const reader *r, const json_error_t *e)
{
    bool cut        = json_error_code(e) == json_error_premature_end_of_input;
    char column[32] = "";

    if (json_error_code(e) == json_error_out_of_memory)
        return rp_fail(r->job->ctx, RP_ERR_MEMORY, "cannot parse '%s'%s: memory ran out", r->job->path, r->place);
    if (r->at == LINES) snprintf(column, sizeof column, ", column %d", e->column);
    return rp_fail(r->job->ctx, RP_ERR_FORMAT, "'%s'%s%s: %s%s", r->job->path, r->place, column, e->text,
                   r->at == LINES && cut ? "; each object must be on one line, or all objects in one list" : "");
}

/* Accepts integers beyond 64 bits, which may be in unused columns, and NUL characters in text. */
static rp_status put_object(reader *r)
{
    json_error_t e;

    while (r->n && is_white(r->text[r->n - 1])) r->n--;
    if (!r->n || has_enough(r)) return RP_OK;
    r->n_put++;
    set_place(r);
    json_t *object = rp__json_read(r->text, (size_t)r->n, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &e);
    r->n           = 0;
    if (!object) return wrong_json(r, &e);
    rp_status status = json_is_object(object) ? r->put(r->job, r->place, object) : is_no_object(r);
    json_decref(object);
    return status;
}

/* ---- lines ---- */

static rp_status take_lines(reader *r, const char *text, int64_t n)
{
    while (n && !has_enough(r)) {
        const char *end = memchr(text, '\n', (size_t)n);
        int64_t part    = end ? end + 1 - text : n;
        RP_TRY(append(r, text, part));
        if (end) RP_TRY(put_object(r));
        r->line += end != NULL;
        text += part;
        n -= part;
    }
    return RP_OK;
}

/* ---- a list ---- */

/* Scans to the end of the object, or to the end of the input. Returns whether the object ended; *n is the number of bytes scanned. */
static bool find_end(reader *r, const char *text, int64_t most, int64_t *n)
{
    for (*n = 0; *n < most;) {
        char c = text[(*n)++];
        r->line += c == '\n';
        if (r->escaped) r->escaped = false;
        else if (r->quoted && c == '\\') r->escaped = true;
        else if (c == '"') r->quoted = !r->quoted;
        else if (!r->quoted && (c == '{' || c == '[')) r->depth++;
        else if (!r->quoted && (c == '}' || c == ']') && --r->depth == 0) return true;
    }
    return false;
}

static rp_status between(reader *r, char c)
{
    bool first = r->at == FIRST, before = r->at == FIRST || r->at == BEFORE;

    r->line += c == '\n';
    if (is_white(c)) return RP_OK;
    if (before && c != ']') {
        r->number++;
        r->begun_line = r->line;
        r->at         = INSIDE;
        return c == '{' ? RP_OK : is_no_object(r);
    }
    if (c == ']' && (first || r->at == BEHIND)) r->at = CLOSED;
    else if (c == ',' && r->at == BEHIND) r->at = BEFORE;
    else return rp_fail(r->job->ctx, RP_ERR_FORMAT, "'%s', line %" PRId64 ": %s", r->job->path, r->line, r->at == CLOSED ? "something follows the list"
                        : before ? "an object must follow the comma" : "a comma or a bracket must follow the object");
    return RP_OK;
}

static rp_status take_list(reader *r, const char *text, int64_t n)
{
    for (int64_t i = 0; i < n && !has_enough(r);) {
        int64_t part;
        if (r->at != INSIDE) RP_TRY(between(r, text[i]));
        if (r->at != INSIDE) {
            i++;
            continue;
        }
        bool whole = find_end(r, text + i, n - i, &part);
        RP_TRY(append(r, text + i, part));
        i += part;
        if (!whole) continue;
        RP_TRY(put_object(r));
        r->at = BEHIND;
    }
    return RP_OK;
}

/* ---- the file ---- */

static rp_status read_json_take(reader *r, const char *text, int64_t n)
{
    if (r->known) return r->at == LINES ? take_lines(r, text, n) : take_list(r, text, n);
    while (n && is_white(*text)) {
        r->line += *text++ == '\n';
        n--;
    }
    if (!n) return RP_OK;
    r->known = true;
    r->at    = *text == '[' ? FIRST : LINES;
    return r->at == FIRST ? take_list(r, text + 1, n - 1) : take_lines(r, text, n);
}

static rp_status read_windows(reader *r, rp_text_file *file, char *window)
{
    int64_t n = 1;

    RP_TRY(rp__text_file_check(file));
    while (n && !has_enough(r)) {
        RP_TRY(rp__text_file_read(file, window, WINDOW_BYTES, &n));
        RP_TRY(read_json_take(r, window, n));
    }
    if (r->at == LINES || has_enough(r)) return put_object(r);
    RP_CHECK(r->job->ctx, r->at == CLOSED, RP_ERR_FORMAT, "'%s' is cut short: its list goes on after object %" PRId64, r->job->path, r->number);
    return RP_OK;
}

rp_status rp__read_json(const rp_read_job *job, rp_json_object_fn put)
{
    reader r           = { .job = job, .put = put, .line = 1, .at = LINES };
    rp_text_file *file = NULL;
    char *window       = rp__host_alloc(job->ctx, WINDOW_BYTES);
    rp_status status   = window ? rp__text_file_open(job->ctx, job->path, &file) : RP_ERR_MEMORY;

    if (status == RP_OK) status = read_windows(&r, file, window);
    rp__text_file_close(file);
    RP_RELEASE(r.text, window);
    return status;
}
