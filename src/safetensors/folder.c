/* safetensors/folder.c -- opens a folder of safetensors files: finds the files of the model and reads the index that lists them.
 *
 * Shard names in an index are untrusted input: each must be a plain file name in the same folder. The set keeps exactly the tensors that
 * the index lists, each from the shard that the index names.
 */
#include "safetensors/internal.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- the index ---- */

static bool is_plain_name(const char *name)
{
    return *name && !strchr(name, '/') && strcmp(name, ".") && strcmp(name, "..");
}

static rp_status check_weight_map(rp_ctx *ctx, const char *label, json_t *weight_map)
{
    const char *key;
    json_t *value;

    RP_CHECK(ctx, json_is_object(weight_map), RP_ERR_FORMAT, "'%s' has no object 'weight_map'", label);
    json_object_foreach(weight_map, key, value)
        RP_CHECK(ctx, json_is_string(value) && is_plain_name(json_string_value(value)), RP_ERR_FORMAT,
                 "'%s': the shard of tensor '%.200s' is not a file name in its folder", label, key);
    return RP_OK;
}

rp_status rp__st_index_parse(rp_ctx *ctx, const char *label, const char *text, int64_t bytes, json_t **weight_map)
{
    json_t *top;

    RP_TRY(rp__st_json(ctx, label, text, bytes, &top));
    json_t *map      = json_object_get(top, "weight_map");
    rp_status status = check_weight_map(ctx, label, map);
    if (status == RP_OK) *weight_map = json_incref(map);
    json_decref(top);
    return status;
}

/* ---- the shards of an index ---- */

static rp_status add_shard(rp_safetensors *set, const char *folder, const char *name)
{
    char *path = rp__path_join(set->ctx, folder, name);

    if (!path) return RP_ERR_MEMORY;
    rp_status status = rp__st_add_file(set, path, NULL);
    rp__release(path);
    return status;
}

/* Opens each shard once and fills `shards`: shard name -> index of its file. */
static rp_status add_shards(rp_safetensors *set, const char *folder, json_t *weight_map, json_t *shards)
{
    const char *key;
    json_t *value;

    json_object_foreach(weight_map, key, value) {
        const char *name = json_string_value(value);
        if (json_object_get(shards, name)) continue;
        RP_TRY(add_shard(set, folder, name));
        RP_CHECK(set->ctx, !json_object_set_new(shards, name, json_integer(set->n_files - 1)), RP_ERR_MEMORY,
                 "cannot allocate memory for the shards of '%.200s'", folder);
    }
    return RP_OK;
}

static int64_t shard_of(const json_t *weight_map, const json_t *shards, const char *tensor)
{
    const char *name = json_string_value(json_object_get(weight_map, tensor));

    return name ? json_integer_value(json_object_get(shards, name)) : -1;
}

/* Drops tensors that the index does not list. Every tensor of the index must then be present; the first missing one is reported. */
static rp_status keep_listed(rp_safetensors *set, const char *label, json_t *weight_map, const json_t *shards)
{
    int64_t kept = 0;
    const char *key;
    json_t *value;

    for (int64_t i = 0; i < set->n_tensors; i++)
        if (shard_of(weight_map, shards, set->tensor[i].name) == set->tensor[i].file) set->tensor[kept++] = set->tensor[i];
    set->n_tensors = kept;
    if (kept == (int64_t)json_object_size(weight_map)) return RP_OK;
    rp__st_sort(set);
    json_object_foreach(weight_map, key, value)
        RP_CHECK(set->ctx, rp__safetensors_find(set, key), RP_ERR_FORMAT,
                 "'%s' lists tensor '%.200s' in '%.200s', which does not have it", label, key, json_string_value(value));
    return RP_OK;
}

static rp_status open_indexed(rp_safetensors *set, const char *folder, const char *index)
{
    json_t *weight_map = NULL, *shards = json_object();
    char *text         = NULL;
    int64_t bytes      = 0;
    rp_status status   = shards ? RP_OK : rp_fail(set->ctx, RP_ERR_MEMORY, "cannot allocate memory for the shards of '%s'", index);

    if (status == RP_OK) status = rp__file_read(set->ctx, index, ST_MAX_INDEX_BYTES, &text, &bytes);
    if (status == RP_OK) status = rp__st_index_parse(set->ctx, index, text, bytes, &weight_map);
    if (status == RP_OK) status = add_shards(set, folder, weight_map, shards);
    if (status == RP_OK) status = keep_listed(set, index, weight_map, shards);
    json_decref(weight_map);
    json_decref(shards);
    rp__release(text);
    return status;
}

/* ---- PyTorch pickles ---- */

bool rp__safetensors_is_pickle(const char *name)
{
    static const char *const endings[] = { ".bin", ".pth", ".pt", ".ckpt" };

    for (int i = 0; i < RP_COUNT(endings); i++)
        if (rp__ends_with(name, endings[i])) return true;
    return false;
}

rp_status rp__safetensors_refuse_pickle(rp_ctx *ctx, const char *folder, const char *name)
{
    return rp_fail(ctx, RP_ERR_UNSUPPORTED, "'%.200s%s%.100s' is PyTorch's pickle, which may run code and is not read; transformers turns "
                   "its folder into safetensors: from_pretrained(folder).save_pretrained(folder)",
                   folder ? folder : "", folder ? "/" : "", name);
}

/* ---- a folder with neither model.safetensors nor an index ---- */

static int is_safetensors(const struct dirent *entry)
{
    const char *dot = strrchr(entry->d_name, '.');

    return entry->d_name[0] != '.' && dot && !strcmp(dot, ".safetensors");
}

static int bytewise(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

static int is_pickled(const struct dirent *entry) { return entry->d_name[0] != '.' && rp__safetensors_is_pickle(entry->d_name); }

static void free_entries(struct dirent **entry, int n)
{
    for (int i = 0; i < n; i++) free(entry[i]);
    free(entry);
}

static rp_status none_found(rp_ctx *ctx, const char *folder)
{
    struct dirent **entry = NULL;
    int n                 = scandir(folder, &entry, is_pickled, bytewise);
    rp_status status      = n > 0 ? rp__safetensors_refuse_pickle(ctx, folder, entry[0]->d_name)
                                  : rp_fail(ctx, RP_ERR_MATCH, "cannot find a .safetensors file in '%s'", folder);

    free_entries(entry, n);
    return status;
}

static rp_status open_all(rp_safetensors *set, const char *folder)
{
    struct dirent **entry = NULL;
    int n                 = scandir(folder, &entry, is_safetensors, bytewise);
    rp_status status      = RP_OK;

    RP_CHECK(set->ctx, n >= 0, RP_ERR_IO, "cannot list '%s': %s", folder, strerror(errno));
    if (n == 0) status = none_found(set->ctx, folder);
    for (int i = 0; i < n && status == RP_OK; i++) status = add_shard(set, folder, entry[i]->d_name);
    free_entries(entry, n);
    return status;
}

rp_status rp__st_open_folder(rp_safetensors *set, const char *folder)
{
    char *single = rp__path_join(set->ctx, folder, ST_SINGLE_NAME), *index = NULL;
    rp_status status = RP_ERR_MEMORY;

    if (single) index = rp__path_join(set->ctx, folder, ST_INDEX_NAME);
    if (index) {
        if (rp__file_exists(single)) status = rp__st_add_file(set, single, NULL);
        else if (rp__file_exists(index)) status = open_indexed(set, folder, index);
        else status = open_all(set, folder);
    }
    RP_RELEASE(single, index);
    return status;
}
