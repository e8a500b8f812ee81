/* view/report.h -- a forecast, a sweep and a run's losses as the page of view/page.h.
 *
 *   rp_trainer_report      the plan that it has, rehearsed once more for its events; its losses
 *   reprise view           the recipe planned again, so it works before any run, too; and the curve of budgets
 */
#ifndef RP_REPORT_PAGE_H
#define RP_REPORT_PAGE_H

#include "train/loop.h"
#include "view/page.h"

typedef struct {
    const rp_forecast *forecast;                /* with events */
    const rp_sweep *sweep;                      /* NULL: no curve */
    const char *title, *metrics;                /* metrics: a run's metrics.jsonl, NULL: no run */
} rp_report_page;

/* What the page tells; its lists are the bump's, its texts the bump's and the forecast's. errors RP_ERR_FORMAT metrics that are none ·
 * RP_ERR_IO · RP_ERR_MEMORY */
rp_status rp__report_page_fill(const rp_report_page *report, rp_bump *bump, rp_page *out);
/* errors as above */
rp_status rp__report_page_write(rp_ctx *ctx, const rp_report_page *report, const char *file);

/* Of what, in a line: "models/smollm2.gguf, 2 x 512 tokens, bf16". */
#define RP_TITLE_CHARS 512
const char *rp__report_title(const rp_recipe *recipe, char out[RP_TITLE_CHARS]);

#endif
