/* Claims about ops that refuse a call: each case of each op that expects an error gives the message in refused.txt.
 *
 * refused.txt has a line for each such case, in the order of ops.def: "OP, CASE: MESSAGE". REPRISE_RECORD=1 writes it anew; read the
 * difference before you commit it. */
/* ctest: no-emulator */
#include "rp_test.h"

#include <math.h>

#include "base/file.h"
#include "ops/cell.h"

#define REFUSED_FILE RP_SOURCE_DIR "/tests/ops/refused.txt"

static void put_message(FILE *to, const rp_op *op, const rp_op_case *test)
{
    const rp_kernels *level[RP_MAX_LEVELS];
    variant where = { .name = "the highest level", .threads = 1 };
    one_call c;

    where.table      = level[rp__kernels_levels(level, RP_COUNT(level)) - 1];
    rp_ctx *ctx      = cell_ctx(&where, false);
    rp_status status = call_prepare(&c, ctx, op, test, &where, RP_F32, RP_F32, NULL);
    if (status == RP_OK) status = call_forward(&c);
    assert_int_equal(status, test->expect);
    fprintf(to, "%s, %s: %s\n", op->name, test->name, rp_error(ctx));
    call_free(&c);
    test_ctx_free(ctx);
}

static void put_messages(FILE *to, const rp_op *op)
{
    for (int i = 0; i < op->n_case; i++)
        if (op->cases[i].expect != RP_OK) put_message(to, op, &op->cases[i]);
}

