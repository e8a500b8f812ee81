/* tape/internal.h -- the tape's own structures; nobody outside tape/ and its tests includes this.
 *
 *   tape.c         the tape's life and settings
 *   decide.c       a call's fates are asked for
 *   record.c       an op is called, and entered with its fates; what later readers need is held
 *   value.c        what the record of fates (fates/fates.h) has a tape do with a value's tensor; versions
 *   region_open.c  where regions begin and end
 *   replay.c       a call that runs again
 *   rollback.c     calls that never were: errors inside a region; regions joined after the fact
 *   backward.c     from the loss to the leaves;  grad.c   where gradients are put together
 *   pressure.c     what is dropped when memory is short;  recompute.c   calls run again alone, to make it again
 *   verify.c       fingerprints of a first pass;  offload.c   where offloaded values are
 *
 *   tape->fates    value[i]   call[at]   region[r]        numbers, lists and states: who keeps what until when
 *   tape           value[i]   call[at]                    tensors, gradients, ops, random streams
 */
#ifndef RP_TAPE_INTERNAL_H
#define RP_TAPE_INTERNAL_H

#include "fates/fates.h"
#include "tape/offload.h"
#include "tape/tape.h"

enum { NONE = -1, MOST_MADE = RP_MAX_OUT + RP_MAX_SLOT, MOST_NEEDS = RP_MAX_IN + MOST_MADE };

typedef struct tape_print tape_print;       /* of a value's contents: verify.c */

typedef struct {                    /* a tensor that calls make or read */
    uint64_t serial;                /* of this value alone; the tensor remembers it, so that a stale one is no value */
    int output;                     /* index among its call's outputs, then its slots */
    rp_meta m;
    rp_tensor *held;                /* the tape's share, while the record says that it is here */
    rp_tensor *grad;                /* of what is not a leaf */
    int64_t ticket;                 /* of its copy where offloaded values are */
    tape_print *print;              /* of the first pass, where a replay is to be compared with it */
    const char *by;                 /* who decided its fate; NULL: nobody */
    uint64_t version;               /* of the storage, when the value came to be */
    uint64_t touched;               /* the work that made or read it last: rp_tape_work.serial */
    int readers, readers_left;      /* calls that read it; of a leaf, those that may still read it or add to its gradient */
    int pins;                       /* by a call whose backward is being made ready, or runs */
    int opened;                     /* references to `held` and its storage that the running call has taken */
    int reads, unread;              /* in the run of calls alone that is under way: all, and those still to come */
    bool allow_mutation, must;
    bool wants_grad, wanted;        /* wanted: by the backward that runs */
} tape_value;

typedef struct {                    /* a call's view of an input */
    int value;
    bool whole;                     /* the value itself; else the geometry below on its storage */
    rp_meta m;
    int64_t stride[RP_MAX_DIM], start;
} tape_input;

typedef struct {
    rp_op_meta meta;                /* meta.attr points at attr */
    _Alignas(16) unsigned char attr[RP_MAX_ATTR];
    rp_op_stream stream;
    const char *path;
    int at;                         /* its place on the tape */
    bool read_on;                   /* a call reads what it made and passes a gradient on to it */
    bool changed;                   /* it read what had been written since it was made: running it again would not read the same */
    bool may, runs;                 /* it could be run again alone, as things stand · it is in the run under way */
    uint64_t walk;                  /* that visited it last */
    tape_input in[RP_MAX_IN];
} tape_call;

struct rp_tape {
    rp_ctx *ctx;
    uint64_t id;                    /* of the record; a reset takes a new one */
    rp_fates fates;                 /* who keeps what until when; call[].alone: see recompute.c */
    tape_value *value;              /* as many as fates.value */
    tape_call **call;               /* as many as fates.call */
    int room_value, room_call;
    int open;                       /* innermost open region */
    int n_off;                      /* as in a region, outside all */
    int alone;                      /* the call that is run again alone; NONE */
    int passed;                     /* calls from it on have been passed by the backward that runs; NONE: none does */
    bool deferred;                  /* outermost regions are planned later, when it is known which of them are one */
    bool no_grad, wide_grads, carries;
    bool records_frozen;            /* calls without a backward, too */
    rp_scope root;
    rp_decider decider;
    rp_planner planner;
    int n_planned, n_ignored;       /* regions of the planner so far · begins of others' that opened nothing */
    rp_tape_verify verify;
    int n_outermost, last_outermost;   /* regions so far in this record, and in the one before: for `step` */
    rp_grad_hook hook;
    rp_replay_hook replay_hook, backward_hook;
    void *hook_user, *replay_user, *backward_user;
    rp_tape_stats stats;
    rp_tape_work now;
    uint64_t works, walks;          /* numbers them */
};

