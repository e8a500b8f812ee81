/* Claims about numbers that callers choose: extents and integer attributes of any value are refused in words or make sizes that are none
 * below zero. Overflow itself is seen by the builds with a sanitizer. */
#include "rp_test.h"

#include "ops/one_call.h"
#include "reprise/ops.h"

/* ---- extents ---- */

static void a_tensor_is_refused_before_a_size_overflows(void **state)
{
    static const rp_meta wrong[] = {
        { RP_F32, 2, { INT64_MAX, 2 } },            { RP_F64, 1, { INT64_MAX } },         { RP_F32, 3, { 0, INT64_MAX, INT64_MAX } },
        { RP_BF16, 2, { INT64_C(1) << 62, 0 } },    { RP_F32, 2, { 1 << 30, INT64_C(1) << 30 } },
        { RP_F32, 1, { -1 } },                      { RP_F32, 2, { 0, -1 } },             { RP_F32, 1, { INT64_MIN } },
    };
    rp_ctx *ctx  = test_ctx(&(rp_ctx_options){ .shapes_only = true });
    rp_tensor *t = NULL;

    (void)state;
    for (int i = 0; i < RP_COUNT(wrong); i++) assert_int_equal(rp_tensor_new(ctx, &wrong[i], RP_MEM_TEMP, &t), RP_ERR_SHAPE);
    assert_null(t);
    test_ctx_free(ctx);
}

static void a_product_that_no_tensor_can_hold_is_refused(void **state)
{
    const int64_t side = INT64_C(1) << 40;
    rp_ctx *ctx        = test_ctx(&(rp_ctx_options){ .shapes_only = true });
    rp_tensor *in[2] = { NULL, NULL }, *y = NULL;

    (void)state;
    assert_ok(ctx, rp_tensor_new(ctx, &(rp_meta){ RP_F32, 2, { side, 1 } }, RP_MEM_TEMP, &in[0]));
    assert_ok(ctx, rp_tensor_new(ctx, &(rp_meta){ RP_F32, 2, { 1, side } }, RP_MEM_TEMP, &in[1]));
    assert_int_equal(rp_apply(ctx, "matmul", &(rp_attr_matmul){ false }, in, 2, &y), RP_ERR_SHAPE);
    assert_string_equal(rp_error(ctx), "matmul: the size of y, fp32 [1099511627776, 1099511627776], is negative or too large");
    for (int i = 0; i < 2; i++) rp_tensor_unref(in[i]);
    test_ctx_free(ctx);
}

/* ---- attributes ---- */

typedef struct { const char *op; size_t at, bytes; } field;

#define FIELD(op, type, name) { op, offsetof(type, name), sizeof(((type *)0)->name) }

/* Every integer of every attribute in reprise/ops.h. */
static const field fields[] = {
    FIELD("sum", rp_attr_dim, dim), FIELD("mean", rp_attr_dim, dim), FIELD("max", rp_attr_dim, dim), FIELD("gather", rp_attr_dim, dim),
    FIELD("concat", rp_attr_dim, dim),
    FIELD("split", rp_attr_split, dim), FIELD("split", rp_attr_split, n), FIELD("split", rp_attr_split, length[0]),
    FIELD("split", rp_attr_split, length[1]), FIELD("split", rp_attr_split, length[7]),
    FIELD("all_gather", rp_attr_whole, ndim), FIELD("all_gather", rp_attr_whole, dim[0]), FIELD("all_gather", rp_attr_whole, dim[1]),
    FIELD("all_gather_far", rp_attr_whole, ndim), FIELD("all_gather_far", rp_attr_whole, dim[0]), FIELD("all_gather_far", rp_attr_whole, dim[1]),
    FIELD("route", rp_attr_route, k), FIELD("spread", rp_attr_experts, experts), FIELD("combine", rp_attr_experts, experts),
    FIELD("cast", rp_attr_cast, dtype), FIELD("attention", rp_attr_attention, window),
    FIELD("cross_entropy", rp_attr_cross_entropy, ignore_index), FIELD("linear_cross_entropy", rp_attr_cross_entropy, ignore_index),
    FIELD("linear_cross_entropy", rp_attr_cross_entropy, chunks), FIELD("linear_cross_entropy", rp_attr_cross_entropy, classes),
};

