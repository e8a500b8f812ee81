/* ops/ahead.c -- gathers asked for ahead of their calls: see ahead.h. */
#include "ops/ahead.h"

#include <string.h>

#include "ops/collective.h"

typedef struct { const void *slice; int64_t n; int elem_bytes; } gather;

typedef struct { gather *at; int n, room; } sequence;

typedef struct { int64_t offset; rp_comm_request request; } asked;

struct rp_ahead {
    rp_ctx *ctx;
    rp_tensor *buffer;
    sequence known, seen;               /* of the last pass · of this one, so far */
    asked *of;                          /* each of `known` that has been asked for and not taken */
    int next, first_out;                /* of `known`: the next to be asked for · the next to be taken */
    int64_t head, tail;                 /* bytes [tail, head) are in use; head < tail: all but [head, tail) */
    bool lost;                          /* this pass goes another way */
};

static rp_status start(rp_ctx *ctx, const gather *g, void *to, rp_comm_request *out)
{
    rp_comm *group = rp__group(ctx);
    int ranks      = rp__comm_ranks(group);
    rp_comm_part part[RP_MOST_RANKS];

    for (int r = 0; r < ranks; r++) {
        rp_slice s = rp__slice_of(g->n, r, ranks);
        part[r]    = (rp_comm_part){ s.first, s.count };
    }
    return rp__comm_gather(ctx, group, g->slice, to, part, g->elem_bytes, out);
}

/* ---- the buffer ---- */

static int64_t bytes_of(const gather *g) { return rp__align_up(g->n * g->elem_bytes); }
static bool is_empty(const rp_ahead *a) { return a->first_out == a->next; }

/* Room behind the newest, else at the beginning; false: there is none now. */
static bool find_room(rp_ahead *a, int64_t bytes, int64_t *offset)
{
    int64_t size = rp_meta_bytes(&a->buffer->m);

    if (is_empty(a)) a->head = a->tail = 0;
    bool wrapped = a->head < a->tail || (a->head == a->tail && !is_empty(a));
    if (!wrapped && a->head + bytes <= size) *offset = a->head;
    else if (!wrapped && bytes <= a->tail && !is_empty(a)) *offset = 0;
    else if (wrapped && a->head + bytes <= a->tail) *offset = a->head;
    else return false;
    a->head = *offset + bytes;
    return true;
}

/* The oldest goes. */
static void give_room(rp_ahead *a)
{
    a->first_out++;
    a->tail = is_empty(a) ? a->head : a->of[a->first_out].offset;
}

static void *place(const rp_ahead *a, int64_t offset) { return (uint8_t *)rp_tensor_data(a->buffer) + offset; }

static rp_status ask(rp_ahead *a)
{
    int64_t offset;

    while (!a->lost && a->next < a->known.n && find_room(a, bytes_of(&a->known.at[a->next]), &offset)) {
        asked *to  = &a->of[a->next];
        to->offset = offset;
        RP_TRY(start(a->ctx, &a->known.at[a->next], place(a, offset), &to->request));
        a->next++;
    }
    return RP_OK;
}

/* What is under way comes, and is for nobody. */
static rp_status drain(rp_ahead *a)
{
    rp_status first = RP_OK;

    for (; !is_empty(a); a->first_out++) {
        rp_status status = rp__comm_wait(a->ctx, rp__group(a->ctx), &a->of[a->first_out].request, "a gather that was asked for ahead");
        if (first == RP_OK) first = status;
    }
    a->head = a->tail = 0;
    return first;
}

/* ---- passes ---- */

static bool same(const gather *a, const gather *b) { return a->slice == b->slice && a->n == b->n; }

static bool begins_with(const sequence *whole, const sequence *part)
{
    bool all = part->n <= whole->n;

    for (int i = 0; i < part->n && all; i++) all = same(&whole->at[i], &part->at[i]);
    return all;
}

