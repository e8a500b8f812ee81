/* The kernels of a GPU on the emulated device, in all schedules: forms that the cases of ops lack, products of all forms, and updates. test_ops runs all
 * cases of ops there. */
/* ctest: long level-free device-free thread-free cost=60 */
#include "rp_test.h"

#include "draws.h"

#include "device/driver.h"
#include "device/emulate/emulate.h"
#include "kernels/gpu/gpu.h"
#include "ops/run_cases.h"
#include "reprise/ops.h"

#include <math.h>

#define RP_OP(name) extern const rp_op rp_op_##name;
#include "ops/ops.def"
#undef RP_OP

/* ---- forms of these kernels: whole packs, rows of a block, parts of rows ---- */

#define NORM .attr = &(rp_attr_norm){ .eps = 1e-5f, .plus = 0 }
#define OF_DIM(d) .attr = &(rp_attr_dim){ d }
#define INT_IN(i, low, high) .int_inputs = RP_IN(i), .int_low = { [i] = low }, .int_high = { [i] = high }
#define EXPERTS .attr = &(rp_attr_experts){ 4 }
#define LOSS(rows, chunk, keeps, cap) .attr = &(rp_attr_cross_entropy){ 1.0f / (rows), -1, chunk, keeps, 0, cap, 0 }

