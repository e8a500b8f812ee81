/* Claims about placement, on drawn buffers; those on the traces of training are test_place_steps.c's. */
/* ctest: device-free thread-free cost=17 */
#include "place_test.h"

#include "place/internal.h"

static uint32_t draws(void) { return (uint32_t)test_few_or(60, 600); }
enum { MOST = 4096 };

static rp_ctx *shapes(void) { return test_ctx(&(rp_ctx_options){ .threads = 1, .shapes_only = true }); }

static void add(rp_place_buffer *b, int *n, int64_t lines, int begin, int end)
{
    b[(*n)++] = (rp_place_buffer){ .bytes = lines * RP_ALIGN, .begin = begin, .end = end, .offset = -1 };
}

/* ---- little ---- */

static void nothing_takes_nothing(void **state)
{
    rp_place_buffer empty[] = { { 0, 0, 5, -1 }, { 0, 2, 3, -1 } };
    rp_ctx *ctx             = shapes();

    (void)state;
    assert_int_equal(place_checked(ctx, "no buffers", NULL, 0).height, 0);
    assert_int_equal(place_checked(ctx, "no bytes", empty, 2).height, 0);
    test_ctx_free(ctx);
}

static void one_after_the_other_share_a_place(void **state)
{
    rp_place_buffer b[] = { { 640, 0, 4, -1 }, { 640, 4, 6, -1 }, { 64, 3, 5, -1 }, { 0, 0, 9, -1 } };
    rp_ctx *ctx         = shapes();

    (void)state;
    assert_int_equal(place_checked(ctx, "in turn", b, 4).height, 704);
    assert_int_equal(b[0].offset, b[1].offset);
    test_ctx_free(ctx);
}

/* ---- shapes that waste nothing ---- */

/* Between two events, one buffer and then others within it; every set of nested lives is drawn this way. */
static void draw_nested(uint32_t *seed, rp_place_buffer *b, int *n, int begin, int end)
{
    while (end - begin >= 2 && *n < 400 && place_draw(seed, 8)) {
        int from = begin + (int)place_draw(seed, end - begin), to = from + 1 + (int)place_draw(seed, end - from);
        add(b, n, 1 + place_draw(seed, 1000), from, to);
        draw_nested(seed, b, n, from, to);
        begin = to;
    }
}

static void nested_lives_waste_nothing(void **state)
{
    static rp_place_buffer b[MOST];
    rp_ctx *ctx = shapes();

    (void)state;
    for (uint32_t draw = 0; draw < draws(); draw++) {
        uint32_t seed = draw;
        int n         = 0;
        add(b, &n, 1, 0, 1000);
        draw_nested(&seed, b, &n, 0, 1000);
        rp_placement p = place_checked(ctx, "nested", b, n);
        if (p.height != p.bound) fail_msg("draw %u: %d nested lives, %" PRId64 " over %" PRId64, draw, n, p.height, p.bound);
    }
    test_ctx_free(ctx);
}

/* What a forward saves goes while gradients come, which stay; each micro-batch saves anew. */
static void a_stack_and_the_gradients_that_cross_it_waste_nothing(void **state)
{
    static rp_place_buffer b[MOST];
    rp_ctx *ctx = shapes();

    (void)state;
    for (uint32_t draw = 0; draw < draws(); draw++) {
        uint32_t seed = draw + 77;
        int layers = 1 + (int)place_draw(&seed, 40), micro = 1 + (int)place_draw(&seed, 3), length = 2 * layers, n = 0;
        for (int m = 0; m < micro; m++)
            for (int l = 0; l < layers; l++) add(b, &n, 1 + place_draw(&seed, 500), m * length + l, (m + 1) * length - l);
        for (int l = 0; l < layers; l++) add(b, &n, 1 + place_draw(&seed, 500), 2 * layers - 1 - l, micro * length + 1 + (int)place_draw(&seed, layers));
        rp_placement p = place_checked(ctx, "crossing", b, n);
        if (p.height != p.bound) fail_msg("draw %u: %d layers, %d times: %" PRId64 " over %" PRId64, draw, layers, micro, p.height, p.bound);
    }
    test_ctx_free(ctx);
}

/* ---- any shapes ---- */

static int draw_any(uint32_t *seed, rp_place_buffer *b, int n, int events, int lines)
{
    for (int i = 0, at = 0; i < n; i++) {
        int begin = (int)place_draw(seed, events), life = place_draw(seed, 4) ? 1 + events / 8 : events;
        add(b, &at, place_draw(seed, 6) ? 1 + place_draw(seed, lines) : place_draw(seed, 2), begin, begin + 1 + (int)place_draw(seed, life));
    }
    return n;
}

