/* plan/file.c -- writes and reads plan files, and compares them with a step. */
#include "plan/file.h"

#include <jansson.h>
#include <string.h>

#include "base/bump.h"
#include "base/file.h"
#include "base/json_out.h"
#include "base/json_text.h"

enum { FILE_VERSION = 1, MOST_BYTES = 64 << 20 };

struct rp_plan_text {
    json_t *root;
    char *name;                         /* file name, for messages */
};

/* ---- writing ---- */

static json_t *hash_json(uint64_t hash)
{
    char text[32];

    snprintf(text, sizeof text, "%016" PRIx64, hash);
    return json_string(text);
}

static uint64_t hash_of_passes(const rp_plan *plan)
{
    uint64_t hash = RP_HASH_START;

    for (int i = 0; i < plan->n_passes; i++) hash = rp__hash(&plan->pass[i].hash, sizeof plan->pass[i].hash, hash);
    return hash;
}

/* A list of a pass: all entries, or those for which is_in returns true. `entry` returns NULL if memory runs out. */
typedef struct { const char *name; bool (*is_in)(const rp_plan_pass *pass, int i); json_t *(*entry)(const rp_plan_pass *pass, int i); } list_of;

static void put_list(rp_json_out *w, const list_of *list, int n, const rp_plan_pass *pass)
{
    const char *between = "\n";

    rp__json_out_text(w, ",\n   \"");
    rp__json_out_text(w, list->name);
    rp__json_out_text(w, "\": [");
    for (int i = 0; i < n; i++) {
        if (list->is_in && !list->is_in(pass, i)) continue;
        rp__json_out_text(w, between);
        rp__json_out_text(w, "    ");
        rp__json_out_value(w, list->entry(pass, i));
        between = ",\n";
    }
    rp__json_out_text(w, "]");
}

static json_t *region_json(const rp_plan_pass *pass, int i)
{
    const rp_stretch *r = &pass->region[i];

    return json_pack("{s:i, s:i, s:s}", "first", r->first, "end", r->end, "path", r->path);
}

static json_t *call_json(const rp_plan_pass *pass, int i)
{
    const rp_plan_call *c = &pass->call[i];

    return json_pack("{s:i, s:s, s:s}", "at", i, "path", c->path, "op", c->op);
}

static bool recomputes(const rp_plan_pass *pass, int i) { return pass->call[i].recompute; }
static bool is_offloaded(const rp_plan_pass *pass, int i) { return pass->call[i].offload; }
static bool is_kept(const rp_plan_pass *pass, int i) { return pass->call[i].kept; }

static bool keeps_any(const rp_plan_pass *pass)
{
    int i = 0;

    while (i < pass->n_calls && !pass->call[i].kept) i++;
    return i < pass->n_calls;
}

static const list_of all_regions = { "regions", NULL, region_json }, all_recomputed = { "again", recomputes, call_json },
                     all_offloaded = { "away", is_offloaded, call_json }, all_kept = { "kept", is_kept, call_json };

static void put_passes(rp_json_out *w, const rp_plan *plan)
{
    rp__json_out_text(w, ",\n \"passes\": [");
    for (int i = 0; i < plan->n_passes; i++) {
        rp__json_out_text(w, i ? ",\n  {\"calls\": " : "\n  {\"calls\": ");
        rp__json_out_value(w, hash_json(plan->pass[i].hash));
        put_list(w, &all_regions, plan->pass[i].n_regions, &plan->pass[i]);
        put_list(w, &all_recomputed, plan->pass[i].n_calls, &plan->pass[i]);
        if (plan->pass[i].n_offloaded) put_list(w, &all_offloaded, plan->pass[i].n_calls, &plan->pass[i]);
        if (keeps_any(&plan->pass[i])) put_list(w, &all_kept, plan->pass[i].n_calls, &plan->pass[i]);
        rp__json_out_text(w, "}");
    }
    rp__json_out_text(w, "]");
}

