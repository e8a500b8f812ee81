/* train/profile.c -- collects spans into events and sums. Nothing here may fail while a step runs. */
#include "train/profile_internal.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/file.h"
#include "base/mem.h"

enum { OUT_BYTES = 1 << 16, OUT_LINE = 1 << 10 };

const char *const rp__profile_doings[RP_DOINGS] = {
    [RP_DOING_PART] = "part", [RP_DOING_FORWARD] = "forward", [RP_DOING_REPLAY] = "replay", [RP_DOING_BACKWARD] = "backward",
    [RP_DOING_GRADIENT] = "gradient", [RP_DOING_UPDATE] = "update", [RP_DOING_OFFLOAD] = "offload", [RP_DOING_DATA] = "data",
};

/* ---- life ---- */

static void add_span(void *user, const rp_span *span);

static rp_status profile_fill(rp_profile *p)
{
    p->kind  = rp__host_alloc(p->ctx, MOST_KINDS * (int64_t)sizeof *p->kind);
    p->event = p->kind ? rp__host_alloc(p->ctx, MOST_EVENTS * (int64_t)sizeof *p->event) : NULL;
    p->place = p->event ? rp__host_alloc(p->ctx, KIND_PLACES * (int64_t)sizeof *p->place) : NULL;
    if (!p->place) return RP_ERR_MEMORY;
    for (int d = 0; d < RP_DOINGS; d++) p->kind[d] = (profile_kind){ .doing = (rp_doing)d, .name = "others" };
    p->n_kinds = RP_DOINGS;
    return RP_OK;
}

rp_status rp__profile_new(rp_ctx *ctx, rp_profile **out)
{
    rp_profile *p = rp__host_alloc(ctx, sizeof *p);

    if (!p) return RP_ERR_MEMORY;
    *p               = (rp_profile){ .ctx = ctx, .watch = { add_span, p } };
    rp_status status = profile_fill(p);
    if (status != RP_OK) rp__profile_free(p);
    else *out = p;
    return status;
}

void rp__profile_free(rp_profile *p)
{
    if (!p) return;
    RP_RELEASE(p->place, p->event, p->kind, p);
}

bool rp__profile_wants(int64_t here, int64_t n) { return n == 1 ? here == 0 : here >= 1 && here <= RP_PROFILE_STEPS; }

bool rp__profile_ends(int64_t here, int64_t n) { return rp__profile_wants(here, n) && (here == RP_PROFILE_STEPS || here == n - 1); }

int rp__profile_n_steps(const rp_profile *p) { return p->n_steps; }

/* ---- kinds ---- */

/* A hash of the properties that decide the cost of a call: shapes and wanted gradients. Names and paths are compared by address. */
static uint64_t key_of(const rp_span *span, const char *path)
{
    const rp_op_meta *m  = span->call;
    const void *where[2] = { span->name, path };
    int64_t numbers[2]   = { span->doing, span->bytes };
    uint64_t key         = rp__hash(numbers, sizeof numbers, rp__hash(where, sizeof where, RP_HASH_START));

    for (int i = 0; m && i < m->n_in; i++) {
        int64_t of[3] = { m->in[i].dtype, m->in[i].ndim, m->in_grad[i] };
        key = rp__hash(m->in[i].dim, (size_t)m->in[i].ndim * sizeof *m->in[i].dim, rp__hash(of, sizeof of, key));
    }
    return key;
}

static void put_shapes(const rp_op_meta *m, char out[SHAPES_CHARS])
{
    int used = 0;

    for (int i = 0; m && i < m->n_in && used < SHAPES_CHARS; i++)
        used += snprintf(out + used, (size_t)(SHAPES_CHARS - used), "%s%s", i ? ", " : "", rp_meta_str(&m->in[i]));
}

static rp_cost work_of(const rp_span *span)
{
    const rp_op_meta *m = span->call;

    if (!m || !m->op->cost) return (rp_cost){ .read_bytes = span->bytes };
    return m->op->cost(m, span->doing == RP_DOING_BACKWARD ? RP_BACKWARD : RP_FORWARD);
}

