/* solve/nested.h -- shared by the two files about regions: stretches of regions, and the choice of regions.
 *
 *   nested_stretch.c   which regions are allowed, which stretches are alike, the work that their fronts take
 *   nested.c           fronts of stretches, reading ways from them, the least budget
 */
#ifndef RP_SOLVE_NESTED_H
#define RP_SOLVE_NESTED_H

#include "solve/chain_internal.h"

typedef struct {
    int first, end;                 /* one of the alike stretches */
    int class, rest, child, sibling; /* of its first segment; rest: the stretch without that segment; a tree of stretches, by `rest` */
    bool begins;                    /* a block begins with its first segment */
    bool thin, made;                /* its front will be thinned · its front exists */
    int least_option;               /* option of the first segment on the way of least bytes; -1: an inner region begins there instead */
    int64_t fixed[RP_CHAIN_KINDS];  /* fixed bytes of the first segment's backward, relative to the end's */
    int64_t end_fixed;              /* least fixed bytes at the end, over all alike stretches */
    int64_t limit;                  /* larger bytes are of no use within the budget */
    int64_t least, most;            /* bytes of the way of least bytes, and of the way of least ticks */
    double points;                  /* an upper bound on the points of its front */
    int n_joins;                    /* number of regions that may begin it */
    rp_chain_span front;
} stretch;

struct rp_chain_nest {
    rp_chain_work *work;
    bool counts[RP_CHAIN_KINDS];    /* kinds of pass that no other kind always exceeds */
    int grain;                      /* ends of regions: 0 any segment; 1 any block; g > 1 every g-th block, and around each block */
    int *block;                     /* [n + 1]: number of the block that begins with the segment; -1: none */
    int *lowest;                    /* [n + 1]: first segment of the longest region that ends before the segment; the segment itself: none */
    int64_t *row;                   /* [n + 1]: index in `alike` of the stretches that end there, sorted by first segment */
    int *alike;                     /* index of the stretch that represents it */
    stretch *of;
    int n, room, bits, most_bits;
    bool **tried;                   /* [class][option]: fronts of regions use it … */
    int *n_tried;                   /* … and their number */
    int64_t budget;                 /* for which limits are set */
    rp_chain_fronts fronts;
};

static inline int index_of(const rp_chain_nest *nest, int first, int end)
{
    return nest->alike[nest->row[end] + first - nest->lowest[end]];
}

static inline bool is_last(const stretch *s) { return s->end == s->first + 1; }
static inline const int64_t *ticks_in(const rp_chain_nest *nest, const stretch *s) { return nest->work->ticks_in[is_last(s)][s->class]; }
static inline int64_t output_of(const rp_chain_nest *nest, int i) { return rp__chain_class_at(nest->work->chain, i)->output; }

/* Converts bytes relative to one end to bytes relative to another. */
static inline int64_t shift_between(const rp_chain_nest *nest, int from_end, int to_end)
{
    return rp__chain_fixed_recompute(nest->work->chain, from_end) - rp__chain_fixed_recompute(nest->work->chain, to_end);
}

/* Segment i of an inner region that begins at `first`, recomputed without keeping anything. The same for every end of that region. */
static inline int64_t bare_of(const rp_chain_nest *nest, int first, int i)
{
    return rp__chain_class_at(nest->work->chain, i)->bare_recompute[i > first];
}

static inline int64_t waiting_of(const rp_chain_nest *nest, int inner_end, int end)
{
    return rp__chain_waiting(nest->work->chain, inner_end) - rp__chain_fixed_recompute(nest->work->chain, end);
}

static inline int64_t least_of(const rp_chain_nest *nest, int first, int end)
{
    return first == end ? RP_CHAIN_NOWHERE : nest->of[index_of(nest, first, end)].least;
}

/* All options of the last segment are tried, as it saves nothing. The option on the way of least bytes is always tried. */
static inline bool is_tried(const rp_chain_nest *nest, const stretch *s, int o)
{
    return is_last(s) || nest->tried[s->class][o] || o == s->least_option;
}

/* Returns the bytes that the first segment of a stretch needs with an option. */
int64_t rp__nest_need(const rp_chain_nest *nest, const stretch *s, const rp_chain_option *o);
/* Finds and measures the stretches, with as many regions and as fine fronts as the work limit allows. errors RP_ERR_MEMORY */
rp_status rp__nest_stretches(rp_chain_nest *nest);

#endif
