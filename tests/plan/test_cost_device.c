/* Claims about machines that are not there: what a word on the command line becomes. */
/* ctest: device-free thread-free */
#include "plan/cost_test.h"

#include <math.h>

#include "ops/collective.h"
#include "shard/ranks.h"

static rp_cost_table *device(rp_ctx *ctx, const char *spec)
{
    rp_cost_table *t = NULL;

    assert_ok(ctx, rp__cost_table_device(ctx, spec, &t));
    return t;
}

static void a_name_alone_is_a_data_sheet(void **state)
{
    rp_ctx *ctx      = shapes_ctx();
    rp_cost_table *t = device(ctx, "h100");
    rp_op_meta m     = product(ctx, RP_BF16, 4096, 4096, 4096);
    double peak      = 2 * pow(4096, 3) / 989.4e12, took = rp__cost_seconds(t, &m, RP_FORWARD);

    (void)state;
    assert_string_equal(rp__cost_machine(t), "h100");
    assert_int_equal(rp__cost_memory(t), INT64_C(80000000000));
    assert_false(rp__cost_measured(t));
    assert_true(took > peak && took < 2 * peak);
    assert_true(rp__cost_offload_bandwidth(t, false) > 40e9 && rp__cost_offload_bandwidth(t, false) <= 64e9);
    rp__cost_table_free(t);
    test_ctx_free(ctx);
}

static void memory_bound_calls_go_by_bandwidth(void **state)
{
    rp_ctx *ctx = shapes_ctx();
    rp_cost_table *h100 = device(ctx, "h100"), *h200 = device(ctx, "h200");
    rp_op_meta p = product(ctx, RP_BF16, 4096, 4096, 4096), g = pointwise(ctx, &rp_op_silu, NULL, RP_BF16, 8192, 8192);

    (void)state;
    assert_true(rp__cost_seconds(h100, &p, RP_FORWARD) == rp__cost_seconds(h200, &p, RP_FORWARD));
    assert_true(rp__cost_seconds(h100, &g, RP_FORWARD) > 1.3 * rp__cost_seconds(h200, &g, RP_FORWARD));
    assert_true(fabs(rp__cost_move(h100, RP_F32, 3350000000) * 0.85 - 1e-3) < 1e-9);
    rp__cost_table_free(h100);
    rp__cost_table_free(h200);
    test_ctx_free(ctx);
}

/* On one H100 80GB HBM3 (docs/gpu.md): products for three seconds on end, by cuBLASLt 13.1, the gradients' added; attention by FlashAttention-2's kernels. */
static const struct { int64_t rows, k, n; double forward, backward; } products[] = {
    { 8192, 8192, 8192, 1633e-6, 3258e-6 },   { 16384, 2048, 8192, 846e-6, 1598e-6 }, { 16384, 8192, 2048, 805e-6, 1664e-6 },
    { 16384, 2048, 2048, 210e-6, 406e-6 },
};
static const struct { int64_t batch, tokens, heads, dim; double forward, backward; } attentions[] = {
    { 32, 512, 32, 64, 228e-6, 640e-6 },  { 8, 2048, 32, 64, 525e-6, 1543e-6 },  { 2, 8192, 32, 64, 1852e-6, 5163e-6 },
    { 32, 512, 16, 128, 193e-6, 574e-6 }, { 8, 2048, 16, 128, 482e-6, 1402e-6 }, { 2, 8192, 16, 128, 1703e-6, 4684e-6 },
};

static void check_measured(const rp_cost_table *t, const rp_op_meta *m, rp_pass pass, double measured)
{
    double by = rp__cost_seconds(t, m, pass) / measured;

    if (by < 0.85 || by > 1.15) fail_msg("%s, %s: %.2f times what was measured", m->op->name, rp_meta_str(&m->in[0]), by);
}

static void an_h100_takes_what_one_took(void **state)
{
    static const rp_attr_attention attr = { 0.125f, 0, true, 0, 0 };
    rp_ctx *ctx      = shapes_ctx();
    rp_cost_table *t = device(ctx, "h100");

    (void)state;
    for (int i = 0; i < RP_COUNT(products); i++) {
        rp_op_meta m = product(ctx, RP_BF16, products[i].rows, products[i].k, products[i].n);
        check_measured(t, &m, RP_FORWARD, products[i].forward);
        check_measured(t, &m, RP_BACKWARD, products[i].backward);
    }
    for (int i = 0; i < RP_COUNT(attentions); i++) {
        rp_meta x = rp_meta_make(RP_BF16, 4, (int64_t[]){ attentions[i].batch, attentions[i].tokens, attentions[i].heads, attentions[i].dim });
        rp_op_meta m;
        assert_true(call_on_shapes(ctx, &rp_op_attention, &attr, (rp_meta[]){ x, x, x }, 3, &m));
        check_measured(t, &m, RP_FORWARD, attentions[i].forward);
        check_measured(t, &m, RP_BACKWARD, attentions[i].backward);
    }
    rp__cost_table_free(t);
    test_ctx_free(ctx);
}

