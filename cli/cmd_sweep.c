/* cli/cmd_sweep.c -- sweep: memory and step time of a recipe under many budgets, from the smallest that fits to keeping everything.
 *
 *   --json   { machine, measured, points: [{ mode, budget_bytes, reserved_bytes, peak_bytes, saved_bytes, recompute_flops, step_seconds,
 *              overhead, optimizer_in_bwd, keep_logits }] }      mode null: a point of the curve, else one of the usual modes
 *   --measure  adds pairs, steps and coverage to the whole, and measured_step_seconds, measured_overhead and measured_interval to each point:
 *              the median and its confidence interval of probability `coverage`. A step that does not reserve, peak and save as planned, or a
 *              pair that differs in a bit, is an error */
#include "cli/forecast.h"

#include "base/report.h"

enum { WIDTH = 64, HEIGHT = 16, POINTS = 20, MEASURED_POINTS = 8, PAIRS = 15 };

typedef struct { bool json, measure; int64_t points, pairs; const char *device; } sweep_fields;

/* ---- JSON ---- */

static json_t *point_json(const rp_sweep *s, int i)
{
    const rp_sweep_point *p = &s->point[i];

    return json_pack("{s:s?, s:o, s:I, s:I, s:I, s:I, s:f, s:f, s:b, s:b}", "mode", p->mode, "budget_bytes",
                     p->budget ? json_integer(p->budget) : json_null(), "reserved_bytes", (json_int_t)p->reserved, "peak_bytes",
                     (json_int_t)p->peak, "saved_bytes", (json_int_t)p->saved, "recompute_flops", (json_int_t)p->recompute_flops,
                     "step_seconds", p->seconds + p->recompute_seconds, "overhead", rp__sweep_overhead(s, i), "optimizer_in_bwd", p->variant.in_backward,
                     "keep_logits", p->variant.keeps_logits);
}

static void print_json(const rp_sweep *s)
{
    json_t *points = json_array();
    json_t *all    = json_pack("{s:s, s:b}", "machine", s->machine, "measured", s->measured);

    for (int i = 0; i < s->n_points; i++) {
        const rp_sweep_point *p = &s->point[i];
        json_t *point           = point_json(s, i);
        if (s->pairs)
            json_object_update_new(point, json_pack("{s:f, s:f, s:[f, f]}", "measured_step_seconds", p->step_seconds, "measured_overhead",
                                                    p->overhead.median, "measured_interval", p->overhead.low, p->overhead.high));
        json_array_append_new(points, point);
    }
    if (s->pairs)
        json_object_update_new(all, json_pack("{s:i, s:I, s:f}", "pairs", s->pairs, "steps", (json_int_t)s->n_steps, "coverage",
                                              s->point[s->n_points - 1].overhead.coverage));
    json_object_set_new(all, "points", points);
    cli_print_json(all, 0);
}

/* ---- text ---- */

typedef struct { int64_t least, most; double lowest, highest; } frame;   /* lowest: at most 0 */

static frame frame_of(const rp_sweep *s)
{
    frame f = { INT64_MAX, 0, 0, 0 };

    for (int i = 0; i < s->n_points; i++) {
        const rp_sweep_point *p = &s->point[i];
        if (p->reserved < f.least) f.least = p->reserved;
        if (p->reserved > f.most) f.most = p->reserved;
        if (rp__sweep_overhead(s, i) > f.highest) f.highest = rp__sweep_overhead(s, i);
        if (rp__sweep_overhead(s, i) < f.lowest) f.lowest = rp__sweep_overhead(s, i);
    }
    return f;
}

static int column(const frame *f, int64_t reserved)
{
    return f->most > f->least ? (int)((double)(reserved - f->least) / (double)(f->most - f->least) * (WIDTH - 1) + 0.5) : 0;
}

static int row(const frame *f, double value)
{
    double height = f->highest - f->lowest;

    return height > 0 ? HEIGHT - 1 - (int)((value - f->lowest) / height * (HEIGHT - 1) + 0.5) : HEIGHT - 1;
}

/* Draw each point of the curve as a dot, and each mode as its first letter. */
static void print_picture(const rp_sweep *s)
{
    char picture[HEIGHT][WIDTH + 1];
    frame f = frame_of(s);
    char least[RP_SIZE_CHARS], most[RP_SIZE_CHARS];

    for (int i = 0; i < HEIGHT; i++) {
        memset(picture[i], ' ', WIDTH);
        picture[i][WIDTH] = 0;
    }
    for (int i = s->n_points - 1; i >= 0; i--) {
        const rp_sweep_point *p = &s->point[i];
        picture[row(&f, rp__sweep_overhead(s, i))][column(&f, p->reserved)] = p->mode ? p->mode[0] : '.';
    }
    putchar('\n');
    for (int i = 0; i < HEIGHT; i++) {
        if (i == 0) printf("%6.1f %% |%s\n", 100 * f.highest, picture[i]);
        else if (i == HEIGHT - 1) printf("%6.1f %% |%s\n", 100 * f.lowest, picture[i]);
        else printf("         |%s\n", picture[i]);
    }
    printf("         +");
    for (int i = 0; i < WIDTH; i++) putchar('-');
    printf("\n          %s ... %s\n", cli_size_up(least, f.least), cli_size(most, f.most));
}

/* The budget or mode of a point, and the bytes that it reserves. */
static void print_point(const rp_sweep_point *p)
{
    char budget[RP_SIZE_CHARS], reserved[RP_SIZE_CHARS];

    printf("%-18s  %16s", p->mode ? p->mode : cli_size_cell_up(budget, p->budget), cli_size_cell(reserved, p->reserved));
}

