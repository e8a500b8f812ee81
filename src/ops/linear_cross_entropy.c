/* ops/linear_cross_entropy.c -- loss = weight * sum over rows of -log softmax(x w^T + bias)[label], by blocks of classes. With the
 * attribute softcap, logits are softcap * tanh(z / softcap) of these z.
 *
 *   in     x [..., n]   w [V, n]     one floating dtype, or w quantised      labels [...] int32; rows labelled ignore_index do not count
 *          or w [room], this rank's slice of it (collective.h), with the attribute `classes`: V; of a quantised w its bytes, with the attribute `dtype`
 *          bias [V], optional, dtype of w; always whole, because it has one number per class
 *   out    loss [1]                  fp32 (fp64 in fp64), rows summed in order
 *   slots  lse [rows] dtype of loss  log of the sum of exp(logits)
 *          logits [V, rows]          only if `keeps_logits`: block after block, each [rows][its classes]; the products, before any cap
 *   needs  x, w, labels, bias, lse, logits
 *
 *              classes ->   0 … q  | q … 2q | …        forward: the block's logits, folded into each row's maximum and sum
 *            +------+  w:  +-------+--------+---
 *     rows   |  x   |      | logits|        |          backward: the same logits, kept or recomputed, become their gradient in scratch,
 *            +------+      +-------+--------+---                 then  dx += dlogits w_block   dw_block (+)= dlogits^T x
 *
 * By default logits are not kept. Recomputing them adds a third to the cost of the head's products. The alternative, chunks of rows, would keep a
 * gradient of w in fp32 and pass over it once per chunk, which costs more. Here each block of classes is finished before the next one starts, and its
 * logits stay in a CPU's cache (Wijmans et al., Cut Your Losses in Large-Vocabulary Language Models, 2024, use the same order). The width of blocks follows
 * from rows, dtype and device, or from the attribute, which is part of the recipe. It fixes the order of the sums of dx, so no memory decision may change it.
 *
 * If ranks share w, a block of it is fetched while the block before it is multiplied. The gradient of a block is sent to the ranks whose slices it
 * lies in while the next one is computed. So no rank ever holds the whole head or its whole gradient. The bits are those of a gathered w.
 */
#include "ops/linear_cross_entropy.h"

#include "ops/streamed.h"
#include "ops/talk.h"

/* Most bytes of a block's logits: the caches of a CPU hold them, and a GPU has wide products. */
enum { LOGITS_BYTES = 4 << 20, GPU_LOGITS_BYTES = 128 << 20, FEWEST_CLASSES = 256 };

/* The reference always recomputes each row's logits. */
static bool keeps_logits(const rp_op_meta *m) { return ((const rp_attr_cross_entropy *)m->attr)->keeps_logits && m->want_grad && rp__op_fast(m); }
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Classes per block: the largest power of two whose logits fit these bytes, but at least FEWEST_CLASSES. */
int64_t rp__head_block(const rp_ctx *ctx, int64_t rows, int64_t classes, int64_t bytes, int64_t chunks)
{
    int64_t q = FEWEST_CLASSES, most = ctx->device[0]->runs ? GPU_LOGITS_BYTES : LOGITS_BYTES;

    if (chunks > 0) return classes / chunks + (classes % chunks > 0);
    while (2 * q * rows * bytes <= most && q < classes) q *= 2;
    return least(q, classes);
}

static int64_t block_classes(const rp_op_meta *m)
{
    return rp__head_block(m->ctx, rows_of(m), classes_of(m), rp_dtype_bytes(m->in[X].dtype), ((const rp_attr_cross_entropy *)m->attr)->chunks);
}

/* A piece of a block: `classes` of them, `skipped` behind the block's first one. Tensor cores of a GPU read rows of 16 bytes, so classes that are no
 * multiple of 8 end with a small piece of their own. On a CPU the piece is the block. */
typedef struct { int64_t skipped, classes; } piece;

enum { EVEN_CLASSES = 8 };

static piece next_piece(const rp_op_meta *m, int64_t skipped, int64_t classes)
{
    int64_t left = classes - skipped, odd = left % EVEN_CLASSES;

    return (piece){ skipped, m->ctx->device[0]->runs && left > odd ? left - odd : left };
}

