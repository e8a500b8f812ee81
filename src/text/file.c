/* text/file.c -- reads a text file: the raw file, its unpacker, the UTF-8 check and lines. See file.h. */
#include "text/file.h"

#include <errno.h>
#include <stdio.h>

#include "base/list.h"
#include "text/internal.h"
#include "text/utf8.h"

const char rp__text_file_memory[] = "memory ran out";

static const rp_unpacker *const kinds[] = { &rp__text_file_gzip, &rp__text_file_zstd };

struct rp_text_file {
    rp_ctx *ctx;
    char *path;
    FILE *file;
    const rp_unpacker *kind;            /* NULL: the file is not packed */
    void *state;
    uint8_t *raw;                       /* buffer of RP_TEXT_FILE_BYTES for raw bytes of the file */
    rp_packed packed;                   /* the part of raw that is not consumed yet */
    int64_t raw_end;                    /* number of bytes read from the file into raw so far */
    bool at_end, between;               /* end of the file reached · the packed data may end here */
    bool begun;                         /* the first bytes were examined … */
    char first[3];                      /* … and are kept here, unless they are a byte-order mark */
    int64_t n_first, first_given;
    int64_t offset;                     /* bytes of unpacked text read so far, with the mark */
    char cut[4];                        /* start of a character that the last read cut in two */
    int64_t n_cut;
    char *line;
    int64_t room, begin, end;           /* line[begin, end): bytes read but not returned yet */
};

/* ---- the file ---- */

static rp_status file_fill(rp_text_file *in)
{
    size_t n = fread(in->raw, 1, RP_TEXT_FILE_BYTES, in->file);

    RP_CHECK(in->ctx, !ferror(in->file), RP_ERR_IO, "cannot read '%s': %s", in->path, strerror(errno));
    in->packed = (rp_packed){ in->raw, (int64_t)n };
    in->raw_end += (int64_t)n;
    in->at_end = n < RP_TEXT_FILE_BYTES;
    return RP_OK;
}

static rp_status no_memory(const rp_text_file *in)
{
    return rp_fail(in->ctx, RP_ERR_MEMORY, "cannot unpack '%s': %s", in->path, rp__text_file_memory);
}

static rp_status find_kind(rp_text_file *in)
{
    for (int i = 0; i < RP_COUNT(kinds); i++)
        if (in->packed.bytes >= kinds[i]->magic_bytes && !memcmp(in->packed.at, kinds[i]->magic, (size_t)kinds[i]->magic_bytes))
            in->kind = kinds[i];
    if (!in->kind) return RP_OK;
    in->state = in->kind->open(in->ctx);
    return in->state ? RP_OK : no_memory(in);
}

static rp_status open_file(rp_text_file *in, const char *path, FILE *file)
{
    in->path = rp__host_text(in->ctx, path);
    in->raw  = in->path ? rp__host_alloc(in->ctx, RP_TEXT_FILE_BYTES) : NULL;
    if (!in->raw) return RP_ERR_MEMORY;
    in->file = file ? file : fopen(path, "re");
    RP_CHECK(in->ctx, in->file, errno == ENOMEM ? RP_ERR_MEMORY : RP_ERR_CONFIG, "cannot open '%s': %s", path, strerror(errno));
    RP_TRY(file_fill(in));
    return find_kind(in);
}

static rp_status new_file(rp_ctx *ctx, const char *path, FILE *file, rp_text_file **out)
{
    rp_text_file *in = rp__host_alloc(ctx, sizeof *in);

    if (!in) return RP_ERR_MEMORY;
    *in              = (rp_text_file){ .ctx = ctx };
    rp_status status = open_file(in, path, file);
    if (status == RP_OK) *out = in;
    else rp__text_file_close(in);
    return status;
}

rp_status rp__text_file_open(rp_ctx *ctx, const char *path, rp_text_file **out) { return new_file(ctx, path, NULL, out); }

rp_status rp__text_file_stdin(rp_ctx *ctx, rp_text_file **out) { return new_file(ctx, "/dev/stdin", stdin, out); }

