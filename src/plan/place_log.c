/* plan/place_log.c -- the ledger observed as a list of buffers; which part of the arena each is for follows from when it was taken. */
#include "plan/place_log.h"

#include <string.h>

#include "plan/blocks.h"
#include "tape/tape.h"

enum { NONE = -1, LONG_SHARE = 6 };     /* what lives longer than this part of a micro-batch hangs from the top */

typedef struct {
    rp_place_buffer place;
    int64_t bytes;                      /* as asked for */
    bool forward, grad;                 /* taken in a forward, or before it */
    int like;                           /* the take it is laid like; NONE */
} entry;

typedef struct { int event, take; } mark;

struct rp_place_log {
    rp_ctx *ctx;
    entry *take;                        /* in order */
    rp_place_buffer *fixed;
    mark *mark;
    int *turn;                          /* events at which a backward began */
    rp_blocks blocks;                   /* tag: take */
    int n_takes, n_fixed, n_marks, n_turns, room_takes, room_fixed, room_marks, room_turns, n_events;
    rp_tape_phase phase;
    bool lost;
};

static bool grow(rp_place_log *log, void *list, int n, int *room, int64_t size)
{
    void **at = list;

    if (n < *room) return true;
    int more    = *room * 2 + 64;
    void *grown = rp__host_grow(log->ctx, *at, *room * size, more * size);
    if (!grown) {
        log->lost = true;
        return false;
    }
    *at   = grown;
    *room = more;
    return true;
}

/* ---- events ---- */

static void note_phase(rp_place_log *log)
{
    rp_tape_phase phase = rp__tape_now(log->ctx).phase;

    if (phase == RP_TAPE_REPLAY) phase = RP_TAPE_BACKWARD;
    if (phase == RP_TAPE_BACKWARD && log->phase != phase && grow(log, &log->turn, log->n_turns, &log->room_turns, sizeof *log->turn))
        log->turn[log->n_turns++] = log->n_events;
    log->phase = phase;
}

static void take(rp_place_log *log, const rp_mem_event *event)
{
    if (!grow(log, &log->take, log->n_takes, &log->room_takes, sizeof *log->take) || !rp__blocks_reserve(log->ctx, &log->blocks)) {
        log->lost = true;
        return;
    }
    log->take[log->n_takes] = (entry){
        .place = { .bytes = rp__align_up(event->bytes), .begin = log->n_events, .end = INT32_MAX, .kind = RP_PLACE_TRANSIENT },
        .bytes = event->bytes, .forward = log->phase != RP_TAPE_BACKWARD, .grad = event->mem_class == RP_MEM_GRAD, .like = NONE,
    };
    if (event->bytes) {
        *rp__blocks_find(&log->blocks, event->offset) = (rp_block){ event->offset, event->bytes, log->n_takes, false };
        log->blocks.n++;
    }
    log->n_takes++;
}

static void observe(void *user, const rp_mem_event *event)
{
    rp_place_log *log = user;

    if (event->reclass || log->lost) return;
    note_phase(log);
    if (event->take) take(log, event);
    rp_block *b = !event->take && event->bytes ? rp__blocks_find(&log->blocks, event->offset) : NULL;
    if (b && b->bytes) {
        log->take[b->tag].place.end = log->n_events;
        rp__blocks_remove(&log->blocks, b);
    }
    log->n_events++;
}

static void fix(void *user, int64_t offset, int64_t bytes)
{
    rp_place_log *log = user;

    if (!grow(log, &log->fixed, log->n_fixed, &log->room_fixed, sizeof *log->fixed)) return;
    log->fixed[log->n_fixed++] = (rp_place_buffer){ .bytes = bytes, .kind = RP_PLACE_FIXED, .offset = offset };
}

static void log_free(rp_place_log *log)
{
    rp__release(log->take);
    rp__release(log->fixed);
    rp__release(log->mark);
    rp__release(log->turn);
    rp__release(log->blocks.at);
    rp__release(log);
}

