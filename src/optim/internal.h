/* optim/internal.h -- declarations shared by the files of the optimizer.
 *
 *   optim.c    the table of optimizers, the states, the norm
 *   update.c   the update of one parameter, at once or window by window; access to states on disk
 */
#ifndef RP_OPTIM_INTERNAL_H
#define RP_OPTIM_INTERNAL_H

#include "optim/optim.h"
#include "optim/state_store.h"

/* Part numbers in a state store: part k is state k, then the master, then absmax of state k. */
enum { RP_OPTIM_MASTER = RP_OPTIM_MAX_STATES, RP_OPTIM_ABSMAX, RP_OPTIM_PARTS = RP_OPTIM_ABSMAX + RP_OPTIM_MAX_STATES };
_Static_assert((int)RP_STATE_STORE_PARTS == (int)RP_OPTIM_PARTS, "a part for each of them");
_Static_assert(RP_STATE_STORE_WINDOW % RP_OPTIM_TILE == 0 && RP_OPTIM_TILE % RP_OPTIM_BLOCK == 0, "windows are whole tiles, and tiles whole blocks");

typedef struct {
    rp_optim_param param;
    bool decays;
    uint64_t key;                       /* of the random bits for stochastic rounding */
    rp_tensor *part[RP_OPTIM_PARTS];    /* NULL: not used, or on disk */
    double sum_squares;
} rp_optim_slot;

typedef struct { char *name; rp_tensor *tensor; rp_dtype dtype; int param, part; } rp_optim_named;

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
    double *sums;                       /* sums of squares in the device's memory, for each parameter; NULL: each slot has its own … */
    double *read;                       /* … and room for them on the host */
};

/* The number of elements of a parameter for which a part has one element. */
static inline int64_t rp__optim_each(int part) { return part < RP_OPTIM_ABSMAX ? 1 : RP_OPTIM_BLOCK; }
static inline int64_t rp__optim_part_elems(int part, int64_t n) { return (n + rp__optim_each(part) - 1) / rp__optim_each(part); }

/* Where kernels write the sum of squares of parameter i. settle: call it after the host has written the slot's. */
double *rp__optim_sum(rp_optim *optim, int i, bool launches);
void rp__optim_sum_settle(rp_optim *optim, int i, bool launches);
/* Does the device update this parameter with its own kernels? Else the host's code acts as a kernel (rp__mem_enter). */
bool rp__optim_launches(const rp_optim *optim, const rp_tensor *param, const rp_tensor *grad);
/* The device's kernels if it launches them; else the host's if they support these tensors; else the empty table: an update runs its reference. */
const rp_kernels *rp__optim_kernels(const rp_optim *optim, const rp_tensor *param, const rp_tensor *grad, bool launches);

#endif
