/* state/json.c -- writes and parses the text of state.json. */
#include "state/parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_text.h"

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

static uint64_t text_hash(const char *text) { return rp__hash(text, strlen(text), RP_HASH_START); }

/* ---- writing ---- */

/* Joins the checksums with spaces. The caller must free() the result. Returns NULL if memory runs out. */
static char *checksums_text(int parts, const uint64_t *checksums)
{
    char *text = malloc((size_t)parts * HEX_CHARS + 1), number[HEX_CHARS];

    for (int p = 0; text && p < parts; p++) snprintf(text + (size_t)p * HEX_CHARS, HEX_CHARS + 1, "%s ", hex(number, checksums[p]));
    if (text) text[(size_t)parts * HEX_CHARS - 1] = 0;
    return text;
}

static json_t *shape_array(int ndim, const int64_t *dim)
{
    json_t *shape = json_array();
    bool failed   = false;

    for (int d = 0; d < ndim; d++) failed |= json_array_append_new(shape, json_integer(dim[d])) != 0;
    if (!failed) return shape;
    json_decref(shape);
    return NULL;
}

/* Takes ownership of the shape. `checksum`: for format 2, else NULL. Returns NULL if memory runs out or the shape is NULL. */
static json_t *entry_object(rp_safetensors_dtype dtype, json_t *shape, int64_t room, const char *checksum)
{
    return shape ? json_pack("{s:s, s:o, s:I, s:s*}", "dtype", rp__safetensors_dtype_name(dtype), "shape", shape, "room", (json_int_t)room,
                             "checksums", checksum) : NULL;
}

/* checksum: of the only part; NULL: there are several parts. */
static json_t *entry_of(const rp_state_tensor *t, int parts, const uint64_t *checksum)
{
    const rp_meta *whole = rp__state_whole(t);
    int64_t room         = parts > 1 ? rp__state_slice(t).room : rp__slice_of(rp_meta_elems(whole), 0, 1).room;
    char text[HEX_CHARS];

    return entry_object(rp__safetensors_dtype_of(whole->dtype), shape_array(whole->ndim, whole->dim), room,
                        checksum ? hex(text, *checksum) : NULL);
}

static json_t *tensors_object(const rp_state_tensor *tensors, int n, int parts, const uint64_t *checksums)
{
    json_t *object = json_object();

    for (int i = 0; object && i < n; i++) {
        if (!json_object_set_new(object, tensors[i].name, entry_of(&tensors[i], parts, parts == 1 ? &checksums[i] : NULL))) continue;
        json_decref(object);
        object = NULL;
    }
    return object;
}

/* Returns NULL if memory runs out. */
static json_t *best_object(const rp_state_best *b)
{
    return json_pack("{s:I, s:f, s:f, s:I}", "step", (json_int_t)b->step, "loss", b->loss, "mark", b->mark, "waited", (json_int_t)b->waited);
}

/* sums: checksums of the parts; NULL: there is one part. */
static json_t *json_build(const rp_state_info *info, json_t *tensors, int parts, const char *sums)
{
    char seed[HEX_CHARS], data[HEX_CHARS], recipe[HEX_CHARS], sum[HEX_CHARS], frozen[HEX_CHARS];
    json_t *root =
        !tensors ? NULL
                 : json_pack("{s:i, s:s, s:I, s:I, s:I, s:s, s:s, s:s*, s:s*, s:s, s:s, s:I, s:i, s:s*, s:o}", "format", sums ? 3 : 2, "reprise",
                             rp_version(), "step", (json_int_t)info->step, "epoch", (json_int_t)info->epoch, "samples",
                             (json_int_t)info->samples, "seed", hex(seed, info->seed), "data_hash", hex(data, info->data_hash),
                             "frozen_mark", info->frozen_mark ? hex(frozen, info->frozen_mark) : NULL, "card", info->card,
                             "recipe", info->recipe, "recipe_hash", hex(recipe, text_hash(info->recipe)), "ranks",
                             (json_int_t)info->ranks, "parts", parts, "part_checksums", sums, "tensors", tensors);
    uint64_t checksum;
    bool validated = info->best.step || info->best.waited;

    if (root && validated && json_object_set_new(root, "best", best_object(&info->best))) {
        json_decref(root);
        return NULL;
    }
    if (root && rp__json_hash_without(root, "checksum", &checksum) && !json_object_set_new(root, "checksum", json_string(hex(sum, checksum))))
        return root;
    json_decref(root);
    return NULL;
}

