/* text/bytes.h -- growing arrays of bytes and ids. { 0 } is an empty array; rp__release(at) frees it.
 *
 * Errors of all functions that return a status: RP_ERR_MEMORY.
 */
#ifndef RP_TEXT_BYTES_H
#define RP_TEXT_BYTES_H

#include "base/base.h"

typedef struct { int32_t *at; int64_t n, room; } rp_ids;
typedef struct { char *at; int64_t n, room; } rp_bytes;

rp_status rp__ids_push(rp_ctx *ctx, rp_ids *ids, int32_t id);
rp_status rp__bytes_room(rp_ctx *ctx, rp_bytes *bytes, int64_t more);    /* make room for `more` bytes after n */
int64_t rp__bytes_next_room(const rp_bytes *bytes, int64_t more);       /* capacity after that call */
rp_status rp__bytes_push(rp_ctx *ctx, rp_bytes *bytes, const char *text, int64_t n);

#endif