/* ---- the three products of a piece ---- */

static rp_gemm product_logits(const rp_op_meta *m, int64_t classes)
{
    return (rp_gemm){ .ab = m->in[X].dtype, .c = m->in[X].dtype, .m = rows_of(m), .n = classes, .k = width_of(m), .transpose_b = true,
                      .bias = has_bias(m), .on = *rp__on(m) };
}

static rp_gemm product_dx(const rp_op_meta *m, int64_t classes, bool adds)
{
    return (rp_gemm){ .ab = m->in[X].dtype, .c = RP_F32, .m = rows_of(m), .n = width_of(m), .k = classes, .adds = adds, .on = *rp__on(m) };
}

/* B of the first two begins with a piece of the block of w from class v on. *at: the block's address, which becomes that of B (rp__streamed_first). */
static rp_gemm from_piece(const rp_streamed *w, int64_t v, piece p, rp_gemm product, const void **at)
{
    product.quant   = rp__quant_type(w->dtype);
    product.b_first = rp__streamed_first(w, v) + (product.quant ? p.skipped * w->width : 0);
    if (!product.quant) *at = (const uint8_t *)*at + p.skipped * w->width * rp_dtype_bytes(w->dtype);
    return product;
}

static rp_gemm product_dw(const rp_op_meta *m, int64_t classes, rp_dtype grad, bool adds)
{
    return (rp_gemm){ .ab = m->in[X].dtype, .c = grad, .m = classes, .n = width_of(m), .k = rows_of(m), .transpose_a = true, .adds = adds,
                      .on = *rp__on(m) };
}

/* ---- scratch ---- */

typedef struct { int64_t logits, rows[3], dx, window[2], gradient[2], received, products, total; } layout;

/* Gradients of w are bf16 or fp32, for any dtype of w. */
enum { WIDEST = 4 };

/* forward: logits of a block unless they are kept, then three floats per row. backward: the logits' gradient, and dx unless it is summed in
 * fp32 already. For a sliced w: two blocks, and in backward two of its gradient and the data received for one. */
static layout lay_out(const rp_op_meta *m, bool backward)
{
    layout l = { 0 };

    if (backward || !keeps_logits(m)) l.logits = rp__scratch_add(m->ctx, &l.total, block_classes(m) * rows_of(m) * rp_dtype_bytes(m->in[X].dtype));
    for (int i = 0; i < 3 && !backward; i++) l.rows[i] = rp__scratch_add(m->ctx, &l.total, rows_of(m) * (int64_t)sizeof(float));
    if (backward && m->in[X].dtype != RP_F32) l.dx = rp__scratch_add(m->ctx, &l.total, rp_meta_elems(&m->in[X]) * (int64_t)sizeof(float));
    int64_t block = is_sliced(m) ? block_classes(m) * width_of(m) : 0;
    for (int i = 0; i < 2 && block; i++) l.window[i] = rp__scratch_add(m->ctx, &l.total, rp__streamed_window(whole_of(m).dtype, block));
    for (int i = 0; i < 2 && block && backward && m->in_grad[W]; i++) l.gradient[i] = rp__scratch_add(m->ctx, &l.total, block * WIDEST);
    if (block && backward && m->in_grad[W]) l.received = rp__scratch_add(m->ctx, &l.total, rp__window_room(m->ctx, elems_of(m), block, WIDEST));
    l.products = l.total;
    return l;
}

static rp_status take_product(const rp_op_meta *m, rp_gemm product, int64_t *most)
{
    int64_t bytes = 0;

    RP_TRY(rp__gemm_scratch(m->ctx, rp__op_table(m), &product, &bytes));
    if (bytes > *most) *most = bytes;
    return RP_OK;
}

/* For pieces of this many classes: the largest scratch of all cases, because shape does not know the dtype of gradients. */
static rp_status backward_products(const rp_op_meta *m, int64_t classes, int64_t *most)
{
    if (!keeps_logits(m)) RP_TRY(take_product(m, product_logits(m, classes), most));
    for (int adds = 0; adds < 2; adds++) {
        if (m->in_grad[X]) RP_TRY(take_product(m, product_dx(m, classes, adds), most));
        if (!m->in_grad[W]) continue;
        RP_TRY(take_product(m, product_dw(m, classes, RP_F32, adds), most));
        RP_TRY(take_product(m, product_dw(m, classes, m->in[X].dtype, adds), most));
    }
    return RP_OK;
}

