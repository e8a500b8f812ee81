/* plan/place.h -- an address for every buffer of a step, so that the arena is no larger than what is live at once.
 *
 *     address
 *     H ┌───────────────────────────────┐     what a backward makes for long, gradients first: from the top down, in order of birth
 *       │                    ▟▀▀▀▀▀▀▀▀▀▀│
 *       │  ▖▗ ▖▗   ▗▖ ▖▗  ▗▖ transients │     in between
 *       │    ▟▀▀▀▀▀▙                    │
 *       │ ▟▀▀▀▀▀▀▀▀▀▀▀▙                 │     what a forward keeps for its backward: a stack, who lives longest at the bottom
 *       ├───────────────────────────────┤
 *     0 │ live before the step          │     fixed: not moved
 *       └───────────────────────────────┘     time ▶
 *
 * A buffer occupies [offset, offset + bytes) from event `begin` on until before event `end`. The bound is the greatest sum of bytes
 * that are live at one event; no placement is lower. In backward the stack has no hole, as it was ordered by death, nor have the
 * gradients, which are there until the update. Transients that touch in time are a cluster of their own: orders of first fit are tried on
 * each until it stays below what hangs from the top.
 */
#ifndef RP_PLACE_H
#define RP_PLACE_H

#include "base/base.h"

/* Fixed; kept by a forward for its backward; gradients; whatever else a backward makes that lives long; the rest. */
typedef enum { RP_PLACE_FIXED, RP_PLACE_STACK, RP_PLACE_TOP, RP_PLACE_HIGH, RP_PLACE_TRANSIENT } rp_place_kind;

typedef struct {
    int64_t bytes;                  /* a multiple of RP_ALIGN; 0 is allowed and overlaps nothing */
    int begin, end;                 /* events, begin < end */
    rp_place_kind kind;             /* where to look for a place; a wrong one costs height, never an overlap */
    int64_t offset;                 /* of a fixed one; found for the others */
} rp_place_buffer;

typedef struct {
    int64_t bound, height;          /* the greatest live sum; the highest end of a buffer. Equal: no byte is wasted */
    int64_t work;                   /* fits tried, counted: the same input gives the same answer */
} rp_placement;

/* Fill in the offsets. Fixed buffers begin at 0 and overlap nothing. A height above the bound, where none was found that reaches it within the work
 * limit, is no error. errors RP_ERR_MEMORY */
rp_status rp__place(rp_ctx *ctx, rp_place_buffer *buffer, int n, rp_placement *out);

#endif
