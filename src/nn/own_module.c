/* nn/own_module.c -- modules that a program creates, each with a type of its own whose forward is a function of the program.
 *
 * reprise.h documents the functions.
 */
#include "nn/module.h"

#include <string.h>

typedef struct {
    rp_module m;
    rp_module_kind type;
    char *type_name;
    rp_checkpoint_function forward;
    void *user;
} own_module;

static rp_status forward(rp_module *self, rp_tensor *const *in, rp_tensor **out)
{
    const own_module *own = (const own_module *)self;

    RP_TRY(own->forward(self->ctx, own->user, in, out));
    RP_CHECK(self->ctx, *out, RP_ERR_STATE, "the forward of module '%s' returned no output", self->path);
    return RP_OK;
}

static void own_module_drop(rp_module *self) { rp__release(((own_module *)self)->type_name); }

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

rp_status rp_module_call(rp_module *m, rp_tensor *const *inputs, rp_tensor **output)
{
    RP_GIVEN(m ? m->ctx : NULL, m && output);
    RP_CHECK(m->ctx, m->type->forward == forward && !m->type->is_list, RP_ERR_ARG, "module '%s' (%s) cannot be called by a program", m->path, m->type->name);
    return rp__module_call(m, inputs, output);
}

void rp_module_free(rp_module *root) { rp__module_free(root); }
