/* tape/offload_public.c -- rp_set_offload: the context's place for offloaded slots, opened, changed and closed. */
#include "base/sized.h"
#include "tape/away.h"

rp_status rp_set_offload_sized(size_t size, rp_ctx *ctx, const rp_offload_options *options)
{
    RP_GIVEN(ctx, ctx);
    rp_offload_options own;

    RP_TAKE(ctx, own, options, size);
    rp_away *opened = NULL;
    int64_t there   = ctx->away ? rp__away_tickets(ctx->away) : 0;

    RP_CHECK(ctx, !there, RP_ERR_STATE, "offloading cannot change while slots of a pass are away: %" PRId64, there);
    if (options) RP_TRY(rp__away_open(ctx, options, &opened));
    rp__away_close(ctx->away);
    ctx->away      = opened;
    ctx->away_free = rp__away_close;
    return RP_OK;
}

rp_status (rp_set_offload)(rp_ctx *ctx, const rp_offload_options *options) { return rp_set_offload_sized(RP_FIRST_OFFLOAD_OPTIONS, ctx, options); }
