/* cli/cmd_bench.c -- bench: time kernels and steps on this machine and compare them with its peak rates. */
#include "cli/cli.h"

#include <math.h>

#include "cli/bench/bench.h"
#include "cost/cost.h"
#include "kernels/kernels.h"

typedef struct {
    bool json, list, levels;
    int64_t rounds, threads;
} bench_fields;

/* ---- text ---- */

enum { TIME_CHARS = 16, RATE_CHARS = 16 };

/* "12.3 us": at most four characters and the unit. */
static const char *time_text(char out[TIME_CHARS], double seconds)
{
    static const struct { const char *name; double seconds; } units[] = { { "us", 1e-6 }, { "ms", 1e-3 }, { "s", 1 } };
    int u = seconds < 999.5e-6 ? 0 : seconds < 999.5e-3 ? 1 : 2;
    double x = seconds / units[u].seconds;

    snprintf(out, TIME_CHARS, "%.*f %-2s", x < 9.995 ? 2 : x < 99.95 ? 1 : 0, x, units[u].name);
    return out;
}

static const char *rate_text(char out[RATE_CHARS], double amount, double seconds, int digits)
{
    if (amount > 0) snprintf(out, RATE_CHARS, "%.*f", digits, amount / seconds * 1e-9);
    else snprintf(out, RATE_CHARS, "-");
    return out;
}

static void print_head(void)
{
    printf("%-50s %9s  %9s %9s  %9s %8s  %16s %7s\n", "", "median", "quartiles", "", "GFLOP/s", "GB/s", "of the ceiling", "rounds");
}

static void print_row(void *user, const rp_bench_row *r)
{
    char median[TIME_CHARS], low[TIME_CHARS], high[TIME_CHARS], flops[RATE_CHARS], bytes[RATE_CHARS], share[32] = "-";

    (void)user;
    if (r->bound) snprintf(share, sizeof share, "%.1f %% %-6s", 100 * r->share.median, r->bound);
    printf("%-50s %9s  %9s %9s  %9s %8s  %16s %7d\n", r->name, time_text(median, r->seconds.median), time_text(low, r->seconds.low),
           time_text(high, r->seconds.high), rate_text(flops, (double)r->flops, r->seconds.median, 1),
           rate_text(bytes, (double)r->bytes, r->seconds.median, 1), share, r->rounds);
    if (r->tokens)
        printf("  %.1f tokens/s; its products alone take %.1f %% of its time [%.1f, %.1f]\n", (double)r->tokens / r->seconds.median,
               100 * r->products.median, 100 * r->products.low, 100 * r->products.high);
    fflush(stdout);
}

static void print_ceilings(const rp_bench_ceilings *c)
{
    if (c->fp32 <= 0) return;
    printf("ceilings, measured in every round: fp32 %.0f GFLOP/s", c->fp32 * 1e-9);
    if (c->bf16 > 0) printf(", bf16 %.0f GFLOP/s", c->bf16 * 1e-9);
    printf(", memory %.1f GB/s\n", c->memory * 1e-9);
}

/* ---- JSON ---- */

typedef struct { json_t *rows; const char *level; } bench_rows;

static json_t *spread_json(const rp_bench_spread *s)
{
    return json_pack("{s:f, s:f, s:f}", "median", s->median, "low", s->low, "high", s->high);
}

static void add_row(void *user, const rp_bench_row *r)
{
    const bench_rows *all = user;
    json_t *row = json_pack("{s:s, s:s, s:i, s:o, s:I, s:I, s:s?}", "name", r->name, "level", all->level, "rounds", r->rounds, "seconds",
                            spread_json(&r->seconds), "flops", (json_int_t)r->flops, "bytes", (json_int_t)r->bytes, "ceiling", r->bound);

    if (r->bound) json_object_set_new(row, "share", spread_json(&r->share));
    if (r->flops) json_object_set_new(row, "gflops", json_real((double)r->flops / r->seconds.median * 1e-9));
    if (r->bytes) json_object_set_new(row, "gbs", json_real((double)r->bytes / r->seconds.median * 1e-9));
    if (r->tokens) {
        json_object_set_new(row, "tokens_per_second", json_real((double)r->tokens / r->seconds.median));
        json_object_set_new(row, "products", spread_json(&r->products));
    }
    json_array_append_new(all->rows, row);
}

static void print_json(rp_ctx *ctx, json_t *rows, const rp_bench_ceilings *c)
{
    char machine[RP_COST_MACHINE_CHARS];
    json_t *all = json_pack("{s:s, s:s, s:i, s:{s:f, s:f, s:f}, s:O}", "version", rp_version(), "machine", rp__cost_machine_text(ctx, machine),
                            "threads", ctx->threads, "ceilings", "fp32", c->fp32, "bf16", c->bf16, "memory", c->memory, "benches", rows);

    cli_print_json(all, JSON_REAL_PRECISION(6));
}

/* ---- the command ---- */

static int print_names(const cli *c)
{
    char name[RP_BENCH_NAME_CHARS];
    bool usual;

    for (int i = 0; i < rp__bench_count(); i++) {
        rp__bench_name(i, name, &usual);
        printf("%s%s\n", name, usual ? "" : "  (only by name)");
    }
    return cli_finish(c, RP_OK);
}

