/* rehearse/batch.c -- turns a batch into the model's input tensors, and computes its loss.
 *
 *   data, or rows and length alone ─▶ tokens, positions, doc_start [rows, length]      labels [rows, length]
 *                                     masked: targets, labels [the most that masking can choose for this shape]
 *
 * Without data the same tensors are created but not filled.
 */
#include "data/masking.h"
#include "tensor/tensor.h"
#include "rehearse/engine.h"

static rp_status batch_put(rp_ctx *ctx, const rp_meta *m, const char *name, const int32_t *from, rp_tensor **out)
{
    rp_tensor *t;

    RP_TRY(rp__tensor_new_named(ctx, m, RP_MEM_TEMP, name, &t));
    t->name          = name;
    rp_status status = from ? rp_tensor_write_i32(t, from, rp_meta_elems(m)) : RP_OK;
    if (status != RP_OK) rp_tensor_unref(t);
    else *out = t;
    return status;
}

static void batch_drop(rp_model_batch *t)
{
    rp_tensor_unref(t->tokens);
    rp_tensor_unref(t->labels);
    rp_tensor_unref(t->targets);
    rp_tensor_unref(t->positions);
    rp_tensor_unref(t->doc_start);
}

/* ---- masked models: rows that have a label, and their labels ---- */

/* Unused entries refer to row 0 with the ignored label, so they add no loss. */
static void list_targets(const rp_engine *e, const rp_data_batch *b, int32_t *target, int32_t *label, int64_t room)
{
    int32_t none = (int32_t)e->recipe->loss.ignore_index;
    int64_t n    = 0;

    for (int64_t i = 0; i < b->rows * b->length; i++) {
        if (b->labels[i] == none) continue;
        RP_BUG_IF(n == room);
        target[n]  = (int32_t)i;
        label[n++] = b->labels[i];
    }
    for (; n < room; n++) {
        target[n] = 0;
        label[n]  = none;
    }
}

static rp_status fill_targets(const rp_engine *e, const rp_data_batch *b, rp_model_batch *t)
{
    int64_t room    = rp_meta_elems(rp_tensor_meta(t->targets));
    int32_t *target = rp__host_alloc(e->ctx, 2 * room * (int64_t)sizeof *target);

    if (!target) return RP_ERR_MEMORY;
    list_targets(e, b, target, target + room, room);
    rp_status status = rp_tensor_write_i32(t->targets, target, room);
    if (status == RP_OK) status = rp_tensor_write_i32(t->labels, target + room, room);
    rp__release(target);
    return status;
}

static rp_status put_targets(const rp_engine *e, const rp_data_batch *b, rp_model_batch *t)
{
    int64_t room = b->rows * rp__masking_most(e->recipe->loss.mask_probability, b->length);
    rp_meta m    = rp_meta_1d(RP_I32, room);

    RP_TRY(batch_put(e->ctx, &m, "labels", NULL, &t->labels));
    RP_TRY(batch_put(e->ctx, &m, "targets", NULL, &t->targets));
    return b->labels ? fill_targets(e, b, t) : RP_OK;
}

/* ---- the batch ---- */

static rp_status batch_fill(const rp_engine *e, const rp_data_batch *b, rp_model_batch *t)
{
    rp_meta m = rp_meta_2d(RP_I32, b->rows, b->length);

    RP_TRY(batch_put(e->ctx, &m, "tokens", b->tokens, &t->tokens));
    if (rp__model_config(e->model)->both_ways) RP_TRY(put_targets(e, b, t));
    else RP_TRY(batch_put(e->ctx, &m, "labels", b->labels, &t->labels));
    RP_TRY(batch_put(e->ctx, &m, "positions", b->positions, &t->positions));
    return batch_put(e->ctx, &m, "doc_start", b->doc_start, &t->doc_start);
}

/* The tape keeps the batch's tensors alive as long as it needs them, so this function drops its own references. */
rp_status rp__batch_loss(rp_engine *e, const rp_data_batch *b, int64_t targets, rp_tensor **loss)
{
    const rp_opt_int *chunks  = &e->recipe->loss.num_output_chunks;
    rp_attr_cross_entropy how = { .weight       = rp__loss_weight(targets),
                                  .ignore_index = (int32_t)e->recipe->loss.ignore_index,
                                  .chunks       = chunks->set ? chunks->value : 0,
                                  .keeps_logits = e->variant.keeps_logits };
    rp_model_batch t          = { .padded = b->padded };
    rp_status status          = batch_fill(e, b, &t);

    if (status == RP_OK) status = rp__model_loss(e->model, &t, &how, loss);
    batch_drop(&t);
    return status;
}