char *rp__state_json_text(const rp_state_info *info, const rp_state_tensor *tensors, int n, int parts, const uint64_t *checksums)
{
    char *sums   = parts > 1 ? checksums_text(parts, checksums) : NULL;
    json_t *root = sums || parts == 1 ? json_build(info, tensors_object(tensors, n, parts, checksums), parts, sums) : NULL;
    char *text   = root ? rp__json_text(root, JSON_INDENT(1)) : NULL;

    free(sums);
    json_decref(root);
    return text;
}

/* ---- reading ---- */

static bool read_int(const json_t *root, const char *key, int64_t *out)
{
    const json_t *value = json_object_get(root, key);

    *out = json_integer_value(value);
    return json_is_integer(value) && *out >= 0;
}

static bool read_best(const json_t *best, rp_state_best *out)
{
    out->loss = json_number_value(json_object_get(best, "loss"));
    out->mark = json_number_value(json_object_get(best, "mark"));
    return read_int(best, "step", &out->step) && read_int(best, "waited", &out->waited) && json_is_number(json_object_get(best, "loss")) &&
           json_is_number(json_object_get(best, "mark"));
}

static const char *examine_optional(const json_t *root, rp_state_info *info)
{
    const json_t *frozen = json_object_get(root, "frozen_mark"), *card = json_object_get(root, "card"), *best = json_object_get(root, "best");

    if (frozen && !unhex(frozen, &info->frozen_mark)) return "has a wrong frozen_mark";
    if (card && !json_is_string(card)) return "has a wrong 'card'";
    info->card = json_string_value(card);
    return best && !read_best(best, &info->best) ? "has a wrong 'best'" : NULL;
}

/* Returns NULL if the object is valid, else the defect. */
static const char *examine(const json_t *root, rp_state_info *info)
{
    uint64_t recorded, found;
    int64_t format, parts;

    if (!json_is_object(root)) return "is not a JSON object";
    if (!read_int(root, "format", &format) || format < 1 || format > RP_STATE_FORMAT) return "is of a format this version does not read";
    if (!unhex(json_object_get(root, "checksum"), &recorded)) return "has no checksum";
    if (!rp__json_hash_without(root, "checksum", &found) || found != recorded) return "does not match its checksum";
    info->recipe = json_string_value(json_object_get(root, "recipe"));
    if (!info->recipe) return "has no recipe";
    if (!read_int(root, "step", &info->step) || !read_int(root, "epoch", &info->epoch) ||
        !read_int(root, "samples", &info->samples))
        return "lacks step, epoch or samples";
    if (!unhex(json_object_get(root, "seed"), &info->seed) || !unhex(json_object_get(root, "data_hash"), &info->data_hash))
        return "lacks seed or data_hash";
    const char *defect = examine_optional(root, info);
    if (defect) return defect;
    info->ranks = 1;
    if (format == 1 && json_object_get(root, "parts")) return "is of format 1, which has no parts";
    if (format > 1 && (!read_int(root, "ranks", &info->ranks) || !read_int(root, "parts", &parts) || parts < 1 || parts > INT32_MAX))
        return "lacks ranks or parts";
    return json_is_object(json_object_get(root, "tensors")) ? NULL : "lists no tensors";
}

rp_status rp__state_json_parse(rp_ctx *ctx, const char *path, const char *text, int64_t bytes, json_t **out,
                               rp_state_info *info)
{
    json_error_t e;
    json_t *root = rp__json_read(text, (size_t)bytes, 0, &e);

    RP_CHECK(ctx, root, RP_ERR_FORMAT, "the state file '%s' is damaged: line %d: %s", path, e.line, e.text);
    const char *wrong = examine(root, info);
    if (!wrong) {
        *out = root;
        return RP_OK;
    }
    json_decref(root);
    return rp_fail(ctx, RP_ERR_FORMAT, "the state file '%s' %s", path, wrong);
}

int rp__state_json_parts(const json_t *root)
{
    const json_t *parts = json_object_get(root, "parts");

    return parts ? (int)json_integer_value(parts) : 1;
}

