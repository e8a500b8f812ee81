/* Claims about plans that offload: a value is offloaded only if a rule prefers it and offloading is cheaper than recomputing. The step takes
 * exactly the planned bytes, and its gradients are bit-identical.
 *
 *   drawn      one way for each class of segment, so that neighbours are alike. Then planned and measured bytes are equal, except at the turn,
 *              where different segments meet: there they differ by at most one offloaded value
 *   planned    with and without the preference, for the same budgets, with a fast disk, a slow disk and none
 */
/* ctest: no-emulator */
#include <math.h>

#include "io_test.h"
#include "sized_model.h"

#include "plan/file.h"
#include "plan/step.h"

#define FAST "name=test, memory=1GB, flops=1e12, bandwidth=1e13, offload=1e15"
#define SLOW "name=test, memory=1GB, flops=1e12, bandwidth=1e13, offload=1e3"
#define GUESSED "name=test, memory=1GB, flops=1e12, bandwidth=1e13"
#define ALL_MAY_GO "[{ op: '*', fate: prefer_offload }]"

static int n_draws(void) { return test_few_or(4, 30); }
static int n_budgets(void) { return test_few_or(2, 4); }

enum { N_MICRO = 2 };

static const sizes models[] = {
    { SIZES_TINY },
    { .batch = 1, .length = 32, .layers = 5, .hidden = 32, .heads = 2, .kv_heads = 2, .head_dim = 16, .mlp = 64, .vocab = 40, .gpt2 = true, .dropout = 0.1 },
};

/* ---- a decoder whose slots may go ---- */

typedef struct {
    rp_ctx *ctx;
    sized_model m;
    rp_policy *policy;
    uint64_t hash;                      /* of the gradients of the last step */
} decoder;

static decoder decoder_new(bool shapes_only, const sizes *s, const char *folder, const char *rules)
{
    decoder d = { .ctx = test_ctx(&(rp_ctx_options){ .threads = 2, .shapes_only = shapes_only }) };
    rp_offload_options to = { .folder = folder, .device = folder ? NULL : "sim", .buffer_bytes = folder ? 8192 : 0 };

    d.m = sized_model_new(d.ctx, s);
    if (!rules) return d;
    assert_ok(d.ctx, rp_set_offload(d.ctx, &to));
    assert_ok(d.ctx, rp_policy_read(d.ctx, "test", rules, &d.policy));
    rp_set_policy(d.ctx, d.policy);
    return d;
}

static void decoder_free(decoder *d)
{
    if (d->policy) {
        rp_set_policy(d->ctx, NULL);
        rp_policy_free(d->policy);
        assert_ok(d->ctx, rp_set_offload(d->ctx, NULL));
    }
    sized_model_free(&d->m);
    test_ctx_free(d->ctx);
}

static rp_status step(decoder *d)
{
    rp_status status = RP_OK;
    rp_tensor *loss;

    for (int i = 0; i < N_MICRO && status == RP_OK; i++) {
        RP_TRY(sized_loss(&d->m, 3, i * d->m.sizes.batch, &loss));
        status = rp_backward(d->ctx, loss);
        rp_tensor_unref(loss);
    }
    d->hash = RP_HASH_START;
    for (int i = 0; i < rp__model_n_params(d->m.model); i++) {
        rp_tensor *g = rp__model_param(d->m.model, i)->tensor->grad;
        if (g && rp__tensor_real(g)) d->hash = rp__hash(test_bytes(g), (size_t)rp_meta_bytes(&g->m), d->hash);
    }
    sized_drop_grads(&d->m);
    return status;
}

static uint64_t expected_of(const sizes *s)
{
    decoder d = decoder_new(false, s, NULL, NULL);

    assert_ok(d.ctx, step(&d));
    decoder_free(&d);
    return d.hash;
}

/* ---- its step as a question ---- */

typedef struct {
    decoder d;
    rp_cost_table *costs;
    rp_question question;
    double recompute_seconds;               /* of the replays of a step */
} planner;

static void count_recomputed(void *self, int at, const char *path, const char *op)
{
    planner *p = self;

    (void)path, (void)op;
    p->recompute_seconds += rp__cost_seconds(p->costs, rp__tape_call_at(p->d.ctx, at).meta, RP_FORWARD);
}

