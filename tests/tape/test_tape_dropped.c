/* Claims about what is dropped under a memory limit and what is not, each on a chain of ops whose bytes are counted in units. */
#include "tape/fates.h"

enum { ELEMS = 1024, UNIT = ELEMS * 4, MOST = 1000 };

/* A context in which so many units may be reserved, and the scalars; 0: no limit. */
static rp_ctx *limited(int units, bool shapes_only)
{
    return test_ctx(&(rp_ctx_options){ .memory_limit_bytes = units ? units * UNIT + 1024 : 0, .shapes_only = shapes_only });
}

static rp_status step_op(rp_ctx *ctx, const char *op, rp_tensor *x, rp_tensor *other, rp_tensor **y)
{
    const void *attr = !strcmp(op, "gelu") ? (const void *)&(rp_attr_gelu){ true } : !strcmp(op, "scale") ? (const void *)&(rp_attr_scale){ 0.5f } : NULL;

    return rp__apply(ctx, counted_op(op), attr, (rp_tensor *[]){ x, other }, other ? 2 : 1, y);
}

/* n calls, silu and gelu in turn. x is taken over; *x becomes the last. */
static rp_status extend(rp_ctx *ctx, rp_tensor **x, int n)
{
    for (int i = 0; i < n; i++) {
        rp_tensor *y = NULL;
        RP_TRY(step_op(ctx, i % 2 ? "gelu" : "silu", *x, NULL, &y));
        rp_tensor_unref(*x);
        *x = y;
    }
    return RP_OK;
}

static rp_status back_from(rp_ctx *ctx, rp_tensor **x)
{
    rp_tensor *loss  = NULL;
    rp_status status = try_sum_all(ctx, *x, &loss);

    rp_tensor_unref(*x);
    *x = NULL;
    if (status == RP_OK) status = rp_backward(ctx, loss);
    rp_tensor_unref(loss);
    return status;
}

typedef struct { rp_status status; tensor_bits grad; rp_tape_stats work; rp_mem mem; char error[512]; } outcome;

static void finish(rp_ctx *ctx, rp_status status, rp_tensor *leaf, outcome *o)
{
    rp_forget(ctx);
    *o = (outcome){ .status = status, .mem = ledger(ctx) };
    rp__tape_stats(ctx, &o->work);
    bits_of(leaf->grad, &o->grad);
    snprintf(o->error, sizeof o->error, "%s", rp_error(ctx));
    drop_grad(leaf);
    rp_tensor_unref(leaf);
    test_ctx_free(ctx);
}

static void run_chain(int n, int units, bool shapes_only, outcome *o)
{
    rp_ctx *ctx     = limited(units, shapes_only);
    rp_tensor *leaf = new_param(ctx, RP_F32, 0, ELEMS, 1, 1, "x"), *x = rp_tensor_ref(leaf);
    rp_status status = extend(ctx, &x, n);

    if (status == RP_OK) status = back_from(ctx, &x);
    rp_tensor_unref(x);
    finish(ctx, status, leaf, o);
    assert_true(!units || o->mem.reserved_bytes <= o->mem.limit_bytes);
}

/* ---- how far it goes ---- */

static void a_chain_of_100_runs_in_20_units_and_recomputes_itself_once(void **state)
{
    (void)state;
    static outcome whole, o;

    run_chain(100, 0, false, &whole);
    assert_in_range(whole.mem.peak_bytes, 100 * UNIT, 104 * UNIT);
    run_chain(100, 20, false, &o);
    assert_int_equal(o.status, RP_OK);
    assert_same_bits(&o.grad, &whole.grad, "in 20 units");
    print_message("100 calls in 20 units: %" PRId64 " replayed\n", o.work.n_replayed);
    assert_in_range(o.work.n_replayed, 70, 100);
    run_chain(100, 5, false, &o);
    assert_int_equal(o.status, RP_OK);
    assert_same_bits(&o.grad, &whole.grad, "in 5 units");
    run_chain(100, 3, false, &o);
    assert_int_equal(o.status, RP_ERR_MEMORY);
}

