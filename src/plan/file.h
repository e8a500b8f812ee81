/* plan/file.h -- reads and writes plan files: JSON with one entry per line, so that plans can be compared line by line.
 *
 *   { "reprise_plan": 1,
 *     "made_for": { "version", "machine", "threads", "costs", "budget_bytes", "calls",      the plan is valid only for these; hashes are hexadecimal
 *                   "optimizer", "stands" },                                                stands: hash of the live memory before a step
 *     "takes": { "peak_bytes", "reserved_bytes", "saved_bytes", "step_flops", "recompute_flops", "overhead", "overhead_lower_bound" },
 *     "search": { "all_ways", "all_regions", "work_limit_met", "region_blocks" },           absent: the search left nothing out
 *     "optimizer_in_bwd": false, "keep_logits": false,
 *     "passes": [ { "calls": "<hash>", "regions": [ { "first", "end", "path" } ], "again": [ { "at", "path", "op" } ], "away": [ … ], "kept": [ … ] } ],
 *     "recipe": "…" }
 *
 *   again   the recomputed calls, by their place in the pass
 *   away    the calls whose values are offloaded; omitted if empty
 *   kept    the calls in regions whose outputs are held; omitted if empty
 *
 * A plan file is valid for a step only if everything in made_for is unchanged. The error message names the first difference.
 */
#ifndef RP_PLAN_FILE_H
#define RP_PLAN_FILE_H

#include "plan/step.h"

typedef struct {
    const char *version, *machine;              /* of the program · of the cost table */
    int threads;
    uint64_t costs;                             /* rp__cost_hash */
    int64_t budget;                             /* 0: none */
    const char *optimizer;                      /* description: its rule, the states it holds for each weight, and where; NULL: no optimizer */
    uint64_t stands;                            /* rp__step_stands */
} rp_plan_stamp;

typedef struct {
    int64_t peak, reserved, saved, step_flops, recompute_flops;
    double overhead, bound;
} rp_plan_takes;

/* Write a plan file. If plan->chosen is false, "passes" is empty. The file is replaced completely or not at all. Errors: RP_ERR_IO,
 * RP_ERR_MEMORY. */
rp_status rp__plan_write(rp_ctx *ctx, const char *path, const rp_plan *plan, const rp_plan_stamp *stamp, const rp_plan_takes *takes,
                         const char *recipe);

/* The parsed text of a plan file, not yet compared with a step. */
typedef struct rp_plan_text rp_plan_text;
/* Errors: RP_ERR_FORMAT the file is not a plan; RP_ERR_IO; RP_ERR_MEMORY. */
rp_status rp__plan_read(rp_ctx *ctx, const char *path, rp_plan_text **out);
rp_status rp__plan_parse(rp_ctx *ctx, const char *name, const char *text, int64_t bytes, rp_plan_text **out);
void rp__plan_text_free(rp_plan_text *text);
rp_step_variant rp__plan_text_variant(const rp_plan_text *text);
const char *rp__plan_text_recipe(const rp_plan_text *text);
/* Returns the machine whose cost table gave the plan's seconds; NULL: not in the file. */
const char *rp__plan_text_machine(const rp_plan_text *text);
/* Is the list of passes empty? */
bool rp__plan_text_is_empty(const rp_plan_text *text);

/* For a file with an empty list of passes: check that it is still valid for this step. Errors: RP_ERR_CONFIG as below. */
rp_status rp__plan_text_check(rp_ctx *ctx, const rp_plan_text *text, const rp_plan_stamp *stamp);
/* Make the plan for the traced step. Errors: RP_ERR_CONFIG the file is stale or does not fit the step, and the message names the
 * difference; RP_ERR_MEMORY. */
rp_status rp__plan_from_text(rp_ctx *ctx, const rp_plan_text *text, const rp_plan_problem *problem, const rp_plan_stamp *stamp, rp_plan **out);

#endif
