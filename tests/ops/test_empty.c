/* Claims about empty tensors: whichever extents of an op's inputs are 0, a call is refused in words or gives the right values and
 * gradients, at every level of the CPU, without kernels and on the test device. */
/* ctest: no-emulator level-free */
#include "rp_test.h"

#include <math.h>

#include "ops/one_call.h"
#include "ops/run_cases.h"
#include "reprise/ops.h"

enum { MOST_EXTENTS = 8 };

/* The places of the extents that equal this one, from it on: they may stand for one dimension of the op. */
static int same_extents(const rp_op_case *test, int in, int dim, int64_t **place, rp_op_case *emptied)
{
    int n = 0;

    for (int i = in; i < case_inputs(test); i++)
        for (int d = i == in ? dim : 0; d < RP_MAX_DIM && test->in[i][d] && n < MOST_EXTENTS; d++)
            if (test->in[i][d] == test->in[in][dim]) place[n++] = &emptied->in[i][d];
    return n;
}

/* Each set of equal extents of which the given one is the first is set to 0, since the op may take them as one dimension. */
static int empty_one(const rp_op *op, const rp_op_case *test, int in, int dim)
{
    rp_op_case emptied;
    int64_t *place[MOST_EXTENTS];
    int n = same_extents(test, in, dim, place, &emptied), accepted = 0;

    for (unsigned set = 1; set < 1u << n; set += 2) {
        emptied = *test;
        for (int i = 0; i < n; i++)
            if (set >> i & 1) *place[i] = EMPTY;
        accepted += run_if_accepted(op, &emptied);
    }
    return accepted;
}

/* What is of whole rows of slices cannot be empty in one extent alone. */
static bool may_refuse_all(const rp_op *op) { return !strcmp(op->name, "all_gather") || !strcmp(op->name, "all_gather_far"); }

static void empty_each(const rp_op *op)
{
    int accepted = 0;

    for (int c = 0; c < op->n_case; c++) {
        const rp_op_case *test = &op->cases[c];
        if (test->expect != RP_OK) continue;
        for (int i = 0; i < case_inputs(test); i++)
            for (int d = 0; d < RP_MAX_DIM && test->in[i][d]; d++) accepted += empty_one(op, test, i, d);
    }
    if (!accepted && !may_refuse_all(op)) fail_msg("%s takes nothing empty", op->name);
}