static void a_chain_of_1000_runs_in_two_roots_of_its_units(void **state)
{
    (void)state;
    static const struct { int units, most; } claims[] = { { 500, 520 }, { 63, 1000 }, { 32, 1800 }, { 16, 3000 } };
    static outcome o;

    for (int i = 0; i < RP_COUNT(claims); i++) {
        run_chain(MOST, claims[i].units, true, &o);
        assert_int_equal(o.status, RP_OK);
        print_message("1000 calls in %d units: %" PRId64 " replayed\n", claims[i].units, o.work.n_replayed);
        assert_in_range(o.work.n_replayed, claims[i].most / 2, claims[i].most);
    }
}

static rp_status chain_of_50(rp_ctx *ctx, void *user, rp_tensor *const *in, rp_tensor **out)
{
    rp_tensor *x     = rp_tensor_ref(in[0]);
    rp_status status = extend(ctx, &x, 50);

    (void)user;
    if (status == RP_OK) *out = x;
    else rp_tensor_unref(x);
    return status;
}

static void the_replay_of_a_region_keeps_to_the_limit_as_well(void **state)
{
    (void)state;
    static outcome o[2];

    for (int i = 0; i < 2; i++) {
        rp_ctx *ctx      = limited(i ? 10 : 0, false);
        rp_tensor *leaf  = new_param(ctx, RP_F32, 0, ELEMS, 1, 1, "x"), *y = NULL;
        rp_status status = rp_checkpoint(ctx, chain_of_50, NULL, &leaf, NULL, &y);
        if (status == RP_OK) status = back_from(ctx, &y);
        finish(ctx, status, leaf, &o[i]);
        assert_int_equal(o[i].status, RP_OK);
    }
    assert_in_range(o[0].mem.peak_bytes, 50 * UNIT, 54 * UNIT);
    assert_same_bits(&o[1].grad, &o[0].grad, "in 10 units");
    assert_true(o[1].work.n_evicted > 0);
}

/* ---- what is not dropped ---- */

static void run_with_table(const fates *table, int units, outcome *o)
{
    rp_ctx *ctx      = limited(units, false);
    rp_tensor *leaf  = new_param(ctx, RP_F32, 0, ELEMS, 1, 1, "x"), *x = rp_tensor_ref(leaf);
    fates f          = *table;

    fates_use(ctx, &f);
    counts_reset();
    rp_status status = extend(ctx, &x, 40);
    if (status == RP_OK) status = back_from(ctx, &x);
    rp_tensor_unref(x);
    finish(ctx, status, leaf, o);
}

static void what_a_must_keeps_is_not_dropped(void **state)
{
    (void)state;
    static outcome o;

    run_with_table(&(fates){ .op = { "gelu" }, .fate = { RP_KEEP | FATE_MUST } }, 30, &o);
    assert_int_equal(o.status, RP_OK);
    assert_int_equal(counts_of("gelu").recompute, 0);
    assert_in_range(counts_of("silu").recompute, 10, 20);
    run_with_table(&(fates){ .op = { "gelu" }, .fate = { RP_KEEP } }, 15, &o);
    assert_int_equal(o.status, RP_OK);
    assert_true(counts_of("gelu").recompute > 0);
    run_with_table(&(fates){ .op = { "*" }, .fate = { RP_KEEP | FATE_MUST } }, 30, &o);
    assert_int_equal(o.status, RP_ERR_MEMORY);
    assert_int_equal(o.work.n_evicted, 0);
}

