/* sites_test.h -- a sweep of failing allocations that fails each call site once, not each allocation.
 *
 * A first run notes the callers of each allocation of the library. An allocation is tried if one of its callers has not been seen before: a call,
 * at any depth, that leads to an allocation then fails at least once. Such a sweep takes hundreds of rounds where the use makes a million
 * allocations. Each piece of a bump counts as an allocation (fault_pieces), and a write past the end of a piece ends the program (heap.h).
 */
#ifndef RP_SITES_TEST_H
#define RP_SITES_TEST_H

#include <execinfo.h>

#include "heap_test.h"

enum { SITES_ROOM = 1 << 14, SITES_DEEP = 48 };

static struct {
    void *seen[SITES_ROOM];             /* return addresses, by their hash */
    int n_seen, n;
    int64_t asked, k[SITES_ROOM];       /* allocations of a use; those to try */
} sites;

static bool sites_add(void *address)
{
    size_t i = (uintptr_t)address * UINT64_C(0x9e3779b97f4a7c15) >> 50;

    while (sites.seen[i] && sites.seen[i] != address) i = (i + 1) % SITES_ROOM;
    if (sites.seen[i] || sites.n_seen > SITES_ROOM / 2) return false;
    sites.seen[i] = address;
    sites.n_seen++;
    return true;
}

#define SITES_ALL (INT64_MAX / 2)

/* A rehearsal's context counts on where its caller's stands. */
static void sites_note(rp_ctx *ctx)
{
    void *caller[SITES_DEEP];
    int n = backtrace(caller, SITES_DEEP), new = 0;

    if (!ctx->fault_countdown) return;
    for (int i = 1; i < n; i++) new += sites_add(caller[i]);
    if (new && sites.n < SITES_ROOM) sites.k[sites.n++] = SITES_ALL - ctx->fault_countdown + 1;
}

/* What is made once and kept is there after the first call; the second is noted. */
static inline void sites_find(rp_ctx *ctx, heap_call call, void *user)
{
    void *none[1];

    assert_ok(ctx, call(ctx, user));
    memset(&sites, 0, sizeof sites);
    backtrace(none, 1);
    ctx->fault_countdown = SITES_ALL;
    ctx->fault_watch     = sites_note;
    rp_status status     = call(ctx, user);
    ctx->fault_watch     = NULL;
    sites.asked          = SITES_ALL - ctx->fault_countdown;
    ctx->fault_countdown = 0;
    assert_ok(ctx, status);
}

/* Each site fails once: RP_ERR_MEMORY, and nothing is left. `survives`: an error may be done without. The call frees all it makes. */
static inline void every_site_fails_once(rp_ctx *ctx, bool survives, int least, heap_call call, void *user)
{
    int failed = 0;

    ctx->fault_pieces = true;
    sites_find(ctx, call, user);
    for (int i = 0; i < sites.n; i++) heap_round(ctx, &(heap_sweep){ .survives = survives }, false, sites.k[i], call, user, &failed);
    ctx->fault_pieces = false;
    if (getenv("REPRISE_TEST_SITES")) printf("%d sites of %lld allocations, %d failed\n", sites.n, (long long)sites.asked, failed);
    if (failed < least) fail_msg("only %d of %d sites failed", failed, sites.n);
}

#endif
