/* cli/hub/http.c -- one GET by libcurl. Redirects are followed here one by one, so that the token is sent to the endpoint only. */
#include "cli/hub/hub.h"

#include <curl/curl.h>
#include <strings.h>
#include <time.h>

#include "base/list.h"

enum { MOST_HOPS = 10, URL_CHARS = 16384, STALLED_SECONDS = 60, CONNECT_SECONDS = 30, REFUSED_BYTES = 1 << 20, LONGEST_WAIT = 60 };

struct hub_http {
    CURL *easy;
    char error[CURL_ERROR_SIZE];
};

typedef struct {
    hub *h;
    hub_sink sink;
    void *user;
    hub_answer *answer;
    rp_status status;                           /* result of the sink */
    int64_t refused_bytes;                      /* bytes of the body of an error or redirect */
    bool home;                                  /* this hop goes to the endpoint */
} transfer;

/* ---- URLs ---- */

static bool same_origin(const char *a, const char *b)
{
    static const CURLUPart part[] = { CURLUPART_SCHEME, CURLUPART_HOST, CURLUPART_PORT };
    CURLU *url[2]                 = { curl_url(), curl_url() };
    bool same = url[0] && url[1] && !curl_url_set(url[0], CURLUPART_URL, a, 0) && !curl_url_set(url[1], CURLUPART_URL, b, 0);

    for (int i = 0; same && i < RP_COUNT(part); i++) {
        char *left = NULL, *right = NULL;
        same = !curl_url_get(url[0], part[i], &left, CURLU_DEFAULT_PORT) && !curl_url_get(url[1], part[i], &right, CURLU_DEFAULT_PORT) &&
               !strcasecmp(left, right);
        curl_free(left);
        curl_free(right);
    }
    curl_url_cleanup(url[0]);
    curl_url_cleanup(url[1]);
    return same;
}

const char *hub_escape(hub *h, rp_bump *bump, const char *text, bool slashes)
{
    const char *out = "";

    for (const char *part = text; out;) {
        size_t n      = slashes ? strcspn(part, "/") : strlen(part);
        char *escaped = n ? curl_easy_escape(h->http->easy, part, (int)n) : NULL;
        out           = escaped || !n ? rp__bump_format(bump, "%s%s%s", out, part == text ? "" : "/", escaped ? escaped : "") : NULL;
        curl_free(escaped);
        if (!part[n]) break;
        part += n + 1;
    }
    return out;
}

/* ---- callbacks ---- */

static const char *value_of(const char *line, const char *name)
{
    size_t n = strlen(name);

    return !strncasecmp(line, name, n) && line[n] == ':' ? line + n + 1 + strspn(line + n + 1, " \t") : NULL;
}

static size_t on_header(char *data, size_t one, size_t n, void *user)
{
    transfer *t = user;
    hub_answer *a = t->answer;
    char line[512];
    const char *value;
    int64_t number;

    snprintf(line, sizeof line, "%.*s", (int)(n > sizeof line - 1 ? sizeof line - 1 : n), data);
    line[strcspn(line, "\r\n")] = 0;
    if ((value = value_of(line, "retry-after")) && rp__parse_int(value, 0, 86400, &number)) a->after_seconds = (double)number;
    if ((value = value_of(line, "content-range")) && !strncmp(value, "bytes ", 6)) a->from = strtoll(value + 6, NULL, 10);
    if (!t->home) return one * n;
    if ((value = value_of(line, "x-error-code"))) snprintf(a->why, sizeof a->why, "%s", value);
    if ((value = value_of(line, "x-linked-etag"))) snprintf(a->digest, sizeof a->digest, "%.127s", value);
    if ((value = value_of(line, "etag")) && !a->digest[0]) snprintf(a->digest, sizeof a->digest, "%.127s", value);
    return one * n;
}

static size_t on_body(char *data, size_t one, size_t n, void *user)
{
    transfer *t = user;

    curl_easy_getinfo(t->h->http->easy, CURLINFO_RESPONSE_CODE, &t->answer->code);
    if (t->answer->code / 100 != 2) {
        t->refused_bytes += (int64_t)(one * n);
        return t->refused_bytes <= REFUSED_BYTES ? one * n : 0;
    }
    t->status = t->sink(t->user, t->answer, data, (int64_t)(one * n));
    return t->status == RP_OK ? one * n : 0;
}

static int on_time(void *user, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    (void)a, (void)b, (void)c, (void)d;
    return *((transfer *)user)->h->stop != 0;
}

/* ---- one hop ---- */

