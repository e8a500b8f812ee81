/* planned_step.h -- the step of a small decoder with its least plan, and a folder for files. */
#ifndef RP_PLANNED_STEP_H
#define RP_PLANNED_STEP_H

#include "plan/file.h"
#include "sized_model.h"

#include "base/file.h"
#include "train/temp.h"

static const sizes SMALL = { SIZES_TINY };
static const rp_plan_stamp STAMP = { "0.1", "a machine", 2, 0x1234, 300000, "adamw with fp32 states", 0x77 };
static const rp_plan_takes TAKES = { 1, 2, 3, 4, 5, 0.25, 0.125 };

typedef struct { rp_ctx *ctx; sized_model m; rp_trace trace; rp_plan_problem problem; rp_plan *plan; temp_dir dir; } planned_step;

static inline void one_step(sized_model *m)
{
    rp_tensor *loss;

    assert_ok(m->ctx, sized_loss(m, 0, 0, &loss));
    rp_status status = rp__backward(m->ctx, loss);
    rp_tensor_unref(loss);
    assert_ok(m->ctx, status);
    sized_drop_grads(m);
}

/* The problem points into the subject, which stays where it is. */
static inline void planned_begin(planned_step *x, const sizes *s)
{
    rp_tracer *tracer;
    int64_t least;

    *x   = (planned_step){ .ctx = test_ctx(&(rp_ctx_options){ .threads = 2, .shapes_only = true }), .dir = temp_make() };
    x->m = sized_model_new(x->ctx, s);
    assert_ok(x->ctx, rp__trace_begin(x->ctx, NULL, &tracer));
    one_step(&x->m);
    assert_ok(x->ctx, rp__trace_end(tracer, &x->trace));
    assert_ok(x->ctx, rp__plan_problem(x->ctx, &x->trace, &x->problem));
    assert_ok(x->ctx, rp__plan_least(x->ctx, &x->problem, &least));
    assert_ok(x->ctx, rp__plan_solve(x->ctx, &x->problem, least, &x->plan));
    assert_non_null(x->plan);
    x->plan->variant = (rp_step_variant){ true, true };
}

static inline void planned_end(planned_step *x)
{
    rp__plan_free(x->plan);
    rp__plan_problem_close(&x->problem);
    rp__trace_close(&x->trace);
    sized_model_free(&x->m);
    temp_remove(&x->dir);
    test_ctx_free(x->ctx);
}

#endif
