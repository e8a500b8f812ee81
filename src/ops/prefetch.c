/* ops/prefetch.c -- gathers that start before their calls (see prefetch.h). */
#include "ops/prefetch.h"

#include <string.h>

#include "base/list.h"
#include "ops/collective.h"

enum { NONE = -1 };

typedef struct {
    rp_gathering ask;
    const void *to;                     /* where the result went */
    int maker;                          /* index of the earlier gather in this sequence that makes the data it sends; NONE: that data exists anyway */
} gather;

typedef struct { gather *at; int n, room; } sequence;

struct rp_prefetch {
    rp_ctx *ctx;
    rp_tensor *buffer;
    sequence known, seen;               /* gathers of the last pass; of this pass so far */
    int64_t *offset;                    /* for each started and not yet used gather of `known`: its offset in the buffer … */
    rp_comm_request *request;           /* … and its `pieces` requests */
    int pieces;
    int next, first_out;                /* indices in `known`: the next one to start; the next one to use */
    int64_t head, tail;                 /* bytes [tail, head) are in use; if head < tail, all but [head, tail) */
    bool lost;                          /* this pass differs from `known` */
};

/* ---- one gather ---- */

/* A part consists of as many pieces of the whole as the outer group has ranks, one collective each. Other gathers use one. */
static int pieces_of(const rp_ctx *ctx, rp_gather_from from) { return from == RP_FROM_INNER ? rp__comm_ranks(rp__groups(ctx)->outer) : 1; }

/* The place of each rank's elements in the result. */
static void lay_out(const rp_ctx *ctx, const rp_gathering *ask, int piece, rp_comm_part *part)
{
    int all = rp__comm_ranks(rp__group(ctx)), inner = rp__comm_ranks(rp__groups(ctx)->inner);

    for (int r = 0; r < rp__comm_ranks(rp__gather_group(ctx, ask->from)); r++) {
        rp_slice s = rp__slice_in(ctx, ask->n, ask->from == RP_FROM_INNER ? piece * inner + r : r, all);
        part[r]    = ask->from == RP_FROM_OUTER ? (rp_comm_part){ r * s.room, s.room } : (rp_comm_part){ s.first, s.count };
    }
}

/* Starts all pieces; request[] has one entry per piece. If one fails, requests started before it are not waited for, because the ranks are then out
 * of step. */
static rp_status start(rp_ctx *ctx, const rp_gathering *ask, void *to, rp_comm_request *request)
{
    rp_comm_part *part = rp__comm_list(rp__gather_group(ctx, ask->from), RP_LIST_WHAT);
    int64_t room       = rp__slice_here(ctx, ask->n).room;

    for (int i = 0; i < pieces_of(ctx, ask->from); i++) {
        lay_out(ctx, ask, i, part);
        RP_TRY(rp__comm_gather(ctx, rp__gather_group(ctx, ask->from), (const uint8_t *)ask->mine + i * room * ask->elem_bytes, to, part,
                               ask->elem_bytes, &request[i]));
    }
    return RP_OK;
}

static rp_status wait_for(rp_ctx *ctx, const rp_gathering *ask, rp_comm_request *request, const char *operation)
{
    rp_status first = RP_OK;

    for (int i = 0; i < pieces_of(ctx, ask->from); i++) {
        rp_status status = request[i].id ? rp__comm_wait(ctx, rp__gather_group(ctx, ask->from), &request[i], operation) : RP_OK;
        if (first == RP_OK) first = status;
    }
    return first;
}

void rp__prefetch_push(rp_ctx *ctx)
{
    rp__comm_progress(rp__shards(ctx));
    rp__comm_progress(rp__groups(ctx)->outer);
    rp__comm_progress(rp__groups(ctx)->inner);
}

/* ---- the buffer ---- */

static int64_t prefetch_bytes_of(const rp_ctx *ctx, const rp_gathering *ask)
{
    return (ask->from == RP_FROM_OUTER ? rp__part_elems(ctx, ask->n) : ask->n) * ask->elem_bytes;
}

