/* train/recipe_values.c -- one value of a recipe: read by the type its key has, and written so that it reads back. */
#include "train/recipe_internal.h"

#include "policy/read.h"

typedef struct {
    rp_status (*read)(rp_recipe_reader *r, const rp_recipe_key *key, const rp_yaml_node *node, void *field);
    rp_status (*write)(const rp_recipe_key *key, const void *field, rp_yaml_doc *doc, rp_yaml_node **out);
} value_kind;

static const rp_place made_here = { "the resolved recipe", 0 };

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

static void wants_range(const rp_recipe_key *key, const char *what, char out[RP_WANTS_CHARS])
{
    const char *low  = key->flags & KEY_ABOVE ? "above" : "from";
    const char *high = key->flags & KEY_BELOW ? " and below" : " to";
    const char *none = key->words ? ", or " : "", *word = key->words ? key->words : "";

    if (key->low <= -1e9) snprintf(out, RP_WANTS_CHARS, "%s%s%s", what, none, word);
    else if (key->high >= 1e9) snprintf(out, RP_WANTS_CHARS, "%s %s %.0f%s%s", what, low, key->low, none, word);
    else snprintf(out, RP_WANTS_CHARS, "%s %s %.0f%s %.0f%s%s", what, low, key->low, high, key->high, none, word);
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
    };

    if (key->type == KEY_WORD) wants_words(key, out);
    else if (key->type == KEY_INT || key->type == KEY_OPT_INT) wants_range(key, "a whole number", out);
    else if (key->type == KEY_NUMBER || key->type == KEY_OPT_NUMBER) wants_range(key, "a number", out);
    else if (key->type == KEY_PAIR) wants_range(key, "a list of two numbers", out);
    else if (key->type == KEY_TEXT) snprintf(out, RP_WANTS_CHARS, "a text%s", key->flags & KEY_NULL ? ", or null" : "");
    else snprintf(out, RP_WANTS_CHARS, "%s", plain[key->type]);
    return out;
}

static rp_status mismatch(rp_recipe_reader *r, const rp_recipe_key *key, const rp_yaml_node *node)
{
    char wants[RP_WANTS_CHARS];

    rp__yaml_mismatch(r->report, key->path, rp__recipe_wants(key, wants), node);
    return RP_OK;
}

/* ---- texts ---- */

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

static rp_status write_scalar(rp_yaml_doc *doc, const char *text, rp_yaml_node **out)
{
    *out = rp__yaml_scalar(doc, text, false, made_here);
    return *out ? RP_OK : RP_ERR_MEMORY;
}

static rp_status read_text(rp_recipe_reader *r, const rp_recipe_key *key, const rp_yaml_node *node, void *field)
{
    const char *text = NULL;

    if (!((key->flags & KEY_NULL) && rp__yaml_is_null(node))) {
        if (!rp__yaml_is_text(node)) return mismatch(r, key, node);
        text = key->flags & KEY_PATHS ? rp__module_path_ours(&r->recipe->doc.bump, node->text) : node->text;
        if (!text) return RP_ERR_MEMORY;
    }
    *(const char **)field = text;
    return RP_OK;
}

static rp_status write_text(const rp_recipe_key *key, const void *field, rp_yaml_doc *doc, rp_yaml_node **out)
{
    const char *text = *(const char *const *)field;

    (void)key;
    if (!text) return write_scalar(doc, "null", out);
    *out = rp__recipe_text_node(doc, text, made_here);
    return *out ? RP_OK : RP_ERR_MEMORY;
}

static rp_status read_texts(rp_recipe_reader *r, const rp_recipe_key *key, const rp_yaml_node *node, void *field)
{
    rp_text_list list = { 0 };

    if (node->kind != RP_YAML_LIST) return mismatch(r, key, node);
    list.item = rp__bump_alloc(&r->recipe->doc.bump, node->n * (int64_t)sizeof *list.item);
    if (!list.item) return RP_ERR_MEMORY;
    for (const rp_yaml_node *each = node->first; each; each = each->next) {
        if (!rp__yaml_is_text(each)) {
            mismatch(r, key, each);
            continue;
        }
        const char *text = key->flags & KEY_PATHS ? rp__module_path_ours(&r->recipe->doc.bump, each->text) : each->text;
        if (!text) return RP_ERR_MEMORY;
        list.item[list.n++] = text;
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
        if (node->kind == RP_YAML_LIST && !node->n) return mismatch(r, key, node);
        RP_TRY(read_texts(r, key, node, &files.all));
    }
    files.first = files.all.n ? files.all.item[0] : NULL;
    *(rp_file_list *)field = files;
    return RP_OK;
}

