/* ops/linear_cross_entropy.c -- loss = weight * sum over rows of -log softmax(x w^T)[label], without ever holding the logits whole.
 *
 *   in     x [..., n]   w [V, n]     one floating dtype      labels [...] int32; rows labelled ignore_index lose nothing
 *   out    loss [1]                  fp32 (fp64 in fp64), rows summed in order
 *   slots  dx [rows, n] dtype of x   dw [V, n] fp32          the gradients of loss, made in forward while a chunk's logits exist;
 *                                                            none in evaluation, no dw where w wants no gradient
 *   needs  the slots alone: backward multiplies them by the incoming gradient
 *
 *   scratch of forward   [ logits of a chunk -> their gradient, in place ][ row losses ][ the products' own ]
 *
 * Rows go through in chunks of a fixed quantum, in order, the short one last. The quantum follows from V and the dtype (or the
 * attribute, which is recipe): it fixes how the sums of dw are cut, so nothing that memory decides may change it.
 */
#include "ops/common.h"

enum { X, W, LABELS };
enum { LOSS };
enum { DX, DW };

/* The largest power of two of rows whose logits fit 64 MiB, and 128 at least: narrower products waste the matrix units. */
static int64_t quantum(const rp_op_meta *m)
{
    const rp_attr_cross_entropy *a = m->attr;
    int64_t rows = rp_meta_rows(&m->in[X]), row_bytes = m->in[W].dim[0] * rp_dtype_bytes(m->in[X].dtype), q = 128;

    while (2 * q * row_bytes <= INT64_C(64) << 20 && q < rows) q *= 2;
    if (a->chunk_rows > 0) q = a->chunk_rows;
    return q < rows ? q : rows;
}

/* The three products of a chunk of `rows` rows. */
static rp_gemm product_logits(const rp_op_meta *m, int64_t rows)
{
    return (rp_gemm){ .ab = m->in[X].dtype, .c = m->in[X].dtype, .m = rows, .n = m->in[W].dim[0], .k = m->in[W].dim[1], .transpose_b = true,
                      .threads = m->threads };
}

static rp_gemm product_dx(const rp_op_meta *m, int64_t rows)
{
    return (rp_gemm){ .ab = m->in[X].dtype, .c = m->in[X].dtype, .m = rows, .n = m->in[W].dim[1], .k = m->in[W].dim[0],
                      .threads = m->threads };
}

static rp_gemm product_dw(const rp_op_meta *m, int64_t rows, bool adds)
{
    return (rp_gemm){ .ab = m->in[X].dtype, .c = RP_F32, .m = m->in[W].dim[0], .n = m->in[W].dim[1], .k = rows, .transpose_a = true,
                      .adds = adds, .threads = m->threads };
}

/* Scratch of the widest product of a chunk that has this many rows. */
static rp_status products_scratch(const rp_op_meta *m, int64_t rows, bool adds, int64_t *most)
{
    rp_gemm product[3] = { product_logits(m, rows), product_dx(m, rows), product_dw(m, rows, adds) };
    bool runs[3]       = { true, m->in_grad[X], m->in_grad[W] };

    for (int i = 0; i < 3; i++) {
        int64_t bytes = 0;
        if (runs[i]) RP_TRY(rp__gemm_scratch(m->ctx, &product[i], &bytes));
        if (bytes > *most) *most = bytes;
    }
    return RP_OK;
}

typedef struct { int64_t logits, losses, products, total; } layout;

static layout forward_layout(const rp_op_meta *m)
{
    layout l = { 0 };

    l.logits   = rp__scratch_add(&l.total, quantum(m) * m->in[W].dim[0] * rp_dtype_bytes(m->in[X].dtype));
    l.losses   = rp__scratch_add(&l.total, rp_meta_rows(&m->in[X]) * (int64_t)sizeof(float));
    l.products = l.total;
    return l;
}

static rp_status fast_scratch(rp_op_meta *m)
{
    int64_t rows = rp_meta_rows(&m->in[X]), q = quantum(m), products = 0;

    if (rows == 0) return RP_OK;
    RP_TRY(products_scratch(m, q, false, &products));
    if (rows > q) RP_TRY(products_scratch(m, q, true, &products));
    if (rows % q) RP_TRY(products_scratch(m, rows % q, true, &products));
    m->scratch_bytes = forward_layout(m).products + products;
    return RP_OK;
}

