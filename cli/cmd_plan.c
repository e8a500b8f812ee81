/* cli/cmd_plan.c -- plan: whether a recipe's step fits its budget, its peak, its predicted time, and the lower bounds.
 *
 *   --json   { feasible, budget_bytes, peak_bytes, peak_at: { event, path, op }, reserved_bytes, least_budget_bytes, by_class, saved_bytes,
 *              step_flops, recompute_flops, overhead, overhead_lower_bound, step_seconds, live_bound_bytes, solve_seconds, machine,
 *              measured, estimated, planned, optimizer_in_bwd, keep_logits, modules, ranks: [{ rank, peak_bytes, reserved_bytes, by_class, fits }],
 *              overhead_lower_bound_blocks,                 lower bound for plans that keep blocks; at least overhead_lower_bound
 *              remedies: [{ setting, least_budget_bytes, saved_bytes }],       if no plan fits: single settings that need less, largest saving first
 *              least_budget_at_most, search: { all_ways, all_regions, work_limit_met, region_blocks },
 *              units, comm_bytes, comm_seconds, comm_again_seconds, hidden_seconds,       the last four: for one rank and one step
 *              base_seconds,                                of the fastest step without a budget; overheads are relative to it
 *              faster_than_keeping_all,                     faster and smaller than the recipe's own step, which keeps everything
 *              links: { node_ranks (null: all), link_bytes_per_second, node_link_bytes_per_second, latency_seconds, assumed },     null: one rank
 *              offloaded_bytes, offload_seconds,            activations offloaded in a step; their seconds, a part of overhead
 *              state_offload_bytes, state_offload_seconds,  optimizer states read and written in a step; their seconds
 *              offload_bandwidth, offload_guessed,          bytes per second of both; true: neither measured nor given
 *              host_fallback_ops,                           calls of ops in a forward pass that the host computes, as the device has no kernels for them
 *              mapped_bytes,                                weights that stay in the model's files (model.mapped), outside the budget
 *              memory_limit_bytes, allowance_bytes: { program, model, tokenizer, threads, ranks, mapped, pages } } */
#include "cli/forecast.h"
#include "rehearse/allowance.h"
#include "rehearse/forecast.h"

typedef struct { bool json, find, fit, graph; const char *device, *file, *evaluate; } plan_fields;

static double ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

/* recompute: seconds of replays and of waiting for offloaded slots. */
static double overhead(const rp_forecast *f, double recompute) { return rp__overhead(f->plan.base_seconds, f->plan.seconds, recompute); }

static bool beats_keeping_all(const rp_forecast *f)
{
    return f->plan.chosen && f->plan.found.memory.reserved_bytes < f->keep_all_bytes &&
           f->plan.seconds + f->plan.recompute_seconds < f->keep_all_seconds * (1 - 1e-9);
}

/* ---- JSON ---- */

/* All ranks need the same memory, because slices are padded to one size. */
static json_t *ranks_json(const rp_forecast *f)
{
    json_t *all = json_array();

    for (int rank = 0; rank < f->ranks; rank++)
        json_array_append_new(all, json_pack("{s:i, s:I, s:I, s:o, s:b}", "rank", rank, "peak_bytes", (json_int_t)f->explain.peak_bytes,
                                             "reserved_bytes", (json_int_t)f->plan.found.memory.reserved_bytes, "by_class",
                                             cli_classes_json(f->explain.peak_at), "fits", f->feasible));
    return all;
}

static json_t *remedies_json(const rp_forecast *f)
{
    json_t *all = json_array();

    for (int i = 0; i < f->n_remedies; i++)
        json_array_append_new(all, json_pack("{s:s, s:I, s:I}", "setting", f->remedy[i].setting, "least_budget_bytes", (json_int_t)f->remedy[i].least,
                                             "saved_bytes", (json_int_t)f->remedy[i].saved));
    return all;
}

static json_t *allowance_json(const rp_allowance *a)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "program", (json_int_t)a->program, "model", (json_int_t)a->model, "tokenizer",
                     (json_int_t)a->tokenizer, "threads", (json_int_t)a->threads, "ranks", (json_int_t)a->ranks, "mapped", (json_int_t)a->mapped,
                     "pages", (json_int_t)a->pages);
}

