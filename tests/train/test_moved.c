/* Claims about bytes that leave memory in a step, activations and optimizer states, on shapes: each has a price, whoever moves it, and nothing moves for
 * nothing. */
#include "loop_test.h"

#include <math.h>

#define MODEL "model.config=" RP_SOURCE_DIR "/bench/configs/smollm2-135m.json", "max_seq_len=512", "batch_size=2", "dtype=bf16", "optimizer.state_dtype=bf16"
#define RULES(fate) "activation_checkpointing.rules=[{op: '*', fate: " fate "}]"
#define KNOWN "flops=1T, bandwidth=100G, offload=1G"        /* 0.8 GB/s, of memory 80 GB/s */
#define UNKNOWN "flops=1T, bandwidth=100G"

static const char *const devices[] = { NULL, KNOWN, UNKNOWN };  /* NULL: this machine's built-in table */

#define BUDGET INT64_C(100000000000)

static rp_forecast forecast_of(const char *const *setting, const char *device, int64_t budget)
{
    rp_recipe *recipe = NULL;
    rp_forecast f;
    rp_report report;
    int n = 0;

    while (setting[n]) n++;
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .device = "cpu", .threads = 2, .shapes_only = true, .memory_limit_bytes = budget });
    rp__report_open(&report, ctx);
    assert_ok(ctx, rp__recipe_read(ctx, "r.yaml", "threads: 2\nmax_steps: 1\n", 24, n, setting, &report, &recipe));
    assert_ok(ctx, rp__recipe_forecast(ctx, recipe, &(rp_forecast_options){ .device = device }, &report, &f));
    rp_forecast kept = f;
    rp__forecast_close(&f);
    rp__report_close(&report);
    rp__recipe_free(recipe);
    test_ctx_free(ctx);
    return kept;
}

static void where_everything_fits_nothing_that_only_prefers_to_go_goes(void **state)
{
    static const char *const prefers[MOST_SETTINGS] = { MODEL, RULES("prefer_offload"), "memory_budget=100GB" };

    (void)state;
    for (int i = 0; i < RP_COUNT(devices); i++) {
        rp_forecast f = forecast_of(prefers, devices[i], BUDGET);
        assert_int_equal(f.plan.found.offloaded_bytes, 0);
        assert_true(f.plan.offload_seconds == 0);
    }
}

/* Out behind the forward, back behind the backward; what is left is waited for, and copies are made by the cores. */
static void what_a_must_offloads_costs_seconds(void **state)
{
    static const char *const goes[MOST_SETTINGS] = { MODEL, RULES("offload") }, *const stays[MOST_SETTINGS] = { MODEL };

    (void)state;
    for (int i = 0; i < RP_COUNT(devices); i++) {
        rp_forecast with = forecast_of(goes, devices[i], 0), without = forecast_of(stays, devices[i], 0);
        double moved = (double)with.plan.found.offloaded_bytes, transfers = 2 * moved / with.offload_bandwidth;
        assert_true(moved > 500e6);
        assert_true(with.offload_bandwidth == (devices[i] && strstr(devices[i], "offload") ? 0.8e9 : with.offload_bandwidth));
        assert_true(with.offload_guessed == (!devices[i] || !strstr(devices[i], "offload")));
        assert_true(with.plan.seconds == without.plan.seconds && without.plan.offload_seconds == 0);
        assert_true(with.plan.offload_seconds > 0 && with.plan.recompute_seconds == with.plan.offload_seconds);
        assert_true(with.plan.offload_seconds >= transfers - with.plan.seconds && with.plan.offload_seconds < transfers + with.plan.seconds);
    }
}

/* They come and go while the update runs, and take longer than it does. */
static void states_on_disk_cost_what_their_bytes_cost(void **state)
{
    static const char *const disk[MOST_SETTINGS] = { MODEL, "dist.state_offload=true" }, *const memory[MOST_SETTINGS] = { MODEL };

    (void)state;
    for (int i = 0; i < RP_COUNT(devices); i++) {
        rp_forecast with = forecast_of(disk, devices[i], 0), without = forecast_of(memory, devices[i], 0);
        double transfers = 2 * (double)with.plan.state_bytes / with.offload_bandwidth;
        assert_true(without.plan.state_bytes == 0 && without.plan.state_seconds == 0);
        assert_true(with.plan.state_bytes >= INT64_C(4) * 134515008);          /* both moments of each weight, in bf16 */
        assert_true(with.plan.state_seconds > 0 && with.plan.state_seconds < transfers);
        assert_true(fabs(with.plan.seconds - without.plan.seconds - with.plan.state_seconds) < 1e-3 * with.plan.seconds);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(where_everything_fits_nothing_that_only_prefers_to_go_goes),
        TEST(what_a_must_offloads_costs_seconds),
        TEST(states_on_disk_cost_what_their_bytes_cost),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
