/* base/bump.c -- the blocks of an arena: 8 KiB each, or one block per piece if a piece is larger. Pieces are cut from the newest block.
 *
 * With fault_pieces, each piece is the end of a block of its own. So the tests' heap finds a write past the end of a piece. */
#include "base/bump.h"

#include <stdalign.h>
#include <stdarg.h>

enum { BLOCK_BYTES = 8192, PIECE_ALIGN = 16 };

struct rp_bump_block {
    rp_bump_block *older;
    int64_t used_bytes, size_bytes;
    alignas(PIECE_ALIGN) char bytes[];
};

static int64_t aligned(int64_t bytes) { return (bytes + PIECE_ALIGN - 1) / PIECE_ALIGN * PIECE_ALIGN; }

int64_t rp__bump_more(const rp_bump *bump, int64_t bytes)
{
    const rp_bump_block *block = bump->block;
    int64_t piece              = aligned(bytes);

    if (bump->ctx->fault_pieces) return (int64_t)sizeof *block + bytes;
    if (block && block->size_bytes - block->used_bytes >= piece) return 0;
    return (int64_t)sizeof *block + (piece > BLOCK_BYTES ? piece : BLOCK_BYTES);
}

void *rp__bump_alloc(rp_bump *bump, int64_t bytes)
{
    rp_bump_block *block = bump->block;
    int64_t more         = rp__bump_more(bump, bytes);

    bytes = aligned(bytes);
    if (more) {
        block = rp__host_alloc(bump->ctx, more);
        if (!block) return NULL;
        block->older      = bump->block;
        block->size_bytes = more - (int64_t)sizeof *block;
        bump->block       = block;
        bump->held_bytes += more;
    }
    void *piece = block->bytes + block->used_bytes;
    block->used_bytes += bytes;
    return piece;
}

char *rp__bump_text(rp_bump *bump, const char *text, int64_t bytes)
{
    char *copy = rp__bump_alloc(bump, bytes + 1);

    if (copy && bytes) memcpy(copy, text, (size_t)bytes);
    return copy;
}

char *rp__bump_format(rp_bump *bump, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    char *text = rp__bump_alloc(bump, (int64_t)n + 1);
    if (!text) return NULL;
    va_start(args, fmt);
    vsnprintf(text, (size_t)n + 1, fmt, args);
    va_end(args);
    return text;
}

void rp__bump_free(rp_bump *bump)
{
    while (bump->block) {
        rp_bump_block *older = bump->block->older;
        rp__release(bump->block);
        bump->block = older;
    }
}
