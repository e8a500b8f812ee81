/* 15_own_model -- a network of your own: its modules have paths, so conditions, rules and budgets apply to it as to any model.
 *
 *   layers ─┬ 0  Block   x + mix(x)
 *           │ └ mix  Mix   drop(gelu(norm(x) A)) B
 *           ├ 1  …                                       twelve of them; the loss is the mean of the squared outputs
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <reprise/op.h>
#include <reprise/ops.h>

enum { BLOCKS = 12, ROWS = 256, WIDTH = 32, INNER = 4 * WIDTH };

typedef struct { rp_tensor *weight[3]; rp_module *module, *mix; } block;
typedef struct { rp_ctx *ctx; rp_module *root; block block[BLOCKS]; rp_tensor *x; bool has_data; double slope[WIDTH]; } net;

static void must(const rp_ctx *ctx, rp_status status) { if (status) exit(printf("%s\n", rp_error(ctx)) > 0); }

/* Replaces *x by the result of the op. */
static rp_status apply(rp_ctx *ctx, const char *op, const void *attr, rp_tensor *with, rp_tensor **x)
{
    rp_tensor *y;
    rp_status status = rp_apply(ctx, op, attr, (rp_tensor *[]){ *x, with }, with ? 2 : 1, &y);

    if (status) return status;
    rp_tensor_unref(*x);
    *x = y;
    return RP_OK;
}

/* ---- forwards ---- */

static rp_status run_mix(rp_ctx *ctx, void *user, rp_tensor *const *inputs, rp_tensor **outputs)
{
    const struct { const char *op; const void *attr; int weight; } calls[] = {
        { "rmsnorm", &(rp_attr_norm){ .eps = 1e-5f }, 0 }, { "matmul", &(rp_attr_matmul){ 0 }, 1 }, { "gelu", &(rp_attr_gelu){ .erf = true }, -1 },
        { "dropout", &(rp_attr_dropout){ 0.1f }, -1 }, { "matmul", &(rp_attr_matmul){ 0 }, 2 },
    };
    const block *b = user;

    *outputs = rp_tensor_ref(inputs[0]);
    for (int i = 0; i < 5; i++) {
        rp_status status = apply(ctx, calls[i].op, calls[i].attr, calls[i].weight < 0 ? NULL : b->weight[calls[i].weight], outputs);
        if (status) return status;
    }
    return RP_OK;
}

static rp_status run_block(rp_ctx *ctx, void *user, rp_tensor *const *inputs, rp_tensor **outputs)
{
    rp_status status = rp_module_call(((block *)user)->mix, inputs, outputs);

    return status ? status : apply(ctx, "add", NULL, inputs[0], outputs);
}

/* A step: forward and backward. A real step then updates the weights; this one reads the first gradient. */
static rp_status step(rp_ctx *ctx, void *user)
{
    net *n           = user;
    rp_tensor *x     = rp_tensor_ref(n->x);
    rp_status status = RP_OK;

    rp_pass_begin(ctx, 0, 0);
    for (int i = 0; i < BLOCKS && !status; i++) {
        rp_tensor *y = NULL;
        status       = rp_module_call(n->block[i].module, &x, &y);
        rp_tensor_unref(x);
        x = y;
    }
    if (!status) status = apply(ctx, "mul", NULL, x, &x);
    for (int i = 0; i < 2 && !status; i++) status = apply(ctx, "mean", &(rp_attr_dim){ 0 }, NULL, &x);
    if (!status) status = rp_backward(ctx, x);
    rp_tensor_unref(x);
    if (!status && n->has_data) must(ctx, rp_tensor_read(rp_tensor_grad(n->block[0].weight[0]), n->slope, WIDTH));
    for (int i = 0; i < 3 * BLOCKS; i++) rp_tensor_drop_grad(n->block[i / 3].weight[i % 3]);
    return status;
}

/* ---- the network ---- */

static rp_tensor *tensor_new(rp_ctx *ctx, const rp_meta *shape, rp_mem_class mem_class)
{
    static double number[ROWS * WIDTH + WIDTH * INNER];
    rp_tensor *t;

    must(ctx, rp_tensor_new(ctx, shape, mem_class, &t));
    for (int64_t i = 0; i < rp_meta_elems(shape); i++) number[i] = (double)(i * 7919 % 257) / 257 - 0.4;
    must(ctx, rp_tensor_write(t, number, rp_meta_elems(shape)));
    rp_tensor_require_grad(t, mem_class == RP_MEM_PARAM);
    return t;
}

