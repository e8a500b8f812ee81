/* view/run_report.c -- writes the report of a run to its output folder. */
#include "base/file.h"
#include "comm/comm.h"
#include "models/model.h"
#include "rehearse/forecast.h"
#include "view/report.h"

const char *rp__report_title(const rp_recipe *r, char out[RP_TITLE_CHARS])
{
    snprintf(out, RP_TITLE_CHARS, "%.300s, %" PRId64 " x %" PRId64 " tokens, %s", r->model.path ? r->model.path : r->model.config, r->batch_size,
             r->max_seq_len, r->dtype == RP_TRAIN_BF16 ? "bf16" : "fp32");
    return out;
}

/* If the run's folder has been removed, its metrics are missing, and the page has no losses. */
static rp_status write_page(rp_ctx *ctx, const rp_recipe *recipe, const rp_forecast *forecast, const char *metrics, const char *file)
{
    char title[RP_TITLE_CHARS];

    if (!metrics || !file) return RP_ERR_MEMORY;
    return rp__report_page_write(ctx, &(rp_report_page){ forecast, NULL, rp__report_title(recipe, title), rp__file_exists(metrics) ? metrics : NULL }, file);
}

rp_status rp_trainer_report(rp_trainer *trainer)
{
    RP_GIVEN(NULL, trainer);
    const rp_recipe *recipe = rp__trainer_recipe(trainer);
    rp_ctx *ctx             = rp__model_ctx(rp__trainer_model(trainer));
    rp_forecast forecast;

    if (rp__comm_rank(rp__world(ctx)) != 0) return RP_OK;
    RP_TRY(rp__trainer_forecast(trainer, &forecast));
    char *metrics    = rp__path_join(ctx, recipe->output_dir, "metrics.jsonl");
    char *file       = metrics ? rp__path_join(ctx, recipe->output_dir, "report.html") : NULL;
    rp_status status = write_page(ctx, recipe, &forecast, metrics, file);
    RP_RELEASE(file, metrics);
    rp__forecast_close(&forecast);
    return status;
}
