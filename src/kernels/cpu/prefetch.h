/* kernels/cpu/prefetch.h -- prefetches memory line by line between the steps of a tile.
 *
 *   run      [ line ][ line ] …      n lines in total; a run has `lines` adjacent lines, runs are `apart` bytes apart
 *
 * A core can wait for about sixteen lines at once. More prefetches in a row delay the computation.
 */
#ifndef RP_CPU_PREFETCH_H
#define RP_CPU_PREFETCH_H

#include <stdint.h>

enum { PREFETCH_LINE = 64 };

typedef struct {
    const uint8_t *run;
    int64_t apart, lines, line, n;
} prefetch;

/* Lists `runs` runs of `bytes` from `at` on, `apart` bytes from each other. */
static inline prefetch prefetch_of(const void *at, int64_t apart, int64_t bytes, int64_t runs)
{
    int64_t lines = (bytes + PREFETCH_LINE - 1) / PREFETCH_LINE;

    return (prefetch){ at, apart, lines, 0, runs * lines };
}

static inline __attribute__((always_inline)) void prefetch_ask(prefetch *a, int64_t lines)
{
    for (; lines > 0 && a->n > 0; lines--, a->n--) {
        __builtin_prefetch(a->run + a->line * PREFETCH_LINE, 0, 2);
        if (++a->line < a->lines) continue;
        a->line = 0;
        a->run += a->apart;
    }
}

/* Lines to prefetch in each of `steps` steps. */
static inline int64_t prefetch_share(const prefetch *a, int64_t steps) { return steps > 0 ? (a->n + steps - 1) / steps : a->n; }

#endif
