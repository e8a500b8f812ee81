/* Claims about graphs: a step that is written as a graph and read again has the same plans, bounds and least budget as its
 * trace; a plan that is written and evaluated has the same figures; each fault of a graph or of a plan is refused with its
 * place. */
/* ctest: device-free */
#include "plan/graph.h"
#include "plan/simulate.h"

#include "planned_step.h"
#include "random_graph.h"

/* ---- our own steps ---- */

typedef struct { const char *name; sizes sizes; int n_micro; const char *kept; } program;

static const program programs[] = {
    { "llama", { SIZES_TINY }, 1, NULL },
    { "gpt2 in bf16 with dropout", { SIZES_TINY, .gpt2 = true, .dropout = 0.1, .dtype = RP_BF16 }, 1, NULL },
    { "three micro-batches", { SIZES_TINY }, 3, NULL },
    { "packed rows", { SIZES_TINY, .packed = true }, 2, NULL },
    { "experts", { SIZES_TINY, .experts = 3 }, 1, NULL },
    { "a rule that keeps", { SIZES_TINY }, 1, "matmul" },
};

typedef struct {
    rp_ctx *ctx;
    sized_model m;
    rp_trace trace;
    rp_plan_problem problem;
    rp_graph graph;
    temp_dir dir;
} written;

static rp_status keep_op(void *self, int at, const rp_op_meta *meta, const rp_scope *scope, rp_verdict *verdict)
{
    (void)at, (void)scope;
    for (int i = 0; i < meta->n_out + meta->n_slot && !strcmp(meta->op->name, self); i++)
        verdict[i] = (rp_verdict){ .fate = RP_KEEP, .must = true, .by = "a rule" };
    return RP_OK;
}

static void record(written *w, const program *p)
{
    char *kept = (char *)(uintptr_t)p->kept;
    rp_tracer *tracer;
    rp_tensor *loss;

    if (kept) rp__tape_ctx(w->ctx)->decider = (rp_decider){ .decide = keep_op, .self = kept };
    assert_ok(w->ctx, rp__trace_begin(w->ctx, NULL, &tracer));
    for (int i = 0; i < p->n_micro; i++) {
        assert_ok(w->ctx, sized_loss(&w->m, 3, i * p->sizes.batch, &loss));
        rp_status status = rp__backward(w->ctx, loss);
        rp_tensor_unref(loss);
        assert_ok(w->ctx, status);
    }
    sized_drop_grads(&w->m);
    assert_ok(w->ctx, rp__trace_end(tracer, &w->trace));
}

static void written_begin(written *w, const program *p)
{
    *w   = (written){ .ctx = test_ctx(&(rp_ctx_options){ .threads = 2, .shapes_only = true }), .dir = temp_make() };
    w->m = sized_model_new(w->ctx, &p->sizes);
    record(w, p);
    assert_ok(w->ctx, rp__plan_problem(w->ctx, &w->trace, &w->problem));
    const char *path = temp_path(&w->dir, "g.json");
    assert_ok(w->ctx, rp__graph_write(w->ctx, path, &w->trace, 12345, 0.5));
    assert_ok(w->ctx, rp__graph_read(w->ctx, path, &w->graph));
}

static void written_end(written *w)
{
    rp__graph_close(&w->graph);
    rp__plan_problem_close(&w->problem);
    rp__trace_close(&w->trace);
    sized_model_free(&w->m);
    temp_remove(&w->dir);
    test_ctx_free(w->ctx);
}

static void assert_same_call(const rp_trace *a, const rp_trace *b, int pass, int c)
{
    const rp_trace_call *x = &a->pass[pass].call[c], *y = &b->pass[pass].call[c];

    assert_string_equal(x->meta.op->name, y->meta.op->name);
    assert_string_equal(x->path, y->path);
    assert_int_equal(x->n_in, y->n_in);
    assert_int_equal(x->n_made, y->n_made);
    assert_int_equal(x->n_needs, y->n_needs);
    assert_int_equal(x->run_bytes, y->run_bytes);
    assert_int_equal(x->replays, y->replays);
    assert_true(x->forward == y->forward && x->backward == y->backward && x->recompute == y->recompute &&
                x->keep == y->keep);
    for (int i = 0; i < x->n_made; i++) {
        const rp_trace_value *u = &a->pass[pass].value[x->made[i]], *v = &b->pass[pass].value[y->made[i]];
        assert_int_equal(u->bytes, v->bytes);
        assert_int_equal(u->until, v->until);
        assert_int_equal(u->own, v->own);
        assert_int_equal(u->must, v->must);
        assert_int_equal(u->nth, v->nth);
    }
}

