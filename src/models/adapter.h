/* models/adapter.h -- adapters of a model: low-rank adapters on its linear layers; all other parameters are frozen.
 *
 *   a frozen parameter   is a leaf without a gradient. It has no optimizer state, backward skips calls that only its gradient needs, and
 *                        values that only its gradient reads are not saved
 *   an adapter           nn/lora.h; made with the model (rp_model_config.adapter); its parts are parameters of the model
 *   trained whole        the weights of a module itself, trained in addition to adapters: rp_param.beside
 *   its files            a folder as the peft package writes it: adapter_config.json, adapter_model.safetensors (models/adapter_files.c)
 */
#ifndef RP_MODELS_ADAPTER_H
#define RP_MODELS_ADAPTER_H

#include "models/model.h"
#include "safetensors/safetensors.h"

/* Freeze all parameters of the tree except those to be trained whole, and attach adapters, which are trainable, to the named layers. In a
 * shapes-only context a name that matches no linear layer is ignored, because the rehearsal reports it itself (recipe/model.c).
 * errors  RP_ERR_MATCH a name matches nothing, only a part of a module is to be trained whole, or no layer is left for an adapter ·
 *         RP_ERR_ARG a rank below 1 · RP_ERR_MEMORY */
rp_status rp__adapters_attach(rp_module *root, const rp_adapter_config *config);
/* Whether `name` selects the layer at `path` for an adapter. The output head never takes one, because the loss reads its weight directly. */
bool rp__adapter_names(const rp_module *in, const char *name, const char *path);

/* Freeze the parameters that a glob matches, or that are inside a module that it matches.
 * errors  RP_ERR_MATCH a glob matches nothing (not checked in a shapes-only context) · RP_ERR_CONFIG no trainable parameter is left */
rp_status rp__model_freeze(rp_model *model, int n, const char *const *globs);
/* Whether any parameter is frozen. */
bool rp__model_is_frozen(const rp_model *model);

/* Initialise adapters: a is uniform in [-1, 1) / sqrt(in), which is Kaiming's init with a slope of sqrt(5), as in peft; b is zero. Numbers are
 * drawn by Philox from (seed, path, element), like all weights (models/init.c). */
void rp__adapters_init(rp_model *model, uint64_t seed);
bool rp__model_is_adapted(rp_model *model);
/* Initialise magnitudes (DoRA) with the norms of the rows of their layers' weights, which must be loaded. Ranks that share the weights gather them,
 * as in a forward.
 * errors  RP_ERR_MEMORY · RP_ERR_BACKEND */
rp_status rp__magnitudes_init(rp_model *model);

/* ---- peft's files ---- */

/* Write adapter_config.json and adapter_model.safetensors into the existing folder `directory`. base: value of base_model_name_or_path, may be NULL.
 * Ranks and errors as rp__model_export, which instead writes the model with its adapters merged in. */
rp_status rp__adapters_export(rp_model *model, const char *base, const char *directory);

/* Whether the folder holds an adapter: it has adapter_config.json and no config.json. */
bool rp__adapter_is_folder(const char *path);

typedef struct rp_adapter_files rp_adapter_files;
/* Read the config and the tensor names of an adapter's folder, in terms of this family. Supported are linear layers with one rank and scale.
 * owner   the caller; it must outlive its config
 * errors  RP_ERR_IO · RP_ERR_FORMAT · RP_ERR_UNSUPPORTED · RP_ERR_MEMORY */
rp_status rp__adapter_files_open(rp_ctx *ctx, const char *path, const rp_model_config *model, rp_adapter_files **out);
void rp__adapter_files_close(rp_adapter_files *files);
const rp_adapter_config *rp__adapter_files_config(const rp_adapter_files *files);
/* Fill the adapters of a model that was built with this config, or this rank's slices of them.
 * errors  RP_ERR_FORMAT · RP_ERR_SHAPE · RP_ERR_IO · RP_ERR_MEMORY */
rp_status rp__adapter_files_load(const rp_adapter_files *files, rp_model *model);
/* Open the adapter's weights / find the tensor of a part of an adapter, or of a parameter that is trained whole, and check its shape. *set is
 * yours: rp__safetensors_close.
 * errors  RP_ERR_FORMAT · RP_ERR_SHAPE · RP_ERR_IO · RP_ERR_MEMORY */
rp_status rp__adapter_files_weights(const rp_adapter_files *files, rp_safetensors **set);
rp_status rp__adapter_files_find(const rp_adapter_files *files, const rp_safetensors *set, const rp_model_config *model, const rp_param *p,
                                 const rp_safetensor **out);
/* Path of the adapter's base model: base_model_name_or_path as given, or else relative to the folder, whichever exists first. The caller must
 * rp__release *out.
 * errors  RP_ERR_IO neither exists · RP_ERR_FORMAT · RP_ERR_MEMORY */
rp_status rp__adapter_base(rp_ctx *ctx, const char *path, char **out);
/* Path of the tokenizer of the model at `path`: the same path, or the base model of an adapter that has no tokenizer. The caller must rp__release
 * *out.
 * errors  as rp__adapter_base */
rp_status rp__tokenizer_place(rp_ctx *ctx, const char *path, char **out);

#endif
