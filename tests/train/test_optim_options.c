/* Claims about optimizers: the norm and its clipping, weight decay, names and bytes of states, and refused options. */
#include "optim_test.h"

#include <math.h>

/* ---- the norm ---- */

static void norm_is_the_same_bits_measured_before_or_within_the_update(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(NULL);
    rp_optim_config config = config_of("adamw");
    rp_optim_param params[3];
    rp_tensor *grads[3];
    rp_optim *optim;

    for (int i = 0; i < 3; i++) {
        params[i] = (rp_optim_param){ .path = "w", .tensor = make(ctx, RP_BF16, 1000 * (i + 1) + i, RP_MEM_PARAM) };
        grads[i]  = make(ctx, i == 1 ? RP_F32 : RP_BF16, 1000 * (i + 1) + i, RP_MEM_GRAD);
        fill_noise(params[i].tensor, 3);
        fill_noise(grads[i], 4 + (uint32_t)i);
    }
    assert_ok(ctx, rp__optim_new(ctx, &config, params, 3, &optim));
    for (int i = 0; i < 3; i++) rp__optim_measure(optim, i, grads[i]);
    double before = rp__optim_norm(optim), expected = 0;
    for (int i = 2; i >= 0; i--)
        rp__optim_update(optim, i, grads[i], &(rp_optim_step){ .step = 1, .lr = 0.1, .grad_scale = 1, .measure = true });
    assert_true(rp__optim_norm(optim) == before);
    for (int i = 0; i < 3; i++)
        for (int64_t e = 0; e < rp_meta_elems(&grads[i]->m); e++) expected += pow(rp_elem_get(grads[i], e), 2);
    assert_true(fabs(before - sqrt(expected)) < 1e-12 * before);
    rp__optim_free(optim);
    for (int i = 0; i < 3; i++) {
        rp_tensor_unref(params[i].tensor);
        rp_tensor_unref(grads[i]);
    }
    test_ctx_free(ctx);
}

static void huge_gradients_have_a_finite_norm_and_bad_ones_do_not(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(NULL);
    rp_optim_config config = config_of("sgd");
    rp_tensor *p = make(ctx, RP_F32, 700, RP_MEM_PARAM), *g = make(ctx, RP_F32, 700, RP_MEM_GRAD);
    rp_optim *optim;

    rp__tensor_zero(p);
    assert_ok(ctx, rp__optim_new(ctx, &config, &(rp_optim_param){ .path = "w", .tensor = p }, 1, &optim));
    for (int i = 0; i < 700; i++) rp_elem_put(g, i, 1e30);
    rp__optim_measure(optim, 0, g);
    assert_true(fabs(rp__optim_norm(optim) / (1e30 * sqrt(700)) - 1) < 1e-6);
    rp_elem_put(g, 699, NAN);
    rp__optim_measure(optim, 0, g);
    assert_true(isnan(rp__optim_norm(optim)));
    rp_elem_put(g, 699, INFINITY);
    rp__optim_measure(optim, 0, g);
    assert_true(isinf(rp__optim_norm(optim)));
    rp__optim_free(optim);
    rp_tensor_unref(p);
    rp_tensor_unref(g);
    test_ctx_free(ctx);
}

static void clipping_never_enlarges(void **state)
{
    (void)state;
    assert_true(rp__clip_scale(0, 1) == 1);
    assert_true(rp__clip_scale(0.5, 1) == 1);
    assert_true(fabs(rp__clip_scale(4, 1) - 0.25) < 1e-6);
}

/* ---- weight decay ---- */

