/* models/model_pass.c -- runs a batch through the tree: to hidden states, to logits, to the loss; also with a cache. */
#include "models/model_internal.h"

#include <string.h>

#include "nn/layers.h"
#include "policy/stack.h"
#include "tape/tape.h"
#include "tensor/tensor.h"

enum { TYPES = RP_BLOCK_COS };          /* index in the inputs of the root */

/* ---- hidden states ---- */

/* Gemma's factor, in the dtype of the tensor that it scales. */
static rp_status scale_embedding(rp_model *m, rp_tensor **x)
{
    rp_attr_scale by = { (float)m->config.embedding_scale };

    if (by.factor == 0) return RP_OK;
    if (rp_tensor_meta(*x)->dtype == RP_BF16) by.factor = rp__f32_from_bf16(rp__bf16_from_f32(by.factor));
    return rp__op_step(m->ctx, &rp_op_scale, &by, x);
}

/* Adds the rows of another table to *x; does nothing if table is NULL. */
static rp_status add_embedding(rp_module *table, rp_tensor *ids, rp_tensor **x)
{
    rp_tensor *rows;

    if (!table) return RP_OK;
    RP_TRY(rp__module_call(table, &ids, &rows));
    rp_status status = rp__add_step(table->ctx, rows, x);
    rp_tensor_unref(rows);
    return status;
}

static rp_status embed(rp_model *m, rp_tensor *const *in, rp_tensor **out)
{
    rp_tensor *tokens = in[RP_BLOCK_X], *x = NULL;
    rp_status status  = RP_OK;

    RP_TRY_GOTO(rp__module_call(m->tokens, &tokens, &x));
    RP_TRY_GOTO(scale_embedding(m, &x));
    RP_TRY_GOTO(add_embedding(m->types, in[TYPES], &x));
    RP_TRY_GOTO(add_embedding(m->positions, in[RP_BLOCK_POSITIONS], &x));
    if (m->embed_norm) RP_TRY_GOTO(rp__layer_step(m->embed_norm, &x));
    RP_TRY_GOTO(rp__dropout_step(m->ctx, (float)m->config.embd_dropout, &x));
    *out = x;
    return RP_OK;
done:
    rp_tensor_unref(x);
    return status;
}

/* Sets the rope tables of a block (counted from 0). */
static void with_rope(const rp_model *m, int64_t layer, rp_tensor **with)
{
    bool own             = m->rope[WINDOW_ROPE].cos && rp__model_config_window(&m->config, layer);
    const rope_tables *t = &m->rope[m->beyond ? LONG_ROPE : own ? WINDOW_ROPE : WHOLE_ROPE];

    with[RP_BLOCK_COS] = t->cos;
    with[RP_BLOCK_SIN] = t->sin;
}

/* Adds the loads of one more block to the sum. */
static rp_status add_loads(rp_model *m, rp_tensor *more)
{
    rp_tensor *sum   = more;
    rp_status status = m->loads ? rp__apply(m->ctx, &rp_op_add, NULL, (rp_tensor *[]){ m->loads, more }, 2, &sum) : RP_OK;

    if (m->loads) rp_tensor_unref(more);
    if (status != RP_OK) return status;
    rp_tensor_unref(m->loads);
    m->loads = sum;
    m->mixtures++;
    return RP_OK;
}

static rp_status call_block(rp_model *m, rp_module *block, rp_tensor *const *in, rp_tensor **out)
{
    rp_module *experts = m->weighs ? rp__block_experts(block) : NULL;

    if (!experts) return rp__module_call(block, in, out);
    rp__moe_weigh(experts, m->counted);
    rp_status status = rp__module_call(block, in, out);
    rp_tensor *loads = rp__moe_take_loads(experts);
    if (status != RP_OK) {
        rp_tensor_unref(loads);
        return status;
    }
    status = add_loads(m, loads);
    if (status != RP_OK) rp_tensor_unref(*out);
    return status;
}

rp_status rp__decoder_forward(rp_module *root, rp_tensor *const *in, rp_tensor **out)
{
    rp_model *m = ((rp_decoder *)root)->model;
    rp_tensor *with[RP_BLOCK_INPUTS], *x = NULL, *y;
    rp_status status = RP_OK;
    int64_t layer    = 0;

    memcpy(with, in, sizeof with);
    RP_TRY(embed(m, in, &x));
    for (rp_module *block = m->layers->first_child; block; block = block->next) {
        with[RP_BLOCK_X] = x;
        with_rope(m, layer++, with);
        RP_TRY_GOTO(call_block(m, block, with, &y));
        rp_tensor_unref(x);
        x = y;
    }
    if (m->norm) RP_TRY_GOTO(rp__layer_step(m->norm, &x));
    *out = x;
    return RP_OK;
done:
    rp_tensor_unref(x);
    return status;
}

