/* Claims about plans of one level: the fastest there are, in the budget to the byte, and by the same rules whatever the budget is. */
/* ctest: device-free thread-free cost=11 */
#include "chain_test.h"
#include "llama_chain.h"

#include <jansson.h>

static int many(void) { return test_few_or(60, 600); }
static int budgets(void) { return test_few_or(60, 200); }

static rp_ctx *ctx;
static random_chain drawn;
static llama_chain llama;

/* ---- against all plans there are ---- */

/* Small sizes make ties, large ones have no common divisor; both in turn. */
static chain_sort small_sort(int i, bool whole_seconds)
{
    static const int64_t bytes[] = { 3, 40, 1000003, 5000000029 };

    return (chain_sort){ .segments = 1 + i % 5, .classes = 5, .options = 4, .bytes = bytes[i / 5 % 4], .whole_seconds = whole_seconds };
}

static void check_best(const all_plans *plans, int64_t budget)
{
    const one_plan *best = best_in(plans, budget);
    rp_chain_plan plan   = solve(ctx, &drawn.chain, budget);

    assert_int_equal(plan.feasible, best != NULL);
    if (best) {
        check_plan(&drawn.chain, &plan, budget);
        assert_true(plan.seconds == best->seconds);
        assert_int_equal(plan.bytes, best->bytes);
        assert_memory_equal(plan.option, best->option, (size_t)drawn.chain.n * sizeof *plan.option);
    } else assert_true(!plan.option && !plan.region);
    rp__chain_plan_free(&plan);
}

static void plans_are_the_best_of_all_to_the_byte(void **state)
{
    (void)state;
    for (int i = 0; i < many(); i++) {
        chain_sort sort = small_sort(i, true);
        random_chain_make(&drawn, &sort, (uint64_t)i);
        all_plans plans = best_plans(&drawn.chain);
        assert_int_equal(least_budget(ctx, &drawn.chain), plans.at[0].bytes);
        for (int p = 0; p < plans.n; p++)
            for (int by = -1; by <= 1; by++) check_best(&plans, plans.at[p].bytes + by);
        check_best(&plans, INT64_MAX);
        check_best(&plans, -1);
        free_plans(&plans);
    }
}

static void plans_are_the_fastest_of_all_whatever_seconds_are(void **state)
{
    (void)state;
    for (int i = 0; i < many(); i++) {
        chain_sort sort = small_sort(i, false);
        random_chain_make(&drawn, &sort, (uint64_t)i + 7777);
        all_plans plans = best_plans(&drawn.chain);
        for (int p = 0; p < plans.n; p++) {
            rp_chain_plan plan = solve(ctx, &drawn.chain, plans.at[p].bytes);
            check_plan(&drawn.chain, &plan, plans.at[p].bytes);
            assert_true(fabs(plan.seconds - plans.at[p].seconds) <= 1e-12 * plan.seconds);
            rp__chain_plan_free(&plan);
        }
        free_plans(&plans);
    }
}

static void no_plan_takes_less_than_the_bound(void **state)
{
    (void)state;
    for (int i = 0; i < many(); i++) {
        chain_sort sort = small_sort(i, i % 2);
        random_chain_make(&drawn, &sort, (uint64_t)i + 55555);
        all_plans plans = best_plans(&drawn.chain);
        for (int p = 0; p < plans.n; p++) {
            double bound;
            rp_chain_plan plan = solve(ctx, &drawn.chain, plans.at[p].bytes);
            assert_ok(ctx, chain_bound(ctx, &drawn.chain, plans.at[p].bytes, &bound));
            assert_true(bound <= plans.at[p].seconds);
            assert_true(plan.bound == bound);
            rp__chain_plan_free(&plan);
        }
        double bound;
        assert_ok(ctx, chain_bound(ctx, &drawn.chain, plans.at[0].bytes - 1, &bound));
        assert_true(bound == INFINITY);
        free_plans(&plans);
    }
}

/* ---- against a MILP ---- */

static int64_t number(const json_t *object, const char *name) { return (int64_t)json_integer_value(json_object_get(object, name)); }

static void read_sizes(const json_t *list, int64_t unit, int64_t *out)
{
    for (size_t i = 0; i < json_array_size(list); i++) out[i] = unit * (int64_t)json_integer_value(json_array_get(list, i));
}

static void read_class(const json_t *list, int64_t unit, int k)
{
    drawn.class_of[k] = (rp_chain_class){ .option = drawn.option[k], .n_options = (int)json_array_size(list) };
    for (int o = 0; o < drawn.class_of[k].n_options; o++) {
        const json_t *from  = json_array_get(list, (size_t)o);
        drawn.option[k][o] = (rp_chain_option){ .saved = unit * number(from, "saved"), .forward = unit * number(from, "forward"),
                                                .seconds = json_number_value(json_object_get(from, "seconds")) };
        read_sizes(json_object_get(from, "backward"), unit, drawn.option[k][o].backward);
    }
}

