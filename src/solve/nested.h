/* solve/nested.h -- what the two files about regions share: stretches of regions, and which regions there are.
 *
 *   nested_stretch.c   which regions are allowed, which stretches are alike, how much work their fronts are
 *   nested.c           fronts of stretches, ways read from them, the least budget
 */
#ifndef RP_SOLVE_NESTED_H
#define RP_SOLVE_NESTED_H

#include "solve/chain_internal.h"

typedef struct {
    int first, end;                 /* one of the stretches that are so */
    int class, rest, child, sibling; /* of its first segment; rest: the stretch without that; a tree of stretches, by rest */
    bool begins;                    /* a block does with its first segment */
    bool thin, made;                /* its front will be thinned · exists */
    int least_option;               /* the option of its first segment on the way of least bytes; -1: a region inside is */
    int64_t fixed[RP_CHAIN_KINDS];  /* in the first segment's backward, relative to the end's */
    int64_t end_fixed;              /* the least of the ends' */
    int64_t limit;                  /* of bytes that are of use in the budget */
    int64_t least, most;            /* bytes of the ways of least bytes and of least ticks */
    double points;                  /* its front has no more of them */
    int n_joins;                    /* regions that it may begin with */
    rp_chain_span front;
} stretch;

struct rp_chain_nest {
    rp_chain_work *work;
    bool counts[RP_CHAIN_KINDS];    /* kinds of pass that another one does not always exceed */
    int grain;                      /* ends of regions: 0 any segment, 1 any block, g > 1 every g-th block, and any block's own */
    int *block;                     /* [n + 1]: of the block that begins with the segment; -1: none does */
    int *lowest;                    /* [n + 1]: where the longest region that ends before the segment begins; the segment itself: none ends there */
    int64_t *row;                   /* [n + 1]: where in `alike` stretches that end there are, by their first segment */
    int *alike;                     /* index of the stretch that stands for it */
    stretch *of;
    int n, room, bits, most_bits;
    bool **tried;                   /* [class][option]: fronts of regions are made of it … */
    int *n_tried;                   /* … and so many */
    int64_t budget;                 /* that limits are for */
    rp_chain_fronts fronts;
};

static inline int index_of(const rp_chain_nest *nest, int first, int end)
{
    return nest->alike[nest->row[end] + first - nest->lowest[end]];
}

static inline bool is_last(const stretch *s) { return s->end == s->first + 1; }
static inline const int64_t *ticks_in(const rp_chain_nest *nest, const stretch *s) { return nest->work->ticks_in[is_last(s)][s->class]; }
static inline int64_t output_of(const rp_chain_nest *nest, int i) { return rp__chain_class_at(nest->work->chain, i)->output; }

/* From bytes relative to one end to bytes relative to another. */
static inline int64_t shift_between(const rp_chain_nest *nest, int from_end, int to_end)
{
    return rp__chain_fixed_recompute(nest->work->chain, from_end) - rp__chain_fixed_recompute(nest->work->chain, to_end);
}

/* A region inside that begins at `first`, so far as it is the same wherever it ends: segment i of it run again with nothing kept. */
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

/* The last segment's options are all tried, as it saves nothing, and that which makes the way of least bytes is. */
static inline bool is_tried(const rp_chain_nest *nest, const stretch *s, int o)
{
    return is_last(s) || nest->tried[s->class][o] || o == s->least_option;
}

/* What the first segment of a stretch needs with an option. */
int64_t rp__nest_need(const rp_chain_nest *nest, const stretch *s, const rp_chain_option *o);
/* Stretches, alike and measured, in as many regions and as fine fronts as the work limit lets there be. errors RP_ERR_MEMORY */
rp_status rp__nest_stretches(rp_chain_nest *nest);

#endif