static const int64_t numbers[] = { INT64_MIN, INT64_MIN + 1, -(INT64_C(1) << 32), INT32_MIN, -2, -1, 0, 1, 2, 77, INT32_MAX, INT64_C(1) << 32,
                                   INT64_C(1) << 55, INT64_MAX - 1, INT64_MAX };

static void put_number(unsigned char *attr, const field *f, int64_t number)
{
    int32_t narrow = (int32_t)(number > INT32_MAX ? INT32_MAX : number < INT32_MIN ? INT32_MIN : number);

    if (f->bytes == sizeof number) memcpy(attr + f->at, &number, sizeof number);
    else memcpy(attr + f->at, &narrow, sizeof narrow);
}

static bool sizes_are_sound(const rp_op_meta *m)
{
    bool sound = m->scratch_bytes >= 0 && m->scratch_backward_bytes >= 0;

    for (int i = 0; i < m->n_out; i++) sound = sound && rp_meta_bytes(&m->out[i]) >= 0;
    for (int i = 0; i < m->n_slot; i++) sound = sound && rp_meta_bytes(&m->slot[i]) >= 0;
    return sound;
}

static bool prepare(rp_ctx *ctx, const rp_op *op, const rp_op_case *test, const unsigned char *attr)
{
    static const variant where = { .name = "ranges" };
    rp_op_case changed = *test;
    one_call c;

    changed.attr     = attr;
    rp_status status = call_prepare(&c, ctx, op, &changed, &where, RP_F32, RP_F32, NULL);
    bool sound       = status == RP_OK ? sizes_are_sound(&c.m) : status == RP_ERR_SHAPE || status == RP_ERR_ARG || status == RP_ERR_DTYPE;
    call_free(&c);
    return sound;
}

static void any_number_is_refused_or_makes_sound_sizes(void **state)
{
    rp_ctx *ctx = test_ctx(NULL);

    (void)state;
    for (int f = 0; f < RP_COUNT(fields); f++) {
        const rp_op *op = rp__op_find(fields[f].op);
        for (int i = 0; i < op->n_case; i++) {
            const rp_op_case *test = &op->cases[i];
            for (int n = 0; n < RP_COUNT(numbers); n++) {
                _Alignas(16) unsigned char attr[RP_MAX_ATTR] = { 0 };
                memcpy(attr, test->attr, op->attr_size);
                put_number(attr, &fields[f], numbers[n]);
                if (!prepare(ctx, op, test, attr))
                    fail_msg("%s, '%s', byte %zu is %lld: %s", op->name, test->name, fields[f].at, (long long)numbers[n], rp_error(ctx));
            }
        }
    }
    test_ctx_free(ctx);
}

/* ---- threads ---- */

static void a_context_has_at_most_4096_threads(void **state)
{
    static const int wrong[] = { -1, INT32_MIN, 4097, INT32_MAX };
    rp_ctx *ctx = NULL;

    (void)state;
    for (int i = 0; i < RP_COUNT(wrong); i++) assert_int_equal(rp_ctx_new(&(rp_ctx_options){ .threads = wrong[i] }, &ctx), RP_ERR_ARG);
    assert_null(ctx);
    assert_int_equal(rp_ctx_new(&(rp_ctx_options){ .threads = 4096 }, &ctx), RP_OK);
    rp_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tensor_is_refused_before_a_size_overflows),
        cmocka_unit_test(a_product_that_no_tensor_can_hold_is_refused),
        cmocka_unit_test(any_number_is_refused_or_makes_sound_sizes),
        cmocka_unit_test(a_context_has_at_most_4096_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
