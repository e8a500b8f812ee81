/* nn/own_module.c -- modules that a program creates, and their parameters; reprise.h and train.h document the functions.
 *
 * Each has a type of its own, whose forward is a function of the program.
 */
#include "reprise/train.h"
#include "base/list.h"
#include "base/sized.h"
#include "nn/module.h"

#include <string.h>

typedef struct {
    rp_module m;
    rp_module_kind type;
    char *type_name;
    rp_checkpoint_function forward;
    void *user;
    int n_outputs;                      /* of the running call */
    rp_tensor **own_param;              /* counted */
    int64_t n_own, room;
} own_module;

static rp_status forward(rp_module *self, rp_tensor *const *in, rp_tensor **out)
{
    const own_module *own = (const own_module *)self;
    int n                 = own->n_outputs;

    RP_TRY(own->forward(self->ctx, own->user, in, out));
    RP_CHECK(self->ctx, *out, RP_ERR_STATE, "the forward of module '%s' returned no output", self->path);
    for (int i = 1; i < n; i++)
        RP_CHECK(self->ctx, out[i], RP_ERR_STATE, "the forward of module '%s' returned %d outputs, %d are expected", self->path, i, n);
    return RP_OK;
}

static void own_module_drop(rp_module *self)
{
    own_module *own = (own_module *)self;

    for (int64_t i = 0; i < own->n_own; i++) rp_tensor_unref(own->own_param[i]);
    RP_RELEASE(own->own_param, own->type_name);
}

static rp_status check_name(rp_ctx *ctx, const rp_module *parent, const char *name)
{
    const char *where = parent ? parent->path : "";

    RP_CHECK(ctx, name && (*name || !parent) && !strchr(name, '.'), RP_ERR_ARG, "'%s' is not a valid module name under '%s'", name ? name : "", where);
    for (const rp_module *m = parent ? parent->first_child : NULL; m; m = m->next)
        RP_CHECK(ctx, strcmp(m->name, name) != 0, RP_ERR_ARG, "module '%s' already exists", m->path);
    return RP_OK;
}

rp_status rp_module_new(rp_ctx *ctx, rp_module *parent, const char *name, const char *type, rp_checkpoint_function function, void *user, rp_module **out)
{
    RP_GIVEN(ctx, ctx && out);
    own_module *own;

    RP_SAME_CTX(ctx, parent ? parent->ctx : NULL, "parent");
    RP_CHECK(ctx, type && *type, RP_ERR_ARG, "module '%s' has no type", name ? name : "");
    RP_TRY(check_name(ctx, parent, name));
    char *type_name = rp__host_text(ctx, type);
    if (!type_name) return RP_ERR_MEMORY;
    rp_status status = rp__module_new(ctx, parent, name, NULL, sizeof *own, &own);
    if (status != RP_OK) {
        rp__release(type_name);
        return status;
    }
    own->type      = (rp_module_kind){ .name = type_name, .forward = forward, .drop = own_module_drop, .is_list = !function };
    own->type_name = type_name;
    own->forward   = function;
    own->user      = user;
    own->m.type    = &own->type;
    *out           = &own->m;
    return RP_OK;
}

rp_status rp_module_call_outputs(rp_module *m, rp_tensor *const *inputs, int n_outputs, rp_tensor **outputs)
{
    RP_GIVEN(m ? m->ctx : NULL, m && outputs);
    RP_CHECK(m->ctx, m->type->forward == forward && !m->type->is_list, RP_ERR_ARG, "module '%s' (%s) cannot be called by a program", m->path, m->type->name);
    RP_CHECK(m->ctx, n_outputs >= 1 && n_outputs <= RP_MAX_OUT, RP_ERR_ARG, "module '%s' is called for %d outputs, 1 to %d are possible", m->path, n_outputs,
             RP_MAX_OUT);
    ((own_module *)m)->n_outputs = n_outputs;
    return rp__module_call_outputs(m, inputs, n_outputs, outputs);
}

rp_status rp_module_call(rp_module *m, rp_tensor *const *inputs, rp_tensor **output)
{
    RP_GIVEN(m ? m->ctx : NULL, m && output);
    return rp_module_call_outputs(m, inputs, 1, output);
}

/* ---- parameters ---- */

static rp_status check_param_name(const rp_module *m, const char *name, const char *path)
{
    const own_module *own = (const own_module *)m;

    RP_CHECK(m->ctx, m->type->drop == own_module_drop, RP_ERR_ARG, "module '%s' (%s) is not from rp_module_new: its parameters are fixed", m->path,
             m->type->name);
    RP_CHECK(m->ctx, *name && !strchr(name, '.'), RP_ERR_ARG, "'%s' is not a valid parameter name in module '%s'", name, m->path);
    for (int64_t i = 0; i < own->n_own; i++)
        RP_CHECK(m->ctx, strcmp(rp_tensor_name(own->own_param[i]), path) != 0, RP_ERR_ARG, "parameter '%s' already exists", path);
    return RP_OK;
}

static rp_status module_param_add(size_t size, own_module *own, const char *path, const rp_meta *meta, const rp_init *init, rp_tensor **out)
{
    RP_TRY(RP_GROW(own->m.ctx, own->own_param, own->room, own->n_own + 1));
    RP_TRY(rp_param_new_sized(size, own->m.ctx, path, meta, init, &own->own_param[own->n_own]));
    *out = own->own_param[own->n_own++];
    return RP_OK;
}

rp_status rp_module_param_sized(size_t size, rp_module *m, const char *name, const rp_meta *meta, const rp_init *init, rp_tensor **out)
{
    RP_GIVEN(m ? m->ctx : NULL, m && name && meta && out);
    char *path = rp__module_join(m->ctx, m->path, name);

    if (!path) return RP_ERR_MEMORY;
    rp_status status = check_param_name(m, name, path);
    if (status == RP_OK) status = module_param_add(size, (own_module *)m, path, meta, init, out);
    rp__release(path);
    return status;
}

rp_status (rp_module_param)(rp_module *m, const char *name, const rp_meta *meta, const rp_init *init, rp_tensor **out)
{
    return rp_module_param_sized(RP_FIRST_INIT, m, name, meta, init, out);
}

/* Parameter i of a module itself; NULL past the end. */
static rp_tensor *param_at(const rp_module *m, int64_t i)
{
    const own_module *own = (const own_module *)m;

    if (m->type->drop == own_module_drop) return i < own->n_own ? own->own_param[i] : NULL;
    for (int k = 0; k < m->n_params; k++)
        if (!m->param[k].owner && i-- == 0) return m->param[k].tensor;
    return NULL;
}

int rp_module_params(rp_module *root, rp_tensor **params, int room)
{
    rp_tensor *t;
    int n = 0;

    for (rp_module *m = root; m; m = rp__module_next(root, m))
        for (int64_t i = 0; (t = param_at(m, i)); i++, n++)
            if (params && n < room) params[n] = t;
    return n;
}

void rp_module_free(rp_module *root) { rp__module_free(root); }