static void print_json(const rp_forecast *f)
{
    const rp_explain *e = &f->explain;
    json_t *all =
        json_pack("{s:b, s:o, s:I, s:{s:s, s:s, s:s}, s:I, s:I, s:o, s:I, s:I, s:I, s:f, s:f, s:f, s:I, s:f, s:s, s:b, s:b, s:b, s:b, s:b, s:o, s:o, s:s?, "
                  "s:I, s:f, s:f, s:f}",
                  "feasible", f->feasible, "budget_bytes", f->plan.budget ? json_integer(f->plan.budget) : json_null(), "peak_bytes", (json_int_t)e->peak_bytes,
                  "peak_at", "event", e->peak_event, "path", e->peak_path, "op", e->peak_op, "reserved_bytes", (json_int_t)f->plan.found.memory.reserved_bytes,
                  "least_budget_bytes", (json_int_t)f->least, "by_class", cli_classes_json(e->peak_at), "saved_bytes", (json_int_t)f->plan.found.saved_bytes,
                  "step_flops", (json_int_t)f->plan.found.step_flops, "recompute_flops", (json_int_t)f->plan.found.recompute_flops, "overhead",
                  overhead(f, f->plan.recompute_seconds), "overhead_lower_bound", overhead(f, f->plan.bound_seconds), "step_seconds",
                  f->plan.seconds + f->plan.recompute_seconds, "live_bound_bytes", (json_int_t)f->plan.placement.bound, "solve_seconds", f->solve_seconds,
                  "machine", f->plan.machine, "measured", f->plan.measured, "estimated", f->estimated, "planned", f->plan.chosen, "optimizer_in_bwd",
                  f->plan.variant.in_backward, "keep_logits", f->plan.variant.keeps_logits, "modules", cli_modules_json(e), "ranks", ranks_json(f), "units",
                  *f->units ? f->units : NULL, "comm_bytes", (json_int_t)f->plan.comm_bytes, "comm_seconds", f->plan.comm_seconds, "comm_again_seconds",
                  f->plan.comm_recompute_seconds, "hidden_seconds", f->plan.hidden_seconds);

    json_object_set_new(all, "links", f->ranks > 1 ? cli_links_json(&f->links) : json_null());
    json_object_update_new(all, json_pack("{s:f, s:b, s:I, s:f, s:I, s:f, s:f, s:b}", "base_seconds", f->plan.base_seconds, "faster_than_keeping_all",
                                          beats_keeping_all(f), "offloaded_bytes", (json_int_t)f->plan.found.offloaded_bytes, "offload_seconds",
                                          f->plan.offload_seconds, "state_offload_bytes", (json_int_t)f->plan.state_bytes, "state_offload_seconds",
                                          f->plan.state_seconds, "offload_bandwidth", f->offload_bandwidth, "offload_guessed", f->offload_guessed));

    json_object_set_new(all, "overhead_lower_bound_blocks", json_real(overhead(f, f->plan.block_bound_seconds)));
    json_object_set_new(all, "remedies", remedies_json(f));
    json_object_update_new(all, json_pack("{s:b, s:{s:b, s:b, s:b, s:i}}", "least_budget_at_most", f->least_at_most, "search", "all_ways",
                                          !f->plan.facts.left.ways, "all_regions", !f->plan.facts.left.regions, "work_limit_met", f->plan.facts.left.limit,
                                          "region_blocks", f->plan.facts.left.grain));
    json_object_set_new(all, "host_fallback_ops", json_integer(e->host_fallback_ops));
    json_object_set_new(all, "mapped_bytes", json_integer(f->mapped_bytes));
    json_object_set_new(all, "memory_limit_bytes", f->limit ? json_integer(f->limit) : json_null());
    json_object_set_new(all, "allowance_bytes", allowance_json(&f->allowance));
    cli_print_json(all, 0);
}

/* ---- text ---- */

/* For each setting alone: the smallest budget that fits, and the bytes that it saves. */
static void print_remedies(const rp_forecast *f)
{
    char least[RP_SIZE_CHARS], saved[RP_SIZE_CHARS];

    if (f->feasible || !f->n_remedies) return;
    printf("settings that need less memory, each alone:\n  %16s  %16s\n", "fits in", "saves");
    for (int i = 0; i < f->n_remedies; i++) {
        const rp_remedy *r = &f->remedy[i];
        printf("  %16s  %16s  %-4s  %s\n", cli_size_cell_up(least, r->least), cli_size_cell(saved, r->saved),
               r->least <= f->plan.budget ? "fits" : "", r->setting);
    }
}

