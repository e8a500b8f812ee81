/* policy/known.c -- the hash table of known calls. */
#include "policy/known.h"

#include "base/list.h"

#include <stdatomic.h>
#include <string.h>

enum { MOST_KNOWN = 1 << 16 };

uint64_t rp__policy_next_id(void)
{
    static _Atomic uint64_t last;

    return atomic_fetch_add(&last, 1) + 1;
}

static bool is_known_as(const rp_policy_known *k, const rp_policy_known_call *c, uint64_t hash, uint64_t before, const char *text, int n)
{
    return c->hash == hash && c->before == before && c->n_text == n && !memcmp(k->text + c->text, text, (size_t)n);
}

/* Returns the call, or the free entry where it belongs. The table always has a free entry. */
static rp_policy_known_call *find(const rp_policy_known *k, uint64_t hash, uint64_t before, const char *text, int n)
{
    for (uint64_t i = hash;; i++) {
        rp_policy_known_call *c = &k->call[i & (uint64_t)(k->room_call - 1)];
        if (!c->state || is_known_as(k, c, hash, before, text, n)) return c;
    }
}

static void forget_all(rp_policy_known *k)
{
    memset(k->call, 0, (size_t)k->room_call * sizeof *k->call);
    k->n_call = k->n_verdict = k->n_text = 0;
}

/* Grow the table so that at least half of it is free. */
static rp_status grow(rp_ctx *ctx, rp_policy_known *k)
{
    rp_policy_known larger = *k;

    if (k->n_call >= MOST_KNOWN) forget_all(k);
    if (k->n_call * 2 < k->room_call) return RP_OK;
    larger.room_call = k->room_call ? k->room_call * 2 : 1024;
    larger.call      = rp__host_alloc(ctx, larger.room_call * (int64_t)sizeof *k->call);
    if (!larger.call) return RP_ERR_MEMORY;
    for (int i = 0; i < k->room_call; i++) {
        const rp_policy_known_call *c = &k->call[i];
        if (c->state) *find(&larger, c->hash, c->before, k->text + c->text, c->n_text) = *c;
    }
    rp__release(k->call);
    k->call      = larger.call;
    k->room_call = larger.room_call;
    return RP_OK;
}

rp_policy_known_call *rp__policy_known(rp_ctx *ctx, rp_policy_known *k, uint64_t before, const char *text, int n)
{
    uint64_t hash = rp__hash(text, (size_t)n, rp__hash(&before, sizeof before, RP_HASH_START)) & k->hash_mask;

    if (grow(ctx, k) != RP_OK || RP_GROW(ctx, k->text, k->room_text, k->n_text + n) != RP_OK) return NULL;
    rp_policy_known_call *c = find(k, hash, before, text, n);
    if (c->state) return c;
    *c = (rp_policy_known_call){ .hash = hash, .before = before, .state = rp__policy_next_id(), .text = k->n_text, .n_text = n, .n = RP_POLICY_NOT_ASKED };
    memcpy(k->text + k->n_text, text, (size_t)n);
    k->n_text += n;
    k->n_call++;
    return c;
}

rp_status rp__policy_remember(rp_ctx *ctx, rp_policy_known *k, rp_policy_known_call *call, const rp_verdict *verdict, int n)
{
    RP_TRY(RP_GROW(ctx, k->verdict, k->room_verdict, k->n_verdict + n));
    call->first = k->n_verdict;
    call->n     = n;
    memcpy(k->verdict + k->n_verdict, verdict, (size_t)n * sizeof *verdict);
    k->n_verdict += n;
    return RP_OK;
}

void rp__policy_known_close(rp_policy_known *k)
{
    RP_RELEASE(k->call, k->verdict, k->text);
}
