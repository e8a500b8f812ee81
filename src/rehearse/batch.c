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

/* ---- the inputs of a step ---- */

typedef struct { const char *name; rp_meta m; const int32_t *from; } batch_input;

/* In the order of their tensors' creation. *masked becomes host memory of the caller, or NULL. errors RP_ERR_MEMORY */
static rp_status list_inputs(const rp_engine *e, const rp_data_batch *b, int32_t **masked, batch_input in[RP_BATCH_INPUTS])
{
    rp_meta m    = rp_meta_2d(RP_I32, b->rows, b->length);
    int64_t room = b->rows * rp__masking_most(e->recipe->loss.mask_probability, b->length);
    bool masks   = rp__model_config(e->model)->both_ways;

    *masked = NULL;
    in[RP_BATCH_TOKENS]    = (batch_input){ "tokens", m, b->tokens };
    in[RP_BATCH_LABELS]    = (batch_input){ "labels", masks ? rp_meta_1d(RP_I32, room) : m, b->labels };
    in[RP_BATCH_TARGETS]   = (batch_input){ masks ? "targets" : NULL, in[RP_BATCH_LABELS].m, NULL };
    in[RP_BATCH_POSITIONS] = (batch_input){ "positions", m, b->positions };
    in[RP_BATCH_STARTS]    = (batch_input){ "doc_start", m, b->doc_start };
    if (!masks || !b->labels) return RP_OK;
    *masked = rp__host_alloc(e->ctx, 2 * room * (int64_t)sizeof **masked);
    if (!*masked) return RP_ERR_MEMORY;
    list_targets(e, b, *masked, *masked + room, room);
    in[RP_BATCH_TARGETS].from = *masked;
    in[RP_BATCH_LABELS].from  = *masked + room;
    return RP_OK;
}

static rp_tensor **tensor_of(rp_model_batch *t, int i)
{
    rp_tensor **const all[RP_BATCH_INPUTS] = { &t->tokens, &t->labels, &t->targets, &t->positions, &t->doc_start };

    return all[i];
}

rp_status rp__batch_open(rp_engine *e, const rp_data_batch *b, rp_model_batch *t)
{
    batch_input in[RP_BATCH_INPUTS];
    int32_t *masked;

    *t               = (rp_model_batch){ .padded = b->padded };
    rp_status status = list_inputs(e, b, &masked, in);
    for (int i = 0; i < RP_BATCH_INPUTS && status == RP_OK; i++)
        if (in[i].name) status = batch_put(e->ctx, &in[i].m, in[i].name, in[i].from, tensor_of(t, i));
    rp__release(masked);
    if (status != RP_OK) rp__batch_close(t);
    return status;
}

void rp__batch_close(rp_model_batch *t)
{
    for (int i = 0; i < RP_BATCH_INPUTS; i++) rp_tensor_unref(*tensor_of(t, i));
    *t = (rp_model_batch){ 0 };
}

rp_batch_place rp__batch_place(rp_model_batch *t)
{
    rp_batch_place p = { { 0 } };

    for (int i = 0; i < RP_BATCH_INPUTS; i++)
        if (*tensor_of(t, i)) p.at[i] = rp__tensor_data(*tensor_of(t, i));
    return p;
}

rp_status rp__batch_send(const rp_engine *e, const rp_data_batch *b, const rp_batch_place *to)
{
    batch_input in[RP_BATCH_INPUTS];
    int32_t *masked;
    rp_status status = list_inputs(e, b, &masked, in);

    for (int i = 0; i < RP_BATCH_INPUTS && status == RP_OK; i++)
        if (in[i].name && in[i].from) rp__mem_put(e->ctx, to->at[i], in[i].from, rp_meta_bytes(&in[i].m));
    rp__release(masked);
    return status;
}

/* ---- the loss ---- */

/* The tape keeps the batch's tensors alive as long as it needs them, so the caller may close the batch. */
rp_status rp__batch_loss(rp_engine *e, const rp_model_batch *t, int64_t targets, rp_tensor **loss)
{
    const rp_opt_int *chunks  = &e->recipe->loss.num_output_chunks;
    rp_attr_cross_entropy how = { .weight       = rp__loss_weight(targets),
                                  .ignore_index = (int32_t)e->recipe->loss.ignore_index,
                                  .chunks       = chunks->set ? chunks->value : 0,
                                  .keeps_logits = e->variant.keeps_logits };

    return rp__model_loss(e->model, t, &how, loss);
}
