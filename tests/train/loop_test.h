/* loop_test.h -- tiny models, a file of tokens, and runs over them in folders of their own. */
#ifndef RP_LOOP_TEST_H
#define RP_LOOP_TEST_H

#include "rp_test.h"

#include <jansson.h>

#include "temp.h"
#include "train/loop.h"

#define LLAMA \
    "{\"model_type\": \"llama\", \"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": 32, \"intermediate_size\": 48," \
    " \"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"vocab_size\": 61," \
    " \"max_position_embeddings\": 64, \"tie_word_embeddings\": true, \"bos_token_id\": 1, \"eos_token_id\": 0}"
#define GPT2 \
    "{\"model_type\": \"gpt2\", \"architectures\": [\"GPT2LMHeadModel\"], \"n_embd\": 32, \"n_layer\": 2, \"n_head\": 4," \
    " \"n_positions\": 64, \"vocab_size\": 61, \"embd_pdrop\": 0.1, \"attn_pdrop\": 0.1, \"resid_pdrop\": 0.1," \
    " \"bos_token_id\": 0, \"eos_token_id\": 0}"

/* Tokens with something to learn in them: mostly the last one plus 3, a document's end now and then. */
static inline void put_tokens(const temp_dir *d, const char *name, int n, uint32_t salt)
{
    uint16_t *ids = malloc((size_t)n * sizeof *ids);
    uint32_t x    = salt * 2654435761u + 12345u;

    assert_non_null(ids);
    for (int i = 0; i < n; i++) {
        x           = x * 1664525u + 1013904223u;
        uint32_t r  = x >> 16;
        ids[i]      = (uint16_t)(r % 29 == 0 ? 0 : i && r % 3 ? 1 + (ids[i - 1] + 3u) % 60 : 1 + r % 60);
    }
    temp_write(d, name, ids, (size_t)n * sizeof *ids);
    free(ids);
}

/* llama.json, gpt2.json, tokens.bin and val.bin. */
static inline temp_dir loop_dir(void)
{
    temp_dir d = temp_make();

    temp_text(&d, "llama.json", LLAMA);
    temp_text(&d, "gpt2.json", GPT2);
    put_tokens(&d, "tokens.bin", 1500, 1);
    put_tokens(&d, "val.bin", 200, 2);
    return d;
}

/* The config.json of a golden (tests/golden_variants.h) becomes a file of the folder. */
static inline void take_config(const temp_dir *d, const char *variant, const char *name)
{
    char path[1024], text[4096];

    snprintf(path, sizeof path, "%s/tests/golden/models/%s/config.json", RP_SOURCE_DIR, variant);
    FILE *f  = fopen(path, "rb");
    assert_non_null(f);
    size_t n = fread(text, 1, sizeof text - 1, f);
    assert_in_range(n, 1, sizeof text - 2);
    fclose(f);
    text[n] = 0;
    temp_text(d, name, text);
}

/* Each test has such a folder of its own. */
static temp_dir dir;

