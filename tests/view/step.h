/* step.h -- a page of a real step: SmolLM2-135M or smaller, on shapes alone, every byte with its owner.
 *
 * The curve and the losses are made up, and the budget where the recipe has none; the other figures come from a forecast. */
#ifndef RP_VIEW_STEP_H
#define RP_VIEW_STEP_H

#include "view/report.h"

typedef struct watched_step watched_step;

/* `recipe` and settings as on the command line, ended by NULL. Lives until step_free. */
watched_step *step_watch(const char *recipe, const char *const *setting);
const rp_page *step_page(const watched_step *step);
const rp_forecast *step_forecast(const watched_step *step);
int64_t step_peak_at(const watched_step *step, rp_mem_class mem_class);      /* as the ledger measured it */
void step_free(watched_step *step);

#endif
