/* plan/graph_file.c -- plans of graphs as JSON: reads the fates of a plan and checks that the graph allows them; writes a
 * plan with its figures. docs/graphs.md describes the format.
 *
 * A plan gives fates to calls, a file to values. So values of one call must agree.
 */
#include <string.h>

#include "base/json_text.h"
#include "plan/graph.h"
#include "plan/simulate.h"
#include "policy/policy.h"

enum { NONE = -1, VERSION = 1, MOST_DEEP = 128 };
enum { BY_DEFAULT, KEEP, RECOMPUTE, OFFLOAD, REGION, N_WORDS };

static const char *const words[N_WORDS] = { "", "keep", "recompute", "offload", "region" };

typedef struct {
    rp_ctx *ctx;
    const char *file;
    rp_bump bump;
    const rp_trace_pass *pass;
    const char *const *name;
    rp_plan *plan;
    rp_plan_pass *to;
    int at_pass;
    bool *in_region;                    /* of each call */
    unsigned char *word;                /* of each call: the fate of its values … */
    int *by;                            /* … and the value that gave it */
} fate_reader;

static rp_status no_memory(rp_ctx *ctx) { return rp_fail(ctx, RP_ERR_MEMORY, "no memory for the plan of a graph"); }

/* ---- regions and words ---- */

static bool *mark_regions(rp_bump *bump, const rp_plan_pass *pass)
{
    bool *in = rp__bump_alloc(bump, pass->n_calls + 1);

    for (int r = 0; r < pass->n_regions && in; r++)
        for (int c = pass->region[r].first; c < pass->region[r].end; c++) in[c] = true;
    return in;
}

/* The fate of a value if neither the graph nor the plan sets it. */
static int default_word(const rp_trace_pass *pass, const bool *in_region, int call)
{
    return in_region[call] && pass->call[call].replays ? REGION : KEEP;
}

/* ---- messages ---- */

static rp_status no_plan(const fate_reader *r, const char *why)
{
    return rp_fail(r->ctx, RP_ERR_FORMAT, "'%s' is no plan of a graph: %s", r->file, why);
}

static rp_status refuse_value(const fate_reader *r, const char *name, const char *why)
{
    return rp_fail(r->ctx, RP_ERR_CONFIG, "plan '%s' is not valid for the graph: pass %d, value '%.400s' %s", r->file,
                   r->at_pass, name, why);
}

/* ---- reading: values ---- */

static const char *refusal(const fate_reader *r, const rp_trace_value *v, int word)
{
    if (v->call == NONE) return "is an input: it has no fate";
    if (v->must) return strcmp(words[word], rp__fate_name((int)v->fate)) ? "has another 'fate' in the graph" : NULL;
    bool in = r->in_region[v->call], reruns = r->pass->call[v->call].replays;
    if ((word == RECOMPUTE || word == REGION) && !reruns) return "cannot be recomputed: 'reruns' of its call is false";
    if (word == REGION && !in) return "is in no region";
    if (word == OFFLOAD && !v->offloadable) return "is not 'offloadable' in the graph";
    return word == OFFLOAD && in ? "is in a region, where nothing is offloaded" : NULL;
}

/* Offloading a call's offloadable values keeps its others. */
static bool agrees(const fate_reader *r, const rp_trace_value *v, int word)
{
    int before = r->word[v->call];

    if (!before || before == word) return true;
    if (before == OFFLOAD && word == KEEP) return !v->offloadable;
    return before == KEEP && word == OFFLOAD && !r->pass->value[r->by[v->call]].offloadable;
}

static rp_status take_word(fate_reader *r, int v, const json_t *given)
{
    const rp_trace_value *value = &r->pass->value[v];
    int word                    = KEEP;
    char why[640];

    while (word < N_WORDS && (!json_is_string(given) || strcmp(words[word], json_string_value(given)))) word++;
    if (word == N_WORDS) return refuse_value(r, r->name[v], "must have the fate 'keep', 'recompute', 'offload' or 'region'");
    const char *refused = refusal(r, value, word);
    if (refused) return refuse_value(r, r->name[v], refused);
    if (value->must) return RP_OK;
    if (!agrees(r, value, word)) {
        snprintf(why, sizeof why, "must have the fate of '%.400s', which the same call makes", r->name[r->by[value->call]]);
        return refuse_value(r, r->name[v], why);
    }
    if (r->word[value->call] != OFFLOAD) {
        r->word[value->call] = (unsigned char)word;
        r->by[value->call]   = v;
    }
    return RP_OK;
}

