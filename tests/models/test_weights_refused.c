/* Claims about files that do not fit their model: what is missing, too much, of another shape or quantised is an error that names it,
 * and nothing is written. */
/* ctest: thread-free */
#include "weights_test.h"

/* A tensor of a folder that is made: `columns` 0 is a vector, every element is `value`. */
typedef struct { const char *name; int64_t rows, columns; float value; } made;

#define TINY "{\"model_type\":\"llama\",\"vocab_size\":4,\"hidden_size\":4,\"intermediate_size\":6,\"num_hidden_layers\":1," \
             "\"num_attention_heads\":2"

static const made tiny[] = {
    { "model.embed_tokens.weight", 4, 4, 1 },
    { "model.layers.0.input_layernorm.weight", 4, 0, 1 },
    { "model.layers.0.self_attn.q_proj.weight", 4, 4, 1 },
    { "model.layers.0.self_attn.k_proj.weight", 4, 4, 1 },
    { "model.layers.0.self_attn.v_proj.weight", 4, 4, 1 },
    { "model.layers.0.self_attn.o_proj.weight", 4, 4, 1 },
    { "model.layers.0.post_attention_layernorm.weight", 4, 0, 1 },
    { "model.layers.0.mlp.gate_proj.weight", 6, 4, 1 },
    { "model.layers.0.mlp.up_proj.weight", 6, 4, 1 },
    { "model.layers.0.mlp.down_proj.weight", 4, 6, 1 },
    { "model.norm.weight", 4, 0, 1 },
    { "lm_head.weight", 4, 4, 1 },
};
enum { TINY_N = RP_COUNT(tiny), HEAD = TINY_N - 1 };

static const char *of_integers;         /* the tensor of the folder that is */

static void write_folder(const char *config, int n, const made *all, rp_safetensors_dtype dtype)
{
    rp_safetensor declared[32] = { 0 };
    rp_safetensors_writer *writer;
    float row[64];

    for (int i = 0; i < n; i++)
        declared[i] = (rp_safetensor){ .name = all[i].name, .dtype = of_integers && !strcmp(of_integers, all[i].name) ? RP_ST_I32 : dtype,
                                       .ndim = all[i].columns ? 2 : 1, .dim = { all[i].rows, all[i].columns } };
    assert_ok(ctx, rp__safetensors_create_folder(ctx, temp_dir, 0, n, declared, 0, NULL, &writer));
    for (int i = 0; i < n; i++) {
        int64_t elems = all[i].rows * (all[i].columns ? all[i].columns : 1);
        for (int64_t k = 0; k < elems; k++) row[k] = all[i].value;
        assert_ok(ctx, rp__safetensors_put(writer, row, elems * rp__safetensors_dtype_bytes(dtype)));
    }
    assert_ok(ctx, rp__safetensors_commit(writer));
    assert_ok(ctx, rp__file_write(ctx, temp_path("config.json"), config, (int64_t)strlen(config)));
}

/* Loading writes nothing and says why. */
static void assert_not_loaded(rp_status want, const char *message)
{
    opened o = open_model(temp_dir, NULL, RP_F32);
    rp_elem_put(rp__model_param(o.model, 0)->tensor, 0, 42);
    rp_status status = rp__model_load(o.model, o.files);

    if (status != want || !strstr(rp_error(ctx), message))
        fail_msg("status %d, said '%s', expected '%s'", (int)status, rp_error(ctx), message);
    assert_true(rp_elem_get(rp__model_param(o.model, 0)->tensor, 0) == 42);
    close_model(&o);
}

static void assert_loads(float first)
{
    opened o = load_model(temp_dir, RP_F32);

    assert_true(rp_elem_get(rp__model_param(o.model, 0)->tensor, 0) == (double)first);
    close_model(&o);
}

