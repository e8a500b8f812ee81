/* io/utf8.c -- code points, repair of invalid UTF-8, character classes and the byte-level alphabet.
 *
 * Repair follows Unicode's "maximal subpart" practice, which Python's errors="replace" follows too: E2 82 41 is one
 * U+FFFD and an A; ED A0 80 (a surrogate) is three.
 */
#include "io/tokenizer_inside.h"

#include <string.h>
#include <utf8proc.h>

/* Length of the valid sequence at text[0]; when there is none 0, and *bad is the length of the maximal subpart. */
static int sequence(const uint8_t *text, int64_t bytes, int *bad)
{
    uint8_t lead = text[0], low = 0x80, high = 0xbf;
    int want = lead < 0x80 ? 1 : lead >= 0xc2 && lead <= 0xdf ? 2 : (lead & 0xf0) == 0xe0 ? 3
             : lead >= 0xf0 && lead <= 0xf4 ? 4 : 0;

    *bad = 1;
    if (lead == 0xe0) low = 0xa0;
    if (lead == 0xed) high = 0x9f;      /* surrogates */
    if (lead == 0xf0) low = 0x90;
    if (lead == 0xf4) high = 0x8f;      /* above U+10FFFF */
    for (int i = 1; i < want; i++) {
        if (i >= bytes || text[i] < low || text[i] > high) return 0;
        low  = 0x80;
        high = 0xbf;
        *bad = i + 1;
    }
    return want;
}

/* Number of ASCII bytes at the beginning, of which most text is, in steps of eight. */
static int64_t ascii(const char *text, int64_t bytes)
{
    int64_t n = 0;
    uint64_t eight;

    for (; n + 8 <= bytes; n += 8) {
        memcpy(&eight, text + n, 8);
        if (eight & UINT64_C(0x8080808080808080)) break;
    }
    return n;
}

int64_t rp__utf8_valid(const char *text, int64_t bytes)
{
    int64_t at = 0;
    int bad;

    while (at < bytes && (at += ascii(text + at, bytes - at)) < bytes) {
        int n = sequence((const uint8_t *)text + at, bytes - at, &bad);
        if (!n) return at;
        at += n;
    }
    return at;
}

int64_t rp__utf8_unfinished(const char *text, int64_t bytes)
{
    for (int64_t n = 1; n <= 3 && n <= bytes; n++) {
        const uint8_t *lead = (const uint8_t *)text + bytes - n;
        int bad;
        if ((*lead & 0xc0) == 0x80) continue;
        int want = *lead >= 0xf0 ? 4 : *lead >= 0xe0 ? 3 : 2;
        return *lead >= 0xc2 && *lead <= 0xf4 && n < want && !sequence(lead, n, &bad) && bad == n ? n : 0;
    }
    return 0;
}

int64_t rp__utf8_before(const char *text, int64_t at, uint32_t *point)
{
    int64_t end = at;

    do at--;
    while (at > 0 && ((uint8_t)text[at] & 0xc0) == 0x80);
    rp__utf8_next(text + at, end - at, point);
    return at;
}

rp_status rp__utf8_repair(rp_ctx *ctx, const char *text, int64_t bytes, rp_bytes *out)
{
    int64_t at = 0, from = 0;

    while (at < bytes) {
        int bad, n = sequence((const uint8_t *)text + at, bytes - at, &bad);
        if (n) {
            at += n;
            continue;
        }
        RP_TRY(rp__bytes_push(ctx, out, text + from, at - from));
        RP_TRY(rp__bytes_push(ctx, out, "\xef\xbf\xbd", 3));
        from = at += bad;
    }
    return rp__bytes_push(ctx, out, text + from, at - from);
}

int rp__utf8_next(const char *text, int64_t bytes, uint32_t *point)
{
    static const uint8_t lead_mask[] = { 0, 0x7f, 0x1f, 0x0f, 0x07 };
    const uint8_t *p = (const uint8_t *)text;
    int n = p[0] < 0x80 ? 1 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;

    if (n > bytes) n = (int)bytes;
    uint32_t value = p[0] & lead_mask[n];
    for (int i = 1; i < n; i++) value = value << 6 | (p[i] & 0x3f);
    *point = value;
    return n;
}

int rp__utf8_put(char *out, uint32_t point) { return (int)utf8proc_encode_char((utf8proc_int32_t)point, (utf8proc_uint8_t *)out); }

bool rp__is_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
           c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

static bool is_late_word(uint32_t c)
{
    static const struct { uint32_t first, last; char category[4]; } late[] = {
#define RP_LATE(first, last, category) { first, last, category },
#define RP_LATE_DIGIT(first, last)
#define RP_INERT(first, last)
#include "io/unicode_late.def"
#undef RP_LATE
#undef RP_LATE_DIGIT
#undef RP_INERT
    };

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
    case UTF8PROC_CATEGORY_SO:          /* the circled and squared letters are alphabetic */
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

/* Bytes that print stand for themselves; the other 68 are, in order, U+0100 and up. */
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
