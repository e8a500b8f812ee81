/* kernels/order.h -- positions sorted by id, for kernels of the CPU and for references. */
#ifndef RP_ORDER_H
#define RP_ORDER_H

#include <stdint.h>
#include <string.h>

/* order[count]: positions sorted by id, then by position. first[vocab + 1]: start of each id's run in `order`. Placing moves each start to its end, which
 * is the next id's start; shifting by one restores the starts. */
static inline void rp__order(const int32_t *ids, int32_t *order, int32_t *first, int64_t count, int64_t vocab)
{
    memset(first, 0, (size_t)(vocab + 1) * sizeof *first);
    for (int64_t i = 0; i < count; i++) first[ids[i] + 1]++;
    for (int64_t v = 0; v < vocab; v++) first[v + 1] += first[v];
    for (int64_t i = 0; i < count; i++) order[first[ids[i]]++] = (int32_t)i;
    memmove(first + 1, first, (size_t)vocab * sizeof *first);
    first[0] = 0;
}

#endif