static void put_search(rp_json_out *w, const rp_plan *plan)
{
    const rp_plan_left *left = &plan->facts.left;

    if (!left->ways && !left->regions && !left->limit) return;
    rp__json_out_text(w, ",\n \"search\": ");
    rp__json_out_value(w, json_pack("{s:b, s:b, s:b, s:i}", "all_ways", !left->ways, "all_regions", !left->regions, "work_limit_met", left->limit,
                          "region_blocks", left->grain));
}

static rp_plan_left left_of(const json_t *search)
{
    return (rp_plan_left){ .ways = json_is_false(json_object_get(search, "all_ways")), .regions = json_is_false(json_object_get(search, "all_regions")),
                           .limit = json_is_true(json_object_get(search, "work_limit_met")),
                           .grain = (int)json_integer_value(json_object_get(search, "region_blocks")) };
}

static void put_all(rp_json_out *w, const rp_plan *plan, const rp_plan_stamp *s, const rp_plan_takes *t, const char *recipe)
{
    rp__json_out_text(w, "{\"reprise_plan\": 1,\n \"made_for\": ");
    rp__json_out_value(w, json_pack("{s:s, s:s, s:i, s:o, s:I, s:o, s:s?, s:o}", "version", s->version, "machine", s->machine, "threads", s->threads, "costs",
                          hash_json(s->costs), "budget_bytes", (json_int_t)s->budget, "calls", hash_json(hash_of_passes(plan)), "optimizer",
                          s->optimizer, "stands", hash_json(s->stands)));
    rp__json_out_text(w, ",\n \"takes\": ");
    rp__json_out_value(w, json_pack("{s:I, s:I, s:I, s:I, s:I, s:f, s:f}", "peak_bytes", (json_int_t)t->peak, "reserved_bytes", (json_int_t)t->reserved,
                          "saved_bytes", (json_int_t)t->saved, "step_flops", (json_int_t)t->step_flops, "recompute_flops",
                          (json_int_t)t->recompute_flops, "overhead", t->overhead, "overhead_lower_bound", t->bound));
    put_search(w, plan);
    rp__json_out_text(w, plan->variant.in_backward ? ",\n \"optimizer_in_bwd\": true" : ",\n \"optimizer_in_bwd\": false");
    rp__json_out_text(w, plan->variant.keeps_logits ? ", \"keep_logits\": true" : ", \"keep_logits\": false");
    put_passes(w, plan);
    rp__json_out_text(w, ",\n \"recipe\": ");
    rp__json_out_value(w, json_string(recipe));
    rp__json_out_text(w, "}\n");
}

rp_status rp__plan_write(rp_ctx *ctx, const char *path, const rp_plan *plan, const rp_plan_stamp *stamp, const rp_plan_takes *takes,
                         const char *recipe)
{
    rp_json_out w;

    RP_TRY(rp__json_out_open(ctx, path, "a plan", &w));
    put_all(&w, plan, stamp, takes, recipe);
    return rp__json_out_close(&w);
}

/* ---- reading ---- */

static rp_status no_plan(rp_ctx *ctx, const char *name, const char *why) { return rp_fail(ctx, RP_ERR_FORMAT, "'%s' is no plan: %s", name, why); }

static bool is_text(const json_t *object, const char *key) { return json_is_string(json_object_get(object, key)); }
static bool is_number(const json_t *object, const char *key) { return json_is_integer(json_object_get(object, key)); }

static bool entries_are_good(const json_t *list, bool region)
{
    size_t i;
    json_t *e;

    if (!json_is_array(list)) return false;
    json_array_foreach(list, i, e) {
        if (region ? !is_number(e, "first") || !is_number(e, "end") || !is_text(e, "path") : !is_number(e, "at") || !is_text(e, "path") || !is_text(e, "op"))
            return false;
    }
    return true;
}

