/* models/weights.h -- loads models from files and writes them.
 *
 *   directory (config.json, *.safetensors) ─┐
 *   file.gguf                              ─┴▶ rp_model_files ─ config ─▶ rp__model_build ─ weights ─▶ parameters
 *
 * Opening reads only the config. Weights are read tensor by tensor through a small window and converted to the parameters'
 * dtype; mapped pages of the file are released as they are read. Weights that stay in the files (mapped.c) keep their files mapped.
 */
#ifndef RP_MODELS_WEIGHTS_H
#define RP_MODELS_WEIGHTS_H

#include "models/model.h"

typedef struct rp_model_files rp_model_files;

/* Open a model and parse its config. `path`: a Hugging Face directory, a .gguf file, or the folder of an adapter, which names its base model; the
 * config then includes the adapter. `overrides` may be NULL.
 * errors  RP_ERR_IO · RP_ERR_FORMAT · RP_ERR_CONFIG · RP_ERR_UNSUPPORTED · RP_ERR_MEMORY; all errors of a config are in the report */
rp_status rp__model_files_open(rp_ctx *ctx, const char *path, const rp_yaml_node *overrides, rp_report *report,
                               rp_model_files **out);
/* Add the adapter in this folder to the model. Call it before the config is taken.
 * errors  RP_ERR_CONFIG the model already has an adapter · as rp__adapter_files_open */
rp_status rp__model_files_adapter(rp_model_files *files, const char *path);
/* Store frozen matrices quantised (models/config.h): `keep`: those that are quantised in the files, in their own types; else all, in `dtype`. Call it
 * before the config is taken. errors RP_ERR_IO · RP_ERR_FORMAT · RP_ERR_UNSUPPORTED · RP_ERR_MEMORY */
rp_status rp__model_files_quantise(rp_model_files *files, bool keep, rp_dtype dtype);
/* Leave frozen weights in the files if these have them in the model's dtype, or quantised as they are stored, in the model's layout. Call it before the
 * config is taken. errors RP_ERR_IO · RP_ERR_FORMAT · RP_ERR_UNSUPPORTED · RP_ERR_MEMORY */
rp_status rp__model_files_map(rp_model_files *files);
/* The model's own directory or file; borrowed. */
const char *rp__model_files_base(const rp_model_files *files);
void rp__model_files_close(rp_model_files *files);
/* Move the config to the caller, for rp__model_build. errors RP_ERR_STATE it was taken before */
rp_status rp__model_files_config(rp_model_files *files, rp_model_config *out);
/* Load the config from a config.json alone: `path` is the file, or a directory that contains one.
 * errors  RP_ERR_IO · RP_ERR_FORMAT · those of rp__model_config_parse */
rp_status rp__model_config_load(rp_ctx *ctx, const char *path, const rp_yaml_node *overrides, rp_report *report,
                                rp_model_config *out);

/* Call `marked` with every weight file, adapter files last, and its mark (safetensors/marks.h). A status of `marked` other than RP_OK stops the loop and
 * is returned.
 * errors  RP_ERR_IO · RP_ERR_FORMAT · RP_ERR_MEMORY · those of `marked` */
typedef rp_status (*rp_file_marked)(void *user, const char *file, uint64_t mark);
rp_status rp__model_files_marks(const rp_model_files *files, rp_file_marked marked, void *user);

/* Fill every parameter, or this rank's slice of it, without communication. Adapters are filled from their own files, or initialised if there are
 * none. Errors, with messages that name both sides: a parameter is missing, a tensor is not a parameter of this model (except known buffers), or
 * shapes differ. All shapes are checked before anything is written.
 * Does nothing in a shapes-only context. errors RP_ERR_FORMAT · RP_ERR_SHAPE · RP_ERR_UNSUPPORTED · RP_ERR_IO · RP_ERR_MEMORY */
rp_status rp__model_load(rp_model *model, rp_model_files *files);

/* After rp__model_load: whether the files had no head (a bare encoder), so that it was initialised as in rp__model_init, with the context's seed. */
bool rp__model_files_fresh_head(const rp_model_files *files);

/* After rp__model_load of the text model of a wrapper: the tensors of its files that belong to other parts and were not read. */
typedef struct { int64_t tensors, bytes; } rp_left_out;
rp_left_out rp__model_files_left_out(const rp_model_files *files);
/* Describe them: "of this 'gemma3' only the text model, 'gemma3_text', is read: 439 tensors of its other parts, 838 bytes, are left out". Returns false
 * if there are none. */
#define RP_LEFT_OUT_CHARS 256
bool rp__model_left_out_text(const rp_model *model, rp_left_out left_out, char out[RP_LEFT_OUT_CHARS]);

/* Initialise weights: normal(0, init_std), norms 1, biases 0, drawn by Philox from (seed, parameter path, element). Both dtypes get the same
 * numbers up to rounding, and so does any slice. */
void rp__model_init(rp_model *model, uint64_t seed);

/* Write config.json and model.safetensors into the existing folder `directory`, with the names of transformers. Adapters are merged into their
 * layers' weights. Above 5 GB the weights are split into several files with an index. The dtype field of config.json is the parameters' dtype. If
 * weights are sharded, all ranks call it: the first one writes and holds a window of the others' weights (class comm, from the pool).
 * errors  RP_ERR_IO · RP_ERR_META · RP_ERR_MEMORY · RP_ERR_BACKEND; an error on one rank is returned on all */
rp_status rp__model_export(rp_model *model, const char *directory);
/* As rp__model_export, with another maximum of data bytes per file; 0: 5 GB. errors as export · RP_ERR_ARG a negative maximum */
rp_status rp__model_export_shards(rp_model *model, const char *directory, int64_t max_shard_bytes);
/* Copy generation_config.json from the folder `source`, if it exists; it does not change with the weights. One rank calls it.
 * errors  RP_ERR_IO · RP_ERR_FORMAT larger than 1 MiB · RP_ERR_MEMORY */
rp_status rp__model_carry(rp_ctx *ctx, const char *source, const char *directory);

/* Hint for a path that does not exist but could be a model name on the hub: how to download it. "" if it is no such name. Returns out. */
#define RP_HUB_HINT_CHARS 320
const char *rp__hub_hint(const char *path, char out[RP_HUB_HINT_CHARS]);

#endif
