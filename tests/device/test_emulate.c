/* Claims about the emulated device: correct kernels give the same bits under each schedule, planted mistakes show, and the functions of the dialect are
 * accurate and have fixed bits. */
/* ctest: device-free level-free thread-free watched */
#include "rig.h"

#include <math.h>

enum { M = 100, N = 70, K = 88 };       /* of products: not multiples of a tile */

/* Runs a kernel on host memory. */
static void run(const rp_gpu_kernel *k, int x, int y, test_args a)
{
    assert_true(rp__emulate_grid(k, (int[3]){ x, y, 1 }, k->shared_bytes, &a));
}

static u64 at(const void *p) { return (u64)(uintptr_t)p; }

static float number(int i) { return (float)((i * 7919 + 13) % 31 - 15) / 8; }

static uint32_t hash_of(const void *p, size_t bytes)
{
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < bytes; i++) h = (h ^ ((const unsigned char *)p)[i]) * 16777619u;
    return h;
}

/* ---- kernels and the hash of their results ---- */

static _Alignas(16) float x[1024 + 4], z[M * N + 1024];
static _Alignas(16) bf16 left[M * K], right[N * K];

static uint32_t scale(int plant)
{
    run(&rp__gpu_test_scale, 4, 1, (test_args){ .x = at(x), .z = at(z), .n = 1000, .factor = 3, .plant = plant });
    return hash_of(z, 1000 * sizeof *z);
}
static uint32_t reverse(int plant)
{
    run(&rp__gpu_test_reverse, 4, 1, (test_args){ .x = at(x), .z = at(z), .n = 1024, .plant = plant });
    return hash_of(z, 1024 * sizeof *z);
}
static uint32_t sum(int plant)
{
    run(&rp__gpu_test_sum, 4, 1, (test_args){ .x = at(x), .z = at(z), .n = 1024, .plant = plant });
    return hash_of(z, 4 * sizeof *z);
}
static uint32_t warp(int plant)
{
    run(&rp__gpu_test_warp, 16, 1, (test_args){ .x = at(x), .z = at(z), .n = 1024, .plant = plant });
    return hash_of(z, 1024 * sizeof *z);
}
static uint32_t product(int plant)
{
    run(&rp__gpu_test_product, (N + 63) / 64, (M + 63) / 64, (test_args){ at(left), at(right), at(z), .n = N, .m = M, .k = K, .plant = plant });
    return hash_of(z, M * N * sizeof *z);
}
static uint32_t matrix(int plant)
{
    run(&rp__gpu_test_matrix, 1, 1, (test_args){ .z = at(z), .plant = plant });
    return hash_of(z, 128 * sizeof *z);
}
static uint32_t dynamic(int plant)
{
    run(&rp__gpu_test_dynamic, 3, 1, (test_args){ .z = at(z), .plant = plant });
    return hash_of(z, 3 * sizeof *z);
}

static const struct { const char *name; uint32_t (*hash)(int plant); } kernels[] = {
    { "scale", scale }, { "reverse", reverse }, { "sum", sum },         { "warp", warp },
    { "product", product }, { "matrix", matrix }, { "dynamic", dynamic },
};

static int prepare(void **state)
{
    (void)state;
    for (int i = 0; i < 1028; i++) x[i] = number(i);
    for (int i = 0; i < M * K; i++) left[i] = narrow(number(i));
    for (int i = 0; i < N * K; i++) right[i] = narrow(number(i + 5));
    rp__emulate_set_schedule(RP_EMULATE_FORWARD);
    return 0;
}

/* Number of schedules under which a kernel with a mistake gives other bits than without. */
static int n_found(uint32_t (*hash)(int plant), int plant)
{
    int n = 0;
    for (int s = 0; s < RP_EMULATE_SCHEDULES; s++) {
        rp__emulate_set_schedule((rp_emulate_schedule)s);
        n += hash(plant) != hash(PLANT_NOTHING);
    }
    return n;
}

/* ---- claims ---- */

