/* tape/public.c -- the public functions for calls, gradients and modes; reprise.h documents them. */
#include "reprise/train.h"
#include "base/quant.h"
#include "base/sized.h"
#include "tape/internal.h"

rp_status rp_apply(rp_ctx *ctx, const char *op, const void *attr, rp_tensor *const *in, int n_in, rp_tensor **out)
{
    RP_GIVEN(ctx, ctx && op && out && (in || n_in <= 0));
    const rp_op *found = rp__op_find_in(ctx, op);

    RP_CHECK(ctx, found, RP_ERR_MATCH, "there is no op '%s'", op);
    RP_CHECK(ctx, (attr != NULL) == (found->attr_size > 0), RP_ERR_ARG, "%s: attributes are %s", op,
             attr ? "given, but it has none" : "missing");
    return rp__apply(ctx, found, attr, in, n_in, out);
}

/* The setting cannot change once a recorded call has read the tensor, because the record depends on it. */
rp_status rp_tensor_require_grad(rp_tensor *t, bool wanted)
{
    RP_GIVEN(NULL, t);
    rp_tensor *whole    = rp__tensor_whole(t);
    const rp_tape *tape = rp__tape_opened(whole->ctx);

    if (whole->requires_grad == wanted) return RP_OK;
    RP_CHECK(whole->ctx, !wanted || !rp__is_quant(whole->m.dtype), RP_ERR_DTYPE, "rp_tensor_require_grad: %s is quantised, so it cannot be trained",
             whole->name ? whole->name : rp_meta_str(&whole->m));
    RP_CHECK(whole->ctx, !tape || !rp__tensor_on_tape(tape, whole), RP_ERR_STATE,
             "rp_tensor_require_grad: %s is used by recorded calls; call it before the first use, or after rp_backward or rp_forget",
             whole->name ? whole->name : rp_meta_str(&whole->m));
    whole->requires_grad = wanted;
    return RP_OK;
}

rp_status rp_backward(rp_ctx *ctx, rp_tensor *loss) { return rp_backward_with(ctx, loss, NULL); }

rp_status rp_backward_with_sized(size_t size, rp_ctx *ctx, rp_tensor *loss, const rp_backward_options *options)
{
    RP_GIVEN(ctx, ctx);
    rp_backward_options own;

    RP_TAKE(ctx, own, options, size);
    RP_CHECK(ctx, loss, RP_ERR_ARG, "backward needs a loss");
    RP_SAME_CTX(ctx, loss->ctx, "loss");
    for (int i = 0; options && options->only && i < options->n_only; i++)
        if (options->only[i]) RP_SAME_CTX(ctx, options->only[i]->ctx, "tensor in `only`");
    for (int i = 0; options && i < options->n_only; i++)
        RP_CHECK(ctx, options->only && options->only[i] && rp__tensor_whole(options->only[i])->requires_grad, RP_ERR_ARG,
                 "backward: tensor %d of `only` is not a leaf that requires a gradient", i);
    return rp__backward_with(ctx, loss, options);
}

rp_status (rp_backward_with)(rp_ctx *ctx, rp_tensor *loss, const rp_backward_options *options)
{
    return rp_backward_with_sized(RP_FIRST_BACKWARD_OPTIONS, ctx, loss, options);
}

typedef struct { rp_slot_visit visit; void *user; } slot_visitor;

static void explain_slot(void *user, const rp_tape_slot *s)
{
    const slot_visitor *v = user;
    const rp_op *op       = s->call->op;

    v->visit(&(rp_slot_fate){ .path = s->path, .op = s->op, .call = s->nth, .output = s->output, .by_product = s->by_product, .meta = s->meta,
                              .bytes = rp_meta_bytes(&s->meta), .flops = op->cost ? op->cost(s->call, RP_FORWARD).flops : rp_meta_elems(&s->meta),
                              .fate = s->fate, .saved = s->saved, .overruled = s->overruled, .by = s->by, .region = s->region }, v->user);
}

rp_status rp_explain_slots(rp_ctx *ctx, rp_slot_visit visit, void *user)
{
    RP_GIVEN(ctx, ctx && visit);
    slot_visitor v = { visit, user };

    return rp__tape_slots(ctx, explain_slot, &v);
}

bool rp_is_replaying(const rp_ctx *ctx)
{
    const rp_tape *tape = ctx ? rp__tape_opened(ctx) : NULL;

    return tape && (tape->fates.replaying != NONE || tape->alone != NONE);
}

const char *rp_in_checkpoint(const rp_ctx *ctx)
{
    const rp_tape *tape = ctx ? rp__tape_opened(ctx) : NULL;
    int region          = !tape ? NONE : tape->fates.replaying != NONE ? tape->fates.replaying : tape->open;

    if (tape && tape->alone != NONE) return tape->call[tape->alone]->path;
    return region == NONE ? NULL : tape->fates.region[region].path;
}

void rp_set_verify(rp_ctx *ctx, rp_verify verify)
{
    if (!ctx) return;
    rp__tape_ctx(ctx)->verify_all = verify;
}

rp_tensor *rp_tensor_grad(const rp_tensor *t)
{
    if (!t) return NULL;
    return t->base ? t->base->grad : t->grad;
}

void rp_tensor_drop_grad(rp_tensor *t)
{
    if (!t) return;
    rp_tensor *whole = rp__tensor_whole(t);

    rp_tensor_unref(whole->grad);
    rp_tensor_unref(whole->carried);
    whole->grad = whole->carried = NULL;
}

void rp_forget(rp_ctx *ctx)
{
    if (ctx) rp__tape_reset(ctx);
}

rp_status rp_set_grad(rp_ctx *ctx, bool on)
{
    RP_GIVEN(ctx, ctx);
    rp__tape_ctx(ctx)->no_grad = !on;
    return RP_OK;
}

void rp_set_train(rp_ctx *ctx, bool on)
{
    if (ctx) rp__tape_ctx(ctx)->eval = !on;
}

void rp_pass_begin(rp_ctx *ctx, int64_t step, int64_t sample_base)
{
    if (!ctx) return;
    rp__pass_begin(ctx, step, sample_base);
}
