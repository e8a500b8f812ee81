/* cli/cmd_calibrate.c -- calibrate: measure the cost table of this machine, which plan, explain, sweep, view and train read. */
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
        fprintf(stderr, "note: the times of %.0f %% of the calls varied by a factor of 1.3 or more: measure again when nothing else runs\n",
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
    { "quick",   0, CLI_FLAG, offsetof(calibrate_fields, quick),   NULL, "take seconds, not a minute: fewer sizes, each measured once", 0, 0 },
    { "threads", 0, CLI_INT,  offsetof(calibrate_fields, threads), "N",  "threads of the runs to predict (default: all cores)", 1, 4096 },
};

const cli_command cmd_calibrate = {
    .usage = "",
    .about = "Measure how fast this machine runs each op, forward and backward, in each dtype, and the bandwidth of its memory and of\n"
             "the disk of the current folder. It takes a minute; run nothing else meanwhile. Before that, plans use a built-in table for\n"
             "the CPU. Communication between ranks is not measured, because that needs several ranks: plans assume 2.2 GB/s a rank, or\n"
             "take 'link', 'node', 'node_link' and 'latency' of --device. The table is stored for this CPU and number of threads in\n"
             "$REPRISE_COSTS, else in $XDG_CACHE_HOME/reprise or ~/.cache/reprise. No other command changes it.",
    .example = "reprise calibrate --quick",
    CLI_OPTIONS(calibrate_fields, options),
    .run = calibrate,
};
