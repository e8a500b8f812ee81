/* view/run_report.c -- writes the report of a run to its output folder. */
#include "view/report.h"

#include <string.h>

#include "base/file.h"
#include "comm/comm.h"
#include "models/model.h"
#include "rehearse/forecast.h"

/* The last name of a path in path[0 .. *n), without slashes after it. */
static const char *last_name(const char *path, int *n)
{
    while (*n > 1 && path[*n - 1] == '/') --*n;
    int first = *n;
    while (first && path[first - 1] != '/') first--;
    if (first == *n) return path;               /* "/" */
    *n -= first;
    return path + first;
}

static bool is_name(const char *text, int n, const char *name) { return (size_t)n == strlen(name) && !memcmp(text, name, (size_t)n); }

/* A relative path as it is. The last name of an absolute one; for a config.json that of its folder: shipped configs have absolute paths. */
static const char *model_name(const char *path, int *n)
{
    *n = (int)strlen(path);
    if (*path != '/') return path;
    const char *name = last_name(path, n);
    if (!is_name(name, *n, "config.json") || name - path < 2) return name;
    *n = (int)(name - path);
    return last_name(path, n);
}

const char *rp__report_title(const char *place, const rp_recipe *r, char out[RP_TITLE_CHARS])
{
    int n_run = (int)strlen(place), n_model;
    const char *run = last_name(place, &n_run), *model = model_name(r->model.path ? r->model.path : r->model.config, &n_model);

    if (is_name(run, n_run, ".") || is_name(run, n_run, "..")) {
        n_run = (int)strlen(r->output_dir);
        run   = last_name(r->output_dir, &n_run);
    }
    snprintf(out, RP_TITLE_CHARS, "%.*s: %.*s, %" PRId64 " x %" PRId64 " tokens, %s", n_run < 200 ? n_run : 200, run, n_model < 200 ? n_model : 200, model,
             r->batch_size, r->max_seq_len, r->dtype == RP_TRAIN_BF16 ? "bf16" : "fp32");
    return out;
}

/* If the run's folder has been removed, its metrics are missing, and the page has no losses. */
static rp_status write_page(rp_ctx *ctx, const rp_recipe *recipe, const rp_forecast *forecast, const char *metrics, const char *file)
{
    char title[RP_TITLE_CHARS];

    if (!metrics || !file) return RP_ERR_MEMORY;
    rp__report_title(recipe->output_dir, recipe, title);
    return rp__report_page_write(ctx, &(rp_report_page){ forecast, NULL, title, rp__file_exists(metrics) ? metrics : NULL }, file);
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
