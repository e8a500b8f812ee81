/* tape/internal.h -- the tape's own structures; only tape/ and its tests include this file.
 *
 *   tape.c         creation, settings and queries of the tape
 *   decide.c       asks for the fates of a call
 *   record.c       runs an op and records it with its fates; holds values for later readers
 *   value.c        the end of a value, its name, and version checks
 *   region_open.c  begins and ends regions
 *   replay.c       reruns a call; the functions that the record of fates calls
 *   rollback.c     removes calls after an error in a region; joins regions afterwards
 *   backward.c     from the loss to the leaves;  grad.c   sums gradients
 *   pressure.c     drops values when memory is short;  recompute.c   reruns calls alone to recompute them
 *   verify.c       fingerprints of a first pass;  offload.c   the place of offloaded values
 *
 *   tape->fates    value[i]   call[at]   region[r]        numbers, lists and states: which values are held until when
 *   tape           value[i]   call[at]                    tensors, gradients, ops, random streams
 */
#ifndef RP_TAPE_INTERNAL_H
#define RP_TAPE_INTERNAL_H

#include "fates/fates.h"
#include "tape/offload.h"
#include "tape/tape.h"

enum { NONE = -1, MOST_MADE = RP_MAX_OUT + RP_MAX_SLOT, MOST_NEEDS = RP_MAX_IN + MOST_MADE };

typedef struct tape_print tape_print;       /* fingerprint of a value's contents: verify.c */

typedef struct {                    /* a tensor that calls make or read */
    uint64_t serial;                /* unique to this value; the tensor stores it, so that a stale tensor is not taken for this value */
    int output;                     /* index among its call's outputs, then its slots */
    rp_meta m;
    rp_tensor *held;                /* the tape's reference, while the record says that the value is here */
    rp_tensor *grad;                /* unused for leaves */
    int64_t ticket;                 /* of its offloaded copy */
    tape_print *print;              /* of the first pass, if replays are compared with it */
    const char *by;                 /* the rule or policy that decided its fate; NULL: none */
    uint64_t version;               /* of the storage, when the value was made */
    uint64_t touched;               /* the work that last made or read it: rp_tape_work.serial */
    int readers, readers_left;      /* calls that read it · those not passed by backward; of a leaf, they may still read it or add to its gradient */
    int pins;                       /* by calls whose backward is prepared or runs */
    int opened;                     /* references to `held` and its storage that the running call has taken */
    int reads, unread;              /* reads by the current run of calls alone: all, and those still to come */
    bool allow_mutation, must;
    bool wants_grad, wanted;        /* wanted: by the running backward */
} tape_value;

typedef struct {                    /* a call's view of an input */
    int value;
    bool whole;                     /* the value itself; else a view of its storage with the geometry below */
    rp_meta m;
    int64_t stride[RP_MAX_DIM], start;
} tape_input;

typedef struct {
    rp_op_meta meta;                /* meta.attr points at attr */
    _Alignas(16) unsigned char attr[RP_MAX_ATTR];
    rp_op_stream stream;
    const char *path;
    int at;                         /* its place on the tape */
    bool read_on;                   /* a later call reads its output and passes a gradient back to it */
    bool changed;                   /* an input had been written since it was made, so rerunning the call would read other contents */
    bool may, runs;                 /* it could be rerun alone now · it is in the current run */
    uint64_t walk;                  /* the last walk that visited it */
    tape_input in[RP_MAX_IN];
} tape_call;

struct rp_tape {
    rp_ctx *ctx;
    uint64_t id;                    /* of the record; each reset assigns a new one */
    rp_fates fates;                 /* which values are held until when; call[].alone: see recompute.c */
    tape_value *value;              /* as many as fates.value */
    tape_call **call;               /* as many as fates.call */
    int room_value, room_call;
    int open;                       /* innermost open region */
    int n_off;                      /* like n_off of a region, outside all regions */
    int alone;                      /* the call that is rerun alone now; NONE */
    int passed;                     /* the running backward has passed all calls from this one on; NONE: no backward runs */
    bool deferred;                  /* outermost regions are planned later, once it is known which of them are joined */
    rp_scope root;
    int n_planned, n_ignored;       /* regions of the planner opened so far · begins by callers that opened nothing because of the planner */
    int n_outermost, last_outermost;   /* outermost regions so far in this record · in the previous record, for RP_TAPE_VERIFY_STEP */
    rp_tape_stats stats;
    rp_tape_work now;
    uint64_t works, walks;          /* counters that number them */
};

