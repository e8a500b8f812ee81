/* Launches that become one: the bits are those of the single launches in every schedule, and whatever comes between two launches keeps them apart. */
/* ctest: level-free device-free thread-free */
#include "rp_test.h"

#include "draws.h"

#include "device/driver.h"
#include "device/emulate/emulate.h"
#include "device/launch.h"
#include "kernels/gpu/gpu.h"
#include "reprise/ops.h"
#include "tensor/tensor.h"

#include <math.h>

/* ---- programs: some memory, then launches ---- */

enum { MOST_BUFFERS = 150, POSITIONS = 12 };

typedef struct program {
    rp_ctx *ctx;
    const rp_kernels *k;
    rp_dtype dtype;
    int64_t rows, columns;
    int variant, n;                     /* n: the buffers so far */
    buffer b[MOST_BUFFERS];
} program;

static void *made(program *p, rp_dtype dtype, int64_t n)
{
    draws d   = { (uint64_t)p->n + 1 };
    buffer *b = &p->b[p->n++];

    assert_true(p->n <= MOST_BUFFERS);
    *b = take(p->ctx, n);
    for (int64_t i = 0; i < n; i++) {
        float v = draw(&d);
        if (dtype == RP_F32) ((float *)(void *)b->host)[i] = v;
        else if (dtype == RP_BF16) ((uint16_t *)(void *)b->host)[i] = rp__bf16_from_f32(v);
        else if (dtype == RP_I32) ((int32_t *)(void *)b->host)[i] = (int32_t)(i % POSITIONS);
        else b->host[i] = (uint8_t)(7 * i);
    }
    send(b);
    rp__mem_sync(p->ctx);
    return b->device;
}

static void *matrix(program *p) { return made(p, p->dtype, p->rows * p->columns); }
static void *vector(program *p) { return made(p, p->dtype, p->columns); }
static float *numbers(program *p, int64_t n) { return made(p, RP_F32, n); }

static int64_t launches(void) { return rp__emulate_calls("cuLaunchKernel"); }

/* Runs it with and without fusion. Returns the launches that fusion leaves. */
static int64_t run_once(program *p, void (*body)(program *p), bool fuses)
{
    assert_int_equal(setenv("REPRISE_FUSION", fuses ? "on" : "off", 1), 0);
    p->ctx = test_ctx(&(rp_ctx_options){ .device = "emu", .threads = 1 });
    p->k   = rp__kernels_gpu();
    p->n   = 0;
    int64_t before = launches();
    body(p);
    for (int i = 0; i < p->n; i++) fetch(&p->b[i]);
    assert_int_equal(unsetenv("REPRISE_FUSION"), 0);
    return launches() - before;
}

static void close_program(program *p)
{
    while (p->n) give(p->b[--p->n]);
    test_ctx_free(p->ctx);
}

static void assert_fuses(program form, void (*body)(program *p), int64_t single, int64_t fused)
{
    for (int s = 0; s < RP_EMULATE_SCHEDULES; s++) {
        program off = form, on = form;

        rp__emulate_set_schedule((rp_emulate_schedule)s);
        assert_int_equal(run_once(&off, body, false), single);
        assert_int_equal(run_once(&on, body, true), fused);
        assert_int_equal(off.n, on.n);
        for (int i = 0; i < on.n; i++) assert_memory_equal(off.b[i].host, on.b[i].host, (size_t)on.b[i].bytes);
        close_program(&off);
        close_program(&on);
    }
    rp__emulate_set_schedule(RP_EMULATE_FORWARD);
}

/* Rows of a warp and of a block, whole packs and others. */
static void assert_fuses_rows(void (*body)(program *p), int variant, int64_t single, int64_t fused)
{
    static const int64_t columns[] = { 72, 33, 2056, 1033 };

    for (int form = 0; form < 2 * RP_COUNT(columns); form++)
        assert_fuses((program){ .dtype = form & 1 ? RP_BF16 : RP_F32, .rows = form < 4 ? 70 : 3, .columns = columns[form / 2], .variant = variant }, body,
                     single, fused);
}

/* ---- a sum and its norm ---- */

