/* place/place.h -- an address for every buffer of a step, so that the arena is no larger than what is live at once.
 *
 *     address
 *     H ┌───────────────────────────────┐     whoever crosses the stack, gradients for one: from the top down
 *       │                    ▟▀▀▀▀▀▀▀▀▀▀│
 *       │  ▖▗ ▖▗   ▗▖ ▖▗  ▗▖ transients │     in between
 *       │    ▟▀▀▀▀▀▙                    │
 *       │ ▟▀▀▀▀▀▀▀▀▀▀▀▙                 │     what a forward keeps for its backward: a stack, who lives longest at the bottom
 *       ├───────────────────────────────┤
 *     0 │ live before the step          │     fixed: not moved
 *       └───────────────────────────────┘     time ▶
 *
 * A buffer occupies [offset, offset + bytes) from event `begin` on until before event `end`. The bound is the greatest sum of bytes
 * that are live at one event; no placement is lower. Nothing is known of a buffer but its size and its life: the picture above is what
 * comes of it (greedy.c). To tell whether the bound can be reached is NP-hard in general (dynamic storage allocation: Garey and
 * Johnson, SR2); for the steps of training it nearly always can, and the few tries that take (search.c) are counted, never timed.
 */
#ifndef RP_PLACE_H
#define RP_PLACE_H

#include "base/base.h"

typedef struct {
    int64_t bytes;                  /* a multiple of RP_ALIGN; 0 is allowed and overlaps nothing */
    int begin, end;                 /* events, begin < end */
    int64_t offset;                 /* -1: to be found; else fixed */
} rp_place_buffer;

typedef struct {
    int64_t bound, height;          /* the greatest live sum; the highest end of a buffer. Equal: no byte is wasted */
    bool placed;                    /* false: not within what was asked for; height is more than that, and buffers are where they were */
    int64_t work;                   /* placements tried, counted: the same input gives the same answer */
} rp_placement;

#define RP_PLACE_ANY (INT64_MAX / 2)

/* Fill in the offsets, for a height of at most `most`; RP_PLACE_ANY: as low as can be found. A height above the bound, where none was found that
 * reaches it within the work limit, is no error. Where the bound is more than `most`, nothing is tried. errors RP_ERR_MEMORY */
rp_status rp__place(rp_ctx *ctx, rp_place_buffer *buffer, int n, int64_t most, rp_placement *out);

#endif
