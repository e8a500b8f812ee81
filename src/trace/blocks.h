/* trace/blocks.h -- what is live in a space, found by its offset: for those who observe the ledger. */
#ifndef RP_TRACE_BLOCKS_H
#define RP_TRACE_BLOCKS_H

#include "base/base.h"

typedef struct {
    int64_t offset, bytes;          /* bytes 0: an empty place of the table */
    int tag;                        /* the observer's */
    bool ignored;
} rp_block;

typedef struct { rp_block *at; int n, room; } rp_blocks;        /* { 0 } is an empty one; rp__release(at) */

/* Room for one more. errors false after RP_ERR_MEMORY */
bool rp__blocks_reserve(rp_ctx *ctx, rp_blocks *blocks);
/* The block at an offset, or the empty place where it would be, to be filled and counted (n) by the caller. There is room. */
rp_block *rp__blocks_find(const rp_blocks *blocks, int64_t offset);
void rp__blocks_remove(rp_blocks *blocks, rp_block *block);

#endif
