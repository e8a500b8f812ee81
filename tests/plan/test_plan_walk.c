/* The claim of a plan: what it says a step takes is what the step takes, to the byte, whichever way each segment is kept and whatever
 * regions there are; and no bit of a gradient changes.
 *
 *   drawn      model x size x dtype x dropout x passes in the step x a rule; for each segment one of its ways; regions, in regions
 *   said       without regions the constraints of solve/chain.h, added up here, not by the solver; with regions its walk, which test_chain_nested
 *              holds against a step played by other rules
 *   measured   the same step, the plan followed
 *
 * And that the bound of plans of blocks is one of steps: none that is drawn takes fewer seconds than the bound of the bytes that it takes.
 */
/* ctest: level-free no-emulator */
#include "plan/modes.h"
#include "plan/simulate.h"

#include <math.h>

#include "sized_model.h"

typedef struct { sizes sizes; int n_micro; const char *recompute, *kept; } program;        /* the op that a rule has recomputed · kept */

static const program programs[] = {
    { { SIZES_TINY }, .n_micro = 1 },
    { { SIZES_TINY, .dtype = RP_BF16 }, .n_micro = 3 },
    { { SIZES_TINY, .gpt2 = true }, .n_micro = 2 },
    { { SIZES_TINY, .gpt2 = true, .dropout = 0.1, .dtype = RP_BF16 }, .n_micro = 1 },
    { { .batch = 2, .length = 64, .layers = 5, .hidden = 64, .heads = 4, .kv_heads = 2, .head_dim = 16, .mlp = 160, .vocab = 96, .packed = true },
      .n_micro = 1 },
    { { .batch = 1,
        .length = 128,
        .layers = 4,
        .hidden = 64,
        .heads = 4,
        .kv_heads = 4,
        .head_dim = 16,
        .mlp = 256,
        .vocab = 512,
        .gpt2 = true,
        .dropout = 0.1 },
      .n_micro = 2 },
    { { SIZES_TINY }, .n_micro = 1, .recompute = "rmsnorm" },
    { { SIZES_TINY, .gpt2 = true }, .n_micro = 1, .recompute = "attention" },
};

static uint32_t next(uint32_t *seed) { return (*seed = *seed * 1664525u + 1013904223u) >> 8; }

/* A step: micro-batches, then the gradients go. Their hash where there is data. */
static uint64_t step(sized_model *m, int n_micro)
{
    uint64_t hash = RP_HASH_START;

    for (int i = 0; i < n_micro; i++) {
        rp_tensor *loss;
        assert_ok(m->ctx, sized_loss(m, 3, i * m->sizes.batch, &loss));
        rp_status status = rp__backward(m->ctx, loss);
        rp_tensor_unref(loss);
        assert_ok(m->ctx, status);
    }
    for (int i = 0; i < rp__model_n_params(m->model); i++) {
        rp_tensor *g = rp__model_param(m->model, i)->tensor->grad;
        if (g && rp__tensor_real(g)) hash = rp__hash(test_bytes(g), (size_t)rp_meta_bytes(&g->m), hash);
    }
    sized_drop_grads(m);
    return hash;
}

static rp_trace trace_of(sized_model *m, int n_micro)
{
    rp_tracer *tracer;
    rp_trace trace;

    assert_ok(m->ctx, rp__trace_begin(m->ctx, NULL, &tracer));
    step(m, n_micro);
    assert_ok(m->ctx, rp__trace_end(tracer, &trace));
    return trace;
}

/* The greatest left side of the constraints of a chain without regions. */
static int64_t said_by(const rp_chain *c, const int *option)
{
    int64_t most = 0;

    for (int k = 0; k < c->n_kinds; k++) {
        int64_t held = 0;
        for (int i = 0; i < c->n; i++) {
            const rp_chain_option *o = &c->class_of[c->segment[i]].option[option[i]];
            int64_t forward          = c->fixed_forward[k][i] + held + o->forward, backward = c->fixed_backward[k][i] + held + o->backward[k];
            if (forward > most) most = forward;
            if (backward > most) most = backward;
            held += o->saved;
        }
    }
    return most;
}