static bool is_empty(const rp_prefetch *a) { return a->first_out == a->next; }

/* Takes bytes after the newest entry, else at the start of the buffer; false: no room now. */
static bool find_room(rp_prefetch *a, int64_t bytes, int64_t *offset)
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

/* Frees the oldest entry. */
static void give_room(rp_prefetch *a)
{
    a->first_out++;
    a->tail = is_empty(a) ? a->head : a->offset[a->first_out];
}

static void *place(const rp_prefetch *a, int64_t offset) { return (uint8_t *)rp__tensor_data(a->buffer) + offset; }

static rp_comm_request *requests(const rp_prefetch *a, int i) { return &a->request[(int64_t)i * a->pieces]; }

/* A part can be sent once the gather that makes it has been used. */
static bool is_ready(const rp_prefetch *a, const gather *g) { return g->maker == NONE || g->maker < a->first_out; }

static rp_status prefetch_ask(rp_prefetch *a)
{
    int64_t offset;

    for (; !a->lost && a->next < a->known.n; a->next++) {
        const gather *g = &a->known.at[a->next];
        if (!is_ready(a, g) || !find_room(a, rp__mem_rounded(a->ctx, prefetch_bytes_of(a->ctx, &g->ask)), &offset)) return RP_OK;
        a->offset[a->next] = offset;
        RP_TRY(start(a->ctx, &g->ask, place(a, offset), requests(a, a->next)));
    }
    return RP_OK;
}

/* Waits for everything in flight and discards it. */
static rp_status drain(rp_prefetch *a)
{
    rp_status first = RP_OK;

    for (; !is_empty(a); a->first_out++) {
        rp_status status = wait_for(a->ctx, &a->known.at[a->first_out].ask, requests(a, a->first_out), "a prefetched gather");
        if (first == RP_OK) first = status;
    }
    a->head = a->tail = 0;
    return first;
}

/* ---- passes ---- */

static bool same(const gather *a, const gather *b)
{
    return a->ask.from == b->ask.from && a->ask.mine == b->ask.mine && a->ask.n == b->ask.n;
}

static bool begins_with(const sequence *whole, const sequence *part)
{
    bool all = part->n <= whole->n;

    for (int i = 0; i < part->n && all; i++) all = same(&whole->at[i], &part->at[i]);
    return all;
}

static rp_status prefetch_note(rp_prefetch *a, const gather *g)
{
    sequence *s = &a->seen;

    RP_TRY(RP_GROW(a->ctx, s->at, s->room, s->n + 1));
    s->at[s->n++] = *g;
    return RP_OK;
}

/* The latest gather whose result is the data that gather i sends. If none is found, i itself, so that it does not start before its call. */
static int maker_of(const sequence *s, int i)
{
    if (s->at[i].ask.from != RP_FROM_INNER) return NONE;
    for (int j = i - 1; j >= 0; j--)
        if (s->at[j].ask.from == RP_FROM_OUTER && s->at[j].to == s->at[i].ask.mine) return j;
    return i;
}

static rp_status make_lists(rp_prefetch *a, int n)
{
    rp_comm_request *request = rp__host_alloc(a->ctx, (int64_t)n * a->pieces * (int64_t)sizeof *request);
    int64_t *offset          = rp__host_alloc(a->ctx, n * (int64_t)sizeof *offset);

    if (!offset || !request) {
        RP_RELEASE(offset, request);
        return RP_ERR_MEMORY;
    }
    RP_RELEASE(a->offset, a->request);
    a->offset  = offset;
    a->request = request;
    return RP_OK;
}

