/* base/quant_layout.h -- tables of values, and codes that are spread over bytes. The decoders of the CPU (quant_decode.h) and of a GPU
 * (kernels/gpu/quant.h) share them. This file includes nothing, because NVRTC compiles it, too. */
#ifndef RP_BASE_QUANT_LAYOUT_H
#define RP_BASE_QUANT_LAYOUT_H

#ifdef __CUDACC__
#define RP_LAYOUT_FN static __device__ __forceinline__
#else
#define RP_LAYOUT_FN static inline
#endif

/* IQ4_NL: the values of a code. The steps widen away from zero, where weights are rarer. */
#define RP_IQ4_CURVE -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113

/* NF4: the values of a code. Dettmers et al., QLoRA, 2023 (arXiv 2305.14314), appendix E. */
#define RP_NF4_VALUES \
    -1.0f, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f, -0.28444138169288635f, -0.18477343022823334f, \
    -0.09105003625154495f, 0.0f, 0.07958029955625534f, 0.16093020141124725f, 0.24611230194568634f, 0.33791524171829224f, \
    0.44070982933044434f, 0.5626170039176941f, 0.7229568362236023f, 1.0f

/* NF4: the values of codes 128 to 255 of a scale. Those of codes 0 to 126 are the same up to 0.99, negative and in reverse; that of 127 is 0. */
#define RP_NF4_SCALES \
    5.5000004e-7f, 3.2500002e-6f, 7.75e-6f, 2.1249998e-5f, 4.375e-5f, 6.625e-5f, 8.875e-5f, 0.00015625001f, \
    0.00026875004f, 0.00038125002f, 0.00049375003f, 0.0006062501f, 0.00071875006f, 0.00083125f, 0.0009437501f, 0.0012812499f, \
    0.00184375f, 0.00240625f, 0.00296875f, 0.0035312497f, 0.00409375f, 0.0046562497f, 0.0052187503f, 0.00578125f, \
    0.00634375f, 0.00690625f, 0.00746875f, 0.00803125f, 0.00859375f, 0.009156249f, 0.00971875f, 0.01140625f, \
    0.01421875f, 0.01703125f, 0.019843752f, 0.02265625f, 0.02546875f, 0.028281251f, 0.03109375f, 0.03390625f, \
    0.036718752f, 0.03953125f, 0.042343747f, 0.04515625f, 0.04796875f, 0.05078125f, 0.05359375f, 0.05640625f, \
    0.059218753f, 0.06203125f, 0.06484375f, 0.067656256f, 0.070468746f, 0.07328125f, 0.07609375f, 0.07890625f, \
    0.08171876f, 0.08453125f, 0.08734375f, 0.09015625f, 0.092968754f, 0.09578126f, 0.09859375f, 0.107031256f, \
    0.12109375f, 0.13515624f, 0.14921875f, 0.16328125f, 0.17734376f, 0.19140625f, 0.20546874f, 0.21953125f, \
    0.23359375f, 0.24765624f, 0.26171875f, 0.27578127f, 0.28984374f, 0.30390626f, 0.31796873f, 0.33203125f, \
    0.34609374f, 0.36015624f, 0.37421876f, 0.38828123f, 0.40234375f, 0.41640624f, 0.43046874f, 0.44453126f, \
    0.45859373f, 0.47265625f, 0.4867187f, 0.50078124f, 0.5148437f, 0.5289062f, 0.54296875f, 0.5570313f, \
    0.5710938f, 0.58515626f, 0.5992187f, 0.61328125f, 0.6273438f, 0.6414063f, 0.65546876f, 0.6695312f, \
    0.68359375f, 0.6976563f, 0.7117188f, 0.72578126f, 0.7398437f, 0.75390625f, 0.7679688f, 0.78203124f, \
    0.79609376f, 0.8101562f, 0.82421875f, 0.8382813f, 0.85234374f, 0.86640626f, 0.8804687f, 0.89453125f, \
    0.9085938f, 0.92265624f, 0.93671876f, 0.9507812f, 0.96484375f, 0.9789063f, 0.99296874f, 1.0f

/* The value of a scale's code, from the table above. */
RP_LAYOUT_FN float rp__nf4_scale_in(const float *positive, int code)
{
    return code > 127 ? positive[code - 128] : code == 127 ? 0.0f : -positive[126 - code];
}

/* Q4_K, Q5_K: scale and minimum j of eight, 6 bits each. The last four of each are spread over three bytes. */
RP_LAYOUT_FN void scale_at(const unsigned char *packed, int j, float d, float m, float *scale, float *least)
{
    const unsigned char *low = packed, *mid = packed + 4, *top = packed + 8;
    int s = j < 4 ? low[j] & 63 : (top[j - 4] & 15) | (low[j - 4] >> 6) << 4;
    int t = j < 4 ? mid[j] & 63 : (top[j - 4] >> 4) | (mid[j - 4] >> 6) << 4;

    *scale = d * (float)s;
    *least = m * (float)t;
}

/* Q3_K: scale j of sixteen: nibble j / 8 of byte j % 8, and pair j / 4 of byte 8 + j % 4. */
RP_LAYOUT_FN int scale_of_16(const unsigned char *packed, int j)
{
    return ((packed[j % 8] >> j / 8 * 4 & 15) | (packed[8 + j % 4] >> j / 4 * 2 & 3) << 4) - 32;
}

#endif
