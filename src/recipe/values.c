/* recipe/values.c -- reads one value by the type of its key, and writes it so that it reads back.
 *
 * Texts are in texts.c, numbers in numbers.c, all other kinds of values here.
 */
#include "recipe/values.h"

#include "base/bump.h"
#include "base/yaml.h"

/* ---- messages ---- */

static void wants_words(const rp_recipe_key *key, char out[RP_WANTS_CHARS])
{
    size_t used = 0;

    for (const char *p = key->words; *p;) {
        size_t n = strcspn(p, " ");
        const char *join = p == key->words ? "" : p[n] ? ", " : " or ";
        used += (size_t)snprintf(out + used, RP_WANTS_CHARS - used, "%s%.*s", join, (int)n, p);
        p += n + (p[n] == ' ');
    }
}

static void wants_range(const rp_recipe_key *key, const char *kind, char out[RP_WANTS_CHARS])
{
    const char *low  = key->flags & KEY_ABOVE ? "above" : "from";
    const char *high = key->flags & KEY_BELOW ? " and below" : " to";
    const char *none = key->words ? ", or " : "", *word = key->words ? key->words : "";

    if (key->low <= -1e9) snprintf(out, RP_WANTS_CHARS, "%s%s%s", kind, none, word);
    else if (key->high >= 1e9) snprintf(out, RP_WANTS_CHARS, "%s %s %.0f%s%s", kind, low, key->low, none, word);
    else snprintf(out, RP_WANTS_CHARS, "%s %s %.0f%s %.0f%s%s", kind, low, key->low, high, key->high, none, word);
}

const char *rp__recipe_wants(const rp_recipe_key *key, char out[RP_WANTS_CHARS])
{
    static const char *const plain[] = {
        [KEY_BOOL]   = "true or false",
        [KEY_TEXTS]  = "a list of texts",
        [KEY_FILES]  = "a text, a list of texts, or null",
        [KEY_TYPES]  = "a list of module types, paths and globs",
        [KEY_MAP]    = "a map",
        [KEY_BUDGET] = "null, auto, or a size: bytes, or a number with KB, MB, GB, KiB, MiB or GiB",
        [KEY_RESUME] = "false, auto, or a path", [KEY_RESHARD] = "true, false, or a number of ranks from 1",
        [KEY_CONDITIONS] = "a list of conditions", [KEY_RULES] = "a list of rules",
        [KEY_DURATION] = "a time from 1s to 720h: a whole number with s, min or h",
    };

    if (key->type == KEY_WORD) wants_words(key, out);
    else if (key->type == KEY_INT || key->type == KEY_OPT_INT) wants_range(key, "a whole number", out);
    else if (key->type == KEY_NUMBER || key->type == KEY_OPT_NUMBER) wants_range(key, "a number", out);
    else if (key->type == KEY_PAIR) wants_range(key, "a list of two numbers", out);
    else if (key->type == KEY_TEXT) snprintf(out, RP_WANTS_CHARS, "a text%s", key->flags & KEY_NULL ? ", or null" : "");
    else snprintf(out, RP_WANTS_CHARS, "%s", plain[key->type]);
    return out;
}

rp_status rp__recipe_mismatch(rp_recipe_reader *r, const rp_recipe_key *key, const rp_yaml_node *node)
{
    char wants[RP_WANTS_CHARS];
    double value;

    rp__recipe_wants(key, wants);
    if (key->high >= 1e9 && rp__yaml_number(node, &value) && value > key->high)      /* an upper bound this large is mentioned only if it is exceeded */
        snprintf(wants + strlen(wants), sizeof wants - strlen(wants), ", at most %.17g", key->high);
    if (key->type == KEY_TEXTS && node->kind == RP_YAML_SCALAR && rp__yaml_is_text(node) && strlen(node->text) < 64)
        snprintf(wants + strlen(wants), sizeof wants - strlen(wants), ", as [%s]", node->text);
    rp__yaml_mismatch(r->report, key->path, wants, node);
    return RP_OK;
}

rp_status rp__recipe_write_scalar(rp_yaml_doc *doc, const char *text, rp_yaml_node **out)
{
    *out = rp__yaml_scalar(doc, text, false, RP_MADE_HERE);
    return *out ? RP_OK : RP_ERR_MEMORY;
}

/* ---- other kinds of values ---- */

