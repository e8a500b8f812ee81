/* Claims about gradients into views: parts of one value, alike whether they are declared disjoint or not. */
#include <math.h>

#include "tape/tape_test.h"

enum { ROWS = 6, WIDTH = 8, ELEMS = ROWS * WIDTH };

/* A view of a [ROWS, WIDTH] tensor: elements [from, from + rows * width) laid as [rows, width], of which columns [start, start + n),
 * turned or not. */
typedef struct { int64_t from, rows, width, start, n; bool turned; } place;

typedef struct { const char *what; place a, b; } pair;

static const pair pairs[] = {
    { "halves",                { 0, 6, 8, 0, 4, false },  { 0, 6, 8, 4, 4, false } },
    { "halves, last first",    { 0, 6, 8, 4, 4, false },  { 0, 6, 8, 0, 4, false } },
    { "halves, turned",        { 0, 6, 8, 0, 4, true },   { 0, 6, 8, 4, 4, true } },
    { "rows",                  { 0, 3, 8, 0, 8, false },  { 24, 3, 8, 0, 8, false } },
    { "a gap between",         { 0, 6, 8, 0, 3, false },  { 0, 6, 8, 5, 3, false } },
    { "overlapping columns",   { 0, 6, 8, 0, 5, false },  { 0, 6, 8, 3, 5, false } },
    { "overlapping rows",      { 0, 4, 8, 0, 8, false },  { 16, 4, 8, 0, 8, false } },
    { "wrapped into the next", { 0, 2, 4, 0, 3, false },  { 3, 2, 4, 0, 3, false } },
    { "the same",              { 0, 6, 8, 2, 4, false },  { 0, 6, 8, 2, 4, false } },
    { "other strides",         { 0, 4, 4, 0, 4, false },  { 8, 4, 4, 0, 4, true } },
};

static rp_tensor *take_part(rp_tensor *of, const place *p)
{
    rp_ctx *ctx = of->ctx;
    rp_tensor *flat, *stretch, *laid, *columns, *turned;

    assert_ok(ctx, rp_tensor_reshape(of, 1, (int64_t[]){ ELEMS }, &flat));
    assert_ok(ctx, rp_tensor_slice(flat, 0, p->from, p->rows * p->width, &stretch));
    assert_ok(ctx, rp_tensor_reshape(stretch, 2, (int64_t[]){ p->rows, p->width }, &laid));
    assert_ok(ctx, rp_tensor_slice(laid, 1, p->start, p->n, &columns));
    if (p->turned) assert_ok(ctx, rp_tensor_transpose(columns, 0, 1, &turned));
    else turned = rp_tensor_ref(columns);
    rp_tensor *used[] = { flat, stretch, laid, columns };
    for (int i = 0; i < RP_COUNT(used); i++) rp_tensor_unref(used[i]);
    return turned;
}

/* Where element e of a part lies in the whole. */
static int64_t place_of(const place *p, int64_t e)
{
    int64_t row = p->turned ? e % p->rows : e / p->n, column = p->turned ? e / p->rows : e % p->n;

    return p->from + row * p->width + p->start + column;
}

/* loss = sum(a * b) of two parts of x: each element of a collects b, and the other way round. */
static void expect(const pair *p, const rp_tensor *x, double *grad)
{
    for (int64_t e = 0; e < p->a.rows * p->a.n; e++) {
        int64_t a = place_of(&p->a, e), b = place_of(&p->b, e);
        grad[a] += rp_elem_get(x, b);
        grad[b] += rp_elem_get(x, a);
    }
}

static void run_pair(rp_ctx *ctx, const pair *p, rp_tensor *x)
{
    rp_tensor *a = take_part(x, &p->a), *b = take_part(x, &p->b), *y = call_op(ctx, "mul", NULL, a, b, NULL), *loss = sum_all(ctx, y);

    rp_tensor_unref(a);
    rp_tensor_unref(b);
    rp_tensor_unref(y);
    assert_ok(ctx, rp__backward(ctx, loss));
    rp_tensor_unref(loss);
}

static void check_pair(const pair *p, bool leaf, int backwards)
{
    rp_ctx *ctx        = test_ctx(NULL);
    rp_tensor *w       = new_param(ctx, RP_F32, ROWS, WIDTH, 1, 5, "w");
    double want[ELEMS] = { 0 };

    expect(p, w, want);
    for (int i = 0; i < backwards; i++) {
        rp_tensor *x = leaf ? rp_tensor_ref(w) : call_op(ctx, "scale", &(rp_attr_scale){ 1 }, w, NULL);
        run_pair(ctx, p, x);
        rp_tensor_unref(x);
    }
    for (int64_t e = 0; e < ELEMS; e++) {
        double got = rp_elem_get(w->grad, e);
        if (!(fabs(got - backwards * want[e]) <= 1e-6 * fabs(want[e])))
            fail_msg("%s, %s, %d times: element %d has gradient %g, expected %g", p->what, leaf ? "a leaf" : "not a leaf", backwards,
                     (int)e, got, backwards * want[e]);
    }
    rp_tensor_unref(w);
    test_ctx_free(ctx);
}

static void parts_of_a_value_get_their_gradients_however_they_meet(void **state)
{
    (void)state;

    for (int i = 0; i < RP_COUNT(pairs); i++)
        for (int leaf = 0; leaf < 2; leaf++)
            for (int times = 1; times <= 2; times++) check_pair(&pairs[i], leaf, times);
}

