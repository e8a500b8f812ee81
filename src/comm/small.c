/* comm/small.c -- blocking exchange of a few bytes: values, barriers, agreement on a status. */
#include "comm/internal.h"

static rp_status gather_now(rp_ctx *ctx, rp_comm *comm, const void *mine, void *all, const char *operation)
{
    rp_comm_request request = { 0 };

    RP_TRY(rp__comm_gather(ctx, comm, mine, all, comm->part, 1, &request));
    return rp__comm_wait(ctx, comm, &request, operation);
}

rp_status rp__comm_share(rp_ctx *ctx, rp_comm *comm, const void *mine, int64_t bytes, void *all, const char *operation)
{
    if (!comm) {
        memmove(all, mine, (size_t)bytes);
        return RP_OK;
    }
    for (int r = 0; r < comm->group.ranks; r++) comm->part[r] = (rp_comm_part){ .first = r * bytes, .count = bytes };
    return gather_now(ctx, comm, mine, all, operation);
}

rp_status rp__comm_barrier(rp_ctx *ctx, rp_comm *comm, const char *operation)
{
    int32_t here = 0;

    return comm ? rp__comm_share(ctx, comm, &here, sizeof here, comm->per_rank, operation) : RP_OK;
}

rp_status rp__comm_broadcast(rp_ctx *ctx, rp_comm *comm, int from, void *data, int64_t bytes, const char *operation)
{
    if (!comm) return RP_OK;
    for (int r = 0; r < comm->group.ranks; r++) comm->part[r] = (rp_comm_part){ .count = r == from ? bytes : 0 };
    return gather_now(ctx, comm, data, data, operation);
}

rp_status rp__comm_any(rp_ctx *ctx, rp_comm *comm, int32_t *value, const char *operation)
{
    int32_t own = *value;

    if (comm) RP_TRY(rp__comm_check(ctx, comm));        /* a single rank also has a launcher to check */
    if (rp__comm_ranks(comm) == 1) return RP_OK;
    RP_TRY(rp__comm_share(ctx, comm, &own, sizeof own, comm->per_rank, operation));
    *value = 0;
    for (int r = 0; r < comm->group.ranks && !*value; r++) *value = comm->per_rank[r];
    return RP_OK;
}

/* ---- agreement ---- */

/* The rank whose status all ranks return: the first that failed, else the first that was interrupted; -1 if none. */
static int first_failed(const int32_t *per_rank, int ranks)
{
    int interrupted = -1;

    for (int r = ranks - 1; r >= 0; r--)
        if (per_rank[r] == RP_ERR_INTERRUPTED) interrupted = r;
    for (int r = 0; r < ranks; r++)
        if (per_rank[r] != RP_OK && per_rank[r] != RP_ERR_INTERRUPTED) return r;
    return interrupted;
}

/* Does the message already begin with a rank number, from an earlier agreement? */
static bool names_rank(const char *text)
{
    int rank, end = 0;

    return sscanf(text, "rank %d: %n", &rank, &end) == 1 && end;
}

/* Records the message of another rank, with all its lines. */
static void repeat(rp_ctx *ctx, rp_status status, int rank, char *text)
{
    char *line = text, *end = strchr(text, '\n');

    if (end) *end = 0;
    if (names_rank(line)) rp_fail(ctx, status, "%s", line);
    else rp_fail(ctx, status, "rank %d: %s", rank, line[0] ? line : rp_status_text(status));
    while (end) {
        line = end + 1;
        end  = strchr(line, '\n');
        if (end) *end = 0;
        rp__fail_line(ctx, "%s", line);
    }
}

static rp_status hear(rp_ctx *ctx, rp_comm *comm, int from, rp_status status)
{
    char text[RP_ERROR_CHARS] = { 0 };

    if (from == comm->group.rank) memcpy(text, ctx->error, sizeof text);
    RP_TRY(rp__comm_broadcast(ctx, comm, from, text, sizeof text, "the message of a rank that failed"));
    text[sizeof text - 1] = 0;
    if (from != comm->group.rank) repeat(ctx, status, from, text);
    return RP_OK;
}

rp_status rp__comm_agree(rp_ctx *ctx, rp_comm *comm, rp_status mine)
{
    if (!comm) return mine;
    if (comm->engine == &rp__engine_shapes || comm->group.ranks == 1) return comm->world->agreed = mine;
    if (comm->world->broken && mine != RP_OK) return mine;      /* `mine` gives the reason, and no other rank can answer */
    int32_t own = (int32_t)mine;
    RP_TRY(rp__comm_share(ctx, comm, &own, sizeof own, comm->per_rank, "an agreement"));
    int from = first_failed(comm->per_rank, comm->group.ranks);
    if (from < 0) return comm->world->agreed = RP_OK;
    rp_status status = (rp_status)comm->per_rank[from];
    RP_TRY(hear(ctx, comm, from, status));
    return comm->world->agreed = status;
}
