/* Claims about plans with regions: the best of all nestings, binomial where blocks are alike, never worse than what is usual. */
/* ctest: device-free thread-free cost=12 */
#include "chain_test.h"
#include "llama_chain.h"
#include "solve/chain_internal.h"

static int many(void) { return test_few_or(24, 240); }
static int budgets(void) { return test_few_or(30, 200); }
static int parts(void) { return test_few_or(4, 24); }

static rp_ctx *ctx;
static random_chain drawn;
static llama_chain llama;

static void draw(int segments, int classes, int options, int64_t bytes, uint64_t seed)
{
    random_chain_make(&drawn, &(chain_sort){ .segments = segments, .classes = classes, .options = options, .bytes = bytes,
                                             .whole_seconds = true, .regions = true }, seed);
}

/* ---- against all nestings there are ---- */

static void check_best(const all_plans *plans, int64_t budget)
{
    const one_plan *best = best_in(plans, budget);
    rp_chain_plan plan   = solve(ctx, &drawn.chain, budget);
    double bound;

    assert_ok(ctx, chain_bound(ctx, &drawn.chain, budget, &bound));
    assert_int_equal(plan.feasible, best != NULL);
    if (best) {
        check_plan(&drawn.chain, &plan, budget);
        assert_true(plan.seconds == best->seconds);
        assert_int_equal(plan.bytes, best->bytes);
        assert_true(bound <= best->seconds && plan.bound == fmin(bound, plan.seconds));
    }
    rp__chain_plan_free(&plan);
}

static void plans_are_the_best_of_all_nestings(void **state)
{
    static const int64_t bytes[] = { 2, 30, 1000003 };
    static const int options[]   = { [2] = 3, 3, 2, 1 };
    int n_nested = 0;

    (void)state;
    for (int i = 0; i < many(); i++) {
        int segments = 2 + i % 4;
        draw(segments, 3, options[segments], bytes[i / 4 % 3], (uint64_t)i);
        all_plans plans = best_plans(&drawn.chain);
        assert_int_equal(least_budget(ctx, &drawn.chain), plans.at[0].bytes);
        for (int p = 0; p < plans.n; p++) {
            n_nested += plans.at[p].n_regions > 0;
            for (int by = -1; by <= 1; by++) check_best(&plans, plans.at[p].bytes + by);
        }
        free_plans(&plans);
    }
    assert_true(n_nested > many() / 4);
}

/* ---- what the search leaves out ---- */

static double ticks(const rp_chain_bound *b, double seconds) { return ldexp(seconds, -b->work->tick); }

static double seconds_inside(const rp_chain *chain, const one_plan *plan, const rp_chain_region *region, int r)
{
    double sum = 0;

    for (int i = region[r].first; i < region[r].end; i++) sum += segment_seconds(chain, i, plan->option[i], region, plan->n_regions);
    return sum;
}

/* A plan that fits takes no less than the bounds on each of its parts say. */
static void check_parts(void *user, const rp_chain *chain, const one_plan *plan, const rp_chain_region *region)
{
    const rp_chain_bound *b = user;
    double all              = ticks(b, plan->seconds);
    bool open[8]            = { 0 };

    if (plan->bytes > b->budget) return;
    for (int i = 0; i < chain->n; i++) open[i] = true;
    for (int r = 0; r < plan->n_regions; r++) {
        int first = region[r].first, end = region[r].end;
        for (int i = first; i < end; i++) open[i] = false;
        if (region[r].parent >= 0 || !rp__chain_may_be_region(b->work, first, end)) continue;
        assert_true(rp__bound_region(b, first, end) <= all);
        assert_true(ticks(b, seconds_inside(chain, plan, region, r)) <= rp__bound_inside(b, first, end, all));
    }
    for (int i = 0; i < chain->n; i++) assert_true(!open[i] || rp__bound_option(b, i, plan->option[i]) <= all);
}

