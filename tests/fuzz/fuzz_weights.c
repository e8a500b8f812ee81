/* fuzz_weights.c -- any bytes as the weights of a tiny model, the first byte says of which family and from which kind of file: refused
 * with a sentence and no weight written, or loaded. */
/* ctest: watched */
#include "fuzz_folder.h"

#include "models/weights_internal.h"

static const char *const configs[] = {
    "{\"model_type\":\"llama\",\"hidden_size\":4,\"intermediate_size\":6,\"num_hidden_layers\":1,\"num_attention_heads\":2,"
    "\"num_key_value_heads\":1,\"vocab_size\":4,\"max_position_embeddings\":8,\"tie_word_embeddings\":true}",
    "{\"model_type\":\"gpt2\",\"n_embd\":4,\"n_layer\":1,\"n_head\":2,\"n_positions\":4,\"vocab_size\":4}",
    "{\"model_type\":\"llava\",\"text_config\":{\"hidden_size\":4,\"intermediate_size\":6,\"num_hidden_layers\":1,\"num_attention_heads\":2,"
    "\"num_key_value_heads\":1,\"vocab_size\":4,\"max_position_embeddings\":8,\"tie_word_embeddings\":true}}",
    "{\"model_type\":\"llama\",\"hidden_size\":64,\"intermediate_size\":2,\"num_hidden_layers\":1,\"num_attention_heads\":1,\"head_dim\":2,"
    "\"num_key_value_heads\":1,\"vocab_size\":2,\"max_position_embeddings\":8,\"tie_word_embeddings\":true}",
};
enum { WRAPPER = 2, QUANTISED = 3 };

static void parse(rp_ctx *ctx, const char *text, rp_model_config *config)
{
    json_t *json = json_loads(text, 0, NULL);
    rp_report report;

    rp__report_open(&report, ctx);
    FUZZ_CHECK(rp__model_config_parse(ctx, "made", json, NULL, &report, config) == RP_OK);
    rp__report_close(&report);
    json_decref(json);
}

static rp_model *make(rp_ctx *ctx, const char *text)
{
    rp_model_config config = { .family = NULL };
    rp_model *model        = NULL;

    parse(ctx, text, &config);
    FUZZ_CHECK(rp__model_build(ctx, &config, RP_F32, &model) == RP_OK);
    return model;
}

enum { MARK = 0x7b };

/* Bytes of the weights that are MARK, all of them where they are marked before. */
static int64_t n_marked(const rp_model *model, bool mark)
{
    int64_t n = 0;

    for (int i = 0; i < rp__model_n_params(model); i++) {
        rp_tensor *t  = rp__model_param(model, i)->tensor;
        int64_t bytes = rp_meta_bytes(rp_tensor_meta(t));
        uint8_t *data = rp_tensor_data(t);
        if (mark) memset(data, MARK, (size_t)bytes);
        for (int64_t k = 0; k < bytes; k++) n += data[k] == MARK;
    }
    return n;
}

static void check_loaded(const rp_ctx *ctx, rp_status status, const rp_model *model, int64_t all)
{
    if (status == RP_OK) return;
    FUZZ_CHECK(!model || n_marked(model, false) == all);
    FUZZ_CHECK(status == RP_ERR_FORMAT || status == RP_ERR_UNSUPPORTED || status == RP_ERR_SHAPE);
    FUZZ_CHECK(rp_error(ctx)[0] && !strchr(rp_error(ctx), '\n'));
}

/* The file says which weights are quantised, so each has a model of its own. */
static void load_quantised(rp_ctx *ctx, rp_model_files *files)
{
    rp_model *model = NULL;

    parse(ctx, configs[QUANTISED], &files->config);
    files->config.quant.all_frozen = true;
    rp_status status = rp__model_files_quantise(files, true, RP_F32);
    if (status == RP_OK) FUZZ_CHECK(rp__model_build(ctx, &files->config, RP_F32, &model) == RP_OK);
    int64_t all = model ? n_marked(model, true) : 0;
    if (status == RP_OK) status = rp__model_load(model, files);
    check_loaded(ctx, status, model, all);
    rp__model_config_drop(&files->config);
    rp__model_free(model);
}

static void load(int how, const uint8_t *data, size_t size)
{
    static rp_model *made[RP_COUNT(configs)];
    rp_ctx *ctx  = fuzz_ctx();
    bool is_gguf = how & 2;
    int which    = how & 4 && !is_gguf ? WRAPPER : how & 1;

    if (!made[which]) made[which] = make(ctx, configs[which]);
    char *path = (char *)fuzz_file(is_gguf ? "model.gguf" : "model.safetensors", data, size);
    rp_model_files files = { .ctx = ctx, .path = path, .is_gguf = is_gguf };
    if (how & 8) {
        load_quantised(ctx, &files);
        return;
    }
    int64_t all = n_marked(made[which], true);
    check_loaded(ctx, rp__model_load(made[which], &files), made[which], all);
}

/* As in fuzz_safetensors.c: the JSON ends at the last brace and the spaces after it, whatever its length says. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size) return 0;
    load(data[0], data + 1, size - 1);
    uint64_t n = size - 1;
    while (n > 8 && data[n] != '}') n--;
    if (n <= 8 || data[0] & 2) return 0;
    while (n + 1 < size && data[n + 1] == ' ') n++;
    uint8_t *right = malloc(size - 1);
    FUZZ_CHECK(right);
    memcpy(right, data + 1, size - 1);
    n -= 8;
    memcpy(right, &n, sizeof n);
    load(data[0], right, size - 1);
    free(right);
    return 0;
}
