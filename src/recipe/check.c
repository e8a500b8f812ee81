/* recipe/check.c -- checks that involve several keys: the mode that applies, contradictions between keys, and keys without effect. */
#include "recipe/internal.h"

#include "base/report.h"

#define AC "activation_checkpointing."

const rp_yaml_node *rp__recipe_given(const rp_recipe *recipe, const char *path)
{
    int key = rp__recipe_find_key(path);

    return key < 0 ? NULL : recipe->given[key];
}

rp_place rp__recipe_place(const rp_recipe *recipe, const char *path)
{
    const rp_yaml_node *node = rp__recipe_given(recipe, path);

    if (!node) return (rp_place){ recipe->file, 0 };
    return (rp_place){ node->place.origin, node->key_line ? node->key_line : node->place.line };
}

static bool given(const rp_recipe_reader *r, const char *path) { return rp__recipe_given(r->recipe, path) != NULL; }

static rp_place place(const rp_recipe_reader *r, const char *path) { return rp__recipe_place(r->recipe, path); }

/* ---- activation checkpointing ---- */

static void settle_mode(rp_recipe_reader *r)
{
    rp_recipe *c = r->recipe;
    int *mode    = &c->activation_checkpointing.mode;

    if (c->enable_activation_checkpointing == RP_SWITCH_ON) *mode = RP_MODE_FULL;
    else if (c->enable_activation_checkpointing == RP_SWITCH_OFF) *mode = RP_MODE_NONE;
    else if (given(r, AC "mode")) return;
    else if (c->activation_checkpointing.n_conditions) *mode = RP_MODE_CONDITIONS;
    else if (rp__recipe_is_bounded(c) || c->plan) *mode = RP_MODE_AUTO;
}

static void check_plain_switch(rp_recipe_reader *r)
{
    static const char *const excluded[] = { AC "mode", AC "conditions", AC "rules" };

    if (r->recipe->enable_activation_checkpointing == RP_SWITCH_UNSET) return;
    for (int i = 0; i < RP_COUNT(excluded); i++)
        if (given(r, excluded[i]))
            rp__report_error(r->report, place(r, excluded[i]),
                             "'enable_activation_checkpointing' and '%s' are both set; keep one",
                             excluded[i]);
}

static bool asks_for_layers(const rp_condition *c)
{
    if (c->kind == RP_CONDITION_EVERY_K_LAYERS || c->kind == RP_CONDITION_LAYERS) return true;
    for (int i = 0; i < c->n_parts; i++)
        if (asks_for_layers(c->part[i])) return true;
    return false;
}

/* Does the list of blocks matter? It does for modes that go by blocks and for conditions that count blocks. */
static bool needs_layers(const rp_recipe *c)
{
    int mode = c->activation_checkpointing.mode;

    for (int i = 0; i < c->activation_checkpointing.n_conditions; i++)
        if (asks_for_layers(c->activation_checkpointing.condition[i])) return true;
    for (int i = 0; i < c->activation_checkpointing.n_rules; i++)
        if (asks_for_layers(c->activation_checkpointing.rule[i].when)) return true;
    return mode != RP_MODE_NONE && mode != RP_MODE_CONDITIONS;
}

static void check_ignored(rp_recipe_reader *r)
{
    static const char *const name[] = { "none", "full", "selective_layer", "selective_op", "auto", "that of conditions" };
    const rp_recipe *c          = r->recipe;
    const rp_yaml_node *written = rp__recipe_given(c, AC "mode");
    int mode                    = c->activation_checkpointing.mode;
    const struct { const char *path; bool ignored; } keys[] = {
        { AC "layers", !needs_layers(c) },
        { AC "every", mode != RP_MODE_SELECTIVE_LAYER },
        { AC "offset", mode != RP_MODE_SELECTIVE_LAYER },
        { AC "save", mode != RP_MODE_SELECTIVE_OP },
        { AC "conditions", (mode == RP_MODE_NONE || mode == RP_MODE_AUTO) && c->activation_checkpointing.n_conditions },
    };

    if (written && (written->kind != RP_YAML_SCALAR || strcmp(written->text, name[mode]))) return;   /* reported already */
    for (int i = 0; i < RP_COUNT(keys); i++)
        if (keys[i].ignored && given(r, keys[i].path) &&
            !(i == 4 && c->enable_activation_checkpointing != RP_SWITCH_UNSET))
            rp__report_error(r->report, place(r, keys[i].path), "'%s' has no effect: the mode is %s", keys[i].path,
                             name[mode]);
    if (c->plan && mode != RP_MODE_AUTO)
        rp__report_error(r->report, place(r, "plan"), "'plan' has no effect: the mode is %s", name[mode]);
    if (mode == RP_MODE_AUTO && !rp__recipe_is_bounded(c) && !c->plan)
        rp__report_note(r->report, place(r, AC "mode"), "mode auto keeps everything unless 'memory_budget' or 'memory_limit' is set");
}