static rp_status note(rp_ahead *a, const gather *g)
{
    sequence *s = &a->seen;

    if (s->n == s->room) {
        int room     = 2 * s->room + 64;
        gather *more = rp__host_grow(a->ctx, s->at, s->room * (int64_t)sizeof *more, room * (int64_t)sizeof *more);
        if (!more) return RP_ERR_MEMORY;
        s->at   = more;
        s->room = room;
    }
    s->at[s->n++] = *g;
    return RP_OK;
}

/* A pass that was the beginning of the remembered one, as a score is, changes nothing. */
static rp_status remember(rp_ahead *a)
{
    sequence before = a->known;

    if (!begins_with(&a->known, &a->seen)) {
        asked *of = rp__host_alloc(a->ctx, a->seen.n * (int64_t)sizeof *of);
        if (!of) return RP_ERR_MEMORY;
        rp__release(a->of);
        a->of    = of;
        a->known = a->seen;
        a->seen  = before;
    }
    a->seen.n = 0;
    return RP_OK;
}

rp_status rp__ahead_pass(rp_ctx *ctx)
{
    rp_ahead *a = ctx->ahead;

    if (!a || ctx->options.shapes_only) return RP_OK;
    RP_TRY(drain(a));
    RP_TRY(remember(a));
    a->next = a->first_out = 0;
    a->lost = false;
    return ask(a);
}

/* ---- a gather ---- */

static rp_status gather_now(rp_ctx *ctx, const gather *g, void *whole, const char *what)
{
    rp_comm_request request = { 0 };

    RP_TRY(start(ctx, g, whole, &request));
    return rp__comm_wait(ctx, rp__group(ctx), &request, what);
}

/* The one that comes next: from the buffer, or because it does not fit in there by itself. */
static rp_status take(rp_ahead *a, const gather *g, void *whole, const char *what)
{
    if (is_empty(a)) {
        a->first_out = ++a->next;
        return gather_now(a->ctx, g, whole, what);
    }
    asked *from = &a->of[a->first_out];
    RP_TRY(rp__comm_wait(a->ctx, rp__group(a->ctx), &from->request, what));
    memcpy(whole, place(a, from->offset), (size_t)(g->n * g->elem_bytes));
    give_room(a);
    return RP_OK;
}

rp_status rp__ahead_gather(rp_ctx *ctx, const void *slice, int64_t n, int elem_bytes, void *whole, const char *what)
{
    rp_ahead *a = ctx->ahead;
    gather g    = { slice, n, elem_bytes };

    if (!a) return gather_now(ctx, &g, whole, what);
    RP_TRY(note(a, &g));
    if (!a->lost && (a->first_out == a->known.n || !same(&g, &a->known.at[a->first_out]))) {
        a->lost = true;
        RP_TRY(drain(a));
    }
    if (a->lost) return gather_now(ctx, &g, whole, what);
    RP_TRY(take(a, &g, whole, what));
    return ask(a);
}

/* ---- life ---- */

rp_status rp__ahead_open(rp_ctx *ctx, int64_t bytes)
{
    rp_meta meta = rp_meta_1d(RP_F32, rp__align_up(bytes) / (int64_t)sizeof(float));
    rp_ahead *a  = rp__host_alloc(ctx, sizeof *a);

    if (!a) return RP_ERR_MEMORY;
    a->ctx           = ctx;
    rp_status status = rp__tensor_new_named(ctx, &meta, RP_MEM_COMM, "gathers asked for ahead", &a->buffer);
    if (status == RP_OK) ctx->ahead = a;
    else rp__release(a);
    return status;
}

void rp__ahead_close(rp_ctx *ctx)
{
    rp_ahead *a = ctx->ahead;

    if (!a) return;
    (void)drain(a);
    rp_tensor_unref(a->buffer);
    rp__release(a->of);
    rp__release(a->known.at);
    rp__release(a->seen.at);
    rp__release(a);
    ctx->ahead = NULL;
}
