/* train/metrics.h -- metrics.jsonl: one JSON object for each optimizer step.
 *
 * A line is one write, so a reader that follows the file sees whole lines. Numbers are the shortest that read back as the
 * same double; what is not finite is null. The keys are metrics.def, then val_loss in the steps where it was measured.
 */
#ifndef RP_TRAIN_METRICS_H
#define RP_TRAIN_METRICS_H

#include "base/base.h"

#define RP_NUMBER_CHARS 32
/* The shortest decimal that reads back as the same double; "null" where it is not finite. Returns out. */
const char *rp__number_text(char out[RP_NUMBER_CHARS], double value);

typedef struct rp_metrics_file rp_metrics_file;

/* Opens or makes the file and cuts it after the line of step `keep_steps` (0: everything goes). What follows the first line
 * that is torn, is no JSON object or has a later step is cut, too. errors RP_ERR_IO · RP_ERR_MEMORY */
rp_status rp__metrics_open(rp_ctx *ctx, const char *path, int64_t keep_steps, rp_metrics_file **out);
rp_status rp__metrics_put(rp_metrics_file *file, const rp_metrics *line);
/* Everything put so far is on the disk. A state is saved after this, so that no state is ahead of its metrics. */
rp_status rp__metrics_sync(rp_metrics_file *file);
void rp__metrics_close(rp_metrics_file *file);

#endif