static void bounds_on_parts_hold_for_every_plan(void **state)
{
    (void)state;
    for (int i = 0; i < many() / 4; i++) {
        draw(3 + i % 3, 3, i % 3 == 2 ? 1 : 2, i % 2 ? 30 : 1000003, (uint64_t)i + 4000);
        all_plans plans = best_plans(&drawn.chain);
        for (int p = 0; p < plans.n; p++) {
            rp_chain_bound bound;
            rp_chain_work work;
            assert_ok(ctx, rp__chain_open(&work, ctx, &drawn.chain));
            assert_ok(ctx, rp__bound_open(&bound, &work, plans.at[p].bytes, true));
            each_plan(&drawn.chain, check_parts, &bound);
            rp__bound_close(&bound);
            rp__chain_close(&work);
        }
        free_plans(&plans);
    }
}

/* A point goes if, at the best of all prices, the segments before it take too long. */
static bool is_cut(const rp_chain_bound *b, int i, double most, rp_chain_point point)
{
    const double *ways = b->ways + (int64_t)i * b->n_prices;
    double left = (double)(b->budget - point.bytes), best = -INFINITY, price = 0;

    if (b->budget - point.bytes < (b->regions ? 0 : b->least[i])) return true;
    for (int p = 0; p < b->n_prices; p++)
        if (ways[p] - b->price[p] * left > best) best = ways[p] - b->price[p] * left, price = b->price[p];
    return (double)point.ticks + fmax(best, b->before[i]) > most + RP_CHAIN_ERROR * (b->scale + price * left);
}

static void exactly_the_points_go_that_no_fast_plan_can_have(void **state)
{
    int n_gone = 0, n_stayed = 0;

    (void)state;
    for (int i = 0; i < many(); i++) {
        rp_chain_point point[64], kept[64];
        rp_chain_bound bound;
        rp_chain_work work;
        draw(4 + i % 4, 3, 4, 1000003, (uint64_t)i + 90000);
        drawn.chain.regions = i % 2;
        int64_t least = least_budget(ctx, &drawn.chain), most = greatest_budget(ctx, &drawn.chain), budget = least + (most - least) * (i % 7) / 9;
        assert_ok(ctx, rp__chain_open(&work, ctx, &drawn.chain));
        assert_ok(ctx, rp__bound_open(&bound, &work, budget, drawn.chain.regions));
        double cap = bound.bound * 1.1;
        for (int j = 0; j < 64; j++) point[j] = (rp_chain_point){ budget / 64 * (j + 1), (int64_t)(cap / 64 * (64 - j) * (double)(i % 3 + 1) / 3) };
        for (int at = 0; at <= drawn.chain.n; at++) {
            memcpy(kept, point, sizeof kept);
            int64_t n = rp__bound_cut(&bound, at, cap, kept, 64), expected = 0;
            for (int j = 0; j < 64; j++) {
                if (is_cut(&bound, at, cap, point[j])) continue;
                assert_true(expected < n);
                assert_memory_equal(&kept[expected++], &point[j], sizeof *point);
            }
            assert_int_equal(n, expected);
            n_stayed += (int)n;
            n_gone += 64 - (int)n;
        }
        rp__bound_close(&bound);
        rp__chain_close(&work);
    }
    assert_true(n_gone > many() && n_stayed > many());
}

static rp_chain_nest *thin_fronts(rp_chain_work *work, int64_t budget)
{
    rp_chain_nest *nest;

    assert_ok(ctx, rp__nest_open(work, 3, &nest));
    assert_non_null(nest);
    rp__nest_limit(nest, budget);
    for (int end = 1; end < work->chain->n; end++)
        for (int first = 0; first < end; first++) assert_ok(ctx, rp__nest_fill(nest, first, end));
    return nest;
}

/* As far as the lesser budget goes. */
static void check_same_fronts(const rp_chain *chain, const rp_chain_nest *less, const rp_chain_nest *more, int64_t budget)
{
    for (int end = 1; end < chain->n; end++)
        for (int first = 0; first < end; first++) {
            rp_chain_front a = rp__nest_front(less, first, end), b = rp__nest_front(more, first, end);
            for (int i = 0; i < b.n && b.at[i].bytes + rp__chain_fixed_recompute(chain, end) <= budget; i++) {
                assert_true(i < a.n);
                assert_memory_equal(&a.at[i], &b.at[i], sizeof *a.at);
            }
        }
}

