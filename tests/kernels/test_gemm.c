/* Claims about matrix products: the kernels of every level against sums in double. */
/* ctest: level-free */
#include "rp_test.h"

#include "kernels/gemm.h"
#include "kernels/kernels.h"

#include <math.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

enum { GUARD = 256, SHIFT = 64 };       /* bytes around every buffer; room to move it off its alignment */

typedef struct { uint8_t *whole, *at; int64_t bytes; } buffer;

/* One product with everything it needs; `own` NULL: by rp__gemm. */
typedef struct {
    rp_ctx *ctx;
    rp_gemm g;
    const rp_kernels *own;
    buffer a, b, c, bias, scratch;
} job;

static buffer buffer_new(int64_t bytes, int64_t shift)
{
    buffer f = { .whole = aligned_alloc(64, (size_t)(rp__align_up(bytes) + 2 * GUARD + SHIFT)), .bytes = bytes };

    assert_non_null(f.whole);
    memset(f.whole, 0xff, (size_t)(rp__align_up(bytes) + 2 * GUARD + SHIFT));
    f.at = f.whole + GUARD + shift;
    return f;
}

static void assert_guarded(const buffer *f)
{
    int touched = 0;

    for (const uint8_t *p = f->whole; p < f->at; p++) touched += *p != 0xff;
    for (const uint8_t *p = f->at + f->bytes; p < f->at + f->bytes + GUARD; p++) touched += *p != 0xff;
    assert_int_equal(touched, 0);
}

static double get(rp_dtype dtype, const buffer *f, int64_t i)
{
    if (dtype == RP_F32) return (double)((const float *)(const void *)f->at)[i];
    return (double)rp__f32_from_bf16(((const uint16_t *)(const void *)f->at)[i]);
}

static void fill(rp_dtype dtype, const buffer *f, unsigned seed)
{
    int64_t n = f->bytes / rp_dtype_bytes(dtype);

    for (int64_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        float v = (float)(seed >> 8) / 8388608.0f - 1.0f;
        if (dtype == RP_F32) ((float *)(void *)f->at)[i] = v;
        else ((uint16_t *)(void *)f->at)[i] = rp__bf16_from_f32(v);
    }
}

/* Every operand starts `shift` elements off a line of the cache. */
static job job_new(rp_ctx *ctx, rp_gemm g, const rp_kernels *own, int64_t shift)
{
    job j = { .ctx = ctx, .g = g, .own = own };
    int64_t ab = rp_dtype_bytes(g.ab), scratch_bytes = 0;

    if (own) own->gemm_scratch(&g, &scratch_bytes);
    else assert_ok(ctx, rp__gemm_scratch(ctx, rp__kernels(ctx), &g, &scratch_bytes));
    j.a       = buffer_new(g.m * g.k * ab, shift * ab);
    j.b       = buffer_new(g.k * g.n * ab, shift * ab);
    j.bias    = buffer_new(g.n * ab, shift * ab);
    j.c       = buffer_new(g.m * g.n * rp_dtype_bytes(g.c), shift * rp_dtype_bytes(g.c));
    j.scratch = buffer_new(scratch_bytes, 0);
    fill(g.ab, &j.a, 1);
    fill(g.ab, &j.b, 2);
    fill(g.ab, &j.bias, 3);
    fill(g.c, &j.c, 4);
    return j;
}

static void job_run(job *j)
{
    const void *bias = j->g.bias ? j->bias.at : NULL;

    if (j->own) j->own->gemm(&j->g, j->a.at, j->b.at, j->c.at, bias, j->scratch.at);
    else assert_ok(j->ctx, rp__gemm(j->ctx, rp__kernels(j->ctx), &j->g, j->a.at, j->b.at, j->c.at, bias, j->scratch.at));
}

static void job_free(job *j)
{
    buffer *all[] = { &j->a, &j->b, &j->c, &j->bias, &j->scratch };

    for (int i = 0; i < RP_COUNT(all); i++) {
        assert_guarded(all[i]);
        free(all[i]->whole);
    }
}

