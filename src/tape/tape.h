/* tape/tape.h -- calls as recorded, the values they read and make, and the regions they are replayed in.
 *
 *   call      0        1        2        3        4        5         one entry an op, in the order of the forward
 *   region    .      [ 0      [ 1       1 ]      0 ]       .         a stretch of calls; regions nest
 *   values    leaf -> out, slots -> ...                               what a backward reads is a promise: it is held from the
 *                                                                     forward, or made again by replaying its region
 *
 * A value inside a region is dropped as soon as the forward lets go of it. When backward comes to the region, the calls that
 * something still needed depends on run again, as recorded: same op, attributes, mode, random stream. What they read from outside
 * is found once, when the region closes. Values are let go at their last use, in the replay and in the backward. A held value is
 * the forward's own storage, never a copy. A constant (no leaf that wants a gradient, and not on the tape) is a value like others.
 *
 * Where the context has a memory limit and no plan is followed, a take that would go past it has held values dropped that can be made
 * again (tape/pressure.c). What is dropped depends on the record and on addresses alone, so a rehearsal under the limit drops the same.
 */
#ifndef RP_TAPE_H
#define RP_TAPE_H

#include "ops/call.h"
#include "tape/decide.h"
#include "tensor/tensor.h"

typedef struct rp_tape rp_tape;

/* What tape/ keeps in a context. */
typedef struct {
    rp_tape *tape;                  /* made at first use */
    struct rp_offload *offload;           /* where offloaded slots go (offload.h); NULL: nowhere */
    rp_scope *scope;                /* the module that runs; NULL outside modules. nn/ sets it */
    bool eval;                      /* calls run in evaluation mode: dropout rests */
    int pass;                       /* counts rp_pass_begin: per-pass call counters compare against it */
    rp_verify verify;               /* overrules what recipes and others say about comparing replays */
} rp_tape_ctx;
static inline rp_tape_ctx *rp__tape_ctx(const rp_ctx *ctx) { return ctx->part[RP_PART_TAPE]; }

/* The context has its tape from here on: what sets it up cannot fail any more. errors RP_ERR_MEMORY */
rp_status rp__tape_open(rp_ctx *ctx);

/* A pass begins: random calls draw for this optimizer step, row 0 of the batch being sample `sample_base` of the global step,
 * and count their calls anew. */
static inline void rp__pass_begin(rp_ctx *ctx, int64_t step, int64_t sample_base)
{
    ctx->step        = step;
    ctx->sample_base = sample_base;
    rp__tape_ctx(ctx)->pass++;
}

/* Run an op and, where a gradient may be wanted, record it. out[] takes op->n_out (or the shape's) new references, yours to unref.
 * A failure leaves the tape as it was. */
rp_status rp__apply(rp_ctx *ctx, const rp_op *op, const void *attr, rp_tensor *const *in, int n_in, rp_tensor **out);

/* Calls between begin and end form a region under `path` (borrowed until the tape is reset). An end that fails leaves it open. Gradients
 * are on or off at both; a begin without them opens nothing. */
rp_status rp__region_begin(rp_ctx *ctx, const char *path);
rp_status rp__region_end(rp_ctx *ctx);

/* A place in the record to go back to: what was recorded since is forgotten, regions opened since with it. */
typedef struct { uint64_t id; int n_call, n_value, n_region, open, n_off, n_ignored; } rp_tape_mark;
rp_tape_mark rp__tape_mark(const rp_ctx *ctx);
void rp__tape_rewind(rp_ctx *ctx, rp_tape_mark mark);

/* While deferred, regions are ended without a plan. Then those of one group, one behind the other, become one region, and all are
 * planned: region[i] is of group[i], both ascending. Bytes: what backward reads of what is made in the region. */
bool rp__regions_defer(rp_ctx *ctx, bool defer);        /* what it was before */
int rp__region_count(const rp_ctx *ctx);
int64_t rp__region_bytes(const rp_ctx *ctx, int region);
rp_status rp__regions_join(rp_ctx *ctx, const int *region, const int *group, int n);

/* Called once in a backward as soon as the gradient of a leaf is complete and nothing still to run reads the leaf; an optimizer
 * may update the leaf and drop the gradient there. */
typedef rp_status (*rp_grad_hook)(void *user, rp_tensor *leaf);
void rp__tape_on_grad(rp_ctx *ctx, rp_grad_hook hook, void *user);

/* Called after each call that a replay ran; `at` is its place on the tape. */
typedef void (*rp_replay_hook)(void *user, int at, const char *path, const char *op);
void rp__tape_on_replay(rp_ctx *ctx, rp_replay_hook hook, void *user);
/* The same for backwards: each, before it runs; not one that is left to a later pass. */
void rp__tape_on_backward(rp_ctx *ctx, rp_replay_hook hook, void *user);

/* Gradients of bf16 parameters are kept in fp32. */
void rp__tape_wide_grads(rp_ctx *ctx, bool wide);
/* Passes that are recorded from here on leave the sums over ranks of gradients (RP_OP_SUMS) to the first one after `carries` was set back. Until
 * then each leaf holds the gradient of its whole. */
void rp__tape_carries(rp_ctx *ctx, bool carries);

/* While on, a call that reads nothing that wants a gradient is recorded as well, unless gradients are off: it has no backward, but what it
 * makes, such as the first block's projections by frozen weights, or frozen weights that ranks have put together, can be made again for whoever
 * reads it. Else that is a constant, held from the forward. */
