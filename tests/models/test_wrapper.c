/* Claims about the text model inside a wrapper: what its config is, which weights are its, what of it is written. That it is transformers'
 * own is test_parity's claim. */
#include "weights_test.h"
#include "config_parse.h"

#include "models/adapter.h"
#include "models/wrapper.h"

static int begin(void **state)
{
    if (setup(state)) return -1;
    rp__report_open(&report, ctx);
    return 0;
}

static int end(void **state)
{
    rp__report_close(&report);
    rp__model_config_drop(&config);
    return teardown(state);
}

#define CLAIM(name) cmocka_unit_test_setup_teardown(name, begin, end)

static void assert_refused(const char *text, rp_status want, const char *message)
{
    rp_status status = parse(text, NULL);

    if (status != want || !strstr(rp_error(ctx), message)) fail_msg("%s: status %d, said '%s', expected '%s'", text, (int)status, rp_error(ctx), message);
    assert_null(config.source);
}

/* ---- its config ---- */

/* As google/gemma-3-4b-it has it; the numbers that are not there are Gemma3TextConfig's. */
#define GEMMA_3_4B \
    "{'architectures': ['Gemma3ForConditionalGeneration'], 'boi_token_index': 255999, 'eoi_token_index': 256000, 'eos_token_id': [1, 106], " \
    "'image_token_index': 262144, 'initializer_range': 0.02, 'mm_tokens_per_image': 256, 'model_type': 'gemma3', 'text_config': {'hidden_size': " \
    "2560, 'intermediate_size': 10240, 'model_type': 'gemma3_text', 'num_hidden_layers': 34, 'rope_scaling': {'factor': 8.0, 'rope_type': " \
    "'linear'}, 'sliding_window': 1024}, 'torch_dtype': 'bfloat16', 'transformers_version': '4.50.0.dev0', 'vision_config': {'hidden_size': 1152}}"

static void what_a_text_config_leaves_out_is_what_its_class_has(void **state)
{
    (void)state;
    assert_ok(ctx, parse(GEMMA_3_4B, NULL));
    assert_string_equal(rp__model_type(&config), "gemma3_text");
    assert_string_equal(config.wrapper->model_type, "gemma3");
    assert_true(config.vocab == 262208 && config.n_heads == 8 && config.n_kv_heads == 4 && config.head_dim == 256 && config.context == 131072);
    assert_true(config.hidden == 2560 && config.mlp_hidden == 10240 && config.n_layers == 34 && config.window == 1024);
    assert_true(config.norm_eps == 1e-6 && config.attn_scale == 1.0 / 16 && config.activation == RP_ACT_GELU_TANH && config.tied);
    assert_true(config.rope.kind == RP_ROPE_LINEAR && config.rope.factor == 8 && config.rope.theta == 1e6);
    assert_true(config.window_rope.kind == RP_ROPE_DEFAULT && config.window_rope.theta == 1e4);
    assert_int_equal(rp__model_config_window(&config, 4), 1024);
    assert_int_equal(rp__model_config_window(&config, 5), 0);
    assert_true(config.eos == 1 && config.bos == 2);
}

static void a_text_model_is_of_the_family_its_own_config_names(void **state)
{
    static const struct { const char *text, *family; int64_t vocab, hidden, kv; } cases[] = {
        { "{'model_type': 'llava', 'text_config': {'model_type': 'llama', 'vocab_size': 32064}}", "llama", 32064, 4096, 32 },
        { "{'model_type': 'llava', 'text_config': {}}", "llama", 32000, 4096, 32 },
        { "{'model_type': 'llava', 'text_config': {'model_type': 'mistral', 'is_composition': true}}", "mistral", 32000, 4096, 8 },
        { "{'model_type': 'llava_onevision', 'text_config': {'hidden_size': 64, 'num_key_value_heads': 4}}", "qwen2", 151936, 64, 4 },
        { "{'model_type': 'internvl', 'text_config': {'model_type': 'qwen3', 'num_attention_heads': 16, 'num_key_value_heads': 8}}", "qwen3",
          151936, 4096, 8 },
        { "{'model_type': 'mistral3', 'text_config': {'model_type': 'mistral', 'sliding_window': null}}", "mistral", 32000, 4096, 8 },
        { "{'model_type': 'smolvlm', 'text_config': {'model_type': 'llama', 'hidden_size': 576, 'num_attention_heads': 9, "
          "'num_key_value_heads': 3, 'qk_layer_norms': false, 'perceiver_config': {}}}", "llama", 32000, 576, 3 },
    };

    (void)state;
    for (int i = 0; i < RP_COUNT(cases); i++) {
        assert_ok(ctx, parse(cases[i].text, NULL));
        assert_string_equal(rp__model_type(&config), cases[i].family);
        if (config.vocab != cases[i].vocab || config.hidden != cases[i].hidden || config.n_kv_heads != cases[i].kv)
            fail_msg("%s: %" PRId64 " ids, %" PRId64 " wide, %" PRId64 " heads", cases[i].text, config.vocab, config.hidden, config.n_kv_heads);
    }
}

