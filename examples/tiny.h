/* tiny.h -- shared by the examples on checkpointing: a small Llama with random weights, and one pass over it.
 *
 * The model is recipes/tiny_llama/config.json, relative to the current folder, or the config.json named as first argument.
 */
#ifndef TINY_H
#define TINY_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <reprise/reprise.h>

enum { ROWS = 2, LENGTH = 64, TOKENS = ROWS * LENGTH };

typedef struct {
    rp_ctx *ctx;
    rp_model *model;
    rp_module *root;
    rp_tensor *tokens, *labels;
    uint64_t first;                   /* of the gradients of the first pass */
    bool has_first;
} tiny;

static inline void must(const rp_ctx *ctx, rp_status status)
{
    if (status == RP_OK) return;
    puts(rp_error(ctx));
    exit(1);
}

static inline rp_tensor *tiny_ids(rp_ctx *ctx, int shift)
{
    int32_t id[TOKENS];
    rp_tensor *t;

    for (int i = 0; i < TOKENS; i++) id[i] = (i + shift) * 7 % 251;
    must(ctx, rp_tensor_new(ctx, &(rp_meta){ RP_I32, 2, { ROWS, LENGTH } }, RP_MEM_TEMP, &t));
    must(ctx, rp_tensor_write_i32(t, id, TOKENS));
    return t;
}

static inline tiny tiny_open(int argc, char **argv)
{
    tiny t = { .ctx = NULL };

    if (rp_ctx_new(&(rp_ctx_options){ .seed = 1 }, &t.ctx)) exit(1);
    must(t.ctx, rp_model_new(t.ctx, argc > 1 ? argv[1] : "recipes/tiny_llama/config.json", NULL, &t.model));
    t.root   = rp_model_root(t.model);
    t.tokens = tiny_ids(t.ctx, 0);
    t.labels = tiny_ids(t.ctx, 1);
    return t;
}

static inline void tiny_close(tiny *t)
{
    rp_tensor_unref(t->tokens);
    rp_tensor_unref(t->labels);
    rp_model_free(t->model);
    rp_ctx_free(t->ctx);
}

/* A hash of the bits of all gradients, which are dropped. A double holds every fp32 and bf16 value exactly. */
static inline uint64_t tiny_gradients(const rp_model *model)
{
    uint64_t hash = 0, bits;
    rp_tensor *param;

    for (int i = 0; (param = rp_model_param(model, i, NULL)) != NULL; i++) {
        const rp_meta *m = rp_tensor_meta(rp_tensor_grad(param));
        int64_t n        = 1;
        for (int d = 0; d < m->ndim; d++) n *= m->dim[d];
        double *value = malloc((size_t)n * sizeof *value);
        if (!value || rp_tensor_read(rp_tensor_grad(param), value, n)) exit(1);
        for (int64_t e = 0; e < n; e++) {
            memcpy(&bits, &value[e], sizeof bits);
            hash = (hash ^ bits) * UINT64_C(0x100000001b3);
        }
        free(value);
        rp_tensor_drop_grad(param);
    }
    return hash;
}

/* Runs forward and backward. Prints the bytes that are saved between them, and whether the gradients are those of the first pass. */
static inline void tiny_pass(tiny *t, const char *what)
{
    rp_tensor *loss;
    rp_mem memory;

    rp_pass_begin(t->ctx, 0, 0);
    must(t->ctx, rp_model_loss(t->model, t->tokens, t->labels, 1.0f / TOKENS, &loss));
    rp_mem_read(t->ctx, 0, false, &memory);
    must(t->ctx, rp_backward(t->ctx, loss));
    rp_tensor_unref(loss);
    uint64_t gradients = tiny_gradients(t->model);
    if (!t->has_first) t->first = gradients;
    t->has_first = true;
    printf("%-44s %7" PRId64 " bytes saved, gradients %s\n", what, memory.live_at[RP_MEM_SAVED],
           gradients == t->first ? "bit-identical" : "DIFFER");
}

#endif
