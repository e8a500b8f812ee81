/* cli/hub/listing.c -- reads the hub's list of files from JSON and chooses the files that a model needs. */
#include "cli/hub/hub.h"
#include "base/json_text.h"

#include <fnmatch.h>
#include <jansson.h>

enum { MOST_FILES = 20000, NAME_CHARS = 1024, PART_CHARS = 240, DEPTH_FLAGS = JSON_REJECT_DUPLICATES };

/* ---- checks of untrusted names ---- */

static bool part_is_safe(const char *part, size_t n)
{
    if (!n || n > PART_CHARS) return false;                 /* leaves room for ".part" */
    if (part[0] == '.' && (n == 1 || (n == 2 && part[1] == '.'))) return false;
    uint32_t point;
    int bytes;
    for (size_t i = 0; i < n; i += (size_t)bytes)
        if (rp__shown(part + i, n - i, &bytes, &point) != RP_SHOWN_AS_IS || point == '\\') return false;
    return true;
}

bool hub_name_is_safe(const char *name)
{
    if (strlen(name) > NAME_CHARS || rp__ends_with(name, ".part")) return false;
    for (const char *part = name;;) {
        size_t n = strcspn(part, "/");
        if (!part_is_safe(part, n)) return false;
        if (!part[n]) return true;
        part += n + 1;
    }
}

hub_digest_kind hub_digest_parse(const char *text, char out[HUB_DIGEST_CHARS])
{
    size_t n;

    out[0] = 0;
    if (!strncmp(text, "W/", 2)) text += 2;
    if (*text == '"') text++;
    n = strspn(text, "0123456789abcdef");
    if ((text[n] && strcmp(text + n, "\"")) || (n != 40 && n != 64)) return HUB_NO_DIGEST;
    snprintf(out, HUB_DIGEST_CHARS, "%.*s", (int)n, text);
    return n == 40 ? HUB_GIT_SHA1 : HUB_SHA256;
}

/* ---- the answer ---- */

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

/* Large files (LFS) have a sha256; files in git have the sha1 of their blob. */
static void read_digest(const json_t *entry, hub_file *file)
{
    const json_t *lfs = json_object_get(entry, "lfs"), *size = json_object_get(json_is_object(lfs) ? lfs : entry, "size");
    const char *text  = !json_is_object(lfs) ? text_of(entry, "blobId") : *text_of(lfs, "sha256") ? text_of(lfs, "sha256") : text_of(lfs, "oid");

    file->kind  = hub_digest_parse(text, file->digest);
    file->bytes = json_is_integer(size) && json_integer_value(size) >= 0 ? json_integer_value(size) : -1;
}

static rp_status read_file(rp_bump *bump, const json_t *entry, hub_file *file)
{
    const char *name = json_string_value(json_object_get(entry, "rfilename"));

    RP_CHECK(bump->ctx, name, RP_ERR_FORMAT, "the hub's answer is not a list of files: one has no name");
    RP_CHECK(bump->ctx, hub_name_is_safe(name), RP_ERR_FORMAT, "the hub lists a file name that leads out of the folder or is not valid");
    if (!(file->name = rp__bump_text(bump, name, (int64_t)strlen(name)))) return RP_ERR_MEMORY;
    read_digest(entry, file);
    return RP_OK;
}

static rp_status read_files(rp_bump *bump, const json_t *answer, hub_listing *out)
{
    const json_t *list = json_object_get(answer, "siblings");

    RP_CHECK(bump->ctx, json_is_array(list), RP_ERR_FORMAT, "the hub's answer is not a list of files: 'siblings' is missing");
    RP_CHECK(bump->ctx, json_array_size(list) <= MOST_FILES, RP_ERR_FORMAT, "the hub lists %zu files, more than %d", json_array_size(list), MOST_FILES);
    out->n    = (int64_t)json_array_size(list);
    out->file = rp__bump_alloc(bump, (out->n + 1) * (int64_t)sizeof *out->file);
    if (!out->file) return RP_ERR_MEMORY;
    for (int64_t i = 0; i < out->n; i++) RP_TRY(read_file(bump, json_array_get(list, (size_t)i), &out->file[i]));
    if (hub_digest_parse(text_of(answer, "sha"), out->commit) != HUB_GIT_SHA1) out->commit[0] = 0;
    return RP_OK;
}

rp_status hub_listing_read(rp_bump *bump, const char *text, int64_t bytes, hub_listing *out)
{
    json_error_t error;
    json_t *answer = rp__json_read(text, (size_t)bytes, DEPTH_FLAGS, &error);

    *out = (hub_listing){ .n = 0 };
    RP_CHECK(bump->ctx, answer, RP_ERR_FORMAT, "the hub's answer is not JSON: line %d: %s", error.line, error.text);
    rp_status status = read_files(bump, answer, out);
    json_decref(answer);
    return status;
}

