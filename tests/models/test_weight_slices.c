/* Claims about sharded weights: what a rank draws or reads is what the whole has in its slice, to the bit, and beyond the slice there
 * is zero. No rank talks to another: each is made by its number. */
#include "weights_test.h"

typedef struct { const char *path; rp_dtype dtype; bool fresh; } source;        /* fresh: the path is of a config alone */

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
    assert_ok(ctx, rp__model_files_config(*files, &config));
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
    int64_t size = rp_dtype_bytes(whole->whole.dtype), count = part->slice.count, room = part->slice.room;
    const char *all = test_bytes(whole->tensor), *mine = test_bytes(part->tensor);

    assert_int_equal(rp_meta_elems(rp_tensor_meta(part->tensor)), room);
    if (memcmp(mine, all + part->slice.first * size, (size_t)(count * size)))
        fail_msg("'%s': elements [%d, +%d) are not the whole's", part->path, (int)part->slice.first, (int)count);
    for (int64_t i = count * size; i < room * size; i++)
        if (mine[i]) fail_msg("'%s': byte %d beyond the slice is %d", part->path, (int)i, mine[i]);
}

/* How many slices had elements, over all ranks. */
static int assert_slices(const source *s, int ranks)
{
    rp_model *whole = model_of(s, 0, 1);
    int filled      = 0;

    for (int rank = 0; rank < ranks; rank++) {
        rp_model *part = model_of(s, rank, ranks);
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
            assert_true(assert_slices(&(source){ golden_path(path, names[i]), i % 2 ? RP_BF16 : RP_F32, false }, ranks) > ranks);
}

/* Its rows change places within heads, and quantised rows can only be read whole. */
static void slices_read_from_gguf_are_those_of_the_whole(void **state)
{
    (void)state;
    static const char *const names[] = { "gguf/grouped.gguf", "gguf/tied.gguf", "gguf/qwen3_moe.gguf", "gguf/mixtral.gguf", "gguf/mixtral_apart.gguf" };
    char path[RP_GOLDEN_PATH];

    for (int i = 0; i < RP_COUNT(names); i++)
        for (int ranks = 2; ranks <= 7; ranks++)
            assert_true(assert_slices(&(source){ golden_path(path, names[i]), RP_F32, false }, ranks) > ranks);
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
    source fresh    = { write_config(LONG), RP_F32, true };
    rp_model *model = model_of(&fresh, 0, 1);

    assert_ok(ctx, rp__model_export(model, temp_dir));
    rp__model_free(model);
    assert_true(assert_slices(&(source){ temp_dir, RP_F32, false }, 2) > 2);
    assert_true(assert_slices(&(source){ temp_dir, RP_BF16, false }, 3) > 3);
}

#define SMALL "{\"model_type\":\"llama\",\"vocab_size\":61,\"hidden_size\":10,\"intermediate_size\":7,\"num_hidden_layers\":2," \
              "\"num_attention_heads\":1,\"attention_bias\":true}"

static void slices_of_fresh_weights_are_those_of_the_whole(void **state)
{
    (void)state;
    source small = { write_config(SMALL), RP_F32, true };

    for (int ranks = 2; ranks <= 9; ranks++) assert_true(assert_slices(&small, ranks) > ranks);
    small.dtype = RP_BF16;
    assert_true(assert_slices(&small, 5) > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(slices_read_from_safetensors_are_those_of_the_whole),
        TEST(slices_read_from_gguf_are_those_of_the_whole),
        TEST(long_tensors_are_read_window_by_window),
        TEST(slices_of_fresh_weights_are_those_of_the_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