/* Each segment kept in a way that is drawn; draw 0 keeps all there is, draw 1 nothing. */
static void draw(const rp_chain *c, uint32_t seed, int *option)
{
    uint32_t rng = seed * 977 + 5;

    for (int i = 0; i < c->n; i++) {
        const rp_chain_class *k = &c->class_of[c->segment[i]];
        option[i]               = (int)(next(&rng) % (uint32_t)k->n_options);
        for (int o = 0; o < k->n_options && seed < 2; o++)
            if (seed == 0 ? k->option[o].seconds < k->option[option[i]].seconds : k->option[o].saved < k->option[option[i]].saved) option[i] = o;
    }
}

/* Regions in regions: [first, end) and what is drawn inside; each ends before the one around it does. */
static int draw_regions(uint32_t *rng, const rp_chain *c, int first, int end, int parent, rp_chain_region *out, int n, int room)
{
    while (first + 1 < end && n < room) {
        int length = 1 + (int)(next(rng) % (uint32_t)(end - first - 1));
        if (next(rng) % 3 && !c->class_of[c->segment[first + length - 1]].never_last) {
            out[n] = (rp_chain_region){ first, first + length, parent };
            n      = draw_regions(rng, c, first, first + length, n, out, n + 1, room);
        }
        first += length;
    }
    return n;
}

typedef struct {
    rp_ctx *ctx;
    sized_model m;
    rp_trace trace;
    rp_plan_problem problem;
    const rp_chain *chain;
} planned;

static rp_status recompute_op(void *self, int at, const rp_op_meta *meta, const rp_scope *scope, rp_verdict *verdict)
{
    (void)at, (void)scope;
    for (int i = 0; i < meta->n_out + meta->n_slot && !strcmp(meta->op->name, self); i++)
        verdict[i] = (rp_verdict){ .fate = RP_RECOMPUTE, .must = true, .by = "a rule" };
    return RP_OK;
}

static rp_status keep_op(void *self, int at, const rp_op_meta *meta, const rp_scope *scope, rp_verdict *verdict)
{
    (void)at, (void)scope;
    for (int i = 0; i < meta->n_out + meta->n_slot && !strcmp(meta->op->name, self); i++)
        verdict[i] = (rp_verdict){ .fate = RP_KEEP, .must = true, .by = "a rule" };
    return RP_OK;
}

static void set_rule(rp_ctx *ctx, const program *p)
{
    char *recompute = (char *)(uintptr_t)p->recompute, *kept = (char *)(uintptr_t)p->kept;

    if (recompute) rp__tape_ctx(ctx)->decider = (rp_decider){ .decide = recompute_op, .self = recompute };
    if (kept) rp__tape_ctx(ctx)->decider = (rp_decider){ .decide = keep_op, .self = kept };
}

static void planned_open(planned *p, const program *of)
{
    p->ctx   = test_ctx(&(rp_ctx_options){ .threads = 2, .shapes_only = true });
    p->m     = sized_model_new(p->ctx, &of->sizes);
    set_rule(p->ctx, of);
    p->trace = trace_of(&p->m, of->n_micro);
    assert_ok(p->ctx, rp__plan_problem(p->ctx, &p->trace, &p->problem));
    assert_int_equal(p->trace.n_passes, 1);
    p->chain = &p->problem.cut.pass[0].chain;
}

static void planned_close(planned *p)
{
    rp__plan_problem_close(&p->problem);
    rp__trace_close(&p->trace);
    sized_model_free(&p->m);
    test_ctx_free(p->ctx);
}

static rp_plan *plan_of(rp_ctx *ctx, const planned *p, int *option, rp_chain_region *region, int n)
{
    rp_chain_plan drawn = { .feasible = true, .option = option, .region = region, .n_regions = n };
    rp_plan *plan;

    assert_ok(ctx, rp__plan_make(ctx, &p->problem, &drawn, &plan));
    return plan;
}

