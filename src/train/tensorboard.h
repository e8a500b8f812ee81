/* train/tensorboard.h -- the lines of metrics.jsonl as an event file that TensorBoard shows.
 *
 *   events.out.tfevents.<seconds>.<host>.<process>.v2     one for each time the run was started, read in the order of their names
 *
 *   record   | length u64 | masked CRC of it u32 | Event (event.proto) | masked CRC of that u32 |   all little-endian
 *   events   file_version "brain.Event:2" · session_log START with the first step to come · a summary each step
 *
 * A run that goes on begins a file of its own; its START voids what files before it say of steps that are made again. A clock that
 * was set back does not put it before them: it is named a second after the last, and of one file times stand still until the clock has come
 * to them again. Tags are the keys of metrics.jsonl, values are fp32,
 * as TensorBoard's scalars are; a step is one write. CRC-32C (Castagnoli), masked as in TensorFlow's record format:
 * ((crc >> 15) | (crc << 17)) + 0xa282ead8.
 */
#ifndef RP_TRAIN_TENSORBOARD_H
#define RP_TRAIN_TENSORBOARD_H

#include "base/base.h"

typedef struct rp_tensorboard rp_tensorboard;

/* A file in `folder`, which is made, for steps after `done`. errors as rp__make_dirs · RP_ERR_MEMORY */
rp_status rp__tensorboard_open(rp_ctx *ctx, const char *folder, int64_t done, rp_tensorboard **out);
rp_status rp__tensorboard_put(rp_tensorboard *board, const rp_metrics *line);
/* Everything put so far is on the disk. */
rp_status rp__tensorboard_sync(rp_tensorboard *board);
void rp__tensorboard_close(rp_tensorboard *board);

uint32_t rp__crc32c(const void *data, int64_t bytes);

#endif
