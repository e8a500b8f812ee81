/* data/store.c -- implements the store of store.h with two unlinked temporary files. */
#include "data/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BUFFER_BYTES = 1 << 18 };

typedef struct {                /* written sequentially through a buffer, then read at any offset */
    int fd;
    int64_t written_bytes, held_bytes;
    uint8_t *buffer;
} scratch;

typedef struct { int64_t first, count; } stretch;

typedef struct {                /* the open document */
    const char *path;
    char place[64], why[200];
    int64_t first;              /* index of its first token */
    int64_t targets, within;    /* targets in the whole document; targets in its first max_seq_len tokens */
    int64_t first_target;
    bool open;
} document;

struct rp_store {
    rp_ctx *ctx;
    scratch words, samples;
    bool packed, masked;
    int64_t most;               /* max_seq_len */
    int32_t ignore_index;
    rp_store_counts n;
    int64_t window_targets;     /* packed: targets of the incomplete sample */
    int64_t passed_over;        /* skipped samples whose tokens are in the store */
    document doc;
    char skipped[RP_ERROR_CHARS];
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

/* /var/tmp comes before /tmp, because /tmp is often in memory. */
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

rp_status rp__store_new(rp_ctx *ctx, const rp_data_config *c, rp_store **out)
{
    rp_store *s = rp__host_alloc(ctx, sizeof *s);
    rp_status status;

    if (!s) return RP_ERR_MEMORY;
    *s = (rp_store){ .ctx = ctx, .words = { .fd = -1 }, .samples = { .fd = -1 }, .hash = RP_HASH_START, .at_begin = true, .packed = c->packed,
                     .masked = c->masking.probability > 0, .most = c->max_seq_len, .ignore_index = c->ignore_index };
    status = scratch_open(ctx, &s->words, c->scratch_dir);
    if (status == RP_OK) status = scratch_open(ctx, &s->samples, c->scratch_dir);
    if (status != RP_OK) rp__store_free(s);
    else *out = s;
    return status;
}

void rp__store_free(rp_store *s)
{
    if (!s) return;
    scratch_close(&s->words);
    scratch_close(&s->samples);
    rp__release(s);
}

/* ---- samples ---- */

static void skip(rp_store *s, const char *path, const char *place, const char *why)
{
    s->n.skipped++;
    if (!s->skipped[0]) snprintf(s->skipped, sizeof s->skipped, "'%s'%s: %s", path, place, why);
}

static rp_status add_sample(rp_store *s, int64_t first, int64_t count, int64_t targets)
{
    s->n.samples++;
    s->n.targets += targets;
    return scratch_put(s->ctx, &s->samples, &(stretch){ first, count }, sizeof(stretch));
}

static void skip_document(rp_store *s, int64_t n)
{
    const document *d       = &s->doc;
    char why[sizeof d->why] = "it is a single token, and nothing comes after it";

    if (d->why[0] && !d->targets) memcpy(why, d->why, sizeof why);
    else if (d->targets) snprintf(why, sizeof why, "its first target is token %" PRId64 ", beyond max_seq_len %" PRId64, d->first_target + 1, s->most);
    else if (n > 1) snprintf(why, sizeof why, "none of its %" PRId64 " tokens is a target", n);
    s->passed_over++;
    skip(s, d->path, d->place, why);
}

rp_status rp__store_end(rp_store *s)
{
    document *d = &s->doc;
    int64_t n   = s->n.tokens - d->first;
    bool real   = d->open && n > 0;

    d->open = false;
    if (!real || s->packed) return RP_OK;
    if (!d->within) {
        skip_document(s, n);
        return RP_OK;
    }
    s->n.truncated += n > s->most;
    return add_sample(s, d->first, n < s->most ? n : s->most, d->within);
}

rp_status rp__store_skip(rp_store *s, const char *path, const char *place, const char *why)
{
    RP_TRY(rp__store_end(s));
    skip(s, path, place, why);
    return RP_OK;
}

rp_status rp__store_begin(rp_store *s, const char *path, const char *place)
{
    RP_TRY(rp__store_end(s));
    s->doc = (document){ .path = path, .first = s->n.tokens, .open = true };
    snprintf(s->doc.place, sizeof s->doc.place, "%s", place);
    s->at_begin = true;
    return RP_OK;
}

void rp__store_why(rp_store *s, const char *why) { snprintf(s->doc.why, sizeof s->doc.why, "%s", why); }

/* Ends the packed sample whose last token was just added. */
static rp_status end_window(rp_store *s)
{
    int64_t targets = s->window_targets;
    char why[128];

    s->window_targets = 0;
    if (targets) return add_sample(s, s->n.tokens - s->most, s->most, targets);
    s->passed_over++;
    snprintf(why, sizeof why, "none of the %" PRId64 " tokens of a sample that ends here is a target", s->most);
    skip(s, s->doc.path, s->doc.place, !s->doc.targets && s->doc.why[0] ? s->doc.why : why);
    return RP_OK;
}

/* The first token of a sample counts as a target only with masking. */
static rp_status count_token(rp_store *s, bool target)
{
    document *d        = &s->doc;
    int64_t at         = s->n.tokens - 1 - d->first, in_window = (s->n.tokens - 1) % s->most;

    if (target && (at || s->masked)) {
        if (!d->targets++) d->first_target = at;
        d->within += at < s->most;
    }
    s->window_targets += target && (in_window || s->masked);
    return s->packed && in_window == s->most - 1 ? end_window(s) : RP_OK;
}

rp_status rp__store_put(rp_store *s, int32_t id, bool target)
{
    uint32_t word = (uint32_t)id | (s->at_begin ? RP_TOKEN_FIRST : 0) | (target ? 0 : RP_TOKEN_NO_TARGET);

    s->n.documents += s->at_begin;
    RP_TRY(scratch_put(s->ctx, &s->words, &word, sizeof word));
    s->at_begin = false;
    s->hash     = (s->hash ^ word) * 0x100000001b3ull;      /* FNV-1a over words; bytes would cost four times as much */
    s->n.tokens++;
    return count_token(s, target && id != s->ignore_index);
}

rp_status rp__store_finish(rp_store *s)
{
    RP_TRY(rp__store_end(s));
    RP_TRY(scratch_flush(s->ctx, &s->samples));
    RP_TRY(scratch_flush(s->ctx, &s->words));
    RP_RELEASE(s->samples.buffer, s->words.buffer);
    s->samples.buffer = s->words.buffer = NULL;
    return RP_OK;
}

rp_store_counts rp__store_counts(const rp_store *s) { return s->n; }
const char *rp__store_first_skipped(const rp_store *s) { return s->skipped; }

/* The shuffled order depends on the number of samples, so the hash includes the skipped ones. */
uint64_t rp__store_hash(const rp_store *s)
{
    return s->passed_over ? rp__hash(&s->passed_over, sizeof s->passed_over, s->hash) : s->hash;
}

rp_status rp__store_words(rp_store *s, int64_t first, int64_t count, uint32_t *out)
{
    int64_t size = (int64_t)sizeof *out;

    return scratch_get(s->ctx, &s->words, first * size, count * size, out);
}

rp_status rp__store_sample(rp_store *s, int64_t i, int64_t *first, int64_t *count)
{
    stretch at;

    RP_TRY(scratch_get(s->ctx, &s->samples, i * (int64_t)sizeof at, sizeof at, &at));
    *first = at.first;
    *count = at.count;
    return RP_OK;
}
