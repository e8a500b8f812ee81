/* models/hub_hint.c -- recognises a missing path that may be the name of a model on a hub: owner/name. */
#include "models/weights.h"

#include <stdio.h>
#include <string.h>

static bool is_name(const char *path)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.";
    const char *slash           = strchr(path, '/');

    if (!slash || slash == path || !slash[1] || path[0] == '.' || slash[1] == '.') return false;
    return strspn(path, letters) == (size_t)(slash - path) && strspn(slash + 1, letters) == strlen(slash + 1);
}

static bool is_file_name(const char *path)
{
    static const char *const ends[] = { ".gguf", ".safetensors", ".json", ".model", ".jinja" };

    for (int i = 0; i < RP_COUNT(ends); i++)
        if (rp__ends_with(path, ends[i])) return true;
    return false;
}

/* Folders of the recipes that come with Reprise; they are never owners on a hub. */
static bool is_own_folder(const char *path) { return !strncmp(path, "models/", 7) || !strncmp(path, "runs/", 5); }

const char *rp__hub_hint(const char *path, char out[RP_HUB_HINT_CHARS])
{
    out[0] = 0;
    if (is_name(path) && !is_file_name(path) && !is_own_folder(path) && strlen(path) < RP_HUB_HINT_CHARS / 2)
        snprintf(out, RP_HUB_HINT_CHARS, "; 'reprise download %s' gets a model of that name from the Hugging Face hub", path);
    return out;
}