static void kernels_give_the_same_bits_under_each_schedule(void **state)
{
    (void)state;
    for (int k = 0; k < RP_COUNT(kernels); k++)
        for (int s = 0; s < RP_EMULATE_SCHEDULES; s++) {
            rp__emulate_set_schedule(RP_EMULATE_FORWARD);
            uint32_t want = kernels[k].hash(PLANT_NOTHING);
            rp__emulate_set_schedule((rp_emulate_schedule)s);
            if (kernels[k].hash(PLANT_NOTHING) != want) fail_msg("%s under %s", kernels[k].name, rp__emulate_schedule_name((rp_emulate_schedule)s));
        }
}

static void results_are_right(void **state)
{
    (void)state;
    scale(PLANT_NOTHING);
    for (int i = 0; i < 1000; i++) assert_true(z[i] == 3 * x[i]);
    reverse(PLANT_NOTHING);
    for (int i = 0; i < 1024; i++) assert_true(z[i] == x[i / 256 * 256 + 255 - i % 256]);
    sum(PLANT_NOTHING);
    float total = 0, most = x[256];
    for (int i = 256; i < 512; i++) total += x[i];      /* exact: multiples of 1/8 */
    for (int i = 256; i < 512; i++) most = x[i] > most ? x[i] : most;
    assert_true(z[1] == total + most);
    dynamic(PLANT_NOTHING);
    for (int i = 0; i < 3; i++) assert_true(z[i] == 0);
}

static void products_are_right(void **state)
{
    (void)state;
    product(PLANT_NOTHING);
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            float want = 0;
            for (int k = 0; k < K; k++) want += wide(left[i * K + k]) * wide(right[j * K + k]);      /* exact */
            assert_true(z[i * N + j] == want);
        }
}

static void warps_sum_compare_and_shift(void **state)
{
    (void)state;
    warp(PLANT_NOTHING);
    for (int i = 0; i < 1024; i++) {
        float total = 0, most = x[i / 32 * 32];
        for (int k = i / 32 * 32; k < i / 32 * 32 + 32; k++) {
            total += x[k];
            most = x[k] > most ? x[k] : most;
        }
        assert_true(z[i] == total + most + x[i % 32 == 31 ? i : i + 1]);
    }
}

static void matrices_arrive_as_ldmatrix_defines(void **state)
{
    (void)state;
    matrix(PLANT_NOTHING);
    for (int t = 0; t < 64; t++) {
        int row = t % 32 / 4, column = t % 4 * 2;
        bf16 pair[4];
        memcpy(pair, &z[t * 2], sizeof pair);
        assert_true(wide(pair[0]) == (float)(row * 8 + column) && wide(pair[1]) == (float)(row * 8 + column + 1));
        assert_true(wide(pair[2]) == (float)(column * 8 + row) && wide(pair[3]) == (float)(column * 8 + 8 + row));
    }
}

static void a_missing_barrier_gives_other_bits(void **state)
{
    (void)state;
    assert_true(n_found(reverse, PLANT_NO_BARRIER) > 0);
    assert_true(n_found(sum, PLANT_NO_BARRIER) > 0);
    assert_true(n_found(product, PLANT_NO_BARRIER) > 0);
    assert_true(n_found(product, PLANT_NO_LAST_BARRIER) > 0);
}

static void a_missing_copy_wait_gives_nan(void **state)
{
    (void)state;
    product(PLANT_NO_COPY_WAIT);
    for (int i = 0; i < M * N; i++) assert_true(isnan(z[i]));
}

static void a_wrong_row_of_ldmatrix_gives_other_bits(void **state)
{
    (void)state;
    assert_int_equal(n_found(product, PLANT_WRONG_ROW), RP_EMULATE_SCHEDULES);
}

static void mistake_in_warp(void *plant) { warp(*(int *)plant); }
static void mistake_in_matrix(void *plant) { matrix(*(int *)plant); }

static void an_operation_without_all_lanes_aborts(void **state)
{
    (void)state;
    assert_int_equal(rig_child(mistake_in_warp, &(int){ PLANT_NOTHING }), 0);
    assert_int_equal(rig_child(mistake_in_warp, &(int){ PLANT_NO_LANE }), SIGABRT);
}

