/* ops/rotary.c -- rotary position embedding (Su et al. 2021), with pairs `half` elements apart, as in Hugging Face's models:
 * (a, b) -> (a cos - b sin, b cos + a sin) with a = x[i], b = x[half + i]; elements from 2*half on are copied.
 *
 *   in     x [B, T, H, D] floating   positions [B, T] int32, each in [0, P)   cos, sin [P, half] fp32 (fp64 beside fp64), half <= D/2
 *   out    y [B, T, H, D]
 *   needs  positions and the tables: the gradient is rotated back
 */
#include "ops/common.h"

enum { X, POSITIONS, COS, SIN };
enum { Y };

static rp_status rotary_shape(rp_op_meta *m)
{
    const rp_meta *x = &m->in[X], *p = &m->in[POSITIONS];
    rp_dtype stat    = rp_meta_stat_dtype(x);

    RP_CHECK(m->ctx, rp_meta_is_float(x), RP_ERR_DTYPE, "rotary: x is %s, expected a floating dtype", rp_meta_str(x));
    RP_CHECK(m->ctx, x->ndim == 4, RP_ERR_SHAPE, "rotary: x is %s, expected [batch, tokens, heads, d]", rp_meta_str(x));
    RP_TRY(rp__check_int32(m, POSITIONS, "positions"));
    RP_CHECK(m->ctx, p->ndim == 2 && p->dim[0] == x->dim[0] && p->dim[1] == x->dim[1], RP_ERR_SHAPE, "rotary: positions are %s, expected [%"
             PRId64 ", %" PRId64 "]", rp_meta_str(p), x->dim[0], x->dim[1]);
    RP_CHECK(m->ctx, m->in[COS].dtype == stat && m->in[SIN].dtype == stat, RP_ERR_DTYPE, "rotary: cos is %s and sin %s, expected %s",
             rp_meta_str(&m->in[COS]), rp_meta_str(&m->in[SIN]), rp_dtype_name(stat));
    RP_CHECK(m->ctx, m->in[COS].ndim == 2 && rp_meta_same_shape(&m->in[COS], &m->in[SIN]) && 2 * m->in[COS].dim[1] <= x->dim[3],
             RP_ERR_SHAPE, "rotary: cos is %s and sin %s, expected both [positions, at most %" PRId64 "]", rp_meta_str(&m->in[COS]),
             rp_meta_str(&m->in[SIN]), x->dim[3] / 2);
    m->out[Y]        = *x;
    m->scratch_bytes = m->scratch_backward_bytes = rp__op_fast(m) ? 0 : x->dim[3] * (int64_t)sizeof(double);
    return RP_OK;
}

/* A token reads only its own rows of the two tables. */
static rp_cost rotary_cost(const rp_op_meta *m, rp_pass pass)
{
    int64_t half = m->in[COS].dim[1], tokens = rp_meta_elems(&m->in[POSITIONS]), b = rp_meta_bytes(&m->in[X]);
    int64_t rows = tokens * half * 2 * rp_dtype_bytes(m->in[COS].dtype);

    (void)pass;
    return (rp_cost){ .flops = 3 * rp_meta_rows(&m->in[X]) * half * 2, .read_bytes = b + rp_meta_bytes(&m->in[POSITIONS]) + rows,
                      .write_bytes = b };
}

/* Rotates one head's row in place; sign -1 rotates back. */
static void turn(const rp_op_call *c, int64_t token, double sign, double *x)
{
    int64_t half = c->meta->in[COS].dim[1], at = rp_int_get(c->in[POSITIONS], token) * half;

    for (int64_t i = 0; i < half; i++) {
        double a = x[i], b = x[half + i], cosine = rp_elem_get(c->in[COS], at + i), sine = sign * rp_elem_get(c->in[SIN], at + i);
        x[i]        = a * cosine - b * sine;
        x[half + i] = b * cosine + a * sine;
    }
}