static void queue_add(const program *p, const void *a, const void *b, void *to)
{
    p->k->binary_forward(RP_BINARY_ADD, p->dtype, &(rp_spread){ .ndim = 1, .has = { 1, 1 }, .dim = { p->rows * p->columns } }, a, b, NULL, to, &p->ctx->on);
}

static void queue_rmsnorm(const program *p, const void *x, const void *w, void *y, float *rstd)
{
    p->k->rmsnorm_forward(p->dtype, x, w, 1, y, rstd, p->rows, p->columns, 1e-5f, &p->ctx->on);
}

static void add_rmsnorm(program *p)
{
    void *a = matrix(p), *b = matrix(p), *sum = matrix(p), *y = matrix(p), *w = vector(p);
    float *rstd = numbers(p, p->rows);

    if (p->variant) y = b;
    queue_add(p, a, b, sum);
    queue_rmsnorm(p, sum, w, y, rstd);
}

static void add_layernorm(program *p)
{
    void *a = matrix(p), *b = matrix(p), *sum = matrix(p), *y = matrix(p), *w = vector(p), *bias = vector(p);
    float *mean = numbers(p, p->rows), *rstd = numbers(p, p->rows);

    if (p->variant) y = a;
    queue_add(p, a, b, sum);
    p->k->layernorm_forward(p->dtype, sum, w, bias, y, mean, rstd, p->rows, p->columns, 1e-5f, &p->ctx->on);
}

/* The norm's output may lie where an operand of the sum was. */
static void a_sum_and_its_norm_are_one_launch(void **state)
{
    (void)state;
    for (int in_place = 0; in_place < 2; in_place++) {
        assert_fuses_rows(add_rmsnorm, in_place, 2, 1);
        assert_fuses_rows(add_layernorm, in_place, 2, 1);
    }
}

enum { ANOTHER_SUM, BROADCAST, SHIFTED_OUTPUT, RSTD_IN_OPERAND, OTHER_ROWS, WEIGHTS_IN_SUM, OTHER_CASES };

/* Cases in which one launch would give other values, or none is needed. */
static void no_add_rmsnorm(program *p)
{
    void *a = matrix(p), *b = matrix(p), *sum = matrix(p), *y = matrix(p), *w = vector(p);
    float *rstd = numbers(p, p->rows);
    rp_spread s = { .ndim = 2, .has = { 3, 2 }, .dim = { p->rows, p->columns } };

    if (p->variant == BROADCAST) p->k->binary_forward(RP_BINARY_ADD, p->dtype, &s, a, w, NULL, sum, &p->ctx->on);
    else queue_add(p, a, b, sum);
    if (p->variant == SHIFTED_OUTPUT) y = (char *)b + 64;
    if (p->variant == RSTD_IN_OPERAND) rstd = a;
    if (p->variant == OTHER_ROWS) p->rows--;
    if (p->variant == WEIGHTS_IN_SUM) w = sum;
    queue_rmsnorm(p, p->variant == ANOTHER_SUM ? b : sum, w, y, rstd);
    if (p->variant == OTHER_ROWS) p->rows++;
}

static void a_norm_of_other_values_or_over_an_operand_stays_apart(void **state)
{
    (void)state;
    for (int variant = 0; variant < OTHER_CASES; variant++)
        assert_fuses((program){ .dtype = RP_F32, .rows = 6, .columns = 72, .variant = variant }, no_add_rmsnorm, 2, 2);
}

/* ---- backward of a norm ---- */

static void rmsnorm_backward(program *p)
{
    void *x = matrix(p), *w = vector(p), *dy = matrix(p), *dx = matrix(p), *dw = vector(p);
    float *rstd = numbers(p, p->rows);
    int64_t bytes;

    p->k->rmsnorm_backward_scratch(p->columns, &bytes, &p->ctx->on);
    void *scratch = numbers(p, bytes / 4);
    p->k->rmsnorm_backward(p->dtype, x, w, 0, rstd, dy, dx, p->variant, dw, p->dtype, p->variant, p->rows, p->columns, scratch, &p->ctx->on);
}

