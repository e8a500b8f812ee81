/* kernels/cpu/rotary.c -- rotary position embedding: pairs half an extent apart, angles from a table by position. A head is short, so what
 * is added or changes its dtype is computed a head at a time. */
#include "kernels/cpu/blocks.h"

enum { HEAD = RP_ROTARY_MAX_HEAD };    /* the op sends wider heads to its reference */

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

/* One head, from x[at …] to y[to …]; y may be x. */
INLINE void turn(rp_dtype dtype, rp_dtype to_dtype, const turns *c, int64_t token, int64_t at, void *y, int64_t to)
{
    int64_t half        = c->half;
    const void *x       = c->x;
    const float *cosine = c->cosine + c->positions[token] * half, *sine = c->sine + c->positions[token] * half;
    float sign          = c->sign;

#pragma omp simd
    for (int64_t i = 0; i < half; i++) {
        float a = f32_at(dtype, x, at + i), b = f32_at(dtype, x, at + half + i), s = sign * sine[i];
        put_at(to_dtype, y, to + i, a * cosine[i] - b * s);
        put_at(to_dtype, y, to + half + i, b * cosine[i] + a * s);
    }
    for (int64_t i = 2 * half; i < c->d; i++) put_at(to_dtype, y, to + i, f32_at(dtype, x, at + i));
}

INLINE void turn_token(rp_dtype dtype, const turns *c, int64_t token)
{
    float head[HEAD];
    bool direct = c->to_dtype == dtype && !c->adds;

    for (int64_t at = token * c->heads * c->d; at < (token + 1) * c->heads * c->d; at += c->d) {
        if (direct) {
            turn(dtype, dtype, c, token, at, c->to, at);
        } else {
            turn(dtype, RP_F32, c, token, at, head, 0);
            row_store_add(c->to_dtype, c->to, at, c->d, head, c->adds);
        }
    }
}

static void turn_tokens(const void *arg, int64_t from, int64_t to)
{
    const turns *c = arg;

    if (c->dtype == RP_BF16)
        for (int64_t token = from; token < to; token++) turn_token(RP_BF16, c, token);
    else
        for (int64_t token = from; token < to; token++) turn_token(RP_F32, c, token);
}

void RP_AT_LEVEL(rotary)(rp_dtype dtype, const void *x, const int32_t *positions, const float *cosine, const float *sine, void *to,
                         rp_dtype to_dtype, bool adds, bool inverse, int64_t tokens, int64_t heads, int64_t d, int64_t half, int threads)
{
    turns c = { dtype, to_dtype, x, positions, cosine, sine, to, adds, inverse ? -1.0f : 1.0f, heads, d, half };

    rp__team_ranges(threads, tokens, 1, tokens * heads * d * (width_of(dtype) + width_of(to_dtype)), turn_tokens, &c);
}
