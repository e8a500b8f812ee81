/* view/page_tables.c -- writes the sentences and tables of a page, which need no script. */
#include "view/page_internal.h"

#include <string.h>

enum { MOST_SHARES = 10, MOST_LOSSES = 24 };

/* From the bottom of the picture to its top. */
static const rp_mem_class stack[RP_MEM_CLASSES] = { RP_MEM_PARAM, RP_MEM_OPTIM, RP_MEM_GRAD, RP_MEM_SAVED, RP_MEM_TEMP, RP_MEM_COMM };

/* ---- cells ---- */

static void put_size(page_out *out, int64_t bytes)
{
    char text[RP_SIZE_CHARS];

    rp__page_text(out, rp__size_text(text, bytes));
}

/* "1646750912 1.53 GiB": exact, then readable. Below 1 KiB the exact number is enough. */
static void put_size_cell(page_out *out, int64_t bytes)
{
    char text[RP_SIZE_CHARS];
    char *readable = strchr(rp__size_text(text, bytes), '(');

    if (readable) readable[strlen(readable) - 1] = 0;
    rp__page_print(out, "<td class=n>%" PRId64 " <small>%s</small>", bytes, readable ? readable + 1 : "");
}

static void put_share(page_out *out, double part, double whole)
{
    rp__page_print(out, "<td class=n>%.1f %%", whole > 0 ? 100 * part / whole : 0);
}

static void put_cell(page_out *out, const char *attributes, const char *text)
{
    rp__page_print(out, "<td%s>", attributes);
    rp__page_escaped(out, text);
}

static void put_swatch(page_out *out, rp_mem_class mem_class)
{
    rp__page_print(out, "<svg class=swatch aria-hidden=true><rect class=%s width=18 height=12 /></svg>", rp_mem_class_name(mem_class));
}

/* ---- the head ---- */

/* "in the backward of layers.0.mlp.up (matmul)" */
static void put_place(page_out *out, const rp_page_work *work)
{
    if (!work) {
        rp__page_text(out, "before its first op");
        return;
    }
    rp__page_text(out, "in ");
    rp__page_escaped(out, work->phase);
    if (*work->path) rp__page_text(out, " of <span class=path>");
    rp__page_escaped(out, work->path);
    if (*work->path) rp__page_text(out, "</span>");
    if (!*work->op) return;
    rp__page_text(out, " (");
    rp__page_escaped(out, work->op);
    rp__page_text(out, ")");
}

void rp__page_sentence(page_out *out, const rp_page *page, const page_peak *peak)
{
    rp__page_text(out, "This step needs <strong>");
    put_size(out, page->peak);
    rp__page_text(out, "</strong> at its peak");
    if (page->n_buffers) {
        rp__page_text(out, ", ");
        put_place(out, peak->work);
    }
    rp__page_text(out, "; the arena for it is ");
    put_size(out, page->reserved);
    if (page->budget) {
        rp__page_text(out, page->reserved <= page->budget ? ", within a budget of " : ", more than the budget of ");
        put_size(out, page->budget);
    }
    rp__page_text(out, ".");
}

void rp__page_facts(page_out *out, const rp_page *page, const page_peak *peak)
{
    (void)peak;
    for (int i = 0; i < page->n_facts; i++) {
        rp__page_text(out, "<tr><th scope=row>");
        rp__page_escaped(out, page->fact[i].name);
        put_cell(out, "", page->fact[i].value);
        rp__page_text(out, "\n");
    }
}

/* ---- the peak ---- */

void rp__page_where(page_out *out, const rp_page *page, const page_peak *peak)
{
    rp__page_print(out, "event %d of %d, ", peak->event, page->n_events);
    put_place(out, peak->work);
}

/* In the stacking order of the picture. The script writes the figures of other events into the same rows. */
void rp__page_classes(page_out *out, const rp_page *page, const page_peak *peak)
{
    (void)page;
    for (int i = RP_MEM_CLASSES; i--;) {
        rp_mem_class c = stack[i];
        if (!peak->occurs[c]) continue;
        rp__page_print(out, "<tr data-class=%s><th scope=row>", rp_mem_class_name(c));
        put_swatch(out, c);
        rp__page_text(out, rp_mem_class_name(c));
        put_size_cell(out, peak->by_class[c]);
        put_share(out, (double)peak->by_class[c], (double)peak->bytes);
        rp__page_text(out, "\n");
    }
    rp__page_text(out, "<tr data-class=sum><th scope=row>total");
    put_size_cell(out, peak->bytes);
    rp__page_text(out, "<td>\n");
}

