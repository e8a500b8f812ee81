/* Claims about the lower bound by minimum cuts: against all subsets, against a recurrence on long chains, and what its points mean. */
/* ctest: device-free thread-free */
#include "rp_test.h"

#include <math.h>

#include "solve/cut.h"

enum { ROOM = 4096, SMALL = 12, N_GRAPHS = 300, N_PRICES = 60 };

/* ---- graphs ---- */

typedef struct {
    rp_cut cut;
    int64_t bytes[ROOM];
    int call[ROOM], first_read[ROOM + 1], read[3 * ROOM];
    bool needed[ROOM], fixed[ROOM];
    double seconds[ROOM];
} graph;

static graph *graph_new(void)
{
    graph *g = calloc(1, sizeof *g);

    assert_non_null(g);
    g->cut = (rp_cut){ .bytes = g->bytes, .call = g->call, .needed = g->needed, .fixed = g->fixed, .seconds = g->seconds,
                       .first_read = g->first_read, .read = g->read };
    return g;
}

static int add_value(graph *g, int call, int64_t bytes, bool needed)
{
    int v = g->cut.n_values++;

    assert_true(v < ROOM);
    g->bytes[v]  = bytes;
    g->call[v]   = call;
    g->needed[v] = needed;
    return v;
}

/* It reads up to two values; -1: none. */
static int add_call(graph *g, double seconds, int a, int b)
{
    int c = g->cut.n_calls++, at = g->first_read[c];

    g->seconds[c] = seconds;
    if (a >= 0) g->read[at++] = a;
    if (b >= 0) g->read[at++] = b;
    g->first_read[c + 1] = at;
    return c;
}

static unsigned draw(unsigned *seed, unsigned below)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (unsigned)(((uint64_t)*seed * below) >> 32);
}

/* Calls of one to three values that read up to two earlier ones; leaves, fixed values, calls that cost nothing or cannot be rerun.
 * Seconds are eighths, so that sums are exact, or anything. */
static graph *random_graph(unsigned seed, bool eighths)
{
    graph *g = graph_new();
    unsigned s = seed * 2654435761u + 17;

    while (g->cut.n_values < SMALL) {
        int n = g->cut.n_values, c = -1, made = 1 + (int)draw(&s, 3);
        if (draw(&s, 8)) {
            double seconds = eighths ? draw(&s, 40) / 8.0 : draw(&s, 1u << 30) / 1e9;
            c = add_call(g, draw(&s, 10) ? seconds : draw(&s, 2) ? INFINITY : 0, n ? (int)draw(&s, (unsigned)n) : -1,
                         n && draw(&s, 2) ? n - 1 : -1);
        }
        for (int i = 0; i < made && g->cut.n_values < SMALL; i++) {
            int v       = add_value(g, c, draw(&s, 8), draw(&s, 2));
            g->fixed[v] = !draw(&s, 10);
        }
    }
    return g;
}

/* ---- what a set costs ---- */

static bool is_free(const graph *g, int v) { return g->call[v] < 0 || g->fixed[v]; }

/* Mark the calls that must be rerun if these values are kept. Calls that they read stand further up. False: one of them cannot be rerun. */
static bool follow(const graph *g, const bool *kept, bool *runs)
{
    bool asked[ROOM];

    memcpy(asked, g->needed, sizeof asked);
    memset(runs, 0, ROOM * sizeof *runs);
    for (int v = g->cut.n_values - 1; v >= 0; v--) {
        int c = g->call[v];
        if (!asked[v] || kept[v] || is_free(g, v) || runs[c]) continue;
        if (isinf(g->seconds[c])) return false;
        runs[c] = true;
        for (int i = g->first_read[c]; i < g->first_read[c + 1]; i++) asked[g->read[i]] = true;
    }
    return true;
}

typedef struct { int64_t bytes; long double seconds; } cost;
typedef struct { int n; cost set[1 << SMALL]; } costs;

static bool cost_of(const graph *g, unsigned set, cost *out)
{
    bool kept[ROOM] = { 0 }, runs[ROOM];

    *out = (cost){ 0 };
    for (int v = 0; v < g->cut.n_values; v++) {
        if (!(set >> v & 1)) continue;
        if (is_free(g, v)) return false;
        kept[v] = true;
        out->bytes += g->bytes[v];
    }
    if (!follow(g, kept, runs)) return false;
    for (int c = 0; c < g->cut.n_calls; c++) out->seconds += runs[c] ? g->seconds[c] : 0;
    return true;
}

