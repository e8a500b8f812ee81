/* models/adapter_names.h -- names of adapters' tensors between ours and peft's.
 *
 *   "layers.3.attn.q.lora_a.weight"   "base_model.model.model.layers.3.self_attn.q_proj.lora_A.weight"
 *   "norm.weight"                     "base_model.model.model.norm.weight", where it is trained whole
 *   of the text of a wrapper          "base_model.model.model.language_model.layers.3.self_attn.q_proj.lora_A.weight": what peft puts them on is
 *                                     what its base model's folder is; those of the text model alone are read, too
 */
#ifndef RP_MODELS_ADAPTER_NAMES_H
#define RP_MODELS_ADAPTER_NAMES_H

#include "models/family.h"
#include "models/model.h"

/* Of a part of an adapter, or of a weight that is trained whole beside them. False where it has no name there. */
bool rp__adapter_name_theirs(const rp_model_config *config, const char *param_path, char out[RP_WEIGHT_NAME_CHARS]);
/* The path of the layer that a tensor is of, and which part. */
rp_lora_part rp__adapter_name_ours(const rp_model_config *config, const char *name, char layer[RP_WEIGHT_NAME_CHARS]);
/* The path of the parameter that a tensor is, which is trained whole. */
bool rp__adapter_whole_ours(const rp_model_config *config, const char *name, char path[RP_WEIGHT_NAME_CHARS]);
/* "model.layers.3.self_attn.q_proj" for "layers.3.attn.q" */
bool rp__layer_name_theirs(const rp_model_config *config, const char *layer, int layer_chars, char out[RP_WEIGHT_NAME_CHARS]);

/* adapter_config.json of a model that has adapters (models/adapter_json.c); NULL: no memory. base: base_model_name_or_path, may be NULL. Yours. */
json_t *rp__adapter_json(rp_model *model, const char *base);

#endif
