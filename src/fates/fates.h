/* fates/fates.h -- the meaning of fates: which values a step holds, recomputes, offloads and prefetches, and when each value is dropped.
 *
 *   forward    made ── held, if a later reader needs it and no replay makes it ── offloaded, if that is its fate
 *   backward   held, or fetched, or made by a replay of its region ── dropped at its last use
 *
 * Calls, values and regions are numbers here. The owner of the record carries out the events: the tape runs ops on tensors, the planner
 * adds up bytes and seconds. Both get the same events in the same order, so the planner's figures are those of the tape.
 *
 *   state        here  offloaded  fetching  recomputed
 *   gone          -       -          -          -         never made, dropped, or not recomputed yet
 *   held          x       -          -          -         the forward's own
 *   offloaded     -       x          -          -
 *   fetching      x       x          x          x         memory is allocated, contents are still arriving
 *   fetched       x       x          -          x
 *   recomputed    x       -          -          x         `passing`: only later calls of the running replay read it
 *
 * A leaf is made by no call. It is held, or gone if nothing reads it later. rp__fates_check compares a value with this table.
 *
 *   fates.c    the states of a value; which values the forward holds
 *   region.c   calls and values of the replay of each region, found when the outermost region closes
 *   replay.c   replays, the reads of backward, and prefetching
 */
#ifndef RP_FATES_H
#define RP_FATES_H

#include "base/base.h"
#include "reprise/op.h"

enum { RP_FATES_NONE = -1, RP_FATES_ELSEWHERE = -2, RP_FATES_MADE = RP_MAX_OUT + RP_MAX_SLOT, RP_FATES_NEEDS = RP_MAX_IN + RP_FATES_MADE };

typedef struct {
    int call, region;               /* the call that makes it, and that call's region; NONE: a leaf */
    int64_t bytes;                  /* counted in `live` while it is here; the tape counts elsewhere and leaves 0 */
    int uses, left;                 /* reads by backwards and by replays of regions · of these, reads still to come in the running backward */
    int pending;                    /* reads still to come in the running replay */
    unsigned char fate;             /* RP_KEEP, RP_RECOMPUTE or RP_OFFLOAD */
    bool on_demand;                 /* recomputed for each reader, in any region; if false, the forward keeps it for readers outside its region */
    bool promised;                  /* no replay makes it: held from the forward until its last use, or offloaded */
    bool collects;                  /* a leaf that collects a gradient: promised until the record ends */
    bool here, offloaded, fetching, recomputed, passing;
    bool needed;                    /* the replay that is planned or running must leave it */
    uint64_t bound_at;              /* number of the planning that last listed it as read from outside */
} rp_fate_value;

typedef struct {
    int region;
    int list, n_reads, n_makes, n_needs;    /* in the record's list, from `list` on: values it reads, each once; values it makes; values its backward reads */
    bool alone;                     /* the owner can recompute it outside replays of regions */
    bool runs;                      /* part of the running replay */
} rp_fate_call;

typedef struct {
    const char *path;
    int parent, first, end;         /* calls [first, end) */
    int *run, n_run;                /* calls that a replay runs at most, in order; owns the memory of all three lists */
    int *makes, n_makes;            /* values that a replay leaves if they are still needed */
    int *bounds, n_bounds;          /* values from outside that a replay reads */
    int n_off;                      /* for the owner: begins inside it that opened nothing because gradients were off */
    bool single;                    /* one call, marked by a rule or a plan; made on demand. The call's own lists serve as its lists */
    bool planned;                   /* for the owner: a planner opened it */
    bool listed;                    /* its lists are made and its bounds count as used */
    bool replayed, finished;        /* in the running backward */
} rp_fate_region;

/* Treatment of a value that a rerun call makes: leave it, keep it for later calls of the replay, or hold it. */
typedef enum { RP_FATES_LEAVE, RP_FATES_PASS, RP_FATES_HOLD } rp_fate_take;

/* Functions of the owner. NULL does nothing and succeeds. A function that fails must change nothing. */
typedef struct {
    rp_status (*run)(void *self, int call, const rp_fate_take *take);   /* rerun the call; take[i] is for its i-th value */
    rp_status (*alone)(void *self, int value);      /* make it by calls that can run alone */
    void (*drop)(void *self, int value);            /* drop the value that is here; the record is already updated */
    rp_status (*put)(void *self, int value, bool *put);     /* offload a copy; *put is true on entry; false: the value has to stay */
    rp_status (*fetch)(void *self, int value);      /* allocate its memory and start to fill it */
    rp_status (*wait)(void *self, int value);       /* wait until it is filled */
    void (*forget)(void *self, int value);          /* drop the offloaded copy */
} rp_fate_acts;

typedef struct {
    rp_ctx *ctx;                    /* for memory and messages */
    const rp_fate_acts *act;
    void *self;
    rp_fate_value *value;
    rp_fate_call *call;
    rp_fate_region *region;
    int *list;
    int n_value, n_call, n_region, n_list, room_value, room_call, room_region, room_list;
    uint64_t plannings;             /* number of plannings so far, for bound_at */
    int64_t live;                   /* bytes of all values that are here */
    int replaying;                  /* region that is replayed; NONE */
    bool offloads;                  /* values may be offloaded */
    bool retain, keep_replays;      /* options of the running backward */
    int unsearched, coming;         /* calls below it are not searched for prefetches yet · value being prefetched; NONE; ELSEWHERE: another record's */
} rp_fates;

static inline const int *rp__fate_reads(const rp_fates *w, const rp_fate_call *c) { return w->list + c->list; }
static inline const int *rp__fate_makes(const rp_fates *w, const rp_fate_call *c) { return w->list + c->list + c->n_reads; }
static inline const int *rp__fate_needs(const rp_fates *w, const rp_fate_call *c) { return w->list + c->list + c->n_reads + c->n_makes; }

