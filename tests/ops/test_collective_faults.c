/* Claims about ops that ranks make together where the library between them fails: each collective that fails, as it starts or while it is waited
 * for, is an error of the call that made it, and nothing is left. This process is one rank of several that are only thought of: no bytes come. */
/* ctest: device-free */
#include "rp_test.h"

#include "comm/internal.h"
#include "ops/prefetch.h"
#include "ops/reduce_async.h"
#include "shard/ranks.h"

/* ---- a library that fails once ---- */

static int n_begun;                     /* collectives */
static int until_failure;               /* collectives; 0: none fails any more */
static bool fails_late, failed;

static bool refuse(char *why)
{
    snprintf(why, RP_ENGINE_WHY_CHARS, "the cable is cut");
    failed = true;
    return false;
}

static bool begin(bool *done, char *why)
{
    n_begun++;
    *done = !(until_failure && --until_failure == 0);
    return *done || fails_late || refuse(why);
}

static bool failing_gather(const rp_engine_group *g, const void *mine, void *all, rp_engine_parts parts, int elem_bytes, rp_engine_request *request,
                           bool *done, char *why)
{
    (void)request;
    memmove((char *)all + (int64_t)parts.first[g->rank] * elem_bytes, mine, (size_t)parts.count[g->rank] * (size_t)elem_bytes);
    return begin(done, why);
}

static bool failing_exchange(const rp_engine_group *g, const void *from, rp_engine_parts send, void *into, rp_engine_parts receive, int elem_bytes,
                             rp_engine_request *request, bool *done, char *why)
{
    (void)g, (void)from, (void)send, (void)into, (void)receive, (void)elem_bytes, (void)request;
    return begin(done, why);
}

static bool failing_test(rp_engine_request *request, bool *done, char *why)
{
    (void)request, (void)done;
    return refuse(why);
}

/* ---- calls ---- */

/* What a call is given is there: no allocation of these fails. */
static rp_tensor *zeros(rp_ctx *ctx, const rp_meta *m)
{
    int64_t paused = ctx->fault_countdown;
    rp_tensor *t;

    ctx->fault_countdown = 0;
    assert_ok(ctx, rp_tensor_new(ctx, m, RP_MEM_TEMP, &t));
    ctx->fault_countdown = paused;
    test_fill(t, 0);
    return t;
}

/* An op forward and, if `grads`, backward. Outputs are given back if `out` takes them. */
static rp_status call(rp_ctx *ctx, const rp_op *op, const void *attr, rp_tensor *const *in, int n_in, bool grads, rp_tensor **out)
{
    bool wants[RP_MAX_IN] = { true, true };
    rp_tensor *made = NULL, *slot[RP_MAX_SLOT] = { NULL }, *dy = NULL, *dx[2] = { NULL };
    rp_op_meta m;

    RP_TRY(rp__op_prepare(ctx, op, attr, in, n_in, true, wants, &m));
    rp_status status = rp__op_forward(&m, (rp_op_stream){ 0 }, false, in, &made, slot);
    if (status != RP_OK) assert_null(made);
    if (status == RP_OK && grads) {
        rp_op_call back = { .meta = &m, .out = { made } };
        back.grad_out[0] = dy = zeros(ctx, &made->m);
        for (int i = 0; i < n_in; i++) back.in[i] = in[i];
        for (int i = 0; i < n_in && i < 2; i++)
            if (m.in_grad[i]) back.grad_in[i] = dx[i] = zeros(ctx, &in[i]->m);
        for (int i = 0; i < m.n_slot; i++) back.slot[i] = slot[i];
        status = rp__op_backward(&back);
        if (status == RP_OK) status = rp__reduce_async_settle(ctx, NULL);
        else rp__reduce_async_drop(ctx);
    }
    for (int i = 0; i < RP_MAX_SLOT; i++) rp_tensor_unref(slot[i]);
    for (int i = 0; i < 2; i++) rp_tensor_unref(dx[i]);
    rp_tensor_unref(dy);
    if (out && status == RP_OK) *out = made;
    else rp_tensor_unref(made);
    return status;
}

