/* config_test.h -- one config.json read per test, what was said of it, and the beginnings of some. */
#ifndef RP_CONFIG_TEST_H
#define RP_CONFIG_TEST_H

#include "rp_test.h"

#include "models/config.h"
#include "models/family.h"

static rp_ctx *ctx;
static rp_report report;
static rp_model_config config;

#define LLAMA \
    "'model_type': 'llama', 'vocab_size': 96, 'hidden_size': 32, 'intermediate_size': 48, 'num_hidden_layers': 2," \
    "'num_attention_heads': 4"
#define GPT2 "'model_type': 'gpt2', 'vocab_size': 96, 'n_embd': 32, 'n_layer': 2, 'n_head': 4, 'n_positions': 48"
#define SIZES "'vocab_size': 96, 'hidden_size': 32, 'intermediate_size': 48, 'num_hidden_layers': 6, 'num_attention_heads': 4," \
              "'num_key_value_heads': 2"
#define FAMILY(name) "{'model_type': '" name "', " SIZES
#define ROPE(object) "{" LLAMA ", 'rope_scaling': " object "}"

/* Single quotes stand for double ones; `overrides` is YAML or NULL. */
static inline rp_status parse(const char *text, const char *overrides)
{
    char json[4096];
    rp_yaml_doc doc    = { .bump = { .ctx = ctx } };
    rp_yaml_node *tree = NULL;

    rp__report_close(&report);
    rp__model_config_drop(&config);
    assert_in_range(snprintf(json, sizeof json, "%s", text), 0, sizeof json - 1);
    for (char *p = json; *p; p++) *p = *p == '\'' ? '"' : *p;
    json_t *value = json_loads(json, 0, NULL);
    if (!value) fail_msg("no JSON: %s", json);
    if (overrides) assert_ok(ctx, rp__yaml_parse(&doc, "recipe.yaml", overrides, (int64_t)strlen(overrides), &report, &tree));
    rp_status status = rp__model_config_parse(ctx, "config.json", value, tree, &report, &config);
    json_decref(value);
    rp__bump_free(&doc.bump);
    assert_int_equal(status == RP_OK, config.source != NULL);
    return status;
}

static inline bool reported(const char *text)
{
    char line[RP_ERROR_CHARS];

    for (const rp_report_item *item = report.first; item; item = item->next)
        if (strstr(rp__report_line(item, line, sizeof line), text)) return true;
    return false;
}

static inline void assert_refused(const char *text, rp_status want, const char *message)
{
    rp_status status = parse(text, NULL);

    if (status != want || !reported(message) || report.n_errors != 1)
        fail_msg("%s: status %d, %d errors, said '%s', expected '%s'", text, (int)status, report.n_errors, rp_error(ctx), message);
}

static inline int setup(void **state)
{
    (void)state;
    ctx = test_ctx(NULL);
    rp__report_open(&report, ctx);
    return 0;
}

static inline int teardown(void **state)
{
    (void)state;
    rp__report_close(&report);
    rp__model_config_drop(&config);
    test_ctx_free(ctx);
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
