/* tar.h -- walks the members of a corpus in memory. A corpus is a ustar archive that tools/fuzz wrote.
 *
 *   block of 512 bytes: name, size, checksum … | contents, padded with zeros to whole blocks | … | two blocks of zeros
 *
 * Members are regular files whose names have no '/' and ascend bytewise. Anything else is an error: a corpus that is read in part would prove less
 * than it seems to.
 */
#ifndef RP_FUZZ_TAR_H
#define RP_FUZZ_TAR_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { TAR_BLOCK = 512, TAR_NAME = 100, TAR_SIZE_AT = 124, TAR_SUM_AT = 148, TAR_TYPE_AT = 156, TAR_MAGIC_AT = 257, TAR_PREFIX_AT = 345 };

typedef struct {
    const uint8_t *at, *end;            /* the rest of the archive */
    char name[TAR_NAME + 1];            /* of the latest member, as are data and size */
    const uint8_t *data;
    size_t size;
    const char *error;                  /* NULL: none */
} tar_walk;

/* `digits` octal digits, then a zero byte or a space; else -1. */
static inline int64_t tar_octal(const uint8_t *field, int digits)
{
    int64_t n = 0;

    for (int i = 0; i < digits; i++) {
        if (field[i] < '0' || field[i] > '7') return -1;
        n = 8 * n + field[i] - '0';
    }
    return field[digits] == 0 || field[digits] == ' ' ? n : -1;
}

/* The checksum adds up the header's bytes, with spaces in place of its own eight. */
static inline bool tar_sum_is_right(const uint8_t *block)
{
    int64_t sum = 0;

    for (int i = 0; i < TAR_BLOCK; i++) sum += i >= TAR_SUM_AT && i < TAR_SUM_AT + 8 ? ' ' : block[i];
    return tar_octal(block + TAR_SUM_AT, 6) == sum;
}

static inline bool tar_is_zero(const uint8_t *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (from[i]) return false;
    return true;
}

static inline bool tar_fail(tar_walk *w, const char *why)
{
    w->error = why;
    return false;
}

/* False at the end, and if the archive is wrong: then `error` says why. Start with `at` and `end` set, all else zero. */
static inline bool tar_next(tar_walk *w)
{
    const uint8_t *block = w->at;
    size_t left          = (size_t)(w->end - block);
    char name[TAR_NAME + 1];

    if (left < 2 * TAR_BLOCK) return tar_fail(w, "it ends without two blocks of zeros");
    if (tar_is_zero(block, TAR_BLOCK)) return left == 2 * TAR_BLOCK && tar_is_zero(block, left) ? false : tar_fail(w, "there is more behind its end");
    if (memcmp(block + TAR_MAGIC_AT, "ustar\00000", 8) || !tar_sum_is_right(block)) return tar_fail(w, "a header is no ustar header");
    if (block[TAR_TYPE_AT] != '0' || block[TAR_PREFIX_AT]) return tar_fail(w, "a member is no plain file");
    memcpy(name, block, TAR_NAME);
    name[TAR_NAME] = 0;
    if (!*name || strchr(name, '/') || strcmp(name, w->name) <= 0) return tar_fail(w, "names are not in order");
    int64_t size = tar_octal(block + TAR_SIZE_AT, 11);
    if (size < 0 || (uint64_t)size > left - TAR_BLOCK) return tar_fail(w, "a member ends behind the archive");
    size_t stored = ((size_t)size + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK;
    if (stored > left - TAR_BLOCK || !tar_is_zero(block + TAR_BLOCK + size, stored - (size_t)size)) return tar_fail(w, "a member is not filled up with zeros");
    memcpy(w->name, name, sizeof name);
    w->data = block + TAR_BLOCK;
    w->size = (size_t)size;
    w->at   = block + TAR_BLOCK + stored;
    return true;
}

#endif
