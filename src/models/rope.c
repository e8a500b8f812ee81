/* models/rope.c -- computes frequencies and tables. Angles are fp32 products, as in transformers, because pretrained weights were trained with
 * them. */
#include "models/rope.h"

#include <math.h>

#define TURN (2 * 3.14159265358979323846)

static double llama3(const rp_rope_config *rope, double f)
{
    double wave = TURN / f, longest = (double)rope->original_context / rope->low_freq_factor;
    double shortest = (double)rope->original_context / rope->high_freq_factor;

    if (wave < shortest) return f;
    if (wave > longest) return f / rope->factor;
    double smooth = ((double)rope->original_context / wave - rope->low_freq_factor) / (rope->high_freq_factor - rope->low_freq_factor);
    return (1 - smooth) * f / rope->factor + smooth * f;
}

/* Index (a fraction) of the pair that makes `turns` rotations within the original context. */
static double pair_of(const rp_rope_config *rope, int64_t dim, double turns)
{
    return (double)dim * log((double)rope->original_context / (turns * TURN)) / (2 * log(rope->theta));
}

/* The share of frequency i that is divided by the factor: 0 for pairs that rotate fast, 1 for slow ones, a ramp between them. */
static double yarn_share(const rp_rope_config *rope, int64_t dim, int64_t i)
{
    double low = pair_of(rope, dim, rope->beta_fast), high = pair_of(rope, dim, rope->beta_slow);

    if (!rope->exact_range) {
        low  = floor(low);
        high = ceil(high);
    }
    low  = fmax(low, 0);
    high = fmin(high, (double)(dim - 1));
    if (low == high) high += 0.001;
    return fmin(fmax(((double)i - low) / (high - low), 0), 1);
}

static double yarn(const rp_rope_config *rope, int64_t dim, int64_t i, double f)
{
    double share = yarn_share(rope, dim, i);

    return f / rope->factor * share + f * (1 - share);
}

static double divisor(const rp_rope_config *rope, int64_t i)
{
    return (double)(float)json_number_value(json_array_get(rope->divisors, (size_t)i));
}

void rp__rope_frequencies(const rp_rope_config *rope, int64_t dim, float *frequency)
{
    for (int64_t i = 0; i < dim / 2; i++) {
        double f = (double)(float)(1 / pow(rope->theta, (double)(2 * i) / (double)dim));
        if (rope->kind == RP_ROPE_LINEAR) f /= rope->factor;
        if (rope->kind == RP_ROPE_LLAMA3) f = llama3(rope, f);
        if (rope->kind == RP_ROPE_YARN) f = yarn(rope, dim, i, f);
        if (rope->kind == RP_ROPE_LONG) f = 1 / (divisor(rope, i) * pow(rope->theta, (double)(2 * i) / (double)dim));
        frequency[i] = (float)f;
    }
}

/* Writes the tables to their device's memory, as a kernel would (rp__mem_enter). */
static rp_status rope_fill(rp_ctx *ctx, const rp_rope_config *rope, int64_t dim, rp_tensor *cos_table, rp_tensor *sin_table)
{
    int64_t half = dim / 2, length = cos_table->m.dim[0];
    double size  = rope->attention_factor > 0 ? rope->attention_factor : 1;
    float *frequency = rp__host_alloc(ctx, half * (int64_t)sizeof(float));

    if (!frequency) return RP_ERR_MEMORY;
    rp__rope_frequencies(rope, dim, frequency);
    rp__mem_enter(ctx);
    for (int64_t p = 0; p < length; p++) {
        for (int64_t i = 0; i < half; i++) {
            float angle = (float)p * frequency[i];
            rp_elem_put(cos_table, p * half + i, size * cos((double)angle));
            rp_elem_put(sin_table, p * half + i, size * sin((double)angle));
        }
    }
    rp__mem_leave(ctx);
    rp__tensor_wrote(cos_table, "the rope table");
    rp__tensor_wrote(sin_table, "the rope table");
    rp__release(frequency);
    return RP_OK;
}

rp_status rp__rope_tables(rp_ctx *ctx, const rp_rope_config *rope, int64_t dim, int64_t length, rp_dtype dtype, rp_tensor **cos,
                          rp_tensor **sin)
{
    rp_meta m = rp_meta_2d(dtype, length, dim / 2);
    rp_tensor *c = NULL, *s = NULL;

    rp_status status = rp__tensor_new_named(ctx, &m, RP_MEM_TEMP, "rope table", &c);
    if (status == RP_OK) status = rp__tensor_new_named(ctx, &m, RP_MEM_TEMP, "rope table", &s);
    if (status == RP_OK && rp__tensor_real(c)) status = rope_fill(ctx, rope, dim, c, s);
    if (status != RP_OK) {
        rp_tensor_unref(c);
        rp_tensor_unref(s);
        return status;
    }
    *cos = c;
    *sin = s;
    return RP_OK;
}