static void make_kind(profile_kind *k, const rp_span *span, const char *path, uint64_t key)
{
    rp_cost work = work_of(span);

    *k = (profile_kind){ .key = key, .doing = span->doing, .name = span->name, .path = path, .flops = work.flops,
                         .bytes = work.read_bytes + work.write_bytes };
    put_shapes(span->call, k->shapes);
}

static int find_kind(rp_profile *p, const rp_span *span, const char *path)
{
    uint64_t key = key_of(span, path);
    int at       = (int)(key % KIND_PLACES);

    while (p->place[at] && p->kind[p->place[at]].key != key) at = (at + 1) % KIND_PLACES;
    if (p->place[at]) return p->place[at];
    if (p->n_kinds == MOST_KINDS) return (int)span->doing;
    make_kind(&p->kind[p->n_kinds], span, path, key);
    p->place[at] = p->n_kinds;
    return p->n_kinds++;
}

/* Parts and data are outside all calls, so the current path of the tape does not belong to them. */
static const char *path_of(const rp_profile *p, const rp_span *span)
{
    if (span->path || span->doing == RP_DOING_PART || span->doing == RP_DOING_DATA) return span->path;
    return rp__tape_now(p->ctx).path;
}

static void sum_up(profile_kind *k, const rp_span *span)
{
    rp_cost work = { .flops = k->flops, .read_bytes = k->bytes };

    if (!k->key) work = work_of(span);      /* "others" collects spans of any kind */
    k->calls++;
    k->all_flops += work.flops;
    k->all_bytes += work.read_bytes + work.write_bytes;
    k->seconds += span->ended - span->began;
}

static void add_span(void *user, const rp_span *span)
{
    rp_profile *p = user;
    int i         = find_kind(p, span, path_of(p, span));
    rp_mem now;

    sum_up(&p->kind[i], span);
    if (p->n_events == MOST_EVENTS) {
        p->n_left_out++;
        return;
    }
    rp_mem_read(p->ctx, 0, false, &now);
    p->event[p->n_events++] = (profile_event){ i, span->began, span->ended, now.live_bytes };
}

/* ---- steps ---- */

static void count_take(void *user, const rp_mem_event *event)
{
    profile_step *s = user;

    if (event->reclass || !event->take) return;
    s->n_takes++;
    s->taken_bytes += event->bytes;
}

static void read_faults(int64_t sign, profile_step *s)
{
    struct rusage now = { 0 };

    getrusage(RUSAGE_SELF, &now);
    s->minor_faults += sign * now.ru_minflt;
    s->major_faults += sign * now.ru_majflt;
}

void rp__profile_step_begin(rp_profile *p, int64_t step)
{
    RP_BUG_IF(p->running || p->n_steps == RP_PROFILE_STEPS);
    profile_step *s = &p->step[p->n_steps];

    *s         = (profile_step){ .step = step };
    p->running = true;
    rp__mem_observe(p->ctx->space[0], count_take, s);
    p->ctx->watch = &p->watch;
    read_faults(-1, s);
    s->began = rp__seconds();
}

static void stop(rp_profile *p)
{
    p->running    = false;
    p->ctx->watch = NULL;
    rp__mem_observe(p->ctx->space[0], NULL, NULL);
}

void rp__profile_step_end(rp_profile *p, int64_t tokens, const rp_tape_stats *work)
{
    profile_step *s = &p->step[p->n_steps];

    s->ended = rp__seconds();
    read_faults(1, s);
    stop(p);
    s->tokens = tokens;
    s->work   = *work;
    p->n_steps++;
}

void rp__profile_step_failed(rp_profile *p) { stop(p); }

/* ---- sums ---- */

static profile_row *profile_row_of(profile_row *row, int *n, const profile_kind *k)
{
    int i = 0;

    while (i < *n && (row[i].doing != k->doing || strcmp(row[i].name, k->name))) i++;
    if (i == *n) row[(*n)++] = (profile_row){ .doing = k->doing, .name = k->name };
    return &row[i];
}