void rp__page_owners(page_out *out, const rp_page *page, const page_peak *peak)
{
    for (int i = 0; i < peak->n_shares && i < MOST_SHARES; i++) {
        const page_share *s = &peak->share[i];
        rp__page_text(out, "<tr><th scope=row>");
        put_swatch(out, s->mem_class);
        rp__page_text(out, "<span class=path>");
        rp__page_escaped(out, page->owner[s->owner].path);
        rp__page_text(out, "</span> <small>");
        rp__page_escaped(out, page->owner[s->owner].name);
        if (s->n > 1) rp__page_print(out, ", %d buffers", s->n);
        rp__page_text(out, "</small>");
        put_size_cell(out, s->bytes);
        rp__page_text(out, "\n");
    }
}

/* ---- fates ---- */

static void put_slot(page_out *out, const rp_page_slot *s, double all)
{
    rp__page_text(out, "<tr>");
    put_cell(out, " class=path", s->path);
    put_cell(out, "", s->op);
    put_cell(out, " class=shape", s->shape);
    rp__page_text(out, "<td class=fate data-fate=\"");
    rp__page_escaped(out, s->fate);
    rp__page_text(out, "\">");
    rp__page_escaped(out, s->fate);
    rp__page_print(out, "<td class=n>%d", s->count);
    rp__page_print(out, "<td class=n>%" PRId64, s->bytes);
    put_size_cell(out, s->bytes * s->count);
    put_share(out, (double)s->bytes * s->count, all);
    rp__page_print(out, "<td class=n>%.3f", 1e3 * s->seconds);
    if (s->seconds_per_mib > 0) rp__page_print(out, "<td class=n>%.4f", 1e3 * s->seconds_per_mib);
    else rp__page_text(out, "<td class=n>\xe2\x80\x93");
    put_cell(out, " class=why", s->why);
    rp__page_text(out, "\n");
}

void rp__page_slots(page_out *out, const rp_page *page, const page_peak *peak)
{
    double all = 0;

    (void)peak;
    for (int i = 0; i < page->n_slots; i++) all += (double)page->slot[i].bytes * page->slot[i].count;
    for (int i = 0; i < page->n_slots; i++) put_slot(out, &page->slot[i], all);
}

/* ---- curves ---- */

void rp__page_points(page_out *out, const rp_page *page, const page_peak *peak)
{
    (void)peak;
    for (int i = 0; i < page->n_points; i++) {
        const rp_page_point *p = &page->point[i];
        rp__page_text(out, "<tr>");
        put_cell(out, "", p->name ? p->name : "planned");
        put_size_cell(out, p->bytes);
        rp__page_print(out, "<td class=n>%.2f %%<td>%s\n", 100 * p->overhead, p->measured ? "measured" : "predicted");
    }
}

static void put_loss(page_out *out, const rp_page_loss *l)
{
    rp__page_print(out, "<tr><td class=n>%" PRId64 "<td class=n>%.6g<td class=n>", l->step, l->loss);
    if (l->has_val) rp__page_print(out, "%.6g", l->val_loss);
    rp__page_print(out, "<td class=n>%.6g\n", l->lr);
}

/* At most MOST_LOSSES rows, spread evenly over the run; the first and the last step are included. */
void rp__page_losses(page_out *out, const rp_page *page, const page_peak *peak)
{
    int n = page->n_losses < MOST_LOSSES ? page->n_losses : MOST_LOSSES;

    (void)peak;
    for (int i = 0; i < n; i++) put_loss(out, &page->loss[n > 1 ? (int64_t)i * (page->n_losses - 1) / (n - 1) : 0]);
}

/* ---- continued prompts ---- */

void rp__page_samples(page_out *out, const rp_page *page, const page_peak *peak)
{
    (void)peak;
    for (int i = 0; i < page->n_samples; i++) {
        rp__page_print(out, "<tr><td class=n>%" PRId64, page->sample[i].step);
        put_cell(out, "", page->sample[i].prompt);
        put_cell(out, "", page->sample[i].text);
        rp__page_text(out, "\n");
    }
}
