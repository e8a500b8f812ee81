/* cli/cmd_explain.c -- what becomes of every slot of a recipe's step and why, and whose the memory is at its peak.
 *
 *   --json   { peak_bytes, peak_at: { event, path, op }, by_class, saved_bytes, offloaded_bytes, step_flops, recompute_flops,
 *              slots: [{ path, op, call, output, by_product, shape, dtype, bytes, fate, by, region, flops, saved }],
 *              modules: [{ path, slots, saved_bytes, offloaded_bytes, recomputed_bytes, recompute_flops, by_class }],
 *              owners: [{ path, what, class, bytes, blocks }], rules: [{ path, op, fate, saved_bytes, peak_bytes, flops }] }
 *   text     the same for people, slots and modules that are alike in one line
 *
 * `rules` are tried ones: what each takes off saved_bytes and peak_bytes, and the FLOPs it adds to a step. */
#include "cli/cli.h"

#include <jansson.h>

#include "train/loop.h"

enum { MOST_OWNERS = 12 };

typedef struct { bool json; } explain_fields;

/* ---- JSON ---- */

static json_t *classes_json(const int64_t *bytes)
{
    json_t *out = json_object();

    for (int i = 0; i < RP_MEM_CLASSES; i++) json_object_set_new(out, rp_mem_class_name((rp_mem_class)i), json_integer(bytes[i]));
    return out;
}

static json_t *slots_json(const rp_explain *e)
{
    json_t *out = json_array();

    for (int i = 0; i < e->n_slots; i++) {
        const rp_explain_slot *s = &e->slot[i];
        json_t *shape            = json_array();
        for (int d = 0; d < s->meta.ndim; d++) json_array_append_new(shape, json_integer(s->meta.dim[d]));
        json_array_append_new(out, json_pack("{s:s, s:s, s:i, s:i, s:b, s:o, s:s, s:I, s:s, s:s, s:s?, s:I, s:b}", "path", s->path, "op",
                                             s->op, "call", s->call, "output", s->output, "by_product", s->by_product, "shape", shape,
                                             "dtype", rp_dtype_name(s->meta.dtype), "bytes", (json_int_t)s->bytes, "fate",
                                             rp__fate_name((int)s->fate), "by", s->by, "region", s->region, "flops", (json_int_t)s->flops,
                                             "saved", s->saved));
    }
    return out;
}

static json_t *modules_json(const rp_explain *e)
{
    json_t *out = json_array();

    for (int i = 0; i < e->n_modules; i++) {
        const rp_explain_module *m = &e->module[i];
        json_array_append_new(out, json_pack("{s:s, s:i, s:I, s:I, s:I, s:I, s:o}", "path", m->path, "slots", m->n_slots, "saved_bytes",
                                             (json_int_t)m->saved_bytes, "offloaded_bytes", (json_int_t)m->away_bytes, "recomputed_bytes",
                                             (json_int_t)m->recomputed_bytes, "recompute_flops", (json_int_t)m->recompute_flops,
                                             "by_class", classes_json(m->peak_at)));
    }
    return out;
}

