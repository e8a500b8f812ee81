/* base/pool.h -- which offsets of a range are free: the pool of base/mem.h, without its bytes.
 *
 *   [ used | free | used | used | free ........ | never used yet ................ ]
 *                                               ^ top                             ^ most
 *
 * Sizes are as the caller rounds them. The same requests give the same offsets.
 */
#ifndef RP_POOL_H
#define RP_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "reprise/reprise.h"

typedef struct { int64_t offset, bytes; } rp_extent;

typedef struct {
    int64_t top, most;              /* everything above top was never used, everything above most never may be */
    rp_extent *free;                /* by rising offset, no two touch; the caller's to rp__release */
    int n_free, room;
} rp_pool;

enum { RP_POOL_FULL = -1, RP_POOL_IN_USE = -2 };        /* in place of an offset */

/* Before a take, with n blocks live, and before an extension: a give never has to allocate. False: RP_ERR_MEMORY */
bool rp__pool_prepare(rp_ctx *ctx, rp_pool *pool, int n);
/* Best fit, lowest address on ties; else the last extent grown from the top, else fresh; or RP_POOL_FULL. */
int64_t rp__pool_take(rp_pool *pool, int64_t bytes);
/* This offset, RP_POOL_FULL or RP_POOL_IN_USE. */
int64_t rp__pool_take_at(rp_pool *pool, int64_t offset, int64_t bytes);
void rp__pool_give(rp_pool *pool, int64_t offset, int64_t bytes);
/* The top is at `end` or higher: what is new is free. False: that is above most. */
bool rp__pool_extend(rp_pool *pool, int64_t end);
/* The top falls to the end of the last block. */
void rp__pool_trim(rp_pool *pool);
/* The block at `offset` goes down to the beginning of the hole that ends there; its offset from then on. */
int64_t rp__pool_slide(rp_pool *pool, int64_t offset, int64_t bytes);

/* As rp__mem_n_holes and rp__mem_hole, rp__mem_used. */
int rp__pool_n_holes(const rp_pool *pool);
rp_extent rp__pool_hole(const rp_pool *pool, int i);
void rp__pool_used(const rp_pool *pool, void (*visit)(void *user, int64_t offset, int64_t bytes), void *user);

#endif
