/* state/state.h -- saves, opens and loads the state on disk from which a run resumes.
 *
 *   <output_dir>/state/step-20/tensors.safetensors      trained parameters and optimizer states, as raw bytes
 *                              state.json               step, seed, recipe, shapes, checksums; written last
 *   <output_dir>/state/.step-30.tmp                     a state being written; .step-10.old is one being removed
 *
 * In a sharded run each rank writes its own slices as rows of elements, and state.json says which slices are in which file:
 *
 *   <output_dir>/state/step-20/tensors-0-of-4.safetensors … tensors-3-of-4.safetensors, state.json
 *
 * Any number of ranks can read it: each rank reads the elements of its own slices from the files that hold them. If the weights have
 * several copies, the first copy is written.
 *
 * A state gets its name by one rename after all its bytes are on the disk. It loses the name by one rename before its files are
 * removed. So a folder named step-N is complete unless the disk damaged it, which the checksums detect. Data order and random
 * numbers are functions of seed and step, so neither a generator state nor a file position is saved.
 *
 * Save, open, open_latest and load are collective: all ranks of rp__world(ctx) call them, and if one rank fails, all fail.
 */
#ifndef RP_STATE_H
#define RP_STATE_H

#include "comm/comm.h"
#include "tensor/tensor.h"

/* A tensor of the state. Tensors are dense and names are unique. `tensor` holds `slice` of a tensor of shape `whole`, in a row that may have room
 * for more elements. slice {0}: `tensor` is the whole tensor, and `whole` is ignored. tensor NULL: it is an optimizer state on disk, tensor `at` of
 * `optim`, accessed in windows; `whole` must be set. */
typedef struct { const char *name; rp_tensor *tensor; rp_meta whole; rp_slice slice; struct rp_optim *optim; int at; } rp_state_tensor;

/* The validations of a run until its step; all 0 without any. */
typedef struct {
    int64_t step;                       /* of the lowest loss; 0: none was finite */
    double loss, mark;                  /* that loss · the lowest one that counted as lower for early stopping */
    int64_t waited;                     /* validations since then */
} rp_state_best;

typedef struct {
    int64_t step;                       /* completed optimizer steps */
    int64_t epoch, samples;             /* for display: completed epochs, samples seen */
    int64_t ranks;                      /* number of ranks of the run that wrote it; set by save */
    uint64_t seed, data_hash;
    rp_state_best best;
    uint64_t frozen_mark;               /* hash of the frozen weights, which the state does not hold (train/frozen.c); 0: it holds all weights */
    const char *recipe;                 /* the resolved recipe, as YAML */
    const char *card;                   /* rp__mem_card of the run that wrote it; NULL: it computed on the host */
} rp_state_info;

/* Write a state, then remove old ones as rp__state_prune does with keep_last_n (at least 1). States of later steps are removed too: they
 * belong to a run that was abandoned.
 * errors  RP_ERR_IO; existing states are then kept · RP_ERR_META a tensor has no data · RP_ERR_FORMAT a string is not UTF-8 · RP_ERR_MEMORY ·
 *         RP_ERR_BACKEND communication */
rp_status rp__state_save(rp_ctx *ctx, const char *output_dir, const rp_state_info *info, const rp_state_tensor *tensors,
                         int n, int keep_last_n);
/* Remove all states but the newest keep_last_n up to newest_step, and all later ones. Also removes leftovers of a process that was killed while
 * it wrote or removed a state. Only the first rank calls this. errors RP_ERR_IO · RP_ERR_MEMORY */
rp_status rp__state_prune(rp_ctx *ctx, const char *output_dir, int64_t newest_step, int keep_last_n);

typedef struct rp_state rp_state;

/* Open one state and check all its bytes; each file is read by one rank.
 * errors  RP_ERR_CONFIG no such state · RP_ERR_FORMAT incomplete or damaged; the message says how · RP_ERR_IO · RP_ERR_MEMORY · RP_ERR_BACKEND */
rp_status rp__state_open(rp_ctx *ctx, const char *path, rp_state **out);
/* Open the newest intact state of a run. *out stays NULL if the run has no states. *note is NULL, or the reason why a newer state was skipped; the
 * caller must rp__release it. errors as rp__state_open for the newest state, if no state is intact */
rp_status rp__state_open_latest(rp_ctx *ctx, const char *output_dir, rp_state **out, char **note);
void rp__state_close(rp_state *state);

/* Borrowed until close. */
const rp_state_info *rp__state_info(const rp_state *state);
const char *rp__state_path(const rp_state *state);

/* Read the bytes of the tensors; room beyond a slice is set to zero. The state must hold exactly these names with these shapes and dtypes. This
 * is checked before anything is written. errors RP_ERR_CONFIG the tensors differ · RP_ERR_FORMAT a file is damaged · RP_ERR_IO · RP_ERR_BACKEND */
rp_status rp__state_load(rp_state *state, const rp_state_tensor *tensors, int n);

#endif
