/* train/shapes.c -- plans for steps on batches that are not full-length. Each shape is rehearsed and planned when it first occurs, and kept.
 *
 * Micro-batches of a step may differ in length, so the shape of a step is the list of the shapes of its micro-batches. */
#include "train/internal.h"

#include <string.h>

#include "plan/plan.h"

typedef struct {
    rp_micro_shape *micro;              /* one for each micro-batch */
    rp_plan *steps;
} known_shape;

struct rp_shape_plans {
    rp_rehearsal rehearsal;             /* opened for the first shape */
    known_shape known[RP_MOST_SHAPES];
    int n, next;                        /* next: the oldest, which is replaced next */
};

static void forget(known_shape *k)
{
    rp__plan_free(k->steps);
    rp__release(k->micro);
    *k = (known_shape){ 0 };
}

void rp__shape_plans_free(rp_shape_plans *plans)
{
    if (!plans) return;
    for (int i = 0; i < RP_MOST_SHAPES; i++) forget(&plans->known[i]);
    rp__rehearsal_close(&plans->rehearsal);
    rp__release(plans);
}

/* ---- a shape ---- */

static rp_status read_shape(rp_trainer *t, int64_t step, rp_micro_shape *micro, int n)
{
    for (int i = 0; i < n; i++) {
        rp_data_batch b;
        RP_TRY(rp__data_batch(t->data, step, i, &b));
        micro[i] = (rp_micro_shape){ b.rows, b.length };
    }
    return RP_OK;
}

static bool is_full(const rp_recipe *r, const rp_micro_shape *micro, int n)
{
    for (int i = 0; i < n; i++)
        if (micro[i].rows != r->batch_size || micro[i].length != r->max_seq_len) return false;
    return true;
}

static rp_plan *shapes_find(const rp_shape_plans *plans, const rp_micro_shape *micro, int n)
{
    for (int i = 0; i < plans->n; i++)
        if (!memcmp(plans->known[i].micro, micro, (size_t)n * sizeof *micro)) return plans->known[i].steps;
    return NULL;
}

/* ---- a new one ---- */

static rp_status shapes_refuse(const rp_trainer *t, const rp_rehearsal *r, const rp_micro_shape *micro)
{
    char budget[RP_SIZE_CHARS], own[RP_SIZE_CHARS];

    return rp_fail(t->ctx, RP_ERR_BUDGET, "no plan fits a memory budget of %s for a step on batches of %" PRId64 " x %" PRId64 "; as the recipe has it "
                   "it takes %s: raise 'memory_budget', or lower 'batch_size'", rp__size_text(budget, r->budget), micro->rows, micro->length,
                   rp__size_text(own, r->own_bytes));
}

static rp_status plan_shape(rp_trainer *t, const rp_micro_shape *micro, rp_plan **out)
{
    rp_rehearsal *r = &t->shapes->rehearsal;

    rp_status status = r->ctx ? RP_OK : rp__rehearsal_open_like(t->ctx, t->recipe, NULL, rp__model_config(t->engine.model), r);
    if (status != RP_OK) {
        rp__rehearsal_close(r);
        return status;
    }
    r->micro = micro;
    RP_TRY(rp__rehearsal_settle(r, 0));
    if (!r->steps) return shapes_refuse(t, r, micro);
    *out     = r->steps;
    r->steps = NULL;
    return RP_OK;
}

static rp_status remember(rp_trainer *t, const rp_micro_shape *micro, int n, rp_plan **out)
{
    rp_shape_plans *plans = t->shapes;
    rp_micro_shape *copy  = rp__host_alloc(t->ctx, n * (int64_t)sizeof *copy);
    rp_plan *steps  = NULL;

    if (!copy) return RP_ERR_MEMORY;
    memcpy(copy, micro, (size_t)n * sizeof *copy);
    rp_status status = plan_shape(t, copy, &steps);
    if (status != RP_OK) {
        rp__release(copy);
        return status;
    }
    known_shape *k = &plans->known[plans->next];
    forget(k);
    *k          = (known_shape){ copy, steps };
    plans->next = (plans->next + 1) % RP_MOST_SHAPES;
    plans->n += plans->n < RP_MOST_SHAPES;
    *out = steps;
    return RP_OK;
}

rp_status rp__trainer_follow_shape(rp_trainer *t, int64_t step)
{
    int n                 = (int)t->recipe->gradient_accumulation_steps;
    rp_micro_shape *micro = rp__host_alloc(t->ctx, n * (int64_t)sizeof *micro);

    if (!micro) return RP_ERR_MEMORY;
    rp_status status = read_shape(t, step, micro, n);
    t->engine.follow = t->steps;
    if (status == RP_OK && !is_full(t->recipe, micro, n)) {
        if (!t->shapes) t->shapes = rp__host_alloc(t->ctx, sizeof *t->shapes);
        if (!t->shapes) status = RP_ERR_MEMORY;
        t->engine.follow = t->shapes ? shapes_find(t->shapes, micro, n) : NULL;
        if (status == RP_OK && !t->engine.follow) status = remember(t, micro, n, &t->engine.follow);
    }
    rp__release(micro);
    return status;
}