static void read_chain(const json_t *from)
{
    const json_t *classes = json_object_get(from, "classes"), *segment = json_object_get(from, "segment");
    int64_t unit          = number(from, "unit");

    drawn       = (random_chain){ 0 };
    drawn.chain = (rp_chain){ .class_of = drawn.class_of, .n_classes = (int)json_array_size(classes), .n = (int)json_array_size(segment),
                              .n_kinds = (int)number(from, "kinds"), .segment = drawn.segment };
    for (int k = 0; k < drawn.chain.n_classes; k++) read_class(json_array_get(classes, (size_t)k), unit, k);
    for (int i = 0; i < drawn.chain.n; i++) drawn.segment[i] = (int)json_integer_value(json_array_get(segment, (size_t)i));
    for (int k = 0; k < drawn.chain.n_kinds; k++) {
        read_sizes(json_array_get(json_object_get(from, "fixed_forward"), (size_t)k), unit, drawn.forward[k]);
        read_sizes(json_array_get(json_object_get(from, "fixed_backward"), (size_t)k), unit, drawn.backward[k]);
        drawn.chain.fixed_forward[k]  = drawn.forward[k];
        drawn.chain.fixed_backward[k] = drawn.backward[k];
    }
}

static void check_solved(const json_t *solved, int64_t unit)
{
    const json_t *seconds = json_object_get(solved, "seconds");
    int64_t budget        = unit * number(solved, "budget");
    rp_chain_plan plan    = solve(ctx, &drawn.chain, budget);

    assert_int_equal(plan.feasible, !json_is_null(seconds));
    if (plan.feasible) {
        check_plan(&drawn.chain, &plan, budget);
        assert_true(fabs(plan.seconds - json_number_value(seconds)) < 1e-9);
    }
    rp__chain_plan_free(&plan);
}

static void plans_are_those_of_a_milp(void **state)
{
    json_error_t error;
    json_t *all = json_load_file(RP_SOURCE_DIR "/tests/golden/plan/chain.json", 0, &error), *chains = json_object_get(all, "chains");

    (void)state;
    assert_non_null(all);
    assert_true(json_array_size(chains) >= 10);
    for (size_t i = 0; i < json_array_size(chains); i++) {
        const json_t *from = json_array_get(chains, i), *budgets = json_object_get(from, "budgets");
        read_chain(from);
        assert_int_equal(least_budget(ctx, &drawn.chain), number(from, "unit") * number(from, "least"));
        for (size_t b = 0; b < json_array_size(budgets); b++) check_solved(json_array_get(budgets, b), number(from, "unit"));
    }
    json_decref(all);
}

/* ---- budgets ---- */

static void more_memory_never_costs_time_and_a_plan_is_the_same_from_its_bytes_on(void **state)
{
    (void)state;
    for (int i = 0; i < 12; i++) {
        chain_sort sort = { .segments = 16 + i, .classes = 1 + i % 4, .options = 12, .bytes = i % 2 ? 1000003 : 50 };
        random_chain_make(&drawn, &sort, (uint64_t)i);
        check_sweep(ctx, &drawn.chain, budgets() / 2);
    }
    llama_chain_make(&llama, 12, &(llama_shape){ 1021, 576, 192, 1536 });
    check_sweep(ctx, &llama.chain, budgets() / 2);
}

static void a_block_s_many_options_leave_a_gap_of_few_thousandths_of_a_step(void **state)
{
    static const int blocks[] = { 32, 80, 126 };

    (void)state;
    for (int l = 0; l < RP_COUNT(blocks); l++) {
        llama_chain_make(&llama, blocks[l], &llama_8b);
        assert_true(llama.class_of[1].n_options > 100);
        int64_t least = least_budget(ctx, &llama.chain), most = greatest_budget(ctx, &llama.chain);
        for (int share = 15; share <= 95; share += 10) {
            rp_chain_plan plan = solve(ctx, &llama.chain, least + (most - least) / 100 * share);
            check_plan(&llama.chain, &plan, least + (most - least) / 100 * share);
            assert_true(plan.exact);
            assert_true(plan.seconds - plan.bound <= 0.003 * llama.step_seconds);
            rp__chain_plan_free(&plan);
        }
    }
}

/* ---- against what is usual ---- */

/* Block i meets `here` where i % every is `at`, else `elsewhere`. */
static void check_no_worse_than(int every, int at, int here, int elsewhere)
{
    int option[LLAMA_MOST_SEGMENTS] = { 0 };

    for (int i = 1; i + 1 < llama.chain.n; i++) option[i] = i % every == at ? here : elsewhere;
    int64_t bytes      = play(&llama.chain, option, NULL, 0);
    double seconds     = recompute_seconds(&llama.chain, option, NULL, 0);
    rp_chain_plan plan = solve(ctx, &llama.chain, bytes);
    check_plan(&llama.chain, &plan, bytes);
    assert_true(plan.seconds <= seconds * (1 + 1e-12));
    rp__chain_plan_free(&plan);
}

