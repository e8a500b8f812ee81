/* place/place.h -- gives every buffer of a step an address, so that the arena is hardly larger than the peak of live bytes.
 *
 *     address
 *     H ┌───────────────────────────────┐     lives that cross the stack's, such as gradients: from the top down
 *       │                    ▟▀▀▀▀▀▀▀▀▀▀│
 *       │  ▖▗ ▖▗   ▗▖ ▖▗  ▗▖ transients │     in between
 *       │    ▟▀▀▀▀▀▙                    │
 *       │ ▟▀▀▀▀▀▀▀▀▀▀▀▙                 │     saved for backward: a stack, the longest lives at the bottom
 *       ├───────────────────────────────┤
 *     0 │ live before the step          │     fixed: not moved
 *       └───────────────────────────────┘     time ▶
 *
 * A buffer occupies [offset, offset + bytes) from event `begin` until before event `end`. The bound is the largest sum of bytes live at
 * one event; no placement is lower. The algorithm knows only the size and life of a buffer; the picture above is the usual result
 * (greedy.c). Deciding whether the bound can be reached is NP-hard in general (dynamic storage allocation: Garey and Johnson, SR2). For
 * training steps it nearly always can. The few tries this takes (search.c) are limited by a count of work, never by time.
 */
#ifndef RP_PLACE_H
#define RP_PLACE_H

#include "base/base.h"

typedef struct {
    int64_t bytes;                  /* a multiple of RP_ALIGN; 0 is allowed and overlaps nothing */
    int begin, end;                 /* events; begin < end */
    int64_t offset;                 /* -1: to be found; otherwise fixed */
} rp_place_buffer;

typedef struct {
    int64_t bound, height;          /* largest live sum · highest end of a buffer. If they are equal, no byte is wasted */
    bool placed;                    /* false: no placement within the requested height; then height exceeds it, and offsets are unchanged */
    int64_t work;                   /* placements tried, as a count: equal input gives equal results */
} rp_placement;

#define RP_PLACE_ANY (INT64_MAX / 2)

/* Fill in the offsets for a height of at most `most`; RP_PLACE_ANY: as low as possible. Exceeding the bound is no error: the search may
 * reach its work limit first. If the bound exceeds `most`, nothing is tried. Errors: RP_ERR_MEMORY. */
rp_status rp__place(rp_ctx *ctx, rp_place_buffer *buffer, int n, int64_t most, rp_placement *out);

#endif
