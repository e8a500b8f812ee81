/* Claims about models written as GGUF: the bytes that the gguf package writes, the weights and logits that are read back, merges, copies. */
#include "weights_test.h"

#include <jansson.h>

#include "gguf/write.h"
#include "models/gguf/export.h"

enum { TOKENS = 20, VOCAB = 96 };

/* A model to write: in a context of shapes, because no parameter is read. */
typedef struct { rp_ctx *shapes; opened_model o; rp_report notes; rp_gguf_outcome outcome; } exporting;

static exporting open_export(const char *path, const char *overrides)
{
    exporting e = { .shapes = test_ctx(&(rp_ctx_options){ .threads = 1, .shapes_only = true }) };

    e.o = open_at(e.shapes, path, overrides, RP_F32);
    rp__report_open(&e.notes, e.shapes);
    return e;
}

static void close_export(exporting *e)
{
    close_model(&e->o);
    rp__report_close(&e->notes);
    test_ctx_free(e->shapes);
}

static rp_status write_as(exporting *e, const char *type, bool adapter, const char *to)
{
    bool named = adapter || !rp__ends_with(rp__model_files_base(e->o.files), ".gguf");
    const rp_gguf_options options = { .type = type, .name = named ? "golden" : NULL };

    return (adapter ? rp__gguf_export_adapter : rp__gguf_export)(e->o.model, e->o.files, &options, to, &e->notes, &e->outcome);
}

static void export_to(const char *path, const char *overrides, const char *type, bool adapter, const char *to)
{
    exporting e = open_export(path, overrides);

    assert_ok(e.shapes, write_as(&e, type, adapter, to));
    close_export(&e);
}

/* ---- against the gguf package ---- */

static json_t *written(void)
{
    char path[RP_GOLDEN_PATH];
    json_t *all = json_load_file(golden_path(path, "gguf/written.json"), 0, NULL);

    assert_non_null(all);
    return all;
}

static void assert_hash(const char *what, const void *data, int64_t bytes, const json_t *want)
{
    char hash[32];

    snprintf(hash, sizeof hash, "%016" PRIx64, rp__hash(data, (size_t)bytes, RP_HASH_START));
    if (bytes != json_integer_value(json_array_get(want, 0))) fail_msg("%s has %" PRId64 " bytes", what, bytes);
    if (strcmp(hash, json_string_value(json_array_get(want, 1)))) fail_msg("%s has other bytes", what);
}

static void assert_file(const char *what, const char *path, const json_t *want)
{
    rp_file_map map;

    assert_ok(ctx, rp__file_map(ctx, path, &map));
    assert_hash(what, map.data, map.bytes, want);
    rp__file_unmap(&map);
}

/* tools/goldens_gguf_written.py overrides these keys. */
static const struct { const char *name, *variant, *overrides; } cases[] = {
    { "gemma2", "gemma2", "{query_pre_attn_scalar: 12}" },
    { "gemma3", "gemma3_text", "{query_pre_attn_scalar: 12, sliding_window_pattern: 6}" },
};

static const char *case_of(const char *name, const char **variant)
{
    *variant = name;
    for (int i = 0; i < RP_COUNT(cases); i++)
        if (!strcmp(cases[i].name, name)) return *variant = cases[i].variant, cases[i].overrides;
    return NULL;
}

static void files_are_those_that_the_gguf_package_writes(void **state)
{
    json_t *all = written(), *types, *want;
    const char *name, *type, *variant;
    char path[RP_GOLDEN_PATH];

    (void)state;
    json_object_foreach(json_object_get(all, "models"), name, types) json_object_foreach(types, type, want) {
        const char *overrides = case_of(name, &variant);
        export_to(variant_path(path, variant), overrides, type, false, temp_path("out.gguf"));
        assert_file(name, temp_path("out.gguf"), want);
    }
    json_decref(all);
}

static void adapters_are_those_that_the_gguf_package_writes(void **state)
{
    json_t *all = written(), *want;
    const char *name;
    char path[RP_GOLDEN_PATH], file[64];

    (void)state;
    json_object_foreach(json_object_get(all, "adapters"), name, want) {
        snprintf(file, sizeof file, "lora/%s", name);
        export_to(golden_path(path, file), NULL, "F32", true, temp_path("out.gguf"));
        assert_file(name, temp_path("out.gguf"), want);
    }
    json_decref(all);
}

