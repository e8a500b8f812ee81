/* models/quant.h -- which weights of a model are stored quantised or stay in their files, and how they are filled and written.
 *
 *   model files ─▶ rp__quant_types ─▶ rp_quant_config ─▶ rp__quant_stored, for each weight while the model is built
 *   tensor of a file ─▶ rp__quant_load: its blocks as they are, or rows of fp32, quantised ─▶ parameter ─▶ rp__quant_write: rows in the model's dtype
 */
#ifndef RP_MODELS_QUANT_H
#define RP_MODELS_QUANT_H

#include "models/weights_pair.h"

/* The dtype in which the weight `name` [.., out, in] of a linear layer, an embedding or experts is stored. */
rp_dtype rp__quant_stored(const rp_model_config *config, const rp_module *m, const char *name, const rp_meta *meta);

/* The type of the weight at this path in a list of the config: quant.types or mapped. NULL: none is listed. */
const json_t *rp__type_listed(const rp_model_config *config, const json_t *types, const char *path);

/* List the tensors of a model's files: an object of our paths. `note` adds the entry of a tensor, or returns RP_ERR_MEMORY. Needs the fields of
 * rp__weights_pair, without the model. *out is yours. errors RP_ERR_MEMORY */
typedef rp_status rp_note_type(const rp_weight_loader *l, json_t *types, const char *path, rp_file_tensor t);
rp_status rp__weight_types(rp_weight_loader *l, rp_note_type *note, json_t **out);
/* List the quantised tensors of a model's files: an object of our paths, each with its rp_dtype. Needs the fields of rp__weights_pair, without the
 * model. *out is yours. errors RP_ERR_MEMORY · RP_ERR_FORMAT */
rp_status rp__quant_types(rp_weight_loader *l, json_t **out);

/* ---- types in a config.json (stand_in.c) ---- */

/* Whether the value of `quantization_config` lists types of weights. */
bool rp__stand_in_is_valid(const json_t *field);
/* Set quant.types (keep) and mapped to the types that the config lists; NULL: it lists none. errors RP_ERR_MEMORY */
rp_status rp__stand_in_take(rp_ctx *ctx, rp_model_config *config, bool keep, bool mapped);
/* Make the config.json that lists the types in config->quant.types and config->mapped. *out is yours. errors RP_ERR_MEMORY */
rp_status rp__stand_in_config(rp_ctx *ctx, const rp_model_config *config, json_t **out);

/* ---- codes of bitsandbytes ---- */

/* Returns whether a tensor of this name belongs to the codes of another one, in the format of bitsandbytes. */
bool rp__quant_is_part(const char *name);

/* Is it such a weight's codes? Any other tensor of bytes is refused. */
static inline bool rp__quant_is_nf4(rp_file_tensor t) { return t.st && t.st->dtype == RP_ST_U8; }
/* For a part that such codes would fill: check them and their parts, and report errors of theirs. errors RP_ERR_IO · RP_ERR_MEMORY */
rp_status rp__quant_check(rp_weight_loader *l, const rp_weight_part *p);
/* Whether the tensor's blocks are copied; else its elements are quantised. */
bool rp__quant_keeps(const rp_weight_part *p);
/* The elements of the parameter that this rank reads to fill its slice. */
rp_elem_range rp__quant_wanted(const rp_weight_part *p);
/* Fill this rank's slice of the part. `turned`: rows of the file are columns of the parameter; the loader's window then holds the whole matrix and a row.
 * `range`: the elements of the file's tensor to read, in whole rows.
 * errors  RP_ERR_UNSUPPORTED an element that the type does not hold · RP_ERR_IO · RP_ERR_MEMORY */
typedef struct { bool turned, rotated; rp_elem_range range; } rp_quant_load;
rp_status rp__quant_load(rp_weight_loader *l, const rp_weight_part *p, const rp_quant_load *how);

/* ---- weights that stay in their files (mapped.c) ---- */

/* Is the weight of this path, of module m, not trained? */
bool rp__weight_is_frozen(const rp_model_config *config, const rp_module *m, const char *path);
/* List the tensors of a model's files: an object of our paths, each with the rp_dtype in which its bytes can be a parameter, or RP_I32 if they cannot.
 * Needs the fields of rp__weights_pair, without the model. *out is yours. errors RP_ERR_MEMORY */
rp_status rp__mapped_types(rp_weight_loader *l, json_t **out);
/* Whether the parameter `name` of module m stays in the files. */
bool rp__weight_is_mapped(const rp_model_config *config, const rp_module *m, const char *name, const rp_meta *meta);
/* Let the part, a whole parameter, read its file. errors RP_ERR_IO the file has changed · as rp__file_pages_open */
rp_status rp__mapped_load(const rp_weight_loader *l, const rp_weight_part *p);

#endif
