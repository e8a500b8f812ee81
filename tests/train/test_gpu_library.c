/* Claims about products by cuBLASLt on a GPU. Both are emulated: the library is tests/device/fake_blas.h. */
/* ctest: device-free level-free */
#include "loop_test.h"

#include <math.h>
#include <sys/wait.h>

#include "device/draws.h"
#include "device/emulate/emulate.h"
#include "device/fake_blas.h"
#include "device/gpu.h"
#include "kernels/gpu/gpu.h"
#include "quant_test.h"

static int setup_library(void **state)
{
    fake.answer = FAKE_SERVES;
    fake.status = 0;
    fake.wrong  = NULL;
    return setup(state);
}

/* A refused argument would make the own kernels compute the product, and no other claim would fail. */
static int teardown_library(void **state)
{
    if (fake.wrong) print_error("the library refused an argument: %s\n", fake.wrong);
    return teardown(state) || fake.wrong;
}

#define LIBRARY_TEST(name) cmocka_unit_test_setup_teardown(name, setup_library, teardown_library)

/* ---- runs ---- */

#define SHORT_RUN(...) RUN("device=emu", "dtype=bf16", "max_steps=4", __VA_ARGS__)

static int64_t captures(void) { return rp__emulate_calls("cuStreamBeginCapture_v2"); }
static int64_t repeats(void) { return rp__emulate_calls("cuGraphLaunch"); }

static void run_by_library(const char *model, const char *out, const char *const *setting)
{
    int64_t before = fake.products;

    run_whole(&dir, model, out, setting);
    assert_true(fake.products > before);
}