static void missing_tensor_is_named(void **state)
{
    (void)state;
    write_folder(TINY "}", TINY_N - 2, tiny, RP_ST_F32);
    assert_not_loaded(RP_ERR_FORMAT, "tensor 'model.norm.weight' is missing, 'norm.weight' [4] (and 1 more)");
    write_folder(TINY "}", TINY_N - 1, tiny, RP_ST_F32);
    assert_not_loaded(RP_ERR_FORMAT, "tensor 'lm_head.weight' is missing, 'output.weight' [4,4]; if it shares the embedding, set "
                                     "'tie_word_embeddings' to true");
}

#define MIXTURE "{\"model_type\":\"mixtral\",\"vocab_size\":4,\"hidden_size\":4,\"intermediate_size\":6,\"num_hidden_layers\":1," \
                "\"num_attention_heads\":1,\"num_key_value_heads\":1,\"num_local_experts\":2"
static const made mixture[] = {
    { "model.embed_tokens.weight", 4, 4, 1 },
    { "model.layers.0.input_layernorm.weight", 4, 0, 1 },
    { "model.layers.0.self_attn.q_proj.weight", 4, 4, 1 },
    { "model.layers.0.self_attn.k_proj.weight", 4, 4, 1 },
    { "model.layers.0.self_attn.v_proj.weight", 4, 4, 1 },
    { "model.layers.0.self_attn.o_proj.weight", 4, 4, 1 },
    { "model.layers.0.post_attention_layernorm.weight", 4, 0, 1 },
    { "model.norm.weight", 4, 0, 1 },
    { "lm_head.weight", 4, 4, 1 },
    { "model.layers.0.block_sparse_moe.gate.weight", 2, 4, 1 },
    { "model.layers.0.block_sparse_moe.experts.0.w1.weight", 6, 4, 1 },
    { "model.layers.0.block_sparse_moe.experts.0.w2.weight", 4, 6, 2 },
    { "model.layers.0.block_sparse_moe.experts.0.w3.weight", 6, 4, 3 },
    { "model.layers.0.block_sparse_moe.experts.1.w1.weight", 6, 4, 4 },
    { "model.layers.0.block_sparse_moe.experts.1.w2.weight", 4, 6, 5 },
    { "model.layers.0.block_sparse_moe.experts.1.w3.weight", 6, 4, 6 },
};
enum { MIXTURE_N = RP_COUNT(mixture) };

static void assert_experts(const rp_model *m, const char *path, float first, float second)
{
    const rp_param *p = rp__model_find_param(m, path);
    double value[48];

    assert_non_null(p);
    assert_ok(ctx, rp_tensor_read(p->tensor, value, 48));
    for (int i = 0; i < 48; i++) assert_true(value[i] == (i < 24 ? first : second));
}

static void each_expert_is_a_tensor_of_its_own(void **state)
{
    (void)state;
    made other[MIXTURE_N];

    write_folder(MIXTURE "}", MIXTURE_N, mixture, RP_ST_F32);
    opened o = load_model(temp_dir, RP_F32);
    assert_experts(o.model, "layers.0.mlp.experts.gate.weight", 1, 4);
    assert_experts(o.model, "layers.0.mlp.experts.down.weight", 2, 5);
    assert_experts(o.model, "layers.0.mlp.experts.up.weight", 3, 6);
    close_model(&o);

    write_folder(MIXTURE "}", MIXTURE_N - 1, mixture, RP_ST_F32);
    assert_not_loaded(RP_ERR_FORMAT, "tensor 'model.layers.0.block_sparse_moe.experts.1.w3.weight' is missing, "
                                     "'layers.0.mlp.experts.up.weight' [6,4]");
    memcpy(other, mixture, sizeof other);
    other[MIXTURE_N - 1].rows = 5;
    write_folder(MIXTURE "}", MIXTURE_N, other, RP_ST_F32);
    assert_not_loaded(RP_ERR_SHAPE, "tensor 'model.layers.0.block_sparse_moe.experts.1.w3.weight' is [5,4] where "
                                    "'layers.0.mlp.experts.up.weight' is [6,4]");
    other[MIXTURE_N - 1] = (made){ "model.layers.0.block_sparse_moe.experts.2.w3.weight", 6, 4, 1 };
    write_folder(MIXTURE "}", MIXTURE_N, other, RP_ST_F32);
    assert_not_loaded(RP_ERR_FORMAT, "tensor 'model.layers.0.block_sparse_moe.experts.2.w3.weight' is no weight of this model (and 1 more)");
}

