/* kernels/gpu/optim.c -- launches the kernels of optim.k.
 *
 * A sum of squares goes through memory of the queue: its first number is the sum, the sums of spans follow. A sum in rp__gpu_sums stays on the device.
 * Any other is copied to the host, and is there after the next rp__mem_sync. */
#include "kernels/gpu/host.h"

#include <math.h>

_Static_assert((1 + RP_OPTIM_SPANS) * sizeof(double) <= RP_GPU_ROOM_BYTES, "the sums of spans fit the memory of a queue");

void rp__gpu_op_sum_squares(rp_dtype dtype, const void *from, int64_t first, int64_t n, double *sum, const rp_on *on)
{
    int64_t tiles = n ? gpu_blocks(first % RP_OPTIM_TILE + n, RP_OPTIM_TILE) : 0, length = gpu_blocks(tiles, RP_OPTIM_SPANS);
    int64_t spans = length ? gpu_blocks(tiles, length) : 0;
    double *room = rp__gpu_room(on, (1 + spans) * (int64_t)sizeof *room), *kept = rp__gpu_sums(on);
    bool stays        = sum >= kept && sum < kept + RP_GPU_SUMS;
    squares_args args = { gpu_address(from), gpu_address(room), gpu_address(stays ? sum : room), first, n, tiles, length, (int)dtype, (int)spans };

    gpu_line(on, &rp__gpu_squares_of_spans, spans, &args);
    gpu_line(on, &rp__gpu_add_spans, 1, &args);
    if (!stays) rp__gpu_copy_to_host(on, sum, room, sizeof *sum);
}

static step_update update_values(const rp_step_now *now)
{
    return (step_update){ .step = now->update, .lr = now->lr, .rate = (float)(now->lr / now->bias1), .unbias = (float)(1 / sqrt(now->bias2)),
                          .narrow_lr = (float)now->lr, .scale = (float)now->grad_scale };
}

static u64 update_now(const rp_optim_call *c)
{
    step_update now = update_values(&(rp_step_now){ .lr = c->lr, .grad_scale = c->grad_scale, .bias1 = c->bias1, .bias2 = c->bias2, .update = c->step });

    return rp__gpu_now(&c->on, offsetof(step_block, update), &now, sizeof now) - offsetof(step_block, update);
}

/* coded: for states in 8 bits. */
static void update(const rp_optim_call *c, const rp_gpu_kernel *kernel, const rp_gpu_kernel *coded)
{
    int64_t tiles = c->n ? gpu_blocks(c->first % RP_OPTIM_TILE + c->n, RP_OPTIM_TILE) : 0;
    optim_args args = { .param = gpu_address(c->param), .state0 = gpu_address(c->state[0]), .state1 = gpu_address(c->state[1]),
                        .absmax0 = gpu_address(c->absmax[0]), .absmax1 = gpu_address(c->absmax[1]),
                        .master = gpu_address(c->master), .grad = gpu_address(c->grad), .key = c->key, .now = update_now(c), .n = c->n, .first = c->first,
                        .decay = c->weight_decay, .weight_decay = (float)c->weight_decay, .eps = (float)c->eps, .momentum = (float)c->momentum,
                        .w1 = (float)(1 - c->beta1), .b2 = (float)c->beta2, .w2 = (float)(1 - c->beta2), .param_dtype = (int)c->param_dtype,
                        .grad_dtype = (int)c->grad_dtype, .state_dtype = (int)c->state_dtype, .stochastic = c->stochastic, .clipped = c->clipped };

    if (c->sum_squares) rp__gpu_op_sum_squares(c->grad_dtype, c->grad, c->first, c->n, c->sum_squares, &c->on);
    gpu_line(&c->on, c->state_dtype == RP_U8 && c->state[0] ? coded : kernel, gpu_blocks(tiles, FLAT_THREADS / (RP_OPTIM_TILE / 4)), &args);
}

void rp__gpu_op_adamw(const rp_optim_call *c) { update(c, &rp__gpu_adamw, &rp__gpu_adamw_coded); }

void rp__gpu_op_sgd(const rp_optim_call *c) { update(c, &rp__gpu_sgd, &rp__gpu_sgd_coded); }

/* ---- a step's results stay on the device until its end ---- */

static u64 results_at(const rp_on *on) { return rp__gpu_block(on) + offsetof(step_block, results); }

/* Every further micro-batch keeps the results so far. A step that follows keeps those that say whether it stops. */
void rp__gpu_op_step_begin(const rp_step_now *now, const rp_on *on)
{
    step_block b = { .stream = { now->step, now->sample_base }, .update = update_values(now), .weight = now->weight };

    size_t kept = offsetof(step_block, results) + (now->first ? offsetof(step_results, stopped) : 0);
    rp__gpu_renew(on, 0, &b, (int64_t)(now->first && !now->follows ? sizeof b : kept));
}

void rp__gpu_op_step_loss(const float *loss, const rp_on *on)
{
    step_loss_args args = { gpu_address(loss), results_at(on) };

    gpu_line(on, &rp__gpu_step_loss, 1, &args);
}

void rp__gpu_op_step_norm(const double *squares, int64_t n, double most, const rp_on *on)
{
    step_norm_args args = { gpu_address(squares), results_at(on), n, most };

    gpu_line(on, &rp__gpu_step_norm, 1, &args);
}

_Static_assert(sizeof(rp_step_results) == sizeof(step_results) && offsetof(rp_step_results, first_bad) == offsetof(step_results, first_bad),
               "the host's results are the device's");

void rp__gpu_op_step_end(rp_step_results *out, const rp_on *on)
{
    rp__gpu_copy_to_host(on, out, (const void *)(uintptr_t)results_at(on), sizeof *out);
}

void rp__gpu_op_step_sums(int64_t n, double **sums, const rp_on *on)
{
    *sums = n <= RP_GPU_SUMS ? rp__gpu_sums(on) : NULL;
}
