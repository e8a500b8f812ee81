/* recipe/settings.c -- applies KEY=VALUE and ~KEY to the tree, and resolves ${other.key}.
 *
 * A VALUE that begins with a bracket, a brace or a quote is YAML. Any other is a plain scalar, whatever characters it has, so globs and ${...} need
 * no quotes. References are resolved depth first, each node once; a cycle is an error. In a run of dollars before a brace, each pair becomes one
 * dollar. A remaining odd dollar makes a reference.
 */
#include "recipe/internal.h"

#include "base/bump.h"
#include "base/report.h"
#include "base/yaml.h"

enum { MARK_NEW, MARK_BUSY, MARK_DONE };

/* ---- settings ---- */

static rp_status parse_value(rp_recipe_reader *r, const char *origin, const char *text, rp_yaml_node **out)
{
    text += strspn(text, " ");
    if (text[0] && strchr("[{\"'", text[0])) {
        rp_status status = rp__yaml_parse(&r->recipe->doc, origin, text, (int64_t)strlen(text), r->report, out);
        if (status == RP_OK) (*out)->place.line = 0;
        return status;
    }
    size_t n   = strlen(text);
    *out = rp__yaml_scalar(&r->recipe->doc, text, false, (rp_place){ origin, 0 });
    if (!*out) return RP_ERR_MEMORY;
    while (n && text[n - 1] == ' ') n--;
    ((char *)(*out)->text)[n] = 0;
    return RP_OK;
}

/* Finds the map that holds the last part of `path`; `make`: creates missing maps. NULL if it does not exist, or after a reported error. */
static rp_status find_parent(rp_recipe_reader *r, rp_yaml_node *root, const char *path, rp_place place, bool make,
                             rp_yaml_node **out)
{
    rp_yaml_node *map = root;

    *out = NULL;
    for (const char *p = path, *dot; (dot = strchr(p, '.')); p = dot + 1) {
        char *name          = rp__bump_text(&r->recipe->doc.bump, p, dot - p);
        if (!name) return RP_ERR_MEMORY;
        rp_yaml_node *child = rp__yaml_find(map, name);
        if (!child && !make) return RP_OK;
        if (!child) {
            child = rp__yaml_new(&r->recipe->doc, RP_YAML_MAP, place);
            if (!child) return RP_ERR_MEMORY;
            child->key = name;
            rp__yaml_append(map, child);
        } else if (make && rp__yaml_is_null(child)) {
            child->kind = RP_YAML_MAP;
        } else if (child->kind != RP_YAML_MAP) {
            if (make)
                rp__report_error(r->report, place, "'%.*s' is not a map, so nothing can be set inside it", (int)(dot - path),
                                 path);
            return RP_OK;
        }
        map = child;
    }
    *out = map;
    return RP_OK;
}

static const char *last_part(const char *path)
{
    const char *dot = strrchr(path, '.');

    return dot ? dot + 1 : path;
}

rp_status rp__recipe_put(rp_recipe_reader *r, rp_yaml_node *root, const char *path, rp_yaml_node *node)
{
    rp_yaml_node *parent;

    RP_TRY(find_parent(r, root, path, node->place, true, &parent));
    if (!parent) return RP_OK;
    node->key = last_part(path);
    rp__yaml_remove(parent, node->key);
    rp__yaml_append(parent, node);
    return RP_OK;
}

static rp_status remove_key(rp_recipe_reader *r, rp_yaml_node *root, const char *path, rp_place place)
{
    rp_yaml_node *parent;
    char near[RP_KEY_CHARS];

    RP_TRY(find_parent(r, root, path, place, false, &parent));
    if (parent && rp__yaml_remove(parent, last_part(path))) return RP_OK;
    if (rp__recipe_find_key(path) >= 0 || rp__recipe_is_group(path) || rp__recipe_is_foreign(path)) return RP_OK;
    const char *found = rp__recipe_nearest_key(path, near);
    if (found) rp__report_error(r->report, place, "unknown key '%s' (did you mean '%s'?)", path, found);
    else rp__report_error(r->report, place, "unknown key '%s'", path);
    return RP_OK;
}