static rp_tensor *slice_of(rp_ctx *ctx, int64_t n)
{
    rp_meta m = rp_meta_1d(RP_F32, rp__slice_of(n, rp__comm_rank(rp__shards(ctx)), rp__comm_ranks(rp__shards(ctx))).room);

    return zeros(ctx, &m);
}

static rp_status gathers(rp_ctx *ctx)
{
    rp_attr_whole whole = { .ndim = 1, .dim = { 70001 } };
    rp_tensor *slice    = slice_of(ctx, 70001);
    rp_status status    = call(ctx, &rp_op_all_gather, &whole, &slice, 1, true, NULL);

    rp_tensor_unref(slice);
    return status;
}

/* Sums that are on their way while others are begun. */
static rp_status gathers_with_sums_behind(rp_ctx *ctx)
{
    rp_status status = rp__reduce_async_open(ctx, 1 << 20);
    if (status == RP_OK) status = gathers(ctx);
    for (int i = 0; i < 2 && status == RP_OK; i++) status = gathers(ctx);
    rp__reduce_async_close(ctx);
    return status;
}

static rp_status scatters(rp_ctx *ctx)
{
    rp_meta m        = rp_meta_2d(RP_F32, 29, 37);
    rp_tensor *x     = zeros(ctx, &m);
    rp_status status = call(ctx, &rp_op_reduce_scatter, NULL, &x, 1, true, NULL);

    rp_tensor_unref(x);
    return status;
}

enum { ROWS = 24, WIDTH = 40, CLASSES = 333 };

/* The weights of the head come in blocks, and the sums of their gradients go in blocks. */
static rp_status head_in_blocks(rp_ctx *ctx)
{
    rp_attr_cross_entropy how = { 1.0f / ROWS, -1, 5, 0, CLASSES, 0.7, 0 };
    rp_meta xm = rp_meta_2d(RP_F32, ROWS, WIDTH), lm = rp_meta_1d(RP_I32, ROWS);
    rp_tensor *in[3] = { zeros(ctx, &xm), slice_of(ctx, CLASSES * WIDTH), zeros(ctx, &lm) };
    rp_status status = call(ctx, &rp_op_linear_cross_entropy, &how, in, 3, true, NULL);

    for (int i = 0; i < 3; i++) rp_tensor_unref(in[i]);
    return status;
}

static rp_status parts_that_stay(rp_ctx *ctx)
{
    rp_attr_whole whole = { .ndim = 1, .dim = { 70001 } };
    rp_tensor *slice    = slice_of(ctx, 70001), *part = NULL;
    rp_status status    = call(ctx, &rp_op_all_gather_far, &whole, &slice, 1, true, &part);

    if (status == RP_OK) status = call(ctx, &rp_op_all_gather, &whole, (rp_tensor *[]){ slice, part }, 2, false, NULL);
    rp_tensor_unref(part);
    rp_tensor_unref(slice);
    return status;
}

enum { WEIGHTS = 5, PASSES = 3 };
static const int64_t elems[WEIGHTS] = { 1000, 2000, 3000, 4000, 50000 };         /* the last one never fits the buffer */

static rp_status passes_asked_for_ahead(rp_ctx *ctx)
{
    rp_tensor *slice[WEIGHTS];

    for (int i = 0; i < WEIGHTS; i++) slice[i] = slice_of(ctx, elems[i]);
    rp_status status = rp__prefetch_open(ctx, 1 << 15);
    for (int pass = 0; pass < PASSES && status == RP_OK; pass++) {
        status = rp__prefetch_pass(ctx);
        for (int i = 0; i < WEIGHTS && status == RP_OK; i++) {
            rp_attr_whole whole = { .ndim = 1, .dim = { elems[i] } };
            status              = call(ctx, &rp_op_all_gather, &whole, &slice[i], 1, false, NULL);
        }
    }
    rp__prefetch_close(ctx);
    for (int i = 0; i < WEIGHTS; i++) rp_tensor_unref(slice[i]);
    return status;
}

static rp_status small_things(rp_ctx *ctx)
{
    int32_t value = 3, all[4];
    double sum    = 1;

    RP_TRY(rp__comm_share(ctx, rp__world(ctx), &value, sizeof value, all, "a number"));
    RP_TRY(rp__comm_broadcast(ctx, rp__world(ctx), 0, &value, sizeof value, "a number"));
    RP_TRY(rp__comm_any(ctx, rp__world(ctx), &value, "a number"));
    RP_TRY(rp__ranks_sum(ctx, rp__world(ctx), &sum, "a sum"));
    return rp__comm_barrier(ctx, rp__world(ctx), "the end");
}