static void a_misaligned_row_of_ldmatrix_aborts(void **state)
{
    (void)state;
    assert_int_equal(rig_child(mistake_in_matrix, &(int){ PLANT_NOTHING }), 0);
    assert_int_equal(rig_child(mistake_in_matrix, &(int){ PLANT_PAST_END }), SIGABRT);
}

#ifdef RP_ASAN
static void past_the_end(void *block) { run(&rp__gpu_test_scale, 1, 1, (test_args){ .x = at(block), .z = at(z), .n = 256, .plant = PLANT_PAST_END }); }
static void past_dynamic(void *bytes) { rp__emulate_grid(&rp__gpu_test_dynamic, (int[3]){ 1, 1, 1 }, *(int *)bytes, &(test_args){ .z = at(z) }); }

static void the_sanitizer_sees_kernels(void **state)
{
    (void)state;
    float *block = calloc(256, sizeof *block);
    assert_int_equal(rig_child(past_the_end, block), -1);
    assert_int_equal(rig_child(past_dynamic, &(int){ 65536 }), 0);
    assert_int_equal(rig_child(past_dynamic, &(int){ 65536 - 8 }), -1);
    free(block);
}
#endif

static void each_block_knows_its_place(void **state)
{
    (void)state;
    int place[2 * 3 * 4];
    for (int s = 0; s < RP_EMULATE_SCHEDULES; s++) {
        rp__emulate_set_schedule((rp_emulate_schedule)s);
        assert_true(rp__emulate_grid(&rp__gpu_test_place, (int[3]){ 2, 3, 4 }, 0, &(test_args){ .z = at(place) }));
        for (int i = 0; i < 24; i++) assert_int_equal(place[i], i % 2 + 100 * (i / 2 % 3) + 10000 * (i / 6) + 4000000);
    }
}

static void the_environment_chooses_the_schedule(void **state)
{
    (void)state;
    for (int s = 0; s < RP_EMULATE_SCHEDULES; s++) {
        setenv("REPRISE_EMU", rp__emulate_schedule_name((rp_emulate_schedule)s), 1);
        rp__emulate_set_schedule(RP_EMULATE_SCHEDULES);
        assert_int_equal(rp__emulate_get_schedule(), s);
    }
    unsetenv("REPRISE_EMU");
    rp__emulate_set_schedule(RP_EMULATE_SCHEDULES);
    assert_int_equal(rp__emulate_get_schedule(), RP_EMULATE_FORWARD);
}

/* Compared as bits: to a thread that flushes denormals, they are equal to 0. */
static void denormals_are_kept_whatever_the_callers_mode(void **state)
{
    static const float tiny[2] = { 0x1p-130f, 0x1p-120f };
    uint32_t got[2];

    (void)state;
    for (int flushes = 0; flushes < 2; flushes++) {
        unsigned mode = flushes ? rp__fp_enter() : rp__fp_enter_exact();
        run(&rp__gpu_test_scale, 1, 1, (test_args){ .x = at(tiny), .z = at(z), .n = 2, .factor = 0x1p-10f });
        memcpy(got, z, sizeof got);
        rp__fp_leave(mode);
        assert_int_equal(got[0], 1u << 9);
        assert_int_equal(got[1], 1u << 19);
    }
}

/* ---- functions ---- */

static double sigmoid(double v) { return 1 / (1 + exp(-v)); }
static double square_root(double v) { return sqrt(fabs(v)); }

/* Hashes: gcc 12 and clang 14 on x86-64 give the same. A GPU compiled without contraction must give them, too. */
static const struct { double (*exact)(double); double ulp; uint32_t hash; } functions[FUNCTIONS - 1] = {
    [EXP2] = { exp2, 1, 0x74075ae1 },       [EXP] = { exp, 1, 0x1b06803a },   [LOG] = { log, 1, 0x5d2b40ab },
    [LOG2] = { log2, 1, 0xe21982cc },       [TANH] = { tanh, 2, 0xac3d34f5 }, [ERF] = { erf, 2, 0x119feca9 },
    [SIGMOID] = { sigmoid, 3, 0xf6cd9d02 }, [SQUARE_ROOT] = { square_root, 0.5, 0xc1cee799 },
};

