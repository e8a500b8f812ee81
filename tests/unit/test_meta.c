/* Claims about shapes: what each function of a shape says, at every number of dimensions, where there is none, and of nothing. */
/* ctest: device-free */
#include "rp_test.h"

#include <limits.h>

#include "tensor/tensor.h"

static const int64_t dims[RP_MAX_DIM] = { 2, 3, 5, 7, 11, 13, 17, 19 };
static const struct { rp_dtype dtype; const char *name; int64_t bytes; bool is_float; rp_dtype stat; } dtypes[] = {
    { RP_F32, "fp32", 4, true, RP_F32 }, { RP_BF16, "bf16", 2, true, RP_F32 }, { RP_I32, "int32", 4, false, RP_F32 }, { RP_F64, "fp64", 8, true, RP_F64 },
    { RP_U8, "uint8", 1, false, RP_F32 },
};

static void sizes_are_products_of_the_dimensions(void **state)
{
    (void)state;
    for (int d = 0; d < RP_COUNT(dtypes); d++) {
        int64_t product = 1;
        for (int n = 1; n <= RP_MAX_DIM; n++) {
            rp_meta m = rp_meta_make(dtypes[d].dtype, n, dims);
            product *= dims[n - 1];
            assert_int_equal(rp_meta_elems(&m), product);
            assert_int_equal(rp_meta_rows(&m), product / dims[n - 1]);
            assert_int_equal(rp_meta_bytes(&m), product * dtypes[d].bytes);
            for (int i = 0; i < n; i++) {
                assert_int_equal(rp_meta_dim(&m, i), dims[i]);
                assert_int_equal(rp_meta_dim(&m, i - n), dims[i]);
            }
            assert_int_equal(rp_meta_dim(&m, n), 1);
            assert_int_equal(rp_meta_dim(&m, -n - 1), 1);
        }
    }
}

static void a_dtype_has_a_name_a_size_and_one_for_statistics(void **state)
{
    (void)state;
    for (int d = 0; d < RP_COUNT(dtypes); d++) {
        rp_meta m = rp_meta_1d(dtypes[d].dtype, 3);
        assert_string_equal(rp_dtype_name(dtypes[d].dtype), dtypes[d].name);
        assert_int_equal(rp_dtype_bytes(dtypes[d].dtype), dtypes[d].bytes);
        assert_int_equal(rp_meta_is_float(&m), dtypes[d].is_float);
        assert_int_equal(rp_meta_stat_dtype(&m), dtypes[d].stat);
    }
    assert_string_equal(rp_dtype_name((rp_dtype)99), "unknown dtype");
    assert_string_equal(rp_dtype_name((rp_dtype)-1), "unknown dtype");
    assert_int_equal(rp_dtype_bytes((rp_dtype)99), 0);
}

static void shapes_are_the_same_in_every_dimension_or_not(void **state)
{
    (void)state;
    rp_meta a = rp_meta_make(RP_F32, 3, dims), b = a;

    assert_true(rp_meta_same(&a, &b) && rp_meta_same_shape(&a, &b));
    assert_true(rp__meta_hash(&a, 1) == rp__meta_hash(&b, 1) && rp__meta_hash(&a, 1) != rp__meta_hash(&a, 2));
    b.dtype = RP_BF16;
    assert_true(!rp_meta_same(&a, &b) && rp_meta_same_shape(&a, &b) && rp__meta_hash(&a, 1) != rp__meta_hash(&b, 1));
    for (int i = 0; i < 3; i++) {
        b = a;
        b.dim[i]++;
        assert_true(!rp_meta_same(&a, &b) && !rp_meta_same_shape(&b, &a) && rp__meta_hash(&a, 1) != rp__meta_hash(&b, 1));
    }
    b      = a;
    b.ndim = 2;
    assert_true(!rp_meta_same(&a, &b) && !rp_meta_same_shape(&a, &b) && rp__meta_hash(&a, 1) != rp__meta_hash(&b, 1));
}

/* The numbers of both rows are 0 (fp32), 4, 2 (int32), 1 (bf16), 6. */
static void hashes_of_shapes_in_a_row_differ_by_where_a_shape_ends(void **state)
{
    (void)state;
    rp_meta a[] = { rp_meta_2d(RP_F32, 4, RP_I32), rp_meta_1d(RP_BF16, 6) }, b[] = { rp_meta_1d(RP_F32, 4), rp_meta_2d(RP_I32, RP_BF16, 6) };

    assert_true(rp__meta_hash(&a[1], rp__meta_hash(&a[0], 1)) != rp__meta_hash(&b[1], rp__meta_hash(&b[0], 1)));
}

