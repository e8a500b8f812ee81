/* kernels/cpu/rotary.c -- rotary position embedding: rotates pairs `half` elements apart by angles from a table indexed by position. */
#include "kernels/cpu/wide.h"

typedef struct {
    rp_dtype dtype, to_dtype;
    const void *x;
    const int32_t *positions;
    const float *cosine, *sine;
    void *to;
    bool adds;
    float sign;
    int64_t heads, d, half;
} turns;

/* Rotates the head at `at`; the destination may be x itself. */
INLINE void turn(const turns *c, const float *cosine, const float *sine, int64_t at)
{
    int64_t half = c->half;

    for (int64_t i = 0; i < half; i += WIDE) {
        int64_t n = wide_width(i, half);
        wide a = wide_load(c->dtype, c->x, at + i, n), b = wide_load(c->dtype, c->x, at + half + i, n);
        wide cos = wide_load(RP_F32, cosine, i, n), sin = c->sign * wide_load(RP_F32, sine, i, n);
        wide_prefetch(c->dtype, c->x, at + 2 * i);
        wide_prefetch(c->to_dtype, c->to, at + 2 * i);
        wide_add(c->to_dtype, c->to, at + i, n, a * cos - b * sin, c->adds);
        wide_add(c->to_dtype, c->to, at + half + i, n, b * cos + a * sin, c->adds);
    }
    for (int64_t i = 2 * half; i < c->d; i += WIDE) {
        int64_t n = wide_width(i, c->d);
        wide_add(c->to_dtype, c->to, at + i, n, wide_load(c->dtype, c->x, at + i, n), c->adds);
    }
}

static void turn_tokens(const void *arg, int64_t from, int64_t to)
{
    turns c = *(const turns *)arg;

    for (int64_t token = from; token < to; token++) {
        const float *cosine = c.cosine + c.positions[token] * c.half, *sine = c.sine + c.positions[token] * c.half;
        for (int64_t head = token * c.heads; head < (token + 1) * c.heads; head++) turn(&c, cosine, sine, head * c.d);
    }
}

void RP_AT_LEVEL(rotary)(rp_dtype dtype, const void *x, const int32_t *positions, const float *cosine, const float *sine, void *to,
                         rp_dtype to_dtype, bool adds, bool inverse, int64_t tokens, int64_t heads, int64_t d, int64_t angles, int64_t half, const rp_on *on)
{
    turns c = { dtype, to_dtype, x, positions, cosine, sine, to, adds, inverse ? -1.0f : 1.0f, heads, d, half };

    (void)angles;
    rp__team_ranges(on->threads, tokens, 1, tokens * heads * d * (width_of(dtype) + width_of(to_dtype)), turn_tokens, &c);
}
