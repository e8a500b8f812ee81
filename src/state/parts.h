/* state/parts.h -- writes the files of one state on one rank, without communication.
 *
 *   part      one file with the slices of one rank; `parts` of them together hold the weights
 *   index     state.json: dtype, shape and elements per part of each tensor, and the checksum of each part
 */
#ifndef RP_STATE_PARTS_H
#define RP_STATE_PARTS_H

#include "state/json.h"

#define RP_STATE_PART_CHARS 64
/* Write "tensors.safetensors", or "tensors-2-of-4.safetensors" if there are several parts, to `out`. Returns out. */
const char *rp__state_part_name(int part, int parts, char out[RP_STATE_PART_CHARS]);

/* The tensor's slice; the slice {0} is replaced by one that covers the whole tensor. */
rp_slice rp__state_slice(const rp_state_tensor *tensor);
static inline const rp_meta *rp__state_whole(const rp_state_tensor *tensor)
{
    return tensor->slice.room || !tensor->tensor ? &tensor->whole : &tensor->tensor->m;
}

/* Write one part into the folder, synced and under its final name. checksums[n] receives the checksums of its tensors.
 * errors  RP_ERR_META a tensor has no data · RP_ERR_IO · RP_ERR_MEMORY */
rp_status rp__state_write_part(rp_ctx *ctx, const char *folder, int part, int parts, const rp_state_tensor *tensors, int n,
                               uint64_t *checksums);
/* The same under a path of its own, with metadata: a file of a program (state/public.c). */
rp_status rp__state_write_file(rp_ctx *ctx, const char *path, int part, int parts, const rp_state_tensor *tensors, int n, int n_pairs,
                               const struct rp_safetensors_pair *pairs, uint64_t *checksums);
/* Checksum of this rank's part, computed from those of its n tensors; used in the index if there are several parts. */
uint64_t rp__state_part_checksum(const rp_state_tensor *tensors, int n, const uint64_t *checksums);
/* Write state.json. checksums: one per tensor if there is one part, else one per part.
 * errors  RP_ERR_FORMAT a name or the recipe is not UTF-8, or its text could not be allocated · RP_ERR_IO · RP_ERR_MEMORY */
rp_status rp__state_write_index(rp_ctx *ctx, const char *folder, const rp_state_info *info, const rp_state_tensor *tensors, int n, int parts,
                                const uint64_t *checksums);

#endif