static void no_usual_mode_is_faster_in_the_same_bytes(void **state)
{
    int keep_all, recompute_all = 0;

    (void)state;
    llama_chain_make(&llama, 24, &llama_8b);
    keep_all = llama.class_of[1].n_options - 1;
    assert_true(llama.block[keep_all].seconds == 0);
    assert_int_equal(llama.block[recompute_all].saved, llama.class_of[1].output);
    for (int every = 1; every <= 24; every++)
        for (int at = 0; at < every; at++) {
            check_no_worse_than(every, at, recompute_all, keep_all);
            check_no_worse_than(every, at, keep_all, recompute_all);
        }
    for (int o = 0; o < llama.class_of[1].n_options; o++) check_no_worse_than(1, 0, o, o);
}

/* ---- limits ---- */

/* Seconds that are proportional to bytes leave nearly all plans nearly equal. */
static void make_hard(void)
{
    dice d = { 99 };

    random_chain_make(&drawn, &(chain_sort){ .segments = MOST_SEGMENTS, .classes = MOST_CLASSES, .options = MOST_OPTIONS, .bytes = 1 }, 3);
    drawn.chain.n_classes = MOST_CLASSES;
    for (int k = 0; k < MOST_CLASSES; k++) {
        drawn.segment[k]  = k;
        drawn.class_of[k] = (rp_chain_class){ .option = drawn.option[k], .n_options = MOST_OPTIONS, .bare_seconds = 2e9 };
        for (int o = 0; o < MOST_OPTIONS; o++) {
            int64_t saved      = between(&d, 1, 1000000000);
            double seconds     = 2e9 - (double)saved;
            drawn.option[k][o] = (rp_chain_option){ .saved = saved, .forward = saved, .recompute = saved, .last = saved, .backward = { saved, saved },
                                                    .last_backward = { saved, saved }, .seconds = seconds, .recompute_seconds = 2e9, .last_seconds = 2e9 };
        }
    }
}

/* How many plans say so. */
static int check_hard(int budgets)
{
    int64_t least = least_budget(ctx, &drawn.chain), most = greatest_budget(ctx, &drawn.chain);
    int met       = 0;

    for (int i = 1; i < budgets; i++) {
        int64_t budget     = least + (most - least) / budgets * i;
        rp_chain_plan plan = solve(ctx, &drawn.chain, budget), recompute = solve(ctx, &drawn.chain, budget);
        check_plan(&drawn.chain, &plan, budget);
        check_same(&drawn.chain, &plan, &recompute);
        if (!drawn.chain.regions) assert_true(plan.seconds - plan.bound < 0.0005 * plan.seconds);
        met += !plan.exact;
        rp__chain_plan_free(&plan);
        rp__chain_plan_free(&recompute);
    }
    return met;
}

static void where_the_work_limit_is_met_the_plan_says_so_and_is_a_good_one_still(void **state)
{
    (void)state;
    make_hard();
    assert_true(check_hard(test_few_or(2, 4)) > 0);
    drawn.chain.n       = 24;
    drawn.chain.regions = true;
    for (int k = 0; k < MOST_CLASSES; k++) drawn.class_of[k].output = 50000000;
    assert_true(check_hard(test_few_or(2, 4)) > 0);
}

static rp_status solve_and_free(int64_t budget)
{
    rp_chain_plan plan;
    int64_t least;
    double bound;

    RP_TRY(chain_least(ctx, &drawn.chain, &least));
    RP_TRY(chain_bound(ctx, &drawn.chain, budget, &bound));
    rp_status status = chain_solve(ctx, &drawn.chain, budget, &plan);
    if (status != RP_OK) assert_true(!plan.feasible && !plan.option && !plan.region);
    rp__chain_plan_free(&plan);
    return status;
}

static void whichever_allocation_fails_nothing_is_lost(void **state)
{
    (void)state;
    random_chain_make(&drawn, &(chain_sort){ .segments = 9, .classes = 3, .options = 8, .bytes = 1000 }, 4);
    int64_t budget = (least_budget(ctx, &drawn.chain) + greatest_budget(ctx, &drawn.chain)) / 2;
    until_no_fault_fires(ctx, solve_and_free(budget), (void)0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_are_the_best_of_all_to_the_byte),
        cmocka_unit_test(plans_are_the_fastest_of_all_whatever_seconds_are),
        cmocka_unit_test(no_plan_takes_less_than_the_bound),
        cmocka_unit_test(plans_are_those_of_a_milp),
        cmocka_unit_test(more_memory_never_costs_time_and_a_plan_is_the_same_from_its_bytes_on),
        cmocka_unit_test(a_block_s_many_options_leave_a_gap_of_few_thousandths_of_a_step),
        cmocka_unit_test(no_usual_mode_is_faster_in_the_same_bytes),
        cmocka_unit_test(where_the_work_limit_is_met_the_plan_says_so_and_is_a_good_one_still),
        cmocka_unit_test(whichever_allocation_fails_nothing_is_lost),
    };

    ctx        = test_ctx(NULL);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    test_ctx_free(ctx);
    return failed;
}
