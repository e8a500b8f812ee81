/* Claims about numbers of a recipe at their bounds: the last that is right is taken, the first that is wrong is refused. */
/* ctest: device-free */
#include "rp_test.h"

#include <math.h>

#include "optim/optim.h"
#include "shard/ranks.h"

static const rp_optim_config plain = { .name = "adamw", .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .state_dtype = RP_F32 };

static void numbers_of_an_optimizer_keep_to_their_bounds(void **state)
{
    static const struct { size_t field; double right[2], wrong[2]; const char *said; } all[] = {
        { offsetof(rp_optim_config, beta1), { 0, 0.999999 }, { 1, -1e-9 }, "optimizer.betas: " },
        { offsetof(rp_optim_config, beta2), { 0, 0.999999 }, { 1, -1e-9 }, "optimizer.betas: " },
        { offsetof(rp_optim_config, eps), { 0, 1 }, { -1e-9, NAN }, "optimizer.eps: " },
        { offsetof(rp_optim_config, momentum), { 0, 1 }, { -1e-9, NAN }, "optimizer.momentum: " },
        { offsetof(rp_optim_config, weight_decay), { 0, 1 }, { -1e-9, NAN }, "optimizer.weight_decay: " },
    };
    rp_ctx *ctx  = test_ctx(NULL);
    rp_meta meta = rp_meta_1d(RP_F32, 3);
    rp_optim_param param = { .path = "a" };
    rp_optim *optim = NULL;

    (void)state;
    assert_ok(ctx, rp_tensor_new(ctx, &meta, RP_MEM_PARAM, &param.tensor));
    for (int i = 0; i < 2 * RP_COUNT(all); i++) {
        rp_optim_config c = plain;
        double *field     = (double *)((char *)&c + all[i / 2].field);
        *field = all[i / 2].right[i % 2];
        assert_ok(ctx, rp__optim_new(ctx, &c, &param, 1, &optim));
        rp__optim_free(optim);
        optim  = NULL;
        *field = all[i / 2].wrong[i % 2];
        if (rp__optim_new(ctx, &c, &param, 1, &optim) != RP_ERR_CONFIG || !strstr(rp_error(ctx), all[i / 2].said))
            fail_msg("%s %g: %s", all[i / 2].said, *field, rp_error(ctx));
        assert_null(optim);
    }
    rp_optim_config c = plain;
    c.name            = "adamv";
    assert_int_equal(rp__optim_new(ctx, &c, &param, 1, &optim), RP_ERR_CONFIG);
    assert_string_equal(rp_error(ctx), "unknown optimizer 'adamv'; did you mean 'adamw'?");
    c             = plain;
    c.state_dtype = RP_I32;
    assert_int_equal(rp__optim_new(ctx, &c, &param, 1, &optim), RP_ERR_DTYPE);
    rp_tensor_unref(param.tensor);
    test_ctx_free(ctx);
}

/* stay: dist.reshard_after_forward: N, asked for once the ranks have met. */
static void numbers_of_ranks_keep_to_their_bounds(void **state)
{
    static const struct { int ranks; int64_t copies, stay; rp_status status; const char *said; } all[] = {
        { 1, 1, 0, RP_OK, NULL }, { 1, 1, 5, RP_OK, NULL }, { 16384, 1, 0, RP_OK, NULL }, { 6, 3, 0, RP_OK, NULL }, { 6, 6, 0, RP_OK, NULL },
        { 6, 1, 3, RP_OK, NULL }, { 6, 1, 2, RP_OK, NULL }, { 12, 2, 3, RP_OK, NULL },
        { 16385, 1, 0, RP_ERR_UNSUPPORTED, "16385 ranks are more than 16384" },
        { 6, 0, 0, RP_ERR_CONFIG, "dist.replicate_dim: 0 copies" }, { 6, 4, 0, RP_ERR_CONFIG, "dist.replicate_dim: 4 copies" },
        { 6, -1, 0, RP_ERR_CONFIG, "dist.replicate_dim: -1 copies" }, { 6, 12, 0, RP_ERR_CONFIG, "dist.replicate_dim: 12 copies" },
        { 6, 1, 1, RP_ERR_CONFIG, "groups of 1 do not divide the 6" }, { 6, 1, 6, RP_ERR_CONFIG, "groups of 6 do not divide" },
        { 6, 1, 4, RP_ERR_CONFIG, "groups of 4 do not divide" }, { 6, 1, -2, RP_ERR_CONFIG, "groups of -2 do not divide" },
        { 12, 2, 4, RP_ERR_CONFIG, "groups of 4 do not divide the 6" },
    };

    (void)state;
    for (int i = 0; i < RP_COUNT(all); i++) {
        rp_ctx *ctx      = test_ctx(&(rp_ctx_options){ .shapes_only = true });
        rp_status status = rp__ranks_pretend(ctx, 0, all[i].ranks, all[i].copies);
        if (status == RP_OK) status = rp__ranks_stay(ctx, all[i].stay);
        if (status != all[i].status || (all[i].said && !strstr(rp_error(ctx), all[i].said)))
            fail_msg("%d ranks, %d copies, groups of %d: status %d: %s", all[i].ranks, (int)all[i].copies, (int)all[i].stay, (int)status, rp_error(ctx));
        rp__ranks_leave(ctx);
        test_ctx_free(ctx);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_of_an_optimizer_keep_to_their_bounds),
        cmocka_unit_test(numbers_of_ranks_keep_to_their_bounds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
