/* recipe/megatron.c -- the keys of Megatron: recompute_granularity and what belongs to it. */
#include "recipe/foreign.h"

#include "base/report.h"
#include "base/yaml.h"

static rp_status translate_full(rp_foreign *t, const rp_yaml_node *granularity)
{
    const rp_yaml_node *method = rp__foreign_get(t, "recompute_method"), *count = rp__foreign_get(t, "recompute_num_layers");
    char old[96], value[96];
    int64_t n;

    if (!method || !count) {
        RP_FOREIGN_ERROR(t, granularity, "'recompute_granularity: full' needs 'recompute_method' and 'recompute_num_layers'");
        return RP_OK;
    }
    if (!rp__yaml_int(count, 1, 1048576, &n)) {
        rp__yaml_mismatch(t->r->report, "recompute_num_layers", "a whole number from 1", count);
        return RP_OK;
    }
    snprintf(old, sizeof old, "recompute_method: %.16s, recompute_num_layers: %" PRId64, rp__foreign_word(method), n);
    if (!strcmp(rp__foreign_word(method), "uniform")) {
        if (n > 1)
            rp__report_note(t->r->report, rp__yaml_key_place(count), "each block is a region of its own, not %" PRId64 " together", n);
        return rp__foreign_become(t, method, old, "activation_checkpointing.mode", "full");
    }
    if (!strcmp(rp__foreign_word(method), "block")) {
        snprintf(value, sizeof value, "[{layers: {list: [0-%" PRId64 "]}}]", n - 1);
        return rp__foreign_become(t, method, old, "activation_checkpointing.conditions", value);
    }
    rp__yaml_mismatch(t->r->report, "recompute_method", "uniform or block", method);
    return RP_OK;
}

/* core_attn is the default when no module is named. */
static rp_status translate_selective(rp_foreign *t, const rp_yaml_node *granularity)
{
    static const struct { const char *theirs, *rule; } table[] = {
        { "core_attn", "{op: attention, fate: recompute}" },
        { "mlp", "{path: \"*.mlp\", fate: recompute}" },
        { "layernorm", "{type: Norm, fate: recompute}" },
    };
    const rp_yaml_node *modules = rp__foreign_get(t, "recompute_modules"), *forbidden = rp__foreign_get(t, "recompute_method");
    rp_foreign_list list = { 0 };

    if (!forbidden) forbidden = rp__foreign_get(t, "recompute_num_layers");
    if (forbidden) RP_FOREIGN_ERROR(t, forbidden, "'%s' is for 'recompute_granularity: full'", forbidden->key);
    if (!modules)
        return rp__foreign_become(t, granularity, "recompute_granularity: selective", "activation_checkpointing.rules",
                                  "[{op: attention, fate: recompute}]");
    if (modules->kind == RP_YAML_MAP || rp__yaml_is_null(modules)) {
        rp__yaml_mismatch(t->r->report, "recompute_modules", "a list of modules", modules);
        return RP_OK;
    }
    const rp_yaml_node *each = modules->kind == RP_YAML_LIST ? modules->first : modules;
    for (; each; each = modules->kind == RP_YAML_LIST ? each->next : NULL) {
        int i = 0;
        while (i < RP_COUNT(table) && strcmp(rp__foreign_word(each), table[i].theirs)) i++;
        if (i == RP_COUNT(table)) {
            rp__report_error(t->r->report, each->place,
                             "'%s' in 'recompute_modules' has no equivalent here (core_attn, mlp and layernorm have)",
                             rp__foreign_word(each));
            continue;
        }
        RP_TRY(rp__foreign_list_add(t, &list, table[i].rule, each));
    }
    RP_TRY(rp__foreign_list_end(t, &list, modules));
    return rp__foreign_become(t, modules, "recompute_modules", "activation_checkpointing.rules", list.text);
}

rp_status rp__foreign_megatron(rp_foreign *t)
{
    const rp_yaml_node *granularity = rp__foreign_get(t, "recompute_granularity"), *modules = rp__foreign_get(t, "recompute_modules");
    const rp_yaml_node *first       = modules ? modules : rp__foreign_get(t, "recompute_method");

    if (!first) first = rp__foreign_get(t, "recompute_num_layers");
    if (!granularity && first) RP_FOREIGN_ERROR(t, first, "'%s' needs 'recompute_granularity'", first->key);
    if (!granularity) return RP_OK;
    if (!strcmp(rp__foreign_word(granularity), "selective")) return translate_selective(t, granularity);
    if (strcmp(rp__foreign_word(granularity), "full")) {
        rp__yaml_mismatch(t->r->report, "recompute_granularity", "full or selective", granularity);
        return RP_OK;
    }
    if (modules) RP_FOREIGN_ERROR(t, modules, "'recompute_modules' is for 'recompute_granularity: selective'");
    return translate_full(t, granularity);
}
