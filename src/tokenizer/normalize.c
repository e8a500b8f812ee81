/* tokenizer/normalize.c -- Unicode normal forms by utf8proc, equal to those of the `tokenizers` package.
 *
 * The package has the tables of Unicode 9. Characters that were added later and have properties now (RP_INERT in unicode_late.def) pass unchanged,
 * and nothing composes or reorders across them. Marks are ordered here, long runs with a counting sort, because utf8proc's ordering is quadratic.
 */
#include "tokenizer/internal.h"

#include <string.h>
#include <utf8proc.h>

#include "base/list.h"
#include "text/bytes.h"

enum { EXPANSION = 18, SHORT_RUN = 32, CHUNK = 4096 };     /* EXPANSION: U+FDFA becomes 18 characters */

typedef struct {
    rp_ctx *ctx;
    unsigned options;                   /* utf8proc_option_t */
    utf8proc_int32_t *point, *spare;
    int64_t n, room, spare_room;
    rp_bytes *out;
} normalizer;

static bool is_inert(uint32_t c)
{
    static const struct { uint32_t first, last; } inert[] = {
#define RP_LATE(first, last, category)
#define RP_LATE_DIGIT(first, last)
#define RP_INERT(first, last) { first, last },
#include "tokenizer/unicode_late.def"
#undef RP_LATE
#undef RP_LATE_DIGIT
#undef RP_INERT
    };
    int low = 0, high = RP_COUNT(inert);

    if (c == 0x11a7) return true;       /* the character before the final consonants of Hangul: utf8proc 2.8 drops it when composing */
    while (low < high) {
        int middle = (low + high) / 2;
        if (c > inert[middle].last) low = middle + 1;
        else high = middle;
    }
    return low < RP_COUNT(inert) && c >= inert[low].first;
}

static int class_of(utf8proc_int32_t point) { return (int)utf8proc_get_property(point)->combining_class; }

static void sort_short(utf8proc_int32_t *run, int64_t n)
{
    for (int64_t i = 1; i < n; i++) {
        utf8proc_int32_t point = run[i];
        int64_t j = i;
        for (; j > 0 && class_of(run[j - 1]) > class_of(point); j--) run[j] = run[j - 1];
        run[j] = point;
    }
}

static rp_status sort_long(normalizer *z, utf8proc_int32_t *run, int64_t n)
{
    int64_t start[257] = { 0 }, size = (int64_t)sizeof *run;

    if (n > z->spare_room) RP_TRY(RP_RESIZE(z->ctx, z->spare, z->spare_room, n));
    for (int64_t i = 0; i < n; i++) start[class_of(run[i]) + 1]++;
    for (int c = 0; c < 256; c++) start[c + 1] += start[c];
    for (int64_t i = 0; i < n; i++) z->spare[start[class_of(run[i])]++] = run[i];
    memcpy(run, z->spare, (size_t)(n * size));
    return RP_OK;
}

/* Sorts each run of marks by combining class. Stable. */
static rp_status order_marks(normalizer *z)
{
    for (int64_t i = 0; i < z->n;) {
        int64_t end = i;
        while (end < z->n && class_of(z->point[end]) > 0) end++;
        if (end - i > SHORT_RUN) RP_TRY(sort_long(z, z->point + i, end - i));
        else sort_short(z->point + i, end - i);
        i = end + 1;
    }
    return RP_OK;
}

static rp_status flush(normalizer *z)
{
    RP_TRY(order_marks(z));
    if (z->options & UTF8PROC_COMPOSE) z->n = utf8proc_normalize_utf32(z->point, z->n, z->options);
    RP_TRY(rp__bytes_room(z->ctx, z->out, 4 * z->n));
    for (int64_t i = 0; i < z->n; i++) z->out->n += rp__utf8_put(z->out->at + z->out->n, (uint32_t)z->point[i]);
    z->n = 0;
    return RP_OK;
}

static rp_status add_point(normalizer *z, uint32_t point)
{
    int boundary = 0;

    RP_TRY(RP_GROW(z->ctx, z->point, z->room, z->n + EXPANSION));
    int64_t n = utf8proc_decompose_char((utf8proc_int32_t)point, z->point + z->n, EXPANSION, z->options, &boundary);
    RP_BUG_IF(n < 0 || n > EXPANSION);
    z->n += n;
    return RP_OK;
}

rp_status rp__normalize(rp_ctx *ctx, rp_normal_form form, const char *text, int64_t bytes, rp_bytes *out)
{
    bool composes    = form == RP_NFC || form == RP_NFKC, compat = form == RP_NFKC || form == RP_NFKD;
    normalizer z     = { .ctx = ctx, .out = out };
    rp_status status = RP_OK;
    uint32_t point;

    z.options = (unsigned)UTF8PROC_STABLE | (unsigned)(composes ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE);
    if (compat) z.options |= (unsigned)UTF8PROC_COMPAT;
    for (int64_t at = 0; at < bytes;) {
        at += rp__utf8_next(text + at, bytes - at, &point);
        bool inert = is_inert(point);
        /* an ASCII character does not combine with the one before it */
        if (inert || (point < 128 && z.n >= CHUNK)) RP_TRY_GOTO(flush(&z));
        if (!inert) {
            RP_TRY_GOTO(add_point(&z, point));
            continue;
        }
        RP_TRY_GOTO(rp__bytes_room(ctx, out, 4));
        out->n += rp__utf8_put(out->at + out->n, point);
    }
    status = flush(&z);
done:
    RP_RELEASE(z.point, z.spare);
    return status;
}
