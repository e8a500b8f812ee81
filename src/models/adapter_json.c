/* models/adapter_json.c -- makes adapter_config.json as the peft package reads it.
 *
 *   target_modules   the shortest end of the layers' names that no other linear layer has: "q_proj", "attn.c_proj", or the whole name.
 *                    For a wrapper, whose vision towers have a q_proj too, it is a regular expression that matches such ends inside the text
 *                    model only
 *
 *   modules_to_save  full names of the modules trained whole; absent if there are none
 *
 * Fields that are not written have peft's defaults, which fit our adapters. */
#include <string.h>

#include "models/adapter.h"
#include "models/adapter_names.h"
#include "models/wrapper.h"

static bool layer_name(const rp_model_config *c, const rp_module *m, char out[RP_WEIGHT_NAME_CHARS])
{
    return !strcmp(m->type->name, "Linear") && rp__layer_name_theirs(c, m->path, (int)strlen(m->path), out);
}

/* peft's rule: the whole name, or the part after a dot. */
static bool ends_so(const char *name, const char *end)
{
    size_t n = strlen(name), k = strlen(end);

    return n >= k && !strcmp(name + n - k, end) && (n == k || name[n - k - 1] == '.');
}

/* Whether a layer without an adapter has such an end. Layers trained whole do not count, because peft gives them no adapter. */
static bool names_others(rp_model *model, const char *end)
{
    const rp_model_config *c = rp__model_config(model);
    char name[RP_WEIGHT_NAME_CHARS];
    rp_lora_parts parts;

    for (rp_module *root = rp__model_root(model), *m = root; m; m = rp__module_next(root, m))
        if (layer_name(c, m, name) && ends_so(name, end) && !rp__lora_parts(m, &parts) && !m->param[0].beside) return true;
    return false;
}

static const char *shortest_end(rp_model *model, const char *name)
{
    const char *end = name + strlen(name);

    while (end > name) {
        for (end -= 1; end > name && end[-1] != '.';) end--;
        if (!names_others(model, end)) return end;
    }
    return name;
}

static bool has_text(const json_t *list, const char *text)
{
    const json_t *each;
    size_t i;

    json_array_foreach(list, i, each)
        if (!strcmp(json_string_value(each), text)) return true;
    return false;
}

/* *any: one of the adapters; all have the same config. */
static json_t *target_modules(rp_model *model, rp_lora_parts *any)
{
    const rp_model_config *c = rp__model_config(model);
    json_t *list             = json_array();
    char name[RP_WEIGHT_NAME_CHARS];

    for (rp_module *root = rp__model_root(model), *m = root; m && list; m = rp__module_next(root, m)) {
        if (!rp__lora_parts(m, any) || !layer_name(c, m, name)) continue;
        const char *end = shortest_end(model, name);
        if (has_text(list, end) || !json_array_append_new(list, json_string(end))) continue;
        json_decref(list);
        list = NULL;
    }
    return list;
}

/* Copies the text with its dots escaped. Returns the end of the copy. */
static char *put_escaped(char *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '.') *out++ = '\\';
        *out++ = *text;
    }
    return out;
}

/* "(?:model\.language_model\.(?:.*\.)?)?(?:q_proj|v_proj)": matches in the text model and the head, but in no tower. Takes ownership of the list. */
static json_t *pattern_of(json_t *ends, const char *inside)
{
    size_t i, chars = 2 * strlen(inside) + 32;
    const json_t *end;

    json_array_foreach(ends, i, end) chars += 2 * json_string_length(end) + 1;
    char *text = malloc(chars), *at = text;
    if (text) {
        at = stpcpy(put_escaped(stpcpy(at, "(?:"), inside), "(?:.*\\.)?)?(?:");
        json_array_foreach(ends, i, end) at = put_escaped(i ? stpcpy(at, "|") : at, json_string_value(end));
        stpcpy(at, ")");
    }
    json_t *out = text ? json_string(text) : NULL;
    free(text);
    json_decref(ends);
    return out;
}

/* Full names, because peft would match any module whose name has a shorter end. Returns NULL if memory runs out. */
static json_t *modules_to_save(rp_model *model)
{
    const rp_model_config *c = rp__model_config(model);
    json_t *list             = json_array();
    char name[RP_WEIGHT_NAME_CHARS];

    for (int i = 0; i < c->adapter.n_whole && list; i++) {
        const char *path = c->adapter.whole[i];
        if (rp__layer_name_theirs(c, path, (int)strlen(path), name) && !json_array_append_new(list, json_string(name))) continue;
        json_decref(list);
        list = NULL;
    }
    return list;
}

/* Adds the names of modules trained whole, and whether a tied weight stays tied. Returns false if memory runs out. */
static bool add_whole(json_t *json, rp_model *model)
{
    const rp_param *table = rp__model_find_param(model, "tok_embeddings.weight");

    if (!rp__model_config(model)->adapter.n_whole) return true;
    return !json_object_set_new(json, "modules_to_save", modules_to_save(model)) &&
           !json_object_set_new(json, "ensure_weight_tying", json_boolean(rp__model_config(model)->tied && table->beside));
}

/* An integer if possible, because peft declares the field as int. */
static json_t *number(double value) { return value == (double)(int64_t)value ? json_integer((json_int_t)value) : json_real(value); }

json_t *rp__adapter_json(rp_model *model, const char *base)
{
    rp_lora_parts any         = { .in_out = false };
    json_t *targets           = target_modules(model, &any);
    const rp_wrapper *wrapper = rp__model_config(model)->wrapper;

    if (targets && wrapper) targets = pattern_of(targets, wrapper->prefix[0].theirs);
    if (!targets) return NULL;
    json_t *out = json_pack("{s:s, s:s, s:s?, s:I, s:o, s:f, s:b, s:b, s:s, s:b, s:b, s:b, s:o}", "peft_type", "LORA", "task_type", "CAUSAL_LM",
                            "base_model_name_or_path", base, "r", (json_int_t)any.lora.rank, "lora_alpha", number(any.lora.alpha), "lora_dropout",
                            any.lora.dropout, "use_rslora", any.lora.rslora, "use_dora", any.lora.dora, "bias", "none", "fan_in_fan_out", any.in_out,
                            "inference_mode", 1, "init_lora_weights", 1, "target_modules", targets);
    if (!out || add_whole(out, model)) return out;
    json_decref(out);
    return NULL;
}