rp_status rp__place_log_begin(rp_ctx *ctx, rp_place_log **out)
{
    rp_place_log *log = rp__host_alloc(ctx, sizeof *log);

    if (!log) return RP_ERR_MEMORY;
    log->ctx = ctx;
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

void rp__place_log_mark(rp_place_log *log)
{
    if (grow(log, &log->mark, log->n_marks, &log->room_marks, sizeof *log->mark)) log->mark[log->n_marks++] = (mark){ log->n_events, log->n_takes };
}

/* ---- micro-batches that repeat the second ---- */

static bool stays_inside(const rp_place_log *log, const mark *from, const mark *to)
{
    for (int i = from->take; i < to->take; i++)
        if (log->take[i].place.bytes && log->take[i].place.end > to->event) return false;
    for (int i = 0; i < from->take; i++)
        if (log->take[i].place.end > from->event && log->take[i].place.end <= to->event) return false;
    return true;
}

static bool repeats(const rp_place_log *log, const mark *a, const mark *b)
{
    if (b[1].event - b->event != a[1].event - a->event || b[1].take - b->take != a[1].take - a->take) return false;
    for (int i = 0; i < a[1].take - a->take; i++) {
        const rp_place_buffer *x = &log->take[a->take + i].place, *y = &log->take[b->take + i].place;
        if (x->bytes != y->bytes || x->begin - a->event != y->begin - b->event || (x->bytes && x->end - a->event != y->end - b->event)) return false;
    }
    return stays_inside(log, b, b + 1);
}

static void find_repeats(rp_place_log *log)
{
    const mark *second = log->mark + 1;

    if (log->n_marks < 4 || !stays_inside(log, second, second + 1)) return;
    for (int m = 2; m + 1 < log->n_marks; m++) {
        const mark *here = &log->mark[m];
        if (!repeats(log, second, here)) continue;
        for (int i = here->take; i < here[1].take; i++) log->take[i].like = second->take + (i - here->take);
    }
}

/* ---- what each buffer is ---- */

static bool lives_at(const rp_place_buffer *b, int event) { return b->begin < event && b->end > event; }

static void find_kinds(rp_place_log *log)
{
    int turns = log->n_turns ? log->n_turns : 1, life = log->n_events / turns / LONG_SHARE;

    for (int i = 0; i < log->n_takes; i++) {
        entry *e = &log->take[i];
        if (e->place.end > log->n_events) e->place.end = log->n_events;
        bool lasts = e->place.end - e->place.begin > life;
        if (e->grad || lasts) e->place.kind = e->grad ? RP_PLACE_TOP : e->forward ? RP_PLACE_STACK : RP_PLACE_HIGH;
        for (int t = 0; t < log->n_turns && e->forward; t++)
            if (lives_at(&e->place, log->turn[t])) e->place.kind = RP_PLACE_STACK;
    }
}

/* ---- the end ---- */

static rp_place_buffer *list_buffers(rp_place_log *log, int *n)
{
    rp_place_buffer *list = rp__host_alloc(log->ctx, (log->n_takes + log->n_fixed + 1) * (int64_t)sizeof *list);

    *n = 0;
    for (int i = 0; list && i < log->n_fixed; i++) {
        list[*n]       = log->fixed[i];
        list[*n].end   = log->n_events ? log->n_events : 1;
        ++*n;
    }
    for (int i = 0; list && i < log->n_takes; i++)
        if (log->take[i].like == NONE && log->take[i].place.begin < log->take[i].place.end) list[(*n)++] = log->take[i].place;
    return list;
}

static void give_places(rp_place_log *log, const rp_place_buffer *list, rp_mem_place *place)
{
    int n = log->n_fixed;

    for (int i = 0; i < log->n_takes; i++) {
        entry *e = &log->take[i];
        if (e->like == NONE && e->place.begin < e->place.end) e->place.offset = list[n++].offset;
        if (e->like != NONE) e->place.offset = log->take[e->like].place.offset;
        place[i] = (rp_mem_place){ e->bytes, e->place.offset };
    }
}

static rp_status place_all(rp_place_log *log, rp_mem_place **place, rp_placement *out)
{
    int n;

    find_repeats(log);
    find_kinds(log);
    rp_place_buffer *list = list_buffers(log, &n);
    *place                = rp__host_alloc(log->ctx, (log->n_takes + 1) * (int64_t)sizeof **place);
    rp_status status      = list && *place ? rp__place(log->ctx, list, n, out) : RP_ERR_MEMORY;
    if (status == RP_OK) {
        give_places(log, list, *place);
    } else {
        rp__release(*place);
        *place = NULL;
    }
    rp__release(list);
    return status;
}

rp_status rp__place_log_end(rp_place_log *log, rp_mem_place **place, int *n, rp_placement *out)
{
    rp__mem_observe(log->ctx->space[0], NULL, NULL);
    rp_status status = log->lost ? rp__fail(log->ctx, RP_ERR_MEMORY, "no memory to note what a step takes") : place_all(log, place, out);
    *n               = log->n_takes;
    log_free(log);
    return status;
}