/* How memory_limit is divided: the part that is not for the arena, by purpose. */
static void print_limit(const rp_forecast *f)
{
    const rp_allowance *a = &f->allowance;
    const struct { const char *name; int64_t bytes; } part[] = { { "the program", a->program }, { "the model", a->model },
        { "the tokenizer", a->tokenizer }, { "threads", a->threads }, { "ranks", a->ranks }, { "mapped weights", a->mapped }, { "page tables", a->pages } };
    char limit[RP_SIZE_CHARS], others[RP_SIZE_CHARS];
    const char *between = "";

    if (!f->limit) return;
    printf("%-14s %s for the process, %s of it outside the budget:", "memory limit", cli_size(limit, f->limit),
           cli_size(others, rp__allowance_bytes(a)));
    for (int i = 0; i < RP_COUNT(part); i++) {
        if (part[i].bytes) printf("%s %s %.1f MiB", between, part[i].name, (double)part[i].bytes / (1 << 20));
        if (part[i].bytes) between = ",";
    }
    putchar('\n');
}

static void print_mapped(const rp_forecast *f)
{
    char size[RP_SIZE_CHARS];

    if (f->mapped_bytes) printf("%-14s %s of frozen weights stay in the model's files, outside the budget\n", "mapped", cli_size(size, f->mapped_bytes));
}

static void print_verdict(const rp_forecast *f)
{
    char budget[RP_SIZE_CHARS], reserved[RP_SIZE_CHARS], size[RP_SIZE_CHARS], least[RP_SIZE_CHARS + 16];

    cli_size(budget, f->plan.budget);
    snprintf(least, sizeof least, "%s%s", f->least_at_most ? "at most " : "", cli_size_up(size, f->least));
    if (!f->feasible) {                                      /* the figures are those of the smallest plan */
        printf("%-14s a budget of %s\n%-14s %s; the plan for it:\n", "does not fit", budget, "least budget", least);
        return;
    }
    printf("%-14s reserved %s", f->plan.budget ? "fits" : "no budget", cli_size(reserved, f->plan.found.memory.reserved_bytes));
    if (f->plan.budget) printf(" of %s", budget);
    if (f->plan.placement.bound == f->plan.found.memory.reserved_bytes) printf("; the peak uses every byte of it\n");
    else printf("; %.4f times the bytes that are live at the peak\n", ratio((double)f->plan.found.memory.reserved_bytes, (double)f->plan.placement.bound));
    printf("%-14s %s\n", "least budget", least);
}

/* The bound of plans of blocks is printed if it is higher than the bound of all schedules. */
static void print_bounds(const rp_forecast *f)
{
    double any = overhead(f, f->plan.bound_seconds), blocks = overhead(f, f->plan.block_bound_seconds);

    if (blocks <= 0) return;
    printf("%-14s ", "bounds");
    if (blocks > any) printf("at least %.2f %% for every plan of blocks, %.2f %% for every schedule", 100 * blocks, 100 * any);
    else printf("at least %.2f %% for every schedule", 100 * any);
    puts(f->loose_bounds ? "; loose, as some blocks share a region" : "");
}

static void print_time(const rp_forecast *f)
{
    char own[RP_SIZE_CHARS];

    printf("%-14s %.3f s a step by the %s of %s", "time", f->plan.seconds + f->plan.recompute_seconds, f->plan.measured ? "measured table" : "built-in table",
           f->plan.machine);
    if (!f->plan.measured && !f->elsewhere) printf(" ('reprise calibrate' measures it)");
    printf("\n%-14s %.2f %% over the fastest step without a budget", "overhead", 100 * overhead(f, f->plan.recompute_seconds));
    if (f->plan.recompute_seconds > 0)
        printf(": recomputing%s%s", f->plan.comm_recompute_seconds > 0 ? ", communication" : "", f->plan.offload_seconds > 0 ? ", waiting for offloads" : "");
    if (f->plan.comm_recompute_seconds > 0 && f->plan.hidden_seconds == 0)
        printf(", %.2f %% of it communication", 100 * ratio(f->plan.comm_recompute_seconds, f->plan.base_seconds));
    if (f->plan.variant.in_backward) printf("; the optimizer updates in backward");
    if (f->plan.variant.keeps_logits) printf("; the head keeps its logits");
    putchar('\n');
    if (f->plan.chosen) print_bounds(f);
    printf("%-14s %s\n", "checkpointing", f->plan.chosen ? "by plan" : f->regions);
    if (beats_keeping_all(f))
        printf("%-14s than the recipe's own step, which recomputes nothing, reserves %s and takes %.3f s\n", "faster",
               cli_size(own, f->keep_all_bytes), f->keep_all_seconds);
}

