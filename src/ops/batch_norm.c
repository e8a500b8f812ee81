/* ops/batch_norm.c -- y = (x - mean) * rstd * w + b for each feature, rstd = 1/sqrt(variance + eps) (Ioffe and Szegedy 2015).
 *
 *   in     x [N, ..., n]   w [n]   b [n]                one floating dtype; a feature's statistics are over all rows
 *          running_mean [n]   running_var [n]           fp32 (fp64 in fp64)
 *   out    y [N, ..., n]
 *   slots  mean [n], rstd [n]                           of the batch; in train mode only
 *   train  uses the batch's own mean and biased variance. The running statistics move towards the batch's mean and unbiased variance by
 *          `momentum`, once per call: a replay leaves them unchanged, and y does not depend on them
 *   eval   uses the running statistics, which backward then reads
 *   order  rows are summed in order, for any number of threads, so a replayed forward is bitwise equal
 */
#include "ops/common.h"

enum { X, W, B, RUNNING_MEAN, RUNNING_VAR };
enum { Y };
enum { MEAN, RSTD };

/* Removes from needs the tensors that backward does not read. x and the mean serve dw. In train mode the statistics depend on x, so dx needs them, too. */
static void narrow_needs(rp_op_meta *m)
{
    uint32_t running = RP_IN(RUNNING_MEAN) | RP_IN(RUNNING_VAR), batch = RP_SLOT(MEAN) | RP_SLOT(RSTD), both = RP_IN(X) | RP_IN(W);

    m->needs &= ~(m->train ? running : batch);
    rp__read_for(m, RP_IN(W), RP_IN(X));
    rp__read_for(m, RP_SLOT(RSTD) | RP_IN(RUNNING_VAR), both);
    rp__read_for(m, RP_IN(X) | RP_SLOT(MEAN) | RP_IN(RUNNING_MEAN), m->train ? both : RP_IN(W));
}

static rp_status check_inputs(const rp_op_meta *m)
{
    static const char *const name[] = { "x", "weight", "bias", "running mean", "running variance" };
    int64_t n      = rp_meta_dim(&m->in[X], -1);
    rp_dtype dtype = m->in[X].dtype;

    RP_CHECK(m->ctx, rp_meta_is_float(&m->in[X]), RP_ERR_DTYPE, "batch_norm: x is %s, expected a floating dtype", rp_meta_str(&m->in[X]));
    RP_CHECK(m->ctx, m->in[X].ndim >= 2 && n > 0, RP_ERR_SHAPE, "batch_norm: x is %s, expected rows of features", rp_meta_str(&m->in[X]));
    for (int i = W; i <= RUNNING_VAR; i++) {
        rp_dtype expected = i >= RUNNING_MEAN ? rp_meta_stat_dtype(&m->in[X]) : dtype;
        RP_CHECK(m->ctx, m->in[i].dtype == expected, RP_ERR_DTYPE, "batch_norm: %s is %s beside x of %s, expected %s", name[i],
                 rp_meta_str(&m->in[i]), rp_dtype_name(dtype), rp_dtype_name(expected));
        RP_CHECK(m->ctx, m->in[i].ndim == 1 && m->in[i].dim[0] == n, RP_ERR_SHAPE, "batch_norm: %s is %s, expected [%" PRId64 "]", name[i],
                 rp_meta_str(&m->in[i]), n);
    }
    RP_CHECK(m->ctx, !m->train || rp_meta_rows(&m->in[X]) > 1, RP_ERR_SHAPE,
             "batch_norm: %s is %" PRId64 " row%s, expected more than one in train mode", rp_meta_str(&m->in[X]), rp_meta_rows(&m->in[X]),
             rp_meta_rows(&m->in[X]) == 1 ? "" : "s");
    return RP_OK;
}

static rp_status batch_norm_shape(rp_op_meta *m)
{
    int64_t n = rp_meta_dim(&m->in[X], -1);

    RP_TRY(check_inputs(m));
    m->out[Y]                 = m->in[X];
    m->n_slot                 = m->train ? 2 : 0;
    m->slot[MEAN]             = m->slot[RSTD] = rp_meta_1d(rp_meta_stat_dtype(&m->in[X]), n);
    m->scratch_bytes          = 5 * n * (int64_t)sizeof(double);
    m->scratch_backward_bytes = 7 * n * (int64_t)sizeof(double);
    narrow_needs(m);
    return RP_OK;
}

