/* base/convert.c -- one conversion loop per element type (see convert.h). */
#include "base/convert.h"

#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "files are little endian: this machine needs byte swaps here"
#endif

/* memcpy is the portable form of a load with any alignment; it compiles to a plain load. */
#define CONVERT(name, type, value) \
    void rp__convert_##name(const uint8_t *from, int64_t n, float *to) \
    { \
        for (int64_t i = 0; i < n; i++) { \
            type v; \
            memcpy(&v, from + i * (int64_t)sizeof v, sizeof v); \
            to[i] = value; \
        } \
    }

CONVERT(f64, double, (float)v)
CONVERT(f16, uint16_t, rp__f32_from_f16(v))
CONVERT(bf16, uint16_t, rp__f32_from_bf16(v))
CONVERT(f8_e5m2, uint8_t, rp__f32_from_f16((uint16_t)(v << 8)))     /* e5m2 is the upper byte of an fp16 number */
CONVERT(f8_e4m3, uint8_t, rp__f32_from_f8_e4m3(v))
CONVERT(i64, int64_t, (float)v)
CONVERT(i32, int32_t, (float)v)
CONVERT(i16, int16_t, (float)v)
CONVERT(i8, int8_t, (float)v)
CONVERT(u64, uint64_t, (float)v)
CONVERT(u32, uint32_t, (float)v)
CONVERT(u16, uint16_t, (float)v)
CONVERT(u8, uint8_t, (float)v)
CONVERT(bool, uint8_t, v ? 1.0f : 0.0f)

void rp__convert_f32(const uint8_t *from, int64_t n, float *to)
{
    if (n) memcpy(to, from, (size_t)n * sizeof *to);
}
