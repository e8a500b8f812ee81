/* device/emulate/stream.c -- streams and events of the emulated driver. Nothing runs until the host waits.
 *
 *   copy, fill, launch, record, wait ──▶ queue of the stream ──▶ (the host waits) one call at a time, of the first stream that is not blocked
 *
 * So two calls that no event orders run in the worst order, and in the same order in each run. Both settings of rp__emulate_set_lanes are needed to
 * find a forgotten event. Beyond that:
 *
 * - The target of a copy or fill in host memory holds RP_PENDING_BYTE until the call runs, unless a waiting call still reads it.
 * - A copy reads its source when it runs. A pageable source (not of cuMemHostAlloc) is read before cuMemcpyAsync returns, as by a real driver.
 * - A copy to pageable memory is complete when cuMemcpyAsync returns. In a capture, neither holds: the graph reads and writes when it runs.
 * - A copy whose ends overlap fills its target with 0xff, because a GPU may copy in any order.
 * - If more than MOST_WAITING calls wait, the oldest run.
 */
#include "device/emulate/internal.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_WAITING = 4096, UNDEFINED_BYTE = 0xff };

static emu_stream *streams;             /* in the order of their creation */
static int n_streams_made, n_waiting;
static int64_t n_idle_waits;
static uint64_t n_calls;
static int lanes = -1;                  /* 1: the newest stream first; -1: not chosen yet */

emu_stream *rp__emulated_streams(void) { return streams; }
int rp__emulated_waiting(void) { return n_waiting; }
int64_t rp__emulated_idle_waits(void) { return n_idle_waits; }
void rp__emulate_set_lanes(bool last) { lanes = last; }

static bool newest_first(void)
{
    const char *wanted = lanes < 0 ? getenv("REPRISE_EMU_LANES") : NULL;
    if (lanes < 0) lanes = wanted && !strcmp(wanted, "last");
    return lanes;
}

/* ---- calls ---- */

emu_call *rp__emulated_call(emu_call_kind kind)
{
    emu_call *c = calloc(1, sizeof *c);
    if (c) c->kind = kind;
    return c;
}

void rp__emulated_release_record(emu_record *record)
{
    if (record && !--record->refs) free(record);
}

void rp__emulated_free_call(emu_call *c)
{
    if (!c) return;
    rp__emulated_release_record(c->record);
    rp__emulated_release_body(c->body);
    free(c->staged);
    free(c->ran);
    free(c);
}

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static bool overlap(uint64_t at, size_t bytes, uint64_t other, size_t other_bytes) { return at < other + other_bytes && other < at + bytes; }

static void run_memory(const emu_call *c)
{
    unsigned char *to         = rp__emulated_bytes(c->to, c->bytes);
    const unsigned char *from = c->staged ? c->staged : c->kind == EMU_COPY ? rp__emulated_bytes(c->from, c->bytes) : to;
    if (!to || !from) rp__emulated_break(CUDA_ERROR_ILLEGAL_ADDRESS);
    else if (c->kind == EMU_FILL) memset(to, c->byte, c->bytes);
    else if (!c->staged && c->to != c->from && overlap(c->to, c->bytes, c->from, c->bytes)) memset(to, UNDEFINED_BYTE, c->bytes);
    else memcpy(to, from, c->bytes);
}

static void run(const emu_call *c)
{
    if (c->kind == EMU_RECORD) {
        c->record->done = true;
        c->record->ms   = now_ms();
    }
    if (c->kind != EMU_COPY && c->kind != EMU_FILL && c->kind != EMU_LAUNCH) return;
    int demanded = rp__emulated_broken() ? 0 : rp__emulated_demanded("run");
    if (demanded) rp__emulated_break(demanded);
    if (rp__emulated_broken()) return;
    if (c->kind != EMU_LAUNCH) run_memory(c);
    else if (!rp__emulate_grid(c->kernel, c->grid, c->shared_bytes, c->staged)) rp__emulated_break(CUDA_ERROR_OUT_OF_MEMORY);
}

/* ---- graphs ---- */

static bool node_ready(const emu_call *graph, int i)
{
    const emu_node *node = &graph->body->nodes[i];
    if (graph->ran[i]) return false;
    for (int k = 0; k < node->after.n; k++)
        if (!graph->ran[node->after.at[k]]) return false;
    return true;
}