static void assert_same_trace(const rp_trace *a, const rp_trace *b)
{
    assert_int_equal(a->n_passes, b->n_passes);
    assert_int_equal(a->outside, b->outside);
    assert_true(a->seconds == b->seconds && a->forward_seconds == b->forward_seconds);
    for (int i = 0; i < a->n_passes; i++) {
        const rp_trace_pass *x = &a->pass[i], *y = &b->pass[i];
        assert_int_equal(x->n_calls, y->n_calls);
        assert_int_equal(x->n_passes, y->n_passes);
        assert_int_equal(x->n_fixed, y->n_fixed);
        for (int c = 0; c < x->n_calls; c++) assert_same_call(a, b, i, c);
        for (int k = 0; k < x->n_fixed; k++)
            assert_memory_equal(x->fixed[k], y->fixed[k], 2 * (size_t)x->n_calls * sizeof **x->fixed);
    }
}

static void a_written_step_is_read_as_its_trace(void **state)
{
    (void)state;
    for (int i = 0; i < RP_COUNT(programs); i++) {
        written w;
        written_begin(&w, &programs[i]);
        assert_same_trace(&w.trace, &w.graph.trace);
        assert_int_equal(w.graph.budget, 12345);
        assert_true(w.graph.other_seconds == 0.5);
        written_end(&w);
    }
}

static void assert_same_plan(written *w, const rp_plan_problem *read, int64_t budget)
{
    rp_plan *a, *b;

    assert_ok(w->ctx, rp__plan_solve(w->ctx, &w->problem, budget, &a));
    assert_ok(w->ctx, rp__plan_solve(w->ctx, read, budget, &b));
    assert_true(a && b);
    assert_int_equal(a->facts.bytes, b->facts.bytes);
    assert_true(a->facts.recompute_seconds == b->facts.recompute_seconds);
    for (int i = 0; i < a->n_passes; i++) {
        assert_int_equal(a->pass[i].n_regions, b->pass[i].n_regions);
        for (int c = 0; c < a->pass[i].n_calls; c++)
            assert_int_equal(a->pass[i].call[c].recompute, b->pass[i].call[c].recompute);
    }
    assert_ok(w->ctx, rp__simulate(a, &w->trace));
    assert_ok(w->ctx, rp__simulate(b, &w->graph.trace));
    assert_int_equal(a->facts.bytes, b->facts.bytes);
    rp__plan_free(a);
    rp__plan_free(b);
}

static void a_written_step_has_the_plans_and_bounds_of_its_trace(void **state)
{
    (void)state;
    for (int i = 0; i < RP_COUNT(programs); i++) {
        rp_plan_problem read;
        rp_plan_bounds a, b;
        int64_t least, least_read;
        written w;
        written_begin(&w, &programs[i]);
        assert_ok(w.ctx, rp__plan_problem(w.ctx, &w.graph.trace, &read));
        assert_ok(w.ctx, rp__plan_least(w.ctx, &w.problem, &least));
        assert_ok(w.ctx, rp__plan_least(w.ctx, &read, &least_read));
        assert_int_equal(least, least_read);
        for (int64_t budget = least; budget < 2 * least; budget += least / 5) {
            assert_same_plan(&w, &read, budget);
            assert_ok(w.ctx, rp__plan_bounds(w.ctx, &w.problem, budget, &a));
            assert_ok(w.ctx, rp__plan_bounds(w.ctx, &read, budget, &b));
            assert_true(a.any == b.any && a.blocks == b.blocks);
        }
        rp__plan_problem_close(&read);
        written_end(&w);
    }
}

/* ---- plans ---- */

