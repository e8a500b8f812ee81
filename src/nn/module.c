/* nn/module.c -- the module tree, its parameters, and the work around a forward. */
#include "nn/module.h"

#include <stdio.h>
#include <string.h>

#include "base/quant.h"
#include "tensor/tensor.h"

char *rp__module_join(rp_ctx *ctx, const char *path, const char *name)
{
    size_t room = strlen(path) + strlen(name) + 2;
    char *joined = rp__host_alloc(ctx, (int64_t)room);

    if (joined) snprintf(joined, room, "%s%s%s", path, *path && *name ? "." : "", name);
    return joined;
}

static void adopt(rp_module *parent, rp_module *m)
{
    m->parent = parent;
    if (!parent) return;
    if (parent->last_child) parent->last_child->next = m;
    else parent->first_child = m;
    parent->last_child = m;
}

rp_status rp__module_new(rp_ctx *ctx, rp_module *parent, const char *name, const rp_module_kind *type, size_t bytes, void *out)
{
    rp_module *m = rp__host_alloc(ctx, (int64_t)bytes);
    char *path   = m ? rp__module_join(ctx, parent ? parent->path : "", name) : NULL;

    if (!path) {
        rp__release(m);
        return RP_ERR_MEMORY;
    }
    const char *dot = strrchr(path, '.');
    m->ctx          = ctx;
    m->type         = type;
    m->path         = path;
    m->name         = dot ? dot + 1 : path;
    m->scope        = (rp_scope){ .path = path, .module = m };
    adopt(parent, m);
    *(rp_module **)out = m;
    return RP_OK;
}

void rp__module_free(rp_module *m)
{
    if (!m) return;
    for (rp_module *child = m->first_child, *next; child; child = next) {
        next = child->next;
        rp__module_free(child);
    }
    if (m->type->drop) m->type->drop(m);
    for (int i = 0; i < m->n_params; i++) {
        rp_tensor_unref(m->param[i].gathered);
        if (!m->param[i].owner) {
            rp_tensor_unref(m->param[i].tensor->grad);
            m->param[i].tensor->grad = NULL;
        }
        rp_tensor_unref(m->param[i].tensor);
        rp__release(m->param[i].path);
    }
    RP_RELEASE(m->path, m);
}

static rp_status add_param(rp_module *m, const rp_param *p)
{
    char *path = rp__module_join(m->ctx, m->path, p->name);

    if (!path) return RP_ERR_MEMORY;
    RP_BUG_IF(m->n_params == RP_MAX_OWN_PARAMS);
    m->param[m->n_params]      = *p;
    m->param[m->n_params].path = path;
    rp_tensor_ref(m->param[m->n_params++].tensor);
    return RP_OK;
}

static const rp_module_kind *root_kind(const rp_module *m)
{
    while (m->parent) m = m->parent;
    return m->type;
}

rp_dtype rp__module_stored(const rp_module *m, const char *name, const rp_meta *meta)
{
    const rp_module_kind *root = root_kind(m);

    return root->stored ? root->stored(m, name, meta) : meta->dtype;
}

static bool is_mapped(const rp_module *m, const char *name, const rp_meta *whole)
{
    const rp_module_kind *root = root_kind(m);

    return root->mapped && root->mapped(m, name, whole);
}

/* With sharded weights, *mine describes this rank's slice. */
static rp_param plan_param(const rp_module *m, const char *name, const rp_meta *whole, rp_meta *mine)
{
    rp_param p = { .name = name, .whole = *whole, .mapped = is_mapped(m, name, whole) };
    bool cut   = rp__shards(m->ctx) && !p.mapped;
    int ranks  = cut ? rp__comm_ranks(rp__shards(m->ctx)) : 1, rank = cut ? rp__comm_rank(rp__shards(m->ctx)) : 0;

    p.slice = rp__slice_in(m->ctx, rp__sliced_elems(whole), rank, ranks);
    *mine   = cut ? rp_meta_1d(rp__is_quant(whole->dtype) ? RP_U8 : whole->dtype, p.slice.room) : *whole;
    return p;
}

rp_status rp__module_param(rp_module *m, const char *name, const rp_meta *meta, rp_tensor **out)
{
    rp_meta mine;
    rp_param p = plan_param(m, name, meta, &mine);
    rp_tensor *t;

    RP_TRY(p.mapped ? rp__tensor_new_mapped(m->ctx, &mine, &p.tensor) : rp__tensor_new_named(m->ctx, &mine, RP_MEM_PARAM, m->path, &p.tensor));
    t                = p.tensor;
    rp_status status = add_param(m, &p);
    if (status == RP_OK) {
        t->requires_grad = !p.mapped && !rp__is_quant(meta->dtype);
        t->name          = m->param[m->n_params - 1].path;
        *out             = t;
    }
    rp_tensor_unref(t);
    return status;
}

