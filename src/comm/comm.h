/* comm/comm.h -- ranks that run a step together, and bytes between them.
 *
 *   engines     self    one rank: copies
 *               shapes  any rank of any number, for rehearsals: there is nobody to talk to, and nothing is moved
 *               mpi     the processes of an MPI job; a module that is loaded when the process has been started by such a job
 *
 *   start ─▶ request ─(computing)─▶ wait          requests are started in the same order by all ranks of a communicator, and waited
 *                                                 for in any
 *
 * A communicator moves bytes and adds nothing up: whoever sums does so itself, in the order of ranks, so that sums have the same bits
 * whatever library carries the bytes. Buffers lie in any memory of the context and stay untouched from start to wait. Only the thread that opened the
 * world calls it.
 *
 * No rank waits for one that has returned: what may fail on one rank alone is agreed upon (rp__comm_agree) before the next collective.
 * A rank that fails outside an agreement (rp__comm_agreed is RP_OK) ends the job with rp__comm_abort; rp__comm_close would wait for the
 * others, who wait for it. After an error of a wait the world is broken: all that needs the others fails at once, closing does not wait.
 *
 * No rank waits forever. A wait fails after the watch's timeout, and within seconds where the launcher or a rank of this machine has gone
 * (guard.h). A call of the library that does not come back is told to watch.lost, which ends the process.
 */
#ifndef RP_COMM_H
#define RP_COMM_H

#include "base/base.h"

typedef struct rp_comm rp_comm;

/* How long a rank waits for others, and who is told. */
#define RP_COMM_TIMEOUT 600.0
typedef struct {
    double timeout;                             /* seconds; 0: RP_COMM_TIMEOUT */
    bool (*left)(void *user);                   /* has the launcher gone? Asked each second by another thread; NULL: its process alone is watched */
    void (*lost)(void *user, const char *text); /* by another thread: the library does not come back, end the process. NULL: it is waited for */
    void (*slow)(void *user, const char *text); /* once a wait that lasts 60 s; NULL: nobody */
    void *user;
} rp_comm_watch;

/* ---- ranks ---- */

/* The world of this process: all processes of its MPI job, or itself alone where it was started by none. Once in a process; `close` ends MPI.
 * watch NULL: all defaults. errors  RP_ERR_BACKEND the job's library has no module here, or fails · RP_ERR_MEMORY */
rp_status rp__comm_open(rp_ctx *ctx, const rp_comm_watch *watch, rp_comm **out);
/* From here on a rank waits so many seconds. NULL and ranks that are only thought of are fine. */
void rp__comm_timeout(rp_comm *world, double seconds);
/* Rank `rank` of `ranks`, without the others. errors RP_ERR_MEMORY */
rp_status rp__comm_shapes(rp_ctx *ctx, int rank, int ranks, rp_comm **out);
/* Those ranks of `whole` that give the same color, in the order of their ranks there. All ranks call it. color >= 0.
 * errors  RP_ERR_BACKEND · RP_ERR_MEMORY */
rp_status rp__comm_split(rp_ctx *ctx, rp_comm *whole, int color, rp_comm **out);
/* The world cut into blocks of `ranks` neighbours each, which divides its number: the block of this rank …
 *
 *      block    0 1 2 3 | 4 5 6 7        rank 5 of 8 in blocks of 4: { 4 5 6 7 }, rank 1 of 4
 *      across   { 1, 5 }                 … and those at the same place of every block: rank 1 of 2
 *
 * Of shapes, too, where rp__comm_split has nobody to ask (RP_ERR_UNSUPPORTED). errors as split */
rp_status rp__comm_block(rp_ctx *ctx, rp_comm *whole, int ranks, rp_comm **out);
rp_status rp__comm_across(rp_ctx *ctx, rp_comm *whole, int ranks, rp_comm **out);
void rp__comm_close(rp_comm *comm);             /* parts before the whole; NULL is fine */
/* The same for the world of a process that is about to exit with `code`: libraries do not always come back from their end, and then it
 * exits at once. rp__comm_close takes 1. */
void rp__comm_leave(rp_comm *world, int code);

/* The ranks that a context's steps run on: what comm/ keeps in a context. NULL is one rank alone, in each. */
typedef struct {
    rp_comm *world;                             /* those that run steps together; the caller's, unless `pretends` */
    rp_comm *shards;                            /* of them, those that hold one copy of the weights together; NULL: weights are whole here */
    rp_comm *replicas;                          /* those that hold the same part of a copy */
    rp_comm *inner, *outer;                        /* of `shards`: those that gather again among themselves, and those at the same place of every
                                                   such group (shard/ranks.h); NULL: what is gathered again comes from all */
    bool pretends;                              /* `world` is the context's own: of shapes */
} rp_groups;
static inline rp_groups *rp__groups(const rp_ctx *of) { return of->part[RP_PART_COMM]; }
static inline rp_comm *rp__world(const rp_ctx *of) { return rp__groups(of)->world; }
static inline rp_comm *rp__shards(const rp_ctx *of) { return rp__groups(of)->shards; }

