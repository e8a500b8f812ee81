/* models/config.c -- reads a config.json by the table of its family.
 *
 *   fields of the file (or of a wrapper's text_config), replaced by overrides ─▶ each field by its line (config_fields.c) ─▶ unknown keys
 *   ─▶ the family's finish
 *
 * Every step reports errors and continues, so one pass finds all of them. */
#include "models/quant.h"
#include "models/wrapper.h"

#include <math.h>
#include <string.h>

#include "base/json_text.h"

#define RP_FAMILY(name) extern const rp_family rp__family_##name;
#include "models/models.def"
#undef RP_FAMILY

const rp_family *const rp__families[] = {
#define RP_FAMILY(name) &rp__family_##name,
#include "models/models.def"
#undef RP_FAMILY
    NULL,
};

/* Fields of every family that would change the numbers. */
static const rp_config_field common_fields[] = {
    { "model_type", .kind = RP_FIELD_LATER },
    { "layer_types", .kind = RP_FIELD_LATER },
    { "quantization_config", .kind = RP_FIELD_LATER },
    { "quantization", .kind = RP_FIELD_ONLY, .only = "null" },
    { "sliding_window", .kind = RP_FIELD_ONLY, .only = "null" },
    { "use_sliding_window", .kind = RP_FIELD_ONLY, .only = "false" },
    { "per_layer_config", .kind = RP_FIELD_ONLY, .only = "null" },
    { "pruned_heads", .kind = RP_FIELD_ONLY, .only = "{}" },
    { "is_encoder_decoder", .kind = RP_FIELD_ONLY, .only = "false" },
    { "add_cross_attention", .kind = RP_FIELD_ONLY, .only = "false" },
};

/* Keys of every family that change no number of a training step: origin of the files, return values of a call, heads for other
 * tasks, and generation settings that older versions of transformers kept here. */
static const char *const common_inert[] = {
    "architectures", "transformers_version", "_name_or_path", "name_or_path", "_commit_hash", "auto_map", "dtype", "torch_dtype",
    "use_bfloat16", "torchscript", "tf_legacy_loss", "_attn_implementation*", "attn_implementation", "_flash_attn_2_enabled",
    "_experts_implementation*", "unsloth_*", "tokenizer_class", "prefix", "output_hidden_states", "output_attentions",
    "return_dict", "use_return_dict", "use_cache", "gradient_checkpointing", "chunk_size_feed_forward", "is_decoder",
    "cross_attention_hidden_size", "tie_encoder_decoder", "tie_last_hidden_states", "finetuning_task", "task_specific_params",
    "problem_type", "num_labels", "_num_labels", "id2label", "label2id", "pad_token_id", "sep_token_id", "unk_token_id",
    "decoder_start_token_id", "assistant_*", "bad_words_ids", "begin_suppress_tokens", "diversity_penalty", "do_sample",
    "early_stopping", "encoder_no_repeat_ngram_size", "encoder_repetition_penalty", "epsilon_cutoff", "eta_cutoff",
    "exponential_decay_length_penalty", "forced_bos_token_id", "forced_eos_token_id", "length_penalty", "max_length",
    "max_new_tokens", "min_length", "no_repeat_ngram_size", "num_assistant_tokens", "num_assistant_tokens_schedule",
    "num_beam_groups", "num_beams", "num_return_sequences", "output_scores", "remove_invalid_values", "repetition_penalty",
    "return_dict_in_generate", "suppress_tokens", "target_lookbehind", "temperature", "top_k", "top_p", "typical_p", NULL,
};

/* ---- overrides ---- */

static json_t *json_of(const rp_yaml_node *node);

static json_t *json_of_children(const rp_yaml_node *node)
{
    bool is_map = node->kind == RP_YAML_MAP;
    json_t *out = is_map ? json_object() : json_array();

    for (const rp_yaml_node *child = node->first; child && out; child = child->next) {
        json_t *value = json_of(child);
        if ((is_map ? json_object_set_new(out, child->key, value) : json_array_append_new(out, value)) == 0) continue;
        json_decref(out);
        out = NULL;
    }
    return out;
}

/* Converts as JSON would: only unquoted scalars become null, true, false or a number. */
static json_t *json_of(const rp_yaml_node *node)
{
    int64_t whole;
    double number;
    bool truth;

    if (node->kind != RP_YAML_SCALAR) return json_of_children(node);
    if (rp__yaml_is_null(node)) return json_null();
    if (rp__yaml_is_bool(node, &truth)) return json_boolean(truth);
    if (!node->quoted && rp__parse_int(node->text, INT64_MIN, INT64_MAX, &whole)) return json_integer(whole);
    if (!node->quoted && rp__parse_double(node->text, &number) && isfinite(number)) return json_real(number);
    return json_string(node->text);
}

