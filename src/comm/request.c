/* comm/request.c -- collectives in flight: started, advanced, waited for.
 *
 * A request keeps its arrays of counts and first elements, because MPI reads them until the request is done. The records of requests are
 * reused, so that steps allocate nothing.
 */
#include "comm/guard.h"

#include <sched.h>
#include <unistd.h>

#include "base/list.h"

enum {
    SPINS          = 200,               /* tests before the first yield: about 20 microseconds */
    NAP_US         = 50,
    LOOKS          = 64,                /* tests between two reads of the clock */
};
#define YIELD_SECONDS 0.002             /* after this time it sleeps: computing ranks need the core more than this one needs a prompt answer */
#define SLOW_SECONDS 60.0

/* ---- starting ---- */

rp_status rp__comm_make_room(rp_ctx *ctx, rp_comm *comm, int n)
{
    int64_t numbers = 4 * (int64_t)comm->group.ranks * (int64_t)sizeof(int);

    if (n <= comm->n_request) return RP_OK;
    int room = comm->n_request;
    RP_TRY(RP_RESIZE(ctx, comm->request, room, n));
    for (; comm->n_request < n; comm->n_request++)
        if (!(comm->request[comm->n_request].number = rp__host_alloc(ctx, numbers))) return RP_ERR_MEMORY;
    return RP_OK;
}

static rp_status fail_gone(rp_ctx *ctx, rp_comm *comm, const char *missing, const char *operation)
{
    comm->world->broken = true;
    return rp_fail(ctx, RP_ERR_BACKEND, "%s; rank %d was in %s (step %" PRId64 ")", missing, comm->world->group.rank, operation, ctx->step);
}

rp_status rp__comm_check(rp_ctx *ctx, rp_comm *comm)
{
    const char *gone = rp__guard_verdict(comm);

    RP_CHECK(ctx, !comm->world->broken, RP_ERR_BACKEND, "the ranks of this job are out of step");
    return gone ? fail_gone(ctx, comm, gone, "its own work") : RP_OK;
}

static rp_status request_take(rp_ctx *ctx, rp_comm *comm, int elem_bytes, int *id)
{
    int i = 0;

    RP_BUG_IF(elem_bytes != 1 && elem_bytes != 2 && elem_bytes != 4 && elem_bytes != 8);
    RP_TRY(rp__comm_check(ctx, comm));
    while (i < comm->n_request && comm->request[i].state != RP_REQUEST_FREE) i++;
    if (i == comm->n_request) RP_TRY(rp__comm_make_room(ctx, comm, 2 * i + 1));
    *id = i + 1;
    return RP_OK;
}

/* All engines have the same limit, so a run accepts every message that its rehearsal accepted. */
static rp_status narrow(rp_ctx *ctx, const rp_comm *comm, const rp_comm_part *part, int *number, rp_engine_parts *out)
{
    int ranks = comm->group.ranks, *count = number, *first = number + ranks;

    for (int r = 0; r < ranks; r++) {
        int64_t end = part[r].first + part[r].count;
        RP_BUG_IF(part[r].count < 0 || part[r].first < 0);
        RP_CHECK(ctx, end <= INT32_MAX, RP_ERR_UNSUPPORTED, "a message of %" PRId64 " elements exceeds what MPI can count (%d)", end, INT32_MAX);
        count[r] = (int)part[r].count;
        first[r] = (int)part[r].first;
    }
    *out = (rp_engine_parts){ count, first };
    return RP_OK;
}

/* A message is in no queue, so the kernels and copies before it must be complete. */
static void begin(rp_ctx *ctx, rp_comm *comm, const char *operation)
{
    rp__mem_sync(ctx);
    rp__mem_enter(ctx);
    rp__guard_enter(comm, operation);
}

/* ---- staging: messages of device memory pass through host memory ---- */

static int64_t end_of(const rp_comm *comm, rp_engine_parts parts, int elem_bytes)
{
    int64_t end = 0;

    for (int r = 0; r < comm->group.ranks; r++)
        if (end < (int64_t)parts.first[r] + parts.count[r]) end = (int64_t)parts.first[r] + parts.count[r];
    return end * elem_bytes;
}