/* Returns the context's tape, which it creates at first use; NULL after RP_ERR_MEMORY. */
rp_tape *rp__tape(rp_ctx *ctx);
static inline rp_tape *rp__tape_opened(const rp_ctx *ctx) { return rp__tape_ctx(ctx)->tape; }       /* NULL: not used yet */
uint64_t rp__tape_next_id(void);        /* unique in the process */

/* Attribute memory to this call from now on. Returns the previous value of `now`, for restoring it. */
rp_tape_work rp__tape_work(rp_tape *tape, rp_tape_phase phase, const tape_call *call, int at);

/* ---- fates ---- */

/* Returns the running module's scope, or the top-level scope, whose path is empty. */
rp_scope *rp__tape_scope(rp_tape *tape);
/* Returns the path for a call that is recorded now: the module's, or else the open region's. */
const char *rp__tape_path(rp_tape *tape);
/* Set the verdicts for the outputs and by-products of the next call, from policies and plan. *single: the call gets its own region. Errors:
 * RP_ERR_CONFIG policies disagree; RP_ERR_STATE not the planned call, or no place to offload to; RP_ERR_ARG; RP_ERR_MEMORY. */
rp_status rp__tape_decide(rp_tape *tape, const rp_op_meta *m, rp_verdict *verdict, bool *single);

/* ---- regions ---- */

/* End the planner's regions that end before the next call, and begin those that start with it. rp__regions_planned_end ends all that are
 * open. Errors: those of rp__region_plan. */
rp_status rp__regions_planned_here(rp_tape *tape);
rp_status rp__regions_planned_end(rp_tape *tape);

/* Returns the counter of the innermost open region, or of the top level. */
static inline int *rp__tape_n_off(rp_tape *tape) { return tape->open == NONE ? &tape->n_off : &tape->fates.region[tape->open].n_off; }

/* Plan an outermost region after its forward: find the replays of it and of all later regions, then drop values that nothing needs. Later
 * regions are those inside it and, for rp_checkpoint_sequential, its next segments. A failure changes nothing. Errors: those of
 * rp__fates_list. */
rp_status rp__region_plan(rp_tape *tape, int first);

extern const rp_fate_acts rp__tape_acts;

/* Forget calls, values and regions from these numbers on. */
void rp__tape_truncate(rp_tape *tape, int n_call, int n_value, int n_region);

/* ---- values ---- */

static inline rp_fate_value *rp__fate(const rp_tape *tape, int value) { return &tape->fates.value[value]; }
static inline int rp__number(const rp_tape *tape, const tape_value *v) { return (int)(v - tape->value); }
/* Returns its outputs, then its slots. */
static inline const int *rp__call_makes(const rp_tape *tape, const tape_call *c) { return rp__fate_makes(&tape->fates, &tape->fates.call[c->at]); }
static inline bool rp__is_leaf(const rp_tape *tape, const tape_value *v) { return rp__fate(tape, rp__number(tape, v))->call == NONE; }

/* Is the tensor a value of this record? Marks left by earlier records or by removed calls do not count. */
static inline bool rp__tensor_on_tape(const rp_tape *tape, const rp_tensor *w)
{
    return w->tape_id && w->value < tape->fates.n_value && tape->value[w->value].serial == w->tape_id;
}

/* Open the tensor that a call reads, as a new reference. Errors: RP_ERR_MUTATED it was written since; RP_ERR_MEMORY. */
rp_status rp__input_open(rp_tape *tape, const tape_call *call, int in, rp_tensor **out);
void rp__input_close(rp_tape *tape, const tape_call *call, int in, rp_tensor *opened);      /* opened may be NULL */

/* Take a reference for the tape, unless the value is already held or offloaded. */
void rp__value_hold(rp_tape *tape, int value, rp_tensor *t);
/* Drop the value for good: its tensor, its offloaded copy, its gradient and its fingerprint. */
void rp__value_forget(rp_tape *tape, int value);
/* Return the value to its state after the forward, for a backward that keeps the record. */
void rp__value_undo(rp_tape *tape, int value);
/* Check that the value was not written since it was recorded. Errors: RP_ERR_MUTATED. */
rp_status rp__value_check(rp_tape *tape, const tape_value *v, const tape_call *reader);
/* Write a name such as "layers.0.mlp.up: matmul output 0" to out; returns out. */
enum { VALUE_CHARS = 256 };
const char *rp__value_name(const rp_tape *tape, const tape_value *v, char *out);

