/* Claims about attention that hold at every level and in both dtypes: which numbers dropout draws, that bits do not depend on who has
 * the team, how far a NaN reaches. */
/* ctest: level-free */
#include "rp_test.h"

#include "base/team.h"
#include "kernels/kernels.h"

#include <math.h>

enum { Q, K, V, OUT, G, DQ, DK, DV, N_PARTS };

typedef struct { rp_attention a; const rp_kernels *level; int64_t n[N_PARTS]; } call;

static rp_attention_part *part_of(rp_attention *a, int part)
{
    rp_attention_part *all[N_PARTS] = { &a->q, &a->k, &a->v, &a->out, &a->grad_out, &a->dq, &a->dk, &a->dv };

    return all[part];
}

static bool of_keys(int part) { return part == K || part == V || part == DK || part == DV; }

static int64_t place(const call *c, int part, int64_t b, int64_t row, int64_t head)
{
    int64_t heads = of_keys(part) ? c->a.kv_heads : c->a.heads, rows = of_keys(part) ? c->a.keys : c->a.queries;

    return ((b * rows + row) * heads + head) * c->a.dim;
}

static void put(call *c, int part, int64_t at, float value)
{
    const rp_attention_part *p = part_of(&c->a, part);

    if (p->dtype == RP_F32) ((float *)p->data)[at] = value;
    else ((uint16_t *)p->data)[at] = rp__bf16_from_f32(value);
}

static float get(const call *c, int part, int64_t at)
{
    rp_attention a             = c->a;
    const rp_attention_part *p = part_of(&a, part);

    return p->dtype == RP_F32 ? ((const float *)p->data)[at] : rp__f32_from_bf16(((const uint16_t *)p->data)[at]);
}

static call call_new(const rp_kernels *level, rp_dtype dtype, rp_attention shape)
{
    call c        = { .a = shape, .level = level };
    unsigned seed = 11;
    int64_t forward, backward;

    for (int i = 0; i < N_PARTS; i++) {
        int64_t heads = of_keys(i) ? shape.kv_heads : shape.heads, rows = of_keys(i) ? shape.keys : shape.queries;
        c.n[i]        = shape.batch * rows * heads * shape.dim;
        *part_of(&c.a, i) = (rp_attention_part){ .dtype = dtype, .data = calloc((size_t)c.n[i], sizeof(float)),
                                                 .batch_step = rows * heads * shape.dim, .row_step = heads * shape.dim, .head_step = shape.dim };
        for (int64_t j = 0; j < c.n[i]; j++) {
            seed = seed * 1664525u + 1013904223u;
            put(&c, i, j, (float)(seed >> 8) / 8388608.0f - 1.0f);
        }
    }
    c.a.lse = calloc((size_t)(shape.batch * shape.heads * shape.queries), sizeof(float));
    level->attention_forward_scratch(&c.a, &forward);
    level->attention_backward_scratch(&c.a, &backward);
    c.a.scratch = aligned_alloc(64, (size_t)rp__align_up(forward > backward ? forward : backward));
    return c;
}

static void call_free(call *c)
{
    for (int i = 0; i < N_PARTS; i++) free(part_of(&c->a, i)->data);
    free(c->a.lse);
    free(c->a.scratch);
}

static void call_run(call *c)
{
    c->level->attention_forward(&c->a);
    c->level->attention_backward(&c->a);
}

typedef void claim(const rp_kernels *level, rp_dtype dtype);

static void at_every_level(claim *holds)
{
    const rp_kernels *levels[RP_MAX_LEVELS];
    int n = rp__kernels_levels(levels, RP_MAX_LEVELS);

    for (int l = 0; l < n; l++) {
        holds(levels[l], RP_F32);
        holds(levels[l], RP_BF16);
    }
}

/* ---- dropout ---- */

static bool drawn(const rp_attention *a, int64_t b, int64_t head, int64_t t, int64_t key)
{
    return rp__uniform(rp__stream_word(&a->stream, b, (head * a->queries + t) * a->keys + key)) >= a->dropout;
}

/* With equal scores, values that are unit vectors show what forward kept, and gradients that are unit vectors what backward kept. */
static void masks_are_drawn(const rp_kernels *level, rp_dtype dtype, int64_t keys)
{
    call c = call_new(level, dtype, (rp_attention){ .batch = 2, .queries = keys, .keys = keys, .heads = 2, .kv_heads = 2, .dim = keys,
                                                    .dropout = 0.3f, .stream = { 77, (int64_t)5 << 32 | 9, (int64_t)3 << 32 }, .on.threads = 2 });

    for (int64_t b = 0; b < 2; b++)
        for (int64_t h = 0; h < 2; h++)
            for (int64_t t = 0; t < keys; t++)
                for (int64_t d = 0; d < keys; d++) {
                    put(&c, V, place(&c, V, b, t, h) + d, t == d);
                    put(&c, G, place(&c, G, b, t, h) + d, t == d);
                }
    call_run(&c);
    for (int64_t b = 0; b < 2; b++)
        for (int64_t h = 0; h < 2; h++)
            for (int64_t t = 0; t < keys; t++)
                for (int64_t key = 0; key < keys; key++) {
                    bool kept = drawn(&c.a, b, h, t, key);
                    assert_int_equal(kept, get(&c, OUT, place(&c, OUT, b, t, h) + key) != 0);
                    assert_int_equal(kept, get(&c, DV, place(&c, DV, b, key, h) + t) != 0);
                }
    call_free(&c);
}