/* This rank has failed, and all are reported. */
static rp_status an_agreement(rp_ctx *ctx)
{
    rp_status status = rp__comm_agree(ctx, rp__world(ctx), rp_fail(ctx, RP_ERR_IO, "no such file"));

    if (status == RP_ERR_IO) assert_non_null(strstr(rp_error(ctx), "no such file"));
    return status == RP_ERR_IO ? RP_OK : status;
}

/* ---- sweeps ---- */

static rp_comm *join(rp_ctx *ctx, rp_engine *engine, int copies)
{
    rp_comm *world;

    *engine          = rp__engine_shapes;
    engine->gather   = failing_gather;
    engine->exchange = failing_exchange;
    engine->test     = failing_test;
    until_failure    = 0;
    assert_ok(ctx, rp__comm_shapes(ctx, 1, 4, &world));
    world->engine = engine;
    assert_ok(ctx, rp__ranks_join(ctx, world, copies));
    return world;
}

static void leave(rp_ctx *ctx, rp_comm *world)
{
    rp__ranks_leave(ctx);
    rp__comm_close(world);
    test_ctx_free(ctx);
}

/* The ranks are out of step: no library is called, lest it wait for those who do not come. */
static void nothing_is_begun_any_more(rp_ctx *ctx)
{
    rp_comm_part part[4] = { { 0, 0 } };
    rp_comm_request r    = { 0 };
    int before           = n_begun;
    char mine = 1, all[4];

    assert_int_equal(rp__comm_gather(ctx, rp__world(ctx), &mine, all, part, 1, &r), RP_ERR_BACKEND);
    assert_string_equal(rp_error(ctx), "the ranks of this job are out of step");
    assert_int_equal(rp__comm_exchange(ctx, rp__world(ctx), &mine, part, all, part, 1, &r), RP_ERR_BACKEND);
    assert_int_equal(rp__comm_share(ctx, rp__world(ctx), &mine, 1, all, "a byte"), RP_ERR_BACKEND);
    assert_int_equal(n_begun, before);
    assert_int_equal(r.id, 0);
}

/* The k-th collective of `run` fails. False: it has fewer. */
static bool fails_at(int k, bool late, int copies, int stays, rp_status (*run)(rp_ctx *))
{
    rp_engine engine;
    rp_ctx *ctx    = test_ctx(&(rp_ctx_options){ .threads = 1 });
    rp_comm *world = join(ctx, &engine, copies);

    fails_late = late;
    failed     = false;
    if (stays) assert_ok(ctx, rp__ranks_stay(ctx, stays));
    until_failure    = k;
    rp_status status = run(ctx);
    bool there       = until_failure == 0;
    if (status != (there ? RP_ERR_BACKEND : RP_OK)) fail_msg("collective %d, %s: status %d", k, late ? "waited for" : "as it starts", (int)status);
    if (there) assert_non_null(strstr(rp_error(ctx), "the cable is cut"));
    assert_true(failed == there);
    if (there) nothing_is_begun_any_more(ctx);
    leave(ctx, world);
    return there;
}

static void sweep(int least, int copies, int stays, rp_status (*run)(rp_ctx *))
{
    for (int late = 0; late < 2; late++) {
        int k = 1;
        while (fails_at(k, late, copies, stays, run)) k++;
        assert_true(k > least);
    }
}

/* The k-th allocation of `run` fails. False: it has fewer. */
static bool runs_out_at(int64_t k, int copies, int stays, rp_status (*run)(rp_ctx *))
{
    rp_engine engine;
    rp_ctx *ctx    = test_ctx(&(rp_ctx_options){ .threads = 1 });
    rp_comm *world = join(ctx, &engine, copies);

    if (stays) assert_ok(ctx, rp__ranks_stay(ctx, stays));
    ctx->fault_countdown = k;
    rp_status status     = run(ctx);
    bool there           = ctx->fault_countdown == 0;
    ctx->fault_countdown = 0;
    if (status != (there ? RP_ERR_MEMORY : RP_OK)) fail_msg("allocation %d: status %d", (int)k, (int)status);
    leave(ctx, world);
    return there;
}

