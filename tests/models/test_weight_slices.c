/* Claims about sharded weights: what a rank draws or reads is what the whole has in its slice, to the bit, and beyond the slice there
 * is zero. No rank talks to another: each is made by its number. */
#include "weights_test.h"

#include "base/quant.h"
#include "models/gguf/export.h"

/* fresh: the path is of a config alone; keeps, quantised: how frozen weights are stored (rp__model_files_quantise). */
typedef struct { const char *path; rp_dtype dtype; bool fresh, keeps; rp_dtype quantised; } source;

static rp_model *open_fresh(const source *s, rp_report *report)
{
    rp_model_config config;
    rp_model *model;

    assert_ok(ctx, rp__model_config_load(ctx, s->path, NULL, report, &config));
    assert_ok(ctx, rp__model_build(ctx, &config, s->dtype, &model));
    return model;
}

static rp_model *open_files(const source *s, rp_report *report, rp_model_files **files)
{
    rp_model_config config;
    rp_model *model;

    assert_ok(ctx, rp__model_files_open(ctx, s->path, NULL, report, files));
    if (s->keeps || s->quantised) assert_ok(ctx, rp__model_files_quantise(*files, s->keeps, s->quantised));
    assert_ok(ctx, rp__model_files_config(*files, &config));
    config.quant.all_frozen = true;
    assert_ok(ctx, rp__model_build(ctx, &config, s->dtype, &model));
    return model;
}

static rp_model *model_of(const source *s, int rank, int ranks)
{
    rp_model_files *files = NULL;
    rp_report report;

    rp__report_open(&report, ctx);
    if (ranks > 1) assert_ok(ctx, rp__comm_shapes(ctx, rank, ranks, &rp__groups(ctx)->shards));
    rp_model *model = s->fresh ? open_fresh(s, &report) : open_files(s, &report, &files);
    spoil(model);
    if (s->fresh) rp__model_init(model, 7);
    else assert_ok(ctx, rp__model_load(model, files));
    rp__model_files_close(files);
    rp__report_close(&report);
    rp__comm_close(rp__shards(ctx));
    rp__groups(ctx)->shards = NULL;
    return model;
}

static void assert_slice(const rp_param *whole, const rp_param *part)
{
    int64_t size = rp__sliced_bytes(whole->whole.dtype), count = part->slice.count, room = part->slice.room;
    const char *all = test_bytes(whole->tensor), *mine = test_bytes(part->tensor);

    assert_int_equal(rp_meta_elems(rp_tensor_meta(part->tensor)), room);
    if (memcmp(mine, all + part->slice.first * size, (size_t)(count * size)))
        fail_msg("'%s': elements [%d, +%d) are not the whole's", part->path, (int)part->slice.first, (int)count);
    for (int64_t i = count * size; i < room * size; i++)
        if (mine[i]) fail_msg("'%s': byte %d beyond the slice is %d", part->path, (int)i, mine[i]);
}

/* How many slices had elements, over all ranks. A rank never has more of the model in its ledger than its slices. */
static int assert_slices(const source *s, int ranks)
{
    rp_model *whole = model_of(s, 0, 1);
    int filled      = 0;
    rp_mem before, after;

    for (int rank = 0; rank < ranks; rank++) {
        rp_mem_read(ctx, 0, true, &before);
        rp_model *part = model_of(s, rank, ranks);
        rp_mem_read(ctx, 0, false, &after);
        int64_t rest = after.peak_bytes - before.live_bytes;
        for (int i = 0; i < rp__model_n_params(part); i++) rest -= rp_meta_bytes(rp_tensor_meta(rp__model_param(part, i)->tensor));
        assert_int_equal(rest, 0);
        for (int i = 0; i < rp__model_n_params(whole); i++) {
            const rp_param *p = rp__model_param(part, i);
            assert_slice(rp__model_param(whole, i), p);
            filled += p->slice.count > 0;
        }
        rp__model_free(part);
    }
    rp__model_free(whole);
    return filled;
}

static void slices_read_from_safetensors_are_those_of_the_whole(void **state)
{
    (void)state;
    static const char *const names[] = { "models/llama3", "models/llama_bias",      "models/smollm2", "models/gpt2",
                                         "models/phi3",   "models/qwen3_moe_mixed", "models/mixtral" };
    char path[RP_GOLDEN_PATH];

    for (int i = 0; i < RP_COUNT(names); i++)
        for (int ranks = 2; ranks <= 7; ranks += i ? 5 : 1)
            assert_true(assert_slices(&(source){ .path = golden_path(path, names[i]), .dtype = i % 2 ? RP_BF16 : RP_F32 }, ranks) > ranks);
}

/* Its rows change places within heads, and quantised rows can only be read whole. */
static void slices_read_from_gguf_are_those_of_the_whole(void **state)
{
    (void)state;
    static const char *const names[] = { "gguf/grouped.gguf", "gguf/tied.gguf", "gguf/qwen3_moe.gguf", "gguf/mixtral.gguf", "gguf/mixtral_apart.gguf" };
    char path[RP_GOLDEN_PATH];

    for (int i = 0; i < RP_COUNT(names); i++)
        for (int ranks = 2; ranks <= 7; ranks++)
            assert_true(assert_slices(&(source){ .path = golden_path(path, names[i]), .dtype = RP_F32 }, ranks) > ranks);
}

static const char *write_config(const char *text)
{
    const char *path = temp_path("config.json");

    assert_ok(ctx, rp__file_write(ctx, path, text, (int64_t)strlen(text)));
    return path;
}

