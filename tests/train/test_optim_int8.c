/* Claims about states in 8 bits: their codes are those of bitsandbytes, every level of the CPU finds the nearest one, and a block keeps to itself. */
/* ctest: level-free */
#include "optim_test.h"

#include <jansson.h>
#include <math.h>

static json_t *golden(void)
{
    json_error_t e;
    json_t *g = json_load_file(RP_SOURCE_DIR "/tests/train/optim_golden.json", 0, &e);

    if (!g) fail_msg("optim_golden.json: %s", e.text);
    return g;
}

static float number(const json_t *list, size_t i) { return (float)json_number_value(json_array_get(list, i)); }

/* ---- codes ---- */

static void values_have_the_bits_of_bitsandbytes(void **state)
{
    static const char *const maps[] = { "signed", "unsigned" };
    json_t *all = golden();

    (void)state;
    for (int k = 0; k < RP_COUNT(maps); k++) {
        const json_t *map = json_object_get(json_object_get(all, "codes"), maps[k]);
        assert_int_equal(json_array_size(map), RP_CODES);
        for (int i = 0; i < RP_CODES; i++)
            if (rp__optim_codes()->value[k][i] != number(map, (size_t)i))
                fail_msg("%s code %d: %.9g, bitsandbytes has %.9g", maps[k], i, (double)rp__optim_codes()->value[k][i], (double)number(map, (size_t)i));
    }
    json_decref(all);
}

/* The nearest code by comparing all; of two that are equally near, the one nearer to 0. */
static int nearest_of_all(int k, float x)
{
    const float *value = rp__optim_codes()->value[k];
    int best = 0;

    for (int c = 1; c < RP_CODES; c++) {
        double old = fabs((double)value[best] - (double)x), now = fabs((double)value[c] - (double)x);
        if (now < old || (now == old && fabsf(value[c]) < fabsf(value[best]))) best = c;
    }
    return best;
}

static void the_nearest_code_is_found(void **state)
{
    (void)state;
    for (int k = 0; k < RP_OPTIM_MAX_STATES; k++) {
        const float *value = rp__optim_codes()->value[k];
        for (int c = 0; c < RP_CODES; c++) assert_int_equal(rp__optim_encode(rp__optim_codes(), k, value[c]), c);
        for (int c = 1; c < RP_CODES; c++) {        /* the middle of two, and its neighbours */
            float middle = (float)(((double)value[c - 1] + (double)value[c]) / 2), all[] = { nextafterf(middle, -2), middle, nextafterf(middle, 2) };
            for (int i = 0; i < 3; i++) assert_int_equal(rp__optim_encode(rp__optim_codes(), k, all[i]), nearest_of_all(k, all[i]));
        }
        for (int i = 0; i < test_draws(20000); i++) {
            float x = (float)(exp(-18 * fabs(noise(i, 1))) * (k || i % 2 ? 1 : -1));
            if (rp__optim_encode(rp__optim_codes(), k, x) != nearest_of_all(k, x)) fail_msg("%.9g", (double)x);
        }
    }
}

static void numbers_beyond_1_and_not_a_number_have_a_code(void **state)
{
    static const float all[] = { 2, 1e30f, INFINITY, NAN };

    (void)state;
    for (int i = 0; i < RP_COUNT(all); i++) {
        assert_int_equal(rp__optim_encode(rp__optim_codes(), 0, all[i]), RP_CODES - 1);
        assert_int_equal(rp__optim_encode(rp__optim_codes(), 1, all[i]), RP_CODES - 1);
    }
    assert_int_equal(rp__optim_encode(rp__optim_codes(), 0, -2), 0);
    assert_int_equal(rp__optim_encode(rp__optim_codes(), 0, -INFINITY), 0);
}

/* ---- an update ---- */

enum { N = 2 * RP_OPTIM_TILE + 300, BLOCKS = (N + RP_OPTIM_BLOCK - 1) / RP_OPTIM_BLOCK };

typedef struct { float param[N], grad[N], absmax[2][BLOCKS]; uint8_t code[2][N]; } memory;

/* Without decay of the moments, the states become g and g * g. */
static void run_adamw(const rp_kernels *k, memory *m, double beta1, double beta2)
{
    rp_optim_call c = { .on = { .threads = 2 }, .n = N, .state_dtype = RP_U8, .param = m->param, .grad = m->grad, .state = { m->code[0], m->code[1] },
                        .absmax = { m->absmax[0], m->absmax[1] }, .lr = 1e-3, .grad_scale = 1, .beta1 = beta1, .beta2 = beta2, .eps = 1e-8,
                        .bias1 = 1 - beta1, .bias2 = 1 - beta2, .step = 1 };
    k->adamw(&c);
}

