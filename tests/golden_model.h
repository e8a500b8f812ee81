/* golden_model.h -- a model of tests/golden, or of any folder, with its weights, as a user loads it. */
#ifndef RP_GOLDEN_MODEL_H
#define RP_GOLDEN_MODEL_H

#include "golden.h"
#include "golden_variants.h"

#include "models/adapter.h"
#include "models/weights.h"

/* Files and a model for them, not loaded yet. */
typedef struct { rp_model_files *files; rp_model *model; rp_report report; } opened_model;

/* `overrides` is YAML or NULL. */
static inline opened_model open_at(rp_ctx *ctx, const char *path, const char *overrides, rp_dtype dtype)
{
    rp_yaml_doc doc        = { .bump = { .ctx = ctx } };
    rp_yaml_node *tree     = NULL;
    rp_model_config config = { .family = NULL };
    opened_model o;

    rp__report_open(&o.report, ctx);
    if (overrides) assert_ok(ctx, rp__yaml_parse(&doc, "recipe", overrides, (int64_t)strlen(overrides), &o.report, &tree));
    assert_ok(ctx, rp__model_files_open(ctx, path, tree, &o.report, &o.files));
    assert_ok(ctx, rp__model_files_config(o.files, &config));
    assert_ok(ctx, rp__model_build(ctx, &config, dtype, &o.model));
    rp__bump_free(&doc.bump);
    return o;
}

/* The caller frees it. */
static inline rp_model *model_at(rp_ctx *ctx, const char *path, const char *overrides, rp_dtype dtype)
{
    opened_model o = open_at(ctx, path, overrides, dtype);

    assert_int_equal(o.report.n_errors, 0);
    assert_ok(ctx, rp__model_load(o.model, o.files));
    rp__model_files_close(o.files);
    rp__report_close(&o.report);
    return o.model;
}

static inline rp_model *golden_model(rp_ctx *ctx, const char *variant, rp_dtype dtype)
{
    char path[RP_GOLDEN_PATH], name[128];

    snprintf(name, sizeof name, "models/%s", variant);
    return model_at(ctx, golden_path(path, name), NULL, dtype);
}

/* Files to a model and back, so that any allocation of it may fail. `base`: what adapters name theirs; NULL: the model has none. */
static inline rp_status open_load_export(rp_ctx *ctx, const char *path, const char *base, const char *folder)
{
    rp_model_files *files  = NULL;
    rp_model_config config = { .family = NULL };
    rp_model *model        = NULL;
    rp_report report;

    rp__report_open(&report, ctx);
    rp_status status = rp__model_files_open(ctx, path, NULL, &report, &files);
    if (status == RP_OK) status = rp__model_files_config(files, &config);
    if (status == RP_OK) status = rp__model_build(ctx, &config, RP_BF16, &model);
    if (status == RP_OK) status = rp__model_load(model, files);
    if (status == RP_OK && base) status = rp__adapters_export(model, base, folder);
    if (status == RP_OK) status = rp__model_export(model, folder);
    rp__model_config_drop(&config);
    rp__model_free(model);
    rp__model_files_close(files);
    rp__report_close(&report);
    return status;
}

#endif