/* Distance in units of the last place of the fp32 number nearest to `want`; 0 is right for results below the normal numbers. */
static double distance(float got, double want)
{
    int exponent;
    if (isnan(want)) return BITS(got) == 0x7fffffffu || isnan(got) ? 0 : INFINITY;
    if (isinf((float)want)) return got == (float)want ? 0 : INFINITY;
    if (fabs(want) < 0x1p-126) return got == 0 || fabs(got - want) <= 0x1p-149 ? 0 : INFINITY;
    frexp(want, &exponent);
    return fabs(got - want) / ldexp(1, exponent - 24);
}

enum { SAMPLES = 1 << 18 };
static float values[SAMPLES];

static void evaluate(int f)
{
    run(&rp__gpu_test_functions, SAMPLES / 256, 1, (test_args){ .z = at(values), .n = SAMPLES, .function = f, .first = 1, .step = 16384 });
}

static void functions_are_accurate(void **state)
{
    (void)state;
    for (int f = 0; f < FUNCTIONS - 1; f++) {
        double worst = 0;
        evaluate(f);
        for (int i = 0; i < SAMPLES; i++) {
            double d = distance(values[i], functions[f].exact(FLOAT(1 + (u32)i * 16384)));
            if (d > worst) worst = d;
        }
        if (worst > functions[f].ulp) fail_msg("function %d: %g ulp", f, worst);
    }
}

static void functions_have_these_bits(void **state)
{
    (void)state;
    for (int f = 0; f < FUNCTIONS - 1; f++) {
        evaluate(f);
        for (int i = 0; i < SAMPLES; i++)
            if (isnan(values[i])) values[i] = NOT_A_NUMBER;         /* SQRT leaves the payload to the machine */
        if (hash_of(values, sizeof values) != functions[f].hash) fail_msg("function %d: %08x", f, hash_of(values, sizeof values));
    }
}

static void bf16_is_rounded_to_nearest_even(void **state)
{
    (void)state;
    evaluate(NARROW);
    for (int i = 0; i < SAMPLES; i++) {
        u32 u = 1 + (u32)i * 16384, high = u & 0xffff0000u, rest = u & 0xffffu;
        bool up  = rest > 0x8000u || (rest == 0x8000u && (high & 0x10000u));
        u32 want = up ? high + 0x10000u : high;
        assert_int_equal(BITS(values[i]), is_nan(FLOAT(u)) ? 0x7fff0000u : want);
    }
    assert_int_equal(narrow(FLOAT(0x3f808000u)), 0x3f80);
    assert_int_equal(narrow(FLOAT(0x3f818000u)), 0x3f82);
    assert_int_equal(narrow(FLOAT(0x7f7fffffu)), 0x7f80);
    assert_int_equal(narrow(FLOAT(0xff800001u)), 0x7fff);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(kernels_give_the_same_bits_under_each_schedule, prepare),
        cmocka_unit_test_setup(results_are_right, prepare),
        cmocka_unit_test_setup(products_are_right, prepare),
        cmocka_unit_test_setup(warps_sum_compare_and_shift, prepare),
        cmocka_unit_test_setup(matrices_arrive_as_ldmatrix_defines, prepare),
        cmocka_unit_test_setup(a_missing_barrier_gives_other_bits, prepare),
        cmocka_unit_test_setup(a_missing_copy_wait_gives_nan, prepare),
        cmocka_unit_test_setup(a_wrong_row_of_ldmatrix_gives_other_bits, prepare),
        cmocka_unit_test_setup(an_operation_without_all_lanes_aborts, prepare),
        cmocka_unit_test_setup(a_misaligned_row_of_ldmatrix_aborts, prepare),
#ifdef RP_ASAN
        cmocka_unit_test_setup(the_sanitizer_sees_kernels, prepare),
#endif
        cmocka_unit_test_setup(each_block_knows_its_place, prepare),
        cmocka_unit_test_setup(denormals_are_kept_whatever_the_callers_mode, prepare),
        cmocka_unit_test_setup(the_environment_chooses_the_schedule, prepare),
        cmocka_unit_test_setup(functions_are_accurate, prepare),
        cmocka_unit_test_setup(functions_have_these_bits, prepare),
        cmocka_unit_test_setup(bf16_is_rounded_to_nearest_even, prepare),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
