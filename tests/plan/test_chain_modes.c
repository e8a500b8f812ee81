/* The claims about chains of any length, however irregular: no plan that everybody knows takes less than the reported least budget, nor less time in its
 * bytes than the plan for a budget of as many; and no budget above the least is refused. */
/* ctest: device-free thread-free cost=17 */
#include "chain_test.h"

#include <math.h>

static rp_ctx *ctx;
static random_chain drawn;

static int n_chains(void) { return test_few_or(8, 200); }

typedef struct { const char *name; int every, together; } mode;

static const mode modes[] = {
    { "none", 0, 0 },        { "each layer", 1, 1 },  { "every 2nd", 2, 1 }, { "every 3rd", 3, 1 },
    { "every 4th", 4, 1 },   { "every 5th", 5, 1 },   { "every 6th", 6, 1 }, { "every 7th", 7, 1 },
    { "every 8th", 8, 1 },   { "the root", 1, -1 },
};

/* Layers are 0 … n-1, without a gap. */
static int n_layers(void) { return drawn.layer[drawn.chain.n - 2] + 1; }

static int first_of(int layer)
{
    int i = 0;

    while (i + 1 < drawn.chain.n && drawn.layer[i] < layer) i++;
    return i;
}

static int end_of(int layer) { return layer + 1 < n_layers() ? first_of(layer + 1) : drawn.chain.n - 1; }

/* Every segment meets option 0, which runs nothing again. Returns how many regions. */
static int regions_of(const mode *m, rp_chain_region *region)
{
    int n = 0, together = m->together < 0 ? (int)ceil(sqrt(n_layers())) : m->together;

    for (int layer = m->every - 1; m->every && layer < n_layers(); layer += m->every > 1 ? m->every : together) {
        int last    = layer + together - 1 < n_layers() ? layer + together - 1 : n_layers() - 1;
        region[n++] = (rp_chain_region){ first_of(layer), end_of(last), -1 };
    }
    return n;
}

static void check_mode(rp_chain_solver *solver, const mode *m, int seed)
{
    static const int keep[MOST_SEGMENTS];
    rp_chain_region region[MOST_REGIONS];
    int n          = regions_of(m, region);
    int64_t bytes  = play(&drawn.chain, keep, region, n);
    double seconds = recompute_seconds(&drawn.chain, keep, region, n);
    rp_chain_plan plan;

    assert_ok(ctx, rp__chain_solver_solve(solver, bytes, &plan));
    if (!plan.feasible || rp__chain_solver_least(solver) > bytes || plan.seconds > seconds * (1 + 1e-12))
        fail_msg("seed %d, %d segments: %s takes %lld bytes, the least is %lld, and %.17g s; the plan takes %.17g", seed, drawn.chain.n, m->name,
                 (long long)bytes, (long long)rp__chain_solver_least(solver), seconds, plan.seconds);
    check_plan(&drawn.chain, &plan, bytes);
    rp__chain_plan_free(&plan);
}

static void check_least(rp_chain_solver *solver)
{
    int64_t least = rp__chain_solver_least(solver);
    rp_chain_plan plan;

    assert_ok(ctx, rp__chain_solver_solve(solver, least, &plan));
    check_plan(&drawn.chain, &plan, least);
    rp__chain_plan_free(&plan);
    assert_ok(ctx, rp__chain_solver_solve(solver, least - 1, &plan));
    assert_false(plan.feasible);
    rp__chain_plan_free(&plan);
}

static void no_mode_is_better_on_any_chain(void **state)
{
    (void)state;
    for (int seed = 0; seed < n_chains(); seed++) {
        rp_chain_solver *solver;
        int segments = 3 + (seed * 61 + 195) % 198;
        random_chain_make(&drawn, &(chain_sort){ .segments = segments, .classes = seed % 3 ? 4 : 40, .options = 8, .bytes = 1000003, .regions = true,
                                                 .layers = true }, (uint64_t)seed + 70);
        assert_ok(ctx, rp__chain_solver_open(ctx, &drawn.chain, &solver));
        check_least(solver);
        for (int m = 0; m < RP_COUNT(modes); m++) check_mode(solver, &modes[m], seed);
        rp__chain_solver_close(solver);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(no_mode_is_better_on_any_chain) };

    ctx        = test_ctx(NULL);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    test_ctx_free(ctx);
    return failed;
}
