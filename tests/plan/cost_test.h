/* cost_test.h -- for tests of cost tables: a call on shapes, machines that are not there, a table as if it were measured. */
#ifndef TESTS_COST_TEST_H
#define TESTS_COST_TEST_H

#include "cost/internal.h"
#include "io_test.h"

static inline rp_ctx *shapes_ctx(void) { return test_ctx(&(rp_ctx_options){ .shapes_only = true, .device = "cpu", .threads = 2 }); }

/* Every floating input wants a gradient. False: these shapes are none for the op. */
static inline bool call_on_shapes(rp_ctx *ctx, const rp_op *op, const void *attr, const rp_meta *in, int n_in, rp_op_meta *m)
{
    rp_tensor *t[RP_MAX_IN] = { 0 };
    bool want[RP_MAX_IN]    = { 0 };

    for (int i = 0; i < n_in; i++) {
        assert_ok(ctx, rp_tensor_new(ctx, &in[i], RP_MEM_TEMP, &t[i]));
        want[i] = rp_meta_is_float(&in[i]);
    }
    bool fits = rp__op_prepare(ctx, op, attr, t, n_in, true, want, m) == RP_OK;
    for (int i = 0; i < n_in; i++) rp_tensor_unref(t[i]);
    return fits;
}

/* y [rows, n] = x [rows, k] w */
static inline rp_op_meta product(rp_ctx *ctx, rp_dtype dtype, int64_t rows, int64_t k, int64_t n)
{
    static const rp_attr_matmul attr = { true };
    rp_op_meta m;

    assert_true(call_on_shapes(ctx, &rp_op_matmul, &attr, (rp_meta[]){ rp_meta_2d(dtype, rows, k), rp_meta_2d(dtype, n, k) }, 2, &m));
    return m;
}

/* One input of shape [rows, n]. */
static inline rp_op_meta pointwise(rp_ctx *ctx, const rp_op *op, const void *attr, rp_dtype dtype, int64_t rows, int64_t n)
{
    rp_op_meta m;

    assert_true(call_on_shapes(ctx, op, attr, (rp_meta[]){ rp_meta_2d(dtype, rows, n) }, 1, &m));
    return m;
}

static inline rp_cost_machine machine_of(const char *level, const char *isa, int threads)
{
    rp_cost_machine m = { .threads = threads };

    snprintf(m.cpu, sizeof m.cpu, "a CPU");
    snprintf(m.level, sizeof m.level, "%s", level);
    snprintf(m.isa, sizeof m.isa, "%s", isa);
    for (int i = 0; i < 2; i++) snprintf(m.product[i], sizeof m.product[i], "own %s", level);
    return m;
}

/* From the slowest to the fastest. */
static inline int machines(rp_cost_machine out[6])
{
    out[0] = machine_of("none", "none", 2);
    out[1] = machine_of("base", "base", 2);
    out[2] = machine_of("v3", "avx2", 2);
    out[3] = machine_of("zen4", "avx512-bf16", 2);
    out[4] = machine_of("v4", "avx512", 2);
    out[5] = machine_of("amx", "amx", 2);
    return 6;
}

static inline rp_cost_table *builtin(rp_ctx *ctx, const rp_cost_machine *m)
{
    rp_cost_table *t = NULL;

    assert_ok(ctx, rp__cost_builtin(ctx, m, &t));
    return t;
}

/* This machine's, with figures of no meaning. */
static inline rp_cost_table *as_measured(rp_ctx *ctx)
{
    rp_cost_machine here;

    rp__cost_machine_find(ctx, &here);
    rp_cost_table *t = builtin(ctx, &here);
    t->origin  = RP_COST_FULL;
    t->offload = 1.25e9;
    rp__cost_row(t, 3, RP_BF16, RP_BACKWARD)->bandwidth = 1.0 / 3;     /* not as round as measured ones */
    rp__cost_row(t, 3, RP_BF16, RP_BACKWARD)->bandwidth *= 1e10;
    return t;
}

/* For a group of tests that has a folder. */
static inline int enter(void **state)
{
    (void)state;
    temp_enter();
    return 0;
}

static inline int leave(void **state)
{
    rp_ctx *ctx = shapes_ctx();

    (void)state;
    temp_leave(ctx);
    test_ctx_free(ctx);
    return 0;
}

#endif