/* In train mode a forward does not read the inputs it overwrites, so their earlier contents do not matter. */
static inline bool rp__input_is_written(const tape_call *c, int i) { return c->meta.train && (c->meta.op->writes_in >> i & 1); }

/* Record that the current work read or made the value. */
static inline void rp__value_touch(const rp_tape *tape, tape_value *v) { v->touched = tape->works; }

/* Test builds check invariants. */
#if defined NDEBUG && !defined RP_POISON
enum { TAPE_CHECKED = false };
#else
enum { TAPE_CHECKED = true };
#endif
/* In test builds, check the values that call `at` makes, reads and needs; NONE checks all values. Each must be in a state of the table in
 * fates/fates.h, and its tensor must exist exactly when the record says so. */
void rp__tape_check(const rp_tape *tape, int at);

/* ---- pressure ---- */

/* Callback for rp__mem_on_pressure with the tape as `user`: drops the values that are cheapest to recompute. */
bool rp__tape_relieve(void *user, int64_t bytes, int64_t *droppable);

/* Machines compute some tens of operations in the time they take to move a byte. So products count by their FLOPs, other ops by their
 * bytes. */
enum { FLOPS_A_BYTE = 16 };
/* Set `may` of every call. */
void rp__recompute_check(rp_tape *tape);
/* Returns the cost of recomputing the values of call `at` once they are gone, in FLOPs. Bytes count as FLOPS_A_BYTE FLOPs each. */
double rp__recompute_cost(rp_tape *tape, int at);
/* Allow call `at`, whose `may` is set, to be rerun alone from now on. */
void rp__recompute_claim(rp_tape *tape, int at);
/* Release the reads of a claimed call that backward has passed. */
void rp__recompute_passed(rp_tape *tape, const tape_call *c);
/* Make a value that is gone, of a call that can be rerun alone. Errors: those of a replay and of a fetch. */
rp_status rp__recompute_make(rp_tape *tape, int value);
/* Is the call part of the current run of calls alone, or of the running replay? */
bool rp__recompute_runs(const rp_tape *tape, int at);

/* ---- verify ---- */

/* Should replays of the calls recorded now be compared with the first pass? */
bool rp__verify_wanted(const rp_tape *tape);
/* Take the fingerprint of a tensor; *out is unchanged if the tensor has no data. Errors: RP_ERR_MEMORY. */
rp_status rp__print_take(rp_ctx *ctx, const rp_tensor *t, tape_print **out);
/* Compare a value that a replay of call `at` made with the first pass. Errors: RP_ERR_REPLAY. */
rp_status rp__print_check(rp_tape *tape, int at, const tape_value *v, const rp_tensor *t);

/* ---- gradients ---- */

/* Does input i want a gradient in the running backward? */
static inline bool rp__input_wants(const rp_tape *tape, const tape_call *c, int i)
{
    return c->meta.in_grad[i] && tape->value[c->in[i].value].wanted;
}

/* Returns where the gradient of the value is stored. */
rp_tensor **rp__grad_place(const rp_tape *tape, tape_value *v);
/* Make sure that the value has a gradient tensor of its own: create it if missing, copy it if shared. *fresh: it is new and its contents
 * are undefined. Errors: RP_ERR_MEMORY. */
rp_status rp__grad_own(rp_tape *tape, tape_value *v, bool *fresh);
/* Continue with a gradient that earlier passes carried on, if there is one: it becomes the gradient of the value. */
void rp__grad_resume(rp_tape *tape, tape_value *v);
/* Is the backward of this call left to a later pass? If so, rp__grad_carry hands its gradient on to that pass. */
bool rp__grad_carries(const rp_tape *tape, const tape_call *c);
void rp__grad_carry(rp_tape *tape, const tape_call *c);
/* Run the backward of a call whose needs are here. Errors: RP_ERR_MUTATED, RP_ERR_MEMORY. */
rp_status rp__call_backward(rp_tape *tape, const tape_call *c);

#endif
