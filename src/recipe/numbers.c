/* recipe/numbers.c -- reads and writes values that are numbers: whole numbers, reals, pairs, durations, and optional ones. */
#include "recipe/values.h"

#include "base/yaml.h"

static bool is_unset(const rp_recipe_key *key, const rp_yaml_node *node)
{
    if (!strcmp(key->words, "null")) return rp__yaml_is_null(node);
    return node->kind == RP_YAML_SCALAR && !strcmp(node->text, key->words);
}

static rp_status read_int(rp_recipe_reader *r, const rp_recipe_key *key, const rp_yaml_node *node, void *field)
{
    return rp__yaml_int(node, (int64_t)key->low, (int64_t)key->high, field) ? RP_OK : rp__recipe_mismatch(r, key, node);
}

rp_status rp__recipe_write_int(int64_t value, rp_yaml_doc *doc, rp_yaml_node **out)
{
    char text[32];

    snprintf(text, sizeof text, "%" PRId64, value);
    return rp__recipe_write_scalar(doc, text, out);
}

static rp_status write_int(const rp_recipe_key *key, const void *field, rp_yaml_doc *doc, rp_yaml_node **out)
{
    (void)key;
    return rp__recipe_write_int(*(const int64_t *)field, doc, out);
}

static rp_status read_opt_int(rp_recipe_reader *r, const rp_recipe_key *key, const rp_yaml_node *node, void *field)
{
    rp_opt_int value = { .set = !is_unset(key, node) };

    if (value.set && !rp__yaml_int(node, (int64_t)key->low, (int64_t)key->high, &value.value))
        return rp__recipe_mismatch(r, key, node);
    *(rp_opt_int *)field = value;
    return RP_OK;
}

static rp_status write_opt_int(const rp_recipe_key *key, const void *field, rp_yaml_doc *doc, rp_yaml_node **out)
{
    const rp_opt_int *value = field;

    return value->set ? rp__recipe_write_int(value->value, doc, out) : rp__recipe_write_scalar(doc, key->words, out);
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
    return number_in_range(key, node, field) ? RP_OK : rp__recipe_mismatch(r, key, node);
}

/* Changes "1e-08" to "1e-8" and "1e+30" to "1e30". */
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

/* Writes the fewest digits that read back as the same number, with a decimal point in every locale. */
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
    return rp__recipe_write_scalar(doc, text, out);
}

static rp_status write_number(const rp_recipe_key *key, const void *field, rp_yaml_doc *doc, rp_yaml_node **out)
{
    (void)key;
    return write_double(*(const double *)field, doc, out);
}

static rp_status read_opt_number(rp_recipe_reader *r, const rp_recipe_key *key, const rp_yaml_node *node, void *field)
{
    rp_opt_number value = { .set = !is_unset(key, node) };

    if (value.set && !number_in_range(key, node, &value.value)) return rp__recipe_mismatch(r, key, node);
    *(rp_opt_number *)field = value;
    return RP_OK;
}

static rp_status write_opt_number(const rp_recipe_key *key, const void *field, rp_yaml_doc *doc, rp_yaml_node **out)
{
    const rp_opt_number *value = field;

    return value->set ? write_double(value->value, doc, out) : rp__recipe_write_scalar(doc, key->words, out);
}

static rp_status read_pair(rp_recipe_reader *r, const rp_recipe_key *key, const rp_yaml_node *node, void *field)
{
    double value[2];

    if (node->kind != RP_YAML_LIST || node->n != 2 || !number_in_range(key, node->first, &value[0]) ||
        !number_in_range(key, node->last, &value[1]))
        return rp__recipe_mismatch(r, key, node);
    memcpy(field, value, sizeof value);
    return RP_OK;
}

static rp_status write_pair(const rp_recipe_key *key, const void *field, rp_yaml_doc *doc, rp_yaml_node **out)
{
    (void)key;
    *out = rp__yaml_new(doc, RP_YAML_LIST, RP_MADE_HERE);
    if (!*out) return RP_ERR_MEMORY;
    for (int i = 0; i < 2; i++) {
        rp_yaml_node *each;
        RP_TRY(write_double(((const double *)field)[i], doc, &each));
        rp__yaml_append(*out, each);
    }
    return RP_OK;
}

/* ---- durations, in seconds ---- */

static const struct { const char *name; int64_t seconds; } units[] = { { "h", 3600 }, { "min", 60 }, { "s", 1 } };

static bool parse_duration(const char *text, int64_t *out)
{
    size_t n = strspn(text, "0123456789");
    char number[20];
    int64_t value;

    if (n >= sizeof number) return false;
    memcpy(number, text, n);
    number[n] = 0;
    if (!rp__parse_int(number, 0, INT64_MAX / 3600, &value)) return false;
    for (text += n; *text == ' '; text++) {}
    for (int i = 0; i < RP_COUNT(units); i++) {
        if (strcmp(text, units[i].name)) continue;
        *out = value * units[i].seconds;
        return true;
    }
    return false;
}

static rp_status read_duration(rp_recipe_reader *r, const rp_recipe_key *key, const rp_yaml_node *node, void *field)
{
    int64_t value;

    if (node->kind != RP_YAML_SCALAR || !parse_duration(node->text, &value) || (double)value < key->low || (double)value > key->high)
        return rp__recipe_mismatch(r, key, node);
    *(int64_t *)field = value;
    return RP_OK;
}

static rp_status write_duration(const rp_recipe_key *key, const void *field, rp_yaml_doc *doc, rp_yaml_node **out)
{
    int64_t value = *(const int64_t *)field;
    char text[32];
    int i = 0;

    (void)key;
    while (value % units[i].seconds) i++;
    snprintf(text, sizeof text, "%" PRId64 "%s", value / units[i].seconds, units[i].name);
    return rp__recipe_write_scalar(doc, text, out);
}

const rp_recipe_kind rp__kind_duration   = { read_duration, write_duration };
const rp_recipe_kind rp__kind_int        = { read_int, write_int };
const rp_recipe_kind rp__kind_opt_int    = { read_opt_int, write_opt_int };
const rp_recipe_kind rp__kind_number     = { read_number, write_number };
const rp_recipe_kind rp__kind_opt_number = { read_opt_number, write_opt_number };
const rp_recipe_kind rp__kind_pair       = { read_pair, write_pair };