static const struct { const rp_op *op; rp_op_case test; } forms[] = {
    { &rp_op_add, { "packs", .in = { { 3, 720 }, { 3, 720 } } } },
    { &rp_op_mul, { "packs", .in = { { 3, 720 }, { 3, 720 } } } },
    { &rp_op_div, { "rows of groups", .in = { { 40, 72 }, { 72 } }, .shift = 2 } },
    { &rp_op_div, { "rows of a block", .in = { { 3, 300 }, { 3, 1 } }, .shift = 2 } },
    { &rp_op_where, { "packs", .in = { { 3, 720 }, { 3, 720 }, { 3, 720 } }, INT_IN(0, 0, 1) } },
    { &rp_op_gather, { "packs", .in = { { 9, 16 }, { 40, 1 } }, OF_DIM(0), INT_IN(1, 0, 8) } },
    { &rp_op_batched_matmul, { "tensor cores", .in = { { 3, 40, 72 }, { 72, 80 } }, .attr = &(rp_attr_batched_matmul){ false, false } } },
    { &rp_op_mse, { "packs", .in = { { 9, 720 }, { 9, 720 } }, .attr = &(rp_attr_mse){ 0.01f } } },
    { &rp_op_gelu, { "packs", .in = { { 3, 40 } }, .attr = &(rp_attr_gelu){ true } } },
    { &rp_op_swiglu, { "packs", .in = { { 3, 40 }, { 3, 40 } } } },
    { &rp_op_dropout, { "packs", .in = { { 3, 40 } }, .attr = &(rp_attr_dropout){ 0.3f } } },
    { &rp_op_cast, { "packs", .in = { { 3, 40 } }, .attr = &(rp_attr_cast){ RP_BF16 } } },
    { &rp_op_concat, { "packs", .in = { { 3, 16 }, { 3, 24 } }, OF_DIM(1) } },
    { &rp_op_split, { "packs", .in = { { 3, 48 } }, .attr = &(rp_attr_split){ 1, 3, { 8, 16, 24 } } } },
    { &rp_op_rmsnorm, { "rows of a block", .in = { { 3, 2056 }, { 2056 } }, NORM } },
    { &rp_op_rmsnorm, { "odd rows of a block", .in = { { 2, 1033 }, { 1033 } }, NORM } },
    { &rp_op_rmsnorm, { "parts", .in = { { 150, 40 }, { 40 } }, NORM } },
    { &rp_op_layernorm, { "rows of a block", .in = { { 3, 2056 }, { 2056 }, { 2056 } }, NORM } },
    { &rp_op_layernorm, { "odd rows of a block", .in = { { 2, 1033 }, { 1033 }, { 1033 } }, NORM } },
    { &rp_op_layernorm, { "parts", .in = { { 150, 40 }, { 40 }, { 40 } }, NORM } },
    { &rp_op_sum, { "rows of a block", .in = { { 3, 2064 } }, OF_DIM(1) } },
    { &rp_op_sum, { "columns", .in = { { 2, 40, 72 } }, OF_DIM(1) } },
    { &rp_op_max, { "rows of a block", .in = { { 3, 2064 } }, OF_DIM(1) } },
    { &rp_op_max, { "columns", .in = { { 2, 40, 72 } }, OF_DIM(1) } },
    { &rp_op_softmax, { "rows of a block", .in = { { 3, 2056 } }, .scale = 3, .roundings = 1 } },
    { &rp_op_softmax, { "rows of a warp", .in = { { 20, 64 } }, .scale = 3, .roundings = 1 } },
    { &rp_op_route, { "rows of warps", .in = { { 40, 64 } }, .attr = &(rp_attr_route){ 4, true }, .scale = 3, .roundings = 1 } },
    { &rp_op_route, { "all experts", .in = { { 40, 64 } }, .attr = &(rp_attr_route){ 4, false }, .scale = 3, .roundings = 1 } },
    { &rp_op_weight_norm, { "rows", .in = { { 24, 272 }, { 8, 272 }, { 24, 8 } }, .attr = &(rp_attr_weight_norm){ 0.5f, false } } },
    { &rp_op_weight_norm, { "columns", .in = { { 24, 72 }, { 8, 24 }, { 72, 8 } }, .attr = &(rp_attr_weight_norm){ 0.5f, true } } },
    { &rp_op_magnitude, { "rows", .in = { { 70, 40 }, { 40 }, { 40 }, { 40 } } } },
    { &rp_op_matmul, { "tensor cores", .in = { { 40, 72 }, { 72, 80 }, { 80 } }, .attr = &(rp_attr_matmul){ false } } },
    { &rp_op_matmul, { "transposed", .in = { { 40, 72 }, { 80, 72 } }, .attr = &(rp_attr_matmul){ true } } },
    { &rp_op_embedding, { "packs", .in = { { 9, 16 }, { 40 } }, INT_IN(1, 0, 8) } },
    { &rp_op_embedding, { "blocks of ids", .in = { { 5, 4 }, { 600 } }, INT_IN(1, 0, 4) } },
    { &rp_op_spread, { "packs", .in = { { 6, 16 }, { 6, 2 } }, EXPERTS, INT_IN(1, 0, 3) } },
    { &rp_op_combine, { "rows of a block", .in = { { 6, 1104 }, { 3, 2 }, { 3, 2 } }, EXPERTS, INT_IN(2, 0, 3), .stat_inputs = RP_IN(1) } },
    { &rp_op_expert_load, { "rows of a block", .in = { { 20, 1032 }, { 20, 2 } }, INT_IN(1, 0, 1031) } },
    { &rp_op_expert_load, { "rows of a warp", .in = { { 140, 24 }, { 140, 2 } }, INT_IN(1, 0, 23) } },
    { &rp_op_spread, { "slots of threads", .in = { { 150, 16 }, { 150, 2 } }, EXPERTS, INT_IN(1, 0, 3) } },
    { &rp_op_grouped_matmul, { "tensor cores", .in = { { 200, 24 }, { 4, 72, 24 }, { 200 } }, INT_IN(2, 0, 3) } },
    { &rp_op_grouped_matmul, { "experts without rows", .in = { { 20, 8 }, { 40, 16, 8 }, { 20 } }, INT_IN(2, 2, 37) } },
    { &rp_op_balance_loss, { "many labels", .in = { { 1 }, { 2, 300 }, { 600 } }, .attr = &(rp_attr_balance_loss){ 0.5, 1 / 600.0f, -1 }, INT_IN(2, -1, 3),
                             .stat_inputs = RP_IN(0) | RP_IN(1) } },
    { &rp_op_batch_norm, { "columns of blocks", .in = { { 19, 72 }, { 72 }, { 72 }, { 72 }, { 72 } }, .attr = &(rp_attr_batch_norm){ 1e-5f, 0.1f },
                           .stat_inputs = RP_IN(3) | RP_IN(4) } },
    { &rp_op_relu2, { "packs", .in = { { 3, 40 } }, .roundings = 1 } },
    { &rp_op_cross_entropy, { "rows of a block", .in = { { 3, 1608 }, { 3 } }, LOSS(3, 0, 0, 0), INT_IN(1, -1, 1607), .scale = 3 } },
    { &rp_op_cross_entropy, { "rows of a warp", .in = { { 20, 40 }, { 20 } }, LOSS(20, 0, 0, 0), INT_IN(1, -1, 39), .scale = 3 } },
    { &rp_op_linear_cross_entropy, { "rows of a block", .in = { { 5, 16 }, { 2104, 16 }, { 5 } }, LOSS(5, 2, 0, 0), INT_IN(2, -1, 2103), .roundings = 2 } },
    { &rp_op_linear_cross_entropy, { "a cap", .in = { { 5, 16 }, { 72, 16 }, { 5 } }, LOSS(5, 2, 1, 5), INT_IN(2, -1, 71), .roundings = 2 } },
};