static rp_status block_products(const rp_op_meta *m, int64_t classes, int64_t *forward, int64_t *backward)
{
    for (piece p = { 0, 0 }; p.skipped < classes; p.skipped += p.classes) {
        p = next_piece(m, p.skipped, classes);
        RP_TRY(take_product(m, product_logits(m, p.classes), forward));
        RP_TRY(backward_products(m, p.classes, backward));
    }
    return RP_OK;
}

static rp_status fast_scratch(rp_op_meta *m)
{
    int64_t q = block_classes(m), forward = 0, backward = 0;

    if (rows_of(m) == 0) return RP_OK;
    RP_TRY(block_products(m, q, &forward, &backward));
    RP_TRY(block_products(m, classes_of(m) % q, &forward, &backward));
    m->scratch_bytes = lay_out(m, false).products + forward;
    if (m->want_grad) m->scratch_backward_bytes = lay_out(m, true).products + backward;
    return RP_OK;
}

/* ---- shape and cost ---- */

/* A slice of a quantised weight is uint8. */
static rp_status check_weight(const rp_op_meta *m)
{
    const rp_attr_cross_entropy *a = m->attr;
    bool bytes = a->classes && m->in[W].dtype == RP_U8;

    RP_CHECK(m->ctx, bytes ? rp_meta_is_float(&m->in[X]) && rp__is_quant((rp_dtype)a->dtype)
                           : rp__weight_fits(m, X, W) && !(a->classes && rp__is_quant(m->in[W].dtype)),
             RP_ERR_DTYPE, "linear_cross_entropy: x is %s and w %s, expected one floating dtype", rp_meta_str(&m->in[X]), rp_meta_str(&m->in[W]));
    RP_CHECK(m->ctx, !bytes || !m->in_grad[W], RP_ERR_DTYPE, "linear_cross_entropy: the weight %s is a slice of a quantised one, so it has no gradient",
             rp_meta_str(&m->in[W]));
    return rp__check_weight_grad(m, W);
}

static rp_status linear_cross_entropy_check(const rp_op_meta *m)
{
    const rp_attr_cross_entropy *a = m->attr;
    const rp_meta *x = &m->in[X], *w = &m->in[W], *labels = &m->in[LABELS];

    RP_CHECK(m->ctx, m->n_in > LABELS, RP_ERR_ARG, "linear_cross_entropy: x, w and labels are needed");
    RP_TRY(check_weight(m));
    RP_TRY(rp__check_int32(m, LABELS, "labels"));
    RP_CHECK(m->ctx, a->classes >= 0 && a->classes <= INT32_MAX, RP_ERR_ARG, "linear_cross_entropy: classes is %" PRId64, a->classes);
    rp_meta whole = rp_meta_2d(x->dtype, a->classes, rp_meta_dim(x, -1));
    RP_TRY(rp__check_size(m, "w", &whole));
    bool sliced = a->classes && x->ndim >= 1 && w->ndim == 1;
    if (sliced) whole = whole_of(m);
    if (sliced) RP_TRY(rp__meta_check(m->ctx, &whole));
    int64_t room = sliced ? rp__slice_here(m->ctx, rp__sliced_elems(&whole)).room : 0;
    RP_CHECK(m->ctx, !a->classes || (sliced && w->dim[0] == room), RP_ERR_SHAPE,
             "linear_cross_entropy: x is %s and w %s, expected a slice of %" PRId64 " elements", rp_meta_str(x), rp_meta_str(w), room);
    RP_CHECK(m->ctx, sliced || (x->ndim >= 1 && w->ndim == 2 && w->dim[1] == rp_meta_dim(x, -1) && w->dim[0] > 0 && w->dim[0] <= INT32_MAX),
             RP_ERR_SHAPE, "linear_cross_entropy: x is %s and w %s, expected w [classes, %" PRId64 "]", rp_meta_str(x), rp_meta_str(w),
             rp_meta_dim(x, -1));
    RP_CHECK(m->ctx, rp_meta_elems(labels) == rp_meta_rows(x), RP_ERR_SHAPE,
             "linear_cross_entropy: x is %s and labels %s, expected a label for each row", rp_meta_str(x), rp_meta_str(labels));
    RP_CHECK(m->ctx, !has_bias(m) || (m->in[BIAS].dtype == x->dtype && m->in[BIAS].ndim == 1 && m->in[BIAS].dim[0] == classes_of(m)),
             RP_ERR_SHAPE, "linear_cross_entropy: w is %s and bias %s, expected [%" PRId64 "] of its dtype", rp_meta_str(w),
             rp_meta_str(&m->in[BIAS]), classes_of(m));
    RP_CHECK(m->ctx, a->chunks >= 0, RP_ERR_ARG, "linear_cross_entropy: chunks is %" PRId64, a->chunks);
    RP_CHECK(m->ctx, a->softcap >= 0 && isfinite(a->softcap), RP_ERR_ARG, "linear_cross_entropy: softcap is %g", a->softcap);
    return RP_OK;
}