/* ---- the files of a model ---- */

/* Weights are chosen separately, because a repository may have them under several names. */
static bool is_needed(const char *name)
{
    static const char *const needed[] = { "config.json", "generation_config.json", "tokenizer*", "special_tokens_map.json", "added_tokens.json",
                                          "chat_template*", "vocab.json", "vocab.txt", "merges.txt", "adapter_config.json" };

    for (int i = 0; i < RP_COUNT(needed); i++)
        if (!fnmatch(needed[i], name, 0)) return !strchr(name, '/');
    return false;
}

static hub_file *listing_find(hub_listing *listing, const char *name)
{
    for (int64_t i = 0; i < listing->n; i++)
        if (!strcmp(listing->file[i].name, name)) return &listing->file[i];
    return NULL;
}

/* Choose model.safetensors, or else its shards with their index, or else all safetensors at the top level. Returns the number of files. */
static int64_t choose_weights(hub_listing *listing)
{
    bool whole = listing_find(listing, "model.safetensors"), index = listing_find(listing, "model.safetensors.index.json");
    const char *pattern = whole ? "model.safetensors" : index ? "model-*.safetensors" : "*.safetensors";
    int64_t n           = 0;

    for (int64_t i = 0; i < listing->n; i++) {
        hub_file *f = &listing->file[i];
        if (strchr(f->name, '/') || fnmatch(pattern, f->name, 0)) continue;
        f->chosen = true;
        n++;
    }
    if (index && !whole) listing_find(listing, "model.safetensors.index.json")->chosen = true;
    return n;
}

/* An error that names a few files for --file. */
static rp_status no_weights(rp_ctx *ctx, const hub_listing *listing)
{
    char names[512] = "";
    size_t used     = 0;
    int n           = 0;

    for (int64_t i = 0; i < listing->n && n < 4 && used < 400; i++) {
        if (!rp__ends_with(listing->file[i].name, ".gguf")) continue;
        used += (size_t)snprintf(names + used, sizeof names - used, "%s'%.90s'", n++ ? ", " : "", listing->file[i].name);
    }
    RP_CHECK(ctx, !n, RP_ERR_MATCH, "the repository has no *.safetensors; choose a file of it with --file: %s", names);
    return rp_fail(ctx, RP_ERR_MATCH, "the repository has no *.safetensors and no *.gguf");
}

static rp_status no_file(rp_ctx *ctx, const hub_listing *listing, const char *name)
{
    const char **names = rp__host_alloc(ctx, (listing->n + 1) * (int64_t)sizeof *names);
    char hint[RP_HINT_CHARS];

    if (!names) return RP_ERR_MEMORY;
    for (int64_t i = 0; i < listing->n; i++) names[i] = listing->file[i].name;
    rp_status status = rp_fail(ctx, RP_ERR_MATCH, "the repository has no file '%s'%s", name, rp__hint(name, names, hint));
    rp__release(names);
    return status;
}

rp_status hub_choose(rp_ctx *ctx, hub_listing *listing, const char *name)
{
    hub_file *alone = name ? listing_find(listing, name) : NULL;

    if (name && !alone) return no_file(ctx, listing, name);
    if (alone) {
        alone->chosen = true;
        return RP_OK;
    }
    if (!choose_weights(listing)) return no_weights(ctx, listing);
    for (int64_t i = 0; i < listing->n; i++) listing->file[i].chosen |= is_needed(listing->file[i].name);
    return RP_OK;
}

static rp_status check_map(rp_ctx *ctx, const hub_listing *listing, const json_t *index)
{
    const json_t *map = json_object_get(index, "weight_map");
    const char *tensor;
    json_t *place;

    RP_CHECK(ctx, json_is_object(map), RP_ERR_FORMAT, "the index of the weights has no 'weight_map'");
    json_object_foreach((json_t *)map, tensor, place) {
        const char *name = json_string_value(place);
        hub_file *file   = name ? listing_find((hub_listing *)listing, name) : NULL;
        bool shown       = name && hub_name_is_safe(name);
        RP_CHECK(ctx, file && file->chosen, RP_ERR_MATCH, "the index of the weights names %s%.128s%s, which the repository does not have",
                 shown ? "'" : "a file", shown ? name : "", shown ? "'" : "");
    }
    return RP_OK;
}

rp_status hub_check_index(rp_ctx *ctx, const hub_listing *listing, const char *text, int64_t bytes)
{
    json_error_t error;
    json_t *index = rp__json_read(text, (size_t)bytes, DEPTH_FLAGS, &error);

    RP_CHECK(ctx, index, RP_ERR_FORMAT, "the index of the weights is not JSON: line %d: %s", error.line, error.text);
    rp_status status = check_map(ctx, listing, index);
    json_decref(index);
    return status;
}
