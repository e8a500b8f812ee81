/* base/list.h -- a growing list: its entries, their number, and the number that fits, as three variables of the owner.
 *
 *     RP_TRY(RP_GROW(ctx, s->at, s->room, s->n + 1));
 *     s->at[s->n++] = entry;
 *
 * `room` is an int or an int64_t. New room is zeroed. Fault injection reaches every growth. errors RP_ERR_MEMORY, also if sizes would
 * overflow; then entries and room are unchanged. Free the entries with rp__release.
 */
#ifndef RP_LIST_H
#define RP_LIST_H

#include "base/base.h"

/* Makes room for at least n entries. If it must grow, it at least doubles, so that n appends copy O(n) entries. */
#define RP_GROW(ctx, at, room, n) \
    ((n) <= (room) ? RP_OK : rp__list_grow((ctx), &(at), (int64_t)sizeof *(at), &(room), RP_ROOM_BYTES(room), (n)))
/* Makes room for exactly n entries, n > room: for lists whose length is known. */
#define RP_RESIZE(ctx, at, room, n) rp__list_resize((ctx), &(at), (int64_t)sizeof *(at), &(room), RP_ROOM_BYTES(room), (n))
#define RP_ROOM_BYTES(room) _Generic((room), int: sizeof(int), int64_t: sizeof(int64_t))

/* `at` points to the pointer to entries of `each` bytes. */
rp_status rp__list_grow(rp_ctx *ctx, void *at, int64_t each, void *room, size_t room_bytes, int64_t n);
rp_status rp__list_resize(rp_ctx *ctx, void *at, int64_t each, void *room, size_t room_bytes, int64_t n);

#endif