bool rp__state_json_has_shapes(const json_t *root) { return json_object_get(root, "parts") != NULL; }

bool rp__state_json_update(json_t *root, const rp_safetensors *file)
{
    json_t *updated = json_object(), *checksum;
    const char *name;
    bool failed = false;

    json_object_foreach(json_object_get(root, "tensors"), name, checksum) {
        const rp_safetensor *t = rp__safetensors_find(file, name);
        failed |= !t || json_object_set_new(updated, name, entry_object(t->dtype, shape_array(t->ndim, t->dim), t->elems,
                                                                        json_string_value(checksum)));
    }
    return !json_object_set_new(root, "tensors", updated) && !failed;
}

static bool find_dtype(const json_t *name, rp_safetensors_dtype *out)
{
    for (int d = 0; json_is_string(name) && d < RP_ST_DTYPES; d++) {
        *out = (rp_safetensors_dtype)d;
        if (!strcmp(rp__safetensors_dtype_name(*out), json_string_value(name))) return true;
    }
    return false;
}

static bool read_shape(const json_t *shape, rp_state_entry *out)
{
    out->elems = 1;
    out->ndim  = (int)json_array_size(shape);
    if (!json_is_array(shape) || json_array_size(shape) > RP_SAFETENSORS_MAX_DIM) return false;
    for (int d = 0; d < out->ndim; d++) {
        const json_t *dim = json_array_get(shape, (size_t)d);
        out->dim[d]       = json_integer_value(dim);
        if (!json_is_integer(dim) || out->dim[d] < 0 || __builtin_mul_overflow(out->elems, out->dim[d], &out->elems)) return false;
    }
    return true;
}

/* Whether the text is one hexadecimal number per part, separated by spaces. */
static bool are_checksums(const char *text, int parts)
{
    if (!text || strlen(text) != (size_t)parts * HEX_CHARS - 1) return false;
    for (size_t i = 0; text[i]; i++)
        if (i % HEX_CHARS == HEX_CHARS - 1 ? text[i] != ' ' : !strchr("0123456789abcdef", text[i])) return false;
    return true;
}

static uint64_t checksum_at(const char *checksums, int part)
{
    char text[HEX_CHARS] = { 0 };

    memcpy(text, checksums + (size_t)part * HEX_CHARS, HEX_CHARS - 1);
    return strtoull(text, NULL, 16);
}

/* Whether the parts hold all elements, and each part has a checksum, either in the entry or in the index. */
static bool check_parts(const json_t *root, const json_t *entry, const rp_state_entry *e)
{
    int parts = rp__state_json_parts(root);
    int64_t all;

    if (e->room < 0 || __builtin_mul_overflow(e->room, (int64_t)parts, &all) || all < e->elems) return false;
    return rp__state_json_sums_parts(root) ? !json_object_get(entry, "checksums") : are_checksums(e->checksums, parts);
}

bool rp__state_json_sums_parts(const json_t *root) { return json_object_get(root, "part_checksums") != NULL; }

bool rp__state_json_part_checksum(const json_t *root, int part, uint64_t *out)
{
    const char *text = json_string_value(json_object_get(root, "part_checksums"));

    if (!are_checksums(text, rp__state_json_parts(root))) return false;
    *out = checksum_at(text, part);
    return true;
}

uint64_t rp__state_json_mark(const char *name, uint64_t checksum) { return rp__hash(&checksum, sizeof checksum, text_hash(name)); }

bool rp__state_json_tensor(const json_t *root, const char *name, rp_state_entry *out)
{
    const json_t *entry = json_object_get(json_object_get(root, "tensors"), name);

    *out = (rp_state_entry){ .checksums = json_string_value(json_object_get(entry, "checksums")) };
    return find_dtype(json_object_get(entry, "dtype"), &out->dtype) && read_shape(json_object_get(entry, "shape"), out) &&
           read_int(entry, "room", &out->room) && check_parts(root, entry, out);
}

rp_slice rp__state_entry_slice(const rp_state_entry *e, int part)
{
    int64_t first = e->room * part < e->elems ? e->room * part : e->elems, left = e->elems - first;

    return (rp_slice){ .room = e->room, .first = first, .count = left < e->room ? left : e->room };
}

uint64_t rp__state_entry_checksum(const rp_state_entry *e, int part) { return checksum_at(e->checksums, part); }
