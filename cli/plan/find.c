/* cli/plan/find.c -- plan --find: the settings of a recipe that fit the memory budget, fastest first. plan --fit: the ways to train its model.
 *
 *   --find --json   { budget_bytes, samples, tried, discarded, machine, measured, settings: [{ ranks, replicate_dim, batch_size,
 *              gradient_accumulation_steps, custom_sharded_layers, reshard_after_forward (a number: group size), reduce_behind, optimizer_in_bwd,
 *              keep_logits, reserved_bytes, peak_bytes, comm_bytes, overhead,
 *              step_seconds, tokens_per_second }] }
 *   --fit --json    { budget_bytes, planned, machine, measured, ways: [{ way, lora_rank (0: no fresh adapter), quantize, state_dtype (null: no states),
 *              max_seq_len, batch_size, gradient_accumulation_steps, reserved_bytes, overhead, step_seconds, tokens_per_second, own }] } */
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

/* ---- ways to train ---- */

static void fit_print_json(const rp_fit *f)
{
    json_t *all = json_array();

    for (int i = 0; i < f->n; i++) {
        const rp_fit_row *r = &f->row[i];
        json_array_append_new(all, json_pack("{s:s, s:I, s:s?, s:s?, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:b}", "way", r->way, "lora_rank", (json_int_t)r->rank,
                                             "quantize", r->quantize, "state_dtype", r->states, "max_seq_len", (json_int_t)r->length,
                                             "batch_size", (json_int_t)r->batch_size, "gradient_accumulation_steps", (json_int_t)r->accumulation,
                                             "reserved_bytes", (json_int_t)r->reserved, "overhead", r->overhead, "step_seconds", r->seconds,
                                             "tokens_per_second", r->tokens_per_second, "own", r->own));
    }
    cli_print_json(json_pack("{s:I, s:i, s:s, s:b, s:o}", "budget_bytes", (json_int_t)f->budget, "planned", f->n_planned, "machine", f->machine, "measured",
                             f->measured, "ways", all), 0);
}

static void fit_print_text(const rp_fit *f)
{
    const rp_fit_row *first = f->row;
    char size[RP_SIZE_CHARS];

    printf("%d ways to train fit %s\n\n", f->n, cli_size(size, f->budget));
    printf("%-12s  %6s  %6s  %5s  %12s  %16s  %9s  %10s  %8s\n", "trained", "states", "length", "batch", "accumulation", "reserved", "overhead", "step, s",
           "tokens/s");
    for (int i = 0; i < f->n; i++) {
        const rp_fit_row *r = &f->row[i];
        printf("%-12s  %6s  %6" PRId64 "  %5" PRId64 "  %12" PRId64 "  %16s  %7.2f %%  %10.3f  %8.0f%s\n", r->way, r->states ? r->states : "-", r->length,
               r->batch_size, r->accumulation, cli_size_cell(size, r->reserved), 100 * r->overhead, r->seconds, r->tokens_per_second,
               r->own ? "  as in the recipe" : "");
    }
    printf("\nthe first: ");
    if (first->rank) printf("lora.rank=%" PRId64 " ", first->rank);
    if (first->quantize) printf("model.quantize=%s ", first->quantize);
    if (first->states) printf("optimizer.state_dtype=%s ", first->states);
    printf("max_seq_len=%" PRId64 " batch_size=%" PRId64 " gradient_accumulation_steps=%" PRId64 " activation_checkpointing.mode=auto memory_budget=%" PRId64
           "\n", first->length, first->batch_size, first->accumulation, f->budget);
    printf("time by the %s table of %s\n", f->measured ? "measured" : "built-in", f->machine);
}

/* ---- the searches ---- */

typedef struct {
    const char *device;
    bool json;
    rp_find found;
    rp_fit fit;
} searched;

typedef rp_status search(cli_forecast *x, searched *s, rp_report *report);
typedef void show(const cli_forecast *x, const searched *s);

static rp_status search_settings(cli_forecast *x, searched *s, rp_report *report)
{
    const rp_find_options options = { .device = s->device };

    return rp__recipe_find(x->run.ctx, x->recipe, &options, report, &s->found);
}

static void show_settings(const cli_forecast *x, const searched *s)
{
    if (s->json) print_json(&s->found, x->recipe);
    else find_print_text(&s->found);
}

static rp_status search_ways(cli_forecast *x, searched *s, rp_report *report)
{
    return rp__recipe_fit(x->run.ctx, x->recipe, s->device, report, &s->fit);
}

static void show_ways(const cli_forecast *x, const searched *s)
{
    (void)x;
    if (s->json) fit_print_json(&s->fit);
    else fit_print_text(&s->fit);
}

static int run_search(cli *c, const cli_args *args, searched *s, search *of, show *as)
{
    cli_forecast x;
    rp_report report;
    int code = cli_recipe_open(c, args, s->device, true, &x);

    if (code == CLI_GO) {
        rp__report_open(&report, x.run.ctx);
        rp_status status = rp__recipe_open_plugins(x.recipe, &report);
        if (status == RP_OK) status = of(&x, s, &report);
        code = cli_report(&x.run, &report, status);
        if (code == CLI_GO) {
            as(&x, s);
            code = cli_finish(&x.run, RP_OK);
        }
        rp__find_close(&s->found);
        rp__fit_close(&s->fit);
    }
    cli_forecast_close(&x);
    return code;
}

int cli_find(cli *c, const cli_args *args, const char *device, bool json)
{
    return run_search(c, args, &(searched){ .device = device, .json = json }, search_settings, show_settings);
}

int cli_fit(cli *c, const cli_args *args, const char *device, bool json)
{
    return run_search(c, args, &(searched){ .device = device, .json = json }, search_ways, show_ways);
}