void rp__text_file_close(rp_text_file *in)
{
    if (!in) return;
    if (in->state) in->kind->close(in->state);
    if (in->file && in->file != stdin) fclose(in->file);
    RP_RELEASE(in->line, in->raw, in->path, in);
}

/* ---- files that are not text ---- */

typedef struct { const char *begins, *name, *advice; } other_kind;

static const other_kind others[] = {
    { "\xff\xfe", "UTF-16", ": convert it to UTF-8, for example with iconv -f UTF-16 -t UTF-8" },
    { "\xfe\xff", "UTF-16", ": convert it to UTF-8, for example with iconv -f UTF-16 -t UTF-8" },
    { "%PDF-", "a PDF", ": extract its text first, for example with pdftotext" },
};

rp_status rp__text_file_check(const rp_text_file *in)
{
    if (in->kind) return RP_OK;
    for (int i = 0; i < RP_COUNT(others); i++) {
        int64_t n = (int64_t)strlen(others[i].begins);
        RP_CHECK(in->ctx, in->packed.bytes < n || memcmp(in->packed.at, others[i].begins, (size_t)n), RP_ERR_FORMAT,
                 "'%s' is not text but %s%s", in->path, others[i].name, others[i].advice);
    }
    const uint8_t *zero = in->packed.bytes ? memchr(in->packed.at, 0, (size_t)in->packed.bytes) : NULL;
    RP_CHECK(in->ctx, !zero, RP_ERR_FORMAT, "'%s' is not text: byte %" PRId64 " is zero", in->path, (int64_t)(zero - in->packed.at));
    return RP_OK;
}

/* ---- bytes ---- */

static rp_status read_plain(rp_text_file *in, char *to, int64_t room, int64_t *n)
{
    if (!in->packed.bytes && !in->at_end) RP_TRY(file_fill(in));
    *n = in->packed.bytes < room ? in->packed.bytes : room;
    if (*n) memcpy(to, in->packed.at, (size_t)*n);
    in->packed.at += *n;
    in->packed.bytes -= *n;
    return RP_OK;
}

/* At the end of the file, one more step without input flushes the unpacker's output. */
static rp_status read_packed(rp_text_file *in, char *to, int64_t room, int64_t *n)
{
    for (*n = 0; !*n;) {
        if (!in->packed.bytes && !in->at_end) RP_TRY(file_fill(in));
        int64_t before    = in->packed.bytes;
        const char *wrong = in->kind->step(in->state, &in->packed, (uint8_t *)to, room, n, &in->between);
        if (wrong == rp__text_file_memory) return no_memory(in);
        RP_CHECK(in->ctx, !wrong, RP_ERR_FORMAT, "'%s' is damaged at byte %" PRId64 " of its %s data: %s", in->path,
                 in->raw_end - in->packed.bytes, in->kind->name, wrong);
        if (*n || in->packed.bytes < before || !in->at_end) continue;
        RP_CHECK(in->ctx, in->between, RP_ERR_FORMAT, "'%s' is cut short: its %s data does not end at byte %" PRId64, in->path, in->kind->name,
                 in->raw_end);
        return RP_OK;
    }
    return RP_OK;
}

static rp_status read_bytes(rp_text_file *in, char *to, int64_t room, int64_t *n)
{
    return in->kind ? read_packed(in, to, room, n) : read_plain(in, to, room, n);
}

static rp_status fill_first(rp_text_file *in)
{
    int64_t n = 1;

    for (in->n_first = 0; n && in->n_first < (int64_t)sizeof in->first; in->n_first += n)
        RP_TRY(read_bytes(in, in->first + in->n_first, (int64_t)sizeof in->first - in->n_first, &n));
    return RP_OK;
}

/* The first bytes are kept until it is known whether they are a byte-order mark. */
static rp_status look_at_first(rp_text_file *in)
{
    in->begun = true;
    RP_TRY(fill_first(in));
    if (in->n_first < 3 || memcmp(in->first, "\xef\xbb\xbf", 3)) return RP_OK;
    in->offset = in->n_first;
    return fill_first(in);
}

