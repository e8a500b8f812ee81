/* comm/engine.h -- what carries the bytes of communicators: a table of functions for each way there is.
 *
 *   comm.c  request.c  small.c  ──▶  an engine:  self.c              one rank: copies; or any rank of any number, without the others
 *   groups, requests, waiting                    mpi/engine.c        a module, built once with each MPI there is and loaded by mpi.c
 *
 * Plain C, and nothing but it: a module calls nothing of the library, and the library knows nothing of MPI. A function that fails returns
 * false and says why in one sentence of at most RP_ENGINE_WHY_CHARS. Engines keep no memory of their own; what must live as long as a
 * request is the caller's.
 */
#ifndef RP_COMM_ENGINE_H
#define RP_COMM_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

enum { RP_ENGINE_VERSION = 1, RP_ENGINE_WHY_CHARS = 640, RP_ENGINE_NAME_CHARS = 64 };

/* A handle is what the library underneath calls the thing, in a number wide enough for any: an int here, a pointer there. */
typedef struct {
    uint64_t handle;
    int rank, ranks;
} rp_engine_group;
typedef struct { uint64_t handle; } rp_engine_request;

/* Where each rank's elements lie in a buffer: count[r] of them from element first[r] on. Borrowed until the request is done. */
typedef struct { const int *count, *first; } rp_engine_parts;

typedef struct {
    int version;                        /* RP_ENGINE_VERSION of those who built it */
    /* `name` gets the library and its version: "Open MPI v4.1.4". */
    bool (*open)(rp_engine_group *world, char name[RP_ENGINE_NAME_CHARS], char *why);
    bool (*split)(const rp_engine_group *whole, int color, rp_engine_group *out, char *why);
    void (*close)(rp_engine_group *part);
    /* Waits for all ranks to do so; ends the process with `code` where the library does not come back. */
    void (*finish)(rp_engine_group *world, int code);
    /* Both start and return; *done says that nothing is left to wait for, and *request is then nothing. elem_bytes is 1, 2, 4 or 8. */
    bool (*gather)(const rp_engine_group *g, const void *mine, void *all, rp_engine_parts parts, int elem_bytes,
                   rp_engine_request *request, bool *done, char *why);
    bool (*exchange)(const rp_engine_group *g, const void *from, rp_engine_parts send, void *into, rp_engine_parts receive, int elem_bytes,
                     rp_engine_request *request, bool *done, char *why);
    bool (*test)(rp_engine_request *request, bool *done, char *why);    /* it pushes what is under way, of other requests, too */
    void (*abort)(const rp_engine_group *g, int code);                  /* does not return where it can help it */
} rp_engine;

/* A module's table is its symbol of this name. */
#define RP_ENGINE_SYMBOL rp_engine_module
#define RP_ENGINE_SYMBOL_TEXT "rp_engine_module"

#endif