static void all_costs(const graph *g, costs *out)
{
    out->n = 0;
    for (unsigned set = 0; set < 1u << g->cut.n_values; set++)
        if (cost_of(g, set, &out->set[out->n])) out->n++;
}

static long double cheapest(const costs *all, double price)
{
    long double best = HUGE_VALL;

    for (int i = 0; i < all->n; i++) best = fminl(best, all->set[i].seconds + (long double)price * (long double)all->set[i].bytes);
    return best;
}

static double cheapest_point(const rp_cut_hull *hull, double price)
{
    double best = HUGE_VAL;

    for (int k = 0; k < hull->n_points; k++) best = fmin(best, hull->point[k].seconds + price * (double)hull->point[k].bytes);
    return best;
}

/* ---- against all subsets ---- */

static void at_every_price_no_set_is_cheaper_than_the_hulls_and_one_is_as_cheap(void **state)
{
    rp_ctx *ctx = test_ctx(NULL);
    costs *all  = malloc(sizeof *all);
    unsigned s  = 5;

    (void)state;
    for (unsigned i = 0; i < N_GRAPHS; i++) {
        graph *g = random_graph(i, true);
        rp_cut_hull hull;
        all_costs(g, all);
        assert_ok(ctx, rp__cut_hull(ctx, &g->cut, &hull));
        for (int k = 0; k < N_PRICES; k++) {
            double price = (double)draw(&s, k % 2 ? 64 : 2048) / 64;      /* eighths, 64ths and bytes: no rounding anywhere */
            assert_true(cheapest_point(&hull, price) == cheapest(all, price));
        }
        rp__cut_hull_free(&hull);
        free(g);
    }
    free(all);
    test_ctx_free(ctx);
}

/* The fewest seconds of a set that fits. */
static long double optimum(const costs *all, int64_t capacity)
{
    long double best = HUGE_VALL;

    for (int i = 0; i < all->n; i++)
        if (all->set[i].bytes <= capacity) best = fminl(best, all->set[i].seconds);
    return best;
}

/* The lower hull of all sets, the slow way: the lowest line over `capacity` from a set that fits to one that does not. */
static long double lowest_line(const costs *all, const long double *least, int64_t most, int64_t capacity)
{
    long double best = optimum(all, capacity);

    for (int64_t a = 0; a <= capacity; a++)
        for (int64_t b = capacity + 1; b <= most; b++)
            if (!isinf(least[a]) && !isinf(least[b]))
                best = fminl(best, least[b] + (least[a] - least[b]) * (long double)(b - capacity) / (long double)(b - a));
    return best;
}

static rp_status cut_bound(rp_ctx *ctx, const rp_cut *cut, int64_t capacity, double *seconds)
{
    rp_cut_hull hull;

    RP_TRY(rp__cut_hull(ctx, cut, &hull));
    *seconds = rp__cut_hull_bound(&hull, capacity);
    rp__cut_hull_free(&hull);
    return RP_OK;
}

static double all_seconds(const graph *g)
{
    double sum = 0;

    for (int c = 0; c < g->cut.n_calls; c++) sum += isinf(g->seconds[c]) ? 0 : g->seconds[c];
    return fmax(sum, 1e-200);
}

static void check_bounds(rp_ctx *ctx, const graph *g, const costs *all)
{
    long double least[SMALL * 8];
    int64_t most = RP_COUNT(least) - 1;
    double before = HUGE_VAL;
    rp_cut_hull hull;

    for (int64_t b = 0; b <= most; b++) least[b] = HUGE_VALL;
    for (int i = 0; i < all->n; i++) least[all->set[i].bytes] = fminl(least[all->set[i].bytes], all->set[i].seconds);
    assert_ok(ctx, rp__cut_hull(ctx, &g->cut, &hull));
    assert_true(hull.quantum <= all_seconds(g) * 0x1p-51);
    for (int64_t capacity = -1; capacity <= most; capacity++) {
        double bound      = rp__cut_hull_bound(&hull, capacity);
        long double exact = lowest_line(all, least, most, capacity);
        assert_true(bound <= before);
        assert_true(bound <= exact * (1 + 1e-18L));
        assert_true(isinf(exact) ? isinf(bound) : exact - bound <= (g->cut.n_calls + 1) * hull.quantum);
        assert_true(bound <= optimum(all, capacity));
        before = bound;
    }
    assert_true(before == 0);
    rp__cut_hull_free(&hull);
}