/* As in tools/goldens_gguf_written.py. */
static void some_numbers(float x[4096])
{
    uint32_t now = 12345;

    for (int i = 0; i < 4096; i++) {
        int block = i / 32;
        now       = now * 1664525u + 1013904223u;
        x[i]      = (float)((double)(now >> 8) / (1 << 24) - 0.5) * ldexpf(1, block % 24 - 12);
        x[i]      = block == 5 ? 0 : block == 6 ? 0.25f : block == 7 ? x[i] * 0x1p-30f : x[i];
    }
}

static void blocks_are_those_that_the_gguf_package_makes(void **state)
{
    static float x[4096];
    static uint8_t to[4 * 4096];
    json_t *all = written(), *want;
    const char *type;

    (void)state;
    some_numbers(x);
    json_object_foreach(json_object_get(all, "types"), type, want) {
        assert_true(rp__gguf_quantise(type, x, 4096, to));
        assert_hash(type, to, rp__gguf_bytes_of(type, 4096), want);
    }
    json_decref(all);
}

static void numbers_that_a_type_cannot_hold_are_refused(void **state)
{
    static const struct { const char *type; float fits, exceeds; } ranges[] = {
        { "F32", 3e38f, INFINITY }, { "BF16", 3e38f, NAN }, { "F16", -65504, 65536 }, { "Q8_0", 8e6f, 9e6f }, { "Q4_0", -5e5f, 6e5f }, { "Q4_1", 6e4f, -7e4f },
    };
    uint8_t to[128];

    (void)state;
    for (int i = 0; i < RP_COUNT(ranges); i++) {
        float x[32] = { 0, ranges[i].fits };
        assert_true(rp__gguf_quantise(ranges[i].type, x, 32, to));
        x[3] = ranges[i].exceeds;
        assert_false(rp__gguf_quantise(ranges[i].type, x, 32, to));
    }
}

/* ---- read back ---- */

static void logits_of(rp_model *m, double out[TOKENS * VOCAB])
{
    rp_meta meta         = rp_meta_2d(RP_I32, 1, TOKENS);
    rp_model_batch batch = { 0 };
    rp_tensor *logits;
    int32_t ids[TOKENS];

    for (int i = 0; i < TOKENS; i++) ids[i] = (i * i * 7 + i * 3 + 5) % VOCAB;
    assert_ok(ctx, rp_tensor_new(ctx, &meta, RP_MEM_TEMP, &batch.tokens));
    assert_ok(ctx, rp_tensor_write_i32(batch.tokens, ids, TOKENS));
    rp__tape_ctx(ctx)->eval = rp__tape_ctx(ctx)->no_grad = true;
    assert_ok(ctx, rp__model_logits(m, &batch, &logits));
    assert_ok(ctx, rp_tensor_read(logits, out, TOKENS * VOCAB));
    rp_tensor_unref(logits);
    rp_tensor_unref(batch.tokens);
}

/* The largest difference of two models' logits. */
static double distance(rp_model *a, rp_model *b)
{
    static double x[TOKENS * VOCAB], y[TOKENS * VOCAB];
    double most = 0;

    logits_of(a, x);
    logits_of(b, y);
    for (int i = 0; i < TOKENS * VOCAB; i++) most = fmax(most, fabs(x[i] - y[i]));
    return most;
}

/* Gemma's norms are stored plus 1, which rounds them. */
static void a_model_read_back_has_the_same_logits(void **state)
{
    static const char *const names[] = { "llama2", "smollm2", "llama_bias", "llama_head_dim", "llama_linear", "mistral_whole", "gpt2", "gpt2_inner", "qwen2",
                                         "qwen3", "phi3", "phi3_partial", "olmo2", "qwen3_moe", "mixtral", "gemma2", "gemma3", "idefics3", "mistral3" };
    char path[RP_GOLDEN_PATH];
    const char *variant;

    (void)state;
    for (int i = 0; i < RP_COUNT(names); i++) {
        const char *overrides = case_of(names[i], &variant);
        rp_model *m           = model_at(ctx, variant_path(path, variant), overrides, RP_F32);
        export_to(path, overrides, "F32", false, temp_path("back.gguf"));
        rp_model *back = model_at(ctx, temp_path("back.gguf"), NULL, RP_F32);
        if (!(distance(m, back) <= (names[i][0] == 'g' && names[i][1] == 'e' ? 1e-5 : 0))) fail_msg("%s: logits differ by %g", names[i], distance(m, back));
        rp__model_free(m);
        rp__model_free(back);
    }
}

