/* cli/forecast.h -- what plan, explain and sweep share: a recipe's steps rehearsed, and the tables they print alike. */
#ifndef RP_CLI_FORECAST_H
#define RP_CLI_FORECAST_H

#include "cli/cli.h"
#include "train/loop.h"

typedef struct {
    cli run;                                    /* the command with a context of shapes, the recipe's threads and budget */
    rp_recipe *recipe;
    rp_forecast f;
} cli_forecast;

/* A recipe as cli_load_recipe reads it, rehearsed. Tells what is wrong: CLI_GO, or the exit code. A budget that nothing fits is no
 * error here: look at f.feasible, cli_fail tells. Close it in both cases. */
int cli_forecast_open(cli *c, const cli_args *args, int64_t most_bytes, const rp_forecast_options *options, cli_forecast *out);
/* The recipe and its context alone; `shapes` false: the context has memory, all that the machine gives. */
int cli_recipe_open(cli *c, const cli_args *args, int64_t most_bytes, bool shapes, cli_forecast *out);
void cli_forecast_close(cli_forecast *forecast);

/* Settings of a recipe that fit its budget, printed (cli/find.c). The exit code. */
int cli_find(cli *c, const cli_args *args, int64_t most_bytes, const char *device, bool json);

/* By class: { "param": bytes, … } */
json_t *cli_classes_json(const int64_t *bytes);
json_t *cli_modules_json(const rp_explain *e);

/* { node_ranks, link_bytes_per_second, node_link_bytes_per_second, latency_seconds, assumed } */
json_t *cli_links_json(const rp_cost_links *links);
/* Over what `ranks` talk: a line. */
void cli_print_links(const rp_cost_links *links, int64_t ranks);

/* The peak, whose it is by class, what is saved. */
void cli_print_peak(const rp_explain *e);
/* Blocks that are alike in one line. */
void cli_print_modules(const rp_explain *e);

double cli_share(int64_t part, int64_t whole);      /* in percent */
static inline double cli_mflops(int64_t flops) { return (double)flops / 1e6; }
static inline const char *cli_s(int64_t n) { return n == 1 ? "" : "s"; }

#endif