int rp__comm_rank(const rp_comm *comm);         /* NULL is one rank alone */
/* In the world, the numbers of two neighbours of a block or of those across differ by this. 1 for others. */
int rp__comm_apart(const rp_comm *comm);
int rp__comm_ranks(const rp_comm *comm);
const char *rp__comm_engine(const rp_comm *comm);       /* "self", "Open MPI v4.1.4", … */

/* Is this process one of an MPI job? No library is loaded to know that. */
bool rp__comm_launched(void);
int rp__comm_launched_rank(void);               /* as the job's launcher tells it; -1: it is none of a job */
/* How many processes Slurm runs this program as, where none of them is one of an MPI job; 1 elsewhere. */
int rp__comm_unjoined(void);
/* Which MPI a module is for; NULL-ended by .name. Does this program find a module for it (or for any: REPRISE_MPI names one)? */
typedef struct { const char *name, *module, *package; } rp_comm_mpi;
extern const rp_comm_mpi rp__comm_mpis[];
bool rp__comm_has_module(const rp_comm_mpi *mpi);

/* ---- slices: n elements over ranks ---- */

/* Every rank has room for as many, a multiple of RP_SLICE_ELEMS, so that buffers are alike on all ranks; the last ones may have fewer
 * elements, or none. Rank r's begin at r * room. */
enum { RP_SLICE_ELEMS = 16 };
typedef struct { int64_t room, first, count; } rp_slice;
rp_slice rp__slice_of(int64_t n, int rank, int ranks);

/* ---- bytes ---- */

typedef struct { int id; } rp_comm_request;     /* 0: nothing under way */
typedef struct { int64_t first, count; } rp_comm_part;      /* elements of a buffer */

/* Everybody gets everybody's elements: rank r's `mine` comes to all[part[r]]. `mine` may lie at its place in `all`, then on
 * every rank. part[] is read before it returns. elem_bytes is 1, 2, 4 or 8.
 * errors  RP_ERR_BACKEND · RP_ERR_UNSUPPORTED from 2^31 elements on, whatever the engine · RP_ERR_MEMORY many requests are under way */
rp_status rp__comm_gather(rp_ctx *ctx, rp_comm *comm, const void *mine, void *all, const rp_comm_part *part, int elem_bytes,
                          rp_comm_request *out);
/* from[send[r]] goes to rank r, and what rank r sends here comes to into[receive[r]]. errors as gather */
rp_status rp__comm_exchange(rp_ctx *ctx, rp_comm *comm, const void *from, const rp_comm_part *send, void *into,
                            const rp_comm_part *receive, int elem_bytes, rp_comm_request *out);
/* Returns when it is done; the request is then 0, also after an error. Waiting gives way to other processes of the machine. `what` is
 * told where it takes long or fails: "gather of layers.3". errors RP_ERR_BACKEND */
rp_status rp__comm_wait(rp_ctx *ctx, rp_comm *comm, rp_comm_request *request, const char *what);
/* Push what is under way: the libraries move bytes in calls alone. Cheap where nothing is. */
void rp__comm_progress(rp_comm *comm);

/* Room for one part of each rank, for those who lay out what is sent and received. It is the communicator's own, so that it is there on every
 * rank, and good until the same list is asked for again. */
typedef enum { RP_LIST_WHAT, RP_LIST_SEND, RP_LIST_RECEIVE, RP_LISTS } rp_comm_list;
rp_comm_part *rp__comm_list(rp_comm *comm, rp_comm_list list);

/* ---- small things, blocking ---- */

/* Rank r's bytes come to all[r * bytes], at every rank. A NULL communicator is one rank alone, in all of these. */
rp_status rp__comm_share(rp_ctx *ctx, rp_comm *comm, const void *mine, int64_t bytes, void *all, const char *what);
/* What rank `from` has in `data` comes to `data` at every rank. No memory is taken, in this as in the others: none fails on one rank alone. */
rp_status rp__comm_tell(rp_ctx *ctx, rp_comm *comm, int from, void *data, int64_t bytes, const char *what);
rp_status rp__comm_barrier(rp_ctx *ctx, rp_comm *comm, const char *what);
/* *value becomes that of the first rank where it is not 0; the same on all ranks. */
rp_status rp__comm_any(rp_ctx *ctx, rp_comm *comm, int32_t *value, const char *what);
/* What the first rank that failed says, else the first that was interrupted; the same on all ranks. Where that is another rank, the
 * message is its own with its number: "rank 2: cannot open 'a.tokens': no such file". */
rp_status rp__comm_agree(rp_ctx *ctx, rp_comm *comm, rp_status mine);
rp_status rp__comm_agreed(const rp_comm *comm);         /* what the last agreement of the world, or of a part, came to */
/* Ends all processes of the job with this exit code, now; they lose what they have not written. */
_Noreturn void rp__comm_abort(rp_comm *comm, int code);

#endif
