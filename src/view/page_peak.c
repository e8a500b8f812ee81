/* view/page_peak.c -- finds the event with the most live bytes, and their owners. */
#include "view/page_internal.h"

#include <stdlib.h>

static rp_mem_class class_at(const rp_page_buffer *b, int event)
{
    return b->kept_from >= 0 && event >= b->kept_from && event < b->kept_until ? RP_MEM_SAVED : b->mem_class;
}

/* Sums up the bytes taken minus the bytes freed at each event. */
static rp_status find_event(rp_ctx *ctx, const rp_page *page, page_peak *out)
{
    int64_t *change = rp__host_alloc(ctx, (page->n_events + 1) * (int64_t)sizeof *change), live = 0;

    if (!change) return RP_ERR_MEMORY;
    for (int i = 0; i < page->n_buffers; i++) {
        const rp_page_buffer *b = &page->buffer[i];
        RP_BUG_IF(b->begin < 0 || b->end < b->begin || b->end > page->n_events || b->owner < 0 || b->owner >= page->n_owners);
        change[b->begin] += b->bytes;
        change[b->end] -= b->bytes;
        out->occurs[b->mem_class] = true;
        if (b->kept_from >= 0 && b->kept_from < b->kept_until) out->occurs[RP_MEM_SAVED] = true;
    }
    for (int e = 0; e < page->n_events; e++) {
        live += change[e];
        if (live <= out->bytes) continue;
        out->bytes = live;
        out->event = e;
    }
    rp__release(change);
    for (int i = 0; i < page->n_works && page->work[i].begin <= out->event; i++) out->work = &page->work[i];
    return RP_OK;
}

static int by_owner(const void *left, const void *right)
{
    const page_share *a = left, *b = right;

    return a->owner != b->owner ? (a->owner > b->owner) - (a->owner < b->owner) : (int)a->mem_class - (int)b->mem_class;
}

static int most_first(const void *left, const void *right)
{
    const page_share *a = left, *b = right;

    return a->bytes != b->bytes ? (a->bytes < b->bytes) - (a->bytes > b->bytes) : by_owner(left, right);
}

static rp_status find_shares(rp_ctx *ctx, const rp_page *page, page_peak *out)
{
    page_share *share = rp__host_alloc(ctx, (page->n_buffers + 1) * (int64_t)sizeof *share);
    int n             = 0;

    if (!share) return RP_ERR_MEMORY;
    for (int i = 0; i < page->n_buffers; i++) {
        const rp_page_buffer *b = &page->buffer[i];
        if (b->begin > out->event || b->end <= out->event) continue;
        share[n] = (page_share){ b->owner, 1, class_at(b, out->event), b->bytes };
        out->by_class[share[n++].mem_class] += b->bytes;
    }
    qsort(share, (size_t)n, sizeof *share, by_owner);
    for (int i = 0; i < n; i++) {
        page_share *last = out->n_shares ? &share[out->n_shares - 1] : NULL;
        if (!last || by_owner(last, &share[i])) share[out->n_shares++] = share[i];
        else {
            last->bytes += share[i].bytes;
            last->n++;
        }
    }
    qsort(share, (size_t)out->n_shares, sizeof *share, most_first);
    out->share = share;
    return RP_OK;
}

rp_status rp__page_peak_find(rp_ctx *ctx, const rp_page *page, page_peak *out)
{
    *out = (page_peak){ 0 };
    RP_TRY(find_event(ctx, page, out));
    return find_shares(ctx, page, out);
}

void rp__page_peak_free(page_peak *peak) { rp__release(peak->share); }
