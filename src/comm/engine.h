/* comm/engine.h -- the interface of engines, which carry the bytes of communicators: one table of functions per engine.
 *
 *   comm.c  request.c  small.c  ──▶  an engine:  self.c              one rank: copies; or a simulated rank, without the others
 *   groups, requests, waiting                    mpi/engine.c        a module, built once for each MPI library and loaded by mpi.c
 *
 * The header is plain C and includes nothing else: a module calls no function of the library, and the library uses no MPI. A function that
 * fails returns false and writes the reason to `why`, one sentence of at most RP_ENGINE_WHY_CHARS. Engines allocate no memory: the caller owns
 * all data that must live as long as a request.
 */
#ifndef RP_COMM_ENGINE_H
#define RP_COMM_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

enum { RP_ENGINE_VERSION = 1, RP_ENGINE_WHY_CHARS = 640, RP_ENGINE_NAME_CHARS = 64 };

/* A handle is the MPI library's own handle, stored in 64 bits: it is an int in some libraries, a pointer in others. */
typedef struct {
    uint64_t handle;
    int rank, ranks;
} rp_engine_group;
typedef struct { uint64_t handle; } rp_engine_request;

/* The position of each rank's elements in a buffer: count[r] of them from element first[r]. Borrowed until the request is done. */
typedef struct { const int *count, *first; } rp_engine_parts;

typedef struct {
    int version;                        /* RP_ENGINE_VERSION when the module was built */
    /* `name` receives the library and its version: "Open MPI v4.1.4". */
    bool (*open)(rp_engine_group *world, char name[RP_ENGINE_NAME_CHARS], char *why);
    bool (*split)(const rp_engine_group *whole, int color, rp_engine_group *out, char *why);
    void (*close)(rp_engine_group *part);
    /* Waits until all ranks call it; ends the process with `code` if the library does not return. */
    void (*finish)(rp_engine_group *world, int code);
    /* Both start the operation and return. If *done, it is complete and *request is unused. elem_bytes is 1, 2, 4 or 8. */
    bool (*gather)(const rp_engine_group *g, const void *mine, void *all, rp_engine_parts parts, int elem_bytes,
                   rp_engine_request *request, bool *done, char *why);
    bool (*exchange)(const rp_engine_group *g, const void *from, rp_engine_parts send, void *into, rp_engine_parts receive, int elem_bytes,
                     rp_engine_request *request, bool *done, char *why);
    bool (*test)(rp_engine_request *request, bool *done, char *why);    /* also advances other requests in flight */
    void (*abort)(const rp_engine_group *g, int code);                  /* if possible, does not return */
} rp_engine;

/* The name of the symbol that holds a module's table. */
#define RP_ENGINE_SYMBOL rp_engine_module
#define RP_ENGINE_SYMBOL_TEXT "rp_engine_module"

#endif