static void no_decay_covers_paths_and_modules(void **state)
{
    (void)state;
    static const char *const paths[] = { "layers.0.attn_norm.weight", "layers.0.attn.q.weight", "layers.0.attn.q.bias", "norm.weight" };
    static const char *const globs[] = { "*.bias", "norm", "*attn_norm" };
    static const bool decays[]       = { false, true, false, false };
    rp_ctx *ctx = test_ctx(NULL);
    rp_optim_config config = config_of("sgd");
    rp_optim_param params[4];
    rp_tensor *g = make(ctx, RP_F32, 1, RP_MEM_GRAD);
    rp_optim *optim;

    config.weight_decay = 0.5;
    config.no_decay     = globs;
    config.n_no_decay   = RP_COUNT(globs);
    rp__tensor_zero(g);
    for (int i = 0; i < 4; i++) {
        params[i] = (rp_optim_param){ .path = paths[i], .tensor = make(ctx, RP_F32, 1, RP_MEM_PARAM) };
        rp_elem_put(params[i].tensor, 0, 1);
    }
    assert_ok(ctx, rp__optim_new(ctx, &config, params, 4, &optim));
    for (int i = 0; i < 4; i++) {
        rp__optim_update(optim, i, g, &(rp_optim_step){ .step = 1, .lr = 1, .grad_scale = 1 });
        assert_true(rp_elem_get(params[i].tensor, 0) == (decays[i] ? 0.5 : 1));
    }
    rp__optim_free(optim);
    config.no_decay   = (const char *const[]){ "layers.0.norm" };
    config.n_no_decay = 1;
    assert_int_equal(rp__optim_new(ctx, &config, params, 4, &optim), RP_ERR_MATCH);
    assert_string_equal(rp_error(ctx), "optimizer.no_decay: 'layers.0.norm' matches no parameter");
    for (int i = 0; i < 4; i++) rp_tensor_unref(params[i].tensor);
    rp_tensor_unref(g);
    test_ctx_free(ctx);
}

/* ---- bookkeeping ---- */

static void states_are_counted_named_and_the_same_without_data(void **state)
{
    (void)state;
    static const struct { rp_dtype dtype; const char *name[6]; int64_t bytes; } all[] = {
        { RP_F32, { "norm.weight.exp_avg", "norm.weight.exp_avg_sq", "norm.weight.master" }, 600 * (4 + 4 + 4) },
        { RP_BF16, { "norm.weight.exp_avg", "norm.weight.exp_avg_sq", "norm.weight.master" }, 600 * (2 + 2 + 4) },
        { RP_U8, { "norm.weight.exp_avg", "norm.weight.exp_avg_absmax", "norm.weight.exp_avg_sq", "norm.weight.exp_avg_sq_absmax", "norm.weight.master" },
          600 * (1 + 1 + 4) + 2 * 3 * 4 },
    };
    rp_mem mem[2];

    for (int k = 0; k < 2 * RP_COUNT(all); k++) {
        int shapes  = k % 2;
        rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .shapes_only = shapes });
        rp_optim_config config = config_of("adamw");
        rp_tensor *p = make(ctx, RP_BF16, 600, RP_MEM_PARAM), *g = make(ctx, RP_BF16, 600, RP_MEM_GRAD);
        rp_optim *optim;
        const char *name;
        config.master_weights = true;
        config.state_dtype    = all[k / 2].dtype;
        if (!shapes) rp__tensor_zero(p), rp__tensor_zero(g);
        assert_ok(ctx, rp__optim_new(ctx, &config, &(rp_optim_param){ .path = "norm.weight", .tensor = p }, 1, &optim));
        uint64_t version = p->storage->version;
        rp__optim_measure(optim, 0, g);
        rp__optim_update(optim, 0, g, &(rp_optim_step){ .step = 1, .lr = 1, .grad_scale = 1, .measure = true });
        assert_true(p->storage->version > version);
        int n = 0;
        for (; all[k / 2].name[n]; n++) assert_string_equal((rp__optim_tensor(optim, n, &name), name), all[k / 2].name[n]);
        assert_null(rp__optim_tensor(optim, n, &name));
        rp_mem_read(ctx, 0, false, &mem[shapes]);
        assert_int_equal(mem[shapes].live_at[RP_MEM_OPTIM], all[k / 2].bytes);
        assert_int_equal(mem[shapes].live_at[RP_MEM_OPTIM], 2 * rp__optim_state_bytes(config.state_dtype, 600) + 600 * 4);
        rp__optim_free(optim);
        rp_tensor_unref(p);
        rp_tensor_unref(g);
        test_ctx_free(ctx);
        if (shapes) assert_memory_equal(&mem[0], &mem[1], sizeof mem[0]);
    }
}

