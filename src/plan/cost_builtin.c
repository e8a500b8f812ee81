/* plan/cost_builtin.c -- a table before anything was measured. */
#include "plan/cost_inside.h"

#include <math.h>
#include <string.h>

rp_status rp__cost_builtin(rp_ctx *ctx, const rp_cost_machine *machine, rp_cost_table **out)
{
    rp_cost_table *t;

    RP_TRY(rp__cost_table_new(ctx, RP_COST_GUESSED, &t));
    t->machine = *machine;
    rp__cost_machine_name(machine, t->name);
    for (int op = 0; op <= rp__op_count(); op++)
        for (int d = 0; d < 3; d++)
            for (rp_pass pass = RP_FORWARD; pass <= RP_BACKWARD; pass++)
                *rp__cost_row(t, op, rp__cost_dtypes[d], pass) = (rp_cost_row){ 1e-6, 1e11, 1e10 };
    *out = t;
    return RP_OK;
}