static rp_status linear_cross_entropy_shape(rp_op_meta *m)
{
    RP_TRY(linear_cross_entropy_check(m));
    m->out[LOSS]    = rp_meta_1d(rp_meta_stat_dtype(&m->in[X]), 1);
    m->n_slot       = m->want_grad + keeps_logits(m);
    m->slot[LSE]    = rp_meta_1d(rp_meta_stat_dtype(&m->in[X]), rows_of(m));
    m->slot[LOGITS] = rp_meta_2d(m->in[X].dtype, classes_of(m), rows_of(m));
    RP_TRY(rp__check_size(m, "the logits", &m->slot[LOGITS]));
    if (rp__op_fast(m)) return fast_scratch(m);
    m->scratch_bytes          = rp__reference_loss_scratch(m, false);
    m->scratch_backward_bytes = rp__reference_loss_scratch(m, true);
    return RP_OK;
}

static rp_cost linear_cross_entropy_cost(const rp_op_meta *m, rp_pass pass)
{
    rp_meta whole = whole_of(m);
    int64_t rows = rows_of(m), w = rp_meta_bytes(&whole), x = rp_meta_bytes(&m->in[X]), product = 2 * rows * elems_of(m);
    int64_t blocks = (classes_of(m) + block_classes(m) - 1) / block_classes(m), logits = rows * classes_of(m) * rp_dtype_bytes(m->in[X].dtype);

    int64_t fetched = is_sliced(m) ? rp__gather_sends(m->ctx, &whole, RP_FROM_ALL) : 0,
            summed = is_sliced(m) && m->in_grad[W] ? rp__reduce_sends(m->ctx, &whole) : 0;

    if (pass == RP_FORWARD)
        return (rp_cost){ .flops = product + 15 * rows * classes_of(m), .read_bytes = blocks * x + w + logits, .write_bytes = logits,
                          .comm_bytes = fetched };
    bool recompute = !keeps_logits(m);
    return (rp_cost){ .flops       = product * (recompute + m->in_grad[X] + m->in_grad[W]) + 15 * rows * classes_of(m),
                      .read_bytes  = (recompute + m->in_grad[W]) * blocks * x + (recompute + m->in_grad[X]) * w + 3 * logits,
                      .write_bytes = m->in_grad[X] * blocks * x + m->in_grad[W] * w + 2 * logits,
                      .comm_bytes  = fetched + summed };
}

void rp__linear_cross_entropy_talk(const rp_op_meta *m, rp_pass pass, rp_talk *talk)
{
    rp_meta whole = whole_of(m);
    int64_t block = block_classes(m) * width_of(m);

    rp__talk_fetch(talk, m->ctx, &whole, block);
    if (pass == RP_BACKWARD && m->in_grad[W]) rp__talk_send(talk, m->ctx, &whole, block);
}

/* ---- w and its gradient, a block of classes at a time ---- */

