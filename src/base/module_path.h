/* base/module_path.h -- paths of modules, and what a glob says of them.
 *
 * Here a model is tok_embeddings, layers.N.{attn_norm, attn.*, post_attn_norm, mlp_norm, mlp.*, post_mlp_norm}, norm, output, whatever
 * its family; norms that a family has not are not there. What files call the same modules is asked of their tree (policy/names.h). */
#ifndef RP_MODULE_PATH_H
#define RP_MODULE_PATH_H

#include <stdbool.h>

#define RP_MODULE_PATH_CHARS 512

typedef enum {
    RP_CALLED,                          /* the glob names the path … */
    RP_CALLED_WITHIN,                   /* … or one above it: "layers.*.mlp" and "layers.0.mlp.gate" */
    RP_CALLED_AT_END                    /* … or an end of it: "mlp.gate" */
} rp_called;

bool rp__path_called(const char *path, const char *glob, rp_called how);

#endif