/* Types begin with a capital, paths do not. */
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
        list->item[i] = type ? type : is_type ? name : rp__module_path_ours(&r->recipe->doc.bump, name);
        if (!list->item[i]) return RP_ERR_MEMORY;
    }
    return RP_OK;
}

static rp_status write_texts(const rp_recipe_key *key, const void *field, rp_yaml_doc *doc, rp_yaml_node **out)
{
    const rp_text_list *list = field;

    (void)key;
    *out = rp__yaml_new(doc, RP_YAML_LIST, made_here);
    for (int i = 0; *out && i < list->n; i++) {
        rp_yaml_node *each = rp__recipe_text_node(doc, list->item[i], made_here);
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

/* Index of the word among the key's, -1: none of them. Truth values may be spelled as YAML does, null too. */
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

    if (word < 0) return mismatch(r, key, node);
    *(int *)field = word;
    return RP_OK;
}

static rp_status write_word(const rp_recipe_key *key, const void *field, rp_yaml_doc *doc, rp_yaml_node **out)
{
    const char *p = key->words;
    char word[64];

    for (int i = *(const int *)field; i > 0; i--) p = strchr(p, ' ') + 1;
    snprintf(word, sizeof word, "%.*s", (int)strcspn(p, " "), p);
    return write_scalar(doc, word, out);
}

static rp_status read_bool(rp_recipe_reader *r, const rp_recipe_key *key, const rp_yaml_node *node, void *field)
{
    return rp__yaml_is_bool(node, field) ? RP_OK : mismatch(r, key, node);
}

static rp_status write_bool(const rp_recipe_key *key, const void *field, rp_yaml_doc *doc, rp_yaml_node **out)
{
    (void)key;
    return write_scalar(doc, *(const bool *)field ? "true" : "false", out);
}

/* ---- numbers ---- */

static bool is_unset(const rp_recipe_key *key, const rp_yaml_node *node)
{
    if (!strcmp(key->words, "null")) return rp__yaml_is_null(node);
    return node->kind == RP_YAML_SCALAR && !strcmp(node->text, key->words);
}

static rp_status read_int(rp_recipe_reader *r, const rp_recipe_key *key, const rp_yaml_node *node, void *field)
{
    return rp__yaml_int(node, (int64_t)key->low, (int64_t)key->high, field) ? RP_OK : mismatch(r, key, node);
}

static rp_status write_int64(int64_t value, rp_yaml_doc *doc, rp_yaml_node **out)
{
    char text[32];

    snprintf(text, sizeof text, "%" PRId64, value);
    return write_scalar(doc, text, out);
}

static rp_status write_int(const rp_recipe_key *key, const void *field, rp_yaml_doc *doc, rp_yaml_node **out)
{
    (void)key;
    return write_int64(*(const int64_t *)field, doc, out);
}

static rp_status read_opt_int(rp_recipe_reader *r, const rp_recipe_key *key, const rp_yaml_node *node, void *field)
{
    rp_opt_int value = { .set = !is_unset(key, node) };

    if (value.set && !rp__yaml_int(node, (int64_t)key->low, (int64_t)key->high, &value.value))
        return mismatch(r, key, node);
    *(rp_opt_int *)field = value;
    return RP_OK;
}

static rp_status write_opt_int(const rp_recipe_key *key, const void *field, rp_yaml_doc *doc, rp_yaml_node **out)
{
    const rp_opt_int *value = field;

    return value->set ? write_int64(value->value, doc, out) : write_scalar(doc, key->words, out);
}

static bool number_in_range(const rp_recipe_key *key, const rp_yaml_node *node, double *out)
{
    double value;

    if (!rp__yaml_number(node, &value)) return false;
    if (value < key->low || ((key->flags & KEY_ABOVE) && value == key->low)) return false;
    if (value > key->high || ((key->flags & KEY_BELOW) && value == key->high)) return false;
    *out = value;
    return true;
}

static rp_status read_number(rp_recipe_reader *r, const rp_recipe_key *key, const rp_yaml_node *node, void *field)
{
    return number_in_range(key, node, field) ? RP_OK : mismatch(r, key, node);
}

/* "1e-08" to "1e-8", "1e+30" to "1e30". */
static void shorten_exponent(char *text)
{
    char *e = strchr(text, 'e');

    if (!e) return;
    char *to = e + 1, *from = e + 1;
    if (*from == '-') *to++ = '-';
    from += strspn(from, "+-");
    from += strspn(from, "0");
    memmove(to, from, strlen(from) + 1);
}

/* The fewest digits that read back as the same number, with a point whatever the locale says. */
static rp_status write_double(double value, rp_yaml_doc *doc, rp_yaml_node **out)
{
    char text[64];
    double back;

    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        for (char *p = text; *p; p++)
            if (!strchr("0123456789+-e", *p)) *p = '.';
        if (rp__parse_double(text, &back) && back == value) break;
    }
    shorten_exponent(text);
    return write_scalar(doc, text, out);
}

