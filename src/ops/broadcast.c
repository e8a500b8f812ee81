/* ops/broadcast.c -- functions of two numbers, y = f(a, b), whose operands broadcast. A function is a row of `rows`.
 *
 *   in     a [...]   b [...]     one floating dtype. Counted from the last one, extents are equal, or one of them is 1 or missing
 *   out    y [...]               the larger of each pair of extents
 *
 *   op      y                    da              db                   backward reads
 *   add     a + b                dy              dy                   nothing; an operand of y's shape gets dy itself
 *   sub     a - b                dy              -dy                  nothing
 *   mul     a * b                dy * b          dy * a               b for da, a for db
 *   div     a / b                dy / b          -dy * (a / b) / b    b; a for db
 *   where   mask ? a : b         mask ? dy : 0   mask ? 0 : dy        mask: int32, not 0 is true; input 0, which broadcasts, too
 *
 * The gradient of an operand is summed over the extents that it lacks, in fp32, and rounded once. The order is that of y's elements in the reference.
 * In kernels the shape and the level fix it (kernels/cpu/broadcast.c).
 */
#include "kernels/pointwise.h"
#include "ops/common.h"

enum { Y };

typedef struct {
    double (*value)(double a, double b, bool m), (*slope[2])(double a, double b, bool m);    /* slope: by a, by b */
    int flops, backward_flops;      /* of an element; backward_flops for one gradient */
    uint32_t reads[2];              /* the gradients that read a, those that read b: bits 1 (da) and 2 (db) */
} function;

#define FORMULA(name, formula) \
    static double name(double a, double b, bool m) { return (void)a, (void)b, (void)m, (formula); }

FORMULA(one, 1)
FORMULA(minus_one, -1)
FORMULA(just_a, a)
FORMULA(just_b, b)
FORMULA(sum, a + b)
FORMULA(difference, a - b)
FORMULA(product, a * b)
FORMULA(quotient, a / b)
FORMULA(quotient_by_a, 1 / b)
FORMULA(quotient_by_b, -(a / b) / b)
FORMULA(choice, m ? a : b)
FORMULA(choice_by_a, m ? 1 : 0)
FORMULA(choice_by_b, m ? 0 : 1)

static const function rows[] = {
    [RP_BINARY_ADD]   = { sum,        { one, one },                     1, 1, { 0, 0 } },
    [RP_BINARY_SUB]   = { difference, { one, minus_one },               1, 1, { 0, 0 } },
    [RP_BINARY_MUL]   = { product,    { just_b, just_a },               1, 1, { 2, 1 } },
    [RP_BINARY_DIV]   = { quotient,   { quotient_by_a, quotient_by_b }, 1, 2, { 2, 3 } },
    [RP_BINARY_WHERE] = { choice,     { choice_by_a, choice_by_b },     1, 1, { 0, 0 } },
};

/* a and b follow the mask. */
static int first_of(const rp_op_meta *m) { return m->n_in - 2; }

static rp_spread spread_of(const rp_op_meta *m)
{
    int a = first_of(m);

    return rp__spread(&m->out[Y], &m->in[a], &m->in[a + 1], a ? &m->in[0] : NULL);
}

static rp_status broadcast_shape(rp_op_meta *m, rp_binary f)
{
    int a = first_of(m);

    if (a) RP_TRY(rp__check_int32(m, 0, "elements of the mask"));
    RP_CHECK(m->ctx, rp_meta_is_float(&m->in[a]) && m->in[a + 1].dtype == m->in[a].dtype, RP_ERR_DTYPE,
             "%s: a is %s and b %s, expected one floating dtype", m->op->name, rp_meta_str(&m->in[a]), rp_meta_str(&m->in[a + 1]));
    m->out[Y] = m->in[a];
    for (int i = 0; i < m->n_in; i++)
        RP_CHECK(m->ctx, rp__broadcast(&m->out[Y], &m->in[i]), RP_ERR_SHAPE,
                 "%s: input %d is %s, expected extents that are 1 or those of %s, counted from the last", m->op->name, i, rp_meta_str(&m->in[i]),
                 rp_meta_str(&m->out[Y]));
    RP_TRY(rp__check_size(m, "y", &m->out[Y]));
    for (int k = 0; k < 2; k++) rp__read_for(m, RP_IN(a + k), rows[f].reads[k] << a);
    return RP_OK;
}

static rp_cost backward_cost(const rp_op_meta *m, const function *f)
{
    rp_cost cost = rp__cost(m, RP_BACKWARD, 0);

    for (int i = first_of(m); i < m->n_in; i++) {
        if (!m->in_grad[i]) continue;
        if (rp__op_passes(m, i)) cost.write_bytes -= rp_meta_bytes(&m->in[i]);
        else cost.flops += rp_meta_elems(&m->out[Y]) * f->backward_flops;
    }
    return rp__op_runs_back(m) ? cost : (rp_cost){ 0 };
}

