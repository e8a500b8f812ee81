/* cli/hub/fetch.c -- fetch one file. NAME.part grows, in this run or in several, and is renamed to NAME when it is complete and has the digest
 * of the hub. NAME.part is locked, so two programs do not write into the same file. */
#include "cli/hub/hub.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

typedef struct {
    hub *h;
    hub_file *file;
    hub_progress *progress;
    char *path, *part;
    int fd;
    int64_t have;                               /* bytes in NAME.part */
    bool begun;                                 /* the body of the last answer has begun */
} fetch;

static rp_status io_fail(const fetch *f, const char *verb, const char *path)
{
    return rp_fail(f->h->ctx, RP_ERR_IO, "cannot %s '%s': %s", verb, path, strerror(errno));
}

static rp_status set_names(fetch *f, const char *folder)
{
    int64_t room = 0;

    if (!(f->path = rp__path_join(f->h->ctx, folder, f->file->name))) return RP_ERR_MEMORY;
    room = (int64_t)strlen(f->path) + 6;
    if (!(f->part = rp__host_alloc(f->h->ctx, room))) return RP_ERR_MEMORY;
    snprintf(f->part, (size_t)room, "%s.part", f->path);
    return RP_OK;
}

/* Create the folders of a name with slashes. */
static rp_status make_folder(fetch *f)
{
    char *slash = strrchr(f->path, '/');

    if (!slash) return RP_OK;
    *slash           = 0;
    rp_status status = rp__make_dirs(f->h->ctx, f->path);
    *slash           = '/';
    return status;
}

/* ---- existing files ---- */

/* *there: the file exists with the right length and digest. */
static rp_status look(const fetch *f, bool *there)
{
    char digest[HUB_DIGEST_CHARS];
    struct stat s;
    int fd = f->file->kind ? open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;

    *there = false;
    if (fd < 0) return RP_OK;
    bool alike       = !fstat(fd, &s) && S_ISREG(s.st_mode) && s.st_size == f->file->bytes;
    rp_status status = alike ? hub_digest_of(f->h->ctx, fd, f->path, f->file->bytes, f->file->kind, digest) : RP_OK;
    close(fd);
    *there = alike && status == RP_OK && !strcmp(digest, f->file->digest);
    return status;
}

int64_t hub_bytes_left(hub *h, const hub_file *file, const char *folder)
{
    fetch f      = { .h = h, .file = (hub_file *)file };
    int64_t left = file->bytes < 0 ? 0 : file->bytes;
    struct stat s;

    if (set_names(&f, folder) == RP_OK) {
        if (!stat(f.path, &s) && s.st_size == file->bytes) left = 0;
        else if (!stat(f.part, &s)) left -= s.st_size < left ? s.st_size : left;
    }
    rp__release(f.part);
    rp__release(f.path);
    return left;
}

/* ---- the part ---- */

static rp_status restart(fetch *f)
{
    f->have = 0;
    return ftruncate(f->fd, 0) ? io_fail(f, "write", f->part) : RP_OK;
}

