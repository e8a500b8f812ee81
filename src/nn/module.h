/* nn/module.h -- a tree of named parts.
 *
 *   model                      type "Decoder"            path ""
 *   ├─ tok_embeddings          type "Embedding"          path "tok_embeddings"
 *   └─ layers ─ 0 ─ attn ─ q   type "Linear"             path "layers.0.attn.q"
 *
 * A layer is a struct whose first member is rp_module, a line of its type table (name and forward) and a function that makes
 * it. Modules know nothing of checkpointing: rp__module_call opens a region around the forward of a module that is marked,
 * gives every random call its stream by the module's path, and runs it in the module's mode.
 */
#ifndef RP_NN_MODULE_H
#define RP_NN_MODULE_H

#include "base/module_path.h"
#include "comm/comm.h"
#include "reprise/ops.h"
#include "policy/stack.h"
#include "tape/tape.h"

enum { RP_MAX_OWN_PARAMS = 2 };

/* in[] holds what the type's header says; out[0] is a new reference, the caller's. */
typedef struct {
    const char *name;                           /* "TransformerBlock" */
    rp_status (*forward)(rp_module *self, rp_tensor *const *in, rp_tensor **out);
    void (*drop)(rp_module *self);              /* what the layer holds besides parameters and children; may be NULL */
    bool is_list;                               /* its members are called, it never is */
    /* Of a root: is what stands at `path` called so in the files of the model? May be NULL. */
    bool (*called)(const rp_module *root, const char *path, const char *glob, rp_called how);
} rp_module_kind;

/* Where weights are sharded `tensor` is this rank's slice of the whole, a row of slice.room elements; those past slice.count are zero. */
typedef struct rp_param rp_param;
struct rp_param {
    const char *name;                           /* "weight", "bias" */
    char *path;                                 /* "layers.0.attn.q.weight" */
    rp_tensor *tensor;
    rp_tensor *gathered;                        /* the whole, from when it is gathered to when it is let go; NULL else, and where tensor is it */
    rp_meta whole;
    rp_slice slice;                             /* of the whole's elements, which `tensor` holds */
    bool beside;                                /* trained whole beside adapters, and in their files (models/adapter.h) */
    rp_param *owner;                            /* this is another module's parameter: tied embeddings; NULL: its own */
};

/* What is done around a module's forward, whoever calls it: weights are gathered and let go. A before that fails is not followed by after. */
typedef struct {
    rp_status (*before)(void *user, rp_module *m);
    void (*after)(void *user, rp_module *m);
    void *user;
} rp_module_hook;

struct rp_module {
    rp_ctx *ctx;
    const rp_module_kind *type;
    const char *name;                           /* last part of the path */
    char *path;
    rp_scope scope;
    rp_module *parent, *first_child, *last_child, *next;
    rp_param param[RP_MAX_OWN_PARAMS];
    int n_params;
    bool checkpointed;                          /* its forward is a region */
    rp_policy *policy;                          /* decides in its forward, too; may be NULL */
    const rp_module_hook *hook;                 /* borrowed; NULL: nothing is done */
    bool eval;                                  /* its forward runs in evaluation mode, whatever is around it */
};

/* A zeroed layer of `bytes`, begun by an rp_module, as the last child of `parent` (NULL: a root; it owns its children).
 * errors  RP_ERR_MEMORY */
rp_status rp__module_new(rp_ctx *ctx, rp_module *parent, const char *name, const rp_module_kind *type, size_t bytes, void *out);
/* Frees the tree under it; a root's owner calls this. NULL is fine. */
void rp__module_free(rp_module *root);

/* A new parameter, requires_grad set, contents undefined. errors RP_ERR_MEMORY */
rp_status rp__module_param(rp_module *m, const char *name, const rp_meta *meta, rp_tensor **out);
/* The module reads a parameter of another one. */
rp_status rp__module_share(rp_module *m, const char *name, rp_param *owner);

/* What a forward reads of parameter i: the whole. Where weights are sharded it has been gathered. */
static inline rp_tensor *rp__module_weight(const rp_module *m, int i)
{
    const rp_param *p = m->param[i].owner ? m->param[i].owner : &m->param[i];

    return p->gathered ? p->gathered : p->tensor;
}

/* Is all there is of it now a slice? */
static inline bool rp__module_is_sliced(const rp_module *m, int i)
{
    const rp_param *p = m->param[i].owner ? m->param[i].owner : &m->param[i];

    return rp__shards(m->ctx) && !p->gathered;
}

/* What is done around a forward, its policy and its hook; for who runs a module's ops without calling it. Both may nest. */
rp_status rp__module_enter(rp_module *m);
void rp__module_leave(rp_module *m);
/* Run it: sets the scope and the mode, opens a region where the module is marked and a gradient may be wanted. */
rp_status rp__module_call(rp_module *m, rp_tensor *const *in, rp_tensor **out);

/* The next module of a walk of the tree under root, parents first; begin with root, NULL ends. */
rp_module *rp__module_next(const rp_module *root, const rp_module *m);

/* How many modules rp_module_checkpoint would make regions by this condition. */
int rp__module_matches(rp_module *root, rp_module_condition condition, void *user);

/* A condition for rp_module_checkpoint: the module's type is the text `user`. */
bool rp__module_is_type(const char *path, const rp_module *m, void *user);

#endif