/* Any order of fp32 sums errs by at most (terms) * 2^-24 of the sum of magnitudes; a bf16 result by half a step more. */
static void assert_near_double(const job *j, const job *before)
{
    const rp_gemm *g = &j->g;

    for (int64_t r = 0; r < g->m; r++)
        for (int64_t n = 0; n < g->n; n++) {
            double sum = g->adds ? get(g->c, &before->c, r * g->n + n) : 0, size = fabs(sum);
            if (g->bias) sum += get(g->ab, &j->bias, n), size += fabs(get(g->ab, &j->bias, n));
            for (int64_t k = 0; k < g->k; k++) {
                double term = get(g->ab, &j->a, g->transpose_a ? k * g->m + r : r * g->k + k) *
                              get(g->ab, &j->b, g->transpose_b ? n * g->k + k : k * g->n + n);
                sum += term, size += fabs(term);
            }
            double bound = (double)(g->k + 3) * size * 0x1p-24 * 1.01 + (g->c == RP_BF16 ? fabs(sum) * 0x1p-8 : 0);
            double got = get(g->c, &j->c, r * g->n + n);
            if (!(fabs(got - sum) <= bound))
                fail_msg("%s [%d,%d,%d] ta %d tb %d adds %d bias %d %s->%s at %d,%d: %.9g, expected %.9g",
                         (j->own ? j->own : rp__kernels_cpu())->level, (int)g->m, (int)g->n, (int)g->k, g->transpose_a,
                         g->transpose_b, g->adds, g->bias, rp_dtype_name(g->ab), rp_dtype_name(g->c), (int)r, (int)n, got, sum);
        }
}

static void check_one(rp_ctx *ctx, rp_gemm g, const rp_kernels *own)
{
    job first = job_new(ctx, g, own, 0), again = job_new(ctx, g, own, 1), before = job_new(ctx, g, own, 0);

    memset(again.scratch.at, 0, (size_t)again.scratch.bytes);
    job_run(&first);
    job_run(&again);
    assert_near_double(&first, &before);
    assert_memory_equal(first.c.at, again.c.at, (size_t)first.c.bytes);     /* whatever the scratch held, wherever the data lies */
    job_free(&first);
    job_free(&again);
    job_free(&before);
}

static const struct { int64_t m, n, k; } sizes[] = {
    { 1, 1, 1 }, { 1, 7, 5 }, { 5, 1, 7 }, { 7, 5, 1 }, { 33, 17, 65 }, { 64, 96, 32 }, { 13, 270, 20 }, { 5, 9, 801 }, { 205, 33, 40 },
    { 1, 2101, 67 }, { 2, 131, 300 }, { 3, 64, 129 }, { 4, 65, 64 },
};
static const struct { rp_dtype ab, c; } dtypes[] = { { RP_F32, RP_F32 }, { RP_BF16, RP_BF16 }, { RP_BF16, RP_F32 } };

static void check_all(rp_ctx *ctx, const rp_kernels *own)
{
    for (int s = 0; s < RP_COUNT(sizes); s++)
        for (int d = 0; d < RP_COUNT(dtypes); d++)
            for (int flags = 0; flags < 16; flags++)
                check_one(ctx, (rp_gemm){ .ab = dtypes[d].ab, .c = dtypes[d].c, .m = sizes[s].m, .n = sizes[s].n, .k = sizes[s].k,
                                          .transpose_a = flags & 1, .transpose_b = flags & 2, .adds = flags & 4, .bias = flags & 8,
                                          .on.threads = ctx->threads }, own);
}

static void the_chosen_product_is_right_and_repeats_its_bits(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .device = "cpu", .threads = 2 });

    check_all(ctx, NULL);
    test_ctx_free(ctx);
}

static void the_kernel_of_every_level_is_right_and_repeats_its_bits(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .device = "cpu", .threads = 2 });
    const rp_kernels *levels[RP_MAX_LEVELS];
    int n = rp__kernels_levels(levels, RP_MAX_LEVELS);

    for (int i = 0; i < n; i++) check_all(ctx, levels[i]);
    test_ctx_free(ctx);
}

static void the_same_bits_come_from_any_team(void **state)
{
    (void)state;
    const rp_kernels *levels[RP_MAX_LEVELS];
    int n = rp__kernels_levels(levels, RP_MAX_LEVELS);

    for (int i = 0; i < 6 * n; i++) {
        rp_dtype dtype = i % 2 ? RP_BF16 : RP_F32;
        int kind       = i / 2 % 3;
        rp_gemm g = { .ab = dtype, .c = RP_F32, .m = kind ? 3 : 201, .n = 130, .k = 900, .transpose_a = dtype == RP_BF16 && !kind,
                      .transpose_b = kind != 2, .on.threads = 1 };
        job one   = job_new(NULL, g, levels[i / 6], 0);
        job_run(&one);
        for (int threads = 2; threads <= 9; threads += 7) {
            g.on.threads = threads;
            job more  = job_new(NULL, g, levels[i / 6], 0);
            job_run(&more);
            assert_memory_equal(one.c.at, more.c.at, (size_t)one.c.bytes);
            job_free(&more);
        }
        g.on.threads = 1;
        job_free(&one);
    }
}

