/* tokenizer/characters.c -- classes of characters, and the byte-level alphabet. */
#include "text/bytes.h"
#include "tokenizer/internal.h"

#include <string.h>
#include <utf8proc.h>

bool rp__is_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
           c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

static const rp_late_range late[] = {
#define RP_LATE(first, last, category) { first, last, category },
#define RP_LATE_DIGIT(first, last) { first, last, "+" },
#define RP_INERT(first, last)
#include "tokenizer/unicode_late.def"
#undef RP_LATE
#undef RP_LATE_DIGIT
#undef RP_INERT
};

const rp_late_range *rp__late_range(int i) { return i < RP_COUNT(late) ? &late[i] : NULL; }

static bool is_late_word(uint32_t c)
{
    for (int i = 0; i < RP_COUNT(late); i++)
        if (c >= late[i].first && c <= late[i].last && strcmp(late[i].category, "Han"))
            return strchr("LM", late[i].category[0]) || !strcmp(late[i].category, "Nd");
    return false;
}

bool rp__is_word(uint32_t c)
{
    switch (utf8proc_category((utf8proc_int32_t)c)) {
    case UTF8PROC_CATEGORY_LU: case UTF8PROC_CATEGORY_LL: case UTF8PROC_CATEGORY_LT: case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO: case UTF8PROC_CATEGORY_MN: case UTF8PROC_CATEGORY_MC: case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND: case UTF8PROC_CATEGORY_NL: case UTF8PROC_CATEGORY_PC:
        return true;
    case UTF8PROC_CATEGORY_SO:          /* circled and squared letters are alphabetic */
        return (c >= 0x24b6 && c <= 0x24e9) || (c >= 0x1f130 && c <= 0x1f149) || (c >= 0x1f150 && c <= 0x1f169) ||
               (c >= 0x1f170 && c <= 0x1f189);
    case UTF8PROC_CATEGORY_CF:
        return c == 0x200c || c == 0x200d;
    case UTF8PROC_CATEGORY_CN:
        return is_late_word(c);
    default:
        return false;
    }
}

/* Printable bytes map to themselves; the other 68 map in order to U+0100 and up. */
static bool prints(unsigned byte)
{
    return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

uint32_t rp__byte_point(uint8_t byte)
{
    unsigned b = byte;

    if (prints(b)) return b;
    return b <= 32 ? 256 + b : b <= 160 ? 256 + 33 + (b - 127) : 256 + 33 + 34;
}

int rp__point_byte(uint32_t point)
{
    if (point < 256) return prints(point) ? (int)point : -1;
    point -= 256;
    return point <= 32 ? (int)point : point < 33 + 34 ? (int)(point - 33 + 127) : point == 33 + 34 ? 173 : -1;
}

rp_status rp__byte_text(rp_ctx *ctx, const char *text, int64_t bytes, rp_bytes *out)
{
    RP_TRY(rp__bytes_room(ctx, out, 2 * bytes));
    for (int64_t i = 0; i < bytes; i++) out->n += rp__utf8_put(out->at + out->n, rp__byte_point((uint8_t)text[i]));
    return RP_OK;
}

rp_status rp__text_bytes(rp_ctx *ctx, const char *text, int64_t bytes, rp_bytes *out)
{
    int64_t start = out->n;
    uint32_t point;

    RP_TRY(rp__bytes_room(ctx, out, bytes + 1));
    for (int64_t at = 0; at < bytes;) {
        at += rp__utf8_next(text + at, bytes - at, &point);
        int byte = rp__point_byte(point);
        if (byte < 0) {
            out->n = start;
            return rp__bytes_push(ctx, out, text, bytes);
        }
        out->at[out->n++] = (char)byte;
    }
    return RP_OK;
}

int64_t rp__n_chars(const char *text, int64_t bytes)
{
    int64_t n = 0;

    for (int64_t i = 0; i < bytes; i++) n += ((uint8_t)text[i] & 0xc0) != 0x80;
    return n;
}