static void every_form_holds_in_every_schedule(void **state)
{
    (void)state;
    for (int s = 0; s < RP_EMULATE_SCHEDULES; s++) {
        if (s != RP_EMULATE_GREEDY && (test_takes_samples() || test_is_card())) continue;      /* this one finds most */
        rp__emulate_set_schedule((rp_emulate_schedule)s);
        for (int i = 0; i < RP_COUNT(forms); i++) {
            rp_op op  = *forms[i].op;
            op.cases  = &forms[i].test;
            op.n_case = 1;
            run_cases_on(&op, test_gpu());
        }
    }
    rp__emulate_set_schedule(RP_EMULATE_FORWARD);
}

/* ---- helpers ---- */

static float value_at(rp_dtype dtype, const void *from, int64_t i)
{
    if (dtype == RP_U8) return ((const uint8_t *)from)[i];
    return dtype == RP_F32 ? ((const float *)from)[i] : rp__f32_from_bf16(((const uint16_t *)from)[i]);
}

static void fill(draws *d, rp_dtype dtype, void *to, int64_t n, float scale)
{
    for (int64_t i = 0; i < n; i++) {
        float v = draw(d) * scale;
        if (dtype == RP_F32) ((float *)to)[i] = v;
        else ((uint16_t *)to)[i] = rp__bf16_from_f32(v);
    }
}

/* ---- products ---- */

static double product_at(const rp_gemm *g, const void *a, const void *b, int64_t r, int64_t c)
{
    double sum = 0;

    for (int64_t k = 0; k < g->k; k++)
        sum += (double)value_at(g->ab, a, g->transpose_a ? k * g->m + r : r * g->k + k) *
               (double)value_at(g->ab, b, g->transpose_b ? c * g->k + k : k * g->n + c);
    return sum;
}

static void check_product(rp_ctx *ctx, rp_gemm g, int64_t shift)
{
    const rp_kernels *kernels = rp__kernels_gpu();
    draws d = { 1 };
    int64_t bytes = 0, most = 0, at = shift * (g.ab == RP_F32 ? 4 : 2);
    buffer a = take(ctx, g.m * g.k + shift), b = take(ctx, g.k * g.n + shift), c = take(ctx, g.m * g.n), before = take(ctx, g.m * g.n);
    buffer bias = take(ctx, g.n);

    g.on = ctx->on;
    fill(&d, g.ab, a.host + at, g.m * g.k, 1);
    fill(&d, g.ab, b.host + at, g.k * g.n, 1);
    fill(&d, g.ab, bias.host, g.n, 1);
    fill(&d, g.c, before.host, g.m * g.n, 1);
    memcpy(c.host, before.host, (size_t)c.bytes);
    send(&a), send(&b), send(&c), send(&bias);
    kernels->gemm_scratch(&g, &bytes);
    kernels->gemm_scratch_most(&g, &most);
    assert_true(bytes <= most);
    buffer scratch = take(ctx, bytes / 4 + 1);
    kernels->gemm(&g, a.device + at, b.device + at, c.device, g.bias ? bias.device : NULL, scratch.device);
    fetch(&c);
    for (int64_t r = 0; r < g.m; r++)
        for (int64_t j = 0; j < g.n; j++) {
            double want = product_at(&g, a.host + at, b.host + at, r, j) + (g.bias ? (double)value_at(g.ab, bias.host, j) : 0) +
                          (g.adds ? (double)value_at(g.c, before.host, r * g.n + j) : 0);
            double got = (double)value_at(g.c, c.host, r * g.n + j);
            double allowed = (g.c == RP_BF16 ? fabs(want) / 256 : 0) + 2e-6 * sqrt((double)g.k) + 1e-6 * fabs(want);
            if (!(fabs(got - want) <= allowed))
                fail_msg("%d %d: %d x %d x %d %c%c at %d %d: %g, expected %g", (int)g.ab, (int)g.c, (int)g.m, (int)g.n, (int)g.k, g.transpose_a ? 't' : 'n',
                         g.transpose_b ? 't' : 'n', (int)r, (int)j, got, want);
        }
    give(a), give(b), give(c), give(before), give(bias), give(scratch);
}

