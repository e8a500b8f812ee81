/* recipe/torchtune.c -- the keys of torchtune: ac_mode, ac_option and ac_conditions, and those for sharding. */
#include "recipe/foreign.h"

#include "base/report.h"
#include "base/yaml.h"

/* ac_option: a number of layers (0 means all), or op. */
static rp_status translate_selective_mode(rp_foreign *t, const rp_yaml_node *mode, const rp_yaml_node *option)
{
    int64_t k;

    if (option && !strcmp(rp__foreign_word(option), "op"))
        return rp__foreign_become(t, mode, "ac_mode: selective, ac_option: op", "activation_checkpointing.mode", "selective_op");
    rp_yaml_node plain = option ? *option : (rp_yaml_node){ 0 };
    plain.quoted       = false;                              /* torchtune takes "2" as well */
    if (!option || !rp__yaml_int(&plain, 0, 1048576, &k)) {
        if (option) rp__yaml_mismatch(t->r->report, "ac_option", "a number of layers, or op", option);
        else RP_FOREIGN_ERROR(t, mode, "'ac_mode: selective' needs 'ac_option'");
        return RP_OK;
    }
    if (k == 0) return rp__foreign_become(t, mode, "ac_mode: selective, ac_option: 0", "activation_checkpointing.mode", "full");
    char every[32];
    snprintf(every, sizeof every, "%" PRId64, k);
    RP_TRY(rp__foreign_become(t, mode, "ac_mode: selective", "activation_checkpointing.mode", "selective_layer"));
    return rp__foreign_become(t, option, "ac_option", "activation_checkpointing.every", every);
}

/* A condition of torchtune's proposal: the dotted name of a function, then a map with its arguments. Only the one for
 * every k-th layer has an equivalent; it counts from layer 0. */
static rp_status translate_condition(rp_foreign *t, const rp_yaml_node *name, const rp_yaml_node *args, rp_yaml_node **out)
{
    const rp_yaml_node *k = rp__yaml_find(args, "k");
    const char *dot       = strrchr(name->text, '.');
    char value[96];
    int64_t n;

    *out = NULL;
    if (strcmp(dot ? dot + 1 : name->text, "selective_active_checkpointing_condition")) {
        rp__report_error(t->r->report, name->place,
                         "'%s' in 'ac_conditions' has no equivalent; a condition of your own is a 'plugin'", name->text);
        return RP_OK;
    }
    if (!k || !rp__yaml_int(k, 1, 1048576, &n)) {
        rp__report_error(t->r->report, name->place, "'%s' needs 'k', a whole number from 1", name->text);
        return RP_OK;
    }
    snprintf(value, sizeof value, "{every_k_layers: {k: %" PRId64 ", offset: 1}}", n);
    rp__report_note(t->r->report, name->place, "'%s' is read as '%s'", name->text, value);
    RP_TRY(rp__yaml_parse(&t->r->recipe->doc, name->place.origin, value, (int64_t)strlen(value), t->r->report, out));
    rp__foreign_set_place(*out, name->place);
    return RP_OK;
}

static rp_status translate_conditions(rp_foreign *t, const rp_yaml_node *list)
{
    rp_yaml_node *ours = rp__yaml_new(&t->r->recipe->doc, RP_YAML_LIST, list->place);

    if (!ours) return RP_ERR_MEMORY;
    if (list->kind != RP_YAML_LIST) {
        rp__yaml_mismatch(t->r->report, "ac_conditions", "a list of conditions", list);
        return RP_OK;
    }
    for (const rp_yaml_node *each = list->first; each; each = each->next) {
        const rp_yaml_node *args = each->next;
        rp_yaml_node *made;
        if (rp__yaml_is_text(each)) {
            RP_TRY(translate_condition(t, each, args, &made));
            if (args && rp__yaml_find(args, "k")) each = args;
        } else {
            made = rp__yaml_copy(&t->r->recipe->doc, each);
            if (!made) return RP_ERR_MEMORY;
        }
        if (made) rp__yaml_append(ours, made);
    }
    rp__report_note(t->r->report, rp__yaml_key_place(list), "'ac_conditions' is read as 'activation_checkpointing.conditions'");
    return rp__recipe_put(t->r, t->root, "activation_checkpointing.conditions", ours);
}

rp_status rp__foreign_torchtune(rp_foreign *t)
{
    static const char *const modes[] = { "none", "full", "selective", NULL };
    const rp_yaml_node *mode = rp__foreign_get(t, "ac_mode"), *option = rp__foreign_get(t, "ac_option");
    const rp_yaml_node *conditions = rp__foreign_get(t, "ac_conditions");
    const char *is = mode ? rp__foreign_word(mode) : "";
    char hint[RP_HINT_CHARS];

    if (conditions) RP_TRY(translate_conditions(t, conditions));
    if (conditions && mode)
        RP_FOREIGN_ERROR(t, mode, "'ac_mode' and 'ac_conditions' are two ways of one thing");
    if (option && strcmp(is, "selective"))
        RP_FOREIGN_ERROR(t, option, "'ac_option' is for 'ac_mode: selective'");
    if (!mode || conditions) return RP_OK;
    if (!strcmp(is, "selective")) return translate_selective_mode(t, mode, option);
    if (!strcmp(is, "full")) return rp__foreign_become(t, mode, "ac_mode: full", "activation_checkpointing.mode", "full");
    if (!strcmp(is, "none")) return rp__foreign_become(t, mode, "ac_mode: none", "activation_checkpointing.mode", "none");
    RP_FOREIGN_ERROR(t, mode, "unknown 'ac_mode' '%s'%s", is, rp__hint(is, modes, hint));
    return RP_OK;
}

rp_status rp__foreign_sharding(rp_foreign *t)
{
    static const char wrapped[] = "dist.custom_sharded_layers";
    const rp_yaml_node *layers = rp__foreign_get(t, "custom_sharded_layers"), *reshard = rp__foreign_get(t, "fsdp_reshard_after_forward");
    const rp_yaml_node *wrapping = rp__foreign_get(t, "memory_efficient_wrapping"), *dist = rp__yaml_find(t->root, "dist");
    bool truth;

    if (reshard && rp__yaml_find(dist, "reshard_after_forward"))
        RP_FOREIGN_ERROR(t, reshard, "'fsdp_reshard_after_forward' and 'dist.reshard_after_forward' say the same thing; keep one");
    else if (reshard) RP_TRY(rp__foreign_move(t, reshard, "fsdp_reshard_after_forward", "dist.reshard_after_forward"));
    if (wrapping && !rp__yaml_is_bool(wrapping, &truth)) {
        rp__yaml_mismatch(t->r->report, "memory_efficient_wrapping", "true or false", wrapping);
        wrapping = NULL;
    }
    if ((layers || wrapping) && rp__yaml_find(dist, "custom_sharded_layers"))
        RP_FOREIGN_ERROR(t, layers ? layers : wrapping, "'%s' and '%s' say the same thing; keep one",
                         (layers ? layers : wrapping)->key, wrapped);
    else if (layers && wrapping)
        RP_FOREIGN_ERROR(t, wrapping, "'memory_efficient_wrapping' and 'custom_sharded_layers' say the same thing; keep one");
    else if (layers) return rp__foreign_move(t, layers, "custom_sharded_layers", wrapped);
    else if (wrapping && truth)
        return rp__foreign_become(t, wrapping, "memory_efficient_wrapping: true", wrapped, "[tok_embeddings, output]");
    else if (wrapping)
        rp__report_note(t->r->report, rp__yaml_key_place(wrapping), "'memory_efficient_wrapping: false' changes nothing");
    return RP_OK;
}
