/* train/data_store.c -- two unlinked temporary files: see data_store.h. */
#include "train/data_store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BUFFER_BYTES = 1 << 18 };

typedef struct {                /* appended through a buffer, then read at any place */
    int fd;
    int64_t written_bytes, held_bytes;
    uint8_t *buffer;
} scratch;

struct rp_store {
    rp_ctx *ctx;
    scratch words, index;
    int64_t n_tokens, n_documents;
    uint64_t hash;
    bool at_begin;
};

static int open_in(const char *directory)
{
    char name[4096];
    int fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return fd;
    if (snprintf(name, sizeof name, "%s/reprise-XXXXXX", directory) >= (int)sizeof name) return -1;
    fd = mkostemp(name, O_CLOEXEC);
    if (fd >= 0) unlink(name);
    return fd;
}

/* /var/tmp before /tmp: the latter is often memory. */
static int open_anywhere(const char *directory)
{
    const char *tries[] = { directory, getenv("TMPDIR"), "/var/tmp", "/tmp" };
    int fd = -1;

    for (int i = directory ? 0 : 1; i < (directory ? 1 : RP_COUNT(tries)) && fd < 0; i++)
        if (tries[i] && *tries[i]) fd = open_in(tries[i]);
    return fd;
}

static rp_status scratch_open(rp_ctx *ctx, scratch *s, const char *directory)
{
    s->buffer = rp__host_alloc(ctx, BUFFER_BYTES);
    if (!s->buffer) return RP_ERR_MEMORY;
    s->fd = open_anywhere(directory);
    RP_CHECK(ctx, s->fd >= 0, RP_ERR_IO, "cannot make a temporary file for tokens in '%s': %s",
             directory ? directory : "$TMPDIR, /var/tmp or /tmp", strerror(errno));
    return RP_OK;
}

static void scratch_close(scratch *s)
{
    if (s->fd >= 0) close(s->fd);
    rp__release(s->buffer);
}

static rp_status scratch_flush(rp_ctx *ctx, scratch *s)
{
    for (int64_t done = 0; done < s->held_bytes;) {
        ssize_t n = pwrite(s->fd, s->buffer + done, (size_t)(s->held_bytes - done), s->written_bytes + done);
        if (n < 0 && errno == EINTR) continue;
        RP_CHECK(ctx, n > 0, RP_ERR_IO, "cannot write the temporary file of tokens at byte %" PRId64 ": %s",
                 s->written_bytes + done, n < 0 ? strerror(errno) : "nothing was written");
        done += n;
    }
    s->written_bytes += s->held_bytes;
    s->held_bytes = 0;
    return RP_OK;
}

static rp_status scratch_put(rp_ctx *ctx, scratch *s, const void *from, int64_t bytes)
{
    if (s->held_bytes + bytes > BUFFER_BYTES) RP_TRY(scratch_flush(ctx, s));
    memcpy(s->buffer + s->held_bytes, from, (size_t)bytes);
    s->held_bytes += bytes;
    return RP_OK;
}

static rp_status scratch_get(rp_ctx *ctx, scratch *s, int64_t at, int64_t bytes, void *to)
{
    for (int64_t done = 0; done < bytes;) {
        ssize_t n = pread(s->fd, (char *)to + done, (size_t)(bytes - done), at + done);
        if (n < 0 && errno == EINTR) continue;
        RP_CHECK(ctx, n > 0, RP_ERR_IO, "cannot read the temporary file of tokens at byte %" PRId64 ": %s", at + done,
                 n < 0 ? strerror(errno) : "it ends there");
        done += n;
    }
    return RP_OK;
}

rp_status rp__store_new(rp_ctx *ctx, const char *directory, rp_store **out)
{
    rp_store *s = rp__host_alloc(ctx, sizeof *s);
    rp_status status;

    if (!s) return RP_ERR_MEMORY;
    *s     = (rp_store){ .ctx = ctx, .words = { .fd = -1 }, .index = { .fd = -1 }, .hash = RP_HASH_SEED, .at_begin = true };
    status = scratch_open(ctx, &s->words, directory);
    if (status == RP_OK) status = scratch_open(ctx, &s->index, directory);
    if (status != RP_OK) rp__store_free(s);
    else *out = s;
    return status;
}

void rp__store_free(rp_store *s)
{
    if (!s) return;
    scratch_close(&s->words);
    scratch_close(&s->index);
    rp__release(s);
}

void rp__store_begin(rp_store *s) { s->at_begin = true; }

rp_status rp__store_put(rp_store *s, int32_t id, bool target)
{
    uint32_t word = (uint32_t)id | (s->at_begin ? RP_TOKEN_FIRST : 0) | (target ? 0 : RP_TOKEN_NO_TARGET);

    if (s->at_begin) {
        RP_TRY(scratch_put(s->ctx, &s->index, &s->n_tokens, sizeof s->n_tokens));
        s->n_documents++;
    }
    RP_TRY(scratch_put(s->ctx, &s->words, &word, sizeof word));
    s->at_begin = false;
    s->hash     = (s->hash ^ word) * 0x100000001b3ull;      /* FNV-1a by words: bytes would cost four times as much */
    s->n_tokens++;
    return RP_OK;
}

rp_status rp__store_finish(rp_store *s)
{
    RP_TRY(scratch_put(s->ctx, &s->index, &s->n_tokens, sizeof s->n_tokens));
    RP_TRY(scratch_flush(s->ctx, &s->index));
    RP_TRY(scratch_flush(s->ctx, &s->words));
    rp__release(s->index.buffer);
    rp__release(s->words.buffer);
    s->index.buffer = s->words.buffer = NULL;
    return RP_OK;
}

int64_t rp__store_n_tokens(const rp_store *s) { return s->n_tokens; }
int64_t rp__store_n_documents(const rp_store *s) { return s->n_documents; }
uint64_t rp__store_hash(const rp_store *s) { return s->hash; }

rp_status rp__store_words(rp_store *s, int64_t first, int64_t count, uint32_t *out)
{
    int64_t size = (int64_t)sizeof *out;

    return scratch_get(s->ctx, &s->words, first * size, count * size, out);
}

rp_status rp__store_document(rp_store *s, int64_t i, int64_t *first, int64_t *count)
{
    int64_t ends[2];

    RP_TRY(scratch_get(s->ctx, &s->index, i * (int64_t)sizeof ends[0], sizeof ends, ends));
    *first = ends[0];
    *count = ends[1] - ends[0];
    return RP_OK;
}
