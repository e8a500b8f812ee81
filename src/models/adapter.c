/* models/adapter.c -- freezes parameters and attaches adapters to layers. */
#include "models/adapter.h"

#include <string.h>

#include "models/weights_internal.h"
#include "policy/names.h"
#include "tape/tape.h"
#include "tensor/tensor.h"

/* The head is excluded: it is the only layer directly under the root. */
static bool takes_adapter(const rp_module *m)
{
    int unused;

    return !strcmp(m->type->name, "Linear") && m->parent && m->parent->parent && rp__lora_part_of(m->param[0].path, &unused) == RP_LORA_NONE &&
           !m->param[0].beside;
}

bool rp__adapter_names(const rp_module *in, const char *name, const char *path)
{
    return strchr(path, '.') && (!strcmp(name, "all-linear") || rp__module_called(in, path, name, RP_CALLED_AT_END));
}

static const char *const by_default[] = { "attn.q", "attn.v", "attn.qkv" };

/* Whether the config names the layer. Sets matched[i] for each name that does. */
static bool is_named(const rp_adapter_config *c, const rp_module *m, bool *matched)
{
    int n                   = c->n_modules ? c->n_modules : RP_COUNT(by_default);
    const char *const *name = c->n_modules ? c->module : by_default;
    bool any                = false;

    for (int i = 0; i < n; i++) {
        if (!rp__adapter_names(m, name[i], m->path)) continue;
        if (c->n_modules) matched[i] = true;
        any = true;
    }
    return any;
}

static rp_status attach_all(rp_module *root, const rp_adapter_config *c, bool *matched)
{
    bool any = false;

    for (rp_module *m = root; m; m = rp__module_next(root, m)) {
        if (!takes_adapter(m) || !is_named(c, m, matched)) continue;
        RP_TRY(rp__lora_attach(m, &c->lora));
        any = true;
    }
    RP_CHECK(root->ctx, any || !c->n_whole, RP_ERR_MATCH, "no layer is left for an adapter: those that would get one are trained whole");
    for (int i = 0; i < c->n_modules && !root->ctx->options.shapes_only; i++)
        RP_CHECK(root->ctx, matched[i], RP_ERR_MATCH, "no linear layer that takes an adapter is called '%s'", c->module[i]);
    return RP_OK;
}

/* ---- weights trained whole ---- */

/* Unfreezes the parameters that the glob matches or that are inside a match; a tied weight matches by the name of either module. */
static bool free_matching(rp_module *root, const char *glob)
{
    bool any = false;

    for (rp_module *m = root; m; m = rp__module_next(root, m))
        for (int i = 0; i < m->n_params; i++) {
            rp_param *p = m->param[i].owner ? m->param[i].owner : &m->param[i];
            if (!rp__module_called(m, m->param[i].path, glob, RP_CALLED_WITHIN)) continue;
            p->beside = p->tensor->requires_grad = any = true;
        }
    return any;
}

/* A module must be trained completely or not at all, because files of adapters name modules, not parameters. */
static rp_status check_parts(const rp_module *root)
{
    for (const rp_module *m = root; m; m = rp__module_next(root, m))
        for (int i = 1; i < m->n_params; i++)
            RP_CHECK(root->ctx, m->param[i].owner || m->param[i].beside == m->param[0].beside, RP_ERR_MATCH,
                     "'%s' is to be trained whole beside adapters, but '%s' is not: all parameters of a module must be, or none",
                     m->param[m->param[i].beside ? i : 0].path, m->param[m->param[i].beside ? 0 : i].path);
    return RP_OK;
}

static rp_status free_whole(rp_module *root, const rp_adapter_config *c)
{
    for (int i = 0; i < c->n_whole; i++) {
        bool any = free_matching(root, c->whole[i]);
        RP_CHECK(root->ctx, any || root->ctx->options.shapes_only, RP_ERR_MATCH,
                 "no module or parameter to train whole beside adapters is called '%s'", c->whole[i]);
    }
    return check_parts(root);
}