static void every_refused_case_has_the_message_that_is_recorded(void **state)
{
    rp_ctx *ctx = test_ctx(NULL);
    char *text  = NULL, *recorded;
    size_t room = 0;
    int64_t bytes;
    FILE *to = open_memstream(&text, &room);

    (void)state;
    assert_non_null(to);
#define RP_OP(name) \
    extern const rp_op rp_op_##name; \
    put_messages(to, &rp_op_##name);
#include "ops/ops.def"
#undef RP_OP
    fclose(to);
    if (getenv("REPRISE_RECORD")) {
        FILE *file = fopen(REFUSED_FILE, "w");
        assert_non_null(file);
        fputs(text, file);
        fclose(file);
    }
    assert_ok(ctx, rp__file_read(ctx, REFUSED_FILE, 1 << 20, &recorded, &bytes));
    assert_string_equal(text, recorded);
    rp__release(recorded);
    free(text);
    test_ctx_free(ctx);
}

/* ---- calls that no line of a case table can say: dtypes that differ, inputs left out, extents of 0 or beyond memory ---- */

#define F(...) { RP_F32, RP_COUNT(((int64_t[]){ __VA_ARGS__ })), { __VA_ARGS__ } }
#define H(...) { RP_BF16, RP_COUNT(((int64_t[]){ __VA_ARGS__ })), { __VA_ARGS__ } }
#define I(...) { RP_I32, RP_COUNT(((int64_t[]){ __VA_ARGS__ })), { __VA_ARGS__ } }

static const struct { const char *op; int n_in; rp_meta in[RP_MAX_IN]; const void *attr; rp_status status; const char *message; } calls[] = {
    { "split", 1, { F(2, 6) }, &(rp_attr_split){ .dim = 1, .n = 3, .length = { 4, 3, 1 } }, RP_ERR_SHAPE,
      "split: lengths up to 1 add up to more than dimension 1 of fp32 [2, 6]" },
    { "attention", 2, { F(1, 2, 2, 4), F(1, 2, 2, 4) }, &(rp_attr_attention){ .scale = 1 }, RP_ERR_ARG, "attention: q, k and v are needed" },
    { "attention", 3, { F(1, 2, 2, 4), H(1, 2, 2, 4), F(1, 2, 2, 4) }, &(rp_attr_attention){ .scale = 1 }, RP_ERR_DTYPE,
      "attention: inputs are fp32 [1, 2, 2, 4] and bf16 [1, 2, 2, 4], expected one floating dtype" },
    { "attention", 3, { F(1, 2, 2, 4), F(2, 2, 4), F(1, 2, 2, 4) }, &(rp_attr_attention){ .scale = 1 }, RP_ERR_SHAPE,
      "attention: an input is fp32 [2, 2, 4], expected four dimensions" },
    { "attention", 3, { F(1, 2, 1, 4), F(1, 1 << 30, 1, 4), F(1, 1 << 30, 1, 4) }, &(rp_attr_attention){ .scale = 1 }, RP_ERR_SHAPE,
      "attention: fp32 [1, 1073741824, 1, 4] is too long" },
    { "attention", 3, { F(1, 2, 2, 4), F(1, 2, 2, 4), F(1, 2, 2, 4) }, &(rp_attr_attention){ .scale = 1, .window = -3 }, RP_ERR_ARG,
      "attention: window is -3, expected 0 or more" },
    { "attention", 3, { F(1, 2, 2, 4), F(1, 2, 2, 4), F(1, 2, 2, 4) }, &(rp_attr_attention){ .scale = INFINITY }, RP_ERR_ARG,
      "attention: scale is inf, expected a finite number" },
    { "attention", 3, { F(1, 65536, 8, 4), F(1, 65536, 8, 4), F(1, 65536, 8, 4) }, &(rp_attr_attention){ .scale = 1, .dropout = 0.5f },
      RP_ERR_SHAPE, "attention: a sample has 8 x 65536 x 65536 probabilities, dropout draws for at most 2^34" },
    { "matmul", 1, { F(2, 3) }, &(rp_attr_matmul){ 0 }, RP_ERR_ARG, "matmul: x and w are needed" },
    { "matmul", 2, { F(2, 3), H(3, 4) }, &(rp_attr_matmul){ 0 }, RP_ERR_DTYPE,
      "matmul: inputs are fp32 [2, 3] and bf16 [3, 4], expected one floating dtype" },
    { "matmul", 4, { F(2, 3), F(3, 4), F(4), F(4) }, &(rp_attr_matmul){ 0 }, RP_ERR_ARG, "matmul: 4 inputs given, at most 3 expected" },
    { "add", 1, { F(2, 3) }, NULL, RP_ERR_ARG, "add: 1 inputs given, 2 expected" },
    { "add", 2, { F(2, 3), H(2, 3) }, NULL, RP_ERR_DTYPE, "add: a is fp32 [2, 3] and b bf16 [2, 3], expected one floating dtype" },
    { "gather", 2, { I(2, 3), I(2, 3) }, &(rp_attr_dim){ 1 }, RP_ERR_DTYPE, "gather: x is int32 [2, 3], expected a floating dtype" },
    { "magnitude", 2, { F(2, 3), F(3) }, NULL, RP_ERR_ARG, "magnitude: x, m and n are needed" },
    { "mean", 1, { F(2, 0) }, &(rp_attr_dim){ 1 }, RP_ERR_SHAPE, "mean: fp32 [2, 0] is empty in dimension 1" },
    { "softmax", 1, { F(2, 0) }, NULL, RP_ERR_SHAPE, "softmax: rows of fp32 [2, 0] are empty" },
    { "all_gather", 1, { I(6) }, &(rp_attr_whole){ 2, { 2, 3 }, 0 }, RP_ERR_DTYPE, "all_gather: x is int32 [6], expected a floating dtype" },
    { "all_gather_far", 1, { I(6) }, &(rp_attr_whole){ 2, { 2, 3 }, 0 }, RP_ERR_DTYPE,
      "all_gather_far: x is int32 [6], expected a floating dtype" },
    { "batch_norm", 5, { I(2, 3), F(3), F(3), F(3), F(3) }, &(rp_attr_batch_norm){ .eps = 1 }, RP_ERR_DTYPE,
      "batch_norm: x is int32 [2, 3], expected a floating dtype" },
    { "embedding", 2, { I(2, 3), I(4) }, NULL, RP_ERR_DTYPE, "embedding: the table is int32 [2, 3], expected a floating dtype" },
    { "embedding", 2, { F(2, 3), I(1, 1, 1, 1, 1, 1, 1, 1) }, NULL, RP_ERR_SHAPE,
      "embedding: ids are int32 [1, 1, 1, 1, 1, 1, 1, 1], expected at most 7 dimensions and 2147483647 elements" },
    { "rmsnorm", 2, { F(2, 3), H(3) }, &(rp_attr_norm){ 1, 0 }, RP_ERR_DTYPE, "rmsnorm: x is fp32 [2, 3] and weight bf16 [3], expected one floating dtype" },
    { "rotary", 4, { I(2, 3, 1, 4), I(2, 3), F(8, 2), F(8, 2) }, NULL, RP_ERR_DTYPE,
      "rotary: x is int32 [2, 3, 1, 4], expected a floating dtype" },
    { "grouped_matmul", 3, { F(2, 3), H(2, 4, 3), I(2, 1) }, NULL, RP_ERR_DTYPE,
      "grouped_matmul: x is fp32 [2, 3] and w bf16 [2, 4, 3], expected one floating dtype" },
    { "linear_cross_entropy", 3, { F(2, 3), H(5, 3), I(2) }, &(rp_attr_cross_entropy){ .weight = 1 }, RP_ERR_DTYPE,
      "linear_cross_entropy: x is fp32 [2, 3] and w bf16 [5, 3], expected one floating dtype" },
    { "balance_loss", 3, { I(1), F(2, 4), I(2) }, &(rp_attr_balance_loss){ .factor = 1 }, RP_ERR_DTYPE,
      "balance_loss: loss is int32 [1] and loads fp32 [2, 4], expected fp32" },
    { "reduce_scatter", 1, { I(2, 3) }, NULL, RP_ERR_DTYPE, "reduce_scatter: x is int32 [2, 3], expected a floating dtype" },
    { "rotary", 4, { F(2, 3, 4), I(2, 3), F(8, 2), F(8, 2) }, NULL, RP_ERR_SHAPE,
      "rotary: x is fp32 [2, 3, 4], expected [batch, tokens, heads, d]" },
    { "spread", 2, { I(2, 3), I(2, 1) }, &(rp_attr_experts){ 2 }, RP_ERR_DTYPE, "spread: x is int32 [2, 3], expected a floating dtype" },
    { "linear_cross_entropy", 2, { F(2, 3), F(5, 3) }, &(rp_attr_cross_entropy){ .weight = 1 }, RP_ERR_ARG,
      "linear_cross_entropy: x, w and labels are needed" },
    { "linear_cross_entropy", 3, { F(2, 3), F(5, 3), I(2) }, &(rp_attr_cross_entropy){ .weight = 1, .classes = -5 }, RP_ERR_ARG,
      "linear_cross_entropy: classes is -5" },
};

static void a_call_that_is_wrong_says_what_it_is_given_and_what_it_needs(void **state)
{
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .shapes_only = true });

    (void)state;
    for (int c = 0; c < RP_COUNT(calls); c++) {
        rp_tensor *in[RP_MAX_IN], *out = NULL;
        for (int i = 0; i < calls[c].n_in; i++) assert_ok(ctx, rp_tensor_new(ctx, &calls[c].in[i], RP_MEM_TEMP, &in[i]));
        assert_int_equal(rp_apply(ctx, calls[c].op, calls[c].attr, in, calls[c].n_in, &out), calls[c].status);
        assert_string_equal(rp_error(ctx), calls[c].message);
        assert_null(out);
        for (int i = 0; i < calls[c].n_in; i++) rp_tensor_unref(in[i]);
    }
    test_ctx_free(ctx);
}