/* llama.cpp's OLMo 2 reads an output in any case; the reader sees that it is the embedding. */
static void a_tied_olmo2_is_written_with_an_output(void **state)
{
    char path[RP_GOLDEN_PATH];
    opened o = open_model(variant_path(path, "olmo2"), "{tie_word_embeddings: true}", RP_F32);

    (void)state;
    rp__model_init(o.model, 3);
    assert_ok(ctx, rp__model_export(o.model, temp_dir));
    export_to(temp_dir, NULL, "F32", false, temp_path("tied.gguf"));
    rp_gguf *file = NULL;
    assert_ok(ctx, rp__gguf_open(ctx, temp_path("tied.gguf"), &file));
    assert_true(rp__gguf_same_bytes(file, rp__gguf_find(file, "token_embd.weight"), rp__gguf_find(file, "output.weight")));
    rp__gguf_close(file);
    rp_model *back = model_at(ctx, temp_path("tied.gguf"), NULL, RP_F32);
    assert_true(rp__model_config(back)->tied);
    assert_true(distance(o.model, back) == 0);
    rp__model_free(back);
    close_model(&o);
}

/* The three kinds of adapters over the three layouts of weights: as merged into the safetensors of an export. */
static void a_merged_adapter_gives_the_weights_of_an_export(void **state)
{
    static const char *const names[] = { "smollm2", "gpt2", "llama_bias", "smollm2_dora", "gpt2_dora", "llama_bias_dora", "smollm2_whole", "gpt2_whole",
                                         "llama_bias_whole" };
    char path[RP_GOLDEN_PATH], name[64];

    (void)state;
    for (int i = 0; i < RP_COUNT(names); i++) {
        snprintf(name, sizeof name, "lora/%s", names[i]);
        opened o = load_model(golden_path(path, name), RP_F32);
        assert_ok(ctx, rp__model_export(o.model, temp_dir));
        export_to(path, NULL, "F32", false, temp_path("merged.gguf"));
        rp_model *want = model_at(ctx, temp_dir, NULL, RP_F32), *got = model_at(ctx, temp_path("merged.gguf"), NULL, RP_F32);
        assert_int_equal(rp__model_n_params(got), rp__model_n_params(want));
        for (int k = 0; k < rp__model_n_params(want); k++) {
            rp_tensor *a = rp__model_param(want, k)->tensor, *b = rp__model_param(got, k)->tensor;
            if (memcmp(test_bytes(a), test_bytes(b), (size_t)rp_meta_bytes(rp_tensor_meta(a))))
                fail_msg("%s: '%s' differs", names[i], rp__model_param(want, k)->path);
        }
        rp__model_free(want);
        rp__model_free(got);
        close_model(&o);
    }
}

/* ---- from GGUF ---- */

static void a_model_from_gguf_is_copied_byte_for_byte(void **state)
{
    static const char *const names[] = { "grouped", "tied", "gpt2", "qwen2", "qwen3", "gemma2", "gemma3_text", "phi3", "olmo2", "qwen3_moe", "mixtral",
                                         "mixtral_apart" };
    char path[RP_GOLDEN_PATH], name[64];

    (void)state;
    for (int i = 0; i < RP_COUNT(names); i++) {
        snprintf(name, sizeof name, "gguf/%s.gguf", names[i]);
        exporting e = open_export(golden_path(path, name), NULL);
        assert_ok(e.shapes, write_as(&e, NULL, false, temp_path("copy.gguf")));
        assert_int_equal(e.outcome.copied, e.outcome.tensors);
        assert_int_equal(e.notes.n_notes, 0);
        assert_same_files(ctx, temp_path("copy.gguf"), path);
        close_export(&e);
    }
}

