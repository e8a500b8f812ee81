/* comm/slice.c -- divides elements among ranks. */
#include "comm/comm.h"

rp_slice rp__slice_at(int64_t room, int64_t n, int rank)
{
    int64_t first = room * rank < n ? room * rank : n, left = n - first;

    return (rp_slice){ .room = room, .first = first, .count = left < room ? left : room };
}

static rp_slice slice_by(int64_t unit, int64_t n, int rank, int ranks)
{
    return rp__slice_at(((n + ranks - 1) / ranks + unit - 1) / unit * unit, n, rank);
}

rp_slice rp__slice_of(int64_t n, int rank, int ranks) { return slice_by(RP_SLICE_ELEMS, n, rank, ranks); }

rp_slice rp__slice_in(const rp_ctx *ctx, int64_t n, int rank, int ranks)
{
    int64_t unit = rp__groups(ctx)->slice_elems;

    return slice_by(unit ? unit : RP_SLICE_ELEMS, n, rank, ranks);
}
