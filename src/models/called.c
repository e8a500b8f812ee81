/* models/called.c -- matches globs against names in a family's files, with the table that loads its weights. */
#include "models/wrapper.h"

#include <string.h>

/* Tries the name in a wrapper's files under each of its prefixes. */
static bool fits_outside(const rp_wrapper *w, const char *name, const char *glob, rp_called how)
{
    char dotted[RP_WEIGHT_NAME_CHARS], outside[RP_WEIGHT_NAME_CHARS];

    if (snprintf(dotted, sizeof dotted, "%s.", name) >= (int)sizeof dotted) return false;
    for (const rp_prefix_pair *p = w->prefix; p->theirs; p++) {
        if (!rp__prefix_outside(p, dotted, outside)) continue;
        outside[strlen(outside) - 1] = 0;
        if (rp__path_called(outside, glob, how)) return true;
    }
    return false;
}

/* Tries the name with and without the family's prefix. */
static bool fits(const rp_model_config *c, const char *name, const char *glob, rp_called how)
{
    const rp_family *f = c->family;
    size_t n           = f->prefix ? strlen(f->prefix) : 0;

    if (rp__path_called(name, glob, how) || (c->wrapper && fits_outside(c->wrapper, name, glob, how))) return true;
    return n && !strncmp(name, f->prefix, n) && rp__path_called(name + n, glob, how);
}

static bool is_called(const rp_model_config *c, const char *path, const char *glob, rp_called how)
{
    const rp_family *f = c->family;
    char name[RP_WEIGHT_NAME_CHARS];
    bool in_pieces = true;

    for (int64_t i = 0; i == 0 || (in_pieces && i < c->experts); i++)
        if (rp__module_name_theirs(f->name, f->n_names, path, i, name, &in_pieces) && fits(c, name, glob, how)) return true;
    return false;
}

/* For RP_CALLED_WITHIN the parents in our tree are tried as well as those in theirs. */
bool rp__model_config_calls(const rp_model_config *c, const char *path, const char *glob, rp_called how)
{
    char at[RP_WEIGHT_NAME_CHARS];

    if (snprintf(at, sizeof at, "%s", path) >= (int)sizeof at) return false;
    for (;;) {
        if (is_called(c, at, glob, how)) return true;
        char *dot = strrchr(at, '.');
        if (how != RP_CALLED_WITHIN || !dot) return false;
        *dot = 0;
    }
}