/* If the pass was a beginning of the remembered one, as a score is, the remembered one stays. */
static rp_status remember(rp_prefetch *a)
{
    sequence before = a->known;

    if (!begins_with(&a->known, &a->seen)) {
        RP_TRY(make_lists(a, a->seen.n));
        for (int i = 0; i < a->seen.n; i++) a->seen.at[i].maker = maker_of(&a->seen, i);
        a->known = a->seen;
        a->seen  = before;
    }
    a->seen.n = 0;
    return RP_OK;
}

rp_status rp__prefetch_pass(rp_ctx *ctx)
{
    rp_prefetch *a = rp__ops_ctx(ctx)->prefetch;

    if (!a || ctx->options.shapes_only) return RP_OK;
    RP_TRY(drain(a));
    RP_TRY(remember(a));
    a->next = a->first_out = 0;
    a->lost = false;
    return prefetch_ask(a);
}

/* ---- the gather of a call ---- */

static rp_status gather_now(rp_ctx *ctx, const rp_gathering *g, void *to, const char *operation)
{
    rp_comm_request request[RP_MOST_RANKS];

    for (int i = 0; i < pieces_of(ctx, g->from); i++) request[i] = (rp_comm_request){ 0 };
    RP_TRY(start(ctx, g, to, request));
    return wait_for(ctx, g, request, operation);
}

/* Executes the next gather of `known`: from the buffer, or directly if it does not fit there or could not start earlier. */
static rp_status prefetch_take(rp_prefetch *a, const rp_gathering *g, void *to, const char *operation)
{
    if (is_empty(a)) {
        a->first_out = ++a->next;
        return gather_now(a->ctx, g, to, operation);
    }
    RP_TRY(wait_for(a->ctx, g, requests(a, a->first_out), operation));
    rp__mem_copy(a->ctx, to, place(a, a->offset[a->first_out]), prefetch_bytes_of(a->ctx, g));
    give_room(a);
    return RP_OK;
}

rp_status rp__prefetch_gather(rp_ctx *ctx, const rp_gathering *wanted, void *to, const char *operation)
{
    rp_prefetch *a = rp__ops_ctx(ctx)->prefetch;
    gather g    = { *wanted, to, NONE };

    if (!a) return gather_now(ctx, wanted, to, operation);
    RP_TRY(prefetch_note(a, &g));
    if (!a->lost && (a->first_out == a->known.n || !same(&g, &a->known.at[a->first_out]))) {
        a->lost = true;
        RP_TRY(drain(a));
    }
    if (a->lost) return gather_now(ctx, wanted, to, operation);
    RP_TRY(prefetch_take(a, wanted, to, operation));
    return prefetch_ask(a);
}

/* ---- open and close ---- */

rp_status rp__prefetch_open(rp_ctx *ctx, int64_t bytes)
{
    rp_meta meta = rp_meta_1d(RP_F32, rp__mem_rounded(ctx, bytes) / (int64_t)sizeof(float));
    rp_prefetch *a  = rp__host_alloc(ctx, sizeof *a);

    if (!a) return RP_ERR_MEMORY;
    a->ctx           = ctx;
    a->pieces        = rp__comm_ranks(rp__groups(ctx)->outer);
    rp_status status = rp__tensor_new_named(ctx, &meta, RP_MEM_COMM, "the prefetch buffer", &a->buffer);
    if (status == RP_OK) rp__ops_ctx(ctx)->prefetch = a;
    else rp__release(a);
    return status;
}

int64_t rp__prefetch_bytes(const rp_ctx *ctx)
{
    const rp_prefetch *a = rp__ops_ctx(ctx)->prefetch;

    return a ? rp_meta_bytes(&a->buffer->m) : 0;
}

void rp__prefetch_close(rp_ctx *ctx)
{
    rp_prefetch *a = rp__ops_ctx(ctx)->prefetch;

    if (!a) return;
    (void)drain(a);
    rp_tensor_unref(a->buffer);
    RP_RELEASE(a->offset, a->request, a->known.at, a->seen.at, a);
    rp__ops_ctx(ctx)->prefetch = NULL;
}
