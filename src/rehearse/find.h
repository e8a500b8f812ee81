/* rehearse/find.h -- what no step of a setting gets below, in seconds and in bytes, without planning it: for the search of `plan --find`.
 *
 *   computing     the calls of a micro-batch on one rank, nothing done again: rehearsed once for each batch size
 *   talk          what is gathered and summed of each weight, by the ranks' numbers alone: no model is built
 *   seconds       of the two, as cost/overlap.h lets one run beside the other: both take their own time
 *   bytes         slices of weights, gradients and states
 */
#ifndef RP_REHEARSE_FIND_H
#define RP_REHEARSE_FIND_H

#include "rehearse/rehearsal.h"

enum { RP_FIND_MOST_BATCH = 64 };

typedef struct rp_find_bounds rp_find_bounds;

/* The rehearsal has the recipe's model; it is begun anew for others. It and the recipe outlive the bounds. errors RP_ERR_MEMORY · those of a rehearsal */
rp_status rp__find_bounds_open(rp_rehearsal *r, const rp_recipe *recipe, rp_find_bounds **out);
/* Settings of the same ranks, copies and groups are best asked for one after the other. errors as open */
rp_status rp__find_bound(rp_find_bounds *bounds, const rp_setting *setting, double *seconds, int64_t *bytes);
void rp__find_bounds_close(rp_find_bounds *bounds);

/* The recipe with this setting, its fates open. */
rp_recipe rp__find_recipe(const rp_recipe *recipe, const rp_setting *setting);

#endif
