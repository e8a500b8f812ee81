/* train/state_json.h -- state.json, shared by those who write and read states.
 *
 *   {"format": 1, "reprise": …, "step": …, "epoch": …, "samples": …, "seed": "…", "data_hash": "…", "recipe": "…",
 *    "recipe_hash": "…", "tensors": {name: checksum, …}, "checksum": "…"}
 *
 * 64-bit numbers that may pass 2^63 are hexadecimal texts. "checksum" is of the object without it, compact, keys sorted.
 */
#ifndef RP_TRAIN_STATE_JSON_H
#define RP_TRAIN_STATE_JSON_H

#include <jansson.h>

#include "train/state.h"

#define RP_STATE_FORMAT 1
#define RP_STATE_TENSORS "tensors.safetensors"
#define RP_STATE_JSON "state.json"
#define RP_STATE_JSON_BYTES (INT64_C(64) << 20)

/* The text of a state.json; yours to free(). NULL where jansson has no memory or a text is not UTF-8. */
char *rp__state_json_text(const rp_state_info *info, const rp_state_tensor *tensors, const uint64_t *checksums, int n);

/* Parse and check; *root is yours to json_decref, info->recipe lives in it. `path` is for messages.
 * errors  RP_ERR_FORMAT */
rp_status rp__state_json_parse(rp_ctx *ctx, const char *path, const char *text, int64_t bytes, json_t **root,
                               rp_state_info *info);
/* The checksum of a tensor; false where there is none. */
bool rp__state_json_checksum(const json_t *root, const char *name, uint64_t *out);

/* The states of a run, newest first: *steps is yours to rp__release. No folder means none. */
rp_status rp__state_list(rp_ctx *ctx, const char *output_dir, int64_t **steps, int *n);
/* "<output_dir>/state/step-20"; a # in the pattern is the step, "" the folder of states.
 * Yours to rp__release, NULL without memory. */
char *rp__state_name(rp_ctx *ctx, const char *output_dir, const char *pattern, int64_t step);

#endif