static rp_gguf *open_gguf(const char *path)
{
    rp_gguf *file;

    assert_ok(ctx, rp__gguf_open(ctx, path, &file));
    return file;
}

static float *elems_of_tensor(rp_gguf *file, const char *name, int64_t *n)
{
    const rp_gguf_tensor *t = rp__gguf_find(file, name);

    assert_non_null(t);
    float *x = rp__host_alloc(ctx, t->elems * (int64_t)sizeof *x);
    assert_non_null(x);
    assert_ok(ctx, rp__gguf_read(file, t, 0, t->elems, x));
    *n = t->elems;
    return x;
}

static void a_name_replaces_that_of_the_file(void **state)
{
    static const char *const names[] = { "gguf/grouped.gguf", "gguf/gpt2.gguf" };      /* the second has none */
    char path[RP_GOLDEN_PATH];

    (void)state;
    for (int i = 0; i < RP_COUNT(names); i++) {
        exporting e = open_export(golden_path(path, names[i]), NULL);
        const rp_gguf_options options = { .name = "mine" };
        assert_ok(e.shapes, rp__gguf_export(e.o.model, e.o.files, &options, temp_path("named.gguf"), &e.notes, &e.outcome));
        rp_gguf *file = open_gguf(temp_path("named.gguf"));
        rp_gguf_string name = rp__gguf_get(file, "general.name")->s;
        assert_int_equal(name.bytes, 4);
        assert_memory_equal(name.text, "mine", 4);
        rp__gguf_close(file);
        close_export(&e);
    }
}

/* Of a file in F32, F16, Q8_0 and Q4_1: a tensor that has the type keeps its bytes, and rope_freqs and norms stay F32. */
static void a_model_from_gguf_is_converted_tensor_by_tensor(void **state)
{
    char path[RP_GOLDEN_PATH];
    exporting e = open_export(golden_path(path, "gguf/grouped.gguf"), NULL);
    int64_t n;

    (void)state;
    assert_ok(e.shapes, write_as(&e, "Q8_0", false, temp_path("q8.gguf")));
    rp_gguf *from = open_gguf(path), *to = open_gguf(temp_path("q8.gguf"));
    assert_int_equal(rp__gguf_get(to, "general.file_type")->i, 7);
    assert_int_equal(rp__gguf_get(to, "general.quantization_version")->i, 2);
    assert_string_equal(rp__gguf_find(to, "blk.0.attn_q.weight")->type, "Q8_0");
    assert_string_equal(rp__gguf_find(to, "rope_freqs.weight")->type, "F32");
    assert_string_equal(rp__gguf_find(to, "blk.0.attn_norm.weight")->type, "F32");
    assert_true(e.outcome.copied > 0 && e.outcome.copied < e.outcome.tensors);
    float *x = elems_of_tensor(from, "blk.1.ffn_down.weight", &n);
    uint8_t *want = rp__host_alloc(ctx, n * 2), *got = rp__host_alloc(ctx, n * 2);
    const rp_gguf_tensor *t = rp__gguf_find(to, "blk.1.ffn_down.weight");
    assert_true(want && got && rp__gguf_quantise("Q8_0", x, n, want));
    assert_ok(ctx, rp__gguf_read_bytes(to, t, 0, t->bytes, got));
    assert_memory_equal(want, got, (size_t)t->bytes);
    assert_int_equal(rp__gguf_read_bytes(to, t, 1, t->bytes, got), RP_ERR_ARG);
    assert_string_equal(rp_error(ctx), "bytes [1, +2176) are outside tensor 'blk.1.ffn_down.weight', which has 2176");
    RP_RELEASE(x, want, got);
    rp__gguf_close(from);
    rp__gguf_close(to);
    close_export(&e);
}