/* Returns the first fault in a plan file; NULL: none. Older files have no 'keep_logits'. */
static const char *fault_in(const json_t *root)
{
    const json_t *made_for = json_object_get(root, "made_for"), *passes = json_object_get(root, "passes"), *logits = json_object_get(root, "keep_logits");
    size_t i;
    json_t *p;

    if (!is_number(root, "reprise_plan")) return "it has no 'reprise_plan'";
    if (json_integer_value(json_object_get(root, "reprise_plan")) != FILE_VERSION) return "it is of another version";
    if (!is_text(made_for, "version") || !is_text(made_for, "machine") || !is_number(made_for, "threads") || !is_text(made_for, "costs") ||
        !is_number(made_for, "budget_bytes") || !is_text(made_for, "calls"))
        return "'made_for' is incomplete";
    if (!json_is_boolean(json_object_get(root, "optimizer_in_bwd"))) return "'optimizer_in_bwd' is no boolean";
    if (logits && !json_is_boolean(logits)) return "'keep_logits' is no boolean";
    if (!is_text(root, "recipe")) return "it has no 'recipe'";
    if (!json_is_array(passes)) return "it has no 'passes'";
    json_array_foreach(passes, i, p) {
        const json_t *offload = json_object_get(p, "away"), *kept = json_object_get(p, "kept");
        if (!is_text(p, "calls") || !entries_are_good(json_object_get(p, "regions"), true) ||
            !entries_are_good(json_object_get(p, "again"), false) || (offload && !entries_are_good(offload, false)) ||
            (kept && !entries_are_good(kept, false)))
            return "one of 'passes' is incomplete";
    }
    return NULL;
}

rp_status rp__plan_parse(rp_ctx *ctx, const char *name, const char *text, int64_t bytes, rp_plan_text **out)
{
    json_error_t error;
    json_t *root   = rp__json_read(text, (size_t)bytes, JSON_REJECT_DUPLICATES, &error);
    rp_plan_text *t;

    if (!root && json_error_code(&error) == json_error_out_of_memory) return rp_fail(ctx, RP_ERR_MEMORY, "no memory to read the plan '%s'", name);
    if (!root) return rp_fail(ctx, RP_ERR_FORMAT, "'%s' is no plan: line %d: %s", name, error.line, error.text);
    const char *fault = fault_in(root);
    if (fault) {
        json_decref(root);
        return no_plan(ctx, name, fault);
    }
    t = rp__host_alloc(ctx, sizeof *t);
    if (t) t->name = rp__host_text(ctx, name);
    if (!t || !t->name) {
        rp__release(t);
        json_decref(root);
        return RP_ERR_MEMORY;
    }
    t->root = root;
    *out    = t;
    return RP_OK;
}

rp_status rp__plan_read(rp_ctx *ctx, const char *path, rp_plan_text **out)
{
    int64_t bytes;
    char *text;

    RP_TRY(rp__file_read(ctx, path, MOST_BYTES, &text, &bytes));
    rp_status status = rp__plan_parse(ctx, path, text, bytes, out);
    rp__release(text);
    return status;
}

void rp__plan_text_free(rp_plan_text *t)
{
    if (!t) return;
    json_decref(t->root);
    RP_RELEASE(t->name, t);
}

rp_step_variant rp__plan_text_variant(const rp_plan_text *t)
{
    return (rp_step_variant){ .in_backward = json_is_true(json_object_get(t->root, "optimizer_in_bwd")),
                              .keeps_logits = json_is_true(json_object_get(t->root, "keep_logits")) };
}
const char *rp__plan_text_recipe(const rp_plan_text *t) { return json_string_value(json_object_get(t->root, "recipe")); }
const char *rp__plan_text_machine(const rp_plan_text *t) { return json_string_value(json_object_get(json_object_get(t->root, "made_for"), "machine")); }
bool rp__plan_text_is_empty(const rp_plan_text *t) { return json_array_size(json_object_get(t->root, "passes")) == 0; }

/* ---- comparing with a step ---- */

static rp_status stale(rp_ctx *ctx, const rp_plan_text *t, const char *part, const char *was, const char *is)
{
    return rp_fail(ctx, RP_ERR_CONFIG, "plan '%s' is stale: it was made for %s %s, this is %s; run 'reprise plan' again", t->name, part, was, is);
}

