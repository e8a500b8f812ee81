/* kernels/gpu/optim.c -- launches the kernels of optim.k.
 *
 * A sum of squares goes through memory of the queue: its first number is the sum, the sums of spans follow. It is copied from there to the host, and is
 * there after the next rp__mem_sync. Kernels and copies of a queue run in order, so the next sum may overwrite that memory. */
#include "kernels/gpu/host.h"

#include <math.h>

_Static_assert((1 + RP_OPTIM_SPANS) * sizeof(double) <= RP_GPU_ROOM_BYTES, "the sums of spans fit the memory of a queue");

void rp__gpu_op_sum_squares(rp_dtype dtype, const void *from, int64_t first, int64_t n, double *sum, const rp_on *on)
{
    int64_t tiles = n ? gpu_blocks(first % RP_OPTIM_TILE + n, RP_OPTIM_TILE) : 0, length = gpu_blocks(tiles, RP_OPTIM_SPANS);
    int64_t spans = length ? gpu_blocks(tiles, length) : 0;
    void *room    = rp__gpu_room(on);
    squares_args args = { gpu_address(from), gpu_address(room), first, n, tiles, length, (int)dtype, (int)spans };

    gpu_line(on, &rp__gpu_squares_of_spans, spans, &args);
    gpu_line(on, &rp__gpu_add_spans, 1, &args);
    rp__gpu_copy_to_host(on, sum, room, sizeof *sum);
}

/* coded: for states in 8 bits. */
static void update(const rp_optim_call *c, const rp_gpu_kernel *kernel, const rp_gpu_kernel *coded)
{
    int64_t tiles = c->n ? gpu_blocks(c->first % RP_OPTIM_TILE + c->n, RP_OPTIM_TILE) : 0;
    optim_args args = { .param = gpu_address(c->param), .state0 = gpu_address(c->state[0]), .state1 = gpu_address(c->state[1]),
                        .absmax0 = gpu_address(c->absmax[0]), .absmax1 = gpu_address(c->absmax[1]),
                        .master = gpu_address(c->master), .grad = gpu_address(c->grad), .key = c->key, .n = c->n, .first = c->first, .step = c->step,
                        .scale = (float)c->grad_scale, .decay = (float)(1 - c->lr * c->weight_decay), .weight_decay = (float)c->weight_decay,
                        .eps = (float)c->eps, .lr = (float)c->lr, .rate = (float)(c->lr / c->bias1), .unbias = (float)(1 / sqrt(c->bias2)),
                        .momentum = (float)c->momentum, .w1 = (float)(1 - c->beta1), .b2 = (float)c->beta2, .w2 = (float)(1 - c->beta2),
                        .param_dtype = (int)c->param_dtype, .grad_dtype = (int)c->grad_dtype, .state_dtype = (int)c->state_dtype,
                        .stochastic = c->stochastic };

    if (c->sum_squares) rp__gpu_op_sum_squares(c->grad_dtype, c->grad, c->first, c->n, c->sum_squares, &c->on);
    gpu_line(&c->on, c->state_dtype == RP_U8 && c->state[0] ? coded : kernel, gpu_blocks(tiles, FLAT_THREADS / (RP_OPTIM_TILE / 4)), &args);
}

void rp__gpu_op_adamw(const rp_optim_call *c) { update(c, &rp__gpu_adamw, &rp__gpu_adamw_coded); }

void rp__gpu_op_sgd(const rp_optim_call *c) { update(c, &rp__gpu_sgd, &rp__gpu_sgd_coded); }