static rp_status write_number(const rp_recipe_key *key, const void *field, rp_yaml_doc *doc, rp_yaml_node **out)
{
    (void)key;
    return write_double(*(const double *)field, doc, out);
}

static rp_status read_opt_number(rp_recipe_reader *r, const rp_recipe_key *key, const rp_yaml_node *node, void *field)
{
    rp_opt_number value = { .set = !is_unset(key, node) };

    if (value.set && !number_in_range(key, node, &value.value)) return mismatch(r, key, node);
    *(rp_opt_number *)field = value;
    return RP_OK;
}

static rp_status write_opt_number(const rp_recipe_key *key, const void *field, rp_yaml_doc *doc, rp_yaml_node **out)
{
    const rp_opt_number *value = field;

    return value->set ? write_double(value->value, doc, out) : write_scalar(doc, key->words, out);
}

static rp_status read_pair(rp_recipe_reader *r, const rp_recipe_key *key, const rp_yaml_node *node, void *field)
{
    double value[2];

    if (node->kind != RP_YAML_LIST || node->n != 2 || !number_in_range(key, node->first, &value[0]) ||
        !number_in_range(key, node->last, &value[1]))
        return mismatch(r, key, node);
    memcpy(field, value, sizeof value);
    return RP_OK;
}

static rp_status write_pair(const rp_recipe_key *key, const void *field, rp_yaml_doc *doc, rp_yaml_node **out)
{
    (void)key;
    *out = rp__yaml_new(doc, RP_YAML_LIST, made_here);
    if (!*out) return RP_ERR_MEMORY;
    for (int i = 0; i < 2; i++) {
        rp_yaml_node *each;
        RP_TRY(write_double(((const double *)field)[i], doc, &each));
        rp__yaml_append(*out, each);
    }
    return RP_OK;
}

/* ---- values of their own kind ---- */

static rp_status read_budget(rp_recipe_reader *r, const rp_recipe_key *key, const rp_yaml_node *node, void *field)
{
    rp_budget value = { .kind = RP_BUDGET_BYTES };

    if (rp__yaml_is_null(node)) value.kind = RP_BUDGET_NONE;
    else if (node->kind == RP_YAML_SCALAR && !strcmp(node->text, "auto")) value.kind = RP_BUDGET_AUTO;
    else if (node->kind != RP_YAML_SCALAR || !rp__size_parse(node->text, &value.bytes) || value.bytes < 1)
        return mismatch(r, key, node);
    *(rp_budget *)field = value;
    return RP_OK;
}

static rp_status write_budget(const rp_recipe_key *key, const void *field, rp_yaml_doc *doc, rp_yaml_node **out)
{
    const rp_budget *value = field;

    (void)key;
    if (value->kind == RP_BUDGET_BYTES) return write_int64(value->bytes, doc, out);
    return write_scalar(doc, value->kind == RP_BUDGET_AUTO ? "auto" : "null", out);
}

