/* view/page.c -- writes page.html to a file and fills in its marks:
 *
 *   <!--=facts-->                        replaced by the output of part "facts"
 *   <!--?losses--> … <!--/losses-->      left out if the list is empty
 */
#include "view/page_internal.h"

#include <string.h>

typedef void write_part(page_out *out, const rp_page *page, const page_peak *peak);

static void put_title(page_out *out, const rp_page *page, const page_peak *peak)
{
    (void)peak;
    rp__page_escaped(out, page->title);
}

static void put_style(page_out *out, const rp_page *page, const page_peak *peak)
{
    (void)page;
    (void)peak;
    rp__page_text(out, (const char *)rp__page_css);
}

static void put_script(page_out *out, const rp_page *page, const page_peak *peak)
{
    (void)page;
    (void)peak;
    rp__page_text(out, (const char *)rp__page_js);
}

/* `count` is the member with the number of entries that a part needs; 0: the part is always there. */
#define COUNT(field) (offsetof(rp_page, field) + 1)
static const struct { const char *name; write_part *write; size_t count; } parts[] = {
    { "title", put_title, 0 },
    { "style", put_style, 0 },
    { "sentence", rp__page_sentence, 0 },
    { "facts", rp__page_facts, COUNT(n_facts) },
    { "where", rp__page_where, COUNT(n_buffers) },
    { "classes", rp__page_classes, COUNT(n_buffers) },
    { "owners", rp__page_owners, COUNT(n_buffers) },
    { "slots", rp__page_slots, COUNT(n_slots) },
    { "points", rp__page_points, COUNT(n_points) },
    { "losses", rp__page_losses, COUNT(n_losses) },
    { "samples", rp__page_samples, COUNT(n_samples) },
    { "data", rp__page_data, 0 },
    { "script", put_script, 0 },
};

static bool is_there(const rp_page *page, size_t count)
{
    int n = 1;

    if (count) memcpy(&n, (const char *)page + count - 1, sizeof n);
    return n > 0;
}

static int part_named(const char *name, size_t chars)
{
    int i = 0;

    while (i < RP_COUNT(parts) && (strncmp(parts[i].name, name, chars) || parts[i].name[chars])) i++;
    RP_BUG_IF(i == RP_COUNT(parts));
    return i;
}

/* Returns the next mark, between "<!--" and "-->"; other comments are skipped. NULL: none. */
static const char *next_mark(const char *from)
{
    const char *at = strstr(from, "<!--");

    while (at && !strchr("=?/", at[4])) at = strstr(at + 4, "<!--");
    return at;
}

static void put_page(page_out *out, const rp_page *page, const page_peak *peak)
{
    const char *from = (const char *)rp__page_html, *mark;

    while ((mark = next_mark(from))) {
        const char *name = mark + 5, *end = strstr(name, "-->");
        int i = part_named(name, (size_t)(end - name));
        rp__page_put(out, from, mark - from);
        from = end + 3;
        if (mark[4] == '=') parts[i].write(out, page, peak);
        if (mark[4] != '?' || is_there(page, parts[i].count)) continue;
        do from = next_mark(from + 1);
        while (from[4] != '/' || part_named(from + 5, (size_t)(strstr(from, "-->") - from - 5)) != i);
    }
    rp__page_text(out, from);
    rp__page_flush(out);
}

static rp_status write_file(page_out *out, const rp_page *page, const page_peak *peak, const char *file)
{
    RP_TRY(rp__file_create(out->ctx, file, &out->file));
    put_page(out, page, peak);
    if (out->status == RP_OK) return rp__file_commit(out->file);
    rp__file_discard(out->file);
    return out->status;
}

rp_status rp__page_write(rp_ctx *ctx, const rp_page *page, const char *file)
{
    page_out *out = rp__host_alloc(ctx, sizeof *out);
    page_peak peak;

    if (!out) return RP_ERR_MEMORY;
    out->ctx         = ctx;
    rp_status status = rp__page_peak_find(ctx, page, &peak);
    if (status == RP_OK) {
        status = write_file(out, page, &peak, file);
        rp__page_peak_free(&peak);
    }
    rp__release(out);
    return status;
}
