/* fuzz_model_config.c -- any bytes as a config.json, or as a GGUF file whose metadata becomes one: refused with a sentence, or a
 * config whose sizes a model can be built from, and whose source is read again to the same. */
/* ctest: watched */
#include "fuzz.h"

#include <math.h>

#include "models/weights_internal.h"

static void refused(const rp_ctx *ctx, rp_status status, const rp_report *report)
{
    FUZZ_CHECK(status == RP_ERR_FORMAT || status == RP_ERR_CONFIG || status == RP_ERR_UNSUPPORTED);
    FUZZ_CHECK(rp_error(ctx)[0] && !strchr(rp_error(ctx), '\n'));
    FUZZ_CHECK(status == RP_ERR_FORMAT || report->n_errors > 0);
}

static void check_sizes(const rp_model_config *c)
{
    FUZZ_CHECK(c->family && c->vocab > 0 && c->hidden > 0 && c->n_layers > 0 && c->context > 0 && c->mlp_hidden > 0);
    FUZZ_CHECK(c->n_heads > 0 && c->n_kv_heads > 0 && c->n_heads % c->n_kv_heads == 0 && c->head_dim > 0);
    FUZZ_CHECK(c->attn_scale > 0 && c->norm_eps >= 0 && c->norm_eps <= 1 && c->init_std >= 0 && c->init_std <= 1);
    FUZZ_CHECK(c->rope.kind == RP_ROPE_NONE || (c->head_dim % 2 == 0 && c->rope.theta > 0));
    FUZZ_CHECK(c->rope.kind != RP_ROPE_LLAMA3 || (c->rope.original_context > 0 && c->rope.factor > 0));
    FUZZ_CHECK(c->window_rope.kind == RP_ROPE_NONE || c->window_rope.theta > 0);
    FUZZ_CHECK(c->rotary_dim % 2 == 0 && c->rotary_dim >= 0 && c->rotary_dim <= c->head_dim);
    FUZZ_CHECK(c->rope.kind != RP_ROPE_LONG || (c->rope.original_context > 0 && isfinite(c->rope.attention_factor) &&
                                                2 * (int64_t)json_array_size(c->rope.long_divisors) == c->rotary_dim));
    FUZZ_CHECK(c->attn_softcap >= 0 && c->logit_softcap >= 0 && c->embedding_scale >= 0);
    for (int64_t i = 0; i < c->n_layers; i += 1 + i / 8) FUZZ_CHECK(rp__model_config_window(c, i) >= 0 && rp__model_config_window(c, i) <= INT32_MAX);
}

static void parse(rp_ctx *ctx, const json_t *json, rp_report *report)
{
    rp_model_config first = { .family = NULL }, again = { .family = NULL };
    rp_status status      = rp__model_config_parse(ctx, "input", json, NULL, report, &first);

    if (status != RP_OK) {
        FUZZ_CHECK(!first.source);
        refused(ctx, status, report);
        return;
    }
    check_sizes(&first);
    FUZZ_CHECK(first.wrapper ? json_is_object(json_object_get(json, "text_config")) : json_equal(first.source, json));
    FUZZ_CHECK(rp__model_config_parse(ctx, "input", first.source, NULL, report, &again) == RP_OK);
    FUZZ_CHECK(first.hidden == again.hidden && first.rope.theta == again.rope.theta && first.eos == again.eos);
    rp__model_config_drop(&first);
    rp__model_config_drop(&again);
}

static void parse_gguf(rp_ctx *ctx, const uint8_t *data, size_t size, rp_report *report)
{
    rp_gguf *file = NULL;
    json_t *json  = NULL;

    if (rp__gguf_open_bytes(ctx, "input", data, (int64_t)size, &file) != RP_OK) return;
    rp_status status = rp__gguf_config(ctx, "input", file, report, &json);
    if (status == RP_OK) parse(ctx, json, report);
    else refused(ctx, status, report);
    json_decref(json);
    rp__gguf_close(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    rp_ctx *ctx = fuzz_ctx();
    rp_report report;

    rp__report_open(&report, ctx);
    if (size >= 4 && !memcmp(data, "GGUF", 4)) {
        parse_gguf(ctx, data, size, &report);
    } else {
        json_t *json = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, NULL);
        if (json) parse(ctx, json, &report);
        json_decref(json);
    }
    rp__report_close(&report);
    return 0;
}
