/* kernels/cpu/broadcast.c -- functions of two numbers and a mask whose operands broadcast, and their gradients.
 *
 *   forward    rows of the last extent of rp_spread; an operand of a row lies along it or is one element for all of it
 *   gradient   of an operand: sums over the extents that it lacks, in fp32, rounded once. If it has the last extent, each of its elements adds
 *              its terms in the order of y. Otherwise the terms of a row are added lane by lane, row after row, and then the lanes.
 *
 * So the shape and the level fix the order of a sum.
 */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/wide.h"

enum { STEP = 64 };             /* ranges begin at multiples of it */

typedef struct {
    rp_dtype dtype, to_dtype;
    const rp_spread *s;
    const void *dy, *a, *b;     /* NULL: not read */
    const int32_t *mask;
    void *to;
    bool adds;
    uint32_t kept;              /* extents of the gradient */
    int64_t terms;              /* of a sum, in rows or in elements of y */
} spread_call;

typedef wide spread_formula(wide dy, wide a, wide b, wide_int m);

INLINE wide operand(rp_dtype dtype, const void *from, int64_t at, int64_t column, int64_t n, bool along)
{
    if (!from) return (wide){ 0 };
    return along ? wide_load(dtype, from, at + column, n) : wide_of(f32_at(dtype, from, at));
}

INLINE wide_int mask_of(const int32_t *from, int64_t at, int64_t column, int64_t n, bool along)
{
    wide_int m = { 0 };

    if (!from) return m;
    if (!along) return (m + from[at]) != 0;
    memcpy(&m, from + at + column, (size_t)n * sizeof *from);
    return m != 0;
}

INLINE wide spread_vector(const spread_call *c, const rp_spread_place *p, int64_t column, int64_t n, spread_formula *formula)
{
    int last = c->s->ndim - 1;

    return formula(operand(c->dtype, c->dy, p->y, column, n, true), operand(c->dtype, c->a, p->of[0], column, n, c->s->has[0] >> last & 1),
                   operand(c->dtype, c->b, p->of[1], column, n, c->s->has[1] >> last & 1),
                   mask_of(c->mask, p->of[2], column, n, c->s->has[2] >> last & 1));
}

INLINE void spread_prefetch(const spread_call *c, const rp_spread_place *p, int64_t column)
{
    if (c->dy) wide_prefetch(c->dtype, c->dy, p->y + column);
    if (c->a) wide_prefetch(c->dtype, c->a, p->of[0] + column);
    if (c->b) wide_prefetch(c->dtype, c->b, p->of[1] + column);
}

/* Columns [from, to) of the row at p, to elements `target` and following. */
INLINE void spread_row(const spread_call *c, const rp_spread_place *p, int64_t from, int64_t to, int64_t target, bool adds, spread_formula *formula)
{
    for (; from + WIDE <= to; from += WIDE, target += WIDE) {
        spread_prefetch(c, p, from);
        wide_add(c->to_dtype, c->to, target, WIDE, spread_vector(c, p, from, WIDE, formula), adds);
    }
    if (from < to) wide_add(c->to_dtype, c->to, target, to - from, spread_vector(c, p, from, to - from, formula), adds);
}

/* Elements [from, to) of y. */
INLINE void spread_forward(const spread_call *given, int64_t from, int64_t to, spread_formula *formula)
{
    const spread_call c = *given;
    int64_t n           = c.s->dim[c.s->ndim - 1];

    while (from < to) {
        int64_t row = from / n * n, end = to < row + n ? to : row + n;
        rp_spread_place p  = rp__spread_at(c.s, RP_SPREAD_ALL, row);
        spread_row(&c, &p, from - row, end - row, from, false, formula);
        from = end;
    }
}

INLINE rp_spread_place moved(rp_spread_place p, rp_spread_place by)
{
    return (rp_spread_place){ p.y + by.y, { p.of[0] + by.of[0], p.of[1] + by.of[1], p.of[2] + by.of[2] } };
}

/* The sums of columns [from, to) of the gradient's row at `base`. */
INLINE void spread_columns(const spread_call *c, rp_spread_place base, int64_t from, int64_t to, float *sums, spread_formula *formula)
{
    wide zero = { 0 };

    for (int64_t i = from; i < to; i += WIDE) wide_store(RP_F32, sums, i - from, WIDE, zero);
    for (int64_t t = 0; t < c->terms; t++) {
        rp_spread_place p = moved(base, rp__spread_at(c->s, ~c->kept, t));
        for (int64_t i = from; i < to; i += WIDE)
            wide_add(RP_F32, sums, i - from, WIDE, spread_vector(c, &p, i, wide_width(i, to), formula), true);
    }
}

/* Items: blocks of columns of the gradient, which has the last extent. */
INLINE void spread_along(const spread_call *given, int64_t from, int64_t to, spread_formula *formula)
{
    const spread_call c = *given;
    float sums[BLOCK];
    int last  = c.s->ndim - 1;
    int64_t n = c.s->dim[last], blocks = (n + BLOCK - 1) / BLOCK;

    for (int64_t item = from; item < to; item++) {
        int64_t row = item / blocks, column = item % blocks * BLOCK, width = block_width(column, n);
        rp_spread_place base = rp__spread_at(c.s, c.kept & ~(1u << last), row);
        if (c.terms == 1) {
            spread_row(&c, &base, column, column + width, row * n + column, c.adds, formula);
            continue;
        }
        spread_columns(&c, base, column, column + width, sums, formula);
        block_done(c.to_dtype, c.to, row * n + column, width, sums, c.adds);
    }
}