typedef struct { rp_ctx *ctx; double seconds; } replays;

/* As the trace has it: 10^12 operations take a second. */
static void count_replay(void *user, int at, const char *path, const char *op)
{
    replays *r           = user;
    const rp_op_meta *m = rp__tape_call_at(r->ctx, at).meta;

    (void)path, (void)op;
    r->seconds += m->op->cost ? 1e-12 * (double)m->op->cost(m, RP_FORWARD).flops : 0;
}

/* *again: seconds of replays. */
static int64_t measured_in(planned *p, int n_micro, rp_plan *plan, double *recompute)
{
    replays r = { .ctx = p->ctx };
    rp_mem before, after;

    rp__tape_ctx(p->ctx)->on_replay = (rp_call_hook){ count_replay, &r };
    rp__plan_follow(p->ctx, plan);
    rp_mem_read(p->ctx, 0, true, &before);
    step(&p->m, n_micro);
    rp_mem_read(p->ctx, 0, false, &after);
    rp__plan_follow(p->ctx, NULL);
    rp__tape_ctx(p->ctx)->on_replay = (rp_call_hook){ 0 };
    *recompute = r.seconds;
    return after.peak_alloc_bytes;
}

/* The trace simulated under the plan (plan/simulate.h) takes the same bytes and recomputes the same seconds. */
static void check_simulated(planned *p, rp_plan *plan, int64_t measured, double recompute)
{
    assert_ok(p->ctx, rp__simulate(plan, &p->trace));
    if (plan->facts.bytes != measured) fail_msg("simulated %lld, measured %lld", (long long)plan->facts.bytes, (long long)measured);
    assert_true(fabs(plan->facts.recompute_seconds - recompute) <= 1e-9 * recompute);
}

static void step_takes_what_the_plan_says(void **state)
{
    (void)state;
    for (int i = 0; i < RP_COUNT(programs); i++) {
        planned p;
        planned_open(&p, &programs[i]);
        for (uint32_t seed = 0; seed < (uint32_t)test_draws(40); seed++) {
            int option[64];
            double recompute;
            draw(p.chain, seed, option);
            rp_plan *plan = plan_of(p.ctx, &p, option, NULL, 0);
            int64_t said  = said_by(p.chain, option), measured = measured_in(&p, programs[i].n_micro, plan, &recompute);
            assert_int_equal(rp__chain_bytes(p.chain, option, NULL, 0), said);
            if (p.trace.outside > said) said = p.trace.outside;
            if (measured != said) fail_msg("program %d, draw %u: said %lld, measured %lld", i, seed, (long long)said, (long long)measured);
            check_simulated(&p, plan, measured, recompute);
            rp__plan_free(plan);
        }
        planned_close(&p);
    }
}

static void step_in_regions_takes_what_the_plan_says(void **state)
{
    uint32_t n_draws = (uint32_t)test_draws(40), n_nested = 0;

    (void)state;
    for (int i = 0; i < RP_COUNT(programs); i++) {
        planned p;
        planned_open(&p, &programs[i]);
        for (uint32_t seed = 0; seed < 5 * n_draws; seed++) {
            rp_chain_region region[32];
            uint32_t rng = seed + 131;
            int option[64];
            double recompute;
            draw(p.chain, seed, option);
            int n         = draw_regions(&rng, p.chain, 0, p.chain->n, -1, region, 0, seed < n_draws ? 1 : RP_COUNT(region));
            rp_plan *plan = plan_of(p.ctx, &p, option, region, n);
            int64_t said  = rp__chain_bytes(p.chain, option, region, n), measured = measured_in(&p, programs[i].n_micro, plan, &recompute);
            for (int r = 0; r < n; r++) n_nested += region[r].parent >= 0;
            if (p.trace.outside > said) said = p.trace.outside;
            if (measured != said)
                fail_msg("program %d, draw %u, %d regions: said %lld, measured %lld", i, seed, n, (long long)said, (long long)measured);
            check_simulated(&p, plan, measured, recompute);
            rp__plan_free(plan);
        }
        planned_close(&p);
    }
    assert_true(n_nested > 5 * n_draws);
}

