/* models/config_rope.c -- reads rotary positions from a config.json, in both spellings.
 *
 *   transformers 4   "rope_theta": 5e5, "rope_scaling": {"rope_type" or "type": "llama3", "factor": 8, …} or null
 *   transformers 5   "rope_parameters": {"rope_theta": 5e5, "rope_type": "llama3", "factor": 8, …}
 *
 * Values given in several places must agree. A key that the rope type does not read is an error, because it was meant to have an effect. */
#include "models/family.h"

#include <math.h>
#include <string.h>

enum { THETA = 1, FACTOR = 2, LOW = 4, HIGH = 8, ORIGINAL = 16, ATTENTION = 32, SHORT = 64, LONG = 128, FAST = 256, SLOW = 512,
       SCALE = 1024, SCALE_ALL = 2048, TRUNCATE = 4096 };
enum { YARN = THETA | FACTOR | ORIGINAL | ATTENTION | FAST | SLOW | SCALE | SCALE_ALL | TRUNCATE };

static const struct { const char *name; rp_rope_kind kind; int reads, needs; } types[] = {
    { "default", RP_ROPE_DEFAULT, THETA, 0 },
    { "linear",  RP_ROPE_LINEAR,  THETA | FACTOR, FACTOR },
    { "llama3",  RP_ROPE_LLAMA3,  THETA | FACTOR | LOW | HIGH | ORIGINAL, FACTOR | LOW | HIGH },
    { "yarn",    RP_ROPE_YARN,    YARN, FACTOR },
    { "longrope", RP_ROPE_LONG,   THETA | FACTOR | ORIGINAL | ATTENTION | SHORT | LONG, SHORT | LONG },
    { "su",      RP_ROPE_LONG,    THETA | FACTOR | ORIGINAL | ATTENTION | SHORT | LONG, SHORT | LONG },
};

static const struct { const char *key; int bit; size_t offset; } numbers[] = {
    { "rope_theta",       THETA,  offsetof(rp_rope_config, theta) },
    { "factor",           FACTOR, offsetof(rp_rope_config, factor) },
    { "low_freq_factor",  LOW,    offsetof(rp_rope_config, low_freq_factor) },
    { "high_freq_factor", HIGH,   offsetof(rp_rope_config, high_freq_factor) },
    { "attention_factor", ATTENTION, offsetof(rp_rope_config, attention_factor) },
    { "beta_fast",        FAST,   offsetof(rp_rope_config, beta_fast) },
    { "beta_slow",        SLOW,   offsetof(rp_rope_config, beta_slow) },
    { "mscale",           SCALE,  offsetof(rp_rope_config, mscale) },
    { "mscale_all_dim",   SCALE_ALL, offsetof(rp_rope_config, mscale_all_dim) },
};

/* One object, rope_scaling or rope_parameters, being read. */
typedef struct {
    rp_config_reader *reader;
    const char *name;
    const json_t *json;
    int type, given;                    /* index into types; bit set of the keys that are present */
    rp_rope_config rope;
} object;

/* Returns -1 after an error. */
static int find_type(const object *o)
{
    const json_t *type = json_object_get(o->json, "rope_type"), *old = json_object_get(o->json, "type");
    char one[RP_SHOWN_CHARS], other[RP_SHOWN_CHARS];

    if (type && old && !rp__config_same(type, old)) {
        rp__config_error(o->reader, o->name, RP_ERR_CONFIG, "'%s.rope_type' is %s but '%s.type', the same thing, is %s", o->name,
                         rp__config_show(type, one), o->name, rp__config_show(old, other));
        return -1;
    }
    if (!type) type = old;
    if (!type) return 0;
    for (int i = 0; i < RP_COUNT(types); i++)
        if (json_is_string(type) && !strcmp(types[i].name, json_string_value(type))) return i;
    rp__config_error(o->reader, o->name, RP_ERR_UNSUPPORTED, "'%s.rope_type' is %s; these are honoured: default, linear, llama3, yarn, longrope",
                     o->name, rp__config_show(type, one));
    return -1;
}