/* ---- contradictions ---- */

static void check_model(rp_recipe_reader *r)
{
    const rp_recipe *c = r->recipe;

    if (c->model.path && c->model.config)
        rp__report_error(r->report, place(r, "model.config"), "'model.path' and 'model.config' are both set; keep one");
    if (!c->model.path && !c->model.config)
        rp__report_error(r->report, (rp_place){ c->file, 0 },
                         "no model: set 'model.path', or 'model.config' for random weights");
}

static void check_quantize(rp_recipe_reader *r)
{
    const rp_recipe *c = r->recipe;

    if (c->model.quantize && c->model.config)
        rp__report_error(r->report, place(r, "model.quantize"), "'model.quantize' needs 'model.path', not 'model.config'");
}

static void check_mapped(rp_recipe_reader *r)
{
    const rp_recipe *c = r->recipe;

    if (c->model.mapped && c->model.config)
        rp__report_error(r->report, place(r, "model.mapped"), "'model.mapped' needs 'model.path', not 'model.config'");
    if (c->model.mapped && c->device != RP_DEVICE_CPU)
        rp__report_error(r->report, place(r, "model.mapped"), "'model.mapped' needs 'device: cpu': other devices do not read the pages of files");
}

/* A recipe has fresh adapters, adapters from files, or none. */
static void check_lora(rp_recipe_reader *r)
{
    const rp_recipe *c = r->recipe;

    if (c->model.adapter && c->model.config)
        rp__report_error(r->report, place(r, "model.adapter"), "'model.adapter' needs 'model.path', not 'model.config'");
    if (c->model.adapter && c->lora.rank.set)
        rp__report_error(r->report, place(r, "lora.rank"),
                         "'model.adapter' and 'lora.rank' are both set: the first continues an adapter, the second begins a new one; keep one");
}

static void check_optimizer(rp_recipe_reader *r)
{
    const rp_recipe *c = r->recipe;

    if (c->optimizer_in_bwd == RP_YES && c->clip_grad_norm.set)
        rp__report_error(r->report, place(r, "optimizer_in_bwd"),
                         "'optimizer_in_bwd' true and 'clip_grad_norm' contradict: the norm is known after backward; "
                         "unset one, or set optimizer_in_bwd: auto");
    if (c->optimizer_in_bwd == RP_YES && c->gradient_accumulation_steps > 1)
        rp__report_error(r->report, place(r, "optimizer_in_bwd"),
                         "'optimizer_in_bwd' true and 'gradient_accumulation_steps' %" PRId64
                         " contradict: an update needs the gradients of all micro-batches", c->gradient_accumulation_steps);
}

bool rp__dataset_has_pairs(const rp_recipe_dataset *d)
{
    return d->format == RP_FORMAT_ALPACA || (d->format == RP_FORMAT_JSONL && d->prompt_column);
}

bool rp__dataset_by_template(const rp_recipe_dataset *d)
{
    return d->format == RP_FORMAT_CHAT || (d->use_chat_template && rp__dataset_has_pairs(d));
}

