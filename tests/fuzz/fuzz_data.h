/* fuzz_data.h -- any bytes as a file of training data: refused with a sentence, or every batch of a step has ids below the
 * vocabulary and positions within documents. The first byte chooses how it is read. */
#ifndef RP_FUZZ_DATA_H
#define RP_FUZZ_DATA_H

#include "data/data.h"
#include "fuzz_folder.h"
#include "text/file.h"

enum { FUZZ_VOCAB = 300, FUZZ_IGNORE = -100, FUZZ_ENOUGH = 1 << 17 };

/* A few bytes can unpack to gigabytes: such inputs would take most of the time, and fuzz_text_file.c has them. */
static inline bool fuzz_is_long(rp_ctx *ctx, const char *path)
{
    static char to[FUZZ_ENOUGH];
    int64_t n = 1, bytes = 0;
    rp_text_file *f;

    FUZZ_CHECK(rp__text_file_open(ctx, path, &f) == RP_OK);
    while (n && bytes < FUZZ_ENOUGH && rp__text_file_read(f, to, sizeof to, &n) == RP_OK) bytes += n;
    rp__text_file_close(f);
    return bytes >= FUZZ_ENOUGH;
}

/* Each byte is its own id, so whatever text there is has ids. A text goes on only when one is open; one may be left. */
static inline rp_status fuzz_encode(void *user, const char *text, int64_t bytes, rp_text_part part, int32_t **ids, int64_t *n)
{
    static bool open;

    FUZZ_CHECK(open || part & RP_TEXT_BEGINS);
    open = !(part & RP_TEXT_ENDS);
    int32_t *out = rp__host_alloc(user, (bytes + 1) * (int64_t)sizeof *out);

    FUZZ_CHECK(out);
    for (int64_t i = 0; i < bytes; i++) out[i] = (uint8_t)text[i];
    *ids = out;
    *n   = bytes;
    return RP_OK;
}

static inline void fuzz_check_batch(rp_data *data)
{
    rp_data_step step;
    rp_data_batch b;

    FUZZ_CHECK(rp__data_step(data, 0, &step) == RP_OK);
    FUZZ_CHECK(rp__data_batch(data, 0, 0, &b) == RP_OK);
    FUZZ_CHECK(step.targets >= 2 && step.tokens > 0 && b.rows == 2 && b.length <= 8);
    for (int64_t i = 0; i < b.rows * b.length; i++) {
        FUZZ_CHECK(b.tokens[i] >= 0 && b.tokens[i] < FUZZ_VOCAB);
        FUZZ_CHECK(b.labels[i] == FUZZ_IGNORE || (b.labels[i] >= 0 && b.labels[i] < FUZZ_VOCAB));
        FUZZ_CHECK(b.positions[i] >= 0 && b.positions[i] < b.length);
        FUZZ_CHECK(b.doc_start[i] >= 0 && b.doc_start[i] <= i % b.length);
    }
}

static inline int fuzz_data(const char *format, const uint8_t *data, size_t size)
{
    rp_ctx *ctx = fuzz_ctx();
    rp_data *d  = NULL;
    int how     = size ? data[0] : 0;

    if (!size) return 0;
    const char *path = fuzz_file("data", data + 1, size - 1);
    if (strcmp(format, "tokens") && fuzz_is_long(ctx, path)) return 0;
    rp_data_config config = { .path = path, .format = format, .packed = how & 1,
                              .cross_documents = how & 2, .train_on_input = true, .wide_tokens = how & 4, .max_seq_len = 8,
                              .batch_size = 2, .accumulation = 1, .ranks = 1, .shuffle = how & 8, .seed = 1,
                              .ignore_index = FUZZ_IGNORE, .scratch_dir = fuzz_folder() };
    rp_data_source source = { .user = ctx, .encode = fuzz_encode, .bos = 256, .eos = how & 16 ? 10 : 257, .adds_bos = how & 32,
                              .vocab = FUZZ_VOCAB };
    if (!strcmp(format, "jsonl")) {
        config.column         = "a";
        config.prompt_column  = how & 64 ? "p" : NULL;
        config.train_on_input = !(how & 64) || how & 128;
    }
    if (!strcmp(format, "alpaca")) config.train_on_input = how & 64;
    rp_status status = rp__data_open(ctx, "dataset", &config, &source, &d);
    if (status == RP_OK) {
        fuzz_check_batch(d);
        rp__data_close(d);
    } else {
        FUZZ_CHECK(!d && rp_error(ctx)[0]);
        FUZZ_CHECK(status == RP_ERR_FORMAT || status == RP_ERR_CONFIG);       /* CONFIG: too little data for a step */
    }
    return 0;
}

#endif
