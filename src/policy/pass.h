/* policy/pass.h -- the calls of a pass, with everything that a policy can see of them.
 *
 *   call       0      1      2
 *   text       "op path module flops shapes policies"     one piece of text[] per call: equal calls have equal text
 *   info       its outputs and by-products                none if no policy is active
 *   active     the policies to ask, outermost first
 *   state      a number for this call and all calls before it (policy/known.h)
 */
#ifndef RP_POLICY_PASS_H
#define RP_POLICY_PASS_H

#include "policy/known.h"
#include "policy/policy.h"

typedef struct {
    const rp_op *op;                    /* NULL: the call was recorded while calls were not counted */
    uint64_t state;
    int text, n_text, n_kind;           /* in text[]; op and path come first and take n_kind bytes */
    int first_info, n_infos;            /* in info[] */
    int first_active, n_active;         /* in active[] */
    int nth;                            /* rp_slot_info.call, set when policies have been asked about it */
} rp_policy_seen;

typedef struct {
    rp_ctx *ctx;
    rp_policy_seen *call;
    rp_slot_info *info;
    rp_policy **active;
    char *text;
    int n_call, room_call, n_info, room_info, n_active, room_active, n_text, room_text;
    rp_policy_known known;
} rp_policy_pass;

/* Add the call that is about to be recorded as call `at`, with the n active policies. Calls from `at` on are forgotten. Missing calls
 * before it are added without an op. Errors: RP_ERR_MEMORY. */
rp_status rp__policy_pass_add(rp_policy_pass *pass, int at, const rp_op_meta *meta, const rp_scope *scope, rp_policy *const *active, int n);
void rp__policy_pass_cut(rp_policy_pass *pass, int n);
void rp__policy_pass_close(rp_policy_pass *pass);

/* Returns the entry of call `at` in the table of known calls; NULL: RP_ERR_MEMORY. */
rp_policy_known_call *rp__policy_pass_known(rp_policy_pass *pass, int at);
/* Returns the number of earlier calls with the same op and path that were asked about. */
int rp__policy_pass_nth(const rp_policy_pass *pass, int at);

#endif
