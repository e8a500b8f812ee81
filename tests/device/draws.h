/* tests/device/draws.h -- numbers for tests of kernels: the same in each run. */
#ifndef TESTS_DRAWS_H
#define TESTS_DRAWS_H

#include <stdint.h>

typedef struct { uint64_t state; } draws;

/* From -1 up to 1. */
static inline float draw(draws *d)
{
    d->state = d->state * 6364136223846793005u + 1442695040888963407u;
    return (float)((double)(d->state >> 11) / 9007199254740992.0 * 2 - 1);
}

#endif
