/* cli/cmd_explain.c -- explain: the fate of every slot of a recipe's step and the reason, and the owners of the memory at the peak.
 *
 *   --json   { peak_bytes, peak_at: { event, path, op }, by_class, saved_bytes, offloaded_bytes, step_flops, recompute_flops,
 *              slots: [{ path, op, call, output, by_product, shape, dtype, bytes, fate, by, region, flops, saved, seconds,
 *              seconds_per_mib }],
 *              modules: [{ path, slots, saved_bytes, offloaded_bytes, recomputed_bytes, recompute_flops, by_class }],
 *              owners: [{ path, what, class, bytes, blocks }], rules: [{ path, op, fate, saved_bytes, peak_bytes, flops }],
 *              host_fallback_ops }      calls of ops in a forward pass that the host computes, as the device has no kernels for them
 *   text     the same; equal slots and equal modules of several blocks share a line
 *
 * `rules` are rules that were tried: the bytes that each takes off saved_bytes and peak_bytes, and the FLOPs that it adds to a step. */
#include "cli/forecast.h"

#include "base/bump.h"
#include "explain/explain.h"
#include "policy/policy.h"

enum { MOST_OWNERS = 12 };

typedef struct { bool json, graph; const char *file; } explain_fields;

/* ---- JSON ---- */

/* The seconds that one more MiB for keeping this slot would save. */
static double per_mib(const rp_explain_slot *s)
{
    return s->fate == RP_RECOMPUTE && s->bytes ? s->seconds / ((double)s->bytes / (1 << 20)) : 0;
}

static json_t *slots_json(const rp_explain *e)
{
    json_t *out = json_array();

    for (int i = 0; i < e->n_slots; i++) {
        const rp_explain_slot *s = &e->slot[i];
        json_t *shape            = json_array();
        for (int d = 0; d < s->meta.ndim; d++) json_array_append_new(shape, json_integer(s->meta.dim[d]));
        json_array_append_new(out, json_pack("{s:s, s:s, s:i, s:i, s:b, s:o, s:s, s:I, s:s, s:s, s:s?, s:I, s:b, s:f, s:f}", "path", s->path, "op",
                                             s->op, "call", s->call, "output", s->output, "by_product", s->by_product, "shape", shape,
                                             "dtype", rp_dtype_name(s->meta.dtype), "bytes", (json_int_t)s->bytes, "fate",
                                             rp__fate_name((int)s->fate), "by", s->by, "region", s->region, "flops", (json_int_t)s->flops,
                                             "saved", s->saved, "seconds", s->seconds, "seconds_per_mib", per_mib(s)));
    }
    return out;
}

static json_t *owners_json(const rp_explain *e)
{
    json_t *out = json_array();

    for (int i = 0; i < e->n_owners; i++) {
        const rp_explain_owner *o = &e->owner[i];
        json_array_append_new(out, json_pack("{s:s, s:s, s:s, s:I, s:i}", "path", o->path, "what", o->name, "class",
                                             rp_mem_class_name(o->mem_class), "bytes", (json_int_t)o->bytes, "blocks", o->n));
    }
    return out;
}

static json_t *trials_json(const rp_explain *e)
{
    json_t *out = json_array();

    for (int i = 0; i < e->n_trials; i++) {
        const rp_explain_trial *t = &e->trial[i];
        json_array_append_new(out, json_pack("{s:s, s:s, s:s, s:I, s:I, s:I}", "path", t->path, "op", t->op, "fate", "recompute",
                                             "saved_bytes", (json_int_t)t->saved_bytes, "peak_bytes", (json_int_t)t->peak_bytes, "flops",
                                             (json_int_t)t->flops));
    }
    return out;
}

static void print_json(const rp_explain *e)
{
    json_t *all = json_pack("{s:I, s:{s:s, s:s, s:s}, s:o, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o}", "peak_bytes",
                            (json_int_t)e->peak_bytes, "peak_at", "event", e->peak_event, "path", e->peak_path, "op", e->peak_op,
                            "by_class", cli_classes_json(e->peak_at), "saved_bytes", (json_int_t)e->saved_bytes, "offloaded_bytes",
                            (json_int_t)e->offload_bytes, "step_flops", (json_int_t)e->step_flops, "recompute_flops",
                            (json_int_t)e->recompute_flops, "slots", slots_json(e), "modules", cli_modules_json(e), "owners", owners_json(e),
                            "rules", trials_json(e));

    json_object_set_new(all, "host_fallback_ops", json_integer(e->host_fallback_ops));

    cli_print_json(all, 0);
}

/* ---- slots ---- */

static const char *slot_name(const rp_explain_row *row, char out[192])
{
    const rp_explain_slot *s = row->slot;
    char call[16]            = "";

    if (s->call) snprintf(call, sizeof call, " call %d", s->call);
    snprintf(out, 192, "%.100s%s%.40s%s %s %d", row->path, *row->path ? " " : "", s->op, call, s->by_product ? "by" : "out", s->output);
    return out;
}

