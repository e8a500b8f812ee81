/* nn/module_names.c -- matches a glob with our paths, then with the names that the model's files use. */
#include "nn/module.h"
#include "policy/names.h"

/* Whether the glob matches any of our own names in the tree. The root has no name. */
static bool is_ours(const rp_module *root, const char *glob, rp_called how)
{
    rp_called exactly = how == RP_CALLED_WITHIN ? RP_CALLED : how;

    for (const rp_module *m = rp__module_next(root, root); m; m = rp__module_next(root, m)) {
        if (rp__path_called(m->path, glob, exactly)) return true;
        for (int i = 0; i < m->n_params; i++)
            if (rp__path_called(m->param[i].path, glob, exactly)) return true;
    }
    return false;
}

bool rp__module_called(const rp_module *in, const char *path, const char *glob, rp_called how)
{
    if (rp__path_called(path, glob, how)) return true;
    while (in && in->parent) in = in->parent;
    return in && in->type->called && in->type->called(in, path, glob, how) && !is_ours(in, glob, how);
}
