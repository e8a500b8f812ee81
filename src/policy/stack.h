/* policy/stack.h -- the policies that are active in a context, and what they decide together.
 *
 *   rp_set_policy ── module ── region ── …      from outside in
 *
 *   one slot    different musts are an error that names both, but that one may yield; a must beats preferences; of preferences the innermost counts
 *   one shape   each slot is asked about once. What was decided is found again by the calls of the pass so far; a pass that leaves the
 *               known way asks from its beginning, after a reset, so that a policy with a state has seen the same as ever
 */
#ifndef RP_POLICY_STACK_H
#define RP_POLICY_STACK_H

#include "policy/policy.h"
#include "tape/tape.h"

/* Between push and pop the policy decides, too. errors RP_ERR_MEMORY */
rp_status rp__policy_push(rp_ctx *ctx, rp_policy *policy);
void rp__policy_pop(rp_ctx *ctx);

/* What rp_set_policy set in another context decides here, too: a rehearsal asks what the run will. errors RP_ERR_MEMORY */
rp_status rp__policy_share(rp_ctx *ctx, const rp_ctx *of);

/* A policy of the context came to be, or went: while there is one the calls of a pass are counted. errors RP_ERR_MEMORY */
rp_status rp__policy_born(rp_ctx *ctx);
void rp__policy_died(rp_ctx *ctx);

/* What the n policies, from outside in, say together about a slot of `op`. errors RP_ERR_CONFIG musts differ, or one says what cannot be done */
rp_status rp__policies_verdict(rp_ctx *ctx, rp_policy *const *active, int n, const rp_op *op, const rp_slot_info *slot, rp_verdict *out);

/* Was an op that the glob matches called in the pass that was counted last? */
bool rp__policy_has_seen(const rp_ctx *ctx, const char *glob);

/* For tests: only these bits of a hash count. Answers do not depend on them. The context has had a policy. */
void rp__policy_hash_mask(rp_ctx *ctx, uint64_t mask);

#endif