/* Bits of `form`: dtype, transposes, adds, bias. */
static void check_form(rp_ctx *ctx, const int64_t *size, int form)
{
    rp_gemm g = { .m = size[0], .n = size[1], .k = size[2], .ab = form & 1 ? RP_BF16 : RP_F32, .c = form & 1 ? RP_BF16 : RP_F32, .transpose_a = form & 2,
                  .transpose_b = form & 4, .adds = form & 8, .bias = form & 16 };

    check_product(ctx, g, 0);
    if (form & 1) g.c = RP_F32;
    if (form & 1) check_product(ctx, g, 0);
    if (form < 8) check_product(ctx, g, 1);          /* not aligned */
}

static void products_are_right_in_all_forms(void **state)
{
    static const int64_t small[][3] = { { 1, 1, 1 }, { 3, 5, 7 }, { 64, 64, 32 }, { 24, 40, 40 } };
    static const int64_t some[][3]  = { { 72, 200, 40 }, { 8, 16, 1600 }, { 70, 66, 33 }, { 72, 72, 1064 } };     /* tiles, parts, tails */
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .device = test_gpu(), .threads = 2 });

    (void)state;
    for (int s = 0; s < RP_COUNT(small); s++)
        for (int form = 0; form < 32; form++) check_form(ctx, small[s], form);
    for (int s = 0; s < RP_COUNT(some); s++)
        for (int form = 0; form < 8; form++) {
            rp__emulate_set_schedule((rp_emulate_schedule)((form >> 1) % RP_EMULATE_SCHEDULES));
            check_form(ctx, some[s], form | (form * 5 & 24));
        }
    for (int s = 0; s < RP_EMULATE_SCHEDULES; s++) {
        rp__emulate_set_schedule((rp_emulate_schedule)s);
        for (int form = 0; form < 6; form++) check_form(ctx, (const int64_t[]){ 72, 136, 104 }, form);
    }
    rp__emulate_set_schedule(RP_EMULATE_FORWARD);
    test_ctx_free(ctx);
}

/* Enough tiles for the larger tile. */
static void large_products_are_right(void **state)
{
    (void)state;
    test_leave_to_full();
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .device = test_gpu(), .threads = 2 });
    for (int form = 0; form < 4; form++) {      /* 3: the first again, in the schedule that finds waits that are missing at the end of a loop */
        rp__emulate_set_schedule(form == 3 ? RP_EMULATE_GREEDY : RP_EMULATE_FORWARD);
        check_product(ctx, (rp_gemm){ .m = 968, .n = 1096, .k = 72, .ab = RP_BF16, .c = form == 1 ? RP_F32 : RP_BF16, .transpose_a = form == 1,
                                 .transpose_b = form == 2, .adds = form == 1, .bias = form == 0 }, 0);
    }
    rp__emulate_set_schedule(RP_EMULATE_FORWARD);
    test_ctx_free(ctx);
}

/* ---- updates: the CPU's bits where the arithmetic is the same, and always the CPU's random bits ---- */

enum { PARAM, GRAD, FIRST, SECOND, MASTER, ABSMAX0, ABSMAX1, TENSORS };

static void draw_tensors(const buffer *b, const rp_dtype *dtype, int64_t n)
{
    draws d = { 7 };

    for (int t = 0; t < TENSORS; t++) {
        if (dtype[t] != RP_U8) fill(&d, dtype[t], b[t].host, n, 1);
        for (int64_t i = 0; dtype[t] == RP_U8 && i < n; i++) ((uint8_t *)b[t].host)[i] = (uint8_t)(i * 7 + t);
    }
    for (int64_t i = 0; i < n; i++) ((float *)(void *)b[ABSMAX1].host)[i] = fabsf(((float *)(void *)b[ABSMAX1].host)[i]);
    for (int64_t i = 0; i < n && dtype[SECOND] != RP_U8; i++) {       /* the second moment is positive */
        if (dtype[SECOND] == RP_F32) ((float *)(void *)b[SECOND].host)[i] = fabsf(((float *)(void *)b[SECOND].host)[i]);
        else ((uint16_t *)(void *)b[SECOND].host)[i] &= 0x7fff;
    }
}