rp_status rp__module_share(rp_module *m, const char *name, rp_param *owner)
{
    rp_param p = *owner;

    p.name     = name;
    p.owner    = owner;
    p.gathered = NULL;
    return add_param(m, &p);
}

static rp_status call(rp_module *m, rp_tensor *const *in, int n, rp_tensor **out)
{
    rp_ctx *ctx                 = m->ctx;
    rp_tape_ctx *tape           = rp__tape_ctx(ctx);
    rp_scope *outer             = tape->scope;
    bool outer_eval             = tape->eval;
    rp_tensor *made[RP_MAX_OUT] = { NULL };
    rp_tape_mark before         = rp__tape_mark(ctx);

    if (m->checkpointed) RP_TRY(rp__region_begin(ctx, m->path));
    tape->scope      = &m->scope;
    tape->eval       = outer_eval || m->eval;
    rp_status status = m->type->forward(m, in, made);
    tape->scope      = outer;
    tape->eval       = outer_eval;
    if (status == RP_OK && m->checkpointed) status = rp__region_end(ctx);
    for (int i = 0; i < n; i++) {
        if (status == RP_OK) out[i] = made[i];
        else rp_tensor_unref(made[i]);
    }
    if (status != RP_OK && m->checkpointed) rp__tape_rewind(ctx, before);
    return status;
}

rp_status rp__module_enter(rp_module *m)
{
    if (m->policy) RP_TRY(rp__policy_push(m->ctx, m->policy));
    rp_status status = m->hook ? m->hook->before(m->hook->user, m) : RP_OK;
    if (status != RP_OK && m->policy) rp__policy_pop(m->ctx);
    return status;
}

void rp__module_leave(rp_module *m)
{
    if (m->hook) m->hook->after(m->hook->user, m);
    if (m->policy) rp__policy_pop(m->ctx);
}

rp_status rp__module_call_outputs(rp_module *m, rp_tensor *const *in, int n, rp_tensor **out)
{
    RP_TRY(rp__module_enter(m));
    rp_status status = call(m, in, n, out);
    rp__module_leave(m);
    return status;
}

rp_status rp__module_call(rp_module *m, rp_tensor *const *in, rp_tensor **out) { return rp__module_call_outputs(m, in, 1, out); }

rp_status rp_module_policy(rp_module *module, rp_policy *policy)
{
    RP_GIVEN(NULL, module);
    RP_SAME_CTX(module->ctx, policy ? policy->ctx : NULL, "policy");
    module->policy = policy;
    return RP_OK;
}

/* The next module of the walk that is not below m. */
static rp_module *next_sibling(const rp_module *root, const rp_module *m)
{
    for (; m != root; m = m->parent)
        if (m->next) return m->next;
    return NULL;
}

rp_module *rp__module_next(const rp_module *root, const rp_module *m) { return m->first_child ? m->first_child : next_sibling(root, m); }

rp_module *rp_module_find(rp_module *root, const char *path)
{
    if (!path) return NULL;
    for (rp_module *m = root; m; m = rp__module_next(root, m))
        if (!strcmp(m->path, path)) return m;
    return NULL;
}

void rp_module_walk(rp_module *root, rp_module_visit visit, void *user)
{
    if (!visit) return;
    for (rp_module *m = root; m; m = rp__module_next(root, m)) visit(m->path, m, user);
}

void rp_module_train(rp_module *root, bool on)
{
    for (rp_module *m = root; m; m = rp__module_next(root, m)) m->eval = !on;
}

static void take_back(rp_module *root)
{
    for (rp_module *m = root; m; m = rp__module_next(root, m)) m->checkpointed = false;
}

static int match(rp_module *root, rp_module_condition condition, void *user, bool mark)
{
    int n = 0;

    for (rp_module *m = root; m;) {
        bool holds = !m->type->is_list && condition(m->path, m, user);
        if (holds && mark) m->checkpointed = true;
        n += holds;
        m = holds ? next_sibling(root, m) : rp__module_next(root, m);
    }
    return n;
}

int rp__module_matches(rp_module *root, rp_module_condition condition, void *user) { return match(root, condition, user, false); }

int rp_module_checkpoint(rp_module *root, rp_module_condition condition, void *user)
{
    if (condition) return match(root, condition, user, true);
    take_back(root);
    return 0;
}

bool rp__module_is_type(const char *path, const rp_module *m, void *user)
{
    (void)path;
    return !strcmp(m->type->name, user);
}

const char *rp_module_path(const rp_module *m) { return m ? m->path : ""; }
const char *rp_module_type(const rp_module *m) { return m ? m->type->name : ""; }
rp_module *rp_module_parent(const rp_module *m)
{
    if (!m) return NULL;
    return m->parent;
}
