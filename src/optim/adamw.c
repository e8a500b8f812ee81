/* optim/adamw.c -- AdamW with decoupled weight decay: Loshchilov and Hutter, arXiv 1711.05101.
 *
 *   m = beta1 m + (1 - beta1) g          v = beta2 v + (1 - beta2) g g
 *   p = p (1 - lr wd) - lr / (1 - beta1^t) * m / (sqrt(v / (1 - beta2^t)) + eps)
 *
 *   states  exp_avg (m), exp_avg_sq (v)
 */
#include "optim/optim.h"
#include "optim/reference.h"

#include <math.h>

static bool wants_state(const rp_optim_config *config, int state)
{
    (void)config;
    (void)state;
    return true;
}

static void reference(const rp_optim_call *c)
{
    double sum = 0;

    for (int64_t i = 0; i < c->n; i++) {
        double raw = optim_get(c->grad_dtype, c->grad, i), g = raw * c->grad_scale;
        double m = optim_get(c->state_dtype, c->state[0], i), v = optim_get(c->state_dtype, c->state[1], i);
        m += (1 - c->beta1) * (g - m);
        v = c->beta2 * v + (1 - c->beta2) * g * g;
        double p = optim_get_param(c, i) * (1 - c->lr * c->weight_decay);
        optim_put_param(c, i, p - c->lr / c->bias1 * m / (sqrt(v / c->bias2) + c->eps));
        optim_put(c, 1, c->state_dtype, c->state[0], i, m);
        optim_put(c, 2, c->state_dtype, c->state[1], i, v);
        sum += raw * raw;
    }
    if (c->sum_squares) *c->sum_squares = sum;
}

static void update(const rp_kernels *kernels, const rp_optim_call *call)
{
    if (kernels->adamw) kernels->adamw(call);
    else rp__optim_reference(call, reference);
}

const rp_optim_kind rp__optim_adamw = {
    .name = "adamw", .state_name = { "exp_avg", "exp_avg_sq" }, .wants_state = wants_state, .update = update,
};