/* The context's tape, made at first use; NULL after RP_ERR_MEMORY. */
rp_tape *rp__tape(rp_ctx *ctx);
static inline rp_tape *rp__tape_opened(const rp_ctx *ctx) { return rp__tape_ctx(ctx)->tape; }       /* NULL: it was not used yet */
uint64_t rp__tape_next_id(void);        /* never the same twice, in any tape */

/* From here on memory is this call's; what it was before, for `now` to be set back to. */
rp_tape_work rp__tape_work(rp_tape *tape, rp_tape_phase phase, const tape_call *call, int at);

/* ---- fates ---- */

/* The module that runs, or the top, which has an empty path. */
rp_scope *rp__tape_scope(rp_tape *tape);
/* The path of a call that is recorded now: the module's, or else the open region's. */
const char *rp__tape_path(rp_tape *tape);
/* Sets the verdicts of the outputs and by-products of the call that comes next, from policies and plan. *single: it gets a region of its own.
 * errors RP_ERR_CONFIG policies disagree · RP_ERR_STATE not the planned call, or no place to offload to · RP_ERR_ARG · RP_ERR_MEMORY */
rp_status rp__tape_decide(rp_tape *tape, const rp_op_meta *m, rp_verdict *verdict, bool *single);

/* ---- regions ---- */

/* Regions of the planner that end before the call that comes next, and those that begin with it. */
rp_status rp__regions_planned_here(rp_tape *tape);
rp_status rp__regions_planned_end(rp_tape *tape);

/* Of the innermost open region, or of the top. */
static inline int *rp__tape_n_off(rp_tape *tape) { return tape->open == NONE ? &tape->n_off : &tape->fates.region[tape->open].n_off; }

/* After the forward of an outermost region: find the replays of it and of all regions from it on, which are those in it and, in a
 * sequence, those behind it; drop what nobody needs. A failure leaves everything as it was. */
rp_status rp__region_plan(rp_tape *tape, int first);

/* Run call `at` as it was recorded; made[] takes its outputs, then its slots, yours to unref. errors those of a call · RP_ERR_REPLAY */
rp_status rp__call_replay(rp_tape *tape, int at, rp_tensor **made);
extern const rp_fate_acts rp__tape_acts;

/* Forget calls, values and regions from these on. */
void rp__tape_truncate(rp_tape *tape, int n_call, int n_value, int n_region);

/* ---- values ---- */

static inline rp_fate_value *rp__fate(const rp_tape *tape, int value) { return &tape->fates.value[value]; }
static inline int rp__number(const rp_tape *tape, const tape_value *v) { return (int)(v - tape->value); }
/* Its outputs, then its slots. */
static inline const int *rp__call_makes(const rp_tape *tape, const tape_call *c) { return rp__fate_makes(&tape->fates, &tape->fates.call[c->at]); }
static inline bool rp__is_leaf(const rp_tape *tape, const tape_value *v) { return rp__fate(tape, rp__number(tape, v))->call == NONE; }

/* Is it a value of this record? What an earlier one, or a part that was taken back, left in the tensor does not count. */
static inline bool rp__tensor_on_tape(const rp_tape *tape, const rp_tensor *w)
{
    return w->tape_id && w->value < tape->fates.n_value && tape->value[w->value].serial == w->tape_id;
}

/* The tensor a call reads: a new reference. errors RP_ERR_MUTATED it was written since · RP_ERR_MEMORY */
rp_status rp__input_open(rp_tape *tape, const tape_call *call, int in, rp_tensor **out);
void rp__input_close(rp_tape *tape, const tape_call *call, int in, rp_tensor *opened);      /* NULL is fine */

