/* cli/cmd_calibrate.c -- measure this machine's cost table, which plan, explain, sweep and train read. */
#include "cli/cli.h"
#include "plan/cost.h"

typedef struct {
    bool quick;
    int64_t threads;
} calibrate_fields;

static void print_row(void *user, const char *line)
{
    (void)user;
    puts(line);
}

static rp_status calibrate(rp_ctx *ctx, const calibrate_fields *fields)
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

static int run(cli *c, const calibrate_fields *fields)
{
    cli measured     = { .command = c->command };
    rp_status status = rp_ctx_new(&(rp_ctx_options){ .threads = (int)fields->threads }, &measured.ctx);

    if (status != RP_OK) {
        cli_say(c, "%s", rp_status_text(status));
        return rp_status_exit_code(status);
    }
    int code = CLI_GO;
    status   = rp__cost_table_place(measured.ctx);
    if (status != RP_OK) code = cli_fail_input(&measured, status);
    if (status == RP_OK) status = calibrate(measured.ctx, fields);
    if (code == CLI_GO) code = status == RP_OK ? cli_finish(c, 0) : cli_fail(&measured, status);
    rp_ctx_free(measured.ctx);
    return code;
}

int cmd_calibrate(cli *c, int argc, char **argv)
{
    static const cli_option table[] = {
        { "quick",   0, CLI_FLAG, offsetof(calibrate_fields, quick),   NULL, "in seconds: fewer sizes, each measured once", 0, 0 },
        { "threads", 0, CLI_INT,  offsetof(calibrate_fields, threads), "N",  "of runs that set `threads`; else all cores", 1, 4096 },
    };
    static const cli_options options = {
        "",
        "Measure how fast this machine runs each op, forward and backward, in each dtype, how fast its memory and the\n"
        "disk of the current folder are. It takes a minute, in which nothing else should run. Until it is done, plans go\n"
        "by what the CPU says about itself. What ranks send to each other is not measured, as that takes several: plans go by\n"
        "2.2 GB/s a rank, or by 'link' and 'latency' of --device. The table is kept for this CPU and number of threads in\n"
        "$REPRISE_COSTS, else in $XDG_CACHE_HOME/reprise or ~/.cache/reprise; no other command changes it.",
        table, RP_COUNT(table), 0, 0, false,
    };
    calibrate_fields fields = { 0 };
    cli_args args;

    int code = cli_parse(c, &options, argc, argv, &fields, &args);
    if (code != CLI_GO) return code;
    code = run(c, &fields);
    cli_args_free(&args);
    return code;
}
