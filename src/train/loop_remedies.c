/* train/loop_remedies.c -- where nothing fits: changes of the recipe, each alone, with the least budget that it leads to.
 *
 * Each is tried, not reckoned: the recipe with that change is rehearsed, and a plan of it placed. So the bytes of a remedy are a budget that fits. A change
 * that the recipe has already, that does not apply, or that saves nothing is left out.
 */
#include <stdlib.h>

#include "train/loop_inside.h"

enum { CHANGE_CHARS = 48 };

/* The recipe with the change, and the change as settings; false: it does not apply. */
typedef bool remedy(rp_recipe *r, char text[CHANGE_CHARS]);

static bool say(char text[CHANGE_CHARS], const char *setting) { return snprintf(text, CHANGE_CHARS, "%s", setting) > 0; }

static bool has_moments(const rp_recipe *r) { return r->optimizer.name == RP_OPTIMIZER_ADAMW || r->optimizer.momentum > 0; }

static bool update_in_backward(rp_recipe *r, char *text)
{
    bool clips = r->clip_grad_norm.set;

    if (r->optimizer_in_bwd == RP_YES || (r->optimizer_in_bwd == RP_AUTO && !clips) || r->gradient_accumulation_steps > 1) return false;
    r->optimizer_in_bwd   = RP_YES;
    r->clip_grad_norm.set = false;
    return say(text, clips ? "optimizer_in_bwd=true clip_grad_norm=null" : "optimizer_in_bwd=true");
}

static bool smaller_states(rp_recipe *r, char *text)
{
    if (!has_moments(r) || r->optimizer.state_dtype == RP_STATE_BF16) return false;
    r->optimizer.state_dtype = RP_STATE_BF16;
    return say(text, "optimizer.state_dtype=bf16");
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
    if (r->dist.state_offload) return false;
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

static remedy *const all[] = { update_in_backward, smaller_states, no_moments, states_on_disk, adapters, one_sample, half_length };
_Static_assert(RP_COUNT(all) <= RP_MOST_REMEDIES, "room for all");

static rp_status plan_small(rp_stage *stage)
{
    RP_TRY(rp__engine_ready(&stage->engine));
    return rp__stage_small(stage, &stage->steps);
}

static rp_status rehearse(rp_stage *stage)
{
    if (stage->recipe->lora.rank.set && !stage->source.config.adapter.lora.rank)
        RP_TRY(rp__source_adapt(stage->caller, stage->recipe, &stage->source.config));
    RP_TRY(rp__stage_renew(stage, NULL));
    return rp__stage_run(stage, plan_small);
}

/* The recipe's own plan stays in its place. A change that the model or the machine refuses is none: *bytes 0. */
static rp_status try_remedy(rp_stage *stage, rp_recipe *changed, int64_t *bytes)
{
    const rp_adapter_config adapter = stage->source.config.adapter;
    const rp_recipe *recipe         = stage->recipe;
    rp_step_plan *own               = stage->steps;

    stage->recipe    = changed;
    stage->steps     = NULL;
    rp_status status = rehearse(stage);
    *bytes = status == RP_OK ? stage->steps->placement.height : 0;
    rp__step_plan_free(stage->steps);
    stage->steps                 = own;
    stage->recipe                = recipe;
    stage->source.config.adapter = adapter;
    return status == RP_ERR_MEMORY ? status : RP_OK;
}

static int most_saved_first(const void *a, const void *b)
{
    const rp_remedy *x = a, *y = b;

    return (x->least > y->least) - (x->least < y->least);
}

rp_status rp__stage_find_remedies(rp_stage *stage, bool opens, rp_remedy *out, int *n)
{
    int64_t least = stage->steps->placement.height;

    *n = 0;
    for (int i = 0; i < RP_COUNT(all); i++) {
        rp_recipe changed = *stage->recipe;
        rp_remedy *r      = &out[*n];
        char change[CHANGE_CHARS];
        if (!all[i](&changed, change)) continue;
        RP_TRY(try_remedy(stage, &changed, &r->least));
        snprintf(r->setting, sizeof r->setting, "%s%s", change, opens ? " activation_checkpointing.mode=auto" : "");
        r->saved = least - r->least;
        *n += r->least > 0 && r->saved > 0;
    }
    qsort(out, (size_t)*n, sizeof *out, most_saved_first);
    return RP_OK;
}
