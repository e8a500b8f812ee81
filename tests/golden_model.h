/* golden_model.h -- a model of tests/golden/models with its weights, as a user loads it. */
#ifndef RP_GOLDEN_MODEL_H
#define RP_GOLDEN_MODEL_H

#include "golden.h"
#include "golden_variants.h"

#include "models/weights.h"

/* The caller frees it. */
static rp_model *golden_model(rp_ctx *ctx, const char *variant, rp_dtype dtype)
{
    char path[RP_GOLDEN_PATH], name[128];
    rp_model_config config;
    rp_model_files *files;
    rp_report report;
    rp_model *m;

    snprintf(name, sizeof name, "models/%s", variant);
    rp__report_open(&report, ctx);
    assert_ok(ctx, rp__model_files_open(ctx, golden_path(path, name), NULL, &report, &files));
    assert_int_equal(report.n_errors, 0);
    assert_ok(ctx, rp__model_files_config(files, &config));
    assert_ok(ctx, rp__model_build(ctx, &config, dtype, &m));
    assert_ok(ctx, rp__model_load(m, files));
    rp__model_files_close(files);
    rp__report_close(&report);
    return m;
}

#endif