static rp_status check(const rp_op_meta *m)
{
    const rp_attr_cross_entropy *a = m->attr;
    const rp_meta *x = &m->in[X], *w = &m->in[W], *labels = &m->in[LABELS];

    RP_CHECK(m->ctx, rp_meta_is_float(x) && w->dtype == x->dtype, RP_ERR_DTYPE,
             "linear_cross_entropy: x is %s and w %s, expected one floating dtype", rp_meta_str(x), rp_meta_str(w));
    RP_TRY(rp__check_int32(m, LABELS, "labels"));
    RP_CHECK(m->ctx, x->ndim >= 1 && w->ndim == 2 && w->dim[1] == rp_meta_dim(x, -1) && w->dim[0] > 0 && w->dim[0] <= INT32_MAX,
             RP_ERR_SHAPE, "linear_cross_entropy: x is %s and w %s, expected w [classes, %" PRId64 "]", rp_meta_str(x), rp_meta_str(w),
             rp_meta_dim(x, -1));
    RP_CHECK(m->ctx, rp_meta_elems(labels) == rp_meta_rows(x), RP_ERR_SHAPE,
             "linear_cross_entropy: x is %s and labels %s, expected a label for each row", rp_meta_str(x), rp_meta_str(labels));
    RP_CHECK(m->ctx, a->chunk_rows >= 0, RP_ERR_ARG, "linear_cross_entropy: chunk_rows is %" PRId64, a->chunk_rows);
    return RP_OK;
}

static rp_status linear_cross_entropy_shape(rp_op_meta *m)
{
    RP_TRY(check(m));
    int64_t n = m->in[W].dim[1], classes = m->in[W].dim[0];

    m->out[LOSS] = rp_meta_1d(rp_meta_stat_dtype(&m->in[X]), 1);
    m->n_slot    = m->in_grad[W] ? 2 : m->in_grad[X] ? 1 : 0;
    m->slot[DX]  = rp_meta_2d(m->in[X].dtype, m->in_grad[X] ? rp_meta_rows(&m->in[X]) : 0, n);
    m->slot[DW]  = rp_meta_2d(rp_meta_stat_dtype(&m->in[X]), classes, n);
    if (rp__op_fast(m)) return fast_scratch(m);
    m->scratch_bytes          = (3 * n + classes) * (int64_t)sizeof(double);
    m->scratch_backward_bytes = n * (int64_t)sizeof(double);
    return RP_OK;
}

static rp_cost linear_cross_entropy_cost(const rp_op_meta *m, rp_pass pass)
{
    int64_t rows = rp_meta_rows(&m->in[X]), product = 2 * rows * rp_meta_elems(&m->in[W]), x = rp_meta_bytes(&m->in[X]);
    int64_t chunks = rows ? (rows + quantum(m) - 1) / quantum(m) : 0, logits = rows * m->in[W].dim[0] * rp_dtype_bytes(m->in[X].dtype);
    int64_t dx = m->in_grad[X] ? rp_meta_bytes(&m->slot[DX]) : 0, dw = m->in_grad[W] ? rp_meta_bytes(&m->slot[DW]) : 0;

    if (pass == RP_BACKWARD)
        return (rp_cost){ .flops = m->in_grad[X] * rp_meta_elems(&m->in[X]) + m->in_grad[W] * rp_meta_elems(&m->in[W]),
                          .read_bytes = dx + dw,
                          .write_bytes = m->in_grad[X] * x + m->in_grad[W] * rp_meta_bytes(&m->in[W]) };
    return (rp_cost){ .flops = product * (1 + m->in_grad[X] + m->in_grad[W]) + 25 * rows * m->in[W].dim[0],
                      .read_bytes = x + chunks * (rp_meta_bytes(&m->in[W]) * (1 + m->in_grad[X]) + dw) + 3 * logits,
                      .write_bytes = dx + chunks * dw + 2 * logits };
}

static void clear(rp_tensor *t)
{
    for (int64_t e = 0, n = rp_meta_elems(&t->m); e < n; e++) rp_elem_put(t, e, 0);
}

/* dw[v] += d x for one class of one row. */
static void add_to_class(rp_tensor *dw, int64_t v, double d, const double *x, double *row, int64_t n)
{
    rp_row_get(dw, v, row);
    for (int64_t i = 0; i < n; i++) row[i] += d * x[i];
    rp_row_put(dw, v, row);
}

