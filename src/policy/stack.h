/* policy/stack.h -- the active policies of a context, and their combined decision.
 *
 *   rp_set_policy ── module ── region ── …      outermost first
 *
 *   one slot    conflicting must-rules are an error that names both, unless one policy yields. A must-rule overrides preferences. Between
 *               preferences the innermost wins.
 *   one shape   policies are asked about each slot once. Later passes look up the answers by the calls of the pass so far. If a pass
 *               makes an unknown call, policies are reset and asked from its beginning, so a policy with state sees the usual sequence.
 */
#ifndef RP_POLICY_STACK_H
#define RP_POLICY_STACK_H

#include "policy/policy.h"
#include "tape/tape.h"

/* Make the policy active until the matching pop. Errors: RP_ERR_MEMORY. */
rp_status rp__policy_push(rp_ctx *ctx, rp_policy *policy);
void rp__policy_pop(rp_ctx *ctx);

/* Use the policy that rp_set_policy set in context `of` in this context too, so that a rehearsal decides like the run. */
void rp__policy_share(rp_ctx *ctx, const rp_ctx *of);

/* Count `more` policies of the context, or fewer; while there are any, the calls of a pass are counted. */
void rp__policy_count(rp_ctx *ctx, int more);

/* Combine the answers of n policies, outermost first, for a slot of `op`. Errors: RP_ERR_CONFIG must-rules conflict, or one is impossible;
 * RP_ERR_ARG a function returned an invalid fate. */
rp_status rp__policies_verdict(rp_ctx *ctx, rp_policy *const *active, int n, const rp_op *op, const rp_slot_info *slot, rp_verdict *out);

/* Did the last counted pass call an op that the glob matches? */
bool rp__policy_has_seen(const rp_ctx *ctx, const char *glob);

/* For tests: use only these bits of a hash. Answers do not depend on them. The context must have had a policy. */
void rp__policy_hash_mask(rp_ctx *ctx, uint64_t mask);

#endif
