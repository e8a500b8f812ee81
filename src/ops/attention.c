/* ops/attention.c -- out = softmax(scale * q k') v, fused: no tensor of the size of queries x keys exists.
 *
 *   in     q [B, T, Hq, D]   k, v [B, S, Hkv, D], one floating dtype; Hq is a multiple of Hkv: groups of heads share keys
 *          doc_start [B, T] int32, optional: the first key a query sees; a document begins where it equals the query's own position
 *   out    out [B, T, Hq, D]
 *   slot   lse [B, Hq, T]   log of the sum of exp of a query's scores; 4 bytes per query and head
 *   sees   query t is at position S - T + t. It sees the keys from doc_start to its own position (causal), or else to the start of
 *          the next document or the end. With a window it sees no key further back than window - 1. If it sees no key, its output is 0
 *   softcap  a score s = scale * q k becomes softcap * tanh(s / softcap), before unseen keys are masked (Gemma 2)
 *   random dropout of probabilities in train mode: element (head * T + t) * S + key of the sample's stream; backward draws
 *          the same numbers again
 *   needs  q, k, v, doc_start, out and lse; backward recomputes the probabilities
 *   kernel kernels/attention.h; q, k and v may have any strides if the last dimension is dense
 */
#include "ops/attention.h"

/* Sizes and options, without addresses and strides (call_of adds them); scratch depends only on these. */
static rp_attention describe(const rp_op_meta *m)
{
    const rp_attr_attention *a = m->attr;
    sizes s                    = sizes_of(m);

    return (rp_attention){ .batch = s.batch, .queries = s.queries, .keys = s.keys, .heads = s.heads, .kv_heads = s.kv_heads,
                           .dim = s.dim, .scale = a->scale, .softcap = a->softcap, .dropout = dropout_of(m), .causal = a->causal, .window = a->window,
                           .on = *rp__on(m), .q = { .dtype = m->in[Q].dtype } };
}

/* Strides, which shape does not know, also decide whether the kernel or the reference runs, so scratch has room for either. */
static void size_scratch(rp_op_meta *m)
{
    const rp_kernels *kernels = rp__op_table(m);
    int64_t forward = 0, backward = 0;

    m->scratch_bytes          = rp__reference_attention_scratch(m, false);
    m->scratch_backward_bytes = rp__reference_attention_scratch(m, true);
    if (!m->fast || !kernels->attention_forward) return;
    rp_attention a = describe(m);
    kernels->attention_forward_scratch(&a, &forward);
    kernels->attention_backward_scratch(&a, &backward);
    m->scratch_bytes          = larger(m->scratch_bytes, forward);
    m->scratch_backward_bytes = larger(m->scratch_backward_bytes, backward);
}

static rp_status check_heads(const rp_op_meta *m)
{
    const rp_meta *q = &m->in[Q], *k = &m->in[K];
    int64_t heads = q->dim[2], kv_heads = k->dim[2];

    RP_CHECK(m->ctx, rp_meta_same_shape(k, &m->in[V]) && q->dim[0] == k->dim[0] && q->dim[3] == k->dim[3], RP_ERR_SHAPE,
             "attention: q is %s, k %s and v %s, expected [B, T, Hq, D] and twice [B, S, Hkv, D]", rp_meta_str(q), rp_meta_str(k),
             rp_meta_str(&m->in[V]));
    RP_CHECK(m->ctx, kv_heads > 0 && heads % kv_heads == 0, RP_ERR_SHAPE,
             "attention: %" PRId64 " heads of q are not a multiple of the %" PRId64 " of k and v", heads, kv_heads);
    RP_CHECK(m->ctx, k->dim[1] < INT32_MAX / 2 && q->dim[1] < INT32_MAX / 2, RP_ERR_SHAPE, "attention: %s is too long", rp_meta_str(k));
    return RP_OK;
}