/* A GGUF of the golden llama_bias, with ffn_up in a type that cannot be written: codes of IQ4_NL have the size of those of Q4_0. */
static void write_base(const char *to)
{
    char path[RP_GOLDEN_PATH];
    rp_gguf_writer *w;

    export_to(variant_path(path, "llama_bias"), NULL, "Q4_0", false, temp_path("q4.gguf"));
    rp_gguf *from = open_gguf(temp_path("q4.gguf"));
    assert_ok(ctx, rp__gguf_create(ctx, to, &w));
    for (int64_t i = 0; i < rp__gguf_n_values(from); i++) assert_ok(ctx, rp__gguf_add_copy(w, rp__gguf_value_at(from, i)));
    for (int64_t i = 0; i < rp__gguf_n_tensors(from); i++) {
        const rp_gguf_tensor *t = rp__gguf_tensor_at(from, i);
        bool odd                = !strcmp(t->name, "blk.0.ffn_up.weight") && !strcmp(t->type, "Q4_0");
        assert_ok(ctx, rp__gguf_add_tensor(w, t->name, odd ? "IQ4_NL" : t->type, t->ndim, t->dim));
    }
    for (int64_t i = 0; i < rp__gguf_n_tensors(from); i++) {
        const rp_gguf_tensor *t = rp__gguf_tensor_at(from, i);
        char *bytes             = rp__host_alloc(ctx, t->bytes);
        assert_non_null(bytes);
        assert_ok(ctx, rp__gguf_read_bytes(from, t, 0, t->bytes, bytes));
        assert_ok(ctx, rp__gguf_put(w, bytes, t->bytes));
        rp__release(bytes);
    }
    assert_ok(ctx, rp__gguf_commit(w));
    rp__gguf_close(from);
}

static rp_status add_adapter(exporting *e, const char *base, const char *adapter)
{
    rp_model_config config = { .family = NULL };

    e->shapes = test_ctx(&(rp_ctx_options){ .threads = 1, .shapes_only = true });
    rp__report_open(&e->o.report, e->shapes);
    rp__report_open(&e->notes, e->shapes);
    RP_TRY(rp__model_files_open(e->shapes, base, NULL, &e->o.report, &e->o.files));
    RP_TRY(rp__model_files_adapter(e->o.files, adapter));
    RP_TRY(rp__model_files_config(e->o.files, &config));
    return rp__model_build(e->shapes, &config, RP_F32, &e->o.model);
}

static const char *note_at(const exporting *e, int i)
{
    const rp_report_item *item = e->notes.first;

    for (; item && i; i--) item = item->next;
    return item ? item->text : "";
}

/* Adapters of llama_bias are on k, output and the MLP. */
static void a_merge_into_gguf_rewrites_only_what_the_adapter_touches(void **state)
{
    char adapter[RP_GOLDEN_PATH];
    exporting e = { .shapes = NULL };
    int touched = 0;

    (void)state;
    write_base(temp_path("base.gguf"));
    assert_int_equal(add_adapter(&e, temp_path("base.gguf"), golden_path(adapter, "lora/llama_bias")), RP_OK);
    assert_ok(e.shapes, write_as(&e, NULL, false, temp_path("merged.gguf")));
    rp_gguf *from = open_gguf(temp_path("base.gguf")), *to = open_gguf(temp_path("merged.gguf"));
    assert_int_equal(rp__gguf_n_tensors(from), rp__gguf_n_tensors(to));
    for (int64_t i = 0; i < rp__gguf_n_tensors(from); i++) {
        const rp_gguf_tensor *a = rp__gguf_tensor_at(from, i), *b = rp__gguf_tensor_at(to, i);
        char *x = rp__host_alloc(ctx, a->bytes), *y = rp__host_alloc(ctx, b->bytes);
        assert_string_equal(a->name, b->name);
        if (strcmp(a->type, "IQ4_NL")) assert_string_equal(a->type, b->type);
        else assert_string_equal(b->type, "Q8_0");
        assert_ok(ctx, rp__gguf_read_bytes(from, a, 0, a->bytes, x));
        assert_ok(ctx, rp__gguf_read_bytes(to, b, 0, b->bytes, y));
        touched += a->bytes != b->bytes || memcmp(x, y, (size_t)a->bytes) != 0;
        RP_RELEASE(x, y);
    }
    assert_int_equal(touched, e.outcome.tensors - e.outcome.copied);
    assert_true(touched > 0);
    assert_int_equal(e.notes.n_notes, 1);
    assert_string_equal(note_at(&e, 0), "Q8_0 instead of IQ4_NL: the adapter changes it, and its own type cannot be written");
    rp__gguf_close(from);
    rp__gguf_close(to);
    close_export(&e);
}