static void check_dataset(rp_recipe_reader *r, const char *group, const rp_recipe_dataset *d)
{
    char path[64];

    snprintf(path, sizeof path, "%s.cross_documents", group);
    if (d->cross_documents && !d->packed)
        rp__report_error(r->report, place(r, path),
                         "'%s' true and '%s.packed' false contradict: only packed samples hold several documents", path,
                         group);
    snprintf(path, sizeof path, "%s.train_on_input", group);
    bool answers = rp__dataset_has_pairs(d) || d->format == RP_FORMAT_CHAT;
    if (!d->train_on_input && !answers && !d->prompt_column)
        rp__report_error(r->report, place(r, path), "'%s' false needs '%s.prompt_column'", path, group);
    else if (!d->train_on_input && !answers)
        rp__report_error(r->report, place(r, path), "'%s' false needs '%s.format' jsonl, chat or alpaca: other data has no prompts", path, group);
}

/* ---- notes on keys without effect ---- */

static void note_unused(rp_recipe_reader *r, const char *path, bool unused, const char *why)
{
    const rp_recipe_key *key = &rp__recipe_keys[rp__recipe_find_key(path)];

    if (unused && given(r, path) && !rp__recipe_is_default(r->recipe, key))
        rp__report_note(r->report, place(r, path), "'%s' has no effect: %s", path, why);
}

static void note_dataset(rp_recipe_reader *r, const char *group, const rp_recipe_dataset *d)
{
    static const struct { const char *key; int formats; const char *why; } keys[] = {
        { "column", 1 << RP_FORMAT_JSONL | 1 << RP_FORMAT_CHAT, "the format is neither jsonl nor chat" },
        { "prompt_column", 1 << RP_FORMAT_JSONL, "the format is not jsonl" },
        { "token_type", 1 << RP_FORMAT_TOKENS, "the format is not tokens" },
    };
    char path[64];

    snprintf(path, sizeof path, "%s.use_chat_template", group);
    note_unused(r, path, !rp__dataset_has_pairs(d), "the data has no prompts with answers");

    for (int i = 0; i < RP_COUNT(keys); i++) {
        snprintf(path, sizeof path, "%s.%s", group, keys[i].key);
        note_unused(r, path, !(1 << d->format & keys[i].formats), keys[i].why);
    }
}

bool rp__recipe_validates(const rp_recipe *r) { return r->has_dataset_val && r->run_val_every_n_steps.set; }

static const char *format_of(const rp_recipe_dataset *d)
{
    static const char *const names[] = { [RP_FORMAT_TEXT] = "text", [RP_FORMAT_JSONL] = "jsonl", [RP_FORMAT_TOKENS] = "tokens",
                                         [RP_FORMAT_CHAT] = "chat", [RP_FORMAT_ALPACA] = "alpaca" };

    return names[d->format];
}

/* dataset_val inherits nothing from dataset. Scoring JSON lines as plain text would give a loss without an error. */
static void note_val_format(rp_recipe_reader *r)
{
    const rp_recipe *c = r->recipe;

    if (rp__recipe_validates(c) && !given(r, "dataset_val.format") && c->dataset.format != c->dataset_val.format)
        rp__report_note(r->report, place(r, "dataset_val.path"), "'dataset_val.format' is %s, its default, and 'dataset.format' is %s: set it if the files "
                        "have the same format", format_of(&c->dataset_val), format_of(&c->dataset));
}

