/* one_call.c -- see one_call.h. */
#include "ops/one_call.h"

#include <math.h>

#ifdef RP_ASAN
enum { GUARD_BYTES = 0 };           /* the block ends where the tensor does: AddressSanitizer stands behind it */
#else
enum { GUARD_BYTES = 64 };
#endif

void fail_call(const one_call *c, const char *fmt, ...)
{
    char text[512];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    rp__kernels_force(NULL);
    fail_msg("%s, case '%s', %s, %s, %d threads: %s", c->op->name, c->test->name, rp_dtype_name(c->dtype), c->where->name, c->ctx->threads,
             text);
}

/* ---- values: a function of op, case, tensor and element ---- */

enum { INPUTS, GRADIENTS };

void call_name(one_call *c)
{
    c->key = rp__hash(c->test->name, strlen(c->test->name), rp__hash(c->op->name, strlen(c->op->name), RP_HASH_START));
}

static double uniform(const one_call *c, int kind, int index, int64_t element)
{
    rp_philox r = rp__philox(c->key, (uint32_t)element, (uint32_t)index, (uint32_t)kind, 0);

    return 2.0 * rp__uniform(r.word[0]) - 1 + 1e-9 * rp__uniform(r.word[1]);
}

static double rounded(rp_dtype dtype, double value)
{
    if (dtype == RP_F32) return (float)value;
    if (dtype == RP_BF16) return rp__f32_from_bf16(rp__bf16_from_f32((float)value));
    return value;
}

/* A document starts at about every fourth position. */
static double ascending_value(const one_call *c, int in, int64_t element)
{
    int64_t n = rp_meta_dim(&c->m.in[in], -1), position = element % n;

    while (position > 0 && uniform(c, INPUTS, in, element - element % n + position) < 0.5) position--;
    return position < c->test->int_low[in] ? c->test->int_low[in] : (double)position;
}

static rp_dtype input_dtype(const rp_op_case *test, int in, rp_dtype dtype)
{
    if (test->int_inputs & RP_IN(in)) return RP_I32;
    if ((test->stat_inputs & RP_IN(in)) && dtype == RP_BF16) return RP_F32;
    return dtype;
}

static bool in_batch(const one_call *c, int in) { return c->test->in[in][0] == c->test->in[0][0]; }

double input_value(const one_call *c, int in, int64_t element)
{
    const rp_op_case *t = c->test;

    if (c->ask.row_count && in_batch(c, in)) {
        rp_meta whole = case_meta(t, in, RP_F64);
        element += c->ask.row_start * (rp_meta_elems(&whole) / whole.dim[0]);
    }
    if (t->ascending & RP_IN(in)) return ascending_value(c, in, element);
    double u = uniform(c, INPUTS, in, element);
    if (t->int_inputs & RP_IN(in)) return t->int_low[in] + floor((u + 1) / 2.00001 * (1 + t->int_high[in] - t->int_low[in]));
    return rounded(input_dtype(t, in, c->round_to), t->shift + u * (t->scale ? t->scale : 1));
}

double grad_out_value(const one_call *c, int out, int64_t element)
{
    if (c->ask.zero_grad_out & RP_IN(out)) return 0;
    if (c->ask.row_count) element += c->ask.row_start * (rp_meta_elems(&c->m.out[out]) / c->m.out[out].dim[0]);
    return rounded(RP_BF16, uniform(c, GRADIENTS, out, element));
}

double prefill_value(int in, int64_t element) { return rounded(RP_BF16, 0.25 + (double)((element * 7 + in) % 11) / 8); }

/* ---- cases ---- */

int case_inputs(const rp_op_case *test)
{
    int n = 0;

    while (n < RP_MAX_IN && test->in[n][0]) n++;
    return n;
}

rp_meta case_meta(const rp_op_case *test, int in, rp_dtype dtype)
{
    int ndim = 0;

    while (ndim < RP_MAX_DIM && test->in[in][ndim]) ndim++;
    rp_meta meta = rp_meta_make(input_dtype(test, in, dtype), ndim, test->in[in]);
    for (int d = 0; d < ndim; d++)
        if (meta.dim[d] == EMPTY) meta.dim[d] = 0;
    return meta;
}

bool case_wants(const rp_op *op, const rp_op_case *test, int in)
{
    bool flows = op->backward || (op->flags & RP_OP_GRAD_PASS);

    return flows && !test->eval && !(test->int_inputs & RP_IN(in)) && !(op->no_grad_in & RP_IN(in));
}

bool case_trains(const rp_op_case *test, const request *ask) { return !(test->eval || test->frozen) != ask->flip_train; }

bool call_writes(const one_call *c, int in) { return (c->op->writes_in & RP_IN(in)) && c->m.train && !c->ask.replaying; }

/* ---- tensors ---- */

