/* ops/common.c -- helpers for ops: ops/common.h. */
#include "ops/common.h"

rp_status rp__check_one_dtype(const rp_op_meta *m)
{
    for (int i = 0; i < m->n_in; i++)
        RP_CHECK(m->ctx, rp_meta_is_float(&m->in[i]) && m->in[i].dtype == m->in[0].dtype, RP_ERR_DTYPE,
                 "%s: input %d is %s, expected the floating dtype of %s", m->op->name, i, rp_meta_str(&m->in[i]), rp_meta_str(&m->in[0]));
    return RP_OK;
}

rp_status rp__check_one_shape(const rp_op_meta *m)
{
    RP_TRY(rp__check_one_dtype(m));
    for (int i = 1; i < m->n_in; i++)
        RP_CHECK(m->ctx, rp_meta_same_shape(&m->in[i], &m->in[0]), RP_ERR_SHAPE, "%s: input %d is %s, expected the shape of %s",
                 m->op->name, i, rp_meta_str(&m->in[i]), rp_meta_str(&m->in[0]));
    return RP_OK;
}

bool rp__weight_fits(const rp_op_meta *m, int x, int w)
{
    return rp_meta_is_float(&m->in[x]) && (m->in[w].dtype == m->in[x].dtype || rp__is_quant(m->in[w].dtype));
}

rp_status rp__check_weight_grad(const rp_op_meta *m, int w)
{
    RP_CHECK(m->ctx, !m->in_grad[w] || !rp__is_quant(m->in[w].dtype), RP_ERR_DTYPE, "%s: the weight %s is quantised, so it has no gradient", m->op->name,
             rp_meta_str(&m->in[w]));
    return RP_OK;
}

double rp__weight_get(const rp_op_call *c, int x, int w, int64_t element)
{
    double value = rp_elem_get(c->in[w], element);

    if (!rp__is_quant(c->in[w]->m.dtype) || c->meta->in[x].dtype != RP_BF16) return value;
    return (double)rp__f32_from_bf16(rp__bf16_from_f32((float)value));
}

const void *rp__weight_at(const rp_op_call *c, int w, int64_t first, rp_gemm *g)
{
    g->quant   = rp__quant_type(c->meta->in[w].dtype);
    g->b_first = first;
    return g->quant ? rp__data(c->in[w]) : rp__data_at(c->in[w], first);
}

rp_status rp__same_shape(rp_op_meta *m)
{
    RP_TRY(rp__check_one_shape(m));
    m->out[0] = m->in[0];
    return RP_OK;
}

rp_status rp__check_size(const rp_op_meta *m, const char *name, const rp_meta *size)
{
    RP_CHECK(m->ctx, rp__meta_check(m->ctx, size) == RP_OK, RP_ERR_SHAPE, "%s: the size of %s, %s, is negative or too large", m->op->name, name,
             rp_meta_str(size));
    return RP_OK;
}

rp_status rp__check_int32(const rp_op_meta *m, int in, const char *name)
{
    RP_CHECK(m->ctx, m->in[in].dtype == RP_I32, RP_ERR_DTYPE, "%s: %s are %s, expected int32", m->op->name, name, rp_meta_str(&m->in[in]));
    return RP_OK;
}

rp_status rp__check_dim(const rp_op_meta *m, int given, int *dim)
{
    int ndim = m->in[0].ndim, found = given < 0 ? given + ndim : given;

    RP_CHECK(m->ctx, found >= 0 && found < ndim, RP_ERR_SHAPE, "%s: %s has no dimension %d", m->op->name, rp_meta_str(&m->in[0]), given);
    *dim = found;
    return RP_OK;
}

static int64_t common_bytes_of(const rp_meta *metas, int n)
{
    int64_t bytes = 0;

    for (int i = 0; i < n; i++) bytes += rp_meta_bytes(&metas[i]);
    return bytes;
}

static rp_cost backward_cost(const rp_op_meta *m, int64_t flops)
{
    rp_cost cost = { .flops = flops, .read_bytes = common_bytes_of(m->out, m->n_out) };

    for (int i = 0; i < m->n_in; i++) {
        if (m->needs & RP_IN(i)) cost.read_bytes += rp_meta_bytes(&m->in[i]);
        if (m->in_grad[i]) cost.write_bytes += rp_meta_bytes(&m->in[i]);
    }
    for (int i = 0; i < m->n_out; i++)
        if (m->needs & RP_OUT(i)) cost.read_bytes += rp_meta_bytes(&m->out[i]);
    for (int i = 0; i < m->n_slot; i++)
        if (m->needs & RP_SLOT(i)) cost.read_bytes += rp_meta_bytes(&m->slot[i]);
    return cost;
}

rp_cost rp__cost(const rp_op_meta *m, rp_pass pass, int64_t flops)
{
    if (pass == RP_BACKWARD) return backward_cost(m, flops);
    return (rp_cost){ .flops = flops, .read_bytes = common_bytes_of(m->in, m->n_in),
                      .write_bytes = common_bytes_of(m->out, m->n_out) + common_bytes_of(m->slot, m->n_slot) };
}

rp_cost rp__product_cost(const rp_op_meta *m, rp_pass pass, int x, int w, int64_t flops)
{
    int64_t x_bytes = rp_meta_bytes(&m->in[x]), w_bytes = rp_meta_bytes(&m->in[w]), y_bytes = rp_meta_bytes(&m->out[0]);

    if (pass == RP_FORWARD) return (rp_cost){ .flops = flops, .read_bytes = x_bytes + w_bytes, .write_bytes = y_bytes };
    return (rp_cost){ .flops       = flops * (m->in_grad[x] + m->in_grad[w]),
                      .read_bytes  = m->in_grad[x] * (y_bytes + w_bytes) + m->in_grad[w] * (x_bytes + y_bytes),
                      .write_bytes = m->in_grad[x] * x_bytes + m->in_grad[w] * w_bytes };
}