/* If a rule keeps a value, the program releases it at another tick of the forward than the tape. */
static void a_mode_takes_the_simulated_bytes(void **state)
{
    static const char *const kept[] = { NULL, "rmsnorm", "matmul", "rotary", "swiglu", "add" };
    int n_modes = 0;

    (void)state;
    for (int i = 0; i < RP_COUNT(programs); i++)
        for (int k = programs[i].recompute ? RP_COUNT(kept) - 1 : 0; k < RP_COUNT(kept); k++) {
            program with = programs[i];
            planned p;
            with.kept = with.recompute ? NULL : kept[k];
            planned_open(&p, &with);
            for (int mode = 0; mode < RP_PLAN_MODES; mode++) {
                rp_plan *plan;
                double recompute;
                assert_ok(p.ctx, rp__plan_mode(p.ctx, &p.problem, mode, &plan));
                if (!plan) continue;
                int64_t measured = measured_in(&p, with.n_micro, plan, &recompute);
                check_simulated(&p, plan, measured, recompute);
                rp__plan_free(plan);
                n_modes++;
            }
            planned_close(&p);
        }
    assert_true(n_modes > 100);
}

/* ---- the bound ---- */

typedef struct { int checked, tighter; } bounded;

static void check_bound(planned *p, int n_micro, rp_plan *plan, bounded *all)
{
    rp_plan_bounds bounds;
    double recompute;
    int64_t bytes = measured_in(p, n_micro, plan, &recompute);

    assert_ok(p->ctx, rp__plan_bounds(p->ctx, &p->problem, bytes, &bounds));
    if (bounds.any > bounds.blocks || bounds.blocks > recompute * (1 + 1e-9))
        fail_msg("%lld bytes: %.12g s, the bounds are %.12g and %.12g", (long long)bytes, recompute, bounds.blocks, bounds.any);
    all->checked++;
    all->tighter += bounds.blocks > bounds.any;
}

static void no_plan_of_blocks_takes_less_than_the_bound_of_its_bytes(void **state)
{
    bounded all = { 0 };

    (void)state;
    for (int i = 0; i < RP_COUNT(programs); i++) {
        planned p;
        planned_open(&p, &programs[i]);
        for (uint32_t seed = 0; seed < 4 * (uint32_t)test_draws(40); seed++) {
            rp_chain_region region[32];
            uint32_t rng = seed + 77;
            int option[64];
            draw(p.chain, seed / 2, option);
            int n         = draw_regions(&rng, p.chain, 0, p.chain->n, -1, region, 0, seed % 2 ? RP_COUNT(region) : 0);
            rp_plan *plan = plan_of(p.ctx, &p, option, region, n);
            check_bound(&p, programs[i].n_micro, plan, &all);
            rp__plan_free(plan);
        }
        planned_close(&p);
    }
    assert_true(all.tighter > all.checked / 4);
}

/* The fastest plans are the ones that a wrong bound would be above. */
static void no_plan_that_is_chosen_takes_less_than_the_bound(void **state)
{
    bounded all = { 0 };

    (void)state;
    for (int i = 0; i < RP_COUNT(programs); i++) {
        planned p;
        int64_t least;
        planned_open(&p, &programs[i]);
        rp_plan *most = NULL, *plan;
        assert_ok(p.ctx, rp__plan_least(p.ctx, &p.problem, &least));
        assert_ok(p.ctx, rp__plan_solve(p.ctx, &p.problem, INT64_MAX / 4, &most));
        for (int b = 0, n = test_draws(60); b <= n; b++) {
            assert_ok(p.ctx, rp__plan_solve(p.ctx, &p.problem, least + (most->facts.bytes - least) * b / n, &plan));
            check_bound(&p, programs[i].n_micro, plan, &all);
            rp__plan_free(plan);
        }
        rp__plan_free(most);
        planned_close(&p);
    }
    assert_true(all.tighter > 0);
}