static rp_status check_attr(const rp_op_meta *m)
{
    const rp_attr_attention *a = m->attr;
    sizes s                    = sizes_of(m);

    RP_CHECK(m->ctx, a->dropout >= 0 && a->dropout < 1, RP_ERR_ARG, "attention: dropout is %g, expected [0, 1)", (double)a->dropout);
    RP_CHECK(m->ctx, a->window >= 0, RP_ERR_ARG, "attention: window is %d, expected 0 or more", (int)a->window);
    RP_CHECK(m->ctx, isfinite(a->softcap) && a->softcap >= 0, RP_ERR_ARG, "attention: softcap is %g, expected 0 or more", (double)a->softcap);
    RP_CHECK(m->ctx, isfinite(a->scale), RP_ERR_ARG, "attention: scale is %g, expected a finite number", (double)a->scale);
    RP_CHECK(m->ctx, a->dropout == 0 || s.heads * s.queries < (INT64_C(1) << 34) / larger(s.keys, 1), RP_ERR_SHAPE,
             "attention: a sample has %" PRId64 " x %" PRId64 " x %" PRId64 " probabilities, dropout draws for at most 2^34", s.heads,
             s.queries, s.keys);
    return RP_OK;
}

static rp_status attention_shape(rp_op_meta *m)
{
    RP_CHECK(m->ctx, m->n_in > V, RP_ERR_ARG, "attention: q, k and v are needed");
    for (int i = Q; i <= V; i++) {
        RP_CHECK(m->ctx, rp_meta_is_float(&m->in[i]) && m->in[i].dtype == m->in[Q].dtype, RP_ERR_DTYPE,
                 "attention: inputs are %s and %s, expected one floating dtype", rp_meta_str(&m->in[Q]), rp_meta_str(&m->in[i]));
        RP_CHECK(m->ctx, m->in[i].ndim == 4, RP_ERR_SHAPE, "attention: an input is %s, expected four dimensions",
                 rp_meta_str(&m->in[i]));
    }
    RP_TRY(check_heads(m));
    RP_TRY(check_attr(m));
    sizes s       = sizes_of(m);
    const rp_meta *doc = &m->in[DOC];
    RP_CHECK(m->ctx, m->n_in <= DOC || (doc->dtype == RP_I32 && doc->ndim == 2 && doc->dim[0] == s.batch && doc->dim[1] == s.queries),
             RP_ERR_SHAPE, "attention: doc_start is %s, expected int32 [%" PRId64 ", %" PRId64 "]", rp_meta_str(doc), s.batch, s.queries);
    m->out[OUT]  = m->in[Q];
    m->slot[LSE] = rp_meta_make(rp_meta_stat_dtype(&m->in[Q]), 3, (int64_t[]){ s.batch, s.heads, s.queries });
    size_scratch(m);
    return RP_OK;
}

/* Number of pairs of a query and a key it sees. */
static int64_t pairs_seen(const rp_op_meta *m)
{
    const rp_attr_attention *a = m->attr;
    sizes s                    = sizes_of(m);
    int64_t below = s.queries > s.keys ? s.keys : s.queries, most = a->window ? a->window : s.keys, first = s.keys - below;

    if (!a->causal) return s.queries * s.keys;
    if (most > s.keys) most = s.keys;
    int64_t grows = most > first ? most - first : 0;            /* each query from `first` to most - 1 sees one more key */
    return grows * first + grows * (grows + 1) / 2 + (below - grows) * most;
}

/* Two products in forward, five in backward. Documents are data, not shapes, and are not counted. */
static rp_cost attention_cost(const rp_op_meta *m, rp_pass pass)
{
    sizes s         = sizes_of(m);
    int64_t product = 2 * s.batch * s.heads * pairs_seen(m) * s.dim;

    return rp__cost(m, pass, (pass == RP_FORWARD ? 2 : 5) * product);
}

/* ---- kernel ---- */

