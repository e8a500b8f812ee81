/* state/json.h -- writes and parses state.json.
 *
 *   {"format": 3, "reprise": …, "step": …, "epoch": …, "samples": …, "seed": "…", "data_hash": "…", "frozen_mark": "…" (optional),
 *    "card": "…" (optional), "recipe": "…", "recipe_hash": "…", "ranks": 4, "parts": 4, "part_checksums": "… … … …",
 *    "tensors": {name: {"dtype": "BF16", "shape": […], "room": 4096}, …}, "checksum": "…"}
 *
 * Part p of a tensor holds `room` elements from p * room on, or fewer at the end. The checksum of a part is computed from the names and checksums
 * of its tensors and does not depend on their order. 64-bit numbers that may exceed 2^63 are hexadecimal strings. "checksum" covers the object
 * without that key, in compact form with sorted keys.
 *
 * The size is that of the recipe, plus at most about 300 bytes per tensor and 17 bytes per part. It does not grow with tensors times parts.
 *
 *   format 2   {name: {…, "checksums": "… … … …"}}: each tensor has a checksum for each part, and part_checksums is absent. States of one part
 *              are still written in this format, so that a damaged tensor can be named
 *   format 1   one part only: {name: checksum}; shapes are in the tensors' file
 */
#ifndef RP_STATE_JSON_H
#define RP_STATE_JSON_H

#include <jansson.h>

#include "safetensors/safetensors.h"
#include "state/state.h"

#define RP_STATE_FORMAT 3                /* newest format that can be read */
#define RP_STATE_JSON "state.json"
#define RP_STATE_JSON_BYTES (INT64_C(64) << 20)

/* Make the text of a state.json. Each tensor is cut into `parts` slices (comm/comm.h). checksums: one per tensor if there is one part, else one
 * per part. The caller must free() the result. Returns NULL if memory runs out or a string is not UTF-8. */
char *rp__state_json_text(const rp_state_info *info, const rp_state_tensor *tensors, int n, int parts, const uint64_t *checksums);

/* Parse and check a text. The caller must json_decref *root; info->recipe points into it. `path` is for messages.
 * errors  RP_ERR_FORMAT */
rp_status rp__state_json_parse(rp_ctx *ctx, const char *path, const char *text, int64_t bytes, json_t **root,
                               rp_state_info *info);
int rp__state_json_parts(const json_t *root);

/* Contribution of a tensor to the checksum of its part, which is the sum over the part's tensors. */
uint64_t rp__state_json_mark(const char *name, uint64_t checksum);
/* Whether the index has checksums of whole parts; if not, each tensor has its own. */
bool rp__state_json_sums_parts(const json_t *root);
/* Read the checksum of a part. Returns false if the list of checksums is malformed. */
bool rp__state_json_part_checksum(const json_t *root, int part, uint64_t *out);

/* has_shapes returns false for format 1. update converts format 1 to format 2 with the shapes in `file`; it returns false if `file` lacks a listed
 * tensor or memory runs out. */
bool rp__state_json_has_shapes(const json_t *root);
bool rp__state_json_update(json_t *root, const rp_safetensors *file);

typedef struct {
    rp_safetensors_dtype dtype;
    int ndim;
    int64_t dim[RP_SAFETENSORS_MAX_DIM], elems;
    int64_t room;
    const char *checksums;              /* one for each part; NULL: the index has checksums of whole parts */
} rp_state_entry;

/* Read the entry of a tensor. Returns false if the entry is absent or malformed. */
bool rp__state_json_tensor(const json_t *root, const char *name, rp_state_entry *out);
/* The elements of the tensor that a part holds, and their checksum; the latter needs entry->checksums. */
rp_slice rp__state_entry_slice(const rp_state_entry *entry, int part);
uint64_t rp__state_entry_checksum(const rp_state_entry *entry, int part);

/* List the states of a run, newest first. The caller must rp__release *steps. A missing folder counts as empty. errors RP_ERR_IO · RP_ERR_MEMORY */
rp_status rp__state_list(rp_ctx *ctx, const char *output_dir, int64_t **steps, int *n);
/* Path such as "<output_dir>/state/step-20": '#' in the pattern is replaced by the step; the pattern "" gives the folder of states.
 * The caller must rp__release it. Returns NULL if memory runs out. */
char *rp__state_name(rp_ctx *ctx, const char *output_dir, const char *pattern, int64_t step);

#endif