static rp_streamed open_weights(const rp_op_call *c, uint8_t *scratch, const layout *l)
{
    const rp_op_meta *m = c->meta;

    return (rp_streamed){ .c = c, .in = W, .dtype = whole_of(m).dtype, .rows = classes_of(m), .width = width_of(m), .block = block_classes(m),
                          .sliced = is_sliced(m), .window = { scratch + l->window[0], scratch + l->window[1] },
                          .gradient = { scratch + l->gradient[0], scratch + l->gradient[1] }, .received = scratch + l->received, .on_its_way = -1 };
}

/* ---- kernels, a block of classes at a time ---- */

/* The kept logits of the piece that begins at class v; NULL: not kept. */
static void *kept_logits(const rp_op_call *c, int64_t v)
{
    return c->meta->n_slot > LOGITS ? rp__data_at(c->slot[LOGITS], v * rows_of(c->meta)) : NULL;
}

static const void *bias_at(const rp_op_call *c, int64_t v) { return has_bias(c->meta) ? rp__data_at(c->in[BIAS], v) : NULL; }

/* block: of w, from class v on. */
static rp_status fold_piece(const rp_op_call *c, uint8_t *scratch, const layout *l, const rp_streamed *w, int64_t v, piece p, const void *block)
{
    const rp_op_meta *m = c->meta;
    int64_t first = v + p.skipped;
    float *top = (float *)(scratch + l->rows[0]), *sum = (float *)(scratch + l->rows[1]), *picked = (float *)(scratch + l->rows[2]);
    rp_gemm product = from_piece(w, v, p, product_logits(m, p.classes), &block);
    void *kept = kept_logits(c, first), *logits = kept ? kept : scratch + l->logits;

    RP_TRY(rp__gemm(c->ctx, rp__op_table(m), &product, rp__data(c->in[X]), block, logits, bias_at(c, first), scratch + l->products));
    rp__op_kernels(c)->cross_entropy_fold(m->in[X].dtype, logits, (float)softcap_of(m), rp__data(c->in[LABELS]), first, top, sum, picked, rows_of(m),
                                          p.classes, rp__on(m));
    return RP_OK;
}

static rp_status fold_blocks(const rp_op_call *c, uint8_t *scratch, const layout *l)
{
    const rp_op_meta *m = c->meta;
    int64_t q = block_classes(m);
    rp_streamed w = open_weights(c, scratch, l);
    const void *block;

    for (int64_t v = 0; v < classes_of(m); v += q) {
        int64_t classes = least(q, classes_of(m) - v);
        RP_TRY(rp__streamed_block(&w, v, &block));
        for (piece p = { 0, 0 }; p.skipped < classes; p.skipped += p.classes) {
            p = next_piece(m, p.skipped, classes);
            RP_TRY(fold_piece(c, scratch, l, &w, v, p, block));
        }
    }
    return RP_OK;
}

static rp_status run_forward(const rp_op_call *c)
{
    const rp_attr_cross_entropy *a = c->attr;
    const rp_kernels *k            = rp__op_kernels(c);
    layout l                       = lay_out(c->meta, false);
    uint8_t *scratch               = c->scratch;
    int64_t rows                   = rows_of(c->meta);
    float *top = (float *)(scratch + l.rows[0]), *sum = (float *)(scratch + l.rows[1]), *picked = (float *)(scratch + l.rows[2]);

    if (rows == 0) {
        rp__tensor_zero(c->out[LOSS]);
        return RP_OK;
    }
    RP_TRY(fold_blocks(c, scratch, &l));
    k->cross_entropy_rows(top, sum, picked, rp__data(c->in[LABELS]), a->ignore_index, sum, c->meta->n_slot ? rp__data(c->slot[LSE]) : NULL, rows,
                          rp__on(c->meta));
    k->cross_entropy_total(sum, a->weight, rp__data(c->out[LOSS]), rows, rp__on(c->meta));
    return RP_OK;
}

static void linear_cross_entropy_forward(const rp_op_call *c)
{
    const rp_attr_cross_entropy *a = c->attr;

    if (rp__op_failed(c, rp__check_ints(c, LABELS, classes_of(c->meta), &a->ignore_index, "label", "of row"))) return;
    if (rp__op_has_kernels(c)) rp__op_failed(c, run_forward(c));
    else rp_elem_put(c->out[LOSS], 0, (double)a->weight * rp__reference_loss(c));
}

