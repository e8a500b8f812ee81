/* base/bump.h -- an arena: memory for objects that are built piece by piece and freed together (a parsed document, a list of
 * messages). Pieces are cut from blocks; a single piece is never freed. Blocks come from rp__host_alloc, so fault injection
 * counts them. */
#ifndef RP_BUMP_H
#define RP_BUMP_H

#include "base/base.h"

typedef struct rp_bump_block rp_bump_block;
typedef struct { rp_ctx *ctx; rp_bump_block *block; int64_t held_bytes; } rp_bump;   /* { .ctx = ctx } is an empty arena */

/* Zeroed and aligned for any type. NULL after recording RP_ERR_MEMORY. */
void *rp__bump_alloc(rp_bump *bump, int64_t bytes);
/* A copy of `bytes` characters, terminated. */
char *rp__bump_text(rp_bump *bump, const char *text, int64_t bytes);
char *rp__bump_format(rp_bump *bump, const char *fmt, ...) RP_PRINTF(2, 3);
void rp__bump_free(rp_bump *bump);
/* rp__bump_bytes: the bytes of all blocks. rp__bump_more: by how much they would grow for a piece of `bytes`. */
static inline int64_t rp__bump_bytes(const rp_bump *bump) { return bump->held_bytes; }
int64_t rp__bump_more(const rp_bump *bump, int64_t bytes);

#endif