static rp_status open_part(fetch *f)
{
    struct stat s;

    f->fd = open(f->part, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (f->fd < 0 || fstat(f->fd, &s)) return io_fail(f, "create", f->part);
    if (flock(f->fd, LOCK_EX | LOCK_NB)) {
        close(f->fd);
        f->fd = -1;                                         /* so that it is not removed */
        return rp_fail(f->h->ctx, RP_ERR_IO, "cannot write '%s': another program is downloading it", f->part);
    }
    f->have = s.st_size;
    return f->file->bytes >= 0 && f->have > f->file->bytes ? restart(f) : RP_OK;
}

static rp_status fetch_put(fetch *f, const char *data, int64_t bytes)
{
    while (bytes > 0) {
        ssize_t n = pwrite(f->fd, data, (size_t)bytes, f->have);
        if (n < 0 && errno == EINTR) continue;
        if (n == 0) errno = EIO;
        if (n <= 0) return io_fail(f, "write", f->part);
        f->have += n;
        data += n;
        bytes -= n;
    }
    return RP_OK;
}

/* A server without range requests sends the whole file. */
static rp_status fetch_begin(fetch *f, const hub_answer *answer)
{
    f->begun = true;
    if (answer->code != 206 && f->have) {
        RP_TRY(restart(f));
        hub_progress_begin(f->progress, 0);
    }
    RP_CHECK(f->h->ctx, answer->from == f->have, RP_ERR_FORMAT, "the server sends '%s' from byte %" PRId64 " instead of byte %" PRId64,
             f->file->name, answer->from, f->have);
    return RP_OK;
}

static rp_status fetch_take(void *user, const hub_answer *answer, const void *data, int64_t bytes)
{
    fetch *f = user;

    if (!f->begun) RP_TRY(fetch_begin(f, answer));
    if (f->file->bytes >= 0 && f->have + bytes > f->file->bytes) {      /* a different file: keep none of it */
        RP_TRY(restart(f));
        return rp_fail(f->h->ctx, RP_ERR_FORMAT, "'%s' is longer than the %" PRId64 " bytes on the hub", f->file->name, f->file->bytes);
    }
    RP_TRY(fetch_put(f, data, bytes));
    hub_progress_show(f->progress, f->file->name, f->have, f->file->bytes);
    return RP_OK;
}

/* One request for the missing bytes. */
static rp_status fetch_ask(fetch *f, const char *url, hub_answer *answer)
{
    char subject[256];

    snprintf(subject, sizeof subject, "'%.200s'", f->file->name);
    int64_t from     = f->have;
    f->begun         = false;
    rp_status status = hub_get(f->h, url, subject, from, fetch_take, f, answer);
    if (!f->file->kind && answer->digest[0]) f->file->kind = hub_digest_parse(answer->digest, f->file->digest);
    if (answer->code == 416 && from) {                      /* the part belongs to another file */
        RP_TRY(restart(f));
        return rp_fail(f->h->ctx, RP_ERR_IO, "cannot continue the download of %s: the server does not have these bytes", subject);
    }
    return status;
}

/* Request until the file is complete. A try that received bytes does not count as a retry. */
static rp_status fetch_fill(fetch *f, const char *url)
{
    int64_t tried = 0;
    hub_answer answer;

    for (bool whole = f->file->bytes >= 0 && f->have == f->file->bytes; !whole;) {
        int64_t had      = f->have;
        rp_status status = fetch_ask(f, url, &answer);
        whole            = status == RP_OK && (f->file->bytes < 0 || f->have == f->file->bytes);
        if (whole) break;
        if (status == RP_OK) {
            answer.again = true;
            status = rp_fail(f->h->ctx, RP_ERR_IO, "cannot download '%s': the server ended after %" PRId64 " bytes", f->file->name, f->have);
        }
        if (f->have > had) tried = 0;
        if (!answer.again || tried >= f->h->retries) return status;
        RP_TRY(hub_wait(f->h, &answer, tried++));
    }
    return RP_OK;
}

/* ---- the whole ---- */

/* *right: the digest matches, or the hub gives none. */
static rp_status fetch_check(fetch *f, char digest[HUB_DIGEST_CHARS], bool *right)
{
    *right = true;
    if (!f->file->kind) return RP_OK;
    RP_TRY(hub_digest_of(f->h->ctx, f->fd, f->part, f->have, f->file->kind, digest));
    *right = !strcmp(digest, f->file->digest);
    return RP_OK;
}

static rp_status wrong_digest(const fetch *f, const char *digest)
{
    unlink(f->part);
    return rp_fail(f->h->ctx, RP_ERR_IO, "'%s' has the digest %s, but %s on the hub; the downloaded file was removed", f->file->name, digest, f->file->digest);
}

/* Syncs the folder that contains the new name. */
static rp_status give_name(const fetch *f)
{
    if (fsync(f->fd)) return io_fail(f, "write", f->part);
    if (rename(f->part, f->path)) return io_fail(f, "write", f->path);
    return rp__dir_sync_of(f->h->ctx, f->path);
}

static rp_status bring(fetch *f, const char *url)
{
    char digest[HUB_DIGEST_CHARS] = "", size[32], text[64];
    bool right = false, resumed;

    RP_TRY(make_folder(f));
    RP_TRY(open_part(f));
    resumed = f->have > 0;
    if (resumed) fprintf(stderr, "%s: continuing after %s\n", f->file->name, hub_size_text(size, f->have));
    hub_progress_begin(f->progress, f->have);
    RP_TRY(fetch_fill(f, url));
    RP_TRY(fetch_check(f, digest, &right));
    if (!right && resumed) {                                /* the part of an earlier run belonged to another file: start over */
        fprintf(stderr, "%s: the existing part belongs to another file; downloading the whole file\n", f->file->name);
        RP_TRY(restart(f));
        hub_progress_begin(f->progress, 0);
        RP_TRY(fetch_fill(f, url));
        RP_TRY(fetch_check(f, digest, &right));
    }
    if (!right) return wrong_digest(f, digest);
    RP_TRY(give_name(f));
    snprintf(text, sizeof text, "%s%s", hub_size_text(size, f->have), f->file->kind ? "" : ", not checked: the hub has no digest");
    hub_progress_done(f->progress, f->file->name, text);
    return RP_OK;
}

rp_status hub_fetch(hub *h, hub_file *file, const char *url, const char *folder, hub_progress *progress)
{
    fetch f    = { .h = h, .file = file, .progress = progress, .fd = -1 };
    bool there = false;

    rp_status status = set_names(&f, folder);
    if (status == RP_OK) status = look(&f, &there);
    if (status == RP_OK && there) hub_progress_done(progress, file->name, "exists already");
    else if (status == RP_OK) status = bring(&f, url);
    if (status != RP_OK && f.fd >= 0 && !f.have) unlink(f.part);
    if (f.fd >= 0) close(f.fd);
    rp__release(f.part);
    rp__release(f.path);
    return status;
}