/* The next node in the same worst order: of the oldest or the newest captured stream. */
static void run_node(emu_call *graph)
{
    int best = -1;
    for (int i = 0; i < graph->body->n; i++) {
        if (!node_ready(graph, i)) continue;
        int lane = graph->body->nodes[i].lane, held = best < 0 ? 0 : graph->body->nodes[best].lane;
        if (best < 0 || (newest_first() ? lane > held : lane < held)) best = i;
    }
    graph->ran[best] = true;
    graph->n_ran++;
    run(&graph->body->nodes[best].call);
}

/* ---- queues ---- */

static void run_first(emu_stream *s)
{
    emu_call *c = s->first;
    if (c->kind == EMU_RUN_GRAPH && c->n_ran < c->body->n) run_node(c);
    else run(c);
    if (c->kind == EMU_RUN_GRAPH && c->n_ran < c->body->n) return;
    s->first = c->next;
    if (!s->first) s->last = NULL;
    n_waiting--;
    rp__emulated_free_call(c);
}

static bool ready(const emu_stream *s) { return s->first && (s->first->kind != EMU_WAIT || s->first->record->done); }

/* Runs one call, or one node of a graph. Returns false if there is none to run. */
static bool step(void)
{
    emu_stream *chosen = NULL;
    for (emu_stream *s = streams; s; s = s->later)
        if (ready(s) && (!chosen || newest_first())) chosen = s;
    if (chosen) run_first(chosen);
    return chosen;
}

int rp__emulated_drain(emu_stream *stream)
{
    while (stream->first && step()) {}
    if (stream->first) rp__emulated_break(CUDA_ERROR_LAUNCH_FAILED);        /* its first call waits for ever */
    return rp__emulated_broken();
}

static void run_oldest(void)
{
    emu_stream *oldest = NULL;
    for (emu_stream *s = streams; s; s = s->later)
        if (s->first && (!oldest || s->first->number < oldest->first->number)) oldest = s;
    run_first(oldest);
}

static bool reads(const emu_call *c, uint64_t at, size_t bytes)
{
    if (c->kind == EMU_COPY && !c->staged) return overlap(at, bytes, c->from, c->bytes);
    for (int i = 0; c->kind == EMU_RUN_GRAPH && i < c->body->n; i++)
        if (reads(&c->body->nodes[i].call, at, bytes)) return true;
    return false;
}

static bool writes(const emu_call *c, uint64_t at, size_t bytes)
{
    if (c->kind == EMU_COPY || c->kind == EMU_FILL) return overlap(at, bytes, c->to, c->bytes);
    for (int i = 0; c->kind == EMU_RUN_GRAPH && i < c->body->n; i++)
        if (writes(&c->body->nodes[i].call, at, bytes)) return true;
    return false;
}

static bool some_call(bool (*does)(const emu_call *c, uint64_t at, size_t bytes), uint64_t at, size_t bytes)
{
    for (const emu_stream *s = streams; s; s = s->later)
        for (const emu_call *c = s->first; c; c = c->next)
            if (does(c, at, bytes)) return true;
    return false;
}

bool rp__emulated_in_use(uint64_t at, size_t bytes) { return some_call(reads, at, bytes) || some_call(writes, at, bytes); }

/* Fills the targets in host memory with RP_PENDING_BYTE, unless a call that waits reads them. */
static void mark_target(const emu_call *c)
{
    for (int i = 0; c->kind == EMU_RUN_GRAPH && i < c->body->n; i++) mark_target(&c->body->nodes[i].call);
    if ((c->kind != EMU_COPY && c->kind != EMU_FILL) || rp__emulated_on_device(c->to)) return;
    if (!some_call(reads, c->to, c->bytes)) memset((void *)(uintptr_t)c->to, RP_PENDING_BYTE, c->bytes);
}

int rp__emulated_submit(emu_stream *s, emu_call *c)
{
    if (s->session) return rp__emulated_capture_call(s, c);
    c->number = ++n_calls;
    if (s->last) s->last->next = c;
    else s->first = c;
    s->last = c;
    n_waiting++;
    mark_target(c);
    while (n_waiting > MOST_WAITING) run_oldest();
    return rp__emulated_broken();
}

