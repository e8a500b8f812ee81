/* shard/gather.c -- gathers the weights of shard units in hooks around the forwards of modules. */
#include "shard/gather.h"

#include <string.h>

#include "comm/comm.h"
#include "ops/call.h"
#include "policy/policy.h"
#include "policy/stack.h"
#include "tape/tape.h"

typedef struct {
    const rp_unit *unit;
    rp_module **holder;                 /* for each parameter the module that contains it; the gather's call has its path */
    rp_policy *policy;                  /* decides the fate of the gathered weights */
    bool parts;                         /* every rank keeps a part of the gathered weights until backward (comm/comm.h: inner) */
    int depth;                          /* open entries of the unit: the first gathers, the last frees */
} gathering;

struct rp_gather {
    rp_ctx *ctx;
    const rp_units *units;
    rp_policy *keeps, *recompute;
    gathering *of;                      /* one per unit */
    rp_module_hook hook;
};

/* ---- a unit ---- */

static void release_gathered(const gathering *g)
{
    for (int i = 0; i < g->unit->n_params; i++) {
        rp_tensor_unref(g->unit->param[i]->gathered);
        g->unit->param[i]->gathered = NULL;
    }
}

static rp_status call(rp_ctx *ctx, const rp_op *op, const rp_param *p, rp_module *holder, rp_tensor *const *in, int n_in, rp_tensor **out)
{
    rp_attr_whole whole = { .ndim = p->whole.ndim, .dtype = (int)p->whole.dtype };
    rp_tape_ctx *tape   = rp__tape_ctx(ctx);
    rp_scope *outer     = tape->scope;

    memcpy(whole.dim, p->whole.dim, (size_t)p->whole.ndim * sizeof *whole.dim);
    tape->scope      = &holder->scope;
    rp_status status = rp__apply(ctx, op, &whole, in, n_in, out);
    tape->scope      = outer;
    return status;
}

/* First p->gathered is the part … */
static rp_status gather_part(rp_ctx *ctx, rp_param *p, rp_module *holder)
{
    return call(ctx, &rp_op_all_gather_far, p, holder, &p->tensor, 1, &p->gathered);
}

/* … then the whole. */
static rp_status gather_whole(rp_ctx *ctx, rp_param *p, rp_module *holder)
{
    rp_tensor *in[] = { p->tensor, p->gathered }, *whole;

    RP_TRY(call(ctx, &rp_op_all_gather, p, holder, in, p->gathered ? 2 : 1, &whole));
    rp_tensor_unref(p->gathered);
    p->gathered = whole;
    return RP_OK;
}

static rp_status gather_all(rp_ctx *ctx, const gathering *g)
{
    const rp_unit *unit = g->unit;
    rp_status status    = RP_OK;

    for (int i = 0; i < unit->n_params && g->parts && status == RP_OK; i++) status = gather_part(ctx, unit->param[i], g->holder[i]);
    for (int i = 0; i < unit->n_params && status == RP_OK; i++) status = gather_whole(ctx, unit->param[i], g->holder[i]);
    if (status != RP_OK) release_gathered(g);
    return status;
}

static gathering *entered(rp_gather *gather, const rp_module *m)
{
    const rp_unit *unit = rp__units_entered(gather->units, m);

    return unit ? &gather->of[unit - gather->units->unit] : NULL;
}

static rp_status before(void *user, rp_module *m)
{
    rp_gather *gather = user;
    gathering *g      = entered(gather, m);

    if (g->depth++ > 0) return RP_OK;
    RP_TRY(rp__policy_push(gather->ctx, g->policy));
    rp_status status = gather_all(gather->ctx, g);
    rp__policy_pop(gather->ctx);
    if (status != RP_OK) g->depth--;
    return status;
}

static void after(void *user, rp_module *m)
{
    gathering *g = entered(user, m);

    if (--g->depth == 0) release_gathered(g);
}

/* ---- life ---- */

