/* policy/names.h -- what modules are called: by us, and in the files their model is read from.
 *
 *   "layers.0.mlp_norm"     ours, in every family
 *   "model.layers.0.post_attention_layernorm"    the same in Llama's files; in Gemma's and OLMo 2's that is layers.0.post_attn_norm
 *
 * A glob that names any module or parameter of a model in our words is meant so. Another is held against the names of the model's files,
 * which its family knows by the table that loads its weights; a prefix that all of them have ("model.") may be left away.
 */
#ifndef RP_POLICY_NAMES_H
#define RP_POLICY_NAMES_H

#include "base/module_path.h"
#include "reprise/reprise.h"

/* Is the module or parameter at `path` of the tree that `in` is part of called so? in NULL: our names alone (nn/module_names.c). */
bool rp__module_called(const rp_module *in, const char *path, const char *glob, rp_called how);

#endif