/* "keep: no region", "recompute: r.yaml:12"; for an argument only its key is printed. */
static const char *decision(const rp_explain_row *row, char out[192])
{
    static const char kept[] = "kept: ", argument[] = "argument '";
    const char *fate         = rp__fate_name((int)row->slot->fate), *by = row->by;

    if (!strncmp(by, kept, sizeof kept - 1)) by += sizeof kept - 1;
    if (strncmp(by, argument, sizeof argument - 1)) snprintf(out, 192, "%s: %.170s", fate, by);
    else snprintf(out, 192, "%s: %.*s=…", fate, (int)strcspn(by + sizeof argument - 1, "='"), by + sizeof argument - 1);
    return out;
}

/* With a budget, also prints the value of one more MiB for each slot. */
static rp_status print_slots(rp_explain *e, bool budget)
{
    char name[192], fate[192], size[RP_SIZE_CHARS];
    rp_explain_row *row;
    int n, width = 4;

    RP_TRY(rp__explain_rows(e, &row, &n));
    for (int i = 0; i < n; i++) {
        int chars = (int)strlen(slot_name(&row[i], name));
        width     = chars > width ? chars : width;
    }
    printf("\n%-*s  %-20s  %12s  %5s  %10s  %s%s\n", width, "slot", "shape", "size each", "count", "MFLOPs", budget ? "   us/MiB  " : "", "fate");
    for (int i = 0; i < n; i++) {
        const rp_explain_slot *slot = row[i].slot;
        printf("%-*s  %-20s  %12s  %5d  %10.3f  ", width, slot_name(&row[i], name), rp_meta_str(&slot->meta), cli_size_cell(size, slot->bytes), row[i].n,
               cli_mflops(slot->flops));
        if (budget) printf("%9.1f  ", 1e6 * per_mib(slot));
        printf("%s\n", decision(&row[i], fate));
    }
    return RP_OK;
}

/* ---- owners ---- */

static bool is_state(rp_mem_class c) { return c == RP_MEM_PARAM || c == RP_MEM_GRAD || c == RP_MEM_OPTIM; }

/* Merge equal owners of all blocks into one, and the parameters, gradients and optimizer states of the whole model into one each. */
static rp_status fold_owners(rp_explain *e, rp_explain_owner **out, int *n_out)
{
    rp_explain_owner *all = rp__bump_alloc(&e->bump, (e->n_owners + 1) * (int64_t)sizeof *all);
    int n                 = 0;

    if (!all) return RP_ERR_MEMORY;
    for (int i = 0; i < e->n_owners; i++) {
        rp_explain_owner o = e->owner[i];
        int at             = 0;
        o.path             = is_state(o.mem_class) ? "the model" : rp__explain_pattern(&e->bump, o.path);
        if (!o.path) return RP_ERR_MEMORY;
        while (at < n && (all[at].mem_class != o.mem_class || strcmp(all[at].name, o.name) || strcmp(all[at].path, o.path))) at++;
        if (at == n) all[n++] = (rp_explain_owner){ o.path, o.name, o.mem_class, 0, 0 };
        all[at].bytes += o.bytes;
        all[at].n += o.n;
    }
    *out   = all;
    *n_out = n;
    return RP_OK;
}

static int most_first(const void *left, const void *right)
{
    const rp_explain_owner *a = left, *b = right;

    if (a->bytes != b->bytes) return a->bytes < b->bytes ? 1 : -1;
    int order = strcmp(a->path, b->path);
    return order ? order : strcmp(a->name, b->name);
}

static void print_owner(const rp_explain *e, const char *name, const char *mem_class, int64_t bytes, int blocks)
{
    char size[RP_SIZE_CHARS];

    printf("%-48s  %-6s  %14s  %7d  %6.1f %%\n", name, mem_class, cli_size_cell(size, bytes), blocks, cli_share(bytes, e->peak_bytes));
}

static rp_status print_owners(rp_explain *e)
{
    rp_explain_owner *o, others = { 0 };
    char name[192];
    int n;

    RP_TRY(fold_owners(e, &o, &n));
    qsort(o, (size_t)n, sizeof *o, most_first);
    printf("\n%-48s  %-6s  %14s  %7s  %8s\n", "at the peak", "class", "size", "buffers", "share");
    for (int i = 0; i < n; i++) {
        if (i >= MOST_OWNERS) {
            others.bytes += o[i].bytes;
            others.n += o[i].n;
            continue;
        }
        snprintf(name, sizeof name, "%.100s%s%.80s", o[i].path, *o[i].path ? " " : "", o[i].name);
        print_owner(e, name, rp_mem_class_name(o[i].mem_class), o[i].bytes, o[i].n);
    }
    if (others.n) print_owner(e, "others", "", others.bytes, others.n);
    return RP_OK;
}

