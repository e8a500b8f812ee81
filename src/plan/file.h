/* plan/file.h -- a plan as a file: JSON, a line an entry, so that two plans can be compared line by line.
 *
 *   { "reprise_plan": 1,
 *     "made_for": { "version", "machine", "threads", "costs", "budget_bytes", "calls",         what a plan holds for; all hashes hexadecimal
 *                   "optimizer", "stands" },                                              stands: hash of what is live before a step, and where
 *     "takes": { "peak_bytes", "reserved_bytes", "saved_bytes", "step_flops", "recompute_flops", "overhead", "overhead_lower_bound" },
 *     "search": { "all_ways", "all_regions", "work_limit_met", "region_blocks" },            absent: the search left nothing out
 *     "optimizer_in_bwd": false, "keep_logits": false,
 *     "passes": [ { "calls": "<hash>", "regions": [ { "first", "end", "path" } ], "again": [ { "at", "path", "op" } ], "away": [ … ] } ],
 *     "recipe": "…" }
 *
 * `again` lists the calls that run again, by their place in the pass, `away` likewise those whose values are offloaded; without any it is left
 * out. A file read back holds for a step only if all of made_for is as it
 * was; what has changed is named.
 */
#ifndef RP_PLAN_FILE_H
#define RP_PLAN_FILE_H

#include "plan/step.h"

typedef struct {
    const char *version, *machine;              /* of the program · of the cost table */
    int threads;
    uint64_t costs;                             /* rp__cost_hash */
    int64_t budget;                             /* 0: none */
    const char *optimizer;                      /* in words: its rule, what it holds of each weight, where; NULL: nobody updates */
    uint64_t stands;                            /* rp__step_stands */
} rp_plan_stamp;

typedef struct {
    int64_t peak, reserved, saved, step_flops, recompute_flops;
    double overhead, bound;
} rp_plan_takes;

/* Of a plan that is not chosen, passes is empty. Replaced whole, or not at all. errors RP_ERR_IO · RP_ERR_MEMORY */
rp_status rp__plan_write(rp_ctx *ctx, const char *path, const rp_plan *plan, const rp_plan_stamp *stamp, const rp_plan_takes *takes,
                         const char *recipe);

/* What a file says, before it is held against a step. */
typedef struct rp_plan_text rp_plan_text;
/* errors RP_ERR_FORMAT the file is no plan, one sentence · RP_ERR_IO · RP_ERR_MEMORY */
rp_status rp__plan_read(rp_ctx *ctx, const char *path, rp_plan_text **out);
rp_status rp__plan_parse(rp_ctx *ctx, const char *name, const char *text, int64_t bytes, rp_plan_text **out);
void rp__plan_text_free(rp_plan_text *text);
rp_step_variant rp__plan_text_variant(const rp_plan_text *text);
const char *rp__plan_text_recipe(const rp_plan_text *text);
/* That its seconds were reckoned for; NULL: it does not say. */
const char *rp__plan_text_machine(const rp_plan_text *text);
/* Is nothing planned in it? */
bool rp__plan_text_is_empty(const rp_plan_text *text);

/* Of a file in which nothing is planned: is it still for this step? errors RP_ERR_CONFIG as below */
rp_status rp__plan_text_check(rp_ctx *ctx, const rp_plan_text *text, const rp_plan_stamp *stamp);
/* The plan for the step that was traced. errors RP_ERR_CONFIG it is stale: the sentence names what has changed · RP_ERR_MEMORY */
rp_status rp__plan_from_text(rp_ctx *ctx, const rp_plan_text *text, const rp_plan_problem *problem, const rp_plan_stamp *stamp, rp_plan **out);

#endif
