/* weights_test.h -- for tests of weights: a context and a folder of its own for each test, golden models opened and loaded, fresh ones. */
#ifndef RP_WEIGHTS_TEST_H
#define RP_WEIGHTS_TEST_H

#include "golden_model.h"
#include "io_test.h"

static rp_ctx *ctx;

static inline int setup(void **state)
{
    (void)state;
    ctx = test_ctx(NULL);
    temp_enter();
    return 0;
}

static inline int teardown(void **state)
{
    (void)state;
    temp_leave(ctx);
    test_ctx_free(ctx);
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static inline const char *variant_path(char out[RP_GOLDEN_PATH], const char *variant)
{
    char name[64];

    snprintf(name, sizeof name, "models/%s", variant);
    return golden_path(out, name);
}

typedef opened_model opened;

static inline opened open_model(const char *path, const char *overrides, rp_dtype dtype) { return open_at(ctx, path, overrides, dtype); }

static inline void close_model(opened *o)
{
    rp__model_free(o->model);
    rp__model_files_close(o->files);
    rp__report_close(&o->report);
}

/* What is not written is a NaN, and shows. */
static inline void spoil(rp_model *model)
{
    for (int i = 0; i < rp__model_n_params(model); i++) {
        rp_tensor *t = rp__model_param(model, i)->tensor;
        test_fill(t, 0xff);
    }
}

static inline opened load_model(const char *path, rp_dtype dtype)
{
    opened o = open_model(path, NULL, dtype);

    spoil(o.model);
    assert_ok(ctx, rp__model_load(o.model, o.files));
    return o;
}

/* Of a config's text, and drawn. */
static inline rp_model *fresh(const char *config_text, rp_dtype dtype, uint64_t seed)
{
    rp_model_config config;
    rp_report report;
    rp_model *model;

    rp__report_open(&report, ctx);
    assert_ok(ctx, rp__file_write(ctx, temp_path("fresh.json"), config_text, (int64_t)strlen(config_text)));
    assert_ok(ctx, rp__model_config_load(ctx, temp_path("fresh.json"), NULL, &report, &config));
    assert_ok(ctx, rp__model_build(ctx, &config, dtype, &model));
    rp__model_init(model, seed);
    rp__report_close(&report);
    return model;
}

/* ---- tensors of two folders ---- */

/* As TensorFlow's first files called the weight and bias of a norm. */
static inline const rp_safetensor *find_gamma(const rp_safetensors *set, const char *name)
{
    const char *norm = strstr(name, ".LayerNorm.");
    char gamma[256];

    snprintf(gamma, sizeof gamma, "%.*s.LayerNorm.%s", norm ? (int)(norm - name) : 0, name, rp__ends_with(name, "weight") ? "gamma" : "beta");
    return norm ? rp__safetensors_find(set, gamma) : NULL;
}

/* As a model around this one has it. */
static inline const rp_safetensor *find_wrapped(const rp_safetensors *set, const char *name)
{
    static const char *const before[] = { "language_model.", "model.language_", "model.text_" };   /* … model.layers.0… */
    const rp_safetensor *t = NULL;
    char wrapped[256];

    for (int i = 0; i < RP_COUNT(before) && !t; i++) {
        snprintf(wrapped, sizeof wrapped, "%s%s", before[i], name);
        t = rp__safetensors_find(set, wrapped);
    }
    return t;
}

/* The tensor of a file by its name, with or without the family's prefix. */
static inline const rp_safetensor *find_either(const rp_safetensors *set, const char *name)
{
    const rp_safetensor *t = rp__safetensors_find(set, name);

    if (!t) t = find_gamma(set, name);
    if (!t) t = find_wrapped(set, name);
    return t || strncmp(name, "transformer.", 12) ? t : rp__safetensors_find(set, name + 12);
}

static inline void assert_same_tensors(const char *variant, const rp_safetensors *original, const rp_safetensors *written)
{
    for (int64_t i = 0; i < rp__safetensors_n_tensors(written); i++) {
        const rp_safetensor *w = rp__safetensors_at(written, i), *o = find_either(original, w->name);
        if (!o || o->dtype != w->dtype || o->bytes != w->bytes ||
            memcmp(rp__safetensors_bytes(original, o), rp__safetensors_bytes(written, w), (size_t)o->bytes))
            fail_msg("%s: '%s' is not the tensor that was read", variant, w->name);
    }
}

#endif