static rp_status run(const rp_question *question, rp_plan *how)
{
    planner *p = question->self;
    rp_tape_stats work;
    rp_mem memory;

    if (how) RP_TRY(rp__step_follow(p->d.ctx, how));
    if (how) rp__tape_ctx(p->d.ctx)->on_replay = (rp_call_hook){ count_recomputed, p };
    p->recompute_seconds = 0;
    rp__tape_stats(p->d.ctx, &work);
    rp_mem_read(p->d.ctx, 0, true, &memory);
    rp_status status = step(&p->d);
    rp__tape_ctx(p->d.ctx)->on_replay = (rp_call_hook){ 0 };
    rp__tape_reset(p->d.ctx);
    rp__tape_stats(p->d.ctx, &work);
    rp_mem_read(p->d.ctx, 0, false, &memory);
    if (!how) return status;
    rp__step_follow(p->d.ctx, NULL);
    how->found         = (rp_step_usage){ memory, 0, work.step_flops, work.recompute_flops, work.offloaded_bytes };
    how->seconds       = p->question.trace.seconds;
    how->recompute_seconds = p->recompute_seconds + how->facts.offload_seconds;
    return status;
}

static void planner_open(planner *p, const sizes *s, const char *folder, const char *device, const char *rules)
{
    *p = (planner){ .d = decoder_new(true, s, folder, rules) };
    assert_ok(p->d.ctx, rp__cost_table_device(p->d.ctx, device, &p->costs));
    p->question = (rp_question){ .ctx = p->d.ctx, .owner = p->d.ctx, .costs = p->costs, .run = run, .self = p };
    assert_ok(p->d.ctx, rp__question_ask(&p->question));
}

static void planner_close(planner *p)
{
    rp__question_close(&p->question);
    rp__cost_table_free(p->costs);
    decoder_free(&p->d);
}

static int n_offloaded(const rp_plan *plan)
{
    int n = 0;

    for (int i = 0; i < plan->n_passes; i++) n += plan->pass[i].n_offloaded;
    return n;
}

/* ---- the walk ---- */

static int64_t most_that_goes(const rp_cut_pass *cut)
{
    int64_t most = 0;

    for (int c = 0; c < cut->chain.n_classes; c++)
        for (int v = 0; v < cut->class_of[c].n_values; v++)
            if (cut->class_of[c].value[v].offloadable && cut->class_of[c].value[v].bytes > most) most = cut->class_of[c].value[v].bytes;
    return most;
}

static uint32_t next(uint32_t *seed) { return (*seed = *seed * 1664525u + 1013904223u) >> 8; }

/* A way for each class; in those of even draws something goes wherever a class has such a way. */
static void draw(const rp_cut_pass *cut, uint32_t seed, int *option)
{
    const rp_chain *chain = &cut->chain;
    uint32_t rng          = seed * 977 + 5;
    int of_class[32];

    for (int c = 0; c < chain->n_classes; c++) {
        int n       = chain->class_of[c].n_options;
        of_class[c] = (int)(next(&rng) % (uint32_t)n);
        for (int i = 0; i < n && seed % 2 == 0 && chain->class_of[c].option[of_class[c]].recompute < RP_CHAIN_NEVER; i++)
            of_class[c] = (of_class[c] + 1) % n;
    }
    for (int i = 0; i < chain->n; i++) option[i] = of_class[chain->segment[i]];
}

static int64_t measured_in(planner *p, rp_plan *plan)
{
    rp_mem before, after;

    rp__plan_follow(p->d.ctx, plan);
    rp_mem_read(p->d.ctx, 0, true, &before);
    assert_ok(p->d.ctx, step(&p->d));
    rp_mem_read(p->d.ctx, 0, false, &after);
    rp__plan_follow(p->d.ctx, NULL);
    return after.peak_alloc_bytes;
}