static void print_measured(const rp_sweep *s)
{
    printf("%-18s  %16s  %10s  %9s  %9s  %s\n", "budget or mode", "reserved", "step, s", "predicted", "measured", "interval");
    for (int i = 0; i < s->n_points; i++) {
        const rp_sweep_point *p = &s->point[i];
        print_point(p);
        printf("  %10.3f", p->step_seconds);
        if (i)
            printf("  %7.2f %%  %7.2f %%  %.2f to %.2f %%", 100 * rp__sweep_overhead(s, i), 100 * p->overhead.median, 100 * p->overhead.low,
                   100 * p->overhead.high);
        putchar('\n');
    }
    printf("\nEach point: %d pair%s of one of its steps and a step of mode 'none'; medians and %.1f %% confidence intervals.\n", s->pairs, cli_s(s->pairs),
           100 * s->point[s->n_points - 1].overhead.coverage);
    printf("All %" PRId64 " steps reserved, peaked and saved exactly the planned bytes. Loss and norm were bit-identical in each pair.\n", s->n_steps);
    printf("Predicted by the %s table of %s\n", s->measured ? "measured" : "built-in", s->machine);
}

static void sweep_print_text(const rp_sweep *s)
{
    char saved[RP_SIZE_CHARS];

    printf("%-18s  %16s  %16s  %10s  %9s\n", "budget or mode", "reserved", "saved", "step, s", "overhead");
    for (int i = 0; i < s->n_points; i++) {
        const rp_sweep_point *p = &s->point[i];
        print_point(p);
        printf("  %16s  %10.3f  %7.2f %%\n", cli_size_cell(saved, p->saved), p->seconds + p->recompute_seconds, 100 * rp__sweep_overhead(s, i));
    }
    print_picture(s);
    printf("\n.: planned; n, e, s, f: modes. Time by the %s table of %s\n", s->measured ? "measured" : "built-in", s->machine);
}

/* ---- the command ---- */

/* Progress on stderr: 15 pairs at 12 points take minutes. */
static void print_pair(void *user, int pair, double seconds_left)
{
    const sweep_fields *fields = user;
    int64_t left               = (int64_t)(seconds_left + 0.5);

    fprintf(stderr, "pair %d/%" PRId64 " of each point  %" PRId64 ":%02" PRId64 " left\n", pair, fields->pairs, left / 60, left % 60);
}

static int sweep_on(cli_forecast *x, const sweep_fields *fields)
{
    rp_sweep_options options = { .n = (int)fields->points, .device = fields->device, .measured = print_pair, .user = (void *)fields };
    rp_report report;
    rp_sweep s;

    if (fields->measure) options.pairs = (int)fields->pairs;
    rp__report_open(&report, x->run.ctx);
    rp_status status = rp__recipe_open_plugins(x->recipe, &report);
    if (status == RP_OK) status = rp__recipe_sweep(x->run.ctx, x->recipe, &options, &report, &s);
    int code = cli_report(&x->run, &report, status);
    if (code != CLI_GO) return code;
    if (fields->json) print_json(&s);
    else if (s.pairs) print_measured(&s);
    else sweep_print_text(&s);
    rp__release(s.point);
    return cli_finish(&x->run, RP_OK);
}

static int sweep_settle(const cli *c, sweep_fields *fields)
{
    const char *wrong = fields->measure && fields->device ? "'--measure' runs on this machine: leave out '--device'"
                        : fields->pairs && !fields->measure ? "'--pairs' says how often to measure: add '--measure'" : NULL;

    if (!fields->points) fields->points = fields->measure ? MEASURED_POINTS : POINTS;
    if (!fields->pairs) fields->pairs = PAIRS;
    if (!wrong) return CLI_GO;
    cli_say(c, "%s", wrong);
    return CLI_USAGE;
}

static int sweep(cli *c, const void *given, const cli_args *args)
{
    sweep_fields fields = *(const sweep_fields *)given;
    cli_forecast x;
    int code = sweep_settle(c, &fields);

    if (code != CLI_GO) return code;
    code = cli_recipe_open(c, args, fields.device, !fields.measure, &x);
    if (code == CLI_GO) code = sweep_on(&x, &fields);
    cli_forecast_close(&x);
    return code;
}

static const cli_option options[] = {
    { "json", 0, CLI_FLAG, offsetof(sweep_fields, json), NULL, "print one JSON object", 0, 0 },
    { "points", 'n', CLI_INT, offsetof(sweep_fields, points), "N", "budgets on the curve (default: 20; with --measure 8)", 2, 1000 },
    { "measure", 0, CLI_FLAG, offsetof(sweep_fields, measure), NULL, "run each point, paired with steps that keep everything", 0, 0 },
    { "pairs", 0, CLI_INT, offsetof(sweep_fields, pairs), "N", "pairs of steps at each point, with --measure (default: 15)", 1, 10000 },
    { "device", 0, CLI_TEXT, offsetof(sweep_fields, device), "SPEC", "predict for another machine, as in 'reprise plan'", 0, 0 },
};

const cli_command cmd_sweep = {
    .usage = "CONFIG [KEY=VALUE ...] [--json] [--points N] [--measure [--pairs N] | --device SPEC] [--bytes] [--allow-plugins]",
    .about = "Predict the memory and time of a recipe's step at budgets from the smallest that a plan fits to the memory of keeping\n"
             "everything, and compare them with the usual modes. Neither weights nor data are read. With --measure, run the steps in\n"
             "pairs with mode none, on the recipe's weights and data, with a learning rate of 0 and without writing files.",
    .example = "reprise sweep smollm2_135m_full --points 10",
    CLI_OPTIONS(sweep_fields, options),
    .least_words = 1, .most_words = 1, .settings = true, .sizes = true, .plugins = true,
    .run = sweep,
};
