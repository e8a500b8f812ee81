/* fates/fates.h -- what the fates of values mean: what a step holds, recomputes, offloads and prefetches, and when each value goes.
 *
 *   forward    made ── held, if a later reader needs it and no replay makes it ── offloaded, if that is its fate
 *   backward   held, or fetched, or made by a replay of its region ── dropped at its last use
 *
 * Calls, values and regions are numbers here. Whoever owns the record acts: the tape runs ops on tensors, the planner adds up bytes and
 * seconds. Both get the same order of events, so what the planner reckons is what the tape does.
 *
 *   state        here  offloaded  fetching  recomputed
 *   gone          -       -          -          -         never made, dropped, or not made again yet
 *   held          x       -          -          -         the forward's own
 *   offloaded     -       x          -          -
 *   fetching      x       x          x          x         its memory is taken, its contents are on the way
 *   fetched       x       x          -          x
 *   recomputed    x       -          -          x         `passing`: for later calls of the running replay alone
 *
 * A leaf is made by no call: it is held, or gone where nobody reads it later. rp__fates_check holds a value against this table.
 *
 *   fates.c    the states of a value, and who keeps it in the forward
 *   region.c   what the replay of each region runs, leaves and reads from outside, found when the outermost region closes
 *   replay.c   a replay; what backward asks for, and what is fetched before it is asked for
 */
#ifndef RP_FATES_H
#define RP_FATES_H

#include "base/base.h"
#include "reprise/op.h"

enum { RP_FATES_NONE = -1, RP_FATES_ELSEWHERE = -2, RP_FATES_MADE = RP_MAX_OUT + RP_MAX_SLOT, RP_FATES_NEEDS = RP_MAX_IN + RP_FATES_MADE };

typedef struct {
    int call, region;               /* that makes it, and that call's region; NONE: a leaf */
    int64_t bytes;                  /* counted in `live` while it is here; the tape counts elsewhere and leaves 0 */
    int uses, left;                 /* reads by backwards and replays of regions; those still to come in the backward that runs */
    int pending;                    /* reads still to come in the replay that runs */
    unsigned char fate;             /* RP_KEEP, RP_RECOMPUTE or RP_OFFLOAD */
    bool on_demand;                 /* made again for each reader, wherever that is; else readers outside its region keep it */
    bool promised;                  /* no replay makes it: held from the forward until its last use, or offloaded */
    bool collects;                  /* a leaf that collects a gradient: promised until the record ends */
    bool here, offloaded, fetching, recomputed, passing;
    bool needed;                    /* the replay that is planned, or runs, must leave it */
    uint64_t bound_at;              /* the planning that last listed it as read from outside */
} rp_fate_value;

typedef struct {
    int region;
    int list, n_reads, n_makes, n_needs;    /* of the record's list, from `list` on: values it reads, each once; makes; its backward reads */
    bool alone;                     /* it can run again outside replays of regions: the owner does that */
    bool runs;                      /* in the replay that runs */
} rp_fate_call;

typedef struct {
    const char *path;
    int parent, first, end;         /* calls [first, end) */
    int *run, n_run;                /* calls that a replay runs at most, in order; owns the memory of the lists */
    int *makes, n_makes;            /* values that a replay leaves, where something still needs them */
    int *bounds, n_bounds;          /* values from outside that it reads */
    int n_off;                      /* the owner's: begins in it that opened nothing, gradients being off */
    bool single;                    /* one call, for the sake of a rule or a plan: made on demand. The call's own lists are its lists */
    bool planned;                   /* the owner's: a planner has made it */
    bool listed;                    /* its lists are made, and its bounds are used */
    bool replayed, finished;        /* in the backward that runs */
} rp_fate_region;

/* What a replay keeps of each value that a call makes. */
typedef enum { RP_FATES_LEAVE, RP_FATES_PASS, RP_FATES_HOLD } rp_fate_take;

/* What the owner does. NULL: nothing, and it succeeds. A function that fails has changed nothing. */
typedef struct {
    rp_status (*run)(void *self, int call, const rp_fate_take *take);   /* run it again; take[i]: of its i-th value */
    rp_status (*alone)(void *self, int value);      /* make it, by calls that can run alone */
    void (*drop)(void *self, int value);            /* what is here; the record says so already */
    rp_status (*put)(void *self, int value, bool *put);     /* offload a copy; *put true at first; false: it has to stay */
    rp_status (*fetch)(void *self, int value);      /* take memory for it and begin to fill it */
    rp_status (*wait)(void *self, int value);       /* until it is filled */
    void (*forget)(void *self, int value);          /* the offloaded copy */
} rp_fate_acts;

typedef struct {
    rp_ctx *ctx;                    /* of its memory and messages */
    const rp_fate_acts *act;
    void *self;
    rp_fate_value *value;
    rp_fate_call *call;
    rp_fate_region *region;
    int *list;
    int n_value, n_call, n_region, n_list, room_value, room_call, room_region, room_list;
    uint64_t plannings;             /* numbers them, for bound_at */
    int64_t live;                   /* bytes of what is here */
    int replaying;                  /* region; NONE */
    bool offloads;                  /* something may be offloaded */
    bool retain, keep_replays;      /* of the backward that runs */
    int unsearched, coming;         /* calls below the first have not been searched for values to fetch · fetched before its reader asked; NONE, ELSEWHERE */
} rp_fates;

