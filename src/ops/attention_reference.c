/* ops/attention_reference.c -- the reference: attention one query and head at a time, its gradients one key and head at a time, in double.
 *
 *   scratch forward    q, a row of k or v, out [D] each   scores [S]
 *           backward   q, dout, k, v, dk or dq, dv [D] each   delta [T, heads that share a key]
 */
#include "ops/attention.h"

#include "base/philox.h"

int64_t rp__reference_attention_scratch(const rp_op_meta *m, bool backward)
{
    sizes s = sizes_of(m);

    return (backward ? 6 * s.dim + s.queries * s.group : 3 * s.dim + s.keys) * (int64_t)sizeof(double);
}

/* ---- visible keys, dropout ---- */

typedef struct { int64_t low, high; } keys_seen;

static int32_t doc_start_of(const rp_op_call *c, int64_t b, int64_t t) { return rp_int_get(c->in[DOC], b * sizes_of(c->meta).queries + t); }

/* The end of query t's document: the position where the next one begins. */
static int64_t document_end(const rp_op_call *c, int64_t b, int64_t t)
{
    sizes s       = sizes_of(c->meta);
    int64_t ahead = s.keys - s.queries;

    for (int64_t next = t + 1; next < s.queries; next++)
        if (doc_start_of(c, b, next) >= ahead + next) return larger(ahead + next, 0);
    return s.keys;
}

static keys_seen see(const rp_op_call *c, int64_t b, int64_t t)
{
    const rp_attr_attention *a = c->attr;
    sizes s                    = sizes_of(c->meta);
    int64_t position = s.keys - s.queries + t, high = a->causal ? position + 1 : s.keys;
    int64_t low = a->window ? larger(position - a->window + 1, 0) : 0;

    if (c->meta->n_in > DOC) low = larger(low, doc_start_of(c, b, t));
    if (c->meta->n_in > DOC && !a->causal) high = document_end(c, b, t);
    return (keys_seen){ low, high };
}

static double keep_of(const rp_op_call *c, int64_t b, int64_t h, int64_t t, int64_t key)
{
    rp_stream stream = { c->stream.key, c->stream.step, c->stream.sample_base };
    float p          = dropout_of(c->meta);
    sizes s          = sizes_of(c->meta);

    if (p == 0) return 1;
    bool dropped = rp__uniform(rp__stream_word(&stream, b, (h * s.queries + t) * s.keys + key)) < p;
    return dropped ? 0 : 1 / (1 - (double)p);
}

/* ---- forward ---- */

static void get_query(const rp_op_call *c, const rp_tensor *tensor, int64_t b, int64_t t, int64_t h, double *to)
{
    sizes s = sizes_of(c->meta);

    rp_row_get(tensor, (b * s.queries + t) * s.heads + h, to);
}

static void get_key(const rp_op_call *c, const rp_tensor *tensor, int64_t b, int64_t key, int64_t kv_head, double *to)
{
    sizes s = sizes_of(c->meta);

    rp_row_get(tensor, (b * s.keys + key) * s.kv_heads + kv_head, to);
}