static void offloading_is_planned_to_the_byte_except_for_one_value(void **state)
{
    (void)state;
    for (int i = 0; i < RP_COUNT(models); i++) {
        int n_exact = 0, n_drawn = 0;
        planner p;
        planner_open(&p, &models[i], NULL, FAST, ALL_MAY_GO);
        const rp_cut_pass *cut = &p.question.problem.cut.pass[0];
        assert_int_equal(p.question.trace.n_passes, 1);
        for (uint32_t seed = 0; seed < (uint32_t)n_draws(); seed++) {
            int option[64];
            rp_plan *plan;
            draw(cut, seed, option);
            rp_chain_plan drawn = { .feasible = true, .option = option, .bytes = rp__chain_bytes(&cut->chain, option, NULL, 0) };
            assert_ok(p.d.ctx, rp__plan_make(p.d.ctx, &p.question.problem, &drawn, &plan));
            int64_t said = plan->facts.bytes, measured = measured_in(&p, plan);
            if (llabs(said - measured) > most_that_goes(cut) || (n_offloaded(plan) == 0 && said != measured))
                fail_msg("model %d, draw %u: said %lld, measured %lld", i, seed, (long long)said, (long long)measured);
            n_drawn += n_offloaded(plan) > 0;
            n_exact += n_offloaded(plan) > 0 && said == measured;
            rp__plan_free(plan);
        }
        assert_true(n_drawn >= n_draws() / 2 && n_exact > 0);     /* how many are exact depends on the prices of the device */
        planner_close(&p);
    }
}

/* The recorded step fetches such a value when its own replay reads it, a mode perhaps later. */
static void a_mode_is_exact_if_a_rule_offloads(void **state)
{
    static const char *const rules[] = {
        "[{ op: matmul, fate: offload }, { op: '*', fate: prefer_recompute }]",
        "[{ op: attention, fate: offload }]",
        "[{ path: 'layers.*.attn.output', fate: offload }, { op: '*', fate: prefer_recompute }]",
        "[{ path: 'layers.1.**', fate: offload }]",
        "[{ op: add, fate: offload }, { op: rmsnorm, fate: keep }]",
        "[{ op: swiglu, fate: offload }, { op: gelu, fate: offload }, { op: '*', fate: prefer_offload }]",
    };
    int n_modes = 0, n_offloading = 0;

    (void)state;
    for (int i = 0; i < RP_COUNT(models); i++)
        for (int r = 0; r < RP_COUNT(rules); r++) {
            planner p;
            planner_open(&p, &models[i], NULL, FAST, rules[r]);
            for (int mode = 0; mode < RP_PLAN_MODES; mode++) {
                rp_plan *plan;
                rp_tape_stats before, after;
                assert_ok(p.d.ctx, rp__plan_mode(p.d.ctx, &p.question.problem, mode, &plan));
                if (!plan) continue;
                rp__tape_stats(p.d.ctx, &before);
                int64_t said = plan->facts.bytes, measured = measured_in(&p, plan);
                rp__tape_stats(p.d.ctx, &after);
                if (said != measured)
                    fail_msg("model %d, rules %d, mode %d: said %lld, measured %lld", i, r, mode, (long long)said, (long long)measured);
                n_modes++;
                n_offloading += after.offloaded_bytes > 0;
                rp__plan_free(plan);
            }
            planner_close(&p);
        }
    assert_true(n_modes > 50 && n_offloading > 50);
}

/* ---- plans ---- */

/* The step on data takes what the rehearsal found, and has the bits of the step that keeps all. */
static void check_run(rp_plan *plan, const sizes *s, const char *folder, uint64_t expected)
{
    decoder d = decoder_new(false, s, folder, ALL_MAY_GO);
    rp_mem before, after;

    for (int i = 0; i < 2; i++) {
        assert_ok(d.ctx, rp__step_follow(d.ctx, plan));
        rp_mem_read(d.ctx, 0, true, &before);
        assert_ok(d.ctx, step(&d));
        rp__tape_reset(d.ctx);
        assert_ok(d.ctx, rp__step_follow(d.ctx, NULL));
        rp_mem_read(d.ctx, 0, false, &after);
        assert_int_equal(after.peak_bytes, plan->found.memory.peak_bytes);
        assert_memory_equal(after.peak_at, plan->found.memory.peak_at, sizeof after.peak_at);
        assert_int_equal(d.hash, expected);
    }
    decoder_free(&d);
}

static int64_t height_of_all(planner *p)
{
    rp_plan *all;

    assert_ok(p->d.ctx, rp__step_within(&p->question, INT64_MAX / 4, &all));
    int64_t height = all->placement.height;
    rp__plan_free(all);
    return height;
}

