/* cost/overlap.h -- how long a step takes whose gathers run beside its computing.
 *
 *   computing   ████ ██████ ███░░██████ ███         ░ waits for a gather
 *   talk         ▒▒▒ ▒▒▒▒▒ ▒▒▒▒▒   ▓▓▓▓             ▒ asked for ahead (ops/prefetch.h)   ▓ a sum (ops/reduce_async.h)
 *
 * A gather is begun when those before it are through and the buffer of what is asked for ahead has room for it: room that what comes before it
 * gives back when it is taken, by the call that reads it. One that is larger than the buffer is begun by that call itself. A sum is begun when it
 * is asked for, and waited for when its room is wanted, or at the end of its pass; one that is larger than its buffer at once.
 *
 * With what is computed and sent again left out, the same gives a step without replays. What is hidden costs nothing: neither a gather under
 * computing, nor a replay that fills the wait for a gather.
 */
#ifndef RP_COST_OVERLAP_H
#define RP_COST_OVERLAP_H

#include "base/base.h"

typedef enum {
    RP_OVERLAP_PASS,                     /* another micro-batch: nothing is under way */
    RP_OVERLAP_COMPUTE,
    RP_OVERLAP_GATHER,                   /* may be asked for ahead */
    RP_OVERLAP_SUM,                      /* may be left to come by itself */
    RP_OVERLAP_TALK                      /* what else is said to other ranks: nothing is computed meanwhile */
} rp_overlap_kind;

typedef struct {
    rp_overlap_kind kind;
    bool recompute;                         /* a replay */
    double seconds;
    int64_t bytes;                      /* of its buffer: of a gather, of a sum */
} rp_overlap_event;

/* Of one step, in the order in which it does things. */
typedef struct {
    rp_ctx *ctx;
    rp_overlap_event *at;
    int n, room;
    int64_t buffer_bytes, sums_bytes;   /* 0: nothing is asked for ahead · no sum is left to come */
    rp_status status;                   /* RP_ERR_MEMORY: an event was lost */
} rp_overlap;

void rp__overlap_note(rp_overlap *overlap, rp_overlap_event event);
/* Seconds of the step; without replays where `again` is false. */
double rp__overlap_seconds(const rp_overlap *overlap, bool recompute);
/* Both clocks of a step without replays, each by itself, and how long it takes with one beside the other. overlaps false: seconds alone, as nothing
 * runs beside anything. */
typedef struct { bool overlaps; double computing, talk, seconds; } rp_overlap_base;
rp_overlap_base rp__overlap_base(const rp_overlap *overlap);
/* No way to do again what takes so many seconds at least, added up, makes a step take less than this beyond one without replays: computing
 * takes its own time, and talk its own, whatever of the two is done again. */
double rp__overlap_bound(const rp_overlap_base *base, double recompute_seconds);
void rp__overlap_close(rp_overlap *overlap);

#endif
