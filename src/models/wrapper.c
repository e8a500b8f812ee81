/* models/wrapper.c -- the table of wrappers, and the extraction of their text model.
 *
 * Names are those of transformers 5.23: names of modules (models/<wrapper>/modeling_*.py), and the other names that its
 * conversion_mapping.py reads, which published files have and which it writes. Among the fields outside text_config, only those in `outer` below
 * and tie_word_embeddings apply to the text model. */
#include "models/wrapper.h"

#include <string.h>

/* Derived from LLaVA: modules are model.language_model and lm_head; in files, language_model is a complete model with its head. */
static const rp_prefix_pair language_model[] = {
    { "model.language_model.", "model." }, { "lm_head.", "lm_head." }, { "language_model.", "" }, { NULL, NULL },
};
static const char *const tower[] = {
    "vision_tower.*", "multi_modal_projector.*", "image_newline", "image_tower.*", "video_tower.*", "model.vision_tower.*",
    "model.multi_modal_projector.*", "model.image_newline", "model.image_tower.*", "model.video_tower.*", NULL,
};

/* Idefics: names in files are those of the modules. */
static const rp_prefix_pair text_model[] = { { "model.text_model.", "model." }, { "lm_head.", "lm_head." }, { NULL, NULL } };
static const char *const connector[] = { "model.vision_model.*", "model.connector.*", NULL };

static const rp_wrapper wrappers[] = {
    { "gemma3", "gemma3_text", language_model, tower, false },
    { "mistral3", "mistral", language_model, tower, false },
    { "llava", "llama", language_model, tower, true },
    { "llava_next", "llama", language_model, tower, false },
    { "llava_next_video", "llama", language_model, tower, true },
    { "llava_onevision", "qwen2", language_model, tower, true },
    { "vipllava", "llama", language_model, tower, false },
    { "video_llava", "llama", language_model, tower, false },
    { "internvl", "qwen2", language_model, tower, false },
    { "idefics3", "llama", text_model, connector, false },
    { "smolvlm", "llama", text_model, connector, false },
};

/* Default sizes, because most published text_configs omit some. They are those of the family's config class in transformers 5.23
 * (models/<family>/configuration_*.py). Other defaults are in the families' tables. */
static const struct { const char *model_type, *sizes; } defaults[] = {
    { "gemma3_text", "{\"vocab_size\": 262208, \"hidden_size\": 2304, \"intermediate_size\": 9216, \"num_hidden_layers\": 26, "
                     "\"num_attention_heads\": 8, \"num_key_value_heads\": 4}" },
    { "mistral", "{\"vocab_size\": 32000, \"hidden_size\": 4096, \"intermediate_size\": 14336, \"num_hidden_layers\": 32, "
                 "\"num_attention_heads\": 32, \"num_key_value_heads\": 8}" },
    { "llama", "{\"vocab_size\": 32000, \"hidden_size\": 4096, \"intermediate_size\": 11008, \"num_hidden_layers\": 32, "
               "\"num_attention_heads\": 32}" },
    { "qwen2", "{\"vocab_size\": 151936, \"hidden_size\": 4096, \"intermediate_size\": 22016, \"num_hidden_layers\": 32, "
               "\"num_attention_heads\": 32, \"num_key_value_heads\": 32}" },
    { "qwen3", "{\"vocab_size\": 151936, \"hidden_size\": 4096, \"intermediate_size\": 22016, \"num_hidden_layers\": 32, "
               "\"num_attention_heads\": 32, \"num_key_value_heads\": 32}" },
};

/* Outer values, unless null, override those in text_config: for generation, and for quantisation, which covers the whole model. */
static const char *const outer[] = { "bos_token_id", "eos_token_id", "pad_token_id", "quantization_config", "quantization" };

/* Left in text_configs by the wrapper's creators (SmolVLM's, Pixtral's); no class of a text model reads them. */
static const char *const unread[] = { "neftune_noise_alpha", "perceiver_config", "pixel_shuffle_factor", "qk_layer_norms", "use_resampler",
                                      "is_composition", "transformers.js_config" };

