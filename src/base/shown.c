/* base/shown.c -- decides which characters of an untrusted text may reach a terminal. Rejected are control characters, marks of direction,
 * invisible line breaks and bytes that are not UTF-8. */
#include "base/base.h"

#include <string.h>

/* C0 controls with DEL, C1 controls, marks, embeddings, overrides and isolates of direction, line and paragraph separators. */
static bool drives(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x61c || c == 0x200e || c == 0x200f || (c >= 0x2028 && c <= 0x202e) ||
           (c >= 0x2066 && c <= 0x206f) || (c >= 0xfff9 && c <= 0xfffb);
}

/* The length of the character with this first byte; 0: no character begins with it. Sets the range *low to *high of its second byte. */
static int length_of(uint8_t first, uint8_t *low, uint8_t *high)
{
    *low  = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    *high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    if (first < 0x80) return 1;
    if (first < 0xc2 || first > 0xf4) return 0;
    return first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

rp_shown rp__shown(const char *text, size_t bytes, int *n, uint32_t *point)
{
    uint8_t low, high, first = (uint8_t)text[0];
    int length = length_of(first, &low, &high);

    *n     = 1;
    *point = first;
    if (!length) return RP_SHOWN_BYTE;
    if (length > 1) *point = first & (0x7fu >> length);
    for (int i = 1; i < length; i++, low = 0x80, high = 0xbf) {
        if ((size_t)i == bytes) return RP_SHOWN_CUT;
        uint8_t next = (uint8_t)text[i];
        if (next < low || next > high) {
            *point = first;
            return RP_SHOWN_BYTE;
        }
        *point = *point << 6 | (next & 0x3f);
    }
    *n = length;
    return drives(*point) ? RP_SHOWN_CONTROL : RP_SHOWN_AS_IS;
}

void rp__shown_only(char *text)
{
    size_t bytes = strlen(text);
    char *to     = text;
    uint32_t point;
    int n;

    for (const char *end = text + bytes; text < end; text += n) {
        if (rp__shown(text, (size_t)(end - text), &n, &point) == RP_SHOWN_AS_IS) {
            memmove(to, text, (size_t)n);
            to += n;
        } else *to++ = '?';
    }
    *to = 0;
}