/* The bandwidth of offloading, and where the number comes from. */
static const char *speed_text(const rp_forecast *f, char *out, size_t out_bytes)
{
    snprintf(out, out_bytes, "%.3g GB/s%s", f->offload_bandwidth / 1e9,
             !f->offload_guessed ? "" : f->elsewhere ? ", a guess: set 'offload=' in --device" : ", a guess: 'reprise calibrate' measures it");
    return out;
}

/* Prints where a better plan may still be, if the search left something out. */
static void print_search(const rp_forecast *f)
{
    const char *and = "";

    if (!f->plan.facts.left.ways && !f->plan.facts.left.regions && !f->plan.facts.left.limit) return;
    printf("%-14s not exhaustive, a better plan may exist: ", "search");
    if (f->plan.facts.left.ways) printf("%ssome ways to keep a block were left out", and), and = "; ";
    if (f->plan.facts.left.regions) printf("%ssome plans with regions of blocks were left out", and), and = "; ";
    if (f->plan.facts.left.grain > 1) printf(", as regions of several blocks end at every %dth block", f->plan.facts.left.grain);
    if (f->plan.facts.left.limit) printf("%sthe work limit was reached", and);
    putchar('\n');
}

static void print_moved(const rp_forecast *f)
{
    char bytes[RP_SIZE_CHARS], speed[96];

    if (f->plan.found.offloaded_bytes > 0)
        printf("%-14s %s of activations are written and read each step: %.3f s, at %s\n", "offloaded", cli_size(bytes, f->plan.found.offloaded_bytes),
               f->plan.offload_seconds, speed_text(f, speed, sizeof speed));
    if (f->plan.state_bytes > 0)
        printf("%-14s %s of optimizer states are read and written each step: %.3f s, at %s\n", "states",
               cli_size(bytes, f->plan.state_bytes), f->plan.state_seconds, speed_text(f, speed, sizeof speed));
}

static void print_ranks(const rp_forecast *f)
{
    char sent[RP_SIZE_CHARS];

    if (f->ranks == 1) return;
    printf("%-14s %d, each with these figures; %s\n", "ranks", f->ranks, f->units);
    printf("%-14s a rank sends %s a step, %.3f s", "communication", cli_size(sent, f->plan.comm_bytes), f->plan.comm_seconds);
    printf(f->plan.hidden_seconds > 0 ? ", %.3f s of them overlapped with computing\n" : " of it\n", f->plan.hidden_seconds);
    cli_print_links(&f->links, f->ranks);
}

/* One line for each op: the bytes of its slots by fate. */
static void print_fates(const rp_explain *e)
{
    char kept[RP_SIZE_CHARS], recomputed[RP_SIZE_CHARS], offloaded[RP_SIZE_CHARS];

    printf("\n%-24s  %16s  %16s  %16s\n", "slots of", "kept", "recomputed", "offloaded");
    for (int i = 0; i < e->n_slots; i++) {
        int64_t bytes[3] = { 0 };
        bool first       = true;
        for (int j = 0; j < e->n_slots; j++) {
            const rp_explain_slot *s = &e->slot[j];
            if (s->op != e->slot[i].op) continue;
            first = first && j >= i;
            bytes[s->fate == RP_KEEP ? 0 : s->fate == RP_RECOMPUTE ? 1 : 2] += s->bytes;
        }
        if (first) printf("%-24s  %16s  %16s  %16s\n", e->slot[i].op, cli_size_cell(kept, bytes[0]), cli_size_cell(recomputed, bytes[1]),
                          cli_size_cell(offloaded, bytes[2]));
    }
}

