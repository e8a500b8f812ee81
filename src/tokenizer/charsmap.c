/* tokenizer/charsmap.c -- applies the rules of SentencePiece's normalizers (nmt_nfkc and variants) as stored in tokenizer.json.
 *
 *   blob   u32 bytes of the trie │ trie: u32 units │ texts, each ended by a 0 byte
 *   unit   bits 0-7 label, 31 set in a leaf │ bit 8 has a leaf │ bit 9 scales the offset by 256 │ bits 10-30 offset (a leaf: bits 0-30 are its value,
 *          the offset in the texts where the replacement begins)
 *
 * The trie is a double array (https://github.com/s-yata/darts-clone). The child of a node by a byte is at node ^ offset ^ byte
 * and has that byte as its label. As in the package, a grapheme of less than 6 bytes is first looked up as a whole, then each character by
 * itself. The shortest prefix in the trie decides, and its replacement replaces everything that was looked up.
 */
#include "text/bytes.h"
#include "tokenizer/internal.h"

#include <string.h>
#include <utf8proc.h>

enum { WHOLE_BELOW = 6 };

static uint32_t unit_at(const rp_charsmap *map, uint32_t i)
{
    const uint8_t *p = map->unit + 4 * (int64_t)i;

    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint32_t offset_of(uint32_t unit) { return (unit >> 10) << ((unit & 1u << 9) >> 6); }

/* Offset of the replacement of the shortest known prefix, or -1. */
static int64_t look_up(const rp_charsmap *map, const char *text, int64_t bytes)
{
    uint32_t node = map->n_units ? offset_of(unit_at(map, 0)) : 0;

    for (int64_t i = 0; i < bytes && text[i] && map->n_units; i++) {
        node ^= (uint8_t)text[i];
        if (node >= map->n_units) return -1;
        uint32_t unit = unit_at(map, node);
        if ((unit & (1u << 31 | 0xff)) != (uint8_t)text[i]) return -1;
        node ^= offset_of(unit);
        if (!(unit >> 8 & 1)) continue;
        if (node >= map->n_units) return -1;
        uint32_t value = unit_at(map, node) & 0x7fffffff;
        return value < map->text_bytes ? (int64_t)value : -1;
    }
    return -1;
}

static rp_status replace(rp_ctx *ctx, const rp_charsmap *map, const char *text, int64_t bytes, rp_bytes *out, bool *found)
{
    int64_t at = look_up(map, text, bytes);

    *found = at >= 0;
    if (!*found) return RP_OK;
    const uint8_t *end = memchr(map->text + at, 0, (size_t)(map->text_bytes - at));
    return rp__bytes_push(ctx, out, (const char *)map->text + at, (end ? end - map->text : map->text_bytes) - at);
}

static int64_t grapheme(const char *text, int64_t bytes)
{
    uint32_t last, next;
    utf8proc_int32_t state = 0;
    int64_t at = rp__utf8_next(text, bytes, &last);

    while (at < bytes) {
        int n = rp__utf8_next(text + at, bytes - at, &next);
        if (rp__breaks_between(last, next, &state)) break;
        at  += n;
        last = next;
    }
    return at;
}

rp_status rp__charsmap_apply(rp_ctx *ctx, const rp_charsmap *map, const char *text, int64_t bytes, bool ends, int64_t *used, rp_bytes *out)
{
    uint32_t point;
    bool found;

    *used = bytes;
    for (int64_t at = 0, n; at < bytes; at += n) {
        n     = grapheme(text + at, bytes - at);
        found = false;
        if (!ends && at + n == bytes) {
            *used = at;
            break;
        }
        if (n < WHOLE_BELOW) RP_TRY(replace(ctx, map, text + at, n, out, &found));
        for (int64_t i = 0, m; !found && i < n; i += m) {
            bool one = false;
            m        = rp__utf8_next(text + at + i, n - i, &point);
            RP_TRY(replace(ctx, map, text + at + i, m, out, &one));
            if (!one) RP_TRY(rp__bytes_push(ctx, out, text + at + i, m));
        }
    }
    return RP_OK;
}

/* ---- reading ---- */

static int digit_of(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at             = c ? strchr(digits, c) : NULL;

    return at ? (int)(at - digits) : -1;
}

static rp_status decode_base64(rp_ctx *ctx, const char *text, int64_t bytes, rp_bytes *out)
{
    uint32_t bits = 0;
    int n_bits    = 0;

    while (bytes > 0 && text[bytes - 1] == '=') bytes--;
    RP_TRY(rp__bytes_room(ctx, out, bytes));
    for (int64_t i = 0; i < bytes; i++) {
        int digit = digit_of(text[i]);
        RP_CHECK(ctx, digit >= 0, RP_ERR_FORMAT, "a precompiled_charsmap is not base64 at character %" PRId64, i);
        bits    = bits << 6 | (uint32_t)digit;
        n_bits += 6;
        if (n_bits < 8) continue;
        n_bits -= 8;
        out->at[out->n++] = (char)(bits >> n_bits & 0xff);
    }
    return RP_OK;
}

rp_status rp__charsmap_new(rp_ctx *ctx, const char *base64, int64_t bytes, rp_charsmap *out)
{
    RP_TRY(decode_base64(ctx, base64, bytes, &out->blob));
    const uint8_t *blob = (const uint8_t *)out->blob.at;
    int64_t n           = out->blob.n;
    int64_t trie        = n < 4 ? -1 : (int64_t)(blob[0] | (uint32_t)blob[1] << 8 | (uint32_t)blob[2] << 16 | (uint32_t)blob[3] << 24);

    RP_CHECK(ctx, trie > 0 && trie % 4 == 0 && trie <= n - 4, RP_ERR_FORMAT,
             "a precompiled_charsmap of %" PRId64 " bytes has a trie of %" PRId64, n, trie);
    out->unit       = blob + 4;
    out->n_units    = trie / 4;
    out->text       = blob + 4 + trie;
    out->text_bytes = n - 4 - trie;
    RP_CHECK(ctx, rp__utf8_valid((const char *)out->text, out->text_bytes) == out->text_bytes, RP_ERR_FORMAT,
             "a precompiled_charsmap has texts that are not UTF-8");
    return RP_OK;
}