static int setup(void **state)
{
    (void)state;
    dir = loop_dir();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    temp_remove(&dir);
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* For models that are too large for references, which decode a block for each element of a quantised weight. tests/ops compares small tensors. */
static inline void leave_out_references(void)
{
    const char *device = getenv("REPRISE_TEST_DEVICE");

    if (device && !strcmp(device, "sim")) skip();
}

typedef struct { rp_ctx *ctx; rp_report report; rp_recipe *recipe; rp_trainer *trainer; rp_status status; } run;

enum { MOST_SETTINGS = 24 };
#define RUN(...) (const char *const[MOST_SETTINGS]){ __VA_ARGS__ }

/* A run of `model` ("llama") into `out`, settings ended by NULL over a recipe of 12 steps. The trainer is NULL where status is
 * not RP_OK. */
static inline run run_open(const temp_dir *d, const char *model, const char *out, const char *const *setting)
{
    char text[4096];
    run r = { 0 };
    int n = 0;

    while (setting[n]) n++;
    snprintf(text, sizeof text,
             "model: {config: %s/%s.json}\n"
             "dataset: {path: %s/tokens.bin, format: tokens}\n"
             "max_seq_len: 16\nbatch_size: 2\nepochs: 2\nmax_steps: 12\nseed: 3\ndtype: fp32\n"
             "optimizer: {lr: 3e-3, weight_decay: 0.1, no_decay: ['*norm*']}\nthreads: 1\n"
             "output_dir: %s/%s\n", d->path, model, d->path, d->path, out);
    rp_ctx *parser = test_ctx(&(rp_ctx_options){ .shapes_only = true, .threads = 1 });
    rp_report reported;
    rp__report_open(&reported, parser);
    assert_ok(parser, rp__recipe_read(parser, "r.yaml", text, (int64_t)strlen(text), n, setting, &reported, &r.recipe));
    rp__report_close(&reported);
    rp_ctx_options options = rp__recipe_ctx_options(r.recipe);
    rp__recipe_free(r.recipe);
    rp_ctx_free(parser);

    r.ctx = test_ctx(&options);
    rp__report_open(&r.report, r.ctx);
    assert_ok(r.ctx, rp__recipe_read(r.ctx, "r.yaml", text, (int64_t)strlen(text), n, setting, &r.report, &r.recipe));
    r.status = rp__trainer_new(r.ctx, r.recipe, &r.report, &r.trainer);
    return r;
}

static inline void run_close(run *r)
{
    rp__trainer_free(r->trainer);
    rp__recipe_free(r->recipe);
    rp__report_close(&r->report);
    test_ctx_free(r->ctx);
}

/* As wrong input, before any work: `words` are in the messages. */
static inline void assert_refused(const char *out, rp_status status, const char *words, const char *const *setting)
{
    run r = run_open(&dir, "llama", out, setting);
    char line[2048];
    bool reported = strstr(rp_error(r.ctx), words) != NULL;

    for (const rp_report_item *item = r.report.first; item; item = item->next)
        reported = reported || strstr(rp__report_line(item, line, sizeof line), words);
    if (!reported) fail_msg("'%s' is missing in: %s", words, rp_error(r.ctx));
    assert_int_equal(r.status, status);
    assert_int_equal(rp_status_exit_code(r.status), 2);
    assert_null(r.trainer);
    run_close(&r);
}

/* From beginning to end; it must succeed. */
static inline void run_whole(const temp_dir *d, const char *model, const char *out, const char *const *setting)
{
    run r = run_open(d, model, out, setting);

    assert_ok(r.ctx, r.status);
    assert_ok(r.ctx, rp__trainer_run(r.trainer, NULL, NULL));
    run_close(&r);
}

static inline char *file_bytes(const temp_dir *d, const char *name, size_t *bytes)
{
    FILE *f = fopen(temp_path(d, name), "rb");
    char *p = malloc(1 << 22);

    if (!f) fail_msg("there is no '%s'", name);
    *bytes = fread(p, 1, (1 << 22) - 1, f);
    p[*bytes] = 0;
    fclose(f);
    return p;
}

static inline void assert_same_file(const temp_dir *d, const char *a, const char *b)
{
    size_t n_a, n_b;
    char *at_a = file_bytes(d, a, &n_a), *at_b = file_bytes(d, b, &n_b);

    if (n_a != n_b || memcmp(at_a, at_b, n_a)) fail_msg("'%s' and '%s' differ", a, b);
    free(at_a);
    free(at_b);
}

static inline bool is_there(const temp_dir *d, const char *name) { return access(temp_path(d, name), F_OK) == 0; }

static inline void assert_same_final(const temp_dir *d, const char *a, const char *b)
{
    char at_a[128], at_b[128];

    snprintf(at_a, sizeof at_a, "%s/final/model.safetensors", a);
    snprintf(at_b, sizeof at_b, "%s/final/model.safetensors", b);
    assert_same_file(d, at_a, at_b);
}

/* The raw text of a key in a line of metrics ("2.5"), into out. */
static inline const char *metric_text(const char *line, const char *key, char out[64])
{
    char quoted[64];

    snprintf(quoted, sizeof quoted, "\"%s\": ", key);
    const char *at = strstr(line, quoted);
    if (!at) fail_msg("no %s in %s", key, line);
    at += strlen(quoted);
    snprintf(out, 64, "%.*s", (int)strcspn(at, ",}"), at);
    return out;
}

static inline double metric_number(const char *line, const char *key)
{
    char text[64];
    double value;

    if (!rp__parse_double(metric_text(line, key, text), &value)) fail_msg("%s is '%s'", key, text);
    return value;
}

enum { MOST_LINES = 64 };
typedef struct { char *text, *line[MOST_LINES]; int n; } metrics;

static inline metrics metrics_of(const temp_dir *d, const char *out)
{
    char name[128];
    size_t bytes;
    metrics m = { 0 };

    snprintf(name, sizeof name, "%s/metrics.jsonl", out);
    m.text = file_bytes(d, name, &bytes);
    for (char *at = m.text, *end; (end = strchr(at, '\n')); at = end + 1) {
        assert_true(m.n < MOST_LINES);
        *end          = 0;
        m.line[m.n++] = at;
    }
    return m;
}

/* The same loss and grad_norm, character by character, in every step. */
static inline void assert_same_losses(const temp_dir *d, const char *a, const char *b)
{
    metrics at_a = metrics_of(d, a), at_b = metrics_of(d, b);
    char x[64], y[64];

    assert_int_equal(at_a.n, at_b.n);
    assert_true(at_a.n > 0);
    for (int i = 0; i < at_a.n; i++) {
        assert_string_equal(metric_text(at_a.line[i], "loss", x), metric_text(at_b.line[i], "loss", y));
        assert_string_equal(metric_text(at_a.line[i], "grad_norm", x), metric_text(at_b.line[i], "grad_norm", y));
    }
    free(at_a.text);
    free(at_b.text);
}

/* Line by line the same but for the clock and the process. */
static inline void assert_same_metrics(const temp_dir *d, const char *a, const char *b)
{
    static const char *const own[] = { "step_seconds", "tokens_per_second", "rss" };
    metrics at_a = metrics_of(d, a), at_b = metrics_of(d, b);

    assert_int_equal(at_a.n, at_b.n);
    for (int i = 0; i < at_a.n; i++) {
        json_t *x = json_loads(at_a.line[i], 0, NULL), *y = json_loads(at_b.line[i], 0, NULL);
        assert_non_null(x);
        assert_non_null(y);
        for (int k = 0; k < RP_COUNT(own); k++) {
            assert_int_equal(json_object_del(x, own[k]), 0);
            assert_int_equal(json_object_del(y, own[k]), 0);
        }
        if (!json_equal(x, y)) fail_msg("step %d: %s\nand %s", i + 1, at_a.line[i], at_b.line[i]);
        json_decref(x);
        json_decref(y);
    }
    free(at_a.text);
    free(at_b.text);
}

#endif
