/* tape/offload_public.c -- rp_set_offload: opens, changes and closes the context's place for offloaded slots. */
#include "base/sized.h"
#include "tape/offload.h"
#include "tape/tape.h"

rp_status rp_set_offload_sized(size_t size, rp_ctx *ctx, const rp_offload_options *options)
{
    RP_GIVEN(ctx, ctx);
    rp_offload_options own;

    RP_TAKE(ctx, own, options, size);
    rp_offload *opened = NULL, **place = &rp__tape_ctx(ctx)->offload;
    int64_t there   = *place ? rp__offload_tickets(*place) : 0;

    RP_CHECK(ctx, !there, RP_ERR_STATE, "offloading cannot change while slots of a pass are offloaded: %" PRId64, there);
    if (options) RP_TRY(rp__offload_open(ctx, options, &opened));
    rp__offload_close(*place);
    *place = opened;
    return RP_OK;
}

rp_status (rp_set_offload)(rp_ctx *ctx, const rp_offload_options *options) { return rp_set_offload_sized(RP_FIRST_OFFLOAD_OPTIONS, ctx, options); }
