/* Claims about reading weights: every golden model loads whole and each tensor arrives under its path; a failure leaves nothing behind, and
 * files larger than memory pass through a window. */
/* ctest: level-free */
#include "weights_test.h"
#include "golden_variants.h"

#include <math.h>

static const char *const variants[] = { GOLDEN_VARIANTS(GOLDEN_VARIANT_NAME) };

static int64_t count_not_finite(const rp_model *m)
{
    int64_t bad = 0;

    for (int i = 0; i < rp__model_n_params(m); i++) {
        rp_tensor *t = rp__model_param(m, i)->tensor;
        int64_t n    = rp_meta_elems(rp_tensor_meta(t));
        double *v    = malloc((size_t)n * sizeof *v);
        assert_ok(ctx, rp_tensor_read(t, v, n));
        for (int64_t k = 0; k < n; k++) bad += !isfinite(v[k]);
        free(v);
    }
    return bad;
}

static void every_golden_model_loads_whole(void **state)
{
    (void)state;
    char path[RP_GOLDEN_PATH];

    for (int i = 0; i < RP_COUNT(variants); i++) {
        for (int d = 0; d < 2; d++) {
            opened o = load_model(variant_path(path, variants[i]), d ? RP_BF16 : RP_F32);
            assert_int_equal(count_not_finite(o.model), 0);
            close_model(&o);
        }
    }
}

static void tensor_arrives_under_its_path(void **state)
{
    (void)state;
    static const struct { const char *variant, *ours, *theirs; } pairs[] = {
        { "llama_bias", "layers.1.attn.k.bias", "model.layers.1.self_attn.k_proj.bias" },
        { "llama2", "output.weight", "lm_head.weight" },
        { "smollm2", "tok_embeddings.weight", "model.embed_tokens.weight" },
        { "gpt2", "layers.1.attn.qkv.weight", "transformer.h.1.attn.c_attn.weight" },
        { "gpt2_inner", "layers.0.mlp.down.weight", "h.0.mlp.c_proj.weight" },
        { "gpt2", "norm.bias", "transformer.ln_f.bias" },
        { "qwen2", "layers.1.attn.v.bias", "model.layers.1.self_attn.v_proj.bias" },
        { "qwen3", "layers.0.attn.k_norm.weight", "model.layers.0.self_attn.k_norm.weight" },
        { "gemma2", "layers.2.mlp_norm.weight", "model.layers.2.pre_feedforward_layernorm.weight" },
        { "gemma3_text", "layers.1.post_attn_norm.weight", "model.layers.1.post_attention_layernorm.weight" },
        { "phi3", "layers.1.mlp.gate_up.weight", "model.layers.1.mlp.gate_up_proj.weight" },
        { "olmo2", "layers.0.post_mlp_norm.weight", "model.layers.0.post_feedforward_layernorm.weight" },
    };

    for (int i = 0; i < RP_COUNT(pairs); i++) {
        char path[RP_GOLDEN_PATH];
        rp_safetensors *set;
        opened o = load_model(variant_path(path, pairs[i].variant), RP_F32);
        assert_ok(ctx, rp__safetensors_open(ctx, path, &set));
        const rp_safetensor *t = rp__safetensors_find(set, pairs[i].theirs);
        const rp_param *p      = rp__model_find_param(o.model, pairs[i].ours);
        assert_non_null(t);
        assert_non_null(p);
        assert_memory_equal(test_bytes(p->tensor), rp__safetensors_bytes(set, t), (size_t)t->bytes);
        rp__safetensors_close(set);
        close_model(&o);
    }
}

static void loading_raises_the_versions_of_what_it_writes(void **state)
{
    (void)state;
    char path[RP_GOLDEN_PATH];
    opened o        = open_model(variant_path(path, "llama2"), NULL, RP_F32);
    uint64_t before = rp__model_param(o.model, 3)->tensor->storage->version;

    assert_ok(ctx, rp__model_load(o.model, o.files));
    assert_true(rp__model_param(o.model, 3)->tensor->storage->version > before);
    close_model(&o);
}