/* Suggests the nearest first part of a name: "matmul" for "matmull". */
static int unknown(const cli *c, const char *word)
{
    enum { MOST = 64 };
    char first[MOST][RP_BENCH_NAME_CHARS];
    const char *list[MOST + 1] = { NULL };
    char hint[RP_HINT_CHARS];
    bool usual;
    int n = 0;

    for (int i = 0; i < rp__bench_count() && n < MOST; i++) {
        rp__bench_name(i, first[n], &usual);
        first[n][strcspn(first[n], ":")] = 0;
        if (n && !strcmp(first[n], first[n - 1])) continue;
        list[n] = first[n];
        n++;
    }
    cli_say(c, "no bench is named '%s'%s: 'reprise bench --list' prints their names", word, rp__hint(word, list, hint));
    return CLI_USAGE;
}

/* All benches at the current level. *ceilings: those of the level. */
static rp_status time_level(rp_ctx *ctx, const bench_fields *fields, const cli_args *args, json_t *rows, rp_bench_ceilings *ceilings)
{
    bench_rows all           = { rows, rp__kernels_cpu()->level };
    rp_bench_options options = { .name = args->word, .n_names = args->n_words, .rounds = (int)fields->rounds,
                                 .measured = rows ? add_row : print_row, .user = &all };
    char machine[RP_COST_MACHINE_CHARS];

    if (!rows) printf("%s, level %s\n\n", rp__cost_machine_text(ctx, machine), all.level);
    if (!rows) print_head();
    RP_TRY(rp__bench_run(ctx, &options, ceilings));
    if (!rows) putchar('\n');
    if (!rows) print_ceilings(ceilings);
    return RP_OK;
}

/* The levels that this machine runs, from the lowest on. So the ceilings that --json prints are those of the highest. */
static rp_status time_levels(rp_ctx *ctx, const bench_fields *fields, const cli_args *args, json_t *rows, rp_bench_ceilings *ceilings)
{
    const rp_kernels *level[RP_MAX_LEVELS];
    int n = rp__kernels_levels(level, RP_MAX_LEVELS);

    for (int i = 0; i < n; i++) {
        if (i && !rows) putchar('\n');
        rp__kernels_force(level[i]);
        RP_TRY(time_level(ctx, fields, args, rows, ceilings));
    }
    return RP_OK;
}

static int time_all(cli *c, const bench_fields *fields, const cli_args *args)
{
    cli measured;
    int code     = cli_open_context(c, &(rp_ctx_options){ .threads = (int)fields->threads }, &measured);
    json_t *rows = code == CLI_GO && fields->json ? json_array() : NULL;
    rp_bench_ceilings ceilings;

    if (code != CLI_GO) return code;
    rp_status status = (fields->levels ? time_levels : time_level)(measured.ctx, fields, args, rows, &ceilings);
    if (status == RP_OK && rows) print_json(measured.ctx, rows, &ceilings);
    json_decref(rows);
    code = cli_finish(&measured, status);
    rp_ctx_free(measured.ctx);
    return code;
}

static int bench(cli *c, const void *given, const cli_args *args)
{
    const bench_fields *fields = given;
    int code                   = CLI_GO;

    for (int i = 0; i < args->n_words && code == CLI_GO; i++)
        if (!rp__bench_matches(args->word[i])) code = unknown(c, args->word[i]);
    if (code != CLI_GO) return code;
    return fields->list ? print_names(c) : time_all(c, fields, args);
}

static const cli_option options[] = {
    { "json", 0, CLI_FLAG, offsetof(bench_fields, json), NULL, "print one JSON object", 0, 0 },
    { "list", 0, CLI_FLAG, offsetof(bench_fields, list), NULL, "print the names of all benches", 0, 0 },
    { "levels", 0, CLI_FLAG, offsetof(bench_fields, levels), NULL, "run all kernels of this CPU: base, AVX2, AVX-512, …", 0, 0 },
    { "rounds", 0, CLI_INT, offsetof(bench_fields, rounds), "N", "rounds of each bench (default: as many as fit into 0.3 s)", 1, 101 },
    { "threads", 0, CLI_INT, offsetof(bench_fields, threads), "N", "threads (default: all cores)", 1, 256 },
};

const cli_command cmd_bench = {
    .usage = "[NAME ...] [--json] [--levels] [--rounds N] [--threads N]",
    .about = "Time kernels (through their ops) and training steps on this machine. Each line has the median of the rounds with quartiles,\n"
             "GFLOP/s and GB/s as the op declares them, and the share of the limiting ceiling, measured in the same rounds:\n"
             "multiply-adds from registers in fp32 or bf16, or memory. A step also has the share of time that its matrix products need\n"
             "alone. NAME is one of --list, a prefix that ends before a colon (matmul, attention:2x512x9/3x64, step), or a glob\n"
             "('*:bf16:dw'). Without NAME a usual set runs for about a minute. Run nothing else meanwhile.",
    .example = "reprise bench matmul attention --rounds 5",
    CLI_OPTIONS(bench_fields, options),
    .most_words = 64,
    .run = bench,
};