static void write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void assert_same_figures(const rp_graph_plan *a, const rp_graph_plan *b)
{
    assert_int_equal(a->plan->placement.height, b->plan->placement.height);
    assert_int_equal(a->plan->found.offloaded_bytes, b->plan->found.offloaded_bytes);
    assert_true(a->plan->recompute_seconds == b->plan->recompute_seconds && a->plan->seconds == b->plan->seconds);
}

static void assert_evaluates_alike(rp_ctx *ctx, const rp_graph *graph, const temp_dir *dir, int64_t budget)
{
    const char *path = temp_path(dir, "p.json");
    rp_graph_plan a, b;

    assert_ok(ctx, rp__graph_plan(ctx, graph, budget, &a));
    json_t *json = rp__graph_plan_json(ctx, graph, &a);
    assert_non_null(json);
    assert_int_equal(json_dump_file(json, path, 0), 0);
    assert_ok(ctx, rp__graph_evaluate(ctx, graph, path, budget, &b));
    assert_same_figures(&a, &b);
    json_t *again = rp__graph_plan_json(ctx, graph, &b);
    assert_true(json_equal(json_object_get(json, "passes"), json_object_get(again, "passes")));
    json_decref(json);
    json_decref(again);
    rp__graph_plan_close(&a);
    rp__graph_plan_close(&b);
}

static void a_written_plan_evaluates_to_its_own_figures(void **state)
{
    (void)state;
    for (int i = 0; i < RP_COUNT(programs); i++) {
        rp_graph_plan all;
        written w;
        written_begin(&w, &programs[i]);
        assert_ok(w.ctx, rp__graph_plan(w.ctx, &w.graph, 0, &all));
        int64_t least = all.least, most = all.plan->placement.height;
        rp__graph_plan_close(&all);
        for (int part = 0; part <= 4; part++)
            assert_evaluates_alike(w.ctx, &w.graph, &w.dir, least + (most - least) * part / 4);
        written_end(&w);
    }
}

/* ---- offloading ---- */

/* a is offloaded at 2 bytes/s, which takes 20 s each way, and 4 s of copies. Each call takes 100 s. */
static const char offloads[] = "{\"reprise_graph\": 1, \"offload_bytes_per_second\": 2, \"passes\": [{\"inputs\": [\"x\"], "
                               "\"fixed_bytes\": 5, \"calls\": ["
                               "{\"reads\": [\"x\"], \"makes\": [{\"name\": \"a\", \"bytes\": 40, \"offloadable\": true, "
                               "\"copy_seconds\": 4}], \"backward_reads\": [\"a\"], "
                               "\"forward_seconds\": 100, \"backward_seconds\": 100},"
                               "{\"reads\": [\"a\"], \"makes\": [{\"name\": \"b\", \"bytes\": 40}], \"backward_reads\": "
                               "[\"b\"], \"forward_seconds\": 100, "
                               "\"backward_seconds\": 100},"
                               "{\"reads\": [\"b\"], \"makes\": [{\"name\": \"c\", \"bytes\": 40}], \"backward_reads\": "
                               "[\"b\"], \"forward_seconds\": 100, "
                               "\"backward_seconds\": 100},"
                               "{\"reads\": [\"c\"], \"makes\": [{\"name\": \"d\", \"bytes\": 1}], \"backward_reads\": "
                               "[\"c\"], \"forward_seconds\": 100}]}]}";

static void offloading_costs_its_copies_and_saves_its_bytes(void **state)
{
    rp_ctx *ctx  = test_ctx(&(rp_ctx_options){ .threads = 1, .shapes_only = true });
    temp_dir dir = temp_make();
    rp_graph graph;
    rp_graph_plan plan;

    (void)state;
    assert_ok(ctx, rp__graph_parse(ctx, "g", offloads, sizeof offloads - 1, &graph));
    write_text(temp_path(&dir, "p.json"), "{\"reprise_graph_plan\": 1, \"passes\": [{\"fates\": {\"a\": \"offload\"}}]}");
    assert_ok(ctx, rp__graph_evaluate(ctx, &graph, temp_path(&dir, "p.json"), 0, &plan));
    assert_int_equal(plan.plan->placement.height, 5 + 40 + 40 + 40);        /* a is prefetched while b and c are live */
    assert_int_equal(plan.plan->found.offloaded_bytes, 40);
    assert_true(fabs(plan.plan->recompute_seconds - 4) < 1e-6);             /* the calls hide the transfers */
    rp__graph_plan_close(&plan);
    rp__graph_close(&graph);
    temp_remove(&dir);
    test_ctx_free(ctx);
}

