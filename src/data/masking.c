/* data/masking.c -- one Philox block per token: word 0 orders the choice, word 1 picks the kind of replacement, word 2 the random id. */
#include "data/masking.h"

#include <math.h>
#include <stdlib.h>

#include "base/philox.h"

#define ROUNDING UINT32_MAX             /* a block number that no position has */

uint64_t rp__masking_key(uint64_t seed)
{
    static const char purpose[] = "masked tokens";

    return rp__hash(purpose, sizeof purpose, rp__hash(&seed, sizeof seed, RP_HASH_START));
}

static rp_philox masking_draw(const rp_masking *m, int64_t step, int64_t sample, int64_t position)
{
    rp_stream stream = { .key = m->key, .step = m->fixed ? 0 : step, .sample_base = sample };

    return rp__stream_block(&stream, 0, position);
}

/* word / 2^32, exact. */
static double fraction(uint32_t word) { return (double)word * 0x1p-32; }

/* n * probability, rounded up if its fraction plus `luck` reaches 1. Increases with n and with luck. */
static int64_t share(double probability, int64_t n, double luck)
{
    double k = floor((double)n * probability + luck);

    return k < (double)n ? (int64_t)k : n;
}

int64_t rp__masking_most(double probability, int64_t length)
{
    int64_t most = share(probability, length, fraction(UINT32_MAX));

    return most ? most : 1;
}

int64_t rp__masking_count(const rp_masking *m, int64_t step, int64_t sample, int64_t n)
{
    int64_t k = share(m->probability, n, fraction(masking_draw(m, step, sample, ROUNDING).word[0]));

    return k || !n ? k : 1;
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* Sorts positions by their random word, ties by position; the smallest are chosen. */
int64_t rp__masking_choose(const rp_masking *m, int64_t step, int64_t sample, uint64_t *place, int64_t n)
{
    for (int64_t i = 0; i < n; i++) place[i] |= (uint64_t)masking_draw(m, step, sample, (int64_t)place[i]).word[0] << 32;
    if (n) qsort(place, (size_t)n, sizeof *place, by_number);
    for (int64_t i = 0; i < n; i++) place[i] &= UINT32_MAX;
    return rp__masking_count(m, step, sample, n);
}

int32_t rp__masking_seen(const rp_masking *m, int64_t step, int64_t sample, int64_t position, int32_t id)
{
    rp_philox drawn = masking_draw(m, step, sample, position);

    if (fraction(drawn.word[1]) < 0.8) return m->mask_id;
    return fraction(drawn.word[1]) < 0.9 ? (int32_t)((uint64_t)drawn.word[2] * (uint64_t)m->vocab >> 32) : id;
}