static void masks_of_some_lengths(const rp_kernels *level, rp_dtype dtype)
{
    for (int64_t keys = 61; keys <= 64; keys++) masks_are_drawn(level, dtype, keys);
    masks_are_drawn(level, dtype, 150);
}

static void both_passes_keep_what_the_generator_says(void **state)
{
    (void)state;
    at_every_level(masks_of_some_lengths);
}

/* ---- threads ---- */

static void run_inside(void *arg, int64_t part, int thread)
{
    (void)part, (void)thread;
    call_run(arg);
}

static void alone_gives_the_same(const rp_kernels *level, rp_dtype dtype)
{
    rp_attention shape = { .batch = 1, .queries = 300, .keys = 300, .heads = 6, .kv_heads = 3, .dim = 48, .scale = 0.15f, .dropout = 0.1f,
                           .causal = true, .stream = { 1, 2, 3 }, .on.threads = 4 };
    call team = call_new(level, dtype, shape), alone = call_new(level, dtype, shape);

    call_run(&team);
    rp__team_run(1, 1, run_inside, &alone);     /* inside a part, the part's thread does all */
    for (int i = OUT; i < N_PARTS; i++)
        assert_memory_equal(part_of(&team.a, i)->data, part_of(&alone.a, i)->data, (size_t)(team.n[i] * rp_dtype_bytes(dtype)));
    call_free(&team);
    call_free(&alone);
}

static void bits_do_not_depend_on_who_has_the_team(void **state)
{
    (void)state;
    at_every_level(alone_gives_the_same);
}

/* ---- NaN ---- */

static const rp_attention two_pairs = { .batch = 2, .queries = 150, .keys = 150, .heads = 4, .kv_heads = 2, .dim = 40, .scale = 0.2f,
                                        .causal = true, .on.threads = 2 };

/* Elements of a row that are not numbers, and whether it has the same bits in both calls. */
typedef struct { int64_t nans; bool same; } row_state;

static row_state look(const call *c, const call *clean, int part, int64_t b, int64_t row, int64_t head)
{
    row_state s = { 0, true };
    int64_t at  = place(c, part, b, row, head);

    for (int64_t d = 0; d < c->a.dim; d++) {
        float x = get(c, part, at + d), y = get(clean, part, at + d);
        s.nans += isnan(x);
        if (memcmp(&x, &y, sizeof x)) s.same = false;
    }
    return s;
}

static void query_stays_a_row(const rp_kernels *level, rp_dtype dtype)
{
    call clean = call_new(level, dtype, two_pairs), c = call_new(level, dtype, two_pairs);

    put(&c, Q, place(&c, Q, 1, 37, 2) + 5, NAN);
    call_run(&clean);
    call_run(&c);
    for (int64_t b = 0; b < 2; b++)
        for (int64_t t = 0; t < 150; t++) {
            for (int64_t h = 0; h < 4; h++) {
                bool hit      = b == 1 && t == 37 && h == 2;
                row_state out = look(&c, &clean, OUT, b, t, h), dq = look(&c, &clean, DQ, b, t, h);
                assert_true(hit ? out.nans == 40 && dq.nans == 40 : out.same && dq.same);
            }
            for (int64_t h = 0; h < 2; h++) {
                bool hit     = b == 1 && t <= 37 && h == 1;
                row_state dv = look(&c, &clean, DV, b, t, h), dk = look(&c, &clean, DK, b, t, h);
                if (hit) assert_true(dv.nans == 40 && dk.nans == 40);
                else if (b == 0 || h == 0 || t >= 128) assert_true(dv.same && dk.same);      /* in other tiles of keys */
            }
        }
    call_free(&clean);
    call_free(&c);
}

static void value_stays_with_its_pair(const rp_kernels *level, rp_dtype dtype)
{
    call clean = call_new(level, dtype, two_pairs), c = call_new(level, dtype, two_pairs);

    put(&c, V, place(&c, V, 0, 70, 1) + 5, INFINITY);
    level->attention_forward(&clean.a);
    level->attention_forward(&c.a);
    for (int64_t b = 0; b < 2; b++)
        for (int64_t t = 0; t < 150; t++)
            for (int64_t h = 0; h < 4; h++) {
                bool pair     = b == 0 && h / 2 == 1;
                row_state out = look(&c, &clean, OUT, b, t, h);
                if (pair && t >= 70) assert_false(isfinite(get(&c, OUT, place(&c, OUT, b, t, h) + 5)));
                else if (!pair || t < 48) assert_true(out.same);                /* in other blocks of rows */
            }
    call_free(&clean);
    call_free(&c);
}

static void a_nan_in_a_query_stays_in_its_row_and_what_it_sees(void **state)
{
    (void)state;
    at_every_level(query_stays_a_row);
}

static void an_infinite_value_stays_with_those_who_see_its_tile(void **state)
{
    (void)state;
    at_every_level(value_stays_with_its_pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_passes_keep_what_the_generator_says),
        cmocka_unit_test(bits_do_not_depend_on_who_has_the_team),
        cmocka_unit_test(a_nan_in_a_query_stays_in_its_row_and_what_it_sees),
        cmocka_unit_test(an_infinite_value_stays_with_those_who_see_its_tile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
