/* ops/embedding.c -- y[i] = table[ids[i]].
 *
 *   in     table [V, n]   ids [...] int32, each in [0, V): checked before the table is read
 *   out    y [..., n]     dtype of the table; fp32, not rounded, if the table is quantised
 *   needs  ids. Rows of dy that belong to one row of the table are summed in fp32 in order of position and rounded once. Positions
 *          are first sorted by id (a counting sort), so no two threads write the same row and the order never changes
 */
#include "kernels/order.h"
#include "ops/common.h"

enum { TABLE, IDS };
enum { Y };

/* Scratch of backward: the start of each id's run [V + 1] and the sorted positions [count]. The reference also has dense ids [count] and sums [n]. */
typedef struct { int64_t first, order, ids, sums, total; } layout;

static layout backward_layout(const rp_op_meta *m)
{
    bool fast     = rp__op_fast(m);
    int64_t count = rp_meta_elems(&m->in[IDS]) * (int64_t)sizeof(int32_t);
    layout l      = { 0 };

    l.first = rp__scratch_add(m->ctx, &l.total, (m->in[TABLE].dim[0] + 1) * (int64_t)sizeof(int32_t));
    l.order = rp__scratch_add(m->ctx, &l.total, count);
    l.ids   = rp__scratch_add(m->ctx, &l.total, fast ? 0 : count);
    l.sums  = rp__scratch_add(m->ctx, &l.total, fast ? 0 : m->in[TABLE].dim[1] * (int64_t)sizeof(double));
    return l;
}

static rp_status embedding_shape(rp_op_meta *m)
{
    const rp_meta *table = &m->in[TABLE], *ids = &m->in[IDS];

    RP_CHECK(m->ctx, rp_meta_is_float(table) || rp__is_quant(table->dtype), RP_ERR_DTYPE, "embedding: the table is %s, expected a floating dtype",
             rp_meta_str(table));
    RP_TRY(rp__check_weight_grad(m, TABLE));
    RP_CHECK(m->ctx, table->ndim == 2 && table->dim[0] <= INT32_MAX, RP_ERR_SHAPE, "embedding: the table is %s, expected [ids, n]",
             rp_meta_str(table));
    RP_TRY(rp__check_int32(m, IDS, "ids"));
    RP_CHECK(m->ctx, ids->ndim < RP_MAX_DIM && rp_meta_elems(ids) <= INT32_MAX, RP_ERR_SHAPE, "embedding: ids are %s, expected at most %d "
             "dimensions and %d elements", rp_meta_str(ids), RP_MAX_DIM - 1, INT32_MAX);
    m->out[Y]                  = *ids;
    m->out[Y].dtype            = rp__is_quant(table->dtype) ? RP_F32 : table->dtype;
    m->out[Y].dim[ids->ndim]   = table->dim[1];
    m->out[Y].ndim             = ids->ndim + 1;
    m->scratch_bytes           = rp__op_fast(m) ? 0 : table->dim[1] * (int64_t)sizeof(double);
    m->scratch_backward_bytes  = backward_layout(m).total;
    return RP_OK;
}

/* An assigned gradient is written whole, including rows of unused ids. Sorting reads the ids three times. */
static rp_cost embedding_cost(const rp_op_meta *m, rp_pass pass)
{
    int64_t y = rp_meta_bytes(&m->out[Y]), ids = rp_meta_bytes(&m->in[IDS]);

    if (pass == RP_FORWARD) return (rp_cost){ .read_bytes = y + ids, .write_bytes = y };
    return (rp_cost){ .flops = rp_meta_elems(&m->out[Y]), .read_bytes = y + 3 * ids, .write_bytes = rp_meta_bytes(&m->in[TABLE]) };
}

static void embedding_forward(const rp_op_call *c)
{
    const rp_kernels *k = rp__op_kernels(c);
    int64_t n = c->meta->in[TABLE].dim[1], count = rp_meta_elems(&c->meta->in[IDS]);

    if (rp__op_failed(c, rp__check_ints(c, IDS, c->meta->in[TABLE].dim[0], NULL, "token id", "at position"))) return;
    if (k->embedding_forward) {
        k->embedding_forward(c->meta->in[TABLE].dtype, rp__data(c->in[TABLE]), rp__data(c->in[IDS]), rp__data(c->out[Y]), count, n,
                             rp__on(c->meta));
    } else {
        for (int64_t i = 0; i < count; i++) {
            rp_row_get(c->in[TABLE], rp_int_get(c->in[IDS], i), c->scratch);
            rp_row_put(c->out[Y], i, c->scratch);
        }
    }
}

