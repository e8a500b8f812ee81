/* policy/names.h -- matches globs with module names: Reprise's own, and those in the files of a model.
 *
 *   "layers.0.mlp_norm"     Reprise's name, in every family
 *   "model.layers.0.post_attention_layernorm"    the same in Llama's files; in Gemma's and OLMo 2's that is layers.0.post_attn_norm
 *
 * If a glob matches a module or parameter by Reprise's names, these names count. Otherwise it is compared with the names in the model's
 * files, which the family knows from the table for loading weights. A prefix common to all of them ("model.") may be omitted.
 */
#ifndef RP_POLICY_NAMES_H
#define RP_POLICY_NAMES_H

#include "base/module_path.h"
#include "reprise/reprise.h"

/* Does the glob match the module or parameter at `path`, in the tree that contains `in`? in NULL: compare only Reprise's names
 * (nn/module_names.c). */
bool rp__module_called(const rp_module *in, const char *path, const char *glob, rp_called how);

#endif
