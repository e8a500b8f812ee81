/* tokenizer/unicode_sets.c -- the sets of characters that the `tokenizers` package removes or cuts at; binary search over ranges. */
#include "tokenizer/internal.h"

#include <utf8proc.h>

typedef enum { punctuation, dropped, nonspacing, mark, cjk, joiner } set_name;

/* Ranges are sorted by set, then by character. */
static bool has(set_name set, uint32_t point)
{
    static const struct { uint32_t set, first, last; } ranges[] = {
#define RP_SET(set, first, last) { set, first, last },
#define RP_LOWER(from, to)
#include "tokenizer/unicode_sets.def"
#undef RP_SET
#undef RP_LOWER
    };
    int low = 0, high = RP_COUNT(ranges);

    while (low < high) {
        int middle = (low + high) / 2;
        if (ranges[middle].set < (uint32_t)set || (ranges[middle].set == (uint32_t)set && ranges[middle].last < point)) low = middle + 1;
        else high = middle;
    }
    return low < RP_COUNT(ranges) && ranges[low].set == (uint32_t)set && point >= ranges[low].first;
}

bool rp__is_punctuation(uint32_t c) { return has(punctuation, c); }
bool rp__is_dropped(uint32_t c) { return has(dropped, c); }
bool rp__is_nonspacing(uint32_t c) { return c >= 128 && has(nonspacing, c); }
bool rp__is_mark(uint32_t c) { return c >= 128 && has(mark, c); }
bool rp__is_cjk(uint32_t c) { return c >= 128 && has(cjk, c); }

int rp__lower(uint32_t c, uint32_t out[2])
{
    static const struct { uint32_t from, to; } late[] = {
#define RP_SET(set, first, last)
#define RP_LOWER(from, to) { from, to },
#include "tokenizer/unicode_sets.def"
#undef RP_SET
#undef RP_LOWER
    };

    out[0] = c < 128 ? c + (c >= 'A' && c <= 'Z' ? 32 : 0) : (uint32_t)utf8proc_tolower((utf8proc_int32_t)c);
    if (c == 0x130) {                   /* the only character with a two-character lower case */
        out[0] = 'i';
        out[1] = 0x307;
        return 2;
    }
    for (int i = 0; c >= late[0].from && i < RP_COUNT(late); i++)
        if (c == late[i].from) out[0] = late[i].to;
    return 1;
}

/* Follows utf8proc's rules. Characters newer than its Unicode version join like U+0300. */
bool rp__breaks_between(uint32_t left, uint32_t right, int32_t *state)
{
    bool late = right >= 0x300 && has(joiner, right);

    return utf8proc_grapheme_break_stateful((utf8proc_int32_t)left, late ? 0x300 : (utf8proc_int32_t)right, state);
}
