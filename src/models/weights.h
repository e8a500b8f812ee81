/* models/weights.h -- models from files, and back.
 *
 *   directory (config.json, *.safetensors) ─┐
 *   file.gguf                              ─┴▶ rp_model_files ─ config ─▶ rp__model_build ─ weights ─▶ parameters
 *
 * Opening reads the config alone; weights are read tensor by tensor through a small window, converted to the parameters'
 * dtype, and the file is let go of as it is read.
 */
#ifndef RP_MODELS_WEIGHTS_H
#define RP_MODELS_WEIGHTS_H

#include "models/model.h"

typedef struct rp_model_files rp_model_files;

/* `path`: a Hugging Face directory, a .gguf file, or the folder of an adapter, which names the model it is of; the config then has the adapter.
 * `overrides` may be NULL. The config is parsed at once.
 * errors  RP_ERR_IO · RP_ERR_FORMAT · RP_ERR_CONFIG · RP_ERR_UNSUPPORTED; every error of a config is in the report */
rp_status rp__model_files_open(rp_ctx *ctx, const char *path, const rp_yaml_node *overrides, rp_report *report,
                               rp_model_files **out);
/* The adapter in this folder goes beside the model: before the config is taken. errors RP_ERR_CONFIG it has one · as rp__adapter_files_open */
rp_status rp__model_files_adapter(rp_model_files *files, const char *path);
/* The model's own directory or file; borrowed. */
const char *rp__model_files_base(const rp_model_files *files);
void rp__model_files_close(rp_model_files *files);
/* Taken over by the caller: rp__model_build takes it from there. */
rp_status rp__model_files_config(rp_model_files *files, rp_model_config *out);
/* The config of a config.json alone: `path` is the file or a directory that has one. */
rp_status rp__model_config_load(rp_ctx *ctx, const char *path, const rp_yaml_node *overrides, rp_report *report,
                                rp_model_config *out);

/* Every file of the weights, those of an adapter last, with its mark (safetensors/marks.h); `told` stops it by another status than RP_OK.
 * errors  RP_ERR_IO · RP_ERR_FORMAT · RP_ERR_MEMORY · of `told` */
typedef rp_status (*rp_file_marked)(void *user, const char *file, uint64_t mark);
rp_status rp__model_files_marks(const rp_model_files *files, rp_file_marked told, void *user);

/* Fill every parameter, or this rank's slice of it, without a word to others; adapters from their own files, fresh where they have none. A parameter that
 * is missing, a tensor that is no parameter of this model (but for buffers known to be
 * inert) and a shape that differs are errors that name both sides; shapes are checked before the first byte is written.
 * Does nothing in a shapes-only context. errors RP_ERR_FORMAT · RP_ERR_SHAPE · RP_ERR_UNSUPPORTED · RP_ERR_IO */
rp_status rp__model_load(rp_model *model, rp_model_files *files);

/* After rp__model_load: the files had no head (a bare encoder), and it is fresh, drawn as by rp__model_init from the context's seed. */
bool rp__model_files_fresh_head(const rp_model_files *files);

/* After rp__model_load of the text of a wrapper: what of its files is no text, and was not read. */
typedef struct { int64_t tensors, bytes; } rp_left_out;
rp_left_out rp__model_files_left_out(const rp_model_files *files);
/* "'gemma3' is read as its text model, 'gemma3_text': 439 tensors of other parts, 838 bytes (…), are left out"; false where there are none. */
#define RP_LEFT_OUT_CHARS 256
bool rp__model_left_out_text(const rp_model *model, rp_left_out left_out, char out[RP_LEFT_OUT_CHARS]);

/* Fresh weights: normal(0, init_std), norms 1, biases 0, drawn by Philox from (seed, parameter path, element); the same for
 * both dtypes up to rounding, and in any slice. */
void rp__model_init(rp_model *model, uint64_t seed);

/* Write config.json and model.safetensors, adapters added into their layers' weights (sharded with an index above 5 GB), under transformers'
 * names into `directory`, which exists. The dtype field of config.json is the parameters'. Where weights are sharded all ranks call it: the first one
 * writes, and
 * holds a window of what is another's (class comm, from the pool). errors RP_ERR_IO · RP_ERR_META · on one rank, on all of them */
rp_status rp__model_export(rp_model *model, const char *directory);
/* As export, with another most bytes of data a file; 0: 5 GB. errors RP_ERR_ARG below 0 */
rp_status rp__model_export_shards(rp_model *model, const char *directory, int64_t max_shard_bytes);
/* What else of the folder `source` belongs to the model and does not change with its weights: generation_config.json, where it has
 * one. One rank calls it. errors RP_ERR_IO · RP_ERR_FORMAT larger than 1 MiB */
rp_status rp__model_carry(rp_ctx *ctx, const char *source, const char *directory);

/* For a path where nothing is: how to get the model that the hub may have under that name; "" if it is no name of one. */
#define RP_HUB_HINT_CHARS 320
const char *rp__hub_hint(const char *path, char out[RP_HUB_HINT_CHARS]);

#endif