static rp_status check_number(rp_ctx *ctx, const rp_plan_text *t, const char *key, const char *part, int64_t is)
{
    int64_t was = json_integer_value(json_object_get(json_object_get(t->root, "made_for"), key));
    char before[32], now[32];

    snprintf(before, sizeof before, "%" PRId64, was);
    snprintf(now, sizeof now, "%" PRId64, is);
    return was == is ? RP_OK : stale(ctx, t, part, before, now);
}

static rp_status check_text(rp_ctx *ctx, const rp_plan_text *t, const char *key, const char *part, const char *is)
{
    const char *was = json_string_value(json_object_get(json_object_get(t->root, "made_for"), key));

    return strcmp(was, is) ? stale(ctx, t, part, was, is) : RP_OK;
}

/* Older files, and plans of steps without an optimizer, name none. */
static rp_status check_optimizer(rp_ctx *ctx, const rp_plan_text *t, const rp_plan_stamp *s)
{
    bool named = s->optimizer && json_is_string(json_object_get(json_object_get(t->root, "made_for"), "optimizer"));

    return named ? check_text(ctx, t, "optimizer", "optimizer", s->optimizer) : RP_OK;
}

/* Detects all other changes of the memory before a step. */
static rp_status check_stands(rp_ctx *ctx, const rp_plan_text *t, const rp_plan_stamp *s)
{
    const char *was = json_string_value(json_object_get(json_object_get(t->root, "made_for"), "stands"));
    char is[32];

    snprintf(is, sizeof is, "%016" PRIx64, s->stands);
    return was && strcmp(was, is) ? stale(ctx, t, "the memory before a step (weights, optimizer states)", was, is) : RP_OK;
}

static rp_status check_stamp(rp_ctx *ctx, const rp_plan_text *t, const rp_plan_stamp *s)
{
    char costs[32];

    snprintf(costs, sizeof costs, "%016" PRIx64, s->costs);
    RP_TRY(check_text(ctx, t, "version", "version", s->version));
    RP_TRY(check_text(ctx, t, "machine", "machine", s->machine));
    RP_TRY(check_number(ctx, t, "threads", "threads", s->threads));
    RP_TRY(check_number(ctx, t, "budget_bytes", "a memory_budget of", s->budget));
    RP_TRY(check_optimizer(ctx, t, s));
    return check_text(ctx, t, "costs", "cost table", costs);
}

static rp_status find_call(rp_ctx *ctx, const rp_plan_text *t, const json_t *e, const rp_plan_pass *pass, rp_plan_call **out)
{
    int64_t at       = json_integer_value(json_object_get(e, "at"));
    const char *path = json_string_value(json_object_get(e, "path")), *op = json_string_value(json_object_get(e, "op"));

    RP_CHECK(ctx, at >= 0 && at < pass->n_calls && !strcmp(pass->call[at].path, path) && !strcmp(pass->call[at].op, op), RP_ERR_CONFIG,
             "plan '%s' is stale: call %" PRId64 ", %s of '%s', is not in the step", t->name, at, op, path);
    *out = &pass->call[at];
    return RP_OK;
}

typedef rp_status mark_call(rp_ctx *ctx, const rp_plan_text *t, rp_plan_pass *pass, rp_plan_call *call);

static rp_status mark_recomputed(rp_ctx *ctx, const rp_plan_text *t, rp_plan_pass *pass, rp_plan_call *call)
{
    (void)ctx, (void)t;
    pass->n_recomputed += !call->recompute;
    call->recompute = true;
    return RP_OK;
}

static rp_status mark_offloaded(rp_ctx *ctx, const rp_plan_text *t, rp_plan_pass *pass, rp_plan_call *call)
{
    (void)pass;
    RP_CHECK(ctx, call->offloadable && !call->recompute, RP_ERR_CONFIG, "plan '%s' is wrong: outputs of %s of '%s' may not be offloaded", t->name,
             call->op, call->path);
    call->offload = true;
    return RP_OK;
}

static rp_status mark_kept(rp_ctx *ctx, const rp_plan_text *t, rp_plan_pass *pass, rp_plan_call *call)
{
    (void)ctx, (void)t, (void)pass;
    call->kept = true;
    return RP_OK;
}

