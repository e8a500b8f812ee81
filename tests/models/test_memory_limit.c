/* Claims about language models under a memory limit without a plan: the same loss and gradients, and what a rehearsal foretells. */
/* ctest: device-free */
#include "sized_model.h"

#define SIZES .batch = 2, .length = 128, .layers = 8, .hidden = 128, .heads = 4, .head_dim = 32, .vocab = 512

typedef struct { rp_status status; uint64_t bits; rp_mem mem; rp_tape_stats work; int64_t own_bytes; } outcome;

static uint64_t hash_of(const rp_tensor *t, uint64_t h) { return t && t->storage->data ? rp__hash(test_bytes(t), (size_t)rp_meta_bytes(&t->m), h) : h; }

/* Two steps whose gradients add up: in the second those of the first are there from the beginning. */
static void run_model(const sizes *s, const way *w, int64_t limit_bytes, bool shapes_only, outcome *o)
{
    rp_ctx *ctx     = test_ctx(&(rp_ctx_options){ .memory_limit_bytes = limit_bytes, .threads = 2, .shapes_only = shapes_only });
    sized_model m   = sized_model_new(ctx, s);
    rp_tensor *loss = NULL;
    way_in_use u;

    way_begin(ctx, sized_root(&m), w, &u);
    rp_mem_read(ctx, 0, false, &o->mem);
    *o = (outcome){ .bits = RP_HASH_START, .own_bytes = o->mem.live_bytes };
    for (int step = 0; step < 2 && o->status == RP_OK; step++) {
        o->status = sized_loss(&m, step, 0, &loss);
        if (o->status != RP_OK) break;
        o->bits   = hash_of(loss, o->bits);
        o->status = rp__backward(ctx, loss);
        rp_tensor_unref(loss);
    }
    rp__tape_reset(ctx);
    for (int i = 0; i < rp__model_n_params(m.model); i++) o->bits = hash_of(rp__model_param(m.model, i)->tensor->grad, o->bits);
    sized_drop_grads(&m);
    rp_mem_read(ctx, 0, false, &o->mem);
    rp__tape_stats(ctx, &o->work);
    assert_int_equal(o->mem.live_bytes, o->own_bytes);
    way_end(&u);
    sized_model_free(&m);
    test_ctx_free(ctx);
}

static const sizes llama = { SIZES, .kv_heads = 2, .mlp = 344, .dtype = RP_F32 };
static const sizes gpt2  = { SIZES, .mlp = 512, .gpt2 = true, .dropout = 0.1, .dtype = RP_BF16 };
static const way none    = { "none", .mode = RP_MODE_NONE };

static sizes in_time(sizes s)
{
    if (!test_takes_samples()) return s;
    s.layers = 4;
    s.hidden /= 2;
    s.head_dim /= 2;
    s.mlp /= 2;
    return s;
}

static void check_model(const char *name, const sizes *of)
{
    outcome whole, got, rehearsed;
    sizes sized = in_time(*of), *s = &sized;
    int least   = test_takes_samples() ? 70 : 60;     /* percent: of fewer layers a greater part is parameters */

    run_model(s, &none, 0, false, &whole);
    assert_int_equal(whole.status, RP_OK);
    for (int percent = 90; percent >= least; percent -= 15) {
        int64_t limit = whole.mem.reserved_bytes * percent / 100;
        run_model(s, &none, limit, false, &got);
        assert_int_equal(got.status, RP_OK);
        assert_true(got.bits == whole.bits);
        assert_true(got.mem.reserved_bytes <= limit && got.work.n_evicted > 0);
        run_model(s, &none, limit, true, &rehearsed);
        assert_memory_equal(&rehearsed.mem, &got.mem, sizeof got.mem);
        assert_memory_equal(&rehearsed.work, &got.work, sizeof got.work);
        double again = 100.0 * (double)got.work.recompute_flops / (double)got.work.step_flops;
        print_message("%s in %d %% of %" PRId64 " bytes: %" PRId64 " values dropped, %.1f %% of the FLOPs again, %" PRId64 " bytes moved\n", name, percent,
                      whole.mem.reserved_bytes, got.work.n_evicted, again, got.work.moved_bytes);
        assert_true(again < 20);
    }
}

static void a_llama_has_the_same_gradients_in_60_percent_of_its_memory(void **state)
{
    (void)state;
    check_model("llama", &llama);
}

static void a_gpt2_with_dropout_has_the_same_gradients_in_60_percent_of_its_memory(void **state)
{
    (void)state;
    check_model("gpt2", &gpt2);
}

/* Regions of its own and a limit below what they need. */
static void checkpointed_blocks_keep_to_a_limit_as_well(void **state)
{
    (void)state;
    static const way ways[] = { { "every 2nd", .mode = RP_MODE_SELECTIVE_LAYER, .every = 2 },
                                { "rules", .mode = RP_MODE_NONE, .rules = "[{ op: swiglu, fate: recompute }, { path: '*.attn', fate: prefer_recompute }]" } };
    outcome whole, got;
    sizes s = in_time(llama);

    for (int i = 0; i < RP_COUNT(ways); i++) {
        run_model(&s, &ways[i], 0, false, &whole);
        run_model(&s, &ways[i], whole.mem.reserved_bytes * 85 / 100, false, &got);
        assert_int_equal(got.status, RP_OK);
        assert_true(got.bits == whole.bits && got.work.n_evicted > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_llama_has_the_same_gradients_in_60_percent_of_its_memory),
        cmocka_unit_test(a_gpt2_with_dropout_has_the_same_gradients_in_60_percent_of_its_memory),
        cmocka_unit_test(checkpointed_blocks_keep_to_a_limit_as_well),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