static rp_cost batch_norm_cost(const rp_op_meta *m, rp_pass pass)
{
    int64_t e    = rp_meta_elems(&m->in[X]);
    rp_cost cost = rp__cost(m, pass, e * (pass == RP_FORWARD ? (m->train ? 8 : 4) : (m->train ? 12 : 6)));

    if (pass == RP_FORWARD && m->train) cost.write_bytes += 2 * rp_meta_bytes(&m->in[RUNNING_MEAN]);
    return cost;
}

/* Mean and biased variance of each feature over all rows. */
static void batch_statistics(const rp_op_call *c, double *mean, double *var, double *x)
{
    int64_t n = rp_meta_dim(&c->meta->in[X], -1), rows = rp_meta_rows(&c->meta->in[X]);

    memset(mean, 0, (size_t)n * sizeof *mean);
    memset(var, 0, (size_t)n * sizeof *var);
    for (int64_t r = 0; r < rows; r++) {
        rp_row_get(c->in[X], r, x);
        for (int64_t i = 0; i < n; i++) mean[i] += x[i];
    }
    for (int64_t i = 0; i < n; i++) mean[i] /= (double)rows;
    for (int64_t r = 0; r < rows; r++) {
        rp_row_get(c->in[X], r, x);
        for (int64_t i = 0; i < n; i++) var[i] += (x[i] - mean[i]) * (x[i] - mean[i]);
    }
    for (int64_t i = 0; i < n; i++) var[i] /= (double)rows;
}

static void move(rp_tensor *running, const double *batch, double factor, double momentum, double *r)
{
    int64_t n = rp_meta_dim(&running->m, -1);

    rp_row_get(running, 0, r);
    for (int64_t i = 0; i < n; i++) r[i] = (1 - momentum) * r[i] + momentum * factor * batch[i];
    rp_row_put(running, 0, r);
}

static void move_running(const rp_op_call *c, const double *mean, const double *var, double *r)
{
    const rp_attr_batch_norm *a = c->attr;
    double rows                 = (double)rp_meta_rows(&c->meta->in[X]);

    move(c->in[RUNNING_MEAN], mean, 1, (double)a->momentum, r);
    move(c->in[RUNNING_VAR], var, rows / (rows - 1), (double)a->momentum, r);
}

static void launch_forward(const rp_op_call *c)
{
    const rp_attr_batch_norm *a = c->attr;

    rp__op_kernels(c)->batch_norm_forward(c->meta->in[X].dtype, rp__data(c->in[X]), rp__data(c->in[W]), rp__data(c->in[B]), rp__data(c->in[RUNNING_MEAN]),
                                          rp__data(c->in[RUNNING_VAR]), c->meta->train, !c->replaying, a->eps, a->momentum, rp__data(c->out[Y]),
                                          rp__data(c->slot[MEAN]), rp__data(c->slot[RSTD]), rp_meta_rows(&c->meta->in[X]),
                                          rp_meta_dim(&c->meta->in[X], -1), rp__on(c->meta));
}

static void batch_norm_forward(const rp_op_call *c)
{
    const rp_attr_batch_norm *a = c->attr;
    int64_t n = rp_meta_dim(&c->meta->in[X], -1), rows = rp_meta_rows(&c->meta->in[X]);
    double *mean = c->scratch, *rstd = mean + n, *x = rstd + n, *w = x + n, *b = w + n;

    if (rp__op_kernels(c)->batch_norm_forward) {
        launch_forward(c);
        return;
    }
    if (c->meta->train) {
        batch_statistics(c, mean, rstd, x);
        if (!c->replaying) move_running(c, mean, rstd, x);
    } else {
        rp_row_get(c->in[RUNNING_MEAN], 0, mean);
        rp_row_get(c->in[RUNNING_VAR], 0, rstd);
    }
    for (int64_t i = 0; i < n; i++) rstd[i] = 1 / sqrt(rstd[i] + (double)a->eps);
    rp_row_get(c->in[W], 0, w);
    rp_row_get(c->in[B], 0, b);
    for (int64_t r = 0; r < rows; r++) {
        rp_row_get(c->in[X], r, x);
        for (int64_t i = 0; i < n; i++) x[i] = (x[i] - mean[i]) * rstd[i] * w[i] + b[i];
        rp_row_put(c->out[Y], r, x);
    }
    if (!c->slot[MEAN]) return;
    rp_row_put(c->slot[MEAN], 0, mean);
    rp_row_put(c->slot[RSTD], 0, rstd);
}