static void open_net(net *n, bool shapes_only)
{
    const rp_meta shape[] = { rp_meta_1d(RP_F32, WIDTH), rp_meta_2d(RP_F32, WIDTH, INNER), rp_meta_2d(RP_F32, INNER, WIDTH) };
    rp_module *layers;
    char name[16];

    *n = (net){ .has_data = !shapes_only };
    if (rp_ctx_new(&(rp_ctx_options){ .seed = 1, .threads = 1, .shapes_only = shapes_only }, &n->ctx)) exit(1);
    must(n->ctx, rp_module_new(n->ctx, NULL, "", "Net", NULL, NULL, &n->root));
    must(n->ctx, rp_module_new(n->ctx, n->root, "layers", "ModuleList", NULL, NULL, &layers));
    for (int i = 0; i < BLOCKS; i++) {
        block *b = &n->block[i];
        snprintf(name, sizeof name, "%d", i);
        must(n->ctx, rp_module_new(n->ctx, layers, name, "Block", run_block, b, &b->module));
        must(n->ctx, rp_module_new(n->ctx, b->module, "mix", "Mix", run_mix, b, &b->mix));
        for (int j = 0; j < 3; j++) b->weight[j] = tensor_new(n->ctx, &shape[j], RP_MEM_PARAM);
    }
    n->x = tensor_new(n->ctx, &(rp_meta){ RP_F32, 2, { ROWS, WIDTH } }, RP_MEM_TEMP);
}

static void close_net(net *n)
{
    for (int i = 0; i < 3 * BLOCKS; i++) rp_tensor_unref(n->block[i / 3].weight[i % 3]);
    rp_tensor_unref(n->x);
    rp_module_free(n->root);
    rp_ctx_free(n->ctx);
}

/* ---- ways to run it ---- */

/* Percentages are rounded to tens, because scratch memory depends on the CPU. */
static void print_way(const net *n, const char *how, int64_t peak_bytes)
{
    static double first[WIDTH];
    static int64_t all;

    if (!all) all = peak_bytes;
    if (all == peak_bytes) memcpy(first, n->slope, sizeof first);
    printf("%-62s %3.0f %% of the memory, %s\n", how, round(10.0 * (double)peak_bytes / (double)all) * 10,
           memcmp(first, n->slope, sizeof first) ? "OTHER gradients" : "same gradients");
}

/* A condition as recipes write it, and rules; either may be NULL. */
static void run(const char *condition, const char *rules)
{
    rp_condition *holds = NULL;
    rp_policy *policy   = NULL;
    rp_mem memory;
    net n;

    open_net(&n, false);
    if (condition) must(n.ctx, rp_condition_read(n.ctx, condition, &holds));
    if (condition && !rp_module_checkpoint(n.root, rp_condition_holds, holds)) exit(1);
    if (rules) must(n.ctx, rp_policy_read(n.ctx, "mine", rules, &policy));
    rp_set_policy(n.ctx, policy);
    must(n.ctx, step(n.ctx, &n));
    rp_mem_read(n.ctx, 0, false, &memory);
    print_way(&n, condition ? condition : rules ? rules : "keep everything", memory.peak_bytes);
    rp_set_policy(n.ctx, NULL);
    rp_policy_free(policy);
    rp_condition_free(holds);
    close_net(&n);
}

static void run_planned(int64_t budget)
{
    rp_step_plan *plan;
    rp_step_facts planned;
    net shapes, n;

    open_net(&shapes, true);
    open_net(&n, false);
    must(shapes.ctx, rp_plan_step(shapes.ctx, step, &shapes, budget, &plan));
    rp_step_plan_read(plan, &planned);
    must(n.ctx, rp_step_plan_run(plan, n.ctx, step, &n));
    print_way(&n, budget == RP_LEAST_BUDGET ? "a plan for the least budget" : "a plan for a budget of 2 MB", planned.memory.reserved_bytes);
    rp_step_plan_free(plan);
    close_net(&n);
    close_net(&shapes);
}

int main(void)
{
    run(NULL, NULL);
    run("{ every_k_layers: 2 }", NULL);
    run("{ path: 'layers.*.mix' }", NULL);
    run("{ module_type: Block }", NULL);
    run(NULL, "[{ op: matmul, fate: keep }, { type: Mix, fate: recompute }]");
    run_planned(2000000);
    run_planned(RP_LEAST_BUDGET);
    return 0;
}

/* It prints:
keep everything                                                100 % of the memory, same gradients
{ every_k_layers: 2 }                                           70 % of the memory, same gradients
{ path: 'layers.*.mix' }                                        30 % of the memory, same gradients
{ module_type: Block }                                          30 % of the memory, same gradients
[{ op: matmul, fate: keep }, { type: Mix, fate: recompute }]    60 % of the memory, same gradients
a plan for a budget of 2 MB                                     40 % of the memory, same gradients
a plan for the least budget                                     30 % of the memory, same gradients
*/