void rp__tape_record_frozen(rp_ctx *ctx, bool on);
/* Is this call, now, recorded? */
bool rp__tape_records(const rp_ctx *ctx, const rp_op_meta *call);

/* Compare what replays make with the first pass: never, one outermost region a step in turn, always. rp_set_verify overrules it. */
typedef enum { RP_TAPE_VERIFY_NEVER, RP_TAPE_VERIFY_STEP, RP_TAPE_VERIFY_ALWAYS } rp_tape_verify;
void rp__tape_verify(rp_ctx *ctx, rp_tape_verify verify);

/* Run the backward of everything recorded, from a scalar, then reset the tape, unless options or an open region keep it. Gradients of
 * leaves are added to leaf->grad (class grad). errors RP_ERR_MUTATED · RP_ERR_MEMORY · RP_ERR_REPLAY · RP_ERR_IO · RP_ERR_ARG the loss is
 * no scalar on the tape. After an error the gradients of leaves are incomplete, to be dropped; the tape is reset where no region is open. */
rp_status rp__backward_with(rp_ctx *ctx, rp_tensor *loss, const rp_backward_options *options);
static inline rp_status rp__backward(rp_ctx *ctx, rp_tensor *loss) { return rp__backward_with(ctx, loss, NULL); }

/* Forget everything recorded. */
void rp__tape_reset(rp_ctx *ctx);

/* Between true and false nothing is recorded and no slot is made. */
rp_status rp__tape_no_grad(rp_ctx *ctx, bool no_grad);

typedef struct {
    int64_t step_flops, recompute_flops;      /* forward and backward without replays · replays */
    int64_t n_calls, n_replayed, offloaded_bytes;
    int64_t n_evicted, evicted_bytes;         /* values dropped for the memory limit; recompute_flops has what they cost */
    int64_t moved_bytes;                      /* for it, too: to make one hole of several */
} rp_tape_stats;

/* Is a replay running? The path of the innermost region that is recorded or replayed; NULL: none. */
bool rp__tape_replaying(const rp_ctx *ctx);
const char *rp__tape_region(const rp_ctx *ctx);

/* Whose memory is taken and given at the moment: the call that runs, or the one whose backward does, with what is made ready for it. */
typedef enum { RP_TAPE_OTHER, RP_TAPE_FORWARD, RP_TAPE_REPLAY, RP_TAPE_BACKWARD } rp_tape_phase;
typedef struct {
    rp_tape_phase phase;                      /* RP_TAPE_OTHER: no op's; then the rest is empty */
    const char *path;
    const rp_op_meta *call;
    int at;                                   /* its place on the tape; of a forward, the one it gets where it is recorded */
    uint64_t serial;                          /* of this running of the call alone */
    bool fetch;                               /* an offloaded value comes back */
} rp_tape_work;
rp_tape_work rp__tape_now(const rp_ctx *ctx);

/* The record as it stands: calls in the order of the forward, values by number. */
typedef struct {
    const rp_op_meta *meta;
    const char *path;
    bool runs_back;                           /* its backward runs, if it is asked for at all: a gradient comes to it, or nobody reads what it made */
    int in[RP_MAX_IN], made[RP_MAX_OUT + RP_MAX_SLOT];     /* values: meta->n_in, then meta->n_out outputs and meta->n_slot by-products */
    int n_needs, needs[RP_MAX_IN + RP_MAX_OUT + RP_MAX_SLOT];      /* what its backward reads */
} rp_tape_call;
typedef struct {
    rp_meta meta;
    int producer;                             /* call that makes it; -1: a leaf */
    rp_fate fate;
    bool must;                                /* it was not for a plan to choose */
    int64_t offset;                           /* of what the tape alone holds, and of nobody's gradient; else -1 */
    bool held, shared;                        /* the tape holds it · and so does somebody else */
} rp_tape_value;
int rp__tape_n_calls(const rp_ctx *ctx);
int rp__tape_n_values(const rp_ctx *ctx);
rp_tape_call rp__tape_call_at(const rp_ctx *ctx, int at);
rp_tape_value rp__tape_value_at(const rp_ctx *ctx, int value);

/* Counts since the last read. */
void rp__tape_stats(rp_ctx *ctx, rp_tape_stats *out);

/* What a backward from here would read, in the order of the tape: leaves left out. errors RP_ERR_MEMORY */
typedef struct {
    const char *path, *op, *by;               /* by: who decided; NULL: the region it is made in, or nobody */
    const rp_op_meta *call;                   /* that makes it */
    int at, nth;                              /* the call's place on the tape; among the calls of its op and path, from 0 */
    int output;                               /* or by-product, where by_product */
    bool by_product, backward_reads;          /* backward_reads false: replays alone read it */
    bool saved, offload;                         /* held now, or where offloaded values are */
    bool overruled;                           /* to be recomputed, but kept for those who read it outside its region */
    rp_fate fate;                             /* RP_KEEP, RP_RECOMPUTE, RP_OFFLOAD: what becomes of it */
    const char *region;                       /* path of its innermost region; NULL: none */
    rp_meta meta;
} rp_tape_slot;
rp_status rp__tape_slots(rp_ctx *ctx, void (*visit)(void *user, const rp_tape_slot *slot), void *user);

#endif