const rp_wrapper *rp__wrapper_find(const json_t *config)
{
    const char *type = json_string_value(json_object_get(config, "model_type"));

    for (int i = 0; type && i < RP_COUNT(wrappers); i++)
        if (!strcmp(wrappers[i].model_type, type)) return &wrappers[i];
    return NULL;
}

const char *rp__wrapper_names(char *out, size_t out_bytes)
{
    size_t used = 0;

    for (int i = 0; i < RP_COUNT(wrappers) && used < out_bytes; i++)
        used += (size_t)snprintf(out + used, out_bytes - used, "%s%s", i ? ", " : "", wrappers[i].model_type);
    return out;
}

/* ---- config.json ---- */

static int set_sizes(json_t *text)
{
    const char *type = json_string_value(json_object_get(text, "model_type"));
    int failed       = 0;

    for (int i = 0; type && i < RP_COUNT(defaults); i++) {
        if (strcmp(defaults[i].model_type, type)) continue;
        json_t *sizes = json_loads(defaults[i].sizes, 0, NULL);
        failed        = !sizes || json_object_update_missing(text, sizes);
        json_decref(sizes);
    }
    return failed;
}

/* transformers uses the outer value; old files have it only inside. */
static int set_tied(const rp_wrapper *w, const json_t *whole, json_t *text)
{
    static const char key[] = "tie_word_embeddings";
    json_t *value            = json_object_get(whole, key);

    if (!value || json_is_null(value) || (w->text_ties && json_is_true(json_object_get(text, key)))) return 0;
    return json_object_set(text, key, value);
}

static int set_outer(const json_t *whole, json_t *text)
{
    int failed = 0;

    for (int i = 0; i < RP_COUNT(outer); i++) {
        json_t *value = json_object_get(whole, outer[i]);
        if (value && !json_is_null(value)) failed |= json_object_set(text, outer[i], value);
    }
    return failed;
}

rp_status rp__wrapper_take_text(rp_config_reader *reader, const rp_wrapper *w)
{
    json_t *whole = reader->json, *text = json_object_get(whole, "text_config");
    char shown[RP_SHOWN_CHARS];

    if (!json_is_object(text)) {
        rp__config_error(reader, "text_config", RP_ERR_CONFIG, "'text_config' of the model_type '%s' is %s, expected an object", w->model_type,
                         text ? rp__config_show(text, shown) : "missing");
        return RP_OK;
    }
    json_incref(text);
    for (int i = 0; i < RP_COUNT(unread); i++) json_object_del(text, unread[i]);
    int failed = set_outer(whole, text) | set_tied(w, whole, text);
    if (!json_object_get(text, "model_type")) failed |= json_object_set_new(text, "model_type", json_string(w->text_type));
    failed |= set_sizes(text);
    json_decref(whole);
    reader->json = text;
    RP_CHECK(reader->ctx, !failed, RP_ERR_MEMORY, "cannot allocate host memory for the fields of '%s'", reader->label);
    return RP_OK;
}

/* ---- weights ---- */

bool rp__wrapper_leaves_out(const rp_wrapper *w, const char *name)
{
    for (const char *const *glob = w->left_out; *glob; glob++)
        if (rp__glob(*glob, name)) return true;
    return false;
}

static bool exchange(const char *from, const char *to, const char *name, char out[RP_WEIGHT_NAME_CHARS])
{
    size_t n = strlen(from);

    return !strncmp(name, from, n) && snprintf(out, RP_WEIGHT_NAME_CHARS, "%s%s", to, name + n) < RP_WEIGHT_NAME_CHARS;
}

bool rp__wrapper_inside(const rp_wrapper *w, const char *name, char out[RP_WEIGHT_NAME_CHARS])
{
    for (const rp_prefix_pair *p = w->prefix; p->theirs; p++)
        if (exchange(p->theirs, p->ours, name, out)) return true;
    return false;
}

bool rp__wrapper_outside(const rp_wrapper *w, const char *name, char out[RP_WEIGHT_NAME_CHARS])
{
    for (const rp_prefix_pair *p = w->prefix; p->theirs; p++)
        if (rp__prefix_outside(p, name, out)) return true;
    return false;
}

bool rp__prefix_outside(const rp_prefix_pair *p, const char *name, char out[RP_WEIGHT_NAME_CHARS])
{
    return exchange(p->ours, p->theirs, name, out);
}
