/* base/module_path.h -- paths of modules, and matching them with globs.
 *
 * In this library every family uses the same names: tok_embeddings, layers.N.{attn_norm, attn.*, post_attn_norm, mlp_norm, mlp.*, post_mlp_norm},
 * norm, output. Norms that a family does not have are absent. policy/names.h translates the names that model files use for the same modules. */
#ifndef RP_MODULE_PATH_H
#define RP_MODULE_PATH_H

#include <stdbool.h>

#define RP_MODULE_PATH_CHARS 512

typedef enum {
    RP_CALLED,                          /* the glob matches the path … */
    RP_CALLED_WITHIN,                   /* … or a module above it: "layers.*.mlp" matches "layers.0.mlp.gate" */
    RP_CALLED_AT_END                    /* … or the end of the path: "mlp.gate" */
} rp_called;

bool rp__path_called(const char *path, const char *glob, rp_called how);

#endif
