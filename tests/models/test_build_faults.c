/* Claims about making a model when memory runs out: whichever allocation fails, the status says so, and nothing of the model is left. */
#include "rp_test.h"

#include "golden_model.h"

/* One of each architecture and of each kind of layer: a masked head, experts, latent and windowed attention, biases, norms of queries. */
static const char *const names[] = { "bert",          "gpt2_dropout", "gemma3_text", "llama_bias", "mixtral_balanced", "qwen3_moe_mixed",
                                     "phi3_longrope", "olmo2",        "idefics3" };

static void each_failing_allocation_of_a_new_model_is_reported(void **state)
{
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .threads = 1 });
    rp_mem before, after;
    char path[512];

    (void)state;
    rp_mem_read(ctx, 0, false, &before);
    for (int i = 0; i < RP_COUNT(names); i++) {
        test_faults f = { 0 };
        snprintf(path, sizeof path, RP_SOURCE_DIR "/tests/golden/models/%s/config.json", names[i]);
        while (!f.over) {
            rp_model *m = NULL;
            test_fault_begin(&f, ctx);
            if (test_fault_end(&f, rp_model_new(ctx, path, NULL, &m))) assert_null(m);
            rp_model_free(m);
            rp_mem_read(ctx, 0, false, &after);
            assert_int_equal(after.live_bytes, before.live_bytes);
        }
        assert_true(f.failed > 50);
    }
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_failing_allocation_of_a_new_model_is_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