/* ---- values that several replays read ---- */

/* b is recomputed alone, in a region. The replay for e, which comes first, replays the region for c as well. So b is made
 * once, read by both, and stays for its own backward. */
static const char shared[] = "{\"reprise_graph\": 1, \"passes\": [{\"inputs\": [\"x\"], \"calls\": ["
                             "{\"reads\": [\"x\"], \"makes\": [{\"name\": \"a\", \"bytes\": 100}], \"forward_seconds\": 1},"
                             "{\"reads\": [\"x\"], \"makes\": [{\"name\": \"b\", \"bytes\": 2}], \"backward_reads\": "
                             "[\"b\"], \"forward_seconds\": 10},"
                             "{\"reads\": [\"a\", \"b\"], \"makes\": [{\"name\": \"c\", \"bytes\": 3}], \"backward_reads\": "
                             "[\"a\", \"c\"], \"forward_seconds\": 100},"
                             "{\"reads\": [\"b\"], \"makes\": [{\"name\": \"e\", \"bytes\": 5}], \"backward_reads\": "
                             "[\"e\"], \"forward_seconds\": 1000},"
                             "{\"reads\": [\"c\", \"e\"], \"makes\": [{\"name\": \"l\", \"bytes\": 1}]}]}]}";

static void a_value_of_two_replays_is_made_once(void **state)
{
    static const char plan[] = "{\"reprise_graph_plan\": 1, \"passes\": [{\"regions\": [[1, 3]], \"fates\": {\"b\": "
                               "\"recompute\", \"e\": \"recompute\"}}]}";
    rp_ctx *ctx              = test_ctx(&(rp_ctx_options){ .threads = 1, .shapes_only = true });
    rp_graph graph;
    rp_graph_plan g;

    (void)state;
    assert_ok(ctx, rp__graph_parse(ctx, "g", shared, sizeof shared - 1, &graph));
    assert_ok(ctx, rp__graph_evaluate_text(ctx, &graph, "p", plan, sizeof plan - 1, 0, &g));
    assert_true(fabs(g.plan->recompute_seconds - 1110) < 1e-6);
    assert_int_equal(g.plan->placement.height, 100 + 2 + 3 + 5);
    rp__graph_plan_close(&g);
    rp__graph_close(&graph);
    test_ctx_free(ctx);
}

/* ---- refusals ---- */

typedef struct { const char *text, *message; } refusal;

#define PASS(calls) "{\"reprise_graph\": 1, \"passes\": [{\"inputs\": [\"x\"], \"calls\": [" calls "]}]}"
#define MAKES(more) "\"makes\": [{\"name\": \"a\", \"bytes\": 4" more "}]"

