/* train/state_json.c -- the text of state.json and the names of states. */
#include "train/state_json.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEX_CHARS = 17 };

static const char *hex(char out[HEX_CHARS], uint64_t value)
{
    snprintf(out, HEX_CHARS, "%016" PRIx64, value);
    return out;
}

static bool unhex(const json_t *value, uint64_t *out)
{
    const char *text = json_string_value(value);
    char *end;

    if (!text || strlen(text) != HEX_CHARS - 1 || strspn(text, "0123456789abcdef") != HEX_CHARS - 1) return false;
    *out = strtoull(text, &end, 16);
    return true;
}

static uint64_t text_hash(const char *text) { return rp__hash(text, strlen(text), RP_HASH_SEED); }

/* Of the object as it is now, "checksum" left out. False without memory. */
static bool object_checksum(const json_t *root, uint64_t *out)
{
    json_t *rest = json_copy((json_t *)root);
    char *text   = NULL;

    if (rest) json_object_del(rest, "checksum");
    if (rest) text = json_dumps(rest, JSON_COMPACT | JSON_SORT_KEYS);
    if (text) *out = text_hash(text);
    json_decref(rest);
    free(text);
    return text != NULL;
}

static json_t *tensors_object(const rp_state_tensor *tensors, const uint64_t *checksums, int n)
{
    json_t *object = json_object();
    char text[HEX_CHARS];

    for (int i = 0; object && i < n; i++) {
        if (!json_object_set_new(object, tensors[i].name, json_string(hex(text, checksums[i])))) continue;
        json_decref(object);
        object = NULL;
    }
    return object;
}

static json_t *build(const rp_state_info *info, const rp_state_tensor *tensors, const uint64_t *checksums, int n)
{
    char seed[HEX_CHARS], data[HEX_CHARS], recipe[HEX_CHARS], sum[HEX_CHARS];
    json_t *table = tensors_object(tensors, checksums, n);
    json_t *root =
        !table ? NULL
               : json_pack("{s:i, s:s, s:I, s:I, s:I, s:s, s:s, s:s, s:s, s:o}", "format", RP_STATE_FORMAT, "reprise",
                           rp_version(), "step", (json_int_t)info->step, "epoch", (json_int_t)info->epoch, "samples",
                           (json_int_t)info->samples, "seed", hex(seed, info->seed), "data_hash", hex(data, info->data_hash),
                           "recipe", info->recipe, "recipe_hash", hex(recipe, text_hash(info->recipe)), "tensors", table);
    uint64_t checksum;

    if (root && object_checksum(root, &checksum) && !json_object_set_new(root, "checksum", json_string(hex(sum, checksum))))
        return root;
    json_decref(root);
    return NULL;
}

char *rp__state_json_text(const rp_state_info *info, const rp_state_tensor *tensors, const uint64_t *checksums, int n)
{
    json_t *root = build(info, tensors, checksums, n);
    char *text   = root ? json_dumps(root, JSON_INDENT(1)) : NULL;

    json_decref(root);
    return text;
}

static bool read_int(const json_t *root, const char *key, int64_t *out)
{
    const json_t *value = json_object_get(root, key);

    *out = json_integer_value(value);
    return json_is_integer(value) && *out >= 0;
}

/* NULL when all is well, else what is wrong. */
static const char *examine(const json_t *root, rp_state_info *info)
{
    uint64_t recorded, found;
    int64_t format;

    if (!json_is_object(root)) return "is not a JSON object";
    if (!read_int(root, "format", &format) || format != RP_STATE_FORMAT) return "is of a format this version does not read";
    if (!unhex(json_object_get(root, "checksum"), &recorded)) return "has no checksum";
    if (!object_checksum(root, &found) || found != recorded) return "does not match its checksum";
    info->recipe = json_string_value(json_object_get(root, "recipe"));
    if (!info->recipe) return "has no recipe";
    if (!read_int(root, "step", &info->step) || !read_int(root, "epoch", &info->epoch) ||
        !read_int(root, "samples", &info->samples))
        return "lacks step, epoch or samples";
    if (!unhex(json_object_get(root, "seed"), &info->seed) || !unhex(json_object_get(root, "data_hash"), &info->data_hash))
        return "lacks seed or data_hash";
    return json_is_object(json_object_get(root, "tensors")) ? NULL : "lists no tensors";
}

