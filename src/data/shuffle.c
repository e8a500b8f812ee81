/* data/shuffle.c -- the permutation described in shuffle.h. */
#include "data/shuffle.h"

#include "base/philox.h"

enum { ROUNDS = 8 };

static uint64_t permute(uint64_t key, uint64_t epoch, int half_bits, uint64_t x)
{
    uint64_t mask = (UINT64_C(1) << half_bits) - 1, left = x >> half_bits, right = x & mask;

    for (uint32_t round = 0; round < ROUNDS; round++) {
        rp_philox p   = rp__philox(key, (uint32_t)right, round, (uint32_t)epoch, (uint32_t)(epoch >> 32));
        uint64_t next = left ^ (p.word[0] & mask);
        left          = right;
        right         = next;
    }
    return left << half_bits | right;
}

int64_t rp__shuffled(uint64_t seed, int64_t epoch, int64_t n, int64_t at)
{
    uint64_t key  = rp__hash("dataset.shuffle", 15, rp__hash(&seed, sizeof seed, RP_HASH_START)), x = (uint64_t)at;
    int half_bits = 1;

    RP_BUG_IF(at < 0 || at >= n || n > INT64_C(1) << 62);
    while ((INT64_C(1) << 2 * half_bits) < n) half_bits++;
    do x = permute(key, (uint64_t)epoch, half_bits, x);
    while (x >= (uint64_t)n);
    return (int64_t)x;
}