/* ---- a batch ---- */

/* 0, 1, … for each row, continued after the positions in the cache. */
static rp_status count_positions(rp_model *m, const rp_meta *tokens, rp_tensor **out)
{
    rp_tensor *t;
    rp_host h;

    RP_TRY(rp__tensor_new_named(m->ctx, tokens, RP_MEM_TEMP, "positions", &t));
    rp_status status = rp__tensor_host_all(t, RP_HOST_WRITE, &h);
    int32_t *p       = h.data;
    for (int64_t i = 0; p && status == RP_OK && i < rp_meta_elems(tokens); i++) p[i] = (int32_t)(m->cached + i % tokens->dim[1]);
    rp__tensor_host_end(&h);
    return rp__tensor_give(status, t, out);
}

/* The types of the batch, or zeros; NULL if the model has no token types. */
static rp_status types_of(rp_model *m, const rp_model_batch *batch, rp_tensor **out)
{
    const rp_meta *tokens = rp_tensor_meta(batch->tokens);
    rp_tensor *t          = NULL;

    if (m->types && batch->types) t = rp_tensor_ref(batch->types);
    else if (m->types) {
        RP_TRY(rp__tensor_new_named(m->ctx, tokens, RP_MEM_TEMP, "token types", &t));
        rp__tensor_zero(t);
    }
    *out = t;
    return RP_OK;
}

bool rp__model_reads_positions(const rp_model *m) { return m->rope[LONG_ROPE].cos != NULL; }

/* As in transformers: one choice for the whole batch, by its largest position. Both tables have the same size, so a shapes-only context need not
 * know. */
static bool goes_beyond(const rp_model *m, const rp_tensor *positions)
{
    bool beyond = false;

    if (!m->rope[LONG_ROPE].cos || !rp__tensor_real(positions)) return false;
    const rp_int_range *range = rp__tensor_int_range(positions);
    if (range) return range->high >= m->config.rope.original_context;
    for (int64_t i = 0; i < rp_meta_elems(&positions->m) && !beyond; i++)
        beyond = rp_int_get(positions, i) >= m->config.rope.original_context;
    return beyond;
}

static rp_status hidden(rp_model *m, const rp_model_batch *batch, rp_tensor **out)
{
    const rp_meta *tokens = rp_tensor_meta(batch->tokens);
    rp_tensor *positions = NULL, *types = NULL;
    rp_status status     = RP_OK;

    RP_CHECK(m->ctx, tokens->ndim == 2 && tokens->dtype == RP_I32 && tokens->dim[1] > 0, RP_ERR_SHAPE,
             "tokens are %s, expected int32 [rows, length]", rp_meta_str(tokens));
    RP_TRY(rp__model_reserve_length(m, m->cached + tokens->dim[1]));
    if (batch->positions) positions = rp_tensor_ref(batch->positions);
    else RP_TRY(count_positions(m, tokens, &positions));
    RP_TRY_GOTO(types_of(m, batch, &types));
    m->beyond = goes_beyond(m, positions);
    rp_tensor *in[RP_BLOCK_INPUTS] = { batch->tokens, positions, types, NULL, batch->doc_start };
    RP_TRY_GOTO(rp__module_call(m->root, in, out));
    if (m->has_cache) m->cached += tokens->dim[1];
done:
    rp_tensor_unref(types);
    rp_tensor_unref(positions);
    return status;
}

/* If a pass fails, its records are removed from the tape. */
static rp_status finish_pass(rp_model *m, rp_status status, rp_tape_mark before)
{
    if (status != RP_OK) rp__tape_rewind(m->ctx, before);
    return status;
}

/* ---- logits ---- */

static rp_status project_logits(rp_model *m, rp_tensor **x)
{
    rp_attr_softcap cap = { (float)m->config.logit_softcap };

    if (m->head) RP_TRY(rp__layer_step(m->head, x));
    RP_TRY(rp__layer_step(m->output, x));
    return cap.cap > 0 ? rp__op_step(m->ctx, &rp_op_softcap, &cap, x) : RP_OK;
}