static void tensor_that_is_no_weight_is_named(void **state)
{
    (void)state;
    made more[TINY_N + 1];

    memcpy(more, tiny, sizeof tiny);
    more[TINY_N] = (made){ "model.layers.1.mlp.up_proj.weight", 6, 4, 1 };
    write_folder(TINY "}", TINY_N + 1, more, RP_ST_F32);
    assert_not_loaded(RP_ERR_FORMAT, "tensor 'model.layers.1.mlp.up_proj.weight' is no weight of this model");
    more[TINY_N] = (made){ "norm.weight", 4, 0, 1 };
    write_folder(TINY "}", TINY_N + 1, more, RP_ST_F32);
    assert_not_loaded(RP_ERR_FORMAT, "tensors 'model.norm.weight' and 'norm.weight' are the same weight, 'norm.weight'");
    more[TINY_N] = (made){ "model.layers.0.self_attn.rotary_emb.inv_freq", 1, 0, 1 };
    write_folder(TINY "}", TINY_N + 1, more, RP_ST_F32);
    assert_loads(1);
}

static void wrong_shape_names_both_sides(void **state)
{
    (void)state;
    made wrong[TINY_N];

    memcpy(wrong, tiny, sizeof tiny);
    wrong[7].rows = 4, wrong[7].columns = 6;
    write_folder(TINY "}", TINY_N, wrong, RP_ST_F32);
    assert_not_loaded(RP_ERR_SHAPE, "tensor 'model.layers.0.mlp.gate_proj.weight' is [4,6] where 'layers.0.mlp.gate.weight' is [6,4]");
}

static void codes_of_a_quantisation_are_no_weights(void **state)
{
    (void)state;
    write_folder(TINY "}", TINY_N, tiny, RP_ST_I8);
    assert_not_loaded(RP_ERR_UNSUPPORTED, "is of dtype 'I8'; these are read: F64, F32, F16, BF16, F8_E4M3, F8_E5M2");
}

/* write_folder puts the bytes of 1.0f, 00 00 80 3f, whatever the dtype: as e4m3 those are 0, 0, -0 and 1.875. */
static void codes_of_eight_bit_floats_are_read_as_their_values(void **state)
{
    (void)state;
    write_folder(TINY "}", TINY_N, tiny, RP_ST_F8_E4M3);
    opened o         = load_model(temp_dir, RP_F32);
    const float *row = test_bytes(rp__model_param(o.model, 0)->tensor);

    assert_true(row[0] == 0 && row[1] == 0 && row[2] == 0 && row[3] == 1.875f);
    close_model(&o);
}

static void scales_of_a_quantisation_are_refused_with_a_way_out(void **state)
{
    (void)state;
    made all[TINY_N + 1];

    memcpy(all, tiny, sizeof tiny);
    all[TINY_N] = (made){ "model.layers.0.mlp.up_proj.weight_scale_inv", 1, 1, 1 };
    write_folder(TINY "}", TINY_N + 1, all, RP_ST_F8_E4M3);
    assert_not_loaded(RP_ERR_UNSUPPORTED, "'model.layers.0.mlp.up_proj.weight_scale_inv' belongs to a quantised weight");
}