static void expected(const object *o, const char *key, const json_t *value, const char *wanted)
{
    char shown[RP_SHOWN_CHARS];

    rp__config_error(o->reader, o->name, RP_ERR_CONFIG, "'%s.%s' is %s, expected %s", o->name, key,
                     rp__config_show(value, shown), wanted);
}

/* Returns the bit of a key that holds a number, or 0 for other keys. */
static int read_number(object *o, const char *key, const json_t *value)
{
    double number = json_number_value(value);

    for (int i = 0; i < RP_COUNT(numbers); i++) {
        if (strcmp(numbers[i].key, key)) continue;
        if (!json_is_number(value) || !(number > 0)) expected(o, key, value, "a positive number");
        memcpy((char *)&o->rope + numbers[i].offset, &number, sizeof number);
        return numbers[i].bit;
    }
    if (strcmp(key, "original_max_position_embeddings")) return 0;
    if (!json_is_integer(value) || json_integer_value(value) < 1) expected(o, key, value, "a positive whole number");
    o->rope.original_context = json_integer_value(value);
    return ORIGINAL;
}

static int read_list(const object *o, const char *key, const json_t *value, const json_t **out, int bit)
{
    bool good = json_is_array(value);
    const json_t *each;
    size_t i;

    json_array_foreach(value, i, each) good = good && json_is_number(each) && json_number_value(each) > 0;
    if (!good) expected(o, key, value, "a list of positive numbers");
    *out = value;
    return bit;
}

static int read_truncate(object *o, const char *key, const json_t *value)
{
    if (!json_is_boolean(value)) expected(o, key, value, "true or false");
    o->rope.exact_range = json_is_false(value);
    return TRUNCATE;
}

static void read_key(object *o, const char *key, const json_t *value)
{
    char shown[RP_SHOWN_CHARS];
    int bit;

    /* A yarn without a factor uses the ratio of the contexts, but only if null says so explicitly. */
    if (!strcmp(key, "factor") && json_is_null(value) && types[o->type].kind == RP_ROPE_YARN) o->given |= FACTOR;
    if (!strcmp(key, "rope_type") || !strcmp(key, "type") || json_is_null(value)) return;
    if (!strcmp(key, "partial_rotary_factor")) {
        o->rope.part = json_number_value(value);
        if (!(o->rope.part > 0 && o->rope.part <= 1)) expected(o, key, value, "a number above 0, at most 1");
        return;
    }
    if (!strcmp(key, "short_factor")) bit = read_list(o, key, value, &o->rope.divisors, SHORT);
    else if (!strcmp(key, "long_factor")) bit = read_list(o, key, value, &o->rope.long_divisors, LONG);
    else if (!strcmp(key, "truncate")) bit = read_truncate(o, key, value);
    else bit = read_number(o, key, value);
    if (bit & types[o->type].reads) o->given |= bit;
    else rp__config_error(o->reader, o->name, RP_ERR_UNSUPPORTED, "'%s.%.100s' is %s, which rope type '%s' does not honour", o->name,
                          key, rp__config_show(value, shown), types[o->type].name);
}

static void check_needs(const object *o)
{
    int missing = types[o->type].needs & ~o->given;

    for (int i = 0; i < RP_COUNT(numbers); i++)
        if (missing & numbers[i].bit)
            rp__config_error(o->reader, o->name, RP_ERR_CONFIG, "'%s.%s' is missing, rope type '%s' needs it", o->name,
                             numbers[i].key, types[o->type].name);
    if (missing & (SHORT | LONG))
        rp__config_error(o->reader, o->name, RP_ERR_CONFIG, "'%s.%s' is missing, rope type '%s' needs it", o->name,
                         missing & SHORT ? "short_factor" : "long_factor", types[o->type].name);
    if (o->given & LOW && o->given & HIGH && !(o->rope.high_freq_factor > o->rope.low_freq_factor))
        rp__config_error(o->reader, o->name, RP_ERR_CONFIG, "'%s.high_freq_factor' %g is not above 'low_freq_factor' %g", o->name,
                         o->rope.high_freq_factor, o->rope.low_freq_factor);
}

