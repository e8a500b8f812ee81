/* Claims about gradients into views: parts of one value, alike whether they are declared disjoint or not; and about tensors of up to eight dimensions. */
/* ctest: emu */
#include <math.h>

#include "base/philox.h"
#include "reprise/ops.h"
#include "reprise/train.h"
#include "tape/tape_test.h"
#include "train/temp.h"

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

/* ---- up to eight dimensions ---- */

enum { MOST_ELEMS = 96, MOST_STEPS = 24 };
typedef enum { TRANSPOSE, SLICE, TIMES, JOIN, SUM, MEAN, MAX } step_kind;
typedef struct { step_kind kind; int a, b; int64_t start, length; } step;
typedef struct { int ndim; int64_t dim[RP_MAX_DIM]; double x[2 * MOST_ELEMS]; } array;

/* From `w`, seen as `shape`, to a number: views, a product with the parameter `c`, `c` joined to it, views, and reductions of one dimension each. */
typedef struct { uint64_t seed; uint32_t drawn; array w, c; int n; step step[MOST_STEPS]; } program;

static int draw_below(program *p, int64_t below) { return (int)(rp__philox(p->seed, p->drawn++, 0, 0, 0).word[0] % (uint32_t)below); }

static int64_t elems_of(const array *a)
{
    int64_t n = 1;

    for (int i = 0; i < a->ndim; i++) n *= a->dim[i];
    return n;
}

static int64_t element_at(const array *a, const int64_t *index)
{
    int64_t at = 0;

    for (int i = 0; i < a->ndim; i++) at = at * a->dim[i] + index[i];
    return at;
}

static void shape_after(const array *in, const step *s, array *out)
{
    out->ndim = in->ndim;
    memcpy(out->dim, in->dim, sizeof out->dim);
    if (s->kind == TRANSPOSE) out->dim[s->a] = in->dim[s->b], out->dim[s->b] = in->dim[s->a];
    if (s->kind == SLICE) out->dim[s->a] = s->length;
    if (s->kind == JOIN) out->dim[s->a] *= 2;
    if (s->kind < SUM) return;
    out->ndim--;
    for (int i = s->a; i < out->ndim; i++) out->dim[i] = in->dim[i + 1];
}

static double reduced(const array *in, const step *s, const int64_t *rest)
{
    int64_t index[RP_MAX_DIM], n = in->dim[s->a];
    double sum = 0, most = -INFINITY;

    for (int i = 0; i < in->ndim - 1; i++) index[i < s->a ? i : i + 1] = rest[i];
    for (index[s->a] = 0; index[s->a] < n; index[s->a]++) {
        double x = in->x[element_at(in, index)];
        sum += x;
        most = fmax(most, x);
    }
    return s->kind == MAX ? most : s->kind == MEAN ? sum / (double)n : sum;
}

static double element_after(const array *in, const array *c, const step *s, int64_t *index)
{
    int64_t was = index[s->a];

    if (s->kind >= SUM) return reduced(in, s, index);
    if (s->kind == TIMES) return in->x[element_at(in, index)] * c->x[element_at(in, index)];
    if (s->kind == TRANSPOSE) index[s->a] = index[s->b], index[s->b] = was;
    if (s->kind == SLICE) index[s->a] += s->start;
    if (s->kind == JOIN && was >= in->dim[s->a]) {
        index[s->a] -= in->dim[s->a];
        return c->x[element_at(in, index)];
    }
    return in->x[element_at(in, index)];
}

/* The number of the program, in double. */
static double number_of(const program *p)
{
    array in = p->w, out;

    for (int i = 0; i < p->n; i++) {
        shape_after(&in, &p->step[i], &out);
        for (int64_t e = 0; e < elems_of(&out); e++) {
            int64_t index[RP_MAX_DIM + 1] = { 0 };
            for (int64_t d = out.ndim - 1, at = e; d >= 0; at /= out.dim[d--]) index[d] = at % out.dim[d];
            out.x[e] = element_after(&in, &p->c, &p->step[i], index);
        }
        in = out;
    }
    return in.x[0];
}

static void add_step(program *p, array *shape, step s)
{
    array after;

    assert_true(p->n < MOST_STEPS);
    shape_after(shape, &s, &after);
    *shape            = after;
    p->step[p->n++] = s;
}