static void an_empty_product_is_the_bias_or_nothing(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .device = "cpu", .threads = 2 });
    job bias  = job_new(ctx, (rp_gemm){ .ab = RP_F32, .c = RP_F32, .m = 3, .n = 5, .bias = true, .on.threads = 2 }, NULL, 0);
    job added = job_new(ctx, (rp_gemm){ .ab = RP_BF16, .c = RP_BF16, .m = 3, .n = 5, .adds = true, .on.threads = 2 }, NULL, 0);
    job kept  = job_new(ctx, added.g, NULL, 0);
    job none  = job_new(ctx, (rp_gemm){ .ab = RP_F32, .c = RP_F32, .n = 5, .k = 4, .on.threads = 2 }, NULL, 0);

    job_run(&bias);
    for (int r = 0; r < 3; r++) assert_memory_equal(bias.c.at + r * 20, bias.bias.at, 20);
    job_run(&added);
    assert_memory_equal(added.c.at, kept.c.at, (size_t)kept.c.bytes);
    job_run(&none);
    job_free(&bias);
    job_free(&added);
    job_free(&kept);
    job_free(&none);
    test_ctx_free(ctx);
}

/* Where rows follow from data: what is enough for as many as there can be is enough for fewer, although a product of fewer rows, or less
 * deep, may be cut so that it takes more than one of all. */
static void assert_enough(const rp_kernels *k, rp_gemm most)
{
    static const int64_t less[] = { 1, 2, 3, 4, 5, 15, 16, 17, 31, 33, 47, 63, 64, 65, 96, 127, 128, 129, 200, 255, 257, 511, 639, 640, 641,
                                    700, 1023, 1025, 1281, 1500, 2047, 2560, 3001, 4097, 6000, 8192, 12345, 20000 };
    int64_t enough = 0, bytes = 0;

    k->gemm_scratch_most(&most, &enough);
    for (int m = 0; m < RP_COUNT(less); m++)
        for (int d = 0; d < RP_COUNT(less); d++) {
            rp_gemm g = most;
            if (less[m] < g.m) g.m = less[m];
            if (less[d] < g.k) g.k = less[d];
            k->gemm_scratch(&g, &bytes);
            if (bytes > enough)
                fail_msg("%s [%d,%d,%d] ta %d tb %d %s->%s, %d threads: %d bytes of scratch, %d are for up to [%d,%d,%d]", k->level, (int)g.m,
                         (int)g.n, (int)g.k, g.transpose_a, g.transpose_b, rp_dtype_name(g.ab), rp_dtype_name(g.c), g.on.threads, (int)bytes,
                         (int)enough, (int)most.m, (int)most.n, (int)most.k);
        }
}

static void scratch_for_the_most_rows_is_enough_for_fewer(void **state)
{
    static const int64_t n[] = { 1, 8, 33, 64, 576, 768, 1536, 2048, 6144 }, threads[] = { 1, 2, 3, 16, 64 };
    static const struct { int64_t m, k; } most[] = { { 1, 1 }, { 40, 20 }, { 300, 768 }, { 768, 300 }, { 8192, 2048 }, { 2048, 20000 }, { 20000, 1536 } };
    const rp_kernels *level[RP_MAX_LEVELS];

    (void)state;
    for (int l = rp__kernels_levels(level, RP_COUNT(level)) - 1; l >= 0; l--)
        for (int i = 0; i < RP_COUNT(n) * RP_COUNT(threads) * RP_COUNT(most) * RP_COUNT(dtypes) * 4; i++) {
            int at = i / 4, j = at % RP_COUNT(n), t = at / RP_COUNT(n) % RP_COUNT(threads);
            int s = at / RP_COUNT(n) / RP_COUNT(threads) % RP_COUNT(most), d = at / RP_COUNT(n) / RP_COUNT(threads) / RP_COUNT(most);
            assert_enough(level[l], (rp_gemm){ .ab = dtypes[d].ab, .c = dtypes[d].c, .m = most[s].m, .n = n[j], .k = most[s].k,
                                               .transpose_a = i & 1, .transpose_b = i & 2, .adds = i & 1, .on.threads = (int)threads[t] });
        }
}