/* ---- streams ---- */

int rp__emulated_cuStreamCreate(void **stream, unsigned flags)
{
    RP_ENTER(cuStreamCreate);
    if (!stream || flags > CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
    emu_stream *s = rp__emulated_new(EMU_STREAM, sizeof *s), **end = &streams;
    if (!s) return CUDA_ERROR_OUT_OF_MEMORY;
    while (*end) end = &(*end)->later;
    *end    = s;
    s->lane = n_streams_made++;
    *stream = s;
    return CUDA_SUCCESS;
}

static void drop_stream(emu_stream *s)
{
    emu_stream **p = &streams;
    while (*p != s) p = &(*p)->later;
    *p = s->later;
    rp__emulated_drop(s);
}

/* Calls that wait still run, as on a GPU. */
int rp__emulated_cuStreamDestroy_v2(void *stream)
{
    RP_ENTER(cuStreamDestroy_v2);
    emu_stream *s = rp__emulated_find(stream, EMU_STREAM);
    if (!s) return CUDA_ERROR_INVALID_HANDLE;
    if (s->session) return rp__emulated_spoil(s->session, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    rp__emulated_drain(s);
    drop_stream(s);
    return CUDA_SUCCESS;
}

int rp__emulated_cuStreamSynchronize(void *stream)
{
    RP_ENTER(cuStreamSynchronize);
    emu_stream *s = rp__emulated_find(stream, EMU_STREAM);
    if (!s) return CUDA_ERROR_INVALID_HANDLE;
    if (s->session) return rp__emulated_spoil(s->session, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    int error = rp__emulated_drain(s);
    n_idle_waits += !n_waiting;
    return error;
}

/* ---- copies and fills ---- */

/* Pageable host memory: neither the device's nor of cuMemHostAlloc. */
static bool pageable(uint64_t at, size_t bytes) { return !rp__emulated_on_device(at) && !rp__emulated_pinned(at, bytes); }

int rp__emulated_cuMemcpyAsync(uint64_t to, uint64_t from, size_t bytes, void *stream)
{
    RP_ENTER(cuMemcpyAsync);
    emu_stream *s = rp__emulated_find(stream, EMU_STREAM);
    emu_call *c;
    if (!s) return CUDA_ERROR_INVALID_HANDLE;
    if (!bytes) return CUDA_SUCCESS;
    if (!to || !from || rp__emulated_leaves_pin(to, bytes) || rp__emulated_leaves_pin(from, bytes)) return CUDA_ERROR_INVALID_VALUE;
    bool eager = !s->session, on_return = eager && pageable(to, bytes);
    c = rp__emulated_call(EMU_COPY);
    if (c && eager && pageable(from, bytes) && !(c->staged = malloc(bytes))) {
        rp__emulated_free_call(c);
        c = NULL;
    }
    if (!c) return CUDA_ERROR_OUT_OF_MEMORY;
    if (c->staged) memcpy(c->staged, (const void *)(uintptr_t)from, bytes);
    c->to     = to;
    c->from   = from;
    c->bytes  = bytes;
    int error = rp__emulated_submit(s, c);
    return error || !on_return ? error : rp__emulated_drain(s);
}

int rp__emulated_cuMemsetD8Async(uint64_t at, unsigned char byte, size_t bytes, void *stream)
{
    RP_ENTER(cuMemsetD8Async);
    emu_stream *s = rp__emulated_find(stream, EMU_STREAM);
    if (!s) return CUDA_ERROR_INVALID_HANDLE;
    if (!bytes) return CUDA_SUCCESS;
    if (!at || pageable(at, bytes)) return CUDA_ERROR_INVALID_VALUE;
    emu_call *c = rp__emulated_call(EMU_FILL);
    if (!c) return CUDA_ERROR_OUT_OF_MEMORY;
    c->to    = at;
    c->byte  = byte;
    c->bytes = bytes;
    return rp__emulated_submit(s, c);
}

/* ---- events ---- */

int rp__emulated_cuEventCreate(void **event, unsigned flags)
{
    RP_ENTER(cuEventCreate);
    if (!event || flags > 3) return CUDA_ERROR_INVALID_VALUE;
    emu_event *e = rp__emulated_new(EMU_EVENT, sizeof *e);
    if (!e) return CUDA_ERROR_OUT_OF_MEMORY;
    e->flags = flags;
    *event   = e;
    return CUDA_SUCCESS;
}

int rp__emulated_cuEventDestroy_v2(void *event)
{
    RP_ENTER(cuEventDestroy_v2);
    emu_event *e = rp__emulated_find(event, EMU_EVENT);
    if (!e) return CUDA_ERROR_INVALID_HANDLE;
    rp__emulated_release_record(e->record);
    rp__emulated_drop(e);
    return CUDA_SUCCESS;
}

int rp__emulated_cuEventRecord(void *event, void *stream)
{
    RP_ENTER(cuEventRecord);
    emu_event *e  = rp__emulated_find(event, EMU_EVENT);
    emu_stream *s = rp__emulated_find(stream, EMU_STREAM);
    if (!e || !s) return CUDA_ERROR_INVALID_HANDLE;
    if (s->session) return rp__emulated_capture_record(s, e);
    emu_record *r = calloc(1, sizeof *r);
    emu_call *c   = rp__emulated_call(EMU_RECORD);
    if (!r || !c) {
        free(r);
        free(c);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    rp__emulated_release_record(e->record);
    r->refs     = 2;
    e->record   = r;
    e->captured = 0;
    c->record   = r;
    return rp__emulated_submit(s, c);
}

int rp__emulated_cuStreamWaitEvent(void *stream, void *event, unsigned flags)
{
    RP_ENTER(cuStreamWaitEvent);
    emu_event *e  = rp__emulated_find(event, EMU_EVENT);
    emu_stream *s = rp__emulated_find(stream, EMU_STREAM);
    if (!e || !s) return CUDA_ERROR_INVALID_HANDLE;
    if (flags) return CUDA_ERROR_INVALID_VALUE;
    if (s->session || e->captured) return rp__emulated_capture_wait(s, e);
    if (!e->record || e->record->done) return CUDA_SUCCESS;
    emu_call *c = rp__emulated_call(EMU_WAIT);
    if (!c) return CUDA_ERROR_OUT_OF_MEMORY;
    c->record = e->record;
    e->record->refs++;
    return rp__emulated_submit(s, c);
}

int rp__emulated_cuEventSynchronize(void *event)
{
    RP_ENTER(cuEventSynchronize);
    emu_event *e = rp__emulated_find(event, EMU_EVENT);
    if (!e) return CUDA_ERROR_INVALID_HANDLE;
    if (e->captured) return rp__emulated_spoil(rp__emulated_session(e->captured), EMU_CAPTURED_EVENT);
    while (e->record && !e->record->done && step()) {}
    if (e->record && !e->record->done) rp__emulated_break(CUDA_ERROR_LAUNCH_FAILED);
    n_idle_waits += !n_waiting;
    return rp__emulated_broken();
}

int rp__emulated_cuEventElapsedTime(float *milliseconds, void *begin, void *end)
{
    RP_ENTER(cuEventElapsedTime);
    const emu_event *b = rp__emulated_find(begin, EMU_EVENT), *e = rp__emulated_find(end, EMU_EVENT);
    if (!b || !e || !b->record || !e->record || b->captured || e->captured || ((b->flags | e->flags) & CU_EVENT_DISABLE_TIMING))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!milliseconds) return CUDA_ERROR_INVALID_VALUE;
    if (!b->record->done || !e->record->done) return EMU_NOT_READY;
    *milliseconds = (float)(e->record->ms - b->record->ms);
    return CUDA_SUCCESS;
}

/* ---- reset ---- */

/* Drops all calls, and each stream's capture. The objects are dropped with the others. */
void rp__emulated_close_streams(void)
{
    for (emu_stream *s = streams; s; s = s->later)
        while (s->first) {
            emu_call *c = s->first;
            s->first    = c->next;
            rp__emulated_free_call(c);
        }
    streams      = NULL;
    n_waiting    = 0;
    n_idle_waits = 0;
    lanes        = -1;
}
