/* io/unicode_sets.c -- the sets of characters by which the `tokenizers` package cleans and cuts: a general category each,
 * but for the characters in unicode_sets.def, where the package follows another Unicode than utf8proc.
 */
#include "io/tokenizer_inside.h"

#include <utf8proc.h>

typedef enum { punctuation, dropped, nonspacing, mark } set_name;
typedef struct { uint8_t set; bool in; uint32_t first, last; } exception;

static const exception exceptions[] = {
#define RP_IN(set, first, last) { set, true, first, last },
#define RP_OUT(set, first, last) { set, false, first, last },
#define RP_LOWER(from, to)
#define RP_CJK(first, last)
#include "io/unicode_sets.def"
#undef RP_IN
#undef RP_OUT
#undef RP_LOWER
#undef RP_CJK
};

/* Does the set have the point, whose category says `in`? Exceptions are in order within a set and a side. */
static bool has(set_name set, uint32_t point, bool in)
{
    for (int i = 0; i < RP_COUNT(exceptions); i++) {
        const exception *e = &exceptions[i];
        if (e->set == (uint8_t)set && e->in != in && point >= e->first && point <= e->last) return e->in;
    }
    return in;
}

static bool category_in(uint32_t point, utf8proc_category_t first, utf8proc_category_t last)
{
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)point);

    return category >= first && category <= last;
}

bool rp__is_punctuation(uint32_t c)
{
    if (c < 128) return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) || (c >= 123 && c <= 126);
    return has(punctuation, c, category_in(c, UTF8PROC_CATEGORY_PC, UTF8PROC_CATEGORY_PO));
}

bool rp__is_dropped(uint32_t c)
{
    if (c < 128) return (c < 32 && c != '\t' && c != '\n' && c != '\r') || c == 127;
    return has(dropped, c, category_in(c, UTF8PROC_CATEGORY_CC, UTF8PROC_CATEGORY_CF) ||
                           category_in(c, UTF8PROC_CATEGORY_CO, UTF8PROC_CATEGORY_CO));
}

bool rp__is_nonspacing(uint32_t c)
{
    return c >= 128 && has(nonspacing, c, category_in(c, UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_MN));
}

bool rp__is_mark(uint32_t c) { return c >= 128 && has(mark, c, category_in(c, UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_ME)); }

bool rp__is_cjk(uint32_t c)
{
    static const struct { uint32_t first, last; } ranges[] = {
#define RP_IN(set, first, last)
#define RP_OUT(set, first, last)
#define RP_LOWER(from, to)
#define RP_CJK(first, last) { first, last },
#include "io/unicode_sets.def"
#undef RP_IN
#undef RP_OUT
#undef RP_LOWER
#undef RP_CJK
    };

    for (int i = 0; i < RP_COUNT(ranges); i++)
        if (c >= ranges[i].first && c <= ranges[i].last) return true;
    return false;
}

int rp__lower(uint32_t c, uint32_t out[2])
{
    static const struct { uint32_t from, to; } late[] = {
#define RP_IN(set, first, last)
#define RP_OUT(set, first, last)
#define RP_LOWER(from, to) { from, to },
#define RP_CJK(first, last)
#include "io/unicode_sets.def"
#undef RP_IN
#undef RP_OUT
#undef RP_LOWER
#undef RP_CJK
    };

    out[0] = c < 128 ? c + (c >= 'A' && c <= 'Z' ? 32 : 0) : (uint32_t)utf8proc_tolower((utf8proc_int32_t)c);
    if (c == 0x130) {                   /* the one character whose lower case is two */
        out[0] = 'i';
        out[1] = 0x307;
        return 2;
    }
    for (int i = 0; c >= late[0].from && i < RP_COUNT(late); i++)
        if (c == late[i].from) out[0] = late[i].to;
    return 1;
}

/* utf8proc's rules of Unicode 14; marks that came later join what is before them. */
bool rp__breaks_between(uint32_t left, uint32_t right, int32_t *state)
{
    return utf8proc_grapheme_break_stateful((utf8proc_int32_t)left, (utf8proc_int32_t)right, state);
}
