/* A refusal that no test asks for. */
rp_status rp__zz_check(rp_ctx *ctx, int n)
{
    RP_CHECK(ctx, n > 0, RP_ERR_ARG, "zz: %d gnomes guard no garden", n);
    return RP_OK;
}
