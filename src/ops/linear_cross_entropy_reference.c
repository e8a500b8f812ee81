/* ops/linear_cross_entropy_reference.c -- the reference: the loss one row at a time, its gradients one class at a time, in double. */
#include "ops/linear_cross_entropy.h"

#include "ops/collective.h"

/* ---- scratch ---- */

/* A sliced w is gathered whole, after the rest of the scratch; in backward its gradient and the scratch of the sum follow, too. */
typedef struct { int64_t whole, gradient, reduce, total; } reference_layout;

static reference_layout lay_out_whole(const rp_op_meta *m, bool backward)
{
    reference_layout l = { 0 };

    if (backward) l.reduce = rp__scratch_add(m->ctx, &l.total, rp__reduce_scratch(m->ctx, rp__group(m->ctx), elems_of(m), (int64_t)sizeof(double)));
    const rp_meta whole = whole_of(m);
    l.whole = rp__scratch_add(m->ctx, &l.total, rp_meta_bytes(&whole) + rp__dense_room(m, &m->in[W]));
    if (backward) l.gradient = rp__scratch_add(m->ctx, &l.total, elems_of(m) * (int64_t)sizeof(double));
    return l;
}

static int64_t reference_bytes(const rp_op_meta *m, bool backward)
{
    int64_t bias = has_bias(m) ? classes_of(m) : 0;
    int64_t n    = backward ? 3 * width_of(m) + rows_of(m) * width_of(m) + bias : width_of(m) + classes_of(m);

    return rp__mem_rounded(m->ctx, n * (int64_t)sizeof(double));
}

int64_t rp__reference_loss_scratch(const rp_op_meta *m, bool backward)
{
    return reference_bytes(m, backward) + (is_sliced(m) ? lay_out_whole(m, backward).total : 0);
}

/* ---- one row at a time ---- */

static double capped(const rp_op_call *c, double z)
{
    double cap = softcap_of(c->meta);

    return cap > 0 ? cap * tanh(z / cap) : z;
}

static double bias_of(const rp_op_call *c, int64_t v) { return has_bias(c->meta) ? rp_elem_get(c->in[BIAS], v) : 0; }

/* Reads x of a row and computes the logits of all classes. */
static void reference_logits(const rp_op_call *c, int64_t r, double *x, double *logits)
{
    int64_t n = width_of(c->meta);

    rp_row_get(c->in[X], r, x);
    for (int64_t v = 0; v < classes_of(c->meta); v++) {
        logits[v] = bias_of(c, v);
        for (int64_t i = 0; i < n; i++) logits[v] += x[i] * rp__weight_get(c, X, W, v * n + i);
        logits[v] = capped(c, logits[v]);
    }
}

static double log_sum_exp(const double *logits, int64_t n)
{
    double top = -INFINITY, sum = 0;

    for (int64_t v = 0; v < n; v++) top = logits[v] > top || logits[v] != logits[v] ? logits[v] : top;
    for (int64_t v = 0; v < n; v++) sum += exp(logits[v] - top);
    return top + log(sum);
}

static double reference_sum(const rp_op_call *c)
{
    const rp_attr_cross_entropy *a = c->attr;
    double *x = c->scratch, *logits = x + width_of(c->meta), sum = 0;

    for (int64_t r = 0; r < rows_of(c->meta); r++) {
        int32_t label = rp_int_get(c->in[LABELS], r);
        double lse    = 0;
        if (label != a->ignore_index) {
            reference_logits(c, r, x, logits);
            lse = log_sum_exp(logits, classes_of(c->meta));
            sum += lse - logits[label];
        }
        if (c->meta->n_slot) rp_elem_put(c->slot[LSE], r, lse);
    }
    return sum;
}