static bool is_path(const char *path)
{
    size_t n = strlen(path);

    return n && path[0] != '.' && path[n - 1] != '.' && !strstr(path, "..");
}

rp_status rp__recipe_apply_setting(rp_recipe_reader *r, rp_yaml_node *root, const char *setting)
{
    rp_bump *bump      = &r->recipe->doc.bump;
    const char *equals = strchr(setting, '=');
    bool removes       = setting[0] == '~';
    char *origin       = rp__bump_format(bump, "argument '%s'", setting);
    int64_t path_chars = (equals ? equals - setting : (int64_t)strlen(setting)) - removes;
    char *path         = rp__bump_text(bump, setting + removes, path_chars);
    rp_yaml_node *node;

    if (!origin || !path) return RP_ERR_MEMORY;
    rp_place place = { origin, 0 };
    if (!is_path(path) || removes == (equals != NULL)) {
        rp__report_error(r->report, place, "not of the form KEY=VALUE or ~KEY");
        return RP_OK;
    }
    if (removes) return remove_key(r, root, path, place);
    RP_TRY(parse_value(r, origin, equals + 1, &node));
    return rp__recipe_put(r, root, path, node);
}

/* ---- references ---- */

static rp_status resolve(rp_recipe_reader *r, rp_yaml_node *root, rp_yaml_node *node);

/* The node that `path` refers to: a node of the tree, or the default of a key that is not set. NULL after a reported error. */
static rp_status find_reference(rp_recipe_reader *r, rp_yaml_node *root, const char *path, rp_place place,
                                rp_yaml_node **out)
{
    rp_yaml_node *parent;
    char near[RP_KEY_CHARS];

    *out = NULL;
    RP_TRY(find_parent(r, root, path, place, false, &parent));
    *out = rp__yaml_find(parent, last_part(path));
    if (*out && (*out)->mark == MARK_BUSY) {
        rp__report_error(r->report, place, "'${%s}' refers to itself", path);
        *out = NULL;
        return RP_OK;
    }
    if (*out) return resolve(r, root, *out);
    int key = rp__recipe_find_key(path);
    if (key >= 0) {
        const char *text = rp__recipe_keys[key].fallback;
        return rp__yaml_parse(&r->recipe->doc, "default", text, (int64_t)strlen(text), r->report, out);
    }
    const char *found = rp__recipe_nearest_key(path, near);
    if (found) rp__report_error(r->report, place, "'${%s}' names no key (did you mean '%s'?)", path, found);
    else rp__report_error(r->report, place, "'${%s}' names no key", path);
    return RP_OK;
}

/* Finds the next reference in `text`: its beginning and its path. False if there is none. Pairs of dollars are skipped. */
static bool next_reference(const char *text, const char **begin, const char **path, size_t *path_chars)
{
    for (const char *p = text; (p = strchr(p, '$'));) {
        size_t dollars = strspn(p, "$");
        const char *brace = p + dollars, *end = *brace == '{' ? strchr(brace, '}') : NULL;
        if (end && dollars % 2) {
            *begin      = brace - 1;
            *path       = brace + 1;
            *path_chars = (size_t)(end - brace - 1);
            return true;
        }
        p = brace;
    }
    return false;
}

/* For a scalar that is a single reference: copies the node it refers to, which may be a map or a list. */
static rp_status replace_whole(rp_recipe_reader *r, rp_yaml_node *root, rp_yaml_node *node, const char *path)
{
    rp_yaml_node *target;

    RP_TRY(find_reference(r, root, path, node->place, &target));
    if (!target) return RP_OK;
    rp_yaml_node *copy = rp__yaml_copy(&r->recipe->doc, target);
    if (!copy) return RP_ERR_MEMORY;
    node->kind   = copy->kind;
    node->quoted = copy->quoted;
    node->text   = copy->text;
    node->first  = copy->first;
    node->last   = copy->last;
    node->n      = copy->n;
    return RP_OK;
}

typedef struct { char *text; size_t used, size; } builder;