/* Returns false if the object is absent or of an unknown type. */
static bool read_object(rp_config_reader *reader, const char *name, const json_t *json, object *o)
{
    char shown[RP_SHOWN_CHARS];
    const char *key;
    json_t *value;

    *o = (object){ .reader = reader, .name = name, .json = json };
    if (!o->json || json_is_null(o->json)) return false;
    if (!json_is_object(o->json)) {
        rp__config_error(reader, name, RP_ERR_CONFIG, "'%s' is %s, expected an object or null", name,
                         rp__config_show(o->json, shown));
        return false;
    }
    o->type = find_type(o);
    if (o->type < 0) return false;
    o->rope.kind = types[o->type].kind;
    json_object_foreach((json_t *)o->json, key, value) read_key(o, key, value);
    check_needs(o);
    return true;
}

static bool same_list(const json_t *a, const json_t *b) { return a == b || (a && b && json_equal(a, b)); }

static bool same_yarn(const rp_rope_config *a, const rp_rope_config *b)
{
    return a->beta_fast == b->beta_fast && a->beta_slow == b->beta_slow && a->mscale == b->mscale && a->mscale_all_dim == b->mscale_all_dim &&
           a->exact_range == b->exact_range;
}

/* transformers writes one of the two. If both are present, a reader of either must get the same values. */
static void check_agreement(const object *scaling, const object *parameters)
{
    rp_rope_config a = scaling->rope, b = parameters->rope;

    a.theta = b.theta = 0;
    if (a.kind != b.kind || a.factor != b.factor || a.low_freq_factor != b.low_freq_factor ||
        a.high_freq_factor != b.high_freq_factor || a.original_context != b.original_context || a.attention_factor != b.attention_factor ||
        !same_yarn(&a, &b) || !same_list(a.divisors, b.divisors) || !same_list(a.long_divisors, b.long_divisors))
        rp__config_error(scaling->reader, scaling->name, RP_ERR_CONFIG, "'rope_scaling' and 'rope_parameters' disagree");
}

static void set_theta(rp_config_reader *reader, const char *place, const char *key, double theta, rp_rope_config *out)
{
    if (theta > 0 && out->theta > 0 && theta != out->theta)
        rp__config_error(reader, key, RP_ERR_CONFIG, "'%s' is %.17g, but %.17g in another place", place, theta, out->theta);
    else if (theta > 0) out->theta = theta;
}

/* A number above 0 at the top level of the file; 0 if absent. */
static double top_number(rp_config_reader *reader, const char *key)
{
    const json_t *value = json_object_get(reader->json, key);
    char shown[RP_SHOWN_CHARS];

    if (!value || json_is_null(value)) return 0;
    if (!json_is_number(value) || !(json_number_value(value) > 0))
        rp__config_error(reader, key, RP_ERR_CONFIG, "'%s' is %s, expected a positive number", key, rp__config_show(value, shown));
    return json_number_value(value);
}

static double scale_of(double factor, double mscale) { return factor > 1 ? 0.1 * mscale * log(factor) + 1 : 1; }

/* Peng et al., YaRN, 2023, with the defaults of transformers. */
static void finish_yarn(const rp_model_config *config, rp_rope_config *r)
{
    bool both = r->mscale > 0 && r->mscale_all_dim > 0;

    if (!(r->factor > 0)) r->factor = (double)config->context / (double)r->original_context;
    if (!(r->beta_fast > 0)) r->beta_fast = 32;
    if (!(r->beta_slow > 0)) r->beta_slow = 1;
    if (!(r->attention_factor > 0))
        r->attention_factor = both ? scale_of(r->factor, r->mscale) / scale_of(r->factor, r->mscale_all_dim) : scale_of(r->factor, 1);
}

