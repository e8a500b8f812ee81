/* base/report.c -- the list of messages: appended in the order found, sorted once, formatted one line each. */
#include "base/report.h"

#include <limits.h>

void rp__report_open(rp_report *report, rp_ctx *ctx) { *report = (rp_report){ .bump = { .ctx = ctx } }; }

void rp__report_close(rp_report *report)
{
    rp__bump_free(&report->bump);
    *report = (rp_report){ .bump = { .ctx = report->bump.ctx } };
}

static void report_add(rp_report *report, rp_place place, bool note, const char *fmt, va_list args)
{
    char text[RP_ERROR_CHARS];
    rp_report_item *item = rp__bump_alloc(&report->bump, (int64_t)sizeof *item);

    if (note) report->n_notes++;
    else report->n_errors++;
    vsnprintf(text, sizeof text, fmt, args);
    rp__shown_only(text);
    char *kept   = item ? rp__bump_text(&report->bump, text, (int64_t)strlen(text)) : NULL;
    char *origin = kept ? rp__bump_text(&report->bump, place.origin, (int64_t)strlen(place.origin)) : NULL;
    if (!origin) {
        report->lost = true;
        return;
    }
    *item = (rp_report_item){ .place = { origin, place.line }, .note = note, .text = kept };
    if (report->last) report->last->next = item;
    else report->first = item;
    report->last = item;
}

void rp__report_error(rp_report *report, rp_place place, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    report_add(report, place, false, fmt, args);
    va_end(args);
}

void rp__report_note(rp_report *report, rp_place place, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    report_add(report, place, true, fmt, args);
    va_end(args);
}

static int sort_key(const rp_report_item *item) { return item->place.line ? item->place.line : INT_MAX; }

void rp__report_sort(rp_report *report)
{
    rp_report_item *sorted = NULL;

    while (report->first) {
        rp_report_item *item = report->first, **at = &sorted;
        report->first = item->next;
        while (*at && sort_key(*at) <= sort_key(item)) at = &(*at)->next;
        item->next = *at;
        *at        = item;
    }
    report->first = sorted;
    for (report->last = sorted; report->last && report->last->next;) report->last = report->last->next;
}

const char *rp__report_line(const rp_report_item *item, char *out, size_t out_bytes)
{
    const char *kind = item->note ? "note: " : "";

    if (item->place.line) snprintf(out, out_bytes, "%s:%d: %s%s", item->place.origin, item->place.line, kind, item->text);
    else snprintf(out, out_bytes, "%s: %s%s", item->place.origin, kind, item->text);
    rp__shown_only(out);
    return out;
}

void rp__report_log(rp_report *report)
{
    char line[RP_LOG_CHARS];

    rp__report_sort(report);
    for (const rp_report_item *item = report->first; item; item = item->next)
        rp__log(report->bump.ctx, item->note ? RP_LOG_NOTE : RP_LOG_ERROR, "%s", rp__report_line(item, line, sizeof line));
    rp__report_close(report);
}

rp_status rp__report_status(const rp_report *report, rp_status status)
{
    char line[RP_ERROR_CHARS - 64];
    const rp_report_item *item = report->first;

    if (report->lost) return rp_fail(report->bump.ctx, RP_ERR_MEMORY, "cannot allocate host memory for a message");
    if (!report->n_errors) return RP_OK;
    while (item->note) item = item->next;
    rp__report_line(item, line, sizeof line);
    if (report->n_errors == 1) return rp_fail(report->bump.ctx, status, "%s", line);
    return rp_fail(report->bump.ctx, status, "%s (and %d more)", line, report->n_errors - 1);
}