/* Runs on the device, or by the CPU's code on the host memory of each buffer. */
static double run_update(rp_optim_call c, buffer *b, bool is_sgd, bool master, bool gpu)
{
    const rp_kernels *level[RP_MAX_LEVELS], *k;
    double squares = 0;
    void *at[TENSORS];

    assert_true(rp__kernels_levels(level, RP_MAX_LEVELS) > 0);
    k = gpu ? rp__kernels_gpu() : level[0];     /* the lowest level has the roundings of the formulas */
    for (int t = 0; t < TENSORS; t++) {
        at[t] = gpu ? b[t].device : b[t].host;
        if (gpu) send(&b[t]);
    }
    c.param = at[PARAM], c.grad = at[GRAD], c.state[0] = at[FIRST], c.state[1] = is_sgd ? NULL : at[SECOND], c.master = master ? at[MASTER] : NULL;
    c.absmax[0] = at[ABSMAX0], c.absmax[1] = at[ABSMAX1];
    c.sum_squares = &squares;
    if (is_sgd) k->sgd(&c);
    else k->adamw(&c);
    for (int t = 0; t < TENSORS && gpu; t++) fetch(&b[t]);
    return squares;
}

static void check_update(rp_ctx *ctx, bool is_sgd, rp_dtype param, rp_dtype grad, rp_dtype state, bool master, bool stochastic, int64_t n, int64_t first)
{
    rp_dtype dtype[TENSORS] = { param, grad, state, state, RP_F32, RP_F32, RP_F32 };
    buffer b[2][TENSORS];
    double squares[2];
    int64_t other = 0;

    for (int side = 0; side < 2; side++) {
        for (int t = 0; t < TENSORS; t++) b[side][t] = take(ctx, n);
        draw_tensors(b[side], dtype, n);
        squares[side] = run_update((rp_optim_call){ .on = side ? ctx->on : (rp_on){ .threads = 2 }, .n = n, .first = first, .param_dtype = param,
            .grad_dtype = grad, .state_dtype = state, .lr = 0.01, .grad_scale = 0.5, .weight_decay = 0.1, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8,
            .momentum = 0.9, .bias1 = 0.271, .bias2 = 0.142625, .step = 3, .stochastic = stochastic, .key = 12345 }, b[side], is_sgd, master, side);
    }
    if (!(fabs(squares[0] - squares[1]) <= 1e-12 * squares[0])) fail_msg("squares %.17g and %.17g", squares[0], squares[1]);
    for (int t = 0; t < TENSORS; t++)
        for (int64_t i = 0; i < n; i++) {
            double x = (double)value_at(dtype[t], b[0][t].host, i), y = (double)value_at(dtype[t], b[1][t].host, i);
            double within = dtype[t] == RP_U8 ? 1 : (dtype[t] == RP_BF16 ? 1.0 / 128 : 1e-6) * fabs(x) + 1e-7;       /* a code: the next one */
            other += x != y;
            if (!(fabs(x - y) <= within)) fail_msg("tensor %d at %d: %g and %g", t, (int)i, x, y);
        }
    assert_true(other <= 5 * n / 20);           /* other roundings are rare, so the random bits are the same */
    for (int side = 0; side < 2; side++)
        for (int t = 0; t < TENSORS; t++) give(b[side][t]);
}

static void updates_equal_the_cpus(void **state)
{
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .device = test_gpu(), .threads = 2 });

    (void)state;
    static const rp_dtype states[] = { RP_F32, RP_BF16, RP_U8 };

    for (int form = 0; form < 3 * 32; form++) {
        rp_dtype in = states[form / 32];
        check_update(ctx, form & 1, form & 2 ? RP_BF16 : RP_F32, form & 4 ? RP_BF16 : RP_F32, in, form & 8, form & 16, form & 1 ? 1700 : 2048,
                     !(form & 2) ? 0 : in == RP_U8 ? 768 : 777);
    }
    test_ctx_free(ctx);
}

/* ---- a mixture of experts, forward and backward, without a wait for the device ---- */

