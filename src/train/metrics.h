/* train/metrics.h -- metrics.jsonl: one JSON object for each optimizer step.
 *
 * A line is written at once, so a reader that follows the file sees whole lines. A number is the shortest decimal that reads back as the
 * same double; a number that is not finite is null. The keys are those of metrics.def, then val_loss in steps with a validation, then
 * samples in steps that continued prompts: [{"prompt": …, "text": …}, …].
 */
#ifndef RP_TRAIN_METRICS_H
#define RP_TRAIN_METRICS_H

#include "base/base.h"

#define RP_NUMBER_CHARS 32
/* The shortest decimal that reads back as the same double; "null" if it is not finite. Returns out. */
const char *rp__number_text(char out[RP_NUMBER_CHARS], double value);

typedef struct rp_metrics_file rp_metrics_file;

/* Open or create the file and cut it after the line of step `keep_steps` (0: empty it). The cut is earlier if a line is incomplete, is not a JSON
 * object, or has a later step. errors RP_ERR_IO · RP_ERR_MEMORY */
rp_status rp__metrics_open(rp_ctx *ctx, const char *path, int64_t keep_steps, rp_metrics_file **out);
/* Append a line. samples: a JSON array of continued prompts, or NULL. errors RP_ERR_IO · RP_ERR_MEMORY */
rp_status rp__metrics_put(rp_metrics_file *file, const rp_metrics *line, const char *samples);
/* Flush all lines to disk. A state is saved after this, so that no state is newer than its metrics. errors RP_ERR_IO */
rp_status rp__metrics_sync(rp_metrics_file *file);
void rp__metrics_close(rp_metrics_file *file);

#endif
