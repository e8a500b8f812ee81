/* view/report.h -- builds the page of view/page.h from a forecast, a sweep and a run's losses.
 *
 *   rp_trainer_report      the trainer's plan, rehearsed once more to record its events; its losses
 *   reprise view           the recipe planned again, so it also works before any run; and the curve of budgets
 */
#ifndef RP_REPORT_PAGE_H
#define RP_REPORT_PAGE_H

#include "train/loop.h"
#include "view/page.h"

typedef struct {
    const rp_forecast *forecast;                /* must have events */
    const rp_sweep *sweep;                      /* NULL: the page has no curve */
    const char *title, *metrics;                /* metrics: path of a run's metrics.jsonl; NULL: no run */
} rp_report_page;

/* Fills a page. Its lists belong to the bump, its texts to the bump and the forecast. errors RP_ERR_FORMAT the metrics are not JSON lines ·
 * RP_ERR_IO · RP_ERR_MEMORY */
rp_status rp__report_page_fill(const rp_report_page *report, rp_bump *bump, rp_page *out);
/* Fills a page and writes it to a file. errors as rp__report_page_fill */
rp_status rp__report_page_write(rp_ctx *ctx, const rp_report_page *report, const char *file);

/* Describes the run in a line: "first: models/smollm2.gguf, 2 x 512 tokens, bf16". place: the folder of the run or the file of the plan; its last
 * name begins the title. Returns `out`. */
#define RP_TITLE_CHARS 512
const char *rp__report_title(const char *place, const rp_recipe *recipe, char out[RP_TITLE_CHARS]);

#endif