static void add_views(program *p, array *shape)
{
    for (int left = draw_below(p, 4); left > 0; left--) {
        int a = draw_below(p, shape->ndim), b = draw_below(p, shape->ndim), start = draw_below(p, shape->dim[a]);
        if (left % 2) add_step(p, shape, (step){ .kind = TRANSPOSE, .a = a, .b = b });
        else add_step(p, shape, (step){ .kind = SLICE, .a = a, .start = start, .length = 1 + draw_below(p, shape->dim[a] - start) });
    }
}

static program program_draw(int ndim, uint64_t seed)
{
    program p   = { .seed = seed, .w.ndim = ndim };
    array shape = { .ndim = ndim };

    for (int i = 0, elems = 1; i < ndim; i++) {
        int most = MOST_ELEMS / elems < 4 ? MOST_ELEMS / elems : 4;
        elems *= (int)(p.w.dim[i] = shape.dim[i] = 1 + draw_below(&p, most));
    }
    add_views(&p, &shape);
    p.c = shape;
    add_step(&p, &shape, (step){ .kind = TIMES });
    if (draw_below(&p, 2)) add_step(&p, &shape, (step){ .kind = JOIN, .a = draw_below(&p, ndim) });
    add_views(&p, &shape);
    while (shape.ndim) add_step(&p, &shape, (step){ .kind = SUM + draw_below(&p, 3), .a = draw_below(&p, shape.ndim) });
    return p;
}

static rp_status step_run(rp_ctx *ctx, const step *s, rp_tensor *x, rp_tensor *c, rp_tensor **y)
{
    static const char *const op[] = { [TIMES] = "mul", [JOIN] = "concat", [SUM] = "sum", [MEAN] = "mean", [MAX] = "max" };

    if (s->kind == TRANSPOSE) return rp_tensor_transpose(x, s->a, s->b, y);
    if (s->kind == SLICE) return rp_tensor_slice(x, s->a, s->start, s->length, y);
    return rp_apply(ctx, op[s->kind], s->kind == TIMES ? NULL : &(rp_attr_dim){ s->a }, (rp_tensor *[]){ x, c }, s->kind < SUM ? 2 : 1, y);
}

/* Central differences of the number in double. The number is a polynomial between changes of a maximum. */
static void assert_slopes(program *p, array *leaf, const rp_tensor *t, const char *name)
{
    const double apart = 1e-6;

    for (int64_t e = 0; e < elems_of(leaf); e++) {
        double x = leaf->x[e], got = t->grad ? rp_elem_get(t->grad, e) : 0;
        leaf->x[e]  = x + apart;
        double high = number_of(p);
        leaf->x[e]  = x - apart;
        double want = (high - number_of(p)) / (2 * apart);
        leaf->x[e]  = x;
        if (!(fabs(got - want) <= 1e-5 * (1 + fabs(want))))
            fail_msg("%d dimensions, seed %" PRIu64 ": element %" PRId64 " of %s has gradient %g, expected %g", p->w.ndim, p->seed, e, name, got, want);
    }
}

static rp_tensor *leaf_of(rp_ctx *ctx, const char *name, int ndim, const int64_t *dim, double *x)
{
    rp_meta meta = rp_meta_make(RP_F32, ndim, dim);
    rp_tensor *t = NULL;

    assert_ok(ctx, rp_param_new(ctx, name, &meta, &(rp_init){ .kind = RP_INIT_UNIFORM }, &t));
    assert_ok(ctx, rp_tensor_read(t, x, rp_meta_elems(&meta)));
    return t;
}

static void assert_saved_and_loaded(rp_ctx *ctx, rp_tensor *c)
{
    temp_dir dir     = temp_make();
    const char *path = temp_path(&dir, "c.safetensors");
    rp_ctx *other    = test_ctx(&(rp_ctx_options){ .seed = 99 });
    rp_tensor *again = NULL;

    assert_ok(ctx, rp_save(ctx, path, &c, 1, NULL));
    assert_ok(other, rp_param_new(other, "c", &c->m, NULL, &again));
    assert_ok(other, rp_load(other, path, &again, 1, NULL));
    assert_memory_equal(test_bytes(again), test_bytes(c), (size_t)rp_meta_bytes(&c->m));
    rp_tensor_unref(again);
    test_ctx_free(other);
    temp_remove(&dir);
}

