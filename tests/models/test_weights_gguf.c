/* Claims about weights in GGUF: what transformers reads from a file, its config too; metadata that is not honoured is named. */
/* ctest: thread-free */
#include "weights_test.h"

#include "gguf/internal.h"

static void assert_loaded_is(const char *gguf, const char *truth)
{
    char path[RP_GOLDEN_PATH];
    rp_safetensors *want, *got;
    opened o = load_model(golden_path(path, gguf), RP_F32);

    assert_ok(ctx, rp__model_export(o.model, temp_dir));
    assert_ok(ctx, rp__safetensors_open(ctx, golden_path(path, truth), &want));
    assert_ok(ctx, rp__safetensors_open(ctx, temp_dir, &got));
    assert_int_equal(rp__safetensors_n_tensors(got), rp__safetensors_n_tensors(want));
    assert_same_tensors(gguf, want, got);
    rp__safetensors_close(want);
    rp__safetensors_close(got);
    close_model(&o);
}

static void gguf_gives_the_weights_transformers_reads_from_it(void **state)
{
    (void)state;
    assert_loaded_is("gguf/grouped.gguf", "gguf/grouped.safetensors");
}

static void gguf_gives_back_the_weights_it_was_made_from_biases_too(void **state)
{
    (void)state;
    assert_loaded_is("gguf/tied.gguf", "gguf/tied.safetensors");
}

/* GPT-2's projections are [in, out] in safetensors, [out, in] in GGUF; an output that is a copy of the embedding is tied. */
static void gguf_of_gpt2_gives_back_the_weights_it_was_made_from(void **state)
{
    (void)state;
    static const char *const same[] = { "vocab_size", "n_embd", "n_layer", "n_head", "n_positions", "n_inner", "tie_word_embeddings",
                                        "layer_norm_epsilon", "model_type", "bos_token_id", "eos_token_id" };
    char path[RP_GOLDEN_PATH];
    json_t *want = json_load_file(golden_path(path, "gguf/gpt2.json"), 0, NULL);

    assert_loaded_is("gguf/gpt2.gguf", "gguf/gpt2.safetensors");
    opened o = open_model(golden_path(path, "gguf/gpt2.gguf"), NULL, RP_F32);
    for (int i = 0; i < RP_COUNT(same); i++) {
        const json_t *value = json_object_get(want, same[i]), *got = json_object_get(rp__model_config(o.model)->source, same[i]);
        bool equal = json_is_real(value) ? json_number_value(got) == json_real_value(value) : json_equal(got, value);
        if (!equal) fail_msg("'%s' differs", same[i]);
    }
    json_decref(want);
    close_model(&o);
}

static void gguf_config_is_the_one_transformers_makes_of_it(void **state)
{
    (void)state;
    char path[RP_GOLDEN_PATH];
    json_t *want = json_load_file(golden_path(path, "gguf/grouped.json"), 0, NULL), *value;
    opened o     = open_model(golden_path(path, "gguf/grouped.gguf"), NULL, RP_F32);
    const rp_model_config *c = rp__model_config(o.model);
    const char *key;

    json_object_foreach(want, key, value) {
        const json_t *got = json_object_get(c->source, key);
        bool same = json_is_real(value) ? (float)json_number_value(got) == (float)json_real_value(value) : json_equal(got, value);
        if (!same) fail_msg("'%s' differs", key);
    }
    assert_true(c->norm_eps == 1e-5 && c->bos == 1 && c->eos == 2 && c->rope.kind == RP_ROPE_LLAMA3 && c->rope.factor == 32);
    json_decref(want);
    close_model(&o);
}

static void gguf_without_output_or_vocab_size_is_tied_and_measured(void **state)
{
    (void)state;
    char path[RP_GOLDEN_PATH];
    opened o = open_model(golden_path(path, "gguf/tied.gguf"), NULL, RP_F32);
    const rp_model_config *c = rp__model_config(o.model);

    assert_true(c->tied && c->vocab == 64 && c->qkv_bias && c->mlp_bias);
    assert_true(c->rope.kind == RP_ROPE_LINEAR && c->rope.factor == 2.5);
    close_model(&o);
}

/* tied.gguf with some bytes of its metadata changed, as temp_dir/edited.gguf. Both texts are of one length. */
static void edit_gguf(const char *name, const char *old, const char *new, size_t n)
{
    char path[RP_GOLDEN_PATH];
    int64_t bytes;
    char *text = whole(ctx, golden_path(path, name), &bytes), *at = memmem(text, (size_t)bytes, old, n);

    assert_non_null(at);
    memcpy(at, new, n);
    assert_ok(ctx, rp__file_write(ctx, temp_path("edited.gguf"), text, bytes));
    rp__release(text);
}

static void assert_gguf_refused(rp_status want, const char *message)
{
    rp_model_files *files = NULL;
    rp_report report;

    rp__report_open(&report, ctx);
    rp_status status = rp__model_files_open(ctx, temp_path("edited.gguf"), NULL, &report, &files);
    if (status != want || files || !strstr(rp_error(ctx), message))
        fail_msg("status %d, said '%s', expected '%s'", (int)status, rp_error(ctx), message);
    rp__report_close(&report);
}