static void layernorm_backward(program *p)
{
    void *x = matrix(p), *w = vector(p), *dy = matrix(p), *dx = matrix(p), *dw = vector(p), *db = vector(p);
    float *mean = numbers(p, p->rows), *rstd = numbers(p, p->rows);
    int64_t bytes;

    p->k->layernorm_backward_scratch(p->columns, &bytes, &p->ctx->on);
    void *scratch = numbers(p, bytes / 4);
    p->k->layernorm_backward(p->dtype, x, w, mean, rstd, dy, dx, p->dtype, p->variant, dw, p->dtype, p->variant, db, p->dtype, p->variant, p->rows,
                             p->columns, scratch, &p->ctx->on);
}

static void the_gradients_of_a_norm_are_two_launches(void **state)
{
    (void)state;
    for (int adds = 0; adds < 2; adds++) {
        assert_fuses_rows(rmsnorm_backward, adds, 3, 2);
        assert_fuses_rows(layernorm_backward, adds, 4, 2);
    }
}

/* ---- rotations ---- */

enum { HEADS = 5, WIDTH = 16, HALF = 6 };
enum { QUERIES_AND_KEYS, TWICE_THE_SAME, OTHER_TABLES, ROTATIONS };

static void rotate(const program *p, const void *x, const void *at, const float *cosine, const float *sine, void *to, int64_t heads)
{
    p->k->rotary(p->dtype, x, at, cosine, sine, to, p->dtype, false, false, p->rows, heads, WIDTH, POSITIONS, HALF, &p->ctx->on);
}

static void rotations(program *p)
{
    void *q = made(p, p->dtype, p->rows * HEADS * WIDTH), *k = made(p, p->dtype, p->rows * HEADS * WIDTH), *positions = made(p, RP_I32, p->rows);
    void *q_to = made(p, p->dtype, p->rows * HEADS * WIDTH), *k_to = made(p, p->dtype, p->rows * HEADS * WIDTH);
    float *cosine = numbers(p, POSITIONS * HALF), *sine = numbers(p, POSITIONS * HALF);

    rotate(p, q, positions, cosine, sine, q_to, HEADS);
    rotate(p, p->variant == TWICE_THE_SAME ? q_to : k, positions, cosine, p->variant == OTHER_TABLES ? cosine : sine, k_to, 2);
}

static void independent_rotations_are_one_launch(void **state)
{
    (void)state;
    for (int dtype = 0; dtype < 2; dtype++) {
        program form = { .dtype = dtype ? RP_BF16 : RP_F32, .rows = 41 };
        for (form.variant = 0; form.variant < ROTATIONS; form.variant++) assert_fuses(form, rotations, 2, form.variant == TWICE_THE_SAME ? 2 : 1);
    }
}

/* ---- updates of parameters ---- */

enum { IS_SGD = 1, CODED = 2, SQUARES = 4, SHARED_GRADIENT = 8, SHARED_PARAM = 16, PARAMS = 20 };

static rp_optim_call update_of(program *p, int i)
{
    rp_dtype state = p->variant & CODED ? RP_U8 : p->dtype;
    int64_t n      = 1 + (i % 3) * 700;

    return (rp_optim_call){ .on = p->ctx->on, .n = n, .param_dtype = p->dtype, .grad_dtype = p->dtype, .state_dtype = state, .param = made(p, p->dtype, n),
                            .state = { made(p, state, n), p->variant & IS_SGD ? NULL : made(p, state, n) }, .absmax = { numbers(p, 8), numbers(p, 8) },
                            .grad = made(p, p->dtype, n), .lr = 0.01, .grad_scale = 0.5, .weight_decay = 0.1, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8,
                            .momentum = 0.9, .bias1 = 0.271, .bias2 = 0.142625, .step = 3, .stochastic = true, .key = (uint64_t)i };
}

static void updates(program *p)
{
    rp_optim_call call[PARAMS];
    double *sums;

    p->k->step_sums(PARAMS, &sums, &p->ctx->on);
    for (int i = 0; i < PARAMS; i++) call[i] = update_of(p, i);
    void *read = made(p, RP_F32, 2 * PARAMS);
    for (int i = 0; i < PARAMS; i++) {
        call[i].sum_squares = p->variant & SQUARES ? sums + i : NULL;
        if (p->variant & SHARED_GRADIENT && i) call[i].grad = call[0].grad, call[i].n = 1;
        if (p->variant & SHARED_PARAM) call[i].param = call[0].param, call[i].n = 1;
        if (p->variant & IS_SGD) p->k->sgd(&call[i]);
        else p->k->adamw(&call[i]);
    }
    if (p->variant & SQUARES) rp__mem_copy(p->ctx, read, sums, PARAMS * sizeof *sums);
}

