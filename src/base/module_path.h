/* base/module_path.h -- paths of modules: names of other systems, and what a glob covers.
 *
 * Here a model is tok_embeddings, layers.N.{attn_norm, attn.*, post_attn_norm, mlp_norm, mlp.*, post_mlp_norm}, norm, output, whatever
 * its family; norms that a family has not are not there. */
#ifndef RP_MODULE_PATH_H
#define RP_MODULE_PATH_H

#include <stdbool.h>

#define RP_MODULE_PATH_CHARS 512

/* A Hugging Face path or glob ("model.layers.*.self_attn.q_proj", "transformer.h") in our names ("layers.*.attn.q",
 * "layers"); one of ours comes back as it is. A text of RP_MODULE_PATH_CHARS / 6 or
 * more comes back untranslated. */
const char *rp__module_path_translate(const char *path, char out[RP_MODULE_PATH_CHARS]);

/* Does the glob match the path or a module above it? "layers.*.mlp" covers "layers.0.mlp.gate". */
bool rp__module_path_covers(const char *glob, const char *path);

#endif