/* A tensor of this shape in the middle of its block; strided: the last two dimensions lie the other way round in memory. */
static rp_tensor *guarded(one_call *c, const rp_meta *meta, bool strided)
{
    int64_t n = rp_meta_elems(meta), guard = GUARD_BYTES / rp_dtype_bytes(meta->dtype);
    rp_meta flat = rp_meta_1d(meta->dtype, n + 2 * guard), laid = *meta;
    rp_tensor *block = NULL, *t = NULL, *shaped = NULL, *turned = NULL;
    bool turn = strided && meta->ndim >= 2;

    assert_true(c->n_block < MAX_BLOCKS);
    assert_ok(c->ctx, rp_tensor_new(c->ctx, &flat, RP_MEM_TEMP, &block));
    test_fill(block, 0xff);
    c->block[c->n_block++] = block;
    if (turn) {
        laid.dim[meta->ndim - 1] = meta->dim[meta->ndim - 2];
        laid.dim[meta->ndim - 2] = meta->dim[meta->ndim - 1];
    }
    assert_ok(c->ctx, rp_tensor_slice(block, 0, guard, n, &t));
    assert_ok(c->ctx, rp_tensor_reshape(t, laid.ndim, laid.dim, &shaped));
    rp_tensor_unref(t);
    if (!turn) return shaped;
    assert_ok(c->ctx, rp_tensor_transpose(shaped, -1, -2, &turned));
    rp_tensor_unref(shaped);
    return turned;
}

static void fill(rp_tensor *t, const one_call *c, double (*value)(const one_call *, int, int64_t), int index)
{
    double *v = test_room(t);

    for (int64_t e = 0, n = rp_meta_elems(&t->m); e < n; e++) v[e] = value(c, index, e);
    test_put(t, v);
}

static double before_adding(const one_call *c, int i, int64_t e) { (void)c; return prefill_value(i, e); }

static void poison(rp_tensor *t)
{
    double *v = test_room(t);

    for (int64_t e = 0, n = rp_meta_elems(&t->m); e < n; e++) v[e] = t->m.dtype == RP_I32 ? -1 : (double)NAN;
    test_put(t, v);
}

/* ---- the run ---- */

rp_status call_prepare(one_call *c, rp_ctx *ctx, const rp_op *op, const rp_op_case *test, const variant *where, rp_dtype dtype,
                       rp_dtype round_to, const request *ask)
{
    bool want[RP_MAX_IN] = { 0 };

    *c = (one_call){ .ctx = ctx, .op = op, .test = test, .where = where, .dtype = dtype, .round_to = round_to, .n_in = case_inputs(test) };
    if (ask) c->ask = *ask;
    call_name(c);
    for (int i = 0; i < c->n_in; i++) {
        rp_meta meta = case_meta(test, i, dtype);
        if (c->ask.row_count && in_batch(c, i)) meta.dim[0] = c->ask.row_count;
        c->m.in[i] = meta;
        c->in[i]   = guarded(c, &meta, where->strided);
        fill(c->in[i], c, input_value, i);
        want[i] = case_wants(op, test, i) && !(c->ask.without_grad & RP_IN(i));
    }
    if (c->ask.perturbed) {
        rp_tensor *t = c->in[c->ask.perturbed - 1];
        rp_elem_put(t, c->ask.element, rp_elem_get(t, c->ask.element) + c->ask.by);
    }
    return rp__op_prepare(ctx, op, test->attr, c->in, c->n_in, case_trains(test, &c->ask), want, &c->m);
}

rp_status call_forward(one_call *c)
{
    for (int i = 0; i < c->m.n_out; i++) c->out[i] = guarded(c, &c->m.out[i], false);
    for (int i = 0; i < c->m.n_slot; i++) c->slot[i] = guarded(c, &c->m.slot[i], false);
    return rp__op_forward(&c->m, c->ask.stream, c->ask.replaying, c->in, c->out, c->slot);
}

rp_status call_forward_recompute(one_call *c)
{
    for (int i = 0; i < c->m.n_out; i++) poison(c->out[i]);
    for (int i = 0; i < c->m.n_slot; i++) poison(c->slot[i]);
    for (int i = 0; i < c->n_in; i++)
        if (call_writes(c, i)) fill(c->in[i], c, input_value, i);
    return rp__op_forward(&c->m, c->ask.stream, c->ask.replaying, c->in, c->out, c->slot);
}

/* What backward gets for a tensor. Poison goes into a copy, which take_back releases. */
static rp_tensor *lend(one_call *c, rp_tensor *t, uint32_t bit)
{
    bool poisoned = c->ask.poisoned & bit;

    if (!t || (!poisoned && ((c->m.needs & bit) || c->ask.rest == OTHERS_GIVEN))) return t;
    if (!poisoned && c->ask.rest == OTHERS_NULL) return NULL;
    rp_tensor *copy = guarded(c, &t->m, !rp_tensor_is_dense(t));
    poison(copy);
    return copy;
}

static void take_back(rp_tensor *const *lent, rp_tensor *const *own, int n)
{
    for (int i = 0; i < n; i++)
        if (lent[i] != own[i]) rp_tensor_unref(lent[i]);
}

