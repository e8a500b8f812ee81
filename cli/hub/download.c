/* cli/hub/download.c -- download a model from the hub: list its files, choose those that are needed, check the disk space, fetch each file. */
#include "cli/hub/download.h"
#include "cli/hub/hub.h"

#include <errno.h>
#include <signal.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/file.h"

enum { LISTING_BYTES = 64 << 20, INDEX_BYTES = 64 << 20 };

typedef struct {
    cli *c;
    const cli_download *order;
    hub h;
    rp_bump bump;
    hub_listing listing;
    hub_progress progress;
    bool place_is_wrong;                        /* while true, a failure means that the folder is wrong input */
} download;

/* ---- signals ---- */

static volatile int stop_signal;

/* Handles the first signal; a second one ends the program at once. In both cases the received bytes stay in NAME.part. */
static void on_signal(int number) { stop_signal = number; }

static void catch_stop(void)
{
    struct sigaction action = { .sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND };

    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    signal(SIGXFSZ, SIG_IGN);                               /* a file-size limit then fails the write, like a full disk */
}

/* ---- the list of files ---- */

static rp_status list(download *d)
{
    hub *h           = &d->h;
    const char *repo = hub_escape(h, &d->bump, h->repo, true), *revision = hub_escape(h, &d->bump, h->revision, false);
    char *text       = NULL;
    int64_t bytes;

    if (!repo || !revision) return RP_ERR_MEMORY;
    const char *url     = rp__bump_format(&d->bump, "%s/api/models/%s/revision/%s?blobs=true", h->endpoint, repo, revision);
    const char *subject = rp__bump_format(&d->bump, "the list of files of '%s'", h->repo);
    if (!url || !subject) return RP_ERR_MEMORY;
    RP_TRY(hub_get_text(h, url, subject, LISTING_BYTES, &text, &bytes));
    rp_status status = hub_listing_read(&d->bump, text, bytes, &d->listing);
    rp__release(text);
    RP_TRY(status);
    return hub_choose(h->ctx, &d->listing, d->order->file);
}

/* ---- the folder ---- */

static int64_t bytes_left(download *d)
{
    int64_t left = 0;

    for (int64_t i = 0; i < d->listing.n; i++) {
        const hub_file *file = &d->listing.file[i];
        if (file->chosen) left += hub_bytes_left(&d->h, file, d->order->folder);
    }
    return left;
}

static rp_status make_folder(download *d)
{
    RP_TRY(rp__make_dirs(d->h.ctx, d->order->folder));
    RP_CHECK(d->h.ctx, !access(d->order->folder, W_OK | X_OK), RP_ERR_IO, "cannot write into '%s': %s", d->order->folder, strerror(errno));
    return RP_OK;
}

/* Called before any of these bytes is requested. */
static rp_status check_room(download *d)
{
    const char *folder = d->order->folder;
    rp_ctx *ctx        = d->h.ctx;
    char need[RP_SIZE_CHARS], room[RP_SIZE_CHARS];
    struct statvfs disk;

    RP_CHECK(ctx, !statvfs(folder, &disk), RP_ERR_IO, "cannot ask for the room in '%s': %s", folder, strerror(errno));
    int64_t left = bytes_left(d), have = (int64_t)disk.f_bavail * (int64_t)disk.f_frsize;
    RP_CHECK(ctx, left <= have, RP_ERR_IO, "'%s' has room for %s, but %s are still to be downloaded", folder, rp__size_text(room, have),
             rp__size_text(need, left));
    return RP_OK;
}

/* ---- the files ---- */

static rp_status fetch_one(download *d, hub_file *file)
{
    hub *h           = &d->h;
    const char *at   = d->listing.commit[0] ? d->listing.commit : h->revision;
    const char *repo = hub_escape(h, &d->bump, h->repo, true), *name = hub_escape(h, &d->bump, file->name, true);
    const char *revision = hub_escape(h, &d->bump, at, false);

    if (!repo || !name || !revision) return RP_ERR_MEMORY;
    const char *url = rp__bump_format(&d->bump, "%s/%s/resolve/%s/%s", h->endpoint, repo, revision, name);
    return url ? hub_fetch(h, file, url, d->order->folder, &d->progress) : RP_ERR_MEMORY;
}

static rp_status check_index(download *d, const hub_file *file)
{
    char *path = rp__path_join(d->h.ctx, d->order->folder, file->name), *text = NULL;
    int64_t bytes;

    if (!path) return RP_ERR_MEMORY;
    rp_status status = rp__file_read(d->h.ctx, path, INDEX_BYTES, &text, &bytes);
    rp__release(path);
    if (status == RP_OK) status = hub_check_index(d->h.ctx, &d->listing, text, bytes);
    rp__release(text);
    return status;
}

/* Fetch small files first, so that their errors show before the weights are downloaded. */
static rp_status fetch_all(download *d, bool weights)
{
    for (int64_t i = 0; i < d->listing.n; i++) {
        hub_file *file = &d->listing.file[i];
        if (!file->chosen || (!d->order->file && rp__ends_with(file->name, ".safetensors") != weights)) continue;
        RP_TRY(fetch_one(d, file));
        if (!d->order->file && rp__ends_with(file->name, ".safetensors.index.json")) RP_TRY(check_index(d, file));
    }
    return RP_OK;
}

static rp_status download_run(download *d)
{
    RP_TRY(hub_open(&d->h));
    RP_TRY(list(d));
    d->place_is_wrong = true;
    RP_TRY(make_folder(d));
    d->place_is_wrong = false;
    RP_TRY(check_room(d));
    RP_TRY(fetch_all(d, false));
    return d->order->file ? RP_OK : fetch_all(d, true);
}

/* ---- the command ---- */

/* A file that the hub does not have is wrong input. A wrong answer or a broken transfer is a failure while running. */
static int failed(const download *d, rp_status status)
{
    if (d->progress.drawn) fputc('\n', stderr);
    if (status == RP_ERR_INTERRUPTED) {
        cli_say(d->c, "interrupted; the received bytes are kept, and the same command continues the download");
        return 128 + stop_signal;
    }
    int code = cli_fail(d->c, status);
    return d->place_is_wrong ? CLI_USAGE : status == RP_ERR_FORMAT ? 1 : code;
}

int cli_download_run(cli *c, const cli_download *order)
{
    download d = { .c = c, .order = order, .bump = { .ctx = c->ctx } };

    d.h = (hub){ .ctx = c->ctx, .endpoint = order->endpoint, .token = order->token, .repo = order->repo, .revision = order->revision,
                 .retries = order->retries, .wait_seconds = order->wait_seconds, .stop = &stop_signal };
    d.progress.terminal = cli_terminal(&d.progress.columns);
    catch_stop();
    rp_status status = download_run(&d);
    int code         = status == RP_OK ? 0 : failed(&d, status);
    hub_close(&d.h);
    rp__bump_free(&d.bump);
    if (code) return code;
    printf("%s%s%s\n", order->folder, order->file ? "/" : "", order->file ? order->file : "");
    return cli_finish(c, 0);
}
