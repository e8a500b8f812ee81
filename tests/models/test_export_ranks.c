/* Claims about models whose weights are sharded, written by all ranks together. Run alone they are those of one rank; CMake runs them as jobs
 * of 2, 3 and 4 ranks of each MPI. */
/* ctest: emu ranks=2,3,4 */
#include "rp_test.h"

#include "base/file.h"
#include "quant_test.h"
#include "shard/ranks.h"
#include "train/refused_calls.h"

#include "ranks_test.h"      /* last: its names are short */

/* The second's embedding is longer than a window on 2 ranks; a slice of the last one's experts ends within one. */
static const char *const configs[] = {
    "{\"model_type\":\"llama\",\"vocab_size\":61,\"hidden_size\":10,\"intermediate_size\":7,\"num_hidden_layers\":2,"
    "\"num_attention_heads\":1,\"attention_bias\":true}",
    "{\"model_type\":\"llama\",\"vocab_size\":200001,\"hidden_size\":18,\"intermediate_size\":7,\"num_hidden_layers\":1,"
    "\"num_attention_heads\":1,\"tie_word_embeddings\":true}",
    "{\"model_type\":\"gpt2\",\"vocab_size\":50,\"n_embd\":64,\"n_layer\":2,\"n_head\":4,\"n_positions\":48}",
    "{\"model_type\":\"qwen3_moe\",\"vocab_size\":61,\"hidden_size\":10,\"intermediate_size\":7,\"num_hidden_layers\":2,"
    "\"num_attention_heads\":1,\"num_key_value_heads\":1,\"num_experts\":5,\"num_experts_per_tok\":2,\"moe_intermediate_size\":3}",
    "{\"model_type\":\"gpt2\",\"vocab_size\":50,\"n_embd\":128,\"n_layer\":1,\"n_head\":4,\"n_positions\":48}",
    "{\"model_type\":\"qwen3_moe\",\"vocab_size\":61,\"hidden_size\":128,\"intermediate_size\":7,\"num_hidden_layers\":1,"
    "\"num_attention_heads\":2,\"num_key_value_heads\":1,\"num_experts\":5,\"num_experts_per_tok\":2,\"moe_intermediate_size\":192}",
};
enum { FIRST_QUANTISED = 4 };           /* rows of these are whole blocks, and weights more than a group of NF4 */

static rp_model *fresh(const temp_dir *dir, int config, rp_dtype dtype)
{
    char path[512];
    rp_model_config c;
    rp_report report;
    rp_model *model;

    rp__report_open(&report, ctx);
    snprintf(path, sizeof path, "%s/%d-%d.json", dir->path, config, rank);
    assert_ok(ctx, rp__file_write(ctx, path, configs[config], (int64_t)strlen(configs[config])));
    assert_ok(ctx, rp__model_config_load(ctx, path, NULL, &report, &c));
    assert_ok(ctx, rp__model_build(ctx, &c, dtype, &model));
    rp__model_init(model, 3);
    rp__report_close(&report);
    return model;
}

static void assert_same_file(const temp_dir *dir, const char *a, const char *b)
{
    char path[512], *one, *two;
    int64_t n, m;

    snprintf(path, sizeof path, "%s/%s", dir->path, a);
    assert_ok(ctx, rp__file_read(ctx, path, 1 << 30, &one, &n));
    snprintf(path, sizeof path, "%s/%s", dir->path, b);
    assert_ok(ctx, rp__file_read(ctx, path, 1 << 30, &two, &m));
    assert_true(n == m && !memcmp(one, two, (size_t)n));
    rp__release(one);
    rp__release(two);
}

/* A model of fresh weights; a quantised dtype: of such weights as they are in base/. */
static rp_model *model_of(const temp_dir *dir, int config, rp_dtype dtype)
{
    char base[300];

    snprintf(base, sizeof base, "%s/base", dir->path);
    return rp_dtype_bytes(dtype) ? fresh(dir, config, dtype) : quant_model(ctx, base, dtype, RP_BF16);
}

static void write_base(const temp_dir *dir, int config)
{
    char base[300];

    snprintf(base, sizeof base, "%s/base", dir->path);
    assert_ok(ctx, rp__make_dirs(ctx, base));
    rp_model *m = fresh(dir, config, RP_F32);
    assert_ok(ctx, rp__model_export(m, base));
    rp__model_free(m);
}

