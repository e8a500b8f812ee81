/* optim/internal.h -- declarations shared by the files of the optimizer.
 *
 *   optim.c    the table of optimizers, the states, the norm
 *   update.c   the update of one parameter, at once or window by window; access to states on disk
 */
#ifndef RP_OPTIM_INTERNAL_H
#define RP_OPTIM_INTERNAL_H

#include "optim/optim.h"
#include "optim/state_store.h"

enum { RP_OPTIM_MASTER = RP_OPTIM_MAX_STATES };      /* part number of the master in a state store; part k is state k */
_Static_assert(RP_STATE_STORE_PARTS == RP_OPTIM_MAX_STATES + 1, "a part for each state and the master");
_Static_assert(RP_STATE_STORE_WINDOW % RP_OPTIM_TILE == 0, "windows are whole tiles");

typedef struct {
    rp_optim_param param;
    bool decays;
    uint64_t key;                       /* of the random bits for stochastic rounding */
    rp_tensor *state[RP_OPTIM_MAX_STATES], *master;     /* NULL: not used, or on disk */
    double sum_squares;
} rp_optim_slot;

typedef struct { char *name; rp_tensor *tensor; rp_dtype dtype; int param, part; } rp_optim_named;      /* part: in the state store */

struct rp_optim {
    rp_ctx *ctx;
    const rp_optim_kind *kind;
    rp_optim_config config;             /* no_decay and offload are cleared after opening; `decays` and `store` hold their effect */
    int n_params, n_named;
    rp_optim_slot *slots;
    rp_optim_named *names;
    rp_state_store *store;                    /* one group per parameter; NULL: states are in memory */
    rp_state_store_view window;               /* the window taken last */
    bool failed;                        /* a disk error occurred */
};

/* Does the device update this parameter with its own kernels? Else the host's code acts as a kernel (rp__mem_enter). */
bool rp__optim_launches(const rp_optim *optim, const rp_tensor *param, const rp_tensor *grad);
/* The device's kernels if it launches them; else the host's if they support these tensors; else the empty table: an update runs its reference. */
const rp_kernels *rp__optim_kernels(const rp_optim *optim, const rp_tensor *param, const rp_tensor *grad, bool launches);

#endif
