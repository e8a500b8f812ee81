/* Claims about runs, for each golden model's config: what is said of a step is what it takes, to the byte, and no way to checkpoint and no
 * budget changes a bit of what is learnt. */
/* ctest: thread-free cost=12 */
#include "drawn_run.h"

#include "golden_variants.h"

static const char *const variants[] = { GOLDEN_VARIANTS(GOLDEN_VARIANT_NAME) };

/* The golden's config.json is the model of the run. */
static void take_config(const char *variant)
{
    char path[1024], text[4096];

    snprintf(path, sizeof path, "%s/tests/golden/models/%s/config.json", RP_SOURCE_DIR, variant);
    FILE *f  = fopen(path, "rb");
    assert_non_null(f);
    size_t n = fread(text, 1, sizeof text - 1, f);
    assert_in_range(n, 1, sizeof text - 2);
    fclose(f);
    text[n] = 0;
    temp_text(&dir, "drawn.json", text);
}

static void settings_of(const char *variant, const char *dtype, settings *s)
{
    memset(s, 0, sizeof *s);
    set_drawn(s, "dtype=%s", dtype);
    set_drawn(s, "batch_size=2");
    set_drawn(s, "max_seq_len=24");
    set_drawn(s, "max_steps=2");
    if (!strncmp(variant, "bert", 4)) set_drawn(s, "loss.mask_token_id=4");
}

static uint64_t run_way(const char *variant, const char *dtype, const char *way, const char *out, int64_t budget)
{
    char name[64];
    rp_step_usage found;
    settings s;
    bool refused;

    settings_of(variant, dtype, &s);
    if (way) set_drawn(&s, "%s", way);
    snprintf(name, sizeof name, "%s-%s-%s", variant, dtype, out);
    uint64_t hash = run_drawn(&s, name, budget, &found, &refused);
    if (refused) fail_msg("%s, %s: %" PRId64 " bytes are refused", variant, dtype, budget);
    return hash;
}

static void no_way_to_checkpoint_changes_a_bit(void **state)
{
    static const char *const ways[] = {
        "enable_activation_checkpointing=true",
        "activation_checkpointing={mode: selective_layer, every: 2}",
        "activation_checkpointing={mode: selective_op}",
        "activation_checkpointing={conditions: [{path: '*.mlp'}, {module_type: {types: [Norm]}}]}",
        "activation_checkpointing={mode: full, conditions: [{path: '*.mlp'}, {path: '*.attn'}], verify: always}",
        "activation_checkpointing={rules: [{op: '*', fate: recompute}], verify: always}",
        "activation_checkpointing={rules: [{path: '*.attn.q_norm', fate: recompute}, {path: '*.post_*_norm', fate: recompute}]}",
    };

    (void)state;
    for (int v = 0; v < RP_COUNT(variants); v++) {
        const char *dtype = v % 2 ? "bf16" : "fp32";
        take_config(variants[v]);
        uint64_t plain = run_way(variants[v], dtype, NULL, "plain", 0);
        for (int w = 0; w < RP_COUNT(ways); w++) {
            char out[16];
            snprintf(out, sizeof out, "way%d", w);
            /* A path that matches nothing is an error, and not every family has such norms. */
            bool has_norms = strstr(variants[v], "gemma3");
            if (w == RP_COUNT(ways) - 1 && !has_norms) continue;
            if (test_takes_samples() && (v + w) % 3) continue;
            if (run_way(variants[v], dtype, ways[w], out, 0) != plain) fail_msg("%s, %s: other bits with %s", variants[v], dtype, ways[w]);
        }
    }
}

static void every_budget_is_kept_and_changes_no_bit(void **state)
{
    (void)state;
    for (int v = 0; v < RP_COUNT(variants); v++) {
        const char *dtype = v % 2 ? "fp32" : "bf16";
        rp_step_usage all;
        char name[64];
        settings s;
        bool refused;

        take_config(variants[v]);
        settings_of(variants[v], dtype, &s);
        snprintf(name, sizeof name, "%s-all", variants[v]);
        uint64_t expected = run_drawn(&s, name, 0, &all, &refused);
        int64_t least     = least_of(&s), most = all.memory.reserved_bytes;
        assert_true(least < most);
        for (int i = test_few_or(v % 3, 0); i < 3; i += test_few_or(3, 1)) {
            snprintf(name, sizeof name, "budget%d", i);
            if (run_way(variants[v], dtype, NULL, name, least + (most - least) * i / 3) != expected)
                fail_msg("%s, %s: other bits at budget %d", variants[v], dtype, i);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(no_way_to_checkpoint_changes_a_bit),
        TEST(every_budget_is_kept_and_changes_no_bit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