/* The value is neither here nor offloaded: a call must run before it can be read. */
static inline bool rp__fate_gone(const rp_fate_value *v) { return !v->here && !v->offloaded; }
/* The value stays available until its last use. */
static inline bool rp__fate_is_resident(const rp_fate_value *v) { return v->offloaded || (v->here && !v->recomputed); }

/* Does the call get a region of its own? True if this fate recomputes an output outside regions, or alone inside one. */
static inline bool rp__fate_is_single(int fate, bool replays, bool alone, bool in_region)
{
    return replays && fate == RP_RECOMPUTE && (alone || !in_region);
}

/* ---- the record ---- */

/* Reserve room for this many more. Errors: RP_ERR_MEMORY. */
rp_status rp__fates_reserve(rp_fates *w, int calls, int values, int regions, int listed);
/* Forget calls, values and regions beyond these counts. The owner has already dropped what those values held. */
void rp__fates_truncate(rp_fates *w, int n_call, int n_value, int n_region);
void rp__fates_close(rp_fates *w);

/* Add a call that has run; returns its number. single: it gets a region of its own inside `region`. Room for the call, that region and
 * RP_FATES_LISTED numbers must be reserved. Then add its reads, the values it makes and the reads of its backward, in this order. */
enum { RP_FATES_LISTED = RP_MAX_IN + RP_FATES_MADE + RP_FATES_NEEDS };
int rp__fates_add_call(rp_fates *w, int region, bool single, const char *path);
void rp__fates_add_read(rp_fates *w, int value);
/* decided: a fate, or RP_NO_FATE to use the region's. must: the fate comes from a must-rule. replays: the op may be rerun. */
void rp__fates_add_made(rp_fates *w, int value, int decided, bool must, bool replays);
void rp__fates_add_need(rp_fates *w, int value);

/* Must the forward hold `value` because call `c` reads it? backward: the backward of `c` reads it; this counts as a use. */
bool rp__fates_keeps(rp_fates *w, int c, int value, bool backward);
/* Record that the owner now holds it. */
void rp__fates_hold(rp_fates *w, int value);
void rp__fates_drop(rp_fates *w, int value);
/* Drop it and its offloaded copy. */
void rp__fates_release(rp_fates *w, int value);
/* Drop only the value that is here; an offloaded copy stays. */
void rp__fates_unfetch(rp_fates *w, int value);
/* Offload it if that is its fate. Errors: those of `put`. */
rp_status rp__fates_offload(rp_fates *w, int value);
/* Set `promised` of every value from its readers and the lists of regions. */
void rp__fates_promise(rp_fates *w);
/* Stop the program unless the value is in a state of the table above. */
void rp__fates_check(const rp_fates *w, int value);

/* ---- regions ---- */

/* Is `region` equal to `outer` or inside it? NONE is the top level, which contains every region. */
bool rp__fates_within(const rp_fates *w, int region, int outer);
int rp__fates_outermost(const rp_fates *w, int region);
/* Returns the first outermost region without lists; if all have lists, the outermost region around `open`. */
int rp__fates_first_unlisted(const rp_fates *w, int open);
/* Will a replay make the value when `call` needs it? If not, it is kept from the forward. */
bool rp__fates_replayed_for(const rp_fates *w, const rp_fate_value *v, const rp_fate_call *call);

/* Find, for each region from `first` on, the calls its replay runs, the values it leaves and the values it reads from outside. Inner regions have larger
 * numbers than outer ones. rp__fates_unlist undoes it. After a failure no region from `first` on has lists. Errors: RP_ERR_MEMORY, those of `put`. */
rp_status rp__fates_list(rp_fates *w, int first);
void rp__fates_unlist(rp_fates *w, int first);
/* The same for a region of one call. Errors: those of `put`. */
rp_status rp__fates_list_single(rp_fates *w, int region);
/* Drop values that were held for a possible replay of the regions from `region` on, if no replay reads them. */
void rp__fates_drop_unpromised(rp_fates *w, int region);
/* Returns the values from outside that a replay reads, and their number in *n. */
const int *rp__fates_bounds(const rp_fates *w, const rp_fate_region *r, int *n);
bool rp__fates_runs_in(const rp_fates *w, int region, int call);

/* ---- backward ---- */

void rp__fates_begin(rp_fates *w);
/* Make the value available here, whatever its fate. Errors: those of the owner's functions. */
rp_status rp__fates_make(rp_fates *w, int value);
/* Make all values that the backward of a call reads. Errors: those of the owner's functions. */
rp_status rp__fates_make_needs(rp_fates *w, int call);
/* Start to fetch the value that calls below `call` read first, unless a fetch is already running. Errors: those of `fetch`. */
rp_status rp__fates_prefetch(rp_fates *w, int call);
/* Returns that value, or NONE. */
int rp__fates_next_offloaded(rp_fates *w, int call);
/* Count one use less. At the last use the value is dropped. */
void rp__fates_used(rp_fates *w, int value);
/* Record that backward has passed the call. */
void rp__fates_passed(rp_fates *w, int call);
/* Return the value to its state after the forward, for a backward that keeps the record. */
void rp__fates_undo(rp_fates *w, int value);

/* Rerun a call and hold the values it makes as take[] says, one entry for each. Errors: those of `run`. */
rp_status rp__fates_rerun(rp_fates *w, int call, const rp_fate_take *take);
/* Run the calls on which the `needed` values of a region depend. Parents are not replayed. Errors: those of the owner's functions. */
rp_status rp__fates_run(rp_fates *w, int region);

#endif
