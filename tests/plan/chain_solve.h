/* chain_solve.h -- one budget of a chain, by a solver of its own. */
#ifndef RP_CHAIN_SOLVE_H
#define RP_CHAIN_SOLVE_H

#include "solve/chain.h"

/* The plan of a budget. Free with rp__chain_plan_free. */
static inline rp_status chain_solve(rp_ctx *ctx, const rp_chain *chain, int64_t budget, rp_chain_plan *out)
{
    rp_chain_solver *s;

    *out             = (rp_chain_plan){ 0 };
    rp_status status = rp__chain_solver_open(ctx, chain, &s);
    if (status == RP_OK) status = rp__chain_solver_solve(s, budget, out);
    rp__chain_solver_close(s);
    return status;
}

/* The least budget that has a plan. */
static inline rp_status chain_least(rp_ctx *ctx, const rp_chain *chain, int64_t *bytes)
{
    rp_chain_solver *s;
    rp_status status = rp__chain_solver_open(ctx, chain, &s);

    if (status == RP_OK) *bytes = rp__chain_solver_least(s);
    rp__chain_solver_close(s);
    return status;
}

/* The bound of a budget. */
static inline rp_status chain_bound(rp_ctx *ctx, const rp_chain *chain, int64_t budget, double *seconds)
{
    rp_chain_solver *s;
    rp_status status = rp__chain_solver_open(ctx, chain, &s);

    if (status == RP_OK) status = rp__chain_solver_bound(s, budget, seconds);
    rp__chain_solver_close(s);
    return status;
}

#endif
