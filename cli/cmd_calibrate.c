/* cli/cmd_calibrate.c -- measure this machine's cost table, which plan, explain, sweep and train read. */
#include "cli/cli.h"
#include "cost/cost.h"

typedef struct {
    bool quick;
    int64_t threads;
} calibrate_fields;

static void print_row(void *user, const char *line)
{
    (void)user;
    puts(line);
}

static rp_status measure(rp_ctx *ctx, const calibrate_fields *fields)
{
    double start = rp__seconds();
    rp_cost_table *table;
    const char *path;

    RP_TRY(rp__cost_measure(ctx, fields->quick, print_row, NULL, &table));
    rp_status status = rp__cost_table_save(ctx, table, &path);
    if (status == RP_OK)
        fprintf(stderr, "%s measured in %.0f s%s: '%s'\n", rp__cost_machine(table), rp__seconds() - start, fields->quick ? ", quickly" : "",
                path);
    if (status == RP_OK && rp__cost_unsteady(table) > 0.3)
        fprintf(stderr, "note: %.0f %% of the calls took 1.3 times as long at one time as at another: measure again when nothing else runs\n",
                100 * rp__cost_unsteady(table));
    rp__cost_table_free(table);
    return status;
}

static int calibrate(cli *c, const void *given, const cli_args *args)
{
    const calibrate_fields *fields = given;
    cli measured;
    int code = cli_open_context(c, &(rp_ctx_options){ .threads = (int)fields->threads }, &measured);

    (void)args;
    if (code != CLI_GO) return code;
    rp_status status = rp__cost_table_place(measured.ctx);
    if (status != RP_OK) code = cli_fail_input(&measured, status);
    if (status == RP_OK) status = measure(measured.ctx, fields);
    if (code == CLI_GO) code = cli_finish(&measured, status);
    rp_ctx_free(measured.ctx);
    return code;
}

static const cli_option options[] = {
    { "quick",   0, CLI_FLAG, offsetof(calibrate_fields, quick),   NULL, "in seconds: fewer sizes, each measured once", 0, 0 },
    { "threads", 0, CLI_INT,  offsetof(calibrate_fields, threads), "N",  "of runs that set `threads`; else all cores", 1, 4096 },
};

const cli_command cmd_calibrate = {
    .usage = "",
    .about = "Measure how fast this machine runs each op, forward and backward, in each dtype, how fast its memory and the\n"
             "disk of the current folder are. It takes a minute, in which nothing else should run. Until it is done, plans go\n"
             "by what the CPU says about itself. What ranks send to each other is not measured, as that takes several: plans go by\n"
             "2.2 GB/s a rank, or by 'link', 'node', 'node_link' and 'latency' of --device. The table is kept for this CPU and number of threads in\n"
             "$REPRISE_COSTS, else in $XDG_CACHE_HOME/reprise or ~/.cache/reprise; no other command changes it.",
    CLI_OPTIONS(calibrate_fields, options),
    .run = calibrate,
};