/* Extent `d` of y in an operand whose last extents are those of y. */
static int64_t extent_in(const rp_meta *y, const rp_meta *in, int d)
{
    int at = d - (y->ndim - in->ndim);

    return at < 0 ? 1 : in->dim[at];
}

bool rp__broadcast(rp_meta *y, const rp_meta *in)
{
    rp_meta to = *y;

    to.ndim = in->ndim > y->ndim ? in->ndim : y->ndim;
    for (int d = 0; d < to.ndim; d++) {
        int64_t one = extent_in(&to, y, d), two = extent_in(&to, in, d);
        if (one != two && one != 1 && two != 1) return false;
        to.dim[d] = one == 1 ? two : one;
    }
    *y = to;
    return true;
}

rp_spread rp__spread(const rp_meta *y, const rp_meta *a, const rp_meta *b, const rp_meta *c)
{
    const rp_meta *of[RP_SPREAD_OPERANDS] = { a, b, c };
    rp_spread s  = { 0 };
    uint32_t had = 0;

    for (int d = 0; d < y->ndim; d++) {
        uint32_t has = 0;
        if (y->dim[d] == 1) continue;
        for (int k = 0; k < RP_SPREAD_OPERANDS; k++)
            if (of[k] && extent_in(y, of[k], d) != 1) has |= 1u << k;
        if (s.ndim && has == had) {
            s.dim[s.ndim - 1] *= y->dim[d];
            continue;
        }
        for (int k = 0; k < RP_SPREAD_OPERANDS; k++) s.has[k] |= (has >> k & 1) << s.ndim;
        s.dim[s.ndim++] = y->dim[d];
        had             = has;
    }
    if (s.ndim) return s;
    return (rp_spread){ .ndim = 1, .has = { !!a, !!b, !!c }, .dim = { 1 } };
}

rp_around rp__around(const rp_meta *m, int dim)
{
    rp_around a = { 1, m->dim[dim], 1 };

    for (int i = 0; i < dim; i++) a.outer *= m->dim[i];
    for (int i = dim + 1; i < m->ndim; i++) a.inner *= m->dim[i];
    return a;
}

void *rp__data_at(const rp_tensor *t, int64_t element)
{
    return (uint8_t *)rp__tensor_data(t) + element * rp_dtype_bytes(t->m.dtype);
}

void rp__elem_grad(const rp_op_call *c, int in, int64_t element, double value)
{
    rp_tensor *grad = c->grad_in[in];

    rp_elem_put(grad, element, c->grad_adds[in] ? rp_elem_get(grad, element) + value : value);
}

/* The first element outside; its index, or count if there is none. `dense` NULL: element by element. */
static int64_t first_outside(const rp_tensor *t, const int32_t *dense, int64_t count, int64_t limit, const int32_t *other, int32_t *value)
{
    for (int64_t i = 0; i < count; i++) {
        *value = dense ? dense[i] : rp_int_get(t, i);
        if ((*value < 0 || *value >= limit) && !(other && *value == *other)) return i;
    }
    return count;
}

rp_status rp__check_ints(const rp_op_call *c, int in, int64_t limit, const int32_t *other, const char *name, const char *place)
{
    const rp_tensor *t = c->in[in];
    int64_t count      = rp_meta_elems(&t->m);
    rp_checked passed  = { .version = t->storage->version, .start = t->start, .count = count, .limit = limit, .other = other ? *other : 0 };
    rp_host h          = { 0 };
    int32_t value      = 0;

    if (!memcmp(&t->storage->checked, &passed, sizeof passed)) return RP_OK;
    const rp_int_range *range = rp__tensor_int_range(t);
    if (range && rp__int_range_within(range, limit, other)) {
        t->storage->checked = passed;
        return RP_OK;
    }
    if (rp_tensor_is_dense(t)) RP_TRY(rp__tensor_host_all(t, RP_HOST_READ, &h));
    int64_t i = first_outside(t, h.data, count, limit, other, &value);
    rp__tensor_host_end(&h);
    RP_CHECK(c->ctx, i == count, RP_ERR_ARG, "%s: %s %d %s %" PRId64 " is outside [0, %" PRId64 ")", c->meta->op->name, name, value, place, i, limit);
    if (rp_tensor_is_dense(t)) t->storage->checked = passed;
    return RP_OK;
}

/* The version is that of the output after this call, which counts as one write. */
void rp__ints_within(const rp_op_call *c, int out, int64_t limit)
{
    const rp_tensor *t = c->out[out];

    if (rp_tensor_is_dense(t))
        t->storage->checked = (rp_checked){ .version = t->storage->version + 1, .start = t->start, .count = rp_meta_elems(&t->m), .limit = limit };
}

void rp__row_softmax(double *x, int64_t n)
{
    double max = x[0], sum = 0;

    for (int64_t i = 1; i < n; i++) max = fmax(max, x[i]);
    for (int64_t i = 0; i < n; i++) sum += x[i] = exp(x[i] - max);
    for (int64_t i = 0; i < n; i++) x[i] /= sum;
}

double rp__row_cross_entropy(double *x, int64_t n, int32_t label)
{
    double max = x[0], sum = 0, at_label = x[label];

    for (int64_t i = 1; i < n; i++) max = fmax(max, x[i]);
    for (int64_t i = 0; i < n; i++) sum += exp(x[i] - max);
    double lse = max + log(sum);
    for (int64_t i = 0; i < n; i++) x[i] = exp(x[i] - lse);
    x[label] = expm1(at_label - lse);
    return lse - at_label;
}