rp_status rp__state_json_parse(rp_ctx *ctx, const char *path, const char *text, int64_t bytes, json_t **out,
                               rp_state_info *info)
{
    json_error_t e;
    json_t *root = json_loadb(text, (size_t)bytes, 0, &e);

    RP_CHECK(ctx, root, RP_ERR_FORMAT, "the state file '%s' is damaged: line %d: %s", path, e.line, e.text);
    const char *wrong = examine(root, info);
    if (!wrong) {
        *out = root;
        return RP_OK;
    }
    json_decref(root);
    return rp__fail(ctx, RP_ERR_FORMAT, "the state file '%s' %s", path, wrong);
}

bool rp__state_json_checksum(const json_t *root, const char *name, uint64_t *out)
{
    return unhex(json_object_get(json_object_get(root, "tensors"), name), out);
}

/* ---- names ---- */

char *rp__state_name(rp_ctx *ctx, const char *output_dir, const char *pattern, int64_t step)
{
    char name[64];

    snprintf(name, sizeof name, "%" PRId64, step);
    int64_t room = (int64_t)(strlen(output_dir) + strlen(pattern) + strlen(name) + 16);
    char *path   = rp__host_alloc(ctx, room);
    const char *at = strchr(pattern, '#');
    if (path)
        snprintf(path, (size_t)room, "%s/state%s%.*s%s%s", output_dir, *pattern ? "/" : "", at ? (int)(at - pattern) : 0,
                 pattern, at ? name : "", at ? at + 1 : "");
    return path;
}

static bool step_of(const char *name, int64_t *step)
{
    const char *digits = name + 5;

    return !strncmp(name, "step-", 5) && *digits && strspn(digits, "0123456789") == strlen(digits) &&
           rp__parse_int(digits, 0, INT64_MAX, step) && (digits[0] != '0' || !digits[1]);
}

static int newest_first(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return x < y ? 1 : x > y ? -1 : 0;
}

static rp_status collect(rp_ctx *ctx, DIR *dir, int64_t **steps, int *n)
{
    const struct dirent *entry;
    int room = 0;
    int64_t step;

    while ((entry = readdir(dir))) {
        if (!step_of(entry->d_name, &step)) continue;
        if (*n == room) {
            int64_t size   = (int64_t)sizeof **steps;
            int64_t *grown = rp__host_grow(ctx, *steps, room * size, (2 * room + 16) * size);
            if (!grown) return RP_ERR_MEMORY;
            *steps = grown;
            room   = 2 * room + 16;
        }
        (*steps)[(*n)++] = step;
    }
    if (*n) qsort(*steps, (size_t)*n, sizeof **steps, newest_first);
    return RP_OK;
}

rp_status rp__state_list(rp_ctx *ctx, const char *output_dir, int64_t **steps, int *n)
{
    char *folder = rp__state_name(ctx, output_dir, "", 0);
    DIR *dir     = folder ? opendir(folder) : NULL;
    rp_status status = RP_OK;

    *steps = NULL;
    *n     = 0;
    if (!folder) status = RP_ERR_MEMORY;
    else if (dir) status = collect(ctx, dir, steps, n);
    else if (errno != ENOENT) status = rp__fail(ctx, RP_ERR_IO, "cannot list '%s': %s", folder, strerror(errno));
    if (dir) closedir(dir);
    rp__release(folder);
    if (status == RP_OK) return RP_OK;
    rp__release(*steps);
    *steps = NULL;
    return status;
}
