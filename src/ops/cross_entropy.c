/* ops/cross_entropy.c -- loss = weight * sum over rows of -log softmax(logits)[label]; rows labelled ignore_index do not count.
 *
 *   in     logits [..., V] floating   labels [...] int32
 *   out    loss [1]                   fp32 (fp64 in fp64), summed over rows in order
 *   slot   lse [rows]                 fp32: log of the sum of exp, 0 if the row is ignored
 *   needs  logits, labels, lse
 */
#include "ops/common.h"

enum { LOGITS, LABELS };
enum { LOSS };
enum { LSE };

static rp_status cross_entropy_shape(rp_op_meta *m)
{
    const rp_meta *logits = &m->in[LOGITS];
    int64_t n = rp_meta_dim(logits, -1), rows = rp_meta_rows(logits);

    RP_CHECK(m->ctx, rp_meta_is_float(logits), RP_ERR_DTYPE, "cross_entropy: logits are %s, expected a floating dtype",
             rp_meta_str(logits));
    RP_TRY(rp__check_int32(m, LABELS, "labels"));
    RP_CHECK(m->ctx, n > 0 && n <= INT32_MAX && rp_meta_elems(&m->in[LABELS]) == rows, RP_ERR_SHAPE,
             "cross_entropy: logits are %s and labels %s, expected a label for each row", rp_meta_str(logits), rp_meta_str(&m->in[LABELS]));
    m->out[LOSS]              = rp_meta_1d(rp_meta_stat_dtype(logits), 1);
    m->slot[LSE]              = rp_meta_1d(rp_meta_stat_dtype(logits), rows);
    m->scratch_bytes          = rp__op_fast(m) ? rows * (int64_t)sizeof(float) : n * (int64_t)sizeof(double);
    m->scratch_backward_bytes = rp__op_fast(m) ? 0 : n * (int64_t)sizeof(double);
    return RP_OK;
}

static rp_cost cross_entropy_cost(const rp_op_meta *m, rp_pass pass)
{
    return rp__cost(m, pass, rp_meta_elems(&m->in[LOGITS]) * (pass == RP_FORWARD ? 14 : 15));
}

static double reference_sum(const rp_op_call *c)
{
    int64_t n = rp_meta_dim(&c->meta->in[LOGITS], -1), rows = rp_meta_rows(&c->meta->in[LOGITS]);
    int32_t ignore = ((const rp_attr_cross_entropy *)c->attr)->ignore_index;
    double *x = c->scratch, sum = 0;

    for (int64_t r = 0; r < rows; r++) {
        int32_t label = rp_int_get(c->in[LABELS], r);
        double loss   = 0, lse = 0;
        if (label != ignore) {
            rp_row_get(c->in[LOGITS], r, x);
            double logit = x[label];
            loss = rp__row_cross_entropy(x, n, label);
            lse  = loss + logit;
        }
        sum += loss;
        if (c->slot[LSE]) rp_elem_put(c->slot[LSE], r, lse);
    }
    return sum;
}

static void kernel_forward(const rp_op_call *c)
{
    const rp_attr_cross_entropy *a = c->attr;
    const rp_kernels *k            = rp__op_kernels(c);
    int64_t rows                   = rp_meta_rows(&c->meta->in[LOGITS]);

    k->cross_entropy_forward(c->meta->in[LOGITS].dtype, rp__data(c->in[LOGITS]), rp__data(c->in[LABELS]), a->ignore_index, c->scratch,
                             rp__data(c->slot[LSE]), rows, rp_meta_dim(&c->meta->in[LOGITS], -1), rp__on(c->meta));
    k->cross_entropy_total(c->scratch, a->weight, rp__data(c->out[LOSS]), rows, rp__on(c->meta));
}

static void cross_entropy_forward(const rp_op_call *c)
{
    const rp_attr_cross_entropy *a = c->attr;

    if (rp__op_failed(c, rp__check_ints(c, LABELS, rp_meta_dim(&c->meta->in[LOGITS], -1), &a->ignore_index, "label", "of row"))) return;
    if (rp__op_has_kernels(c)) kernel_forward(c);
    else rp_elem_put(c->out[LOSS], 0, (double)a->weight * reference_sum(c));
}