/* dx is summed over all blocks in fp32, in the gradient itself if that is fp32. */
typedef struct { uint8_t *logits, *products; float *dx; bool dx_adds; rp_streamed w; } backward_run;

/* The logits of a piece: kept, or recomputed into the memory of their gradient. */
static rp_status piece_logits(const rp_op_call *c, const backward_run *b, int64_t v, piece p, const void *block, const void **logits)
{
    rp_gemm recompute = from_piece(&b->w, v, p, product_logits(c->meta, p.classes), &block);

    *logits = kept_logits(c, v + p.skipped);
    if (*logits) return RP_OK;
    *logits = b->logits;
    return rp__gemm(c->ctx, rp__op_table(c->meta), &recompute, rp__data(c->in[X]), block, b->logits, bias_at(c, v + p.skipped), b->products);
}

/* The gradient of the bias for classes v …; rows are summed in order. */
static void add_dbias(const rp_op_call *c, const backward_run *b, int64_t v, int64_t classes)
{
    const rp_op_meta *m = c->meta;

    if (!has_bias(m) || !c->grad_in[BIAS]) return;
    rp__op_kernels(c)->column_sum(m->in[X].dtype, b->logits, rows_of(m), classes, rp__data_at(c->grad_in[BIAS], v), rp__grad_dtype(c, BIAS),
                                  c->grad_adds[BIAS], rp__on(m));
}

/* From the gradient of the logits in b->logits. */
static rp_status piece_gradients(const rp_op_call *c, const backward_run *b, int64_t v, piece p, const void *block)
{
    const rp_op_meta *m = c->meta;
    rp_gemm dx = from_piece(&b->w, v, p, product_dx(m, p.classes, v + p.skipped > 0 || b->dx_adds), &block);

    add_dbias(c, b, v + p.skipped, p.classes);
    if (c->grad_in[X]) RP_TRY(rp__gemm(c->ctx, rp__op_table(m), &dx, b->logits, block, b->dx, NULL, b->products));
    if (!c->grad_in[W]) return RP_OK;
    rp_gemm dw   = product_dw(m, p.classes, rp__grad_dtype(c, W), c->grad_adds[W] && !is_sliced(m));
    uint8_t *out = (uint8_t *)rp__streamed_gradient(&b->w, v) + p.skipped * width_of(m) * rp_dtype_bytes(dw.c);
    return rp__gemm(c->ctx, rp__op_table(m), &dw, b->logits, rp__data(c->in[X]), out, NULL, b->products);
}

static rp_status backward_block(const rp_op_call *c, backward_run *b, int64_t v, int64_t classes)
{
    const rp_attr_cross_entropy *a = c->attr;
    const rp_op_meta *m = c->meta;
    const void *logits, *block;

    RP_TRY(rp__streamed_block(&b->w, v, &block));
    for (piece p = { 0, 0 }; p.skipped < classes; p.skipped += p.classes) {
        p = next_piece(m, p.skipped, classes);
        RP_TRY(piece_logits(c, b, v, p, block, &logits));
        rp__op_kernels(c)->cross_entropy_unfold(m->in[X].dtype, logits, (float)softcap_of(m), b->logits, rp__data(c->in[LABELS]), a->ignore_index,
                                                v + p.skipped, rp__data(c->slot[LSE]), a->weight, rp__data(c->grad_out[LOSS]), rows_of(m), p.classes,
                                                rp__on(m));
        RP_TRY(piece_gradients(c, b, v, p, block));
    }
    return c->grad_in[W] ? rp__streamed_send(&b->w, v) : RP_OK;
}