static rp_status all_logits(rp_model *m, const rp_model_batch *batch, rp_tensor **logits)
{
    rp_tensor *x = NULL;

    RP_TRY(hidden(m, batch, &x));
    rp_status status = project_logits(m, &x);
    return rp__tensor_give(status, x, logits);
}

rp_status rp__model_logits(rp_model *m, const rp_model_batch *batch, rp_tensor **logits)
{
    rp_tape_mark before = rp__tape_mark(m->ctx);

    RP_TRY(rp__module_enter(m->root));
    rp_status status = all_logits(m, batch, logits);
    rp__module_leave(m->root);
    return finish_pass(m, status, before);
}

/* A copy, because the product needs dense rows. */
static rp_status keep_last_position(rp_ctx *ctx, rp_tensor **x)
{
    rp_meta meta    = *rp_tensor_meta(*x);
    int64_t length  = meta.dim[1];
    rp_tensor *view = NULL, *last;

    meta.dim[1] = 1;
    RP_TRY(rp__tensor_new_named(ctx, &meta, RP_MEM_TEMP, "last position", &last));
    rp_status status = rp_tensor_slice(*x, 1, length - 1, 1, &view);
    if (status == RP_OK && rp__tensor_real(last)) rp__tensor_copy(last, view);
    rp_tensor_unref(view);
    rp_tensor_unref(status == RP_OK ? *x : last);
    if (status == RP_OK) *x = last;
    return status;
}

static rp_status last_logits(rp_model *m, const rp_model_batch *batch, rp_tensor **logits)
{
    rp_tensor *x = NULL;

    RP_TRY(hidden(m, batch, &x));
    rp_status status = keep_last_position(m->ctx, &x);
    if (status == RP_OK) status = project_logits(m, &x);
    return rp__tensor_give(status, x, logits);
}

/* Sharded weights of the root's unit are whole while the root is entered. */
rp_status rp__model_next_logits(rp_model *m, const rp_model_batch *batch, rp_tensor **logits)
{
    RP_TRY(rp__module_enter(m->root));
    rp_status status = last_logits(m, batch, logits);
    rp__module_leave(m->root);
    return status;
}

/* ---- the loss ---- */

/* The loss can read a sliced output one block at a time, so the module is not entered. A shard unit that contains only the output then gathers
 * nothing. */
static rp_status output_loss(rp_model *m, rp_tensor *x, rp_tensor *labels, const rp_attr_cross_entropy *attr, rp_tensor **loss)
{
    rp_tape_ctx *tape         = rp__tape_ctx(m->ctx);
    rp_scope *outer           = tape->scope;
    rp_attr_cross_entropy how = *attr;
    rp_tensor *with[4]        = { x, rp__module_weight(m->output, 0), labels, m->head ? rp__module_weight(m->output, 1) : NULL };

    if (m->output->policy) RP_TRY(rp__policy_push(m->ctx, m->output->policy));
    how.softcap = m->config.logit_softcap;
    if (rp__module_is_sliced(m->output, 0)) {
        how.classes = m->config.vocab;
        how.dtype   = (int64_t)m->output->param[0].whole.dtype;
    }
    tape->scope      = &m->output->scope;
    rp_status status = rp__apply(m->ctx, &rp_op_linear_cross_entropy, &how, with, m->head ? 4 : 3, loss);
    tape->scope      = outer;
    if (m->output->policy) rp__policy_pop(m->ctx);
    return status;
}

/* The head stays entered while the loss reads its bias, which is gathered with it. */
static rp_status head_loss(rp_model *m, rp_tensor **x, rp_tensor *labels, const rp_attr_cross_entropy *attr, rp_tensor **loss)
{
    if (!m->head) return output_loss(m, *x, labels, attr, loss);
    RP_TRY(rp__module_enter(m->head));
    rp_status status = rp__layer_step(m->head, x);
    if (status == RP_OK) status = output_loss(m, *x, labels, attr, loss);
    rp__module_leave(m->head);
    return status;
}

/* Replaces x by its target rows, as an embedding lookup with x as the table. */
static rp_status take_targets(rp_model *m, rp_tensor *targets, rp_tensor **x)
{
    const rp_meta *all = rp_tensor_meta(*x);
    rp_tensor *table, *rows;

    if (!targets) return RP_OK;
    RP_TRY(rp_tensor_reshape(*x, 2, (int64_t[]){ rp_meta_rows(all), rp_meta_dim(all, -1) }, &table));
    rp_status status = rp__apply(m->ctx, &rp_op_embedding, NULL, (rp_tensor *[]){ table, targets }, 2, &rows);
    rp_tensor_unref(table);
    if (status != RP_OK) return status;
    rp_tensor_unref(*x);
    *x = rows;
    return RP_OK;
}

