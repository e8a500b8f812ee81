/* tape/inside.h -- the tape's own structures; nobody outside tape/ and its tests includes this. */
#ifndef RP_TAPE_INSIDE_H
#define RP_TAPE_INSIDE_H

#include "tape/tape.h"

enum { NONE = -1 };

typedef struct {                    /* a tensor that calls make or read */
    int producer, region;           /* call that makes it and that call's region; NONE for a leaf */
    int output;                     /* index among the producer's outputs, then its slots */
    rp_meta m;
    rp_tensor *held;                /* the tape's share; NULL: gone, not made again yet, or a constant nobody reads later */
    rp_tensor *grad;                /* of what is not a leaf */
    uint64_t version;               /* of the storage, when the value came to be */
    int uses;                       /* backward reads and region replays still to come */
    int readers;                    /* of a leaf: calls whose backward or replay may still read it or add to its gradient */
    int pending;                    /* reads still to come in the replay that is running */
    uint64_t bound_at;              /* the planning that last listed it as a bound */
    bool wants_grad, needed;        /* needed: the replay that is being planned must make it */
    bool promised;                  /* no replay makes it: held from the forward until its last use */
    bool uses_replay;               /* held for later calls of the running replay alone */
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
    int region;
    tape_input in[RP_MAX_IN];
    int out[RP_MAX_OUT], slot[RP_MAX_SLOT];
} tape_call;

typedef struct {
    const char *path;
    int parent, first, end;         /* calls [first, end) */
    int *run, n_run;                /* calls a replay runs at most, in order; owns the memory of the three lists */
    int *makes, n_makes;            /* values a replay leaves held, where something still needs them */
    int *bounds, n_bounds;          /* values from outside that it reads */
    bool replayed;
} tape_region;

struct rp_tape {
    rp_ctx *ctx;
    uint64_t id;                    /* tensors remember it; a reset takes a new one */
    tape_value *value;
    tape_call **call;
    tape_region *region;
    int n_value, n_call, n_region, room_value, room_call, room_region;
    int open;                       /* innermost open region */
    uint64_t plannings;             /* numbers them, for tape_value.bound_at */
    bool no_grad, wide_grads;
    rp_scope root;
    rp_decider decider;
    rp_grad_hook hook;
    void *hook_user;
    rp_tape_stats stats;
};

/* The context's tape, made at first use; NULL after RP_ERR_MEMORY. */
rp_tape *rp__tape(rp_ctx *ctx);

/* Is the region, or NONE for the top, `outer` or inside it? */
bool rp__region_within(const rp_tape *tape, int region, int outer);

/* After the forward of an outermost region: plan the replays of it and of all regions in it; drop what nobody needs. A failure
 * leaves everything as it was. */
rp_status rp__region_plan(rp_tape *tape, int outermost);

/* Make what backward needs of `region` available. Its parents have been replayed. */
rp_status rp__region_replay(rp_tape *tape, int region);

/* Let the region's bounds go. */
void rp__region_finish(rp_tape *tape, int region);

/* The tensor a call reads: a new reference. errors RP_ERR_MUTATED it was written since · RP_ERR_MEMORY */
rp_status rp__input_open(rp_tape *tape, const tape_call *call, int in, rp_tensor **out);

void rp__value_hold(tape_value *v, rp_tensor *t);
void rp__value_drop(tape_value *v);
void rp__value_used(tape_value *v);                    /* one use less; drops at none */
rp_status rp__value_check(rp_tape *tape, const tape_value *v, const tape_call *reader);

/* Walk the values that the backward of `call` reads. */
int rp__call_needs(const tape_call *call, int *values);

/* Inputs wanting a gradient. */
static inline bool rp__input_wants(const rp_tape *tape, const tape_call *c, int i)
{
    return c->meta.in_grad[i] && tape->value[c->in[i].value].wants_grad;
}

#endif
