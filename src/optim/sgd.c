/* optim/sgd.c -- stochastic gradient descent as torch.optim.SGD, without dampening and Nesterov momentum.
 *
 *   g = g + wd p      b = momentum b + g      p = p - lr b
 *
 *   state   momentum_buffer (b), only if momentum is not 0. It starts at zero, which gives b = g in the first step, as in torch.
 */
#include "optim/optim.h"
#include "optim/reference.h"

static bool wants_state(const rp_optim_config *config, int state)
{
    (void)state;
    return config->momentum != 0;
}

static void reference(const rp_optim_call *c)
{
    double sum = 0;

    for (int64_t i = 0; i < c->n; i++) {
        double raw = optim_get(c->grad_dtype, c->grad, i), p = optim_get_param(c, i);
        double step = raw * c->grad_scale + c->weight_decay * p;
        if (c->state[0]) {
            step += c->momentum * optim_get(c->state_dtype, c->state[0], i);
            optim_put(c, 1, c->state_dtype, c->state[0], i, step);
        }
        optim_put_param(c, i, p - c->lr * step);
        sum += raw * raw;
    }
    if (c->sum_squares) *c->sum_squares = sum;
}

static void update(const rp_kernels *kernels, const rp_optim_call *call)
{
    if (kernels->sgd) kernels->sgd(call);
    else rp__optim_reference(call, reference);
}

const rp_optim_kind rp__optim_sgd = {
    .name = "sgd", .state_name = { "momentum_buffer" }, .wants_state = wants_state, .update = update,
};
