/* cli/forecast.h -- shared by plan, explain, sweep and view: the rehearsed step of a recipe, and the tables that they print. */
#ifndef RP_CLI_FORECAST_H
#define RP_CLI_FORECAST_H

#include "cli/cli.h"
#include "train/loop.h"

typedef struct {
    cli run;                                    /* the command, with a context that has the recipe's threads and budget */
    rp_recipe *recipe;
    rp_forecast f;
} cli_forecast;

/* Load a recipe (cli_load_recipe) and rehearse its step. CLI_GO, or the exit code after an error message. A budget that no plan fits is no error
 * here: check f.feasible; cli_fail(&out->run, RP_ERR_BUDGET) prints the message. Close *out in both cases. */
int cli_forecast_open(cli *c, const cli_args *args, const rp_forecast_options *options, cli_forecast *out);
/* Load a recipe and open its context without a rehearsal. device: of --device, or NULL. If it is a GPU, 'device' of the recipe becomes cuda; its memory
 * limits the budget. Arguments that set these go first. shapes: the context is shapes-only; false: it has memory without a limit. */
int cli_recipe_open(cli *c, const cli_args *args, const char *device, bool shapes, cli_forecast *out);
void cli_forecast_close(cli_forecast *forecast);

/* Print the settings of a recipe that fit its budget (cli/plan/find.c). Returns the exit code. */
int cli_find(cli *c, const cli_args *args, const char *device, bool json);
/* plan --fit, likewise. */
int cli_fit(cli *c, const cli_args *args, const char *device, bool json);

/* Plan a graph, or evaluate a plan of it, and print the figures (cli/plan/graph.c). The first word of args is the graph's file; the only setting
 * is memory_budget. Returns the exit code. */
typedef struct { const char *evaluate, *file; bool json; } cli_graph_options;      /* NULL: plan it · NULL: write no file */
int cli_graph(cli *c, const cli_args *args, const cli_graph_options *options);

/* Bytes by class: { "param": bytes, … } */
json_t *cli_classes_json(const int64_t *bytes);
json_t *cli_modules_json(const rp_explain *e);

/* { node_ranks, link_bytes_per_second, node_link_bytes_per_second, latency_seconds, assumed } */
json_t *cli_links_json(const rp_cost_links *links);
/* Print one line about the links between the ranks. */
void cli_print_links(const rp_cost_links *links, int64_t ranks);

/* Print the peak, its bytes by class, and the saved bytes. */
void cli_print_peak(const rp_explain *e);
/* Print the memory of each module; equal blocks share a line. */
void cli_print_modules(const rp_explain *e);

double cli_share(int64_t part, int64_t whole);      /* in percent */
static inline double cli_mflops(int64_t flops) { return (double)flops / 1e6; }
static inline const char *cli_s(int64_t n) { return n == 1 ? "" : "s"; }

#endif
