/* cost/run.c -- runs one call with data, in several places of memory in turn.
 *
 *   run 0, 3, …        run 1, 4, …        run 2, 5, …
 *   [in][out][grads]   [in][out][grads]   [in][out][grads]
 *
 * In a training step, most of a call's memory was last used one step earlier. A call that runs repeatedly in one place would find all of it
 * in the caches, and could be twice as fast.
 */
#include "cost/internal.h"

#include <string.h>

#include "tensor/tensor.h"

enum { MOST_PLACES = 256 };

typedef struct {
    rp_tensor *in[RP_MAX_IN];
    rp_op_call run;
} place;

struct rp_cost_timed {
    rp_ctx *ctx;
    rp_op_meta m;
    int n, at;                          /* at: place of the next run */
    place place[MOST_PLACES];
};

static void run_fill(const rp_tensor *t, void *at, int32_t high)
{
    int64_t n  = rp_meta_elems(&t->m);
    bool bytes = rp__sliced_bytes(t->m.dtype) == 1;

    for (int64_t i = 0; bytes && i < rp_meta_bytes(&t->m); i++) ((uint8_t *)at)[i] = (uint8_t)(i * 37 % 64);
    for (int64_t i = 0; i < n && !bytes; i++) {
        float v = (float)(i * 37 % 101 + 1) / 101;      /* positive, because variances are among the inputs */
        if (t->m.dtype == RP_F32) ((float *)at)[i] = v;
        else if (t->m.dtype == RP_BF16) ((uint16_t *)at)[i] = rp__bf16_from_f32(v);
        else if (t->m.dtype == RP_F64) ((double *)at)[i] = v;
        else ((int32_t *)at)[i] = (int32_t)(i * 7919 % ((int64_t)high + 1));
    }
}

/* Make a tensor with the values of `like`; NULL: generated values. */
static rp_status make(rp_ctx *ctx, const rp_meta *meta, int32_t high, const rp_tensor *like, rp_tensor **t)
{
    rp_host h;

    RP_TRY(rp__tensor_new_named(ctx, meta, RP_MEM_TEMP, "a call that is measured", t));
    if (like) rp__tensor_copy(*t, like);
    if (like) return RP_OK;
    RP_TRY(rp__tensor_host_all(*t, RP_HOST_WRITE, &h));
    run_fill(*t, h.data, high);
    rp__tensor_host_end(&h);
    return RP_OK;
}

static rp_meta input_meta(const rp_op_case *c, int i, rp_dtype dtype)
{
    int n = 0;

    while (n < RP_MAX_DIM && c->in[i][n]) n++;
    if (c->int_inputs >> i & 1) dtype = RP_I32;
    else if (c->stat_inputs >> i & 1) dtype = dtype == RP_F64 ? RP_F64 : RP_F32;
    return rp_meta_make(dtype, n, c->in[i]);
}

/* Make the inputs of the first place, and prepare the op with them. */
static rp_status prepare(rp_cost_timed *t, const rp_op *op, const rp_op_case *c, rp_dtype dtype, uint32_t frozen)
{
    place *p             = &t->place[0];
    bool want[RP_MAX_IN] = { false };
    int n                = 0;

    for (; n < RP_MAX_IN && c->in[n][0]; n++) {
        rp_meta meta = input_meta(c, n, dtype);
        RP_TRY(make(t->ctx, &meta, c->int_high[n], NULL, &p->in[n]));
        want[n] = rp_meta_is_float(&meta) && !(frozen >> n & 1);
    }
    return rp__op_prepare(t->ctx, op, c->attr, p->in, n, true, want, &t->m);
}

