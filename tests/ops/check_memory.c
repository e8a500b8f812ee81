/* check_memory.c -- what a cell does with bytes: rehearsal, faults, scratch. */
#include "ops/cell.h"

enum { MAX_EVENTS = 128 };
typedef struct { rp_mem_event event[MAX_EVENTS]; int n; } history;

static void remember(void *user, const rp_mem_event *event)
{
    history *h = user;

    assert_true(h->n < MAX_EVENTS);
    h->event[h->n++] = *event;
}

/* A run on tensors of the pool's own, as the tape makes them. `fault` > 0: that allocation of the op's fails; *fired says whether
 * there were so many. */
typedef struct {
    rp_tensor *in[RP_MAX_IN], *out[RP_MAX_OUT], *slot[RP_MAX_SLOT], *grad_out[RP_MAX_OUT], *grad_in[RP_MAX_IN];
    rp_op_meta m;
} plain_run;

static void make_plain(rp_ctx *ctx, const rp_meta *meta, rp_tensor **t)
{
    assert_ok(ctx, rp_tensor_new(ctx, meta, RP_MEM_TEMP, t));
    rp__tensor_zero(*t);
}

static void plain_inputs(const cell *at, rp_ctx *ctx, plain_run *p)
{
    one_call draw = { .ctx = ctx, .op = at->op, .test = at->test, .where = at->where, .dtype = at->dtype, .round_to = at->dtype };

    call_name(&draw);
    for (int i = 0, n = case_inputs(at->test); i < n; i++) {
        draw.m.in[i] = case_meta(at->test, i, at->dtype);
        make_plain(ctx, &draw.m.in[i], &p->in[i]);
        if (ctx->options.shapes_only) continue;
        double *v = test_room(p->in[i]);
        for (int64_t e = 0; e < rp_meta_elems(&draw.m.in[i]); e++) v[e] = input_value(&draw, i, e);
        test_put(p->in[i], v);
    }
}

static rp_status plain_forward(const cell *at, rp_ctx *ctx, plain_run *p)
{
    bool want[RP_MAX_IN];

    for (int i = 0; i < RP_MAX_IN; i++) want[i] = case_wants(at->op, at->test, i);
    RP_TRY(rp__op_prepare(ctx, at->op, at->test->attr, p->in, case_inputs(at->test), case_trains(at->test, &(request){ 0 }), want, &p->m));
    return rp__op_forward(&p->m, (rp_op_stream){ 0 }, false, p->in, p->out, p->slot);
}

static rp_status plain_backward(const cell *at, rp_ctx *ctx, plain_run *p)
{
    rp_op_call c  = { .meta = &p->m };
    int64_t fault = ctx->fault_countdown;

    if (!p->m.want_grad || !at->op->backward) return RP_OK;
    ctx->fault_countdown = 0;           /* the gradients are the caller's */
    for (int j = 0; j < p->m.n_out; j++) make_plain(ctx, &p->m.out[j], &p->grad_out[j]);
    for (int i = 0; i < p->m.n_in; i++)
        if (p->m.in_grad[i]) make_plain(ctx, &p->m.in[i], &p->grad_in[i]);
    ctx->fault_countdown = fault;
    memcpy(c.in, p->in, sizeof c.in);
    memcpy(c.out, p->out, sizeof c.out);
    memcpy(c.slot, p->slot, sizeof c.slot);
    memcpy(c.grad_out, p->grad_out, sizeof c.grad_out);
    memcpy(c.grad_in, p->grad_in, sizeof c.grad_in);
    return rp__op_backward(&c);
}

static void drop_tensors(rp_tensor **t, int n)
{
    for (int i = 0; i < n; i++) rp_tensor_unref(t[i]);
}

static void plain_free(plain_run *p)
{
    drop_tensors(p->in, RP_MAX_IN);
    drop_tensors(p->out, RP_MAX_OUT);
    drop_tensors(p->slot, RP_MAX_SLOT);
    drop_tensors(p->grad_out, RP_MAX_OUT);
    drop_tensors(p->grad_in, RP_MAX_IN);
}