static json_t *owners_json(const rp_explain *e)
{
    json_t *out = json_array();

    for (int i = 0; i < e->n_owners; i++) {
        const rp_explain_owner *o = &e->owner[i];
        json_array_append_new(out, json_pack("{s:s, s:s, s:s, s:I, s:i}", "path", o->path, "what", o->what, "class",
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
                            "by_class", classes_json(e->peak_at), "saved_bytes", (json_int_t)e->saved_bytes, "offloaded_bytes",
                            (json_int_t)e->away_bytes, "step_flops", (json_int_t)e->step_flops, "recompute_flops",
                            (json_int_t)e->recompute_flops, "slots", slots_json(e), "modules", modules_json(e), "owners", owners_json(e),
                            "rules", trials_json(e));

    json_dumpf(all, stdout, 0);
    putchar('\n');
    json_decref(all);
}

/* ---- the head ---- */

static double share(int64_t part, int64_t whole) { return whole ? 100.0 * (double)part / (double)whole : 0; }
static double mflops(int64_t flops) { return (double)flops / 1e6; }
static const char *s_of(int n) { return n == 1 ? "" : "s"; }

static int count_fate(const rp_explain *e, rp_fate fate)
{
    int n = 0;

    for (int i = 0; i < e->n_slots; i++) n += e->slot[i].fate == fate;
    return n;
}

static void print_head(const rp_explain *e)
{
    char peak[RP_SIZE_CHARS], saved[RP_SIZE_CHARS], away[RP_SIZE_CHARS];
    int offloaded = count_fate(e, RP_OFFLOAD), kept = count_fate(e, RP_KEEP), again = count_fate(e, RP_RECOMPUTE);

    printf("peak %s at the %s of %s%s%s\n", rp__size_text(peak, e->peak_bytes), e->peak_event, e->peak_path, *e->peak_path ? " " : "",
           e->peak_op);
    for (int i = 0; i < RP_MEM_CLASSES; i++)
        if (e->peak_at[i])
            printf("  %-6s %16" PRId64 "  %5.1f %%\n", rp_mem_class_name((rp_mem_class)i), e->peak_at[i],
                   share(e->peak_at[i], e->peak_bytes));
    printf("saved when the forward ends %s: %d slot%s kept; %d recomputed", rp__size_text(saved, e->saved_bytes), kept, s_of(kept), again);
    if (e->n_regions) printf(" (%d region%s)", e->n_regions, s_of(e->n_regions));
    if (offloaded) printf("; %d offloaded, %s", offloaded, rp__size_text(away, e->away_bytes));
    printf("\nreplays %.3f MFLOPs a step, %.1f %% of the %.3f without them\n", mflops(e->recompute_flops),
           share(e->recompute_flops, e->step_flops), mflops(e->step_flops));
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

/* "keep: no region", "recompute: r.yaml:12"; of an argument its key. */
static const char *decision(const rp_explain_row *row, char out[192])
{
    static const char kept[] = "kept: ", argument[] = "argument '";
    const char *fate         = rp__fate_name((int)row->slot->fate), *by = row->by;

    if (!strncmp(by, kept, sizeof kept - 1)) by += sizeof kept - 1;
    if (strncmp(by, argument, sizeof argument - 1)) snprintf(out, 192, "%s: %.170s", fate, by);
    else snprintf(out, 192, "%s: %.*s=…", fate, (int)strcspn(by + sizeof argument - 1, "='"), by + sizeof argument - 1);
    return out;
}

static rp_status print_slots(rp_explain *e)
{
    char name[192], fate[192];
    rp_explain_row *row;
    int n, width = 4;

    RP_TRY(rp__explain_rows(e, &row, &n));
    for (int i = 0; i < n; i++) {
        int chars = (int)strlen(slot_name(&row[i], name));
        width     = chars > width ? chars : width;
    }
    printf("\n%-*s  %-20s  %12s  %5s  %10s  %s\n", width, "slot", "shape", "bytes each", "count", "MFLOPs", "fate");
    for (int i = 0; i < n; i++)
        printf("%-*s  %-20s  %12" PRId64 "  %5d  %10.3f  %s\n", width, slot_name(&row[i], name), rp_meta_str(&row[i].slot->meta),
               row[i].slot->bytes, row[i].n, mflops(row[i].slot->flops), decision(&row[i], fate));
    return RP_OK;
}

/* ---- modules ---- */

static bool alike(const rp_explain_module *a, const rp_explain_module *b)
{
    return a->saved_bytes == b->saved_bytes && a->away_bytes == b->away_bytes && a->recomputed_bytes == b->recomputed_bytes &&
           a->recompute_flops == b->recompute_flops && !memcmp(a->peak_at, b->peak_at, sizeof a->peak_at);
}

static size_t list_chars(const char *path)
{
    const char *dot = strrchr(path, '.');

    return dot ? (size_t)(dot - path) : 0;
}

/* Neighbours in one list of blocks. */
static bool same_list(const rp_explain_module *a, const rp_explain_module *b)
{
    size_t n = list_chars(a->path);

    return n && n == list_chars(b->path) && !strncmp(a->path, b->path, n);
}

static void print_module(const rp_explain_module *m, int n)
{
    int64_t at = 0;
    char name[96];

    for (int i = 0; i < RP_MEM_CLASSES; i++) at += m->peak_at[i];
    snprintf(name, sizeof name, "%.60s", *m->path ? m->path : "of no module");
    if (n > 1) snprintf(name, sizeof name, "%.60s-%s (%d x)", m->path, m[n - 1].path + list_chars(m->path) + 1, n);
    printf("%-24s  %14" PRId64 "  %14" PRId64 "  %14" PRId64 "  %14" PRId64 "  %10.3f\n", name, at, m->peak_at[RP_MEM_SAVED],
           m->saved_bytes, m->recomputed_bytes, mflops(m->recompute_flops));
}

static void print_modules(const rp_explain *e)
{
    printf("\n%-24s  %14s  %14s  %14s  %14s  %10s\n", "module, each", "at the peak", "of it saved", "forward saves", "recomputed",
           "MFLOPs");
    for (int i = 0, n; i < e->n_modules; i += n) {
        for (n = 1; i + n < e->n_modules && same_list(&e->module[i], &e->module[i + n]) && alike(&e->module[i], &e->module[i + n]);) n++;
        print_module(&e->module[i], n);
    }
}

/* ---- owners ---- */

static bool is_state(rp_mem_class c) { return c == RP_MEM_PARAM || c == RP_MEM_GRAD || c == RP_MEM_OPTIM; }

/* Owners that are alike in all blocks, and the state of the whole model, as one. */
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
        while (at < n && (all[at].mem_class != o.mem_class || strcmp(all[at].what, o.what) || strcmp(all[at].path, o.path))) at++;
        if (at == n) all[n++] = (rp_explain_owner){ o.path, o.what, o.mem_class, 0, 0 };
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
    return order ? order : strcmp(a->what, b->what);
}

static void print_owner(const rp_explain *e, const char *name, const char *mem_class, int64_t bytes, int blocks)
{
    printf("%-48s  %-6s  %14" PRId64 "  %7d  %6.1f %%\n", name, mem_class, bytes, blocks, share(bytes, e->peak_bytes));
}

static rp_status print_owners(rp_explain *e)
{
    rp_explain_owner *o, others = { 0 };
    char name[192];
    int n;

    RP_TRY(fold_owners(e, &o, &n));
    qsort(o, (size_t)n, sizeof *o, most_first);
    printf("\n%-48s  %-6s  %14s  %7s  %8s\n", "at the peak", "class", "bytes", "buffers", "share");
    for (int i = 0; i < n; i++) {
        if (i >= MOST_OWNERS) {
            others.bytes += o[i].bytes;
            others.n += o[i].n;
            continue;
        }
        snprintf(name, sizeof name, "%.100s%s%.80s", o[i].path, *o[i].path ? " " : "", o[i].what);
        print_owner(e, name, rp_mem_class_name(o[i].mem_class), o[i].bytes, o[i].n);
    }
    if (others.n) print_owner(e, "others", "", others.bytes, others.n);
    return RP_OK;
}

/* ---- what follows ---- */

static void print_rule(const rp_explain *e, const rp_recipe *recipe)
{
    const rp_explain_trial *t = e->trial;
    char saved[RP_SIZE_CHARS], peak[RP_SIZE_CHARS];

    printf("- one more rule, {path: \"%s\", op: %s, fate: recompute}, would take %s off what is saved\n  and %s off the peak, for %.3f "
           "MFLOPs more a step\n", *t->path ? t->path : "*", t->op, rp__size_text(saved, t->saved_bytes),
           t->peak_bytes ? rp__size_text(peak, t->peak_bytes) : "nothing", mflops(t->flops));
    if (recipe->enable_activation_checkpointing != RP_SWITCH_UNSET)
        printf("  (rules want 'activation_checkpointing.mode: %s' in place of the switch)\n",
               recipe->enable_activation_checkpointing == RP_SWITCH_ON ? "full" : "none");
}

static void print_advice(const rp_explain *e, const rp_recipe *recipe)
{
    int64_t state = e->peak_at[RP_MEM_PARAM] + e->peak_at[RP_MEM_GRAD] + e->peak_at[RP_MEM_OPTIM];
    char bytes[RP_SIZE_CHARS], other[RP_SIZE_CHARS];

    putchar('\n');
    if (e->n_trials) print_rule(e, recipe);
    printf("- %s of the peak, %.1f %%, are param, grad and optim: no fate of a slot changes these\n", rp__size_text(bytes, state),
           share(state, e->peak_bytes));
    for (int i = 0; i < e->n_owners && e->peak_at[RP_MEM_TEMP] > e->peak_at[RP_MEM_SAVED]; i++) {
        const rp_explain_owner *o = &e->owner[i];
        if (o->mem_class != RP_MEM_TEMP) continue;
        printf("- temp takes more of the peak than what is saved; the largest of it is %s%s%s, %s\n", o->path, *o->path ? " " : "",
               o->what, rp__size_text(other, o->bytes));
        break;
    }
}

static rp_status print_text(rp_explain *e, const rp_recipe *recipe)
{
    print_head(e);
    RP_TRY(print_slots(e));
    print_modules(e);
    RP_TRY(print_owners(e));
    print_advice(e, recipe);
    return RP_OK;
}

/* ---- the command ---- */

/* What the report has told is not said twice. */
static int explain_on(const cli *c, const rp_recipe *recipe, bool json)
{
    rp_explain e = { 0 };
    rp_report report;

    rp__report_open(&report, c->ctx);
    rp_status status = rp__recipe_open_plugins(recipe, &report) ? RP_ERR_MATCH : RP_OK;
    if (status == RP_OK) status = rp__recipe_explain(c->ctx, recipe, &report, &e);
    rp__report_sort(&report);
    cli_print_report(&report);
    bool told = report.n_errors > 0;
    rp__report_close(&report);
    if (status == RP_OK && json) print_json(&e);
    else if (status == RP_OK) status = print_text(&e, recipe);
    int code = status == RP_OK ? cli_finish(c, 0) : told ? rp_status_exit_code(status) : cli_fail(c, status);
    rp__explain_close(&e);
    return code;
}

static int explain(cli *c, const explain_fields *fields, const cli_args *args)
{
    cli own = *c;
    rp_recipe *recipe;

    int code = cli_load_recipe(c, args->word[0], args->n_settings, args->setting, &recipe);
    if (code != CLI_GO) return code;
    rp_ctx_options options = { .shapes_only = true, .threads = (int)recipe->threads, .seed = (uint64_t)recipe->seed };
    rp_status status       = rp_ctx_new(&options, &own.ctx);
    if (status != RP_OK) {
        cli_say(c, "cannot open a context of %" PRId64 " threads: %s", recipe->threads, rp_status_text(status));
        code = rp_status_exit_code(status);
    } else {
        cli_note_unsupported(c, recipe);
        code = explain_on(&own, recipe, fields->json);
        rp_ctx_free(own.ctx);
    }
    rp__recipe_free(recipe);
    return code;
}

int cmd_explain(cli *c, int argc, char **argv)
{
    static const cli_option table[] = {
        { "json", 0, CLI_FLAG, offsetof(explain_fields, json), NULL, "print one JSON object, every slot by itself", 0, 0 },
    };
    static const cli_options options = {
        "CONFIG [KEY=VALUE ...] [--json]",
        "Tell of every slot of a recipe's step what becomes of it, which rule or region decided that and what its replay\n"
        "costs; what modules and classes of memory add up to; and whose the memory is at the peak. Neither weights nor data\n"
        "are read. CONFIG is a path or the name of a shipped recipe; KEY=VALUE sets a key, ~KEY removes one.",
        table, RP_COUNT(table), 1, 1, true,
    };
    explain_fields fields = { 0 };
    cli_args args;

    int code = cli_parse(c, &options, argc, argv, &fields, &args);
    if (code != CLI_GO) return code;
    code = explain(c, &fields, &args);
    cli_args_free(&args);
    return code;
}
