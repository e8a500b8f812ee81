/* train/tensorboard.c -- writes TensorBoard event files (tensorboard.h). */
#include "train/tensorboard.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/file.h"
#include "train/event.pb-c.h"

enum { RECORD_BYTES = 2048, HEAD_BYTES = 12, TAIL_BYTES = 4, MOST_TAGS = 32 };

struct rp_tensorboard {
    rp_ctx *ctx;
    char *path;
    int fd;
    double newest;              /* time of the last event; never decreases */
};

/* Bit by bit is fast enough: a step has less than a kilobyte. */
uint32_t rp__crc32c(const void *data, int64_t bytes)
{
    const uint8_t *p = data;
    uint32_t crc     = 0xffffffffu;

    for (int64_t i = 0; i < bytes; i++) {
        crc ^= p[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    return ~crc;
}

/* ---- records ---- */

static void put_u32(uint8_t *to, uint32_t value)
{
    for (int i = 0; i < 4; i++) to[i] = (uint8_t)(value >> 8 * i);
}

static void put_crc(uint8_t *to, const uint8_t *data, int64_t bytes)
{
    uint32_t crc = rp__crc32c(data, bytes);

    put_u32(to, (crc >> 15 | crc << 17) + 0xa282ead8u);
}

static rp_status put_event(rp_tensorboard *b, Rp__Event *event)
{
    uint8_t record[RECORD_BYTES];
    struct timeval now;

    gettimeofday(&now, NULL);
    b->newest        = fmax(b->newest, (double)now.tv_sec + 1e-6 * (double)now.tv_usec);
    event->wall_time = b->newest;
    size_t bytes     = rp__event__get_packed_size(event);
    RP_BUG_IF(bytes > RECORD_BYTES - HEAD_BYTES - TAIL_BYTES);
    put_u32(record, (uint32_t)bytes);
    put_u32(record + 4, 0);
    put_crc(record + 8, record, 8);
    rp__event__pack(event, record + HEAD_BYTES);
    put_crc(record + HEAD_BYTES + bytes, record + HEAD_BYTES, (int64_t)bytes);
    return rp__write_all(b->fd, record, (int64_t)(HEAD_BYTES + bytes + TAIL_BYTES)) ? RP_OK : rp__io_fail(b->ctx, "write", b->path);
}

/* ---- steps ---- */

typedef struct { Rp__Summary__Value value[MOST_TAGS], *list[MOST_TAGS]; int n; } tags;

static void add_REAL(tags *t, const char *name, double value)
{
    Rp__Summary__Value *v = &t->value[t->n];

    RP_BUG_IF(t->n == MOST_TAGS);
    *v              = (Rp__Summary__Value)RP__SUMMARY__VALUE__INIT;
    v->tag          = (char *)name;
    v->value_case   = RP__SUMMARY__VALUE__VALUE_SIMPLE_VALUE;
    v->simple_value = (float)value;
    t->list[t->n++] = v;
}

static void add_INT(tags *t, const char *name, int64_t value) { add_REAL(t, name, (double)value); }

rp_status rp__tensorboard_put(rp_tensorboard *b, const rp_metrics *line)
{
    Rp__Summary summary = RP__SUMMARY__INIT;
    Rp__Event event     = RP__EVENT__INIT;
    tags t              = { .n = 0 };

#define RP_METRIC(type, name) if (strcmp(#name, "step")) add_##type(&t, #name, line->name);
#include "train/metrics.def"
#undef RP_METRIC
    if (line->has_val_loss) add_REAL(&t, "val_loss", line->val_loss);
    summary.value   = t.list;
    summary.n_value = (size_t)t.n;
    event.step      = line->step;
    event.what_case = RP__EVENT__WHAT_SUMMARY;
    event.summary   = &summary;
    return put_event(b, &event);
}

/* ---- the file ---- */

/* The largest time in the name of an event file; 0: no such file. */
static int64_t newest(const char *folder)
{
    static const char prefix[] = "events.out.tfevents.";
    DIR *d                     = opendir(folder);
    int64_t most               = 0;

    for (const struct dirent *e; d && (e = readdir(d));) {
        char digits[24] = "";
        int64_t second;
        if (strncmp(e->d_name, prefix, sizeof prefix - 1)) continue;
        snprintf(digits, sizeof digits, "%.*s", (int)strcspn(e->d_name + sizeof prefix - 1, "."), e->d_name + sizeof prefix - 1);
        if (rp__parse_int(digits, 0, 9999999999, &second) && second > most) most = second;
    }
    if (d) closedir(d);
    return most;
}

static rp_status make_name(rp_tensorboard *b, const char *folder)
{
    char name[256], host[128] = "host";
    struct timeval now;

    gettimeofday(&now, NULL);
    if (gethostname(host, sizeof host - 1)) snprintf(host, sizeof host, "host");
    int64_t last = newest(folder), second = now.tv_sec > last ? now.tv_sec : last + 1;
    snprintf(name, sizeof name, "events.out.tfevents.%010" PRId64 ".%s.%d.v2", second, host, (int)getpid());
    b->path = rp__path_join(b->ctx, folder, name);
    return b->path ? RP_OK : RP_ERR_MEMORY;
}

static rp_status put_head(rp_tensorboard *b, int64_t done)
{
    Rp__SessionLog log  = RP__SESSION_LOG__INIT;
    Rp__Event version   = RP__EVENT__INIT, start = RP__EVENT__INIT;

    version.what_case    = RP__EVENT__WHAT_FILE_VERSION;
    version.file_version = (char *)"brain.Event:2";
    log.status           = RP__SESSION_LOG__STATUS__START;
    start.step           = done + 1;
    start.what_case      = RP__EVENT__WHAT_SESSION_LOG;
    start.session_log    = &log;
    RP_TRY(put_event(b, &version));
    return put_event(b, &start);
}

static rp_status open_file(rp_tensorboard *b, const char *folder, int64_t done)
{
    RP_TRY(rp__make_dirs(b->ctx, folder));
    RP_TRY(make_name(b, folder));
    b->fd = open(b->path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
    if (b->fd < 0) return rp__io_fail(b->ctx, "open", b->path);
    return put_head(b, done);
}

rp_status rp__tensorboard_open(rp_ctx *ctx, const char *folder, int64_t done, rp_tensorboard **out)
{
    rp_tensorboard *b = rp__host_alloc(ctx, sizeof *b);

    if (!b) return RP_ERR_MEMORY;
    *b               = (rp_tensorboard){ .ctx = ctx, .fd = -1 };
    rp_status status = open_file(b, folder, done);
    if (status == RP_OK) *out = b;
    else rp__tensorboard_close(b);
    return status;
}

rp_status rp__tensorboard_sync(rp_tensorboard *b) { return fsync(b->fd) ? rp__io_fail(b->ctx, "write", b->path) : RP_OK; }

void rp__tensorboard_close(rp_tensorboard *b)
{
    if (!b) return;
    if (b->fd >= 0) close(b->fd);
    RP_RELEASE(b->path, b);
}
