/* config_test.h -- one config.json read per test, what was said of it, and the beginnings of some. */
#ifndef RP_CONFIG_TEST_H
#define RP_CONFIG_TEST_H

#include "rp_test.h"

#include "models/family.h"

static rp_ctx *ctx;

#include "config_parse.h"

#define LLAMA \
    "'model_type': 'llama', 'vocab_size': 96, 'hidden_size': 32, 'intermediate_size': 48, 'num_hidden_layers': 2," \
    "'num_attention_heads': 4"
#define GPT2 "'model_type': 'gpt2', 'vocab_size': 96, 'n_embd': 32, 'n_layer': 2, 'n_head': 4, 'n_positions': 48"
#define SIZES "'vocab_size': 96, 'hidden_size': 32, 'intermediate_size': 48, 'num_hidden_layers': 6, 'num_attention_heads': 4," \
              "'num_key_value_heads': 2"
#define FAMILY(name) "{'model_type': '" name "', " SIZES
#define ROPE(object) "{" LLAMA ", 'rope_scaling': " object "}"

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
