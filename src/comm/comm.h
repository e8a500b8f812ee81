/* comm/comm.h -- communicators: ranks that run a step together, and the transfer of bytes between them.
 *
 *   engines     self    one rank: copies
 *               shapes  any rank of any number, for rehearsals: no other process exists, and no bytes move
 *               mpi     the processes of an MPI job; a module that is loaded only if an MPI launcher started the process
 *
 *   start ─▶ request ─(computing)─▶ wait          all ranks of a communicator start requests in the same order; they may wait
 *                                                 for them in any order
 *
 * A communicator moves bytes and never sums. The caller sums, in the order of ranks, so sums have the same bits with every library.
 * Buffers may lie in any memory of the context; do not touch them between start and wait. Only the thread that opened the world may call
 * these functions.
 *
 * No rank waits for a rank that has returned with an error. The ranks agree (rp__comm_agree) on every step that may fail on one rank alone, before
 * the next collective. A rank that fails outside an agreement (rp__comm_agreed is RP_OK) must end the job with rp__comm_abort, because
 * rp__comm_close would wait for the others, which wait for it. An error of a wait breaks the world: later collectives fail at once, and
 * closing does not wait.
 *
 * No rank waits forever. A wait fails after the watch's timeout, or within seconds if the launcher or a rank on this machine has exited
 * (guard.h). If a call of the MPI library does not return, watch.lost is called; it ends the process.
 */
#ifndef RP_COMM_H
#define RP_COMM_H

#include "base/base.h"

typedef struct rp_comm rp_comm;

/* How long a rank waits for others, and the functions to call meanwhile. */
#define RP_COMM_TIMEOUT 600.0
typedef struct {
    double timeout;                             /* seconds; 0: RP_COMM_TIMEOUT */
    bool (*left)(void *user);                   /* has the launcher exited? called each second by another thread; NULL: only the parent process is watched */
    void (*lost)(void *user, const char *text); /* called by another thread if the library does not return; it ends the process. NULL: wait on */
    void (*slow)(void *user, const char *text); /* called once per wait that lasts 60 s; NULL: not called */
    void *user;
} rp_comm_watch;

/* ---- ranks ---- */

/* Opens the world of this process: all processes of its MPI job, or this process alone if no MPI launcher started it. Once per process;
 * closing it ends MPI. watch NULL: all defaults.
 * errors  RP_ERR_BACKEND no module for the job's MPI library, or the library fails, or it sees other ranks than the launcher · RP_ERR_MEMORY */
rp_status rp__comm_open(rp_ctx *ctx, const rp_comm_watch *watch, rp_comm **out);
/* Changes the time limit of waits, in seconds. NULL and simulated ranks are fine. */
void rp__comm_timeout(rp_comm *world, double seconds);
/* Creates a simulated rank `rank` of `ranks`, without the others. errors RP_ERR_MEMORY */
rp_status rp__comm_shapes(rp_ctx *ctx, int rank, int ranks, rp_comm **out);
/* Creates a communicator of the ranks of `whole` that pass the same color, in the same order. All ranks must call it. color >= 0.
 * errors  RP_ERR_BACKEND · RP_ERR_MEMORY · RP_ERR_UNSUPPORTED simulated ranks */
rp_status rp__comm_split(rp_ctx *ctx, rp_comm *whole, int color, rp_comm **out);
/* Divides `whole` into blocks of `ranks` neighbours, which must divide its size. rp__comm_block: the block of this rank …
 *
 *      block    0 1 2 3 | 4 5 6 7        rank 5 of 8 in blocks of 4: { 4 5 6 7 }, rank 1 of 4
 *      across   { 1, 5 }                 … rp__comm_across: the ranks at the same position of every block: rank 1 of 2
 *
 * Both also work for simulated ranks. errors RP_ERR_BACKEND · RP_ERR_MEMORY */
rp_status rp__comm_block(rp_ctx *ctx, rp_comm *whole, int ranks, rp_comm **out);
rp_status rp__comm_across(rp_ctx *ctx, rp_comm *whole, int ranks, rp_comm **out);
void rp__comm_close(rp_comm *comm);             /* close parts before the whole; NULL is fine */
/* Closes the world of a process that is about to exit with `code`. If the MPI library does not return, the process exits at once with
 * `code`; rp__comm_close uses code 1. */
void rp__comm_leave(rp_comm *world, int code);

/* The ranks on which a context's steps run: the part of comm/ in a context. A NULL communicator means one rank. */
typedef struct {
    rp_comm *world;                             /* ranks that run steps together; the caller owns it, unless `pretends` */
    rp_comm *shards;                            /* those of them that share one copy of the weights; NULL: every rank has whole weights */
    rp_comm *replicas;                          /* those with the same slice of each copy */
    rp_comm *inner, *outer;                        /* parts of `shards`: ranks that gather for backward among themselves, and ranks at the same position of
                                                   every such group (shard/ranks.h); NULL: backward gathers from all shards */
    int64_t slice_elems;                        /* slices hold a multiple of it; 0: RP_SLICE_ELEMS */
    bool pretends;                              /* the context owns `world`, which is simulated */
} rp_groups;
static inline rp_groups *rp__groups(const rp_ctx *of) { return of->part[RP_PART_COMM]; }
static inline rp_comm *rp__world(const rp_ctx *of) { return rp__groups(of)->world; }
static inline rp_comm *rp__shards(const rp_ctx *of) { return rp__groups(of)->shards; }

