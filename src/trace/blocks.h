/* trace/blocks.h -- a table of the live blocks of a memory space, found by offset; for observers of the ledger. */
#ifndef RP_TRACE_BLOCKS_H
#define RP_TRACE_BLOCKS_H

#include "base/base.h"

typedef struct {
    int64_t offset, bytes;          /* bytes 0: a free entry of the table */
    int tag;                        /* set by the observer */
    bool ignored;
} rp_block;

typedef struct { rp_block *at; int n, room; } rp_blocks;        /* { 0 } is an empty table; free it with rp__release(at) */

/* Reserve room for one more block. Returns false after RP_ERR_MEMORY. */
bool rp__blocks_reserve(rp_ctx *ctx, rp_blocks *blocks);
/* Returns the block at an offset, or the free entry where it belongs. The caller fills the entry and increments n. Room must be reserved. */
rp_block *rp__blocks_find(const rp_blocks *blocks, int64_t offset);
void rp__blocks_remove(rp_blocks *blocks, rp_block *block);

#endif
