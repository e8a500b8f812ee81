/* state/json.h -- state.json, shared by those who write and read states.
 *
 *   {"format": 3, "reprise": …, "step": …, "epoch": …, "samples": …, "seed": "…", "data_hash": "…", "frozen_mark": "…" (or not), "recipe": "…",
 *    "recipe_hash": "…", "ranks": 4, "parts": 4, "part_checksums": "… … … …",
 *    "tensors": {name: {"dtype": "BF16", "shape": […], "room": 4096}, …}, "checksum": "…"}
 *
 * Part p of a tensor has its elements from p * room on, `room` of them or what there is. A part's checksum is made of its tensors' names and
 * checksums, in any order. 64-bit numbers that may pass 2^63 are hexadecimal texts. "checksum" is of the object without it, compact, keys sorted.
 *
 * The size is that of the recipe, at most about 300 bytes a tensor and 17 bytes a part: it does not grow with tensors times parts.
 *
 *   format 2   {name: {…, "checksums": "… … … …"}}: each tensor has its own checksum of each part, and there are no part_checksums. States of
 *              one part are still written so: then a damaged tensor is named
 *   format 1   of one part: {name: checksum}, shapes are in the tensors' file
 */
#ifndef RP_STATE_JSON_H
#define RP_STATE_JSON_H

#include <jansson.h>

#include "safetensors/safetensors.h"
#include "state/state.h"

#define RP_STATE_FORMAT 3                /* the newest that is read */
#define RP_STATE_JSON "state.json"
#define RP_STATE_JSON_BYTES (INT64_C(64) << 20)

/* The text of a state.json, of tensors whose slices are rp__slice_of each part. checksums: of one part each tensor's, of several each
 * part's. Yours to free(). NULL where jansson has no memory or a text is not UTF-8. */
char *rp__state_json_text(const rp_state_info *info, const rp_state_tensor *tensors, int n, int parts, const uint64_t *checksums);

/* Parse and check; *root is yours to json_decref, info->recipe lives in it. `path` is for messages.
 * errors  RP_ERR_FORMAT */
rp_status rp__state_json_parse(rp_ctx *ctx, const char *path, const char *text, int64_t bytes, json_t **root,
                               rp_state_info *info);
int rp__state_json_parts(const json_t *root);

/* Of a part: the sum of these over its tensors. */
uint64_t rp__state_json_mark(const char *name, uint64_t checksum);
/* Does the index have checksums of parts? Else its tensors have their own. */
bool rp__state_json_sums_parts(const json_t *root);
/* False: what is there of them is wrong. */
bool rp__state_json_part_checksum(const json_t *root, int part, uint64_t *out);

/* False: of format 1. It becomes format 2 by update, with shapes of the file's tensors; false where a tensor that is listed is not in the
 * file, or without memory. */
bool rp__state_json_has_shapes(const json_t *root);
bool rp__state_json_update(json_t *root, const rp_safetensors *file);

typedef struct {
    rp_safetensors_dtype dtype;
    int ndim;
    int64_t dim[RP_SAFETENSORS_MAX_DIM], elems;
    int64_t room;
    const char *checksums;              /* of each part; NULL: the index has those of whole parts */
} rp_state_entry;

/* What is listed of a tensor; false where it is not, or wrongly. */
bool rp__state_json_tensor(const json_t *root, const char *name, rp_state_entry *out);
/* The elements of it that a part has, and their checksum. */
rp_slice rp__state_entry_slice(const rp_state_entry *entry, int part);
uint64_t rp__state_entry_checksum(const rp_state_entry *entry, int part);

/* The states of a run, newest first: *steps is yours to rp__release. No folder means none. */
rp_status rp__state_list(rp_ctx *ctx, const char *output_dir, int64_t **steps, int *n);
/* "<output_dir>/state/step-20"; a # in the pattern is the step, "" the folder of states.
 * Yours to rp__release, NULL without memory. */
char *rp__state_name(rp_ctx *ctx, const char *output_dir, const char *pattern, int64_t step);

#endif
