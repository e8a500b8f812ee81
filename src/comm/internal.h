/* comm/internal.h -- declarations shared by the files of comm/. */
#ifndef RP_COMM_INTERNAL_H
#define RP_COMM_INTERNAL_H

#include "comm/comm.h"
#include "comm/engine.h"

extern const rp_engine rp__engine_self, rp__engine_shapes;

/* Loads the engine for the MPI library that started this process. *job gets the rank and number of ranks from the launcher, -1 if it does not report
 * them. errors RP_ERR_BACKEND no module for that library, or it cannot be loaded */
rp_status rp__engine_load(rp_ctx *ctx, const rp_engine **out, rp_engine_group *job);
/* Checks that the world of a module is the launcher's job. A module for another MPI library makes each process a job of its own, and all of them
 * would write the same files. (`job` was read before, because MPI libraries change the environment when they start.) errors RP_ERR_BACKEND */
rp_status rp__engine_check(rp_ctx *ctx, const rp_engine_group *job, const rp_engine_group *world, const char *library);

typedef enum { RP_REQUEST_FREE, RP_REQUEST_UNDER_WAY, RP_REQUEST_DONE, RP_REQUEST_FAILED } rp_request_state;

typedef struct {
    rp_request_state state;
    rp_engine_request handle;
    rp_ctx *ctx;                        /* owner of the tensors that it reads and writes while in flight */
    int *number;                        /* four arrays of `ranks` ints: counts and first elements, sent and received */
    uint8_t *stage;                     /* host memory for a message from or to device memory that the host cannot access */
    int64_t stage_bytes;
    const uint8_t *arrived;             /* in it: received data, whose parts go to `into` when the request is done; NULL: none */
    uint8_t *into;
    rp_engine_parts received;
    int elem_bytes;
} rp_request;

struct rp_comm {
    const rp_engine *engine;
    rp_engine_group group;
    rp_comm *world;                     /* itself, or the world of which it is a part */
    int apart;
    rp_request *request;                /* request id i is at i - 1 */
    int n_request, n_under_way;
    rp_comm_part *part;                 /* for small messages, followed by RP_LISTS more (rp__comm_list) */
    int32_t *per_rank;                  /* one status or value per rank */
    char why[RP_ENGINE_WHY_CHARS];      /* the reason of the last failure */
    /* of the world only */
    char name[RP_ENGINE_NAME_CHARS];
    bool broken;                        /* a wait timed out, or the library failed: no further collective is started */
    rp_status agreed;                   /* result of the last agreement */
    rp_comm_watch watch;
    struct rp_guard *guard;             /* NULL: no launcher started this process */
};

/* Makes room for `n` requests in total. errors RP_ERR_MEMORY */
rp_status rp__comm_make_room(rp_ctx *ctx, rp_comm *comm, int n);
/* Call before starting a collective. errors RP_ERR_BACKEND a wait timed out, the library failed, or a process of the job has exited */
rp_status rp__comm_check(rp_ctx *ctx, rp_comm *comm);

#endif