/* Each pair says the same in two ways. */
static const struct { const char *a, *b; } alike[] = {
    { "h100", "name=h100" },
    { "h100", " memory=80GB , h100 " },
    { "h100, memory=40GB", "memory=40000MB,name=h100" },
    { "name=mine, flops=989e12, bandwidth=3.35e12", "bandwidth=3350G,flops=989T,name=mine" },
    { "flops=1P, bandwidth=1T, flops_fp32=20T", "flops=1000T,bandwidth=1000G,flops_fp32=20000G" },
    { "h100, link=25GB/s, latency=10us", "h100,latency=10e-6,link=25e9" },
    { "h100", "h100, node=8, node_link=50GB/s, latency=2us" },
    { "flops=15T, bandwidth=1T", "flops=15T, bandwidth=1T, flops_fp32=1T" },
};

static void order_units_and_spaces_mean_nothing(void **state)
{
    rp_ctx *ctx = shapes_ctx();

    (void)state;
    for (int i = 0; i < RP_COUNT(alike); i++) {
        rp_cost_table *a = device(ctx, alike[i].a), *b = device(ctx, alike[i].b);
        if (rp__cost_hash(a) != rp__cost_hash(b)) fail_msg("'%s' is not '%s'", alike[i].a, alike[i].b);
        rp__cost_table_free(a);
        rp__cost_table_free(b);
    }
    test_ctx_free(ctx);
}

static void a_word_of_its_own_goes_before_the_data_sheet(void **state)
{
    rp_ctx *ctx = shapes_ctx();
    rp_cost_table *as_it_is = device(ctx, "a100-40gb"), *faster = device(ctx, "a100-40gb, flops=624T, offload=10e9");
    rp_op_meta m = product(ctx, RP_BF16, 4096, 4096, 4096);

    (void)state;
    assert_true(rp__cost_seconds(as_it_is, &m, RP_FORWARD) > 1.9 * rp__cost_seconds(faster, &m, RP_FORWARD));
    assert_true(rp__cost_memory(as_it_is) == rp__cost_memory(faster));
    assert_true(fabs(rp__cost_offload_bandwidth(faster, false) - 8e9) < 1);
    rp__cost_table_free(as_it_is);
    rp__cost_table_free(faster);
    test_ctx_free(ctx);
}

/* A call of an op that sends n bytes and does nothing else. */
static rp_cost sends(const rp_op_meta *m, rp_pass pass)
{
    return (rp_cost){ .comm_bytes = pass == RP_FORWARD ? rp_meta_bytes(&m->in[0]) : 0 };
}
static rp_status as_it_comes(rp_op_meta *m)
{
    m->out[0] = m->in[0];
    return RP_OK;
}
static void nowhere(const rp_op_call *c) { (void)c; }
static const rp_op sender = { .name = "sender", .n_in = 1, .n_out = 1, .flags = RP_OP_COLLECTIVE, .shape = as_it_comes, .forward = nowhere,
                              .cost = sends };

static void check_link(const char *spec, double link, double latency)
{
    rp_ctx *ctx      = shapes_ctx();
    rp_cost_table *t = device(ctx, spec);
    rp_op_meta m     = pointwise(ctx, &sender, NULL, RP_F32, 1024, 1024);
    double took      = rp__cost_seconds(t, &m, RP_FORWARD), wanted = latency + 4 * 1024 * 1024 / link;

    if (fabs(took - wanted) > 1e-9 * wanted) fail_msg("'%s': %g s, not %g", spec, took, wanted);
    assert_true(took == rp__cost_comm_seconds(t, &m, RP_FORWARD));
    assert_int_equal(rp__cost_comm_bytes(&m, RP_FORWARD), 4 * 1024 * 1024);
    assert_int_equal(rp__cost_comm_bytes(&m, RP_BACKWARD), 0);
    assert_true(rp__cost_link(t) == link);
    rp__cost_table_free(t);
    test_ctx_free(ctx);
}