/* list NULL: not in the file. Recomputed calls are marked before offloaded calls, because no call can be both. */
static rp_status mark_all(rp_ctx *ctx, const rp_plan_text *t, const json_t *list, rp_plan_pass *pass, mark_call *mark)
{
    rp_plan_call *call = NULL;
    size_t i;
    json_t *e;

    json_array_foreach(list, i, e) {
        RP_TRY(find_call(ctx, t, e, pass, &call));
        RP_TRY(mark(ctx, t, pass, call));
    }
    return RP_OK;
}

static rp_status take_regions(rp_ctx *ctx, const rp_plan_text *t, const json_t *list, rp_plan *plan, rp_plan_pass *pass)
{
    size_t i;
    json_t *e;

    pass->region = rp__bump_alloc(&plan->bump, ((int64_t)json_array_size(list) + 1) * (int64_t)sizeof *pass->region);
    if (!pass->region) return RP_ERR_MEMORY;
    json_array_foreach(list, i, e) {
        const char *path = json_string_value(json_object_get(e, "path"));
        int64_t first = json_integer_value(json_object_get(e, "first")), end = json_integer_value(json_object_get(e, "end"));
        bool fits        = first >= 0 && first < end && end <= pass->n_calls;
        pass->region[i]  = (rp_stretch){ fits ? (int)first : -1, fits ? (int)end : -1, rp__bump_text(&plan->bump, path, (int64_t)strlen(path)) };
        if (!pass->region[i].path) return RP_ERR_MEMORY;
        RP_CHECK(ctx, rp__plan_nests(pass, (int)i), RP_ERR_CONFIG, "plan '%s' is wrong: region %d, '%s', does not nest with those before it",
                 t->name, (int)i, path);
        pass->n_regions++;
    }
    return RP_OK;
}

static rp_status fill_pass(rp_ctx *ctx, const rp_plan_text *t, const json_t *from, rp_plan *plan, rp_plan_pass *pass)
{
    char hash[32];

    snprintf(hash, sizeof hash, "%016" PRIx64, pass->hash);
    if (strcmp(json_string_value(json_object_get(from, "calls")), hash))
        return stale(ctx, t, "calls (model, shapes, dtype)", json_string_value(json_object_get(from, "calls")), hash);
    RP_TRY(mark_all(ctx, t, json_object_get(from, "again"), pass, mark_recomputed));
    RP_TRY(mark_all(ctx, t, json_object_get(from, "away"), pass, mark_offloaded));
    RP_TRY(mark_all(ctx, t, json_object_get(from, "kept"), pass, mark_kept));
    return take_regions(ctx, t, json_object_get(from, "regions"), plan, pass);
}

rp_status rp__plan_text_check(rp_ctx *ctx, const rp_plan_text *t, const rp_plan_stamp *stamp)
{
    RP_TRY(check_stamp(ctx, t, stamp));
    return check_stands(ctx, t, stamp);
}

rp_status rp__plan_from_text(rp_ctx *ctx, const rp_plan_text *t, const rp_plan_problem *problem, const rp_plan_stamp *stamp, rp_plan **out)
{
    const json_t *passes = json_object_get(t->root, "passes");
    rp_plan *plan;

    RP_TRY(check_stamp(ctx, t, stamp));
    if ((int)json_array_size(passes) != problem->trace->n_passes) return stale(ctx, t, "calls (model, shapes, dtype)", "of other passes", "another step");
    RP_TRY(rp__plan_bare(ctx, problem, &plan));
    for (int i = 0; i < plan->n_passes; i++) {
        rp_status status = fill_pass(ctx, t, json_array_get(passes, (size_t)i), plan, &plan->pass[i]);
        if (status == RP_OK) continue;
        rp__plan_free(plan);
        return status;
    }
    plan->facts.left = left_of(json_object_get(t->root, "search"));
    rp_status status = check_stands(ctx, t, stamp);
    if (status == RP_OK) status = rp__plan_count_offloaded(plan, problem);
    if (status == RP_OK) *out = plan;
    else rp__plan_free(plan);
    return status;
}