static void what_somebody_holds_is_not_dropped_and_the_message_says_so(void **state)
{
    (void)state;
    rp_ctx *ctx         = limited(4, false);
    rp_tensor *y[5]     = { new_param(ctx, RP_F32, 0, ELEMS, 1, 1, "x") };
    const char *expected = "gelu needs 4096 bytes (4.00 KiB); 16384 bytes (16.00 KiB) are live and the memory limit is 17408 bytes (17.00 KiB); "
                           "0 bytes could be dropped";

    for (int i = 1; i < 4; i++) assert_ok(ctx, step_op(ctx, "gelu", y[i - 1], NULL, &y[i]));
    assert_int_equal(step_op(ctx, "gelu", y[3], NULL, &y[4]), RP_ERR_MEMORY);
    assert_string_equal(rp_error(ctx), expected);
    rp_tensor_unref(y[1]);
    assert_ok(ctx, step_op(ctx, "gelu", y[3], NULL, &y[4]));
    rp_forget(ctx);
    for (int i = 0; i < 5; i++) rp_tensor_unref(i == 1 ? NULL : y[i]);
    test_ctx_free(ctx);
}

static rp_status leave_open(void *self, int at, const rp_op_meta *meta, const rp_scope *scope, rp_verdict *verdict)
{
    (void)self, (void)at, (void)meta, (void)scope, (void)verdict;
    return RP_OK;
}

static void where_a_plan_is_followed_nothing_is_dropped(void **state)
{
    (void)state;
    rp_ctx *ctx     = limited(10, false);
    rp_tensor *leaf = new_param(ctx, RP_F32, 0, ELEMS, 1, 1, "x"), *x = rp_tensor_ref(leaf);
    outcome o;

    rp__tape_plan_by(ctx, &(rp_planner){ .fate = leave_open });
    rp_status status = extend(ctx, &x, 20);
    rp_tensor_unref(x);
    finish(ctx, status, leaf, &o);
    assert_int_equal(o.status, RP_ERR_MEMORY);
    assert_int_equal(o.work.n_evicted, 0);
}

/* y = x + constant is read by silu. A call can be rerun if its constant stays, as a frozen parameter does. */
static void run_with_constant(int units, rp_mem_class mem_class, outcome *o)
{
    rp_ctx *ctx      = limited(units, false);
    rp_tensor *leaf  = new_param(ctx, RP_F32, 0, ELEMS, 1, 1, "x"), *x = rp_tensor_ref(leaf), *y;
    rp_tensor *c     = new_tensor(ctx, RP_F32, 0, ELEMS, mem_class, 1, 2);
    rp_status status = RP_OK;

    for (int i = 0; i < 20 && status == RP_OK; i++) {
        status = step_op(ctx, "add", x, c, &y);
        if (status != RP_OK) break;
        rp_tensor_unref(x);
        x = y;
        status = extend(ctx, &x, 1);
    }
    if (status == RP_OK) status = back_from(ctx, &x);
    rp_tensor_unref(x);
    rp_forget(ctx);
    rp_tensor_unref(c);
    finish(ctx, status, leaf, o);
}

static void a_reader_of_a_frozen_parameter_can_be_recomputed(void **state)
{
    (void)state;
    static outcome whole, o;

    run_with_constant(0, RP_MEM_PARAM, &whole);
    run_with_constant(12, RP_MEM_PARAM, &o);
    assert_int_equal(o.status, RP_OK);
    assert_same_bits(&o.grad, &whole.grad, "in 12 units");
    run_with_constant(12, RP_MEM_TEMP, &o);      /* it might go any time: nothing is dropped that would read it */
    assert_int_equal(o.status, RP_ERR_MEMORY);
    assert_int_equal(o.work.n_evicted, 0);
}

/* ---- what is written in between ---- */

typedef enum { WRITE_NOTHING, WRITE_AFTER_FORWARD, WRITE_BETWEEN_READS, WRITE_WHAT_MAY_CHANGE } writing;