static void what_is_sent_to_other_ranks_goes_by_the_link(void **state)
{
    (void)state;
    check_link("h100", 0.8 * 450e9, 2e-6);
    check_link("h100, link=25GB/s", 0.8 * 25e9, 2e-6);
    check_link("h100, link=25GBps, latency=3us", 0.8 * 25e9, 3e-6);
    check_link("h100, link=25e9, latency=0.5ms", 0.8 * 25e9, 0.5e-3);
    check_link("flops=1T, bandwidth=1T, offload=32G", 0.8 * 32e9, 2e-6);
    check_link("flops=1T, bandwidth=1T, offload=32G, link=64G, latency=0", 0.8 * 64e9, 0);
}

/* Rank 0 of some, in groups that hold copies; a gather of so many bytes. */
static double gather_seconds(const char *spec, int ranks, int copies, int64_t bytes, int64_t *sent)
{
    rp_ctx *ctx = shapes_ctx();
    rp_op_meta m;

    assert_ok(ctx, rp__ranks_pretend(ctx, 0, ranks, copies));
    rp_cost_table *t    = device(ctx, spec);
    int64_t n           = bytes / 2;
    rp_attr_whole whole = { 1, { n }, 0 };
    rp_meta slice       = rp_meta_1d(RP_BF16, rp__slice_here(ctx, n).room);
    rp_tensor *in;
    assert_ok(ctx, rp_tensor_new(ctx, &slice, RP_MEM_PARAM, &in));
    assert_ok(ctx, rp__op_prepare(ctx, &rp_op_all_gather, &whole, &in, 1, true, (bool[]){ true }, &m));
    double seconds = rp__cost_comm_seconds(t, &m, RP_FORWARD);
    *sent          = rp__cost_comm_bytes(&m, RP_FORWARD);
    rp_tensor_unref(in);
    rp__cost_table_free(t);
    rp__ranks_leave(ctx);
    test_ctx_free(ctx);
    return seconds;
}

/* A message to each other rank, and the bytes over the slowest link between two of the group. */
static void a_gather_goes_by_the_slowest_link_that_its_group_crosses(void **state)
{
    static const char spec[] = "flops=1T, bandwidth=1T, link=100GB/s, node=8, node_link=10GB/s, latency=3us";
    static const struct { int ranks, copies; double link; } at[] = {
        { 8, 1, 80e9 }, { 9, 1, 8e9 }, { 16, 1, 8e9 }, { 16, 2, 80e9 }, { 64, 8, 80e9 }, { 64, 16, 80e9 }, { 64, 4, 8e9 }, { 48, 8, 8e9 },
    };

    (void)state;
    for (int i = 0; i < RP_COUNT(at); i++) {
        int64_t sent;
        int others     = at[i].ranks / at[i].copies - 1;
        double seconds = gather_seconds(spec, at[i].ranks, at[i].copies, 1 << 26, &sent), wanted = others * 3e-6 + (double)sent / at[i].link;
        assert_true(sent >= (int64_t)(1 << 26) / (others + 1) * others);
        if (fabs(seconds - wanted) > 1e-9 * wanted) fail_msg("%d ranks, %d copies: %g s, not %g", at[i].ranks, at[i].copies, seconds, wanted);
    }
}

static void a_link_that_is_not_said_is_unknown_and_a_disk_is_guessed_to_be_slow(void **state)
{
    rp_ctx *ctx      = shapes_ctx();
    rp_cost_table *t = device(ctx, "flops=1T, bandwidth=1T");

    (void)state;
    assert_string_equal(rp__cost_machine(t), "device");
    assert_int_equal(rp__cost_memory(t), 0);
    assert_true(rp__cost_offload_guessed(t, false) && rp__cost_offload_guessed(t, true));
    assert_true(rp__cost_offload_bandwidth(t, false) > 100e6 && rp__cost_offload_bandwidth(t, false) <= 1e9);
    assert_true(rp__cost_link(t) == 0);
    rp__cost_table_free(t);
    test_ctx_free(ctx);
}