/* The whole model's file, written by the first rank alone; the same by all of them into out/. */
static void export_both(const temp_dir *dir, int config, rp_dtype dtype, int copies)
{
    char alone[300], together[300];
    rp_mem before, after;

    snprintf(alone, sizeof alone, "%s/alone", dir->path);
    snprintf(together, sizeof together, "%s/together", dir->path);
    if (!rank) {
        assert_ok(ctx, rp__make_dirs(ctx, alone));
        assert_ok(ctx, rp__make_dirs(ctx, together));
        write_base(dir, config);
        rp_model *whole = model_of(dir, config, dtype);
        assert_ok(ctx, rp__model_export(whole, alone));
        rp__model_free(whole);
    }
    assert_ok(ctx, rp__comm_barrier(ctx, world, "the model"));
    assert_ok(ctx, rp__ranks_join(ctx, world, copies));
    rp_model *part = model_of(dir, config, dtype);
    assert_ok(ctx, rp__comm_barrier(ctx, world, "the folders"));
    rp_mem_read(ctx, 0, true, &before);
    assert_ok(ctx, rp__model_export(part, together));
    rp_mem_read(ctx, 0, false, &after);
    assert_true(after.live_bytes == before.live_bytes && after.peak_bytes <= before.live_bytes + (4 << 20));
    rp__model_free(part);
    rp__ranks_leave(ctx);
    assert_same_file(dir, "alone/model.safetensors", "together/model.safetensors");
    assert_same_file(dir, "alone/config.json", "together/config.json");
}

static void all_ranks_write_the_file_that_one_would(void **state)
{
    (void)state;
    for (int config = 0; config < RP_COUNT(configs); config++)
        for (int copies = 1; copies <= ranks; copies++) {
            if (ranks % copies) continue;
            temp_dir dir = share_dir();
            export_both(&dir, config, config ? RP_F32 : RP_BF16, copies);
            leave_dir(&dir);
        }
}

/* Decoded on the first rank from the bytes of all slices; GPT-2's weights are transposed in its files. */
static void quantised_weights_are_written_as_one_rank_would(void **state)
{
    (void)state;
    for (int config = FIRST_QUANTISED; config < RP_COUNT(configs); config++)
        for (int t = 0; t < 3; t++)
            for (int copies = 1; copies <= ranks; copies++) {
                if (ranks % copies) continue;
                temp_dir dir = share_dir();
                export_both(&dir, config, (rp_dtype[]){ RP_NF4, RP_Q4_0, RP_Q8_0 }[t], copies);
                leave_dir(&dir);
            }
}

/* Its file cannot be made, there is no memory for the window, the disk is full: the others are reported. */
static void a_writer_that_fails_fails_all(void **state)
{
    (void)state;
    temp_dir dir = share_dir();
    char absent[300];

    snprintf(absent, sizeof absent, "%s/absent", dir.path);
    assert_ok(ctx, rp__ranks_join(ctx, world, 1));
    rp_model *part = fresh(&dir, 0, RP_F32);
    assert_int_equal(rp__model_export(part, absent), RP_ERR_IO);
    assert_non_null(strstr(rp_error(ctx), "cannot create"));
    int k = 0;
    for (rp_status status = RP_ERR_MEMORY; status != RP_OK; k++) {
        ctx->fault_countdown = rank ? 0 : k + 1;
        status               = rp__model_export(part, dir.path);
        ctx->fault_countdown = 0;
        if (status != RP_OK) assert_int_equal(status, RP_ERR_MEMORY);
    }
    assert_true(k > 10);
    k = 0;
    for (bool fired = true; fired; k++) {       /* the disk is full at any of its writes */
        calls.countdown  = rank ? 0 : k + 1;
        rp_status status = rp__model_export(part, dir.path);
        fired            = status != RP_OK;
        calls.countdown  = 0;
        if (fired) assert_int_equal(status, RP_ERR_IO);
        if (fired && rank) assert_true(!strncmp(rp_error(ctx), "rank 0: cannot ", 15));
    }
    assert_true(k > 5);
    rp__model_free(part);
    rp__ranks_leave(ctx);
    leave_dir(&dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_ranks_write_the_file_that_one_would),
        cmocka_unit_test(quantised_weights_are_written_as_one_rank_would),
        cmocka_unit_test(a_writer_that_fails_fails_all),
    };

    return cmocka_run_group_tests(tests, ranks_setup, ranks_teardown);
}