rp_status rp__adapters_attach(rp_module *root, const rp_adapter_config *c)
{
    bool *matched = rp__host_alloc(root->ctx, c->n_modules + 1);

    if (!matched) return RP_ERR_MEMORY;
    for (rp_module *m = root; m; m = rp__module_next(root, m))
        for (int i = 0; i < m->n_params; i++) m->param[i].tensor->requires_grad = false;
    rp_status status = free_whole(root, c);
    if (status == RP_OK) status = attach_all(root, c, matched);
    rp__release(matched);
    return status;
}

/* ---- magnitudes ---- */

static rp_status begin_magnitude(rp_module *linear, const rp_param *magnitude)
{
    rp_tensor *norms;

    RP_TRY(rp__magnitude_begin(linear, &norms));
    rp_status status = RP_OK;
    for (int64_t i = 0; i < rp_meta_elems(&magnitude->whole) && status == RP_OK; i++) {
        float norm = (float)rp_elem_get(norms, i);
        status     = rp__param_store(magnitude, i, &norm, 1);
    }
    rp__param_pad(magnitude);
    rp__tensor_wrote(magnitude->tensor, "rp__magnitudes_init");
    rp_tensor_unref(norms);
    return status;
}

static bool has_magnitude(const rp_module *m)
{
    rp_lora_parts parts;

    for (const rp_module *at = m; at; at = rp__module_next(m, at))
        if (rp__lora_parts(at, &parts) && parts.magnitude) return true;
    return false;
}

/* Visits modules in the order of a forward. */
static rp_status begin_under(rp_module *m)
{
    rp_lora_parts parts;

    if (!has_magnitude(m)) return RP_OK;
    RP_TRY(rp__module_enter(m));
    rp_status status = rp__lora_parts(m, &parts) && parts.magnitude ? begin_magnitude(m, parts.magnitude) : RP_OK;
    for (rp_module *child = m->first_child; child && status == RP_OK; child = child->next) status = begin_under(child);
    rp__module_leave(m);
    return status;
}

rp_status rp__magnitudes_init(rp_model *model)
{
    bool *no_grad = &rp__tape_ctx(rp__model_ctx(model))->no_grad;

    *no_grad         = true;
    rp_status status = begin_under(rp__model_root(model));
    *no_grad         = false;
    return status;
}

/* ---- frozen ---- */

rp_status rp__model_freeze(rp_model *model, int n, const char *const *globs)
{
    rp_ctx *ctx = rp__model_ctx(model);
    int n_params = rp__model_n_params(model), left = 0;

    for (int g = 0; g < n; g++) {
        int matched = 0;
        for (int i = 0; i < n_params; i++) {
            const rp_param *p = rp__model_param(model, i);
            if (!rp__module_called(rp__model_root(model), p->path, globs[g], RP_CALLED_WITHIN)) continue;
            p->tensor->requires_grad = false;
            matched++;
        }
        RP_CHECK(ctx, matched || ctx->options.shapes_only, RP_ERR_MATCH, "freeze: '%s' matches no parameter", globs[g]);
    }
    for (int i = 0; i < n_params; i++) left += rp__model_param(model, i)->tensor->requires_grad;
    RP_CHECK(ctx, left, RP_ERR_CONFIG, "'freeze' leaves no parameter to train");
    return RP_OK;
}

bool rp__model_is_frozen(const rp_model *model)
{
    for (int i = 0; i < rp__model_n_params(model); i++)
        if (!rp__model_param(model, i)->tensor->requires_grad) return true;
    return false;
}

bool rp__model_is_adapted(rp_model *model)
{
    rp_lora_parts parts;

    for (rp_module *root = rp__model_root(model), *m = root; m; m = rp__module_next(root, m))
        if (rp__lora_parts(m, &parts)) return true;
    return false;
}