static void what_stands_outside_counts(void **state)
{
    static const struct { const char *text; bool tied; } cases[] = {
        { "{'model_type': 'mistral3', 'text_config': {}}", false },
        { "{'model_type': 'mistral3', 'text_config': {'tie_word_embeddings': true}}", true },
        { "{'model_type': 'mistral3', 'tie_word_embeddings': false, 'text_config': {'tie_word_embeddings': true}}", false },
        { "{'model_type': 'mistral3', 'tie_word_embeddings': true, 'text_config': {'tie_word_embeddings': false}}", true },
        { "{'model_type': 'gemma3', 'text_config': {}}", true },
        { "{'model_type': 'gemma3', 'tie_word_embeddings': false, 'text_config': {}}", false },
        { "{'model_type': 'llava', 'tie_word_embeddings': false, 'text_config': {'tie_word_embeddings': true}}", true },
        { "{'model_type': 'llava', 'tie_word_embeddings': false, 'text_config': {}}", false },
    };

    (void)state;
    for (int i = 0; i < RP_COUNT(cases); i++) {
        assert_ok(ctx, parse(cases[i].text, NULL));
        if (config.tied != cases[i].tied) fail_msg("%s: the head is %stied", cases[i].text, config.tied ? "" : "not ");
    }
    assert_ok(ctx, parse("{'model_type': 'llava', 'eos_token_id': 7, 'text_config': {'eos_token_id': 8, 'bos_token_id': 9}}", NULL));
    assert_true(config.eos == 7 && config.bos == 9);
    assert_ok(ctx, parse("{'model_type': 'gemma3', 'eos_token_id': null, 'tie_word_embeddings': null, 'text_config': {'eos_token_id': 8}}", NULL));
    assert_true(config.eos == 8 && config.tied);
    assert_refused("{'model_type': 'gemma3', 'quantization_config': {'bits': 4}, 'text_config': {}}", RP_ERR_UNSUPPORTED,
                   "'quantization_config' is {\"bits\":4}; only null, the nf4 of bitsandbytes and types by 'reprise inspect' are honoured");
}

static void overrides_are_set_over_the_text(void **state)
{
    (void)state;
    assert_ok(ctx, parse("{'model_type': 'mistral3', 'tie_word_embeddings': true, 'text_config': {}}", "{num_hidden_layers: 3, tie_word_embeddings: false}"));
    assert_true(config.n_layers == 3 && !config.tied);
}

static void a_wrapper_without_a_text_model_of_ours_is_refused(void **state)
{
    (void)state;
    assert_refused("{'model_type': 'gemma3'}", RP_ERR_CONFIG, "config.json: 'text_config' of the model_type 'gemma3' is missing, expected an object");
    assert_refused("{'model_type': 'gemma3', 'text_config': null}", RP_ERR_CONFIG, "is null, expected an object");
    assert_refused("{'model_type': 'gemma3', 'text_config': [1]}", RP_ERR_CONFIG, "is [1], expected an object");
    assert_refused("{'model_type': 'llava', 'text_config': {'model_type': 'cohere2'}}", RP_ERR_UNSUPPORTED,
                   "config.json: text_config: 'model_type' is \"cohere2\"; these are honoured: llama, ");
    assert_refused("{'model_type': 'llava', 'text_config': {'model_type': 'gemma3'}}", RP_ERR_UNSUPPORTED, "'model_type' is \"gemma3\"");
    assert_refused("{'model_type': 'llava', 'text_config': {'model_type': 5}}", RP_ERR_UNSUPPORTED, "'model_type' is 5");
    assert_refused("{'model_type': 'llava', 'text_config': {'attention_sinks': 4}}", RP_ERR_UNSUPPORTED,
                   "config.json: text_config: unknown field 'attention_sinks' (4) of model_type 'llama'");
    assert_refused("{'model_type': 'paligemma', 'text_config': {}}", RP_ERR_UNSUPPORTED, "and the text models of gemma3, mistral3, llava, ");
}

