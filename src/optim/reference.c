/* optim/reference.c -- runs the reference of an optimizer block by block if its states are in 8 bits. */
#include "optim/reference.h"

#include <math.h>

typedef double block_states[RP_OPTIM_MAX_STATES][RP_OPTIM_BLOCK];

static int64_t dtype_step(rp_dtype dtype, int64_t n) { return n * rp_dtype_bytes(dtype); }

/* The part of a call in elements [at, at + n), with the states in `state`. */
static rp_optim_call part_of(const rp_optim_call *c, int64_t at, int64_t n, block_states state)
{
    rp_optim_call part = *c;

    part.n           = n;
    part.first       = c->first + at;
    part.state_dtype = RP_F64;
    part.sum_squares = NULL;
    part.param       = (uint8_t *)c->param + dtype_step(c->param_dtype, at);
    part.grad        = (const uint8_t *)c->grad + dtype_step(c->grad_dtype, at);
    if (c->master) part.master = c->master + at;
    for (int k = 0; k < RP_OPTIM_MAX_STATES; k++)
        if (c->state[k]) part.state[k] = state[k];
    return part;
}

static void decode(const rp_optim_call *c, int k, int64_t at, int64_t n, double *to)
{
    const float *value = rp__optim_codes()->value[k];

    for (int64_t i = 0; i < n; i++) to[i] = (double)value[((const uint8_t *)c->state[k])[at + i]] * (double)c->absmax[k][at / RP_OPTIM_BLOCK];
}

static double largest(const double *v, int64_t n)
{
    double most = 0;

    for (int64_t i = 0; i < n; i++) most = isnan(v[i]) || fabs(v[i]) > most ? fabs(v[i]) : most;
    return most;
}

static void encode(const rp_optim_call *c, int k, int64_t at, int64_t n, const double *from)
{
    float most = (float)largest(from, n);

    if (most < 0x1p-126f) most = 0;
    c->absmax[k][at / RP_OPTIM_BLOCK] = most;
    for (int64_t i = 0; i < n; i++)
        ((uint8_t *)c->state[k])[at + i] = rp__optim_encode(rp__optim_codes(), k, most == 0 ? 0 : (float)(from[i] / (double)most));
}

static void run_block(const rp_optim_call *c, int64_t at, int64_t n, void (*reference)(const rp_optim_call *))
{
    block_states state;
    rp_optim_call part = part_of(c, at, n, state);

    for (int k = 0; k < RP_OPTIM_MAX_STATES; k++)
        if (c->state[k]) decode(c, k, at, n, state[k]);
    reference(&part);
    for (int k = 0; k < RP_OPTIM_MAX_STATES; k++)
        if (c->state[k]) encode(c, k, at, n, state[k]);
}

static double sum_squares(const rp_optim_call *c)
{
    double sum = 0;

    for (int64_t i = 0; i < c->n; i++) sum += optim_get(c->grad_dtype, c->grad, i) * optim_get(c->grad_dtype, c->grad, i);
    return sum;
}

void rp__optim_reference(const rp_optim_call *c, void (*reference)(const rp_optim_call *call))
{
    if (c->state_dtype != RP_U8) {
        reference(c);
        return;
    }
    for (int64_t at = 0; at < c->n; at += RP_OPTIM_BLOCK) run_block(c, at, c->n - at < RP_OPTIM_BLOCK ? c->n - at : RP_OPTIM_BLOCK, reference);
    if (c->sum_squares) *c->sum_squares = sum_squares(c);
}
