/* tape/tape.h -- recorded calls, the values they read and make, and the regions in which they are replayed.
 *
 *   call      0        1        2        3        4        5         one entry for each op, in the order of the forward
 *   region    .      [ 0      [ 1       1 ]      0 ]       .         a stretch of calls; regions nest
 *   values    leaf -> out, slots -> ...                              a value that a backward reads is a promise: it is held from the
 *                                                                    forward, or recomputed by replaying its region
 *
 * A value inside a region is dropped as soon as the forward releases it. When backward reaches the region, the calls on which a needed
 * value depends are rerun as recorded: same op, attributes, mode and random stream. The values they read from outside are found once,
 * when the region closes. Each value is released at its last use, in the replay and in the backward. A held value is the forward's own
 * storage, never a copy. A constant (not on the tape, and no leaf that wants a gradient) is a value like others.
 *
 * Under a memory limit without a plan, an allocation that would exceed the limit first drops held values that can be recomputed
 * (tape/pressure.c). The choice depends only on the record and on addresses, so a rehearsal under the limit drops the same values.
 */
#ifndef RP_TAPE_H
#define RP_TAPE_H

#include "ops/call.h"
#include "tape/decide.h"
#include "tensor/tensor.h"

typedef struct rp_tape rp_tape;

/* Called once in a backward, when the gradient of a leaf is complete and no remaining call reads the leaf. An optimizer may update the leaf
 * and drop the gradient there. */
typedef struct { rp_status (*call)(void *user, rp_tensor *leaf); void *user; } rp_grad_hook;
/* Called with a call's place on the tape. */
typedef struct { void (*call)(void *user, int at, const char *path, const char *op); void *user; } rp_call_hook;

/* Compare the results of replays with the first pass: never, one outermost region per step in turn, or always. */
typedef enum { RP_TAPE_VERIFY_NEVER, RP_TAPE_VERIFY_STEP, RP_TAPE_VERIFY_ALWAYS } rp_tape_verify;

/* The part of a context that belongs to tape/. Callers set its options. */
typedef struct {
    rp_tape *tape;                  /* created at first use */
    struct rp_offload *offload;      /* place of offloaded slots (offload.h); NULL: none */
    rp_scope *scope;                /* the running module; NULL outside modules. nn/ sets it */
    int pass;                       /* number of rp_pass_begin calls; per-pass call counters compare with it */
    bool eval;                      /* calls run in evaluation mode: no dropout */
    bool no_grad;                   /* nothing is recorded and no slot is made */
    bool wide_grads;                /* gradients of bf16 parameters are kept in fp32 */
    bool carries;                   /* recorded passes do not sum gradients over ranks (RP_OP_SUMS). The first pass recorded after it is off again
                                     * does it for all of them. Until then each leaf holds the unsummed gradient of the whole weight */
    bool records_frozen;            /* calls whose inputs want no gradient are recorded too, unless gradients are off. Such a call has no backward,
                                     * but its outputs can be recomputed. Examples: projections of the first block by frozen weights, frozen weights
                                     * gathered from ranks. If false, such an output is a constant that is held from the forward */
    rp_tape_verify verify;
    rp_verify verify_all;           /* rp_set_verify: overrides `verify`, unless RP_VERIFY_DEFER */
    rp_grad_hook on_grad;
    rp_call_hook on_replay;         /* called after each call that a replay ran */
    rp_call_hook on_backward;       /* called before each backward. Backwards that are left to a later pass are not reported */
    rp_decider decider;             /* all 0: none */
    rp_planner planner;             /* rp__tape_plan_by sets it */
    const rp_op *host_op[32];       /* those that the log has named because the device has no kernels for them */
    int n_host_ops;
} rp_tape_ctx;
static inline rp_tape_ctx *rp__tape_ctx(const rp_ctx *ctx) { return ctx->part[RP_PART_TAPE]; }

/* Begin a pass. Random calls use this optimizer step, row 0 of the batch is sample `sample_base` of the global step, and call counters
 * restart at 0. */
static inline void rp__pass_begin(rp_ctx *ctx, int64_t step, int64_t sample_base)
{
    ctx->step        = step;
    ctx->sample_base = sample_base;
    rp__tape_ctx(ctx)->pass++;
}

/* Run an op, and record it if a gradient may be wanted. out[] receives op->n_out (or the shape's number of) new references, which the
 * caller must unref. A failure leaves the tape as it was. Errors: RP_ERR_MEMORY, those of the op's checks, of rp__tape_decide and of
 * offloading. */
rp_status rp__apply(rp_ctx *ctx, const rp_op *op, const void *attr, rp_tensor *const *in, int n_in, rp_tensor **out);

/* Calls between begin and end form a region named `path`, which is borrowed until the tape is reset. A failing end leaves the region open.
 * Gradients must be on at both or off at both; a begin with gradients off opens nothing. Errors: RP_ERR_MEMORY, RP_ERR_STATE, those of
 * offloading. */
rp_status rp__region_begin(rp_ctx *ctx, const char *path);
rp_status rp__region_end(rp_ctx *ctx);

/* A position in the record. Rewinding forgets everything recorded since, including regions opened since. */
typedef struct { uint64_t id; int n_call, n_value, n_region, open, n_off, n_ignored; } rp_tape_mark;
rp_tape_mark rp__tape_mark(const rp_ctx *ctx);
void rp__tape_rewind(rp_ctx *ctx, rp_tape_mark mark);

