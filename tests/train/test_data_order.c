/* Claims about datasets: in which order samples come, on which rank and in which micro-batch. */
/* ctest: device-free thread-free */
#include "byte_data.h"
#include "data/shuffle.h"
#include "temp.h"

static void shuffles_are_permutations_that_differ_by_epoch_and_seed(void **state)
{
    (void)state;
    static const int64_t sizes[] = { 1, 2, 3, 4, 5, 16, 17, 1000, 4097 };
    bool seen[4097];

    for (int i = 0; i < RP_COUNT(sizes); i++) {
        int64_t n = sizes[i], moved = 0, differs = 0;
        for (int epoch = 0; epoch < 3; epoch++) {
            memset(seen, 0, sizeof seen);
            for (int64_t k = 0; k < n; k++) {
                int64_t x = rp__shuffled(42, epoch, n, k);
                assert_true(x >= 0 && x < n && !seen[x]);
                seen[x] = true;
                moved += x != k;
                differs += x != rp__shuffled(42, epoch + 1, n, k) || x != rp__shuffled(43, epoch, n, k);
            }
        }
        if (n >= 16) assert_true(moved > n && differs > n);
    }
}

static void each_bit_of_a_seed_or_an_epoch_changes_the_order(void **state)
{
    (void)state;
    for (int bit = 0; bit < 63; bit++) {
        int of_seed = 0, of_epoch = 0;
        for (int64_t k = 0; k < 1000; k++) {
            int64_t x = rp__shuffled(5, 7, 1000, k);
            of_seed += x != rp__shuffled(5 ^ UINT64_C(1) << bit, 7, 1000, k);
            of_epoch += x != rp__shuffled(5, 7 ^ INT64_C(1) << bit, 1000, k);
        }
        assert_true(of_seed > 900 && of_epoch > 900);
    }
}

/* Each of 12 things at each of 12 places, over 12000 orders: 1000 times give or take, chi-squared over 121 degrees of freedom. */
static void shuffles_put_everything_everywhere_equally_often(void **state)
{
    (void)state;
    enum { N = 12, ORDERS = 12000 };
    int count[N][N] = { 0 };
    double chi = 0;

    for (int e = 0; e < ORDERS; e++)
        for (int k = 0; k < N; k++) count[k][rp__shuffled(7, e, N, k)]++;
    for (int k = 0; k < N; k++)
        for (int x = 0; x < N; x++) chi += (count[k][x] - 1000.0) * (count[k][x] - 1000.0) / 1000.0;
    assert_true(chi > 70 && chi < 190);
}

enum { PLACES = 64, SAMPLE = 4 };

static const char *numbered_tokens(const temp_dir *dir)
{
    uint16_t ids[PLACES * SAMPLE];

    for (int i = 0; i < PLACES * SAMPLE; i++) ids[i] = (uint16_t)i;
    return temp_write(dir, "numbers.bin", ids, sizeof ids);
}

/* first[] of every sample of a global step, in the step's order, however it is cut into ranks, batches and accumulation. */
static void collect(rp_ctx *ctx, rp_data_config c, int64_t step, int32_t *first, int64_t *targets)
{
    for (c.rank = 0; c.rank < c.ranks; c.rank++) {
        rp_data *d = open_data(ctx, &c);
        rp_data_step n;
        for (int64_t m = 0; m < c.accumulation; m++) {
            rp_data_batch b;
            assert_ok(ctx, rp__data_batch(d, step, m, &b));
            for (int64_t r = 0; r < b.rows; r++) {
                assert_int_equal(first[b.sample_base + r], -1);
                first[b.sample_base + r] = b.tokens[r * b.length];
            }
        }
        assert_ok(ctx, rp__data_step(d, step, &n));
        *targets = n.targets;
        rp__data_close(d);
    }
}

static void any_cut_into_ranks_and_micro_batches_gives_the_same_global_steps(void **state)
{
    (void)state;
    static const struct {
        int64_t batch, accumulation;
        int ranks;
    } cuts[] = { { 8, 1, 1 }, { 4, 2, 1 }, { 2, 1, 4 }, { 1, 4, 2 }, { 1, 8, 1 }, { 1, 1, 8 } };
    rp_ctx *ctx = test_ctx(NULL);
    temp_dir dir = temp_make();
    rp_data_config c = config_of(numbered_tokens(&dir), "tokens");

    c.shuffle = true;
    c.seed    = 5;
    for (int64_t step = 0; step < 20; step += 7) {
        int32_t whole[8], parts[8];
        for (int k = 0; k < RP_COUNT(cuts); k++) {
            int64_t targets;
            memset(parts, 0xff, sizeof parts);
            c.batch_size   = cuts[k].batch;
            c.accumulation = cuts[k].accumulation;
            c.ranks        = cuts[k].ranks;
            collect(ctx, c, step, parts, &targets);
            assert_int_equal(targets, 8 * (SAMPLE - 1));
            if (k == 0) memcpy(whole, parts, sizeof whole);
            assert_memory_equal(whole, parts, sizeof whole);
        }
    }
    temp_remove(&dir);
    test_ctx_free(ctx);
}

static void an_epoch_visits_every_sample_once_and_the_next_in_another_order(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(NULL);
    temp_dir dir = temp_make();
    rp_data_config c = config_of(numbered_tokens(&dir), "tokens");
    int32_t order[2][PLACES];
    rp_data_batch b;

    for (int shuffle = 0; shuffle < 2; shuffle++) {
        c.shuffle    = shuffle;
        c.batch_size = 4;
        rp_data *d   = open_data(ctx, &c);
        assert_int_equal(rp__data_info(d).steps_per_epoch, PLACES / 4);
        for (int epoch = 0; epoch < 2; epoch++) {
            bool seen[PLACES] = { false };
            for (int at = 0; at < PLACES; at++) {
                assert_ok(ctx, rp__data_batch(d, (epoch * PLACES + at) / 4, 0, &b));
                int32_t sample = b.tokens[at % 4 * SAMPLE] / SAMPLE;
                assert_false(seen[sample]);
                seen[sample]     = true;
                order[epoch][at] = sample;
                if (!shuffle) assert_int_equal(sample, at);
            }
        }
        if (shuffle) assert_memory_not_equal(order[0], order[1], sizeof order[0]);
        rp__data_close(d);
    }
    temp_remove(&dir);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shuffles_are_permutations_that_differ_by_epoch_and_seed),
        cmocka_unit_test(each_bit_of_a_seed_or_an_epoch_changes_the_order),
        cmocka_unit_test(shuffles_put_everything_everywhere_equally_often),
        cmocka_unit_test(any_cut_into_ranks_and_micro_batches_gives_the_same_global_steps),
        cmocka_unit_test(an_epoch_visits_every_sample_once_and_the_next_in_another_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
