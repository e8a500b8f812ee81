/* base/file_mark.h -- the mark of a file of weights: two files with the same mark are taken for the same file.
 *
 *   size │ header: all of it │ of each tensor: its first, middle and last RP_MARK_SLICE_BYTES
 *
 * Three short reads a tensor, whatever its size. A tensor of up to three slices counts whole. In a larger one, bytes between the slices do not
 * count. Training changes nearly all elements of a tensor, so other weights show in every slice of it.
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

/* Begin a mark, add each tensor in the order of the file's list, end it. `label` names the file in messages. */
rp_status rp__file_mark_begin(rp_file_mark *mark, rp_ctx *ctx, const char *label, const rp_file_map *map);
/* errors RP_ERR_IO the file cannot be read */
rp_status rp__file_mark_tensor(rp_file_mark *mark, int64_t offset, int64_t bytes);
/* Adds the header and frees the window. If `status`, the result of adding the tensors, is an error, *out is not set and it is returned. */
rp_status rp__file_mark_end(rp_file_mark *mark, rp_status status, uint64_t *out);

#endif
