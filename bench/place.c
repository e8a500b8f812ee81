/* bench/place.c -- the program with placement observed: what each heuristic of placement is worth to the steps of a command.
 *
 *   build/bench_place plan smollm2_135m_full memory_budget=1700MB
 *
 * Each problem of placement is solved with everything, with the first way alone, with the first way and one heuristic, and without one
 * heuristic. A line on stderr reports the height that each reaches, 0 for none within what was asked for:
 *
 *   place HASH MOST BOUND ALL FIRST NAME:WITH:WITHOUT …
 *
 * bench/place runs this over many recipes and sums up.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "place/internal.h"

rp_status __wrap_rp__place(rp_ctx *ctx, rp_place_buffer *buffer, int n, int64_t most, rp_placement *out);

static const char *name_of(int heuristic)
{
    static const char *const parts[PLACE_WAYS] = { [PLACE_TURNS] = "turns", [PLACE_WINDOWS] = "windows", [PLACE_RAISES] = "a raised roof" };

    return heuristic < PLACE_WAYS ? parts[heuristic] : rp__place_way(heuristic - PLACE_WAYS);
}

static int64_t height(rp_ctx *ctx, const rp_place_buffer *buffer, int n, int64_t most, unsigned without)
{
    rp_place_buffer *copy = malloc((size_t)(n + 1) * sizeof *copy);
    rp_placement found    = { 0 };

    if (!copy) abort();
    memcpy(copy, buffer, (size_t)n * sizeof *copy);
    if (rp__place_without(ctx, copy, n, most, without, &found)) abort();
    free(copy);
    return found.placed ? found.height : 0;
}

/* Of the problem: commands have many in common. */
static uint64_t hash(const rp_place_buffer *buffer, int n, int64_t most)
{
    uint64_t h = (uint64_t)most;

    for (int i = 0; i < n; i++) {
        const uint64_t part[] = { (uint64_t)buffer[i].bytes, (uint64_t)buffer[i].begin, (uint64_t)buffer[i].end, (uint64_t)buffer[i].offset };
        for (int k = 0; k < RP_COUNT(part); k++) h = (h ^ part[k]) * 0x9e3779b97f4a7c15u, h ^= h >> 29;
    }
    return h;
}

rp_status __wrap_rp__place(rp_ctx *ctx, rp_place_buffer *buffer, int n, int64_t most, rp_placement *out)
{
    int n_heuristics = 0;
    rp_place_buffer *before = malloc((size_t)(n + 1) * sizeof *before);

    if (!before) abort();
    memcpy(before, buffer, (size_t)n * sizeof *before);
    rp_status status = rp__place_without(ctx, buffer, n, most, 0, out);
    while (name_of(n_heuristics)) n_heuristics++;
    unsigned all = (1u << n_heuristics) - 1, first = all & ~(1u << PLACE_WAYS);
    if (status == RP_OK && out->bound <= most) {
        int64_t with_all = out->placed ? out->height : 0, with_first = height(ctx, before, n, most, first);
        fprintf(stderr, "place %016" PRIx64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64, hash(before, n, most), most, out->bound, with_all, with_first);
        for (int i = 0; i < n_heuristics && with_first != with_all; i++)
            fprintf(stderr, "\t%s:%" PRId64 ":%" PRId64, name_of(i), height(ctx, before, n, most, first & ~(1u << i)), height(ctx, before, n, most, 1u << i));
        fputc('\n', stderr);
    }
    free(before);
    return status;
}
