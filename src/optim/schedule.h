/* optim/schedule.h -- the learning rate as a pure function of the step. */
#ifndef RP_OPTIM_SCHEDULE_H
#define RP_OPTIM_SCHEDULE_H

#include "base/base.h"

typedef struct {
    const char *name;                   /* constant, cosine, linear */
    int64_t n_warmup_steps, n_steps;    /* n_steps: optimizer steps of the whole run */
} rp_schedule;

/* Check a schedule. errors RP_ERR_CONFIG an unknown name (the nearest is suggested), or negative numbers */
rp_status rp__schedule_check(rp_ctx *ctx, const rp_schedule *schedule);

/* The name as static text; NULL if there is no such schedule. */
const char *rp__schedule_name(const char *name);

/* Factor of the recipe's learning rate in optimizer step `step`, counted from 0. The schedule must have passed the check. */
double rp__schedule_factor(const rp_schedule *schedule, int64_t step);

#endif
