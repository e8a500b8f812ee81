/* 13_budget -- a memory budget for a step of your own: planned on shapes, then followed to the byte by every step.
 */
#include "tiny.h"

/* Forward and backward. A real step then updates the weights; this one hashes the gradients instead. */
typedef struct { tiny model; uint64_t gradients; bool has_data; } program;

static rp_status step(rp_ctx *ctx, void *user)
{
    program *p = user;
    rp_tensor *loss;

    rp_pass_begin(ctx, 0, 0);
    rp_status status = rp_model_loss(p->model.model, p->model.tokens, p->model.labels, 1.0f / TOKENS, &loss);
    if (status) return status;
    status = rp_backward(ctx, loss);
    rp_tensor_unref(loss);
    if (status == RP_OK && p->has_data) p->gradients = tiny_gradients(p->model.model);
    for (int i = 0; rp_model_param(p->model.model, i, NULL); i++) rp_tensor_drop_grad(rp_model_param(p->model.model, i, NULL));
    return status;
}

/* Both contexts, with data and on shapes alone, get the same calls. */
static program open_program(const char *config, bool shapes_only)
{
    rp_ctx_options options = { .seed = 1, .threads = 1, .shapes_only = shapes_only };
    program p              = { .has_data = !shapes_only };

    if (rp_ctx_new(&options, &p.model.ctx)) exit(1);
    must(p.model.ctx, rp_model_new(p.model.ctx, config, NULL, &p.model.model));
    must(p.model.ctx, rp_model_reserve(p.model.model, LENGTH));
    p.model.tokens = tiny_ids(p.model.ctx, 0);
    p.model.labels = tiny_ids(p.model.ctx, 1);
    return p;
}

static rp_step_facts facts_of(const rp_step_plan *plan)
{
    rp_step_facts facts;

    rp_step_plan_read(plan, &facts);
    return facts;
}

int main(int argc, char **argv)
{
    const char *config = argc > 1 ? argv[1] : "recipes/tiny_llama/config.json";
    program shapes     = open_program(config, true);
    rp_step_plan *plan;
    uint64_t first = 0;
    rp_mem memory;

    must(shapes.model.ctx, rp_plan_step(shapes.model.ctx, step, &shapes, 0, &plan));
    int64_t all = facts_of(plan).memory.reserved_bytes;
    rp_step_plan_free(plan);
    for (int percent = 100; percent > 70; percent -= 13) {
        program real = open_program(config, false);
        must(shapes.model.ctx, rp_plan_step(shapes.model.ctx, step, &shapes, all * percent / 100, &plan));
        for (int i = 0; i < 3; i++) must(real.model.ctx, rp_step_plan_run(plan, real.model.ctx, step, &real));
        rp_step_facts planned = facts_of(plan);
        rp_mem_read(real.model.ctx, 0, false, &memory);
        bool exact = memory.peak_bytes == planned.memory.peak_bytes && memory.reserved_bytes == planned.memory.reserved_bytes;
        if (!first) first = real.gradients;
        printf("budget of %3d %%: %s, recomputes %s, gradients %s\n", percent, exact ? "exactly the planned bytes" : "OTHER BYTES",
               planned.recompute_flops ? "some ops" : "nothing", real.gradients == first ? "bit-identical" : "DIFFER");
        rp_step_plan_free(plan);
        tiny_close(&real.model);
    }
    if (rp_plan_step(shapes.model.ctx, step, &shapes, all / 3, &plan) == RP_ERR_BUDGET)
        printf("budget of  33 %%: %.28s\n", rp_error(shapes.model.ctx));
    tiny_close(&shapes.model);
    return 0;
}

/* It prints:
budget of 100 %: exactly the planned bytes, recomputes nothing, gradients bit-identical
budget of  87 %: exactly the planned bytes, recomputes some ops, gradients bit-identical
budget of  74 %: exactly the planned bytes, recomputes some ops, gradients bit-identical
budget of  33 %: no plan fits a memory budget
*/