/* While deferral is on, outermost regions end without a plan. rp__regions_join then makes one region of each group of consecutive regions,
 * and plans all of them: region[i] belongs to group[i], both ascending. Errors: RP_ERR_MEMORY, those of offloading. rp__region_bytes: bytes
 * made in the region that a backward reads. */
bool rp__regions_defer(rp_ctx *ctx, bool defer);        /* returns the previous setting */
int rp__region_count(const rp_ctx *ctx);
int64_t rp__region_bytes(const rp_ctx *ctx, int region);
rp_status rp__regions_join(rp_ctx *ctx, const int *region, const int *group, int n);

/* Would this call be recorded now? */
bool rp__tape_records(const rp_ctx *ctx, const rp_op_meta *call);

/* Run the backward of everything recorded, starting from a scalar. Gradients of leaves are added to leaf->grad (class grad). The tape is
 * then reset, unless the options or an open region keep it. Errors: RP_ERR_MUTATED, RP_ERR_MEMORY, RP_ERR_REPLAY, RP_ERR_IO, RP_ERR_ARG the
 * loss is no scalar on the tape. After an error the gradients of leaves are incomplete and must be dropped. The tape is then reset if no
 * region is open. */
rp_status rp__backward_with(rp_ctx *ctx, rp_tensor *loss, const rp_backward_options *options);
static inline rp_status rp__backward(rp_ctx *ctx, rp_tensor *loss) { return rp__backward_with(ctx, loss, NULL); }

/* Forget everything recorded. */
void rp__tape_reset(rp_ctx *ctx);

typedef struct {
    int64_t step_flops, recompute_flops;      /* forward and backward without replays · replays */
    int64_t n_calls, n_replayed, offloaded_bytes;
    int64_t host_fallback_ops;                /* of n_calls, those that the host computes because the device has no kernels for them */
    int64_t n_evicted, evicted_bytes;         /* values dropped because of the memory limit; recompute_flops includes their cost */
    int64_t moved_bytes;                      /* bytes moved because of the memory limit, to merge several holes into one */
} rp_tape_stats;

/* The call for which memory is taken and given now: the running call, or the call whose backward is prepared or runs. */
typedef enum { RP_TAPE_OTHER, RP_TAPE_FORWARD, RP_TAPE_REPLAY, RP_TAPE_BACKWARD } rp_tape_phase;
typedef struct {
    rp_tape_phase phase;                      /* RP_TAPE_OTHER: no op; the other members are then empty */
    const char *path;
    const rp_op_meta *call;
    int at;                                   /* its place on the tape; in a forward, the place it gets if it is recorded */
    uint64_t serial;                          /* unique to this run of the call */
    bool fetch;                               /* an offloaded value is being fetched */
} rp_tape_work;
rp_tape_work rp__tape_now(const rp_ctx *ctx);

/* The current record: calls in the order of the forward, values by number. */
typedef struct {
    const rp_op_meta *meta;
    const char *path;
    bool runs_back;                           /* its backward runs in a backward from the loss: a gradient reaches it, or no call reads its outputs */
    int in[RP_MAX_IN], made[RP_MAX_OUT + RP_MAX_SLOT];     /* values: meta->n_in, then meta->n_out outputs and meta->n_slot by-products */
    int n_needs, needs[RP_MAX_IN + RP_MAX_OUT + RP_MAX_SLOT];      /* values that its backward reads */
} rp_tape_call;
typedef struct {
    rp_meta meta;
    int producer;                             /* call that makes it; -1: a leaf */
    rp_fate fate;
    bool must;                                /* its fate comes from a must-rule, so no plan may choose it */
    int64_t offset;                           /* of a value that only the tape holds and that collects no gradient; else -1 */
    bool held, shared;                        /* the tape holds it · others hold it too */
} rp_tape_value;
int rp__tape_n_calls(const rp_ctx *ctx);
int rp__tape_n_values(const rp_ctx *ctx);
rp_tape_call rp__tape_call_at(const rp_ctx *ctx, int at);
rp_tape_value rp__tape_value_at(const rp_ctx *ctx, int value);

/* Return the counts since the last call, and reset them. */
void rp__tape_stats(rp_ctx *ctx, rp_tape_stats *out);

/* Visit the values that a backward from here would read, in the order of the tape, without leaves. Errors: RP_ERR_MEMORY. */
typedef struct {
    const char *path, *op, *by;               /* by: the rule or policy that decided; NULL: the region that makes it, or none */
    const rp_op_meta *call;                   /* the call that makes it */
    int at, nth;                              /* the call's place on the tape · its index among the calls of its op and path, from 0 */
    int output;                               /* index among outputs, or among by-products if by_product */
    bool by_product, backward_reads;          /* backward_reads false: only replays read it */
    bool saved, offload;                      /* held or offloaded now · offloaded and not held */
    bool overruled;                           /* its fate is recompute, but it is kept for readers outside its region */
    rp_fate fate;                             /* its actual fate: RP_KEEP, RP_RECOMPUTE or RP_OFFLOAD */
    const char *region;                       /* path of its innermost region; NULL: none */
    rp_meta meta;
} rp_tape_slot;
rp_status rp__tape_slots(rp_ctx *ctx, void (*visit)(void *user, const rp_tape_slot *slot), void *user);

#endif