static void record(const cell *at, const one_call *base, bool shapes_only, history *h)
{
    rp_ctx *ctx = cell_ctx(at->where, shapes_only);
    plain_run p = { .m = { .n_in = 0 } };

    rp__mem_observe(ctx->space[0], remember, h);
    plain_inputs(at, ctx, &p);
    if (plain_forward(at, ctx, &p) != RP_OK || plain_backward(at, ctx, &p) != RP_OK)
        fail_call(base, "%s run: %s", shapes_only ? "shapes-only" : "real", rp_error(ctx));
    plain_free(&p);
    rp__mem_observe(ctx->space[0], NULL, NULL);
    test_ctx_free(ctx);
}

static bool same_event(const rp_mem_event *a, const rp_mem_event *b)
{
    return a->take == b->take && a->mem_class == b->mem_class && a->bytes == b->bytes && a->offset == b->offset;
}

static void check_rehearsal(const cell *at, const one_call *base)
{
    history real = { .n = 0 }, shapes = { .n = 0 };

    record(at, base, false, &real);
    record(at, base, true, &shapes);
    if (real.n != shapes.n) fail_call(base, "%d ledger events in a real run, %d on shapes alone", real.n, shapes.n);
    for (int i = 0; i < real.n; i++)
        if (!same_event(&real.event[i], &shapes.event[i]))
            fail_call(base, "ledger event %d is %" PRId64 " bytes at %" PRId64 ", on shapes alone %" PRId64 " at %" PRId64, i,
                      real.event[i].bytes, real.event[i].offset, shapes.event[i].bytes, shapes.event[i].offset);
}

static int64_t live_bytes(rp_ctx *ctx)
{
    rp_mem mem;

    rp_mem_read(ctx, 0, false, &mem);
    return mem.live_bytes;
}

static void check_all_zero(const one_call *base, rp_tensor *const *t)
{
    for (int i = 0; i < RP_MAX_IN; i++) {
        if (!t[i]) continue;
        double *v = test_values(t[i]);
        for (int64_t e = 0; e < rp_meta_elems(&t[i]->m); e++)
            if (v[e] != 0) fail_call(base, "a failed backward wrote element %" PRId64 " of gradient %d", e, i);
        free(v);
    }
}

/* Fails the k-th allocation; false when there are fewer. */
static bool check_fault(const cell *at, const one_call *base, int k)
{
    plain_run p = { .m = { .n_in = 0 } };

    plain_inputs(at, at->ctx, &p);
    int64_t before = live_bytes(at->ctx);
    at->ctx->fault_countdown = k;
    rp_status status = plain_forward(at, at->ctx, &p);
    bool forward_failed = status != RP_OK;
    for (int j = 0; forward_failed && j < RP_MAX_OUT; j++)
        if (p.out[j]) fail_call(base, "a failed forward left output %d", j);
    if (forward_failed && live_bytes(at->ctx) != before) fail_call(base, "forward leaves bytes behind when allocation %d fails", k);
    if (status == RP_OK) status = plain_backward(at, at->ctx, &p);
    bool fired = at->ctx->fault_countdown == 0;
    at->ctx->fault_countdown = 0;
    if (status != (fired ? RP_ERR_MEMORY : RP_OK))
        fail_call(base, "status %d when allocation %d %s", (int)status, k, fired ? "fails" : "is not made");
    if (fired && !forward_failed) check_all_zero(base, p.grad_in);
    plain_free(&p);
    return fired;
}

static void check_faults(const cell *at, const one_call *base)
{
    int64_t before = live_bytes(at->ctx);
    int k          = 1;

    while (check_fault(at, base, k)) k++;
    if (k == 1) fail_call(base, "no allocation was made to fail");
    if (live_bytes(at->ctx) != before) fail_call(base, "faults leave %" PRId64 " bytes", live_bytes(at->ctx) - before);
}

/* ---- scratch ---- */

typedef struct { int64_t at, bytes; bool met; } scratch_place;

