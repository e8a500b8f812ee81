/* optim_test.h -- tensors of noise and a usual configuration, for tests of optimizers. */
#ifndef RP_OPTIM_TEST_H
#define RP_OPTIM_TEST_H

#include "rp_test.h"

#include "optim/optim.h"

static inline rp_tensor *make(rp_ctx *ctx, rp_dtype dtype, int64_t n, rp_mem_class c)
{
    rp_meta meta = rp_meta_1d(dtype, n);
    rp_tensor *t;

    assert_ok(ctx, rp_tensor_new(ctx, &meta, c, &t));
    return t;
}

/* A number in [-1, 1) that depends on i and salt alone. */
static inline double noise(int64_t i, uint32_t salt)
{
    return 2.0 * rp__uniform(rp__philox(salt, (uint32_t)i, 7, 0, 0).word[0]) - 1;
}

static inline void fill_noise(rp_tensor *t, uint32_t salt)
{
    double *v = test_room(t);

    for (int64_t i = 0; i < rp_meta_elems(&t->m); i++) v[i] = noise(i, salt);
    test_put(t, v);
}

static inline rp_optim_config config_of(const char *name)
{
    return (rp_optim_config){ .name = name, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .state_dtype = RP_F32 };
}

#endif
