/* cli/forecast.c -- rehearses the step of a recipe for a command, and prints its memory tables. */
#include "cli/forecast.h"

#include <string.h>

#include "base/report.h"
#include "cost/cost.h"
#include "rehearse/forecast.h"
#include "tensor/tensor.h"

/* ---- the recipe ---- */

static int rehearse(cli_forecast *x, const rp_forecast_options *options)
{
    rp_report report;

    rp__report_open(&report, x->run.ctx);
    rp_status status = rp__recipe_open_plugins(x->recipe, &report);
    if (status == RP_OK) status = rp__recipe_forecast(x->run.ctx, x->recipe, options, &report, &x->f);
    return cli_report(&x->run, &report, status);
}

/* The value that arguments give a key, or NULL. */
static const char *value_of(const cli_args *args, const char *key)
{
    size_t n          = strlen(key);
    const char *value = NULL;

    for (int i = 0; i < args->n_settings; i++)
        if (!strncmp(args->setting[i], key, n) && args->setting[i][n] == '=') value = args->setting[i] + n + 1;
    return value;
}

/* A named GPU computes with the kernels of GPUs, unless an argument sets 'device', and its memory is the budget unless an argument sets that. `own` has
 * room for one more setting. */
static int settle_device(cli *c, const char *device, const cli_args *args, const char **own, cli_args *settled, int64_t *most_bytes)
{
    rp_cost_table *table;

    *settled    = *args;
    *most_bytes = 0;
    if (!device) return CLI_GO;
    rp_status status = rp__cost_table_device(c->ctx, device, &table);
    if (status != RP_OK) return cli_fail(c, status);
    const char *budget = value_of(args, "memory_budget");
    if (!budget || !strcmp(budget, "auto")) *most_bytes = rp__cost_memory(table);
    if (rp__cost_is_gpu(table) && !value_of(args, "device")) {
        memcpy(own, args->setting, (size_t)args->n_settings * sizeof *own);
        own[settled->n_settings++] = "device=cuda";
        settled->setting           = own;
    }
    rp__cost_table_free(table);
    return CLI_GO;
}

static int load(cli *c, const cli_args *args, const char *device, rp_recipe **out)
{
    const char **own = rp__host_alloc(c->ctx, (int64_t)((size_t)args->n_settings + 1) * (int64_t)sizeof *own);
    cli_args settled;
    int64_t most_bytes;

    if (!own) return cli_fail(c, RP_ERR_MEMORY);
    int code = settle_device(c, device, args, own, &settled, &most_bytes);
    if (code == CLI_GO) code = cli_load_recipe(c, &settled, most_bytes, 0, out);
    rp__release(own);
    return code;
}

/* A card that is not there has no memory that one could ask for. */
static int check_budget(const cli *c, const rp_recipe *recipe)
{
    if (recipe->memory_budget.kind != RP_BUDGET_AUTO || recipe->device != RP_DEVICE_CUDA || rp__device_left("cuda") >= 0) return CLI_GO;
    cli_say(c, "'memory_budget' auto is the memory that the GPU has left, and this machine has none: set a size, or name a GPU with --device");
    return CLI_USAGE;
}

int cli_recipe_open(cli *c, const cli_args *args, const char *device, bool shapes, cli_forecast *x)
{
    *x       = (cli_forecast){ .run = { .command = c->command } };
    int code = load(c, args, device, &x->recipe);

    if (code == CLI_GO) code = check_budget(c, x->recipe);
    if (code != CLI_GO) return code;
    if (shapes) cli_stand_in(c, x->recipe);
    rp_ctx_options options = rp__recipe_ctx_options(x->recipe);
    options.shapes_only    = shapes;
    if (!shapes) options.memory_limit_bytes = 0;
    return cli_open_context(c, &options, &x->run);
}

int cli_forecast_open(cli *c, const cli_args *args, const rp_forecast_options *options, cli_forecast *x)
{
    int code = cli_recipe_open(c, args, options->device, true, x);

    return code == CLI_GO ? rehearse(x, options) : code;
}

void cli_forecast_close(cli_forecast *x)
{
    rp__forecast_close(&x->f);
    rp_ctx_free(x->run.ctx);
    rp__recipe_free(x->recipe);
}

/* ---- the peak ---- */

double cli_share(int64_t part, int64_t whole) { return whole ? 100.0 * (double)part / (double)whole : 0; }

static int count_fate(const rp_explain *e, rp_fate fate)
{
    int n = 0;

    for (int i = 0; i < e->n_slots; i++) n += e->slot[i].fate == fate;
    return n;
}

