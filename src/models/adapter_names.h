/* models/adapter_names.h -- converts names of adapters' tensors between ours and peft's.
 *
 *   "layers.3.attn.q.lora_a.weight"   "base_model.model.model.layers.3.self_attn.q_proj.lora_A.weight"
 *   "norm.weight"                     "base_model.model.model.norm.weight", if it is trained whole
 *   in a wrapper's text model         "base_model.model.model.language_model.layers.3.self_attn.q_proj.lora_A.weight": peft uses the names
 *                                     of the wrapper; names of the text model alone are read, too
 */
#ifndef RP_MODELS_ADAPTER_NAMES_H
#define RP_MODELS_ADAPTER_NAMES_H

#include "models/family.h"
#include "models/model.h"

/* peft's name of a part of an adapter, or of a weight that is trained whole. Returns false if it has none. */
bool rp__adapter_name_theirs(const rp_model_config *config, const char *param_path, char out[RP_WEIGHT_NAME_CHARS]);
/* Get the path of the layer that a tensor belongs to. Returns the kind of part, or RP_LORA_NONE if it is no part of an adapter. */
rp_lora_part rp__adapter_name_ours(const rp_model_config *config, const char *name, char layer[RP_WEIGHT_NAME_CHARS]);
/* Get the path of the parameter that a tensor holds, if it is one that may be trained whole. Returns false if it is none. */
bool rp__adapter_whole_ours(const rp_model_config *config, const char *name, char path[RP_WEIGHT_NAME_CHARS]);
/* "model.layers.3.self_attn.q_proj" for "layers.3.attn.q". Returns false if the layer has no name there. */
bool rp__layer_name_theirs(const rp_model_config *config, const char *layer, int layer_chars, char out[RP_WEIGHT_NAME_CHARS]);

/* Make adapter_config.json of a model with adapters (models/adapter_json.c). base: base_model_name_or_path, may be NULL. The caller must
 * json_decref the result. Returns NULL if memory runs out. */
json_t *rp__adapter_json(rp_model *model, const char *base);

#endif