static void a_rehearsal_on_shapes_asks_for_the_same_scratch(void **state)
{
    (void)state;
    rp_ctx *real   = test_ctx(&(rp_ctx_options){ .device = "cpu", .threads = 2 });
    rp_ctx *shapes = test_ctx(&(rp_ctx_options){ .device = "cpu", .threads = 2, .shapes_only = true });
    rp_ctx *large = test_ctx(&(rp_ctx_options){ .device = "cpu", .threads = 64, .shapes_only = true });

    for (int d = 0; d < RP_COUNT(dtypes); d++) {
        rp_gemm g = { .ab = dtypes[d].ab, .c = dtypes[d].c, .m = 576, .n = 1536, .k = 1024, .transpose_a = true, .adds = true,
                      .on.threads = 2 };
        int64_t a = -1, b = -2, c = -3;
        assert_ok(shapes, rp__gemm_scratch(shapes, rp__kernels(shapes), &g, &b));
        assert_ok(real, rp__gemm_scratch(real, rp__kernels(real), &g, &a));
        assert_int_equal(a, b);
        g.on.threads = 64;
        assert_ok(large, rp__gemm_scratch(large, rp__kernels(large), &g, &c));
        assert_true(c > a);
    }
    test_ctx_free(real);
    test_ctx_free(shapes);
    test_ctx_free(large);
}

/* ---- two contexts in two threads want the team ---- */

static void *many_products(void *out)
{
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .device = "cpu", .threads = 1 });

    for (int round = 0; round < 40; round++) {
        job j = job_new(ctx, (rp_gemm){ .ab = RP_F32, .c = RP_F32, .m = 20 + round, .n = 30, .k = 40, .on.threads = 1 }, NULL, 0);
        job_run(&j);
        *(uint64_t *)out = rp__hash(j.c.at, (size_t)j.c.bytes, *(uint64_t *)out);
        job_free(&j);
    }
    test_ctx_free(ctx);
    return NULL;
}

static void two_contexts_in_two_threads_get_the_bits_of_one(void **state)
{
    (void)state;
    uint64_t hash[3] = { 0 };
    pthread_t thread[2];

    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&thread[i], NULL, many_products, &hash[i]), 0);
    for (int i = 0; i < 2; i++) pthread_join(thread[i], NULL);
    many_products(&hash[2]);
    assert_true(hash[0] == hash[2] && hash[1] == hash[2]);
}

/* ---- forced levels: chosen once per process, so each is asked in its own ---- */

static void say_what_runs(int to)
{
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .device = "cpu", .threads = 2, .shapes_only = true });
    rp_gemm g = { .ab = RP_F32, .c = RP_F32, .m = 64, .n = 64, .k = 64, .on.threads = 2 };
    int64_t bytes;

    dprintf(to, "%s", rp__gemm_scratch(ctx, rp__kernels(ctx), &g, &bytes) == RP_OK ? rp__kernels_cpu()->level : rp_error(ctx));
    test_ctx_free(ctx);
}

static void ask_with_level(const char *level, char *line, int size)
{
    int ends[2], status;

    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        setenv("REPRISE_CPU", level, 1);
        rp__kernels_force(NULL);        /* as if nothing had been chosen yet */
        say_what_runs(ends[1]);
        _exit(0);
    }
    close(ends[1]);
    FILE *f = fdopen(ends[0], "r");
    assert_non_null(fgets(line, size, f));
    fclose(f);
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
}

static void a_forced_level_runs_whether_it_pays_or_not(void **state)
{
    const rp_kernels *levels[RP_MAX_LEVELS];
    int n = rp__kernels_levels(levels, RP_MAX_LEVELS);
    char line[256];

    (void)state;
    for (int i = 0; i < n; i++) {
        ask_with_level(levels[i]->level, line, sizeof line);
        assert_string_equal(line, levels[i]->level);
    }
    ask_with_level("none", line, sizeof line);
    assert_string_equal(line, "no kernel multiplies matrices at the CPU level 'none'");
}

static void a_level_that_is_not_there_leaves_the_choice(void **state)
{
    char unknown[256], empty[256];

    (void)state;
    ask_with_level("z80", unknown, sizeof unknown);
    ask_with_level("", empty, sizeof empty);
    assert_string_equal(unknown, empty);
#if defined(__x86_64__)
    __builtin_cpu_init();
    assert_true(!__builtin_cpu_is("intel") || strcmp(empty, "zen4"));        /* it runs there, at half the rate of fp32 */
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_chosen_product_is_right_and_repeats_its_bits),
        cmocka_unit_test(the_kernel_of_every_level_is_right_and_repeats_its_bits),
        cmocka_unit_test(the_same_bits_come_from_any_team),
        cmocka_unit_test(an_empty_product_is_the_bias_or_nothing),
        cmocka_unit_test(scratch_for_the_most_rows_is_enough_for_fewer),
        cmocka_unit_test(a_rehearsal_on_shapes_asks_for_the_same_scratch),
        cmocka_unit_test(two_contexts_in_two_threads_get_the_bits_of_one),
        cmocka_unit_test(a_forced_level_runs_whether_it_pays_or_not),
        cmocka_unit_test(a_level_that_is_not_there_leaves_the_choice),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