/* Make the missing tensors of a place, with equal contents in all places. */
static rp_status complete(rp_cost_timed *t, place *p)
{
    const place *first = p == t->place ? NULL : t->place;
    rp_op_call *run    = &p->run;

    run->meta = &t->m;
    for (int i = 0; first && i < t->m.n_in; i++) RP_TRY(make(t->ctx, &t->m.in[i], 0, first->in[i], &p->in[i]));
    for (int i = 0; i < t->m.n_out; i++) {
        RP_TRY(make(t->ctx, &t->m.out[i], 0, first ? first->run.out[i] : NULL, &run->out[i]));
        RP_TRY(make(t->ctx, &t->m.out[i], 0, first ? first->run.grad_out[i] : NULL, &run->grad_out[i]));
    }
    for (int i = 0; i < t->m.n_slot; i++) RP_TRY(make(t->ctx, &t->m.slot[i], 0, first ? first->run.slot[i] : NULL, &run->slot[i]));
    for (int i = 0; i < t->m.n_in; i++)
        if (t->m.in_grad[i]) RP_TRY(make(t->ctx, &t->m.in[i], 0, first ? first->run.grad_in[i] : NULL, &run->grad_in[i]));
    return RP_OK;
}

static int places_in(const rp_op_meta *m, int64_t spread)
{
    int64_t bytes = 1;

    for (int i = 0; i < m->n_in; i++) bytes += rp_meta_bytes(&m->in[i]) * (1 + m->in_grad[i]);
    for (int i = 0; i < m->n_out; i++) bytes += 2 * rp_meta_bytes(&m->out[i]);
    for (int i = 0; i < m->n_slot; i++) bytes += rp_meta_bytes(&m->slot[i]);
    return spread / bytes < MOST_PLACES ? 1 + (int)(spread / bytes) : MOST_PLACES;
}

static void run_drop(rp_tensor **t, int n)
{
    for (int i = 0; i < n; i++) rp_tensor_unref(t[i]);
}

void rp__cost_timed_free(rp_cost_timed *t)
{
    for (int i = 0; t && i < MOST_PLACES; i++) {
        rp_op_call *run = &t->place[i].run;
        run_drop(t->place[i].in, RP_MAX_IN);
        run_drop(run->out, RP_MAX_OUT);
        run_drop(run->grad_out, RP_MAX_OUT);
        run_drop(run->slot, RP_MAX_SLOT);
        run_drop(run->grad_in, RP_MAX_IN);
    }
    rp__release(t);
}

rp_status rp__cost_timed_new(rp_ctx *ctx, const rp_op *op, const rp_op_case *c, rp_dtype dtype, uint32_t frozen, int64_t spread,
                             rp_cost_timed **out)
{
    rp_cost_timed *t = rp__host_alloc(ctx, (int64_t)sizeof *t);

    if (!t) return RP_ERR_MEMORY;
    t->ctx           = ctx;
    rp_status status = prepare(t, op, c, dtype, frozen);
    if (status == RP_OK) t->n = places_in(&t->m, spread);
    for (int i = 0; i < t->n && status == RP_OK; i++) status = complete(t, &t->place[i]);
    if (status == RP_OK) *out = t;
    else rp__cost_timed_free(t);
    return status;
}

const rp_op_meta *rp__cost_timed_meta(const rp_cost_timed *t) { return &t->m; }

static rp_status backward(const rp_op_meta *m, const place *p)
{
    rp_op_call run = p->run;

    for (int i = 0; i < m->n_in; i++) run.in[i] = m->needs & RP_IN(i) ? p->in[i] : NULL;
    for (int i = 0; i < m->n_out; i++)
        if (!(m->needs & RP_OUT(i))) run.out[i] = NULL;
    return rp__op_backward(&run);
}

rp_status rp__cost_timed_run(rp_cost_timed *t, rp_pass pass)
{
    place *p = &t->place[t->at];

    t->at = (t->at + 1) % t->n;
    if (pass == RP_BACKWARD) return backward(&t->m, p);
    return rp__op_forward(&t->m, (rp_op_stream){ 0 }, false, p->in, p->run.out, p->run.slot);
}