/* The device reads the variable when it is opened, so this process has not opened it yet. */
static void run_without_library(const char *model, const char *out, const char *const *setting)
{
    int status;

    assert_false(rp__gpu_emu.tried);
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        setenv("REPRISE_CUBLASLT", "off", 1);
        run r   = run_open(&dir, model, out, setting);
        bool ok = r.status == RP_OK && rp__trainer_run(r.trainer, NULL, NULL) == RP_OK;
        _exit(ok && !rp__gpu_emu.blas && !fake.asked ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void assert_near_losses(const char *a, const char *b)
{
    metrics x = metrics_of(&dir, a), y = metrics_of(&dir, b);

    assert_int_equal(x.n, y.n);
    for (int i = 0; i < x.n; i++) assert_true(fabs(metric_number(x.line[i], "loss") / metric_number(y.line[i], "loss") - 1) < 0.02);
    free(x.text);
    free(y.text);
}

static void a_run_by_the_library_has_the_losses_of_one_without_it(void **state)
{
    (void)state;
    const char *const *setting = RUN("device=emu", "dtype=bf16", "max_steps=6");

    run_without_library("llama", "llama_off", setting);
    run_without_library("gpt2", "gpt2_off", setting);
    run_by_library("llama", "llama_on", setting);
    run_by_library("gpt2", "gpt2_on", setting);
    assert_near_losses("llama_off", "llama_on");
    assert_near_losses("gpt2_off", "gpt2_on");
}

static void assert_same_run(const char *model, const char *out, const char *const *setting)
{
    run_by_library(model, out, setting);
    assert_same_losses(&dir, "first", out);
    assert_same_final(&dir, "first", out);
}

/* 98 % of the memory of the first run. */
static const char *less_memory(void)
{
    static char text[64];
    metrics m = metrics_of(&dir, "first");

    snprintf(text, sizeof text, "memory_budget=%d", (int)(0.98 * metric_number(m.line[0], "peak_memory_reserved")));
    free(m.text);
    return text;
}

static void recomputing_changes_no_bit_of_the_library(void **state)
{
    static const char *const models[] = { "llama", "gpt2" };

    (void)state;
    for (int m = 0; m < RP_COUNT(models); m++) {
        run_by_library(models[m], "first", SHORT_RUN(NULL));
        assert_same_run(models[m], "budget", SHORT_RUN(less_memory()));
        assert_same_run(models[m], "checkpointing", SHORT_RUN("enable_activation_checkpointing=true"));
        assert_same_run(models[m], "ops", SHORT_RUN("activation_checkpointing={mode: selective_op, save: [matmul]}"));
        assert_same_run(models[m], "in_backward", SHORT_RUN("optimizer_in_bwd=true"));
        assert_same_run(models[m], "logits", SHORT_RUN("loss.keep_logits=true"));
        temp_remove(&dir);
        dir = loop_dir();
    }
}

static void gradients_of_fp32_change_no_bit_of_the_library(void **state)
{
#define WIDE "grad_dtype=fp32", "gradient_accumulation_steps=2"
    (void)state;
    run_by_library("llama", "first", SHORT_RUN(WIDE));
    assert_same_run("llama", "budget", SHORT_RUN(WIDE, less_memory()));
    assert_same_run("llama", "checkpointing", SHORT_RUN(WIDE, "enable_activation_checkpointing=true"));
    temp_remove(&dir);
    dir = loop_dir();
    run_by_library("llama", "first", SHORT_RUN("grad_dtype=fp32"));
    assert_same_run("llama", "in_backward", SHORT_RUN("grad_dtype=fp32", "optimizer_in_bwd=true"));
}

static void graphs_fusion_and_the_order_of_streams_change_no_bit_of_the_library(void **state)
{
    static const char *const variables[] = { "REPRISE_GRAPHS", "REPRISE_FUSION" };

    (void)state;
    run_by_library("llama", "first", SHORT_RUN("clip_grad_norm=0.5"));
    for (int i = 0; i < RP_COUNT(variables); i++) {
        setenv(variables[i], "off", 1);
        assert_same_run("llama", variables[i], SHORT_RUN("clip_grad_norm=0.5"));
        unsetenv(variables[i]);
    }
    for (int s = 0; s < RP_EMULATE_SCHEDULES; s++) {
        rp__emulate_set_schedule((rp_emulate_schedule)s);
        rp__emulate_set_lanes(s % 2);
        assert_same_run("llama", rp__emulate_schedule_name((rp_emulate_schedule)s), SHORT_RUN("clip_grad_norm=0.5"));
    }
    rp__emulate_set_schedule(RP_EMULATE_FORWARD);
    rp__emulate_set_lanes(false);
}

/* A repeated step makes no call of the library. */
static void steps_with_the_library_are_repeated_as_graphs(void **state)
{
    (void)state;
    run r = run_open(&dir, "llama", "out", RUN("device=emu", "dtype=bf16"));
    int64_t captured = captures();
    rp_metrics line;

    assert_ok(r.ctx, r.status);
    for (int i = 0; i < 2; i++) assert_ok(r.ctx, rp__trainer_step(r.trainer, &line));
    assert_true(captures() > captured);
    int64_t products = fake.products, asked = fake.asked, repeated = repeats();
    for (int i = 0; i < 3; i++) assert_ok(r.ctx, rp__trainer_step(r.trainer, &line));
    assert_int_equal(repeats() - repeated, 3);
    assert_int_equal(fake.products, products);
    assert_int_equal(fake.asked, asked);
    run_close(&r);
}

static void a_library_that_refuses_a_capture_costs_nothing_but_time(void **state)
{
    (void)state;
    run_by_library("llama", "first", SHORT_RUN(NULL));
    int64_t repeated      = repeats();
    fake.refuses_captures = true;
    assert_same_run("llama", "eager", SHORT_RUN(NULL));
    fake.refuses_captures = false;
    assert_int_equal(repeats(), repeated);
}

static void fail_after_two(void *user, const rp_metrics *line, double seconds_left)
{
    (void)user, (void)seconds_left;
    if (line->step == 2) fake.status = STATUS_EXECUTION_FAILED;
}

static void an_error_of_the_library_ends_a_run_with_its_status(void **state)
{
    (void)state;
    setenv("REPRISE_GRAPHS", "off", 1);
    run r = run_open(&dir, "llama", "out", RUN("device=emu", "dtype=bf16"));

    assert_ok(r.ctx, r.status);
    assert_int_equal(rp__trainer_run(r.trainer, NULL, &(rp_progress){ .step = fail_after_two }), RP_ERR_BACKEND);
    if (!strstr(rp_error(r.ctx), "device 'emu' failed at or before ")) fail_msg("%s", rp_error(r.ctx));
    if (!strstr(rp_error(r.ctx), ": cublasLtMatmul: status 13")) fail_msg("%s", rp_error(r.ctx));
    run_close(&r);
    unsetenv("REPRISE_GRAPHS");
}

/* ---- products through the table of kernels ---- */

/* Bytes by which an address is moved from a multiple of 256. */
enum { OF_A, OF_B, OF_C, OF_BIAS, OF_SCRATCH, OPERANDS };
typedef struct { rp_gemm g; int64_t shift[OPERANDS]; } product;
typedef struct { float *a, *b, *bias, *before; buffer at[OPERANDS]; } operands;

static rp_ctx *emulated(void) { return test_ctx(&(rp_ctx_options){ .device = "emu", .threads = 1 }); }

static float value_at(rp_dtype dtype, const void *from, int64_t i)
{
    return dtype == RP_F32 ? ((const float *)from)[i] : rp__f32_from_bf16(((const uint16_t *)from)[i]);
}

/* Random elements in the host's memory of a buffer. Returns their values, yours. */
static float *fill(draws *d, rp_dtype dtype, void *to, int64_t n)
{
    float *values = malloc((size_t)n * sizeof *values);

    assert_non_null(values);
    for (int64_t i = 0; i < n; i++) {
        float v = draw(d);
        if (dtype == RP_F32) ((float *)to)[i] = v;
        else ((uint16_t *)to)[i] = rp__bf16_from_f32(v);
        values[i] = value_at(dtype, to, i);
    }
    return values;
}

/* The product rounds the elements of a quantised B to its own dtype. */
static float *fill_quant(const rp_gemm *g, uint8_t *to)
{
    int64_t n     = g->k * g->n;
    float *values = malloc((size_t)n * sizeof *values);

    assert_non_null(values);
    quant_fill(g->quant, n, to, 5);
    rp__quant_read(g->quant, to, 0, n, values);
    for (int64_t i = 0; i < n; i++) values[i] = rp__f32_from_bf16(rp__bf16_from_f32(values[i]));
    return values;
}

static operands open_operands(rp_ctx *ctx, const product *p)
{
    const rp_gemm *g = &p->g;
    draws d = { 1 };
    operands o;
    int64_t scratch = 0;

    rp__kernels_gpu()->gemm_scratch(g, &scratch);
    const int64_t elems[OPERANDS] = { g->m * g->k, g->k * g->n, g->m * g->n, g->n, scratch / 4 };
    for (int i = 0; i < OPERANDS; i++) o.at[i] = take(ctx, elems[i] + 64);
    o.a      = fill(&d, g->ab, o.at[OF_A].host + p->shift[OF_A], elems[OF_A]);
    o.b      = g->quant ? fill_quant(g, o.at[OF_B].host) : fill(&d, g->ab, o.at[OF_B].host + p->shift[OF_B], elems[OF_B]);
    o.bias   = fill(&d, g->ab, o.at[OF_BIAS].host + p->shift[OF_BIAS], elems[OF_BIAS]);
    o.before = fill(&d, g->c, o.at[OF_C].host + p->shift[OF_C], elems[OF_C]);
    for (int i = 0; i < OF_SCRATCH; i++) send(&o.at[i]);
    return o;
}

static void close_operands(operands *o)
{
    for (int i = 0; i < OPERANDS; i++) give(o->at[i]);
    free(o->a), free(o->b), free(o->bias), free(o->before);
}

static void multiply(rp_ctx *ctx, const product *p, const operands *o)
{
    rp_gemm g = p->g;
    uint8_t *at[OPERANDS];

    g.on = ctx->on;
    for (int i = 0; i < OPERANDS; i++) at[i] = o->at[i].device + p->shift[i];
    rp__kernels_gpu()->gemm(&g, at[OF_A], at[OF_B], at[OF_C], g.bias ? at[OF_BIAS] : NULL, at[OF_SCRATCH]);
}

static double wanted_at(const rp_gemm *g, const operands *o, int64_t row, int64_t column)
{
    double sum = (g->bias ? (double)o->bias[column] : 0) + (g->adds ? (double)o->before[row * g->n + column] : 0);

    for (int64_t k = 0; k < g->k; k++)
        sum += (double)o->a[g->transpose_a ? k * g->m + row : row * g->k + k] * (double)o->b[g->transpose_b ? column * g->k + k : k * g->n + column];
    return sum;
}

static void check_values(const product *p, const operands *o)
{
    const rp_gemm *g = &p->g;

    fetch(&o->at[OF_C]);
    for (int64_t i = 0; i < g->m * g->n; i++) {
        double want = wanted_at(g, o, i / g->n, i % g->n), got = (double)value_at(g->c, o->at[OF_C].host + p->shift[OF_C], i);
        double allowed = (g->c == RP_BF16 ? fabs(want) / 256 : 0) + 2e-6 * sqrt((double)g->k) + 1e-6 * fabs(want);
        if (!(fabs(got - want) <= allowed))
            fail_msg("%d x %d x %d %c%c at %d: %g, expected %g", (int)g->m, (int)g->n, (int)g->k, g->transpose_a ? 't' : 'n', g->transpose_b ? 't' : 'n',
                     (int)i, got, want);
    }
}

/* The product is right, and it is of the library or not. */
static void check_product(rp_ctx *ctx, product p, bool by_library)
{
    int64_t before = fake.products;
    operands o     = open_operands(ctx, &p);

    multiply(ctx, &p, &o);
    if (fake.products - before != by_library)
        fail_msg("%d x %d x %d %c%c: %d calls of the library", (int)p.g.m, (int)p.g.n, (int)p.g.k, p.g.transpose_a ? 't' : 'n', p.g.transpose_b ? 't' : 'n',
                 (int)(fake.products - before));
    check_values(&p, &o);
    close_operands(&o);
}

#define BF16(rows, columns, depth, ...) { .g = { .ab = RP_BF16, .c = RP_BF16, .m = rows, .n = columns, .k = depth, __VA_ARGS__ } }

/* Bits of `form`: adds, bias, c of fp32. The library has no bias of bf16 for a C of fp32. */
static void check_layout(rp_ctx *ctx, const int64_t *size, bool transpose_a, bool transpose_b)
{
    for (int form = 0; form < 8; form++) {
        product p = BF16(size[0], size[1], size[2], .transpose_a = transpose_a, .transpose_b = transpose_b, .adds = form & 1, .bias = form & 2);
        if (form & 4) p.g.c = RP_F32;
        check_product(ctx, p, form < 6);
    }
}

static void products_of_the_library_are_right_in_all_forms(void **state)
{
    static const int64_t sizes[][3] = { { 8, 8, 8 }, { 24, 40, 56 }, { 72, 136, 64 } };
    rp_ctx *ctx = emulated();

    (void)state;
    for (int s = 0; s < RP_COUNT(sizes); s++) {
        check_layout(ctx, sizes[s], false, false);
        check_layout(ctx, sizes[s], false, true);
        check_layout(ctx, sizes[s], true, false);
    }
    check_product(ctx, (product)BF16(5, 16, 24), true);                         /* rows of C and A may be few */
    check_product(ctx, (product)BF16(1, 16, 24, .transpose_b = true), true);
    test_ctx_free(ctx);
}

/* Depth is cut into parts, which need a workspace. */
static void a_product_that_is_cut_has_a_workspace(void **state)
{
    rp_ctx *ctx  = emulated();
    int64_t none = fake.with_workspace;

    (void)state;
    check_product(ctx, (product)BF16(16, 24, 1000), true);
    assert_int_equal(fake.with_workspace, none);
    check_product(ctx, (product)BF16(16, 24, 1600), true);
    check_product(ctx, (product)BF16(16, 24, 1600, .transpose_b = true, .bias = true), true);
    check_product(ctx, (product)BF16(16, 24, 1600, .transpose_a = true, .adds = true), true);
    assert_int_equal(fake.with_workspace - none, 3);
    test_ctx_free(ctx);
}

/* The repeated product reads other elements of A. */
static void a_product_with_a_workspace_is_repeated_as_a_graph(void **state)
{
    rp_ctx *ctx               = emulated();
    const rp_records *records = rp__memory_emu.records;
    product p   = BF16(16, 24, 1600);
    operands o  = open_operands(ctx, &p);
    int64_t cut = fake.with_workspace;

    (void)state;
    records->begin(&ctx->on);
    multiply(ctx, &p, &o);
    struct rp_record *r = records->end(&ctx->on);
    assert_true(r && records->prepare(r, &ctx->on));
    assert_int_equal(fake.with_workspace - cut, 2);
    for (int64_t i = 0; i < 16 * 1600; i++) o.a[i] = value_at(RP_BF16, o.at[OF_A].host, i) * -0.5f;
    for (int64_t i = 0; i < 16 * 1600; i++) ((uint16_t *)(void *)o.at[OF_A].host)[i] = rp__bf16_from_f32(o.a[i]);
    send(&o.at[OF_A]);
    records->repeat(r, &ctx->on);
    check_values(&p, &o);
    assert_int_equal(fake.with_workspace - cut, 2);
    records->free(r);
    close_operands(&o);
    test_ctx_free(ctx);
}

static void products_that_do_not_suit_the_library_are_right_by_the_own_kernels(void **state)
{
    rp_ctx *ctx    = emulated();
    product moved  = BF16(16, 24, 32, .bias = true), cut = BF16(16, 24, 1600);

    (void)state;
    int64_t asked = fake.asked;
    check_product(ctx, (product)BF16(16, 20, 24), false);
    check_product(ctx, (product)BF16(16, 20, 24, .transpose_b = true), false);
    check_product(ctx, (product)BF16(16, 24, 20), false);
    check_product(ctx, (product)BF16(20, 24, 16, .transpose_a = true), false);
    check_product(ctx, (product)BF16(16, 24, 32, .transpose_a = true, .transpose_b = true), false);
    check_product(ctx, (product){ .g = { .ab = RP_F32, .c = RP_F32, .m = 16, .n = 24, .k = 32 } }, false);
    check_product(ctx, (product)BF16(16, 24, 64, .transpose_b = true, .quant = rp__quant_type(RP_Q8_0)), false);
    check_product(ctx, (product)BF16(64, 64, 64, .quant = rp__quant_type(RP_Q4_0)), false);
    for (int i = 0; i < OF_SCRATCH; i++) {
        moved.shift[i] = 8;
        check_product(ctx, moved, false);
        moved.shift[i] = 0;
    }
    cut.shift[OF_SCRATCH] = 64;
    check_product(ctx, cut, false);
    assert_int_equal(fake.asked, asked);
    test_ctx_free(ctx);
}

static void products_that_the_library_refuses_are_right_by_the_own_kernels(void **state)
{
    rp_ctx *ctx = emulated();

    (void)state;
    for (int answer = FAKE_SERVES; answer < FAKE_ANSWERS; answer++) {
        product p = BF16(8, 8 + 8 * answer, 112);
        fake.answer = (fake_answer)answer;
        check_product(ctx, p, answer == FAKE_SERVES);
    }
    test_ctx_free(ctx);
}

static void the_library_is_asked_once_for_each_description(void **state)
{
    rp_ctx *ctx   = emulated();
    int64_t asked = fake.asked;

    (void)state;
    for (int i = 0; i < 3; i++) check_product(ctx, (product)BF16(40, 8, 48), true);
    assert_int_equal(fake.asked - asked, 1);
    check_product(ctx, (product)BF16(40, 8, 48, .adds = true), true);
    check_product(ctx, (product)BF16(40, 8, 48, .bias = true), true);
    assert_int_equal(fake.asked - asked, 3);
    fake.answer = FAKE_FINDS_NOTHING;
    for (int i = 0; i < 3; i++) check_product(ctx, (product)BF16(40, 8, 56), false);
    assert_int_equal(fake.asked - asked, 4);
    test_ctx_free(ctx);
}

/* Two products of a description with other biases are in the queue at once. */
static void each_product_has_its_own_bias(void **state)
{
    rp_ctx *ctx = emulated();
    product p   = BF16(8, 16, 24, .bias = true);
    operands one = open_operands(ctx, &p), two = open_operands(ctx, &p);

    (void)state;
    for (int i = 0; i < 16; i++) two.bias[i] = (float)i;
    for (int i = 0; i < 16; i++) ((uint16_t *)(void *)two.at[OF_BIAS].host)[i] = rp__bf16_from_f32((float)i);
    send(&two.at[OF_BIAS]);
    multiply(ctx, &p, &one);
    multiply(ctx, &p, &two);
    check_values(&p, &one);
    check_values(&p, &two);
    close_operands(&one);
    close_operands(&two);
    test_ctx_free(ctx);
}

static void an_error_of_the_library_is_an_error_of_the_queue(void **state)
{
    rp_ctx *ctx = emulated();
    product p   = BF16(16, 16, 16);
    operands o  = open_operands(ctx, &p);

    (void)state;
    fake.status = STATUS_EXECUTION_FAILED;
    multiply(ctx, &p, &o);
    assert_int_equal(rp__mem_check(ctx, "matmul"), RP_ERR_BACKEND);
    assert_non_null(strstr(rp_error(ctx), "device 'emu' failed at or before matmul: cublasLtMatmul: status 13"));
    close_operands(&o);
    test_ctx_free(ctx);
}

/* ---- opening ---- */

static struct rp_blas *volatile opened;         /* nothing closes it */

static bool load_nothing(rp_blas_calls *calls)
{
    (void)calls;
    return false;
}

static int refuse_to_create(void **handle)
{
    (void)handle;
    return 1;
}

static bool load_refusing(rp_blas_calls *calls)
{
    fake_load(calls);
    calls->cublasLtCreate = refuse_to_create;
    return true;
}

static void assert_not_opened(bool (*load)(rp_blas_calls *calls))
{
    char text[64] = "before";

    assert_null(rp__blas_open(load, text, sizeof text));
    assert_string_equal(text, "");
}

static void the_library_that_is_opened_adds_its_version_to_the_text_of_a_card(void **state)
{
    char text[64];

    (void)state;
    opened = rp__blas_open(fake_load, text, sizeof text);
    assert_non_null(opened);
    assert_string_equal(text, " and cuBLASLt 13.1.0");
    assert_not_opened(NULL);
    assert_not_opened(load_nothing);
    assert_not_opened(load_refusing);
    setenv("REPRISE_CUBLASLT", "off", 1);
    assert_not_opened(fake_load);
    unsetenv("REPRISE_CUBLASLT");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LIBRARY_TEST(a_run_by_the_library_has_the_losses_of_one_without_it),       /* first: the device is closed */
        LIBRARY_TEST(recomputing_changes_no_bit_of_the_library),
        LIBRARY_TEST(gradients_of_fp32_change_no_bit_of_the_library),
        LIBRARY_TEST(graphs_fusion_and_the_order_of_streams_change_no_bit_of_the_library),
        LIBRARY_TEST(steps_with_the_library_are_repeated_as_graphs),
        LIBRARY_TEST(a_library_that_refuses_a_capture_costs_nothing_but_time),
        LIBRARY_TEST(an_error_of_the_library_ends_a_run_with_its_status),
        LIBRARY_TEST(products_of_the_library_are_right_in_all_forms),
        LIBRARY_TEST(a_product_that_is_cut_has_a_workspace),
        LIBRARY_TEST(a_product_with_a_workspace_is_repeated_as_a_graph),
        LIBRARY_TEST(products_that_do_not_suit_the_library_are_right_by_the_own_kernels),
        LIBRARY_TEST(products_that_the_library_refuses_are_right_by_the_own_kernels),
        LIBRARY_TEST(the_library_is_asked_once_for_each_description),
        LIBRARY_TEST(each_product_has_its_own_bias),
        LIBRARY_TEST(an_error_of_the_library_is_an_error_of_the_queue),
        LIBRARY_TEST(the_library_that_is_opened_adds_its_version_to_the_text_of_a_card),
    };
    unsetenv("REPRISE_CUBLASLT");
    rp__gpu_emu.load_blas = fake_load;
    return TEST_HAS_EMU ? cmocka_run_group_tests(tests, NULL, NULL) : 0;
}
