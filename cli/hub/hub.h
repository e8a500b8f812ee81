/* cli/hub/hub.h -- downloads the files of a model from the Hugging Face hub, or a server with the same API (HF_ENDPOINT).
 *
 *   ENDPOINT/api/models/REPO/revision/REV?blobs=true ──▶ the commit; name, bytes and digest of each file   listing.c
 *   ENDPOINT/REPO/resolve/COMMIT/NAME ──302──▶ the server with the bytes                                   http.c
 *        └─▶ NAME.part   appended to, by this run and interrupted ones
 *               └─▶ digest compared, synced to disk, renamed: NAME                                         fetch.c
 *
 * Answers of the hub are untrusted: names that lead out of the folder are refused, every size is bounded, and HF_TOKEN is sent to the
 * endpoint only, not to servers that it redirects to. Errors set the message of the context: RP_ERR_MATCH the hub does not have the file or
 * does not give access, RP_ERR_IO network or disk, RP_ERR_FORMAT an invalid answer.
 */
#ifndef CLI_HUB_H
#define CLI_HUB_H

#include "base/bump.h"

/* ---- the list of files (listing.c) ---- */

typedef enum { HUB_NO_DIGEST, HUB_GIT_SHA1, HUB_SHA256 } hub_digest_kind;
#define HUB_DIGEST_CHARS 65

typedef struct {
    const char *name;                           /* path in the repository: "onnx/model.onnx" */
    int64_t bytes;                              /* -1: unknown */
    hub_digest_kind kind;
    char digest[HUB_DIGEST_CHARS];              /* lower-case hexadecimal */
    bool chosen;
} hub_file;

typedef struct {
    char commit[HUB_DIGEST_CHARS];              /* "": unknown, the revision is used instead */
    hub_file *file;
    int64_t n;
} hub_listing;

/* Read the answer of the API. The bump owns the memory of *out.
 * errors  RP_ERR_FORMAT an invalid answer, a name that leads out of the folder · RP_ERR_MEMORY */
rp_status hub_listing_read(rp_bump *bump, const char *text, int64_t bytes, hub_listing *out);
/* Choose the files that a model needs: config, tokenizer, weights in safetensors. name not NULL: only this file.
 * errors  RP_ERR_MATCH no such files; the message names alternatives · RP_ERR_MEMORY */
rp_status hub_choose(rp_ctx *ctx, hub_listing *listing, const char *name);
/* Check that every file in an index is chosen. errors RP_ERR_FORMAT an invalid index · RP_ERR_MATCH a missing file */
rp_status hub_check_index(rp_ctx *ctx, const hub_listing *listing, const char *text, int64_t bytes);
/* Whether a name is relative and safe: no "..", empty parts, backslashes or control characters, and short enough for ".part". */
bool hub_name_is_safe(const char *name);
/* Parse a digest from a header ("W/\"…\"") or from JSON; HUB_NO_DIGEST if it is none. */
hub_digest_kind hub_digest_parse(const char *text, char out[HUB_DIGEST_CHARS]);

/* ---- requests (http.c) ---- */

typedef struct hub_http hub_http;

typedef struct {
    rp_ctx *ctx;
    const char *endpoint;                       /* "https://huggingface.co" */
    const char *token;                          /* NULL: none */
    const char *repo, *revision;
    int64_t retries;                            /* retries in a row that receive no byte */
    double wait_seconds;                        /* before the first retry; doubled before each further one */
    const volatile int *stop;                   /* the received signal; 0: none */
    hub_http *http;
} hub;

typedef struct {
    long code;                                  /* HTTP status of the last hop */
    bool again;                                 /* it failed, and a retry may succeed */
    double after_seconds;                       /* wait that the server asks for; 0: none */
    char why[64], digest[128];                  /* X-Error-Code; X-Linked-ETag or ETag, from the endpoint only */
    int64_t from;                               /* from Content-Range; 0: the whole file is sent */
} hub_answer;

/* Receives the bytes of a successful answer (2xx). An error ends the transfer and is returned by hub_get. */
typedef rp_status (*hub_sink)(void *user, const hub_answer *answer, const void *data, int64_t bytes);

rp_status hub_open(hub *h);
void hub_close(hub *h);
/* One try. subject: subject of the error message. from: first byte to request. errors RP_ERR_INTERRUPTED · RP_ERR_MATCH · RP_ERR_IO · those of sink */
rp_status hub_get(hub *h, const char *url, const char *subject, int64_t from, hub_sink sink, void *user, hub_answer *answer);
/* Print the error and wait before try number `tried` + 1. errors RP_ERR_INTERRUPTED */
rp_status hub_wait(hub *h, const hub_answer *answer, int64_t tried);
/* Escape text for a URL; slashes: keep slashes as separators. The bump owns the result; NULL after RP_ERR_MEMORY. */
const char *hub_escape(hub *h, rp_bump *bump, const char *text, bool slashes);
/* Get an answer of at most cap_bytes with retries. *text is yours to rp__release. errors RP_ERR_FORMAT too long or empty · those of hub_get */
rp_status hub_get_text(hub *h, const char *url, const char *subject, int64_t cap_bytes, char **text, int64_t *bytes);

/* ---- one file (fetch.c) ---- */

typedef struct hub_progress hub_progress;

/* Fetch a file to folder/NAME, complete and with the right digest. An existing correct file is kept. */
rp_status hub_fetch(hub *h, hub_file *file, const char *url, const char *folder, hub_progress *progress);
/* The bytes that are missing in the folder. */
int64_t hub_bytes_left(hub *h, const hub_file *file, const char *folder);

/* The digest of the whole file of the descriptor. errors RP_ERR_IO · RP_ERR_BACKEND libcrypto has no such digest · RP_ERR_MEMORY */
rp_status hub_digest_of(rp_ctx *ctx, int fd, const char *path, int64_t bytes, hub_digest_kind kind, char out[HUB_DIGEST_CHARS]);

/* ---- progress (progress.c) ---- */

struct hub_progress {
    bool terminal, drawn;                       /* drawn: a bar is on the line */
    int columns;
    double began, shown;                        /* times of the current file: begin, last output */
    int64_t before;                             /* bytes of the file before this run */
};

void hub_progress_begin(hub_progress *p, int64_t have);
void hub_progress_show(hub_progress *p, const char *name, int64_t have, int64_t bytes);
void hub_progress_done(hub_progress *p, const char *name, const char *result);
/* "269 MB": in powers of ten */
const char *hub_size_text(char out[32], int64_t bytes);

#endif