/* ---- notes and refusals ---- */

static void tensors_of_another_type_are_listed(void **state)
{
    char path[RP_GOLDEN_PATH];
    exporting e = open_export(variant_path(path, "llama2"), NULL);

    (void)state;
    assert_ok(e.shapes, write_as(&e, "Q4_0", false, temp_path("q4.gguf")));
    assert_true(e.notes.n_notes > 0);
    assert_string_equal(e.notes.first->place.origin, "blk.0.ffn_down.weight");
    assert_string_equal(note_at(&e, 0), "F16 instead of Q4_0: rows of 48 elements are no whole number of blocks");
    assert_string_equal(note_at(&e, e.notes.n_notes - 1), "Q8_0 instead of Q4_0: the output loses most in 4 bits");
    close_export(&e);
}

/* tools/check_llamacpp.py finds other logits from token 10 on. */
static void a_window_that_llama_cpp_ignores_is_listed(void **state)
{
    static const struct { const char *overrides; int notes; } windows[] = { { NULL, 1 }, { "{sliding_window: 64}", 0 }, { "{sliding_window: null}", 0 } };
    char path[RP_GOLDEN_PATH];

    (void)state;
    for (int i = 0; i < RP_COUNT(windows); i++) {
        exporting e = open_export(variant_path(path, "phi3_partial"), windows[i].overrides);
        assert_ok(e.shapes, write_as(&e, "F32", false, temp_path("window.gguf")));
        assert_int_equal(e.notes.n_notes, windows[i].notes);
        if (e.notes.n_notes) {
            assert_string_equal(e.notes.first->place.origin, "sliding_window");
            assert_string_equal(note_at(&e, 0), "llama.cpp ignores the window of 9 tokens: it computes other logits for longer texts");
        }
        close_export(&e);
    }
}

static void models_that_llama_cpp_computes_differently_are_refused(void **state)
{
    static const struct { const char *path, *overrides, *says; } refused[] = {
        { "models/bert", NULL, "models of type 'bert' are not written to GGUF; these architectures are: llama, gpt2, qwen2, qwen3, qwen3moe, gemma2, gemma3, "
          "phi3, olmo2" },
        { "models/gpt2_gelu", NULL, "GGUF cannot hold this model: llama.cpp computes 'gpt2' with another activation" },
        { "models/mistral", NULL, "GGUF cannot hold this model: llama.cpp computes 'llama' with other windows" },
        { "models/gemma2", NULL, "GGUF cannot hold this model: llama.cpp computes 'gemma2' with another scale of scores" },
        { "models/llama_yarn", NULL, "GGUF cannot hold this model: llama.cpp computes 'llama' with other rotary positions" },
        { "models/qwen3", "{attention_bias: true}", "llama.cpp computes 'qwen3' with no such biases" },
        { "models/qwen3_moe_balanced", NULL, "llama.cpp computes 'qwen3moe' with experts in every block, with weights that sum to 1" },
        { "models/gemma2", "{query_pre_attn_scalar: 12, tie_word_embeddings: false}", "llama.cpp computes 'gemma2' with an output that shares the embedding" },
        { "models/gemma2", "{query_pre_attn_scalar: 12, attn_logit_softcapping: null}", "llama.cpp computes 'gemma2' with caps of scores and logits" },
    };
    char path[RP_GOLDEN_PATH];

    (void)state;
    for (int i = 0; i < RP_COUNT(refused); i++) {
        opened o = open_model(golden_path(path, refused[i].path), refused[i].overrides, RP_F32);
        rp__model_init(o.model, 1);             /* so that files exist for each config */
        assert_ok(ctx, rp__model_export(o.model, temp_dir));
        exporting e = open_export(temp_dir, NULL);
        assert_int_equal(write_as(&e, "F32", false, temp_path("refused.gguf")), RP_ERR_UNSUPPORTED);
        if (!strstr(rp_error(e.shapes), refused[i].says)) fail_msg("%d: %s", i, rp_error(e.shapes));
        assert_false(rp__file_exists(temp_path("refused.gguf")));
        close_export(&e);
        close_model(&o);
    }
}

