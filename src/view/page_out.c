/* view/page_out.c -- writes text to the file of a page, in blocks. All texts from outside are escaped here and nowhere else. */
#include "view/page_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <utf8proc.h>

#include "train/metrics.h"

static const char unreadable[] = "\xef\xbf\xbd";        /* U+FFFD */

void rp__page_flush(page_out *out)
{
    if (out->status == RP_OK && out->used) out->status = rp__file_put(out->file, out->block, out->used);
    out->used = 0;
}

void rp__page_put(page_out *out, const char *text, int64_t bytes)
{
    while (bytes) {
        int64_t room = PAGE_BLOCK_BYTES - out->used, n = bytes < room ? bytes : room;
        memcpy(out->block + out->used, text, (size_t)n);
        out->used += (int)n;
        text += n;
        bytes -= n;
        if (out->used == PAGE_BLOCK_BYTES) rp__page_flush(out);
    }
}

void rp__page_text(page_out *out, const char *text) { rp__page_put(out, text, (int64_t)strlen(text)); }

void rp__page_print(page_out *out, const char *fmt, ...)
{
    char text[256];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    rp__page_text(out, text);
}

void rp__page_number(page_out *out, double value)
{
    char text[RP_NUMBER_CHARS];

    rp__page_text(out, rp__number_text(text, value));
}

/* ---- escapes ---- */

/* Returns the replacement of a character, in `room`; NULL: the character needs none. */
typedef const char *escape(utf8proc_int32_t c, char room[16]);

static const char *html_escape(utf8proc_int32_t c, char room[16])
{
    if (c < ' ' && c != '\t' && c != '\n') return unreadable;
    if (c > 127 || !strchr("<>&\"'", (int)c)) return NULL;
    snprintf(room, 16, "&#%d;", (int)c);
    return room;
}

/* With < and > as escapes, no text can end the surrounding script element or begin a comment in it. */
static const char *json_escape(utf8proc_int32_t c, char room[16])
{
    if (c >= ' ' && c != 0x7f && c != 0x2028 && c != 0x2029 && (c > 127 || !strchr("\"\\<>&", (int)c))) return NULL;
    snprintf(room, 16, "\\u%04x", (unsigned)c);
    return room;
}

static void put_escaped(page_out *out, const char *text, escape *escaped)
{
    char room[16];

    while (*text) {
        utf8proc_int32_t c;
        utf8proc_ssize_t n = utf8proc_iterate((const utf8proc_uint8_t *)text, -1, &c);
        const char *instead = n > 0 ? escaped(c, room) : unreadable;
        if (n <= 0) n = 1;
        if (instead) rp__page_text(out, instead);
        else rp__page_put(out, text, n);
        text += n;
    }
}

void rp__page_escaped(page_out *out, const char *text) { put_escaped(out, text, html_escape); }

void rp__page_quoted(page_out *out, const char *text)
{
    rp__page_text(out, "\"");
    put_escaped(out, text, json_escape);
    rp__page_text(out, "\"");
}
