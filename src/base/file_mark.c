/* base/file_mark.c -- computes the mark of a file, reading it in windows. */
#include "base/file_mark.h"

enum { WINDOW_BYTES = 64 * RP_MARK_SLICE_BYTES };

static rp_status add_bytes(rp_file_mark *m, int64_t at, int64_t bytes)
{
    for (int64_t n; bytes > 0; at += n, bytes -= n) {
        n = bytes < WINDOW_BYTES ? bytes : WINDOW_BYTES;
        RP_TRY(rp__file_get(m->ctx, m->label, m->map, at, n, m->window));
        m->sum.bytes = 0;               /* the checksum accepts a partial block only last; the next piece may have any length */
        rp__checksum_add(&m->sum, m->window, n);
    }
    return RP_OK;
}

rp_status rp__file_mark_begin(rp_file_mark *m, rp_ctx *ctx, const char *label, const rp_file_map *map)
{
    *m = (rp_file_mark){ .ctx = ctx, .label = label, .map = map, .sum = rp__checksum_begin(), .header_end = map->bytes };
    m->window = rp__host_alloc(ctx, WINDOW_BYTES);
    return m->window ? RP_OK : RP_ERR_MEMORY;
}

rp_status rp__file_mark_tensor(rp_file_mark *m, int64_t at, int64_t bytes)
{
    if (at < m->header_end) m->header_end = at;
    if (bytes <= 3 * RP_MARK_SLICE_BYTES) return add_bytes(m, at, bytes);
    RP_TRY(add_bytes(m, at, RP_MARK_SLICE_BYTES));
    RP_TRY(add_bytes(m, at + (bytes - RP_MARK_SLICE_BYTES) / 2, RP_MARK_SLICE_BYTES));
    return add_bytes(m, at + bytes - RP_MARK_SLICE_BYTES, RP_MARK_SLICE_BYTES);
}

rp_status rp__file_mark_end(rp_file_mark *m, rp_status status, uint64_t *out)
{
    if (status == RP_OK) status = add_bytes(m, 0, m->header_end);
    if (status == RP_OK) {
        m->sum.bytes = (uint64_t)m->map->bytes;
        *out         = rp__checksum_end(&m->sum);
    }
    rp__release(m->window);
    return status;
}
