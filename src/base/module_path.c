/* base/module_path.c -- matches a path with a glob; finds the layer number in a path. */
#include "base/module_path.h"

#include "base/base.h"

static bool names_one_above(const char *path, const char *glob)
{
    char above[RP_MODULE_PATH_CHARS];

    snprintf(above, sizeof above, "%s", path);
    for (char *dot = strrchr(above, '.'); dot; dot = strrchr(above, '.')) {
        *dot = 0;
        if (rp__glob(glob, above)) return true;
    }
    return false;
}

static bool names_an_end(const char *path, const char *glob)
{
    for (const char *dot = strchr(path, '.'); dot; dot = strchr(dot + 1, '.'))
        if (rp__glob(glob, dot + 1)) return true;
    return false;
}

bool rp__path_called(const char *path, const char *glob, rp_called how)
{
    if (rp__glob(glob, path)) return true;
    if (how == RP_CALLED_WITHIN) return names_one_above(path, glob);
    return how == RP_CALLED_AT_END && names_an_end(path, glob);
}

bool rp_path_layer(const char *path, int64_t *layer)
{
    if (!path || !layer) return false;
    char number[32];

    for (const char *part = path; *part; part += strcspn(part, "."), part += *part == '.') {
        size_t n = strcspn(part, "."), digits = strspn(part, "0123456789");
        if (!n || digits != n || n >= sizeof number) continue;
        snprintf(number, sizeof number, "%.*s", (int)n, part);
        if (rp__parse_int(number, 0, INT64_MAX, layer)) return true;
    }
    return false;
}
