/* cli/find.c -- plan --find: the settings of a recipe that fit the memory budget, fastest first.
 *
 *   --json   { budget_bytes, samples, tried, discarded, machine, measured, settings: [{ ranks, replicate_dim, batch_size,
 *              gradient_accumulation_steps, custom_sharded_layers, reshard_after_forward (a number: group size), reduce_behind, optimizer_in_bwd,
 *              keep_logits, reserved_bytes, peak_bytes, comm_bytes, overhead,
 *              step_seconds, tokens_per_second }] } */
#include "cli/forecast.h"

#include "base/report.h"
#include "rehearse/forecast.h"

enum { MOST_SHOWN = 12 };

/* ---- JSON ---- */

static json_t *units_json(const rp_setting *s, const rp_recipe *recipe)
{
    const rp_text_list *own = &recipe->dist.custom_sharded_layers;
    json_t *list            = json_array();

    if (s->own_units) {
        json_array_append_new(list, json_string("tok_embeddings"));
        json_array_append_new(list, json_string("output"));
    }
    for (int i = 0; s->recipes_units && i < own->n; i++) json_array_append_new(list, json_string(own->item[i]));
    return list;
}

static void print_json(const rp_find *f, const rp_recipe *recipe)
{
    json_t *settings = json_array();
    json_t *all      = json_pack("{s:I, s:I, s:i, s:i, s:s, s:b, s:o}", "budget_bytes", (json_int_t)f->budget, "samples", (json_int_t)f->samples, "tried",
                                 f->n_tried, "discarded", f->n_discarded, "machine", f->machine, "measured", f->measured, "settings", settings);

    for (int i = 0; i < f->n; i++) {
        const rp_setting *s = &f->setting[i];
        json_array_append_new(settings,
                              json_pack("{s:I, s:I, s:I, s:I, s:o, s:o, s:I, s:b, s:b, s:I, s:I, s:I, s:f, s:f, s:f}", "ranks", (json_int_t)s->ranks,
                                        "replicate_dim", (json_int_t)s->copies, "batch_size", (json_int_t)s->batch_size, "gradient_accumulation_steps",
                                        (json_int_t)s->accumulation, "custom_sharded_layers", units_json(s, recipe), "reshard_after_forward",
                                        s->stay ? json_integer(s->stay) : json_boolean(s->reshard), "reduce_behind", (json_int_t)s->reduce_async,
                                        "optimizer_in_bwd", s->variant.in_backward, "keep_logits", s->variant.keeps_logits, "reserved_bytes",
                                        (json_int_t)s->reserved, "peak_bytes", (json_int_t)s->peak, "comm_bytes", (json_int_t)s->comm_bytes, "overhead",
                                        s->overhead, "step_seconds", s->seconds, "tokens_per_second", s->tokens_per_second));
    }
    cli_print_json(all, 0);
}

/* ---- text ---- */

static const char *units_of(const rp_setting *s) { return s->own_units ? "both" : s->recipes_units ? "recipe's" : "none"; }

/* yes, no, or the number of the recipe's key; "-" for one rank. */
static const char *reshard_of(const rp_setting *s, char out[24])
{
    if (s->stay) snprintf(out, 24, "%" PRId64, s->stay);
    else snprintf(out, 24, "%s", s->ranks == 1 ? "-" : s->reshard ? "yes" : "no");
    return out;
}

static void print_setting(const rp_setting *s)
{
    char reshard[24], size[RP_SIZE_CHARS];

    printf("%5" PRId64 "  %6" PRId64 "  %5" PRId64 "  %12" PRId64 "  %9s  %7s  %6" PRId64 "  %16s  %7.2f %%  %10.3f  %8.0f\n", s->ranks, s->copies,
           s->batch_size, s->accumulation, s->ranks > 1 ? units_of(s) : "-", reshard_of(s, reshard), s->reduce_async, cli_size_cell(size, s->reserved),
           100 * s->overhead, s->seconds, s->tokens_per_second);
}

/* Whether setting i is the fastest for its number of ranks. Such a setting is always printed. */
static bool first_of_its_ranks(const rp_find *f, int i)
{
    for (int k = 0; k < i; k++)
        if (f->setting[k].ranks == f->setting[i].ranks) return false;
    return true;
}

static void print_keys(const rp_setting *s, int64_t budget)
{
    printf("\nthe first: batch_size=%" PRId64 " gradient_accumulation_steps=%" PRId64 " activation_checkpointing.mode=auto", s->batch_size, s->accumulation);
    if (s->ranks > 1) {
        char reshard[24];
        snprintf(reshard, sizeof reshard, "%s", s->reshard ? "true" : "false");
        printf(" dist.ranks=%" PRId64 " dist.replicate_dim=%" PRId64 " dist.reshard_after_forward=%s dist.reduce_behind=%" PRId64, s->ranks, s->copies,
               s->stay ? reshard_of(s, reshard) : reshard, s->reduce_async);
        if (!s->recipes_units) printf(" 'dist.custom_sharded_layers=[%s]'", s->own_units ? "tok_embeddings, output" : "");
    }
    printf(" memory_budget=%" PRId64 "\n", budget);
}

static void find_print_text(const rp_find *f)
{
    char budget[RP_SIZE_CHARS];
    int left_out = 0;

    printf("%d of %d settings fit %s a rank, each with %" PRId64 " sample%s a step\n\n", f->n, f->n_tried, cli_size(budget, f->budget), f->samples,
           f->samples == 1 ? "" : "s");
    printf("%5s  %6s  %5s  %12s  %9s  %7s  %6s  %16s  %9s  %10s  %8s\n", "ranks", "copies", "batch", "accumulation", "own units", "reshard", "behind",
           "reserved", "overhead", "step, s", "tokens/s");
    for (int i = 0; i < f->n; i++) {
        if (i < MOST_SHOWN || first_of_its_ranks(f, i)) print_setting(&f->setting[i]);
        else left_out++;
    }
    if (left_out) printf("and %d more (--json has them)\n", left_out);
    if (f->n_discarded) printf("%d more settings were not planned: by their bounds they do not fit, or four others are faster\n", f->n_discarded);
    print_keys(f->setting, f->budget);
    printf("own units: embedding and head in units of their own. Time by the %s table of %s\n", f->measured ? "measured" : "built-in", f->machine);
    if (f->setting[0].ranks > 1) cli_print_links(&f->links, f->setting[0].ranks);
}

/* ---- the search ---- */

static rp_status find_fastest(cli_forecast *x, const char *device, rp_report *report, rp_find *out)
{
    const rp_find_options options = { .device = device };

    RP_TRY(rp__recipe_open_plugins(x->recipe, report));
    return rp__recipe_find(x->run.ctx, x->recipe, &options, report, out);
}

int cli_find(cli *c, const cli_args *args, int64_t most_bytes, const char *device, bool json)
{
    cli_forecast x;
    rp_report report;
    rp_find found = { 0 };
    int code      = cli_recipe_open(c, args, most_bytes, true, &x);

    if (code == CLI_GO) {
        rp__report_open(&report, x.run.ctx);
        rp_status status = find_fastest(&x, device, &report, &found);
        code = cli_report(&x.run, &report, status);
        if (code == CLI_GO) {
            if (json) print_json(&found, x.recipe);
            else find_print_text(&found);
            code = cli_finish(&x.run, RP_OK);
        }
        rp__find_close(&found);
    }
    cli_forecast_close(&x);
    return code;
}
