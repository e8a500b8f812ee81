/* ops/call.c -- the registry of ops, and the code that runs one.
 *
 * An op is never called if it has nothing to write. A forward whose outputs and slots are all empty does not run, and backward gets no gradient
 * without elements. If all outputs are empty, the gradients of the inputs are zero. An op may still get empty inputs with non-empty outputs.
 */
#include "base/watch.h"
#include "ops/declared.h"
#include "ops/op_internal.h"
#include "ops/prefetch.h"

static const rp_op *const registry[] = {
#define RP_OP(name) &rp_op_##name,
#include "ops/ops.def"
#undef RP_OP
};

int rp__op_count(void) { return RP_COUNT(registry); }
const rp_op *rp__op_at(int i) { return registry[i]; }

const rp_op *rp__op_find(const char *name)
{
    for (int i = 0; i < RP_COUNT(registry); i++)
        if (!strcmp(registry[i]->name, name)) return registry[i];
    return NULL;
}

static bool has_dense_rows(const rp_tensor *t)
{
    int last = t->m.ndim - 1;

    return last < 0 || t->m.dim[last] == 1 || t->stride[last] == 1;
}

/* A gradient is dense if and only if its tensor is, so the inputs decide for the whole call, backward included. */
static void find_speed(rp_op_meta *m, rp_tensor *const *in)
{
    m->dense = m->dense_rows = true;
    m->fast  = rp__kernels(m->ctx) != rp__kernels_none();
    for (int i = 0; i < m->n_in; i++) {
        m->dense      = m->dense && rp_tensor_is_dense(in[i]);
        m->dense_rows = m->dense_rows && has_dense_rows(in[i]);
        m->fast       = m->fast && m->in[i].dtype != RP_F64;
    }
}

/* An op that passes its output's gradient on, and has no backward, gives no gradient to inputs of another shape. */
static bool gradient_flows(const rp_op_meta *m, int i)
{
    const rp_op *op = m->op;

    if (op->no_grad_in >> i & 1) return false;
    return op->backward || rp__op_passes(m, i);
}

static void drop_dead_gradients(rp_op_meta *m)
{
    m->want_grad = false;
    for (int i = 0; i < m->n_in; i++) {
        m->in_grad[i] = m->in_grad[i] && gradient_flows(m, i);
        m->want_grad |= m->in_grad[i];
    }
}

/* Marks outputs that `shape` has not declared yet; a zeroed meta would be a scalar. */
static void undeclare(rp_meta *metas, int n)
{
    for (int i = 0; i < n; i++) metas[i] = (rp_meta){ .dtype = RP_DTYPES };
}

/* The shape of a user's op may fail without recording a message. */
static rp_status ask_shape(rp_op_meta *m)
{
    int64_t before   = m->ctx->n_errors;
    rp_status status = m->op->shape(m);

    if (status == RP_OK || m->ctx->n_errors != before) return status;
    return rp_fail(m->ctx, status, "own op '%s' refuses its inputs: %s", m->op->name, rp_status_text(status));
}

rp_status rp__op_prepare(rp_ctx *ctx, const rp_op *op, const void *attr, rp_tensor *const *in, int n_in, bool train,
                         const bool *want_grad, rp_op_meta *m)
{
    bool flows = op->backward || (op->flags & RP_OP_GRAD_PASS);

    *m = (rp_op_meta){ .ctx = ctx, .op = op, .attr = attr, .n_in = n_in, .n_out = op->n_out, .n_slot = op->n_slot, .train = train,
                       .needs = op->needs, .threads = ctx->threads };
    RP_CHECK(ctx, op->flags & RP_OP_VARIADIC ? n_in >= 1 && n_in <= op->n_in : n_in == op->n_in, RP_ERR_ARG,
             "%s: %d inputs given, %s%d expected", op->name, n_in, op->flags & RP_OP_VARIADIC ? "at most " : "", op->n_in);
    for (int i = 0; i < n_in; i++) {
        RP_CHECK(ctx, in[i] && in[i]->ctx == ctx, RP_ERR_ARG, "%s: input %d is %s", op->name, i,
                 in[i] ? "of another context" : "missing");
        m->in[i]      = in[i]->m;
        m->in_grad[i] = want_grad && want_grad[i] && flows && !(op->no_grad_in >> i & 1);
        m->want_grad |= m->in_grad[i];
    }
    find_speed(m, in);
    undeclare(m->out, RP_MAX_OUT);
    undeclare(m->slot, RP_MAX_SLOT);
    RP_TRY(ask_shape(m));
    RP_TRY(rp__op_check_declared(m, n_in));
    if (m->want_grad) drop_dead_gradients(m);
    if (!m->want_grad) m->n_slot = 0;
    return RP_OK;
}