static double dot(const double *a, const double *b, int64_t n)
{
    double sum = 0;

    for (int64_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

static void add_scaled(double *to, double factor, const double *from, int64_t n)
{
    for (int64_t i = 0; i < n; i++) to[i] += factor * from[i];
}

/* The score with scale and softcap, from the product of q and k. */
static double score_of(const rp_attr_attention *a, double product)
{
    double s = (double)a->scale * product, cap = (double)a->softcap;

    return cap > 0 ? cap * tanh(s / cap) : s;
}

static void reference_query(const rp_op_call *c, int64_t b, int64_t t, int64_t h)
{
    const rp_attr_attention *a = c->attr;
    sizes s        = sizes_of(c->meta);
    keys_seen seen = see(c, b, t);
    double *q = c->scratch, *row = q + s.dim, *out = row + s.dim, *score = out + s.dim, top = -INFINITY, sum = 0;

    memset(out, 0, (size_t)s.dim * sizeof *out);
    get_query(c, c->in[Q], b, t, h, q);
    for (int64_t i = seen.low; i < seen.high; i++) {
        get_key(c, c->in[K], b, i, h / s.group, row);
        score[i] = score_of(a, dot(q, row, s.dim));
        top      = score[i] > top ? score[i] : top;
    }
    for (int64_t i = seen.low; i < seen.high; i++) sum += score[i] = exp(score[i] - top);
    for (int64_t i = seen.low; i < seen.high; i++) {
        get_key(c, c->in[V], b, i, h / s.group, row);
        add_scaled(out, score[i] / sum * keep_of(c, b, h, t, i), row, s.dim);
    }
    rp_row_put(c->out[OUT], (b * s.queries + t) * s.heads + h, out);
    if (c->meta->n_slot)
        rp_elem_put(c->slot[LSE], (b * s.heads + h) * s.queries + t, seen.low < seen.high ? top + log(sum) : -INFINITY);
}

void rp__reference_attention(const rp_op_call *c)
{
    sizes s = sizes_of(c->meta);

    for (int64_t b = 0; b < s.batch; b++)
        for (int64_t t = 0; t < s.queries; t++)
            for (int64_t h = 0; h < s.heads; h++) reference_query(c, b, t, h);
}

/* ---- backward ---- */

/* Probability of a key and the gradient of its score. With g = dout, keep = the dropout factor and delta = sum(dout * out):
 *   p = exp(score - lse)    ds = p (keep g v - delta) * (1 - (score / softcap)^2) */
typedef struct { double p, ds; } derivative;

static derivative differentiate(const rp_op_call *c, int64_t b, int64_t h, int64_t t, int64_t key, double delta, const double *q,
                                const double *g, const double *k, const double *v)
{
    const rp_attr_attention *a = c->attr;
    sizes s     = sizes_of(c->meta);
    double lse  = rp_elem_get(c->slot[LSE], (b * s.heads + h) * s.queries + t), keep = keep_of(c, b, h, t, key);
    double score = score_of(a, dot(q, k, s.dim)), bent = a->softcap > 0 ? score / (double)a->softcap : 0, p = exp(score - lse);

    return (derivative){ p * keep, p * (keep * dot(g, v, s.dim) - delta) * (1 - bent * bent) };
}

static void reference_dq(const rp_op_call *c, int64_t b, int64_t t, int64_t h, double *delta)
{
    const rp_attr_attention *a = c->attr;
    sizes s        = sizes_of(c->meta);
    keys_seen seen = see(c, b, t);
    double *q = c->scratch, *g = q + s.dim, *k = g + s.dim, *v = k + s.dim, *dq = v + s.dim;

    get_query(c, c->out[OUT], b, t, h, q);
    get_query(c, c->grad_out[OUT], b, t, h, g);
    *delta = dot(q, g, s.dim);
    if (!c->grad_in[Q]) return;
    get_query(c, c->in[Q], b, t, h, q);
    memset(dq, 0, (size_t)s.dim * sizeof *dq);
    for (int64_t i = seen.low; i < seen.high; i++) {
        get_key(c, c->in[K], b, i, h / s.group, k);
        get_key(c, c->in[V], b, i, h / s.group, v);
        add_scaled(dq, (double)a->scale * differentiate(c, b, h, t, i, *delta, q, g, k, v).ds, k, s.dim);
    }
    rp_row_grad(c, Q, (b * s.queries + t) * s.heads + h, dq);
}

static void reference_dkv(const rp_op_call *c, int64_t b, int64_t key, int64_t kv_head, const double *delta)
{
    const rp_attr_attention *a = c->attr;
    sizes s     = sizes_of(c->meta);
    double *q   = c->scratch, *g = q + s.dim, *k = g + s.dim, *v = k + s.dim, *dk = v + s.dim, *dv = dk + s.dim;
    int64_t row = (b * s.keys + key) * s.kv_heads + kv_head;

    memset(dk, 0, (size_t)(2 * s.dim) * sizeof *dk);
    get_key(c, c->in[K], b, key, kv_head, k);
    get_key(c, c->in[V], b, key, kv_head, v);
    for (int64_t t = 0; t < s.queries; t++) {
        keys_seen seen = see(c, b, t);
        for (int64_t j = 0; j < s.group && key >= seen.low && key < seen.high; j++) {
            int64_t h = kv_head * s.group + j;
            get_query(c, c->in[Q], b, t, h, q);
            get_query(c, c->grad_out[OUT], b, t, h, g);
            derivative d = differentiate(c, b, h, t, key, delta[t * s.group + j], q, g, k, v);
            add_scaled(dk, (double)a->scale * d.ds, q, s.dim);
            add_scaled(dv, d.p, g, s.dim);
        }
    }
    if (c->grad_in[K]) rp_row_grad(c, K, row, dk);
    if (c->grad_in[V]) rp_row_grad(c, V, row, dv);
}

void rp__reference_attention_gradients(const rp_op_call *c)
{
    sizes s       = sizes_of(c->meta);
    double *delta = (double *)c->scratch + 6 * s.dim;

    for (int64_t b = 0; b < s.batch; b++)
        for (int64_t h = 0; h < s.kv_heads; h++) {
            for (int64_t i = 0; i < s.queries * s.group; i++) reference_dq(c, b, i / s.group, h * s.group + i % s.group, &delta[i]);
            for (int64_t key = 0; key < s.keys; key++) reference_dkv(c, b, key, h, delta);
        }
}
