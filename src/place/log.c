/* place/log.c -- turns the events of the ledger into a list of buffers, and places them. */
#include "place/log.h"

#include <stdlib.h>

#include "base/list.h"
#include "tape/tape.h"
#include "trace/blocks.h"

enum { NONE = -1 };

typedef struct {
    rp_place_buffer place;
    int64_t bytes;                      /* as requested */
    int like;                           /* the take whose offset it shares; NONE */
} entry;

typedef struct { int event, take; } mark;

struct rp_place_log {
    rp_ctx *ctx;
    entry *take;                        /* in order of events */
    rp_place_buffer *fixed;             /* stretches of memory that is live when the log begins … */
    rp_place_buffer *given;             /* … and blocks of them that are given back */
    mark *mark;
    rp_blocks blocks;                   /* tag: take */
    int n_takes, n_fixed, n_given, n_marks, room_takes, room_fixed, room_given, room_marks, n_events;
    int pass;                           /* the context's pass when the last mark was set */
    bool lost;
};

/* Appends an entry; if memory runs out, the log is lost. */
#define PUT(log, list, n, room, ...) \
    do { \
        if (RP_GROW((log)->ctx, (log)->list, (log)->room, (log)->n + 1)) (log)->lost = true; \
        else (log)->list[(log)->n++] = (__VA_ARGS__); \
    } while (0)

/* ---- events ---- */

static void log_take(rp_place_log *log, const rp_mem_event *event)
{
    rp_place_buffer place = { .bytes = event->taken, .begin = log->n_events, .end = INT32_MAX, .offset = NONE };

    PUT(log, take, n_takes, room_takes, (entry){ place, event->bytes, NONE });
    if (!rp__blocks_reserve(log->ctx, &log->blocks)) log->lost = true;
    if (log->lost || !event->bytes) return;
    *rp__blocks_find(&log->blocks, event->offset) = (rp_block){ event->offset, event->bytes, log->n_takes - 1, false };
    log->blocks.n++;
}

/* A block that was not taken during the log existed before it. */
static void give(rp_place_log *log, const rp_mem_event *event)
{
    rp_block *b = rp__blocks_find(&log->blocks, event->offset);

    if (b->bytes) {
        log->take[b->tag].place.end = log->n_events;
        rp__blocks_remove(&log->blocks, b);
    } else PUT(log, given, n_given, room_given, (rp_place_buffer){ .bytes = event->taken, .end = log->n_events, .offset = event->offset });
}

/* Marks the beginning of a micro-batch. */
static void mark_pass(rp_place_log *log)
{
    log->pass = rp__tape_ctx(log->ctx)->pass;
    PUT(log, mark, n_marks, room_marks, (mark){ log->n_events, log->n_takes });
}

static void observe(void *user, const rp_mem_event *event)
{
    rp_place_log *log = user;

    if (event->reclass || log->lost) return;
    if (log->pass != rp__tape_ctx(log->ctx)->pass) mark_pass(log);
    if (event->take) log_take(log, event);
    else if (event->bytes) give(log, event);
    log->n_events++;
}

static void fix(void *user, int64_t offset, int64_t bytes)
{
    rp_place_log *log = user;

    PUT(log, fixed, n_fixed, room_fixed, (rp_place_buffer){ .bytes = bytes, .offset = offset });
}

static void log_free(rp_place_log *log)
{
    RP_RELEASE(log->take, log->fixed, log->given, log->mark, log->blocks.at, log);
}

rp_status rp__place_log_begin(rp_ctx *ctx, rp_place_log **out)
{
    rp_place_log *log = rp__host_alloc(ctx, sizeof *log);

    if (!log) return RP_ERR_MEMORY;
    log->ctx  = ctx;
    log->pass = rp__tape_ctx(ctx)->pass;
    if (!rp__blocks_reserve(ctx, &log->blocks)) log->lost = true;
    rp__mem_used(ctx->space[0], fix, log);
    if (log->lost) {
        log_free(log);
        return RP_ERR_MEMORY;
    }
    rp__mem_observe(ctx->space[0], observe, log);
    *out = log;
    return RP_OK;
}

/* ---- micro-batches that repeat the second ---- */

static bool lives_inside(const rp_place_log *log, const mark *from, const mark *to)
{
    for (int i = from->take; i < to->take; i++)
        if (log->take[i].place.bytes && log->take[i].place.end > to->event) return false;
    for (int i = 0; i < from->take; i++)
        if (log->take[i].place.end > from->event && log->take[i].place.end <= to->event) return false;
    for (int i = 0; i < log->n_given; i++)
        if (log->given[i].end >= from->event && log->given[i].end < to->event) return false;
    return true;
}

