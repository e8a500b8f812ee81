/* policy/known.h -- remembers the calls that policies have decided, and their verdicts.
 *
 *   (state before the call, text of the call) -> (state after it, verdicts)
 *
 * A state is a number for a sequence of calls. Two passes are in the same state after the same calls. The whole text is compared, so a
 * hash collision does not change the result.
 */
#ifndef RP_POLICY_KNOWN_H
#define RP_POLICY_KNOWN_H

#include "tape/decide.h"

enum { RP_POLICY_NOT_ASKED = -1 };

typedef struct {
    uint64_t hash, before, state;       /* hash of `before` and the text; state 0: free entry */
    int text, n_text;                   /* in rp_policy_known.text */
    int first, n;                       /* its verdicts; n RP_POLICY_NOT_ASKED: policies have not been asked yet */
} rp_policy_known_call;

typedef struct {
    rp_policy_known_call *call;               /* hash table with open addressing */
    rp_verdict *verdict;
    char *text;
    int n_call, room_call, n_verdict, room_verdict, n_text, room_text;
    uint64_t hash_mask;                 /* bits of a hash that are used: all, except in tests */
} rp_policy_known;

/* Find the call with this text after the state `before`, or add it. NULL: RP_ERR_MEMORY. The next call of this function may move the
 * result. */
rp_policy_known_call *rp__policy_known(rp_ctx *ctx, rp_policy_known *known, uint64_t before, const char *text, int n);
/* Store the call's n verdicts. Errors: RP_ERR_MEMORY. */
rp_status rp__policy_remember(rp_ctx *ctx, rp_policy_known *known, rp_policy_known_call *call, const rp_verdict *verdict, int n);
void rp__policy_known_close(rp_policy_known *known);

/* Returns a number that is unique in the process. */
uint64_t rp__policy_next_id(void);

#endif