static void set_transfer(CURL *easy, transfer *t)
{
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, t);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, t);
    curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, on_time);
    curl_easy_setopt(easy, CURLOPT_XFERINFODATA, t);
    curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
}

/* A stalled transfer is aborted, so no request waits forever. */
static void set_limits(hub *h, CURL *easy)
{
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, h->http->error);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS);
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, (long)STALLED_SECONDS);
    if (getenv("SSL_CERT_FILE")) curl_easy_setopt(easy, CURLOPT_CAINFO, getenv("SSL_CERT_FILE"));
}

static CURLcode hop(transfer *t, const char *url, int64_t from)
{
    hub *h    = t->h;
    CURL *easy = h->http->easy;
    char agent[64], range[32];

    curl_easy_reset(easy);
    set_limits(h, easy);
    set_transfer(easy, t);
    snprintf(agent, sizeof agent, "reprise/%s", rp_version());
    snprintf(range, sizeof range, "%" PRId64 "-", from);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, agent);
    curl_easy_setopt(easy, CURLOPT_URL, url);
    /* An https endpoint allows only https, so that nobody on the network can replace the bytes. */
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, !strncmp(h->endpoint, "https:", 6) ? "https" : "http,https");
    if (from) curl_easy_setopt(easy, CURLOPT_RANGE, range);
    t->home = same_origin(url, h->endpoint);
    if (t->home && h->token) {
        curl_easy_setopt(easy, CURLOPT_HTTPAUTH, (long)CURLAUTH_BEARER);
        curl_easy_setopt(easy, CURLOPT_XOAUTH2_BEARER, h->token);
    }
    h->http->error[0] = 0;
    t->answer->code   = 0;
    t->answer->from   = 0;
    CURLcode rc       = curl_easy_perform(easy);
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &t->answer->code);
    return rc;
}

static bool is_redirect(long code) { return code == 301 || code == 302 || code == 303 || code == 307 || code == 308; }

/* Follow the redirects of a request. *rc: result of the last hop. False: too many redirects. */
static bool hops(transfer *t, const char *first, int64_t from, CURLcode *rc)
{
    char url[URL_CHARS], *next;

    snprintf(url, sizeof url, "%s", first);
    for (int i = 0; i < MOST_HOPS; i++) {
        *rc = hop(t, url, from);
        if (*rc || !is_redirect(t->answer->code)) return true;
        if (curl_easy_getinfo(t->h->http->easy, CURLINFO_REDIRECT_URL, &next) || !next || strlen(next) >= sizeof url) return false;
        snprintf(url, sizeof url, "%s", next);
    }
    return false;
}

/* ---- errors ---- */

static bool may_pass(CURLcode rc)
{
    static const CURLcode passing[] = { CURLE_COULDNT_RESOLVE_HOST, CURLE_COULDNT_RESOLVE_PROXY, CURLE_COULDNT_CONNECT, CURLE_PARTIAL_FILE,
                                        CURLE_OPERATION_TIMEDOUT, CURLE_GOT_NOTHING, CURLE_SEND_ERROR, CURLE_RECV_ERROR, CURLE_HTTP2,
                                        CURLE_HTTP2_STREAM, CURLE_SSL_CONNECT_ERROR };

    for (int i = 0; i < RP_COUNT(passing); i++)
        if (rc == passing[i]) return true;
    return false;
}

/* 401 and 403: the hub also answers so for repositories that do not exist, if the user is unknown. */
static rp_status not_given(const hub *h, const hub_answer *a)
{
    rp_ctx *ctx = h->ctx;

    RP_CHECK(ctx, strcmp(a->why, "GatedRepo"), RP_ERR_MATCH, "'%s' is gated: ask for access at %s/%s%s", h->repo, h->endpoint, h->repo,
             h->token ? ", with the account of HF_TOKEN" : " and set HF_TOKEN");
    RP_CHECK(ctx, h->token, RP_ERR_MATCH, "cannot access '%s' on the hub: it does not exist, or it is private or gated and HF_TOKEN is not set", h->repo);
    return rp_fail(ctx, RP_ERR_MATCH, "cannot access '%s' on the hub: it does not exist, or HF_TOKEN has no access to it", h->repo);
}

static rp_status not_there(const hub *h, const hub_answer *a, const char *subject)
{
    RP_CHECK(h->ctx, strcmp(a->why, "RevisionNotFound"), RP_ERR_MATCH, "'%s' has no revision '%s'", h->repo, h->revision);
    RP_CHECK(h->ctx, strcmp(a->why, "RepoNotFound"), RP_ERR_MATCH, "there is no model '%s' at %s", h->repo, h->endpoint);
    return rp_fail(h->ctx, RP_ERR_MATCH, "cannot find %s at %s", subject, h->endpoint);
}

