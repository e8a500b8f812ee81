/* rehearse/rules.c -- tries a few rules that would recompute kept values, each in a step of its own. */
#include "rehearse/rehearsal.h"

#include <stdlib.h>

#include "base/bump.h"
#include "policy/policy.h"

enum { MOST_TRIALS = 3 };

static rp_status with_rule(rp_rehearsal *r, const rp_explain_trial *trial, const rp_policy *then, rp_policy **out)
{
    rp_status status = rp_policy_new(r->ctx, "explain", out);

    if (status == RP_OK) status = rp_policy_rule(*out, *trial->path ? trial->path : NULL, trial->op, RP_RECOMPUTE);
    for (int i = 0; then && i < then->n_rules && status == RP_OK; i++) status = rp__policy_add(*out, &then->rule[i]);
    return status;
}

/* *counts: the rule frees bytes. A rule that another policy forbids does not count. */
static rp_status try_rule(rp_rehearsal *r, rp_explain_trial *trial, bool *counts)
{
    rp_engine *e         = &r->engine;
    const rp_explain *x  = r->explain;
    rp_policy *before    = e->selection.policy, *policy = NULL;
    rp_step_result step;

    *counts          = false;
    rp_status status = with_rule(r, trial, before, &policy);
    if (status == RP_OK) {
        e->selection.policy = policy;
        e->follow           = NULL;
        status              = rp__engine_step(e, NULL, 0, 0, &step);
        e->selection.policy = before;
    }
    rp_policy_free(policy);
    if (status != RP_OK) return status == RP_ERR_MEMORY ? status : RP_OK;
    trial->saved_bytes = r->steps->found.saved_bytes - step.saved_bytes;      /* of class saved only: gathered weights have another class */
    trial->peak_bytes  = x->peak_bytes - step.memory.peak_bytes;
    trial->flops       = step.work.recompute_flops - x->recompute_flops;
    *counts            = trial->saved_bytes > 0 && trial->peak_bytes >= 0;
    return RP_OK;
}

static bool is_candidate(const rp_explain *e, const rp_explain_row *row)
{
    if (row->slot->fate != RP_KEEP || !row->slot->saved || !row->slot->reads) return false;
    for (int i = 0; i < e->n_trials; i++)
        if (!strcmp(e->trial[i].path, row->path) && !strcmp(e->trial[i].op, row->slot->op)) return false;
    return true;
}

static int best_first(const void *left, const void *right)
{
    const rp_explain_trial *a = left, *b = right;

    if (a->peak_bytes != b->peak_bytes) return a->peak_bytes < b->peak_bytes ? 1 : -1;
    return (a->saved_bytes < b->saved_bytes) - (a->saved_bytes > b->saved_bytes);
}

/* Tries rules for the largest kept values. */
static rp_status try_rules(rp_rehearsal *r)
{
    rp_explain *e = r->explain;
    rp_explain_row *row;
    int n_rows, tried = 0;
    bool counts;

    RP_TRY(rp__explain_rows(e, &row, &n_rows));
    e->trial = rp__bump_alloc(&e->bump, MOST_TRIALS * (int64_t)sizeof *e->trial);
    if (!e->trial) return RP_ERR_MEMORY;
    for (int i = 0; i < n_rows && tried < MOST_TRIALS; i++) {
        if (!is_candidate(e, &row[i])) continue;
        rp_explain_trial *trial = &e->trial[e->n_trials];
        *trial                  = (rp_explain_trial){ .path = row[i].path, .op = row[i].slot->op };
        RP_TRY(try_rule(r, trial, &counts));
        e->n_trials += counts;
        tried++;
    }
    qsort(e->trial, (size_t)e->n_trials, sizeof *e->trial, best_first);
    return RP_OK;
}

rp_status rp__rehearsal_try_rules(rp_rehearsal *r)
{
    RP_TRY(rp__rehearsal_ready(r));
    return rp__rehearsal_end(r, try_rules(r));
}