static rp_status settings_make_room(rp_recipe_reader *r, builder *b, size_t more)
{
    if (b->used + more + 1 <= b->size) return RP_OK;
    size_t size = 2 * (b->used + more + 1);
    char *wider = rp__bump_alloc(&r->recipe->doc.bump, (int64_t)size);
    if (!wider) return RP_ERR_MEMORY;
    if (b->used) memcpy(wider, b->text, b->used);
    b->text = wider;
    b->size = size;
    return RP_OK;
}

/* Appends literal text; pairs of dollars before a brace become one dollar. */
static rp_status add_literal(rp_recipe_reader *r, builder *b, const char *text, size_t n)
{
    RP_TRY(settings_make_room(r, b, n));
    for (size_t i = 0; i < n;) {
        size_t dollars = strspn(text + i, "$"), kept = dollars ? dollars : 1;
        if (dollars && i + dollars > n) dollars = kept = n - i;
        size_t written = dollars && text[i + dollars] == '{' ? (dollars + 1) / 2 : kept;
        memset(b->text + b->used, text[i], written);
        b->used += written;
        i += kept;
    }
    b->text[b->used] = 0;
    return RP_OK;
}

/* The text for a reference inside a longer text; NULL after a reported error. */
static rp_status reference_text(rp_recipe_reader *r, rp_yaml_node *root, const rp_yaml_node *node, const char *path,
                                size_t path_chars, const char **out)
{
    char *name = rp__bump_text(&r->recipe->doc.bump, path, (int64_t)path_chars);
    rp_yaml_node *target;

    *out = NULL;
    if (!name) return RP_ERR_MEMORY;
    RP_TRY(find_reference(r, root, name, node->place, &target));
    if (target && target->kind == RP_YAML_SCALAR) *out = target->text;
    else if (target)
        rp__report_error(r->report, node->place, "'${%s}' is a list or a map, so it cannot stand inside a text", name);
    return RP_OK;
}

static rp_status replace_within(rp_recipe_reader *r, rp_yaml_node *root, rp_yaml_node *node)
{
    const char *text = node->text, *begin, *path, *value;
    size_t path_chars;
    builder b = { 0 };

    while (next_reference(text, &begin, &path, &path_chars)) {
        RP_TRY(reference_text(r, root, node, path, path_chars, &value));
        if (!value) return RP_OK;
        size_t n = strlen(value);
        if (b.used + n > (size_t)RP_YAML_MAX_BYTES) {
            rp__report_error(r->report, node->place, "references make a text of more than %" PRId64 " bytes",
                             RP_YAML_MAX_BYTES);
            return RP_OK;
        }
        RP_TRY(add_literal(r, &b, text, (size_t)(begin - text)));
        RP_TRY(settings_make_room(r, &b, n));
        memcpy(b.text + b.used, value, n + 1);
        b.used += n;
        text = path + path_chars + 1;
    }
    RP_TRY(add_literal(r, &b, text, strlen(text)));
    node->text = b.text;
    return RP_OK;
}

static rp_status resolve_scalar(rp_recipe_reader *r, rp_yaml_node *root, rp_yaml_node *node)
{
    const char *begin, *path;
    size_t path_chars;

    if (!strstr(node->text, "${")) return RP_OK;
    if (next_reference(node->text, &begin, &path, &path_chars) && begin == node->text && !path[path_chars + 1]) {
        char *name = rp__bump_text(&r->recipe->doc.bump, path, (int64_t)path_chars);
        return name ? replace_whole(r, root, node, name) : RP_ERR_MEMORY;
    }
    return replace_within(r, root, node);
}

static rp_status resolve(rp_recipe_reader *r, rp_yaml_node *root, rp_yaml_node *node)
{
    if (node->mark != MARK_NEW) return RP_OK;
    node->mark = MARK_BUSY;
    if (node->kind == RP_YAML_SCALAR) RP_TRY(resolve_scalar(r, root, node));
    else
        for (rp_yaml_node *child = node->first; child; child = child->next) RP_TRY(resolve(r, root, child));
    node->mark = MARK_DONE;
    return RP_OK;
}

rp_status rp__recipe_interpolate(rp_recipe_reader *r, rp_yaml_node *root)
{
    return resolve(r, root, root);
}