static void at_every_capacity_the_bound_is_the_hull_of_all_sets_and_none_that_fits_is_below(void **state)
{
    rp_ctx *ctx = test_ctx(NULL);
    costs *all  = malloc(sizeof *all);

    (void)state;
    for (unsigned i = 0; i < N_GRAPHS; i++) {
        graph *g = random_graph(i, i % 2);
        all_costs(g, all);
        check_bounds(ctx, g, all);
        free(g);
    }
    free(all);
    test_ctx_free(ctx);
}

/* ---- what points mean ---- */

static void check_corners(const rp_cut_hull *hull)
{
    const rp_cut_point *p = hull->point;

    assert_true(p[0].seconds == 0);
    for (int k = 1; k < hull->n_points; k++) {
        assert_true(p[k].bytes < p[k - 1].bytes && p[k].seconds > p[k - 1].seconds);
        if (k < 2) continue;
        double steep = (p[k].seconds - p[k - 1].seconds) * (double)(p[k - 2].bytes - p[k - 1].bytes);
        assert_true(steep > (p[k - 1].seconds - p[k - 2].seconds) * (double)(p[k - 1].bytes - p[k].bytes));
    }
}

static void points_are_corners_of_a_hull(void **state)
{
    rp_ctx *ctx  = test_ctx(NULL);
    int n_points = 0;

    (void)state;
    for (unsigned i = 0; i < N_GRAPHS; i++) {
        graph *g = random_graph(i, true);
        rp_cut_hull hull;
        assert_ok(ctx, rp__cut_hull(ctx, &g->cut, &hull));
        check_corners(&hull);
        n_points += hull.n_points;
        rp__cut_hull_free(&hull);
        free(g);
    }
    assert_true(n_points > 2 * N_GRAPHS);
    test_ctx_free(ctx);
}

/* ---- long graphs ---- */

/* Call i reads the values i-1 and i-2, if it does. */
static graph *random_chain(unsigned seed, int n)
{
    graph *g = graph_new();

    for (int i = 0; i < n; i++) {
        double seconds = draw(&seed, 25) ? draw(&seed, 64) / 8.0 : INFINITY;
        int c = add_call(g, seconds, i > 0 ? i - 1 : -1, i > 1 && draw(&seed, 3) ? i - 2 : -1);
        add_value(g, c, draw(&seed, 64), draw(&seed, 5) < 2);
    }
    return g;
}

/* least[near][far]: of the values before i, where i-1 is asked for by what runs behind it, and i-2. */
static double recurrence(const graph *g, double price)
{
    double least[2][2] = { 0 };

    for (int i = 0; i < g->cut.n_values; i++) {
        double before[2][2];
        bool two = g->first_read[i + 1] - g->first_read[i] > 1;
        memcpy(before, least, sizeof before);
        for (int near = 0; near < 2; near++)
            for (int far = 0; far < 2; far++) {
                double keep = before[far][0] + price * (double)g->bytes[i];
                double recompute = g->seconds[i] + before[1][two];
                least[near][far] = near || g->needed[i] ? fmin(keep, recompute) : before[far][0];
            }
    }
    return least[0][0];
}

static void long_chains_match_a_recurrence(void **state)
{
    rp_ctx *ctx = test_ctx(NULL);
    unsigned s  = 7;

    (void)state;
    for (unsigned i = 0; i < 30; i++) {
        graph *g = random_chain(i, 400);
        rp_cut_hull hull;
        assert_ok(ctx, rp__cut_hull(ctx, &g->cut, &hull));
        assert_true(hull.n_points > 10);
        check_corners(&hull);
        for (int k = 0; k < N_PRICES; k++) {
            double price = (double)draw(&s, 256) / 64;
            assert_true(cheapest_point(&hull, price) == recurrence(g, price));
        }
        rp__cut_hull_free(&hull);
        free(g);
    }
    test_ctx_free(ctx);
}

