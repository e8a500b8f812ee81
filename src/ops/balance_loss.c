/* ops/balance_loss.c -- adds the load-balancing term of experts to a loss (Fedus et al., Switch Transformers, 2021, equation 4).
 *
 *   in     loss [1]   loads [2, n], both fp32 (fp64 in fp64): from ops/expert_load.c, a mean or sum over mixtures   labels [...] int32
 *   out    total [1]  loss + weight * (number of counted labels) * factor * sum over experts of loads[0] * loads[1]
 *   needs  loads, labels
 *
 * weight and labels are those of the loss, so the term weighs a batch by its targets, as the loss does. If weight is 1 / targets of several
 * batches, their total is the mean of the batches' own terms, in proportion to their targets.
 */
#include "ops/common.h"

enum { LOSS, LOADS, LABELS };
enum { TOTAL };

static rp_status balance_loss_shape(rp_op_meta *m)
{
    const rp_meta *loss = &m->in[LOSS], *loads = &m->in[LOADS];

    RP_CHECK(m->ctx, loss->dtype == rp_meta_stat_dtype(loss) && loads->dtype == loss->dtype, RP_ERR_DTYPE, "balance_loss: loss is %s and loads "
             "%s, expected fp32", rp_meta_str(loss), rp_meta_str(loads));
    RP_TRY(rp__check_int32(m, LABELS, "labels"));
    RP_CHECK(m->ctx, loss->ndim == 1 && loss->dim[0] == 1 && loads->ndim == 2 && loads->dim[0] == 2, RP_ERR_SHAPE, "balance_loss: loss is %s and "
             "loads %s, expected [1] and [2, experts]", rp_meta_str(loss), rp_meta_str(loads));
    m->out[TOTAL] = *loss;
    rp__read_for(m, RP_IN(LOADS) | RP_IN(LABELS), RP_IN(LOADS));
    return RP_OK;
}

static rp_cost balance_loss_cost(const rp_op_meta *m, rp_pass pass) { return rp__cost(m, pass, rp_meta_elems(&m->in[LOADS])); }

static double factor_of_label(const rp_attr_balance_loss *a) { return a->factor * (double)a->weight; }

static double factor_of(const rp_op_call *c)
{
    const rp_attr_balance_loss *a = c->attr;
    int64_t targets               = 0;

    for (int64_t i = 0, n = rp_meta_elems(&c->meta->in[LABELS]); i < n; i++) targets += rp_int_get(c->in[LABELS], i) != a->ignore_index;
    return factor_of_label(a) * (double)targets;
}

static void balance_loss_forward(const rp_op_call *c)
{
    const rp_kernels *k           = rp__op_kernels(c);
    const rp_attr_balance_loss *a = c->attr;
    int64_t n                     = c->meta->in[LOADS].dim[1];
    double sum                    = 0;

    if (k->balance_loss_forward) {
        k->balance_loss_forward(rp__data(c->in[LOSS]), rp__data(c->in[LOADS]), rp__data(c->in[LABELS]), a->ignore_index, a->factor, a->weight,
                                rp__data(c->out[TOTAL]), rp_meta_elems(&c->meta->in[LABELS]), n, rp__on(c->meta));
        return;
    }
    for (int64_t i = 0; i < n; i++) sum += rp_elem_get(c->in[LOADS], i) * rp_elem_get(c->in[LOADS], n + i);
    rp_elem_put(c->out[TOTAL], 0, rp_elem_get(c->in[LOSS], 0) + factor_of(c) * sum);
}

static void balance_loss_backward(const rp_op_call *c)
{
    const rp_kernels *k           = rp__op_kernels(c);
    const rp_attr_balance_loss *a = c->attr;
    int64_t n                     = c->meta->in[LOADS].dim[1];

    if (!c->grad_in[LOADS]) return;
    if (k->balance_loss_backward) {
        k->balance_loss_backward(rp__data(c->in[LOADS]), rp__data(c->in[LABELS]), a->ignore_index, a->factor, a->weight, rp__data(c->grad_out[TOTAL]),
                                 rp__data(c->grad_in[LOADS]), c->grad_adds[LOADS], rp_meta_elems(&c->meta->in[LABELS]), n, rp__on(c->meta));
        return;
    }
    double factor = factor_of(c) * rp_elem_get(c->grad_out[TOTAL], 0);
    for (int64_t i = 0; i < 2 * n; i++) rp__elem_grad(c, LOADS, i, factor * rp_elem_get(c->in[LOADS], (i + n) % (2 * n)));
}

#define LABELS_FROM(low, high) \
    .int_inputs = RP_IN(LABELS), .int_low = { [LABELS] = low }, .int_high = { [LABELS] = high }, .stat_inputs = RP_IN(LOSS) | RP_IN(LOADS)
#define OF(weight, factor) .attr = &(rp_attr_balance_loss){ factor, weight, -1 }

static const rp_op_case balance_loss_cases[] = {
    { "four experts", .in = { { 1 }, { 2, 4 },  { 3, 5 } }, OF(1 / 15.0f, 0.5), LABELS_FROM(0, 9) },
    { "some targets", .in = { { 1 }, { 2, 37 }, { 9 } },    OF(0.125f, 2),      LABELS_FROM(-1, 0) },
    { "no targets",   .in = { { 1 }, { 2, 3 },  { 4 } },    OF(1, 1),           LABELS_FROM(-1, -1) },
    { "not a loss",   .in = { { 2 }, { 2, 3 },  { 4 } },    OF(1, 1),           LABELS_FROM(0, 1), .expect = RP_ERR_SHAPE },
    { "not loads",    .in = { { 1 }, { 3, 3 },  { 4 } },    OF(1, 1),           LABELS_FROM(0, 1), .expect = RP_ERR_SHAPE },
};

const rp_op rp_op_balance_loss = {
    .name = "balance_loss", .n_in = 3, .n_out = 1, .attr_size = sizeof(rp_attr_balance_loss), .flags = RP_OP_GRAD_PASS,
    .no_grad_in = RP_IN(LABELS), .needs = RP_IN(LOADS) | RP_IN(LABELS),
    .shape = balance_loss_shape, .cost = balance_loss_cost,
    .forward = balance_loss_forward, .backward = balance_loss_backward,
    .cases = balance_loss_cases, .n_case = RP_COUNT(balance_loss_cases),
};