static const refusal graphs[] = {
    { "{", "graph 'g.json': line 1: string or '}' expected near end of file" },
    { "[]", "graph 'g.json': 'reprise_graph' is missing: the file is no graph" },
    { "{\"reprise_graph\": 2}", "graph 'g.json': 'reprise_graph' is of another version, this program reads version 1" },
    { "{\"reprise_graph\": 1}", "graph 'g.json': 'passes' must be a list of 1 to 16 entries" },
    { "{\"reprise_graph\": 1, \"pases\": []}", "graph 'g.json': 'reprise_graph' has an unknown key 'pases'" },
    { "{\"reprise_graph\": 1, \"budget_bytes\": 0, \"passes\": []}",
      "graph 'g.json': 'budget_bytes' must be a whole number from 1 to 2305843009213693951" },
    { "{\"reprise_graph\": 1, \"other_seconds\": -1, \"passes\": []}",
      "graph 'g.json': 'other_seconds' must be a number of seconds from 0 to 1e9" },
    { "{\"reprise_graph\": 1, \"offload_bytes_per_second\": 0, \"passes\": []}",
      "graph 'g.json': 'offload_bytes_per_second' must be a number from 1 to 1e18" },
    { "{\"reprise_graph\": 1, \"passes\": [3]}", "graph 'g.json': pass 0, 'passes' must be an object" },
    { "{\"reprise_graph\": 1, \"passes\": [{\"inputs\": [3], \"calls\": [{}]}]}",
      "graph 'g.json': pass 0, 'inputs' must be an object" },
    { "{\"reprise_graph\": 1, \"passes\": [{\"inputs\": [\"x\", \"x\"], \"calls\": [{}]}]}",
      "graph 'g.json': pass 0, 'inputs' names a second value 'x'" },
    { "{\"reprise_graph\": 1, \"passes\": [{\"inputs\": [{\"name\": \"x\", \"freed\": true}], \"calls\": [{}]}]}",
      "graph 'g.json': pass 0, 'bytes' must be a whole number from 0 to 4398046511104" },
    { PASS("{}"), "graph 'g.json': pass 0, call 0, 'makes' must be a list of 1 to 12 entries" },
    { PASS("{\"makes\": [{\"bytes\": 4}]}"), "graph 'g.json': pass 0, call 0, 'name' must be a text of at most 400 bytes" },
    { PASS("{\"makes\": [{\"name\": \"a\"}]}"),
      "graph 'g.json': pass 0, call 0, value 'a', 'bytes' must be a whole number from 0 to 4398046511104" },
    { PASS("{\"reads\": [\"b\"], " MAKES("") "}"),
      "graph 'g.json': pass 0, call 0, 'reads' has a value that no input and no call before makes: 'b'" },
    { PASS("{\"reads\": [3], " MAKES("") "}"), "graph 'g.json': pass 0, call 0, 'reads' must be a list of names" },
    { PASS("{" MAKES("") ", \"backward_reads\": [\"x\"]}"),
      "graph 'g.json': pass 0, call 0, 'backward_reads' has a value that is not in the call's 'reads' or 'makes': 'x'" },
    { PASS("{" MAKES("") ", \"reruns\": 1}"), "graph 'g.json': pass 0, call 0, 'reruns' must be true or false" },
    { PASS("{" MAKES(", \"fate\": \"prefer_keep\"") "}"),
      "graph 'g.json': pass 0, call 0, value 'a', 'fate' must be 'keep', 'recompute' or 'offload'" },
    { PASS("{" MAKES(", \"offloadable\": true") "}"),
      "graph 'g.json': pass 0, call 0, value 'a', 'offload_bytes_per_second' is missing: it is needed to offload values" },
    { PASS("{" MAKES(", \"fate\": \"keep\", \"offloadable\": true") "}"),
      "graph 'g.json': pass 0, call 0, value 'a', 'offloadable' has no effect on a value with a 'fate'" },
    { PASS("{" MAKES(", \"until\": 1") "}"),
      "graph 'g.json': pass 0, call 0, value 'a', 'until' must be a whole number from 0 to 0" },
    { PASS("{" MAKES(", \"program_until\": null") "}"),
      "graph 'g.json': pass 0, call 0, value 'a', 'program_until' must not exceed 'until'" },
    { "{\"reprise_graph\": 1, \"passes\": [{\"calls\": [{" MAKES("") "}], \"fixed_bytes\": -1}]}",
      "graph 'g.json': pass 0, 'fixed_bytes' must be a whole number from 0 to 70368744177664" },
    { "{\"reprise_graph\": 1, \"passes\": [{\"calls\": [{" MAKES(
          "") "}], \"fixed_bytes\": [{\"forward\": [[2, 1]], \"backward\": [0]}]}]}",
      "graph 'g.json': pass 0, 'forward' must have whole numbers from 0 to 70368744177664, or rising pairs of them" },
    { "{\"reprise_graph\": 1, \"passes\": [{\"inputs\": [{\"name\": \"x\", \"bytes\": 2, \"freed\": true}], \"calls\": "
      "[{\"reads\": [\"x\"], " MAKES("") ", \"backward_reads\": [\"x\"]}], \"fixed_bytes\": 1}]}",
      "graph 'g.json': pass 0, 'fixed_bytes' must include the 'inputs' that are 'freed' later" },
};