static rp_status read_resume(rp_recipe_reader *r, const rp_recipe_key *key, const rp_yaml_node *node, void *field)
{
    rp_resume value = { .kind = RP_RESUME_PATH, .path = node->text };
    bool truth;

    if (rp__yaml_is_bool(node, &truth)) {
        if (truth) return mismatch(r, key, node);
        value = (rp_resume){ .kind = RP_RESUME_NO };
    } else if (!rp__yaml_is_text(node)) {
        return mismatch(r, key, node);
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
    if (value->kind != RP_RESUME_PATH) return write_scalar(doc, value->kind == RP_RESUME_AUTO ? "auto" : "false", out);
    *out = rp__recipe_text_node(doc, value->path, made_here);
    if (!*out) return RP_ERR_MEMORY;
    (*out)->quoted = true;                                   /* a path named "auto" stays a path */
    return RP_OK;
}

static rp_status read_reshard(rp_recipe_reader *r, const rp_recipe_key *key, const rp_yaml_node *node, void *field)
{
    rp_reshard value = { .kind = RP_RESHARD_GROUP };
    bool truth;

    if (rp__yaml_is_bool(node, &truth)) value.kind = truth ? RP_RESHARD_YES : RP_RESHARD_NO;
    else if (!rp__yaml_int(node, 1, 1048576, &value.ranks)) return mismatch(r, key, node);
    *(rp_reshard *)field = value;
    return RP_OK;
}

static rp_status write_reshard(const rp_recipe_key *key, const void *field, rp_yaml_doc *doc, rp_yaml_node **out)
{
    const rp_reshard *value = field;

    (void)key;
    if (value->kind == RP_RESHARD_GROUP) return write_int64(value->ranks, doc, out);
    return write_scalar(doc, value->kind == RP_RESHARD_YES ? "true" : "false", out);
}

static rp_status read_map(rp_recipe_reader *r, const rp_recipe_key *key, const rp_yaml_node *node, void *field)
{
    if (node->kind != RP_YAML_MAP) return mismatch(r, key, node);
    *(const rp_yaml_node **)field = node;
    return RP_OK;
}

/* Plain stays plain where that says something (null, numbers, words); what YAML would quote anyway is quoted. */
static rp_status write_leaf(rp_yaml_doc *doc, const rp_yaml_node *node, rp_yaml_node **out)
{
    double number;

    if (rp__yaml_is_null(node)) return write_scalar(doc, "null", out);
    if (!node->quoted && rp__parse_double(node->text, &number)) return write_scalar(doc, node->text, out);
    *out = rp__recipe_text_node(doc, node->text, made_here);
    if (!*out) return RP_ERR_MEMORY;
    (*out)->quoted |= node->quoted;
    return RP_OK;
}

/* A tree as it was read, dollars escaped again. */
static rp_status write_tree(rp_yaml_doc *doc, const rp_yaml_node *node, rp_yaml_node **out)
{
    if (node->kind == RP_YAML_SCALAR) return write_leaf(doc, node, out);
    *out = rp__yaml_new(doc, node->kind, made_here);
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
    return node->kind == RP_YAML_LIST ? rp__recipe_read_conditions(r, node) : mismatch(r, key, node);
}

static rp_status read_rules(rp_recipe_reader *r, const rp_recipe_key *key, const rp_yaml_node *node, void *field)
{
    (void)field;
    return node->kind == RP_YAML_LIST ? rp__recipe_read_rules(r, node) : mismatch(r, key, node);
}

static const value_kind kinds[] = {
    [KEY_TEXT]       = { read_text, write_text },
    [KEY_WORD]       = { read_word, write_word },
    [KEY_BOOL]       = { read_bool, write_bool },
    [KEY_INT]        = { read_int, write_int },
    [KEY_OPT_INT]    = { read_opt_int, write_opt_int },
    [KEY_NUMBER]     = { read_number, write_number },
    [KEY_OPT_NUMBER] = { read_opt_number, write_opt_number },
    [KEY_PAIR]       = { read_pair, write_pair },
    [KEY_TEXTS]      = { read_texts, write_texts },
    [KEY_FILES]      = { read_files, write_files },
    [KEY_TYPES]      = { read_types, write_texts },
    [KEY_MAP]        = { read_map, write_map },
    [KEY_BUDGET]     = { read_budget, write_budget },
    [KEY_RESUME]     = { read_resume, write_resume },
    [KEY_RESHARD]    = { read_reshard, write_reshard },
    [KEY_CONDITIONS] = { read_conditions, NULL },            /* written from the tree they were read from */
    [KEY_RULES]      = { read_rules, NULL },
};

rp_status rp__recipe_value_read(rp_recipe_reader *r, const rp_recipe_key *key, const rp_yaml_node *node)
{
    return kinds[key->type].read(r, key, node, (char *)r->recipe + key->offset);
}

rp_status rp__recipe_value_write(const rp_recipe *recipe, const rp_recipe_key *key, rp_yaml_doc *doc, rp_yaml_node **out)
{
    const rp_yaml_node *given = recipe->given[rp__recipe_find_key(key->path)];

    if (kinds[key->type].write) return kinds[key->type].write(key, (const char *)recipe + key->offset, doc, out);
    if (given) return write_tree(doc, given, out);
    *out = rp__yaml_new(doc, RP_YAML_LIST, made_here);
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
