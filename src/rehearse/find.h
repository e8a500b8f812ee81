/* rehearse/find.h -- lower bounds on a setting's seconds and bytes without planning it, for the search of `plan --find`.
 *
 *   computing       calls of a micro-batch on one rank without recomputation: rehearsed once for each batch size
 *   communication   gathers and sums of each weight, from the number of ranks alone: no model is built
 *   seconds         of both, overlapped as far as cost/overlap.h allows; each takes at least its own time
 *   bytes           slices of weights, gradients and states
 */
#ifndef RP_REHEARSE_FIND_H
#define RP_REHEARSE_FIND_H

#include "rehearse/rehearsal.h"

enum { RP_FIND_MOST_BATCH = 64 };

typedef struct rp_find_bounds rp_find_bounds;

/* Opens bounds for a recipe. The rehearsal must have the recipe's model; it is begun again for other settings. It and the recipe must
 * outlive the bounds. errors RP_ERR_MEMORY · as rp__rehearsal_ready */
rp_status rp__find_bounds_open(rp_rehearsal *r, const rp_recipe *recipe, rp_find_bounds **out);
/* Computes lower bounds on a setting's seconds and bytes. Ask for settings with the same ranks, copies and groups one after the other: this
 * saves work. errors RP_ERR_MEMORY · as rp__rehearsal_begin, rp__rehearsal_own */
rp_status rp__find_bound(rp_find_bounds *bounds, const rp_setting *setting, double *seconds, int64_t *bytes);
void rp__find_bounds_close(rp_find_bounds *bounds);

/* Returns the recipe with this setting and open fates. */
rp_recipe rp__find_recipe(const rp_recipe *recipe, const rp_setting *setting);

#endif