static void adapters_that_llama_cpp_cannot_hold_are_refused(void **state)
{
    static const struct { const char *path, *type, *says; } refused[] = {
        { "lora/smollm2_dora", "F32", "llama.cpp's adapter files hold no magnitudes (DoRA); leave out --adapter to merge them" },
        { "lora/gpt2_whole", "F32", "is trained whole, and llama.cpp's adapter files hold only adapters; leave out --adapter to merge it" },
        { "models/smollm2", "F32", "is a model without an adapter" },
        { "lora/smollm2", NULL, "an adapter has no types of GGUF to keep; name one" },
    };
    char path[RP_GOLDEN_PATH];

    (void)state;
    for (int i = 0; i < RP_COUNT(refused); i++) {
        exporting e = open_export(golden_path(path, refused[i].path), NULL);
        assert_int_equal(rp_status_exit_code(write_as(&e, refused[i].type, true, temp_path("refused.gguf"))), 2);
        if (!strstr(rp_error(e.shapes), refused[i].says)) fail_msg("%s: %s", refused[i].path, rp_error(e.shapes));
        assert_false(rp__file_exists(temp_path("refused.gguf")));
        close_export(&e);
    }
}

static void only_gguf_has_types_to_keep(void **state)
{
    char path[RP_GOLDEN_PATH];
    exporting e = open_export(variant_path(path, "smollm2"), NULL);

    (void)state;
    assert_int_equal(write_as(&e, NULL, false, temp_path("refused.gguf")), RP_ERR_UNSUPPORTED);
    assert_non_null(strstr(rp_error(e.shapes), "is no GGUF file, so its tensors have no types to keep"));
    close_export(&e);
}

/* A weight that became infinite in training. */
static void a_weight_that_is_not_finite_leaves_no_file(void **state)
{
    char path[RP_GOLDEN_PATH];
    opened o = load_model(variant_path(path, "smollm2"), RP_F32);
    rp_host h;

    (void)state;
    assert_ok(ctx, rp__tensor_host(rp__model_find_param(o.model, "layers.1.mlp.up.weight")->tensor, 5, 1, RP_HOST_WRITE, &h));
    *(float *)h.data = INFINITY;
    rp__tensor_host_end(&h);
    assert_ok(ctx, rp__model_export(o.model, temp_dir));
    exporting e = open_export(temp_dir, NULL);
    assert_int_equal(write_as(&e, "Q8_0", false, temp_path("bad.gguf")), RP_ERR_UNSUPPORTED);
    assert_string_equal(rp_error(e.shapes), "tensor 'blk.1.ffn_up.weight' has an element that is not finite, or too large for F16");
    assert_false(rp__file_exists(temp_path("bad.gguf")));
    close_export(&e);
    close_model(&o);
}

/* ---- faults ---- */

static rp_status open_and_write(rp_ctx *shapes, const char *path, const char *type, bool adapter, const char *to)
{
    const rp_gguf_options options = { .type = type };
    rp_model_files *files  = NULL;
    rp_model_config config = { .family = NULL };
    rp_model *model        = NULL;
    rp_gguf_outcome outcome;
    rp_report report;

    rp__report_open(&report, shapes);
    rp_status status = rp__model_files_open(shapes, path, NULL, &report, &files);
    if (status == RP_OK) status = rp__model_files_config(files, &config);
    if (status == RP_OK) status = rp__model_build(shapes, &config, RP_F32, &model);
    if (status == RP_OK) status = (adapter ? rp__gguf_export_adapter : rp__gguf_export)(model, files, &options, to, &report, &outcome);
    rp__model_config_drop(&config);
    rp__model_free(model);
    rp__model_files_close(files);
    rp__report_close(&report);
    return status;
}