void cli_print_peak(const rp_explain *e)
{
    char peak[RP_SIZE_CHARS], saved[RP_SIZE_CHARS], offload[RP_SIZE_CHARS], size[RP_SIZE_CHARS];
    int offloaded = count_fate(e, RP_OFFLOAD), kept = count_fate(e, RP_KEEP), recompute = count_fate(e, RP_RECOMPUTE);

    printf("peak %s at the %s of %s%s%s\n", cli_size(peak, e->peak_bytes), e->peak_event, e->peak_path, *e->peak_path ? " " : "",
           e->peak_op);
    for (int i = 0; i < RP_MEM_CLASSES; i++)
        if (e->peak_at[i])
            printf("  %-6s %16s  %5.1f %%\n", rp_mem_class_name((rp_mem_class)i), cli_size_cell(size, e->peak_at[i]),
                   cli_share(e->peak_at[i], e->peak_bytes));
    printf("saved when the forward ends %s: %d slot%s kept; %d recomputed", cli_size(saved, e->saved_bytes), kept, cli_s(kept), recompute);
    if (e->n_regions) printf(" (%d region%s)", e->n_regions, cli_s(e->n_regions));
    if (offloaded) printf("; %d offloaded, %s", offloaded, cli_size(offload, e->offload_bytes));
    printf("\nreplays %.3f MFLOPs a step, %.1f %% of the %.3f without them\n", cli_mflops(e->recompute_flops),
           cli_share(e->recompute_flops, e->step_flops), cli_mflops(e->step_flops));
}

/* ---- modules ---- */

static bool alike(const rp_explain_module *a, const rp_explain_module *b)
{
    return a->saved_bytes == b->saved_bytes && a->offload_bytes == b->offload_bytes && a->recomputed_bytes == b->recomputed_bytes &&
           a->recompute_flops == b->recompute_flops && !memcmp(a->peak_at, b->peak_at, sizeof a->peak_at);
}

static size_t list_chars(const char *path)
{
    const char *dot = strrchr(path, '.');

    return dot ? (size_t)(dot - path) : 0;
}

/* Whether both are in the same list of blocks. */
static bool same_list(const rp_explain_module *a, const rp_explain_module *b)
{
    size_t n = list_chars(a->path);

    return n && n == list_chars(b->path) && !strncmp(a->path, b->path, n);
}

static void print_module(const rp_explain_module *m, int n)
{
    int64_t at = 0;
    char name[96], peak[RP_SIZE_CHARS], kept[RP_SIZE_CHARS], saved[RP_SIZE_CHARS], recomputed[RP_SIZE_CHARS];

    for (int i = 0; i < RP_MEM_CLASSES; i++) at += m->peak_at[i];
    snprintf(name, sizeof name, "%.60s", *m->path ? m->path : "outside modules");
    if (n > 1) snprintf(name, sizeof name, "%.60s-%s (%d x)", m->path, m[n - 1].path + list_chars(m->path) + 1, n);
    printf("%-24s  %14s  %14s  %14s  %14s  %10.3f\n", name, cli_size_cell(peak, at), cli_size_cell(kept, m->peak_at[RP_MEM_SAVED]),
           cli_size_cell(saved, m->saved_bytes), cli_size_cell(recomputed, m->recomputed_bytes), cli_mflops(m->recompute_flops));
}

void cli_print_modules(const rp_explain *e)
{
    printf("\n%-24s  %14s  %14s  %14s  %14s  %10s\n", "module, each", "at the peak", "of it saved", "forward saves", "recomputed",
           "MFLOPs");
    for (int i = 0, n; i < e->n_modules; i += n) {
        for (n = 1; i + n < e->n_modules && same_list(&e->module[i], &e->module[i + n]) && alike(&e->module[i], &e->module[i + n]);) n++;
        print_module(&e->module[i], n);
    }
}

/* ---- JSON ---- */

json_t *cli_classes_json(const int64_t *bytes)
{
    json_t *out = json_object();

    for (int i = 0; i < RP_MEM_CLASSES; i++) json_object_set_new(out, rp_mem_class_name((rp_mem_class)i), json_integer(bytes[i]));
    return out;
}

json_t *cli_modules_json(const rp_explain *e)
{
    json_t *out = json_array();

    for (int i = 0; i < e->n_modules; i++) {
        const rp_explain_module *m = &e->module[i];
        json_array_append_new(out, json_pack("{s:s, s:i, s:I, s:I, s:I, s:I, s:o}", "path", m->path, "slots", m->n_slots, "saved_bytes",
                                             (json_int_t)m->saved_bytes, "offloaded_bytes", (json_int_t)m->offload_bytes, "recomputed_bytes",
                                             (json_int_t)m->recomputed_bytes, "recompute_flops", (json_int_t)m->recompute_flops,
                                             "by_class", cli_classes_json(m->peak_at)));
    }
    return out;
}

/* ---- links between ranks ---- */

json_t *cli_links_json(const rp_cost_links *links)
{
    return json_pack("{s:o, s:f, s:f, s:f, s:b}", "node_ranks", links->node ? json_integer(links->node) : json_null(), "link_bytes_per_second",
                     links->link, "node_link_bytes_per_second", links->node_link, "latency_seconds", links->latency, "assumed", true);
}

void cli_print_links(const rp_cost_links *links, int64_t ranks)
{
    bool nodes = links->node && ranks > links->node;

    printf("%-14s ", "links");
    if (nodes) printf("%.3g GB/s for each of the %" PRId64 " ranks of a node, %.3g GB/s for each between nodes", links->link / 1e9, links->node,
                      links->node_link / 1e9);
    else printf("%.3g GB/s for each rank, %s", links->link / 1e9, links->node ? "all in one node" : "as if all were in one node");
    printf(", %.3g us a message: assumed, not measured\n", links->latency * 1e6);
}