/* Computes d of one class: adds its part to dx of every row and sets its row of dw. Returns the sum of d, the gradient of the bias. */
static double reference_class(const rp_op_call *c, int64_t v, double factor, double *x, double *w, double *dw, double *dx)
{
    const rp_attr_cross_entropy *a = c->attr;
    int64_t n  = width_of(c->meta);
    double sum = 0;

    for (int64_t i = 0; i < n; i++) w[i] = rp__weight_get(c, X, W, v * n + i);
    memset(dw, 0, (size_t)n * sizeof *dw);
    for (int64_t r = 0; r < rows_of(c->meta); r++) {
        int32_t label = rp_int_get(c->in[LABELS], r);
        double logit  = bias_of(c, v);
        if (label == a->ignore_index) continue;
        rp_row_get(c->in[X], r, x);
        for (int64_t i = 0; i < n; i++) logit += x[i] * w[i];
        double z = capped(c, logit), t = softcap_of(c->meta) > 0 ? z / softcap_of(c->meta) : 0;
        double d = factor * (exp(z - rp_elem_get(c->slot[LSE], r)) - (v == label)) * (1 - t * t);
        for (int64_t i = 0; i < n; i++) dw[i] += d * x[i], dx[r * n + i] += d * w[i];
        sum += d;
    }
    if (c->grad_in[W]) rp_row_grad(c, W, v, dw);
    return sum;
}

static void linear_cross_entropy_reference_backward(const rp_op_call *c, double factor)
{
    int64_t n = width_of(c->meta), rows = rows_of(c->meta);
    double *x = c->scratch, *w = x + n, *dw = w + n, *dx = dw + n, *dbias = dx + rows * n;

    memset(dx, 0, (size_t)(rows * n) * sizeof *dx);
    for (int64_t v = 0; v < classes_of(c->meta); v++) {
        double sum = reference_class(c, v, factor, x, w, dw, dx);
        if (has_bias(c->meta)) dbias[v] = sum;
    }
    if (has_bias(c->meta) && c->grad_in[BIAS]) rp_row_grad(c, BIAS, 0, dbias);
    for (int64_t r = 0; r < rows && c->grad_in[X]; r++) rp_row_grad(c, X, r, dx + r * n);
}

/* ---- with the whole of a sliced w ---- */

typedef struct { rp_op_call call; rp_storage storage[2]; rp_tensor weight, gradient; } whole_call;

static void with_whole(const rp_op_call *c, bool backward, whole_call *w)
{
    const rp_op_meta *m = c->meta;
    reference_layout l  = lay_out_whole(m, backward);
    uint8_t *room       = (uint8_t *)c->scratch + reference_bytes(m, backward);
    rp_tensor shape     = *c->in[W];

    shape.m   = whole_of(m);
    w->call   = *c;
    w->weight = rp__dense_in(&shape, shape.m.dtype, &w->storage[0], room + l.whole);
    rp__gather_slices(c, RP_FROM_ALL, rp__dense_data(c->in[W], room + l.whole + rp_meta_bytes(&shape.m)), &shape.m, &w->weight);
    w->call.in[W] = &w->weight;
    if (!backward || !c->grad_in[W]) return;
    w->gradient            = rp__dense_in(&shape, rp__grad_dtype(c, W), &w->storage[1], room + l.gradient);
    w->call.grad_in[W]     = &w->gradient;
    w->call.grad_adds[W]   = false;
}

double rp__reference_loss(const rp_op_call *c)
{
    whole_call w;

    if (!is_sliced(c->meta)) return reference_sum(c);
    with_whole(c, false, &w);
    return reference_sum(&w.call);
}

void rp__reference_loss_gradients(const rp_op_call *c, double factor)
{
    whole_call w;

    if (!is_sliced(c->meta)) {
        linear_cross_entropy_reference_backward(c, factor);
        return;
    }
    with_whole(c, true, &w);
    linear_cross_entropy_reference_backward(&w.call, factor);
    if (!c->grad_in[W]) return;
    rp_op_call reduce = *c;
    reduce.scratch    = (uint8_t *)c->scratch + reference_bytes(c->meta, true) + lay_out_whole(c->meta, true).reduce;
    rp__reduce_whole(&reduce, rp__group(c->ctx), &w.gradient.m, rp__tensor_data(&w.gradient), c->grad_in[W], c->grad_adds[W]);
}
