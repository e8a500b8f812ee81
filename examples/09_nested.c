/* 09_nested -- regions inside regions, by conditions and by functions. An op prints when it is replayed.
 */
#include <reprise/op.h>

#include "tiny.h"

/* ---- an op that prints where it runs: y = x x, element by element ---- */

static rp_status square_shape(rp_op_meta *m)
{
    m->out[0] = m->in[0];
    return RP_OK;
}

static void square_forward(const rp_op_call *c)
{
    double x = rp_elem_get(c->in[0], 0);

    printf("  %s: %g squared, in '%s'\n", rp_is_replaying(c->ctx) ? "replay" : "forward", x, rp_in_checkpoint(c->ctx));
    rp_elem_put(c->out[0], 0, x * x);
}

static void square_backward(const rp_op_call *c)
{
    rp_row_grad(c, 0, 0, &(double){ 2 * rp_elem_get(c->in[0], 0) * rp_elem_get(c->grad_out[0], 0) });
}

static const rp_op square = {
    .name = "square", .n_in = 1, .n_out = 1, .needs = RP_IN(0),
    .shape = square_shape, .forward = square_forward, .backward = square_backward,
};

/* ---- ((x^2)^2)^2, the last two in a region of their own ---- */

static rp_status inner(rp_ctx *ctx, void *user, rp_tensor *const *inputs, rp_tensor **outputs)
{
    rp_tensor *y;

    (void)user;
    if (rp_apply(ctx, "square", NULL, inputs, 1, &y)) return RP_ERR_ARG;
    rp_status status = rp_apply(ctx, "square", NULL, &y, 1, outputs);
    rp_tensor_unref(y);
    return status;
}

static rp_status outer(rp_ctx *ctx, void *user, rp_tensor *const *inputs, rp_tensor **outputs)
{
    rp_tensor *y;

    (void)user;
    if (rp_apply(ctx, "square", NULL, inputs, 1, &y)) return RP_ERR_ARG;
    rp_status status = rp_checkpoint(ctx, inner, NULL, &y, &(rp_checkpoint_options){ .name = "inner" }, outputs);
    rp_tensor_unref(y);
    return status;
}

static void by_functions(rp_ctx *ctx)
{
    rp_tensor *x, *loss;
    double slope;

    must(ctx, rp_op_register(ctx, &square));
    must(ctx, rp_tensor_new(ctx, &(rp_meta){ RP_F32, 1, { 1 } }, RP_MEM_PARAM, &x));
    must(ctx, rp_tensor_write(x, &(double){ 2 }, 1));
    rp_tensor_require_grad(x, true);
    must(ctx, rp_checkpoint(ctx, outer, NULL, &x, &(rp_checkpoint_options){ .name = "outer" }, &loss));
    for (int i = 0; i < 2; i++) {
        bool last = i == 1;
        printf("backward %d%s\n", i + 1, last ? ": nothing is replayed" : "");
        must(ctx, rp_backward_with(ctx, loss, &(rp_backward_options){ .keep_record = !last, .keep_replays = !last }));
    }
    must(ctx, rp_tensor_read(rp_tensor_grad(x), &slope, 1));
    printf("the gradient of x^8 at 2, summed over both: %g\n", slope);
    rp_tensor_drop_grad(x);
    rp_tensor_unref(x);
    rp_tensor_unref(loss);
}

static void add_regions(tiny *t, const char *text)
{
    rp_condition *condition;

    must(t->ctx, rp_condition_read(t->ctx, text, &condition));
    rp_module_checkpoint(t->root, rp_condition_holds, condition);
    rp_condition_free(condition);
}

int main(int argc, char **argv)
{
    tiny t = tiny_open(argc, argv);

    by_functions(t.ctx);
    tiny_pass(&t, "no regions");
    add_regions(&t, "{ module_type: TransformerBlock }");
    add_regions(&t, "{ path: '*.mlp' }");
    tiny_pass(&t, "blocks, with a nested region for each MLP");
    tiny_close(&t);
    return 0;
}

/* It prints:
  forward: 2 squared, in 'outer'
  forward: 4 squared, in 'inner'
  forward: 16 squared, in 'inner'
backward 1
  replay: 2 squared, in 'outer'
  replay: 4 squared, in 'inner'
backward 2: nothing is replayed
the gradient of x^8 at 2, summed over both: 2048
no regions                                   2176000 bytes saved, gradients bit-identical
blocks, with a nested region for each MLP     197632 bytes saved, gradients bit-identical
*/
