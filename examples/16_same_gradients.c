/* 16_same_gradients -- a first program: the forward and backward of a small Llama, twice. The second pass recomputes every block. It saves fewer
 * bytes, and the gradients are bit-identical.
 */
#include <reprise/reprise.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 2, LENGTH = 64, HIDDEN = 64 };

static void must(const rp_ctx *ctx, rp_status status)
{
    if (status == RP_OK) return;
    puts(rp_error(ctx));
    exit(1);
}

static bool is_block(const char *path, const rp_module *module, void *user)
{
    (void)path, (void)user;
    return strcmp(rp_module_type(module), "TransformerBlock") == 0;
}

/* Runs forward and backward. Returns the bytes saved between them, and in slope the gradient of the first norm's weight. */
static long long one_pass(rp_ctx *ctx, rp_model *model, rp_tensor *tokens, double *slope)
{
    rp_tensor *loss, *weight = rp_model_param(model, 1, NULL);
    rp_mem memory;

    must(ctx, rp_model_loss(model, tokens, tokens, 1.0f / (ROWS * LENGTH), &loss));
    rp_mem_read(ctx, 0, false, &memory);
    must(ctx, rp_backward(ctx, loss));
    must(ctx, rp_tensor_read(rp_tensor_grad(weight), slope, HIDDEN));
    for (int i = 0; (weight = rp_model_param(model, i, NULL)); i++) rp_tensor_drop_grad(weight);
    rp_tensor_unref(loss);
    return memory.live_at[RP_MEM_SAVED];
}

int main(void)
{
    int32_t id[ROWS * LENGTH];
    double kept[HIDDEN], recomputed[HIDDEN];
    rp_ctx *ctx;
    rp_model *model;
    rp_tensor *tokens;

    if (rp_ctx_new(&(rp_ctx_options){ .seed = 1 }, &ctx)) return 1;
    must(ctx, rp_model_new(ctx, "recipes/tiny_llama/config.json", NULL, &model));
    must(ctx, rp_tensor_new(ctx, &(rp_meta){ RP_I32, 2, { ROWS, LENGTH } }, RP_MEM_TEMP, &tokens));
    for (int i = 0; i < ROWS * LENGTH; i++) id[i] = i * 7 % 251;
    must(ctx, rp_tensor_write_i32(tokens, id, ROWS * LENGTH));

    printf("keep everything        %8lld bytes saved\n", one_pass(ctx, model, tokens, kept));
    rp_module_checkpoint(rp_model_root(model), is_block, NULL);
    printf("recompute every block  %8lld bytes saved\n", one_pass(ctx, model, tokens, recomputed));
    printf("the gradients are %s\n", memcmp(kept, recomputed, sizeof kept) ? "different" : "bit-identical");

    rp_tensor_unref(tokens);
    rp_model_free(model);
    rp_ctx_free(ctx);
    return 0;
}

/* It prints:
keep everything         2176000 bytes saved
recompute every block    197632 bytes saved
the gradients are bit-identical
*/
