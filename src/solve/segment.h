/* solve/segment.h -- a pass cut into segments, and the ways to keep one.
 *
 *   calls     | embed | norm q k v … add | norm q k v … add |  …  | norm loss |
 *   segments  |   0   |        1         |        2         |  …  |    n-1    |      between two of them one value goes over, no more
 *   classes   |   a   |        b         |        b         |  …  |     c     |      alike in calls, bytes and what is fixed around them
 *
 * In a segment numbers are small: calls from 0, values from 0, its input among them. Leaves are no values here, nor is
 * what musts, offloading or the program itself hold: that is fixed. A way to keep a segment is a set of calls that run again in backward
 * and a set of calls whose values that may go are away until then; all others keep what backward, or a call that runs again, reads of theirs.
 * What a way takes is found by walking through the segment's calls as the tape will: forward, then backward with each value made again, or
 * fetched, when it is first read and let go at its last use.
 *
 *   lane      out ▐▀▀ v/W ▀▀▌                 ▐▀▀ v/W ▀▀▌ in        v bytes that go, W bytes/s: what a segment's own forward does not hide
 *   calls     ▐▀ its forward ▀▌   …   ▐▀ its backward ▀▌            of one transfer, its own backward of the other, is waited for
 */
#ifndef RP_SOLVE_SEGMENT_H
#define RP_SOLVE_SEGMENT_H

#include "fates/fates.h"
#include "solve/chain.h"
#include "trace/trace.h"

typedef struct {
    int n_reads, reads[RP_MAX_IN];              /* values, each once */
    int n_made, made[RP_MAX_OUT + RP_MAX_SLOT];
    int n_needs, needs[RP_TRACE_NEEDS];         /* of its backward, as often as it asks */
    int64_t run_bytes;
    double seconds, backward;                   /* backward: only where some of the segment may go */
    bool kept, recompute;                           /* not open: never again · must, where anybody reads it */
    bool offloadable;                                  /* it makes a value that may go */
} rp_segment_call;

typedef struct {
    int call;                                   /* NONE: the input, or what lingers */
    int64_t bytes;
    int until;                                  /* the last call during which the program holds it */
    bool output;                                /* the next segment's input … */
    bool wanted;                                /* … for whose backward it is there, or a rule has it made again */
    bool lingers;                               /* the input of the segment before, which the program still holds in its forward */
    bool offloadable;                                  /* it may go; then its place among what its call makes, and the seconds of copying it out and in */
    int nth;
    double copy;
} rp_segment_value;

typedef struct {
    int n_calls, n_values, n_kinds;
    bool input_resident;                           /* the segment before may still need it */
    rp_segment_call *call;
    rp_segment_value *value;
    int64_t *forward_fixed;                     /* by call: the most in its tick, over what was there when the segment began */
    int64_t *backward_before[RP_CHAIN_KINDS], *backward_fixed[RP_CHAIN_KINDS];
    double bandwidth;                           /* bytes/s, where some of it may go */
    uint64_t hash;
    int first;                                  /* call of the pass */
} rp_segment;

typedef struct { rp_fates fates; int64_t *change; } rp_segment_room;      /* the segment as a record of fates: for a walk to note in */
rp_status rp__segment_room(rp_bump *bump, const rp_segment *s, rp_segment_room *out);

/* What happens when the marked calls run again (again[] has an entry for each call; those without a reader may be marked), and what those
 * marked in away[] make, and may go, goes (NULL: none). In a region nothing goes: there such a way fits nowhere. */
rp_chain_option rp__segment_walk(const rp_segment *s, const bool *recompute, const bool *offload, rp_segment_room room);
/* The part of its seconds that is copied and waited for. */
double rp__segment_offload_seconds(const rp_segment *s, const bool *recompute, const bool *offload, rp_segment_room room);
/* What a class says besides its options, where nothing of the segment is kept. `again` is room for an entry for each call. */
void rp__segment_bare(const rp_segment *s, bool *recompute, rp_segment_room room, rp_chain_class *out);

typedef struct {
    rp_chain_option *option;
    uint64_t *recompute, *offload;                     /* of each option, the calls that run again, those that go: a bit a call, `words` words */
    int n, words;
    int64_t walks;                              /* how many ways were tried */
    bool all;                                   /* every way there is was */
} rp_segment_ways;

/* The ways that no other is better than in everything. errors RP_ERR_MEMORY */
rp_status rp__segment_ways(rp_bump *bump, const rp_segment *s, rp_segment_ways *out);

typedef struct {
    rp_chain chain;                             /* its lists are the cut's */
    const rp_segment *class_of;                 /* of each class, the first segment */
    const rp_segment_ways *ways;                /* of each class */
    const int *first;                           /* of each segment, its first call; one more at the end */
} rp_cut_pass;

/* All of it for a pass. What is made lives in the bump. how: nothing goes; the first segment and the first layer are one, which is not to be
 * where that has too many calls to choose among: then the chain has no segment. errors RP_ERR_MEMORY */
enum { RP_CUT_RESIDENT = 1, RP_CUT_JOINED = 2 };
rp_status rp__segments(rp_bump *bump, const rp_trace_pass *pass, int how, rp_cut_pass *out);

#endif