/* One row: its loss, and its part of both gradients. logits has room for a row of classes, w and dx for rows of n. */
static double reference_row(const rp_op_call *c, int64_t r, int32_t label, double *x, double *w, double *dx, double *logits)
{
    const rp_op_meta *m = c->meta;
    int64_t n = m->in[W].dim[1], classes = m->in[W].dim[0];
    double weight = ((const rp_attr_cross_entropy *)c->attr)->weight;

    rp_row_get(c->in[X], r, x);
    for (int64_t v = 0; v < classes; v++) {
        rp_row_get(c->in[W], v, w);
        logits[v] = 0;
        for (int64_t i = 0; i < n; i++) logits[v] += x[i] * w[i];
    }
    double loss = rp__row_cross_entropy(logits, classes, label);
    if (!m->want_grad) return loss;
    memset(dx, 0, (size_t)n * sizeof *dx);
    for (int64_t v = 0; v < classes; v++) {
        rp_row_get(c->in[W], v, w);
        for (int64_t i = 0; i < n; i++) dx[i] += weight * logits[v] * w[i];
        if (m->in_grad[W]) add_to_class(c->slot[DW], v, weight * logits[v], x, w, n);
    }
    if (m->in_grad[X]) rp_row_put(c->slot[DX], r, dx);
    return loss;
}

static double reference_sum(const rp_op_call *c)
{
    const rp_attr_cross_entropy *a = c->attr;
    int64_t n = c->meta->in[W].dim[1], rows = rp_meta_rows(&c->meta->in[X]);
    double *x = c->scratch, *w = x + n, *dx = w + n, *logits = dx + n, sum = 0;

    if (c->meta->in_grad[X]) clear(c->slot[DX]);
    if (c->meta->in_grad[W]) clear(c->slot[DW]);
    for (int64_t r = 0; r < rows; r++) {
        int32_t label = rp_int_get(c->in[LABELS], r);
        if (label != a->ignore_index) sum += reference_row(c, r, label, x, w, dx, logits);
    }
    return sum;
}

/* The chunk's logits become their gradient, weight included, then two products. */
static rp_status run_chunk(const rp_op_call *c, int64_t start, int64_t rows, uint8_t *logits, float *loss, void *scratch)
{
    const rp_attr_cross_entropy *a = c->attr;
    const rp_op_meta *m = c->meta;
    const rp_kernels *k = rp__op_kernels(c);
    const int32_t *labels = (const int32_t *)rp__data(c->in[LABELS]) + start;
    const void *x  = rp__data_at(c->in[X], start * m->in[W].dim[1]);
    rp_gemm forward = product_logits(m, rows), dx = product_dx(m, rows), dw = product_dw(m, rows, start > 0);
    int64_t classes = m->in[W].dim[0];

    RP_TRY(rp__gemm(c->ctx, &forward, x, rp__data(c->in[W]), logits, NULL, scratch));
    if (!m->want_grad) {
        k->cross_entropy_forward(m->in[X].dtype, logits, labels, a->ignore_index, loss, NULL, rows, classes, m->threads);
        return RP_OK;
    }
    k->cross_entropy_in_place(m->in[X].dtype, logits, labels, a->ignore_index, a->weight, loss, rows, classes, m->threads);
    if (m->in_grad[X])
        RP_TRY(rp__gemm(c->ctx, &dx, logits, rp__data(c->in[W]), rp__data_at(c->slot[DX], start * m->in[W].dim[1]), NULL, scratch));
    if (m->in_grad[W]) RP_TRY(rp__gemm(c->ctx, &dw, logits, x, rp__data(c->slot[DW]), NULL, scratch));
    return RP_OK;
}

static rp_status run_chunks(const rp_op_call *c, double *sum)
{
    int64_t rows = rp_meta_rows(&c->meta->in[X]), q = quantum(c->meta);
    layout l         = forward_layout(c->meta);
    uint8_t *scratch = c->scratch;
    float *loss      = (float *)(scratch + l.losses);

    if (rows == 0 && c->meta->in_grad[W]) rp__tensor_zero(c->slot[DW]);
    for (int64_t start = 0; start < rows; start += q)
        RP_TRY(run_chunk(c, start, rows - start < q ? rows - start : q, scratch + l.logits, loss + start, scratch + l.products));
    *sum = 0;
    for (int64_t r = 0; r < rows; r++) *sum += loss[r];
    return RP_OK;
}

