/* plan/fates.h -- the fates that a plan gives: which calls of each pass are recomputed or offloaded, alone or in regions. */
#ifndef RP_PLAN_FATES_H
#define RP_PLAN_FATES_H

#include "base/bump.h"
#include "tape/decide.h"

typedef struct {
    const char *op, *path;
    rp_meta out;                        /* the first output */
    bool open;                          /* no rule fixes it, so the plan chooses */
    bool recompute;                     /* its outputs are recomputed alone */
    bool kept;                          /* in a region: its outputs are held, because the region's backward reads them */
    bool offload;                       /* its outputs in offloadable are offloaded */
    uint32_t offloadable;                    /* outputs, then by-products that a preference allows to offload, one bit each */
} rp_plan_call;

typedef struct {
    uint64_t hash;
    int n_calls, n_regions, n_recomputed, n_offloaded;
    rp_plan_call *call;
    rp_stretch *region;
} rp_plan_pass;

/* Returns the fate of an output that no must-rule fixes; RP_NO_FATE: that of its region. The tape and the replay of a trace both use it. */
static inline rp_fate rp__plan_fate(const rp_plan_call *call, bool offloadable)
{
    if (call->offload && offloadable) return RP_OFFLOAD;
    return call->recompute ? RP_RECOMPUTE : call->kept ? RP_KEEP : RP_NO_FATE;
}

#endif