static rp_status apply_overrides(rp_config_reader *r)
{
    for (const rp_yaml_node *set = r->overrides ? r->overrides->first : NULL; set; set = set->next)
        RP_CHECK(r->ctx, json_object_set_new(r->json, set->key, json_of(set)) == 0, RP_ERR_MEMORY,
                 "cannot allocate host memory for '%.200s' set over '%s'", set->key, r->label);
    return RP_OK;
}

/* ---- differences between blocks ---- */

static bool is_kind(const json_t *type, const char *kind) { return json_is_string(type) && !strcmp(json_string_value(type), kind); }

/* transformers 5 names the kind of attention of each block. */
static void check_layer_types(rp_config_reader *r, const rp_family *family)
{
    const json_t *types = json_object_get(r->json, "layer_types"), *type;
    char shown[RP_SHOWN_CHARS];
    size_t i;

    if (types && !json_is_null(types) && !json_is_array(types))
        rp__config_error(r, "layer_types", RP_ERR_CONFIG, "'layer_types' is %s, expected a list", rp__config_show(types, shown));
    json_array_foreach(types, i, type) {
        if (is_kind(type, "full_attention") || (family->honours_layer_types && is_kind(type, "sliding_attention"))) continue;
        rp__config_error(r, "layer_types", RP_ERR_UNSUPPORTED, "'layer_types' has %s; %s honoured", rp__config_show(type, shown),
                         family->honours_layer_types ? "only \"full_attention\" and \"sliding_attention\" are" : "only \"full_attention\" is");
        return;
    }
}

/* Whether weights are read is decided with the files; here, only whether their format is known. */
static void check_quantised(rp_config_reader *r)
{
    const json_t *value = json_object_get(r->json, "quantization_config");
    char shown[RP_SHOWN_CHARS];

    if (!value || json_is_null(value)) return;
    if (is_kind(json_object_get(value, "quant_method"), "bitsandbytes") && is_kind(json_object_get(value, "bnb_4bit_quant_type"), "nf4")) return;
    if (rp__stand_in_is_valid(value)) return;
    rp__config_error(r, "quantization_config", RP_ERR_UNSUPPORTED, "'quantization_config' is %s; only null, the nf4 of bitsandbytes and types by 'reprise "
                     "inspect' are honoured", rp__config_show(value, shown));
}

/* Checks the list against the other fields. */
static void check_windows(rp_config_reader *r, const rp_model_config *c)
{
    const json_t *types = json_object_get(r->json, "layer_types"), *type;
    size_t i;

    if (!json_is_array(types)) return;
    if (!c->family->honours_layer_types && !c->window) return;
    if (c->family->honours_layer_types && c->n_layers && json_array_size(types) != (size_t)c->n_layers)
        rp__config_error(r, "layer_types", RP_ERR_CONFIG, "'layer_types' is for %zu blocks, there are %" PRId64, json_array_size(types),
                         c->n_layers);
    if (!c->family->honours_layer_types && c->window)
        rp__config_error(r, "layer_types", RP_ERR_UNSUPPORTED, "'layer_types' together with 'sliding_window' is not honoured for model_type "
                         "'%s', whose window applies to all blocks", c->family->model_type);
    json_array_foreach(types, i, type)
        if (is_kind(type, "sliding_attention") && !c->window) {
            rp__config_error(r, "layer_types", RP_ERR_CONFIG, "'layer_types' has \"sliding_attention\", but there is no window");
            return;
        }
}

const char *rp__model_type(const rp_model_config *config) { return config->family->model_type; }

int64_t rp__model_config_window(const rp_model_config *c, int64_t layer)
{
    const json_t *types = c->family && c->family->honours_layer_types ? json_object_get(c->source, "layer_types") : NULL;
    bool has            = c->window_every ? (layer + 1) % c->window_every != 0 : layer >= c->window_from;

    if (json_is_array(types)) has = is_kind(json_array_get(types, (size_t)layer), "sliding_attention");
    return has ? c->window : 0;
}

int64_t rp__model_config_experts(const rp_model_config *c, int64_t layer)
{
    const json_t *without = json_object_get(c->source, "mlp_only_layers"), *number;
    size_t i;

    json_array_foreach(without, i, number)
        if (json_integer_value(number) == layer) return 0;
    return c->experts_every && (layer + 1) % c->experts_every ? 0 : c->experts;
}

/* ---- unknown keys ---- */

enum { MAX_KNOWN = 256 };

static int known_keys(const rp_family *family, const char *known[MAX_KNOWN + 1])
{
    int n = 0;

    for (int i = 0; i < family->n_fields && n + 1 < MAX_KNOWN; i++) {
        known[n++] = family->field[i].key;
        if (family->field[i].also) known[n++] = family->field[i].also;
    }
    for (int i = 0; i < RP_COUNT(common_fields) && n < MAX_KNOWN; i++) known[n++] = common_fields[i].key;
    for (const char *const *key = family->inert; key && *key && n < MAX_KNOWN; key++) known[n++] = *key;
    for (const char *const *key = common_inert; *key && n < MAX_KNOWN; key++) known[n++] = *key;
    known[n] = NULL;
    return n;
}

