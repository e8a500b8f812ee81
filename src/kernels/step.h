/* kernels/step.h -- a step whose loss, norm and clip factor stay on the device. The host queues the whole step, and reads the results when it has queued
 * the next one or at the step's end. */
#ifndef RP_KERNELS_STEP_H
#define RP_KERNELS_STEP_H

#include <stdbool.h>
#include <stdint.h>

/* The values that differ from step to step. They are known when a micro-batch begins. */
typedef struct rp_step_now {
    bool first;                         /* micro-batch of the step: forget the results of the step before it … */
    bool follows;                       /* … but for `stopped` and `first_bad`: the host has not read them, so if that step stopped, this one does, too */
    int64_t step, sample_base;          /* of random streams (base/philox.h) */
    float weight;                       /* of the loss */
    int64_t update;                     /* the update's step, from 1; the members below are those of rp_optim_call */
    double lr, grad_scale, bias1, bias2;
} rp_step_now;

/* loss: the sum over micro-batches; first_bad: the first of them that is not finite. stopped: 0, or the updates that clip a norm, and all after a loss
 * that is not finite, did nothing. */
enum { RP_STEP_BAD_LOSS = 1, RP_STEP_BAD_NORM = 2 };
typedef struct rp_step_results { double loss, norm; float clip; int stopped; double first_bad; } rp_step_results;

#endif
