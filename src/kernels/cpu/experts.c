/* kernels/cpu/experts.c -- moves rows of tokens to rows of experts and back, for ops/spread.c and ops/combine.c.
 *
 *   token t, slot j   <──>   row place[t*k + j]        each row of the experts belongs to one slot of one token
 *
 * Work is divided by tokens: no two threads write the same row, and a sum over slots runs in their order. */
#include "kernels/cpu/wide.h"

typedef struct {
    rp_dtype dtype, to_dtype;
    const void *from, *other;
    const int32_t *place;
    const float *factor;
    void *to;
    bool adds;
    int64_t k, n;
} rows_of;

INLINE float factor_of(const rows_of *c, int64_t slot) { return c->factor ? c->factor[slot] : 1.0f; }

static void spread_row(const rows_of *c, int64_t token, int64_t slot)
{
    int64_t from = token * c->n, to = (int64_t)c->place[slot] * c->n;
    float factor = factor_of(c, slot);

    for (int64_t i = 0; i < c->n; i += WIDE) {
        int64_t n = wide_width(i, c->n);
        wide_add(c->to_dtype, c->to, to + i, n, wide_load(c->dtype, c->from, from + i, n) * factor, c->adds);
    }
}

static void spread_tokens(const void *arg, int64_t from, int64_t to)
{
    const rows_of *c = arg;

    for (int64_t t = from; t < to; t++)
        for (int64_t j = 0; j < c->k; j++) spread_row(c, t, t * c->k + j);
}

void RP_AT_LEVEL(spread_rows)(rp_dtype dtype, const void *from, const int32_t *place, const float *factor, void *to, rp_dtype to_dtype,
                              bool adds, int64_t tokens, int64_t k, int64_t n, const rp_on *on)
{
    rows_of c = { .dtype = dtype, .to_dtype = to_dtype, .from = from, .place = place, .factor = factor, .to = to, .adds = adds, .k = k, .n = n };

    rp__team_ranges(on->threads, tokens, 1, 2 * tokens * k * n * width_of(dtype), spread_tokens, &c);
}

static void gather_token(const rows_of *c, int64_t token)
{
    for (int64_t i = 0; i < c->n; i += WIDE) {
        int64_t n = wide_width(i, c->n);
        wide sum  = { 0 };
        for (int64_t j = 0; j < c->k; j++) {
            int64_t slot = token * c->k + j;
            sum += wide_load(c->dtype, c->from, (int64_t)c->place[slot] * c->n + i, n) * factor_of(c, slot);
        }
        wide_add(c->to_dtype, c->to, token * c->n + i, n, sum, c->adds);
    }
}

static void gather_tokens(const void *arg, int64_t from, int64_t to)
{
    for (int64_t t = from; t < to; t++) gather_token(arg, t);
}

void RP_AT_LEVEL(gather_rows)(rp_dtype dtype, const void *from, const int32_t *place, const float *factor, void *to, rp_dtype to_dtype,
                              bool adds, int64_t tokens, int64_t k, int64_t n, const rp_on *on)
{
    rows_of c = { .dtype = dtype, .to_dtype = to_dtype, .from = from, .place = place, .factor = factor, .to = to, .adds = adds, .k = k, .n = n };

    rp__team_ranges(on->threads, tokens, 1, 2 * tokens * k * n * width_of(dtype), gather_tokens, &c);
}

static float dot_row(const rows_of *c, int64_t a, int64_t b)
{
    wide sum = { 0 };

    for (int64_t i = 0; i < c->n; i += WIDE) {
        int64_t n = wide_width(i, c->n);
        sum += wide_load(c->dtype, c->from, a + i, n) * wide_load(c->dtype, c->other, b + i, n);
    }
    return wide_sum(sum);
}

static void dot_tokens(const void *arg, int64_t from, int64_t to)
{
    const rows_of *c = arg;
    float *dots      = c->to;

    for (int64_t slot = from * c->k; slot < to * c->k; slot++) {
        float dot  = dot_row(c, slot / c->k * c->n, (int64_t)c->place[slot] * c->n);
        dots[slot] = c->adds ? dots[slot] + dot : dot;
    }
}

void RP_AT_LEVEL(dot_rows)(rp_dtype dtype, const void *a, const void *b, const int32_t *place, float *dots, bool adds, int64_t tokens,
                           int64_t k, int64_t n, const rp_on *on)
{
    rows_of c = { .dtype = dtype, .from = a, .other = b, .place = place, .to = dots, .adds = adds, .k = k, .n = n };

    rp__team_ranges(on->threads, tokens, 1, 2 * tokens * k * n * width_of(dtype), dot_tokens, &c);
}
