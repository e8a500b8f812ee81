/* text/utf8.c -- decodes UTF-8 and repairs invalid UTF-8.
 *
 * Repair follows Unicode's "maximal subpart" practice, like Python's errors="replace": E2 82 41 becomes one U+FFFD and an A; ED A0 80 (a
 * surrogate) becomes three.
 */
#include "text/utf8.h"

#include <utf8proc.h>

/* Length of the valid sequence at text[0]. If there is none: 0, and *bad is the length of the maximal subpart. */
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

/* Number of leading ASCII bytes, in steps of eight. Most text is ASCII. */
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
