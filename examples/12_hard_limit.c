/* 12_hard_limit -- a limit on the memory of a context, without a plan: recomputable slots are dropped before a call fails.
 */
#include "tiny.h"

typedef struct { rp_status status; uint64_t gradients; rp_mem memory; char error[512]; } outcome;

static rp_status pass(tiny *t)
{
    rp_tensor *loss;

    rp_pass_begin(t->ctx, 0, 0);
    rp_status status = rp_model_loss(t->model, t->tokens, t->labels, 1.0f / TOKENS, &loss);
    if (status) return status;
    status = rp_backward(t->ctx, loss);
    rp_tensor_unref(loss);
    return status;
}

/* One pass in a context of its own. After a failure, `error` has the message, and the record is dropped. */
static outcome run(const char *config, int64_t limit_bytes)
{
    rp_ctx_options options = { .seed = 1, .threads = 1, .memory_limit_bytes = limit_bytes };
    outcome o              = { .status = RP_OK };
    tiny t                 = { .ctx = NULL };

    if (rp_ctx_new(&options, &t.ctx)) exit(1);
    must(t.ctx, rp_model_new(t.ctx, config, NULL, &t.model));
    t.tokens = tiny_ids(t.ctx, 0);
    t.labels = tiny_ids(t.ctx, 1);
    o.status = pass(&t);
    if (o.status == RP_OK) o.gradients = tiny_gradients(t.model);
    snprintf(o.error, sizeof o.error, "%s", rp_error(t.ctx));
    rp_forget(t.ctx);
    for (int i = 0; rp_model_param(t.model, i, NULL); i++) rp_tensor_drop_grad(rp_model_param(t.model, i, NULL));
    rp_mem_read(t.ctx, 0, false, &o.memory);
    tiny_close(&t);
    return o;
}

int main(int argc, char **argv)
{
    const char *config    = argc > 1 ? argv[1] : "recipes/tiny_llama/config.json";
    const int percents[4] = { 90, 85, 80, 30 };
    outcome whole         = run(config, 0);

    if (whole.status) return 1;
    for (int i = 0; i < 4; i++) {
        outcome o        = run(config, whole.memory.reserved_bytes * percents[i] / 100);
        bool within      = o.memory.reserved_bytes <= o.memory.limit_bytes;
        const char *bits = o.gradients == whole.gradients ? "gradients bit-identical" : "gradients DIFFER";
        if (o.status == RP_ERR_MEMORY && strstr(o.error, "could be dropped")) bits = "refused, because nothing more can be dropped";
        printf("limit at %d %% of the memory: %s, limit %s\n", percents[i], bits, within ? "respected" : "EXCEEDED");
    }
    return 0;
}

/* It prints:
limit at 90 % of the memory: gradients bit-identical, limit respected
limit at 85 % of the memory: gradients bit-identical, limit respected
limit at 80 % of the memory: gradients bit-identical, limit respected
limit at 30 % of the memory: refused, because nothing more can be dropped, limit respected
*/