static void make_gradients(one_call *c)
{
    for (int j = 0; j < c->m.n_out; j++) {
        if (c->ask.null_grad_out & RP_IN(j)) continue;
        c->grad_out[j] = guarded(c, &c->m.out[j], false);
        fill(c->grad_out[j], c, grad_out_value, j);
    }
    for (int i = 0; i < c->n_in; i++) {
        rp_meta meta = c->m.in[i];
        if (!c->m.in_grad[i]) continue;
        if (c->ask.wide && (c->op->wide_grad_in & RP_IN(i))) meta.dtype = RP_F32;
        c->grad_in[i] = guarded(c, &meta, c->where->strided);
        if (c->ask.adds) fill(c->grad_in[i], c, before_adding, i);
    }
}

/* As the tape does it for RP_OP_GRAD_PASS: the gradient of every input of the output's shape is the output's own. Returns whether
 * the op's backward has anything left to do. */
static bool pass_gradients(one_call *c, rp_tensor **grad_in)
{
    bool left = false;

    for (int i = 0; i < c->n_in; i++) {
        if (!grad_in[i]) continue;
        if ((c->op->flags & RP_OP_GRAD_PASS) && rp_meta_same_shape(&c->m.in[i], &c->m.out[0])) {
            if (c->ask.adds) rp__tensor_add(grad_in[i], c->grad_out[0]);
            else rp__tensor_copy(grad_in[i], c->grad_out[0]);
            grad_in[i] = NULL;
        } else {
            left = true;
        }
    }
    return left;
}

rp_status call_backward(one_call *c)
{
    rp_op_call b = { .meta = &c->m, .stream = c->ask.stream };
    rp_status status = RP_OK;

    make_gradients(c);
    memcpy(b.grad_out, c->grad_out, sizeof b.grad_out);
    memcpy(b.grad_in, c->grad_in, sizeof b.grad_in);
    for (int i = 0; i < c->n_in; i++) b.in[i] = lend(c, c->in[i], RP_IN(i));
    for (int i = 0; i < c->m.n_out; i++) b.out[i] = lend(c, c->out[i], RP_OUT(i));
    for (int i = 0; i < c->m.n_slot; i++) b.slot[i] = lend(c, c->slot[i], RP_SLOT(i));
    for (int i = 0; i < c->n_in; i++) b.grad_adds[i] = c->ask.adds;
    if (pass_gradients(c, b.grad_in)) status = rp__op_backward(&b);
    take_back(b.in, c->in, c->n_in);
    take_back(b.out, c->out, c->m.n_out);
    take_back(b.slot, c->slot, c->m.n_slot);
    return status;
}

void call_free(one_call *c)
{
    for (int i = 0; i < RP_MAX_IN; i++) {
        rp_tensor_unref(c->in[i]);
        rp_tensor_unref(c->grad_in[i]);
    }
    for (int i = 0; i < RP_MAX_OUT; i++) {
        rp_tensor_unref(c->out[i]);
        rp_tensor_unref(c->grad_out[i]);
    }
    for (int i = 0; i < RP_MAX_SLOT; i++) rp_tensor_unref(c->slot[i]);
    for (int i = 0; i < c->n_block; i++) rp_tensor_unref(c->block[i]);
    *c = (one_call){ 0 };
}

void call_run(one_call *c, rp_ctx *ctx, const rp_op *op, const rp_op_case *test, const variant *where, rp_dtype dtype, rp_dtype round_to,
              const request *ask)
{
    rp_status status = call_prepare(c, ctx, op, test, where, dtype, round_to, ask);

    if (status == RP_OK) status = call_forward(c);
    if (status == RP_OK && c->m.want_grad) status = call_backward(c);
    if (status != RP_OK) fail_call(c, "status %d: %s", (int)status, rp_error(ctx));
}

/* ---- checks ---- */

void check_guards(const one_call *c)
{
    for (int b = 0; b < c->n_block; b++) {
        const uint8_t *data = test_bytes(c->block[b]);
        int64_t bytes       = c->block[b]->storage->bytes;
        for (int64_t i = 0; i < GUARD_BYTES; i++)
            if (data[i] != 0xff || data[bytes - 1 - i] != 0xff)
                fail_call(c, "a write %s tensor %d (%s)", data[i] != 0xff ? "before" : "after", b, rp_meta_str(&c->block[b]->m));
    }
    for (int i = 0; i < c->n_in; i++) {
        if (call_writes(c, i)) continue;
        double *v = test_values(c->in[i]);
        for (int64_t e = 0, n = rp_meta_elems(&c->m.in[i]); e < n; e++)
            if (v[e] != input_value(c, i, e)) fail_call(c, "element %" PRId64 " of input %d was written", e, i);
        free(v);
    }
}

void check_same(const one_call *c, const char *claim, const char *what, int index, const rp_tensor *got, const rp_tensor *expected)
{
    double *a = test_values(got), *b = test_values(expected);

    for (int64_t e = 0, n = rp_meta_elems(&expected->m); e < n; e++)
        if (memcmp(&a[e], &b[e], sizeof a[e]))
            fail_call(c, "%s: element %" PRId64 " of %s %d is %.9g, expected %.9g", claim, e, what, index, a[e], b[e]);
    free(a);
    free(b);
}