/* The same budgets with consent (a) and without (b), from the least of those without up. Returns how many calls went. */
static int compare(planner *a, planner *b, const sizes *s, const char *folder, uint64_t expected)
{
    rp_plan *offloadable, *resident;
    double bound;
    int n = 0;

    assert_ok(a->d.ctx, rp__step_least(&a->question, &offloadable));
    assert_ok(b->d.ctx, rp__step_least(&b->question, &resident));
    int64_t least = resident->placement.height, all = height_of_all(b);
    assert_true(offloadable->placement.height <= least);
    check_run(offloadable, s, folder, expected);
    rp__plan_free(offloadable);
    rp__plan_free(resident);
    for (int i = 0; i <= n_budgets(); i++) {
        int64_t budget = least + (all - least) * i / n_budgets();
        assert_ok(a->d.ctx, rp__step_within(&a->question, budget, &offloadable));
        assert_ok(b->d.ctx, rp__step_within(&b->question, budget, &resident));
        assert_true(offloadable && resident && offloadable->placement.height <= budget);
        const rp_plan_facts *with = &offloadable->facts, *without = &resident->facts;
        assert_true(with->recompute_seconds <= without->recompute_seconds);
        assert_ok(a->d.ctx, rp__plan_bound(a->d.ctx, &a->question.problem, budget, &bound));
        assert_true(bound <= with->recompute_seconds * (1 + 1e-9));
        assert_true(with->offload_seconds <= with->recompute_seconds * (1 + 1e-9));
        assert_int_equal(n_offloaded(offloadable) > 0, offloadable->found.offloaded_bytes > 0);
        assert_int_equal(n_offloaded(offloadable) > 0, with->offload_seconds > 0);
        check_run(offloadable, s, folder, expected);
        n += n_offloaded(offloadable);
        rp__plan_free(offloadable);
        rp__plan_free(resident);
    }
    return n;
}

static int compare_on(const sizes *s, const char *folder, const char *lane)
{
    planner a, b;

    planner_open(&a, s, folder, lane, ALL_MAY_GO);
    planner_open(&b, s, folder, lane, "[{ op: '*', fate: prefer_keep }]");
    int n = compare(&a, &b, s, folder, expected_of(s));
    planner_close(&a);
    planner_close(&b);
    return n;
}

static void a_fast_lane_makes_plans_cheaper_and_changes_no_bit(void **state)
{
    (void)state;
    for (int i = 0; i < RP_COUNT(models); i++) assert_true(compare_on(&models[i], NULL, FAST) > 0);
}

static void slots_go_to_a_folder_as_well(void **state)
{
    (void)state;
    assert_true(compare_on(&models[0], temp_dir, FAST) > 0);
    assert_int_equal(n_files_in(temp_dir), 0);
}

static void nothing_goes_where_the_lane_is_slow(void **state)
{
    (void)state;
    assert_int_equal(compare_on(&models[0], NULL, SLOW), 0);
}

/* ---- seconds ---- */

static bool is_read_later(const rp_trace_pass *pass, const rp_plan_pass *plan, int v)
{
    for (int c = 0; c < pass->n_calls; c++) {
        const rp_trace_call *call = &pass->call[c];
        for (int i = 0; i < call->n_needs; i++)
            if (call->needs[i] == v) return true;
        for (int i = 0; i < call->n_in && plan->call[c].recompute; i++)
            if (call->in[i] == v) return true;
    }
    return false;
}

/* The seconds of copies out and in that the segment's own work does not hide: its forward hides the first, its backward with replays the second. */
static double waited_in(const planner *p, const rp_plan_pass *plan, int first, int end)
{
    const rp_trace_pass *pass = &p->question.trace.pass[0];
    double copies = 0, forward = 0, backward = 0, transfer = 0;

    for (int c = first; c < end; c++) {
        const rp_trace_call *call = &pass->call[c];
        forward += call->recompute;
        backward += call->backward + (plan->call[c].recompute ? call->recompute : 0);
        for (int i = 0; i < call->n_made && plan->call[c].offload; i++) {
            const rp_trace_value *v = &pass->value[call->made[i]];
            if (!(plan->call[c].offloadable >> v->nth & 1) || !is_read_later(pass, plan, call->made[i])) continue;
            copies += v->copy;
            transfer += (double)v->bytes / pass->bandwidth;
        }
    }
    return transfer > 0 ? copies + fmax(transfer - forward, 0) + fmax(transfer - backward, 0) : 0;
}

