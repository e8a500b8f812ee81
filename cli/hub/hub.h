/* cli/hub/hub.h -- the files of a model from the Hugging Face hub, or from what speaks as it does (HF_ENDPOINT).
 *
 *   ENDPOINT/api/models/REPO/revision/REV?blobs=true ──▶ the commit; of each file name, bytes, digest     listing.c
 *   ENDPOINT/REPO/resolve/COMMIT/NAME ──302──▶ wherever the bytes lie                                      http.c
 *        └─▶ NAME.part   appended to, by this run and those that were stopped
 *               └─▶ digest compared, on the disk, renamed: NAME                                            fetch.c
 *
 * Answers of the hub are untrusted: names that lead out of the folder are refused, nothing grows beyond a bound, and HF_TOKEN
 * goes to the endpoint alone, wherever it sends us. Errors are sentences of the context; RP_ERR_MATCH is what the hub does not have or
 * does not give to us, RP_ERR_IO the network or the disk, RP_ERR_FORMAT an answer that makes no sense.
 */
#ifndef CLI_HUB_H
#define CLI_HUB_H

#include "base/bump.h"

/* ---- which files there are (listing.c) ---- */

typedef enum { HUB_NO_DIGEST, HUB_GIT_SHA1, HUB_SHA256 } hub_digest_kind;
#define HUB_DIGEST_CHARS 65

typedef struct {
    const char *name;                           /* of the repository; may lie in folders: "onnx/model.onnx" */
    int64_t bytes;                              /* -1: not told */
    hub_digest_kind kind;
    char digest[HUB_DIGEST_CHARS];              /* in small hexadecimal digits */
    bool chosen;
} hub_file;

typedef struct {
    char commit[HUB_DIGEST_CHARS];              /* "": not told, the revision stands for it */
    hub_file *file;
    int64_t n;
} hub_listing;

/* The answer of the API as a listing; its memory is the bump's.
 * errors  RP_ERR_FORMAT no such answer, a name that leads elsewhere · RP_ERR_MEMORY */
rp_status hub_listing_read(rp_bump *bump, const char *text, int64_t bytes, hub_listing *out);
/* Choose what a model needs: config, tokenizer, weights in safetensors; or `name` alone, where it is not NULL.
 * errors  RP_ERR_MATCH it has no such thing, with what it has instead */
rp_status hub_choose(rp_ctx *ctx, hub_listing *listing, const char *name);
/* Every file that an index names must be there. errors RP_ERR_FORMAT · RP_ERR_MATCH */
rp_status hub_check_index(rp_ctx *ctx, const hub_listing *listing, const char *text, int64_t bytes);
/* A relative name without "..", empty parts, backslashes or control characters, and with room for ".part". */
bool hub_name_is_safe(const char *name);
/* A digest as headers write it ("W/\"…\"") or as JSON does; HUB_NO_DIGEST where it is none. */
hub_digest_kind hub_digest_parse(const char *text, char out[HUB_DIGEST_CHARS]);

/* ---- requests (http.c) ---- */

typedef struct hub_http hub_http;

typedef struct {
    rp_ctx *ctx;
    const char *endpoint;                       /* "https://huggingface.co" */
    const char *token;                          /* NULL: none */
    const char *repo, *revision;
    int64_t retries;                            /* without a byte that came */
    double wait_seconds;                        /* before the first of them; twice as long before each other */
    const volatile int *stop;                   /* a signal that came */
    hub_http *http;
} hub;

typedef struct {
    long code;                                  /* of the last hop */
    bool again;                                 /* it failed, and may not if it is tried again */
    double after_seconds;                       /* as the server asks; 0: it does not */
    char why[64], digest[128];                  /* X-Error-Code; X-Linked-ETag or ETag of the endpoint itself */
    int64_t from;                               /* of Content-Range; 0: all is sent */
} hub_answer;

/* Bytes of a body that is wanted (2xx), as they come. An error ends the transfer and is what hub_get returns. */
typedef rp_status (*hub_sink)(void *user, const hub_answer *answer, const void *data, int64_t bytes);

rp_status hub_open(hub *h);
void hub_close(hub *h);
/* One try. `what` is the subject of its sentence; bytes before `from` are not asked for. */
rp_status hub_get(hub *h, const char *url, const char *what, int64_t from, hub_sink sink, void *user, hub_answer *answer);
/* Wait before try number `tried` + 1, telling why. errors RP_ERR_INTERRUPTED */
rp_status hub_wait(hub *h, const hub_answer *answer, int64_t tried);
/* `text` as one part of a URL, or with its slashes as several; memory of the bump. */
const char *hub_escape(hub *h, rp_bump *bump, const char *text, bool slashes);
/* A whole answer of at most cap_bytes, tried again as often as it may; *text is yours to rp__release. */
rp_status hub_get_text(hub *h, const char *url, const char *what, int64_t cap_bytes, char **text, int64_t *bytes);

/* ---- one file (fetch.c) ---- */

typedef struct hub_progress hub_progress;

/* folder/NAME, whole and of the digest the hub tells; one that is there already is left. */
rp_status hub_fetch(hub *h, hub_file *file, const char *url, const char *folder, hub_progress *progress);
/* Bytes of a file that are still to come, by what lies in the folder. */
int64_t hub_bytes_left(hub *h, const hub_file *file, const char *folder);

/* The digest of what the descriptor reads, from its beginning. errors RP_ERR_IO · RP_ERR_BACKEND the library has no such digest */
rp_status hub_digest_of(rp_ctx *ctx, int fd, const char *path, int64_t bytes, hub_digest_kind kind, char out[HUB_DIGEST_CHARS]);

/* ---- what is seen of it (progress.c) ---- */

struct hub_progress {
    bool terminal, drawn;                       /* a bar stands on the line */
    int columns;
    double began, shown;                        /* of the file that comes */
    int64_t before;                             /* bytes it had when this run began with it */
};

void hub_progress_begin(hub_progress *p, int64_t have);
void hub_progress_show(hub_progress *p, const char *name, int64_t have, int64_t bytes);
void hub_progress_done(hub_progress *p, const char *name, const char *what);
/* "269 MB": powers of ten, as networks count */
const char *hub_size_text(char out[32], int64_t bytes);

#endif
