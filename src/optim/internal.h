/* optim/internal.h -- what the files of the optimizer share.
 *
 *   optim.c    the table, the states, the norm
 *   update.c   the update of one parameter, at once or window by window; windows for states on disk
 */
#ifndef RP_OPTIM_INTERNAL_H
#define RP_OPTIM_INTERNAL_H

#include "optim/optim.h"
#include "optim/state_store.h"

enum { RP_OPTIM_MASTER = RP_OPTIM_MAX_STATES };      /* the master as a part of a state store; part k: state k */
_Static_assert(RP_STATE_STORE_PARTS == RP_OPTIM_MAX_STATES + 1, "a part for each state and the master");
_Static_assert(RP_STATE_STORE_WINDOW % RP_OPTIM_TILE == 0, "windows are whole tiles");

typedef struct {
    rp_optim_param param;
    bool decays;
    uint64_t key;                       /* of the random bits that round it */
    rp_tensor *state[RP_OPTIM_MAX_STATES], *master;     /* NULL: there is none, or it lives on disk */
    double sum_squares;
} rp_optim_slot;

typedef struct { char *name; rp_tensor *tensor; rp_dtype dtype; int param, part; } rp_optim_named;      /* part: of the state store */

struct rp_optim {
    rp_ctx *ctx;
    const rp_optim_kind *kind;
    rp_optim_config config;             /* no_decay and away are not kept: `decays` and `state store` hold the answers */
    int n_params, n_named;
    rp_optim_slot *slots;
    rp_optim_named *names;
    rp_state_store *store;                    /* a group a parameter; NULL: states are in memory */
    rp_state_store_view window;               /* that was asked for last */
    bool failed;                        /* the disk did */
};

/* The machine's kernels where they apply; the empty table sends an update to its reference. */
const rp_kernels *rp__optim_kernels(const rp_optim *optim, const rp_tensor *param, const rp_tensor *grad);

#endif
