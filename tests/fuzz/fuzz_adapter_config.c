/* fuzz_adapter_config.c -- any bytes as the folder of an adapter: the first byte says of which family, then adapter_config.json to the first zero,
 * then adapter_model.safetensors. Refused with a sentence, or a tiny model with just these adapters is built and filled. */
#include "fuzz_folder.h"

#include <math.h>

#include "models/adapter.h"

enum { MOST_RANK = 64 };        /* of a model that is built: a rank is memory */

static const char *const configs[] = {
    "{\"model_type\":\"llama\",\"hidden_size\":4,\"intermediate_size\":6,\"num_hidden_layers\":1,\"num_attention_heads\":2,"
    "\"num_key_value_heads\":1,\"vocab_size\":4,\"max_position_embeddings\":8,\"tie_word_embeddings\":true}",
    "{\"model_type\":\"gpt2\",\"n_embd\":4,\"n_layer\":1,\"n_head\":2,\"n_positions\":4,\"vocab_size\":4}",
};

static rp_model_config make(rp_ctx *ctx, const char *text)
{
    rp_model_config config = { .family = NULL };
    json_t *json           = json_loads(text, 0, NULL);
    rp_report report;

    rp__report_open(&report, ctx);
    FUZZ_CHECK(rp__model_config_parse(ctx, "made", json, NULL, &report, &config) == RP_OK);
    rp__report_close(&report);
    json_decref(json);
    return config;
}

static void refused(const rp_ctx *ctx, rp_status status)
{
    FUZZ_CHECK(status == RP_ERR_FORMAT || status == RP_ERR_UNSUPPORTED || status == RP_ERR_SHAPE || status == RP_ERR_MATCH || status == RP_ERR_IO);
    FUZZ_CHECK(rp_error(ctx)[0] && !strchr(rp_error(ctx), '\n'));
}

/* What the file gave is what the model has: some adapter, of the config's rank. */
static void check_filled(rp_model *model, int64_t rank)
{
    int n = 0;
    rp_lora_parts parts;

    for (rp_module *root = rp__model_root(model), *m = root; m; m = rp__module_next(root, m)) {
        if (!rp__lora_parts(m, &parts)) continue;
        FUZZ_CHECK(parts.a->whole.dim[0] == rank && parts.b->whole.dim[1] == rank);
        n++;
    }
    FUZZ_CHECK(n > 0);
}

static void build(rp_ctx *ctx, const rp_adapter_files *files, rp_model_config *config)
{
    rp_model *model = NULL;

    int64_t rank    = rp__adapter_files_config(files)->lora.rank;
    config->adapter = *rp__adapter_files_config(files);
    FUZZ_CHECK(rank > 0 && isfinite(rp__lora_scale(&config->adapter.lora)));
    if (rank > MOST_RANK) return;
    rp_status status = rp__model_build(ctx, config, RP_F32, &model);
    if (status == RP_OK) status = rp__adapter_files_load(files, model);
    if (status == RP_OK) check_filled(model, rank);
    else refused(ctx, status);
    rp__model_free(model);
}

static void load(const char *model, const uint8_t *json, size_t json_size, const uint8_t *weights, size_t size)
{
    rp_ctx *ctx             = fuzz_ctx();
    rp_model_config config  = make(ctx, model);
    rp_adapter_files *files = NULL;
    char *base              = NULL;

    fuzz_file("adapter_config.json", json, json_size);
    fuzz_file("adapter_model.safetensors", weights, size);
    rp_status status = rp__adapter_base(ctx, fuzz_folder(), &base);
    if (status != RP_OK) refused(ctx, status);
    rp__release(base);
    status = rp__adapter_files_open(ctx, fuzz_folder(), &config, &files);
    if (status == RP_OK) build(ctx, files, &config);
    else refused(ctx, status);
    rp__adapter_files_close(files);
    rp__model_config_drop(&config);
}

/* As in fuzz_safetensors.c: the JSON ends at the last brace and the spaces after it, whatever its length says. */
static void load_with_right_length(const char *model, const uint8_t *json, size_t json_size, const uint8_t *weights, size_t size)
{
    uint64_t n = size;

    while (n > 8 && weights[n - 1] != '}') n--;
    if (n <= 8) return;
    while (n < size && weights[n] == ' ') n++;
    uint8_t *right = malloc(size);
    FUZZ_CHECK(right);
    memcpy(right, weights, size);
    n -= 8;
    memcpy(right, &n, sizeof n);
    load(model, json, json_size, right, size);
    free(right);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *zero = size > 1 ? memchr(data + 1, 0, size - 1) : NULL;
    const uint8_t *end  = zero ? zero : data + size;

    if (!size) return 0;
    const char *model = configs[data[0] & 1];
    size_t json_size  = (size_t)(end - data) - 1, rest = zero ? (size_t)(data + size - zero) - 1 : 0;
    load(model, data + 1, json_size, end + !!zero, rest);
    load_with_right_length(model, data + 1, json_size, end + !!zero, rest);
    return 0;
}