/* ---- its weights ---- */

static void other_parts_are_left_out_and_counted(void **state)
{
    static const struct { const char *variant; int64_t tensors; const char *said; } cases[] = {
        { "gemma3", 34, "of this 'gemma3' only the text model, 'gemma3_text', is read: 34 tensors of its other parts, 5984 bytes (5.84 KiB), are left out" },
        { "gemma3_published", 34, "of this 'gemma3' " },
        { "mistral3", 15, "of this 'mistral3' only the text model, 'mistral', is read: 15 tensors" },
        { "idefics3", 22, "of this 'idefics3' only the text model, 'llama', is read: 22 tensors" },
    };
    char path[RP_GOLDEN_PATH], said[RP_LEFT_OUT_CHARS];

    (void)state;
    for (int i = 0; i < RP_COUNT(cases); i++) {
        opened o          = load_model(variant_path(path, cases[i].variant), RP_F32);
        rp_left_out other = rp__model_files_left_out(o.files);
        assert_true(rp__model_left_out_text(o.model, other, said));
        if (other.tensors != cases[i].tensors || !strstr(said, cases[i].said)) fail_msg("%s: '%s'", cases[i].variant, said);
        close_model(&o);
    }
    opened o = load_model(variant_path(path, "gemma3_text"), RP_F32);
    assert_false(rp__model_left_out_text(o.model, rp__model_files_left_out(o.files), said));
    close_model(&o);
}

/* Every tensor of `variant` that is kept, into a folder with its config. */
static void copy_folder(const char *variant, bool (*kept)(const char *name))
{
    char path[RP_GOLDEN_PATH], file[RP_GOLDEN_PATH + 32];
    rp_safetensor declared[256];
    rp_safetensors_writer *writer;
    rp_safetensors *set;
    int64_t bytes;
    int n = 0;

    assert_ok(ctx, rp__safetensors_open(ctx, variant_path(path, variant), &set));
    for (int64_t i = 0; i < rp__safetensors_n_tensors(set); i++)
        if (kept(rp__safetensors_at(set, i)->name)) declared[n++] = *rp__safetensors_at(set, i);
    assert_ok(ctx, rp__safetensors_create_folder(ctx, temp_dir, 0, n, declared, 0, NULL, &writer));
    for (int i = 0; i < n; i++) {
        const rp_safetensor *t = rp__safetensors_find(set, declared[i].name);
        assert_ok(ctx, rp__safetensors_put(writer, rp__safetensors_bytes(set, t), t->bytes));
    }
    assert_ok(ctx, rp__safetensors_commit(writer));
    rp__safetensors_close(set);
    snprintf(file, sizeof file, "%s/config.json", path);
    char *text = whole(ctx, file, &bytes);
    assert_ok(ctx, rp__file_write(ctx, temp_path("config.json"), text, bytes));
    rp__release(text);
}

static void assert_not_loaded(const char *message)
{
    opened o = open_model(temp_dir, NULL, RP_F32);

    assert_int_equal(rp__model_load(o.model, o.files), RP_ERR_FORMAT);
    if (!strstr(rp_error(ctx), message)) fail_msg("said '%s', expected '%s'", rp_error(ctx), message);
    close_model(&o);
}

static bool is_tower(const char *name) { return strstr(name, "vision_tower") != NULL; }
static bool is_text(const char *name) { return strstr(name, "language_model") != NULL; }
static bool is_all_but_a_norm(const char *name) { return !strstr(name, "layers.1.input_layernorm") || is_tower(name); }
static bool is_all_but_the_head(const char *name) { return !strstr(name, "lm_head"); }

