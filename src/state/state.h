/* state/state.h -- what a run can go on from, on disk.
 *
 *   <output_dir>/state/step-20/tensors.safetensors      parameters that are trained and optimizer states, their raw bytes
 *                              state.json               step, seed, recipe, shapes, checksums; written last
 *   <output_dir>/state/.step-30.tmp                     one being written; .step-10.old one being removed
 *
 * Of a sharded run each rank writes what it holds, its slices as rows of elements, and state.json tells which are where:
 *
 *   <output_dir>/state/step-20/tensors-0-of-4.safetensors … tensors-3-of-4.safetensors, state.json
 *
 * and any number of ranks reads it: each takes the elements of its own slices from the files that have them. Where there are several
 * copies of the weights the first one is written.
 *
 * A state gets its name by one rename after all its bytes are on the disk, and loses it by one rename before its files are
 * removed. So whatever has the name step-N is whole, unless the disk damaged it; that is what the checksums are for. Data
 * order and random numbers are functions of seed and step: no generator and no position in a file has to be kept.
 *
 * Save, open, open_latest and load are called by all ranks of rp__world(ctx) together, and fail on all where they fail on one.
 */
#ifndef RP_STATE_H
#define RP_STATE_H

#include "comm/comm.h"
#include "tensor/tensor.h"

/* Dense; names differ. The tensor holds a slice of what has the shape `whole`, in a row with room for more; a slice of zeros: it is the
 * whole itself, and `whole` is not read. No tensor: it lives on disk, and `optim` has it as its tensor `at` in windows; `whole` is read. */
typedef struct { const char *name; rp_tensor *tensor; rp_meta whole; rp_slice slice; struct rp_optim *optim; int at; } rp_state_tensor;

typedef struct {
    int64_t step;                       /* optimizer steps done */
    int64_t epoch, samples;             /* for people: epochs finished, samples seen */
    int64_t ranks;                      /* of the run that wrote it; set by save */
    uint64_t seed, data_hash;
    uint64_t frozen_mark;               /* of the weights that are not in it (train/frozen.c); 0: it has them all */
    const char *recipe;                 /* resolved, as YAML */
} rp_state_info;

/* Write the state, then remove all but the newest keep_last_n (at least 1) and any of a later step: they belong to a past
 * that was given up. errors RP_ERR_IO; the states there were are then still there · RP_ERR_META */
rp_status rp__state_save(rp_ctx *ctx, const char *output_dir, const rp_state_info *info, const rp_state_tensor *tensors,
                         int n, int keep_last_n);
/* The removing alone, with newest_step as the newest; what a killed process left half written or half removed goes, too. Of several
 * ranks the first calls it. */
rp_status rp__state_prune(rp_ctx *ctx, const char *output_dir, int64_t newest_step, int keep_last_n);

typedef struct rp_state rp_state;

/* Open one state and check every byte of it, each file by one rank.
 * errors  RP_ERR_CONFIG not there · RP_ERR_FORMAT partial or damaged, with what is wrong · RP_ERR_IO */
rp_status rp__state_open(rp_ctx *ctx, const char *path, rp_state **out);
/* The newest whole state of a run, NULL where there is none at all. *note is NULL, or why a newer one was passed over;
 * yours to rp__release. errors as open, of the newest, where there are states and none is whole */
rp_status rp__state_open_latest(rp_ctx *ctx, const char *output_dir, rp_state **out, char **note);
void rp__state_close(rp_state *state);

/* Borrowed until close. */
const rp_state_info *rp__state_info(const rp_state *state);
const char *rp__state_path(const rp_state *state);

/* Read the tensors' bytes, zeros beyond slices. The state must hold just these names with these shapes and dtypes, which is checked
 * before the first byte is written. errors RP_ERR_CONFIG it does not · RP_ERR_IO */
rp_status rp__state_load(rp_state *state, const rp_state_tensor *tensors, int n);

#endif
