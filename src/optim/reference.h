/* optim/reference.h -- reads and writes elements in double for the reference implementations of optimizers. Such a function has no states in 8 bits:
 * rp__optim_reference gives it the states of a block in double. */
#ifndef RP_OPTIM_REFERENCE_H
#define RP_OPTIM_REFERENCE_H

#include "kernels/optim.h"

static inline double optim_get(rp_dtype dtype, const void *from, int64_t i)
{
    if (dtype == RP_F64) return ((const double *)from)[i];
    return dtype == RP_F32 ? ((const float *)from)[i] : rp__f32_from_bf16(((const uint16_t *)from)[i]);
}

/* `whose`: 0 for the parameter, 1 + k for state k. */
static inline void optim_put(const rp_optim_call *c, int whose, rp_dtype dtype, void *to, int64_t i, double value)
{
    float f = (float)value;

    if (dtype == RP_F64) {
        ((double *)to)[i] = value;
    } else if (dtype == RP_F32) {
        ((float *)to)[i] = f;
    } else if (!c->stochastic) {
        ((uint16_t *)to)[i] = rp__bf16_from_f32(f);
    } else {
        uint32_t noise      = rp__optim_noise(c->key, c->step, rp__optim_bits[whose].plane, c->first + i);
        ((uint16_t *)to)[i] = rp__bf16_stochastic(f, noise >> rp__optim_bits[whose].shift & 0xffffu);
    }
}

static inline double optim_get_param(const rp_optim_call *c, int64_t i)
{
    return c->master ? c->master[i] : optim_get(c->param_dtype, c->param, i);
}

static inline void optim_put_param(const rp_optim_call *c, int64_t i, double value)
{
    if (c->master) c->master[i] = (float)value;
    optim_put(c, 0, c->param_dtype, c->param, i, value);
}

/* Runs a reference on a call with states of any dtype. */
void rp__optim_reference(const rp_optim_call *call, void (*reference)(const rp_optim_call *call));

#endif