bool rp__op_fast(const rp_op_meta *m) { return m->fast && m->dense; }

/* A collective moves bytes of any dtype. */
bool rp__op_launches(const rp_op_meta *m)
{
    const rp_device *device = m->ctx->device[0];

    return device->runs && (m->fast || m->op->flags & RP_OP_COLLECTIVE) && device->runs(m, false) && device->runs(m, true);
}

bool rp__op_falls_back(const rp_op_meta *m) { return m->ctx->device[0]->runs && !rp__op_launches(m); }

const rp_kernels *rp__op_table(const rp_op_meta *m) { return rp__op_launches(m) ? rp__kernels(m->ctx) : rp__kernels_inside(m->ctx); }
const rp_kernels *rp__op_kernels(const rp_op_call *c) { return rp__op_fast(c->meta) ? rp__op_table(c->meta) : rp__kernels_none(); }

bool rp__op_failed(const rp_op_call *c, rp_status status) { return (rp__ops_ctx(c->ctx)->status = status) != RP_OK; }

static rp_mem_class class_of(const rp_op *op) { return op->flags & RP_OP_COLLECTIVE ? RP_MEM_COMM : RP_MEM_TEMP; }

static rp_status take_scratch(rp_ctx *ctx, const rp_op *op, int64_t bytes, int64_t *offset, void **at)
{
    RP_TRY(rp__mem_take(ctx, ctx->space[0], class_of(op), bytes, op->name, offset));
    *at = rp__mem_at(ctx->space[0], *offset);
    return RP_OK;
}

static bool is_empty(const rp_tensor *t) { return !t || rp_meta_elems(&t->m) == 0; }

static bool all_empty(rp_tensor *const *t, int n)
{
    for (int i = 0; i < n; i++)
        if (!is_empty(t[i])) return false;
    return true;
}

/* The device runs the op's kernels, or the host runs the op's code as a kernel. */
static rp_status compute(rp_op_call *c, void (*code)(const rp_op_call *), rp_doing doing)
{
    rp_tensor_ctx *tensors = rp__tensor_ctx(c->ctx);
    bool on_host           = !rp__op_launches(c->meta);
    void *scratch          = c->scratch;
    double began           = rp__watch_begin(c->ctx);
    unsigned mode          = rp__fp_enter();

    tensors->in_op = true;
    if (on_host) rp__mem_enter(c->ctx);
    if (on_host) c->scratch = rp__mem_scratch(c->ctx, scratch);
    code(c);
    if (on_host) rp__mem_leave(c->ctx);
    c->scratch     = scratch;
    tensors->in_op = false;
    rp__fp_leave(mode);
    rp__watch_end(c->ctx, (rp_span){ .doing = doing, .name = c->meta->op->name, .call = c->meta, .began = began });
    return rp__ops_ctx(c->ctx)->status != RP_OK ? rp__ops_ctx(c->ctx)->status : rp__mem_check(c->ctx, c->meta->op->name);
}

/* Takes scratch and runs the code. code NULL: takes the same memory but computes nothing. */
static rp_status call_run(rp_op_call *c, void (*code)(const rp_op_call *), int64_t scratch_bytes, rp_doing doing)
{
    rp_ctx *ctx     = c->ctx;
    rp_ops_ctx *ops = rp__ops_ctx(ctx);
    int64_t offset;

    RP_TRY(take_scratch(ctx, c->meta->op, scratch_bytes, &offset, &c->scratch));
    ops->status = RP_OK;
    if (code && !ctx->options.shapes_only) ops->status = compute(c, code, doing);
    if (ops->prefetch || ops->reduce_async) rp__prefetch_push(ctx);
    rp__mem_give(ctx->space[0], class_of(c->meta->op), scratch_bytes, offset);
    return ops->status;
}

