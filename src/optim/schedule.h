/* optim/schedule.h -- the learning rate as a pure function of the step. */
#ifndef RP_OPTIM_SCHEDULE_H
#define RP_OPTIM_SCHEDULE_H

#include "base/base.h"

typedef struct {
    const char *name;                   /* constant, cosine, linear */
    int64_t n_warmup_steps, n_steps;    /* n_steps: optimizer steps of the whole run */
} rp_schedule;

/* errors  RP_ERR_CONFIG unknown name (the nearest is named), negative numbers */
rp_status rp__schedule_check(rp_ctx *ctx, const rp_schedule *schedule);

/* What the recipe's rate is multiplied by in the optimizer step `step`, counted from 0. Of a checked schedule. */
double rp__schedule_factor(const rp_schedule *schedule, int64_t step);

#endif
