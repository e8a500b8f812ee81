/* cell.c -- see cell.h. */
#include "ops/cell.h"

enum { MOST_BYTES = 4 << 20 };         /* of a case; an emulator of another CPU takes long to map more */

rp_ctx *cell_ctx(const variant *where, bool shapes_only)
{
    rp__kernels_force(where->table);
    return test_ctx(&(rp_ctx_options){ .device = where->device, .threads = where->threads, .shapes_only = shapes_only, .memory_limit_bytes = MOST_BYTES });
}

void cell_run(one_call *c, const cell *at, const request *ask)
{
    call_run(c, at->ctx, at->op, at->test, at->where, at->dtype, at->dtype, ask);
}

void check_same_outputs(const one_call *base, const one_call *again, const char *claim)
{
    for (int j = 0; j < base->m.n_out; j++) check_same(again, claim, "output", j, again->out[j], base->out[j]);
    for (int i = 0; i < base->n_in; i++)
        if (call_writes(base, i) && call_writes(again, i)) check_same(again, claim, "written input", i, again->in[i], base->in[i]);
}

void check_same_gradients(const one_call *base, const one_call *again, const char *claim)
{
    for (int i = 0; i < base->n_in; i++)
        if (again->grad_in[i]) check_same(again, claim, "gradient", i, again->grad_in[i], base->grad_in[i]);
}
