/* golden_model.h -- a model of tests/golden, or of any folder, with its weights, as a user loads it. */
#ifndef RP_GOLDEN_MODEL_H
#define RP_GOLDEN_MODEL_H

#include "golden.h"
#include "golden_variants.h"

#include "models/weights.h"

/* `overrides` is YAML or NULL. The caller frees it. */
static inline rp_model *model_at(rp_ctx *ctx, const char *path, const char *overrides, rp_dtype dtype)
{
    rp_yaml_doc doc    = { .bump = { .ctx = ctx } };
    rp_yaml_node *tree = NULL;
    rp_model_config config;
    rp_model_files *files;
    rp_report report;
    rp_model *m;

    rp__report_open(&report, ctx);
    if (overrides) assert_ok(ctx, rp__yaml_parse(&doc, "recipe", overrides, (int64_t)strlen(overrides), &report, &tree));
    assert_ok(ctx, rp__model_files_open(ctx, path, tree, &report, &files));
    assert_int_equal(report.n_errors, 0);
    assert_ok(ctx, rp__model_files_config(files, &config));
    assert_ok(ctx, rp__model_build(ctx, &config, dtype, &m));
    assert_ok(ctx, rp__model_load(m, files));
    rp__model_files_close(files);
    rp__bump_free(&doc.bump);
    rp__report_close(&report);
    return m;
}

static inline rp_model *golden_model(rp_ctx *ctx, const char *variant, rp_dtype dtype)
{
    char path[RP_GOLDEN_PATH], name[128];

    snprintf(name, sizeof name, "models/%s", variant);
    return model_at(ctx, golden_path(path, name), NULL, dtype);
}

#endif