static rp_status find_unknown(const fate_reader *r, json_t *fates)
{
    const char *key;
    json_t *word;

    json_object_foreach(fates, key, word) {
        int v = 0;
        while (v < r->pass->n_values && strcmp(r->name[v], key)) v++;
        if (v == r->pass->n_values) return refuse_value(r, key, "is not in the graph");
    }
    return RP_OK;
}

static rp_status take_fates(fate_reader *r, json_t *fates)
{
    size_t n = 0;

    if (fates && !json_is_object(fates)) return no_plan(r, "'fates' must be an object");
    for (int v = 0; v < r->pass->n_values; v++) {
        const json_t *word = json_object_get(fates, r->name[v]);
        if (!word) continue;
        n++;
        RP_TRY(take_word(r, v, word));
    }
    return n < json_object_size(fates) ? find_unknown(r, fates) : RP_OK;
}

/* ---- reading: calls ---- */

/* A call outside regions that no backward and no recomputed call reads is not recomputed. */
static rp_status set_calls(fate_reader *r)
{
    const rp_trace_pass *p = r->pass;
    bool *wanted           = rp__bump_alloc(&r->bump, p->n_values + 1);

    if (!wanted) return RP_ERR_MEMORY;
    for (int c = 0; c < p->n_calls; c++)
        for (int i = 0; i < p->call[c].n_needs; i++) wanted[p->call[c].needs[i]] = true;
    for (int c = p->n_calls - 1; c >= 0; c--) {
        const rp_trace_call *from = &p->call[c];
        rp_plan_call *to          = &r->to->call[c];
        bool read                 = r->in_region[c];
        for (int i = 0; i < from->n_made; i++) read = read || wanted[from->made[i]];
        to->recompute = r->word[c] == RECOMPUTE && read;
        to->offload   = r->word[c] == OFFLOAD;
        to->kept      = r->word[c] == KEEP && r->in_region[c];
        r->to->n_recomputed += to->recompute;
        for (int i = 0; i < from->n_in && (to->recompute || r->in_region[c]); i++) wanted[from->in[i]] = true;
    }
    return RP_OK;
}

/* ---- reading: regions ---- */

/* Number of regions around the last one. */
static int depth_of(const rp_plan_pass *p)
{
    const rp_stretch *last = &p->region[p->n_regions - 1];
    int deep               = 0;

    for (int i = 0; i + 1 < p->n_regions; i++) deep += p->region[i].end >= last->end;
    return deep;
}

static rp_status take_region(fate_reader *r, const json_t *e)
{
    rp_plan_pass *to   = r->to;
    rp_stretch *region = &to->region[to->n_regions];
    json_int_t first = json_integer_value(json_array_get(e, 0)), end = json_integer_value(json_array_get(e, 1));
    bool whole = json_is_integer(json_array_get(e, 0)) && json_is_integer(json_array_get(e, 1)) && json_array_size(e) == 2;

    if (!whole) return no_plan(r, "'regions' must be a list of pairs: its first call, and the call after its last");
    bool fits = first >= 0 && first < end && end < to->n_calls;
    *region   = (rp_stretch){ fits ? (int)first : NONE, fits ? (int)end : NONE, NULL };
    RP_CHECK(r->ctx, rp__plan_nests(to, to->n_regions), RP_ERR_CONFIG,
             "plan '%s' is not valid for the graph: pass %d, region %d does not nest with those before it, or is outside "
             "the calls before the last",
             r->file, r->at_pass, to->n_regions);
    region->path = rp__plan_region_name(r->plan, to, region);
    if (!region->path) return RP_ERR_MEMORY;
    to->n_regions++;
    RP_CHECK(r->ctx, depth_of(to) < MOST_DEEP, RP_ERR_CONFIG,
             "plan '%s' is not valid for the graph: pass %d, region %d is inside %d others, the limit is %d",
             r->file, r->at_pass, to->n_regions - 1, depth_of(to), MOST_DEEP - 1);
    return RP_OK;
}

static rp_status take_regions(fate_reader *r, const json_t *list)
{
    int64_t n = (int64_t)json_array_size(list);

    if (list && !json_is_array(list)) return no_plan(r, "'regions' must be a list");
    if (n > r->to->n_calls) return no_plan(r, "'regions' has more entries than the graph has calls");
    r->to->region = rp__bump_alloc(&r->plan->bump, (n + 1) * (int64_t)sizeof *r->to->region);
    if (!r->to->region) return RP_ERR_MEMORY;
    for (int64_t i = 0; i < n; i++) RP_TRY(take_region(r, json_array_get(list, (size_t)i)));
    r->in_region = mark_regions(&r->bump, r->to);
    return r->in_region ? RP_OK : RP_ERR_MEMORY;
}