/* On a lane that hides some of it. */
static void seconds_of_a_plan_are_its_replays_and_what_is_waited_for(void **state)
{
    int n_both = 0;

    (void)state;
    for (int i = 0; i < RP_COUNT(models); i++) {
        planner p;
        planner_open(&p, &models[i], NULL, "name=test, memory=1GB, flops=1e10, bandwidth=1e11, offload=1e9", ALL_MAY_GO);
        const rp_trace_pass *pass = &p.question.trace.pass[0];
        const rp_cut_pass *cut    = &p.question.problem.cut.pass[0];
        for (uint32_t seed = 0; seed < 40; seed++) {
            int option[64];
            rp_plan *plan;
            draw(cut, seed, option);
            rp_chain_plan drawn = { .feasible = true, .option = option };
            for (int s = 0; s < cut->chain.n; s++) drawn.seconds += cut->chain.class_of[cut->chain.segment[s]].option[option[s]].seconds;
            assert_ok(p.d.ctx, rp__plan_make(p.d.ctx, &p.question.problem, &drawn, &plan));
            double waits = 0, replays = 0;
            for (int s = 0; s < cut->chain.n; s++) {
                double one = waited_in(&p, &plan->pass[0], cut->first[s], cut->first[s + 1]);
                bool recompute = false;
                for (int c = cut->first[s]; c < cut->first[s + 1]; c++) recompute = recompute || plan->pass[0].call[c].recompute;
                waits += one;
                n_both += recompute && one > 0;
            }
            for (int c = 0; c < pass->n_calls; c++) replays += plan->pass[0].call[c].recompute ? pass->call[c].recompute : 0;
            assert_true(fabs(plan->facts.offload_seconds - waits * pass->n_passes) <= 1e-12 * waits);
            assert_true(fabs(plan->facts.recompute_seconds - (waits + replays) * pass->n_passes) <= 1e-12 * (waits + replays));
            rp__plan_free(plan);
        }
        planner_close(&p);
    }
    assert_true(n_both > 20);
}

/* What no schedule gets below. */
static double bound_at(const planner *p, int64_t budget)
{
    const rp_plan_problem *problem = &p->question.problem;
    double bound                   = 0;

    for (int i = 0; i < p->question.trace.n_passes; i++) bound += rp__pass_bound_seconds(&problem->bound[i], budget) * p->question.trace.pass[i].n_passes;
    return bound;
}

/* The plan underestimates the bytes of values that rules recompute, so plans for fewer bytes are tried. Their bound is that of the budget. */
static int check_bounds(const sizes *model, const char *rules)
{
    planner p;
    rp_plan *plan;
    rp_plan *asked;
    int64_t least;
    double bound;
    int n_fewer = 0;

    planner_open(&p, model, NULL, GUESSED, rules);
    assert_ok(p.d.ctx, rp__plan_least(p.d.ctx, &p.question.problem, &least));
    for (int64_t budget = least, all = height_of_all(&p); budget <= all; budget += (all - least) / 20 + 1) {
        assert_ok(p.d.ctx, rp__step_within(&p.question, budget, &plan));
        if (!plan) continue;
        assert_ok(p.d.ctx, rp__plan_solve(p.d.ctx, &p.question.problem, budget, &asked));
        n_fewer += plan->facts.bytes < asked->facts.bytes;
        assert_ok(p.d.ctx, rp__plan_bound(p.d.ctx, &p.question.problem, budget, &bound));
        assert_true(bound <= bound_at(&p, budget) * (1 + 1e-9));
        rp__plan_free(asked);
        rp__plan_free(plan);
    }
    planner_close(&p);
    return n_fewer;
}

static void the_printed_bound_is_that_of_the_budget(void **state)
{
    static const char *const rules[] = { "[{ op: add, fate: recompute }]", "[{ every: 2, fate: recompute }]", "[{ every: 3, fate: recompute }]" };
    int n_fewer = 0;

    (void)state;
    for (int m = 0; m < RP_COUNT(models); m++)
        for (int i = 0; i < RP_COUNT(rules); i++) n_fewer += check_bounds(&models[m], rules[i]);
    assert_true(n_fewer > 0);
}