static rp_cost broadcast_cost(const rp_op_meta *m, rp_pass pass, rp_binary f)
{
    return pass == RP_FORWARD ? rp__cost(m, pass, rp_meta_elems(&m->out[Y]) * rows[f].flops) : backward_cost(m, &rows[f]);
}

static double get(const rp_tensor *t, int64_t e) { return t ? rp_elem_get(t, e) : 0; }
static bool mask_at(const rp_op_call *c, const rp_spread_place *p) { return first_of(c->meta) && rp_int_get(c->in[0], p->of[2]) != 0; }

static void broadcast_forward(const rp_op_call *c, rp_binary f)
{
    const rp_kernels *k = rp__op_kernels(c);
    rp_spread s         = spread_of(c->meta);
    rp_tensor *const *x = c->in + first_of(c->meta);

    if (k->binary_forward) {
        k->binary_forward(f, x[0]->m.dtype, &s, rp__data(x[0]), rp__data(x[1]), x == c->in ? NULL : rp__data(c->in[0]), rp__data(c->out[Y]),
                          rp__on(c->meta));
        return;
    }
    for (int64_t e = 0, n = rp_meta_elems(&c->meta->out[Y]); e < n; e++) {
        rp_spread_place p = rp__spread_at(&s, RP_SPREAD_ALL, e);
        rp_elem_put(c->out[Y], e, rows[f].value(rp_elem_get(x[0], p.of[0]), rp_elem_get(x[1], p.of[1]), mask_at(c, &p)));
    }
}

/* An element of an operand adds its terms in the order of y. */
static void reference_gradient(const rp_op_call *c, const function *f, const rp_spread *s, int of)
{
    int a         = first_of(c->meta);
    uint32_t kept = s->has[of];
    int64_t terms = rp__spread_count(s, ~kept);

    for (int64_t e = 0, n = rp_meta_elems(&c->meta->in[a + of]); e < n; e++) {
        int64_t first = rp__spread_at(s, kept, e).y;
        double sum    = 0;
        for (int64_t t = 0; t < terms; t++) {
            int64_t y         = first + rp__spread_at(s, ~kept, t).y;
            rp_spread_place p = rp__spread_at(s, RP_SPREAD_ALL, y);
            sum += rp_elem_get(c->grad_out[Y], y) * f->slope[of](get(c->in[a], p.of[0]), get(c->in[a + 1], p.of[1]), mask_at(c, &p));
        }
        rp__elem_grad(c, a + of, e, sum);
    }
}

static void broadcast_backward(const rp_op_call *c, rp_binary f)
{
    const rp_kernels *k = rp__op_kernels(c);
    rp_spread s         = spread_of(c->meta);
    int a               = first_of(c->meta);

    for (int of = 0; of < 2; of++) {
        if (!c->grad_in[a + of] || rp__op_passes(c->meta, a + of)) continue;
        if (k->binary_backward)
            k->binary_backward(f, of, c->meta->in[a].dtype, &s, rp__data(c->grad_out[Y]), rp__data(c->in[a]), rp__data(c->in[a + 1]),
                               a ? rp__data(c->in[0]) : NULL, rp__data(c->grad_in[a + of]), rp__grad_dtype(c, a + of), c->grad_adds[a + of],
                               rp__on(c->meta));
        else reference_gradient(c, &rows[f], &s, of);
    }
}

/* ---- the ops ---- */

#define BROADCAST(op, ROW, first, needed, ...) \
    static rp_status op##_shape(rp_op_meta *m) { return broadcast_shape(m, RP_BINARY_##ROW); } \
    static rp_cost op##_cost(const rp_op_meta *m, rp_pass pass) { return broadcast_cost(m, pass, RP_BINARY_##ROW); } \
    static void op##_forward(const rp_op_call *c) { broadcast_forward(c, RP_BINARY_##ROW); } \
    static void op##_backward(const rp_op_call *c) { broadcast_backward(c, RP_BINARY_##ROW); } \
    const rp_op rp_op_##op = { \
        .name = #op, .n_in = (first) + 2, .n_out = 1, .needs = needed, .wide_grad_in = RP_IN(first) | RP_IN((first) + 1), .shape = op##_shape, \
        .cost = op##_cost, .forward = op##_forward, .backward = op##_backward, .cases = op##_cases, .n_case = RP_COUNT(op##_cases), __VA_ARGS__ \
    };

