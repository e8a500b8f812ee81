/* base/philox.h -- Philox4x32-10, the counter-based generator of Salmon et al., "Parallel Random Numbers: As Easy
 * as 1, 2, 3" (SC 2011), figures 2-4.
 *
 * A random number depends only on (seed, module path and call, step, sample, element):
 *   key      = 64-bit hash of seed, module path and the index of the random call under that path
 *   counter  = (element / 4, sample, step)   ; element % 4 selects the word
 * So a replay, a different split of the batch, a different order of layers and more ranks all draw the same masks.
 */
#ifndef RP_PHILOX_H
#define RP_PHILOX_H

#include <stdint.h>

typedef struct { uint64_t key; int64_t step, sample_base; } rp_stream;   /* sample_base: global index of the batch's row 0 */
typedef struct { uint32_t word[4]; } rp_philox;

static inline rp_philox rp__philox(uint64_t key, uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3)
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);

    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return (rp_philox){ { c0, c1, c2, c3 } };
}

/* The four words of elements 4*block .. 4*block+3 of row `row` of a batch. block < 2^32. */
static inline rp_philox rp__stream_block(const rp_stream *s, int64_t row, int64_t block)
{
    uint64_t sample = (uint64_t)(s->sample_base + row);

    return rp__philox(s->key, (uint32_t)block, (uint32_t)sample, (uint32_t)s->step,
                      (uint32_t)(sample >> 32) ^ (uint32_t)((uint64_t)s->step >> 32) << 16);
}

/* Uniform in [0, 1) with 24 bits. */
static inline float rp__uniform(uint32_t word) { return (float)(word >> 8) * (1.0f / 16777216.0f); }

/* The random word of one element. */
static inline uint32_t rp__stream_word(const rp_stream *s, int64_t row, int64_t element)
{
    return rp__stream_block(s, row, element >> 2).word[element & 3];
}

#endif