static rp_tensor *drawn(rp_ctx *ctx, rp_meta meta, uint64_t seed)
{
    double values[1024];
    draws d      = { seed };
    rp_tensor *t = NULL;

    assert_true(rp_meta_elems(&meta) <= RP_COUNT(values));
    for (int64_t i = 0; i < rp_meta_elems(&meta); i++) values[i] = (double)draw(&d);
    assert_int_equal(rp_tensor_new(ctx, &meta, RP_MEM_PARAM, &t), RP_OK);
    assert_int_equal(rp_tensor_write(t, values, rp_meta_elems(&meta)), RP_OK);
    assert_int_equal(rp_tensor_require_grad(t, true), RP_OK);
    return t;
}

static rp_tensor *applied(rp_ctx *ctx, const char *op, const void *attr, rp_tensor *a, rp_tensor *b, rp_tensor *c)
{
    rp_tensor *out = NULL;

    if (rp_apply(ctx, op, attr, (rp_tensor *[]){ a, b, c }, 1 + (b != NULL) + (c != NULL), &out) != RP_OK) fail_msg("%s", rp_error(ctx));
    return out;
}

static void run_mixture(rp_ctx *ctx, rp_tensor *logits, rp_tensor *x, rp_tensor *w)
{
    const rp_attr_experts experts = { 4 };
    rp_tensor *routed[2] = { 0 };

    assert_int_equal(rp_apply(ctx, "route", &(rp_attr_route){ 2, true }, &logits, 1, routed), RP_OK);
    rp_tensor *rows  = applied(ctx, "spread", &experts, x, routed[1], NULL), *y = applied(ctx, "grouped_matmul", NULL, rows, w, routed[1]);
    rp_tensor *z     = applied(ctx, "combine", &experts, y, routed[0], routed[1]), *loads = applied(ctx, "expert_load", NULL, logits, routed[1], NULL);
    rp_tensor *sum   = applied(ctx, "sum", &(rp_attr_dim){ 1 }, z, NULL, NULL), *loss = applied(ctx, "sum", &(rp_attr_dim){ 0 }, sum, NULL, NULL);
    rp_status status = rp_backward(ctx, loss);

    if (status != RP_OK) fail_msg("%s", rp_error(ctx));
    rp_tensor *all[] = { routed[0], routed[1], rows, y, z, loads, sum, loss };
    for (int i = 0; i < RP_COUNT(all); i++) rp_tensor_unref(all[i]);
}

static void a_mixture_of_experts_does_not_wait(void **state)
{
    if (test_is_card()) skip();             /* nobody counts its calls */
    rp_ctx *ctx       = test_ctx(&(rp_ctx_options){ .device = test_gpu(), .threads = 2 });
    rp_tensor *logits = drawn(ctx, rp_meta_2d(RP_F32, 12, 4), 1), *x = drawn(ctx, rp_meta_2d(RP_F32, 12, 8), 2);
    rp_tensor *w      = drawn(ctx, (rp_meta){ .dtype = RP_F32, .ndim = 3, .dim = { 4, 16, 8 } }, 3);

    (void)state;
    run_mixture(ctx, logits, x, w);             /* memory grows */
    rp__mem_sync(ctx);
    int64_t waits = rp__emulate_calls("cuStreamSynchronize");
    run_mixture(ctx, logits, x, w);
    assert_int_equal(rp__emulate_calls("cuStreamSynchronize"), waits);
    rp__mem_sync(ctx);
    rp_tensor_unref(logits), rp_tensor_unref(x), rp_tensor_unref(w);
    test_ctx_free(ctx);
}

static void a_launch_that_fails_is_an_error_of_its_call(void **state)
{
    if (test_is_card()) skip();
    rp_ctx *ctx  = test_ctx(&(rp_ctx_options){ .device = test_gpu(), .threads = 2 });
    rp_tensor *x = drawn(ctx, rp_meta_2d(RP_F32, 12, 4), 1), *out = NULL;

    (void)state;
    rp__emulate_fail("cuLaunchKernel", 1, CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(rp_apply(ctx, "relu", NULL, &x, 1, &out), RP_ERR_BACKEND);
    assert_non_null(strstr(rp_error(ctx), "device 'emu' failed at or before relu: relu_forward: CUDA_ERROR_OUT_OF_MEMORY"));
    rp_tensor_unref(x);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_holds_in_every_schedule), cmocka_unit_test(products_are_right_in_all_forms),
        cmocka_unit_test(large_products_are_right), cmocka_unit_test(updates_equal_the_cpus),
        cmocka_unit_test(a_mixture_of_experts_does_not_wait), cmocka_unit_test(a_launch_that_fails_is_an_error_of_its_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
