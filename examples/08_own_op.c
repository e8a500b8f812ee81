/* 08_own_op -- an op of your own: y = x s, s = 1 / (1 + exp(-x)), with s as a by-product for its backward. Replays, the ledger and policies
 * treat it like the library's ops. docs/howto/op.md has the rules for ops.
 */
#include <math.h>

#include <reprise/op.h>
#include <reprise/ops.h>

#include "tiny.h"

enum { N = 12 };

static int n_forward, n_replayed;

static rp_status swish_shape(rp_op_meta *m)
{
    m->out[0] = m->slot[0] = m->in[0];
    return RP_OK;
}

static void swish_forward(const rp_op_call *c)
{
    for (int64_t i = 0; i < rp_meta_elems(&c->meta->in[0]); i++) {
        double x = rp_elem_get(c->in[0], i), s = 1 / (1 + exp(-x));
        rp_elem_put(c->out[0], i, x * s);
        if (c->slot[0]) rp_elem_put(c->slot[0], i, s);        /* NULL if no backward follows */
    }
    ++*(c->replaying ? &n_replayed : &n_forward);
}

/* dy/dx = s + x s (1 - s) */
static void swish_backward(const rp_op_call *c)
{
    for (int64_t i = 0; i < rp_meta_elems(&c->meta->in[0]); i++) {
        double x = rp_elem_get(c->in[0], i), s = rp_elem_get(c->slot[0], i), before = c->grad_adds[0] ? rp_elem_get(c->grad_in[0], i) : 0;
        rp_elem_put(c->grad_in[0], i, before + rp_elem_get(c->grad_out[0], i) * (s + x * s * (1 - s)));
    }
}

static const rp_op swish = {
    .name = "swish", .n_in = 1, .n_out = 1, .n_slot = 1, .needs = RP_IN(0) | RP_SLOT(0),
    .shape = swish_shape, .forward = swish_forward, .backward = swish_backward,
};

/* The sum of swish(swish(x)): the second one's input, and both by-products, are slots. */
static rp_status chain(rp_ctx *ctx, void *user, rp_tensor *const *inputs, rp_tensor **outputs)
{
    rp_tensor *once = NULL, *twice = NULL;
    rp_status status;

    (void)user;
    (void)((status = rp_apply(ctx, "swish", NULL, inputs, 1, &once)) || (status = rp_apply(ctx, "swish", NULL, &once, 1, &twice)) ||
           (status = rp_apply(ctx, "sum", &(rp_attr_dim){ 0 }, &twice, 1, outputs)));
    rp_tensor_unref(once);
    rp_tensor_unref(twice);
    return status;
}

static void gradient(rp_ctx *ctx, rp_tensor *x, bool region, double *slope)
{
    rp_tensor *loss;
    rp_mem memory;

    n_forward = n_replayed = 0;
    must(ctx, region ? rp_checkpoint(ctx, chain, NULL, &x, NULL, &loss) : chain(ctx, NULL, &x, &loss));
    rp_mem_read(ctx, 0, false, &memory);
    must(ctx, rp_backward(ctx, loss));
    must(ctx, rp_tensor_read(rp_tensor_grad(x), slope, N));
    printf("%-11s %3d bytes saved, run %d times, replayed %d times\n", region ? "in a region" : "kept", (int)memory.live_at[RP_MEM_SAVED],
           n_forward, n_replayed);
    rp_tensor_drop_grad(x);
    rp_tensor_unref(loss);
}

static double value_at(rp_ctx *ctx, rp_tensor *x, const double *at)
{
    rp_tensor *loss;
    double value;

    must(ctx, rp_tensor_write(x, at, N));
    must(ctx, chain(ctx, NULL, &x, &loss));
    must(ctx, rp_tensor_read(loss, &value, 1));
    rp_tensor_unref(loss);
    return value;
}

int main(void)
{
    double at[N], kept[N], again[N], worst = 0;
    rp_ctx *ctx;
    rp_tensor *x;

    if (rp_ctx_new(NULL, &ctx)) return 1;
    must(ctx, rp_op_register(ctx, &swish));
    must(ctx, rp_tensor_new(ctx, &(rp_meta){ RP_F64, 1, { N } }, RP_MEM_PARAM, &x));
    for (int i = 0; i < N; i++) at[i] = (i - 5) * 0.4;
    must(ctx, rp_tensor_write(x, at, N));
    rp_tensor_require_grad(x, true);
    gradient(ctx, x, false, kept);
    gradient(ctx, x, true, again);
    printf("the gradients are %s\n", memcmp(kept, again, sizeof kept) ? "different" : "bit-identical");

    must(ctx, rp_set_grad(ctx, false));
    for (int i = 0; i < N; i++) {
        const double step = 1e-5, middle = at[i];
        at[i]             = middle + step;
        double above      = value_at(ctx, x, at);
        at[i]             = middle - step;
        worst             = fmax(worst, fabs((above - value_at(ctx, x, at)) / (2 * step) - kept[i]));
        at[i]             = middle;
    }
    printf("central differences %s\n", worst < 1e-8 ? "agree" : "do not agree");
    rp_tensor_unref(x);
    rp_ctx_free(ctx);
    return 0;
}

/* It prints:
kept        288 bytes saved, run 2 times, replayed 0 times
in a region   0 bytes saved, run 2 times, replayed 2 times
the gradients are bit-identical
central differences agree
*/