static void linear_cross_entropy_forward(const rp_op_call *c)
{
    const rp_attr_cross_entropy *a = c->attr;
    rp_status status = rp__check_labels(c, LABELS, c->meta->in[W].dim[0], a->ignore_index);
    double sum = 0;

    if (status == RP_OK && rp__op_has_kernels(c)) status = run_chunks(c, &sum);
    else if (status == RP_OK) sum = reference_sum(c);
    if (status != RP_OK) rp__op_failed(c, status);
    else rp_elem_put(c->out[LOSS], 0, (double)a->weight * sum);
}

static void linear_cross_entropy_backward(const rp_op_call *c)
{
    const rp_kernels *k = rp__op_kernels(c);
    double g            = rp_elem_get(c->grad_out[LOSS], 0);

    for (int i = X; i <= W; i++) {
        const rp_tensor *made = c->slot[i == X ? DX : DW];
        int64_t n             = rp_meta_elems(&c->meta->in[i]), width = c->meta->in[W].dim[1];
        double *row           = c->scratch;
        if (!c->grad_in[i]) continue;
        if (k->scale) {
            k->scale(made->m.dtype, rp_tensor_data(made), (float)g, rp__data(c->grad_in[i]), rp__grad_dtype(c, i), c->grad_adds[i], n,
                     c->meta->threads);
            continue;
        }
        for (int64_t r = 0; r < n / (width ? width : 1); r++) {
            rp_row_get(made, r, row);
            for (int64_t j = 0; j < width; j++) row[j] *= g;
            rp_row_grad(c, i, r, row);
        }
    }
}

#define LABELS_FROM(low, high) .int_inputs = RP_IN(LABELS), .int_low = { [LABELS] = low }, .int_high = { [LABELS] = high }
/* In bf16 the logits and their gradient are rounded on the way. */
#define MEAN_OF(rows, ignore, chunk) .attr = &(rp_attr_cross_entropy){ 1.0f / (rows), ignore, chunk }, .roundings = 2

static const rp_op_case linear_cross_entropy_cases[] = {
    { "one row",        .in = { { 1, 8 },    { 5, 8 },   { 1 } },    LABELS_FROM(0, 4),   MEAN_OF(1, -100, 0) },
    { "one chunk",      .in = { { 2, 3, 7 }, { 9, 7 },   { 2, 3 } }, LABELS_FROM(0, 8),   MEAN_OF(6, -100, 0) },
    { "ragged chunks",  .in = { { 7, 5 },    { 11, 5 },  { 7 } },    LABELS_FROM(-1, 10), MEAN_OF(7, -1, 3) },
    { "even chunks",    .in = { { 6, 16 },   { 33, 16 }, { 6 } },    LABELS_FROM(0, 32),  MEAN_OF(6, -100, 2) },
    { "all ignored",    .in = { { 3, 4 },    { 5, 4 },   { 3 } },    LABELS_FROM(-1, -1), MEAN_OF(1, -1, 2) },
    { "evaluation",     .in = { { 5, 4 },    { 7, 4 },   { 5 } },    LABELS_FROM(-1, 6),  MEAN_OF(5, -1, 2), .eval = true },
    { "no such class",  .in = { { 3, 4 },    { 5, 4 },   { 3 } },    LABELS_FROM(5, 5),   MEAN_OF(1, -1, 0),   .expect = RP_ERR_ARG },
    { "inner differs",  .in = { { 3, 4 },    { 5, 3 },   { 3 } },    LABELS_FROM(0, 4),   MEAN_OF(1, -1, 0),   .expect = RP_ERR_SHAPE },
    { "short labels",   .in = { { 3, 4 },    { 5, 4 },   { 2 } },    LABELS_FROM(0, 4),   MEAN_OF(1, -1, 0),   .expect = RP_ERR_SHAPE },
    { "negative chunk", .in = { { 3, 4 },    { 5, 4 },   { 3 } },    LABELS_FROM(0, 4),   MEAN_OF(1, -1, -1),  .expect = RP_ERR_ARG },
};

const rp_op rp_op_linear_cross_entropy = {
    .name = "linear_cross_entropy", .n_in = 3, .n_out = 1, .n_slot = 2, .attr_size = sizeof(rp_attr_cross_entropy),
    .no_grad_in = RP_IN(LABELS),
    .wide_grad_in = RP_IN(W),
    .needs = RP_SLOT(DX) | RP_SLOT(DW),
    .shape = linear_cross_entropy_shape, .cost = linear_cross_entropy_cost,
    .forward = linear_cross_entropy_forward, .backward = linear_cross_entropy_backward,
    .cases = linear_cross_entropy_cases, .n_case = RP_COUNT(linear_cross_entropy_cases),
};
