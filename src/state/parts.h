/* state/parts.h -- the files of one state as one rank writes and reads them, with nobody to talk to.
 *
 *   part      the tensors of one rank, of `parts` that hold the weights together: its slices, in a file of their own
 *   index     state.json: for every tensor dtype, shape, how many elements a part has; each part's checksum
 */
#ifndef RP_STATE_PARTS_H
#define RP_STATE_PARTS_H

#include "state/json.h"

#define RP_STATE_PART_CHARS 64
/* "tensors.safetensors", or "tensors-2-of-4.safetensors"; returns out. */
const char *rp__state_part_name(int part, int parts, char out[RP_STATE_PART_CHARS]);

/* The slice, with the whole spelled out. */
rp_slice rp__state_slice(const rp_state_tensor *tensor);
static inline const rp_meta *rp__state_whole(const rp_state_tensor *tensor)
{
    return tensor->slice.room || !tensor->tensor ? &tensor->whole : &tensor->tensor->m;
}

/* Synced and under its name in the folder. checksums[n] are of its tensors. */
rp_status rp__state_write_part(rp_ctx *ctx, const char *folder, int part, int parts, const rp_state_tensor *tensors, int n,
                               uint64_t *checksums);
/* Of its n tensors: what the index of several parts has of this one. */
uint64_t rp__state_part_checksum(const rp_state_tensor *tensors, int n, const uint64_t *checksums);
/* checksums: of one part each tensor's, of several each part's. */
rp_status rp__state_write_index(rp_ctx *ctx, const char *folder, const rp_state_info *info, const rp_state_tensor *tensors, int n, int parts,
                                const uint64_t *checksums);

#endif
