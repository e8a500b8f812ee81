/* cli/cmd_view.c -- view: the report of a run or a plan as one HTML page. The recipe is rehearsed, so a plan is enough. */
#include "cli/forecast.h"

#include <unistd.h>

#include "base/file.h"
#include "base/report.h"
#include "cost/cost.h"
#include "plan/file.h"
#include "rehearse/forecast.h"
#include "view/report.h"

enum { POINTS = 24 };

typedef struct { const char *file, *device; } view_fields;

typedef struct {
    const char *place;                          /* RUN_DIR or PLAN */
    char *plan, *metrics;                       /* paths; metrics NULL: no run */
    char *out;
    char *machine;                              /* the plan was made for it */
    const char *device;                         /* machine for the times of the page; NULL: this machine */
} places;

/* ---- paths ---- */

static char *joined(cli *c, const char *folder, const char *name, bool must)
{
    char *path = rp__path_join(c->ctx, folder, name);

    if (path && !must && !rp__file_exists(path)) {
        rp__release(path);
        return NULL;
    }
    return path;
}

static void view_drop(places *p)
{
    rp__release(p->plan);
    rp__release(p->metrics);
    rp__release(p->out);
    rp__release(p->machine);
}

/* RUN_DIR: plan.json, metrics.jsonl and report.html in it. PLAN: the page is PLAN.html. */
static int view_find(cli *c, const char *word, const char *file, places *p)
{
    bool run = rp__file_is_dir(word);

    if (!run && !rp__file_exists(word)) {
        cli_say(c, "cannot open '%s': there is no such file or folder", word);
        return CLI_USAGE;
    }
    p->plan    = run ? joined(c, word, "plan.json", true) : rp__host_text(c->ctx, word);
    p->metrics = run ? joined(c, word, "metrics.jsonl", false) : NULL;
    p->out     = file ? rp__host_text(c->ctx, file) : run ? joined(c, word, "report.html", true) : NULL;
    if (!file && !run && (p->out = rp__host_alloc(c->ctx, (int64_t)strlen(word) + 6))) snprintf(p->out, strlen(word) + 6, "%s.html", word);
    return p->plan && p->out ? CLI_GO : cli_fail(c, RP_ERR_MEMORY);
}

/* ---- the recipe of a plan ---- */

/* Whether the machine of the plan is a named device. A described one must be described again with --device. */
static bool is_device(const cli *c, const char *machine)
{
    rp_cost_table *table;

    if (rp__cost_table_device(c->ctx, machine, &table) != RP_OK) return false;
    rp__cost_table_free(table);
    return true;
}

static rp_status read_recipe(cli *c, places *p, rp_report *report, rp_recipe **out)
{
    rp_plan_text *text;

    RP_TRY(rp__plan_read(c->ctx, p->plan, &text));
    const char *recipe = rp__plan_text_recipe(text), *machine = rp__plan_text_machine(text);
    if (machine) p->machine = rp__host_text(c->ctx, machine);
    if (p->machine && !p->device && is_device(c, p->machine)) p->device = p->machine;
    rp_status status   = rp__recipe_read(c->ctx, p->plan, recipe, (int64_t)strlen(recipe), 0, NULL, report, out);
    rp__plan_text_free(text);
    if (status == RP_OK) rp_recipe_allow_plugins(*out, c->allow_plugins);
    return status;
}

/* ---- the page ---- */

static rp_status make_page(const cli *c, const rp_recipe *recipe, const places *p, rp_report *report)
{
    const rp_forecast_options options = { .events = true, .least = false, .device = p->device };
    rp_forecast f = { 0 };
    rp_sweep s    = { 0 };
    char title[RP_TITLE_CHARS];

    rp_status status = rp__recipe_open_plugins(recipe, report);
    if (status == RP_OK) status = rp__recipe_forecast(c->ctx, recipe, &options, report, &f);
    if (status == RP_OK) status = rp__recipe_sweep(c->ctx, recipe, &(rp_sweep_options){ .n = POINTS, .device = p->device }, report, &s);
    if (status == RP_OK)
        status = rp__report_page_write(c->ctx, &(rp_report_page){ &f, &s, rp__report_title(p->place, recipe, title), p->metrics }, p->out);
    if (status == RP_OK && p->machine && !p->device && strncmp(f.plan.machine, p->machine, strlen(p->machine)))
        cli_say(c, "note: the plan was made for '%s', the page's times are those of %s: --device describes another machine", p->machine, f.plan.machine);
    rp__release(s.point);
    rp__forecast_close(&f);
    return status;
}

static int write_page(const cli *c, const rp_recipe *recipe, const places *p)
{
    rp_ctx_options options = rp__recipe_ctx_options(recipe);
    cli own;
    rp_report report;

    options.shapes_only = true;
    int code            = cli_open_context(c, &options, &own);
    if (code != CLI_GO) return code;
    rp__report_open(&report, own.ctx);
    code = cli_report(&own, &report, make_page(&own, recipe, p, &report));
    rp_ctx_free(own.ctx);
    return code;
}

static int view(cli *c, const void *given, const cli_args *args)
{
    const view_fields *fields = given;
    places p                  = { .place = args->word[0], .device = fields->device };
    rp_recipe *recipe         = NULL;
    rp_report report;
    int code = fields->file ? cli_find_output(c, fields->file) : CLI_GO;

    if (code == CLI_GO) code = view_find(c, args->word[0], fields->file, &p);
    if (code == CLI_GO) {
        rp__report_open(&report, c->ctx);
        code = cli_report_input(c, &report, read_recipe(c, &p, &report, &recipe));
    }
    if (code == CLI_GO) code = write_page(c, recipe, &p);
    if (code == CLI_GO) {
        printf("%s\n", p.out);
        code = cli_finish(c, RP_OK);
    }
    rp__recipe_free(recipe);
    view_drop(&p);
    return code;
}

static const cli_option options[] = {
    { "output", 'o', CLI_TEXT, offsetof(view_fields, file), "FILE", "file of the page (default: report.html in RUN_DIR, or PLAN.html)", 0, 0 },
    { "device", 0, CLI_TEXT, offsetof(view_fields, device), "SPEC",
      "predict for another machine, as in 'reprise plan' (default: that of the plan, if it has a name)", 0, 0 },
};

const cli_command cmd_view = {
    .usage = "RUN_DIR|PLAN [-o FILE.html] [--device SPEC] [--allow-plugins]",
    .about = "Write the report of a run or a plan: memory over the step, the arena, the fate of every slot, the curve of budgets, the\n"
             "losses. It is one HTML page that needs no other file. A run writes the same page without the curve. PLAN is a file from\n"
             "'reprise plan -o'.",
    .example = "reprise view runs/default",
    CLI_OPTIONS(view_fields, options),
    .least_words = 1, .most_words = 1, .plugins = true,
    .run = view,
};