static void updates_of_many_parameters_are_one_launch(void **state)
{
    (void)state;
    for (int form = 0; form < 8; form++) {
        program p = { .dtype = form & 1 ? RP_BF16 : RP_F32, .variant = form >> 1 };
        assert_fuses(p, updates, PARAMS, 1);
        p.variant |= SQUARES;
        assert_fuses(p, updates, 3 * PARAMS, 3);
        p.variant |= SHARED_GRADIENT;
        assert_fuses(p, updates, 3 * PARAMS, 3);
    }
    assert_fuses((program){ .dtype = RP_F32, .variant = SHARED_PARAM }, updates, PARAMS, PARAMS);
}

/* More than one launch has room for, and more than the memory for their sums. */
enum { MANY_SUMS = 100, LARGE = 1024 * 512 };

static void many_sums(program *p)
{
    void *large = made(p, RP_BF16, LARGE), *small = made(p, RP_BF16, MANY_SUMS), *read = made(p, RP_F32, 2 * MANY_SUMS);
    double *sums;

    p->k->step_sums(MANY_SUMS, &sums, &p->ctx->on);
    for (int i = 0; i < MANY_SUMS; i++)
        p->k->sum_squares(RP_BF16, i % 2 ? large : small, 0, i % 2 && i > 60 ? LARGE : 1 + i, sums + i, &p->ctx->on);
    rp__mem_copy(p->ctx, read, sums, MANY_SUMS * sizeof *sums);
}

static void more_launches_than_one_has_room_for_are_a_few(void **state)
{
    (void)state;
    assert_fuses((program){ .dtype = RP_F32 }, many_sums, 2 * MANY_SUMS, 8);
}

/* Its launches wait when its copy comes. */
static void sum_for_the_host(program *p)
{
    float *x = numbers(p, 300);
    const float *host = (const float *)(const void *)p->b[0].host;
    double sum = -1, wanted = 0;

    p->k->sum_squares(RP_F32, x, 0, 300, &sum, &p->ctx->on);
    rp__mem_sync(p->ctx);
    for (int i = 0; i < 300; i++) wanted += (double)host[i] * (double)host[i];
    assert_true(wanted > 0 && fabs(sum - wanted) < 1e-9 * wanted);
}

static void a_sum_is_made_before_the_host_gets_it(void **state)
{
    (void)state;
    assert_fuses((program){ .dtype = RP_F32 }, sum_for_the_host, 2, 2);
}

/* ---- products ---- */

enum { INDEPENDENT, ONE_RESULT, PARTS };

/* Three products of one matrix, with memory that is taken before. rows: m; columns: k. */
static void products(program *p)
{
    static const int64_t width[] = { 80, 24, 72 };
    int form   = p->variant / 4, kind = p->variant % 4;
    void *a    = matrix(p), *b[3], *c[3], *scratch[3];
    rp_gemm g  = { .on = p->ctx->on, .m = p->rows, .k = p->columns, .ab = p->dtype, .c = p->dtype, .transpose_a = form == 2, .transpose_b = form == 1 };
    bool large = p->rows > 200;

    for (int i = 0; i < 3; i++) {
        b[i]       = made(p, p->dtype, p->columns * (large ? 1096 : width[i]));
        c[i]       = made(p, p->dtype, p->rows * (large ? 1096 : width[i]));
        scratch[i] = numbers(p, kind == PARTS ? 16 * p->rows * width[i] : 1);
    }
    for (int i = 0; i < (large ? 2 : 3); i++) {
        g.n    = large ? 1096 : kind == ONE_RESULT ? width[0] : width[i];
        g.adds = kind == ONE_RESULT;
        p->k->gemm(&g, a, kind == ONE_RESULT ? b[0] : b[i], kind == ONE_RESULT ? c[0] : c[i], NULL, scratch[i]);
    }
}