static void a_wrong_graph_is_refused_with_its_place(void **state)
{
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .threads = 1, .shapes_only = true });
    rp_graph graph;

    (void)state;
    for (int i = 0; i < RP_COUNT(graphs); i++) {
        assert_int_equal(rp__graph_parse(ctx, "g.json", graphs[i].text, (int64_t)strlen(graphs[i].text), &graph),
                         RP_ERR_FORMAT);
        assert_string_equal(rp_error(ctx), graphs[i].message);
    }
    test_ctx_free(ctx);
}

/* A graph for refusals: b1 and b2 are of one call, d does not rerun, k is kept by the graph, o may be offloaded, l is of
 * the last call. */
static const char fates_graph[] =
    "{\"reprise_graph\": 1, \"offload_bytes_per_second\": 8, \"passes\": [{\"inputs\": [\"x\"], \"calls\": ["
    "{\"reads\": [\"x\"], \"makes\": [{\"name\": \"b1\", \"bytes\": 1}, {\"name\": \"b2\", \"bytes\": 1}], "
    "\"backward_reads\": [\"b1\"]},"
    "{\"reads\": [\"b1\"], \"makes\": [{\"name\": \"d\", \"bytes\": 1}], \"backward_reads\": [\"d\"], \"reruns\": false},"
    "{\"reads\": [\"d\"], \"makes\": [{\"name\": \"k\", \"bytes\": 1, \"fate\": \"keep\"}], \"backward_reads\": [\"k\"]},"
    "{\"reads\": [\"k\"], \"makes\": [{\"name\": \"o\", \"bytes\": 1, \"offloadable\": true}], \"backward_reads\": [\"o\"]},"
    "{\"reads\": [\"o\"], \"makes\": [{\"name\": \"l\", \"bytes\": 1}], \"backward_reads\": [\"o\"]}]}]}";

#define PLAN(pass) "{\"reprise_graph_plan\": 1, \"passes\": [{" pass "}]}"
#define FATES(fates) PLAN("\"fates\": {" fates "}")
#define INVALID "plan 'p.json' is not valid for the graph: "

static const refusal malformed[] = {
    { "[", "'p.json' is no plan of a graph: line 1: ']' expected near end of file" },
    { "{}", "'p.json' is no plan of a graph: it has no 'reprise_graph_plan'" },
    { "{\"reprise_graph_plan\": 2}", "'p.json' is no plan of a graph: it is of another version" },
    { "{\"reprise_graph_plan\": 1}", "'p.json' is no plan of a graph: it has no list 'passes'" },
    { "{\"reprise_graph_plan\": 1, \"passes\": [3]}", "'p.json' is no plan of a graph: an entry of 'passes' is no object" },
    { PLAN("\"fates\": []"), "'p.json' is no plan of a graph: 'fates' must be an object" },
    { PLAN("\"regions\": 3"), "'p.json' is no plan of a graph: 'regions' must be a list" },
    { PLAN("\"regions\": [[0]]"),
      "'p.json' is no plan of a graph: 'regions' must be a list of pairs: its first call, and the call after its last" },
    { PLAN("\"regions\": [0, 0, 0, 0, 0, 0]"),
      "'p.json' is no plan of a graph: 'regions' has more entries than the graph has calls" },
};