static rp_status read_budget(rp_recipe_reader *r, const rp_recipe_key *key, const rp_yaml_node *node, void *field)
{
    rp_budget value = { .kind = RP_BUDGET_BYTES };

    if (rp__yaml_is_null(node)) value.kind = RP_BUDGET_NONE;
    else if (node->kind == RP_YAML_SCALAR && !strcmp(node->text, "auto")) value.kind = RP_BUDGET_AUTO;
    else if (node->kind != RP_YAML_SCALAR || !rp__size_parse(node->text, &value.bytes) || value.bytes < 1)
        return rp__recipe_mismatch(r, key, node);
    *(rp_budget *)field = value;
    return RP_OK;
}

static rp_status write_budget(const rp_recipe_key *key, const void *field, rp_yaml_doc *doc, rp_yaml_node **out)
{
    const rp_budget *value = field;

    (void)key;
    if (value->kind == RP_BUDGET_BYTES) return rp__recipe_write_int(value->bytes, doc, out);
    return rp__recipe_write_scalar(doc, value->kind == RP_BUDGET_AUTO ? "auto" : "null", out);
}

static rp_status read_resume(rp_recipe_reader *r, const rp_recipe_key *key, const rp_yaml_node *node, void *field)
{
    rp_resume value = { .kind = RP_RESUME_PATH, .path = node->text };
    bool truth;

    if (rp__yaml_is_bool(node, &truth)) {
        if (truth) return rp__recipe_mismatch(r, key, node);
        value = (rp_resume){ .kind = RP_RESUME_NO };
    } else if (!rp__yaml_is_text(node)) {
        return rp__recipe_mismatch(r, key, node);
    } else if (!node->quoted && !strcmp(node->text, "auto")) {
        value = (rp_resume){ .kind = RP_RESUME_AUTO };
    }
    *(rp_resume *)field = value;
    return RP_OK;
}

static rp_status write_resume(const rp_recipe_key *key, const void *field, rp_yaml_doc *doc, rp_yaml_node **out)
{
    const rp_resume *value = field;

    (void)key;
    if (value->kind != RP_RESUME_PATH) return rp__recipe_write_scalar(doc, value->kind == RP_RESUME_AUTO ? "auto" : "false", out);
    RP_TRY(rp__recipe_write_text(doc, value->path, out));
    (*out)->quoted = true;                                   /* quotes keep a path named "auto" a path */
    return RP_OK;
}

static rp_status read_reshard(rp_recipe_reader *r, const rp_recipe_key *key, const rp_yaml_node *node, void *field)
{
    rp_reshard value = { .kind = RP_RESHARD_GROUP };
    bool truth;

    if (rp__yaml_is_bool(node, &truth)) value.kind = truth ? RP_RESHARD_YES : RP_RESHARD_NO;
    else if (!rp__yaml_int(node, 1, 1048576, &value.ranks)) return rp__recipe_mismatch(r, key, node);
    *(rp_reshard *)field = value;
    return RP_OK;
}

static rp_status write_reshard(const rp_recipe_key *key, const void *field, rp_yaml_doc *doc, rp_yaml_node **out)
{
    const rp_reshard *value = field;

    (void)key;
    if (value->kind == RP_RESHARD_GROUP) return rp__recipe_write_int(value->ranks, doc, out);
    return rp__recipe_write_scalar(doc, value->kind == RP_RESHARD_YES ? "true" : "false", out);
}

static rp_status read_map(rp_recipe_reader *r, const rp_recipe_key *key, const rp_yaml_node *node, void *field)
{
    if (node->kind != RP_YAML_MAP) return rp__recipe_mismatch(r, key, node);
    *(const rp_yaml_node **)field = node;
    return RP_OK;
}

/* A plain scalar stays plain if that carries meaning (null, numbers, words). Text that YAML would quote is quoted. */
static rp_status write_leaf(rp_yaml_doc *doc, const rp_yaml_node *node, rp_yaml_node **out)
{
    double number;

    if (rp__yaml_is_null(node)) return rp__recipe_write_scalar(doc, "null", out);
    if (!node->quoted && rp__parse_double(node->text, &number)) return rp__recipe_write_scalar(doc, node->text, out);
    RP_TRY(rp__recipe_write_text(doc, node->text, out));
    (*out)->quoted |= node->quoted;
    return RP_OK;
}

