/* optim/schedule.c -- the schedules of transformers and torchtune (get_{constant,cosine,linear}_schedule_with_warmup).
 *
 * With s the step from 0, w the warm-up steps and n the steps of the run:
 *
 *   s < w      s / max(1, w)                               so the first of several warm-up steps has a rate of 0
 *   constant   1
 *   linear     max(0, (n - s) / max(1, n - w))
 *   cosine     max(0, (1 + cos(pi (s - w) / max(1, n - w))) / 2)
 */
#include "optim/schedule.h"

#include <math.h>
#include <string.h>

static double at_least_1(int64_t n) { return n > 1 ? (double)n : 1; }

static double constant(const rp_schedule *c, int64_t step)
{
    (void)c;
    (void)step;
    return 1;
}

static double linear(const rp_schedule *c, int64_t step)
{
    double left = (double)(c->n_steps - step) / at_least_1(c->n_steps - c->n_warmup_steps);

    return left > 0 ? left : 0;
}

static double cosine(const rp_schedule *c, int64_t step)
{
    double done = (double)(step - c->n_warmup_steps) / at_least_1(c->n_steps - c->n_warmup_steps);
    double f    = 0.5 * (1 + cos(3.14159265358979323846 * done));

    return f > 0 ? f : 0;
}

static const struct { const char *name; double (*factor)(const rp_schedule *c, int64_t step); } schedules[] = {
    { "constant", constant },
    { "cosine", cosine },
    { "linear", linear },
};

rp_status rp__schedule_check(rp_ctx *ctx, const rp_schedule *c)
{
    const char *names[RP_COUNT(schedules) + 1] = { 0 };

    for (int i = 0; i < RP_COUNT(schedules); i++) names[i] = schedules[i].name;
    const char *near = rp__nearest(c->name, names);
    bool known       = near && !strcmp(near, c->name);
    RP_CHECK(ctx, known, RP_ERR_CONFIG, "unknown schedule '%s'%s%s%s", c->name, near ? "; did you mean '" : "",
             near ? near : "", near ? "'?" : "");
    RP_CHECK(ctx, c->n_warmup_steps >= 0, RP_ERR_CONFIG, "lr_scheduler.num_warmup_steps: %" PRId64 " is negative",
             c->n_warmup_steps);
    RP_CHECK(ctx, c->n_steps >= 0, RP_ERR_CONFIG, "the run has %" PRId64 " steps", c->n_steps);
    return RP_OK;
}

const char *rp__schedule_name(const char *name)
{
    for (int i = 0; i < RP_COUNT(schedules); i++)
        if (!strcmp(schedules[i].name, name)) return schedules[i].name;
    return NULL;
}

double rp__schedule_factor(const rp_schedule *c, int64_t step)
{
    if (step < c->n_warmup_steps) return (double)step / at_least_1(c->n_warmup_steps);
    for (int i = 0; i < RP_COUNT(schedules); i++)
        if (!strcmp(schedules[i].name, c->name)) return schedules[i].factor(c, step);
    return 1;
}