static rp_status refused(const hub *h, hub_answer *a, const char *subject)
{
    if (a->code == 401 || a->code == 403) return not_given(h, a);
    if (a->code == 404) return not_there(h, a, subject);
    a->again = a->code == 429 || a->code == 408 || a->code / 100 == 5 || a->code == 416;
    return rp_fail(h->ctx, RP_ERR_IO, "cannot download %s: the server answers %ld", subject, a->code);
}

rp_status hub_get(hub *h, const char *url, const char *subject, int64_t from, hub_sink sink, void *user, hub_answer *answer)
{
    transfer t = { .h = h, .sink = sink, .user = user, .answer = answer };
    CURLcode rc;

    *answer  = (hub_answer){ .code = 0 };
    bool end = hops(&t, url, from, &rc);
    if (*h->stop) return rp_fail(h->ctx, RP_ERR_INTERRUPTED, "interrupted");
    if (t.status != RP_OK) return t.status;
    RP_CHECK(h->ctx, end, RP_ERR_IO, "cannot download %s: too many redirects", subject);
    if (!rc && answer->code / 100 == 2) return RP_OK;
    if (!rc) return refused(h, answer, subject);
    answer->again = may_pass(rc);
    return rp_fail(h->ctx, RP_ERR_IO, "cannot download %s: %s", subject, h->http->error[0] ? h->http->error : curl_easy_strerror(rc));
}

rp_status hub_wait(hub *h, const hub_answer *answer, int64_t tried)
{
    const struct timespec moment = { .tv_nsec = 50000000 };
    double seconds               = h->wait_seconds;

    for (int64_t i = 0; i < tried && seconds < LONGEST_WAIT; i++) seconds *= 2;
    if (seconds < answer->after_seconds) seconds = answer->after_seconds;
    if (seconds > LONGEST_WAIT) seconds = LONGEST_WAIT;
    fprintf(stderr, "%s; trying again in %.3g seconds\n", rp_error(h->ctx), seconds);
    for (double end = rp__seconds() + seconds; rp__seconds() < end && !*h->stop;) nanosleep(&moment, NULL);
    RP_CHECK(h->ctx, !*h->stop, RP_ERR_INTERRUPTED, "interrupted");
    return RP_OK;
}

/* ---- text answers ---- */

typedef struct { rp_ctx *ctx; const char *subject; char *text; int64_t bytes, room, cap; } gathered;

static rp_status gather(void *user, const hub_answer *answer, const void *data, int64_t bytes)
{
    gathered *g = user;

    (void)answer;
    RP_CHECK(g->ctx, g->bytes + bytes <= g->cap, RP_ERR_FORMAT, "%s is longer than %" PRId64 " bytes", g->subject, g->cap);
    RP_TRY(RP_GROW(g->ctx, g->text, g->room, g->bytes + bytes + 1));
    memcpy(g->text + g->bytes, data, (size_t)bytes);
    g->bytes += bytes;
    g->text[g->bytes] = 0;
    return RP_OK;
}

rp_status hub_get_text(hub *h, const char *url, const char *subject, int64_t cap_bytes, char **text, int64_t *bytes)
{
    gathered g = { .ctx = h->ctx, .subject = subject, .cap = cap_bytes };
    rp_status status;
    hub_answer answer;

    for (int64_t tried = 0;; tried++) {
        g.bytes = 0;
        status  = hub_get(h, url, subject, 0, gather, &g, &answer);
        if (status == RP_OK || !answer.again || tried >= h->retries) break;
        if ((status = hub_wait(h, &answer, tried)) != RP_OK) break;
    }
    if (status == RP_OK && !g.text) status = rp_fail(h->ctx, RP_ERR_FORMAT, "%s is empty", subject);
    if (status != RP_OK) {
        rp__release(g.text);
        return status;
    }
    *text  = g.text;
    *bytes = g.bytes;
    return RP_OK;
}

rp_status hub_open(hub *h)
{
    if (!(h->http = rp__host_alloc(h->ctx, sizeof *h->http))) return RP_ERR_MEMORY;
    if (!curl_global_init(CURL_GLOBAL_DEFAULT)) h->http->easy = curl_easy_init();
    RP_CHECK(h->ctx, h->http->easy, RP_ERR_BACKEND, "libcurl does not start");
    return RP_OK;
}

void hub_close(hub *h)
{
    if (!h->http) return;
    curl_easy_cleanup(h->http->easy);
    curl_global_cleanup();
    rp__release(h->http);
    h->http = NULL;
}
