/* 14_embed -- Reprise inside a C program: data, op, condition and update are its own. A small Llama learns to square. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <reprise/op.h>
#include <reprise/ops.h>

enum { ROWS = 4, LENGTH = 48, TOKENS = ROWS * LENGTH, STEPS = 100 };

static void must(const rp_ctx *ctx, rp_status status) { if (status) exit(fprintf(stderr, "%s\n", rp_error(ctx)) > 0); }

/* The op: y = 15 tanh(x / 15) keeps logits within 15. Its backward reads y: dy/dx = 1 - (y / 15)^2. */
static rp_status cap_shape(rp_op_meta *m)
{
    m->out[0] = m->in[0];
    return RP_OK;
}

static void cap_forward(const rp_op_call *c)
{
    for (int64_t i = 0; i < rp_meta_elems(&c->meta->in[0]); i++) rp_elem_put(c->out[0], i, 15 * tanh(rp_elem_get(c->in[0], i) / 15));
}

static void cap_backward(const rp_op_call *c)
{
    for (int64_t i = 0; i < rp_meta_elems(&c->meta->in[0]); i++) {
        double y = rp_elem_get(c->out[0], i) / 15, before = c->grad_adds[0] ? rp_elem_get(c->grad_in[0], i) : 0;
        rp_elem_put(c->grad_in[0], i, before + rp_elem_get(c->grad_out[0], i) * (1 - y * y));
    }
}

static const rp_op cap = { .name = "cap", .n_in = 1, .n_out = 1, .needs = RP_OUT(0), .shape = cap_shape, .forward = cap_forward, .backward = cap_backward };

/* The data: lines of "12*12=144", made as they are needed; labels are the same bytes, one further. */
static void next_batch(rp_ctx *ctx, rp_tensor *const *tokens_labels)
{
    static unsigned drawn = 1;
    char text[TOKENS + 32];
    int32_t id[TOKENS];

    for (int n = 0, k; k = drawn >> 16 & 15, n <= TOKENS; drawn = drawn * 1103515245u + 12345u)
        n += snprintf(text + n, 32, "%d*%d=%d\n", k, k, k * k);
    for (int further = 0; further < 2; further++) {
        for (int i = 0; i < TOKENS; i++) id[i] = text[i + further];
        must(ctx, rp_tensor_write_i32(tokens_labels[further], id, TOKENS));
    }
}

/* The condition: backward recomputes feed-forward networks, except that of the first block. */
static bool is_later_mlp(const char *path, const rp_module *module, void *user)
{
    return !user && !strcmp(rp_module_type(module), "MLP") && strncmp(path, "layers.0.", 9);
}

/* The update: each weight takes a small step against the sign of its gradient. */
static void update(rp_ctx *ctx, rp_model *model, double rate)
{
    static double weight[257 * 64], slope[257 * 64];
    rp_tensor *param;

    for (int i = 0; (param = rp_model_param(model, i, NULL)); i++, rp_tensor_drop_grad(param)) {
        int64_t n = rp_meta_elems(rp_tensor_meta(param));
        must(ctx, rp_tensor_read(param, weight, n));
        must(ctx, rp_tensor_read(rp_tensor_grad(param), slope, n));
        for (int64_t e = 0; e < n; e++) weight[e] -= rate * ((slope[e] > 0) - (slope[e] < 0));
        must(ctx, rp_tensor_write(param, weight, n));
    }
}

int main(void)
{
    double first = 0, last = 0;
    rp_tensor *ids[2], *logits, *capped, *loss;
    rp_model *model;
    rp_ctx *ctx;

    if (rp_ctx_new(&(rp_ctx_options){ .seed = 1 }, &ctx)) return 1;
    must(ctx, rp_op_register(ctx, &cap));
    must(ctx, rp_model_new(ctx, "recipes/tiny_llama/config.json", NULL, &model));
    for (int i = 0; i < 2; i++) must(ctx, rp_tensor_new(ctx, &(rp_meta){ RP_I32, 2, { ROWS, LENGTH } }, RP_MEM_TEMP, &ids[i]));
    printf("%d modules are recomputed\n", rp_module_checkpoint(rp_model_root(model), is_later_mlp, NULL));
    for (int step = 0; step < STEPS; step++) {
        next_batch(ctx, ids);
        rp_pass_begin(ctx, step, 0);
        must(ctx, rp_model_logits(model, ids[0], &logits));
        must(ctx, rp_apply(ctx, "cap", NULL, &logits, 1, &capped));
        must(ctx, rp_apply(ctx, "cross_entropy", &(rp_attr_cross_entropy){ .weight = 1.0f / TOKENS }, (rp_tensor *[]){ capped, ids[1] }, 2, &loss));
        must(ctx, rp_tensor_read(loss, step ? &last : &first, 1));
        must(ctx, rp_backward(ctx, loss));
        update(ctx, model, 0.003 * (1 - step / (double)STEPS));
        for (int i = 0; i < 3; i++) rp_tensor_unref((rp_tensor *[]){ logits, capped, loss }[i]);
    }
    printf("the loss fell from %s 5 to %s 2\n", first > 5 ? "above" : "below", last < 2 ? "below" : "above");
    for (int i = 0; i < 2; i++) rp_tensor_unref(ids[i]);
    rp_model_free(model);
    rp_ctx_free(ctx);
}

/* It prints:
3 modules are recomputed
the loss fell from above 5 to below 2
*/
