/* device/emulate/capture.c -- captures of streams, and graphs.
 *
 * A capture begins in one stream, its origin. A stream joins if it waits for an event of the capture. Each call becomes a node.
 * It follows the tips of its stream: the stream's last node, and the nodes of events that the stream waited for. When the capture ends, the origin
 * must follow all nodes. A launch of a graph is one call of a stream. Its nodes run one at a time, in the worst order that they allow (stream.c).
 */
#include "device/emulate/internal.h"

#include <stdlib.h>
#include <string.h>

static emu_session *sessions;
static uint64_t n_sessions;

emu_session *rp__emulated_session(uint64_t id)
{
    emu_session *s = sessions;
    while (s && s->id != id) s = s->next;
    return s;
}

int rp__emulated_spoil(emu_session *session, int code)
{
    if (session && !session->error) session->error = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    return code;
}

int rp__emulated_unsafe(void)
{
    int code = CUDA_SUCCESS;
    for (emu_session *s = sessions; s; s = s->next)
        if (s->mode == 0 || (s->mode == 1 && pthread_equal(s->thread, pthread_self())))
            code = rp__emulated_spoil(s, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    return code;
}

void rp__emulated_release_body(emu_body *body)
{
    if (!body || --body->refs) return;
    for (int i = 0; i < body->n; i++) {
        rp__emulated_release_record(body->nodes[i].call.record);
        free(body->nodes[i].call.staged);
    }
    free(body->nodes);
    free(body);
}

/* ---- nodes ---- */

static bool has(const emu_tips *tips, int node)
{
    for (int i = 0; i < tips->n; i++)
        if (tips->at[i] == node) return true;
    return false;
}

/* Adds a node that follows the tips of the stream and becomes its only tip. */
static int add_node(emu_stream *s, const emu_call *call)
{
    emu_body *body = s->session->body;
    if (body->n == body->room) {
        emu_node *more = realloc(body->nodes, (size_t)(2 * body->room + 64) * sizeof *more);
        if (!more) return rp__emulated_spoil(s->session, CUDA_ERROR_OUT_OF_MEMORY);
        body->nodes = more;
        body->room  = 2 * body->room + 64;
    }
    body->nodes[body->n] = (emu_node){ *call, s->lane, s->tips };
    s->tips              = (emu_tips){ 1, { body->n++ } };
    return CUDA_SUCCESS;
}

static int add_tips(emu_stream *s, const emu_tips *more)
{
    for (int i = 0; i < more->n; i++) {
        if (has(&s->tips, more->at[i])) continue;
        if (s->tips.n == EMU_TIPS) {
            emu_call join = { .kind = EMU_JOIN };
            int error     = add_node(s, &join);
            if (error) return error;
        }
        s->tips.at[s->tips.n++] = more->at[i];
    }
    return CUDA_SUCCESS;
}

int rp__emulated_capture_call(emu_stream *s, emu_call *call)
{
    int error = s->session->error;
    if (!error && call->kind == EMU_RUN_GRAPH) error = rp__emulated_spoil(s->session, EMU_NOT_SUPPORTED);
    if (!error) error = add_node(s, call);
    if (error) rp__emulated_free_call(call);
    else free(call);            /* the node has its content */
    return error;
}

int rp__emulated_capture_record(emu_stream *s, emu_event *e)
{
    if (s->session->error) return s->session->error;
    e->captured = s->session->id;
    e->tips     = s->tips;
    return CUDA_SUCCESS;
}

int rp__emulated_capture_wait(emu_stream *s, emu_event *e)
{
    emu_session *of_event = e->captured ? rp__emulated_session(e->captured) : NULL;
    if (s->session && s->session->error) return s->session->error;
    if (e->captured && !of_event) return rp__emulated_spoil(s->session, EMU_CAPTURED_EVENT);    /* its capture has ended */
    if (!of_event) return e->record ? rp__emulated_spoil(s->session, EMU_CAPTURE_ISOLATION) : CUDA_SUCCESS;
    if (of_event->error) return of_event->error;
    if (s->session && s->session != of_event) {
        rp__emulated_spoil(of_event, 0);
        return rp__emulated_spoil(s->session, EMU_CAPTURE_MERGE);
    }
    if (!s->session) {
        s->session = of_event;
        s->tips.n  = 0;
    }
    return add_tips(s, &e->tips);
}

/* ---- begin and end ---- */

int rp__emulated_cuStreamBeginCapture_v2(void *stream, int mode)
{
    RP_ENTER(cuStreamBeginCapture_v2);
    emu_stream *s = rp__emulated_find(stream, EMU_STREAM);
    if (!s) return CUDA_ERROR_INVALID_HANDLE;
    if (mode < 0 || mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
    if (s->session) return rp__emulated_spoil(s->session, EMU_ILLEGAL_STATE);
    emu_session *made = calloc(1, sizeof *made);
    emu_body *body    = calloc(1, sizeof *body);
    if (!made || !body) {
        free(made);
        free(body);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    body->refs = 1;
    *made      = (emu_session){ .id = ++n_sessions, .origin = s, .mode = mode, .thread = pthread_self(), .body = body, .next = sessions };
    sessions   = made;
    s->session = made;
    s->tips.n  = 0;
    return CUDA_SUCCESS;
}

/* All nodes come before the tips of the origin. */
static int check_joined(const emu_session *session)
{
    const emu_body *body = session->body;
    int n_reached        = 0;
    bool *reached        = calloc((size_t)body->n + 1, sizeof *reached);
    if (!reached) return CUDA_ERROR_OUT_OF_MEMORY;
    for (int i = 0; i < session->origin->tips.n; i++) reached[session->origin->tips.at[i]] = true;
    for (int i = body->n - 1; i >= 0; i--) {            /* a node follows nodes with lower numbers */
        if (!reached[i]) continue;
        n_reached++;
        for (int k = 0; k < body->nodes[i].after.n; k++) reached[body->nodes[i].after.at[k]] = true;
    }
    free(reached);
    return n_reached == body->n ? CUDA_SUCCESS : EMU_CAPTURE_UNJOINED;
}

static void end_session(emu_session *session)
{
    emu_session **p = &sessions;
    while (*p != session) p = &(*p)->next;
    *p = session->next;
    for (emu_stream *s = rp__emulated_streams(); s; s = s->later)
        if (s->session == session) s->session = NULL;
    rp__emulated_release_body(session->body);
    free(session);
}

int rp__emulated_cuStreamEndCapture(void *stream, void **graph)
{
    RP_ENTER(cuStreamEndCapture);
    emu_stream *s = rp__emulated_find(stream, EMU_STREAM);
    if (!s) return CUDA_ERROR_INVALID_HANDLE;
    if (!graph) return CUDA_ERROR_INVALID_VALUE;
    *graph = NULL;
    if (!s->session) return EMU_ILLEGAL_STATE;
    emu_session *session = s->session;
    if (session->origin != s) return rp__emulated_spoil(session, EMU_CAPTURE_UNMATCHED);
    if (session->mode != CU_STREAM_CAPTURE_MODE_RELAXED && !pthread_equal(session->thread, pthread_self())) return EMU_CAPTURE_WRONG_THREAD;
    int error    = session->error ? session->error : check_joined(session);
    emu_graph *g = error ? NULL : rp__emulated_new(EMU_GRAPH, sizeof *g);
    if (!error && !g) error = CUDA_ERROR_OUT_OF_MEMORY;
    if (g) {
        g->body = session->body;
        g->body->refs++;
        *graph = g;
    }
    end_session(session);
    return error;
}

/* ---- graphs ---- */

int rp__emulated_cuGraphInstantiateWithFlags(void **executable, void *graph, unsigned long long flags)
{
    RP_ENTER(cuGraphInstantiateWithFlags);
    emu_graph *g = rp__emulated_find(graph, EMU_GRAPH);
    if (!g) return CUDA_ERROR_INVALID_HANDLE;
    if (!executable || flags) return CUDA_ERROR_INVALID_VALUE;
    emu_graph *x = rp__emulated_new(EMU_EXECUTABLE, sizeof *x);
    if (!x) return CUDA_ERROR_OUT_OF_MEMORY;
    x->body = g->body;
    x->body->refs++;
    *executable = x;
    return CUDA_SUCCESS;
}

int rp__emulated_cuGraphLaunch(void *executable, void *stream)
{
    RP_ENTER(cuGraphLaunch);
    emu_graph *x  = rp__emulated_find(executable, EMU_EXECUTABLE);
    emu_stream *s = rp__emulated_find(stream, EMU_STREAM);
    if (!x || !s) return CUDA_ERROR_INVALID_HANDLE;
    emu_call *c = rp__emulated_call(EMU_RUN_GRAPH);
    if (c) c->ran = calloc((size_t)x->body->n + 1, sizeof *c->ran);
    if (!c || !c->ran) {
        rp__emulated_free_call(c);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    c->body = x->body;
    c->body->refs++;
    return rp__emulated_submit(s, c);
}

static int destroy(void *handle, emu_kind kind)
{
    emu_graph *g = rp__emulated_find(handle, kind);
    if (!g) return CUDA_ERROR_INVALID_HANDLE;
    rp__emulated_release_body(g->body);
    rp__emulated_drop(g);
    return CUDA_SUCCESS;
}

int rp__emulated_cuGraphExecDestroy(void *executable)
{
    RP_ENTER(cuGraphExecDestroy);
    return destroy(executable, EMU_EXECUTABLE);
}

int rp__emulated_cuGraphDestroy(void *graph)
{
    RP_ENTER(cuGraphDestroy);
    return destroy(graph, EMU_GRAPH);
}

void rp__emulated_close_captures(void)
{
    while (sessions) end_session(sessions);
}
