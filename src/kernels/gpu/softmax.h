/* kernels/gpu/softmax.h -- the maximum of a row, and the sum of exp(x - maximum), in one pass over memory. As kernels/cpu/softmax.h. */
#ifndef RP_GPU_SOFTMAX_H
#define RP_GPU_SOFTMAX_H

#define LEAST (-3.402823466e38f)        /* the maximum of no numbers */

typedef struct { float top, sum; } exp_fold;

/* Adds `count` values to the fold of one thread; NaNs are ignored by the maximum and appear in the sum. */
FN exp_fold fold_pack(exp_fold f, const float *v, int count)
{
    float top = f.top;

    UNROLL for (int j = 0; j < PACK; j++)
        if (j < count && v[j] > top) top = v[j];
    if (top > f.top) f.sum *= exp_(f.top - top);
    f.top = top;
    UNROLL for (int j = 0; j < PACK; j++)
        if (j < count) f.sum += exp_(v[j] - top);
    return f;
}

/* Joins the folds of a team's threads. */
FN exp_fold team_fold(float *part, int team, exp_fold f)
{
    exp_fold all;

    all.top = team_max(part, team, f.top);
    all.sum = team_sum(part, team, f.sum * exp_(f.top - all.top));
    return all;
}

/* A logit x becomes cap * tanh(x / cap). cap 0: it stays. */
FN float capped(float x, float cap) { return cap > 0.0f ? cap * tanh_(x / cap) : x; }

/* The fold of row `row` of x [rows, n], capped; n 0: no row. */
FN exp_fold row_fold(float *part, int team, int dtype, u64 x, i64 row, i64 n, int packed, float cap)
{
    exp_fold f = { LEAST, 0.0f };
    float v[PACK];

    PACKS(i, n, team) {
        int count = pack_count(i, n);
        pack_load(dtype, x, row * n + i, count, packed, v);
        if (cap > 0.0f)
            UNROLL for (int j = 0; j < PACK; j++) v[j] = capped(v[j], cap);
        f = fold_pack(f, v, count);
    }
    return team_fold(part, team, f);
}

#endif