/* Copies a tree as it was read, with dollars escaped. */
static rp_status write_tree(rp_yaml_doc *doc, const rp_yaml_node *node, rp_yaml_node **out)
{
    if (node->kind == RP_YAML_SCALAR) return write_leaf(doc, node, out);
    *out = rp__yaml_new(doc, node->kind, RP_MADE_HERE);
    if (!*out) return RP_ERR_MEMORY;
    for (const rp_yaml_node *child = node->first; child; child = child->next) {
        rp_yaml_node *copy;
        RP_TRY(write_tree(doc, child, &copy));
        copy->key = child->key;
        rp__yaml_append(*out, copy);
    }
    return RP_OK;
}

static rp_status write_map(const rp_recipe_key *key, const void *field, rp_yaml_doc *doc, rp_yaml_node **out)
{
    (void)key;
    return write_tree(doc, *(const rp_yaml_node *const *)field, out);
}

static rp_status read_conditions(rp_recipe_reader *r, const rp_recipe_key *key, const rp_yaml_node *node, void *field)
{
    (void)field;
    return node->kind == RP_YAML_LIST ? rp__recipe_read_conditions(r, node) : rp__recipe_mismatch(r, key, node);
}

static rp_status read_rules(rp_recipe_reader *r, const rp_recipe_key *key, const rp_yaml_node *node, void *field)
{
    (void)field;
    return node->kind == RP_YAML_LIST ? rp__recipe_read_rules(r, node) : rp__recipe_mismatch(r, key, node);
}

static const rp_recipe_kind map        = { read_map, write_map };
static const rp_recipe_kind budget     = { read_budget, write_budget };
static const rp_recipe_kind resume     = { read_resume, write_resume };
static const rp_recipe_kind reshard    = { read_reshard, write_reshard };
static const rp_recipe_kind conditions = { read_conditions, NULL };         /* written from the tree that they were read from */
static const rp_recipe_kind rules      = { read_rules, NULL };

static const rp_recipe_kind *const kinds[] = {
    [KEY_TEXT]       = &rp__kind_text,
    [KEY_TEXTS]      = &rp__kind_texts,
    [KEY_FILES]      = &rp__kind_files,
    [KEY_TYPES]      = &rp__kind_types,
    [KEY_WORD]       = &rp__kind_word,
    [KEY_BOOL]       = &rp__kind_bool,
    [KEY_INT]        = &rp__kind_int,
    [KEY_OPT_INT]    = &rp__kind_opt_int,
    [KEY_NUMBER]     = &rp__kind_number,
    [KEY_OPT_NUMBER] = &rp__kind_opt_number,
    [KEY_PAIR]       = &rp__kind_pair,
    [KEY_MAP]        = &map,
    [KEY_BUDGET]     = &budget,
    [KEY_RESUME]     = &resume,
    [KEY_RESHARD]    = &reshard,
    [KEY_CONDITIONS] = &conditions,
    [KEY_RULES]      = &rules,
    [KEY_DURATION]   = &rp__kind_duration,
};

rp_status rp__recipe_value_read(rp_recipe_reader *r, const rp_recipe_key *key, const rp_yaml_node *node)
{
    return kinds[key->type]->read(r, key, node, (char *)r->recipe + key->offset);
}

rp_status rp__recipe_value_write(const rp_recipe *recipe, const rp_recipe_key *key, rp_yaml_doc *doc, rp_yaml_node **out)
{
    const rp_yaml_node *given = recipe->given[rp__recipe_find_key(key->path)];

    if (kinds[key->type]->write) return kinds[key->type]->write(key, (const char *)recipe + key->offset, doc, out);
    if (given) return write_tree(doc, given, out);
    *out = rp__yaml_new(doc, RP_YAML_LIST, RP_MADE_HERE);
    return *out ? RP_OK : RP_ERR_MEMORY;
}

rp_status rp__recipe_value_text(const rp_recipe *recipe, const rp_recipe_key *key, rp_yaml_doc *doc, const char **out)
{
    rp_yaml_node *written;

    RP_TRY(rp__recipe_value_write(recipe, key, doc, &written));
    RP_TRY(rp__yaml_write(&doc->bump, written, out));
    ((char *)*out)[strlen(*out) - 1] = 0;                    /* the emitter ends with a newline */
    return RP_OK;
}

bool rp__recipe_is_default(const rp_recipe *recipe, const rp_recipe_key *key)
{
    rp_yaml_doc doc  = { .bump = { .ctx = recipe->doc.bump.ctx } };
    const char *text = NULL;

    bool same = rp__recipe_value_text(recipe, key, &doc, &text) == RP_OK && !strcmp(text, key->fallback);
    rp__bump_free(&doc.bump);
    return same;
}