#define SPREAD_CASES \
    { "a row of b",     .in = { { 5, 67 },     { 67 } },       .shift = SHIFT }, \
    { "a column of b",  .in = { { 37, 5 },     { 37, 1 } },    .shift = SHIFT }, \
    { "a scalar a",     .in = { { 1 },         { 3, 23 } },    .shift = SHIFT }, \
    { "both broadcast", .in = { { 4, 1, 7 },   { 3, 1 } },     .shift = SHIFT }, \
    { "the middle",     .in = { { 2, 3, 521 }, { 2, 1, 521 } }, .shift = SHIFT }, \
    { "the ends",       .in = { { 1, 9, 1 },   { 5, 9, 20 } }, .shift = SHIFT }, \
    { "eight by turns", .in = { { 3, 1, 2, 1, 5, 1, 2, 1 }, { 1, 2, 1, 3, 1, 2, 1, 1 } }, .shift = SHIFT }, \
    { "inside of five", .in = { { 3, 1 },      { 2, 3, 2, 1, 19 } }, .shift = SHIFT }

#define SHIFT 0

static const rp_op_case add_cases[] = {
    { "a row",         .in = { { 7 },          { 7 } } },
    { "one element",   .in = { { 1 },          { 1 } } },
    { "odd sizes",     .in = { { 3, 5, 7 },    { 3, 5, 7 } } },
    { "three blocks",  .in = { { 3, 521 },     { 3, 521 } } },
    { "shapes differ", .in = { { 2, 4 },       { 4, 2 } }, .expect = RP_ERR_SHAPE },
    { "other rows",    .in = { { 3, 4 },       { 2, 4 } }, .expect = RP_ERR_SHAPE },
    SPREAD_CASES,
};
BROADCAST(add, ADD, 0, 0, .flags = RP_OP_GRAD_PASS)

static const rp_op_case sub_cases[] = {
    { "odd sizes",     .in = { { 3, 5, 7 }, { 3, 5, 7 } } },
    { "three blocks",  .in = { { 3, 521 },  { 3, 521 } } },
    { "shapes differ", .in = { { 2, 4 },    { 4, 2 } }, .expect = RP_ERR_SHAPE },
    SPREAD_CASES,
};
BROADCAST(sub, SUB, 0, 0, .flags = 0)

static const rp_op_case mul_cases[] = {
    { "a row",         .in = { { 7 },       { 7 } } },
    { "one element",   .in = { { 1 },       { 1 } } },
    { "odd sizes",     .in = { { 3, 5, 7 }, { 3, 5, 7 } } },
    { "three blocks",  .in = { { 3, 521 },  { 3, 521 } } },
    { "shapes differ", .in = { { 2, 4 },    { 4, 2 } }, .expect = RP_ERR_SHAPE },
    SPREAD_CASES,
};
BROADCAST(mul, MUL, 0, RP_IN(0) | RP_IN(1), .flags = 0)

#undef SHIFT
#define SHIFT 2

static const rp_op_case div_cases[] = {
    { "odd sizes",     .in = { { 3, 5, 7 }, { 3, 5, 7 } }, .shift = 2 },
    { "below 0",       .in = { { 3, 521 },  { 3, 521 } },  .shift = -3 },
    { "shapes differ", .in = { { 2, 4 },    { 4, 2 } },    .expect = RP_ERR_SHAPE },
    SPREAD_CASES,
};
BROADCAST(div, DIV, 0, RP_IN(0) | RP_IN(1), .flags = 0)

#define MASK .int_inputs = RP_IN(0), .int_high = { 1 }

static const rp_op_case where_cases[] = {
    { "odd sizes",      .in = { { 3, 5, 7 }, { 3, 5, 7 },  { 3, 5, 7 } }, MASK },
    { "three blocks",   .in = { { 3, 521 },  { 3, 521 },   { 3, 521 } },  MASK },
    { "other numbers",  .in = { { 4, 33 },   { 4, 33 },    { 4, 33 } },   .int_inputs = RP_IN(0), .int_low = { -1 }, .int_high = { 1 } },
    { "a row of masks", .in = { { 67 },      { 5, 67 },    { 5, 67 } },   MASK },
    { "a column",       .in = { { 5, 1 },    { 5, 67 },    { 67 } },      MASK },
    { "all broadcast",  .in = { { 4, 1, 1 }, { 3, 1 },     { 7 } },       MASK },
    { "scalars",        .in = { { 2, 37 },   { 1 },        { 1, 1 } },    MASK },
    { "eight by turns", .in = { { 2, 1, 1, 3, 1, 1, 2, 1 }, { 1, 3, 1, 1, 5, 1, 1, 1 }, { 2, 1, 2, 1, 1, 1, 1, 2 } }, MASK },
    { "shapes differ",  .in = { { 4 },       { 2, 4 },     { 4, 2 } },    MASK, .expect = RP_ERR_SHAPE },
    { "other masks",    .in = { { 3 },       { 2, 4 },     { 2, 4 } },    MASK, .expect = RP_ERR_SHAPE },
    { "floating mask",  .in = { { 4 },       { 4 },        { 4 } },       .expect = RP_ERR_DTYPE },
};
BROADCAST(where, WHERE, 1, RP_IN(0), .no_grad_in = RP_IN(0))