/* x + b, then a chain. b is a leaf whose contents no backward reads. What may change is read by the first silu, and its backward. */
static void run_with_bias(int units, writing w, outcome *o)
{
    rp_ctx *ctx        = limited(units, false);
    rp_tensor *leaf    = new_param(ctx, RP_F32, 0, ELEMS, 1, 1, "x"), *b = new_param(ctx, RP_F32, 0, ELEMS, 1, 2, "b"), *x, *y;
    double ones[ELEMS] = { 1 };
    fates f            = { .op = { "add" }, .fate = { RP_KEEP | FATE_MAY_CHANGE } };

    if (w == WRITE_WHAT_MAY_CHANGE) fates_use(ctx, &f);
    assert_ok(ctx, step_op(ctx, "add", leaf, b, &x));
    rp_tensor *first = rp_tensor_ref(w == WRITE_WHAT_MAY_CHANGE ? x : NULL);
    if (w == WRITE_BETWEEN_READS) {      /* scale reads x as it was written, and its backward does not look */
        assert_ok(ctx, rp_tensor_write(x, ones, ELEMS));
        assert_ok(ctx, step_op(ctx, "scale", x, NULL, &y));
        rp_tensor_unref(x);
        x = y;
    }
    rp_status status = extend(ctx, &x, 30);
    if (w == WRITE_AFTER_FORWARD) assert_ok(ctx, rp_tensor_write(b, ones, ELEMS));
    if (first) assert_ok(ctx, rp_tensor_write(first, ones, ELEMS));
    rp_tensor_unref(first);
    if (status == RP_OK) status = back_from(ctx, &x);
    rp_tensor_unref(x);
    rp_forget(ctx);
    drop_grad(b);
    rp_tensor_unref(b);
    finish(ctx, status, leaf, o);
}

static void a_leaf_written_before_its_reader_is_recomputed_is_named(void **state)
{
    (void)state;
    static outcome o;

    run_with_bias(0, WRITE_AFTER_FORWARD, &o);
    assert_int_equal(o.status, RP_OK);
    run_with_bias(8, WRITE_NOTHING, &o);
    assert_int_equal(o.status, RP_OK);
    run_with_bias(8, WRITE_AFTER_FORWARD, &o);
    assert_int_equal(o.status, RP_ERR_MUTATED);
    assert_non_null(strstr(o.error, "'b' (fp32 [1024]) was changed by rp_tensor_write between forward and backward; add of '' reads it"));
}

static void a_call_that_read_what_had_been_written_is_not_run_again(void **state)
{
    (void)state;
    static outcome whole, o;

    run_with_bias(0, WRITE_BETWEEN_READS, &whole);
    assert_int_equal(whole.status, RP_OK);
    counts_reset();
    run_with_bias(8, WRITE_BETWEEN_READS, &o);
    assert_int_equal(o.status, RP_OK);
    assert_same_bits(&o.grad, &whole.grad, "in 8 units");
    assert_true(o.work.n_evicted > 20);
    assert_int_equal(counts_of("scale").recompute, 0);
}

static void what_reads_a_value_that_may_change_is_not_run_again(void **state)
{
    (void)state;
    static outcome whole, o;

    run_with_bias(0, WRITE_WHAT_MAY_CHANGE, &whole);
    assert_int_equal(whole.status, RP_OK);
    run_with_bias(9, WRITE_WHAT_MAY_CHANGE, &o);
    assert_int_equal(o.status, RP_OK);
    assert_same_bits(&o.grad, &whole.grad, "in 9 units");
    assert_true(o.work.n_evicted > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chain_of_100_runs_in_20_units_and_recomputes_itself_once),
        cmocka_unit_test(a_chain_of_1000_runs_in_two_roots_of_its_units),
        cmocka_unit_test(the_replay_of_a_region_keeps_to_the_limit_as_well),
        cmocka_unit_test(what_a_must_keeps_is_not_dropped),
        cmocka_unit_test(what_somebody_holds_is_not_dropped_and_the_message_says_so),
        cmocka_unit_test(where_a_plan_is_followed_nothing_is_dropped),
        cmocka_unit_test(a_reader_of_a_frozen_parameter_can_be_recomputed),
        cmocka_unit_test(a_leaf_written_before_its_reader_is_recomputed_is_named),
        cmocka_unit_test(a_call_that_read_what_had_been_written_is_not_run_again),
        cmocka_unit_test(what_reads_a_value_that_may_change_is_not_run_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