static const struct { const char *spec, *why; } refused[] = {
    { "h10", "unknown device 'h10' (did you mean 'h100'?); another one is described as name=h10, memory=80GB, flops=989e12, "
             "bandwidth=3.35e12" },
    { "tpu", "unknown device 'tpu'; another one is described as name=tpu, memory=80GB, flops=989e12, bandwidth=3.35e12" },
    { "name=mine, flops=1e12", "device 'name=mine, flops=1e12': bandwidth is missing" },
    { "bandwidth=1e12", "device 'bandwidth=1e12': flops is missing" },
    { "memory=80GB", "device 'memory=80GB': flops is missing" },
    { "h100, memry=80GB", "device 'h100, memry=80GB': unknown key 'memry' (did you mean 'memory'?)" },
    { "h100, colour=green", "device 'h100, colour=green': unknown key 'colour'" },
    { "h100, memory=lots", "device 'h100, memory=lots': memory is 'lots', expected a size above 0 such as 80GB" },
    { "h100, memory=0", "device 'h100, memory=0': memory is '0', expected a size above 0 such as 80GB" },
    { "h100, flops=fast", "device 'h100, flops=fast': flops is 'fast', expected a number above 0 such as 989e12 or 989T" },
    { "h100, flops=-1", "device 'h100, flops=-1': flops is '-1', expected a number above 0 such as 989e12 or 989T" },
    { "h100, bandwidth=0T", "device 'h100, bandwidth=0T': bandwidth is '0T', expected a number above 0 such as 989e12 or 989T" },
    { "h100, bandwidth=inf", "device 'h100, bandwidth=inf': bandwidth is 'inf', expected a number above 0 such as 989e12 or 989T" },
    { "h100, offload=1e12T", "device 'h100, offload=1e12T': offload is '1e12T', expected a number above 0 such as 989e12 or 989T" },
    { "h100, link=0", "device 'h100, link=0': link is '0', expected a number above 0 such as 989e12 or 989T" },
    { "h100, link=B/s", "device 'h100, link=B/s': link is 'B/s', expected a number above 0 such as 989e12 or 989T" },
    { "h100, node=0", "device 'h100, node=0': node is '0', expected a number of ranks such as 8" },
    { "h100, node=many", "device 'h100, node=many': node is 'many', expected a number of ranks such as 8" },
    { "h100, node_link=0", "device 'h100, node_link=0': node_link is '0', expected a number above 0 such as 989e12 or 989T" },
    { "flops=1T, bandwidth=1T, node=8", "device 'flops=1T, bandwidth=1T, node=8': node_link is missing" },
    { "flops=1T, bandwidth=1T, node_link=1G", "device 'flops=1T, bandwidth=1T, node_link=1G': node is missing" },
    { "h100, latency=soon", "device 'h100, latency=soon': latency is 'soon', expected a time such as 10us" },
    { "h100, latency=-1us", "device 'h100, latency=-1us': latency is '-1us', expected a time such as 10us" },
    { "h100, h200", "device 'h100, h200': name is given twice" },
    { "h100, flops=", "device 'h100, flops=': flops has no value one can use" },
    { "", "device '': a part is empty" },
    { "h100,", "device 'h100,': a part is empty" },
};

static void what_is_wrong_is_reported_in_one_sentence(void **state)
{
    rp_ctx *ctx      = shapes_ctx();
    rp_cost_table *t = NULL;

    (void)state;
    for (int i = 0; i < RP_COUNT(refused); i++) {
        assert_int_equal(rp__cost_table_device(ctx, refused[i].spec, &t), RP_ERR_CONFIG);
        assert_string_equal(rp_error(ctx), refused[i].why);
        assert_null(t);
    }
    test_ctx_free(ctx);
}

static void no_memory_is_reported(void **state)
{
    rp_ctx *ctx      = shapes_ctx();
    rp_cost_table *t = NULL;

    (void)state;
    until_no_fault_fires(ctx, rp__cost_table_device(ctx, "h100", &t), assert_null(t));
    rp__cost_table_free(t);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_alone_is_a_data_sheet),
        cmocka_unit_test(memory_bound_calls_go_by_bandwidth),
        cmocka_unit_test(an_h100_takes_what_one_took),
        cmocka_unit_test(order_units_and_spaces_mean_nothing),
        cmocka_unit_test(a_word_of_its_own_goes_before_the_data_sheet),
        cmocka_unit_test(what_is_sent_to_other_ranks_goes_by_the_link),
        cmocka_unit_test(a_gather_goes_by_the_slowest_link_that_its_group_crosses),
        cmocka_unit_test(a_link_that_is_not_said_is_unknown_and_a_disk_is_guessed_to_be_slow),
        cmocka_unit_test(what_is_wrong_is_reported_in_one_sentence),
        cmocka_unit_test(no_memory_is_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
