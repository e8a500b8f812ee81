/* trace/blocks.c -- a hash table with open addressing over offsets. */
#include "trace/blocks.h"

rp_block *rp__blocks_find(const rp_blocks *b, int64_t offset)
{
    for (uint64_t i = (uint64_t)(offset / RP_ALIGN) * 0x9e3779b97f4a7c15u >> 20;; i++) {
        rp_block *at = &b->at[i & (uint64_t)(b->room - 1)];
        if (!at->bytes || at->offset == offset) return at;
    }
}

bool rp__blocks_reserve(rp_ctx *ctx, rp_blocks *b)
{
    rp_blocks larger = { .n = b->n, .room = b->room ? b->room * 2 : 4096 };

    if (b->n * 2 < b->room) return true;
    larger.at = rp__host_alloc(ctx, larger.room * (int64_t)sizeof *larger.at);
    if (!larger.at) return false;
    for (int i = 0; i < b->room; i++)
        if (b->at[i].bytes) *rp__blocks_find(&larger, b->at[i].offset) = b->at[i];
    rp__release(b->at);
    *b = larger;
    return true;
}

/* Entries after the hole move up, so that no search stops too early at the hole. */
void rp__blocks_remove(rp_blocks *b, rp_block *block)
{
    int hole = (int)(block - b->at);

    b->n--;
    b->at[hole].bytes = 0;
    for (int i = (hole + 1) & (b->room - 1); b->at[i].bytes; i = (i + 1) & (b->room - 1)) {
        rp_block moved = b->at[i];
        b->at[i].bytes = 0;
        *rp__blocks_find(b, moved.offset) = moved;
    }
}