static void plan_print_text(const rp_forecast *f)
{
    print_limit(f);
    print_mapped(f);
    print_verdict(f);
    print_time(f);
    print_search(f);
    print_moved(f);
    print_ranks(f);
    print_remedies(f);
    putchar('\n');
    cli_print_peak(&f->explain);
    print_fates(&f->explain);
    cli_print_modules(&f->explain);
    if (f->estimated) printf("\nscratch is that of this machine's kernels, an estimate for '%s'\n", f->plan.machine);
}

/* ---- the command ---- */

/* Refuses options that exclude one another. */
static int check_search(const cli *c, const plan_fields *f)
{
    if (f->evaluate && !f->graph) cli_say(c, "option '--evaluate' needs '--graph': it evaluates a plan of a graph");
    else if (f->find + f->fit + f->graph > 1 || ((f->find || f->fit) && f->file)) cli_say(c, "'--find', '--fit' and '--output' exclude one another");
    else return CLI_GO;
    return CLI_USAGE;
}

static int plan(cli *c, const void *given, const cli_args *args)
{
    const plan_fields *fields         = given;
    const rp_forecast_options options = { .device = fields->device, .least = true, .file = fields->file };
    cli_forecast x;
    int code = check_search(c, fields);

    if (code == CLI_GO && fields->file) code = cli_find_output(c, fields->file);
    if (code == CLI_GO && fields->graph) return cli_graph(c, args, &(cli_graph_options){ fields->evaluate, fields->file, fields->json });
    if (code != CLI_GO) return code;
    if (fields->find) return cli_find(c, args, fields->device, fields->json);
    if (fields->fit) return cli_fit(c, args, fields->device, fields->json);
    code = cli_forecast_open(c, args, &options, &x);
    if (code == CLI_GO) {
        if (fields->json) print_json(&x.f);
        else plan_print_text(&x.f);
        code = cli_finish(c, RP_OK);
        if (!x.f.feasible) code = cli_fail(&x.run, RP_ERR_BUDGET);
    }
    cli_forecast_close(&x);
    return code;
}

static const cli_option options[] = {
    { "json", 0, CLI_FLAG, offsetof(plan_fields, json), NULL, "print one JSON object", 0, 0 },
    { "device", 0, CLI_TEXT, offsetof(plan_fields, device), "SPEC",
      "predict for another machine: h100, or 'name=…, memory=80GB, flops=…, bandwidth=…, link=100GB/s, node=8, node_link=25GB/s, latency=2us'",
      0, 0 },
    { "find", 0, CLI_FLAG, offsetof(plan_fields, find), NULL,
      "find the fastest settings that fit: ranks, wrapping, resharding, batch size, gradient accumulation", 0, 0 },
    { "fit", 0, CLI_FLAG, offsetof(plan_fields, fit), NULL,
      "list the ways to train the model that fit: all weights or adapters, the optimizer's states, length and batch", 0, 0 },
    { "output", 'o', CLI_TEXT, offsetof(plan_fields, file), "FILE", "write the plan to FILE, for the key 'plan' of a recipe and for 'reprise view'", 0, 0 },
    { "graph", 0, CLI_FLAG, offsetof(plan_fields, graph), NULL, "plan the graph in the file GRAPH, from 'reprise explain --graph' or another program", 0, 0 },
    { "evaluate", 0, CLI_TEXT, offsetof(plan_fields, evaluate), "PLAN",
      "with --graph: compute peak, time and bounds of the plan in the file PLAN instead of planning", 0, 0 },
};

const cli_command cmd_plan = {
    .usage = "CONFIG [KEY=VALUE ...] [--json] [--device SPEC] [--find | --fit | -o FILE] [--bytes] [--allow-plugins]\n"
              "       reprise plan --graph GRAPH [memory_budget=BYTES] [--evaluate PLAN] [--json] [-o FILE] [--bytes]",
    .about = "Predict whether a recipe's step fits its memory budget (exact to the byte), where its peak is, the time that fitting\n"
             "costs, and lower bounds of that time. Neither weights nor data are read. Exit code 3: no plan fits.",
    .example = "reprise plan smollm2_135m_full memory_budget=1700MB",
    CLI_OPTIONS(plan_fields, options),
    .least_words = 1, .most_words = 1, .settings = true, .sizes = true, .plugins = true,
    .run = plan,
};
