/* train/best.c -- the lowest validation loss of a run: its weights in best/, and the end of a run whose losses no longer fall. */
#include <math.h>

#include "recipe/recipe.h"
#include "train/internal.h"

bool rp__best_is_wanted(const rp_recipe *r) { return r->keep_best || r->early_stopping.patience.set; }

bool rp__best_is_over(const rp_recipe *r, const rp_state_best *best)
{
    return r->early_stopping.patience.set && best->waited >= r->early_stopping.patience.value;
}

void rp__best_set(rp_trainer *t, const rp_state_best *best)
{
    t->best           = *best;
    t->info.best_step = best->step;
    t->info.best_loss = best->loss;
    if (!rp__best_is_over(t->recipe, best) || t->done >= t->info.n_steps) return;
    t->info.n_steps       = t->done;
    t->info.stopped_early = true;
}

/* Returns whether the loss is the lowest. */
static bool note(const rp_recipe *r, int64_t step, double loss, rp_state_best *b)
{
    bool finite = isfinite(loss), first = finite && !b->step;

    b->waited++;
    if (first || (finite && loss < b->mark - r->early_stopping.min_delta)) {
        b->mark   = loss;
        b->waited = 0;
    }
    if (!first && !(finite && loss < b->loss)) return false;
    b->step = step;
    b->loss = loss;
    return true;
}

rp_status rp__best_validated(rp_trainer *t, int64_t step, double loss)
{
    if (!rp__best_is_wanted(t->recipe)) return RP_OK;
    return note(t->recipe, step, loss, &t->best) && t->recipe->keep_best ? rp__run_dir_model(t, "best") : RP_OK;
}
