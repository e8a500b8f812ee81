/* recipe/texts.c -- reads and writes values that are texts, lists of texts, or words. */
#include "recipe/values.h"

#include "base/bump.h"
#include "base/report.h"
#include "base/yaml.h"
#include "policy/condition.h"
#include "policy/read.h"

static bool reads_back_plain(const char *text)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./-";
    rp_yaml_node as_is = { .kind = RP_YAML_SCALAR, .text = text };

    return strspn(text, plain) == strlen(text) && text[0] != '-' && text[0] != '.' && !rp__yaml_is_null(&as_is);
}

rp_yaml_node *rp__recipe_text_node(rp_yaml_doc *doc, const char *text, rp_place place)
{
    char *escaped = rp__bump_alloc(&doc->bump, 2 * (int64_t)strlen(text) + 1), *to = escaped;

    if (!escaped) return NULL;
    for (const char *p = text; *p; p++) {
        if (*p == '$' && p[strspn(p, "$")] == '{') *to++ = '$';
        *to++ = *p;
    }
    return rp__yaml_scalar(doc, escaped, !reads_back_plain(escaped), place);
}

rp_status rp__recipe_write_text(rp_yaml_doc *doc, const char *text, rp_yaml_node **out)
{
    *out = rp__recipe_text_node(doc, text, RP_MADE_HERE);
    return *out ? RP_OK : RP_ERR_MEMORY;
}

static rp_status read_text(rp_recipe_reader *r, const rp_recipe_key *key, const rp_yaml_node *node, void *field)
{
    const char *text = NULL;

    if (!((key->flags & KEY_NULL) && rp__yaml_is_null(node))) {
        if (!rp__yaml_is_text(node)) return rp__recipe_mismatch(r, key, node);
        text = node->text;
    }
    *(const char **)field = text;
    return RP_OK;
}

static rp_status write_text(const rp_recipe_key *key, const void *field, rp_yaml_doc *doc, rp_yaml_node **out)
{
    const char *text = *(const char *const *)field;

    (void)key;
    if (!text) return rp__recipe_write_scalar(doc, "null", out);
    return rp__recipe_write_text(doc, text, out);
}

static rp_status read_texts(rp_recipe_reader *r, const rp_recipe_key *key, const rp_yaml_node *node, void *field)
{
    rp_text_list list = { 0 };

    if (node->kind != RP_YAML_LIST) return rp__recipe_mismatch(r, key, node);
    list.item = rp__bump_alloc(&r->recipe->doc.bump, node->n * (int64_t)sizeof *list.item);
    if (!list.item) return RP_ERR_MEMORY;
    for (const rp_yaml_node *each = node->first; each; each = each->next) {
        if (!rp__yaml_is_text(each)) {
            rp__recipe_mismatch(r, key, each);
            continue;
        }
        list.item[list.n++] = each->text;
    }
    *(rp_text_list *)field = list;
    return RP_OK;
}

static rp_status read_files(rp_recipe_reader *r, const rp_recipe_key *key, const rp_yaml_node *node, void *field)
{
    rp_file_list files = { 0 };

    if (rp__yaml_is_text(node)) {
        files.all.item = rp__bump_alloc(&r->recipe->doc.bump, (int64_t)sizeof *files.all.item);
        if (!files.all.item) return RP_ERR_MEMORY;
        files.all.item[files.all.n++] = node->text;
    } else if (!rp__yaml_is_null(node)) {
        if (node->kind == RP_YAML_LIST && !node->n) return rp__recipe_mismatch(r, key, node);
        RP_TRY(read_texts(r, key, node, &files.all));
    }
    files.first = files.all.n ? files.all.item[0] : NULL;
    *(rp_file_list *)field = files;
    return RP_OK;
}