static const refusal invalid[] = {
    { "{\"reprise_graph_plan\": 1, \"passes\": []}", INVALID "it has 0 passes, the graph has 1" },
    { FATES("\"y\": \"keep\""), INVALID "pass 0, value 'y' is not in the graph" },
    { FATES("\"x\": \"keep\""), INVALID "pass 0, value 'x' is an input: it has no fate" },
    { FATES("\"b1\": \"kept\""),
      INVALID "pass 0, value 'b1' must have the fate 'keep', 'recompute', 'offload' or 'region'" },
    { FATES("\"k\": \"recompute\""), INVALID "pass 0, value 'k' has another 'fate' in the graph" },
    { FATES("\"d\": \"recompute\""), INVALID "pass 0, value 'd' cannot be recomputed: 'reruns' of its call is false" },
    { FATES("\"b1\": \"offload\""), INVALID "pass 0, value 'b1' is not 'offloadable' in the graph" },
    { FATES("\"b1\": \"region\""), INVALID "pass 0, value 'b1' is in no region" },
    { FATES("\"b1\": \"recompute\", \"b2\": \"keep\""),
      INVALID "pass 0, value 'b2' must have the fate of 'b1', which the same call makes" },
    { PLAN("\"regions\": [[2, 4]], \"fates\": {\"o\": \"offload\"}"),
      INVALID "pass 0, value 'o' is in a region, where nothing is offloaded" },
    { PLAN("\"regions\": [[0, 2], [1, 3]]"),
      INVALID "pass 0, region 1 does not nest with those before it, or is outside the calls before the last" },
    { PLAN("\"regions\": [[0, 5]]"),
      INVALID "pass 0, region 0 does not nest with those before it, or is outside the calls before the last" },
};

static void refuse_all(rp_ctx *ctx, const rp_graph *graph, const refusal *list, int n, rp_status status)
{
    rp_plan_problem problem;
    rp_plan *plan;

    assert_ok(ctx, rp__plan_problem(ctx, &graph->trace, &problem));
    for (int i = 0; i < n; i++) {
        assert_ok(ctx, rp__plan_bare(ctx, &problem, &plan));
        assert_int_equal(rp__graph_fates(ctx, graph, "p.json", list[i].text, (int64_t)strlen(list[i].text), plan), status);
        assert_string_equal(rp_error(ctx), list[i].message);
        rp__plan_free(plan);
    }
    rp__plan_problem_close(&problem);
}

static void a_plan_that_the_graph_does_not_allow_is_refused(void **state)
{
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .threads = 1, .shapes_only = true });
    rp_graph graph;

    (void)state;
    assert_ok(ctx, rp__graph_parse(ctx, "g", fates_graph, sizeof fates_graph - 1, &graph));
    refuse_all(ctx, &graph, malformed, RP_COUNT(malformed), RP_ERR_FORMAT);
    refuse_all(ctx, &graph, invalid, RP_COUNT(invalid), RP_ERR_CONFIG);
    rp__graph_close(&graph);
    test_ctx_free(ctx);
}

static void regions_have_a_greatest_depth(void **state)
{
    enum { CALLS = 140 };
    rp_ctx *ctx    = test_ctx(&(rp_ctx_options){ .threads = 1, .shapes_only = true });
    drawn_text *g = malloc(2 * sizeof *g), *p = g + 1;
    rp_graph graph;

    (void)state;
    g->n = p->n = 0;
    drawn_put(g, "{\"reprise_graph\": 1, \"passes\": [{\"calls\": [");
    for (int c = 0; c < CALLS; c++) drawn_put(g, "%s{\"makes\": [{\"name\": \"%d\", \"bytes\": 1}]}", c ? ", " : "", c);
    drawn_put(g, "]}]}");
    drawn_put(p, "{\"reprise_graph_plan\": 1, \"passes\": [{\"regions\": [");
    for (int c = 0; c < CALLS - 1; c++) drawn_put(p, "%s[%d, %d]", c ? ", " : "", c, CALLS - 1);
    drawn_put(p, "]}]}");
    assert_ok(ctx, rp__graph_parse(ctx, "g", g->at, g->n, &graph));
    refuse_all(ctx, &graph, &(refusal){ p->at, INVALID "pass 0, region 128 is inside 128 others, the limit is 127" }, 1,
               RP_ERR_CONFIG);
    rp__graph_close(&graph);
    free(g);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_written_step_is_read_as_its_trace),
        cmocka_unit_test(a_written_step_has_the_plans_and_bounds_of_its_trace),
        cmocka_unit_test(a_written_plan_evaluates_to_its_own_figures),
        cmocka_unit_test(offloading_costs_its_copies_and_saves_its_bytes),
        cmocka_unit_test(a_value_of_two_replays_is_made_once),
        cmocka_unit_test(a_wrong_graph_is_refused_with_its_place),
        cmocka_unit_test(a_plan_that_the_graph_does_not_allow_is_refused),
        cmocka_unit_test(regions_have_a_greatest_depth),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