/* ---- advice ---- */

static void print_rule(const rp_explain *e, const rp_recipe *recipe)
{
    const rp_explain_trial *t = e->trial;
    char saved[RP_SIZE_CHARS], peak[RP_SIZE_CHARS];

    printf("- one more rule, {path: \"%s\", op: %s, fate: recompute}, would lower the saved bytes by %s\n  and the peak by %s, for %.3f "
           "MFLOPs more a step\n", *t->path ? t->path : "*", t->op, cli_size(saved, t->saved_bytes),
           cli_size(peak, t->peak_bytes), cli_mflops(t->flops));
    if (recipe->enable_activation_checkpointing != RP_SWITCH_UNSET)
        printf("  (rules need 'activation_checkpointing.mode: %s' instead of the switch)\n",
               recipe->enable_activation_checkpointing == RP_SWITCH_ON ? "full" : "none");
}

static void print_advice(const rp_explain *e, const rp_recipe *recipe)
{
    int64_t state = e->peak_at[RP_MEM_PARAM] + e->peak_at[RP_MEM_GRAD] + e->peak_at[RP_MEM_OPTIM];
    char bytes[RP_SIZE_CHARS], other[RP_SIZE_CHARS];

    putchar('\n');
    if (e->n_trials) print_rule(e, recipe);
    printf("- %s of the peak, %.1f %%, are param, grad and optim: fates do not change these\n", cli_size(bytes, state),
           cli_share(state, e->peak_bytes));
    for (int i = 0; i < e->n_owners && e->peak_at[RP_MEM_TEMP] > e->peak_at[RP_MEM_SAVED]; i++) {
        const rp_explain_owner *o = &e->owner[i];
        if (o->mem_class != RP_MEM_TEMP) continue;
        printf("- temp has a larger part of the peak than saved; its largest buffer is %s%s%s, %s\n", o->path, *o->path ? " " : "",
               o->name, cli_size(other, o->bytes));
        break;
    }
}

static rp_status explain_print_text(rp_explain *e, const rp_recipe *recipe, bool budget)
{
    cli_print_peak(e);
    RP_TRY(print_slots(e, budget));
    cli_print_modules(e);
    RP_TRY(print_owners(e));
    print_advice(e, recipe);
    return RP_OK;
}

/* ---- the command ---- */

static int refuse_file(const cli *c)
{
    cli_say(c, "option '--output' needs '--graph': it names the file of the graph");
    return CLI_USAGE;
}

static int explain(cli *c, const void *given, const cli_args *args)
{
    const explain_fields *fields = given;
    cli_forecast x;
    int code = fields->graph ? cli_need(c, "output", "FILE", fields->file) : CLI_GO;

    if (code == CLI_GO && fields->file && !fields->graph) return refuse_file(c);
    if (code == CLI_GO && fields->file) code = cli_find_output(c, fields->file);
    if (code != CLI_GO) return code;
    code = cli_forecast_open(c, args, &(rp_forecast_options){ .trials = true, .graph = fields->file }, &x);
    if (code == CLI_GO) {
        rp_status status = x.f.feasible ? RP_OK : RP_ERR_BUDGET;
        if (status == RP_OK && fields->json) print_json(&x.f.explain);
        else if (status == RP_OK) status = explain_print_text(&x.f.explain, x.recipe, x.f.plan.budget > 0);
        code = cli_finish(&x.run, status);
    }
    cli_forecast_close(&x);
    return code;
}

static const cli_option options[] = {
    { "json", 0, CLI_FLAG, offsetof(explain_fields, json), NULL, "print one JSON object, with every slot separately", 0, 0 },
    { "graph", 0, CLI_FLAG, offsetof(explain_fields, graph), NULL, "write the step as a graph for other planners, to the file of -o", 0, 0 },
    { "output", 'o', CLI_TEXT, offsetof(explain_fields, file), "FILE", "file of --graph", 0, 0 },
};

const cli_command cmd_explain = {
    .usage = "CONFIG [KEY=VALUE ...] [--json] [--graph -o FILE] [--bytes] [--allow-plugins]",
    .about = "Print the fate of every slot (saved tensor) of a recipe's step, the rule or region that decided it, and the cost of its\n"
             "replay; the totals of modules and memory classes; and the owners of the memory at the peak. Neither weights nor data\n"
             "are read. CONFIG is a path or the name of a shipped recipe; KEY=VALUE sets a key, ~KEY removes one.",
    .example = "reprise explain smollm2_135m_full memory_budget=1700MB",
    CLI_OPTIONS(explain_fields, options),
    .least_words = 1, .most_words = 1, .settings = true, .sizes = true, .plugins = true,
    .run = explain,
};