static void independent_products_are_one_launch(void **state)
{
    (void)state;
    for (int form = 0; form < 3; form++)
        for (int bf16 = 0; bf16 < 2; bf16++) {
            program p = { .dtype = bf16 ? RP_BF16 : RP_F32, .rows = 72, .columns = 40, .variant = 4 * form };
            assert_fuses(p, products, 3, 1);
            p.variant += ONE_RESULT;
            assert_fuses(p, products, 3, 3);
        }
    assert_fuses((program){ .dtype = RP_BF16, .rows = 8, .columns = 1600, .variant = 4 + PARTS }, products, 6, 6);
    for (int form = 0; form < 3 && !test_takes_samples(); form++)       /* tiles of 128 x 128 */
        assert_fuses((program){ .dtype = RP_BF16, .rows = 968, .columns = 8, .variant = 4 * form }, products, 2, 1);
}

enum { SUM_FIRST = 1, IN_PLACE = 2, OVER_OPERAND = 4, ANOTHER = 8 };

/* C = A B, C + x or x + C, and a product of the sum. columns: n; odd ones are not written in pairs. */
static void product_and_sum(program *p)
{
    int64_t bytes = p->rows * p->columns;
    void *a = made(p, p->dtype, p->rows * 40), *b = made(p, p->dtype, 40 * p->columns), *c = made(p, p->dtype, bytes), *x = made(p, p->dtype, bytes);
    void *sum = p->variant & IN_PLACE ? x : p->variant & OVER_OPERAND ? a : made(p, p->dtype, bytes), *bias = vector(p), *last = made(p, p->dtype, bytes);
    rp_gemm g = { .on = p->ctx->on, .m = p->rows, .n = p->columns, .k = 40, .ab = p->dtype, .c = p->dtype };

    p->k->gemm(&g, a, b, c, bias, NULL);
    if (p->variant & ANOTHER) queue_add(p, x, x, sum);
    else if (p->variant & SUM_FIRST) queue_add(p, x, c, sum);
    else queue_add(p, c, x, sum);
    g.adds = true;
    p->k->gemm(&g, sum, b, last, NULL, NULL);
}

static void a_product_and_its_sum_are_one_launch(void **state)
{
    (void)state;
    for (int form = 0; form < 8; form++) {
        program p = { .dtype = form & 1 ? RP_BF16 : RP_F32, .rows = 72, .columns = form & 2 ? 45 : 48, .variant = form & 4 ? SUM_FIRST : 0 };
        assert_fuses(p, product_and_sum, 3, 2);
        p.variant |= IN_PLACE;
        assert_fuses(p, product_and_sum, 3, 2);
    }
    assert_fuses((program){ .dtype = RP_BF16, .rows = 40, .columns = 40, .variant = OVER_OPERAND }, product_and_sum, 3, 3);
    assert_fuses((program){ .dtype = RP_BF16, .rows = 40, .columns = 48, .variant = ANOTHER }, product_and_sum, 3, 3);
}

/* ---- what comes between ---- */

enum { NOTHING, A_COPY, A_FILL, BYTES_OF_THE_HOST, A_WAIT, A_MARK, A_LANE, A_STEPS_VALUES, A_KERNEL, A_SLIDE, KINDS };

static void between(program *p, int kind, void *a, void *b)
{
    static const float value = 2;
    rp_mem_space *host;
    int device;

    if (kind == A_COPY) rp__mem_copy(p->ctx, a, b, 64);
    if (kind == A_SLIDE) rp__mem_copy(p->ctx, (char *)a + 16, a, 64);
    if (kind == A_FILL) rp__mem_fill(p->ctx, a, 3, 64);
    if (kind == BYTES_OF_THE_HOST) rp__mem_put(p->ctx, a, &value, sizeof value);
    if (kind == A_WAIT) rp__mem_sync(p->ctx);
    if (kind == A_MARK) rp__mem_mark(p->ctx);
    if (kind == A_STEPS_VALUES) rp__gpu_renew(&p->ctx->on, 0, &value, sizeof value);
    if (kind == A_KERNEL) p->k->unary_forward(RP_UNARY_RELU, p->dtype, a, 0, b, 8, &p->ctx->on);
    if (kind != A_LANE) return;
    int64_t at;
    assert_int_equal(rp__device_open(p->ctx, "cpu", &device), RP_OK);
    host = p->ctx->space[device];
    assert_int_equal(rp__mem_take(p->ctx, host, RP_MEM_SAVED, 256, "test", &at), RP_OK);
    rp__mem_lane_out(p->ctx, host, at, a, 64);
    rp__mem_lane_back(p->ctx, b, host, at, 64);
    rp__mem_lane_await(p->ctx, b, 64);
    rp__mem_give(host, RP_MEM_SAVED, 256, at);
}