static bool run_kernel(const rp_op_call *c, const rp_tensor *from, rp_tensor *to, bool adds, bool inverse)
{
    const rp_kernels *k = rp__op_kernels(c);
    const rp_meta *x    = &c->meta->in[X];

    if (!k->rotary) return false;
    k->rotary(x->dtype, rp__tensor_data(from), rp__data(c->in[POSITIONS]), rp__data(c->in[COS]), rp__data(c->in[SIN]), rp__tensor_data(to),
              to->m.dtype, adds, inverse, x->dim[0] * x->dim[1], x->dim[2], x->dim[3], c->meta->in[COS].dim[0], c->meta->in[COS].dim[1],
              rp__on(c->meta));
    return true;
}

static void rotary_forward(const rp_op_call *c)
{
    int64_t rows = rp_meta_rows(&c->meta->in[X]), heads = c->meta->in[X].dim[2];

    if (rp__op_failed(c, rp__check_ints(c, POSITIONS, c->meta->in[COS].dim[0], NULL, "position", "of token"))) return;
    if (run_kernel(c, c->in[X], c->out[Y], false, false)) return;
    for (int64_t r = 0; r < rows; r++) {
        rp_row_get(c->in[X], r, c->scratch);
        turn(c, r / heads, 1, c->scratch);
        rp_row_put(c->out[Y], r, c->scratch);
    }
}

static void rotary_backward(const rp_op_call *c)
{
    int64_t rows = rp_meta_rows(&c->meta->in[X]), heads = c->meta->in[X].dim[2];

    if (run_kernel(c, c->grad_out[Y], c->grad_in[X], c->grad_adds[X], true)) return;
    for (int64_t r = 0; r < rows; r++) {
        rp_row_get(c->grad_out[Y], r, c->scratch);
        turn(c, r / heads, -1, c->scratch);
        rp_row_grad(c, X, r, c->scratch);
    }
}

#define POSITIONS_FROM(low, high) \
    .int_inputs = RP_IN(POSITIONS), .int_low = { [POSITIONS] = low }, .int_high = { [POSITIONS] = high }, \
    .stat_inputs = RP_IN(COS) | RP_IN(SIN)

static const rp_op_case rotary_cases[] = {
    { "whole heads",   .in = { { 2, 3, 2, 8 },  { 2, 3 }, { 9, 4 },   { 9, 4 } },   POSITIONS_FROM(0, 8) },
    { "odd half",      .in = { { 1, 5, 3, 38 }, { 1, 5 }, { 5, 19 },  { 5, 19 } },  POSITIONS_FROM(0, 4) },
    { "part of heads", .in = { { 2, 2, 2, 7 },  { 2, 2 }, { 3, 2 },   { 3, 2 } },   POSITIONS_FROM(0, 2) },
    { "huge heads",    .in = { { 1, 2, 1, 1030 }, { 1, 2 }, { 2, 515 }, { 2, 515 } }, POSITIONS_FROM(0, 1) },
    { "past the table", .in = { { 1, 2, 1, 4 }, { 1, 2 }, { 3, 2 },   { 3, 2 } },   POSITIONS_FROM(3, 3), .expect = RP_ERR_ARG },
    { "other tokens",  .in = { { 1, 2, 1, 4 },  { 1, 3 }, { 3, 2 },   { 3, 2 } },   POSITIONS_FROM(0, 2), .expect = RP_ERR_SHAPE },
    { "too wide",      .in = { { 1, 2, 1, 4 },  { 1, 2 }, { 3, 3 },   { 3, 3 } },   POSITIONS_FROM(0, 2), .expect = RP_ERR_SHAPE },
};

const rp_op rp_op_rotary = {
    .name = "rotary", .n_in = 4, .n_out = 1, .no_grad_in = RP_IN(POSITIONS) | RP_IN(COS) | RP_IN(SIN),
    .needs = RP_IN(POSITIONS) | RP_IN(COS) | RP_IN(SIN),
    .shape = rotary_shape, .cost = rotary_cost,
    .forward = rotary_forward, .backward = rotary_backward,
    .cases = rotary_cases, .n_case = RP_COUNT(rotary_cases),
};
