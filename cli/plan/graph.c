/* cli/plan/graph.c -- plan --graph: plans a graph or evaluates a plan of it, and prints the plan's figures. docs/graphs.md
 * describes both files. */
#include "plan/graph.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json_text.h"
#include "cli/forecast.h"
#include "trace/graph.h"

/* ---- text ---- */

static double in_percent(const rp_plan *p, double seconds)
{
    return p->base_seconds > 0 ? 100 * seconds / p->base_seconds : 0;
}

static void print_fit(const rp_graph_plan *g)
{
    char peak[RP_SIZE_CHARS], budget[RP_SIZE_CHARS], least[RP_SIZE_CHARS];

    if (g->feasible) printf("%-14s peak %s", g->budget ? "fits" : "no budget", cli_size(peak, g->plan->placement.height));
    else printf("%-14s peak %s", "does not fit", cli_size_up(peak, g->plan->placement.height));
    if (g->budget) printf(" of %s", cli_size(budget, g->budget));
    printf("\n%-14s ", "least budget");
    if (g->least) printf("%s%s, ", g->least_at_most ? "at most " : "", cli_size_up(least, g->least));
    printf("at least %s for every schedule\n", cli_size_up(least, g->least_bound));
}

static void print_seconds(const rp_graph_plan *g)
{
    const rp_plan *p = g->plan;

    printf("%-14s %.6g s a step\n", "time", p->seconds + p->recompute_seconds);
    printf("%-14s %.2f %% over a step that keeps everything", "overhead", in_percent(p, p->recompute_seconds));
    if (p->recompute_seconds > 0) printf(": recomputing%s", p->offload_seconds > 0 ? ", waiting for offloads" : "");
    printf("\n%-14s at least %.2f %% for every plan of blocks, %.2f %% for every schedule\n", "bounds",
           in_percent(p, p->block_bound_seconds), in_percent(p, p->bound_seconds));
}

static void print_calls(const rp_graph_plan *g)
{
    const rp_plan *p = g->plan;
    int calls = 0, recomputed = 0, offloaded = 0, regions = 0;
    char size[RP_SIZE_CHARS];

    for (int i = 0; i < p->n_passes; i++) {
        calls += p->pass[i].n_calls;
        recomputed += p->pass[i].n_recomputed;
        offloaded += p->pass[i].n_offloaded;
        regions += p->pass[i].n_regions;
    }
    printf("%-14s %d, %d of them recomputed alone, %d region%s", "calls", calls, recomputed, regions, cli_s(regions));
    if (offloaded) printf("; %d offload %s a step", offloaded, cli_size(size, p->found.offloaded_bytes));
    putchar('\n');
}

/* ---- the command ---- */

static int read_budget(const cli *c, const cli_args *args, int64_t *budget)
{
    static const char key[] = "memory_budget=";

    for (int i = 0; i < args->n_settings; i++) {
        const char *value = args->setting[i] + sizeof key - 1;
        if (strncmp(args->setting[i], key, sizeof key - 1)) {
            cli_say(c, "'%s' has no effect on a graph: only 'memory_budget' can be set", args->setting[i]);
            return CLI_USAGE;
        }
        if (!rp__size_parse(value, budget) || *budget < 1 || *budget > INT64_MAX / 4) {
            cli_say(c, "'memory_budget' must be a size such as '1700MB', not '%s'", value);
            return CLI_USAGE;
        }
    }
    return CLI_GO;
}

static rp_status write_file(rp_ctx *ctx, const char *path, const json_t *plan)
{
    char *text = rp__json_text(plan, JSON_INDENT(1) | JSON_REAL_PRECISION(17));

    if (!text) return rp_fail(ctx, RP_ERR_MEMORY, "no memory for the plan of a graph");
    rp_status status = rp__file_write(ctx, path, text, (int64_t)strlen(text));
    free(text);
    return status;
}

static int show(cli *c, const rp_graph *graph, const rp_graph_plan *g, const cli_graph_options *options)
{
    json_t *plan     = options->json || options->file ? rp__graph_plan_json(c->ctx, graph, g) : NULL;
    rp_status status = !plan && (options->json || options->file) ? RP_ERR_MEMORY : RP_OK;

    if (status == RP_OK && options->file && g->feasible) status = write_file(c->ctx, options->file, plan);
    if (status == RP_OK && options->json) cli_print_json(json_incref(plan), 0);
    if (status == RP_OK && !options->json) {
        print_fit(g);
        print_seconds(g);
        print_calls(g);
    }
    json_decref(plan);
    return cli_finish(c, status);
}

static int refuse_budget(const cli *c, const rp_graph_plan *g, const char *file)
{
    char budget[RP_SIZE_CHARS], least[RP_SIZE_CHARS];

    rp__size_text(budget, g->budget);
    if (file)
        cli_say(c, "plan '%s' needs %s, more than the memory budget of %s", file,
                rp__size_text_up(least, g->plan->placement.height), budget);
    else
        cli_say(c, "no plan fits a memory budget of %s; the least budget that fits is %s%s", budget,
                g->least_at_most ? "at most " : "", rp__size_text_up(least, g->least));
    return rp_status_exit_code(RP_ERR_BUDGET);
}

static int plan_graph(cli *c, const rp_graph *graph, int64_t budget, const cli_graph_options *options)
{
    rp_graph_plan g;
    rp_status status = options->evaluate ? rp__graph_evaluate(c->ctx, graph, options->evaluate, budget, &g) :
                                           rp__graph_plan(c->ctx, graph, budget, &g);
    int code         = status == RP_OK ? show(c, graph, &g, options) : cli_fail_input(c, status);

    if (code == 0 && !g.feasible) code = refuse_budget(c, &g, options->evaluate);
    rp__graph_plan_close(&g);
    return code;
}

int cli_graph(cli *c, const cli_args *args, const cli_graph_options *options)
{
    int64_t budget = 0;
    rp_graph graph;
    int code = read_budget(c, args, &budget);

    if (code != CLI_GO) return code;
    rp_status status = rp__graph_read(c->ctx, args->word[0], &graph);
    if (status != RP_OK) return cli_fail_input(c, status);
    code = plan_graph(c, &graph, budget ? budget : graph.budget, options);
    rp__graph_close(&graph);
    return code;
}
