/* train/tensorboard.h -- writes the lines of metrics.jsonl into an event file for TensorBoard.
 *
 *   events.out.tfevents.<seconds>.<host>.<process>.v2     one for each start of the run; TensorBoard reads them in the order of their names
 *
 *   record   | length u64 | masked CRC of it u32 | Event (event.proto) | masked CRC of that u32 |   all little-endian
 *   events   file_version "brain.Event:2" · session_log START with the next step · a summary for each step
 *
 * A resumed run begins a new file. Its START makes TensorBoard ignore the steps in earlier files that the new file repeats. If the clock was
 * set back, the new file is named one second after the last one, and times in a file never decrease. Tags are the keys of metrics.jsonl.
 * Values are fp32, as TensorBoard's scalars are. Each step is one write. CRC-32C (Castagnoli), masked as in TensorFlow's record format:
 * ((crc >> 15) | (crc << 17)) + 0xa282ead8.
 */
#ifndef RP_TRAIN_TENSORBOARD_H
#define RP_TRAIN_TENSORBOARD_H

#include "base/base.h"

typedef struct rp_tensorboard rp_tensorboard;

/* Create a file in `folder` (created if missing) for the steps after `done`. errors RP_ERR_IO · those of rp__make_dirs · RP_ERR_MEMORY */
rp_status rp__tensorboard_open(rp_ctx *ctx, const char *folder, int64_t done, rp_tensorboard **out);
rp_status rp__tensorboard_put(rp_tensorboard *board, const rp_metrics *line);
/* Flush all events to disk. errors RP_ERR_IO */
rp_status rp__tensorboard_sync(rp_tensorboard *board);
void rp__tensorboard_close(rp_tensorboard *board);

uint32_t rp__crc32c(const void *data, int64_t bytes);

#endif