static void a_view_wants_and_has_the_gradient_of_its_tensor(void **state)
{
    (void)state;
    rp_ctx *ctx  = test_ctx(NULL);
    rp_tensor *w = new_tensor(ctx, RP_F32, ROWS, WIDTH, RP_MEM_PARAM, 1, 5), *row, *loss;

    assert_ok(ctx, rp_tensor_slice(w, 0, 2, 1, &row));
    rp_tensor_require_grad(row, true);
    loss = sum_all(ctx, row);
    assert_ok(ctx, rp_backward(ctx, loss));
    assert_non_null(rp_tensor_grad(w));
    assert_ptr_equal(rp_tensor_grad(row), rp_tensor_grad(w));
    for (int64_t e = 0; e < ELEMS; e++) assert_true(rp_elem_get(w->grad, e) == (e / WIDTH == 2));
    rp_tensor_drop_grad(row);
    assert_null(rp_tensor_grad(w));
    rp_tensor_unref(row);
    rp_tensor_unref(loss);
    rp_tensor_unref(w);
    test_ctx_free(ctx);
}

/* ---- the most that is live ---- */

/* Peak of a backward of sum(a * b), less what is live before it. */
static int64_t backward_bytes(const pair *p)
{
    rp_ctx *ctx  = test_ctx(NULL);
    rp_tensor *w = new_param(ctx, RP_F32, ROWS, WIDTH, 1, 5, "w"), *a = take_part(w, &p->a), *b = take_part(w, &p->b);
    rp_tensor *y = call_op(ctx, "mul", NULL, a, b, NULL), *loss = sum_all(ctx, y);
    rp_mem mem;

    rp_tensor_unref(y);
    rp_mem_read(ctx, 0, true, &mem);
    int64_t live = mem.live_bytes;
    assert_ok(ctx, rp__backward(ctx, loss));
    int64_t peak = ledger(ctx).peak_bytes;
    rp_tensor_unref(a);
    rp_tensor_unref(b);
    rp_tensor_unref(loss);
    rp_tensor_unref(w);
    test_ctx_free(ctx);
    return peak - live;
}

static void slices_that_do_not_meet_write_the_whole_gradient_without_a_copy(void **state)
{
    (void)state;
    int64_t whole = ELEMS * (int64_t)sizeof(float), half = whole / 2;

    assert_int_equal(backward_bytes(&pairs[0]), half + whole);             /* dy and the gradient */
    assert_int_equal(backward_bytes(&pairs[2]), half + whole);
    assert_int_equal(backward_bytes(&pairs[8]), half + whole + half);      /* the same twice: one of them apart */
}

/* ---- a fused projection ---- */

enum { TOKENS = 9, HEADS = 4, KV_HEADS = 2, DIM = 4, ALL = HEADS + 2 * KV_HEADS };
enum { Q, K, V, PARTS };

static const int64_t heads_of[PARTS] = { HEADS, KV_HEADS, KV_HEADS };

static rp_tensor *attend(rp_ctx *ctx, rp_tensor *const *part)
{
    rp_attr_attention attr = { .scale = 0.5f, .causal = true };
    rp_tensor *y = call_op(ctx, "attention", &attr, part[Q], part[K], part[V], NULL), *squares = call_op(ctx, "mul", NULL, y, y, NULL);
    rp_tensor *loss = sum_all(ctx, squares);

    rp_tensor_unref(y);
    rp_tensor_unref(squares);
    return loss;
}

/* q, k and v as slices of one leaf, and as leaves of their own. */
static void a_fused_projection_gets_the_gradients_of_its_parts(void **state)
{
    (void)state;
    rp_ctx *ctx     = test_ctx(NULL);
    rp_tensor *flat = new_param(ctx, RP_F32, TOKENS, ALL * DIM, 1, 5, "qkv"), *fused, *part[PARTS], *own[PARTS], *got, *loss;
    int64_t start   = 0;

    assert_ok(ctx, rp_tensor_reshape(flat, 4, (int64_t[]){ 1, TOKENS, ALL, DIM }, &fused));
    for (int i = 0; i < PARTS; i++) {
        assert_ok(ctx, rp_tensor_slice(fused, 2, start, heads_of[i], &part[i]));
        assert_ok(ctx, rp_tensor_new(ctx, rp_tensor_meta(part[i]), RP_MEM_PARAM, &own[i]));
        rp__tensor_copy(own[i], part[i]);
        own[i]->requires_grad = true;
        start += heads_of[i];
    }
    loss = attend(ctx, part);
    assert_ok(ctx, rp__backward(ctx, loss));
    rp_tensor_unref(loss);
    loss = attend(ctx, own);
    assert_ok(ctx, rp__backward(ctx, loss));
    rp_tensor_unref(loss);
    for (int i = 0, at = 0; i < PARTS; at += (int)heads_of[i++]) {
        rp_tensor *whole;
        assert_ok(ctx, rp_tensor_reshape(flat->grad, 4, (int64_t[]){ 1, TOKENS, ALL, DIM }, &whole));
        assert_ok(ctx, rp_tensor_slice(whole, 2, at, heads_of[i], &got));
        for (int64_t e = 0; e < rp_meta_elems(&got->m); e++) assert_true(rp_elem_get(got, e) == rp_elem_get(own[i]->grad, e));
        rp_tensor_unref(whole);
        rp_tensor_unref(got);
        rp_tensor_unref(part[i]);
        rp_tensor_unref(own[i]);
    }
    rp_tensor_unref(fused);
    rp_tensor_unref(flat);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_of_a_value_get_their_gradients_however_they_meet),
        cmocka_unit_test(a_view_wants_and_has_the_gradient_of_its_tensor),
        cmocka_unit_test(slices_that_do_not_meet_write_the_whole_gradient_without_a_copy),
        cmocka_unit_test(a_fused_projection_gets_the_gradients_of_its_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
