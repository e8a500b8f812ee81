/* ops/combine.c -- sums the weighted rows of experts into their tokens: the last op of a mixture of experts.
 *
 *   in     y [R, n] by expert   weights [..., k], fp32 (fp64 beside fp64)   choices [..., k] int32, each in [0, experts): checked
 *   out    z [..., n]           row t is the sum over j, in order, of weights[t, j] * row place[t*k + j] of y (ops/experts.h), rounded once
 *   needs  choices; weights for dy, y for dweights
 */
#include "ops/experts.h"

enum { ROWS, WEIGHTS, CHOICES };
enum { Z };

static int64_t experts_of(const rp_op_meta *m) { return ((const rp_attr_experts *)m->attr)->experts; }
static int64_t slots_of(const rp_op_meta *m) { return rp_meta_elems(&m->in[CHOICES]); }
static int64_t tokens_of(const rp_op_meta *m) { return rp_meta_rows(&m->in[CHOICES]); }
static int64_t each_of(const rp_op_meta *m) { return rp_meta_dim(&m->in[CHOICES], -1); }
static int64_t width(const rp_op_meta *m) { return rp_meta_dim(&m->in[ROWS], -1); }

static rp_status combine_shape(rp_op_meta *m)
{
    const rp_meta *y = &m->in[ROWS], *w = &m->in[WEIGHTS];

    RP_CHECK(m->ctx, rp_meta_is_float(y) && w->dtype == rp_meta_stat_dtype(y), RP_ERR_DTYPE, "combine: rows are %s and weights %s, expected "
             "a floating dtype and %s", rp_meta_str(y), rp_meta_str(w), rp_dtype_name(rp_meta_stat_dtype(y)));
    RP_TRY(rp__check_int32(m, CHOICES, "choices"));
    RP_CHECK(m->ctx, y->ndim == 2 && w->ndim >= 1 && rp_meta_same_shape(w, &m->in[CHOICES]) && y->dim[0] == slots_of(m), RP_ERR_SHAPE,
             "combine: rows are %s, weights %s, choices %s, expected a row for each choice and a weight for each", rp_meta_str(y),
             rp_meta_str(w), rp_meta_str(&m->in[CHOICES]));
    RP_TRY(rp__check_routes(m, CHOICES, rp_meta_rows(w), experts_of(m)));
    m->out[Z]       = *w;
    m->out[Z].dtype = y->dtype;
    m->out[Z].dim[w->ndim - 1] = width(m);
    rp__read_for(m, RP_IN(WEIGHTS), RP_IN(ROWS));
    rp__read_for(m, RP_IN(ROWS), RP_IN(WEIGHTS));
    m->scratch_bytes = rp__experts_layout(m->ctx, slots_of(m), experts_of(m)).total + (rp__op_fast(m) ? 0 : 2 * width(m) * (int64_t)sizeof(double));
    m->scratch_backward_bytes = m->scratch_bytes;
    return RP_OK;
}

static rp_cost combine_cost(const rp_op_meta *m, rp_pass pass)
{
    int64_t each = pass == RP_FORWARD ? 2 : m->in_grad[ROWS] + 2 * m->in_grad[WEIGHTS];

    return rp__cost(m, pass, rp_meta_elems(&m->in[ROWS]) * each);
}

static double *combine_row_of(const rp_op_call *c)
{
    return (double *)(void *)((uint8_t *)c->scratch + rp__experts_layout(c->ctx, slots_of(c->meta), experts_of(c->meta)).total);
}

static void reference_forward(const rp_op_call *c, const int32_t *place)
{
    int64_t n   = width(c->meta), k = each_of(c->meta);
    double *sum = combine_row_of(c), *row = sum + n;

    for (int64_t t = 0; t < tokens_of(c->meta); t++) {
        memset(sum, 0, (size_t)n * sizeof *sum);
        for (int64_t j = 0; j < k; j++) {
            rp_row_get(c->in[ROWS], place[t * k + j], row);
            for (int64_t i = 0; i < n; i++) sum[i] += rp_elem_get(c->in[WEIGHTS], t * k + j) * row[i];
        }
        rp_row_put(c->out[Z], t, sum);
    }
}

static void combine_forward(const rp_op_call *c)
{
    const rp_kernels *kernels = rp__op_kernels(c);
    int64_t k                 = each_of(c->meta);

    if (rp__op_failed(c, rp__check_choices(c, CHOICES, experts_of(c->meta)))) return;
    const int32_t *place = rp__experts_sort(c, CHOICES, experts_of(c->meta));
    if (kernels->gather_rows)
        kernels->gather_rows(c->meta->in[ROWS].dtype, rp__data(c->in[ROWS]), place, rp__data(c->in[WEIGHTS]), rp__data(c->out[Z]),
                             c->meta->in[ROWS].dtype, false, tokens_of(c->meta), k, width(c->meta), rp__on(c->meta));
    else reference_forward(c, place);
}

