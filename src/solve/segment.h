/* solve/segment.h -- a pass cut into segments, and the ways to keep each of them.
 *
 *   calls     | embed | norm q k v … add | norm q k v … add |  …  | norm loss |
 *   segments  |   0   |        1         |        2         |  …  |    n-1    |      exactly one value crosses from one to the next
 *   classes   |   a   |        b         |        b         |  …  |     c     |      alike in calls, bytes and fixed bytes around them
 *
 * Calls and values have small numbers within their segment, both from 0. The segment's input is one of its values. Leaves are not values
 * here, and neither is anything that a must-rule, offloading or the program itself holds: those bytes are fixed.
 *
 * A way to keep a segment is a set of recomputed calls and a set of calls whose offloadable values are offloaded until backward. Every
 * other call keeps those of its values that a backward or a recomputed call reads.
 *
 * The bytes and seconds of a way come from a walk through the segment's calls, as the tape will run them: forward, then backward. Each
 * value is recomputed or fetched when it is first read, and freed at its last use.
 *
 *   lane      out ▐▀▀ v/W ▀▀▌                 ▐▀▀ v/W ▀▀▌ in        v bytes offloaded, W bytes/s. A transfer overlaps with the segment's own
 *   calls     ▐▀ its forward ▀▌   …   ▐▀ its backward ▀▌            forward (out) or backward (in); the part that is not hidden is waited for
 */
#ifndef RP_SOLVE_SEGMENT_H
#define RP_SOLVE_SEGMENT_H

#include "fates/fates.h"
#include "solve/chain.h"
#include "trace/trace.h"

typedef struct {
    int n_reads, reads[RP_MAX_IN];              /* values, each once */
    int n_made, made[RP_MAX_OUT + RP_MAX_SLOT];
    int n_needs, needs[RP_TRACE_NEEDS];         /* of its backward, as often as it reads them */
    int64_t run_bytes;
    double seconds, backward;                   /* recompute; backward: set only if the segment has an offloadable value */
    bool kept, recompute;                       /* has no choice: never recomputed · a must-rule: recomputed if it is read */
    bool offloadable;                           /* makes an offloadable value */
} rp_segment_call;

typedef struct {
    int call;                                   /* that makes it; NONE: the input, or a lingering value */
    int64_t bytes;
    int until;                                  /* the last call during which the program holds it */
    bool output;                                /* the next segment's input … */
    bool wanted;                                /* … which a later backward reads, or which a must-rule recomputes */
    bool lingers;                               /* the input of the segment before, which the program still holds in this forward */
    bool offloadable;                           /* the plan may offload it; then its index among its call's values, and the seconds of copying it out and in */
    int nth;
    double copy;
} rp_segment_value;

typedef struct {
    int n_calls, n_values, n_kinds;
    bool input_resident;                        /* the segment before may still need it */
    rp_segment_call *call;
    rp_segment_value *value;
    int64_t *forward_fixed;                     /* by call: peak of the fixed bytes in its tick, relative to when the segment began */
    int64_t *backward_before[RP_CHAIN_KINDS], *backward_fixed[RP_CHAIN_KINDS];
    double bandwidth;                           /* of the lane, bytes/s, if the segment has an offloadable value */
    int first;                                  /* its first call, numbered in the pass */
} rp_segment;

typedef struct { rp_fates fates; int64_t *change; } rp_segment_room;      /* the segment as a record of fates, for a walk to write to */
rp_status rp__segment_room(rp_bump *bump, const rp_segment *s, rp_segment_room *out);

/* The figures of the way that recomputes the calls marked in recompute[] and offloads the offloadable values of those marked in offload[]
 * (NULL: none). Both arrays have an entry per call; calls without a reader may be marked. Nothing in a region is offloaded: a way that
 * offloads has the bytes RP_CHAIN_NEVER there. */
rp_chain_option rp__segment_walk(const rp_segment *s, const bool *recompute, const bool *offload, rp_segment_room room);
/* The seconds that the way spends on copying and on waiting for transfers. */
double rp__segment_offload_seconds(const rp_segment *s, const bool *recompute, const bool *offload, rp_segment_room room);
/* Fills the members of a class that do not depend on an option, those of a segment that keeps nothing. `recompute` is scratch with an entry
 * per call. */
void rp__segment_bare(const rp_segment *s, bool *recompute, rp_segment_room room, rp_chain_class *out);

typedef struct {
    rp_chain_option *option;
    uint64_t *recompute, *offload;              /* of each option, the recomputed and the offloaded calls: a bit per call, `words` words */
    int n, words;
    int64_t walks;                              /* number of ways tried */
    bool all;                                   /* every possible way was tried */
} rp_segment_ways;

/* Finds the ways that no other way dominates. errors RP_ERR_MEMORY */
rp_status rp__segment_ways(rp_bump *bump, const rp_segment *s, rp_segment_ways *out);

typedef struct {
    rp_chain chain;                             /* its lists belong to this structure's bump */
    const rp_segment *class_of;                 /* the first segment of each class */
    const rp_segment_ways *ways;                /* of each class */
    const int *first;                           /* first call of each segment; one more entry at the end */
} rp_cut_pass;

/* Cuts a pass into segments and finds the ways of each class. The result lives in the bump. `how` is a sum of flags: RP_CUT_RESIDENT
 * offloads nothing; RP_CUT_JOINED makes the first segment and the first layer one; RP_CUT_WHOLE makes one segment of several. If that segment has
 * too many calls to choose among, the chain has no segment. errors RP_ERR_MEMORY */
enum { RP_CUT_RESIDENT = 1, RP_CUT_JOINED = 2, RP_CUT_WHOLE = 4 };
rp_status rp__segments(rp_bump *bump, const rp_trace_pass *pass, int how, rp_cut_pass *out);

#endif