static void thinned_fronts_are_the_same_under_a_greater_budget(void **state)
{
    rp_chain_work work;

    (void)state;
    llama_chain_make(&llama, 20, &(llama_shape){ 1021, 576, 192, 1536 });
    llama.chain.regions = true;
    int64_t least = least_budget(ctx, &llama.chain), most = greatest_budget(ctx, &llama.chain);
    assert_ok(ctx, rp__chain_open(&work, ctx, &llama.chain));
    rp_chain_nest *all = thin_fronts(&work, most);
    for (int part = 1; part < parts(); part++) {
        int64_t budget      = least + (most - least) / parts() * part;
        rp_chain_nest *some = thin_fronts(&work, budget);
        check_same_fronts(&llama.chain, some, all, budget);
        rp__nest_close(some);
    }
    rp__nest_close(all);
    rp__chain_close(&work);
}

/* ---- binomial ---- */

/* Extra forwards for l steps with s of them held: Griewank and Walther (2000). */
static int64_t choose(int64_t n, int64_t k)
{
    int64_t out = 1;

    if (k < 0 || k > n) return 0;
    for (int64_t i = 1; i <= k; i++) out = out * (n - k + i) / i;
    return out;
}

static int64_t binomial_forwards(int64_t l, int64_t s)
{
    int64_t r = 0;

    while (choose(s + r, s) < l) r++;
    return r * l - choose(s + r, r - 1);
}

/* A step's output takes 1; its backward takes `inside`, whether the values it reads are kept or recomputed by one more forward. Kept bytes of
 * a step fit only while it is the last one, so it alone needs no forward more: it is turned round in. Run again as a region's last step,
 * it makes what it keeps, so nothing where that is nothing. */
static void make_steps(int n)
{
    enum { INSIDE = 1000 };
    const rp_chain_option recompute = { .saved = 1, .forward = 1, .recompute = 1, .backward = { INSIDE }, .last_backward = { INSIDE },
                                    .seconds = 1, .recompute_seconds = 1 };
    const rp_chain_option keep  = { .saved = INSIDE, .forward = INSIDE, .recompute = INSIDE, .last = INSIDE, .backward = { INSIDE },
                                    .last_backward = { INSIDE }, .recompute_seconds = 1, .last_seconds = 1 };

    drawn              = (random_chain){ 0 };
    drawn.option[0][0] = recompute;
    drawn.option[0][1] = keep;
    drawn.class_of[0]  = (rp_chain_class){ drawn.option[0], .n_options = 2, .output = 1, .bare = { 1, 2, 2 }, .bare_recompute = { 1, 2 }, .bare_seconds = 1 };
    drawn.chain        = (rp_chain){ .class_of = drawn.class_of, .n_classes = 1, .n = n, .n_kinds = 1, .segment = drawn.segment,
                                     .fixed_forward = { drawn.forward[0] }, .fixed_backward = { drawn.backward[0] }, .regions = true };
}

static void unit_chains_are_binomial(void **state)
{
    (void)state;
    assert_int_equal(binomial_forwards(10, 3), 15);
    for (int l = 1; l <= 40; l++)
        for (int s = 1; s <= 7; s++) {
            make_steps(l);
            rp_chain_plan plan = solve(ctx, &drawn.chain, 1000 + s);
            check_plan(&drawn.chain, &plan, 1000 + s);
            assert_true(plan.seconds == (double)binomial_forwards(l, s));
            rp__chain_plan_free(&plan);
        }
}

/* ---- budgets ---- */

static void more_memory_never_costs_time_with_regions_either(void **state)
{
    (void)state;
    for (int i = 0; i < 10; i++) {
        draw(8 + 2 * i, 1 + i % 3, 6, i % 2 ? 1000003 : 20, (uint64_t)i + 100);
        check_sweep(ctx, &drawn.chain, budgets());
    }
}

/* Below the least budget of one level, where all is nested. */
static void check_tight(int steps)
{
    llama.chain.regions = false;
    int64_t flat        = least_budget(ctx, &llama.chain);
    llama.chain.regions = true;
    int64_t least       = least_budget(ctx, &llama.chain);
    double before       = INFINITY;

    assert_true(least < flat);
    for (int i = 0; i <= steps; i++) {
        int64_t budget     = least + (flat - least) / steps * i;
        rp_chain_plan plan = solve(ctx, &llama.chain, budget), same = solve(ctx, &llama.chain, plan.bytes);
        check_plan(&llama.chain, &plan, budget);
        check_same(&llama.chain, &plan, &same);
        assert_true(plan.exact && plan.seconds <= before);
        before = plan.seconds;
        rp__chain_plan_free(&plan);
        rp__chain_plan_free(&same);
    }
}