static void bad_options_are_named(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(NULL);
    rp_tensor *p = make(ctx, RP_F32, 1, RP_MEM_PARAM);
    rp_optim_param param = { .path = "w", .tensor = p };
    rp_optim *optim = NULL;
    rp_optim_config c = config_of("adam");

    assert_int_equal(rp__optim_new(ctx, &c, &param, 1, &optim), RP_ERR_CONFIG);
    assert_string_equal(rp_error(ctx), "unknown optimizer 'adam'; did you mean 'adamw'?");
    c       = config_of("adamw");
    c.beta2 = 1;
    assert_int_equal(rp__optim_new(ctx, &c, &param, 1, &optim), RP_ERR_CONFIG);
    assert_string_equal(rp_error(ctx), "optimizer.betas: 1 is not in [0, 1)");
    c             = config_of("adamw");
    c.state_dtype = RP_I32;
    assert_int_equal(rp__optim_new(ctx, &c, &param, 1, &optim), RP_ERR_DTYPE);
    assert_string_equal(rp_error(ctx), "optimizer.state_dtype: int32, expected fp32, bf16 or uint8");
    c.state_dtype = RP_U8;
    param.slice   = (rp_slice){ 16, 16, 1 };
    assert_int_equal(rp__optim_new(ctx, &c, &param, 1, &optim), RP_ERR_ARG);
    assert_string_equal(rp_error(ctx), "the slice of 'w' begins at element 16, within a block of 256: states in 8 bits need whole blocks");
    param.slice = (rp_slice){ 0 };
    c     = config_of("adamw");
    c.eps = -1;
    assert_int_equal(rp__optim_new(ctx, &c, &param, 1, &optim), RP_ERR_CONFIG);
    assert_string_equal(rp_error(ctx), "optimizer.eps: -1 is negative");
    c          = config_of("sgd");
    c.momentum = -0.5f;
    assert_int_equal(rp__optim_new(ctx, &c, &param, 1, &optim), RP_ERR_CONFIG);
    assert_string_equal(rp_error(ctx), "optimizer.momentum: -0.5 is negative");
    c              = config_of("sgd");
    c.weight_decay = -2;
    assert_int_equal(rp__optim_new(ctx, &c, &param, 1, &optim), RP_ERR_CONFIG);
    assert_string_equal(rp_error(ctx), "optimizer.weight_decay: -2 is negative");
    assert_null(optim);
    rp_tensor_unref(p);
    test_ctx_free(ctx);
}

static void parameters_that_are_not_floating_are_refused_unless_they_are_frozen(void **state)
{
    (void)state;
    rp_ctx *ctx            = test_ctx(NULL);
    rp_optim_config config = config_of("adamw");
    rp_tensor *w = make(ctx, RP_F32, 4, RP_MEM_PARAM), *ids = make(ctx, RP_I32, 3, RP_MEM_PARAM);
    rp_optim_param params[] = { { .path = "w", .tensor = w }, { .path = "ids", .tensor = ids } };
    rp_optim *optim = NULL;

    assert_int_equal(rp__optim_new(ctx, &config, params, 2, &optim), RP_ERR_DTYPE);
    assert_string_equal(rp_error(ctx), "the parameter 'ids' is int32 [3]: only floating-point ones are optimized");
    assert_null(optim);
    params[1].frozen = true;
    assert_ok(ctx, rp__optim_new(ctx, &config, params, 2, &optim));
    rp__optim_free(optim);
    rp_tensor_unref(w);
    rp_tensor_unref(ids);
    test_ctx_free(ctx);
}

static void failing_allocations_leave_nothing_behind(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(NULL);
    rp_tensor *p[2] = { make(ctx, RP_BF16, 10, RP_MEM_PARAM), make(ctx, RP_BF16, 20, RP_MEM_PARAM) };
    rp_optim_param params[2] = { { .path = "a", .tensor = p[0] }, { .path = "b", .tensor = p[1] } };
    rp_optim_config config   = config_of("adamw");
    test_faults f = { 0 };

    config.master_weights = true;
    config.state_dtype    = RP_U8;
    while (!f.over) {
        rp_optim *optim = NULL;
        rp_mem m;
        test_fault_begin(&f, ctx);
        if (test_fault_end(&f, rp__optim_new(ctx, &config, params, 2, &optim))) assert_null(optim);
        rp__optim_free(optim);
        rp_mem_read(ctx, 0, false, &m);
        assert_int_equal(m.live_at[RP_MEM_OPTIM], 0);
    }
    assert_true(f.failed > 10);
    rp_tensor_unref(p[0]);
    rp_tensor_unref(p[1]);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_that_are_not_floating_are_refused_unless_they_are_frozen),
        cmocka_unit_test(norm_is_the_same_bits_measured_before_or_within_the_update),
        cmocka_unit_test(huge_gradients_have_a_finite_norm_and_bad_ones_do_not),
        cmocka_unit_test(clipping_never_enlarges),
        cmocka_unit_test(no_decay_covers_paths_and_modules),
        cmocka_unit_test(states_are_counted_named_and_the_same_without_data),
        cmocka_unit_test(bad_options_are_named),
        cmocka_unit_test(failing_allocations_leave_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
