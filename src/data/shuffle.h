/* data/shuffle.h -- computes a random permutation of n items, entry by entry, without storing it.
 *
 * A Feistel network (Luby and Rackoff, SIAM J. Comput. 17(2), 1988) permutes [0, 4^h), the smallest such range that holds n. Its round
 * function is Philox, keyed by the seed. A result of n or more is permuted again until it is below n (cycle walking, Black and
 * Rogaway, CT-RSA 2002). Any place of any epoch is computed directly, so a resumed run replays nothing.
 */
#ifndef RP_DATA_SHUFFLE_H
#define RP_DATA_SHUFFLE_H

#include "base/base.h"

/* Index of the item at place `at` (0 <= at < n) in the order of this epoch. */
int64_t rp__shuffled(uint64_t seed, int64_t epoch, int64_t n, int64_t at);

#endif