static rp_status take_pass(fate_reader *r, const json_t *from)
{
    if (!json_is_object(from)) return no_plan(r, "an entry of 'passes' is no object");
    r->word = rp__bump_alloc(&r->bump, r->pass->n_calls + 1);
    r->by   = rp__bump_alloc(&r->bump, (r->pass->n_calls + 1) * (int64_t)sizeof *r->by);
    if (!r->word || !r->by) return RP_ERR_MEMORY;
    RP_TRY(take_regions(r, json_object_get(from, "regions")));
    RP_TRY(take_fates(r, json_object_get(from, "fates")));
    return set_calls(r);
}

/* ---- reading: the file ---- */

static rp_status take_plan(fate_reader *r, const rp_graph *graph, const json_t *root)
{
    const json_t *version = json_object_get(root, "reprise_graph_plan"), *passes = json_object_get(root, "passes");

    if (!json_is_integer(version)) return no_plan(r, "it has no 'reprise_graph_plan'");
    if (json_integer_value(version) != VERSION) return no_plan(r, "it is of another version");
    if (!json_is_array(passes)) return no_plan(r, "it has no list 'passes'");
    RP_CHECK(r->ctx, (int64_t)json_array_size(passes) == graph->trace.n_passes, RP_ERR_CONFIG,
             "plan '%s' is not valid for the graph: it has %zu passes, the graph has %d", r->file, json_array_size(passes),
             graph->trace.n_passes);
    for (int i = 0; i < graph->trace.n_passes; i++) {
        r->at_pass = i;
        r->pass    = &graph->trace.pass[i];
        r->name    = graph->name[i];
        r->to      = &r->plan->pass[i];
        RP_TRY(take_pass(r, json_array_get(passes, (size_t)i)));
    }
    return RP_OK;
}

rp_status rp__graph_fates(rp_ctx *ctx, const rp_graph *graph, const char *file, const char *text, int64_t bytes,
                          rp_plan *plan)
{
    fate_reader r = { .ctx = ctx, .file = file, .bump = { .ctx = ctx }, .plan = plan };
    json_error_t error;
    json_t *root = rp__json_read(text, (size_t)bytes, JSON_REJECT_DUPLICATES, &error);

    if (!root && json_error_code(&error) == json_error_out_of_memory) return no_memory(ctx);
    if (!root) return rp_fail(ctx, RP_ERR_FORMAT, "'%s' is no plan of a graph: line %d: %s", file, error.line, error.text);
    rp_status status = take_plan(&r, graph, root);
    json_decref(root);
    rp__bump_free(&r.bump);
    return status;
}

/* ---- writing ---- */

/* The recomputed calls and fetched values before one backward. */
typedef struct { const char *const *name; json_t *order, *recompute, *fetch; int backward; } order_writer;

static void begin_entry(order_writer *w, int backward)
{
    if (w->backward == backward) return;
    w->backward  = backward;
    w->recompute = json_array();
    w->fetch     = json_array();
    json_array_append_new(w->order, json_pack("{s:i, s:o, s:o}", "before_backward", backward, "recompute", w->recompute,
                                              "fetch", w->fetch));
}

static void note_run(void *user, int backward, int call)
{
    order_writer *w = user;

    begin_entry(w, backward);
    json_array_append_new(w->recompute, json_integer(call));
}

static void note_fetch(void *user, int backward, int value)
{
    order_writer *w = user;

    begin_entry(w, backward);
    json_array_append_new(w->fetch, json_string(w->name[value]));
}

static int word_of(const rp_trace_pass *pass, const rp_plan_pass *plan, const bool *in_region, int v)
{
    const rp_trace_value *value = &pass->value[v];
    const rp_plan_call *call    = &plan->call[value->call];
    int fate                    = value->must ? (int)value->fate : (int)rp__plan_fate(call, value->offloadable);

    if (fate == RP_OFFLOAD) return OFFLOAD;
    if (fate == RP_RECOMPUTE) return pass->call[value->call].replays ? RECOMPUTE : KEEP;
    return fate == RP_KEEP ? KEEP : default_word(pass, in_region, value->call);
}

