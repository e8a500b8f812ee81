/* base/pool.h -- assigns offsets of a range: the pool of base/mem.h, without its bytes.
 *
 *   [ used | free | used | used | free ........ | never used yet ................ ]
 *                                               ^ top                             ^ most
 *
 * The caller rounds sizes. The same sequence of requests gets the same offsets.
 */
#ifndef RP_POOL_H
#define RP_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "reprise/reprise.h"

typedef struct { int64_t offset, bytes; } rp_extent;

typedef struct {
    int64_t top, most;              /* bytes at or above top were never used; bytes at or above most must never be */
    rp_extent *free;                /* by rising offset, no two adjacent; the caller must rp__release it */
    int n_free, room;
} rp_pool;

enum { RP_POOL_FULL = -1, RP_POOL_IN_USE = -2 };        /* returned instead of an offset */

/* Makes room in the list of free extents. Call it before a take with n live blocks, and before an extension; then a give need not allocate.
 * False: RP_ERR_MEMORY was recorded. */
bool rp__pool_prepare(rp_ctx *ctx, rp_pool *pool, int n);
/* Takes the best-fitting free extent, the lowest address on ties. If none is large enough, takes new bytes at the top, together with a free extent
 * that touches the top. Returns RP_POOL_FULL if that would exceed `most`. */
int64_t rp__pool_take(rp_pool *pool, int64_t bytes);
/* Takes this offset. Returns it, RP_POOL_FULL or RP_POOL_IN_USE. */
int64_t rp__pool_take_at(rp_pool *pool, int64_t offset, int64_t bytes);
void rp__pool_give(rp_pool *pool, int64_t offset, int64_t bytes);
/* Raises the top to at least `end`; the new bytes are free. False: that exceeds `most`. */
bool rp__pool_extend(rp_pool *pool, int64_t end);
/* Lowers the top to the end of the last block. */
void rp__pool_trim(rp_pool *pool);
/* Moves the block at `offset` down to the start of the free extent that ends there. Returns its new offset. */
int64_t rp__pool_slide(rp_pool *pool, int64_t offset, int64_t bytes);

/* Like rp__mem_n_holes, rp__mem_hole and rp__mem_used. */
int rp__pool_n_holes(const rp_pool *pool);
rp_extent rp__pool_hole(const rp_pool *pool, int i);
void rp__pool_used(const rp_pool *pool, void (*visit)(void *user, int64_t offset, int64_t bytes), void *user);

#endif
