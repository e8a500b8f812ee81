/* kernels/optim_codes.c -- the codes of optimizer states in 8 bits (optim.h): their values, and a table that finds the nearest one.
 *
 * The values have the bits of bitsandbytes' create_dynamic_map, whose steps round to fp32. A product of two floats is exact in double, so each cast
 * below rounds once, with and without contraction. */
#include "kernels/optim.h"

#include <pthread.h>
#include <string.h>

enum { DECADES = 7 };

static rp_optim_codes codes;

/* The boundaries 0 ... n of n equal intervals between 0.1 and 1, as torch.linspace computes them: from the nearer end. */
static float boundary(int n, int k)
{
    float step = (float)((double)(1.0f - 0.1f) / n);

    return k < (n + 1) / 2 ? (float)((double)0.1f + (double)step * k) : (float)(1.0 - (double)step * (n - k));
}

/* The values of places 0 ... n, ascending, with `least` of them in the lowest decade. Returns n. */
static int list_values(int least, float value[RP_CODES])
{
    static const float power[DECADES] = { 1e-6f, 1e-5f, 1e-4f, 1e-3f, 1e-2f, 1e-1f, 1.0f };
    int n = 0;

    value[n++] = 0;
    for (int i = 0; i < DECADES; i++)
        for (int k = 0, all = least << i; k < all; k++) {
            float mean = (float)(((double)boundary(all, k) + (double)boundary(all, k + 1)) / 2);
            value[n++] = (float)((double)power[i] * (double)mean);
        }
    value[n] = 1;
    return n;
}

/* The bits of the largest float that is not above the middle of two positive floats. */
static uint32_t middle(float low, float high)
{
    double exact = ((double)low + (double)high) / 2;
    union { float f; uint32_t u; } v = { .f = (float)exact };

    return v.u - ((double)v.f > exact);
}

/* Bits of positive floats are in the order of the floats. No bucket has two middles. */
static void list_near(const float *value, int n, uint32_t near[RP_CODE_BUCKETS])
{
    int place = 0;

    for (int b = 0; b < RP_CODE_BUCKETS; b++) {
        uint32_t first = (uint32_t)(RP_CODE_BOTTOM + b) << 16, above = place < n ? middle(value[place], value[place + 1]) - first : UINT32_MAX;
        near[b] = (uint32_t)place << 16 | (above < 0x10000 ? above : 0xffff);
        place += above < 0x10000;
    }
}

static void list_codes(void)
{
    float value[RP_CODES];
    int n = list_values(1, value);

    list_near(value, n, codes.near[0]);
    for (int p = 0; p <= n; p++) codes.value[0][RP_CODE_ZERO + p] = value[p];
    for (int p = 1; p < n; p++) codes.value[0][RP_CODE_ZERO - p] = -value[p];
    list_near(codes.value[1], list_values(2, codes.value[1]), codes.near[1]);
}

const rp_optim_codes *rp__optim_codes(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, list_codes);
    return &codes;
}
