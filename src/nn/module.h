/* nn/module.h -- a tree of named modules.
 *
 *   model                      type "Decoder"            path ""
 *   ├─ tok_embeddings          type "Embedding"          path "tok_embeddings"
 *   └─ layers ─ 0 ─ attn ─ q   type "Linear"             path "layers.0.attn.q"
 *
 * A layer is a struct whose first member is an rp_module, a type with name and forward, and a function that creates it. Modules do not know
 * about checkpointing. rp__module_call opens a region around the forward of a marked module, keys the random stream of every call by the
 * module's path, and runs the module in its own mode.
 */
#ifndef RP_NN_MODULE_H
#define RP_NN_MODULE_H

#include "base/module_path.h"
#include "comm/comm.h"
#include "reprise/ops.h"
#include "policy/stack.h"
#include "tape/tape.h"

enum { RP_MAX_OWN_PARAMS = 2 };

/* in[] is described in the type's header; out[0] is a new reference, owned by the caller. */
typedef struct {
    const char *name;                           /* "TransformerBlock" */
    rp_status (*forward)(rp_module *self, rp_tensor *const *in, rp_tensor **out);
    void (*drop)(rp_module *self);              /* frees everything except parameters and children; may be NULL */
    bool is_list;                               /* only its members are called */
    /* Set in a root: whether the model's files call the part at `path` by a name that `glob` matches. May be NULL. */
    bool (*called)(const rp_module *root, const char *path, const char *glob, rp_called how);
    /* Set in a root: the quantised dtype in which the weight `name` of the module m below it is stored, or meta->dtype. NULL: always the latter. */
    rp_dtype (*stored)(const rp_module *m, const char *name, const rp_meta *meta);
    /* Set in a root: whether this parameter of the module m below it stays in the model's file. It is not trained, and each rank has all of it. NULL:
     * none does. */
    bool (*mapped)(const rp_module *m, const char *name, const rp_meta *meta);
} rp_module_kind;

/* With sharded weights, `tensor` is this rank's slice of the whole: a row of slice.room elements. Elements from slice.count on are zero. The elements of a
 * quantised weight are its bytes here: its slice is uint8, and slice counts bytes, sharded or not. A mapped weight is never sharded: its slice is the whole. */
typedef struct rp_param rp_param;
struct rp_param {
    const char *name;                           /* "weight", "bias" */
    char *path;                                 /* "layers.0.attn.q.weight" */
    rp_tensor *tensor;
    rp_tensor *gathered;                        /* the whole, while it is gathered; otherwise NULL, and NULL if weights are not sharded */
    rp_meta whole;
    rp_slice slice;                             /* range of the whole's elements, or bytes, that `tensor` holds */
    bool mapped;                                /* its bytes stay in a file */
    bool beside;                                /* trained as a whole in addition to adapters, and stored in their files (models/adapter.h) */
    rp_param *owner;                            /* for a parameter of another module (tied embeddings); NULL: its own */
};

/* Called around every forward of a module, to gather and free weights. If `before` fails, `after` is not called. */
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
    rp_policy *policy;                          /* also decides fates in its forward; may be NULL */
    const rp_module_hook *hook;                 /* borrowed; NULL: none */
    bool eval;                                  /* its forward runs in evaluation mode, also within a module in train mode */
};

/* Creates a zeroed layer of `bytes`, which begins with an rp_module, as the last child of `parent`. A parent owns its children. NULL: a root.
 * errors  RP_ERR_MEMORY */
rp_status rp__module_new(rp_ctx *ctx, rp_module *parent, const char *name, const rp_module_kind *type, size_t bytes, void *out);
/* "path.name", or `name` under a root without a name; yours to rp__release. NULL if memory ran out. */
char *rp__module_join(rp_ctx *ctx, const char *path, const char *name);
/* Frees a module and its children. Call it only for a root. NULL is allowed. */
void rp__module_free(rp_module *root);

/* The dtype for a weight that the module is about to add, as its root says; the module must have its parent. */
rp_dtype rp__module_stored(const rp_module *m, const char *name, const rp_meta *meta);
/* Adds a parameter with undefined contents, and with requires_grad set unless it is quantised or mapped. *out is borrowed. errors RP_ERR_MEMORY */
rp_status rp__module_param(rp_module *m, const char *name, const rp_meta *meta, rp_tensor **out);
/* Lets the module use a parameter of another module. errors RP_ERR_MEMORY */
rp_status rp__module_share(rp_module *m, const char *name, rp_param *owner);

/* Returns the whole of parameter i, which a forward reads. With sharded weights it must have been gathered. */
static inline rp_tensor *rp__module_weight(const rp_module *m, int i)
{
    const rp_param *p = m->param[i].owner ? m->param[i].owner : &m->param[i];

    return p->gathered ? p->gathered : p->tensor;
}

/* Whether only this rank's slice of the parameter exists at the moment. */
static inline bool rp__module_is_sliced(const rp_module *m, int i)
{
    const rp_param *p = m->param[i].owner ? m->param[i].owner : &m->param[i];

    return rp__shards(m->ctx) && !p->gathered && !p->mapped;
}

/* Start and end of a forward: the module's policy and its hook. For code that runs a module's ops without calling it. Calls may nest.
 * errors as rp__policy_push, the hook's */
rp_status rp__module_enter(rp_module *m);
void rp__module_leave(rp_module *m);
/* Calls a module. Sets the scope and the mode, and opens a region if the module is marked and a gradient may be wanted.
 * errors as rp__module_enter, rp__region_begin, rp__region_end, the type's forward */
rp_status rp__module_call(rp_module *m, rp_tensor *const *in, rp_tensor **out);
/* The same for a forward with n outputs, at most RP_MAX_OUT. */
rp_status rp__module_call_outputs(rp_module *m, rp_tensor *const *in, int n, rp_tensor **out);

/* Returns the next module in a walk of the tree below root, parents first. Begin with root; NULL: the end. */
rp_module *rp__module_next(const rp_module *root, const rp_module *m);

/* Returns how many modules rp_module_checkpoint would make regions with this condition. */
int rp__module_matches(rp_module *root, rp_module_condition condition, void *user);

/* A condition for rp_module_checkpoint: holds if the module's type is the text `user`. */
bool rp__module_is_type(const char *path, const rp_module *m, void *user);

#endif