static rp_attention_part part(const rp_tensor *t, bool adds)
{
    if (!t) return (rp_attention_part){ .data = NULL };
    return (rp_attention_part){ .dtype = t->m.dtype, .data = rp__tensor_data(t), .batch_step = t->stride[0], .row_step = t->stride[1],
                                .head_step = t->stride[2], .adds = adds };
}

static bool rows_dense(const rp_tensor *t) { return !t || t->m.dim[t->m.ndim - 1] == 1 || t->stride[t->m.ndim - 1] == 1; }

static bool runs_kernel(const rp_op_call *c)
{
    bool dense = c->meta->fast && rp__op_table(c->meta)->attention_forward && rows_dense(c->out[OUT]) && rows_dense(c->grad_out[OUT]);

    for (int i = Q; i <= V; i++) dense = dense && rows_dense(c->in[i]) && rows_dense(c->grad_in[i]);
    return dense;
}

static rp_attention call_of(const rp_op_call *c)
{
    rp_attention a = describe(c->meta);

    a.q       = part(c->in[Q], false);
    a.k       = part(c->in[K], false);
    a.v       = part(c->in[V], false);
    a.out     = part(c->out[OUT], false);
    a.lse     = c->meta->n_slot ? rp__data(c->slot[LSE]) : NULL;
    a.stream  = (rp_stream){ c->stream.key, c->stream.step, c->stream.sample_base };
    a.scratch = c->scratch;
    if (c->meta->n_in > DOC) {
        a.doc_start      = rp__data(c->in[DOC]);
        a.doc_batch_step = c->in[DOC]->stride[0];
        a.doc_row_step   = c->in[DOC]->stride[1];
    }
    return a;
}

static void attention_forward(const rp_op_call *c)
{
    if (!runs_kernel(c)) {
        RP_BUG_IF(rp__op_launches(c->meta));
        rp__reference_attention(c);
        return;
    }
    rp_attention a = call_of(c);
    rp__op_table(c->meta)->attention_forward(&a);
}

static void attention_backward(const rp_op_call *c)
{
    if (!runs_kernel(c)) {
        RP_BUG_IF(rp__op_launches(c->meta));
        rp__reference_attention_gradients(c);
        return;
    }
    rp_attention a = call_of(c);
    a.grad_out     = part(c->grad_out[OUT], false);
    a.dq           = part(c->grad_in[Q], c->grad_adds[Q]);
    a.dk           = part(c->grad_in[K], c->grad_adds[K]);
    a.dv           = part(c->grad_in[V], c->grad_adds[V]);
    rp__op_table(c->meta)->attention_backward(&a);
}

#define CAUSAL(...) &(rp_attr_attention){ .scale = 0.5f, .causal = true, __VA_ARGS__ }
#define QKV(b, t, s, hq, hkv, d) { b, t, hq, d }, { b, s, hkv, d }, { b, s, hkv, d }

