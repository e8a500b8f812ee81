/* models/adapter.h -- adapters of a model: low-rank ones beside its linear layers, all else frozen.
 *
 *   a frozen parameter   is a leaf that wants no gradient: no gradient, no optimizer state, no call of a backward that only it would need;
 *                        what backward would read for its gradient alone is not kept
 *   an adapter           nn/lora.h; made with the model (rp_model_config.adapter), its parts among the model's parameters
 *   trained whole        a module's own weights, beside adapters: rp_param.beside
 *   its files            a folder as the peft package writes it: adapter_config.json, adapter_model.safetensors (models/adapter_files.c)
 */
#ifndef RP_MODELS_ADAPTER_H
#define RP_MODELS_ADAPTER_H

#include "models/model.h"

/* Every parameter of the tree is frozen but what is named to be trained whole, and the layers that are named get adapters, which are not. On shapes alone
 * a name that matches no
 * linear layer is passed over: who rehearses tells of it in his own words (recipe/model.c).
 * errors  RP_ERR_MATCH a name that matches none, a part of a module, nothing left for an adapter · RP_ERR_MEMORY */
rp_status rp__adapters_attach(rp_module *root, const rp_adapter_config *config);
/* Would the name have this layer adapted? The output head takes none: the loss reads its weight alone. */
bool rp__adapter_names(const rp_module *in, const char *name, const char *path);

/* Parameters that a glob matches, or under a module that it does, want no gradient.
 * errors  RP_ERR_MATCH a glob matches nothing · RP_ERR_CONFIG nothing is left to train */
rp_status rp__model_freeze(rp_model *model, int n, const char *const *globs);
/* Is any parameter frozen? */
bool rp__model_is_frozen(const rp_model *model);

/* Fresh adapters: a uniform in [-1, 1) / sqrt(in), which is Kaiming's with a slope of sqrt(5), as peft draws it; b zeros. By Philox from (seed,
 * path, element), as all weights (models/init.c). */
void rp__adapters_init(rp_model *model, uint64_t seed);
bool rp__model_is_adapted(rp_model *model);
/* Fresh magnitudes (DoRA): the norms of the rows of their layers' weights, which are there. Ranks that share the weights gather them for it, as a
 * forward does.
 * errors  RP_ERR_MEMORY · RP_ERR_COMM */
rp_status rp__magnitudes_init(rp_model *model);

/* ---- peft's files ---- */

/* adapter_config.json and adapter_model.safetensors into `directory`, which exists; base: what the config says the model is, may be NULL. Ranks
 * and errors as rp__model_export, which writes the model with its adapters added in. */
rp_status rp__adapters_export(rp_model *model, const char *base, const char *directory);

/* Is the folder an adapter's? */
bool rp__adapter_is_folder(const char *path);

typedef struct rp_adapter_files rp_adapter_files;
/* Config and names of an adapter's folder, in terms of this family. Linear layers with the same rank and scale are honoured, nothing else.
 * owner   yours; what *config borrows lives as long
 * errors  RP_ERR_IO · RP_ERR_FORMAT · RP_ERR_UNSUPPORTED */
rp_status rp__adapter_files_open(rp_ctx *ctx, const char *path, const rp_model_config *model, rp_adapter_files **out);
void rp__adapter_files_close(rp_adapter_files *files);
const rp_adapter_config *rp__adapter_files_config(const rp_adapter_files *files);
const struct rp_safetensors *rp__adapter_files_set(const rp_adapter_files *files);      /* its weights */
/* Fill the adapters of a model that was built with this config, or this rank's slices of them.
 * errors  RP_ERR_FORMAT · RP_ERR_SHAPE · RP_ERR_IO */
rp_status rp__adapter_files_load(const rp_adapter_files *files, rp_model *model);
/* base_model_name_or_path of a folder, as it stands or else from the folder: the first that exists. Yours to rp__release.
 * errors  RP_ERR_IO neither does · RP_ERR_FORMAT */
rp_status rp__adapter_base(rp_ctx *ctx, const char *path, char **out);
/* Where the tokenizer of a model is that is named by `path`: there, or with the model of an adapter that brings none. Yours to rp__release.
 * errors  as rp__adapter_base */
rp_status rp__tokenizer_place(rp_ctx *ctx, const char *path, char **out);

#endif
