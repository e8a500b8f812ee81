/* comm/mpi/engine.c -- the engine over MPI: a module, compiled once for each MPI library with that library's compiler wrapper.
 *
 * MPI's errors are returned instead of fatal as soon as MPI runs. All collectives are non-blocking. MPI_THREAD_FUNNELED is enough, because only
 * the thread that opened the world calls MPI. Elements are moved as unsigned integers of their size, so their bits do not change.
 */
#include "comm/engine.h"

#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

_Static_assert(sizeof(MPI_Comm) <= sizeof(uint64_t) && sizeof(MPI_Request) <= sizeof(uint64_t), "a handle is a number of 64 bits");

static MPI_Comm comm_of(const rp_engine_group *g)
{
    MPI_Comm comm;

    memcpy(&comm, &g->handle, sizeof comm);
    return comm;
}

static bool explain(int code, const char *call, char *why)
{
    char text[MPI_MAX_ERROR_STRING + 1] = "";
    int n = 0;

    if (code == MPI_SUCCESS) return true;
    if (MPI_Error_string(code, text, &n) != MPI_SUCCESS) n = snprintf(text, sizeof text, "error %d", code);
    for (int i = 0; i < n; i++)
        if ((unsigned char)text[i] < ' ') text[i] = ' ';
    snprintf(why, RP_ENGINE_WHY_CHARS, "%s: %.500s", call, text);
    return false;
}

/* ---- groups ---- */

static bool engine_fill(MPI_Comm comm, rp_engine_group *out, char *why)
{
    *out = (rp_engine_group){ 0 };
    memcpy(&out->handle, &comm, sizeof comm);
    return explain(MPI_Comm_rank(comm, &out->rank), "MPI_Comm_rank", why) && explain(MPI_Comm_size(comm, &out->ranks), "MPI_Comm_size", why);
}

/* Shortens "Open MPI v4.1.4, package: …" and "MPICH Version:      4.0.2\nMPICH Release date: …" for messages. */
static void short_name(const char *text, char *out)
{
    int n = 0;

    for (const char *p = text; *p && *p != ',' && *p != '\n' && n < RP_ENGINE_NAME_CHARS - 1;) {
        if (!strncmp(p, "Version:", 8)) p += 8;
        char c = *p == '\t' ? ' ' : *p;
        if (*p && *p != '\n' && (c != ' ' || (n && out[n - 1] != ' '))) out[n++] = c;
        if (*p && *p != '\n') p++;
    }
    out[n] = 0;
}

static bool open_world(rp_engine_group *world, char name[RP_ENGINE_NAME_CHARS], char *why)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int n, level;

    if (!explain(MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level), "MPI_Init_thread", why)) return false;
    if (!explain(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler", why)) return false;
    if (!explain(MPI_Get_library_version(text, &n), "MPI_Get_library_version", why)) return false;
    short_name(text, name);
    if (level < MPI_THREAD_FUNNELED) {
        snprintf(why, RP_ENGINE_WHY_CHARS, "%s does not support MPI_THREAD_FUNNELED", name);
        return false;
    }
    return engine_fill(MPI_COMM_WORLD, world, why);
}

static bool split(const rp_engine_group *whole, int color, rp_engine_group *out, char *why)
{
    MPI_Comm part;

    return explain(MPI_Comm_split(comm_of(whole), color, whole->rank, &part), "MPI_Comm_split", why) && engine_fill(part, out, why);
}

static void close_part(rp_engine_group *part)
{
    MPI_Comm comm = comm_of(part);

    MPI_Comm_free(&comm);
}

/* A barrier that sleeps while it waits. MPI_Finalize would spin until the last rank arrives. */
static void meet(void)
{
    MPI_Request request;
    int done = 0;

    if (MPI_Ibarrier(MPI_COMM_WORLD, &request) != MPI_SUCCESS) return;
    while (!done && MPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS)
        if (!done) usleep(200);
}

/* MPI_Finalize of MPICH 4.0.2 over UCX's TCP sometimes does not return: one rank has closed its connections and waits in the launcher's barrier,
 * the other closes its own and waits for an answer from the first. All work is done by then, so the process exits; mpirun reports a failure. */
enum { FINISH_SECONDS = 10 };
static volatile int code_of_exit;

static void exit_now(int signal)
{
    (void)signal;
    _exit(code_of_exit);
}

static void engine_finish(rp_engine_group *world, int code)
{
    struct sigaction action = { .sa_handler = exit_now };

    (void)world;
    meet();
    code_of_exit = code;
    sigemptyset(&action.sa_mask);
    sigaction(SIGALRM, &action, NULL);
    alarm(FINISH_SECONDS);
    MPI_Finalize();
    alarm(0);
}

static void end_all(const rp_engine_group *g, int code) { MPI_Abort(comm_of(g), code); }

/* ---- bytes ---- */

static MPI_Datatype type_of(int elem_bytes)
{
    return elem_bytes == 8 ? MPI_UINT64_T : elem_bytes == 4 ? MPI_UINT32_T : elem_bytes == 2 ? MPI_UINT16_T : MPI_BYTE;
}

static bool keep(int code, MPI_Request request, const char *call, rp_engine_request *out, bool *done, char *why)
{
    *done = false;
    memcpy(&out->handle, &request, sizeof request);
    return explain(code, call, why);
}

static bool gather(const rp_engine_group *g, const void *mine, void *all, rp_engine_parts parts, int elem_bytes, rp_engine_request *request,
                   bool *done, char *why)
{
    MPI_Datatype type = type_of(elem_bytes);
    MPI_Request r     = MPI_REQUEST_NULL;
    bool in_place     = mine == (const char *)all + (int64_t)parts.first[g->rank] * elem_bytes;

    int code = MPI_Iallgatherv(in_place ? MPI_IN_PLACE : mine, parts.count[g->rank], type, all, parts.count, parts.first, type, comm_of(g), &r);
    return keep(code, r, "MPI_Iallgatherv", request, done, why);
}

static bool exchange(const rp_engine_group *g, const void *from, rp_engine_parts send, void *into, rp_engine_parts receive, int elem_bytes,
                     rp_engine_request *request, bool *done, char *why)
{
    MPI_Datatype type = type_of(elem_bytes);
    MPI_Request r     = MPI_REQUEST_NULL;

    int code = MPI_Ialltoallv(from, send.count, send.first, type, into, receive.count, receive.first, type, comm_of(g), &r);
    return keep(code, r, "MPI_Ialltoallv", request, done, why);
}

static bool test(rp_engine_request *request, bool *done, char *why)
{
    MPI_Request r;
    int flag = 0;

    memcpy(&r, &request->handle, sizeof r);
    bool well = explain(MPI_Test(&r, &flag, MPI_STATUS_IGNORE), "MPI_Test", why);
    memcpy(&request->handle, &r, sizeof r);
    *done = flag != 0;
    return well;
}

extern const rp_engine RP_ENGINE_SYMBOL;
const rp_engine RP_ENGINE_SYMBOL = {
    .version = RP_ENGINE_VERSION, .open = open_world, .split = split, .close = close_part, .finish = engine_finish,
    .gather = gather, .exchange = exchange, .test = test, .abort = end_all,
};
