/* cli/bench/calls.c -- times calls of ops and updates of a parameter. */
#include "cli/bench/internal.h"

#include "cost/internal.h"
#include "ops/call.h"
#include "optim/optim.h"
#include "reprise/ops.h"
#include "tensor/tensor.h"

#define USUAL true
#define ASKED false
#define RP_BENCH_STEP(...)

const bench_call rp__bench_calls[] = {
#define RP_BENCH_CALL(op, shape, when, ...) { #op, shape, when, { __VA_ARGS__ } },
#define RP_BENCH_UPDATE(...)
#include "cli/bench/benches.def"
#undef RP_BENCH_CALL
#undef RP_BENCH_UPDATE
};

const bench_update rp__bench_updates[] = {
#define RP_BENCH_CALL(...)
#define RP_BENCH_UPDATE(name, elements, shape, when, coded) { #name, shape, when, elements, coded },
#include "cli/bench/benches.def"
#undef RP_BENCH_CALL
#undef RP_BENCH_UPDATE
};

const int rp__bench_n_calls = RP_COUNT(rp__bench_calls), rp__bench_n_updates = RP_COUNT(rp__bench_updates);

/* Bytes of all places of a call together: more than the caches of a core, like a step between two calls of a layer. */
static const int64_t spread_bytes = INT64_C(1) << 27;

/* ---- calls ---- */

typedef struct { rp_cost_timed *timed; rp_pass pass; } timed_pass;

static rp_status run_pass(void *self)
{
    const timed_pass *p = self;

    return rp__cost_timed_run(p->timed, p->pass);
}

rp_status rp__bench_call(bench_machine *m, const bench_item *item, rp_bench_row *row)
{
    bool dx = !strcmp(item->part, "dx"), dw = !strcmp(item->part, "dw");
    timed_pass p    = { .pass = strcmp(item->part, "forward") ? RP_BACKWARD : RP_FORWARD };
    uint32_t frozen = dx ? RP_IN(1) : dw ? RP_IN(0) : 0;

    RP_TRY(rp__cost_timed_new(m->ctx, rp__op_find(item->call->op), &item->call->call, item->dtype, frozen, spread_bytes, &p.timed));
    rp_cost work     = rp__cost_work(rp__cost_timed_meta(p.timed), p.pass);
    bench_work bench = { .run = run_pass, .self = &p, .flops = work.flops, .bytes = rp__cost_bytes(work), .dtype = item->dtype };
    rp_status status = p.pass == RP_BACKWARD ? rp__cost_timed_run(p.timed, RP_FORWARD) : RP_OK;
    if (status == RP_OK) status = rp__bench_rows(m, &bench, row);
    rp__cost_timed_free(p.timed);
    return status;
}

/* ---- updates ---- */

typedef struct { rp_optim *optim; rp_tensor *param, *grad; int64_t step; } timed_update;

static rp_status run_update(void *self)
{
    timed_update *u = self;

    rp__optim_update(u->optim, 0, u->grad, &(rp_optim_step){ .step = ++u->step, .lr = 1e-9, .grad_scale = 1, .measure = true });
    return RP_OK;
}

/* Many magnitudes, because equal codes of states would stay in the caches. */
static rp_status fill_grad(rp_tensor *grad)
{
    rp_host h;

    RP_TRY(rp__tensor_host_all(grad, RP_HOST_WRITE, &h));
    for (int64_t i = 0, n = rp_meta_elems(&grad->m); i < n; i++) {
        float v = 1.0f / (float)(i * 37 % 4099 + 1);
        if (grad->m.dtype == RP_BF16) ((uint16_t *)h.data)[i] = rp__bf16_from_f32(v);
        else ((float *)h.data)[i] = v;
    }
    rp__tensor_host_end(&h);
    return RP_OK;
}

static rp_status open_update(rp_ctx *ctx, const bench_item *item, timed_update *u)
{
    rp_optim_config config = { .name = item->update->name, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .momentum = 0.9,
                               .state_dtype = item->update->coded ? RP_U8 : item->dtype };
    rp_meta meta           = rp_meta_1d(item->dtype, item->update->elements);

    RP_TRY(rp__tensor_new_named(ctx, &meta, RP_MEM_PARAM, "a parameter that is measured", &u->param));
    RP_TRY(rp__tensor_new_named(ctx, &meta, RP_MEM_GRAD, "a gradient that is measured", &u->grad));
    rp__tensor_zero(u->param);
    RP_TRY(fill_grad(u->grad));
    return rp__optim_new(ctx, &config, &(rp_optim_param){ .path = "bench", .tensor = u->param }, 1, &u->optim);
}

/* Weights and states are read and written, the gradient is read. */
static int64_t calls_bytes_of(const timed_update *u)
{
    int64_t bytes = rp_meta_bytes(&u->param->m);
    const char *name;

    for (int i = 0; i < rp__optim_n_tensors(u->optim); i++) {
        const rp_tensor *state = rp__optim_tensor(u->optim, i, &name);
        if (state) bytes += rp_meta_bytes(&state->m);
    }
    return 2 * bytes + rp_meta_bytes(&u->grad->m);
}

rp_status rp__bench_update(bench_machine *m, const bench_item *item, rp_bench_row *row)
{
    timed_update u   = { 0 };
    rp_status status = open_update(m->ctx, item, &u);

    if (status == RP_OK)
        status = rp__bench_rows(m, &(bench_work){ .run = run_update, .self = &u, .bytes = calls_bytes_of(&u), .dtype = item->dtype }, row);
    rp__optim_free(u.optim);
    rp_tensor_unref(u.grad);
    rp_tensor_unref(u.param);
    return status;
}