static void add_something_rmsnorm(program *p)
{
    void *a = matrix(p), *b = matrix(p), *sum = matrix(p), *y = matrix(p), *w = vector(p), *other = matrix(p), *third = matrix(p);
    float *rstd = numbers(p, p->rows);

    queue_add(p, a, b, sum);
    between(p, p->variant, p->variant == A_SLIDE ? sum : other, third);
    queue_rmsnorm(p, sum, w, y, rstd);
}

static void launches_with_something_between_them_stay_apart(void **state)
{
    (void)state;
    for (int kind = 0; kind < KINDS; kind++)
        assert_fuses((program){ .dtype = RP_F32, .rows = 6, .columns = 72, .variant = kind }, add_something_rmsnorm, 2 + (kind == A_KERNEL),
                     kind == NOTHING ? 1 : 2 + (kind == A_KERNEL));
}

/* An update of a parameter that the norm before it reads must not run earlier. */
static void update_behind_a_reader(program *p)
{
    rp_optim_call first = update_of(p, 1), second = update_of(p, 1);
    void *a = matrix(p), *b = matrix(p), *to = matrix(p);

    second.n = p->rows * p->columns;
    p->k->sgd(&first);
    if (p->variant) a = second.param;
    queue_add(p, a, b, to);
    p->k->sgd(&second);
}

/* A product into a table of the rotation before it, or into other memory, behind another product. */
static void product_behind_a_rotation(program *p)
{
    float *a = numbers(p, POSITIONS * 4), *b = numbers(p, 4 * HALF), *to = numbers(p, POSITIONS * HALF), *other = numbers(p, POSITIONS * HALF);
    float *cosine = numbers(p, POSITIONS * HALF), *sine = numbers(p, POSITIONS * HALF);
    float *q = numbers(p, p->rows * HEADS * WIDTH), *q_to = numbers(p, p->rows * HEADS * WIDTH);
    void *positions = made(p, RP_I32, p->rows);
    rp_gemm g = { .on = p->ctx->on, .m = POSITIONS, .n = HALF, .k = 4, .ab = RP_F32, .c = RP_F32 };

    p->k->gemm(&g, a, b, to, NULL, NULL);
    rotate(p, q, positions, cosine, sine, q_to, HEADS);
    p->k->gemm(&g, a, b, p->variant == 0 ? other : p->variant == 1 ? cosine : sine, NULL, NULL);
}

static void a_launch_joins_none_behind_which_another_needs_its_memory(void **state)
{
    (void)state;
    for (int reads = 0; reads < 2; reads++)
        assert_fuses((program){ .dtype = RP_F32, .rows = 7, .columns = 100, .variant = reads }, update_behind_a_reader, 3, 2 + reads);
    for (int table = 0; table < 3; table++)
        assert_fuses((program){ .dtype = RP_F32, .rows = 41, .variant = table }, product_behind_a_rotation, 3, table ? 3 : 2);
}

/* ---- records ---- */

static void a_recorded_pair_is_one_node_of_a_graph(void **state)
{
    program p = { .ctx = test_ctx(&(rp_ctx_options){ .device = "emu", .threads = 1 }), .k = rp__kernels_gpu(), .dtype = RP_BF16, .rows = 5, .columns = 72 };
    const rp_records *records = rp__memory_emu.records;
    const rp_on *on           = &p.ctx->on;
    struct rp_record *r[2];

    (void)state;
    void *a = matrix(&p), *b = matrix(&p), *sum = matrix(&p), *y = matrix(&p), *w = vector(&p);
    float *rstd = numbers(&p, p.rows);
    for (int i = 0; i < 2; i++) {
        queue_add(&p, a, b, sum);           /* waits when the record begins, and is not in it */
        records->begin(on);
        queue_add(&p, a, b, sum);
        queue_rmsnorm(&p, sum, w, y, rstd);
        queue_rmsnorm(&p, sum, w, y, rstd);
        assert_non_null(r[i] = records->end(on));
    }
    assert_true(records->same(r[0], r[1]));
    int64_t before = launches();
    assert_true(records->prepare(r[0], on));
    assert_int_equal(launches() - before, 2);
    fetch(&p.b[3]);
    uint8_t *wanted = malloc((size_t)p.b[3].bytes);
    assert_non_null(wanted);
    memcpy(wanted, p.b[3].host, (size_t)p.b[3].bytes);
    rp__mem_fill(p.ctx, sum, 0, 64);
    queue_add(&p, a, b, y);                 /* waits when the graph comes, which writes over its result */
    records->repeat(r[0], on);
    fetch(&p.b[3]);
    assert_memory_equal(wanted, p.b[3].host, (size_t)p.rows * (size_t)p.columns * 2);
    free(wanted);
    for (int i = 0; i < 2; i++) records->free(r[i]);
    close_program(&p);
}