/* `old` of a file in its place is `as`, of as many bytes. */
static const struct { const char *file, *old, *as; size_t bytes; rp_status status; const char *says; } unhonoured[] = {
    { "gguf/tied.gguf", "llama.block_count", "llama.block_xount", 17,
      RP_ERR_CONFIG, "metadata 'llama.block_count' is missing (and 1 more)" },
    { "gguf/tied.gguf", "\x05\0\0\0\0\0\0\0llama", "\x05\0\0\0\0\0\0\0mamba", 13,
      RP_ERR_UNSUPPORTED, "architecture 'mamba' is not read from GGUF" },
    { "gguf/tied.gguf", "llama.rope.dimension_count\x04\0\0\0\x08", "llama.rope.dimension_count\x04\0\0\0\x04", 31,
      RP_ERR_UNSUPPORTED, "'rope.dimension_count' is 4 but heads have 8 elements" },
    { "gguf/tied.gguf", "\x06\0\0\0\0\0\0\0linear", "\x06\0\0\0\0\0\0\0linyar", 14,
      RP_ERR_UNSUPPORTED, "'rope.scaling.type' is 'linyar'" },
    { "gguf/mixtral.gguf", "llama.expert_used_count\x04\0\0\0\x02", "llama.expert_used_count\x04\0\0\0\x09", 28,
      RP_ERR_CONFIG, "'num_experts_per_tok' 9 exceeds the number of experts, 4" },
    { "gguf/mixtral.gguf", "llama.expert_count\x04\0\0\0\x04", "llama.expert_count\x04\0\0\0\0", 23,
      RP_ERR_UNSUPPORTED, "metadata 'llama.expert_used_count' has a value other than 0" },
    { "gguf/grouped.gguf", "llama.rope.freq_base\x06\0\0\0\0\x24\xf4\x48", "llama.rope.freq_base\x06\0\0\0\0\x24\xf4\x47", 28,
      RP_ERR_UNSUPPORTED, "'rope_freqs.weight' holds other divisors" },
    { "gguf/grouped.gguf", "rope_freqs.weight\x01\0\0\0\x04", "rope_freqs.weight\x01\0\0\0\0", 22,
      RP_ERR_UNSUPPORTED, "tensor 'rope_freqs.weight' is not a list of one divisor per frequency without other rope scaling" },
    { "gguf/tied.gguf", "llama.rope.scaling.type", "llama.rope.scaling.tipe", 23,
      RP_ERR_UNSUPPORTED, "unknown metadata 'llama.rope.scaling.tipe'" },
    { "gguf/tied.gguf", "general.architecture", "general.architectura", 20,
      RP_ERR_CONFIG, "metadata 'general.architecture' is missing" },
};

static void gguf_metadata_that_is_not_honoured_is_named(void **state)
{
    (void)state;
    for (int i = 0; i < RP_COUNT(unhonoured); i++) {
        edit_gguf(unhonoured[i].file, unhonoured[i].old, unhonoured[i].as, unhonoured[i].bytes);
        assert_gguf_refused(unhonoured[i].status, unhonoured[i].says);
    }
}

/* "linear" becomes "none", which is two bytes shorter: what follows moves up, and so many more pad the tensors. */
static void a_scaling_that_is_none_scales_nothing(void **state)
{
    (void)state;
    static const char linear[] = "\x06\0\0\0\0\0\0\0linear", none[] = "\x04\0\0\0\0\0\0\0none";
    char path[RP_GOLDEN_PATH];
    rp_gguf *file;
    int64_t bytes;

    assert_ok(ctx, rp__gguf_open(ctx, golden_path(path, "gguf/tied.gguf"), &file));
    char *text = whole(ctx, path, &bytes), *at = memmem(text, (size_t)bytes, linear, sizeof linear - 1), *data = text + bytes;
    for (int64_t i = 0; i < rp__gguf_n_tensors(file); i++) {
        const gguf_tensor_entry *e = (const gguf_tensor_entry *)rp__gguf_tensor_at(file, i);
        if (text + e->offset < data) data = text + e->offset;
    }
    rp__gguf_close(file);
    assert_non_null(at);
    memcpy(at, none, sizeof none - 1);
    memmove(at + sizeof none - 1, at + sizeof linear - 1, (size_t)(data - at) - (sizeof linear - 1));
    memset(data - 2, 0, 2);
    assert_ok(ctx, rp__file_write(ctx, temp_path("none.gguf"), text, bytes));
    rp__release(text);
    opened o = open_model(temp_path("none.gguf"), NULL, RP_F32);
    assert_true(rp__model_config(o.model)->rope.kind == RP_ROPE_DEFAULT);
    close_model(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(gguf_gives_the_weights_transformers_reads_from_it),
        TEST(gguf_gives_back_the_weights_it_was_made_from_biases_too),
        TEST(gguf_of_gpt2_gives_back_the_weights_it_was_made_from),
        TEST(gguf_config_is_the_one_transformers_makes_of_it),
        TEST(gguf_without_output_or_vocab_size_is_tied_and_measured),
        TEST(gguf_metadata_that_is_not_honoured_is_named),
        TEST(a_scaling_that_is_none_scales_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
