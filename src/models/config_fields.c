/* models/config_fields.c -- reads one field of a config.json by its line of the table, and reports errors in it. */
#include "models/family.h"
#include "base/json_text.h"

#include <stdlib.h>

/* ---- values and messages ---- */

const char *rp__config_show(const json_t *value, char out[RP_SHOWN_CHARS])
{
    char *text = rp__json_text(value, JSON_ENCODE_ANY | JSON_COMPACT);
    int n      = snprintf(out, RP_SHOWN_CHARS, "%s", text ? text : "?");

    if (n >= RP_SHOWN_CHARS) memcpy(out + RP_SHOWN_CHARS - 4, "...", 4);
    free(text);
    return out;
}

bool rp__config_same(const json_t *a, const json_t *b)
{
    if (json_is_number(a) && json_is_number(b)) return json_number_value(a) == json_number_value(b);
    return json_equal(a, b);
}

void rp__config_error(rp_config_reader *reader, const char *key, rp_status status, const char *fmt, ...)
{
    const rp_yaml_node *set = rp__yaml_find(reader->overrides, key);
    char text[RP_ERROR_CHARS];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (reader->status == RP_OK) reader->status = status;
    rp__report_error(reader->report, set ? set->place : (rp_place){ reader->label, 0 }, "%s", text);
}

/* ---- by kind ---- */

/* The value under either spelling, or NULL if the default applies. *key: the spelling that is present. */
static const json_t *value_of(rp_config_reader *r, const rp_config_field *f, const char **key)
{
    const json_t *value = json_object_get(r->json, f->key), *also = f->also ? json_object_get(r->json, f->also) : NULL;
    char one[RP_SHOWN_CHARS], other[RP_SHOWN_CHARS];

    *key = f->key;
    if (value && also && !rp__config_same(value, also))
        rp__config_error(r, f->also, RP_ERR_CONFIG, "'%s' is %s but '%s', the same thing, is %s", f->key,
                         rp__config_show(value, one), f->also, rp__config_show(also, other));
    if (!value && also) {
        *key  = f->also;
        value = also;
    }
    if (!value && f->required) rp__config_error(r, f->key, RP_ERR_CONFIG, "'%s' is missing", f->key);
    return json_is_null(value) && f->nullable ? NULL : value;
}

static void read_int(rp_config_reader *r, const rp_config_field *f, rp_model_config *c)
{
    int64_t *out = (int64_t *)((char *)c + f->offset);
    char shown[RP_SHOWN_CHARS];
    const char *key;
    const json_t *value = value_of(r, f, &key);
    double given        = (double)json_integer_value(value);

    *out = json_is_null(value) && f->null_is_zero ? 0 : (int64_t)f->otherwise;
    if (!value || (json_is_null(value) && f->null_is_zero)) return;
    if (json_is_integer(value) && given >= f->low && given <= f->high) {
        *out = json_integer_value(value);
        return;
    }
    *out = 0;
    rp__config_error(r, key, RP_ERR_CONFIG, "'%s' is %s, expected a whole number from %.0f to %.0f", key,
                     rp__config_show(value, shown), f->low, f->high);
}

static void read_number(rp_config_reader *r, const rp_config_field *f, rp_model_config *c)
{
    double *out = (double *)((char *)c + f->offset);
    char shown[RP_SHOWN_CHARS];
    const char *key;
    const json_t *value = value_of(r, f, &key);

    *out = json_is_null(value) && f->null_is_zero ? 0 : f->otherwise;
    if (!value || (json_is_null(value) && f->null_is_zero)) return;
    *out = json_number_value(value);
    if (json_is_number(value) && *out >= f->low && *out <= f->high) return;
    rp__config_error(r, key, RP_ERR_CONFIG, "'%s' is %s, expected a number from %g to %g", key, rp__config_show(value, shown),
                     f->low, f->high);
}

static void read_bool(rp_config_reader *r, const rp_config_field *f, rp_model_config *c)
{
    bool *out = (bool *)((char *)c + f->offset);
    char shown[RP_SHOWN_CHARS];
    const char *key;
    const json_t *value = value_of(r, f, &key);

    *out = f->otherwise != 0;
    if (!value) return;
    *out = json_is_true(value);
    if (!json_is_boolean(value))
        rp__config_error(r, key, RP_ERR_CONFIG, "'%s' is %s, expected true or false", key, rp__config_show(value, shown));
}

static void read_word(rp_config_reader *r, const rp_config_field *f, rp_model_config *c)
{
    int *out = (int *)(void *)((char *)c + f->offset);
    char shown[RP_SHOWN_CHARS], all[256];
    const char *key;
    const json_t *value = value_of(r, f, &key);
    size_t used         = 0;

    *out = (int)f->otherwise;
    if (!value) return;
    for (const rp_field_word *w = f->word; w->word; w++) {
        if (json_is_string(value) && !strcmp(w->word, json_string_value(value))) {
            *out = w->value;
            return;
        }
        if (used < sizeof all) used += (size_t)snprintf(all + used, sizeof all - used, "%s%s", used ? ", " : "", w->word);
    }
    rp__config_error(r, key, json_is_string(value) ? RP_ERR_UNSUPPORTED : RP_ERR_CONFIG, "'%s' is %s; these are honoured: %s", key,
                     rp__config_show(value, shown), all);
}

/* Llama 3.1 lists several end ids; documents are written with the first. */
static void read_id(rp_config_reader *r, const rp_config_field *f, rp_model_config *c)
{
    int32_t *out = (int32_t *)(void *)((char *)c + f->offset);
    char shown[RP_SHOWN_CHARS];
    const char *key;
    const json_t *value = value_of(r, f, &key), *first = json_is_array(value) ? json_array_get(value, 0) : value;
    int64_t id          = json_is_null(value) ? -1 : json_integer_value(first);

    *out = (int32_t)f->otherwise;
    if (!value) return;
    if ((json_is_integer(first) || json_is_null(value)) && id >= -1 && id <= INT32_MAX) *out = (int32_t)id;
    else rp__config_error(r, key, RP_ERR_CONFIG, "'%s' is %s, expected the id of a token, a list of them, or null", key,
                          rp__config_show(value, shown));
}

static void check_only(rp_config_reader *r, const rp_config_field *f)
{
    const json_t *value = json_object_get(r->json, f->key);
    json_t *only        = json_loads(f->only, JSON_DECODE_ANY, NULL);
    char shown[RP_SHOWN_CHARS];

    if (value && !json_is_null(value) && !rp__config_same(value, only))
        rp__config_error(r, f->key, RP_ERR_UNSUPPORTED, "'%s' is %s; only %s is honoured", f->key, rp__config_show(value, shown),
                         f->only);
    json_decref(only);
}

void rp__config_read_field(rp_config_reader *r, const rp_config_field *f, rp_model_config *c)
{
    switch (f->kind) {
    case RP_FIELD_INT: read_int(r, f, c); break;
    case RP_FIELD_NUMBER: read_number(r, f, c); break;
    case RP_FIELD_BOOL: read_bool(r, f, c); break;
    case RP_FIELD_WORD: read_word(r, f, c); break;
    case RP_FIELD_ID: read_id(r, f, c); break;
    case RP_FIELD_ONLY: check_only(r, f); break;
    case RP_FIELD_LATER: break;
    }
}

const rp_config_field *rp__family_field(const rp_family *family, const char *key)
{
    for (int i = 0; i < family->n_fields; i++)
        if (!strcmp(family->field[i].key, key)) return &family->field[i];
    return NULL;
}