static rp_status label_loss(rp_model *m, const rp_model_batch *batch, const rp_attr_cross_entropy *attr, rp_tensor **loss)
{
    rp_tensor *x = NULL;

    RP_TRY(hidden(m, batch, &x));
    rp_status status = take_targets(m, batch->targets, &x);
    if (status == RP_OK) status = head_loss(m, &x, batch->labels, attr, loss);
    rp_tensor_unref(x);
    return status;
}

/* The loads are sums over mixtures, which all have the same weight. */
static rp_status add_balance(rp_model *m, rp_tensor *labels, const rp_attr_cross_entropy *attr, rp_tensor **loss)
{
    double experts           = (double)m->config.experts, mixtures = (double)m->mixtures;
    rp_attr_balance_loss how = { .factor = m->config.experts_balance * experts / (mixtures * mixtures), .weight = attr->weight,
                                 .ignore_index = attr->ignore_index };
    rp_tensor *total;

    RP_TRY(rp__apply(m->ctx, &rp_op_balance_loss, &how, (rp_tensor *[]){ *loss, m->loads, labels }, 3, &total));
    rp_tensor_unref(*loss);
    *loss = total;
    return RP_OK;
}

static rp_status whole_loss(rp_model *m, const rp_model_batch *batch, const rp_attr_cross_entropy *attr, rp_tensor **loss)
{
    rp_tensor *made = NULL;

    m->weighs        = m->config.experts_balanced && m->config.experts_balance > 0;
    m->counted       = batch->padded ? batch->doc_start : NULL;
    m->mixtures      = 0;
    rp_status status = label_loss(m, batch, attr, &made);
    if (status == RP_OK && m->loads) status = add_balance(m, batch->labels, attr, &made);
    m->weighs = false;
    rp_tensor_unref(m->loads);
    m->loads = NULL;
    return rp__tensor_give(status, made, loss);
}

typedef rp_status loss_pass(rp_model *m, const rp_model_batch *batch, const rp_attr_cross_entropy *attr, rp_tensor **loss);

static rp_status pass_to_loss(rp_model *m, loss_pass *pass, const rp_model_batch *batch, const rp_attr_cross_entropy *how, rp_tensor **loss)
{
    rp_tape_mark before = rp__tape_mark(m->ctx);

    RP_TRY(rp__module_enter(m->root));
    rp_status status = pass(m, batch, how, loss);
    rp__module_leave(m->root);
    return finish_pass(m, status, before);
}

rp_status rp__model_loss(rp_model *m, const rp_model_batch *batch, const rp_attr_cross_entropy *how, rp_tensor **loss)
{
    return pass_to_loss(m, whole_loss, batch, how, loss);
}

rp_status rp__model_label_loss(rp_model *m, const rp_model_batch *batch, const rp_attr_cross_entropy *how, rp_tensor **loss)
{
    return pass_to_loss(m, label_loss, batch, how, loss);
}

/* ---- generation ---- */

static rp_module *attention_of(rp_module *block)
{
    for (rp_module *child = block->first_child; child; child = child->next)
        if (!strcmp(child->name, "attn")) return child;
    return NULL;
}

static rp_status set_cache(rp_model *m, int64_t rows, int64_t length)
{
    m->cached    = 0;
    m->has_cache = rows > 0;
    for (rp_module *block = m->layers->first_child; block; block = block->next)
        RP_TRY(rp__attention_cache(attention_of(block), rows, length));
    return RP_OK;
}

rp_status rp__model_cache_new(rp_model *m, int64_t rows, int64_t length)
{
    RP_CHECK(m->ctx, !m->config.both_ways, RP_ERR_UNSUPPORTED, "a model of type '%s' is an encoder and has no cache",
             rp__model_type(&m->config));
    RP_TRY(rp__model_reserve_length(m, length));
    rp_status status = set_cache(m, rows, length);
    if (status != RP_OK) rp__model_cache_drop(m);
    return status;
}

void rp__model_cache_drop(rp_model *m) { (void)set_cache(m, 0, 0); }

int64_t rp__model_cache_used(const rp_model *m) { return m->cached; }
