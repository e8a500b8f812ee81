/* models/called.c -- globs in the words of a family's files, by the table that loads its weights. */
#include "models/family.h"

#include <string.h>

/* With the prefix or without. */
static bool fits(const rp_family *f, const char *name, const char *glob, rp_called how)
{
    size_t n = f->prefix ? strlen(f->prefix) : 0;

    return rp__path_called(name, glob, how) || (n && !strncmp(name, f->prefix, n) && rp__path_called(name + n, glob, how));
}

static bool is_called(const rp_family *f, int64_t pieces, const char *path, const char *glob, rp_called how)
{
    char name[RP_WEIGHT_NAME_CHARS];
    bool in_pieces = true;

    for (int64_t i = 0; i == 0 || (in_pieces && i < pieces); i++)
        if (rp__module_name_theirs(f->name, f->n_names, path, i, name, &in_pieces) && fits(f, name, glob, how)) return true;
    return false;
}

/* What is around it in our tree counts as well as what is around it in theirs. */
bool rp__family_calls(const rp_family *f, int64_t pieces, const char *path, const char *glob, rp_called how)
{
    char at[RP_WEIGHT_NAME_CHARS];

    if (snprintf(at, sizeof at, "%s", path) >= (int)sizeof at) return false;
    for (;;) {
        if (is_called(f, pieces, at, glob, how)) return true;
        char *dot = strrchr(at, '.');
        if (how != RP_CALLED_WITHIN || !dot) return false;
        *dot = 0;
    }
}
