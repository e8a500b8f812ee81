/* comm/slice.c -- divides elements among ranks. */
#include "comm/comm.h"

rp_slice rp__slice_of(int64_t n, int rank, int ranks)
{
    int64_t room  = ((n + ranks - 1) / ranks + RP_SLICE_ELEMS - 1) / RP_SLICE_ELEMS * RP_SLICE_ELEMS;
    int64_t first = room * rank < n ? room * rank : n, left = n - first;

    return (rp_slice){ .room = room, .first = first, .count = left < room ? left : room };
}