static rp_module *holder_of(rp_module *root, const rp_param *p)
{
    for (rp_module *m = root; m; m = rp__module_next(root, m))
        for (int i = 0; i < m->n_params; i++)
            if (&m->param[i] == p) return m;
    return root;
}

static rp_status list_holders(rp_gather *gather)
{
    int n = 0;

    for (int u = 0; u < gather->units->n_units; u++) n += gather->units->unit[u].n_params;
    rp_module **holder = rp__host_alloc(gather->ctx, (n + 1) * (int64_t)sizeof *holder);
    if (!holder) return RP_ERR_MEMORY;
    for (int u = 0; u < gather->units->n_units; u++) {
        gathering *g = &gather->of[u];
        g->unit      = &gather->units->unit[u];
        g->holder    = holder;
        for (int i = 0; i < g->unit->n_params; i++) *holder++ = holder_of(gather->units->root, g->unit->param[i]);
    }
    return RP_OK;
}

static rp_status make_policy(rp_ctx *ctx, rp_fate fate, rp_fate keep, rp_policy **out)
{
    RP_TRY(rp_policy_new(ctx, "dist.reshard_after_forward", out));
    (*out)->yields = true;              /* a recipe's rules override it, as they override its preferences */
    RP_TRY(rp_policy_rule(*out, NULL, "all_gather_far", keep));
    return rp_policy_rule(*out, NULL, "all_gather", fate);
}

/* The root's unit ends with the forward, and its backward starts right then, so freeing its weights would gain nothing. */
static bool kept_anyway(const rp_units *units, const rp_unit *unit)
{
    for (int i = 0; i < unit->n_entries; i++)
        if (unit->entry[i] == units->root) return true;
    return false;
}

static rp_status open(rp_gather *gather, bool reshard, bool planned)
{
    const rp_units *units = gather->units;

    gather->of = rp__host_alloc(gather->ctx, units->n_units * (int64_t)sizeof *gather->of);
    if (!gather->of) return RP_ERR_MEMORY;
    RP_TRY(list_holders(gather));
    rp_fate keep = planned ? RP_KEEP : RP_PREFER_KEEP;
    RP_TRY(make_policy(gather->ctx, keep, keep, &gather->keeps));
    RP_TRY(make_policy(gather->ctx, planned ? RP_RECOMPUTE : RP_PREFER_RECOMPUTE, keep, &gather->recompute));
    for (int u = 0; u < units->n_units; u++) {
        const rp_unit *unit  = &units->unit[u];
        bool goes            = reshard && !kept_anyway(units, unit);
        gather->of[u].policy = goes ? gather->recompute : gather->keeps;
        gather->of[u].parts  = goes && rp__groups(gather->ctx)->inner;
        for (int i = 0; i < unit->n_entries; i++) unit->entry[i]->hook = &gather->hook;
    }
    return RP_OK;
}

rp_status rp__gather_new(rp_ctx *ctx, const rp_units *units, bool reshard, bool planned, rp_gather **out)
{
    rp_gather *gather = rp__host_alloc(ctx, sizeof *gather);

    if (!gather) return RP_ERR_MEMORY;
    *gather          = (rp_gather){ .ctx = ctx, .units = units };
    gather->hook     = (rp_module_hook){ before, after, gather };
    rp_status status = open(gather, reshard, planned);
    if (status != RP_OK) rp__gather_free(gather);
    else *out = gather;
    return status;
}

void rp__gather_free(rp_gather *gather)
{
    if (!gather) return;
    for (int u = 0; u < gather->units->n_units; u++)
        for (int i = 0; i < gather->units->unit[u].n_entries; i++) gather->units->unit[u].entry[i]->hook = NULL;
    rp_policy_free(gather->recompute);
    rp_policy_free(gather->keeps);
    if (gather->of) rp__release(gather->of[0].holder);
    RP_RELEASE(gather->of, gather);
}
