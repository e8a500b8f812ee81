/* base/report.h -- collects errors and notes while something is read, so that a user sees them all at once.
 *
 * The library never prints. The caller passes a report and prints its lines. A message is one lower-case
 * sentence. Its place is a file and a line, or text from the command line (line 0). */
#ifndef RP_REPORT_H
#define RP_REPORT_H

#include <stdarg.h>

#include "base/bump.h"

typedef struct { const char *origin; int line; } rp_place;   /* origin is borrowed; a report copies it */

typedef struct rp_report_item rp_report_item;
struct rp_report_item {
    rp_place place;
    bool note;
    const char *text;
    rp_report_item *next;
};

typedef struct {
    rp_bump bump;
    rp_report_item *first, *last;
    int n_errors, n_notes;
    bool lost;                  /* a message is missing because memory ran out */
} rp_report;

void rp__report_open(rp_report *report, rp_ctx *ctx);
void rp__report_close(rp_report *report);

void rp__report_error(rp_report *report, rp_place place, const char *fmt, ...) RP_PRINTF(3, 4);
void rp__report_note(rp_report *report, rp_place place, const char *fmt, ...) RP_PRINTF(3, 4);

/* Sorts by line; messages without a line come last. Messages of one line keep their order. */
void rp__report_sort(rp_report *report);

/* rp__report_close, after the sorted messages have gone to the log of the context: for public functions. */
void rp__report_log(rp_report *report);

/* "recipe.yaml:3: unknown key 'lrr'" into out; returns out. */
const char *rp__report_line(const rp_report_item *item, char *out, size_t out_bytes);

/* Returns RP_OK if there are no errors. Otherwise records the first error in the context, with the number of others, and returns `status`.
 * errors `status` · RP_ERR_MEMORY a message was lost */
rp_status rp__report_status(const rp_report *report, rp_status status);

#endif
