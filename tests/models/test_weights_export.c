/* Claims about exports: the bits that were read, in the bytes that the Python library writes, whole or in shards. */
/* ctest: level-free thread-free */
#include "weights_test.h"
#include "golden_variants.h"

#include <jansson.h>

static const char *const variants[] = { GOLDEN_VARIANTS(GOLDEN_VARIANT_NAME) };

static json_t *read_config(const char *folder)
{
    char path[RP_GOLDEN_PATH];
    json_t *json;

    assert_in_range(snprintf(path, sizeof path, "%s/config.json", folder), 1, sizeof path - 1);
    assert_non_null(json = json_load_file(path, 0, NULL));
    return json;
}

/* A parameter of all experts is a tensor each there. */
static int64_t n_pieces(rp_model *m)
{
    int64_t n = 0;

    for (int i = 0; i < rp__model_n_params(m); i++) {
        const rp_param *p = rp__model_param(m, i);
        n += strstr(p->path, "experts.") ? p->whole.dim[0] : 1;
    }
    return n;
}

static void exported_model_is_the_one_that_was_read(void **state)
{
    (void)state;
    char path[RP_GOLDEN_PATH];

    for (int i = 0; i < RP_COUNT(variants); i++) {
        rp_safetensors *original, *written;
        opened o = load_model(variant_path(path, variants[i]), RP_F32);
        assert_ok(ctx, rp__model_export(o.model, temp_dir));
        assert_ok(ctx, rp__safetensors_open(ctx, path, &original));
        assert_ok(ctx, rp__safetensors_open(ctx, temp_dir, &written));
        assert_int_equal(rp__safetensors_n_tensors(written), n_pieces(o.model));
        assert_same_tensors(variants[i], original, written);
        assert_string_equal(rp__safetensors_metadata(written, "format"), "pt");
        rp__safetensors_close(original);
        rp__safetensors_close(written);
        close_model(&o);
    }
}

/* The Python library wrote the golden files: the same names, order and header. */
static void exported_file_is_byte_for_byte_what_the_python_library_writes(void **state)
{
    (void)state;
    static const char *const single[] = { "llama2", "smollm2", "gpt2", "llama_head_dim", "qwen2_window", "qwen3", "mistral", "gemma2",
                                          "gemma3_text", "phi3", "olmo2", "qwen3_moe", "mixtral", "bert" };
    char path[RP_GOLDEN_PATH], file[RP_GOLDEN_PATH + 32];

    for (int i = 0; i < RP_COUNT(single); i++) {
        opened o = load_model(variant_path(path, single[i]), RP_F32);
        assert_ok(ctx, rp__model_export(o.model, temp_dir));
        snprintf(file, sizeof file, "%s/model.safetensors", path);
        assert_same_files(ctx, temp_path("model.safetensors"), file);
        close_model(&o);
    }
}

static void exported_config_is_the_source_with_dtype_and_architecture(void **state)
{
    (void)state;
    char path[RP_GOLDEN_PATH];
    opened o = open_model(variant_path(path, "smollm2"), "{torch_dtype: float16, attention_dropout: 0.1}", RP_BF16);
    int64_t bytes;

    assert_ok(ctx, rp__model_load(o.model, o.files));
    assert_ok(ctx, rp__model_export(o.model, temp_dir));
    json_t *want = read_config(path), *got = read_config(temp_dir);
    json_object_set_new(want, "dtype", json_string("bfloat16"));
    json_object_set_new(want, "attention_dropout", json_real(0.1));
    assert_true(json_equal(want, got));
    char *text = whole(ctx, temp_path("config.json"), &bytes);
    assert_string_equal(text + bytes - 3, "\n}\n");
    assert_non_null(strstr(text, "\"rms_norm_eps\": 1e-5,"));
    assert_non_null(strstr(text, "\"attention_dropout\": 0.1,"));
    rp__release(text);
    json_decref(want);
    json_decref(got);
    close_model(&o);
}

/* 15 digits are enough for most numbers. One that needs 17 has them. */
static void a_number_of_17_digits_is_exported_exactly(void **state)
{
    (void)state;
    char path[RP_GOLDEN_PATH];
    opened o = open_model(variant_path(path, "smollm2"), "{rms_norm_eps: 0.00010000000000000002}", RP_F32);

    assert_ok(ctx, rp__model_load(o.model, o.files));
    assert_ok(ctx, rp__model_export(o.model, temp_dir));
    json_t *got = read_config(temp_dir);
    assert_true(json_real_value(json_object_get(got, "rms_norm_eps")) == 0.00010000000000000002);
    json_decref(got);
    close_model(&o);
}

static void exported_model_loads_to_the_same_bits(void **state)
{
    (void)state;
    for (int d = 0; d < 2; d++) {
        char path[RP_GOLDEN_PATH];
        opened o = load_model(variant_path(path, "llama_bias"), d ? RP_BF16 : RP_F32);
        assert_ok(ctx, rp__model_export(o.model, temp_dir));
        opened again = load_model(temp_dir, d ? RP_BF16 : RP_F32);
        for (int i = 0; i < rp__model_n_params(o.model); i++) {
            rp_tensor *a = rp__model_param(o.model, i)->tensor, *b = rp__model_param(again.model, i)->tensor;
            assert_memory_equal(test_bytes(a), test_bytes(b), (size_t)rp_meta_bytes(rp_tensor_meta(a)));
        }
        close_model(&o);
        close_model(&again);
    }
}

static void a_model_exported_in_shards_loads_to_the_same_bits(void **state)
{
    (void)state;
    char path[RP_GOLDEN_PATH];
    rp_safetensors *original, *written;
    opened o = load_model(variant_path(path, "smollm2"), RP_F32);

    assert_ok(ctx, rp__model_export_shards(o.model, temp_dir, 20000));
    assert_true(rp__file_exists(temp_path("model.safetensors.index.json")));
    assert_false(rp__file_exists(temp_path("model.safetensors")));
    assert_ok(ctx, rp__safetensors_open(ctx, path, &original));
    assert_ok(ctx, rp__safetensors_open(ctx, temp_dir, &written));
    const rp_safetensor *last = rp__safetensors_at(written, rp__safetensors_n_tensors(written) - 1);
    assert_true(last->file > 1);
    assert_same_tensors("smollm2", original, written);
    rp__safetensors_close(original);
    rp__safetensors_close(written);
    opened again = load_model(temp_dir, RP_F32);
    close_model(&again);
    assert_int_equal(rp__model_export_shards(o.model, temp_dir, -1), RP_ERR_ARG);
    assert_ok(ctx, rp__model_export(o.model, temp_dir));        /* the shards' index goes, or it would be taken for the model */
    assert_false(rp__file_exists(temp_path("model.safetensors.index.json")));
    close_model(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(exported_model_is_the_one_that_was_read),
        TEST(exported_file_is_byte_for_byte_what_the_python_library_writes),
        TEST(exported_config_is_the_source_with_dtype_and_architecture),
        TEST(a_number_of_17_digits_is_exported_exactly),
        TEST(exported_model_loads_to_the_same_bits),
        TEST(a_model_exported_in_shards_loads_to_the_same_bits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
