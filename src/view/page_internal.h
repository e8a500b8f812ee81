/* view/page_internal.h -- what the writers of a page share; page*.c alone include this.
 *
 *   page.html ─┐                     page.c         the page walked from mark to mark
 *   page.css  ─┼─ embedded ─┐        page_peak.c    what is live at the peak: classes, owners
 *   page.js   ─┘            ▼        page_tables.c  what can be read without a script
 *   rp_page ────────────▶ page.c     page_json.c    what the script draws from
 *                           ▼        page_out.c     text into the file, escaped
 *                       one .html
 */
#ifndef RP_VIEW_PAGE_INTERNAL_H
#define RP_VIEW_PAGE_INTERNAL_H

#include "base/file.h"
#include "view/page.h"

/* Made by cmake/embed.cmake from the files of those names; each ends with a zero. */
extern const unsigned char rp__page_html[], rp__page_css[], rp__page_js[];

/* ---- out ---- */

enum { PAGE_BLOCK_BYTES = 1 << 16 };

typedef struct {
    rp_ctx *ctx;
    rp_file_writer *file;
    rp_status status;               /* the first that went wrong; what is put after it is lost */
    int used;
    char block[PAGE_BLOCK_BYTES];
} page_out;

void rp__page_put(page_out *out, const char *text, int64_t bytes);
void rp__page_text(page_out *out, const char *text);                            /* as it is: our own words */
void rp__page_escaped(page_out *out, const char *text);                            /* others': escaped for text and attributes */
void rp__page_quoted(page_out *out, const char *text);                          /* others': a JSON string, safe inside <script> */
void rp__page_print(page_out *out, const char *fmt, ...) RP_PRINTF(2, 3);       /* as it is, up to 250 characters: numbers */
void rp__page_number(page_out *out, double value);                              /* in JSON; null where it is not finite */
void rp__page_flush(page_out *out);

/* ---- the peak ---- */

typedef struct { int owner, n; rp_mem_class mem_class; int64_t bytes; } page_share;     /* n: buffers */

typedef struct {
    int event;                      /* the first with the most bytes live */
    const rp_page_work *work;       /* that it is of; NULL: of none */
    int64_t bytes, by_class[RP_MEM_CLASSES];
    bool occurs[RP_MEM_CLASSES];    /* at any event */
    page_share *share;              /* most bytes first */
    int n_shares;
} page_peak;

/* errors RP_ERR_MEMORY; then there is nothing to free */
rp_status rp__page_peak_find(rp_ctx *ctx, const rp_page *page, page_peak *out);
void rp__page_peak_free(page_peak *peak);

/* ---- parts of the page ---- */

void rp__page_sentence(page_out *out, const rp_page *page, const page_peak *peak);
void rp__page_facts(page_out *out, const rp_page *page, const page_peak *peak);
void rp__page_where(page_out *out, const rp_page *page, const page_peak *peak);
void rp__page_classes(page_out *out, const rp_page *page, const page_peak *peak);
void rp__page_owners(page_out *out, const rp_page *page, const page_peak *peak);
void rp__page_slots(page_out *out, const rp_page *page, const page_peak *peak);
void rp__page_points(page_out *out, const rp_page *page, const page_peak *peak);
void rp__page_losses(page_out *out, const rp_page *page, const page_peak *peak);
void rp__page_data(page_out *out, const rp_page *page, const page_peak *peak);

#endif
