/* policy/known.h -- calls that policies have been asked about, and their verdicts.
 *
 *   (state before the call, text of the call) -> (state after it, verdicts)
 *
 * A state is a number for a sequence of calls. Two passes are in the same state after the same calls. The whole text is compared, so a collision of
 * hashes changes nothing. */
#ifndef RP_POLICY_KNOWN_H
#define RP_POLICY_KNOWN_H

#include "tape/decide.h"

enum { RP_POLICY_NOT_ASKED = -1 };

typedef struct {
    uint64_t hash, before, state;       /* of before and text; state 0: free */
    int text, n_text;                   /* in rp_policy_known.text */
    int first, n;                       /* its verdicts; n RP_POLICY_NOT_ASKED: policies have not been asked */
} rp_policy_known_call;

typedef struct {
    rp_policy_known_call *call;               /* open addressing */
    rp_verdict *verdict;
    char *text;
    int n_call, room_call, n_verdict, room_verdict, n_text, room_text;
    uint64_t hash_mask;                 /* what counts of a hash: all bits, except in tests */
} rp_policy_known;

/* The call with this text after the state `before`; a new one is added. NULL: RP_ERR_MEMORY. The next call of this function may move it. */
rp_policy_known_call *rp__policy_known(rp_ctx *ctx, rp_policy_known *known, uint64_t before, const char *text, int n);
/* Store its n verdicts. errors RP_ERR_MEMORY */
rp_status rp__policy_remember(rp_ctx *ctx, rp_policy_known *known, rp_policy_known_call *call, const rp_verdict *verdict, int n);
void rp__policy_known_close(rp_policy_known *known);

/* Never the same twice in a process. */
uint64_t rp__policy_next_id(void);

#endif