/* ---- errors ---- */

static rp_tensor *ones(rp_ctx *ctx, rp_meta meta)
{
    double values[64];
    rp_tensor *t = NULL;

    for (int i = 0; i < RP_COUNT(values); i++) values[i] = 1 + i;
    assert_int_equal(rp_tensor_new(ctx, &meta, RP_MEM_PARAM, &t), RP_OK);
    assert_int_equal(rp_tensor_write(t, values, rp_meta_elems(&meta)), RP_OK);
    return t;
}

/* A sum, its norm and a product of the norm: the launch of the sum and its norm fails. */
static void assert_error(const char *call, int code, const char *message)
{
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .device = "emu", .threads = 1 });
    rp_tensor *x = ones(ctx, rp_meta_2d(RP_F32, 4, 8)), *w = ones(ctx, rp_meta_1d(RP_F32, 8)), *sum = NULL, *y = NULL, *z = NULL;
    double values[64];

    rp__emulate_fail(call, 1, code);
    rp_status status = rp_apply(ctx, "add", NULL, (rp_tensor *[]){ x, x }, 2, &sum);
    if (status == RP_OK) status = rp_apply(ctx, "rmsnorm", &(rp_attr_norm){ .eps = 1e-5f }, (rp_tensor *[]){ sum, w }, 2, &y);
    if (status == RP_OK) status = rp_apply(ctx, "relu", NULL, &y, 1, &z);
    if (status == RP_OK) status = rp_tensor_read(z, values, 32);
    if (status == RP_OK) status = rp__mem_check(ctx, "reading");
    assert_int_equal(status, RP_ERR_BACKEND);
    if (!strstr(rp_error(ctx), message)) fail_msg("%s", rp_error(ctx));
    rp_tensor *all[] = { x, w, sum, y, z };
    for (int i = 0; i < RP_COUNT(all); i++) rp_tensor_unref(all[i]);
    test_ctx_free(ctx);
}

static void an_error_names_both_parts_and_an_op_at_or_after_them(void **state)
{
    (void)state;
    assert_error("cuLaunchKernel", CUDA_ERROR_OUT_OF_MEMORY, "device 'emu' failed at or before relu: add_rmsnorm: CUDA_ERROR_OUT_OF_MEMORY");
    assert_error("run", CUDA_ERROR_LAUNCH_FAILED, "device 'emu' failed at or before ");     /* last: the driver stays broken */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sum_and_its_norm_are_one_launch),
        cmocka_unit_test(a_norm_of_other_values_or_over_an_operand_stays_apart),
        cmocka_unit_test(the_gradients_of_a_norm_are_two_launches),
        cmocka_unit_test(independent_rotations_are_one_launch),
        cmocka_unit_test(updates_of_many_parameters_are_one_launch),
        cmocka_unit_test(more_launches_than_one_has_room_for_are_a_few),
        cmocka_unit_test(a_sum_is_made_before_the_host_gets_it),
        cmocka_unit_test(independent_products_are_one_launch),
        cmocka_unit_test(a_product_and_its_sum_are_one_launch),
        cmocka_unit_test(launches_with_something_between_them_stay_apart),
        cmocka_unit_test(a_launch_joins_none_behind_which_another_needs_its_memory),
        cmocka_unit_test(a_recorded_pair_is_one_node_of_a_graph),
        cmocka_unit_test(an_error_names_both_parts_and_an_op_at_or_after_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
