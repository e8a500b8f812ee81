/* 11_errors -- mistakes between forward and backward, and their error messages. The call fails; it never computes a wrong gradient.
 */
#include <reprise/op.h>
#include <reprise/ops.h>

#include "tiny.h"

static void report(const rp_ctx *ctx, const char *what, rp_status status)
{
    printf("%s: %s\n", what, status == RP_OK ? "no error" : rp_error(ctx));
}

/* ---- on the model: a parameter that is written, conflicting must-rules, a must-rule without a place ---- */

static void write_parameter(rp_model *model, const char *wanted)
{
    static const double zero[192 * 64];
    const char *path;
    rp_tensor *param;

    for (int i = 0; (param = rp_model_param(model, i, &path)) != NULL; i++)
        if (!strcmp(path, wanted)) rp_tensor_write(param, zero, 192 * 64);
}

static void step(tiny *t, const char *what, bool write)
{
    rp_tensor *loss  = NULL;
    rp_status status = rp_model_loss(t->model, t->tokens, t->labels, 1.0f / TOKENS, &loss);

    if (status == RP_OK && write) write_parameter(t->model, "layers.1.mlp.up.weight");
    if (status == RP_OK) status = rp_backward(t->ctx, loss);
    report(t->ctx, what, status);
    rp_tensor_unref(loss);
    rp_forget(t->ctx);                /* drop the record of a failed forward */
}

static void step_with_rules(tiny *t, const char *what, const char *outer, const char *inner)
{
    rp_module *block = rp_module_find(t->root, "layers.2");
    rp_policy *all, *its_own;

    must(t->ctx, rp_policy_read(t->ctx, "all", outer, &all));
    must(t->ctx, rp_policy_read(t->ctx, "its own", inner, &its_own));
    rp_set_policy(t->ctx, all);
    rp_module_policy(block, its_own);
    step(t, what, false);
    rp_module_policy(block, NULL);
    rp_set_policy(t->ctx, NULL);
    rp_policy_free(all);
    rp_policy_free(its_own);
}

/* ---- a replay that differs: y = x + how often this op has run ---- */

static rp_status drift_shape(rp_op_meta *m)
{
    m->out[0] = m->in[0];
    return RP_OK;
}

static void drift_forward(const rp_op_call *c)
{
    static int n_runs;

    for (int64_t i = 0; i < 4; i++) rp_elem_put(c->out[0], i, rp_elem_get(c->in[0], i) + (i == 2 ? n_runs : 0));
    n_runs++;
}

static const rp_op drift = {
    .name = "drift", .n_in = 1, .n_out = 1, .flags = RP_OP_GRAD_PASS, .shape = drift_shape, .forward = drift_forward,
};

/* The sum of the squares of drift(silu(x)). */
static rp_status squares(rp_ctx *ctx, void *user, rp_tensor *const *inputs, rp_tensor **outputs)
{
    rp_tensor *t[3] = { NULL };
    rp_status status;

    (void)user;
    (void)((status = rp_apply(ctx, "silu", NULL, inputs, 1, &t[0])) || (status = rp_apply(ctx, "drift", NULL, &t[0], 1, &t[1])) ||
           (status = rp_apply(ctx, "mul", NULL, (rp_tensor *[]){ t[1], t[1] }, 2, &t[2])) ||
           (status = rp_apply(ctx, "sum", &(rp_attr_dim){ 0 }, &t[2], 1, outputs)));
    for (int i = 0; i < 3; i++) rp_tensor_unref(t[i]);
    return status;
}

static void drifting(rp_ctx *ctx)
{
    rp_tensor *x, *loss;

    rp_set_verify(ctx, RP_VERIFY_ON);             /* or REPRISE_VERIFY=on */
    must(ctx, rp_tensor_new(ctx, &(rp_meta){ RP_F32, 1, { 4 } }, RP_MEM_PARAM, &x));
    must(ctx, rp_tensor_write(x, (double[]){ 1, 2, 3, 4 }, 4));
    rp_tensor_require_grad(x, true);
    must(ctx, rp_checkpoint(ctx, squares, NULL, &x, NULL, &loss));
    report(ctx, "wrong replay", rp_backward(ctx, loss));
    rp_tensor_drop_grad(x);
    rp_tensor_unref(x);
    rp_tensor_unref(loss);
}

int main(int argc, char **argv)
{
    tiny t = tiny_open(argc, argv);

    step(&t, "written parameter", true);
    step_with_rules(&t, "conflicting must-rules", "[{ op: matmul, fate: keep }]", "[{ path: '*.attn', fate: recompute }]");
    step_with_rules(&t, "must-rule and preference", "[{ op: matmul, fate: keep }]", "[{ path: '*.attn', fate: prefer_recompute }]");
    step_with_rules(&t, "no place for offloading", "[{ type: MLP, fate: offload }]", "[]");
    must(t.ctx, rp_op_register(t.ctx, &drift));
    drifting(t.ctx);
    for (int i = 0; rp_model_param(t.model, i, NULL); i++) rp_tensor_drop_grad(rp_model_param(t.model, i, NULL));
    tiny_close(&t);
    return 0;
}

/* It prints:
written parameter: 'layers.1.mlp.up.weight' (fp32 [192, 64]) was changed by rp_tensor_write between forward and backward; matmul of 'layers.1.mlp.up' reads it
conflicting must-rules: slot 'layers.2.attn.q' matmul output 0: 'all:1' says keep, 'its own:1' says recompute
must-rule and preference: no error
no place for offloading: all:1: slot of matmul of 'layers.0.mlp.gate' must be offloaded, but no folder or device for offloading is set
wrong replay: a replay differs from the first pass: checkpoint: drift output 0 (fp32 [4]), first at element 2, [2]
        0  silu                 checkpoint                                       the same
  >     1  drift                checkpoint                                       differs
        2  mul                  checkpoint                                       not replayed
        3  sum                  checkpoint                                       not replayed
*/