/* Combines rope_scaling, the object of rope_parameters in `json`, and the theta given outside them. */
static rp_rope_config merge(rp_config_reader *reader, const rp_model_config *config, const char *name, const json_t *json, double theta)
{
    object scaling, parameters;
    bool old = read_object(reader, "rope_scaling", json_object_get(reader->json, "rope_scaling"), &scaling);
    bool new = read_object(reader, name, json, &parameters);
    rp_rope_config rope = old ? scaling.rope : new ? parameters.rope : (rp_rope_config){ .kind = RP_ROPE_DEFAULT };

    if (old && new) check_agreement(&scaling, &parameters);
    rope.theta = 0;
    rope.part  = parameters.rope.part > 0 ? parameters.rope.part : scaling.rope.part;
    set_theta(reader, "rope_theta", "rope_theta", theta, &rope);
    set_theta(reader, "rope_scaling.rope_theta", "rope_scaling", scaling.rope.theta, &rope);
    set_theta(reader, "rope_parameters.rope_theta", "rope_parameters", parameters.rope.theta, &rope);
    if ((rope.kind == RP_ROPE_LLAMA3 || rope.kind == RP_ROPE_YARN) && !rope.original_context) rope.original_context = config->context;
    if (rope.kind == RP_ROPE_YARN && rope.original_context) finish_yarn(config, &rope);
    return rope;
}

static void check_whole(rp_config_reader *reader, const rp_rope_config *rope)
{
    if (rope->kind == RP_ROPE_LONG)
        rp__config_error(reader, "rope_scaling", RP_ERR_UNSUPPORTED, "rope type 'longrope' is honoured only for model_type 'phi3'");
    if (rope->part > 0 && rope->part < 1)
        rp__config_error(reader, json_object_get(reader->json, "rope_parameters") ? "rope_parameters" : "rope_scaling", RP_ERR_UNSUPPORTED,
                         "'partial_rotary_factor' is %g; this family rotates whole heads", rope->part);
}

void rp__config_read_rope(rp_config_reader *reader, const rp_model_config *config, rp_rope_config *out)
{
    *out = merge(reader, config, "rope_parameters", json_object_get(reader->json, "rope_parameters"), top_number(reader, "rope_theta"));
    if (!(out->theta > 0)) out->theta = 10000;
    check_whole(reader, out);
}

/* Refuses yarn for families in which transformers reads another rope's or another key's values. */
static void refuse_yarn(rp_config_reader *reader, const rp_rope_config *rope, const char *model_type)
{
    if (rope->kind == RP_ROPE_YARN)
        rp__config_error(reader, json_object_get(reader->json, "rope_parameters") ? "rope_parameters" : "rope_scaling", RP_ERR_UNSUPPORTED,
                         "rope type 'yarn' is not honoured for model_type '%s'", model_type);
}

/* Chen et al., LongRoPE, 2024, as in Phi-3: the stretch is the ratio of the contexts, and attention_factor grows with it. */
static void finish_long(rp_config_reader *reader, rp_model_config *c)
{
    const json_t *top = json_object_get(reader->json, "original_max_position_embeddings");
    rp_rope_config *r = &c->rope;
    size_t pairs      = (size_t)(c->rotary_dim / 2);
    char shown[RP_SHOWN_CHARS];

    if (top && !json_is_null(top) && (!json_is_integer(top) || json_integer_value(top) < 1))
        rp__config_error(reader, "original_max_position_embeddings", RP_ERR_CONFIG, "'original_max_position_embeddings' is %s, expected a "
                         "positive whole number", rp__config_show(top, shown));
    if (r->kind != RP_ROPE_LONG) return;
    if (json_is_integer(top)) r->original_context = json_integer_value(top);
    if (r->original_context < 1) r->original_context = c->context;
    if (json_array_size(r->divisors) != pairs || json_array_size(r->long_divisors) != pairs)
        rp__config_error(reader, "rope_scaling", RP_ERR_CONFIG, "'short_factor' has %zu numbers and 'long_factor' %zu, expected %zu",
                         json_array_size(r->divisors), json_array_size(r->long_divisors), pairs);
    if (r->original_context < 2)
        rp__config_error(reader, "original_max_position_embeddings", RP_ERR_CONFIG, "an original context of %" PRId64 " cannot be stretched",
                         r->original_context);
    double stretch = r->factor > 0 ? r->factor : (double)c->context / (double)r->original_context;
    if (!(r->attention_factor > 0))
        r->attention_factor = stretch <= 1 ? 1 : sqrt(1 + log(stretch) / log((double)r->original_context));
}