static rp_status run_backward(const rp_op_call *c)
{
    const rp_op_meta *m = c->meta;
    layout l            = lay_out(m, true);
    uint8_t *scratch    = c->scratch;
    bool in_place       = c->grad_in[X] && rp__grad_dtype(c, X) == RP_F32;
    int64_t q = block_classes(m), n = rp_meta_elems(&m->in[X]);
    backward_run b = { scratch + l.logits, scratch + l.products, in_place ? rp__data(c->grad_in[X]) : (float *)(scratch + l.dx),
                       in_place && c->grad_adds[X], open_weights(c, scratch, &l) };

    if (rows_of(m) == 0) {
        for (int i = W; i < m->n_in; i++)
            if (c->grad_in[i] && !c->grad_adds[i]) rp__tensor_zero(c->grad_in[i]);
        return RP_OK;
    }
    for (int64_t v = 0; v < classes_of(m); v += q) RP_TRY(backward_block(c, &b, v, least(q, classes_of(m) - v)));
    if (c->grad_in[W]) RP_TRY(rp__streamed_end(&b.w));
    if (c->grad_in[X] && !in_place)
        rp__op_kernels(c)->copy_strips(RP_F32, b.dx, n, rp__grad_dtype(c, X), rp__data(c->grad_in[X]), n, c->grad_adds[X], 1, n, rp__on(m));
    return RP_OK;
}

static void linear_cross_entropy_backward(const rp_op_call *c)
{
    const rp_attr_cross_entropy *a = c->attr;

    if (rp__op_has_kernels(c)) rp__op_failed(c, run_backward(c));
    else rp__reference_loss_gradients(c, (double)a->weight * rp_elem_get(c->grad_out[LOSS], 0));
}

#define LABELS_FROM(low, high) .int_inputs = RP_IN(LABELS), .int_low = { [LABELS] = low }, .int_high = { [LABELS] = high }
/* In bf16 the logits and their gradient are rounded. */
#define MEAN_OF(rows, ignore, chunk) .attr = &(rp_attr_cross_entropy){ 1.0f / (rows), ignore, chunk, 0, 0, 0, 0 }, .roundings = 2
#define KEEPING(rows, ignore, chunk) .attr = &(rp_attr_cross_entropy){ 1.0f / (rows), ignore, chunk, 1, 0, 0, 0 }, .roundings = 2
#define CAPPED(rows, ignore, chunk, keeps, cap) .attr = &(rp_attr_cross_entropy){ 1.0f / (rows), ignore, chunk, keeps, 0, cap, 0 }, .roundings = 2
#define SLICED(rows, chunk, classes) .attr = &(rp_attr_cross_entropy){ 1.0f / (rows), -1, chunk, 0, classes, 0, 0 }, .roundings = 2