#define LONG "{\"model_type\":\"llama\",\"vocab_size\":60001,\"hidden_size\":18,\"intermediate_size\":7,\"num_hidden_layers\":1," \
             "\"num_attention_heads\":1,\"tie_word_embeddings\":true}"

/* Of an embedding that is longer than a window, whose rows end anywhere in slices. */
static void long_tensors_are_read_window_by_window(void **state)
{
    (void)state;
    source fresh    = { write_config(LONG), RP_F32, .fresh = true };
    rp_model *model = model_of(&fresh, 0, 1);

    assert_ok(ctx, rp__model_export(model, temp_dir));
    rp__model_free(model);
    assert_true(assert_slices(&(source){ .path = temp_dir, .dtype = RP_F32 }, 2) > 2);
    assert_true(assert_slices(&(source){ .path = temp_dir, .dtype = RP_BF16 }, 3) > 3);
}

#define SMALL "{\"model_type\":\"llama\",\"vocab_size\":61,\"hidden_size\":10,\"intermediate_size\":7,\"num_hidden_layers\":2," \
              "\"num_attention_heads\":1,\"attention_bias\":true}"

static void slices_of_fresh_weights_are_those_of_the_whole(void **state)
{
    (void)state;
    source small = { write_config(SMALL), RP_F32, .fresh = true };

    for (int ranks = 2; ranks <= 9; ranks++) assert_true(assert_slices(&small, ranks) > ranks);
    small.dtype = RP_BF16;
    assert_true(assert_slices(&small, 5) > 5);
}

/* ---- quantised ---- */

#define SIZES "\"hidden_size\":128,\"intermediate_size\":192,\"num_hidden_layers\":1,\"num_attention_heads\":2,\"num_key_value_heads\":1,\"vocab_size\":61"

/* Rows are whole blocks of every type that is written; some weights are more than one group of NF4, and groups end within experts. */
static const char *const quantised_models[] = {
    "{\"model_type\":\"llama\",\"tie_word_embeddings\":false," SIZES "}",
    "{\"model_type\":\"gpt2\",\"n_embd\":128,\"n_layer\":1,\"n_head\":2,\"n_positions\":48,\"vocab_size\":61}",
    "{\"model_type\":\"mixtral\",\"tie_word_embeddings\":false,\"num_local_experts\":3,\"num_experts_per_tok\":2," SIZES "}",
};

static int n_quantised(const source *s)
{
    rp_model *m = model_of(s, 0, 1);
    int n       = 0;

    for (int i = 0; i < rp__model_n_params(m); i++) n += rp__is_quant(rp__model_param(m, i)->whole.dtype);
    rp__model_free(m);
    return n;
}

static void assert_quantised_slices(const source *s)
{
    assert_true(n_quantised(s) >= 4);
    for (int ranks = 2; ranks <= 7; ranks++) assert_true(assert_slices(s, ranks) > ranks);
}

/* Writes a folder with the model in fp32, and a GGUF file of the type beside it. */
static void write_files(const char *config, const char *type)
{
    rp_ctx *shapes = test_ctx(&(rp_ctx_options){ .threads = 1, .shapes_only = true });
    rp_model *m    = fresh(config, RP_F32, 5);
    rp_gguf_outcome outcome;
    rp_model_config read;
    rp_model_files *files;
    rp_report report;

    rp__report_open(&report, shapes);
    assert_ok(ctx, rp__model_export(m, temp_dir));
    rp__model_free(m);
    assert_ok(shapes, rp__model_files_open(shapes, temp_dir, NULL, &report, &files));
    assert_ok(shapes, rp__model_files_config(files, &read));
    assert_ok(shapes, rp__model_build(shapes, &read, RP_F32, &m));
    assert_ok(shapes, rp__gguf_export(m, files, &(rp_gguf_options){ .type = type }, temp_path("model.gguf"), &report, &outcome));
    rp__model_free(m);
    rp__model_files_close(files);
    rp__report_close(&report);
    test_ctx_free(shapes);
}

static void slices_quantised_while_they_are_read_are_bytes_of_the_whole(void **state)
{
    (void)state;
    for (int i = 0; i < RP_COUNT(quantised_models); i++) {
        write_files(quantised_models[i], "F32");
        for (int t = 0; t < 3; t++) {
            assert_quantised_slices(&(source){ temp_dir, RP_BF16, .quantised = (rp_dtype[]){ RP_NF4, RP_Q4_0, RP_Q8_0 }[t] });
            assert_quantised_slices(&(source){ temp_path("model.gguf"), RP_F32, .quantised = (rp_dtype[]){ RP_NF4, RP_Q4_0, RP_Q8_0 }[t] });
        }
    }
}

/* Slices begin and end within blocks, and within rows that change places. */
static void slices_of_blocks_that_are_kept_are_bytes_of_the_whole(void **state)
{
    char path[RP_GOLDEN_PATH];

    (void)state;
    for (int i = 0; i < RP_COUNT(quantised_models); i++)
        for (int t = 0; t < 2; t++) {
            write_files(quantised_models[i], t ? "Q8_0" : "Q4_0");
            assert_quantised_slices(&(source){ temp_path("model.gguf"), RP_F32, .keeps = true });
        }
    assert_quantised_slices(&(source){ golden_path(path, "nf4"), RP_F32, .keeps = true });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(slices_quantised_while_they_are_read_are_bytes_of_the_whole),
        TEST(slices_of_blocks_that_are_kept_are_bytes_of_the_whole),
        TEST(slices_read_from_safetensors_are_those_of_the_whole),
        TEST(slices_read_from_gguf_are_those_of_the_whole),
        TEST(long_tensors_are_read_window_by_window),
        TEST(slices_of_fresh_weights_are_those_of_the_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