static void running_out_of_memory_is_an_error_of_the_call(void **state)
{
    static const struct { rp_status (*run)(rp_ctx *); int copies, stays, least; } each[] = {
        { gathers, 1, 0, 1 }, { gathers, 2, 0, 1 }, { gathers_with_sums_behind, 2, 0, 2 }, { scatters, 1, 0, 1 }, { head_in_blocks, 1, 0, 1 },
        { parts_that_stay, 1, 2, 1 }, { passes_asked_for_ahead, 1, 0, 4 }, { small_things, 1, 0, 0 }, { an_agreement, 1, 0, 0 },
    };

    (void)state;
    for (int i = 0; i < RP_COUNT(each); i++) {
        int64_t k = 1;
        while (runs_out_at(k, each[i].copies, each[i].stays, each[i].run)) k++;
        assert_true(k > each[i].least);
    }
}

static void each_collective_of_a_gather_and_of_its_gradient_may_fail(void **state)
{
    (void)state;
    sweep(2, 1, 0, gathers);
    sweep(3, 2, 0, gathers);            /* copies are summed over, too */
    sweep(6, 1, 0, gathers_with_sums_behind);
    sweep(9, 2, 0, gathers_with_sums_behind);
}

static void each_collective_of_a_scattered_sum_may_fail(void **state)
{
    (void)state;
    sweep(2, 1, 0, scatters);
}

static void each_block_of_a_head_may_fail(void **state)
{
    (void)state;
    sweep(4, 1, 0, head_in_blocks);
}

static void each_collective_of_parts_that_stay_may_fail(void **state)
{
    (void)state;
    sweep(3, 1, 2, parts_that_stay);
}

static void each_gather_that_is_asked_for_ahead_may_fail(void **state)
{
    (void)state;
    sweep(WEIGHTS * PASSES, 1, 0, passes_asked_for_ahead);
}

static void a_pass_asks_for_what_it_gathers_and_for_no_more(void **state)
{
    rp_engine engine;
    rp_ctx *ctx    = test_ctx(&(rp_ctx_options){ .threads = 1 });
    rp_comm *world = join(ctx, &engine, 1);
    rp_tensor *slice[WEIGHTS];

    (void)state;
    for (int i = 0; i < WEIGHTS; i++) slice[i] = slice_of(ctx, elems[i]);
    assert_ok(ctx, rp__prefetch_open(ctx, 1 << 15));
    for (int pass = 0; pass < 3 * PASSES; pass++) {
        n_begun = 0;
        assert_ok(ctx, rp__prefetch_pass(ctx));
        for (int i = 0; i < WEIGHTS; i++) {
            rp_attr_whole whole = { .ndim = 1, .dim = { elems[i] } };
            assert_ok(ctx, call(ctx, &rp_op_all_gather, &whole, &slice[i], 1, false, NULL));
            assert_true(n_begun >= i + 1 + (pass && i < WEIGHTS - 2));         /* from the second pass on the next is on its way */
        }
        assert_int_equal(n_begun, WEIGHTS);
    }
    rp__prefetch_close(ctx);
    for (int i = 0; i < WEIGHTS; i++) rp_tensor_unref(slice[i]);
    leave(ctx, world);
}

static void each_small_thing_may_fail(void **state)
{
    (void)state;
    sweep(5, 1, 0, small_things);
    sweep(1, 1, 0, an_agreement);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(running_out_of_memory_is_an_error_of_the_call),
        cmocka_unit_test(each_collective_of_a_gather_and_of_its_gradient_may_fail),
        cmocka_unit_test(each_collective_of_a_scattered_sum_may_fail),
        cmocka_unit_test(each_block_of_a_head_may_fail),
        cmocka_unit_test(each_collective_of_parts_that_stay_may_fail),
        cmocka_unit_test(each_gather_that_is_asked_for_ahead_may_fail),
        cmocka_unit_test(a_pass_asks_for_what_it_gathers_and_for_no_more),
        cmocka_unit_test(each_small_thing_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