int rp__comm_rank(const rp_comm *comm);         /* NULL is one rank alone */
/* The distance in world ranks between two neighbours of a communicator made by block or across; 1 for others. */
int rp__comm_apart(const rp_comm *comm);
int rp__comm_ranks(const rp_comm *comm);
const char *rp__comm_engine(const rp_comm *comm);       /* "self", "Open MPI v4.1.4", … */

/* Did an MPI launcher start this process? Loads no library. */
bool rp__comm_launched(void);
int rp__comm_launched_rank(void);               /* as the launcher reports it; -1: no MPI job */
/* The number of Slurm processes of this program that belong to no MPI job; else 1. */
int rp__comm_unjoined(void);
/* The module of each MPI library; a NULL .name ends the list. Can this program find the module (or any: REPRISE_MPI names one)? */
typedef struct { const char *name, *module, *package; } rp_comm_mpi;
extern const rp_comm_mpi rp__comm_mpis[];
bool rp__comm_has_module(const rp_comm_mpi *mpi);

/* ---- slices: n elements over ranks. Those of a quantised tensor are its bytes (rp__sliced_elems) ---- */

/* Each rank has room for the same number of elements, a multiple of `unit`, so that buffers are alike on all ranks. The last ranks may
 * hold fewer elements, or none. Elements of rank r begin at r * room. */
enum { RP_SLICE_ELEMS = 16 };           /* the usual unit */
typedef struct { int64_t room, first, count; } rp_slice;
rp_slice rp__slice_of(int64_t n, int rank, int ranks);                          /* by RP_SLICE_ELEMS */
rp_slice rp__slice_in(const rp_ctx *ctx, int64_t n, int rank, int ranks);       /* by the unit of the context's groups */
rp_slice rp__slice_at(int64_t room, int64_t n, int rank);                       /* of ranks that have this room */

/* ---- bytes ---- */

typedef struct { int id; } rp_comm_request;     /* 0: no request in flight */
typedef struct { int64_t first, count; } rp_comm_part;      /* elements of a buffer */

/* Starts an all-gather: rank r's `mine` is copied to all[part[r]] on every rank. `mine` may lie at its place in `all`, but then on
 * every rank. part[] is not used after it returns. elem_bytes is 1, 2, 4 or 8.
 * errors  RP_ERR_BACKEND · RP_ERR_UNSUPPORTED a part ends beyond 2^31 - 1 elements, with every engine · RP_ERR_MEMORY too many requests in flight */
rp_status rp__comm_gather(rp_ctx *ctx, rp_comm *comm, const void *mine, void *all, const rp_comm_part *part, int elem_bytes,
                          rp_comm_request *out);
/* Starts an all-to-all: from[send[r]] goes to rank r, and data from rank r arrives in into[receive[r]]. errors as gather */
rp_status rp__comm_exchange(rp_ctx *ctx, rp_comm *comm, const void *from, const rp_comm_part *send, void *into,
                            const rp_comm_part *receive, int elem_bytes, rp_comm_request *out);
/* Waits until the request is done. The request is then 0, also after an error. Waiting yields the core to other processes. `operation` describes
 * it in messages if it is slow or fails: "gather of layers.3". errors RP_ERR_BACKEND */
rp_status rp__comm_wait(rp_ctx *ctx, rp_comm *comm, rp_comm_request *request, const char *operation);
/* Advances requests in flight; MPI libraries move bytes only inside calls. Cheap if none are in flight. */
void rp__comm_progress(rp_comm *comm);

/* Storage for one part per rank, for callers that lay out sends and receives. It belongs to the communicator, so that no rank can fail to
 * allocate it. It is valid until the same list is requested again. */
typedef enum { RP_LIST_WHAT, RP_LIST_SEND, RP_LIST_RECEIVE, RP_LISTS } rp_comm_list;
rp_comm_part *rp__comm_list(rp_comm *comm, rp_comm_list list);

/* ---- small messages, blocking. NULL: one rank. errors as rp__comm_gather ---- */

/* Copies `bytes` bytes of each rank r to all[r * bytes] on every rank. */
rp_status rp__comm_share(rp_ctx *ctx, rp_comm *comm, const void *mine, int64_t bytes, void *all, const char *operation);
/* Broadcasts `data` of rank `from` to all ranks. Like the others here it allocates no memory, so no rank fails alone. */
rp_status rp__comm_broadcast(rp_ctx *ctx, rp_comm *comm, int from, void *data, int64_t bytes, const char *operation);
rp_status rp__comm_barrier(rp_ctx *ctx, rp_comm *comm, const char *operation);
/* Sets *value on all ranks to that of the first rank whose value is not 0; else 0. */
rp_status rp__comm_any(rp_ctx *ctx, rp_comm *comm, int32_t *value, const char *operation);
/* Returns the same status on all ranks: that of the first rank that failed, else of the first that was interrupted, else RP_OK. On the other ranks
 * it records that rank's message with its number: "rank 2: cannot open 'a.tokens': no such file". */
rp_status rp__comm_agree(rp_ctx *ctx, rp_comm *comm, rp_status mine);
rp_status rp__comm_agreed(const rp_comm *comm);         /* result of the last agreement of the world or of a part of it */
/* Ends all processes of the job with this exit code, now; data that they have not written is lost. */
_Noreturn void rp__comm_abort(rp_comm *comm, int code);

#endif
