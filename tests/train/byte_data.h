/* byte_data.h -- data whose tokens are the bytes of its text, for tests of what becomes of them. */
#ifndef RP_BYTE_DATA_H
#define RP_BYTE_DATA_H

#include "data/data.h"
#include "rp_test.h"

/* A tokenizer whose ids are bytes. */
enum { BOS = 256, EOS = 257, VOCAB = 258, MARK = -100 };

static inline rp_status encode_bytes(void *user, const char *text, int64_t bytes, rp_text_part part, int32_t **ids, int64_t *n_ids)
{
    (void)part;
    int32_t *out = bytes ? rp__host_alloc(user, bytes * (int64_t)sizeof *out) : NULL;

    if (bytes && !out) return RP_ERR_MEMORY;
    for (int64_t i = 0; i < bytes; i++) out[i] = (uint8_t)text[i];
    *ids   = out;
    *n_ids = bytes;
    return RP_OK;
}

static inline rp_data_source source_of(rp_ctx *ctx)
{
    return (rp_data_source){ .user = ctx, .encode = encode_bytes, .bos = BOS, .eos = EOS, .adds_bos = false, .vocab = VOCAB };
}

static inline rp_data_config config_of(const char *path, const char *format)
{
    return (rp_data_config){ .path = path, .format = format, .column = "text", .packed = true, .train_on_input = true, .max_seq_len = 4,
                             .batch_size = 1, .accumulation = 1, .ranks = 1, .ignore_index = MARK };
}

static inline rp_data *open_data(rp_ctx *ctx, const rp_data_config *c)
{
    rp_data_source s = source_of(ctx);
    rp_data *d;

    assert_ok(ctx, rp__data_open(ctx, "dataset", c, &s, &d));
    return d;
}

static inline void refuse(rp_ctx *ctx, const rp_data_config *c, rp_status expected, const char *message)
{
    rp_data_source s = source_of(ctx);
    rp_data *d       = NULL;

    assert_int_equal(rp__data_open(ctx, "dataset", c, &s, &d), expected);
    assert_null(d);
    assert_string_equal(rp_error(ctx), message);
}

/* With allocation 1, 2, … failing until none does. */
static inline void open_with_faults(rp_ctx *ctx, const rp_data_config *c)
{
    rp_data_source s = source_of(ctx);
    test_faults f    = { 0 };

    while (!f.over) {
        rp_data *d = NULL;
        test_fault_begin(&f, ctx);
        if (test_fault_end(&f, rp__data_open(ctx, "dataset", c, &s, &d))) assert_null(d);
        rp__data_close(d);
    }
    assert_true(f.failed > 5 && f.failed < 1000);
}

#define assert_row(got, ...) \
    do { \
        const int32_t want_[] = { __VA_ARGS__ }; \
        assert_memory_equal((got), want_, sizeof want_); \
    } while (0)

#endif
