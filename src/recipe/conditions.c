/* recipe/conditions.c -- reads the conditions and rules of a recipe, opens their plug-ins and derives the selection from the mode. */
#include "policy/plugin.h"
#include "policy/condition.h"
#include "policy/read.h"
#include "recipe/internal.h"

static rp_condition_reader reader(rp_recipe_reader *r)
{
    return (rp_condition_reader){ .ctx = r->ctx, .bump = &r->recipe->doc.bump, .report = r->report, .folder = r->folder };
}

rp_status rp__recipe_read_conditions(rp_recipe_reader *r, const rp_yaml_node *node)
{
    rp_condition_reader conditions = reader(r);

    return rp__conditions_read(&conditions, node, &r->recipe->activation_checkpointing.n_conditions,
                               &r->recipe->activation_checkpointing.condition);
}

rp_status rp__recipe_read_rules(rp_recipe_reader *r, const rp_yaml_node *node)
{
    rp_condition_reader rules = reader(r);

    return rp__rules_read(&rules, node, &r->recipe->activation_checkpointing.n_rules, &r->recipe->activation_checkpointing.rule);
}

/* ---- functions of the whole recipe ---- */

void rp__recipe_bind_layers(rp_recipe *recipe)
{
    const char *layers = recipe->activation_checkpointing.layers;

    for (int i = 0; i < recipe->activation_checkpointing.n_conditions; i++)
        rp__condition_in_list(recipe->activation_checkpointing.condition[i], layers);
    for (int i = 0; i < recipe->activation_checkpointing.n_rules; i++)
        rp__condition_in_list(recipe->activation_checkpointing.rule[i].when, layers);
}

static bool use_plugins(const rp_recipe *recipe, rp_plugin_use *use, rp_report *report)
{
    int before = report->n_errors;

    for (int i = 0; i < recipe->activation_checkpointing.n_conditions; i++)
        rp__condition_plugins(recipe->activation_checkpointing.condition[i], use, report);
    for (int i = 0; i < recipe->activation_checkpointing.n_rules; i++)
        rp__condition_plugins(recipe->activation_checkpointing.rule[i].when, use, report);
    return report->n_errors == before;
}

rp_status rp__recipe_open_plugins(const rp_recipe *recipe, rp_report *report)
{
    if (!recipe->allow_plugins) return use_plugins(recipe, rp__plugin_refuse, report) ? RP_OK : RP_ERR_CONFIG;
    return use_plugins(recipe, rp__plugin_open, report) ? RP_OK : RP_ERR_MATCH;
}

rp_status rp__recipe_look_at_plugins(const rp_recipe *recipe, rp_report *report)
{
    return use_plugins(recipe, rp__plugin_look, report) ? RP_OK : RP_ERR_MATCH;
}

void rp__recipe_close_plugins(rp_recipe *recipe)
{
    for (int i = 0; i < recipe->activation_checkpointing.n_conditions; i++)
        rp__condition_close(recipe->activation_checkpointing.condition[i]);
    for (int i = 0; i < recipe->activation_checkpointing.n_rules; i++)
        rp__condition_close(recipe->activation_checkpointing.rule[i].when);
}

bool rp__recipe_offloads(const rp_recipe *recipe)
{
    for (int i = 0; i < recipe->activation_checkpointing.n_rules; i++) {
        int fate = recipe->activation_checkpointing.rule[i].fate;
        if (fate == RP_OFFLOAD || fate == RP_PREFER_OFFLOAD) return true;
    }
    return false;
}

rp_status rp__recipe_selection(const rp_recipe *recipe, rp_ctx *ctx, rp_selection *out)
{
    const char *save = "activation_checkpointing.save";
    rp_mode_input in = {
        .mode = recipe->activation_checkpointing.mode, .layers = recipe->activation_checkpointing.layers,
        .every = recipe->activation_checkpointing.every, .offset = recipe->activation_checkpointing.offset,
        .n_save = recipe->activation_checkpointing.save.n, .save = recipe->activation_checkpointing.save.item,
        .n_conditions = recipe->activation_checkpointing.n_conditions, .condition = recipe->activation_checkpointing.condition,
        .n_rules = recipe->activation_checkpointing.n_rules, .rule = recipe->activation_checkpointing.rule,
    };

    in.save_place = rp__recipe_place(recipe, rp__recipe_given(recipe, save) ? save : "activation_checkpointing.mode");
    return rp__selection_open(ctx, &in, out);
}