static void run_program(int ndim, uint64_t seed)
{
    program p      = program_draw(ndim, seed);
    rp_ctx *ctx    = test_ctx(&(rp_ctx_options){ .seed = seed });
    rp_tensor *w   = leaf_of(ctx, "w", 1, (int64_t[]){ elems_of(&p.w) }, p.w.x), *c = leaf_of(ctx, "c", p.c.ndim, p.c.dim, p.c.x), *x, *y;
    double got     = 0;

    assert_ok(ctx, rp_tensor_reshape(w, ndim, p.w.dim, &x));
    for (int i = 0; i < p.n; i++) {
        assert_ok(ctx, step_run(ctx, &p.step[i], x, c, &y));
        rp_tensor_unref(x);
        x = y;
    }
    assert_ok(ctx, rp_tensor_read(x, &got, 1));
    if (!(fabs(got - number_of(&p)) <= 1e-5 * (1 + fabs(got)))) fail_msg("%d dimensions, seed %" PRIu64 ": %g, expected %g", ndim, seed, got, number_of(&p));
    assert_ok(ctx, rp_backward(ctx, x));
    rp_tensor_unref(x);
    assert_slopes(&p, &p.w, w, "w");
    assert_slopes(&p, &p.c, c, "c");
    assert_saved_and_loaded(ctx, c);
    rp_tensor_unref(w);
    rp_tensor_unref(c);
    test_ctx_free(ctx);
}

static void every_number_of_dimensions_computes_the_same_function_and_slopes(void **state)
{
    (void)state;
    for (int ndim = 1; ndim <= RP_MAX_DIM; ndim++)
        for (int i = 0; i < test_draws(20); i++) run_program(ndim, (uint64_t)(1000 * ndim + i));
}

/* An output has a dimension more than its ids. */
static void ids_of_an_embedding_have_a_dimension_less(void **state)
{
    (void)state;
    rp_ctx *ctx      = test_ctx(NULL);
    rp_tensor *table = new_tensor(ctx, RP_F32, 4, 6, RP_MEM_PARAM, 1, 5), *ids, *view, *y = NULL;
    int32_t id[2]    = { 3, 1 };

    assert_ok(ctx, rp_tensor_new(ctx, &(rp_meta){ RP_I32, 7, { 1, 1, 1, 2, 1, 1, 1 } }, RP_MEM_TEMP, &ids));
    assert_ok(ctx, rp_tensor_write_i32(ids, id, 2));
    assert_ok(ctx, rp_apply(ctx, "embedding", NULL, (rp_tensor *[]){ table, ids }, 2, &y));
    assert_int_equal(y->m.ndim, 8);
    for (int i = 0; i < 12; i++) assert_true(rp_elem_get(y, i) == rp_elem_get(table, id[i / 6] * 6 + i % 6));
    rp_tensor_unref(y);
    assert_ok(ctx, rp_tensor_reshape(ids, 8, (int64_t[]){ 1, 1, 1, 2, 1, 1, 1, 1 }, &view));
    assert_int_equal(rp_apply(ctx, "embedding", NULL, (rp_tensor *[]){ table, view }, 2, &y), RP_ERR_SHAPE);
    assert_string_equal(rp_error(ctx), "embedding: ids are int32 [1, 1, 1, 2, 1, 1, 1, 1], expected at most 7 dimensions and 2147483647 elements");
    rp_tensor_unref(view);
    rp_tensor_unref(ids);
    rp_tensor_unref(table);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_of_a_value_get_their_gradients_however_they_meet),
        cmocka_unit_test(a_view_wants_and_has_the_gradient_of_its_tensor),
        cmocka_unit_test(slices_that_do_not_meet_write_the_whole_gradient_without_a_copy),
        cmocka_unit_test(a_fused_projection_gets_the_gradients_of_its_parts),
        cmocka_unit_test(every_number_of_dimensions_computes_the_same_function_and_slopes),
        cmocka_unit_test(ids_of_an_embedding_have_a_dimension_less),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