/* 2^56 bytes, however they are divided. */
static void a_shape_may_be_large_but_not_larger(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .shapes_only = true });

    for (int d = 0; d < RP_COUNT(dtypes); d++) {
        int64_t most = (INT64_C(1) << 56) / dtypes[d].bytes;
        rp_meta fits[] = { rp_meta_1d(dtypes[d].dtype, most), rp_meta_2d(dtypes[d].dtype, 2, most / 2), rp_meta_2d(dtypes[d].dtype, most / 64, 64),
                           rp_meta_2d(dtypes[d].dtype, 0, most), rp_meta_make(dtypes[d].dtype, 0, NULL) };
        rp_meta not[]  = { rp_meta_1d(dtypes[d].dtype, most + 1), rp_meta_2d(dtypes[d].dtype, 2, most / 2 + 1), rp_meta_2d(dtypes[d].dtype, most / 64 + 1, 64),
                           rp_meta_2d(dtypes[d].dtype, 0, most + 1), rp_meta_1d(dtypes[d].dtype, -1) };
        for (int i = 0; i < RP_COUNT(fits); i++) assert_ok(ctx, rp__meta_check(ctx, &fits[i]));
        for (int i = 0; i < RP_COUNT(not); i++) assert_int_equal(rp__meta_check(ctx, &not[i]), RP_ERR_SHAPE);
    }
    test_ctx_free(ctx);
}

static void nothing_has_no_elements_and_is_like_nothing(void **state)
{
    (void)state;
    rp_meta m = rp_meta_2d(RP_F32, 2, 3);

    assert_int_equal(rp_meta_dim(NULL, 0), 1);
    assert_int_equal(rp_meta_elems(NULL), 0);
    assert_int_equal(rp_meta_rows(NULL), 0);
    assert_int_equal(rp_meta_bytes(NULL), 0);
    assert_false(rp_meta_same(&m, NULL) || rp_meta_same(NULL, &m) || rp_meta_same_shape(&m, NULL) || rp_meta_same_shape(NULL, &m));
    assert_false(rp_meta_is_float(NULL));
    assert_int_equal(rp_meta_stat_dtype(NULL), RP_F32);
    assert_string_equal(rp_meta_str(NULL), "no shape");
}

static void a_shape_is_written_with_its_dtype_eight_at_a_time(void **state)
{
    (void)state;
    const char *text[8];
    rp_meta long_one = rp_meta_make(RP_F64, 2, (int64_t[]){ INT64_MAX, INT64_MIN });

    for (int i = 0; i < 8; i++) text[i] = rp_meta_str(&(rp_meta){ RP_BF16, 2, { i, 9 } });
    assert_string_equal(text[0], "bf16 [0, 9]");
    assert_string_equal(text[7], "bf16 [7, 9]");
    assert_string_equal(rp_meta_str(&(rp_meta){ RP_I32, 1, { 4 } }), "int32 [4]");
    assert_string_equal(rp_meta_str(&(rp_meta){ RP_F32, 0, { 0 } }), "fp32 []");
    assert_string_equal(rp_meta_str(&long_one), "fp64 [9223372036854775807, -9223372036854775808]");
    long_one = (rp_meta){ RP_DTYPES, INT_MAX, { 0 } };
    for (int i = 0; i < RP_MAX_DIM; i++) long_one.dim[i] = INT64_MIN;
    text[0] = rp_meta_str(&long_one);
    assert_string_equal(text[0] + strlen(text[0]) - 42, "-9223372036854775808, and 2147483639 more]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_products_of_the_dimensions),
        cmocka_unit_test(a_dtype_has_a_name_a_size_and_one_for_statistics),
        cmocka_unit_test(shapes_are_the_same_in_every_dimension_or_not),
        cmocka_unit_test(hashes_of_shapes_in_a_row_differ_by_where_a_shape_ends),
        cmocka_unit_test(a_shape_may_be_large_but_not_larger),
        cmocka_unit_test(nothing_has_no_elements_and_is_like_nothing),
        cmocka_unit_test(a_shape_is_written_with_its_dtype_eight_at_a_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