static int by_seconds(const void *a, const void *b)
{
    const profile_row *x = a, *y = b;

    if (x->seconds != y->seconds) return x->seconds > y->seconds ? -1 : 1;
    return x->doing != y->doing ? (int)x->doing - (int)y->doing : strcmp(x->name, y->name);
}

rp_status rp__profile_rows(const rp_profile *p, profile_row **rows, int *n)
{
    profile_row *row = rp__host_alloc(p->ctx, p->n_kinds * (int64_t)sizeof *row);

    if (!row) return RP_ERR_MEMORY;
    *n = 0;
    for (int i = 0; i < p->n_kinds; i++) {
        const profile_kind *k = &p->kind[i];
        if (!k->calls || k->doing == RP_DOING_PART) continue;
        profile_row *r = profile_row_of(row, n, k);
        r->calls += k->calls;
        r->flops += k->all_flops;
        r->bytes += k->all_bytes;
        r->seconds += k->seconds;
    }
    qsort(row, (size_t)*n, sizeof *row, by_seconds);
    *rows = row;
    return RP_OK;
}

static double step_seconds(const rp_profile *p)
{
    double sum = 0;

    for (int i = 0; i < p->n_steps; i++) sum += p->step[i].ended - p->step[i].began;
    return sum;
}

const char *rp__profile_text(const rp_profile *p, char out[RP_PROFILE_TEXT_CHARS])
{
    profile_row *row = NULL;
    int n = 0, used = 0;

    out[0] = 0;
    if (rp__profile_rows(p, &row, &n) != RP_OK) return out;
    for (int i = 0; i < n && i < 3; i++)
        used += snprintf(out + used, (size_t)(RP_PROFILE_TEXT_CHARS - used), "%s%s %s %.1f %%", i ? ", " : "", row[i].name,
                         rp__profile_doings[row[i].doing], 100 * row[i].seconds / step_seconds(p));
    rp__release(row);
    return out;
}

/* ---- files ---- */

rp_status rp__profile_out_open(rp_ctx *ctx, const char *folder, const char *name, profile_out *out)
{
    char *path = rp__path_join(ctx, folder, name);

    *out             = (profile_out){ .ctx = ctx, .text = path ? rp__host_alloc(ctx, OUT_BYTES) : NULL };
    rp_status status = out->text ? rp__file_create(ctx, path, &out->file) : RP_ERR_MEMORY;
    rp__release(path);
    if (status != RP_OK) rp__release(out->text);
    return status;
}

static void flush(profile_out *out)
{
    if (out->status == RP_OK) out->status = rp__file_put(out->file, out->text, out->used);
    out->used = 0;
}

void rp__profile_put(profile_out *out, const char *fmt, ...)
{
    va_list args;

    if (out->used + OUT_LINE > OUT_BYTES) flush(out);
    va_start(args, fmt);
    int n = vsnprintf(out->text + out->used, OUT_LINE, fmt, args);
    va_end(args);
    RP_BUG_IF(n >= OUT_LINE);
    out->used += n;
}

rp_status rp__profile_out_close(profile_out *out)
{
    flush(out);
    rp__release(out->text);
    if (out->status == RP_OK) return rp__file_commit(out->file);
    rp__file_discard(out->file);
    return out->status;
}

static rp_status write_table(const rp_profile *p, const char *folder)
{
    profile_row *row;
    profile_out out;
    int n;

    RP_TRY(rp__profile_rows(p, &row, &n));
    rp_status status = rp__profile_out_open(p->ctx, folder, "profile.txt", &out);
    if (status == RP_OK) {
        rp__profile_put_table(p, row, n, &out);
        status = rp__profile_out_close(&out);
    }
    rp__release(row);
    return status;
}

rp_status rp__profile_write(const rp_profile *p, const char *folder)
{
    profile_out out;

    RP_TRY(write_table(p, folder));
    RP_TRY(rp__profile_out_open(p->ctx, folder, "profile.trace.json", &out));
    rp__profile_put_trace(p, &out);
    return rp__profile_out_close(&out);
}