/* The tape takes a share of it, unless it has one, or an offloaded copy. */
void rp__value_hold(rp_tape *tape, int value, rp_tensor *t);
/* The same of what a replay makes: `how` is not RP_FATES_LEAVE. */
void rp__value_take(rp_tape *tape, int value, rp_tensor *t, rp_fate_take how);
/* Nobody will ask for it again. */
void rp__value_forget(rp_tape *tape, int value);
/* After a backward of a record that is kept: it is as the forward left it. */
void rp__value_undo(rp_tape *tape, int value);
rp_status rp__value_check(rp_tape *tape, const tape_value *v, const tape_call *reader);
/* "layers.0.mlp.up: matmul output 0" into out; returns out. */
enum { VALUE_CHARS = 256 };
const char *rp__value_name(const rp_tape *tape, const tape_value *v, char *out);

/* It was read or made by the work that is done now. */
static inline void rp__value_touch(const rp_tape *tape, tape_value *v) { v->touched = tape->works; }

/* Builds for tests check what must always hold. */
#if defined NDEBUG && !defined RP_POISON
enum { TAPE_CHECKED = false };
#else
enum { TAPE_CHECKED = true };
#endif
/* In such builds: the values that call `at` makes, reads and needs are in a state of the table in fates/fates.h, and their tensors are there when
 * the record says so. NONE: all values. */
void rp__tape_check(const rp_tape *tape, int at);

/* ---- pressure ---- */

/* For rp__mem_on_pressure, with the tape as `user`: drops what is made again at the least cost. */
bool rp__tape_relieve(void *user, int64_t bytes, int64_t *droppable);

/* A machine computes some tens of operations while it moves a byte. What matters is that products count by their FLOPs, the rest by its
 * bytes. */
enum { FLOPS_A_BYTE = 16 };
/* Set `may` of every call. */
void rp__recompute_check(rp_tape *tape);
/* FLOPs, and bytes in their worth of FLOPs, to make again what call `at` made, once it is gone. */
double rp__recompute_cost(rp_tape *tape, int at);
/* From here on call `at`, which may, can run again alone. */
void rp__recompute_claim(rp_tape *tape, int at);
/* Backward has passed the call: what it would have read may go. */
void rp__recompute_passed(rp_tape *tape, const tape_call *c);
/* Make a value that is gone, of a call that can run again alone. errors those of a replay and of a fetch */
rp_status rp__recompute_make(rp_tape *tape, int value);
/* Is it in the run of calls alone, or the replay, that is under way? */
bool rp__recompute_runs(const rp_tape *tape, int at);

/* ---- verify ---- */

/* Are replays of what is recorded now to be compared? */
bool rp__verify_wanted(const rp_tape *tape);
/* The fingerprint of a tensor; *out NULL where there is no data. errors RP_ERR_MEMORY */
rp_status rp__print_take(rp_ctx *ctx, const rp_tensor *t, tape_print **out);
/* What a replay of call `at` made against the first pass. errors RP_ERR_REPLAY */
rp_status rp__print_check(rp_tape *tape, int at, const tape_value *v, const rp_tensor *t);

/* ---- gradients ---- */

/* Inputs wanting a gradient. */
static inline bool rp__input_wants(const rp_tape *tape, const tape_call *c, int i)
{
    return c->meta.in_grad[i] && tape->value[c->in[i].value].wanted;
}

/* Where the value's gradient is. */
rp_tensor **rp__grad_place(const rp_tape *tape, tape_value *v);
/* The value's own gradient tensor: made when there is none, copied when somebody else owns it, too. *fresh: contents undefined. */
rp_status rp__grad_own(rp_tape *tape, tape_value *v, bool *fresh);
/* What earlier passes have carried on is there again, and its gradient is the value's. */
void rp__grad_resume(rp_tape *tape, tape_value *v);
/* Is the call's backward left to a later pass? Then its gradient is carried on to there. */
bool rp__grad_carries(const rp_tape *tape, const tape_call *c);
void rp__grad_carry(rp_tape *tape, const tape_call *c);
/* Run the backward of a call whose needs are held. */
rp_status rp__call_backward(rp_tape *tape, const tape_call *c);

#endif