static void files_without_all_of_the_text_are_refused_by_its_name(void **state)
{
    (void)state;
    copy_folder("gemma3", is_tower);
    assert_not_loaded("has no weights of the text model of this 'gemma3': all of its 32 tensors belong to other parts");
    copy_folder("gemma3", is_all_but_a_norm);
    assert_not_loaded("tensor 'model.language_model.layers.1.input_layernorm.weight' is missing");
    copy_folder("mistral3", is_all_but_the_head);
    assert_not_loaded("tensor 'lm_head.weight' is missing, 'output.weight' [96,16]; if it shares the embedding, set 'tie_word_embeddings' to true");
}

static void a_wrapper_whose_other_parts_are_gone_is_read(void **state)
{
    char path[RP_GOLDEN_PATH], said[RP_LEFT_OUT_CHARS];

    (void)state;
    copy_folder("gemma3", is_text);
    opened a = load_model(variant_path(path, "gemma3"), RP_F32), b = load_model(temp_dir, RP_F32);
    assert_false(rp__model_left_out_text(b.model, rp__model_files_left_out(b.files), said));
    for (int i = 0; i < rp__model_n_params(a.model); i++) {
        rp_tensor *t = rp__model_param(a.model, i)->tensor;
        assert_memory_equal(test_bytes(t), test_bytes(rp__model_param(b.model, i)->tensor), (size_t)rp_meta_bytes(rp_tensor_meta(t)));
    }
    close_model(&a);
    close_model(&b);
}

/* ---- what is written ---- */

static void an_export_is_the_text_model_alone(void **state)
{
    char path[RP_GOLDEN_PATH];

    (void)state;
    opened o = load_model(variant_path(path, "gemma3_published"), RP_F32);
    assert_ok(ctx, rp__model_export(o.model, temp_dir));
    close_model(&o);
    json_t *written = json_load_file(temp_path("config.json"), 0, NULL);
    assert_string_equal(json_string_value(json_object_get(written, "model_type")), "gemma3_text");
    assert_string_equal(json_string_value(json_array_get(json_object_get(written, "architectures"), 0)), "Gemma3ForCausalLM");
    assert_int_equal(json_integer_value(json_object_get(written, "num_key_value_heads")), 4);    /* said, where the wrapper left it out */
    assert_null(json_object_get(written, "vision_config"));
    assert_null(json_object_get(written, "text_config"));
    json_decref(written);
    opened again = load_model(temp_dir, RP_F32);
    assert_null(rp__model_config(again.model)->wrapper);
    close_model(&again);
}

/* ---- adapters ---- */

static const char *base_of(char out[RP_GOLDEN_PATH]) { return variant_path(out, "gemma3"); }

/* Two halves of two layers in two blocks, and a norm that is trained whole. */
enum { ADAPTER_TENSORS = 2 * 2 * 2 + 1 };

static void write_adapter(void)
{
    static const char *const modules[] = { "attn.q", "attn.v" }, *const whole[] = { "norm" };
    char path[RP_GOLDEN_PATH];
    rp_model_files *files;
    rp_model *m;

    rp__model_config_drop(&config);
    assert_ok(ctx, rp__model_files_open(ctx, base_of(path), NULL, &report, &files));
    assert_ok(ctx, rp__model_files_config(files, &config));
    config.adapter = (rp_adapter_config){ .lora = { .rank = 2, .alpha = 4 }, .n_modules = 2, .module = modules, .n_whole = 1, .whole = whole };
    assert_ok(ctx, rp__model_build(ctx, &config, RP_F32, &m));
    assert_ok(ctx, rp__model_load(m, files));
    assert_ok(ctx, rp__adapters_export(m, path, temp_dir));
    rp__model_files_close(files);
    rp__model_free(m);
}

