/* policy_test.h -- a tree of modules like a model's, for what is asked about modules and slots; policies from text. */
#ifndef RP_POLICY_TEST_H
#define RP_POLICY_TEST_H

#include "rp_test.h"

#include "nn/module.h"
#include "policy/policy.h"

enum { TREE_BLOCKS = 4 };

static inline rp_module *tree_add(rp_module *parent, const char *name, const rp_module_kind *kind, rp_ctx *ctx)
{
    rp_module *m;

    assert_ok(ctx, rp__module_new(ctx, parent, name, kind, sizeof *m, &m));
    return m;
}

/* tok_embeddings, layers.0 … 3 with attn (q, output) and mlp (up), norm. Free with rp__module_free. */
/* Files call what is "layers.0.attn" here "files.blocks.0.attn". */
static inline bool tree_called(const rp_module *root, const char *path, const char *glob, rp_called how)
{
    char name[RP_MODULE_PATH_CHARS];

    (void)root;
    if (strncmp(path, "layers.", 7)) return false;
    snprintf(name, sizeof name, "files.blocks.%s", path + 7);
    return rp__path_called(name, glob, how);
}

static inline rp_module *tree_new(rp_ctx *ctx)
{
    static const rp_module_kind root_kind = { .name = "Decoder", .called = tree_called }, embedding = { .name = "Embedding" }, norm = { .name = "Norm" };
    static const rp_module_kind block = { .name = "TransformerBlock" }, attention = { .name = "Attention" };
    static const rp_module_kind mlp = { .name = "MLP" }, linear = { .name = "Linear" };
    rp_module *root = tree_add(NULL, "", &root_kind, ctx);

    tree_add(root, "tok_embeddings", &embedding, ctx);
    for (int i = 0; i < TREE_BLOCKS; i++) {
        char name[16];
        snprintf(name, sizeof name, "layers.%d", i);
        rp_module *b    = tree_add(root, name, &block, ctx);
        rp_module *attn = tree_add(b, "attn", &attention, ctx);
        tree_add(attn, "q", &linear, ctx);
        tree_add(attn, "output", &linear, ctx);
        tree_add(tree_add(b, "mlp", &mlp, ctx), "up", &linear, ctx);
    }
    tree_add(root, "norm", &norm, ctx);
    return root;
}

/* A slot of an op in a module of the tree; of a path alone where the tree has no such module, or is NULL. */
static inline rp_slot_info tree_slot(rp_module *root, const char *path, const char *op)
{
    return (rp_slot_info){ .path = path, .module = root ? rp_module_find(root, path) : NULL, .op = op, .bytes = 1024, .flops = 1000 };
}

static inline rp_policy *read_policy(rp_ctx *ctx, const char *text)
{
    rp_policy *policy;

    assert_ok(ctx, rp_policy_read(ctx, "r.yaml", text, &policy));
    return policy;
}

#endif
