/* cost/overlap.h -- the seconds of a step whose communication overlaps with its computing.
 *
 *   computing   ████ ██████ ███░░██████ ███         ░ waits for a gather
 *   talk         ▒▒▒ ▒▒▒▒▒ ▒▒▒▒▒   ▓▓▓▓             ▒ prefetched gather (ops/prefetch.h)   ▓ asynchronous sum (ops/reduce_async.h)
 *
 * A prefetched gather starts when the gathers before it have ended and the prefetch buffer has room for it. Room becomes free when a call
 * reads an earlier gather. A gather larger than the buffer is started by the call that reads it. A sum starts when it is requested. The
 * step waits for it when its room is needed, or at the end of its pass. A sum larger than its buffer is waited for at once.
 *
 * Without the replays' computing and communication, the same rules give a step without replays. Overlapped seconds cost nothing, whether
 * a gather overlaps with computing or a replay fills the wait for a gather.
 */
#ifndef RP_COST_OVERLAP_H
#define RP_COST_OVERLAP_H

#include "base/base.h"

typedef enum {
    RP_OVERLAP_PASS,                     /* a new micro-batch: no communication is pending */
    RP_OVERLAP_COMPUTE,
    RP_OVERLAP_GATHER,                   /* may be prefetched */
    RP_OVERLAP_SUM,                      /* may be asynchronous */
    RP_OVERLAP_TALK                      /* other communication: computing waits for it */
} rp_overlap_kind;

typedef struct {
    rp_overlap_kind kind;
    bool recompute;                         /* a replay */
    double seconds;
    int64_t bytes;                      /* in the buffer of gathers or of sums */
} rp_overlap_event;

/* The events of one step, in order. */
typedef struct {
    rp_ctx *ctx;
    rp_overlap_event *at;
    int n, room;
    int64_t buffer_bytes, sums_bytes;   /* 0: no prefetching · 0: no asynchronous sums */
    rp_status status;                   /* RP_ERR_MEMORY: an event was lost */
} rp_overlap;

void rp__overlap_note(rp_overlap *overlap, rp_overlap_event event);
/* Returns the seconds of the step; recompute false: without replays. NAN after RP_ERR_MEMORY. */
double rp__overlap_seconds(const rp_overlap *overlap, bool recompute);
/* Seconds of a step without replays: of computing and of communication alone, and with both overlapping. overlaps false: only seconds is
 * set, and nothing overlaps. */
typedef struct { bool overlaps; double computing, talk, seconds; } rp_overlap_base;
rp_overlap_base rp__overlap_base(const rp_overlap *overlap);
/* Returns a lower bound of the seconds that replays of at least recompute_seconds add to the step. Computing and communication each take at
 * least their own time, whichever of them is repeated. */
double rp__overlap_bound(const rp_overlap_base *base, double recompute_seconds);
void rp__overlap_close(rp_overlap *overlap);

#endif
