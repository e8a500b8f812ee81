/* ops/spread.c -- copies a row for each choice of each token, sorted by expert: the input of a grouped product.
 *
 *   in     x [..., n]   choices [..., k] int32, each in [0, experts): checked before x is read
 *   out    y [R, n]     row place[t*k + j] is row t of x (ops/experts.h); R = tokens * k, for every distribution
 *   needs  choices: dx of a token is the sum over its choices, in their order, of the rows of dy
 */
#include "ops/experts.h"

enum { X, CHOICES };
enum { Y };

static int64_t experts_of(const rp_op_meta *m) { return ((const rp_attr_experts *)m->attr)->experts; }
static int64_t slots_of(const rp_op_meta *m) { return rp_meta_elems(&m->in[CHOICES]); }
static int64_t tokens_of(const rp_op_meta *m) { return rp_meta_rows(&m->in[X]); }

static rp_status spread_shape(rp_op_meta *m)
{
    int64_t n = rp_meta_dim(&m->in[X], -1), row = rp__op_fast(m) ? 0 : 2 * n * (int64_t)sizeof(double);

    RP_CHECK(m->ctx, rp_meta_is_float(&m->in[X]), RP_ERR_DTYPE, "spread: x is %s, expected a floating dtype", rp_meta_str(&m->in[X]));
    RP_TRY(rp__check_routes(m, CHOICES, tokens_of(m), experts_of(m)));
    m->out[Y]                 = rp_meta_2d(m->in[X].dtype, slots_of(m), n);
    m->scratch_bytes          = rp__experts_layout(m->ctx, slots_of(m), experts_of(m)).total + row;
    m->scratch_backward_bytes = m->scratch_bytes;
    return RP_OK;
}

static rp_cost spread_cost(const rp_op_meta *m, rp_pass pass)
{
    return rp__cost(m, pass, pass == RP_FORWARD ? 0 : rp_meta_elems(&m->out[Y]));
}

static double *spread_row_of(const rp_op_call *c)
{
    return (double *)(void *)((uint8_t *)c->scratch + rp__experts_layout(c->ctx, slots_of(c->meta), experts_of(c->meta)).total);
}

static void spread_forward(const rp_op_call *c)
{
    const rp_kernels *kernels = rp__op_kernels(c);
    int64_t n = rp_meta_dim(&c->meta->in[X], -1), tokens = tokens_of(c->meta), k = slots_of(c->meta) / tokens;

    if (rp__op_failed(c, rp__check_choices(c, CHOICES, experts_of(c->meta)))) return;
    const int32_t *place = rp__experts_sort(c, CHOICES, experts_of(c->meta));
    if (kernels->spread_rows) {
        kernels->spread_rows(c->meta->in[X].dtype, rp__data(c->in[X]), place, NULL, rp__data(c->out[Y]), c->meta->in[X].dtype, false, tokens, k,
                             n, rp__on(c->meta));
        return;
    }
    for (int64_t s = 0; s < tokens * k; s++) {
        rp_row_get(c->in[X], s / k, spread_row_of(c));
        rp_row_put(c->out[Y], place[s], spread_row_of(c));
    }
}

static void spread_reference_backward(const rp_op_call *c, const int32_t *place, int64_t tokens, int64_t k)
{
    int64_t n   = rp_meta_dim(&c->meta->in[X], -1);
    double *sum = spread_row_of(c), *row = sum + n;

    for (int64_t t = 0; t < tokens; t++) {
        memset(sum, 0, (size_t)n * sizeof *sum);
        for (int64_t j = 0; j < k; j++) {
            rp_row_get(c->grad_out[Y], place[t * k + j], row);
            for (int64_t i = 0; i < n; i++) sum[i] += row[i];
        }
        rp_row_grad(c, X, t, sum);
    }
}

static void spread_backward(const rp_op_call *c)
{
    const rp_kernels *kernels = rp__op_kernels(c);
    int64_t n = rp_meta_dim(&c->meta->in[X], -1), tokens = tokens_of(c->meta), k = slots_of(c->meta) / tokens;
    const int32_t *place = rp__experts_sort(c, CHOICES, experts_of(c->meta));

    if (kernels->gather_rows)
        kernels->gather_rows(c->meta->in[X].dtype, rp__data(c->grad_out[Y]), place, NULL, rp__data(c->grad_in[X]), rp__grad_dtype(c, X),
                             c->grad_adds[X], tokens, k, n, rp__on(c->meta));
    else spread_reference_backward(c, place, tokens, k);
}

#define CHOICES_FROM(low, high) .int_inputs = RP_IN(CHOICES), .int_low = { [CHOICES] = low }, .int_high = { [CHOICES] = high }
#define OF(n) .attr = &(rp_attr_experts){ n }

static const rp_op_case spread_cases[] = {
    { "two of four",     .in = { { 2, 3, 7 }, { 2, 3, 2 } }, OF(4), CHOICES_FROM(0, 3) },
    { "one expert",      .in = { { 5, 19 },   { 5, 1 } },    OF(6), CHOICES_FROM(2, 2) },
    { "wide rows",       .in = { { 9, 530 },  { 9, 3 } },    OF(40), CHOICES_FROM(0, 39) },
    { "no such expert",  .in = { { 4, 7 },    { 4, 2 } },    OF(4), CHOICES_FROM(4, 4),   .expect = RP_ERR_ARG },
    { "negative",        .in = { { 4, 7 },    { 4, 2 } },    OF(4), CHOICES_FROM(-1, -1), .expect = RP_ERR_ARG },
    { "of other tokens", .in = { { 4, 7 },    { 3, 1 } },    OF(4), CHOICES_FROM(0, 3),   .expect = RP_ERR_SHAPE },
    { "floating",        .in = { { 4, 7 },    { 4, 2 } },    OF(4),                       .expect = RP_ERR_DTYPE },
    { "no experts",      .in = { { 4, 7 },    { 4, 2 } },    OF(0), CHOICES_FROM(0, 3),   .expect = RP_ERR_SHAPE },
};

const rp_op rp_op_spread = {
    .name = "spread", .n_in = 2, .n_out = 1, .attr_size = sizeof(rp_attr_experts), .no_grad_in = RP_IN(CHOICES),
    .needs = RP_IN(CHOICES),
    .shape = spread_shape, .cost = spread_cost,
    .forward = spread_forward, .backward = spread_backward,
    .cases = spread_cases, .n_case = RP_COUNT(spread_cases),
};