static void note_effects(rp_recipe_reader *r)
{
    const rp_recipe *c = r->recipe;
    bool sgd           = c->optimizer.name == RP_OPTIMIZER_SGD;
    bool unscored      = c->has_dataset_val && !rp__recipe_validates(c);
    bool masters       = c->optimizer.master_weights && c->dtype == RP_TRAIN_BF16;

    note_unused(r, "dataset_val.path", unscored, "'run_val_every_n_steps' is not set");
    note_unused(r, "lora.alpha", !c->lora.rank.set && c->lora.alpha.set, "'lora.rank' is not set");
    note_unused(r, "lora.modules", !c->lora.rank.set && c->lora.modules.n, "'lora.rank' is not set");
    note_unused(r, "lora.whole", !c->lora.rank.set && c->lora.whole.n, "'lora.rank' is not set");
    note_unused(r, "lora.rslora", !c->lora.rank.set && c->lora.rslora, "'lora.rank' is not set");
    note_unused(r, "lora.dora", !c->lora.rank.set && c->lora.dora, "'lora.rank' is not set");
    note_unused(r, "optimizer.betas", sgd, "the optimizer is sgd");
    note_unused(r, "optimizer.eps", sgd, "the optimizer is sgd");
    note_unused(r, "optimizer.momentum", !sgd, "the optimizer is adamw");
    note_unused(r, "optimizer.master_weights", c->optimizer.master_weights && c->dtype == RP_TRAIN_FP32,
                "parameters are fp32 already");
    note_unused(r, "grad_dtype", c->grad_dtype == RP_GRAD_FP32 && c->dtype == RP_TRAIN_FP32, "gradients are fp32 already");
    note_unused(r, AC "offload.path", !rp__recipe_offloads(c) && !c->dist.state_offload, "no rule offloads");
    note_unused(r, AC "offload.to", !rp__recipe_offloads(c), "no rule offloads");
    note_unused(r, "dist.state_offload", sgd && c->optimizer.momentum == 0 && !masters, "sgd without momentum has no states");
    note_unused(r, "tokenizer.chat_template", !rp__dataset_by_template(&c->dataset) && !(c->has_dataset_val && rp__dataset_by_template(&c->dataset_val)),
                "no dataset is written by it");
    note_unused(r, "sample_tokens", !c->sample_prompts.n, "'sample_prompts' is not set");
    note_unused(r, "early_stopping.min_delta", !c->early_stopping.patience.set, "'early_stopping.patience' is not set");
    note_unused(r, "keep_last_n", !c->save_every_n_steps.set, "'save_every_n_steps' is not set");
    note_dataset(r, "dataset", &c->dataset);
    if (c->has_dataset_val) note_dataset(r, "dataset_val", &c->dataset_val);
    note_val_format(r);
}

void rp__recipe_check(rp_recipe_reader *r)
{
    const rp_recipe *c = r->recipe;

    settle_mode(r);
    check_plain_switch(r);
    check_ignored(r);
    check_model(r);
    check_quantize(r);
    check_mapped(r);
    check_lora(r);
    check_optimizer(r);
    check_dataset(r, "dataset", &c->dataset);
    if (c->has_dataset_val) check_dataset(r, "dataset_val", &c->dataset_val);
    if (c->run_val_every_n_steps.set && !c->has_dataset_val)
        rp__report_error(r->report, place(r, "run_val_every_n_steps"), "'run_val_every_n_steps' needs 'dataset_val'");
    if (c->sample_prompts.n && !c->sample_every.set) rp__report_error(r->report, place(r, "sample_prompts"), "'sample_prompts' needs 'sample_every'");
    if (c->sample_every.set && !c->sample_prompts.n) rp__report_error(r->report, place(r, "sample_every"), "'sample_every' needs 'sample_prompts'");
    if (c->keep_best && !c->run_val_every_n_steps.set) rp__report_error(r->report, place(r, "keep_best"), "'keep_best' needs 'run_val_every_n_steps'");
    if (c->early_stopping.patience.set && !c->run_val_every_n_steps.set)
        rp__report_error(r->report, place(r, "early_stopping.patience"), "'early_stopping.patience' needs 'run_val_every_n_steps'");
    if (c->has_dataset_val && !c->dataset_val.path.first)
        rp__report_error(r->report, place(r, "dataset_val.path"), "'dataset_val' needs 'dataset_val.path'");
    note_effects(r);
}

/* Notes the keys that shard weights and gradients: they have no effect with one rank. */
void rp__recipe_note_alone(const rp_recipe *recipe, rp_report *report)
{
    for (int i = 0; i < rp__recipe_n_keys; i++) {
        const rp_recipe_key *key = &rp__recipe_keys[i];
        bool shares              = !strncmp(key->path, "dist.", 5) && key->flags & KEY_SHARE && strcmp(key->path, "dist.ranks");
        if (shares && recipe->given[i] && !rp__recipe_is_default(recipe, key))
            rp__report_note(report, rp__recipe_place(recipe, key->path), "'%s' has no effect: there is one rank", key->path);
    }
}

void rp__recipe_check_train(const rp_recipe *recipe, rp_report *report)
{
    if (!recipe->dataset.path.first && !recipe->documents) rp__report_error(report, (rp_place){ recipe->file, 0 }, "no data: set 'dataset.path'");
}