static void a_model_of_blocks_fits_below_one_level_s_least(void **state)
{
    static const llama_shape odd = { 1021, 576, 192, 1536 };

    (void)state;
    for (int kinds = 1; kinds <= 2; kinds++)
        for (int i = 0; i < 2; i++) {
            llama_chain_make(&llama, 32, i ? &odd : &llama_8b);
            llama.chain.n_kinds = kinds;
            check_tight(budgets() / 2);
        }
}

/* ---- against what is usual ---- */

static void check_no_worse_than_regions_of(int length, int option_inside)
{
    int option[LLAMA_MOST_SEGMENTS] = { 0 }, n = 0;
    rp_chain_region region[MOST_REGIONS];

    for (int i = 1; i + 1 < llama.chain.n; i++) option[i] = option_inside;
    for (int i = 1; i + length < llama.chain.n; i += length) region[n++] = (rp_chain_region){ i, i + length, -1 };
    int64_t bytes      = play(&llama.chain, option, region, n);
    rp_chain_plan plan = solve(ctx, &llama.chain, bytes);
    check_plan(&llama.chain, &plan, bytes);
    assert_true(plan.seconds <= recompute_seconds(&llama.chain, option, region, n) * (1 + 1e-12));
    rp__chain_plan_free(&plan);
}

static void no_segment_length_nor_one_level_is_faster_in_the_same_bytes(void **state)
{
    (void)state;
    llama_chain_make(&llama, 25, &llama_8b);
    llama.chain.regions = true;
    for (int length = 1; length <= 25; length++)
        for (int o = 0; o < llama.class_of[1].n_options; o += 37) check_no_worse_than_regions_of(length, o);
    for (int i = 0; i < 20; i++) {
        draw(14, 3, 6, 1000, (uint64_t)i + 900);
        drawn.chain.regions = false;
        int64_t budget      = least_budget(ctx, &drawn.chain) * (100 + i) / 100;
        rp_chain_plan flat  = solve(ctx, &drawn.chain, budget);
        drawn.chain.regions = true;
        rp_chain_plan plan  = solve(ctx, &drawn.chain, budget);
        assert_true(plan.seconds <= flat.seconds && (plan.seconds < flat.seconds || plan.bytes <= flat.bytes));
        rp__chain_plan_free(&flat);
        rp__chain_plan_free(&plan);
    }
}

/* ---- limits ---- */

static rp_status solve_and_free(int64_t budget)
{
    rp_chain_plan plan;
    int64_t least;

    RP_TRY(chain_least(ctx, &drawn.chain, &least));
    rp_status status = chain_solve(ctx, &drawn.chain, budget, &plan);
    if (status == RP_OK) assert_true(plan.n_regions > 0);
    else assert_true(!plan.feasible && !plan.option && !plan.region);
    rp__chain_plan_free(&plan);
    return status;
}

static void whichever_allocation_fails_nothing_is_lost(void **state)
{
    (void)state;
    make_steps(12);
    until_no_fault_fires(ctx, solve_and_free(1003), (void)0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_are_the_best_of_all_nestings),
        cmocka_unit_test(bounds_on_parts_hold_for_every_plan),
        cmocka_unit_test(exactly_the_points_go_that_no_fast_plan_can_have),
        cmocka_unit_test(thinned_fronts_are_the_same_under_a_greater_budget),
        cmocka_unit_test(unit_chains_are_binomial),
        cmocka_unit_test(more_memory_never_costs_time_with_regions_either),
        cmocka_unit_test(a_model_of_blocks_fits_below_one_level_s_least),
        cmocka_unit_test(no_segment_length_nor_one_level_is_faster_in_the_same_bytes),
        cmocka_unit_test(whichever_allocation_fails_nothing_is_lost),
    };

    ctx        = test_ctx(NULL);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    test_ctx_free(ctx);
    return failed;
}