rp_status rp__text_file_empty(rp_text_file *in, bool *empty)
{
    if (!in->begun) RP_TRY(look_at_first(in));
    *empty = !in->n_first;
    return RP_OK;
}

static rp_status read_behind_mark(rp_text_file *in, char *to, int64_t room, int64_t *n)
{
    if (!in->begun) RP_TRY(look_at_first(in));
    int64_t left = in->n_first - in->first_given;
    if (!left) return read_bytes(in, to, room, n);
    *n = left < room ? left : room;
    memcpy(to, in->first + in->first_given, (size_t)*n);
    in->first_given += *n;
    return RP_OK;
}

/* ---- UTF-8 ---- */

static rp_status not_utf8(const rp_text_file *in, int64_t offset, char byte)
{
    return rp_fail(in->ctx, RP_ERR_FORMAT, "'%s' is not UTF-8: byte %" PRId64 "%s is 0x%02x, which belongs to no character; convert the file, for "
                   "example with iconv -f LATIN1 -t UTF-8", in->path, offset, in->kind ? " of its unpacked text" : "", (uint8_t)byte);
}

/* Completes the character that the last read cut in two. *used: how many of the n bytes of text belong to it. */
static rp_status finish_cut(rp_text_file *in, const char *text, int64_t n, int64_t *used)
{
    char whole[sizeof in->cut];
    int64_t bytes = in->n_cut;

    memcpy(whole, in->cut, (size_t)in->n_cut);
    for (int64_t i = 0; i < n && bytes < (int64_t)sizeof whole; i++) whole[bytes++] = text[i];
    int64_t valid = rp__utf8_valid(whole, bytes);
    if (valid) {
        *used     = valid - in->n_cut;
        in->n_cut = 0;
        return RP_OK;
    }
    if (!n || rp__utf8_unfinished(whole, bytes) != bytes) return not_utf8(in, in->offset - in->n_cut, whole[0]);
    memcpy(in->cut, whole, (size_t)bytes);
    in->n_cut = bytes;
    *used     = n;
    return RP_OK;
}

static rp_status check_utf8(rp_text_file *in, const char *text, int64_t n)
{
    int64_t at = 0;

    if (in->n_cut) RP_TRY(finish_cut(in, text, n, &at));
    at += rp__utf8_valid(text + at, n - at);
    if (at < n && rp__utf8_unfinished(text + at, n - at) != n - at) return not_utf8(in, in->offset + at, text[at]);
    if (at < n) memcpy(in->cut, text + at, (size_t)(n - at));
    if (at < n) in->n_cut = n - at;
    return RP_OK;
}

rp_status rp__text_file_read(rp_text_file *in, char *to, int64_t room, int64_t *n)
{
    RP_TRY(read_behind_mark(in, to, room, n));
    RP_TRY(check_utf8(in, to, *n));
    in->offset += *n;
    return RP_OK;
}

/* ---- lines ---- */

/* Moves the bytes not yet returned to the start of the buffer and makes room for more after them. */
static rp_status file_make_room(rp_text_file *in)
{
    if (in->begin) memmove(in->line, in->line + in->begin, (size_t)(in->end - in->begin));
    in->end -= in->begin;
    in->begin = 0;
    return RP_GROW(in->ctx, in->line, in->room, in->end + RP_TEXT_FILE_BYTES);
}

rp_status rp__text_file_line(rp_text_file *in, const char **line, int64_t *bytes)
{
    int64_t looked = 0, n;

    for (;;) {
        char *from = in->line ? in->line + in->begin : NULL, *found = NULL;
        if (in->end > in->begin + looked) found = memchr(from + looked, '\n', (size_t)(in->end - in->begin - looked));
        if (found) {
            *line  = from;
            *bytes = found + 1 - from;
            in->begin += *bytes;
            return RP_OK;
        }
        looked = in->end - in->begin;
        RP_TRY(file_make_room(in));
        RP_TRY(rp__text_file_read(in, in->line + in->end, RP_TEXT_FILE_BYTES, &n));
        in->end += n;
        if (n) continue;
        *line     = looked ? in->line : NULL;
        *bytes    = looked;
        in->begin = in->end;
        return RP_OK;
    }
}