static void shapes_alone_need_no_weights(void **state)
{
    (void)state;
    char path[RP_GOLDEN_PATH];
    rp_ctx *real = ctx;

    ctx      = test_ctx(&(rp_ctx_options){ .shapes_only = true });
    opened o = open_model(variant_path(path, "gpt2"), NULL, RP_BF16);
    assert_ok(ctx, rp__model_load(o.model, o.files));
    rp__model_init(o.model, 1);
    assert_int_equal(rp__model_export(o.model, RP_BINARY_DIR), RP_ERR_META);
    close_model(&o);
    test_ctx_free(ctx);
    ctx = real;
}

static void config_is_taken_once(void **state)
{
    (void)state;
    char path[RP_GOLDEN_PATH];
    rp_model_config again;
    opened o = open_model(variant_path(path, "gpt2"), NULL, RP_F32);

    assert_int_equal(rp__model_files_config(o.files, &again), RP_ERR_STATE);
    close_model(&o);
}

/* ---- memory ---- */

static void every_failing_allocation_leaves_nothing_behind(void **state)
{
    (void)state;
    char path[RP_GOLDEN_PATH], gguf[RP_GOLDEN_PATH];
    rp_mem m;

    until_no_fault_fires(ctx, open_load_export(ctx, variant_path(path, "gpt2"), NULL, temp_dir),
                         (rp_mem_read(ctx, 0, false, &m), assert_int_equal(m.live_bytes, 0)));
    until_no_fault_fires(ctx, open_load_export(ctx, variant_path(path, "gemma3"), NULL, temp_dir),
                         (rp_mem_read(ctx, 0, false, &m), assert_int_equal(m.live_bytes, 0)));
    until_no_fault_fires(ctx, open_load_export(ctx, golden_path(gguf, "gguf/grouped.gguf"), NULL, temp_dir),
                         (rp_mem_read(ctx, 0, false, &m), assert_int_equal(m.live_bytes, 0)));
}

/* Pages of a file that is read or written must not stay with the process. */
static int64_t resident_bytes(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    long total, resident;

    assert_non_null(f);
    assert_int_equal(fscanf(f, "%ld %ld", &total, &resident), 2);
    fclose(f);
    return (int64_t)resident * sysconf(_SC_PAGESIZE);
}

#define BIG "{\"model_type\":\"llama\",\"vocab_size\":65536,\"hidden_size\":512,\"intermediate_size\":1024,\"num_hidden_layers\":2," \
            "\"num_attention_heads\":8,\"tie_word_embeddings\":true}"

static void reading_and_writing_hold_a_window_beside_the_parameters(void **state)
{
    (void)state;
#ifdef RP_SANITIZED
    enum { ALLOWED = 512 << 20 };       /* what was released stays with the sanitizer for a while: it is only run */
#else
    enum { ALLOWED = 24 << 20 };        /* the file's window and ours, and what export keeps; the file has 160 MiB */
#endif
    if (ctx->host) skip();              /* a sealed device's pages are there twice */
    rp_model *m = fresh(BIG, RP_F32, 1);
    int64_t before, after, least = 0;

    for (int i = 0; i < rp__model_n_params(m); i++) least += rp_meta_bytes(rp_tensor_meta(rp__model_param(m, i)->tensor));
    assert_true(least > INT64_C(120) << 20);
    assert_ok(ctx, rp__make_dirs(ctx, temp_path("big")));
    before = resident_bytes();
    assert_ok(ctx, rp__model_export(m, temp_path("big")));
    after = resident_bytes();
    assert_true(after - before < ALLOWED);

    rp_model_files *files;
    rp_report report;
    rp__report_open(&report, ctx);
    assert_ok(ctx, rp__model_files_open(ctx, temp_path("big"), NULL, &report, &files));
    assert_ok(ctx, rp__model_load(m, files));
    assert_true(resident_bytes() - after < ALLOWED);
    rp__model_files_close(files);
    rp__report_close(&report);
    rp__model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_golden_model_loads_whole),
        TEST(tensor_arrives_under_its_path),
        TEST(loading_raises_the_versions_of_what_it_writes),
        TEST(shapes_alone_need_no_weights),
        TEST(config_is_taken_once),
        TEST(every_failing_allocation_leaves_nothing_behind),
        TEST(reading_and_writing_hold_a_window_beside_the_parameters),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
