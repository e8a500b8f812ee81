/* data/shuffle.h -- a random order of n things as a function, in no memory.
 *
 * A Feistel network (Luby and Rackoff, SIAM J. Comput. 17(2), 1988) over the least even number of bits that holds n, its
 * round function Philox keyed by the seed, permutes [0, 4^h); values at or past n walk on along their cycle (Black and
 * Rogaway, CT-RSA 2002) until they fall below n. Any place of any epoch is found at once: to resume needs no replay.
 */
#ifndef RP_DATA_SHUFFLE_H
#define RP_DATA_SHUFFLE_H

#include "base/base.h"

/* Which of n things stands at place `at` (0 <= at < n) in this epoch's order. */
int64_t rp__shuffled(uint64_t seed, int64_t epoch, int64_t n, int64_t at);

#endif