void rp__config_read_partial_rope(rp_config_reader *reader, rp_model_config *c)
{
    double top = top_number(reader, "partial_rotary_factor");

    c->rope = merge(reader, c, "rope_parameters", json_object_get(reader->json, "rope_parameters"), top_number(reader, "rope_theta"));
    if (!(c->rope.theta > 0)) c->rope.theta = 10000;
    if (c->rope.part > 0 && top > 0 && c->rope.part != top)
        rp__config_error(reader, "partial_rotary_factor", RP_ERR_CONFIG, "'partial_rotary_factor' is %g, but %g in another place", top,
                         c->rope.part);
    double part   = c->rope.part > 0 ? c->rope.part : top > 0 ? top : 1;
    c->rotary_dim = (int64_t)((double)c->head_dim * part);
    if (part > 1 || c->rotary_dim % 2 || (c->head_dim && c->rotary_dim < 2))
        rp__config_error(reader, "partial_rotary_factor", RP_ERR_CONFIG, "'partial_rotary_factor' %g leaves %" PRId64 " of %" PRId64
                         " elements of a head, which cannot be rotated in pairs", part, c->rotary_dim, c->head_dim);
    refuse_yarn(reader, &c->rope, "phi3");
    finish_long(reader, c);
}

static void check_kinds(rp_config_reader *reader, const json_t *all)
{
    size_t known = (json_object_get(all, "full_attention") != NULL) + (size_t)(json_object_get(all, "sliding_attention") != NULL);
    char shown[RP_SHOWN_CHARS];

    if (!all || json_is_null(all) || (json_is_object(all) && json_object_size(all) == known)) return;
    rp__config_error(reader, "rope_parameters", RP_ERR_UNSUPPORTED, "'rope_parameters' is %s, expected an object of 'full_attention' and "
                     "'sliding_attention'", rp__config_show(all, shown));
}

void rp__config_read_two_ropes(rp_config_reader *reader, rp_model_config *c)
{
    const json_t *all = json_object_get(reader->json, "rope_parameters");
    object window;

    check_kinds(reader, all);
    bool given      = read_object(reader, "rope_parameters", json_object_get(all, "sliding_attention"), &window);
    c->rope        = merge(reader, c, "rope_parameters", json_object_get(all, "full_attention"), top_number(reader, "rope_theta"));
    c->window_rope = given ? window.rope : (rp_rope_config){ .kind = RP_ROPE_DEFAULT };
    set_theta(reader, "rope_local_base_freq", "rope_local_base_freq", top_number(reader, "rope_local_base_freq"), &c->window_rope);
    if (!(c->rope.theta > 0)) c->rope.theta = 1000000;
    if (!(c->window_rope.theta > 0)) c->window_rope.theta = 10000;
    if (c->window_rope.kind == RP_ROPE_LLAMA3 && !c->window_rope.original_context) c->window_rope.original_context = c->context;
    check_whole(reader, &c->rope);
    check_whole(reader, &c->window_rope);
    refuse_yarn(reader, &c->rope, "gemma3_text");
    refuse_yarn(reader, &c->window_rope, "gemma3_text");
}
