/* rehearse/time.c -- adds up the seconds of a rehearsed step, call by call as it runs, by the machine's cost table. */
#include <math.h>

#include "comm/comm.h"
#include "cost/cost.h"
#include "cost/keep.h"
#include "ops/reduce_async.h"
#include "rehearse/engine.h"
#include "tape/tape.h"

/* In forward, a whole gathered from a part (two inputs) waits for that part, which is gathered just before. With updates in backward, each
 * update waits for its sum. */
static rp_overlap_event talk_of(const rp_engine *e, const rp_op_meta *call, rp_pass pass, bool recompute, double seconds)
{
    rp_overlap_event t = { RP_OVERLAP_TALK, recompute, seconds, rp__mem_rounded(e->ctx, rp_meta_bytes(&call->out[0])) };

    if (!(call->op->flags & RP_OP_COLLECTIVE)) return t;
    if (pass == RP_FORWARD && (recompute || call->n_in == 1)) t.kind = RP_OVERLAP_GATHER;
    if (pass == RP_BACKWARD && !e->variant.in_backward) t.kind = RP_OVERLAP_SUM;
    if (pass == RP_BACKWARD) {
        int64_t size = e->recipe->grad_dtype == RP_GRAD_FP32 ? (int64_t)sizeof(float) : rp_dtype_bytes(call->out[0].dtype);
        t.bytes      = rp__reduce_async_room(e->ctx, rp__shards(e->ctx), rp_meta_elems(&call->out[0]), size);
    }
    return t;
}

/* A call that communicates but is not a collective op, such as the head by blocks, computes one block while others are being sent. */
static void note_call(const rp_engine *e, const rp_op_meta *call, rp_pass pass, bool recompute, double seconds, double comm)
{
    bool collective = call->op->flags & RP_OP_COLLECTIVE;
    double computed = seconds - comm - (collective ? 0 : fmin(seconds - comm, comm));

    if (computed > 0) rp__overlap_note(e->time->overlap, (rp_overlap_event){ RP_OVERLAP_COMPUTE, recompute, computed, 0 });
    if (comm > 0) rp__overlap_note(e->time->overlap, talk_of(e, call, pass, recompute, comm));
}

/* Adds up the seconds of a call, and notes it for the overlap. */
static void count_call(rp_engine *e, int at, rp_pass pass, bool recompute)
{
    rp_step_time *t        = e->time;
    const rp_op_meta *call = rp__tape_call_at(e->ctx, at).meta;
    double comm            = rp__cost_comm_seconds(t->costs, call, pass);
    double seconds         = recompute ? rp__keep_replay(t->costs, call, t->keep[at]) : rp__cost_seconds(t->costs, call, pass);

    *(recompute ? &t->recompute_seconds : &t->seconds) += seconds;
    if (pass == RP_FORWARD && !recompute) t->forward_seconds += seconds;
    t->comm_seconds += comm;
    if (recompute) t->comm_recompute_seconds += comm;
    t->comm_bytes += rp__cost_comm_bytes(call, pass);
    if (t->overlap) note_call(e, call, pass, recompute, seconds, comm);
}

/* Adds the seconds of keeping values in the recorded pass. Replays count only their remaining time. */
static rp_status count_keeping(rp_engine *e)
{
    rp_step_time *t = e->time;
    int n           = rp__tape_n_calls(e->ctx);
    double seconds  = 0;

    rp__release(t->keep);
    t->keep = rp__host_alloc(e->ctx, (n + 1) * (int64_t)sizeof *t->keep);
    if (!t->keep) return RP_ERR_MEMORY;
    RP_TRY(rp__keep_seconds(e->ctx, t->costs, t->keep));
    for (int at = 0; at < n; at++) seconds += t->keep[at];
    t->seconds += seconds;
    if (t->overlap && seconds > 0) rp__overlap_note(t->overlap, (rp_overlap_event){ RP_OVERLAP_COMPUTE, false, seconds, 0 });
    return RP_OK;
}

rp_status rp__time_forward(rp_engine *e)
{
    if (e->time->overlap) rp__overlap_note(e->time->overlap, (rp_overlap_event){ .kind = RP_OVERLAP_PASS });
    for (int at = 0; at < rp__tape_n_calls(e->ctx); at++) count_call(e, at, RP_FORWARD, false);
    return count_keeping(e);
}

static void count_backward(void *user, int at, const char *path, const char *op)
{
    (void)path, (void)op;
    count_call(user, at, RP_BACKWARD, false);
}

static void count_replay(void *user, int at, const char *path, const char *op)
{
    (void)path, (void)op;
    count_call(user, at, RP_FORWARD, true);
}

void rp__time_begin(rp_engine *e)
{
    rp__tape_ctx(e->ctx)->on_replay   = (rp_call_hook){ count_replay, e };
    rp__tape_ctx(e->ctx)->on_backward = (rp_call_hook){ count_backward, e };
}

void rp__time_end(rp_engine *e)
{
    rp__tape_ctx(e->ctx)->on_replay = rp__tape_ctx(e->ctx)->on_backward = (rp_call_hook){ 0 };
}

static int64_t trained_bytes(const rp_engine *e)
{
    int64_t bytes = 0;

    for (int i = 0; i < rp__model_n_params(e->model); i++) {
        const rp_tensor *t = rp__model_param(e->model, i)->tensor;
        bytes += t->requires_grad ? rp_meta_bytes(&t->m) : 0;
    }
    return bytes;
}

/* The update reads and writes weights and states and reads gradients. States in 8 bits have their own price. Clipping reads gradients once more for
 * the norm. States on disk are read and written meanwhile, one after the other. */
void rp__time_update(rp_engine *e)
{
    rp_step_time *t = e->time;
    rp_dtype dtype  = e->recipe->dtype == RP_TRAIN_BF16 ? RP_BF16 : RP_F32;
    int64_t offload    = rp__optim_offload_bytes(e->optim);
    double disk     = rp__cost_offload_bandwidth(t->costs, false);
    rp_mem now;

    rp_mem_read(e->ctx, 0, false, &now);
    int64_t states   = offload ? offload : now.live_at[RP_MEM_OPTIM];
    int64_t coded    = rp__optim_coded_bytes(e->optim);
    double move      = rp__cost_move(t->costs, dtype, (3 + e->recipe->clip_grad_norm.set) * trained_bytes(e) + 2 * (states - coded)) +
                       rp__cost_move(t->costs, RP_U8, 2 * coded);
    t->state_bytes   = offload;
    t->state_seconds = fmax(2 * (double)offload / disk - move, 0);
    t->update_seconds = move + t->state_seconds;
    t->seconds += t->update_seconds;
    if (!t->overlap) return;
    rp__overlap_note(t->overlap, (rp_overlap_event){ .kind = RP_OVERLAP_PASS });        /* the update waits for all sums */
    rp__overlap_note(t->overlap, (rp_overlap_event){ RP_OVERLAP_COMPUTE, false, t->update_seconds, 0 });
}
