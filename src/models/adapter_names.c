/* models/adapter_names.c -- converts names of adapters' tensors with the family's table, and adds or removes peft's prefix and suffix. */
#include "models/adapter_names.h"

#include "models/wrapper.h"

#include <string.h>

#define BEFORE "base_model.model."

static const char *const theirs[] = { [RP_LORA_A] = ".lora_A.weight", [RP_LORA_B] = ".lora_B.weight",
                                        [RP_LORA_MAGNITUDE] = ".lora_magnitude_vector" };

/* For a parameter of the model itself. */
static bool weight_theirs(const rp_model_config *config, const char *path, char out[RP_WEIGHT_NAME_CHARS])
{
    const rp_family *f = config->family;
    char text[RP_WEIGHT_NAME_CHARS];

    if (!rp__weight_name_theirs(f->name, f->n_names, path, config->wrapper ? text : out)) return false;
    return !config->wrapper || rp__wrapper_outside(config->wrapper, text, out);
}

bool rp__layer_name_theirs(const rp_model_config *config, const char *layer, int chars, char out[RP_WEIGHT_NAME_CHARS])
{
    char weight[RP_WEIGHT_NAME_CHARS];

    if (snprintf(weight, sizeof weight, "%.*s.weight", chars, layer) >= (int)sizeof weight) return false;
    if (!weight_theirs(config, weight, out)) return false;
    *strrchr(out, '.') = 0;
    return true;
}

bool rp__adapter_name_theirs(const rp_model_config *config, const char *path, char out[RP_WEIGHT_NAME_CHARS])
{
    char layer[RP_WEIGHT_NAME_CHARS];
    int chars;
    rp_lora_part part = rp__lora_part_of(path, &chars);

    if (part == RP_LORA_NONE) {
        if (!weight_theirs(config, path, layer)) return false;
        return snprintf(out, RP_WEIGHT_NAME_CHARS, "%s%s", BEFORE, layer) < RP_WEIGHT_NAME_CHARS;
    }
    if (!rp__layer_name_theirs(config, path, chars, layer)) return false;
    return snprintf(out, RP_WEIGHT_NAME_CHARS, "%s%s%s", BEFORE, layer, theirs[part]) < RP_WEIGHT_NAME_CHARS;
}

static bool weight_ours(const rp_model_config *config, const char *weight, char path[RP_WEIGHT_NAME_CHARS])
{
    const rp_family *f = config->family;
    char text[RP_WEIGHT_NAME_CHARS];
    bool inside = config->wrapper && rp__wrapper_inside(config->wrapper, weight, text);

    return (inside && rp__weight_name_ours(f->name, f->n_names, text, path)) || rp__weight_name_ours(f->name, f->n_names, weight, path);
}

static bool layer_ours(const rp_model_config *config, const char *weight, char layer[RP_WEIGHT_NAME_CHARS])
{
    if (!weight_ours(config, weight, layer)) return false;
    *strrchr(layer, '.') = 0;
    return true;
}

bool rp__adapter_whole_ours(const rp_model_config *config, const char *name, char path[RP_WEIGHT_NAME_CHARS])
{
    size_t before = sizeof BEFORE - 1;

    return !strncmp(name, BEFORE, before) && weight_ours(config, name + before, path);
}

rp_lora_part rp__adapter_name_ours(const rp_model_config *config, const char *name, char layer[RP_WEIGHT_NAME_CHARS])
{
    size_t before = sizeof BEFORE - 1;
    char weight[RP_WEIGHT_NAME_CHARS];

    if (strncmp(name, BEFORE, before)) return RP_LORA_NONE;
    for (rp_lora_part part = RP_LORA_A; part < RP_LORA_PARTS; part++) {
        if (!rp__ends_with(name, theirs[part])) continue;
        int chars = (int)(strlen(name) - before - strlen(theirs[part]));
        bool fits = snprintf(weight, sizeof weight, "%.*s.weight", chars, name + before) < (int)sizeof weight;
        return fits && layer_ours(config, weight, layer) ? part : RP_LORA_NONE;
    }
    return RP_LORA_NONE;
}