static bool repeats(const rp_place_log *log, const mark *a, const mark *b)
{
    if (b[1].event - b->event != a[1].event - a->event || b[1].take - b->take != a[1].take - a->take) return false;
    for (int i = 0; i < a[1].take - a->take; i++) {
        const rp_place_buffer *x = &log->take[a->take + i].place, *y = &log->take[b->take + i].place;
        if (x->bytes != y->bytes || x->begin - a->event != y->begin - b->event || (x->bytes && x->end - a->event != y->end - b->event)) return false;
    }
    return lives_inside(log, b, b + 1);
}

static void find_repeats(rp_place_log *log)
{
    if (log->n_marks < 4) return;
    const mark *second = log->mark + 1;
    if (!lives_inside(log, second, second + 1)) return;
    for (int m = 2; m + 1 < log->n_marks; m++) {
        const mark *here = &log->mark[m];
        if (!repeats(log, second, here)) continue;
        for (int i = here->take; i < here[1].take; i++) log->take[i].like = second->take + (i - here->take);
    }
}

/* ---- the end ---- */

static int by_offset(const void *left, const void *right)
{
    const rp_place_buffer *a = left, *b = right;

    return a->offset < b->offset ? -1 : a->offset > b->offset;
}

static void log_put(rp_place_buffer *list, int *n, int64_t from, int64_t to, int end)
{
    if (to > from) list[(*n)++] = (rp_place_buffer){ .bytes = to - from, .end = end, .offset = from };
}

/* Memory that is not given back is live to the end. A stretch without its freed blocks includes the gaps between the other blocks. */
static void list_fixed(rp_place_log *log, rp_place_buffer *list, int *n)
{
    int end = log->n_events ? log->n_events : 1, at = 0;

    if (log->n_given) qsort(log->given, (size_t)log->n_given, sizeof *log->given, by_offset);
    for (int i = 0; i < log->n_fixed; i++) {
        int64_t from = log->fixed[i].offset, to = from + log->fixed[i].bytes;
        for (; at < log->n_given && log->given[at].offset < to; at++) {
            const rp_place_buffer *b = &log->given[at];
            log_put(list, n, from, b->offset, end);
            log_put(list, n, b->offset, b->offset + b->bytes, b->end + 1);
            from = b->offset + b->bytes;
        }
        log_put(list, n, from, to, end);
    }
}

static rp_place_buffer *list_buffers(rp_place_log *log, int *n_fixed, int *n)
{
    int64_t most          = log->n_takes + log->n_fixed + 2 * (int64_t)log->n_given + 1;
    rp_place_buffer *list = rp__host_alloc(log->ctx, most * (int64_t)sizeof *list);

    *n = 0;
    if (!list) return NULL;
    list_fixed(log, list, n);
    *n_fixed = *n;
    for (int i = 0; i < log->n_takes; i++) {
        rp_place_buffer *b = &log->take[i].place;
        if (b->end > log->n_events) b->end = log->n_events;
        if (log->take[i].like == NONE) list[(*n)++] = *b;
    }
    return list;
}

static void give_places(rp_place_log *log, const rp_place_buffer *list, rp_mem_place *place)
{
    for (int i = 0; i < log->n_takes; i++) {
        entry *e        = &log->take[i];
        e->place.offset = e->like == NONE ? (list++)->offset : log->take[e->like].place.offset;
        place[i]        = (rp_mem_place){ e->bytes, e->place.offset };
    }
}

static rp_status place_all(rp_place_log *log, int64_t most, rp_mem_place **place, rp_placement *out)
{
    int n_fixed = 0, n;

    find_repeats(log);
    rp_place_buffer *list = list_buffers(log, &n_fixed, &n);
    *place                = rp__host_alloc(log->ctx, (log->n_takes + 1) * (int64_t)sizeof **place);
    rp_status status      = list && *place ? rp__place(log->ctx, list, n, most, out) : RP_ERR_MEMORY;
    if (status == RP_OK && out->placed) {
        give_places(log, list + n_fixed, *place);
    } else {
        rp__release(*place);
        *place = NULL;
    }
    rp__release(list);
    return status;
}

rp_status rp__place_log_end(rp_place_log *log, int64_t most, rp_mem_place **place, int *n, rp_placement *out)
{
    rp__mem_observe(log->ctx->space[0], NULL, NULL);
    rp_status status = log->lost ? rp_fail(log->ctx, RP_ERR_MEMORY, "no memory to log the buffers of a step") : place_all(log, most, place, out);
    *n               = log->n_takes;
    log_free(log);
    return status;
}
