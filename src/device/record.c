/* device/record.c -- calls of a queue that can be repeated.
 *
 *   begin ─ launches, copies and fills run as usual, and are noted ─ end ─▶ a list of calls ─ prepare ─▶ a CUDA graph ─ repeat, repeat …
 *
 * prepare makes the calls once more, into a capture that runs nothing. So nothing is lost if the driver refuses it, and no code of the host runs
 * while a stream is captured.
 */
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "device/gpu.h"

/* Arguments of launches. */
typedef struct args_piece { struct args_piece *before; size_t used; _Alignas(16) unsigned char at[1 << 16]; } args_piece;

struct rp_record {
    const rp_gpu *gpu;
    bool needs_host;
    int64_t n, room;
    rp_gpu_call *call;
    args_piece *args;               /* the last piece */
    void *executable;               /* NULL: not prepared */
};

static int make_call(const struct rp_queue *q, const rp_gpu_call *c, const char **name)
{
    const rp_cuda *call = &q->gpu->call;
    void *parameters[]  = { (void *)(uintptr_t)c->args };
    void *stream        = c->aside ? q->lane.stream : q->stream;

    *name = c->kernel ? c->kernel->name : c->event ? "an event" : c->from ? "cuMemcpyAsync" : "cuMemsetD8Async";
    if (c->event) return c->waits ? call->cuStreamWaitEvent(stream, c->event, 0) : call->cuEventRecord(c->event, stream);
    if (c->kernel && c->kernel->call) return c->kernel->call(q->gpu, stream, c->args);
    if (c->kernel)
        return call->cuLaunchKernel(c->function, c->grid[0], c->grid[1], c->grid[2], (unsigned)c->kernel->threads, 1, 1, (unsigned)c->kernel->shared_bytes,
                                    stream, parameters, NULL);
    if (c->from) return call->cuMemcpyAsync(c->to, c->from, c->bytes, stream);
    return call->cuMemsetD8Async(c->to, (unsigned char)c->byte, c->bytes, stream);
}

/* ---- noting ---- */

/* A copy of the arguments that lives as long as the list of calls; NULL: there is no memory. */
static const void *keep_args(struct rp_record *r, const void *args, int bytes)
{
    size_t rounded = ((size_t)bytes + 15) / 16 * 16;

    if (!r->args || r->args->used + rounded > sizeof r->args->at) {
        args_piece *more = malloc(sizeof *more);
        if (!more) return NULL;
        more->before = r->args;
        more->used   = 0;
        r->args      = more;
    }
    r->args->used += rounded;
    return memcpy(r->args->at + r->args->used - rounded, args, (size_t)bytes);
}

static bool has_room(struct rp_record *r)
{
    if (r->n < r->room) return true;
    int64_t room      = r->room ? 2 * r->room : 256;
    rp_gpu_call *more = realloc(r->call, (size_t)room * sizeof *more);
    if (!more) return false;
    r->call = more;
    r->room = room;
    return true;
}

static void note(struct rp_record *r, const rp_gpu_call *call)
{
    const void *args = call->kernel && !r->needs_host ? keep_args(r, call->args, call->kernel->args_bytes) : NULL;

    r->needs_host = r->needs_host || (call->kernel && !args) || !has_room(r);
    if (r->needs_host) return;
    r->call[r->n]        = *call;
    r->call[r->n++].args = args;
}

void rp__gpu_issue(struct rp_queue *q, const rp_gpu_call *call)
{
    rp__gpu_flush(q);
    rp__gpu_issue_at_once(q, call);
}

void rp__gpu_issue_at_once(struct rp_queue *q, const rp_gpu_call *call)
{
    const char *name;
    int code = make_call(q, call, &name);

    if (rp__gpu_noted(q, code, name) && q->record) note(q->record, call);
}

void rp__gpu_needs_host(struct rp_queue *q)
{
    if (q->record) q->record->needs_host = true;
}

static void free_calls(struct rp_record *r)
{
    while (r->args) {
        args_piece *before = r->args->before;
        free(r->args);
        r->args = before;
    }
    free(r->call);
    r->call = NULL;
    r->n = r->room = 0;
}

static void record_free(struct rp_record *r)
{
    if (!r) return;
    if (r->executable) rp__gpu_enter(r->gpu);
    if (r->executable) r->gpu->call.cuGraphExecDestroy(r->executable);
    free_calls(r);
    free(r);
}

static void record_begin(const rp_on *on)
{
    struct rp_queue *q = on->queue;

    rp__gpu_join(q);
    rp__gpu_flush(q);
    record_free(q->record);
    q->record = calloc(1, sizeof *q->record);
    if (q->record) q->record->gpu = q->gpu;
}

static struct rp_record *record_end(const rp_on *on)
{
    struct rp_record *r = on->queue->record;

    if (r) rp__gpu_join(on->queue);         /* a capture must end with all its streams */
    rp__gpu_flush(on->queue);
    on->queue->record = NULL;
    if (r && !r->needs_host && r->n) return r;
    record_free(r);
    return NULL;
}

static bool same_call(const rp_gpu_call *a, const rp_gpu_call *b)
{
    return a->kernel == b->kernel && a->event == b->event && a->waits == b->waits && a->aside == b->aside && a->byte == b->byte && a->to == b->to &&
           a->from == b->from && a->bytes == b->bytes && !memcmp(a->grid, b->grid, sizeof a->grid) &&
           (!a->kernel || !memcmp(a->args, b->args, (size_t)a->kernel->args_bytes));
}

static bool record_same(const struct rp_record *a, const struct rp_record *b)
{
    if (a->n != b->n) return false;
    for (int64_t i = 0; i < a->n; i++)
        if (!same_call(&a->call[i], &b->call[i])) return false;
    return true;
}

/* ---- repeating ---- */

/* All calls become nodes, also after an error: a capture must be ended. NULL: the driver refuses. */
static void *capture(const struct rp_queue *q, const struct rp_record *r)
{
    const rp_cuda *call = &q->gpu->call;
    void *graph         = NULL;
    int code            = 0;
    const char *name;

    if (call->cuStreamBeginCapture_v2(q->stream, CU_STREAM_CAPTURE_MODE_RELAXED)) return NULL;
    for (int64_t i = 0; i < r->n && !code; i++) code = make_call(q, &r->call[i], &name);
    if (!call->cuStreamEndCapture(q->stream, &graph) && !code) return graph;
    if (graph) call->cuGraphDestroy(graph);
    return NULL;
}

static bool record_prepare(struct rp_record *r, const rp_on *on)
{
    const rp_cuda *call = &r->gpu->call;

    rp__gpu_enter(r->gpu);
    void *graph = capture(on->queue, r);
    if (!graph) return false;
    if (call->cuGraphInstantiateWithFlags(&r->executable, graph, 0)) r->executable = NULL;
    call->cuGraphDestroy(graph);
    if (!r->executable) return false;
    free_calls(r);                          /* the driver has copied them */
    return true;
}

static void record_repeat(const struct rp_record *r, const rp_on *on)
{
    rp__gpu_enter(r->gpu);
    rp__gpu_join(on->queue);                /* the copies of the graph are not in the lane */
    rp__gpu_flush(on->queue);
    rp__gpu_needs_host(on->queue);          /* a graph in a graph is not supported */
    rp__gpu_noted(on->queue, r->gpu->call.cuGraphLaunch(r->executable, on->queue->stream), "cuGraphLaunch");
}

const rp_records rp__gpu_records = { record_begin, record_end, record_same, record_prepare, record_repeat, record_free };