/* Reads a row of a tensor that may be absent. Zeros stand for an absent one; they only enter results that are not wanted. */
static void read_row(const rp_tensor *t, int64_t row, double *to, int64_t n)
{
    if (t) rp_row_get(t, row, to);
    else memset(to, 0, (size_t)n * sizeof *to);
}

static void read_statistics(const rp_op_call *c, double *mean, double *rstd)
{
    const rp_attr_batch_norm *a = c->attr;
    int64_t n                   = rp_meta_dim(&c->meta->in[X], -1);

    read_row(c->meta->train ? c->slot[MEAN] : c->in[RUNNING_MEAN], 0, mean, n);
    read_row(c->meta->train ? c->slot[RSTD] : c->in[RUNNING_VAR], 0, rstd, n);
    for (int64_t i = 0; i < n && !c->meta->train; i++) rstd[i] = 1 / sqrt(rstd[i] + (double)a->eps);
}

/* With g = dy and h = (x - mean) rstd:  db = sum of g,  dw = sum of g h. */
static void sum_gradients(const rp_op_call *c, const double *mean, const double *rstd, double *dw, double *db, double *x, double *g)
{
    int64_t n = rp_meta_dim(&c->meta->in[X], -1), rows = rp_meta_rows(&c->meta->in[X]);

    memset(dw, 0, (size_t)n * sizeof *dw);
    memset(db, 0, (size_t)n * sizeof *db);
    for (int64_t r = 0; r < rows; r++) {
        read_row(c->in[X], r, x, n);
        rp_row_get(c->grad_out[Y], r, g);
        for (int64_t i = 0; i < n; i++) {
            dw[i] += g[i] * (x[i] - mean[i]) * rstd[i];
            db[i] += g[i];
        }
    }
}

/* In train mode the statistics depend on x:  dx = w rstd (g - (db + h dw) / rows). */
static void remove_shares(const rp_op_call *c, int64_t row, const double *mean, const double *rstd, const double *dw, const double *db,
                          double *x, double *g)
{
    int64_t n    = rp_meta_dim(&c->meta->in[X], -1);
    double share = 1 / (double)rp_meta_rows(&c->meta->in[X]);

    rp_row_get(c->in[X], row, x);
    for (int64_t i = 0; i < n; i++) g[i] -= share * (db[i] + (x[i] - mean[i]) * rstd[i] * dw[i]);
}

static void launch_backward(const rp_op_call *c)
{
    const rp_attr_batch_norm *a = c->attr;
    bool train                  = c->meta->train;

    rp__op_kernels(c)->batch_norm_backward(c->meta->in[X].dtype, rp__data(c->in[X]), rp__data(c->in[W]),
                                           rp__data(train ? c->slot[MEAN] : c->in[RUNNING_MEAN]), rp__data(train ? c->slot[RSTD] : c->in[RUNNING_VAR]),
                                           train, a->eps, rp__data(c->grad_out[Y]), rp__data(c->grad_in[X]), rp__grad_dtype(c, X), c->grad_adds[X],
                                           rp__data(c->grad_in[W]), rp__grad_dtype(c, W), c->grad_adds[W], rp__data(c->grad_in[B]),
                                           rp__grad_dtype(c, B), c->grad_adds[B], rp_meta_rows(&c->meta->in[X]), rp_meta_dim(&c->meta->in[X], -1),
                                           rp__on(c->meta));
}