/* Least height of all orders of first fit, which some best placement is. */
static int64_t least_height(const rp_place_buffer *b, int n, rp_place_buffer *done, int n_done, unsigned used, int64_t height, int64_t least)
{
    if (n_done == n) return height;
    for (int i = 0; i < n; i++) {
        if (used & 1u << i) continue;
        rp_place_buffer *here = &done[n_done];
        *here                 = b[i];
        here->offset          = 0;
        for (bool moved = true; moved;) {
            moved = false;
            for (int k = 0; k < n_done; k++) {
                const rp_place_buffer *d = &done[k];
                if (d->begin >= here->end || here->begin >= d->end || d->offset >= here->offset + here->bytes || here->offset >= d->offset + d->bytes) continue;
                here->offset = d->offset + d->bytes;
                moved        = true;
            }
        }
        int64_t end = here->offset + here->bytes > height ? here->offset + here->bytes : height;
        if (end >= least) continue;
        int64_t found = least_height(b, n, done, n_done + 1, used | 1u << i, end, least);
        if (found < least) least = found;
    }
    return least;
}

static void few_buffers_are_placed_as_well_as_can_be(void **state)
{
    rp_ctx *ctx = shapes();

    (void)state;
    for (uint32_t draw = 0; draw < draws(); draw++) {
        uint32_t seed = draw + 4242;
        rp_place_buffer b[8], done[8];
        char name[32];
        int n         = draw_any(&seed, b, 2 + (int)place_draw(&seed, 7), 12, 9);
        snprintf(name, sizeof name, "draw %u", draw);
        int64_t least = least_height(b, n, done, 0, 0, 0, INT64_MAX);
        rp_placement p = place_checked(ctx, name, b, n);
        if (p.height != least) fail_msg("%s: %" PRId64 ", and %" PRId64 " can be had", name, p.height, least);
    }
    test_ctx_free(ctx);
}

/* What no trace looks like is placed, too, in work that is bounded; the bound need not be to be had. */
static void whatever_is_drawn_has_places_not_far_above_the_bound(void **state)
{
    static rp_place_buffer b[MOST];
    rp_ctx *ctx = shapes();

    (void)state;
    for (uint32_t draw = 0; draw < draws() / 4; draw++) {
        uint32_t seed = draw + 999;
        char name[32];
        snprintf(name, sizeof name, "draw %u", draw);
        int n          = draw_any(&seed, b, 1 + (int)place_draw(&seed, 300), 2 + (int)place_draw(&seed, 600), 1 + (int)place_draw(&seed, 5000));
        rp_placement p = place_checked(ctx, name, b, n);
        if (p.height > p.bound + p.bound / 10) fail_msg("%s: %d buffers, %" PRId64 " over %" PRId64, name, n, p.height, p.bound);
    }
    test_ctx_free(ctx);
}

static void work_is_bounded_and_the_same_twice(void **state)
{
    static rp_place_buffer b[MOST], recompute[MOST];
    rp_ctx *ctx   = shapes();
    uint32_t seed = 5;

    (void)state;
    int n = draw_any(&seed, b, RP_COUNT(b), RP_COUNT(b), 5000);
    memcpy(recompute, b, sizeof b);
    rp_placement p = place_checked(ctx, "dense", b, n), q = place_checked(ctx, "dense", recompute, n);
    assert_true(p.height > p.bound && p.work < 1000000);
    assert_true(p.bound == q.bound && p.height == q.height && p.placed == q.placed && p.work == q.work);
    assert_memory_equal(b, recompute, sizeof b);
    test_ctx_free(ctx);
}

/* Items of drawn lives in the order of their numbers, below a roof that holds them all. */
static void draw_items(uint32_t *seed, place_problem *p)
{
    for (int i = 0; i < p->n; i++) {
        int first  = (int)place_draw(seed, p->n_instants), more = (int)place_draw(seed, p->n_instants - first);
        p->item[i] = (place_item){ .bytes = (1 + place_draw(seed, 9)) * RP_ALIGN, .first = first, .last = first + more, .buffer = i, .high = i % 3 == 0 };
        p->roof += p->item[i].bytes;
        p->order[i] = &p->item[i];
    }
}

static void a_greedy_pass_begins_in_an_empty_arena(void **state)
{
    enum { ITEMS = 40 };
    place_item item[ITEMS], first[ITEMS], *order[ITEMS];
    rp_ctx *ctx = shapes();

    (void)state;
    for (uint32_t draw = 0; draw < draws() / 12; draw++) {
        place_problem p = { .bump = { .ctx = ctx }, .item = item, .order = order, .n = ITEMS, .n_instants = 30 };
        uint32_t seed   = draw + 3;
        draw_items(&seed, &p);
        assert_ok(ctx, rp__place_room_new(&p));
        for (int pass = 0; pass < 3; pass++) {
            assert_ok(ctx, rp__place_greedy(&p, 1));
            if (!pass) memcpy(first, item, sizeof item);
            for (int i = 0; i < ITEMS; i++)
                if (item[i].offset != first[i].offset) fail_msg("draw %u, pass %d: item %d has moved", draw, pass, i);
        }
        rp__bump_free(&p.bump);
    }
    test_ctx_free(ctx);
}

/* ---- what is fixed ---- */

