/* Claims about graphs: a step that is written as a graph and read again has the same plans, bounds and least budget as
 * its trace; each fault of a graph is refused with its place. */
/* ctest: device-free */
#include "trace/graph.h"
#include "plan/simulate.h"

#include "planned_step.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_written_step_is_read_as_its_trace),
        cmocka_unit_test(a_written_step_has_the_plans_and_bounds_of_its_trace),
        cmocka_unit_test(a_wrong_graph_is_refused_with_its_place),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