static const rp_op_case attention_cases[] = {
    { "causal",           .in = { QKV(2, 5, 5, 2, 2, 4) },            .attr = CAUSAL(), .roundings = 1 },
    { "all keys",         .in = { QKV(1, 4, 7, 2, 1, 8) },            .attr = &(rp_attr_attention){ .scale = 0.4f }, .roundings = 1 },
    { "grouped heads",    .in = { QKV(2, 6, 6, 6, 2, 5) },            .attr = CAUSAL(), .roundings = 1 },
    { "documents",        .in = { QKV(2, 9, 9, 2, 1, 3), { 2, 9 } },  .attr = CAUSAL(), .int_inputs = 8, .ascending = 8, .roundings = 1 },
    { "window",           .in = { QKV(1, 11, 11, 2, 2, 4) },          .attr = CAUSAL(.window = 3), .roundings = 1 },
    { "documents, window", .in = { QKV(1, 12, 12, 3, 3, 2), { 1, 12 } }, .attr = CAUSAL(.window = 5), .int_inputs = 8, .ascending = 8,
      .roundings = 1 },
    { "decoding",         .in = { QKV(2, 1, 9, 4, 2, 6) },            .attr = CAUSAL(), .roundings = 1 },
    { "some are cached",  .in = { QKV(1, 3, 8, 2, 1, 17) },           .attr = CAUSAL(), .roundings = 1 },
    { "more queries than keys", .in = { QKV(1, 5, 3, 1, 1, 4) },      .attr = CAUSAL(), .roundings = 1 },
    { "dropout",          .in = { QKV(2, 7, 7, 4, 2, 4) },            .attr = CAUSAL(.dropout = 0.3f), .roundings = 1 },
    { "documents both ways", .in = { QKV(2, 11, 11, 4, 2, 3), { 2, 11 } }, .attr = &(rp_attr_attention){ .scale = 0.4f }, .int_inputs = 8,
      .ascending = 8, .roundings = 1 },
    { "both ways, dropout", .in = { QKV(2, 40, 40, 2, 2, 4), { 2, 40 } }, .attr = &(rp_attr_attention){ .scale = 0.4f, .dropout = 0.2f },
      .int_inputs = 8, .ascending = 8, .roundings = 1 },
    { "dropout, eval",    .in = { QKV(1, 4, 4, 2, 2, 4) },            .attr = CAUSAL(.dropout = 0.3f), .eval = true, .roundings = 1 },
    { "many tiles",       .in = { QKV(1, 99, 99, 1, 1, 5) },          .attr = CAUSAL(.window = 80), .roundings = 1 },
    { "capped",           .in = { QKV(2, 7, 7, 2, 1, 4) },            .attr = CAUSAL(.softcap = 0.4f), .roundings = 1 },
    { "capped, window, documents", .in = { QKV(1, 13, 13, 3, 1, 6), { 1, 13 } }, .attr = CAUSAL(.softcap = 1.5f, .window = 4), .int_inputs = 8,
      .ascending = 8, .roundings = 1 },
    { "capped, dropout",  .in = { QKV(1, 9, 9, 2, 2, 4) },            .attr = CAUSAL(.softcap = 0.7f, .dropout = 0.25f), .roundings = 1 },
    { "capped, many tiles", .in = { QKV(1, 130, 130, 1, 1, 5) },      .attr = CAUSAL(.softcap = 0.5f, .window = 40), .roundings = 1 },
    { "negative cap",     .in = { QKV(1, 4, 4, 2, 2, 4) },            .attr = CAUSAL(.softcap = -1), .expect = RP_ERR_ARG },
    { "heads differ",     .in = { QKV(1, 4, 4, 3, 2, 4) },            .attr = CAUSAL(), .expect = RP_ERR_SHAPE },
    { "dims differ",      .in = { { 1, 4, 2, 4 }, { 1, 4, 2, 5 }, { 1, 4, 2, 5 } }, .attr = CAUSAL(), .expect = RP_ERR_SHAPE },
    { "bad documents",    .in = { QKV(1, 4, 4, 2, 2, 4), { 4 } },     .attr = CAUSAL(), .int_inputs = 8, .expect = RP_ERR_SHAPE },
    { "bad dropout",      .in = { QKV(1, 4, 4, 2, 2, 4) },            .attr = CAUSAL(.dropout = 1.0f), .expect = RP_ERR_ARG },
};

const rp_op rp_op_attention = {
    .name = "attention", .n_in = 4, .n_out = 1, .n_slot = 1, .attr_size = sizeof(rp_attr_attention),
    .flags = RP_OP_VARIADIC | RP_OP_RANDOM, .no_grad_in = RP_IN(DOC),
    .needs = RP_IN(Q) | RP_IN(K) | RP_IN(V) | RP_IN(DOC) | RP_OUT(OUT) | RP_SLOT(LSE),
    .shape = attention_shape, .cost = attention_cost,
    .forward = attention_forward, .backward = attention_backward,
    .cases = attention_cases, .n_case = RP_COUNT(attention_cases),
};