static void see_scratch(void *user, const rp_mem_event *event)
{
    scratch_place *s = user;

    if (event->take && event->offset == s->at && event->bytes == s->bytes) s->met = true;
}

/* Lays 0xff where the pool will put the scratch and past it, runs, and looks past it. An address sanitizer watches the pool
 * itself, and forbids the look. */
static void with_scratch_watched(one_call *c, int64_t bytes, rp_status (*pass)(one_call *))
{
    rp_mem_space *space = c->ctx->space[0];
    scratch_place s     = { .bytes = bytes };
    int64_t room        = rp__align_up(bytes) + 256;

    assert_ok(c->ctx, rp__mem_take(c->ctx, space, RP_MEM_TEMP, room, "a canary", &s.at));
    uint8_t *data = rp__mem_at(space, s.at);
    rp__mem_fill(c->ctx, data, 0xff, room);
    rp__mem_give(space, RP_MEM_TEMP, room, s.at);
    rp__mem_observe(space, see_scratch, &s);
    assert_ok(c->ctx, pass(c));
    rp__mem_observe(space, NULL, NULL);
#ifndef RP_ASAN
    if (!s.met) fail_call(c, "the scratch is not where the canary waits");
    rp__mem_enter(c->ctx);
    const uint8_t *now = rp__mem_inside(c->ctx, data, room);
    for (int64_t i = bytes; i < room; i++)
        if (now[i] != 0xff) fail_call(c, "a write %" PRId64 " bytes past %" PRId64 " bytes of scratch", i - bytes, bytes);
    rp__mem_leave(c->ctx);
#endif
}

static rp_status backward_again(one_call *c)
{
    rp_op_call b = { .meta = &c->m, .stream = c->ask.stream };

    memcpy(b.in, c->in, sizeof b.in);
    memcpy(b.out, c->out, sizeof b.out);
    memcpy(b.slot, c->slot, sizeof b.slot);
    memcpy(b.grad_out, c->grad_out, sizeof b.grad_out);
    memcpy(b.grad_in, c->grad_in, sizeof b.grad_in);
    return rp__op_backward(&b);
}

/* In a context of its own, where the only free memory lies at the end. */
static void check_scratch(const cell *at, const one_call *base)
{
    cell fresh = *at;
    one_call c;

    fresh.ctx = cell_ctx(at->where, false);
    cell_run(&c, &fresh, NULL);
    with_scratch_watched(&c, c.m.scratch_bytes, call_forward_recompute);
    if (c.m.want_grad && at->op->backward) with_scratch_watched(&c, c.m.scratch_backward_bytes, backward_again);
    check_same_outputs(base, &c, "with garbage in scratch");
    check_same_gradients(base, &c, "with garbage in scratch");
    call_free(&c);
    test_ctx_free(fresh.ctx);
}

/* A call in double runs its reference, whichever kernels there are for other calls. */
static void check_scratch_of_reference(const cell *at, const one_call *base)
{
    variant none = *at->where;
    one_call c;

    none.table  = rp__kernels_none();
    rp_ctx *ctx = cell_ctx(&none, false);
    assert_ok(ctx, call_prepare(&c, ctx, at->op, at->test, &none, RP_F64, RP_F64, NULL));
    if (c.m.scratch_bytes != base->m.scratch_bytes || c.m.scratch_backward_bytes != base->m.scratch_backward_bytes)
        fail_call(base, "%" PRId64 " and %" PRId64 " bytes of scratch, without kernels %" PRId64 " and %" PRId64, base->m.scratch_bytes,
                  base->m.scratch_backward_bytes, c.m.scratch_bytes, c.m.scratch_backward_bytes);
    call_free(&c);
    test_ctx_free(ctx);
    rp__kernels_force(at->where->table);
}

void check_memory(const cell *at, const one_call *base)
{
    check_rehearsal(at, base);
    check_faults(at, base);
    check_scratch(at, base);
    if (at->dtype == RP_F64) check_scratch_of_reference(at, base);
}