static graph *copies(const graph *one, int n)
{
    graph *g = graph_new();

    for (int i = 0; i < n; i++) {
        int v0 = g->cut.n_values, c0 = g->cut.n_calls;
        for (int c = 0; c < one->cut.n_calls; c++) {
            const int *read = one->read + one->first_read[c];
            int reads       = one->first_read[c + 1] - one->first_read[c];
            add_call(g, one->seconds[c], reads > 0 ? v0 + read[0] : -1, reads > 1 ? v0 + read[1] : -1);
        }
        for (int v = 0; v < one->cut.n_values; v++) {
            g->fixed[v0 + v] = one->fixed[v];
            add_value(g, one->call[v] < 0 ? -1 : c0 + one->call[v], one->bytes[v], one->needed[v]);
        }
    }
    return g;
}

static void equal_blocks_have_the_points_of_one_that_many_times(void **state)
{
    rp_ctx *ctx = test_ctx(NULL);

    (void)state;
    for (unsigned i = 0; i < 20; i++) {
        graph *one = random_graph(i, true), *many = copies(one, 128);
        rp_cut_hull a, b;
        assert_ok(ctx, rp__cut_hull(ctx, &one->cut, &a));
        assert_ok(ctx, rp__cut_hull(ctx, &many->cut, &b));
        assert_int_equal(a.n_points, b.n_points);
        for (int k = 0; k < a.n_points; k++) {
            assert_int_equal(128 * a.point[k].bytes, b.point[k].bytes);
            assert_true(128 * a.point[k].seconds == b.point[k].seconds);
        }
        rp__cut_hull_free(&a);
        rp__cut_hull_free(&b);
        free(one);
        free(many);
    }
    test_ctx_free(ctx);
}

/* ---- by hand ---- */

static void a_unit_chain_recomputes_the_values_that_it_does_not_keep(void **state)
{
    rp_ctx *ctx = test_ctx(NULL);
    graph *g    = graph_new();
    double seconds;

    (void)state;
    for (int i = 0; i < 50; i++) add_value(g, add_call(g, 1, i - 1, -1), 64, true);
    for (int kept = 0; kept <= 50; kept++) {
        assert_ok(ctx, cut_bound(ctx, &g->cut, 64 * kept, &seconds));
        assert_true(seconds == 50 - kept);
    }
    free(g);
    test_ctx_free(ctx);
}

static void a_narrow_value_before_a_wide_one_is_kept_instead_of_it(void **state)
{
    rp_ctx *ctx = test_ctx(NULL);
    graph *g    = graph_new();
    rp_cut_hull hull;

    (void)state;
    int first  = add_value(g, add_call(g, 100, -1, -1), 1000, false);
    int narrow = add_value(g, add_call(g, 100, first, -1), 10, false);
    add_value(g, add_call(g, 2, narrow, -1), 2000, true);
    assert_ok(ctx, rp__cut_hull(ctx, &g->cut, &hull));
    assert_int_equal(hull.n_points, 3);
    assert_int_equal(hull.point[0].bytes, 2000);
    assert_int_equal(hull.point[1].bytes, 10);
    assert_true(hull.point[1].seconds == 2);
    assert_int_equal(hull.point[2].bytes, 0);
    assert_true(hull.point[2].seconds == 202);
    rp__cut_hull_free(&hull);
    free(g);
    test_ctx_free(ctx);
}

static void a_call_makes_all_its_values_at_its_price_once(void **state)
{
    rp_ctx *ctx = test_ctx(NULL);
    graph *g    = graph_new();
    rp_cut_hull hull;

    (void)state;
    int c = add_call(g, 3, -1, -1);
    for (int i = 0; i < 3; i++) add_value(g, c, 100, true);
    assert_ok(ctx, rp__cut_hull(ctx, &g->cut, &hull));
    assert_int_equal(hull.n_points, 2);
    assert_int_equal(hull.point[0].bytes, 300);
    assert_int_equal(hull.point[1].bytes, 0);
    assert_true(hull.point[1].seconds == 3);
    assert_true(rp__cut_hull_bound(&hull, 200) == 1);
    rp__cut_hull_free(&hull);
    free(g);
    test_ctx_free(ctx);
}