static void tied_head_in_the_file_must_be_the_embedding(void **state)
{
    (void)state;
    made all[TINY_N];

    memcpy(all, tiny, sizeof tiny);
    write_folder(TINY ",\"tie_word_embeddings\":true}", TINY_N, all, RP_ST_F32);
    assert_loads(1);
    all[HEAD].value = 2;
    write_folder(TINY ",\"tie_word_embeddings\":true}", TINY_N, all, RP_ST_F32);
    assert_not_loaded(RP_ERR_FORMAT, "tensors 'model.embed_tokens.weight' and 'lm_head.weight' differ although the config ties them");
    write_folder(TINY ",\"tie_word_embeddings\":true}", TINY_N - 1, all + 1, RP_ST_F32);      /* the head alone */
    assert_loads(2);
    memcpy(all, tiny, sizeof tiny);
    for (int i = 0; i < 2; i++) {
        of_integers = i ? "lm_head.weight" : "model.embed_tokens.weight";
        write_folder(TINY ",\"tie_word_embeddings\":true}", TINY_N, all, RP_ST_F32);
        assert_not_loaded(RP_ERR_UNSUPPORTED, i ? "tensor 'lm_head.weight' is of dtype 'I32'" : "tensor 'model.embed_tokens.weight' is of dtype 'I32'");
    }
    of_integers = NULL;
}

/* Of the 16 elements rank 0 has all, rank 1 none. */
static void a_rank_compares_a_tied_head_where_its_slice_is(void **state)
{
    (void)state;
    made all[TINY_N];

    memcpy(all, tiny, sizeof tiny);
    all[HEAD].value = 2;
    write_folder(TINY ",\"tie_word_embeddings\":true}", TINY_N, all, RP_ST_F32);
    for (int rank = 0; rank < 2; rank++) {
        assert_ok(ctx, rp__comm_shapes(ctx, rank, 2, &rp__groups(ctx)->shards));
        if (rank) assert_loads(0);
        else assert_not_loaded(RP_ERR_FORMAT, "differ although the config ties them");
        rp__comm_close(rp__shards(ctx));
        rp__groups(ctx)->shards = NULL;
    }
}

static void folder_that_is_no_model_is_refused(void **state)
{
    (void)state;
    rp_model_files *files = NULL;
    rp_report report;

    rp__report_open(&report, ctx);
    assert_int_equal(rp__model_files_open(ctx, temp_path("absent"), NULL, &report, &files), RP_ERR_IO);
    assert_ok(ctx, rp__file_write(ctx, temp_path("some.bin"), "x", 1));
    assert_int_equal(rp__model_files_open(ctx, temp_path("some.bin"), NULL, &report, &files), RP_ERR_UNSUPPORTED);
    assert_non_null(strstr(rp_error(ctx), "is PyTorch's pickle, which may run code and is not read"));
    assert_ok(ctx, rp__file_write(ctx, temp_path("some.txt"), "x", 1));
    assert_int_equal(rp__model_files_open(ctx, temp_path("some.txt"), NULL, &report, &files), RP_ERR_FORMAT);
    assert_non_null(strstr(rp_error(ctx), "neither a directory nor a .gguf file"));
    assert_ok(ctx, rp__file_write(ctx, temp_path("config.json"), "{\"a\": 1, \"a\": 2}", 16));
    assert_int_equal(rp__model_files_open(ctx, temp_dir, NULL, &report, &files), RP_ERR_FORMAT);
    assert_ok(ctx, rp__remove_tree(ctx, temp_path("config.json")));
    assert_int_equal(rp__model_files_open(ctx, temp_dir, NULL, &report, &files), RP_ERR_IO);
    assert_null(files);
    rp__report_close(&report);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(missing_tensor_is_named),
        TEST(each_expert_is_a_tensor_of_its_own),
        TEST(tensor_that_is_no_weight_is_named),
        TEST(wrong_shape_names_both_sides),
        TEST(codes_of_a_quantisation_are_no_weights),
        TEST(codes_of_eight_bit_floats_are_read_as_their_values),
        TEST(scales_of_a_quantisation_are_refused_with_a_way_out),
        TEST(tied_head_in_the_file_must_be_the_embedding),
        TEST(a_rank_compares_a_tied_head_where_its_slice_is),
        TEST(folder_that_is_no_model_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
