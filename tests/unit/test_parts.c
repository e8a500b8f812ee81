/* Parts of a context: made with it, apart from each other, and closed in an order in which each finds what it stands on. */
/* ctest: device-free */
#include "heap.h"
#include "ops/call.h"
#include "rp_test.h"

enum { N = 64 };

static void a_context_is_whole_or_an_error(void **state)
{
    (void)state;
    rp_ctx *none = (rp_ctx *)state, *ctx = none;
    int failed   = 0;

    for (int64_t k = 1; HEAP_IS_OURS && ctx == none; k++) {
        int64_t live     = heap_live;
        heap_countdown   = k;
        rp_status status = rp_ctx_new(&(rp_ctx_options){ .threads = 1 }, &ctx);
        heap_countdown   = 0;
        assert_int_equal(status, ctx == none ? RP_ERR_MEMORY : RP_OK);
        if (ctx == none) assert_int_equal(heap_live, live);
        failed += ctx == none;
    }
    if (ctx != none) rp_ctx_free(ctx);
    assert_true(!HEAP_IS_OURS || failed > 0);
}

static void parts_lie_apart_and_aligned(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(NULL);

    for (int i = 0; i < RP_PARTS; i++) {
        const char *begin = i ? ctx->part[i - 1] : (char *)(ctx + 1) - 1;
        assert_true((const char *)ctx->part[i] > begin);
        assert_int_equal((uintptr_t)ctx->part[i] % _Alignof(max_align_t), 0);
    }
    assert_null(rp__tensor_ctx(ctx)->movable);
    assert_int_equal(rp__ops_ctx(ctx)->n_own, 0);
    rp_ctx_free(ctx);
}

/* The record has values in memory and away, its calls point to an op that the context owns, and a policy decided. */
static void a_context_can_be_freed_with_all_of_its_parts_in_use(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .threads = 1 });
    rp_op own = rp_op_gelu;
    rp_meta m = rp_meta_1d(RP_F32, N);
    rp_tensor *x, *y, *z;
    rp_policy *policy;
    rp_mem mem;
    int device;

    own.name = "mine";
    assert_ok(ctx, rp_op_register(ctx, &own));
    assert_ok(ctx, rp_set_offload(ctx, &(rp_offload_options){ .device = "sim" }));
    assert_ok(ctx, rp_policy_new(ctx, "all", &policy));
    assert_ok(ctx, rp_policy_rule(policy, NULL, "mine", RP_OFFLOAD));
    assert_ok(ctx, rp_set_policy(ctx, policy));
    assert_ok(ctx, rp_tensor_new(ctx, &m, RP_MEM_PARAM, &x));
    assert_ok(ctx, rp_tensor_require_grad(x, true));
    assert_ok(ctx, rp_apply(ctx, "mine", &(rp_attr_gelu){ 0 }, &x, 1, &y));
    assert_ok(ctx, rp_apply(ctx, "mine", &(rp_attr_gelu){ 0 }, &y, 1, &z));
    rp_tensor_unref(y);
    rp_tensor_unref(z);
    rp_tensor_unref(x);
    assert_ok(ctx, rp__device_open(ctx, "sim", &device));
    rp_mem_read(ctx, device, false, &mem);
    assert_true(mem.live_bytes > 0);
    assert_ok(ctx, rp_set_policy(ctx, NULL));
    rp_policy_free(policy);
    rp_ctx_free(ctx);                   /* tests/heap.h: no block is left */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_context_is_whole_or_an_error), cmocka_unit_test(parts_lie_apart_and_aligned),
        cmocka_unit_test(a_context_can_be_freed_with_all_of_its_parts_in_use),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