static void batch_norm_backward(const rp_op_call *c)
{
    int64_t n = rp_meta_dim(&c->meta->in[X], -1), rows = rp_meta_rows(&c->meta->in[X]);
    double *mean = c->scratch, *rstd = mean + n, *w = rstd + n, *dw = w + n, *db = dw + n, *x = db + n, *g = x + n;

    if (rp__op_kernels(c)->batch_norm_backward) {
        launch_backward(c);
        return;
    }
    read_statistics(c, mean, rstd);
    sum_gradients(c, mean, rstd, dw, db, x, g);
    if (c->grad_in[W]) rp_row_grad(c, W, 0, dw);         /* summed completely, rounded once */
    if (c->grad_in[B]) rp_row_grad(c, B, 0, db);
    if (!c->grad_in[X]) return;
    rp_row_get(c->in[W], 0, w);
    for (int64_t r = 0; r < rows; r++) {
        rp_row_get(c->grad_out[Y], r, g);
        if (c->meta->train) remove_shares(c, r, mean, rstd, dw, db, x, g);
        for (int64_t i = 0; i < n; i++) g[i] *= w[i] * rstd[i];
        rp_row_grad(c, X, r, g);
    }
}

#define RUNNING (RP_IN(RUNNING_MEAN) | RP_IN(RUNNING_VAR))
#define USUAL .attr = &(rp_attr_batch_norm){ 1e-5f, 0.1f }, .stat_inputs = RUNNING
#define LARGE_EPS .attr = &(rp_attr_batch_norm){ 1.5f, 0.1f }, .stat_inputs = RUNNING

/* If the drawn running variances are read, eps is large, because some of them are negative. */
static const rp_op_case batch_norm_cases[] = {
    { "rows",            .in = { { 9, 5 },        { 5 },  { 5 },  { 5 },  { 5 } },  USUAL },
    { "two rows",        .in = { { 2, 7 },        { 7 },  { 7 },  { 7 },  { 7 } },  LARGE_EPS },
    { "more dimensions", .in = { { 3, 4, 2, 17 }, { 17 }, { 17 }, { 17 }, { 17 } }, USUAL },
    { "frozen",          .in = { { 9, 5 },        { 5 },  { 5 },  { 5 },  { 5 } },  LARGE_EPS, .frozen = true },
    { "one row, frozen", .in = { { 1, 5 },        { 5 },  { 5 },  { 5 },  { 5 } },  LARGE_EPS, .frozen = true },
    { "evaluation",      .in = { { 4, 3, 5 },     { 5 },  { 5 },  { 5 },  { 5 } },  LARGE_EPS, .eval = true },
    { "one row",         .in = { { 1, 1, 5 },     { 5 },  { 5 },  { 5 },  { 5 } },  USUAL, .expect = RP_ERR_SHAPE },
    { "no rows",         .in = { { 5 },           { 5 },  { 5 },  { 5 },  { 5 } },  USUAL, .expect = RP_ERR_SHAPE },
    { "bad weight",      .in = { { 4, 5 },        { 4 },  { 5 },  { 5 },  { 5 } },  USUAL, .expect = RP_ERR_SHAPE },
    { "bad variance",    .in = { { 4, 5 },        { 5 },  { 5 },  { 5 },  { 5, 1 } }, USUAL, .expect = RP_ERR_SHAPE },
    { "integer mean",    .in = { { 4, 5 },        { 5 },  { 5 },  { 5 },  { 5 } },  USUAL, .int_inputs = RP_IN(RUNNING_MEAN),
      .expect = RP_ERR_DTYPE },
};

const rp_op rp_op_batch_norm = {
    .name = "batch_norm", .n_in = 5, .n_out = 1, .n_slot = 2, .attr_size = sizeof(rp_attr_batch_norm),
    .flags = RP_OP_EFFECT | RP_OP_REPLAYS, .writes_in = RUNNING, .no_grad_in = RUNNING, .wide_grad_in = RP_IN(W) | RP_IN(B),
    .needs = RP_IN(X) | RP_IN(W) | RUNNING | RP_SLOT(MEAN) | RP_SLOT(RSTD),
    .shape = batch_norm_shape, .cost = batch_norm_cost,
    .forward = batch_norm_forward, .backward = batch_norm_backward,
    .cases = batch_norm_cases, .n_case = RP_COUNT(batch_norm_cases),
};