/* Items: elements of the gradient, which lacks the last extent. */
INLINE void spread_across(const spread_call *given, int64_t from, int64_t to, spread_formula *formula)
{
    const spread_call c = *given;
    int last  = c.s->ndim - 1;
    int64_t n = c.s->dim[last];

    for (int64_t e = from; e < to; e++) {
        rp_spread_place base = rp__spread_at(c.s, c.kept, e);
        wide sum = { 0 };
        for (int64_t t = 0; t < c.terms; t++) {
            rp_spread_place p = moved(base, rp__spread_at(c.s, ~c.kept & ~(1u << last), t));
            for (int64_t i = 0; i < n; i += WIDE) {
                int64_t width = wide_width(i, n);
                sum += wide_inside(spread_vector(&c, &p, i, width, formula), width);
            }
        }
        put_add_at(c.to_dtype, c.to, e, wide_sum(sum), c.adds);
    }
}

/* ---- the functions ---- */

/* A function of a, b and whether the mask is not 0, and the gradients of a and b: dy times the derivative. */
#define BINARY(name, value, da, db) \
    INLINE wide name##_value(wide dy, wide a, wide b, wide_int m) { return (void)dy, (void)a, (void)b, (void)m, (value); } \
    INLINE wide name##_da(wide dy, wide a, wide b, wide_int m) { return (void)dy, (void)a, (void)b, (void)m, (da); } \
    INLINE wide name##_db(wide dy, wide a, wide b, wide_int m) { return (void)dy, (void)a, (void)b, (void)m, (db); } \
    static void name##_forward(const void *c, int64_t from, int64_t to) { spread_forward(c, from, to, name##_value); } \
    static void name##_da_along(const void *c, int64_t from, int64_t to) { spread_along(c, from, to, name##_da); } \
    static void name##_db_along(const void *c, int64_t from, int64_t to) { spread_along(c, from, to, name##_db); } \
    static void name##_da_across(const void *c, int64_t from, int64_t to) { spread_across(c, from, to, name##_da); } \
    static void name##_db_across(const void *c, int64_t from, int64_t to) { spread_across(c, from, to, name##_db); }

BINARY(add, a + b, dy, dy)
BINARY(sub, a - b, dy, -dy)
BINARY(mul, a * b, dy * b, dy * a)
BINARY(div, a / b, dy / b, dy * (-(a / b) / b))
BINARY(where, wide_select(m, a, b), wide_select(m, dy, wide_of(0)), wide_select(m, wide_of(0), dy))

static rp_team_range *const forward_of[] = {
#define RP_BINARY(NAME, name) [RP_BINARY_##NAME] = name##_forward,
#include "kernels/pointwise.def"
};

static rp_team_range *const along_of[][2] = {
#define RP_BINARY(NAME, name) [RP_BINARY_##NAME] = { name##_da_along, name##_db_along },
#include "kernels/pointwise.def"
};

static rp_team_range *const across_of[][2] = {
#define RP_BINARY(NAME, name) [RP_BINARY_##NAME] = { name##_da_across, name##_db_across },
#include "kernels/pointwise.def"
};

void RP_AT_LEVEL(binary_forward)(rp_binary f, rp_dtype dtype, const rp_spread *s, const void *a, const void *b, const int32_t *mask, void *y,
                                 const rp_on *on)
{
    spread_call c = { .dtype = dtype, .to_dtype = dtype, .s = s, .a = a, .b = b, .mask = mask, .to = y };
    int64_t n     = rp__spread_count(s, RP_SPREAD_ALL);

    rp__team_ranges(on->threads, n, STEP, 3 * n * width_of(dtype), forward_of[f], &c);
}

void RP_AT_LEVEL(binary_backward)(rp_binary f, int of, rp_dtype dtype, const rp_spread *s, const void *dy, const void *a, const void *b,
                                  const int32_t *mask, void *d, rp_dtype d_dtype, bool adds, const rp_on *on)
{
    spread_call c = { .dtype = dtype, .to_dtype = d_dtype, .s = s, .dy = dy, .a = a, .b = b, .mask = mask, .to = d, .adds = adds, .kept = s->has[of] };
    uint32_t last = 1u << (s->ndim - 1);
    int64_t n     = s->dim[s->ndim - 1], elems = rp__spread_count(s, c.kept), bytes = 3 * rp__spread_count(s, RP_SPREAD_ALL) * width_of(dtype);
    bool along    = c.kept & last;

    c.terms = rp__spread_count(s, ~c.kept & ~last);
    if (along) rp__team_ranges(on->threads, elems / n * ((n + BLOCK - 1) / BLOCK), 1, bytes, along_of[f][of], &c);
    else rp__team_ranges(on->threads, elems, 1, bytes, across_of[f][of], &c);
}