static void below_the_least_budget_there_is_no_plan(void **state)
{
    (void)state;
    for (int i = 0; i < RP_COUNT(programs); i++) {
        planned p;
        int64_t least;
        planned_open(&p, &programs[i]);
        assert_ok(p.ctx, rp__plan_least(p.ctx, &p.problem, &least));
        for (int below = 0; below < 2; below++) {
            rp_plan *plan = NULL;
            assert_ok(p.ctx, rp__plan_solve(p.ctx, &p.problem, least - below, &plan));
            assert_int_equal(plan != NULL, !below);
            rp__plan_free(plan);
        }
        planned_close(&p);
    }
}

static void no_bit_of_a_gradient_changes(void **state)
{
    uint32_t n_real = (uint32_t)test_draws(12), n_nested = 0, n_recomputed = 0;

    (void)state;
    for (int i = 0; i < RP_COUNT(programs); i++) {
        rp_ctx *ctx   = test_ctx(&(rp_ctx_options){ .threads = 2 });
        sized_model m = sized_model_new(ctx, &programs[i].sizes);
        rp_chain_region region[32];
        planned p;
        int option[64];

        planned_open(&p, &programs[i]);
        set_rule(ctx, &programs[i]);
        uint64_t expected = step(&m, programs[i].n_micro);
        for (uint32_t seed = 0; seed < n_real; seed++) {
            uint32_t rng = seed + 31;
            draw(p.chain, seed, option);
            int n         = draw_regions(&rng, p.chain, 0, p.chain->n, -1, region, 0, RP_COUNT(region));
            rp_plan *plan = plan_of(ctx, &p, option, region, n);
            for (int r = 0; r < n; r++) n_nested += region[r].parent >= 0;
            n_recomputed += plan->pass[0].n_recomputed;
            rp__plan_follow(ctx, plan);
            uint64_t got = step(&m, programs[i].n_micro);
            rp__plan_follow(ctx, NULL);
            if (got != expected) fail_msg("program %d, draw %u, %d regions: other bits", i, seed, n);
            rp__plan_free(plan);
        }
        planned_close(&p);
        sized_model_free(&m);
        test_ctx_free(ctx);
    }
    assert_true(n_nested > n_real && n_recomputed > 40 * n_real);      /* else there was nothing to change any */
}

static void another_step_than_the_planned_one_is_refused(void **state)
{
    rp_tensor *loss = NULL;
    int option[64]  = { 0 };
    planned p;

    (void)state;
    planned_open(&p, &programs[0]);
    rp_plan *plan = plan_of(p.ctx, &p, option, NULL, 0);
    rp__plan_follow(p.ctx, plan);
    p.m.sizes.length--;
    assert_int_equal(sized_loss(&p.m, 0, 0, &loss), RP_ERR_STATE);
    assert_string_equal(rp_error(p.ctx), "the step is not the one that was planned: call 0 is embedding of 'tok_embeddings' with output fp32 [2, 5, 12], "
                                         "planned was embedding of 'tok_embeddings' with output fp32 [2, 6, 12]");
    rp__tape_reset(p.ctx);
    rp__plan_follow(p.ctx, NULL);
    rp__plan_free(plan);
    planned_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(step_takes_what_the_plan_says),
        cmocka_unit_test(step_in_regions_takes_what_the_plan_says),
        cmocka_unit_test(a_mode_takes_the_simulated_bytes),
        cmocka_unit_test(no_plan_of_blocks_takes_less_than_the_bound_of_its_bytes),
        cmocka_unit_test(no_plan_that_is_chosen_takes_less_than_the_bound),
        cmocka_unit_test(below_the_least_budget_there_is_no_plan),
        cmocka_unit_test(no_bit_of_a_gradient_changes),
        cmocka_unit_test(another_step_than_the_planned_one_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