/* Call after rp__mem_sync: an earlier copy may still read the stage. */
static rp_status stage_room(rp_ctx *ctx, rp_request *r, int64_t bytes)
{
    if (bytes <= r->stage_bytes) return RP_OK;
    RP_RELEASE(r->stage);
    r->stage_bytes = 0;
    if (!(r->stage = rp__host_alloc(ctx, bytes))) return RP_ERR_MEMORY;
    r->stage_bytes = bytes;
    return RP_OK;
}

/* The data of `from` lies at the start of the stage, and received data arrives behind it. */
static rp_status stage_message(rp_ctx *ctx, const rp_comm *comm, rp_request *r, int64_t sent_bytes, rp_engine_parts received, int elem_bytes,
                               const void **from, void **into)
{
    int64_t behind = (sent_bytes + 63) / 64 * 64;

    r->arrived = NULL;
    if (!rp__mem_at_far(ctx, *from) && !rp__mem_at_far(ctx, *into)) return RP_OK;
    rp__mem_sync(ctx);
    RP_TRY(stage_room(ctx, r, behind + end_of(comm, received, elem_bytes)));
    rp__mem_copy(ctx, r->stage, *from, sent_bytes);
    r->into       = *into;
    r->arrived    = r->stage + behind;
    r->received   = received;
    r->elem_bytes = elem_bytes;
    *from         = r->stage;
    *into         = r->stage + behind;
    return RP_OK;
}

static void unstage(rp_ctx *ctx, const rp_comm *comm, rp_request *r)
{
    for (int i = 0; r->arrived && i < comm->group.ranks; i++) {
        int64_t at = (int64_t)r->received.first[i] * r->elem_bytes;
        rp__mem_copy(ctx, r->into + at, r->arrived + at, (int64_t)r->received.count[i] * r->elem_bytes);
    }
    r->arrived = NULL;
}

/* ---- the collectives ---- */

/* A request in flight reads and writes tensors, so device memory stays open until it is done. */
static rp_status started(rp_ctx *ctx, rp_comm *comm, int id, bool well, bool done, rp_comm_request *out)
{
    if (well && !done) rp__mem_hold(ctx);
    rp__mem_leave(ctx);
    if (!well) {
        comm->world->broken = true;
        return rp_fail(ctx, RP_ERR_BACKEND, "cannot start a collective on %d ranks: %s", comm->group.ranks, comm->why);
    }
    *out = (rp_comm_request){ done ? 0 : id };
    if (done) unstage(ctx, comm, &comm->request[id - 1]);
    if (done) return RP_OK;
    comm->request[id - 1].state = RP_REQUEST_UNDER_WAY;
    comm->request[id - 1].ctx   = ctx;
    comm->n_under_way++;
    return RP_OK;
}

rp_status rp__comm_gather(rp_ctx *ctx, rp_comm *comm, const void *mine, void *all, const rp_comm_part *part, int elem_bytes,
                          rp_comm_request *out)
{
    rp_engine_parts parts;
    bool done = false;
    int id;

    RP_TRY(request_take(ctx, comm, elem_bytes, &id));
    rp_request *r = &comm->request[id - 1];
    RP_TRY(narrow(ctx, comm, part, r->number, &parts));
    RP_TRY(stage_message(ctx, comm, r, part[comm->group.rank].count * elem_bytes, parts, elem_bytes, &mine, &all));
    begin(ctx, comm, "the start of a gather");
    bool well = comm->engine->gather(&comm->group, mine, all, parts, elem_bytes, &r->handle, &done, comm->why);
    rp__guard_leave(comm);
    return started(ctx, comm, id, well, done, out);
}

