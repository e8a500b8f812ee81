/* 02_checkpointing -- one backward pass of a small Llama, without and with activation checkpointing: the gradients are the same
 * bits, the memory is not. Run it where recipes/ is, or name a config.json.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <reprise/reprise.h>

enum { ROWS = 2, LENGTH = 64 };

/* The user's own condition: the blocks whose number is even. */
static bool even_blocks(const char *path, const rp_module *module, void *user)
{
    (void)user;
    return !strcmp(rp_module_type(module), "TransformerBlock") && atoi(strrchr(path, '.') + 1) % 2 == 0;
}

static bool every_block(const char *path, const rp_module *module, void *user)
{
    (void)path;
    (void)user;
    return !strcmp(rp_module_type(module), "TransformerBlock");
}

static rp_tensor *ids(rp_ctx *ctx, int shift)
{
    int32_t id[ROWS * LENGTH];
    rp_tensor *t = NULL;

    for (int i = 0; i < ROWS * LENGTH; i++) id[i] = (i + shift) * 7 % 251;
    if (rp_tensor_new(ctx, &(rp_meta){ RP_I32, 2, { ROWS, LENGTH } }, RP_MEM_TEMP, &t) || rp_tensor_write_i32(t, id, ROWS * LENGTH))
        return NULL;
    return t;
}

/* Sum of the gradients' bytes, read as numbers: equal sums in equal order are equal gradients. */
static double checksum(const rp_model *model)
{
    double sum = 0;
    rp_tensor *param;

    for (int i = 0; (param = rp_model_param(model, i, NULL)) != NULL; i++) {
        rp_tensor *grad = rp_tensor_grad(param);
        const rp_meta *m = rp_tensor_meta(grad);
        int64_t n = 1;
        for (int d = 0; d < m->ndim; d++) n *= m->dim[d];
        double *value = malloc((size_t)n * sizeof *value);
        rp_tensor_read(grad, value, n);
        for (int64_t e = 0; e < n; e++) sum = 1.0000001 * sum + value[e];
        free(value);
        rp_tensor_drop_grad(param);
    }
    return sum;
}

static double one_pass(rp_ctx *ctx, rp_model *model, int64_t *saved_bytes)
{
    rp_tensor *tokens = ids(ctx, 0), *labels = ids(ctx, 1), *loss = NULL;
    rp_mem memory;

    rp_pass_begin(ctx, 0, 0);
    if (rp_model_loss(model, tokens, labels, 1.0f / (ROWS * LENGTH), &loss)) {
        puts(rp_error(ctx));
        exit(1);
    }
    rp_mem_read(ctx, 0, false, &memory);
    *saved_bytes = memory.live_at[RP_MEM_SAVED];
    if (rp_backward(ctx, loss)) {
        puts(rp_error(ctx));
        exit(1);
    }
    rp_tensor_unref(loss);
    rp_tensor_unref(tokens);
    rp_tensor_unref(labels);
    return checksum(model);
}

int main(int argc, char **argv)
{
    const char *config = argc > 1 ? argv[1] : "recipes/tiny_llama/config.json";
    static const struct { const char *name; rp_module_condition condition; } choice[] = {
        { "keep everything", NULL }, { "recompute even blocks", even_blocks }, { "recompute every block", every_block },
    };
    rp_ctx *ctx;
    rp_model *model;
    double first = 0;

    if (rp_ctx_new(&(rp_ctx_options){ .seed = 1 }, &ctx)) return 1;
    if (rp_model_new(ctx, config, NULL, &model)) {
        puts(rp_error(ctx));
        return 1;
    }
    for (int i = 0; i < 3; i++) {
        int64_t saved_bytes;
        rp_module_checkpoint(rp_model_root(model), choice[i].condition, NULL);
        double sum = one_pass(ctx, model, &saved_bytes);
        if (i == 0) first = sum;
        printf("%-22s %9lld bytes saved, gradients %s\n", choice[i].name, (long long)saved_bytes,
               sum == first ? "the same bits" : "DIFFER");
    }
    rp_model_free(model);
    rp_ctx_free(ctx);
    return 0;
}