static void whichever_allocation_fails_no_file_is_left(void **state)
{
    static const struct { const char *path, *type; bool adapter; } uses[] = {
        { "models/smollm2", "Q8_0", false }, { "lora/gpt2_dora", "F16", false }, { "lora/llama_bias", "F32", true }, { "gguf/grouped.gguf", "Q4_0", false },
        { "gguf/grouped.gguf", NULL, false },
    };
    rp_ctx *shapes = test_ctx(&(rp_ctx_options){ .threads = 1, .shapes_only = true });
    char path[RP_GOLDEN_PATH];

    (void)state;
    for (int i = 0; i < RP_COUNT(uses); i++) {
        until_no_fault_fires(shapes, open_and_write(shapes, golden_path(path, uses[i].path), uses[i].type, uses[i].adapter, temp_path("faults.gguf")),
                             assert_false(rp__file_exists(temp_path("faults.gguf"))); assert_int_equal(n_files_in(temp_dir), 0));
        assert_true(rp__file_exists(temp_path("faults.gguf")));
        assert_int_equal(unlink(temp_path("faults.gguf")), 0);
    }
    test_ctx_free(shapes);
}

/* The device is full from the first byte on, and takes no file of its own name. */
static void a_full_disk_is_reported(void **state)
{
    rp_ctx *shapes = test_ctx(&(rp_ctx_options){ .threads = 1, .shapes_only = true });
    char path[RP_GOLDEN_PATH];

    (void)state;
    assert_int_equal(open_and_write(shapes, variant_path(path, "smollm2"), "F16", false, "/dev/full"), RP_ERR_IO);
    assert_string_equal(rp_error(shapes), "cannot write '/dev/full': No space left on device");
    test_ctx_free(shapes);
}

static void a_writer_wants_the_bytes_that_were_declared(void **state)
{
    rp_gguf_writer *w;

    (void)state;
    assert_ok(ctx, rp__gguf_create(ctx, temp_path("w.gguf"), &w));
    assert_ok(ctx, rp__gguf_add_tensor(w, "none", "F32", 1, (int64_t[]){ 0 }));
    assert_ok(ctx, rp__gguf_add_tensor(w, "two", "F32", 1, (int64_t[]){ 2 }));
    assert_ok(ctx, rp__gguf_put(w, "abcd", 4));
    assert_int_equal(rp__gguf_commit(w), RP_ERR_STATE);
    assert_non_null(strstr(rp_error(ctx), "lacks 4 bytes of tensor 'two'"));
    assert_false(rp__file_exists(temp_path("w.gguf")));
    assert_ok(ctx, rp__gguf_create(ctx, temp_path("w.gguf"), &w));
    assert_ok(ctx, rp__gguf_add_tensor(w, "one", "F32", 1, (int64_t[]){ 1 }));
    assert_int_equal(rp__gguf_put(w, "abcdefgh", 8), RP_ERR_ARG);
    assert_non_null(strstr(rp_error(ctx), "gets 4 bytes more than its tensors have"));
    rp__gguf_discard(w);
    assert_int_equal(n_files_in(temp_dir), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(files_are_those_that_the_gguf_package_writes),
        TEST(adapters_are_those_that_the_gguf_package_writes),
        TEST(blocks_are_those_that_the_gguf_package_makes),
        TEST(numbers_that_a_type_cannot_hold_are_refused),
        TEST(a_model_read_back_has_the_same_logits),
        TEST(a_tied_olmo2_is_written_with_an_output),
        TEST(a_merged_adapter_gives_the_weights_of_an_export),
        TEST(a_model_from_gguf_is_copied_byte_for_byte),
        TEST(a_name_replaces_that_of_the_file),
        TEST(a_model_from_gguf_is_converted_tensor_by_tensor),
        TEST(a_merge_into_gguf_rewrites_only_what_the_adapter_touches),
        TEST(tensors_of_another_type_are_listed), TEST(a_window_that_llama_cpp_ignores_is_listed),
        TEST(models_that_llama_cpp_computes_differently_are_refused),
        TEST(adapters_that_llama_cpp_cannot_hold_are_refused),
        TEST(only_gguf_has_types_to_keep),
        TEST(a_weight_that_is_not_finite_leaves_no_file),
        TEST(whichever_allocation_fails_no_file_is_left),
        TEST(a_full_disk_is_reported),
        TEST(a_writer_wants_the_bytes_that_were_declared),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