static void draw_grads(memory *m)
{
    *m = (memory){ .param = { 0 } };
    for (int i = 0; i < N; i++) m->grad[i] = (float)(noise(i, 3) * exp(-9 * fabs(noise(i, 4))));
    for (int i = 0; i < RP_OPTIM_BLOCK; i++) m->grad[RP_OPTIM_BLOCK + i] = 0;
}

static void assert_encoded(const memory *m, int k, const char *level)
{
    for (int b = 0; b < BLOCKS; b++) {
        int from = b * RP_OPTIM_BLOCK, to = from + RP_OPTIM_BLOCK < N ? from + RP_OPTIM_BLOCK : N;
        float most = 0;
        for (int i = from; i < to; i++) most = fmaxf(most, k ? m->grad[i] * m->grad[i] : fabsf(m->grad[i]));
        if (m->absmax[k][b] != most) fail_msg("%s: absmax of block %d is %.9g, not %.9g", level, b, (double)m->absmax[k][b], (double)most);
        float factor = most == 0 ? 0 : 1 / most;
        for (int i = from; i < to; i++) {
            uint8_t code = rp__optim_encode(rp__optim_codes(), k, (k ? m->grad[i] * m->grad[i] : m->grad[i]) * factor);
            if (m->code[k][i] != code) fail_msg("%s: state %d, element %d has code %d, not %d", level, k, i, m->code[k][i], code);
        }
    }
}

static void every_level_stores_the_nearest_codes_and_the_largest_magnitude(void **state)
{
    const rp_kernels *level[RP_MAX_LEVELS];
    int n = rp__kernels_levels(level, RP_MAX_LEVELS);
    static memory m;

    (void)state;
    for (int l = 0; l < n; l++) {
        draw_grads(&m);
        run_adamw(level[l], &m, 0, 0);
        for (int k = 0; k < 2; k++) assert_encoded(&m, k, level[l]->level);
    }
}

/* Magnitudes whose reciprocal is no normal number, and magnitudes that are none. */
static void extreme_blocks_keep_their_largest_element(void **state)
{
    static const float most[] = { 0x1p127f, 0x1.8p126f, 0x1p-125f, 0x1p-127f, 1e-30f };
    const rp_kernels *level[RP_MAX_LEVELS];
    int n = rp__kernels_levels(level, RP_MAX_LEVELS);
    static memory m;

    (void)state;
    for (int l = 0; l < n; l++)
        for (int i = 0; i < RP_COUNT(most); i++) {
            unsigned mode = rp__fp_enter();
            memset(&m, 0, sizeof m);
            m.grad[5] = most[i];
            m.grad[6] = -most[i] / 2;
            run_adamw(level[l], &m, 0, 0.5);
            rp__fp_leave(mode);
            bool normal = most[i] >= 0x1p-126f;
            assert_true(m.absmax[0][0] == (normal ? most[i] : 0));
            assert_int_equal(m.code[0][5], normal ? RP_CODES - 1 : RP_CODE_ZERO);
            assert_int_equal(m.code[0][6], normal ? rp__optim_encode(rp__optim_codes(), 0, -0.5f) : RP_CODE_ZERO);
            assert_int_equal(m.code[0][7], RP_CODE_ZERO);
        }
}

static void a_gradient_that_is_not_finite_spoils_its_block_alone(void **state)
{
    static const float bad[] = { NAN, INFINITY, -INFINITY };
    const rp_kernels *level[RP_MAX_LEVELS];
    int n = rp__kernels_levels(level, RP_MAX_LEVELS);
    static memory m;

    (void)state;
    for (int l = 0; l < n; l++)
        for (int i = 0; i < RP_COUNT(bad); i++) {
            draw_grads(&m);
            m.grad[700] = bad[i];
            run_adamw(level[l], &m, 0.9, 0.99);
            m.grad[700] = 0;
            run_adamw(level[l], &m, 0.9, 0.99);
            for (int e = 0; e < N; e++)
                if (e / RP_OPTIM_BLOCK != 700 / RP_OPTIM_BLOCK) assert_true(isfinite(m.param[e]));
            assert_false(isfinite(m.absmax[0][700 / RP_OPTIM_BLOCK]));
            assert_false(isfinite(m.param[700]));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_have_the_bits_of_bitsandbytes),
        cmocka_unit_test(the_nearest_code_is_found),
        cmocka_unit_test(numbers_beyond_1_and_not_a_number_have_a_code),
        cmocka_unit_test(every_level_stores_the_nearest_codes_and_the_largest_magnitude),
        cmocka_unit_test(extreme_blocks_keep_their_largest_element),
        cmocka_unit_test(a_gradient_that_is_not_finite_spoils_its_block_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