static void cross_entropy_backward(const rp_op_call *c)
{
    const rp_attr_cross_entropy *a = c->attr;
    const rp_kernels *k            = rp__op_kernels(c);
    int64_t n = rp_meta_dim(&c->meta->in[LOGITS], -1), rows = rp_meta_rows(&c->meta->in[LOGITS]);
    double *x = c->scratch;

    if (k->cross_entropy_backward) {
        k->cross_entropy_backward(c->meta->in[LOGITS].dtype, rp__data(c->in[LOGITS]), rp__data(c->in[LABELS]), a->ignore_index,
                                  rp__data(c->slot[LSE]), a->weight, rp__data(c->grad_out[LOSS]), rp__data(c->grad_in[LOGITS]), rp__grad_dtype(c, LOGITS),
                                  c->grad_adds[LOGITS], rows, n, rp__on(c->meta));
        return;
    }
    double factor = (double)a->weight * rp_elem_get(c->grad_out[LOSS], 0);
    for (int64_t r = 0; r < rows; r++) {
        int32_t label = rp_int_get(c->in[LABELS], r);
        double lse    = rp_elem_get(c->slot[LSE], r);
        rp_row_get(c->in[LOGITS], r, x);
        for (int64_t i = 0; i < n; i++)
            x[i] = label == a->ignore_index ? 0 : factor * (i == label ? expm1(x[i] - lse) : exp(x[i] - lse));
        rp_row_grad(c, LOGITS, r, x);
    }
}

#define LABELS_FROM(low, high) .int_inputs = RP_IN(LABELS), .int_low = { [LABELS] = low }, .int_high = { [LABELS] = high }

static const rp_op_case cross_entropy_cases[] = {
    { "one row",       .in = { { 1, 8 },    { 1 } },    LABELS_FROM(0, 7),   .attr = &(rp_attr_cross_entropy){ 1, -100, 0, 0, 0, 0, 0 } },
    { "mean of rows",  .in = { { 2, 3, 7 }, { 2, 3 } }, LABELS_FROM(0, 6),   .attr = &(rp_attr_cross_entropy){ 1 / 6.0f, -100, 0, 0, 0, 0, 0 }, .scale = 3 },
    { "ignored rows",  .in = { { 9, 5 },    { 9 } },    LABELS_FROM(-1, 4),  .attr = &(rp_attr_cross_entropy){ 0.25f, -1, 0, 0, 0, 0, 0 } },
    { "all ignored",   .in = { { 2, 5 },    { 2 } },    LABELS_FROM(-1, -1), .attr = &(rp_attr_cross_entropy){ 0.5f, -1, 0, 0, 0, 0, 0 } },
    { "three blocks",  .in = { { 3, 1031 }, { 3 } },    LABELS_FROM(0, 1030), .attr = &(rp_attr_cross_entropy){ 0.5f, -100, 0, 0, 0, 0, 0 }, .scale = 9 },
    { "no such class", .in = { { 2, 5 },    { 2 } },    LABELS_FROM(5, 5),   .attr = &(rp_attr_cross_entropy){ 1, -1, 0, 0, 0, 0, 0 }, .expect = RP_ERR_ARG },
    { "short labels",  .in = { { 3, 5 },    { 2 } },    LABELS_FROM(0, 4),   .attr = &(rp_attr_cross_entropy){ 1, -1, 0, 0, 0, 0, 0 }, .expect = RP_ERR_SHAPE },
};

const rp_op rp_op_cross_entropy = {
    .name = "cross_entropy", .n_in = 2, .n_out = 1, .n_slot = 1, .attr_size = sizeof(rp_attr_cross_entropy), .no_grad_in = RP_IN(LABELS),
    .needs = RP_IN(LOGITS) | RP_IN(LABELS) | RP_SLOT(LSE),
    .shape = cross_entropy_shape, .cost = cross_entropy_cost,
    .forward = cross_entropy_forward, .backward = cross_entropy_backward,
    .cases = cross_entropy_cases, .n_case = RP_COUNT(cross_entropy_cases),
};