/* Module types begin with a capital letter; paths do not. */
static rp_status read_types(rp_recipe_reader *r, const rp_recipe_key *key, const rp_yaml_node *node, void *field)
{
    rp_text_list *list = field;
    char hint[RP_HINT_CHARS];

    RP_TRY(read_texts(r, key, node, field));
    for (int i = 0; i < list->n; i++) {
        const char *name = list->item[i], *type = rp__module_type_name(name);
        bool is_type     = name[0] >= 'A' && name[0] <= 'Z';
        if (is_type && !type) rp__report_error(r->report, node->place, "'%s': unknown module type '%s'%s", key->path, name,
                                               rp__hint(name, rp__module_types, hint));
        if (type) list->item[i] = type;
    }
    return RP_OK;
}

static rp_status write_texts(const rp_recipe_key *key, const void *field, rp_yaml_doc *doc, rp_yaml_node **out)
{
    const rp_text_list *list = field;

    (void)key;
    *out = rp__yaml_new(doc, RP_YAML_LIST, RP_MADE_HERE);
    for (int i = 0; *out && i < list->n; i++) {
        rp_yaml_node *each = rp__recipe_text_node(doc, list->item[i], RP_MADE_HERE);
        if (!each) return RP_ERR_MEMORY;
        rp__yaml_append(*out, each);
    }
    return *out ? RP_OK : RP_ERR_MEMORY;
}

static rp_status write_files(const rp_recipe_key *key, const void *field, rp_yaml_doc *doc, rp_yaml_node **out)
{
    const rp_file_list *files = field;

    return files->all.n > 1 ? write_texts(key, &files->all, doc, out) : write_text(key, &files->first, doc, out);
}

/* ---- words ---- */

/* Index of the word among the key's words; -1 if it is not one. Booleans and null may have any spelling of YAML. */
static int find_word(const rp_recipe_key *key, const rp_yaml_node *node)
{
    bool truth;
    const char *text = node->text;

    if (rp__yaml_is_null(node)) text = "null";
    else if (rp__yaml_is_bool(node, &truth)) text = truth ? "true" : "false";
    int i = 0;
    for (const char *p = key->words; *p; i++) {
        size_t n = strcspn(p, " ");
        if (strlen(text) == n && !strncmp(p, text, n)) return i;
        p += n + (p[n] == ' ');
    }
    return -1;
}

static rp_status read_word(rp_recipe_reader *r, const rp_recipe_key *key, const rp_yaml_node *node, void *field)
{
    int word = node->kind == RP_YAML_SCALAR ? find_word(key, node) : -1;

    if (word < 0) return rp__recipe_mismatch(r, key, node);
    *(int *)field = word;
    return RP_OK;
}

static rp_status write_word(const rp_recipe_key *key, const void *field, rp_yaml_doc *doc, rp_yaml_node **out)
{
    const char *p = key->words;
    char word[64];

    for (int i = *(const int *)field; i > 0; i--) p = strchr(p, ' ') + 1;
    snprintf(word, sizeof word, "%.*s", (int)strcspn(p, " "), p);
    return rp__recipe_write_scalar(doc, word, out);
}

static rp_status read_bool(rp_recipe_reader *r, const rp_recipe_key *key, const rp_yaml_node *node, void *field)
{
    return rp__yaml_is_bool(node, field) ? RP_OK : rp__recipe_mismatch(r, key, node);
}

static rp_status write_bool(const rp_recipe_key *key, const void *field, rp_yaml_doc *doc, rp_yaml_node **out)
{
    (void)key;
    return rp__recipe_write_scalar(doc, *(const bool *)field ? "true" : "false", out);
}

const rp_recipe_kind rp__kind_text  = { read_text, write_text };
const rp_recipe_kind rp__kind_texts = { read_texts, write_texts };
const rp_recipe_kind rp__kind_files = { read_files, write_files };
const rp_recipe_kind rp__kind_types = { read_types, write_texts };
const rp_recipe_kind rp__kind_word  = { read_word, write_word };
const rp_recipe_kind rp__kind_bool  = { read_bool, write_bool };