rp_status rp__comm_exchange(rp_ctx *ctx, rp_comm *comm, const void *from, const rp_comm_part *send, void *into,
                            const rp_comm_part *receive, int elem_bytes, rp_comm_request *out)
{
    rp_engine_parts sent, received;
    bool done = false;
    int id;

    RP_TRY(request_take(ctx, comm, elem_bytes, &id));
    rp_request *r = &comm->request[id - 1];
    RP_TRY(narrow(ctx, comm, send, r->number, &sent));
    RP_TRY(narrow(ctx, comm, receive, r->number + 2 * comm->group.ranks, &received));
    RP_TRY(stage_message(ctx, comm, r, end_of(comm, sent, elem_bytes), received, elem_bytes, &from, &into));
    begin(ctx, comm, "the start of an exchange");
    bool well = comm->engine->exchange(&comm->group, from, sent, into, received, elem_bytes, &r->handle, &done, comm->why);
    rp__guard_leave(comm);
    return started(ctx, comm, id, well, done, out);
}

/* ---- in flight ---- */

static void test(rp_comm *comm, rp_request *r)
{
    bool done = false;

    if (r->state != RP_REQUEST_UNDER_WAY) return;
    rp__guard_enter(comm, "a message between ranks");
    bool well = comm->engine->test(&r->handle, &done, comm->why);
    rp__guard_leave(comm);
    if (well && !done) return;
    r->state = well ? RP_REQUEST_DONE : RP_REQUEST_FAILED;
    comm->n_under_way--;
    if (well) unstage(r->ctx, comm, r);
    rp__mem_unhold(r->ctx);
}

void rp__comm_progress(rp_comm *comm)
{
    for (int i = 0; comm && comm->n_under_way && i < comm->n_request; i++) test(comm, &comm->request[i]);
}

/* ---- waiting ---- */

typedef struct { double began, now; int64_t turn; bool reported; } waiting;

static void give_way(const waiting *w)
{
    if (w->turn < SPINS) return;
    if (w->now - w->began < YIELD_SECONDS) sched_yield();
    else usleep(NAP_US);
}

static void report_slow(const rp_ctx *ctx, const rp_comm *comm, waiting *w, const char *operation)
{
    const rp_comm_watch *watch = &comm->world->watch;
    char text[RP_ERROR_CHARS];

    if (w->reported || !watch->slow || w->now - w->began < SLOW_SECONDS) return;
    snprintf(text, sizeof text, "rank %d has waited %.0f s for the others in %s (step %" PRId64 ")", comm->world->group.rank,
             w->now - w->began, operation, ctx->step);
    watch->slow(watch->user, text);
    w->reported = true;
}

/* One turn of a wait. The clock is read only now and then; the time limit is checked against that value. */
static rp_status turn(rp_ctx *ctx, rp_comm *comm, waiting *w, const char *operation)
{
    double limit     = comm->world->watch.timeout;
    const char *gone = rp__guard_verdict(comm);
    char stopped[RP_GUARD_CHARS];

    if (w->turn % LOOKS == 0 || w->turn > SPINS + 1000) w->now = rp__seconds();
    if (w->turn == 0) w->began = w->now;
    give_way(w);
    w->turn++;
    report_slow(ctx, comm, w, operation);
    if (gone) return fail_gone(ctx, comm, gone, operation);
    if (w->now - w->began < limit) return RP_OK;
    comm->world->broken = true;
    return rp_fail(ctx, RP_ERR_BACKEND, "rank %d has waited %g s ('dist.timeout') for the others in %s (step %" PRId64 ")%s", comm->world->group.rank,
                   limit, operation, ctx->step, rp__guard_stopped(comm, stopped));
}

rp_status rp__comm_wait(rp_ctx *ctx, rp_comm *comm, rp_comm_request *request, const char *operation)
{
    int id    = request->id;
    waiting w = { .began = 0 };

    *request = (rp_comm_request){ 0 };
    if (!id) return RP_OK;
    rp_request *r = &comm->request[id - 1];
    RP_BUG_IF(r->state == RP_REQUEST_FREE);
    for (;;) {
        test(comm, r);
        if (r->state != RP_REQUEST_UNDER_WAY) break;
        RP_TRY(turn(ctx, comm, &w, operation));      /* after a timeout the request keeps its record: the library may still write there */
    }
    bool well = r->state == RP_REQUEST_DONE;
    r->state  = RP_REQUEST_FREE;
    if (well) return RP_OK;
    comm->world->broken = true;
    return rp_fail(ctx, RP_ERR_BACKEND, "%s failed: %s", operation, comm->why);
}