static void sort_positions(const rp_op_call *c, int32_t *first, int32_t *order, int32_t *ids)
{
    const rp_kernels *k = rp__op_kernels(c);
    int64_t vocab = c->meta->in[TABLE].dim[0], count = rp_meta_elems(&c->meta->in[IDS]);

    if (k->embedding_order) {
        k->embedding_order(rp__data(c->in[IDS]), order, first, count, vocab, rp__on(c->meta));
        return;
    }
    for (int64_t i = 0; i < count; i++) ids[i] = rp_int_get(c->in[IDS], i);
    rp__order(ids, order, first, count, vocab);
}

/* The positions of id v are order[first[v]] .. order[first[v + 1] - 1]. */
static void embedding_reference_backward(const rp_op_call *c, const int32_t *first, const int32_t *order, double *sums)
{
    int64_t vocab = c->meta->in[TABLE].dim[0], n = c->meta->in[TABLE].dim[1];

    for (int64_t v = 0; v < vocab; v++) {
        memset(sums, 0, (size_t)n * sizeof *sums);
        for (int64_t at = first[v]; at < first[v + 1]; at++)
            for (int64_t i = 0; i < n; i++) sums[i] += rp_elem_get(c->grad_out[Y], order[at] * n + i);
        rp_row_grad(c, TABLE, v, sums);
    }
}

static void embedding_backward(const rp_op_call *c)
{
    const rp_kernels *k = rp__op_kernels(c);
    layout l            = backward_layout(c->meta);
    uint8_t *scratch    = c->scratch;
    int32_t *first = (int32_t *)(scratch + l.first), *order = (int32_t *)(scratch + l.order);

    sort_positions(c, first, order, (int32_t *)(scratch + l.ids));
    if (k->embedding_backward)
        k->embedding_backward(c->meta->in[TABLE].dtype, rp__data(c->grad_out[Y]), order, first, rp__data(c->grad_in[TABLE]),
                              rp__grad_dtype(c, TABLE), c->grad_adds[TABLE], c->meta->in[TABLE].dim[0], c->meta->in[TABLE].dim[1],
                              rp__on(c->meta));
    else embedding_reference_backward(c, first, order, (double *)(scratch + l.sums));
}

#define IDS_FROM(low, high) .int_inputs = RP_IN(IDS), .int_low = { [IDS] = low }, .int_high = { [IDS] = high }

static const rp_op_case embedding_cases[] = {
    { "repeated ids",   .in = { { 5, 7 },   { 2, 9 } },    IDS_FROM(0, 4) },
    { "one id",         .in = { { 3, 19 },  { 40 } },      IDS_FROM(1, 1) },
    { "wide rows",      .in = { { 40, 67 }, { 2, 3, 4 } }, IDS_FROM(0, 39) },
    { "past the table", .in = { { 5, 7 },   { 4 } },       IDS_FROM(5, 5),   .expect = RP_ERR_ARG },
    { "negative id",    .in = { { 5, 7 },   { 4 } },       IDS_FROM(-1, -1), .expect = RP_ERR_ARG },
    { "floating ids",   .in = { { 5, 7 },   { 4 } },                         .expect = RP_ERR_DTYPE },
    { "flat table",     .in = { { 5 },      { 4 } },       IDS_FROM(0, 4),   .expect = RP_ERR_SHAPE },
};

const rp_op rp_op_embedding = {
    .name = "embedding", .n_in = 2, .n_out = 1, .no_grad_in = RP_IN(IDS),
    .wide_grad_in = RP_IN(TABLE),
    .needs = RP_IN(IDS),
    .shape = embedding_shape, .cost = embedding_cost,
    .forward = embedding_forward, .backward = embedding_backward,
    .cases = embedding_cases, .n_case = RP_COUNT(embedding_cases),
};
