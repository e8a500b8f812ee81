/* place_test.h -- what is claimed of every placement, checked by other means than it was made with. */
#ifndef RP_PLACE_TEST_H
#define RP_PLACE_TEST_H

#include "rp_test.h"

#include "place/place.h"

static inline int place_by_begin(const void *left, const void *right)
{
    const rp_place_buffer *a = left, *b = right;

    return a->begin != b->begin ? (a->begin < b->begin ? -1 : 1) : a->end < b->end ? -1 : a->end > b->end;
}

/* The greatest live sum, event by event. */
static inline int64_t place_live(const rp_place_buffer *b, int n)
{
    int last      = 0;
    int64_t most  = 0, live = 0;

    for (int i = 0; i < n; i++) last = b[i].end > last ? b[i].end : last;
    int64_t *change = calloc((size_t)last + 1, sizeof *change);
    assert_non_null(change);
    for (int i = 0; i < n; i++) {
        change[b[i].begin] += b[i].bytes;
        change[b[i].end] -= b[i].bytes;
    }
    for (int e = 0; e <= last; e++) {
        live += change[e];
        if (live > most) most = live;
    }
    free(change);
    return most;
}

/* Buffer by buffer as they come to be, each against all that live then. */
static inline void place_check_overlap(const char *name, const rp_place_buffer *placed, int n)
{
    rp_place_buffer *b = malloc((size_t)(n + 1) * sizeof *b), *live = malloc((size_t)(n + 1) * sizeof *live);
    int n_live         = 0;

    assert_true(b && live);
    for (int i = 0; i < n; i++) b[i] = placed[i];
    qsort(b, (size_t)n, sizeof *b, place_by_begin);
    for (int i = 0; i < n; i++) {
        int kept = 0;
        if (!b[i].bytes) continue;
        for (int k = 0; k < n_live; k++) {
            if (live[k].end <= b[i].begin) continue;
            if (live[k].offset < b[i].offset + b[i].bytes && b[i].offset < live[k].offset + live[k].bytes)
                fail_msg("%s: %d … %d at %" PRId64 " and %d … %d at %" PRId64 " overlap", name, live[k].begin, live[k].end, live[k].offset, b[i].begin,
                         b[i].end, b[i].offset);
            live[kept++] = live[k];
        }
        n_live         = kept;
        live[n_live++] = b[i];
    }
    free(live);
    free(b);
}

static inline void place_check(const char *name, const rp_place_buffer *before, const rp_place_buffer *after, int n, const rp_placement *out)
{
    int64_t height = 0;

    for (int i = 0; i < n; i++) {
        const rp_place_buffer *a = &before[i], *b = &after[i];
        if (a->bytes != b->bytes || a->begin != b->begin || a->end != b->end) fail_msg("%s: buffer %d is another one", name, i);
        if (a->offset >= 0 && a->offset != b->offset) fail_msg("%s: buffer %d was fixed", name, i);
        if (b->offset < 0 || b->offset % RP_ALIGN) fail_msg("%s: buffer %d lies at %" PRId64, name, i, b->offset);
        if (b->bytes && b->offset + b->bytes > height) height = b->offset + b->bytes;
    }
    place_check_overlap(name, after, n);
    if (out->bound != place_live(before, n)) fail_msg("%s: the bound is %" PRId64 ", reported %" PRId64, name, place_live(before, n), out->bound);
    if (out->height != height || height < out->bound)
        fail_msg("%s: the height is %" PRId64 ", reported %" PRId64 " over %" PRId64, name, height, out->height, out->bound);
}

/* Placed and checked, in place. */
static inline rp_placement place_checked(rp_ctx *ctx, const char *name, rp_place_buffer *b, int n)
{
    rp_place_buffer *before = malloc((size_t)(n + 1) * sizeof *before);
    rp_placement out;

    assert_non_null(before);
    for (int i = 0; i < n; i++) before[i] = b[i];
    assert_ok(ctx, rp__place(ctx, b, n, RP_PLACE_ANY, &out));
    place_check(name, before, b, n, &out);
    free(before);
    return out;
}

static inline uint32_t place_draw(uint32_t *seed, int n) { return ((*seed = *seed * 1664525u + 1013904223u) >> 8) % (uint32_t)n; }

#endif
