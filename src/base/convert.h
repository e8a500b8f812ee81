/* base/convert.h -- converts elements as files store them (little endian, any alignment) to fp32.
 *
 * Each function reads n elements at `from`. Integers and fp64 round to nearest. fp16, e5m2 and e4m3 are exact, denormals included,
 * in every floating-point mode of the caller. A NaN stays a NaN. e4m3 has no infinity: its
 * largest codes are 448 and NaN (torch.float8_e4m3fn; OCP 8-bit Floating Point Specification 1.0).
 */
#ifndef RP_BASE_CONVERT_H
#define RP_BASE_CONVERT_H

#include "base/base.h"

typedef void (*rp_convert)(const uint8_t *from, int64_t n, float *to);

void rp__convert_f64(const uint8_t *from, int64_t n, float *to);
void rp__convert_f32(const uint8_t *from, int64_t n, float *to);
void rp__convert_f16(const uint8_t *from, int64_t n, float *to);
void rp__convert_bf16(const uint8_t *from, int64_t n, float *to);
void rp__convert_f8_e5m2(const uint8_t *from, int64_t n, float *to);
void rp__convert_f8_e4m3(const uint8_t *from, int64_t n, float *to);
void rp__convert_i64(const uint8_t *from, int64_t n, float *to);
void rp__convert_i32(const uint8_t *from, int64_t n, float *to);
void rp__convert_i16(const uint8_t *from, int64_t n, float *to);
void rp__convert_i8(const uint8_t *from, int64_t n, float *to);
void rp__convert_u64(const uint8_t *from, int64_t n, float *to);
void rp__convert_u32(const uint8_t *from, int64_t n, float *to);
void rp__convert_u16(const uint8_t *from, int64_t n, float *to);
void rp__convert_u8(const uint8_t *from, int64_t n, float *to);
void rp__convert_bool(const uint8_t *from, int64_t n, float *to);

static inline float rp__f32_from_bits(uint32_t bits)
{
    union { uint32_t u; float f; } v = { .u = bits };

    return v.f;
}

/* A denormal is built from its integer, never from a denormal float, because the team's threads flush denormals to zero. */
static inline float rp__f32_from_f16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, magnitude = h & 0x7fffu, exponent = magnitude >> 10;
    float small   = (float)(int32_t)magnitude * 0x1p-24f;
    uint32_t bits = (magnitude << 13) + (exponent == 31 ? 0x70000000u : 0x38000000u);

    return exponent ? rp__f32_from_bits(sign | bits) : sign ? -small : small;
}

/* Seven bits: 4 of exponent and 3 of fraction. The caller handles the code for NaN. */
static inline float rp__f32_from_e4m3_magnitude(uint8_t code)
{
    uint32_t exponent = code >> 3 & 15, fraction = code & 7;

    return exponent ? (float)(8 + fraction) * rp__f32_from_bits((exponent + 117) << 23) : (float)fraction * 0x1p-9f;
}

static inline float rp__f32_from_f8_e4m3(uint8_t code)
{
    float magnitude = (code & 0x7f) == 0x7f ? rp__f32_from_bits(0x7fc00000u) : rp__f32_from_e4m3_magnitude(code);

    return code & 0x80 ? -magnitude : magnitude;
}

#endif