static void only_what_prefers_to_goes(void **state)
{
    planner p;
    rp_plan *plan;
    int n = 0;

    (void)state;
    planner_open(&p, &models[0], NULL, FAST, "[{ path: '*.mlp', fate: prefer_offload }]");
    assert_ok(p.d.ctx, rp__step_least(&p.question, &plan));
    rp__plan_free(plan);
    const rp_cut_pass *cut = &p.question.problem.cut.pass[0];
    for (uint32_t seed = 0; seed < (uint32_t)n_draws(); seed += 2) {
        int option[64];
        rp_plan *drawn;
        draw(cut, seed, option);
        rp_chain_plan chosen = { .feasible = true, .option = option };
        assert_ok(p.d.ctx, rp__plan_make(p.d.ctx, &p.question.problem, &chosen, &drawn));
        for (int c = 0; c < drawn->pass[0].n_calls; c++) {
            n += drawn->pass[0].call[c].offload;
            if (drawn->pass[0].call[c].offload) assert_non_null(strstr(drawn->pass[0].call[c].path, ".mlp"));
        }
        rp__plan_free(drawn);
    }
    assert_true(n > 0);
    planner_close(&p);
}

static bool same_marks(const rp_plan *a, const rp_plan *b)
{
    for (int c = 0; c < a->pass[0].n_calls; c++)
        if (a->pass[0].call[c].recompute != b->pass[0].call[c].recompute || a->pass[0].call[c].offload != b->pass[0].call[c].offload) return false;
    return a->facts.offload_seconds == b->facts.offload_seconds && n_offloaded(a) == n_offloaded(b);
}

static void what_goes_is_in_the_plans_file_and_refused_where_it_may_not(void **state)
{
    const rp_plan_stamp stamp = { "1", "test", 2, 7, 0, NULL, 0 };
    const rp_plan_takes takes = { 0 };
    rp_plan_text *text;
    rp_plan *plan, *back = NULL;
    planner p, q;
    int option[64];

    (void)state;
    planner_open(&p, &models[0], NULL, FAST, ALL_MAY_GO);
    planner_open(&q, &models[0], NULL, FAST, ALL_MAY_GO);
    draw(&p.question.problem.cut.pass[0], 0, option);
    rp_chain_plan chosen = { .feasible = true, .option = option };
    assert_ok(p.d.ctx, rp__plan_make(p.d.ctx, &p.question.problem, &chosen, &plan));
    assert_ok(p.d.ctx, rp__plan_write(p.d.ctx, temp_path("plan.json"), plan, &stamp, &takes, ""));
    assert_ok(p.d.ctx, rp__plan_read(p.d.ctx, temp_path("plan.json"), &text));
    assert_ok(p.d.ctx, rp__plan_from_text(p.d.ctx, text, &p.question.problem, &stamp, &back));
    assert_true(n_offloaded(plan) > 0 && same_marks(plan, back));
    rp__plan_free(back);

    rp_plan_problem resident = rp__plan_view(&q.question.problem, q.question.problem.resident); /* the same calls, none of them open to it */
    assert_int_equal(rp__plan_from_text(q.d.ctx, text, &resident, &stamp, &back), RP_ERR_CONFIG);
    assert_non_null(strstr(rp_error(q.d.ctx), "may not be offloaded"));
    rp__plan_text_free(text);
    rp__plan_free(plan);
    planner_close(&q);
    planner_close(&p);
    remove(temp_path("plan.json"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(seconds_of_a_plan_are_its_replays_and_what_is_waited_for),
        cmocka_unit_test(offloading_is_planned_to_the_byte_except_for_one_value),
        cmocka_unit_test(a_mode_is_exact_if_a_rule_offloads),
        cmocka_unit_test(a_fast_lane_makes_plans_cheaper_and_changes_no_bit),
        cmocka_unit_test(slots_go_to_a_folder_as_well),
        cmocka_unit_test(nothing_goes_where_the_lane_is_slow),
        cmocka_unit_test(the_printed_bound_is_that_of_the_budget), cmocka_unit_test(only_what_prefers_to_goes),
        cmocka_unit_test(what_goes_is_in_the_plans_file_and_refused_where_it_may_not),
    };
    temp_enter();
    int failed  = cmocka_run_group_tests(tests, NULL, NULL);
    rp_ctx *ctx = test_ctx(NULL);
    temp_leave(ctx);
    test_ctx_free(ctx);
    return failed;
}