#define RP_OP(name) \
    static void no_extent_of_0_harms_##name(void **state) \
    { \
        (void)state; \
        empty_each(&rp_op_##name); \
    }
#include "ops/ops.def"
#undef RP_OP

/* ---- what follows from an attribute, too ---- */

static const rp_op_case emptied_split[] = {
    { "no rows",       .in = { { EMPTY, 3 } },    .attr = &(rp_attr_split){ 0, 3, { 0, 0, 0 } } },
    { "an empty part", .in = { { 2, 5 } },        .attr = &(rp_attr_split){ 1, 3, { 2, 0, 3 } } },
    { "one is left",   .in = { { 4, 2 } },        .attr = &(rp_attr_split){ 0, 2, { 0, 4 } } },
};

static void parts_of_a_split_may_be_empty(void **state)
{
    (void)state;
    for (int i = 0; i < RP_COUNT(emptied_split); i++) run_if_accepted(&rp_op_split, &emptied_split[i]);
}

/* ---- values, from outside ---- */

static rp_tensor *filled(rp_ctx *ctx, int ndim, const int64_t *dim, double value)
{
    rp_meta meta = rp_meta_make(RP_F32, ndim, dim);
    rp_tensor *t = NULL;
    double from[64];

    for (int i = 0; i < RP_COUNT(from); i++) from[i] = value + i;
    assert_ok(ctx, rp_tensor_new(ctx, &meta, RP_MEM_PARAM, &t));
    assert_ok(ctx, rp_tensor_write(t, from, rp_meta_elems(&meta)));
    rp_tensor_require_grad(t, true);
    return t;
}

static void assert_elements(rp_ctx *ctx, const rp_tensor *t, int64_t n, const double *expected)
{
    double got[64];

    assert_non_null(t);
    assert_ok(ctx, rp_tensor_read(t, got, n));
    for (int i = 0; i < n; i++)
        if (!(fabs(got[i] - expected[i]) < 1e-6)) fail_msg("element %d is %g, expected %g", i, got[i], expected[i]);
}

/* The sum of all elements of a [rows, columns] tensor, backward from it. */
static void backward_from_sum(rp_ctx *ctx, rp_tensor *y)
{
    rp_tensor *rows = NULL, *sum = NULL;

    assert_ok(ctx, rp_apply(ctx, "sum", &(rp_attr_dim){ 1 }, &y, 1, &rows));
    assert_ok(ctx, rp_apply(ctx, "sum", &(rp_attr_dim){ 0 }, &rows, 1, &sum));
    assert_ok(ctx, rp_backward(ctx, sum));
    rp_tensor_unref(rows);
    rp_tensor_unref(sum);
}

/* x [rows, inner] times w [inner, 3] plus bias [3] */
static void multiply(rp_ctx *ctx, int64_t rows, int64_t inner, rp_tensor **in, rp_tensor **y)
{
    in[0] = filled(ctx, 2, (int64_t[]){ rows, inner }, 1);
    in[1] = filled(ctx, 2, (int64_t[]){ inner, 3 }, 2);
    in[2] = filled(ctx, 1, (int64_t[]){ 3 }, 5);
    assert_ok(ctx, rp_apply(ctx, "matmul", &(rp_attr_matmul){ false }, in, 3, y));
}

static void drop(rp_tensor **t, int n)
{
    for (int i = 0; i < n; i++) rp_tensor_unref(t[i]);
}

static void a_product_over_nothing_is_its_bias(void **state)
{
    rp_ctx *ctx = test_ctx(NULL);
    rp_tensor *in[3], *y = NULL;

    (void)state;
    multiply(ctx, 2, 0, in, &y);
    assert_elements(ctx, y, 6, (double[]){ 5, 6, 7, 5, 6, 7 });
    backward_from_sum(ctx, y);
    assert_elements(ctx, rp_tensor_grad(in[2]), 3, (double[]){ 2, 2, 2 });
    drop(in, 3);
    rp_tensor_unref(y);
    test_ctx_free(ctx);
}

static void a_product_of_no_rows_leaves_gradients_of_zero(void **state)
{
    rp_ctx *ctx = test_ctx(NULL);
    rp_tensor *in[3], *y = NULL;

    (void)state;
    multiply(ctx, 0, 2, in, &y);
    backward_from_sum(ctx, y);
    assert_elements(ctx, rp_tensor_grad(in[1]), 6, (double[6]){ 0 });
    assert_elements(ctx, rp_tensor_grad(in[2]), 3, (double[3]){ 0 });
    drop(in, 3);
    rp_tensor_unref(y);
    test_ctx_free(ctx);
}

/* Every class is as likely as any other. */
static void a_loss_over_no_features_is_that_of_chance(void **state)
{
    rp_ctx *ctx     = test_ctx(NULL);
    rp_meta ids     = rp_meta_1d(RP_I32, 2);
    rp_tensor *in[] = { filled(ctx, 2, (int64_t[]){ 2, 0 }, 0), filled(ctx, 2, (int64_t[]){ 8, 0 }, 0), NULL }, *loss = NULL;

    (void)state;
    assert_ok(ctx, rp_tensor_new(ctx, &ids, RP_MEM_TEMP, &in[2]));
    assert_ok(ctx, rp_tensor_write(in[2], (double[]){ 3, 7 }, 2));
    assert_ok(ctx, rp_apply(ctx, "linear_cross_entropy", &(rp_attr_cross_entropy){ .weight = 0.5f, .ignore_index = -100 }, in, 3, &loss));
    assert_elements(ctx, loss, 1, (double[]){ log(8) });
    assert_ok(ctx, rp_backward(ctx, loss));
    drop(in, 3);
    rp_tensor_unref(loss);
    test_ctx_free(ctx);
}

/* ---- ops that have no value for nothing ---- */

static void the_largest_or_the_mean_of_nothing_is_refused(void **state)
{
    rp_ctx *ctx = test_ctx(NULL);
    rp_tensor *x = filled(ctx, 2, (int64_t[]){ 3, 0 }, 0), *y = NULL;

    (void)state;
    assert_int_equal(rp_apply(ctx, "max", &(rp_attr_dim){ 1 }, &x, 1, &y), RP_ERR_SHAPE);
    assert_int_equal(rp_apply(ctx, "mean", &(rp_attr_dim){ 1 }, &x, 1, &y), RP_ERR_SHAPE);
    assert_null(y);
    rp_tensor_unref(x);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define RP_OP(name) cmocka_unit_test(no_extent_of_0_harms_##name),
#include "ops/ops.def"
#undef RP_OP
        cmocka_unit_test(parts_of_a_split_may_be_empty),
        cmocka_unit_test(a_product_over_nothing_is_its_bias),
        cmocka_unit_test(a_product_of_no_rows_leaves_gradients_of_zero),
        cmocka_unit_test(a_loss_over_no_features_is_that_of_chance),
        cmocka_unit_test(the_largest_or_the_mean_of_nothing_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