/* Side by side with holes between them; some go early. */
static int draw_fixed(uint32_t *seed, rp_place_buffer *b, int n, int events)
{
    int64_t at = 0;

    for (int i = 0; i < n; i++) {
        at += (int64_t)place_draw(seed, 3) * (int64_t)place_draw(seed, 40) * RP_ALIGN;
        b[i] = (rp_place_buffer){ .bytes = (1 + place_draw(seed, 60)) * RP_ALIGN, .offset = at };
        at += b[i].bytes;
        b[i].end = place_draw(seed, 3) ? events + 1 : 1 + (int)place_draw(seed, events);
    }
    return n;
}

static void what_is_fixed_stays_and_nobody_lies_in_it(void **state)
{
    static rp_place_buffer b[MOST];
    rp_ctx *ctx = shapes();

    (void)state;
    for (uint32_t draw = 0; draw < draws() / 12; draw++) {
        uint32_t seed = draw + 31;
        char name[32];
        snprintf(name, sizeof name, "draw %u", draw);
        int events = 2 + (int)place_draw(&seed, 100), n = draw_fixed(&seed, b, (int)place_draw(&seed, 12), events);
        n += draw_any(&seed, b + n, (int)place_draw(&seed, 60), events, 50);
        place_checked(ctx, name, b, n);
    }
    test_ctx_free(ctx);
}

static void holes_between_what_is_fixed_are_used(void **state)
{
    rp_place_buffer b[] = { { 640, 0, 9, 0 }, { 640, 0, 9, 1280 }, { 64, 0, 4, 1920 }, { 640, 1, 5, -1 }, { 64, 5, 9, -1 } };
    rp_ctx *ctx         = shapes();

    (void)state;
    rp_placement p = place_checked(ctx, "holes", b, 5);
    assert_int_equal(p.height, 1984);
    assert_int_equal(p.bound, 1984);
    assert_int_equal(b[3].offset, 640);
    test_ctx_free(ctx);
}

/* ---- a height that is asked for ---- */

static void who_asks_for_less_than_is_live_is_refused_without_a_try(void **state)
{
    rp_place_buffer b[120], before[120];
    rp_ctx *ctx = shapes();
    rp_placement any, asked;

    (void)state;
    for (uint32_t draw = 0; draw < draws() / 12; draw++) {
        uint32_t seed = draw + 5;
        int n         = draw_any(&seed, b, RP_COUNT(b), 60, 5000);
        memcpy(before, b, sizeof b);
        assert_ok(ctx, rp__place(ctx, b, n, RP_PLACE_ANY, &any));
        assert_true(any.placed);
        memcpy(b, before, sizeof b);
        assert_ok(ctx, rp__place(ctx, b, n, any.bound - 1, &asked));
        assert_true(!asked.placed && asked.height > any.bound - 1 && asked.work == 0);
        assert_memory_equal(b, before, sizeof b);
        assert_ok(ctx, rp__place(ctx, b, n, any.bound, &asked));
        if (asked.placed) assert_int_equal(asked.height, any.bound);
        else assert_true(asked.height > any.bound && asked.work < 1000000);
        if (!asked.placed) assert_memory_equal(b, before, sizeof b);
    }
    test_ctx_free(ctx);
}

/* ---- memory ---- */

/* A draw that the bound is not reached for: every way is tried. */
static int draw_hard(rp_ctx *ctx, rp_place_buffer *b, int n)
{
    rp_placement p;

    for (uint32_t draw = 0;; draw++) {
        uint32_t seed = draw;
        draw_any(&seed, b, n, 60, 5000);
        assert_ok(ctx, rp__place(ctx, b, n, RP_PLACE_ANY, &p));
        for (int i = 0; i < n; i++) b[i].offset = -1;
        if (p.height > p.bound) return n;
    }
}

static void without_memory_nothing_is_placed(void **state)
{
    rp_place_buffer b[120], before[120];
    rp_ctx *ctx = shapes();
    rp_placement out;
    test_faults f = { .each = test_few_or(4, 15) };
    int n         = draw_hard(ctx, b, RP_COUNT(b));

    (void)state;
    memcpy(before, b, sizeof b);
    while (!f.over) {
        test_fault_begin(&f, ctx);
        if (test_fault_end(&f, rp__place(ctx, b, n, RP_PLACE_ANY, &out))) assert_memory_equal(b, before, sizeof b);
    }
    assert_true(f.failed > test_few_or(10, 40));
    place_check("after all", before, b, n, &out);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_takes_nothing),
        cmocka_unit_test(who_asks_for_less_than_is_live_is_refused_without_a_try),
        cmocka_unit_test(one_after_the_other_share_a_place),
        cmocka_unit_test(nested_lives_waste_nothing),
        cmocka_unit_test(a_stack_and_the_gradients_that_cross_it_waste_nothing),
        cmocka_unit_test(few_buffers_are_placed_as_well_as_can_be),
        cmocka_unit_test(whatever_is_drawn_has_places_not_far_above_the_bound),
        cmocka_unit_test(work_is_bounded_and_the_same_twice),
        cmocka_unit_test(a_greedy_pass_begins_in_an_empty_arena),
        cmocka_unit_test(what_is_fixed_stays_and_nobody_lies_in_it),
        cmocka_unit_test(holes_between_what_is_fixed_are_used),
        cmocka_unit_test(without_memory_nothing_is_placed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
