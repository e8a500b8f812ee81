/* base/file_mark.h -- the mark of a file of weights. Two files with the same mark are assumed to be equal.
 *
 *   size │ whole header │ of each tensor: its first, middle and last RP_MARK_SLICE_BYTES
 *
 * Computing it takes three short reads per tensor, for any size. A tensor of up to three slices is read whole. In a larger one, bytes between the
 * slices do not count. Training changes nearly all elements of a tensor, so different weights differ in every slice.
 */
#ifndef RP_FILE_MARK_H
#define RP_FILE_MARK_H

#include "base/checksum.h"
#include "base/file.h"

enum { RP_MARK_SLICE_BYTES = 4096 };

typedef struct {
    rp_ctx *ctx;
    const char *label;
    const rp_file_map *map;
    rp_checksum sum;
    int64_t header_end;                 /* offset of the first tensor */
    uint8_t *window;
} rp_file_mark;

/* Begin a mark, add each tensor in the order of the file's list, end it. `label` names the file in messages. errors RP_ERR_MEMORY */
rp_status rp__file_mark_begin(rp_file_mark *mark, rp_ctx *ctx, const char *label, const rp_file_map *map);
/* errors RP_ERR_IO the file cannot be read */
rp_status rp__file_mark_tensor(rp_file_mark *mark, int64_t offset, int64_t bytes);
/* Adds the header and frees the window. `status` is the result of adding the tensors; if it is an error, it is returned and *out is not set.
 * errors RP_ERR_IO */
rp_status rp__file_mark_end(rp_file_mark *mark, rp_status status, uint64_t *out);

#endif
