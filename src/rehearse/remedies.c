/* rehearse/remedies.c -- if nothing fits: finds changes of the recipe, each by itself, and the least budget with each of them.
 *
 * Each change is tried, not estimated: the changed recipe is rehearsed and its plan is placed. So the bytes of a remedy are a budget that
 * fits. A change is left out if the recipe has it already, if it does not apply, or if it saves nothing.
 */
#include <stdlib.h>

#include "rehearse/rehearsal.h"

#include "plan/plan.h"

enum { CHANGE_CHARS = 48 };

/* Changes the recipe and writes the change as settings. Returns false if it does not apply. */
typedef bool remedy(rp_recipe *r, char text[CHANGE_CHARS]);

static bool say(char text[CHANGE_CHARS], const char *setting) { return snprintf(text, CHANGE_CHARS, "%s", setting) > 0; }

static bool has_moments(const rp_recipe *r) { return r->optimizer.name == RP_OPTIMIZER_ADAMW || r->optimizer.momentum > 0; }

static bool update_in_backward(rp_recipe *r, char *text)
{
    if (r->optimizer_in_bwd != RP_NO || r->clip_grad_norm.set || r->gradient_accumulation_steps > 1) return false;
    r->optimizer_in_bwd = RP_YES;
    return say(text, "optimizer_in_bwd=true");
}

static bool update_unclipped(rp_recipe *r, char *text)
{
    if (r->optimizer_in_bwd == RP_YES || !r->clip_grad_norm.set || r->gradient_accumulation_steps > 1) return false;
    r->optimizer_in_bwd   = RP_YES;
    r->clip_grad_norm.set = false;
    return say(text, "optimizer_in_bwd=true clip_grad_norm=null");
}

static bool smaller_states(rp_recipe *r, char *text)
{
    if (!has_moments(r) || r->optimizer.state_dtype != RP_STATE_FP32) return false;
    r->optimizer.state_dtype = RP_STATE_BF16;
    return say(text, "optimizer.state_dtype=bf16");
}

static bool smallest_states(rp_recipe *r, char *text)
{
    if (!has_moments(r) || r->optimizer.state_dtype == RP_STATE_INT8) return false;
    r->optimizer.state_dtype = RP_STATE_INT8;
    return say(text, "optimizer.state_dtype=int8");
}

static bool no_moments(rp_recipe *r, char *text)
{
    bool momentum = r->optimizer.momentum > 0;

    if (!has_moments(r)) return false;
    r->optimizer.name     = RP_OPTIMIZER_SGD;
    r->optimizer.momentum = 0;
    return say(text, momentum ? "optimizer.name=sgd optimizer.momentum=0" : "optimizer.name=sgd");
}

static bool states_on_disk(rp_recipe *r, char *text)
{
    if (r->dist.state_offload || !(has_moments(r) || r->optimizer.master_weights)) return false;
    r->dist.state_offload = true;
    return say(text, "dist.state_offload=true");
}

static bool adapters(rp_recipe *r, char *text)
{
    if (r->lora.rank.set || r->model.adapter) return false;
    r->lora.rank = (rp_opt_int){ true, 16 };
    return say(text, "lora.rank=16");
}

static bool one_sample(rp_recipe *r, char *text)
{
    if (r->batch_size == 1) return false;
    r->batch_size = 1;
    return say(text, "batch_size=1");
}

static bool half_length(rp_recipe *r, char *text)
{
    if (r->max_seq_len < 2) return false;
    r->max_seq_len /= 2;
    return snprintf(text, CHANGE_CHARS, "max_seq_len=%" PRId64, r->max_seq_len) > 0;
}