/* The values that a backward reads, and all others whose fate is not the default. NULL: memory ran out. */
static json_t *fates_json(rp_bump *bump, const rp_trace_pass *pass, const char *const *name, const rp_plan_pass *plan)
{
    bool *in_region = mark_regions(bump, plan), *read = rp__bump_alloc(bump, pass->n_values + 1);

    if (!in_region || !read) return NULL;
    json_t *out = json_object();
    for (int c = 0; c < pass->n_calls; c++)
        for (int i = 0; i < pass->call[c].n_needs; i++) read[pass->call[c].needs[i]] = true;
    for (int v = 0; v < pass->n_values; v++) {
        if (pass->value[v].call == NONE) continue;
        int word = word_of(pass, plan, in_region, v);
        if (read[v] || word != default_word(pass, in_region, pass->value[v].call))
            json_object_set_new(out, name[v], json_string(words[word]));
    }
    return out;
}

static json_t *regions_json(const rp_plan_pass *pass)
{
    json_t *out = json_array();

    for (int i = 0; i < pass->n_regions; i++)
        json_array_append_new(out, json_pack("[i, i]", pass->region[i].first, pass->region[i].end));
    return out;
}

static rp_status put_pass(rp_bump *bump, const rp_graph *graph, const rp_plan *plan, int i, json_t *passes)
{
    const char *const *name = (const char *const *)graph->name[i];
    order_writer w          = { .name = name, .order = json_array(), .backward = NONE };
    rp_simulate_watch watch = { note_run, note_fetch, &w };
    rp_simulated out;

    rp_status status = rp__simulate_pass(bump->ctx, &graph->trace.pass[i], &plan->pass[i], &watch, &out);
    json_t *fates = fates_json(bump, &graph->trace.pass[i], name, &plan->pass[i]);
    json_t *pass  = json_pack("{s:o, s:o, s:o}", "fates", fates, "regions", regions_json(&plan->pass[i]), "order", w.order);
    return json_array_append_new(passes, pass) < 0 ? RP_ERR_MEMORY : status;
}

static json_t *number_or_null(int64_t n) { return n ? json_integer(n) : json_null(); }

static json_t *figures_json(const rp_graph_plan *g)
{
    const rp_plan *p         = g->plan;
    const rp_plan_left *left = &p->facts.left;
    double base              = p->base_seconds > 0 ? p->base_seconds : 1;

    json_t *out = json_pack("{s:i, s:b, s:o, s:I, s:o, s:b, s:I}", "reprise_graph_plan", VERSION, "feasible", g->feasible,
                            "budget_bytes", number_or_null(g->budget), "peak_bytes", (json_int_t)p->placement.height,
                            "least_budget_bytes", number_or_null(g->least), "least_budget_at_most", g->least_at_most,
                            "least_budget_lower_bound", (json_int_t)g->least_bound);
    json_object_update_new(out, json_pack("{s:f, s:f, s:f, s:f, s:I, s:f, s:f, s:f}", "base_seconds", p->base_seconds,
                                          "step_seconds", p->seconds + p->recompute_seconds, "recompute_seconds",
                                          p->recompute_seconds, "offload_seconds", p->offload_seconds, "offloaded_bytes",
                                          (json_int_t)p->found.offloaded_bytes, "overhead", p->recompute_seconds / base,
                                          "overhead_lower_bound", p->bound_seconds / base, "overhead_lower_bound_blocks",
                                          p->block_bound_seconds / base));
    json_object_set_new(out, "search",
                        json_pack("{s:b, s:b, s:b, s:i}", "all_ways", !left->ways, "all_regions", !left->regions,
                                  "work_limit_met", left->limit, "region_blocks", left->grain));
    return out;
}

json_t *rp__graph_plan_json(rp_ctx *ctx, const rp_graph *graph, const rp_graph_plan *g)
{
    rp_bump bump     = { .ctx = ctx };
    int64_t lost     = rp__json_lost();
    json_t *out      = figures_json(g), *passes = json_array();
    rp_status status = RP_OK;

    for (int i = 0; i < graph->trace.n_passes && status == RP_OK; i++) status = put_pass(&bump, graph, g->plan, i, passes);
    json_object_set_new(out, "passes", passes);
    rp__bump_free(&bump);
    if (status == RP_OK && rp__json_lost() == lost) return out;
    (void)no_memory(ctx);
    json_decref(out);
    return NULL;
}
