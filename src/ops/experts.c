/* ops/experts.c -- rows sorted by expert: ops/experts.h. */
#include "ops/experts.h"

rp_status rp__check_routes(const rp_op_meta *m, int choices, int64_t tokens, int64_t experts)
{
    const rp_meta *c = &m->in[choices];
    int64_t slots    = rp_meta_elems(c);

    RP_TRY(rp__check_int32(m, choices, "choices"));
    RP_CHECK(m->ctx, experts >= 1 && experts < INT32_MAX, RP_ERR_SHAPE, "%s: %" PRId64 " experts, expected 1 to %d", m->op->name, experts,
             INT32_MAX - 1);
    RP_CHECK(m->ctx, slots <= INT32_MAX && (tokens ? slots % tokens == 0 : slots == 0), RP_ERR_SHAPE, "%s: choices are %s, expected the same number for each "
             "of %" PRId64 " rows", m->op->name, rp_meta_str(c), tokens);
    return RP_OK;
}

rp_status rp__check_choices(const rp_op_call *c, int choices, int64_t experts)
{
    return rp__check_ints(c, choices, experts, NULL, "choice", "of slot");
}

rp_experts_layout rp__experts_layout(const rp_ctx *ctx, int64_t slots, int64_t experts)
{
    rp_experts_layout l = { 0 };

    l.first = rp__scratch_add(ctx, &l.total, (experts + 1) * (int64_t)sizeof(int32_t));
    l.place = rp__scratch_add(ctx, &l.total, slots * (int64_t)sizeof(int32_t));
    return l;
}

static void experts_count(const rp_tensor *choices, int64_t experts, int32_t *first)
{
    memset(first, 0, (size_t)(experts + 1) * sizeof *first);
    for (int64_t s = 0, slots = rp_meta_elems(&choices->m); s < slots; s++) first[rp_int_get(choices, s) + 1]++;
    for (int64_t e = 0; e < experts; e++) first[e + 1] += first[e];
}

void rp__experts_first(const rp_op_call *c, int choices, int64_t experts, int32_t *first)
{
    const rp_kernels *k = rp__op_kernels(c);

    if (k->experts_order)
        k->experts_order(rp__data(c->in[choices]), first, NULL, rp_meta_elems(&c->meta->in[choices]), experts, rp__on(c->meta));
    else experts_count(c->in[choices], experts, first);
}

int32_t *rp__experts_sort(const rp_op_call *c, int choices, int64_t experts)
{
    const rp_kernels *k = rp__op_kernels(c);
    int64_t slots       = rp_meta_elems(&c->meta->in[choices]);
    rp_experts_layout l = rp__experts_layout(c->ctx, slots, experts);
    uint8_t *scratch    = c->scratch;
    int32_t *first = (int32_t *)(void *)(scratch + l.first), *place = (int32_t *)(void *)(scratch + l.place);

    if (k->experts_order) {
        k->experts_order(rp__data(c->in[choices]), first, place, slots, experts, rp__on(c->meta));
        return place;
    }
    experts_count(c->in[choices], experts, first);
    for (int64_t s = 0; s < slots; s++) place[s] = first[rp_int_get(c->in[choices], s)]++;
    return place;
}