static const struct {
    remedy *change;
    rp_anew anew;
    const char *hint;                   /* for messages when weights, gradients and states alone do not fit; NULL: not mentioned there */
} all[] = {
    { update_in_backward, RP_ANEW_STATES, "'optimizer_in_bwd'" },
    { update_unclipped, RP_ANEW_STATES, NULL },
    { smaller_states, RP_ANEW_STATES, "'optimizer.state_dtype: bf16'" },
    { smallest_states, RP_ANEW_MODEL, NULL },           /* slices of weights hold whole blocks */
    { no_moments, RP_ANEW_STATES, NULL },
    { states_on_disk, RP_ANEW_STATES, "'dist.state_offload'" },
    { adapters, RP_ANEW_MODEL, "'lora.rank'" },
    { one_sample, RP_ANEW_STATES, NULL },
    { half_length, RP_ANEW_MODEL, NULL },
};
_Static_assert(RP_COUNT(all) <= RP_MOST_REMEDIES, "room for all");

const char *rp__recipe_hints(const rp_recipe *r, char out[RP_HINTS_CHARS])
{
    const char *hint[RP_COUNT(all)];
    char text[CHANGE_CHARS];
    size_t used = 0;
    int n       = 0;

    for (int i = 0; i < RP_COUNT(all); i++) {
        rp_recipe changed = *r;
        if (all[i].hint && all[i].change(&changed, text)) hint[n++] = all[i].hint;
    }
    *out = 0;
    for (int i = 0; i < n; i++)
        used += (size_t)snprintf(out + used, RP_HINTS_CHARS - used, "%s%s", !i ? ", or set " : i + 1 == n ? " or " : ", ", hint[i]);
    return out;
}

/* The change gives another model, which needs a rehearsal of its own. */
static rp_status small_elsewhere(rp_rehearsal *r, const rp_recipe *changed, rp_plan **out)
{
    rp_model_config config = rp__config_share(&r->source.config);
    rp_rehearsal other;
    rp_status status = changed->lora.rank.set && !config.adapter.lora.rank ? rp__source_adapt(r->caller, changed, &config) : RP_OK;

    if (status == RP_OK) {
        status       = rp__rehearsal_open_like(r->caller, changed, NULL, &config, &other);
        other.device = r->device;
        if (status == RP_OK) status = rp__rehearsal_small(&other, out);
        rp__rehearsal_close(&other);
    }
    rp__model_config_drop(&config);
    return status;
}

static rp_status small(rp_rehearsal *r, const rp_recipe *changed, rp_anew anew, rp_plan **out)
{
    if (anew == RP_ANEW_MODEL) return small_elsewhere(r, changed, out);
    RP_TRY(rp__rehearsal_begin(r, changed, anew));
    return rp__rehearsal_small(r, out);
}

/* A change that the model or the machine refuses is no remedy: *bytes is 0. */
static rp_status try_remedy(rp_rehearsal *r, const rp_recipe *changed, rp_anew anew, int64_t *bytes)
{
    rp_plan *plan = NULL;
    rp_status status   = small(r, changed, anew, &plan);

    *bytes = status == RP_OK ? plan->placement.height : 0;
    rp__plan_free(plan);
    return status == RP_ERR_MEMORY ? status : RP_OK;
}

static int most_saved_first(const void *a, const void *b)
{
    const rp_remedy *x = a, *y = b;

    return (x->least > y->least) - (x->least < y->least);
}

rp_status rp__rehearsal_find_remedies(rp_rehearsal *r, bool opens, rp_remedy *out, int *n)
{
    const rp_recipe own = *r->recipe;
    int64_t least       = r->steps->placement.height;

    *n = 0;
    for (int i = 0; i < RP_COUNT(all); i++) {
        rp_recipe changed = own;
        rp_remedy *one    = &out[*n];
        char change[CHANGE_CHARS];
        if (!all[i].change(&changed, change)) continue;
        RP_TRY(try_remedy(r, &changed, all[i].anew, &one->least));
        snprintf(one->setting, sizeof one->setting, "%s%s", change, opens ? " activation_checkpointing.mode=auto" : "");
        one->saved = least - one->least;
        *n += one->least > 0 && one->saved > 0;
    }
    qsort(out, (size_t)*n, sizeof *out, most_saved_first);
    return rp__rehearsal_begin(r, &own, RP_ANEW_STATES);
}