static void hand_over(rp_tensor **t, const bool *made, int n)
{
    for (int i = 0; i < n; i++)
        if (made[i]) rp__tensor_movable(t[i], false);
}

static void call_drop(rp_tensor **t, const bool *made, int n)
{
    for (int i = 0; i < n; i++) {
        if (!made[i]) continue;
        rp_tensor_unref(t[i]);
        t[i] = NULL;
    }
}

static rp_status make(const rp_op_meta *m, const rp_meta *metas, rp_tensor **t, bool *made, int n)
{
    for (int i = 0; i < n; i++) {
        if (t[i]) continue;
        RP_TRY(rp__tensor_new_named(m->ctx, &metas[i], class_of(m->op), m->op->name, &t[i]));
        made[i] = true;
        rp__tensor_movable(t[i], true);      /* while other tensors and scratch are allocated */
    }
    return RP_OK;
}

/* Does forward write anything? An op with an effect writes more than its outputs. */
static bool forward_writes(const rp_op_call *c)
{
    return (c->meta->op->flags & RP_OP_EFFECT) || !all_empty(c->out, c->meta->n_out) || !all_empty(c->slot, c->meta->n_slot);
}

rp_status rp__op_forward(const rp_op_meta *m, rp_op_stream stream, bool replaying, rp_tensor *const *in, rp_tensor **out,
                         rp_tensor **slot)
{
    rp_op_call c = { .ctx = m->ctx, .meta = m, .attr = m->attr, .stream = stream, .replaying = replaying };
    bool made_out[RP_MAX_OUT] = { 0 }, made_slot[RP_MAX_SLOT] = { 0 };
    rp_status status;

    RP_TRY_GOTO(make(m, m->out, out, made_out, m->n_out));
    RP_TRY_GOTO(make(m, m->slot, slot, made_slot, m->n_slot));
    memcpy(c.in, in, (size_t)m->n_in * sizeof *in);
    memcpy(c.out, out, (size_t)m->n_out * sizeof *out);
    memcpy(c.slot, slot, (size_t)m->n_slot * sizeof *slot);
    RP_TRY_GOTO(call_run(&c, forward_writes(&c) ? m->op->forward : NULL, m->scratch_bytes, replaying ? RP_DOING_REPLAY : RP_DOING_FORWARD));
    hand_over(out, made_out, m->n_out);
    hand_over(slot, made_slot, m->n_slot);
    for (int i = 0; i < m->n_out; i++) rp__tensor_wrote(out[i], m->op->name);
    for (int i = 0; i < m->n_in && m->train && !replaying; i++)
        if (m->op->writes_in & RP_IN(i)) rp__tensor_wrote(in[i], m->op->name);
    return RP_OK;
done:
    call_drop(out, made_out, m->n_out);
    call_drop(slot, made_slot, m->n_slot);
    return status;
}

/* If all outputs are empty, no input has an effect on them. */
static void zero_gradients(rp_op_call *c)
{
    for (int i = 0; i < c->meta->n_in; i++) {
        if (c->grad_in[i] && !c->grad_adds[i]) rp__tensor_zero(c->grad_in[i]);
        c->grad_in[i] = NULL;
    }
}

rp_status rp__op_backward(rp_op_call *call)
{
    rp_op_call c = *call;

    c.ctx  = c.meta->ctx;
    c.attr = c.meta->attr;
    for (int i = 0; i < c.meta->n_in; i++)
        if (is_empty(c.grad_in[i])) c.grad_in[i] = NULL;
    if (all_empty(c.grad_out, c.meta->n_out)) zero_gradients(&c);
    return call_run(&c, all_empty(c.grad_in, c.meta->n_in) ? NULL : c.meta->op->backward, c.meta->scratch_backward_bytes, RP_DOING_BACKWARD);
}