/* ---- every input of every op in every other dtype ---- */

/* The first input decides, where no other one is floating. Tables and weights of fp32 stand beside fp32 and bf16. */
static bool is_taken(const rp_op_case *test, int input, rp_dtype dtype)
{
    bool alone = true, tables = false;

    for (int i = 1; i < case_inputs(test); i++) {
        bool floating = !(test->int_inputs & RP_IN(i)), table = test->stat_inputs & RP_IN(i);
        alone         = alone && (!floating || table);
        tables        = tables || table;
    }
    return input == 0 && alone && rp_meta_is_float(&(rp_meta){ .dtype = dtype }) &&
           !((test->int_inputs | test->stat_inputs) & RP_IN(0)) && (dtype == RP_BF16 || !tables);
}

static void try_dtype(rp_ctx *ctx, const rp_op *op, const rp_op_case *test, int input, rp_dtype dtype)
{
    rp_tensor *in[RP_MAX_IN] = { NULL }, *out[RP_MAX_OUT] = { NULL };
    int n_in  = case_inputs(test);
    bool same = false;

    for (int i = 0; i < n_in; i++) {
        rp_meta m = case_meta(test, i, RP_F32);
        same      = same || (i == input && m.dtype == dtype);
        if (i == input) m.dtype = dtype;
        assert_ok(ctx, rp_tensor_new(ctx, &m, RP_MEM_TEMP, &in[i]));
    }
    rp_status status = same ? RP_OK : rp_apply(ctx, op->name, test->attr, in, n_in, out);
    if ((status == RP_OK) != (same || is_taken(test, input, dtype)))
        fail_msg("%s, %s: input %d in %s: status %d", op->name, test->name, input, rp_dtype_name(dtype), (int)status);
    for (int i = 0; i < n_in; i++) rp_tensor_unref(in[i]);
    for (int i = 0; i < RP_MAX_OUT; i++) rp_tensor_unref(out[i]);
}

static void try_dtypes(rp_ctx *ctx, const rp_op *op)
{
    for (int k = 0; k < op->n_case; k++)
        for (int i = 0; op->cases[k].expect == RP_OK && i < case_inputs(&op->cases[k]); i++)
            for (int d = 0; d < RP_Q4_0; d++) try_dtype(ctx, op, &op->cases[k], i, (rp_dtype)d);
}

static void an_input_of_another_dtype_is_refused(void **state)
{
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .shapes_only = true });

    (void)state;
#define RP_OP(name) try_dtypes(ctx, &rp_op_##name);
#include "ops/ops.def"
#undef RP_OP
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_refused_case_has_the_message_that_is_recorded),
        cmocka_unit_test(a_call_that_is_wrong_says_what_it_is_given_and_what_it_needs),
        cmocka_unit_test(an_input_of_another_dtype_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