static const rp_op_case linear_cross_entropy_cases[] = {
    { "one row",        .in = { { 1, 8 },    { 5, 8 },   { 1 } },    LABELS_FROM(0, 4),   MEAN_OF(1, -100, 0) },
    { "one chunk",      .in = { { 2, 3, 7 }, { 9, 7 },   { 2, 3 } }, LABELS_FROM(0, 8),   MEAN_OF(6, -100, 0) },
    { "ragged chunks",  .in = { { 7, 5 },    { 11, 5 },  { 7 } },    LABELS_FROM(-1, 10), MEAN_OF(7, -1, 3) },
    { "even chunks",    .in = { { 6, 16 },   { 33, 16 }, { 6 } },    LABELS_FROM(0, 32),  MEAN_OF(6, -100, 2) },
    { "all ignored",    .in = { { 3, 4 },    { 5, 4 },   { 3 } },    LABELS_FROM(-1, -1), MEAN_OF(1, -1, 2) },
    { "more chunks than classes", .in = { { 7, 5 }, { 11, 5 }, { 7 } }, LABELS_FROM(-1, 10), MEAN_OF(7, -1, INT64_MAX) },
    { "kept logits",    .in = { { 7, 5 },    { 11, 5 },  { 7 } },    LABELS_FROM(-1, 10), KEEPING(7, -1, 3) },
    { "capped",         .in = { { 7, 5 },    { 37, 5 },  { 7 } },    LABELS_FROM(-1, 36), CAPPED(7, -1, 3, 0, 0.75) },
    { "capped, one block", .in = { { 4, 6 }, { 9, 6 },   { 4 } },    LABELS_FROM(0, 8),   CAPPED(4, -1, 0, 0, 2.5), .scale = 3 },
    { "capped, kept",   .in = { { 7, 5 },    { 11, 5 },  { 7 } },    LABELS_FROM(-1, 10), CAPPED(7, -1, 3, 1, 0.5) },
    { "negative cap",   .in = { { 3, 4 },    { 5, 4 },   { 3 } },    LABELS_FROM(0, 4),   CAPPED(1, -1, 0, 0, -1), .expect = RP_ERR_ARG },
    { "a slice",        .in = { { 7, 5 },    { 64 },     { 7 } },    LABELS_FROM(-1, 10), SLICED(7, 3, 11) },
    { "a whole slice",  .in = { { 4, 8 },    { 48 },     { 4 } },    LABELS_FROM(0, 5),   SLICED(4, 0, 6) },
    { "a vector, a slice", .in = { { 5 },    { 64 },     { 1 } },    LABELS_FROM(0, 10),  SLICED(1, 3, 11) },
    { "no such slice",  .in = { { 7, 5 },    { 48 },     { 7 } },    LABELS_FROM(0, 10),  SLICED(7, 3, 11),   .expect = RP_ERR_SHAPE },
    { "a bias",         .in = { { 7, 5 },    { 11, 5 },  { 7 }, { 11 } },    LABELS_FROM(-1, 10), MEAN_OF(7, -1, 3) },
    { "a bias, one block", .in = { { 2, 3, 7 }, { 9, 7 }, { 2, 3 }, { 9 } }, LABELS_FROM(0, 8),   MEAN_OF(6, -100, 0) },
    { "a bias, kept",   .in = { { 7, 5 },    { 11, 5 },  { 7 }, { 11 } },    LABELS_FROM(-1, 10), KEEPING(7, -1, 3) },
    { "a bias, capped", .in = { { 7, 5 },    { 37, 5 },  { 7 }, { 37 } },    LABELS_FROM(-1, 36), CAPPED(7, -1, 3, 0, 0.75) },
    { "a bias, a slice", .in = { { 7, 5 },   { 64 },     { 7 }, { 11 } },    LABELS_FROM(-1, 10), SLICED(7, 3, 11) },
    { "short bias",     .in = { { 3, 4 },    { 5, 4 },   { 3 }, { 4 } },     LABELS_FROM(0, 4),   MEAN_OF(1, -1, 0),   .expect = RP_ERR_SHAPE },
    { "evaluation",     .in = { { 5, 4 },    { 7, 4 },   { 5 } },    LABELS_FROM(-1, 6),  MEAN_OF(5, -1, 2), .eval = true },
    { "no such class",  .in = { { 3, 4 },    { 5, 4 },   { 3 } },    LABELS_FROM(5, 5),   MEAN_OF(1, -1, 0),   .expect = RP_ERR_ARG },
    { "inner differs",  .in = { { 3, 4 },    { 5, 3 },   { 3 } },    LABELS_FROM(0, 4),   MEAN_OF(1, -1, 0),   .expect = RP_ERR_SHAPE },
    { "short labels",   .in = { { 3, 4 },    { 5, 4 },   { 2 } },    LABELS_FROM(0, 4),   MEAN_OF(1, -1, 0),   .expect = RP_ERR_SHAPE },
    { "too many classes", .in = { { 3, 4 }, { 48 },    { 3 } },    LABELS_FROM(0, 4),   SLICED(1, 0, INT64_MAX), .expect = RP_ERR_ARG },
    { "negative chunks", .in = { { 3, 4 },    { 5, 4 },   { 3 } },    LABELS_FROM(0, 4),   MEAN_OF(1, -1, -1),  .expect = RP_ERR_ARG },
};

const rp_op rp_op_linear_cross_entropy = {
    .name = "linear_cross_entropy", .n_in = 4, .n_out = 1, .n_slot = 2, .attr_size = sizeof(rp_attr_cross_entropy),
    .flags = RP_OP_VARIADIC, .no_grad_in = RP_IN(LABELS),
    .wide_grad_in = RP_IN(W) | RP_IN(BIAS),
    .needs = RP_IN(X) | RP_IN(W) | RP_IN(LABELS) | RP_IN(BIAS) | RP_SLOT(LSE) | RP_SLOT(LOGITS),
    .shape = linear_cross_entropy_shape, .cost = linear_cross_entropy_cost,
    .forward = linear_cross_entropy_forward, .backward = linear_cross_entropy_backward,
    .cases = linear_cross_entropy_cases, .n_case = RP_COUNT(linear_cross_entropy_cases),
};