static void an_adapter_is_of_the_wrappers_modules_as_peft_calls_them(void **state)
{
    rp_safetensors *set;

    (void)state;
    write_adapter();
    assert_ok(ctx, rp__safetensors_open(ctx, temp_path("adapter_model.safetensors"), &set));
    assert_int_equal(rp__safetensors_n_tensors(set), ADAPTER_TENSORS);
    assert_string_equal(rp__safetensors_at(set, 0)->name, "base_model.model.model.language_model.layers.0.self_attn.q_proj.lora_A.weight");
    assert_string_equal(rp__safetensors_at(set, 8)->name, "base_model.model.model.language_model.norm.weight");
    rp__safetensors_close(set);
    json_t *written = json_load_file(temp_path("adapter_config.json"), 0, NULL);
    assert_string_equal(json_string_value(json_object_get(written, "target_modules")),
                        "(?:model\\.language_model\\.(?:.*\\.)?)?(?:q_proj|v_proj)");
    assert_string_equal(json_string_value(json_array_get(json_object_get(written, "modules_to_save"), 0)), "model.language_model.norm");
    json_decref(written);
}

/* The same adapter, its tensors called as if on the text model, as in files of old transformers, and as they are now. */
static void rename_adapter(const char *to)
{
    static const char ours[] = "base_model.model.model.language_model.";
    rp_safetensor declared[ADAPTER_TENSORS];
    char name[ADAPTER_TENSORS][256], data[ADAPTER_TENSORS][4096];
    rp_safetensors_writer *writer;
    rp_safetensors *set;

    assert_ok(ctx, rp__safetensors_open(ctx, temp_path("adapter_model.safetensors"), &set));
    for (int i = 0; i < ADAPTER_TENSORS; i++) {
        const rp_safetensor *t = rp__safetensors_at(set, i);
        snprintf(name[i], sizeof name[i], "base_model.model.%s%s", to, t->name + sizeof ours - 1);
        declared[i]      = *t;
        declared[i].name = name[i];
        assert_in_range(t->bytes, 1, sizeof data[i]);
        memcpy(data[i], rp__safetensors_bytes(set, t), (size_t)t->bytes);
    }
    assert_ok(ctx, rp__safetensors_create(ctx, temp_path("adapter_model.safetensors"), ADAPTER_TENSORS, declared, 0, NULL, &writer));
    for (int i = 0; i < ADAPTER_TENSORS; i++) assert_ok(ctx, rp__safetensors_put(writer, data[i], declared[i].bytes));
    rp__safetensors_close(set);
    assert_ok(ctx, rp__safetensors_commit(writer));
}

static void an_adapter_is_read_under_any_name_of_the_text_models_modules(void **state)
{
    static const char *const names[] = { "model.language_model.", "language_model.model.", "model." };
    rp_safetensors *set;

    (void)state;
    for (int i = 0; i < RP_COUNT(names); i++) {
        write_adapter();
        rename_adapter(names[i]);
        opened o = load_model(temp_dir, RP_F32);
        const rp_param *p = rp__model_find_param(o.model, "layers.1.attn.v.lora_a.weight");
        assert_non_null(p);
        assert_true(rp__model_find_param(o.model, "norm.weight")->beside);
        assert_ok(ctx, rp__safetensors_open(ctx, temp_path("adapter_model.safetensors"), &set));
        const rp_safetensor *t = rp__safetensors_at(set, 6);
        assert_non_null(strstr(t->name, "layers.1.self_attn.v_proj.lora_A"));
        assert_memory_equal(test_bytes(p->tensor), rp__safetensors_bytes(set, t), (size_t)t->bytes);
        rp__safetensors_close(set);
        close_model(&o);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLAIM(what_a_text_config_leaves_out_is_what_its_class_has),
        CLAIM(a_text_model_is_of_the_family_its_own_config_names),
        CLAIM(what_stands_outside_counts),
        CLAIM(overrides_are_set_over_the_text),
        CLAIM(a_wrapper_without_a_text_model_of_ours_is_refused),
        CLAIM(other_parts_are_left_out_and_counted),
        CLAIM(files_without_all_of_the_text_are_refused_by_its_name),
        CLAIM(a_wrapper_whose_other_parts_are_gone_is_read),
        CLAIM(an_export_is_the_text_model_alone),
        CLAIM(an_adapter_is_of_the_wrappers_modules_as_peft_calls_them),
        CLAIM(an_adapter_is_read_under_any_name_of_the_text_models_modules),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
