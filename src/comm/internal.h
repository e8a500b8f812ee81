/* comm/internal.h -- what the files of comm/ share. */
#ifndef RP_COMM_INTERNAL_H
#define RP_COMM_INTERNAL_H

#include "comm/comm.h"
#include "comm/engine.h"

extern const rp_engine rp__engine_self, rp__engine_shapes;

/* The engine of the MPI that has started this process, and what the launcher tells of the process's rank and their number, -1 where it tells
 * nothing. errors RP_ERR_BACKEND: no module for it here, or it cannot be loaded */
rp_status rp__engine_load(rp_ctx *ctx, const rp_engine **out, rp_engine_group *job);
/* Is the world that a module found the job's? A module of another MPI takes every process for a job of its own, and all would write the same
 * files. (The environment is no longer to be asked: libraries change it when they start.) errors RP_ERR_BACKEND */
rp_status rp__engine_check(rp_ctx *ctx, const rp_engine_group *job, const rp_engine_group *world, const char *library);

typedef enum { RP_REQUEST_FREE, RP_REQUEST_UNDER_WAY, RP_REQUEST_DONE, RP_REQUEST_FAILED } rp_request_state;

typedef struct {
    rp_request_state state;
    rp_engine_request handle;
    rp_ctx *ctx;                        /* whose tensors it reads and writes while it is under way */
    int *number;                        /* four arrays of `ranks`: counts and firsts of what is sent and what comes */
} rp_request;

struct rp_comm {
    const rp_engine *engine;
    rp_engine_group group;
    rp_comm *world;                     /* itself, or the one it is a part of */
    int apart;
    rp_request *request;                /* request id i is at i - 1 */
    int n_request, n_under_way;
    rp_comm_part *part;                 /* of small things, and RP_LISTS more (rp__comm_list) */
    int32_t *said;                      /* one of each rank, where all are asked for their status */
    char why[RP_ENGINE_WHY_CHARS];      /* of the last that failed */
    /* of the world alone */
    char name[RP_ENGINE_NAME_CHARS];
    bool broken;                        /* a wait was given up, or the library failed: nothing that needs the others is begun any more */
    rp_status agreed;                   /* what all ranks said last */
    rp_comm_watch watch;
    struct rp_guard *guard;             /* NULL: no launcher has started this process */
};

/* Room for `n` requests in all. errors RP_ERR_MEMORY */
rp_status rp__comm_make_room(rp_ctx *ctx, rp_comm *comm, int n);
/* Before a collective is begun. errors RP_ERR_BACKEND a wait was given up, or somebody of the job has gone */
rp_status rp__comm_check(rp_ctx *ctx, rp_comm *comm);

#endif