static inline const int *rp__fate_reads(const rp_fates *w, const rp_fate_call *c) { return w->list + c->list; }
static inline const int *rp__fate_makes(const rp_fates *w, const rp_fate_call *c) { return w->list + c->list + c->n_reads; }
static inline const int *rp__fate_needs(const rp_fates *w, const rp_fate_call *c) { return w->list + c->list + c->n_reads + c->n_makes; }

/* Nothing has it: a call must run for its reader. */
static inline bool rp__fate_gone(const rp_fate_value *v) { return !v->here && !v->offloaded; }
/* It is there until its last use. */
static inline bool rp__fate_is_resident(const rp_fate_value *v) { return v->offloaded || (v->here && !v->recomputed); }

/* Does the call get a region of its own, because this fate of an output has it recomputed outside a region, or alone inside one? */
static inline bool rp__fate_is_single(int fate, bool replays, bool alone, bool in_region)
{
    return replays && fate == RP_RECOMPUTE && (alone || !in_region);
}

/* ---- the record ---- */

/* Room for so many more. errors RP_ERR_MEMORY */
rp_status rp__fates_reserve(rp_fates *w, int calls, int values, int regions, int listed);
/* Forget what comes behind so many; the owner has dropped what those values held. */
void rp__fates_truncate(rp_fates *w, int n_call, int n_value, int n_region);
void rp__fates_close(rp_fates *w);

/* A call that has run, in `region` or, if it is to be made again alone, in one of its own inside it: room for both is reserved, and for RP_FATES_LISTED
 * numbers. Then what it reads, what it makes, and what its backward reads, in this order, as often as it does. Returns the call. */
enum { RP_FATES_LISTED = RP_MAX_IN + RP_FATES_MADE + RP_FATES_NEEDS };
int rp__fates_add_call(rp_fates *w, int region, bool single, const char *path);
void rp__fates_add_read(rp_fates *w, int value);
/* decided: a fate, or RP_NO_FATE for the region's. */
void rp__fates_add_made(rp_fates *w, int value, int decided, bool must, bool replays);
void rp__fates_add_need(rp_fates *w, int value);

/* Does any later reader have `value` kept because call `c` reads it? `backward`: its backward does, which counts as a use. */
bool rp__fates_keeps(rp_fates *w, int c, int value, bool backward);
/* It came to be here, by the owner. */
void rp__fates_hold(rp_fates *w, int value);
void rp__fates_drop(rp_fates *w, int value);
/* Drop it and its offloaded copy. */
void rp__fates_let_go(rp_fates *w, int value);
/* Only what is here goes: a copy that is offloaded stays. */
void rp__fates_unfetch(rp_fates *w, int value);
/* If offloading is its fate. errors of `put` */
rp_status rp__fates_offload(rp_fates *w, int value);
/* Set `promised` of every value from its readers and the lists of regions. */
void rp__fates_promise(rp_fates *w);
/* Stops the program unless the value is in a state of the table above. */
void rp__fates_check(const rp_fates *w, int value);

/* ---- regions ---- */

/* Is the region, or NONE for the top, `outer` or inside it? */
bool rp__fates_within(const rp_fates *w, int region, int outer);
int rp__fates_outermost(const rp_fates *w, int region);
/* The first outermost region without lists, or else the one around `open`. */
int rp__fates_first_unlisted(const rp_fates *w, int open);
/* Will a replay make the value when `call` needs it? Else it is kept from the forward. */
bool rp__fates_replayed_for(const rp_fates *w, const rp_fate_value *v, const rp_fate_call *call);

/* What a replay of each region from `first` on runs, leaves and reads; regions inside come behind those around them. A failure changes nothing.
 * unlist takes it back. errors RP_ERR_MEMORY · of `put` */
rp_status rp__fates_list(rp_fates *w, int first);
void rp__fates_unlist(rp_fates *w, int first);
/* The same for a region of one call. errors of `put` */
rp_status rp__fates_list_single(rp_fates *w, int region);
/* Drop what was held in case a replay of a region from there on reads it, and none does. */
void rp__fates_drop_unpromised(rp_fates *w, int region);
/* Values from outside that a replay reads; *n: how many. */
const int *rp__fates_bounds(const rp_fates *w, const rp_fate_region *r, int *n);
bool rp__fates_runs_in(const rp_fates *w, int region, int call);

/* ---- backward ---- */

void rp__fates_begin(rp_fates *w);
/* Make it here and whole, whatever its fate. errors of acts */
rp_status rp__fates_make(rp_fates *w, int value);
/* What the backward of a call reads. errors of acts */
rp_status rp__fates_make_needs(rp_fates *w, int call);
/* Begin to fetch one value that a call below `call` will ask for first, unless one is under way. errors of `fetch` */
rp_status rp__fates_prefetch(rp_fates *w, int call);
/* That value; NONE. */
int rp__fates_next_offloaded(rp_fates *w, int call);
/* One use less; at the last it goes. */
void rp__fates_used(rp_fates *w, int value);
/* Backward has passed the call. */
void rp__fates_passed(rp_fates *w, int call);
/* A record that is kept is as the forward left it. */
void rp__fates_undo(rp_fates *w, int value);

/* Run what `needed` values of a region depend on, and not its parents. errors of acts */
rp_status rp__fates_run(rp_fates *w, int region);

#endif