static void check_unknown(rp_config_reader *r, const rp_family *family)
{
    const char *known[MAX_KNOWN + 1], *key;
    int n = known_keys(family, known);
    char shown[RP_SHOWN_CHARS];
    json_t *value;

    json_object_foreach(r->json, key, value) {
        bool found = false;
        for (int i = 0; i < n && !found; i++) found = rp__glob(known[i], key);
        if (found) continue;
        const char *near = rp__nearest(key, known);
        rp__config_error(r, key, RP_ERR_UNSUPPORTED, "unknown field '%.100s' (%s) of model_type '%s'%s%s%s", key,
                         rp__config_show(value, shown), family->model_type, near ? "; did you mean '" : "", near ? near : "",
                         near ? "'?" : "");
    }
}

/* ---- the whole ---- */

static const rp_family *find_family(rp_config_reader *r)
{
    const json_t *type = json_object_get(r->json, "model_type");
    char known[256] = "", wrappers[256], shown[RP_SHOWN_CHARS];
    size_t used     = 0;

    for (const rp_family *const *f = rp__families; *f; f++) {
        if (json_is_string(type) && !strcmp((*f)->model_type, json_string_value(type))) return *f;
        if (used >= sizeof known) continue;
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", (*f)->model_type);
    }
    rp__wrapper_names(wrappers, sizeof wrappers);
    if (!type) rp__config_error(r, "model_type", RP_ERR_CONFIG, "'model_type' is missing; these are honoured: %s", known);
    else rp__config_error(r, "model_type", RP_ERR_UNSUPPORTED, "'model_type' is %s; these are honoured: %s, and the text models of %s",
                          rp__config_show(type, shown), known, wrappers);
    return NULL;
}

static bool has_field(const rp_family *family, const char *key)
{
    for (int i = 0; i < family->n_fields; i++)
        if (!strcmp(family->field[i].key, key)) return true;
    return false;
}

/* Each expert is a module of its block, so their number is limited. */
static void check_experts(rp_config_reader *r, const rp_model_config *c)
{
    if (c->n_layers > 0 && c->experts > RP_MOST_EXPERTS / c->n_layers)
        rp__config_error(r, "num_hidden_layers", RP_ERR_CONFIG, "%" PRId64 " blocks of %" PRId64 " experts exceed the limit of %d experts",
                         c->n_layers, c->experts, RP_MOST_EXPERTS);
}

static void config_read_all(rp_config_reader *r, rp_model_config *c)
{
    c->family = find_family(r);
    if (!c->family) return;
    for (int i = 0; i < c->family->n_fields; i++) rp__config_read_field(r, &c->family->field[i], c);
    for (int i = 0; i < RP_COUNT(common_fields); i++)
        if (!has_field(c->family, common_fields[i].key)) rp__config_read_field(r, &common_fields[i], c);
    check_layer_types(r, c->family);
    check_unknown(r, c->family);
    check_quantised(r);
    c->family->finish(r, c);
    check_windows(r, c);
    check_experts(r, c);
}

/* Adds "text_config" to the label of messages. */
static rp_status take_text(rp_config_reader *r, const rp_wrapper *wrapper, char label[RP_ERROR_CHARS])
{
    if (!wrapper) return RP_OK;
    RP_TRY(rp__wrapper_take_text(r, wrapper));
    snprintf(label, RP_ERROR_CHARS, "%s: text_config", r->label);
    r->label = label;
    return RP_OK;
}

static rp_status read_object(rp_config_reader *r, rp_model_config *c, char label[RP_ERROR_CHARS])
{
    c->wrapper       = rp__wrapper_find(r->json);
    rp_status status = take_text(r, c->wrapper, label);
    c->source        = r->json;
    if (status != RP_OK || r->status != RP_OK) return status;
    RP_TRY(apply_overrides(r));
    config_read_all(r, c);
    return RP_OK;
}

rp_status rp__model_config_parse(rp_ctx *ctx, const char *label, const json_t *json, const rp_yaml_node *overrides,
                                 rp_report *report, rp_model_config *out)
{
    rp_config_reader r  = { ctx, label, rp__json_deep_copy(json), overrides, report, RP_OK };
    rp_model_config c   = { .source = r.json };
    rp_status status    = RP_OK;
    char inside[RP_ERROR_CHARS];

    if (!r.json) status = rp_fail(ctx, RP_ERR_MEMORY, "cannot allocate host memory for the fields of '%s'", label);
    else if (!json_is_object(r.json)) rp__config_error(&r, "", RP_ERR_CONFIG, "not a JSON object");
    else status = read_object(&r, &c, inside);
    if (status == RP_OK && r.status != RP_OK) status = rp__report_status(report, r.status);
    if (status == RP_OK) *out = c;
    else rp__model_config_drop(&c);
    return status;
}