static void a_call_that_takes_next_to_nothing_of_the_step_is_not_free(void **state)
{
    rp_ctx *ctx = test_ctx(NULL);
    graph *g    = graph_new();
    rp_cut_hull hull;

    (void)state;
    add_value(g, add_call(g, 0x1p40, -1, -1), 1 << 20, true);
    add_value(g, add_call(g, 0x1p-10, -1, -1), 1 << 20, true);
    assert_ok(ctx, rp__cut_hull(ctx, &g->cut, &hull));
    assert_int_equal(hull.n_points, 3);
    assert_true(hull.point[1].seconds == 0x1p-10);
    assert_true(rp__cut_hull_bound(&hull, 2 << 20) == 0);
    rp__cut_hull_free(&hull);
    free(g);
    test_ctx_free(ctx);
}

static void below_what_nothing_may_make_again_nothing_fits(void **state)
{
    rp_ctx *ctx = test_ctx(NULL);
    graph *g    = graph_new();
    double seconds;

    (void)state;
    int leaf  = add_value(g, -1, 1 << 20, true);
    int drawn = add_value(g, add_call(g, INFINITY, leaf, -1), 100, false);
    add_value(g, add_call(g, 1, drawn, -1), 1000, true);
    assert_ok(ctx, cut_bound(ctx, &g->cut, 99, &seconds));
    assert_true(seconds == HUGE_VAL);
    assert_ok(ctx, cut_bound(ctx, &g->cut, 100, &seconds));
    assert_true(seconds == 1);
    assert_ok(ctx, cut_bound(ctx, &g->cut, 1000, &seconds));
    assert_true(seconds == 0);
    g->fixed[drawn] = true;             /* its bytes are counted elsewhere */
    assert_ok(ctx, cut_bound(ctx, &g->cut, 0, &seconds));
    assert_true(seconds == 1);
    assert_ok(ctx, cut_bound(ctx, &g->cut, -1, &seconds));
    assert_true(seconds == HUGE_VAL);
    free(g);
    test_ctx_free(ctx);
}

static void a_step_without_calls_needs_nothing(void **state)
{
    rp_ctx *ctx = test_ctx(NULL);
    graph *g    = graph_new();
    rp_cut_hull hull;

    (void)state;
    assert_ok(ctx, rp__cut_hull(ctx, &g->cut, &hull));
    assert_int_equal(hull.n_points, 1);
    assert_true(rp__cut_hull_bound(&hull, 0) == 0);
    assert_true(rp__cut_hull_bound(&hull, -1) == HUGE_VAL);
    rp__cut_hull_free(&hull);
    free(g);
    test_ctx_free(ctx);
}

static void a_failing_allocation_is_reported_and_leaves_the_output_alone(void **state)
{
    rp_ctx *ctx       = test_ctx(NULL);
    graph *g          = random_chain(3, 40);
    test_faults hulls = { 0 };

    (void)state;
    while (!hulls.over) {
        rp_cut_hull hull = { .n_points = -7 };
        test_fault_begin(&hulls, ctx);
        if (!test_fault_end(&hulls, rp__cut_hull(ctx, &g->cut, &hull))) rp__cut_hull_free(&hull);
        else assert_true(hull.n_points == -7 && !hull.point);
    }
    assert_true(hulls.failed > 8);
    free(g);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(at_every_price_no_set_is_cheaper_than_the_hulls_and_one_is_as_cheap),
        cmocka_unit_test(at_every_capacity_the_bound_is_the_hull_of_all_sets_and_none_that_fits_is_below),
        cmocka_unit_test(points_are_corners_of_a_hull),
        cmocka_unit_test(long_chains_match_a_recurrence),
        cmocka_unit_test(equal_blocks_have_the_points_of_one_that_many_times),
        cmocka_unit_test(a_unit_chain_recomputes_the_values_that_it_does_not_keep),
        cmocka_unit_test(a_narrow_value_before_a_wide_one_is_kept_instead_of_it),
        cmocka_unit_test(a_call_makes_all_its_values_at_its_price_once),
        cmocka_unit_test(a_call_that_takes_next_to_nothing_of_the_step_is_not_free),
        cmocka_unit_test(below_what_nothing_may_make_again_nothing_fits),
        cmocka_unit_test(a_step_without_calls_needs_nothing),
        cmocka_unit_test(a_failing_allocation_is_reported_and_leaves_the_output_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
