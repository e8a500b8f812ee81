/* tape_test.c -- see tape_test.h. */
#include "tape/tape_test.h"

#include "base/philox.h"
#include "tape/internal.h"

static rp_status apply_list(rp_ctx *ctx, rp_tensor **out, const char *name, const void *attr, va_list inputs)
{
    const rp_op *op = rp__op_find(name);
    rp_tensor *in[RP_MAX_IN], *next;
    int n = 0;

    assert_non_null(op);
    while ((next = va_arg(inputs, rp_tensor *)) && n < RP_MAX_IN) in[n++] = next;
    return rp__apply(ctx, op, attr, in, n, out);
}

rp_status try_op(rp_ctx *ctx, rp_tensor **out, const char *op, const void *attr, ...)
{
    va_list inputs;

    va_start(inputs, attr);
    rp_status status = apply_list(ctx, out, op, attr, inputs);
    va_end(inputs);
    return status;
}

rp_tensor *call_op(rp_ctx *ctx, const char *op, const void *attr, ...)
{
    rp_tensor *out[RP_MAX_OUT] = { 0 };
    va_list inputs;

    va_start(inputs, attr);
    rp_status status = apply_list(ctx, out, op, attr, inputs);
    va_end(inputs);
    if (status != RP_OK) fail_msg("%s: status %d: %s", op, (int)status, rp_error(ctx));
    assert_null(out[1]);
    return out[0];
}

rp_tensor *new_tensor(rp_ctx *ctx, rp_dtype dtype, int64_t rows, int64_t n, rp_mem_class mem_class, double scale, uint32_t seed)
{
    rp_meta m    = rows ? rp_meta_2d(dtype, rows, n) : rp_meta_1d(dtype, n);
    rp_tensor *t = NULL;

    assert_ok(ctx, rp_tensor_new(ctx, &m, mem_class, &t));
    double *v = test_room(t);
    for (int64_t e = 0; e < rp_meta_elems(&m); e++) v[e] = scale * (2 * rp__uniform(rp__philox(seed, (uint32_t)e, 0, 0, 0).word[0]) - 1);
    test_put(t, v);
    return t;
}

rp_tensor *new_param(rp_ctx *ctx, rp_dtype dtype, int64_t rows, int64_t n, double scale, uint32_t seed, const char *name)
{
    rp_tensor *t = new_tensor(ctx, dtype, rows, n, RP_MEM_PARAM, scale, seed);

    t->name          = name;
    t->requires_grad = true;
    return t;
}

rp_tensor *new_labels(rp_ctx *ctx, int64_t n, int32_t classes)
{
    rp_meta m    = rp_meta_1d(RP_I32, n);
    rp_tensor *t = NULL;

    assert_ok(ctx, rp_tensor_new(ctx, &m, RP_MEM_TEMP, &t));
    double *v = test_room(t);
    for (int64_t e = 0; e < n; e++) v[e] = (double)((e * 7 + 3) % classes);
    test_put(t, v);
    return t;
}

void bits_of(const rp_tensor *t, tensor_bits *out)
{
    out->bytes = t ? rp_meta_bytes(&t->m) : -1;
    assert_true(out->bytes <= MOST_BITS);
    if (t && t->storage->data) memcpy(out->at, test_bytes(t), (size_t)out->bytes);
}

void assert_same_bits(const tensor_bits *got, const tensor_bits *expected, const char *what)
{
    if (got->bytes != expected->bytes) fail_msg("%s: %" PRId64 " bytes, expected %" PRId64, what, got->bytes, expected->bytes);
    for (int64_t i = 0; i < expected->bytes; i++)
        if (got->at[i] != expected->at[i]) fail_msg("%s: byte %" PRId64 " is %d, expected %d", what, i, got->at[i], expected->at[i]);
}

double first_element(const rp_tensor *t) { return rp_elem_get(t, 0); }

void drop_grad(rp_tensor *leaf)
{
    rp_tensor_unref(leaf->grad);
    leaf->grad = NULL;
}

rp_mem ledger(rp_ctx *ctx)
{
    rp_mem m;

    rp_mem_read(ctx, 0, false, &m);
    return m;
}

int64_t saved_bytes(rp_ctx *ctx) { return ledger(ctx).live_at[RP_MEM_SAVED]; }

static int count(const int *list, int n, int value)
{
    int times = 0;

    for (int i = 0; i < n; i++) times += list[i] == value;
    return times;
}

static int count_uses(const rp_tape *tape, int value)
{
    const rp_fates *w = &tape->fates;
    int uses          = w->value[value].collects;

    for (int at = 0; at < w->n_call; at++) {
        const tape_call *c = tape->call[at];
        uses += count(rp__fate_needs(w, &w->call[at]), w->call[at].n_needs, value);
        for (int i = 0; i < c->meta.n_in; i++) uses += w->call[at].alone && c->in[i].value == value;
    }
    for (int r = 0; r < w->n_region; r++) {
        int n             = 0;
        const int *bounds = w->region[r].listed ? rp__fates_bounds(w, &w->region[r], &n) : NULL;
        uses += count(bounds, n, value);
    }
    return uses;
}

void assert_uses_add_up(const rp_ctx *ctx)
{
    rp_tape *tape = rp__tape_opened(ctx);

    if (!tape) return;
    for (int i = 0; i < tape->fates.n_value; i++) {
        rp__fates_check(&tape->fates, i);
        assert_int_equal(tape->fates.value[i].uses, count_uses(tape, i));
    }
}

rp_status try_sum_all(rp_ctx *ctx, rp_tensor *x, rp_tensor **sum)
{
    rp_tensor *whole = rp_tensor_ref(x), *less;
    rp_status status = RP_OK;

    while (whole->m.ndim > 0 && status == RP_OK) {
        status = try_op(ctx, &less, "sum", &(rp_attr_dim){ 0 }, whole, NULL);
        if (status != RP_OK) break;
        rp_tensor_unref(whole);
        whole = less;
    }
    if (status == RP_OK) *sum = whole;
    else rp_tensor_unref(whole);
    return status;
}

rp_tensor *sum_all(rp_ctx *ctx, rp_tensor *x)
{
    rp_tensor *sum = NULL;

    assert_ok(ctx, try_sum_all(ctx, x, &sum));
    return sum;
}
