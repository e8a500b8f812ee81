/* train/metrics.c -- writes lines of metrics.jsonl, and cuts the file when a run resumes. */
#include "train/metrics.h"

#include <fcntl.h>
#include <jansson.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json_text.h"

enum { LINE_CHARS = 2048 };

struct rp_metrics_file {
    rp_ctx *ctx;
    char *path;
    int fd;
};

/* Formats in the C locale, because the locale of the program may write a decimal comma, which is not JSON. */
const char *rp__number_text(char out[RP_NUMBER_CHARS], double value)
{
    static locale_t c_locale;
    double back;

    if (!isfinite(value)) {
        snprintf(out, RP_NUMBER_CHARS, "null");
        return out;
    }
    if (!c_locale) c_locale = newlocale(LC_ALL_MASK, "C", NULL);
    locale_t before = uselocale(c_locale);
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(out, RP_NUMBER_CHARS, "%.*g", digits, value);
        if (rp__parse_double(out, &back) && back == value) break;
    }
    uselocale(before);
    return out;
}

/* ---- cutting ---- */

static bool keeps(const char *line, ssize_t bytes, int64_t keep_steps)
{
    json_t *object = bytes > 0 && line[bytes - 1] == '\n' ? rp__json_read(line, (size_t)bytes, 0, NULL) : NULL;
    const json_t *step = json_object_get(object, "step");
    bool kept = json_is_integer(step) && json_integer_value(step) <= keep_steps;

    json_decref(object);
    return kept;
}

/* The number of bytes at the start of the file to keep. */
static int64_t kept_bytes(FILE *f, int64_t keep_steps)
{
    char *line  = NULL;
    size_t room = 0;
    int64_t at  = 0;

    for (;;) {
        ssize_t bytes = getline(&line, &room, f);
        if (bytes < 0 || !keeps(line, bytes, keep_steps)) break;
        at += bytes;
    }
    free(line);
    return at;
}

static rp_status cut(rp_metrics_file *m, int64_t keep_steps)
{
    int64_t at = 0;

    if (keep_steps > 0) {
        FILE *f = fopen(m->path, "re");
        if (!f) return rp__io_fail(m->ctx, "open", m->path);
        at       = kept_bytes(f, keep_steps);
        bool bad = ferror(f);
        fclose(f);
        if (bad) return rp__io_fail(m->ctx, "read", m->path);
    }
    return ftruncate(m->fd, at) ? rp__io_fail(m->ctx, "cut", m->path) : RP_OK;
}

static rp_status open_and_cut(rp_metrics_file *m, const char *path, int64_t keep_steps)
{
    m->path = rp__host_text(m->ctx, path);
    if (!m->path) return RP_ERR_MEMORY;
    m->fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (m->fd < 0) return rp__io_fail(m->ctx, "open", path);
    return cut(m, keep_steps);
}

rp_status rp__metrics_open(rp_ctx *ctx, const char *path, int64_t keep_steps, rp_metrics_file **out)
{
    rp_metrics_file *m = rp__host_alloc(ctx, sizeof *m);

    if (!m) return RP_ERR_MEMORY;
    *m               = (rp_metrics_file){ .ctx = ctx, .fd = -1 };
    rp_status status = open_and_cut(m, path, keep_steps);
    if (status != RP_OK) rp__metrics_close(m);
    else *out = m;
    return status;
}

void rp__metrics_close(rp_metrics_file *m)
{
    if (!m) return;
    if (m->fd >= 0) close(m->fd);
    RP_RELEASE(m->path, m);
}

/* ---- writing ---- */

typedef struct { char text[LINE_CHARS]; int used; } line_text;

static void put_key(line_text *t, const char *name, const char *value)
{
    t->used +=
        snprintf(t->text + t->used, (size_t)(LINE_CHARS - t->used), "%s\"%s\": %s", t->used == 1 ? "" : ", ", name, value);
}

static void put_REAL(line_text *t, const char *name, double value)
{
    char number[RP_NUMBER_CHARS];

    put_key(t, name, rp__number_text(number, value));
}

static void put_INT(line_text *t, const char *name, int64_t value)
{
    char number[RP_NUMBER_CHARS];

    snprintf(number, sizeof number, "%" PRId64, value);
    put_key(t, name, number);
}

static rp_status write_long(rp_metrics_file *m, const line_text *t, const char *samples)
{
    int64_t bytes = t->used + (int64_t)strlen(samples) + 64;
    char *text    = rp__host_alloc(m->ctx, bytes);

    if (!text) return RP_ERR_MEMORY;
    int n            = snprintf(text, (size_t)bytes, "%s, \"samples\": %s}\n", t->text, samples);
    rp_status status = rp__write_all(m->fd, text, n) ? RP_OK : rp__io_fail(m->ctx, "write", m->path);
    rp__release(text);
    return status;
}

rp_status rp__metrics_put(rp_metrics_file *m, const rp_metrics *line, const char *samples)
{
    line_text t = { "{", 1 };

#define RP_METRIC(type, name) put_##type(&t, #name, line->name);
#include "train/metrics.def"
#undef RP_METRIC
    if (line->has_val_loss) put_REAL(&t, "val_loss", line->val_loss);
    if (samples) return write_long(m, &t, samples);
    t.used += snprintf(t.text + t.used, (size_t)(LINE_CHARS - t.used), "}\n");
    return rp__write_all(m->fd, t.text, t.used) ? RP_OK : rp__io_fail(m->ctx, "write", m->path);
}

rp_status rp__metrics_sync(rp_metrics_file *m)
{
    return fsync(m->fd) ? rp__io_fail(m->ctx, "write", m->path) : RP_OK;
}
