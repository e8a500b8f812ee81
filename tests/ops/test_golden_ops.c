/* Ops against PyTorch in fp64: golden_ops.json, made by tools/golden_ops.py. */
#include "rp_test.h"

#include "ops/call.h"

#include <jansson.h>
#include <math.h>

typedef union {
    rp_attr_matmul matmul;
    rp_attr_norm norm;
    rp_attr_gelu gelu;
    rp_attr_dim dim;
    rp_attr_cross_entropy loss;
} attributes;

static attributes read_attributes(const char *op, const json_t *j)
{
    attributes a = { 0 };

    if (!strcmp(op, "matmul")) a.matmul.transpose_w = json_is_true(json_object_get(j, "transpose_w"));
    else if (strstr(op, "norm")) a.norm.eps = (float)json_real_value(json_object_get(j, "eps"));
    else if (!strcmp(op, "gelu")) a.gelu.erf = json_is_true(json_object_get(j, "erf"));
    else if (strstr(op, "cross_entropy"))
        a.loss = (rp_attr_cross_entropy){ (float)json_real_value(json_object_get(j, "weight")),
                                          (int32_t)json_integer_value(json_object_get(j, "ignore_index")), 0 };
    else a.dim.dim = (int)json_integer_value(json_object_get(j, "dim"));
    return a;
}

static rp_tensor *read_tensor(rp_ctx *ctx, const json_t *j)
{
    json_t *dim = json_object_get(j, "dim"), *data = json_object_get(j, "data"), *value;
    int64_t dims[RP_MAX_DIM];
    rp_tensor *t = NULL;
    size_t i;

    json_array_foreach(dim, i, value) dims[i] = json_integer_value(value);
    rp_meta m = rp_meta_make(json_is_true(json_object_get(j, "int")) ? RP_I32 : RP_F64, (int)json_array_size(dim), dims);
    assert_ok(ctx, rp_tensor_new(ctx, &m, RP_MEM_TEMP, &t));
    json_array_foreach(data, i, value) rp_elem_put(t, (int64_t)i, json_number_value(value));
    return t;
}

static void check_tensor(const char *op, const char *what, const rp_tensor *got, const json_t *j)
{
    json_t *data = json_object_get(j, "data"), *dim = json_object_get(j, "dim"), *value;
    size_t i;

    assert_int_equal(got->m.ndim, json_array_size(dim));
    json_array_foreach(dim, i, value) assert_int_equal(got->m.dim[i], json_integer_value(value));
    json_array_foreach(data, i, value) {
        double a = rp_elem_get(got, (int64_t)i), b = json_number_value(value);
        if (!(fabs(a - b) <= 2e-7 * (1 + fabs(b)))) fail_msg("%s: element %zu of the %s is %.17g, PyTorch has %.17g", op, i, what, a, b);
    }
}

static void check_case(rp_ctx *ctx, const json_t *j)
{
    const char *name = json_string_value(json_object_get(j, "op"));
    json_t *inputs = json_object_get(j, "in"), *gradients = json_object_get(j, "grad_in");
    attributes a   = read_attributes(name, json_object_get(j, "attr"));
    int n_in       = (int)json_array_size(inputs);
    bool want[RP_MAX_IN];
    rp_tensor *in[RP_MAX_IN], *out[RP_MAX_OUT] = { 0 }, *slot[RP_MAX_SLOT] = { 0 };
    rp_op_meta m;
    rp_op_call c = { .meta = &m };

    for (int i = 0; i < n_in; i++) {
        in[i]   = read_tensor(ctx, json_array_get(inputs, (size_t)i));
        want[i] = !json_is_null(json_array_get(gradients, (size_t)i));
    }
    assert_ok(ctx, rp__op_prepare(ctx, rp__op_find(name), &a, in, n_in, true, want, &m));
    assert_ok(ctx, rp__op_forward(&m, (rp_op_stream){ 0 }, in, out, slot));
    check_tensor(name, "output", out[0], json_object_get(j, "out"));
    memcpy(c.in, in, (size_t)n_in * sizeof *in);
    memcpy(c.out, out, sizeof out);
    memcpy(c.slot, slot, sizeof slot);
    c.grad_out[0] = read_tensor(ctx, json_object_get(j, "grad_out"));
    for (int i = 0; i < n_in; i++)
        if (m.in_grad[i]) assert_ok(ctx, rp_tensor_new(ctx, &m.in[i], RP_MEM_TEMP, &c.grad_in[i]));
    assert_ok(ctx, rp__op_backward(&c));
    for (int i = 0; i < n_in; i++) {
        if (c.grad_in[i]) check_tensor(name, "gradient", c.grad_in[i], json_array_get(gradients, (size_t)i));
        rp_tensor_unref(c.grad_in[i]);
        rp_tensor_unref(in[i]);
    }
    rp_tensor_unref(c.grad_out[0]);
    rp_tensor_unref(out[0]);
    for (int i = 0; i < m.n_slot; i++) rp_tensor_unref(slot[i]);
}

static void ops_compute_what_pytorch_computes(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(NULL);
    json_error_t error;
    json_t *cases = json_load_file(RP_SOURCE_DIR "/tests/ops/golden_ops.json", 0, &error), *j;
    size_t i;

    if (!cases) fail_msg("golden_ops.json: %s", error.text);
    assert_true(json_array_size(cases) > 0);
    json_array_foreach(cases, i, j) check_case(ctx, j);
    json_decref(cases);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(ops_compute_what_pytorch_computes) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