static void combine_reference_backward(const rp_op_call *c, const int32_t *place)
{
    int64_t n  = width(c->meta), k = each_of(c->meta);
    double *dz = combine_row_of(c), *row = dz + n;

    for (int64_t s = 0; s < slots_of(c->meta); s++) {
        double dot = 0;
        rp_row_get(c->grad_out[Z], s / k, dz);
        if (c->grad_in[WEIGHTS]) {
            rp_row_get(c->in[ROWS], place[s], row);
            for (int64_t i = 0; i < n; i++) dot += dz[i] * row[i];
            rp__elem_grad(c, WEIGHTS, s, dot);
        }
        if (!c->grad_in[ROWS]) continue;
        for (int64_t i = 0; i < n; i++) row[i] = rp_elem_get(c->in[WEIGHTS], s) * dz[i];
        rp_row_grad(c, ROWS, place[s], row);
    }
}

static void combine_backward(const rp_op_call *c)
{
    const rp_kernels *kernels = rp__op_kernels(c);
    rp_dtype dtype       = c->meta->in[ROWS].dtype;
    int64_t k            = each_of(c->meta), tokens = tokens_of(c->meta), n = width(c->meta);
    const int32_t *place = rp__experts_sort(c, CHOICES, experts_of(c->meta));

    if (!kernels->spread_rows) {
        combine_reference_backward(c, place);
        return;
    }
    if (c->grad_in[ROWS])
        kernels->spread_rows(dtype, rp__data(c->grad_out[Z]), place, rp__data(c->in[WEIGHTS]), rp__data(c->grad_in[ROWS]),
                             rp__grad_dtype(c, ROWS), c->grad_adds[ROWS], tokens, k, n, rp__on(c->meta));
    if (c->grad_in[WEIGHTS])
        kernels->dot_rows(dtype, rp__data(c->grad_out[Z]), rp__data(c->in[ROWS]), place, rp__data(c->grad_in[WEIGHTS]), c->grad_adds[WEIGHTS],
                          tokens, k, n, rp__on(c->meta));
}

#define CHOICES_FROM(low, high) \
    .int_inputs = RP_IN(CHOICES), .int_low = { [CHOICES] = low }, .int_high = { [CHOICES] = high }, .stat_inputs = RP_IN(WEIGHTS)
#define OF(n) .attr = &(rp_attr_experts){ n }

static const rp_op_case combine_cases[] = {
    { "two of four",     .in = { { 12, 7 },  { 2, 3, 2 }, { 2, 3, 2 } }, OF(4), CHOICES_FROM(0, 3) },
    { "one each",        .in = { { 5, 19 },  { 5, 1 },    { 5, 1 } },    OF(6), CHOICES_FROM(2, 2) },
    { "wide rows",       .in = { { 27, 530 }, { 9, 3 },   { 9, 3 } },    OF(40), CHOICES_FROM(0, 39) },
    { "one token",       .in = { { 4, 33 },  { 4 },       { 4 } },       OF(8), CHOICES_FROM(0, 7) },
    { "no such expert",  .in = { { 8, 7 },   { 4, 2 },    { 4, 2 } },    OF(4), CHOICES_FROM(4, 4), .expect = RP_ERR_ARG },
    { "rows are missing", .in = { { 7, 7 },  { 4, 2 },    { 4, 2 } },    OF(4), CHOICES_FROM(0, 3), .expect = RP_ERR_SHAPE },
    { "weights differ",  .in = { { 8, 7 },   { 2, 4 },    { 4, 2 } },    OF(4), CHOICES_FROM(0, 3), .expect = RP_ERR_SHAPE },
    { "floating",        .in = { { 8, 7 },   { 4, 2 },    { 4, 2 } },    OF(4), .stat_inputs = RP_IN(WEIGHTS), .expect = RP_ERR_DTYPE },
};

const rp_op rp_op_combine = {
    .name = "combine", .n_in = 3, .n_out = 1, .attr_size = sizeof(rp_attr_experts), .no_grad_in = RP_IN(CHOICES),
    .needs = RP_IN(ROWS) | RP_IN(WEIGHTS) | RP_IN(CHOICES),
    .shape = combine_shape, .cost = combine_cost,
    .forward = combine_forward, .backward = combine_backward,
    .cases = combine_cases, .n_case = RP_COUNT(combine_cases),
};
